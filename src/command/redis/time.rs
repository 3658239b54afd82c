//! `TIME`: the clock of the backing Redis, which decides what is due.
//!
//! Replies with seconds and microseconds. Errors: UNAVAILABLE.

use std::rc::Rc;

use crate::broker::Broker;
use crate::resp::Reply;

use crate::command::{Caller, Command, Flag, Flags, Group, Kind, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "TIME",
    summary: "Returns the time of the backing Redis, by which messages are due",
    args: 0..=0,
    kind: Kind::Store,
    flags: Flags::of(&[Flag::Loading, Flag::Stale, Flag::Fast]),
    ..Spec::local(Group::Server, |_| Ok(Command::Time(Time)))
};

#[derive(Debug, PartialEq)]
pub struct Time;

impl Time {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        later(
            broker,
            async |broker| broker.time().await,
            |(s, us)| Reply::Array(vec![s.to_string().into(), us.to_string().into()]),
        )
    }
}
