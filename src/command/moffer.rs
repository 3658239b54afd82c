//! `DQ.MOFFER queue [AS encoding] delay payload [delay payload ...]`: many messages for one queue,
//! all or none.
//!
//! `AT time` may stand in place of any delay. The encoding is that of all payloads, and stands
//! where no delay can be taken for it. Replies with an array of message ids, in order.
//! Errors: those of DQ.OFFER, naming the message by its place; TOOMANY and TOOBIG for the whole.
//! Way: batch, `lua/offer.lua`; never split.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{Due, Shown};

use super::args::{ArgError, Args};
use super::{Command, Form, Group, Kind, MANY, Run, Session, Spec};

pub const SPEC: Spec = Spec {
    name: "DQ.MOFFER",
    usage: "queue [AS encoding] delay payload [delay payload ...]",
    summary: "Stores several messages of one queue at once: all or none",
    args: 3..=MANY,
    kind: Kind::Offer,
    group: Group::Queue,
    flags: &["write", "denyoom"],
    parse,
};

#[derive(PartialEq)]
pub struct Moffer<'a> {
    queue: &'a [u8],
    messages: Vec<(Due, Cow<'a, [u8]>)>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue_bytes()?;
    let said = args.takes("AS").then(|| args.encoding()).transpose()?;
    let encoding = args.encoding_of(queue, said);
    let (messages_max, bytes_max) = (args.rules.moffer_messages_max, args.rules.moffer_bytes_max);
    let mut messages = Vec::with_capacity(messages_max.min(args.left() / 2));
    let mut bytes = 0;
    // At least one: where all arguments went to the encoding, the delay is missed.
    while args.left() > 0 || messages.is_empty() {
        let number = messages.len() + 1;
        if number > messages_max {
            let text = format_args!("more than {messages_max} messages in one command");
            return Err(ArgError::new("TOOMANY", text));
        }
        let due = args.due().map_err(|error| error.of_message(number))?;
        let payload = args
            .payload()
            .and_then(|payload| args.stored(encoding, payload))
            .map_err(|error| error.of_message(number))?;
        bytes += payload.len();
        if bytes > bytes_max {
            let text = format_args!("the payloads up to message {number} have {bytes} bytes");
            return Err(ArgError::new(
                "TOOBIG",
                format_args!("{text}, more than {bytes_max}"),
            ));
        }
        messages.push((due, payload));
    }
    Ok(Command::Moffer(Moffer { queue, messages }))
}

impl Moffer<'_> {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        Run::Offered(broker.moffer(self.queue, &self.messages), Form::Many)
    }
}

impl fmt::Debug for Moffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moffer {}", Shown(self.queue))?;
        let mut messages = self.messages.iter();
        messages.try_for_each(|(due, payload)| write!(f, " {due:?} {}", Shown(payload)))
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.MOFFER q 5 a", "Moffer 'q' In(5) 'a'"),
            (
                "DQ.MOFFER q 5 a AT 7 b 1s at",
                "Moffer 'q' In(5) 'a' At(7) 'b' In(1000) 'at'",
            ),
            (
                "DQ.MOFFER q as kryo5 5 AS AT 7 ab",
                "Moffer 'q' In(5) '\\x03A\\xd3' At(7) '\\x03a\\xe2'",
            ),
            (
                "DQ.MOFFER q AS 5 a",
                "ERR encoding '5' must be one of raw, string, long, json, kryo5",
            ),
            (
                "DQ.MOFFER q AS json",
                "ERR message 1: wrong number of arguments for 'dq.moffer' command",
            ),
            (
                "DQ.MOFFER q AS json 5",
                "ERR message 1: wrong number of arguments for 'dq.moffer' command",
            ),
            (
                "DQ.MOFFER q AS json 5 1 6 x",
                "ERR message 2: payload 'x' is not JSON: expected value at line 1 column 1 (enc",
            ),
            (
                "DQ.MOFFER q 5 a AS json",
                "BADDELAY message 2: delay 'AS' must be whole",
            ),
            (
                "DQ.MOFFER q AS kryo5 1 12345678901 2 12345678901 3 x",
                "TOOBIG the payloads up to message 3 have 27 bytes, more than 24",
            ),
            (
                "DQ.MOFFER q 5",
                "ERR wrong number of arguments for 'dq.moffer' command",
            ),
            (
                "DQ.MOFFER q 5 a 6",
                "ERR message 2: wrong number of arguments for 'dq.moffer'",
            ),
            (
                "DQ.MOFFER q AT 5",
                "ERR message 1: wrong number of arguments for 'dq.moffer'",
            ),
            (
                "DQ.MOFFER q 1 a 2 b 3 c 4 d",
                "TOOMANY more than 3 messages in one command",
            ),
            (
                "DQ.MOFFER q 1 a 2 b -3 c",
                "BADDELAY message 3: delay '-3' must not be negative",
            ),
            (
                "DQ.MOFFER q 1 a AT x b",
                "BADTIME message 2: time 'x' must be Unix",
            ),
            (
                "DQ.MOFFER q 1 12345678901234567",
                "TOOBIG message 1: payload of 17 bytes",
            ),
            (
                "DQ.MOFFER q 1 1234567890123456 2 123456789",
                "TOOBIG the payloads up to message 2 have 25 bytes, more than 24",
            ),
        ]);
    }
}
