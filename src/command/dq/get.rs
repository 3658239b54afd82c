//! `DQ.GET queue message [DECODE]`: one pending message, or one that waits for a retry.
//!
//! Replies with a map of id, name, due, payload and format, or nil if it is not pending; of one
//! that waits with attempt and reason as well. DECODE shows the payload as text where it is one.
//! Errors: BADQUEUE, BADID, TOOBIG, WRONGTYPE, UNAVAILABLE. Way: `lua/get.lua`,
//! `lua/retry_get.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Found};
use crate::domain::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{
    Caller, Categories, Category, Command, Flag, Flags, Kind, Run, Spec, later, show,
};

pub const SPEC: Spec = Spec {
    name: "DQ.GET",
    usage: "queue message [DECODE]",
    summary: "Shows a pending message",
    args: 2..=3,
    kind: Kind::Messages,
    flags: Flags::of(&[Flag::ReadOnly, Flag::Fast]),
    categories: Categories::of(&[Category::Read, Category::Payload]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Get {
    queue: QueueName,
    message: MessageRef,
    decode: bool,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Get(Get {
        queue: args.queue()?,
        message: args.message()?,
        decode: args.takes("DECODE"),
    }))
}

impl Get {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, message, decode } = self;
        let call = async move |broker: &Broker| broker.queue(&queue).get(message).await;
        later(broker, call, move |found| match found {
            Some(Found::Pending(message)) => show::reply(message, decode),
            Some(Found::Waiting(message)) => show::waiting(message, decode),
            None => Reply::Null,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, message, queue};

    #[test]
    fn parse() {
        let of = |text, decode| {
            Ok(Command::Get(Get { queue: queue("q"), message: message(text), decode }))
        };
        check(&[
            ("DQ.GET q n", of("n", false)),
            ("DQ.GET q -5-ff", of("-5-ff", false)),
            ("DQ.GET q DECODE decode", of("DECODE", true)),
            ("DQ.GET q n DECODE m", Err("ERR wrong number of arguments for 'dq.get' command")),
        ]);
    }
}
