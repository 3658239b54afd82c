//! `DQ.CLEAR queue`: drops all pending messages.
//!
//! Replies with their number. The destination list and a pause stay as they are.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/clear.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Effect};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Categories, Category, Command, Flag, Flags, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.CLEAR",
    summary: "Drops all pending messages",
    flags: Flags::of(&[Flag::Write]),
    categories: Categories::of(&[Category::Write, Category::Dangerous]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Clear {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Clear(Clear { queue: args.queue()? }))
}

impl Clear {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        logged(
            caller,
            broker,
            (SPEC.name, self.queue.to_bytes()),
            async move |broker| broker.queue(&self.queue).clear().await,
            |dropped| Some(Effect::of(*dropped)),
            Reply::count,
        )
    }
}
