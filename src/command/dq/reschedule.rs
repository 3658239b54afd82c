//! `DQ.RESCHEDULE queue message delay`, or `AT time`: gives a pending message another due time.
//!
//! Replies with the new message id (the due time is part of it), or nil if the message is not
//! pending. Payload, name and place in the offer order stay.
//! Errors: BADQUEUE, BADID, BADDELAY, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/reschedule.lua`; `lua/retry.lua` for a message that waits for a retry.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::{Due, MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Command, Flag, Flags, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.RESCHEDULE",
    usage: "queue message delay",
    summary: "Gives a pending message another due time",
    args: 3..=4,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Reschedule {
    queue: QueueName,
    message: MessageRef,
    due: Due,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (queue, message, due) = (args.queue()?, args.message()?, args.due()?);
    Ok(Command::Reschedule(Reschedule { queue, message, due }))
}

impl Reschedule {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, message, due } = self;
        later(
            broker,
            async move |broker| broker.queue(&queue).reschedule(message, due).await,
            |id| id.map_or(Reply::Null, |id| id.to_string().into()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, message, queue};

    #[test]
    fn parse() {
        let of = |due| {
            Ok(Command::Reschedule(Reschedule { queue: queue("q"), message: message("n"), due }))
        };
        check(&[
            ("DQ.RESCHEDULE q n 2m", of(Due::In(120_000))),
            ("DQ.RESCHEDULE q n at 1999999999999", of(Due::At(1_999_999_999_999))),
            ("DQ.RESCHEDULE q n x", Err("BADDELAY delay 'x' must be whole milliseconds")),
        ]);
    }
}
