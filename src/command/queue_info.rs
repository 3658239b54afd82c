//! `DQ.INFO queue`: one queue as it is in Redis now, and what this broker did with it.
//!
//! Replies with a map. From Redis: pending, ready (-1 if the destination holds another type),
//! next_due, oldest_overdue_ms, listed, named, quarantined, paused and paused_until (-1 = until
//! DQ.RESUME; Redisson's own transfer does not know a pause), layout (`redisson`, or `zset` where
//! no order list is kept), format, ttl_ms (the least of the queue's keys: something else set it,
//! and the queue will vanish). Of this broker since `since` (Unix ms), equal to the metrics
//! labelled `counted_as` (the queue, or `other` for all those beyond the first few): offered,
//! delivered, cancelled, removed, lateness_p50_ms, lateness_p99_ms, lateness_max_ms.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/info.lua`.

use std::rc::Rc;

use crate::broker;
use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.INFO",
    usage: "queue",
    summary: "Shows the state of a queue, and what this broker did with it",
    args: 1..=1,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct QueueInfo {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::QueueInfo(QueueInfo {
        queue: args.queue()?,
    }))
}

impl QueueInfo {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let name = self.queue.to_bytes();
        let call = async move |broker: &Broker| broker.info(&self.queue).await;
        later(broker, call, move |info| reply(Reply::Bulk(name), info))
    }
}

fn reply(name: Reply, info: broker::QueueInfo) -> Reply {
    Reply::map([
        ("queue", name),
        ("pending", Reply::count(info.pending)),
        ("ready", Reply::Integer(info.ready)),
        (
            "next_due",
            info.next_due
                .map_or(Reply::Null, |score| message::due(&score)),
        ),
        ("oldest_overdue_ms", Reply::count(info.oldest_overdue_ms)),
        ("listed", Reply::count(info.listed)),
        ("named", Reply::count(info.named)),
        ("quarantined", Reply::count(info.quarantined)),
        ("paused", Reply::Integer(info.paused_until.is_some().into())),
        (
            "paused_until",
            info.paused_until.map_or(Reply::Null, Reply::Integer),
        ),
        ("layout", info.layout.into()),
        ("format", info.format.into()),
        ("ttl_ms", info.ttl_ms.map_or(Reply::Null, Reply::count)),
        ("counted_as", info.label.into()),
        ("since", Reply::count(info.since)),
        ("offered", Reply::count(info.counts.offered)),
        ("delivered", Reply::count(info.counts.delivered)),
        ("cancelled", Reply::count(info.counts.cancelled)),
        ("removed", Reply::count(info.counts.removed)),
        (
            "lateness_p50_ms",
            Reply::Double(info.counts.lateness_p50_ms),
        ),
        (
            "lateness_p99_ms",
            Reply::Double(info.counts.lateness_p99_ms),
        ),
        (
            "lateness_max_ms",
            Reply::Double(info.counts.lateness_max_ms),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.INFO q", "QueueInfo { queue: QueueName('q') }"),
            (
                "DQ.INFO",
                "ERR wrong number of arguments for 'dq.info' command",
            ),
        ]);
    }

    #[test]
    fn a_pause_and_an_empty_queue() {
        let field = |info: broker::QueueInfo, wanted: &str| match reply("q".into(), info) {
            Reply::Map(fields) => fields
                .into_iter()
                .find(|(key, _)| *key == wanted.to_owned().into()),
            other => panic!("{other:?}"),
        };
        let empty = broker::QueueInfo::default;
        let paused = broker::QueueInfo {
            paused_until: Some(-1),
            ..empty()
        };
        assert_eq!(field(empty(), "next_due").unwrap().1, Reply::Null);
        assert_eq!(field(empty(), "paused").unwrap().1, Reply::Integer(0));
        assert_eq!(
            field(paused.clone(), "paused").unwrap().1,
            Reply::Integer(1)
        );
        assert_eq!(field(paused, "paused_until").unwrap().1, Reply::Integer(-1));
    }
}
