//! `DQ.SIZE queue`: the number of pending messages.
//!
//! Replies with the number; messages that are due but not transferred yet count, too.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/size.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::{Caller, Command, Flag, Flags, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.SIZE",
    summary: "Counts the pending messages",
    flags: Flags::of(&[Flag::ReadOnly, Flag::Fast]),
    ..Spec::reading(|args| Ok(Command::Size(Size(args.queue()?))))
};

#[derive(Debug, PartialEq)]
pub struct Size(QueueName);

impl Size {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        later(broker, async move |broker| broker.queue(&self.0).size().await, Reply::count)
    }
}
