//! `DQ.INFO queue`: the state of a queue in Redis, and the counts of this broker.
//!
//! Replies with a map. known (0: there is nothing of it but perhaps a pause, which a name with a
//! mistake has too). From Redis: pending, ready (-1 if the destination holds another type),
//! next_due, oldest_overdue_ms, listed, named, quarantined, paused and paused_until (-1 = until
//! DQ.RESUME; Redisson's own transfer does not know a pause), paused_all, layout (`redisson`, or
//! `zset` where no order list is kept), format, ttl_ms (the least of the queue's keys: something
//! else set it, and the queue will vanish), leased, waiting (for a retry), dead, lease_ends (Unix
//! ms, of the lease that ends first), crons (schedules), next_cron_ms (of the next occurrence of
//! them, nil if there is none). Of this broker: takers (clients that wait in DQ.TAKE), and since
//! `since` (Unix ms), equal to the metrics labelled `counted_as` (the queue, or `other` for
//! all those beyond the first few): offered, delivered, cancelled, removed, taken, acked, nacked,
//! lapsed, died, expired, lateness_p50_ms, lateness_p99_ms, lateness_max_ms (nil where nothing
//! was delivered).
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/info.lua`.

use std::rc::Rc;

use crate::broker;
use crate::broker::Broker;
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::{Caller, Command, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.INFO",
    summary: "Shows the state of a queue, and the counts of this broker",
    ..Spec::reading(|args| Ok(Command::QueueInfo(QueueInfo(args.queue()?))))
};

#[derive(Debug, PartialEq)]
pub struct QueueInfo(QueueName);

impl QueueInfo {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let name = self.0.to_bytes();
        let call = async move |broker: &Broker| broker.queue(&self.0).info().await;
        later(broker, call, move |info| reply(Reply::Bulk(name), info))
    }
}

fn late(ms: Option<f64>) -> Reply {
    ms.map_or(Reply::Null, Reply::Double)
}

fn reply(name: Reply, info: broker::QueueInfo) -> Reply {
    let state = info.state;
    Reply::map([
        ("queue", name),
        ("known", show::yes(info.known)),
        ("pending", Reply::count(state.pending)),
        ("ready", Reply::Integer(state.ready)),
        ("next_due", state.next_due.map_or(Reply::Null, show::due)),
        ("oldest_overdue_ms", Reply::count(info.oldest_overdue_ms)),
        ("held_by_rate", Reply::count(state.held_by_rate)),
        ("listed", Reply::count(state.listed)),
        ("named", Reply::Integer(state.named)),
        ("quarantined", Reply::Integer(state.quarantined)),
        ("paused", show::yes(state.paused_until.is_some())),
        ("paused_until", state.paused_until.map_or(Reply::Null, Reply::Integer)),
        ("paused_all", show::yes(state.paused_all)),
        ("layout", state.layout.into()),
        ("format", state.format.into()),
        ("ttl_ms", state.ttl_ms.map_or(Reply::Null, Reply::count)),
        ("trouble", state.trouble.map_or(Reply::Null, Reply::Bulk)),
        ("counted_as", info.label.into()),
        ("since", Reply::count(info.since)),
        ("offered", Reply::count(info.counts.offered)),
        ("delivered", Reply::count(info.counts.delivered)),
        ("cancelled", Reply::count(info.counts.cancelled)),
        ("removed", Reply::count(info.counts.removed)),
        ("leased", Reply::Integer(state.leased)),
        ("waiting", Reply::Integer(state.waiting)),
        ("dead", Reply::Integer(state.dead)),
        ("lease_ends", state.lease_ends_ms.map_or(Reply::Null, Reply::count)),
        ("crons", Reply::Integer(state.crons)),
        ("next_cron_ms", state.next_cron_ms.map_or(Reply::Null, Reply::count)),
        ("takers", Reply::count(info.takers as u64)),
        ("taken", Reply::count(info.counts.taken)),
        ("acked", Reply::count(info.counts.acked)),
        ("nacked", Reply::count(info.counts.nacked)),
        ("lapsed", Reply::count(info.counts.lapsed)),
        ("died", Reply::count(info.counts.died)),
        ("expired", Reply::count(info.counts.expired)),
        ("lateness_p50_ms", late(info.counts.lateness_p50_ms)),
        ("lateness_p99_ms", late(info.counts.lateness_p99_ms)),
        ("lateness_max_ms", late(info.counts.lateness_max_ms)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_and_an_empty_queue() {
        let field = |info: broker::QueueInfo, wanted: &str| match reply("q".into(), info) {
            Reply::Map(fields) => {
                fields.into_iter().find(|(key, _)| *key == wanted.to_owned().into())
            }
            other => panic!("{other:?}"),
        };
        let empty = broker::QueueInfo::default;
        let mut paused = empty();
        paused.state.paused_until = Some(-1);
        assert_eq!(field(empty(), "next_due").unwrap().1, Reply::Null);
        assert_eq!(field(empty(), "paused").unwrap().1, Reply::Integer(0));
        assert_eq!(field(paused.clone(), "paused").unwrap().1, Reply::Integer(1));
        assert_eq!(field(paused, "paused_until").unwrap().1, Reply::Integer(-1));
    }
}
