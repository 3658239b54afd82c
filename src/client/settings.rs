//! The settings of connections.

use std::rc::Rc;
use std::time::Duration;

use crate::command::Rules;
use crate::config::Config;
use crate::resp::RequestLimits;

/// SIGHUP makes another one, and each connection takes it up before it reads its next request.
#[derive(Debug)]
pub struct Settings {
    pub rules: Rc<Rules>,
    pub request: RequestLimits,
    pub output_bytes_max: usize,
    pub stall_timeout: Duration,
    /// `None`: a client may be idle for ever.
    pub idle_timeout: Option<Duration>,
    /// Maximum time that a large reply waits for large replies which other clients have not taken.
    pub reply_timeout: Duration,
}

impl Settings {
    pub fn new(config: &Config) -> Rc<Self> {
        let (server, limits) = (&config.server, &config.limits);
        let seconds = Duration::from_secs;
        Rc::new(Self {
            rules: Rules::new(config),
            request: RequestLimits {
                args_max: limits.arguments_max,
                arg_bytes_max: limits.request_bytes_max,
                request_bytes_max: limits.request_bytes_max,
                inline_bytes_max: limits.inline_bytes_max,
            },
            output_bytes_max: server.output_bytes_max,
            stall_timeout: seconds(server.stall_timeout_s),
            idle_timeout: (server.idle_timeout_s > 0).then(|| seconds(server.idle_timeout_s)),
            reply_timeout: Duration::from_millis(config.redis.call_timeout_ms),
        })
    }
}
