//! `DQ.CLEAR queue`: drops all pending messages.
//!
//! Replies with their number. The destination list and a pause stay as they are.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/clear.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Effect};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::{Caller, Categories, Category, Command, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.CLEAR",
    summary: "Drops all pending messages",
    categories: Categories::of(&[Category::Write, Category::Dangerous]),
    ..Spec::writing(|args| Ok(Command::Clear(Clear(args.queue()?))))
};

#[derive(Debug, PartialEq)]
pub struct Clear(QueueName);

impl Clear {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        logged(
            caller,
            broker,
            (SPEC.name, self.0.to_bytes()),
            async move |broker| broker.queue(&self.0).clear().await,
            |dropped| Some(Effect::of(*dropped)),
            Reply::count,
        )
    }
}
