//! `DQ.CONTAINS queue [AS encoding] payload [payload ...]`: whether messages with these payloads
//! are pending.
//!
//! Replies with an array of 0 and 1, in the order asked. The payloads are encoded as DQ.OFFER
//! encodes them. `AS` in the first place is always the option: a payload that is this word goes
//! behind `AS raw`. Errors: ERR (encoding), BADQUEUE, WRONGTYPE, UNAVAILABLE.
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
    usage: "queue [AS encoding] payload [payload ...]",
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
    let queue = args.queue()?;
    let said = args.takes("AS").then(|| args.encoding()).transpose()?;
    let encoding = args.encoding_of(queue.as_bytes(), said);
    let mut payloads = Vec::new();
    while args.left() > 0 || payloads.is_empty() {
        let payload = args.value()?;
        let encoded = args.encoded(encoding, payload);
        let encoded = encoded.map_err(|error| error.of_message(payloads.len() + 1))?;
        payloads.push(Bytes::copy_from_slice(&encoded));
    }
    Ok(Command::Contains(Contains { queue, payloads }))
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
                "DQ.CONTAINS q as Kryo5 ab AS",
                "Contains { queue: QueueName('q'), \
                 payloads: [b\"\\x03a\\xe2\", b\"\\x03A\\xd3\"] }",
            ),
            (
                "DQ.CONTAINS q AS raw AS json",
                "Contains { queue: QueueName('q'), payloads: [b\"AS\", b\"json\"] }",
            ),
            ("DQ.CONTAINS q AS", "ERR syntax error: AS needs a value"),
            (
                "DQ.CONTAINS q AS b",
                "ERR encoding 'b' must be one of raw, string, long, json, kryo5",
            ),
            (
                "DQ.CONTAINS q AS raw",
                "ERR wrong number of arguments for 'dq.contains' command",
            ),
            (
                "DQ.CONTAINS q AS long 5 x",
                "ERR message 2: payload 'x' is not a whole number from",
            ),
            (
                "DQ.CONTAINS q",
                "ERR wrong number of arguments for 'dq.contains' command",
            ),
            ("DQ.CONTAINS '' a", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
