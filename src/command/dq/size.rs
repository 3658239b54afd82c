//! `DQ.SIZE queue`: the number of pending messages.
//!
//! Replies with the number; messages that are due but not transferred yet count, too.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/size.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Categories, Category, Command, Flag, Flags, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.SIZE",
    summary: "Counts the pending messages",
    flags: Flags::of(&[Flag::ReadOnly, Flag::Fast]),
    categories: Categories::of(&[Category::Read]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Size {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Size(Size { queue: args.queue()? }))
}

impl Size {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        later(broker, async move |broker| broker.queue(&self.queue).size().await, Reply::count)
    }
}
