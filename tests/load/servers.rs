//! The processes under test, as this tool starts them: those of the tests, with settings that
//! count.

use crate::Outcome;
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::Client;

/// No append-only file, so that rows measure neither disk nor fork.
pub const NO_FILE: &[&str] = &["--appendonly", "no"];

/// A redis-server of its own, with as many databases as it has for its users.
pub fn redis(args: &[&str]) -> Redis {
    Redis::spawn(&[&["--databases", "16"], args].concat())
}

/// A broker on it. The settings are `("limits.delay_max_ms", "1000")`.
pub fn broker(redis: &Redis, settings: &[(&str, &str)]) -> Broker {
    broker_with(redis, &[], settings)
}

/// The same with further arguments.
pub fn broker_with(redis: &Redis, args: &[&str], settings: &[(&str, &str)]) -> Broker {
    // Beside its Redis the broker takes the shorter way, as under `make run`; clients use TCP.
    let url = format!("redis+unix://{}", redis.socket().display());
    let ours = ["--redis", &url, "--http", "", "--log", "error"];
    Broker::with_args(&[&ours, args].concat(), settings)
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Redis's own account of which calls took long.
pub struct SlowLog;

impl SlowLog {
    /// From now on, of calls of a tenth of a millisecond and more.
    pub fn start(redis: &mut Client) -> Outcome<Self> {
        redis.ask(&[b"CONFIG", b"SET", b"slowlog-max-len", b"100000"])?;
        redis.ask(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"100"])?;
        redis.ask(&[b"SLOWLOG", b"RESET"])?;
        Ok(SlowLog)
    }

    /// Of the commands with these names, in lower case; 0 where none took so long.
    pub fn longest_ms(&self, redis: &mut Client, counts: impl Fn(&str) -> bool) -> Outcome<f64> {
        let mut longest_us = 0;
        for record in redis.ask(&[b"SLOWLOG", b"GET", b"100000"])?.into_array()? {
            let mut fields = record.into_array()?.into_iter().skip(2);
            let us = fields.next().ok_or("no duration")?.number()?;
            let args = fields.next().ok_or("no arguments")?;
            let name = args.elements().first().ok_or("no command")?.text();
            if counts(&name.to_lowercase()) {
                longest_us = longest_us.max(us);
            }
        }
        Ok(longest_us as f64 / 1000.0)
    }
}

/// The number of a field of INFO, of Redis or the broker.
pub fn info(server: &mut Client, section: &str, field: &str) -> Outcome<f64> {
    let info = server.ask(&[b"INFO", section.as_bytes()])?.text();
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == field);
    let (_, value) = found.ok_or_else(|| format!("INFO has no {field}"))?;
    Ok(value.trim().parse()?)
}

/// Thousands of sockets are more than many shells allow: as many as the system does.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is missing then is seen when sockets are opened.
    let _ = setrlimit(Resource::Nofile, limit);
    limit.maximum.unwrap_or(u64::MAX)
}
