//! `DQ.OFFER queue delay payload [AS encoding] [NAME name [NX|XX]]`, or `AT time` in place of the
//! delay: keeps a payload back, then it is appended to the list `queue`.
//!
//! Replies with the message id once Redis has it; nil if NX or XX forbade it. Errors: ERR (the
//! payload's encoding), BADQUEUE, BADDELAY, BADTIME, BADID, TOOBIG, WRONGTYPE, UNAVAILABLE,
//! UNCERTAIN.
//! Way: batch, `lua/offer.lua`. What is stored as given is not copied here: the batch packs from
//! the read buffer.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{Due, NameMode, Shown};

use super::args::{ArgError, Args, is};
use super::{Command, Form, Group, Kind, Run, Session, Spec};

pub const SPEC: Spec = Spec {
    name: "DQ.OFFER",
    usage: "queue delay payload [AS encoding] [NAME name [NX|XX]]",
    summary: "Stores a message that is appended to the list when its delay is over",
    args: 3..=9,
    kind: Kind::Offer,
    group: Group::Queue,
    flags: &["write", "denyoom", "fast"],
    parse,
};

#[derive(PartialEq)]
pub struct Offer<'a> {
    queue: &'a [u8],
    due: Due,
    payload: Cow<'a, [u8]>,
    name: Option<(&'a [u8], NameMode)>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (queue, due, payload) = (args.queue_bytes()?, args.due()?, args.payload()?);
    let (mut encoding, mut name, mut mode) = (None, None, None);
    while let Some(option) = args.option() {
        if is(option, "AS") && encoding.is_none() {
            encoding = Some(args.encoding()?);
        } else if is(option, "NAME") && name.is_none() {
            name = Some(args.name()?);
        } else if is(option, "NX") && mode.is_none() {
            mode = Some(NameMode::Nx);
        } else if is(option, "XX") && mode.is_none() {
            mode = Some(NameMode::Xx);
        } else {
            return Err(args.unexpected(option));
        }
    }
    let name = match (name, mode) {
        (Some(name), mode) => Some((name, mode.unwrap_or(NameMode::Replace))),
        (None, None) => None,
        (None, Some(_)) => return Err(ArgError::plain("syntax error: NX and XX need NAME")),
    };
    let payload = args.stored(args.encoding_of(queue, encoding), payload)?;
    Ok(Command::Offer(Offer {
        queue,
        due,
        payload,
        name,
    }))
}

impl Offer<'_> {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            due,
            payload,
            name,
        } = self;
        let ticket = match name {
            None => broker.offer(queue, due, &payload),
            Some((name, mode)) => broker.offer_named(queue, due, &payload, name, mode),
        };
        Run::Offered(ticket, Form::One)
    }
}

impl fmt::Debug for Offer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Offer {} {:?} {}",
            Shown(self.queue),
            self.due,
            Shown(&self.payload)
        )?;
        match self.name {
            Some((name, mode)) => write!(f, " {} {mode:?}", Shown(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.OFFER q 30s p", "Offer 'q' In(30000) 'p'"),
            ("dq.offer q 0 ''", "Offer 'q' In(0) ''"),
            ("DQ.OFFER AT 5 AT", "Offer 'AT' In(5) 'AT'"),
            ("DQ.OFFER q at 1000 p", "Offer 'q' At(1000) 'p'"),
            (
                "DQ.OFFER q AT 1970-01-01T00:00:01Z p",
                "Offer 'q' At(1000) 'p'",
            ),
            ("DQ.OFFER q 5 p NAME n", "Offer 'q' In(5) 'p' 'n' Replace"),
            ("DQ.OFFER q 5 p name n nx", "Offer 'q' In(5) 'p' 'n' Nx"),
            ("DQ.OFFER q AT 5 p XX Name n", "Offer 'q' At(5) 'p' 'n' Xx"),
            ("DQ.OFFER q 5 p NAME NX", "Offer 'q' In(5) 'p' 'NX' Replace"),
            ("DQ.OFFER q 5 p AS raw", "Offer 'q' In(5) 'p'"),
            (
                "DQ.OFFER q 5 abc as Kryo5 NAME n",
                "Offer 'q' In(5) '\\x03ab\\xe3' 'n' Replace",
            ),
            (
                "DQ.OFFER q 5 AS NX NAME n AS string",
                "Offer 'q' In(5) 'AS' 'n' Nx",
            ),
            (
                "DQ.OFFER q 5 p AS utf8",
                "ERR encoding 'utf8' must be one of raw, string, long, json, kryo5",
            ),
            ("DQ.OFFER q 5 p AS", "ERR syntax error: AS needs a value"),
            (
                "DQ.OFFER q 5 p AS raw AS raw",
                "ERR syntax error: unexpected argument 'AS'",
            ),
            (
                "DQ.OFFER q 5 \"\\xff\" AS string",
                "ERR payload '\\xff' is not UTF-8: byte 0 is the first that is not (enc",
            ),
            (
                "DQ.OFFER q 5 {a} AS json",
                "ERR payload '{a}' is not JSON: key must be a string at line 1 column 2 (encoding",
            ),
            (
                "DQ.OFFER q 5 1.5 AS long",
                "ERR payload '1.5' is not a whole number from",
            ),
            (
                "DQ.OFFER q 5 1234567890123456 AS kryo5",
                "TOOBIG payload of 17 bytes as kryo5 is larger than 16 bytes",
            ),
            (
                "DQ.OFFER q 5",
                "ERR wrong number of arguments for 'dq.offer' command; usage:",
            ),
            (
                "DQ.OFFER q AT 5",
                "ERR wrong number of arguments for 'dq.offer' command",
            ),
            ("DQ.OFFER q 5 p NX", "ERR syntax error: NX and XX need NAME"),
            (
                "DQ.OFFER q 5 p NAME",
                "ERR syntax error: NAME needs a value",
            ),
            (
                "DQ.OFFER q 5 p NAME n NX XX",
                "ERR syntax error: unexpected argument 'XX'; usage:",
            ),
            (
                "DQ.OFFER q 5 p NAME n NAME m",
                "ERR syntax error: unexpected argument 'NAME'",
            ),
            (
                "DQ.OFFER q 5 p more",
                "ERR syntax error: unexpected argument 'more'",
            ),
            ("DQ.OFFER '' 5 p", "BADQUEUE queue '' must not be empty"),
            (
                "DQ.OFFER q -5 p",
                "BADDELAY delay '-5' must not be negative",
            ),
            (
                "DQ.OFFER q 1.5s p",
                "BADDELAY delay '1.5s' must be a whole number",
            ),
            (
                "DQ.OFFER q 2d p",
                "BADDELAY delay '2d' must be at most 86400000 ms",
            ),
            (
                "DQ.OFFER q AT soon p",
                "BADTIME time 'soon' must be Unix milliseconds",
            ),
            (
                "DQ.OFFER q 5 12345678901234567",
                "TOOBIG payload of 17 bytes is larger than 16",
            ),
            ("DQ.OFFER q 5 p NAME ''", "BADID name '' must not be empty"),
            (
                "DQ.OFFER q 5 p NAME 5-ff",
                "BADID name '5-ff' reads as a message id",
            ),
            (
                "DQ.OFFER q 5 p NAME 12345678901234567",
                "BADID name '12345678901234567' is longer",
            ),
        ]);
    }
}
