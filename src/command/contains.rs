//! `DQ.CONTAINS queue payload [payload ...]`: whether messages with these payloads are pending.
//!
//! Replies with an array of 0 and 1, in the order asked. Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE.
//! Way: pages of `lua/match_pending.lua`: a match that is pending all the while is found.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, MANY, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CONTAINS",
    usage: "queue payload [payload ...]",
    summary: "Says which payloads are pending",
    args: 2..=MANY,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Contains {
    queue: QueueName,
    payloads: Vec<Bytes>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Contains(Contains {
        queue: args.queue()?,
        payloads: args.rest(),
    }))
}

impl Contains {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, payloads } = self;
        let call = async move |broker: &Broker| broker.contains(&queue, payloads).await;
        later(broker, call, |found| {
            Reply::Array(
                found
                    .into_iter()
                    .map(|found| Reply::Integer(found.into()))
                    .collect(),
            )
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
                "DQ.CONTAINS q a ''",
                "Contains { queue: QueueName('q'), payloads: [b\"a\", b\"\"] }",
            ),
            (
                "DQ.CONTAINS q",
                "ERR wrong number of arguments for 'dq.contains' command",
            ),
            ("DQ.CONTAINS '' a", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
