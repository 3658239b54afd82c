//! `DQ.QUEUES [MATCH pattern] [CURSOR c] [COUNT n]`: pages of the queues that the brokers know, as
//! far as the user may name them.
//!
//! Replies with the next cursor (`0` at the end) and an array of maps: queue, pending, ready (the
//! length of the destination, -1 if it holds another type), next_due (nil if nothing is pending),
//! overdue_ms (how long the head has been due), paused (by itself or with all), quarantined.
//! Errors: ERR (COUNT), UNAVAILABLE. Way: the scheduler's list and `lua/stats.lua`.

use std::rc::Rc;

use crate::broker::{Broker, QueueRow};
use crate::resp::Reply;

use crate::command::args::Page;
use crate::command::{Caller, Command, Group, Kind, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.QUEUES",
    usage: "[MATCH pattern] [CURSOR c] [COUNT n]",
    summary: "Pages through the known queues",
    args: 0..=6,
    kind: Kind::Store,
    group: Group::Server,
    ..Spec::reading(|args| Ok(Command::Queues(Queues(args.page(&["MATCH", "CURSOR", "COUNT"])?))))
};

#[derive(Debug, PartialEq)]
pub struct Queues(Page);

impl Queues {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let (cursor, count) = (self.0.cursor(), self.0.count());
        let (pattern, user) = (self.0.pattern, caller.user.clone());
        let call = async move |broker: &Broker| {
            let within = user.as_ref().and_then(|user| user.queues.clone());
            broker.queues(pattern, within, cursor, count).await
        };
        later(broker, call, |(next, rows)| {
            show::page(next, Reply::Array(rows.into_iter().map(row).collect()))
        })
    }
}

fn row(row: QueueRow) -> Reply {
    let stats = row.stats;
    Reply::map([
        ("queue", Reply::Bulk(row.name)),
        ("pending", Reply::Integer(stats.pending.max(0))),
        ("ready", Reply::Integer(stats.ready)),
        ("next_due", stats.next_due.map_or(Reply::Null, show::due)),
        ("overdue_ms", Reply::count(row.overdue_ms)),
        ("paused", show::yes(stats.paused)),
        ("quarantined", Reply::Integer(stats.quarantined.max(0))),
    ])
}
