//! `DQ.CANCEL queue message [message ...]`: takes pending messages out.
//!
//! Replies with the number cancelled: what it counts is never delivered. 0 = none is pending.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/cancel.lua`, one call.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, MANY, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CANCEL",
    usage: "queue message [message ...]",
    summary: "Takes pending messages out, by id or name",
    args: 2..=MANY,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Cancel {
    queue: QueueName,
    messages: Vec<MessageRef>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Cancel(Cancel {
        queue: args.queue()?,
        messages: args.messages()?,
    }))
}

impl Cancel {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, messages } = self;
        later(
            broker,
            async move |broker| broker.cancel(&queue, messages).await,
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
                "DQ.CANCEL q n",
                "Cancel { queue: QueueName('q'), messages: [Name(b\"n\")] }",
            ),
            (
                "DQ.CANCEL q n 5-0Aff",
                "Cancel { queue: QueueName('q'), messages: [Name(b\"n\"), \
                 Id(MessageId { score: \"5\", id: [10, 255] })] }",
            ),
            (
                "DQ.CANCEL q",
                "ERR wrong number of arguments for 'dq.cancel' command",
            ),
            ("DQ.CANCEL '' n", "BADQUEUE queue '' must not be empty"),
            ("DQ.CANCEL q ''", "BADID message '' must not be empty"),
            (
                "DQ.CANCEL q a b ''",
                "BADID message 3: message '' must not be empty",
            ),
            (
                "DQ.CANCEL q 12345678901234567",
                "BADID message '12345678901234567' is longer than",
            ),
        ]);
    }
}
