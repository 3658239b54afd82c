//! `DQ.GET queue message [DECODE]`: one pending message.
//!
//! Replies with a map of id, name, due, payload and format, or nil if it is not pending. DECODE
//! shows the payload as text where it is one.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE. Way: `lua/get.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.GET",
    usage: "queue message [DECODE]",
    summary: "Shows a pending message",
    args: 2..=3,
    kind: Kind::Messages,
    group: Group::Queue,
    flags: &["readonly", "fast"],
    parse,
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
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            message,
            decode,
        } = self;
        let call = async move |broker: &Broker| broker.get(&queue, message).await;
        later(broker, call, move |found| {
            found.map_or(Reply::Null, |found| message::reply(found, decode))
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
                "Get { queue: QueueName('q'), message: Name(b\"n\"), decode: false }",
            ),
            (
                "DQ.GET q -5-ff",
                "Get { queue: QueueName('q'), \
                 message: Id(MessageId { score: \"-5\", id: [255] }), decode: false }",
            ),
            (
                "DQ.GET q DECODE decode",
                "Get { queue: QueueName('q'), message: Name(b\"DECODE\"), decode: true }",
            ),
            (
                "DQ.GET q",
                "ERR wrong number of arguments for 'dq.get' command",
            ),
            ("DQ.GET q n m", "ERR syntax error: unexpected argument 'm'"),
            (
                "DQ.GET q n DECODE m",
                "ERR wrong number of arguments for 'dq.get' command",
            ),
            ("DQ.GET q ''", "BADID message '' must not be empty"),
        ]);
    }
}
