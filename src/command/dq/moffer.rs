//! `DQ.MOFFER queue [AS encoding] [HEADER name value ...] [TTL d] [PRIO n] [LIMIT n] [SYNC
//! FSYNC|NONE|REPLICAS n] delay payload [delay payload ...]`: many messages for one queue, all or
//! none.
//!
//! `AT time` may stand in place of any delay. The options are those of all messages, and stand
//! where no delay can be taken for them. Replies with an array of message ids, in order.
//! Errors: ERR, BADQUEUE, BADDELAY, BADTIME, TOOBIG, TOOMANY, WRONGTYPE, UNAVAILABLE, UNCERTAIN;
//! the text names the message by its place, if the error is about one.
//! Way: batch, `lua/offer.lua`; never split.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::durability::Durability;
use crate::domain::envelope::{Carries, Envelope};
use crate::domain::queue::Due;

use crate::command::args::{ArgError, Args};
use crate::command::redis::multi::Queued;
use crate::command::{Caller, Command, Flag, Flags, Kind, MANY, ReplyForm, Run, Spec};
use crate::command::{carried, sync};

pub const SPEC: Spec = Spec {
    name: "DQ.MOFFER",
    usage: "queue [AS encoding] [HEADER name value ...] [TTL d] [PRIO n] [LIMIT n] \
            [SYNC <FSYNC|NONE|REPLICAS n>] delay payload [delay payload ...]",
    summary: "Stores several messages in one queue: all or none",
    args: 3..=MANY,
    kind: Kind::Offer,
    flags: Flags::of(&[Flag::Write, Flag::DenyOom]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Moffer<'a> {
    queue: &'a [u8],
    messages: Vec<(Due, Cow<'a, [u8]>)>,
    carries: Carries,
    sync: Option<Durability>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue_bytes()?;
    let (mut said, mut sync, mut envelope) = (None, None, Envelope::default());
    loop {
        if said.is_none() && args.takes("AS") {
            said = Some(args.encoding()?);
        } else if sync.is_none() && args.takes("SYNC") {
            sync = Some(args.sync()?);
        } else if !carried::next(&mut envelope, args)? {
            break;
        }
    }
    let encoding = args.encoding_of(queue, said);
    let messages_max = args.rules.moffer_messages_max;
    let mut messages = Vec::with_capacity(messages_max.min(args.left() / 2));
    let mut bytes = 0;
    // At least one: where all arguments went to the encoding, the delay is missed.
    while args.left() > 0 || messages.is_empty() {
        let number = messages.len() + 1;
        args.may_have(number)?;
        let due = args.due().map_err(|error| error.of_message(number))?;
        let payload = args.one_more(encoding, number, &mut bytes)?;
        messages.push((due, envelope.around(payload)));
    }
    let sync = args.durability_of(queue, sync);
    Ok(Command::Moffer(Moffer { queue, messages, carries: envelope.carries(), sync }))
}

impl Moffer<'_> {
    pub fn queued(&self) -> Queued {
        let (own, messages) = (Bytes::copy_from_slice, self.messages.iter());
        Queued::Moffer {
            queue: own(self.queue),
            messages: messages.map(|(due, payload)| (*due, own(payload))).collect(),
            carries: self.carries,
            sync: self.sync,
        }
    }

    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        if let Some(what) = self.sync
            && let Some(run) = sync::not_now(broker, self.queue, what, || self.queued())
        {
            return run;
        }
        let messages = self.messages.iter();
        let messages = messages.map(|(due, payload)| (*due, &payload[..]));
        let ticket = broker.moffer(self.queue, messages, self.carries);
        Run::Offered(ticket.until(self.sync), ReplyForm::Many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |messages: &[(Due, &'static [u8])]| {
            let messages = messages.iter().map(|(due, payload)| (*due, Cow::Borrowed(*payload)));
            let (messages, carries) = (messages.collect(), Carries::Nothing);
            Ok(Command::Moffer(Moffer { queue: b"q", messages, carries, sync: None }))
        };
        let synced = Moffer {
            queue: b"q",
            messages: vec![(Due::In(5), Cow::Borrowed(&b"sync"[..]))],
            carries: Carries::Nothing,
            sync: Some(Durability::Replicas(1)),
        };
        let at = Due::At(1_999_999_999_999);
        check(&[
            ("DQ.MOFFER q 5 a", of(&[(Due::In(5), b"a")])),
            (
                "DQ.MOFFER q 5 a AT 1999999999999 b 1s at",
                of(&[(Due::In(5), b"a"), (at, b"b"), (Due::In(1_000), b"at")]),
            ),
            (
                "DQ.MOFFER q as kryo5 5 AS AT 1999999999999 ab",
                of(&[(Due::In(5), b"\x03A\xd3"), (at, b"\x03a\xe2")]),
            ),
            ("DQ.MOFFER q SYNC replicas 1 5 sync", Ok(Command::Moffer(synced))),
            ("DQ.MOFFER q SYNC none 5 a", of(&[(Due::In(5), b"a")])),
            ("DQ.MOFFER q SYNC 5 a", Err("ERR SYNC '5' must be fsync, none, or replicas")),
            ("DQ.MOFFER q AS 5 a", Err("ERR encoding '5' must be one of raw, string, long, json")),
            (
                "DQ.MOFFER q AS json",
                Err("ERR message 1: wrong number of arguments for 'dq.moffer'"),
            ),
            (
                "DQ.MOFFER q AS json 5 1 6 x",
                Err("ERR message 2: payload 'x' is not JSON: expected"),
            ),
            ("DQ.MOFFER q 5 a AS json", Err("BADDELAY message 2: delay 'AS' must be whole")),
            (
                "DQ.MOFFER q AS kryo5 1 12345678901 2 12345678901 3 x",
                Err("TOOBIG the payloads up to message 3 have 27 bytes, more than 24"),
            ),
        ]);
    }
}
