//! `DQ.FIRE queue message [message ...]`: makes pending messages due now.
//!
//! Replies with the number fired; they are transferred at once unless the queue is paused.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/fire.lua`, one call.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, MANY, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.FIRE",
    usage: "queue message [message ...]",
    summary: "Makes pending messages due now",
    args: 2..=MANY,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Fire {
    queue: QueueName,
    messages: Vec<MessageRef>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Fire(Fire {
        queue: args.queue()?,
        messages: args.messages()?,
    }))
}

impl Fire {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, messages } = self;
        later(
            broker,
            async move |broker| broker.fire(&queue, messages).await,
            Reply::count,
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            (
                "DQ.FIRE q n",
                "Fire { queue: QueueName('q'), messages: [Name(b\"n\")] }",
            ),
            (
                "DQ.FIRE q n 5-0Aff",
                "Fire { queue: QueueName('q'), messages: [Name(b\"n\"), \
                 Id(MessageId { score: \"5\", id: [10, 255] })] }",
            ),
            (
                "DQ.FIRE q",
                "ERR wrong number of arguments for 'dq.fire' command",
            ),
            ("DQ.FIRE '' n", "BADQUEUE queue '' must not be empty"),
            ("DQ.FIRE q ''", "BADID message '' must not be empty"),
            (
                "DQ.FIRE q a b ''",
                "BADID message 3: message '' must not be empty",
            ),
            (
                "DQ.FIRE q 12345678901234567",
                "BADID message '12345678901234567' is longer than",
            ),
        ]);
    }
}
