//! `DQ.OFFER queue delay payload [AS encoding] [NAME name [NX|XX]] [HEADER name value ...] [TTL d]
//! [PRIO n] [LIMIT n] [SYNC FSYNC|NONE|REPLICAS n]`, or `AT time` in place of the delay: stores a
//! payload, which is appended to the list `queue` when it is due.
//!
//! Replies with the message id once Redis has it, or with SYNC its disk or replicas have; nil if NX
//! or XX forbade it. Errors: ERR (the payload's encoding, headers, what the destination does not
//! have, a Redis that cannot tell of its disk), BADQUEUE, BADDELAY, BADTIME, BADID,
//! TOOBIG, TOOMANY (queues, headers), WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: batch, `lua/offer.lua`. A payload that is stored as given is not copied here: the batch
//! packs it from the read buffer.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::durability::Durability;
use crate::domain::envelope::{Carries, Envelope};
use crate::domain::queue::{Due, NameMode};

use crate::command::args::{ArgError, Args, is};
use crate::command::redis::multi::Queued;
use crate::command::{Caller, Command, Flag, Flags, Kind, MANY, ReplyForm, Run, Spec};
use crate::command::{carried, sync};

pub const SPEC: Spec = Spec {
    name: "DQ.OFFER",
    usage: "queue delay payload [AS encoding] [NAME name [NX|XX]] [HEADER name value ...] [TTL d] \
            [PRIO n] [LIMIT n] [SYNC <FSYNC|NONE|REPLICAS n>]",
    summary: "Stores a message, which is appended to the list when it is due",
    args: 3..=MANY,
    kind: Kind::Offer,
    flags: Flags::of(&[Flag::Write, Flag::DenyOom, Flag::Fast]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Offer<'a> {
    queue: &'a [u8],
    due: Due,
    payload: Cow<'a, [u8]>,
    name: Option<(&'a [u8], NameMode)>,
    carries: Carries,
    sync: Option<Durability>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (queue, due, payload) = (args.queue_bytes()?, args.due()?, args.payload()?);
    let (mut encoding, mut name, mut mode, mut sync) = (None, None, None, None);
    let mut envelope = Envelope::default();
    while let Some(option) = args.option() {
        if is(option, "AS") && encoding.is_none() {
            encoding = Some(args.encoding()?);
        } else if is(option, "NAME") && name.is_none() {
            name = Some(args.name()?);
        } else if is(option, "NX") && mode.is_none() {
            mode = Some(NameMode::Nx);
        } else if is(option, "XX") && mode.is_none() {
            mode = Some(NameMode::Xx);
        } else if is(option, "SYNC") && sync.is_none() {
            sync = Some(args.sync()?);
        } else if !carried::option(&mut envelope, option, args)? {
            return Err(args.unexpected(option));
        }
    }
    let name = match (name, mode) {
        (Some(name), mode) => Some((name, mode.unwrap_or(NameMode::Replace))),
        (None, None) => None,
        (None, Some(_)) => return Err(ArgError::plain("syntax error: NX and XX need NAME")),
    };
    let payload = args.stored(args.encoding_of(queue, encoding), payload)?;
    let (payload, carries) = (envelope.around(payload), envelope.carries());
    let sync = args.durability_of(queue, sync);
    Ok(Command::Offer(Offer { queue, due, payload, name, carries, sync }))
}

impl Offer<'_> {
    pub fn queued(&self) -> Queued {
        let own = Bytes::copy_from_slice;
        Queued::Offer {
            queue: own(self.queue),
            due: self.due,
            payload: own(&self.payload),
            name: self.name.map(|(name, mode)| (own(name), mode)),
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
        let Self { queue, due, payload, name, carries, sync } = self;
        let ticket = match name {
            None => broker.offer(queue, due, &payload, carries),
            Some(name) => broker.offer_named(queue, due, &payload, name, carries),
        };
        Run::Offered(ticket.until(sync), ReplyForm::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        type Name = Option<(&'static [u8], NameMode)>;
        let of = |due, payload: &'static [u8], name: Name| {
            let payload = Cow::Borrowed(payload);
            let carries = Carries::Nothing;
            Ok(Command::Offer(Offer { queue: b"q", due, payload, name, carries, sync: None }))
        };
        let synced = |what| {
            let (payload, carries) = (Cow::Borrowed(&b"p"[..]), Carries::Nothing);
            let (due, sync) = (Due::In(5), Some(what));
            Ok(Command::Offer(Offer { queue: b"q", due, payload, name: None, carries, sync }))
        };
        let (ms, at) = (Due::In(5), Due::At(978_307_200_000));
        check(&[
            ("DQ.OFFER q 30s p", of(Due::In(30_000), b"p", None)),
            ("DQ.OFFER q 5 AT", of(ms, b"AT", None)),
            ("dq.offer q at 978307200000 ''", of(at, b"", None)),
            ("DQ.OFFER q AT 2001-01-01T00:00:00Z p", of(at, b"p", None)),
            ("DQ.OFFER q 5 p NAME n", of(ms, b"p", Some((b"n", NameMode::Replace)))),
            ("DQ.OFFER q 5 p name n nx", of(ms, b"p", Some((b"n", NameMode::Nx)))),
            ("DQ.OFFER q 5 p XX Name n", of(ms, b"p", Some((b"n", NameMode::Xx)))),
            ("DQ.OFFER q 5 p NAME NX", of(ms, b"p", Some((b"NX", NameMode::Replace)))),
            ("DQ.OFFER q 5 p AS raw", of(ms, b"p", None)),
            (
                "DQ.OFFER q 5 abc as Kryo5 NAME n",
                of(ms, b"\x03ab\xe3", Some((b"n", NameMode::Replace))),
            ),
            ("DQ.OFFER q 5 AS NX NAME n AS string", of(ms, b"AS", Some((b"n", NameMode::Nx)))),
            ("DQ.OFFER q 5 p SYNC fsync", synced(Durability::Fsync)),
            ("dq.offer q 5 p sync REPLICAS 2 AS raw", synced(Durability::Replicas(2))),
            ("DQ.OFFER q 5 p SYNC none", of(ms, b"p", None)),
            ("DQ.OFFER q 5 p SYNC", Err("ERR syntax error: SYNC needs a value")),
            ("DQ.OFFER q 5 p SYNC disk", Err("ERR SYNC 'disk' must be fsync, none, or replicas")),
            ("DQ.OFFER q 5 p SYNC replicas", Err("ERR SYNC 'replicas' needs a whole number from")),
            ("DQ.OFFER q 5 p SYNC replicas 17", Err("ERR SYNC 'replicas' needs a whole number")),
            (
                "DQ.OFFER q 5 p SYNC fsync SYNC none",
                Err("ERR syntax error: unexpected argument 'SYNC'"),
            ),
            ("DQ.OFFER q 5 p AS raw AS raw", Err("ERR syntax error: unexpected argument 'AS'")),
            ("DQ.OFFER q 5 p NAME n NX XX", Err("ERR syntax error: unexpected argument 'XX'")),
            ("DQ.OFFER q 5 p NAME n NAME m", Err("ERR syntax error: unexpected argument 'NAME'")),
        ]);
    }
}
