//! `DQ.REMOVE queue payload [COUNT n] [AS encoding]`: takes out pending messages by their payload.
//!
//! Replies with the number removed. Takes the first matches in offer order, as Redisson's
//! `remove(o)`: one by default, all with COUNT 0. The payload is encoded as DQ.OFFER encodes it.
//! Errors: ERR (the payload's encoding), BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: pages of
//! `lua/match_listed.lua` and `lua/match_pending.lua`, then `lua/remove.lua`, which checks each
//! match again.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args, is};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.REMOVE",
    usage: "queue payload [COUNT n] [AS encoding]",
    summary: "Takes out pending messages by their payload, the first offered first",
    args: 2..=6,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Remove {
    queue: QueueName,
    payload: Bytes,
    /// 0 = all.
    count: u64,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    // Not held to the payload limit of offers: others may have stored larger ones.
    let (queue, payload) = (args.queue()?, args.value()?);
    let (mut count, mut encoding) = (None, None);
    while let Some(option) = args.option() {
        if is(option, "COUNT") && count.is_none() {
            count = Some(args.count(0..=u64::MAX)?);
        } else if is(option, "AS") && encoding.is_none() {
            encoding = Some(args.encoding()?);
        } else {
            return Err(args.unexpected(option));
        }
    }
    let encoding = args.encoding_of(queue.as_bytes(), encoding);
    let payload = Bytes::copy_from_slice(&args.encoded(encoding, payload)?);
    Ok(Command::Remove(Remove {
        queue,
        payload,
        count: count.unwrap_or(1),
    }))
}

impl Remove {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            payload,
            count,
        } = self;
        let call = async move |broker: &Broker| broker.remove(&queue, payload, count).await;
        later(broker, call, Reply::count)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |payload: &str, count: u64| {
            format!("Remove {{ queue: QueueName('q'), payload: b\"{payload}\", count: {count} }}")
        };
        check(&[
            ("DQ.REMOVE q p", &read("p", 1)),
            ("DQ.REMOVE q ''", &read("", 1)),
            ("DQ.REMOVE q p count 0", &read("p", 0)),
            ("DQ.REMOVE q COUNT COUNT 5000", &read("COUNT", 5_000)),
            ("DQ.REMOVE q AS as kryo5", &read("\\x03A\\xd3", 1)),
            ("DQ.REMOVE q 5 AS long COUNT 2", &read("5", 2)),
            (
                "DQ.REMOVE q x AS json",
                "ERR payload 'x' is not JSON: expected value at line 1 column 1 (encoding json)",
            ),
            ("DQ.REMOVE q x AS", "ERR syntax error: AS needs a value"),
            (
                "DQ.REMOVE q",
                "ERR wrong number of arguments for 'dq.remove' command",
            ),
            (
                "DQ.REMOVE q p COUNT",
                "ERR syntax error: COUNT needs a value",
            ),
            (
                "DQ.REMOVE q p COUNT -1",
                "ERR COUNT '-1' must be a whole number",
            ),
            (
                "DQ.REMOVE q p LIMIT 1",
                "ERR syntax error: unexpected argument 'LIMIT'",
            ),
            ("DQ.REMOVE '' p", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
