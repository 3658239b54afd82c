//! `DQ.PAUSE queue [duration]`: keeps due messages back, until DQ.RESUME or for a duration.
//!
//! Replies with OK; from then on no broker moves anything of this queue. Offers, cancels and polls
//! go on. Redisson's own transfer does not know a pause.
//! Errors: BADQUEUE, BADDELAY, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/pause.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{Due, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args, bad_delay};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.PAUSE",
    usage: "queue [duration]",
    summary: "Keeps due messages back, for a duration or until DQ.RESUME",
    args: 1..=2,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Pause {
    queue: QueueName,
    /// At least 1; none = until DQ.RESUME.
    duration_ms: Option<u64>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let duration_ms = args
        .option()
        .map(|raw| duration(raw, args.rules.delay_max_ms))
        .transpose()?;
    Ok(Command::Pause(Pause { queue, duration_ms }))
}

fn duration(raw: &[u8], max: u64) -> Result<u64, ArgError> {
    match Due::parse_delay(raw, max).map_err(|rule| bad_delay("duration", raw, rule))? {
        Due::In(0) | Due::At(_) => Err(bad_delay("duration", raw, "must be at least 1 ms")),
        Due::In(ms) => Ok(ms),
    }
}

impl Pause {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, duration_ms } = self;
        let call = async move |broker: &Broker| broker.pause(&queue, duration_ms).await;
        later(broker, call, |()| Reply::Ok)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            (
                "DQ.PAUSE q",
                "Pause { queue: QueueName('q'), duration_ms: None }",
            ),
            (
                "DQ.PAUSE q 1m",
                "Pause { queue: QueueName('q'), duration_ms: Some(60000) }",
            ),
            (
                "DQ.PAUSE q 0s",
                "BADDELAY duration '0s' must be at least 1 ms",
            ),
            (
                "DQ.PAUSE q -1",
                "BADDELAY duration '-1' must not be negative",
            ),
            (
                "DQ.PAUSE q 1m 2m",
                "ERR wrong number of arguments for 'dq.pause' command",
            ),
        ]);
    }
}
