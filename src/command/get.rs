//! `DQ.GET queue message`: one pending message.
//!
//! Replies with a map of id, name, due, payload and format, or nil if it is not pending.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE. Way: `lua/get.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.GET",
    usage: "queue message",
    summary: "Shows a pending message",
    args: 2..=2,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["readonly", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Get {
    queue: QueueName,
    message: MessageRef,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Get(Get {
        queue: args.queue()?,
        message: args.message()?,
    }))
}

impl Get {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, message } = self;
        let call = async move |broker: &Broker| broker.get(&queue, message).await;
        later(broker, call, |found| {
            found.map_or(Reply::Null, message::reply)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            (
                "DQ.GET q n",
                "Get { queue: QueueName('q'), message: Name(b\"n\") }",
            ),
            (
                "DQ.GET q -5-ff",
                "Get { queue: QueueName('q'), \
                 message: Id(MessageId { score: \"-5\", id: [255] }) }",
            ),
            (
                "DQ.GET q",
                "ERR wrong number of arguments for 'dq.get' command",
            ),
            (
                "DQ.GET q n m",
                "ERR wrong number of arguments for 'dq.get' command",
            ),
            ("DQ.GET q ''", "BADID message '' must not be empty"),
        ]);
    }
}
