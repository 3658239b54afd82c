//! `DQ.RESCHEDULE queue message delay`, or `AT time`: gives a pending message another due time.
//!
//! Replies with the new message id (the due time is part of it), or nil if the message is not
//! pending. Payload, name and place in the offer order stay.
//! Errors: BADQUEUE, BADID, BADDELAY, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/reschedule.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{Due, MessageRef, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.RESCHEDULE",
    usage: "queue message delay",
    summary: "Gives a pending message another due time",
    args: 3..=4,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Reschedule {
    queue: QueueName,
    message: MessageRef,
    due: Due,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (queue, message, due) = (args.queue()?, args.message()?, args.due()?);
    Ok(Command::Reschedule(Reschedule {
        queue,
        message,
        due,
    }))
}

impl Reschedule {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            message,
            due,
        } = self;
        later(
            broker,
            async move |broker| broker.reschedule(&queue, message, due).await,
            |id| id.map_or(Reply::Null, |id| id.to_string().into()),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |due: &str| {
            format!("Reschedule {{ queue: QueueName('q'), message: Name(b\"n\"), due: {due} }}")
        };
        check(&[
            ("DQ.RESCHEDULE q n 2m", &read("In(120000)")),
            ("DQ.RESCHEDULE q n at 7", &read("At(7)")),
            (
                "DQ.RESCHEDULE q n",
                "ERR wrong number of arguments for 'dq.reschedule' command",
            ),
            (
                "DQ.RESCHEDULE q n AT",
                "ERR wrong number of arguments for 'dq.reschedule' command",
            ),
            (
                "DQ.RESCHEDULE q n 5 6",
                "ERR syntax error: unexpected argument '6'",
            ),
            ("DQ.RESCHEDULE q '' 5", "BADID message '' must not be empty"),
            (
                "DQ.RESCHEDULE q n x",
                "BADDELAY delay 'x' must be whole milliseconds",
            ),
            (
                "DQ.RESCHEDULE q n AT x",
                "BADTIME time 'x' must be Unix milliseconds",
            ),
        ]);
    }
}
