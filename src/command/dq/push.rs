//! `DQ.PUSH queue payload [payload ...] [AS encoding]`: messages that are due at once, all or none.
//!
//! They go to the end of the destination, behind all that is due; with an AS before the last
//! argument that is the encoding of all. Replies with their ids where the destination is `take`,
//! else with how many.
//! Errors: ERR (encoding, a stream), BADQUEUE, TOOBIG, TOOMANY, WRONGTYPE, UNAVAILABLE, UNCERTAIN;
//! the text names the message by its place, if the error is about one.
//! Way: `lua/push.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.PUSH",
    usage: "queue payload [payload ...] [AS encoding]",
    summary: "Puts messages into the destination at once: all or none",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::DenyOom]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Push {
    queue: QueueName,
    payloads: Vec<Bytes>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let said = args.last_encoding()?;
    let encoding = args.encoding_of(queue.as_bytes(), said);
    let end = if said.is_some() { 2 } else { 0 };
    let (mut payloads, mut bytes) = (Vec::new(), 0);
    while args.left() > end || payloads.is_empty() {
        let number = payloads.len() + 1;
        args.may_have(number)?;
        let payload = args.one_more(encoding, number, &mut bytes)?;
        payloads.push(payload.into_owned().into());
    }
    while args.option().is_some() {}
    Ok(Command::Push(Push { queue, payloads }))
}

impl Push {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, payloads } = self;
        let count = payloads.len() as u64;
        let call = async move |broker: &Broker| broker.queue(&queue).push(payloads).await;
        later(broker, call, move |ids| match ids {
            Some(ids) => Reply::Array(ids.iter().map(|id| id.to_string().into()).collect()),
            None => Reply::count(count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |payloads: &[&'static [u8]]| {
            let payloads = payloads.iter().map(|payload| Bytes::from_static(payload)).collect();
            Ok(Command::Push(Push { queue: queue("q"), payloads }))
        };
        check(&[
            ("DQ.PUSH q a", of(&[b"a"])),
            ("dq.push q a '' AS", of(&[b"a", b"", b"AS"])),
            ("DQ.PUSH q ab as Kryo5", of(&[b"\x03a\xe2"])),
            ("DQ.PUSH q AS raw AS raw", of(&[b"AS", b"raw"])),
            ("DQ.PUSH q AS raw", of(&[b"AS", b"raw"])),
            ("DQ.PUSH q", Err("ERR wrong number of arguments for 'dq.push'")),
            ("DQ.PUSH q a AS x", Err("ERR encoding 'x' must be one of raw, string, long, json")),
            ("DQ.PUSH q 1 x AS json", Err("ERR message 2: payload 'x' is not JSON: expected")),
            ("DQ.PUSH q a b c d", Err("TOOMANY more than 3 messages in one command")),
            (
                "DQ.PUSH q 12345678901 12345678901 123",
                Err("TOOBIG the payloads up to message 3 have 25 bytes, more than 24"),
            ),
        ]);
    }
}
