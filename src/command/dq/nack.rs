//! `DQ.NACK queue <receipt [receipt ...]|GROUP group entry-id [entry-id ...]> [FAIL|SILENT|FATAL]
//! [DELAY d] [REASON text]`: gives messages back that DQ.TAKE handed out, or entries of a stream
//! that a consumer of a group has read.
//!
//! FAIL (the default) counts the attempt: the message can be taken again after a growing wait, or
//! is dead at the last attempt. SILENT does not count it, and does not wait. FATAL: it is dead at
//! once. DELAY says another wait; from the third delivery on it is at least 100 ms. Replies with
//! how many were given back, those that died included.
//! Errors: ERR, BADID, BADDELAY, BADQUEUE, TOOBIG (REASON), TOOMANY, WRONGTYPE, UNAVAILABLE,
//! UNCERTAIN (it may be repeated). Way: `lua/nack.lua`, of a stream `lua/stream_nack.lua`; one
//! call.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Settlement};
use crate::domain::lease::{self, NackMode, REASON_BYTES_MAX, Receipt};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::{Caller, Command, Flag, Flags, Kind, MANY, Run, Spec, later, settled};

pub const SPEC: Spec = Spec {
    name: "DQ.NACK",
    usage: "queue <receipt [receipt ...]|GROUP group entry-id [entry-id ...]> \
            [FAIL|SILENT|FATAL] [DELAY d] [REASON text]",
    summary: "Gives messages that were taken back, to be retried or put aside",
    args: 2..=MANY,
    kind: Kind::Settle,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Nack {
    queue: QueueName,
    which: Which,
    how: lease::Nack,
}

#[derive(Debug, PartialEq)]
enum Which {
    Taken(Vec<Receipt>),
    /// Of a group: ids of entries.
    Entries(Bytes, Vec<Bytes>),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let words = ["FAIL", "SILENT", "FATAL", "DELAY", "REASON"];
    let queue = args.queue()?;
    let which = if args.takes("GROUP") {
        let group = Bytes::copy_from_slice(args.value_of("GROUP")?);
        Which::Entries(group, args.entries(&words)?)
    } else {
        Which::Taken(args.receipts(&words)?)
    };
    let (mut mode, mut delay_ms, mut reason) = (None, None, None);
    while let Some(option) = args.option() {
        let named = NackMode::WORDS.into_iter().find(|(_, word)| is(option, word));
        if let (Some((named, _)), None) = (named, mode) {
            mode = Some(named);
        } else if is(option, "DELAY") && delay_ms.is_none() {
            delay_ms = Some(args.ms("DELAY", args.rules.delay_max_ms)?);
        } else if is(option, "REASON") && reason.is_none() {
            let text = args.value_of("REASON")?;
            if text.len() > REASON_BYTES_MAX {
                let size = text.len();
                let rule =
                    format_args!("REASON of {size} bytes is larger than {REASON_BYTES_MAX} bytes");
                return Err(ArgError::new("TOOBIG", rule));
            }
            reason = Some(Bytes::copy_from_slice(text));
        } else {
            return Err(args.unexpected(option));
        }
    }
    let (mode, reason) = (mode.unwrap_or(NackMode::Fail), reason.unwrap_or_default());
    Ok(Command::Nack(Nack { queue, which, how: lease::Nack { mode, delay_ms, reason } }))
}

impl Nack {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, which, how } = self;
        let receipts = match which {
            Which::Taken(receipts) => receipts,
            Which::Entries(group, entries) => {
                let call = async move |broker: &Broker| {
                    broker.queue(&queue).stream_nack(group, entries, &how).await
                };
                return later(broker, call, Reply::count);
            }
        };
        let line = (queue.clone(), Settlement::Nack(how.clone()));
        let tied = caller.tied.get().map(|tied| (Rc::clone(tied), receipts.clone()));
        let call = async move |broker: &Broker| {
            let nacked = broker.queue(&queue).nack(receipts, how).await?;
            if let Some((tied, receipts)) = tied {
                tied.settled(&queue, &receipts);
            }
            Ok(nacked)
        };
        settled(line, broker, call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |mode, delay_ms, reason: &'static str| {
            Ok(Command::Nack(Nack {
                queue: queue("q"),
                which: Which::Taken(vec![Receipt { id: [0xff; 8], delivery: 1 }]),
                how: lease::Nack { mode, delay_ms, reason: reason.into() },
            }))
        };
        let entries = |ids: &[&'static str]| {
            let ids = ids.iter().map(|id| Bytes::from(*id)).collect();
            Ok(Command::Nack(Nack {
                queue: queue("q"),
                which: Which::Entries("g".into(), ids),
                how: lease::Nack { mode: NackMode::Silent, delay_ms: None, reason: "".into() },
            }))
        };
        check(&[
            ("DQ.NACK q GROUP g 1-0 SILENT", entries(&["1-0"])),
            (
                "DQ.NACK q group g 1-0 18446744073709551615-7 silent",
                entries(&["1-0", "18446744073709551615-7"]),
            ),
            ("DQ.NACK q GROUP g", Err("ERR wrong number of arguments for 'dq.nack'")),
            ("DQ.NACK q GROUP g x", Err("BADID entry 1: 'x' must be the id that XREADGROUP gave")),
            ("DQ.NACK q GROUP g 1", Err("BADID entry 1: '1' must be")),
            ("DQ.NACK q GROUP g 1-0 -", Err("BADID entry 2: '-' must be")),
            ("DQ.NACK q GROUP g 1-18446744073709551616", Err("BADID entry 1: ")),
            ("DQ.NACK q ffffffffffffffff:1", of(NackMode::Fail, None, "")),
            ("DQ.NACK q ffffffffffffffff:1 silent", of(NackMode::Silent, None, "")),
            (
                "DQ.NACK q ffffffffffffffff:1 REASON fatal DELAY 0 Fatal",
                of(NackMode::Fatal, Some(0), "fatal"),
            ),
            ("DQ.NACK q ffffffffffffffff:1 FAIL SILENT", Err("ERR syntax error: unexpected")),
            ("DQ.NACK q ffffffffffffffff:1 DELAY 2d", Err("BADDELAY DELAY '2d' ")),
            ("DQ.NACK q FAIL", Err("BADID receipt 1: receipt 'FAIL' must be")),
            ("DQ.NACK q ffffffffffffffff:1 x", Err("BADID receipt 2: receipt 'x' must be")),
        ]);
    }
}
