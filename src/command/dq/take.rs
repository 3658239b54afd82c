//! `DQ.TAKE queue [COUNT n] [BLOCK d] [LEASE d] [TIED] [DECODE] [ALSO queue ...]`: takes delivered
//! messages for a time.
//!
//! Replies with an array of maps: receipt, id, attempt (1 = the first), until (Unix ms), payload,
//! message (for DQ.CANCEL and its like, while it waits for a retry); where there are any, headers
//! (a map), name, expires (Unix ms); with ALSO the queue; with DECODE the payload as text, and
//! encoding. Nil if nothing came. A message that is not settled by `until` can be taken again.
//! BLOCK as in XREADGROUP: without it the call does not wait, 0 waits for ever. TIED: what is not
//! settled when the connection closes goes back at once, and the attempt counts. ALSO stands last:
//! queues, 64 at most in all, are asked from left to right.
//! Errors: ERR (COUNT), BADQUEUE, BADDELAY, TOOBIG, TOOMANY, WRONGTYPE, UNAVAILABLE, UNCERTAIN
//! (what it leased comes back when the lease ends).
//! Way: `scheduler::takers`, `lua/take.lua`.

use std::rc::Rc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, TakeRequest, TakenMessages};
use crate::domain::queue::QueueName;
use crate::domain::setting::LEASE;
use crate::resp::{Encoded, Reply};

use crate::command::args::{ArgError, Args, bad_delay, is};
use crate::command::{
    Caller, Categories, Category, Command, Failure, Flag, Flags, Handed, MANY, Run, Spec, show,
};

pub const SPEC: Spec = Spec {
    name: "DQ.TAKE",
    usage: "queue [COUNT n] [BLOCK d] [LEASE d] [TIED] [DECODE] [ALSO queue ...]",
    summary: "Takes delivered messages for a time, or waits for them",
    args: 1..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Blocking]),
    categories: Categories::of(&[Category::Write, Category::Payload]),
    ..Spec::writing(parse)
};

/// Each is asked with a call of its own.
const QUEUES_MAX: usize = 64;

#[derive(Debug, PartialEq)]
pub struct Take {
    queues: Vec<QueueName>,
    count: usize,
    /// `None`: it does not wait; 0: for ever.
    block_ms: Option<u64>,
    /// `None`: that of the queue.
    lease_ms: Option<u64>,
    tied: bool,
    decode: bool,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let mut take = Take {
        queues: vec![args.queue()?],
        count: 1,
        block_ms: None,
        lease_ms: None,
        tied: false,
        decode: false,
    };
    let mut seen: Vec<&'static str> = Vec::new();
    while let Some(option) = args.option() {
        let words = ["COUNT", "BLOCK", "LEASE", "TIED", "DECODE", "ALSO"];
        let word = words.into_iter().find(|word| is(option, word) && !seen.contains(word));
        seen.extend(word);
        match word {
            Some("COUNT") => {
                let count = args.count(1..=args.rules.take_count_max as u64)?;
                take.count = usize::try_from(count).unwrap_or(1);
            }
            Some("BLOCK") => take.block_ms = Some(args.ms("BLOCK", args.rules.block_ms_max)?),
            Some("LEASE") => take.lease_ms = Some(lease(args)?),
            Some("TIED") => take.tied = true,
            Some("DECODE") => take.decode = true,
            Some("ALSO") => {
                take.queues.push(args.queue()?);
                while args.left() > 0 {
                    take.queues.push(args.queue()?);
                }
                if take.queues.len() > QUEUES_MAX {
                    let text = format_args!("more queues than {QUEUES_MAX} in one DQ.TAKE");
                    return Err(ArgError::new("TOOMANY", text));
                }
            }
            _ => return Err(args.unexpected(option)),
        }
    }
    Ok(Command::Take(take))
}

/// The value of `LEASE`.
pub fn lease(args: &mut Args<'_, '_>) -> Result<u64, ArgError> {
    let raw = args.value_of("LEASE")?;
    LEASE.parse_number(raw).map_err(|rule| bad_delay("LEASE", raw, rule))
}

impl Take {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let named = self.queues.iter().map(QueueName::as_bytes);
        let user = caller.user.as_ref();
        let refused = named.skip(1).find(|name| user.is_none_or(|user| !user.may_name(name)));
        if let Some(name) = refused {
            let user = user.map_or_else(String::new, |user| user.name.clone());
            return Run::Ready(Failure::NoQueue { user, queue: name.to_vec() }.into());
        }
        let Self { queues, count, block_ms, lease_ms, tied, decode } = self;
        let shows_queue = queues.len() > 1;
        let block = block_ms.map(|ms| (ms > 0).then(|| Duration::from_millis(ms)));
        let tied = tied.then(|| Rc::clone(caller.tied.get_or_init(|| broker.tied())));
        let request = TakeRequest { queues, count, block, lease_ms, tied };
        let (broker, enough) = (Rc::clone(broker), CancellationToken::new());
        let stop = enough.clone();
        let reply = async move {
            match broker.take(request, &stop).await {
                Ok(Some(taken)) => reply(taken, decode, shows_queue),
                Ok(None) => (Reply::Encoded(Encoded::null_array()), None),
                Err(error) => (Failure::from(error).into(), None),
            }
        };
        Run::Parked(Box::pin(reply), enough)
    }
}

fn reply(taken: TakenMessages, decode: bool, shows_queue: bool) -> Handed {
    let TakenMessages { queue, until_ms, messages, unsent } = taken;
    let rows = messages.into_iter().map(|message| {
        let (payload, encoding) = show::payload(message.payload, decode);
        let fields = [
            ("receipt", message.receipt.to_string().into()),
            ("id", hex::encode(message.receipt.id).into()),
            ("attempt", Reply::count(message.attempt)),
            ("until", Reply::count(until_ms)),
            ("payload", payload),
            ("message", format!("0-{}", hex::encode(message.receipt.id)).into()),
        ];
        let envelope = message.envelope;
        let headers = show::headers(&envelope);
        let name = envelope.name.map(|name| ("name", Reply::Bulk(name)));
        let expires = envelope.expires_ms.map(|ms| ("expires", Reply::count(ms)));
        let queue = shows_queue.then(|| ("queue", Reply::Bulk(queue.to_bytes())));
        let fields = fields.into_iter().chain(headers).chain(name).chain(expires);
        let fields = fields.chain(encoding).chain(queue);
        Reply::Map(fields.map(|(key, value)| (key.into(), value)).collect())
    });
    (Reply::Array(rows.collect()), Some(unsent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let take = |names: &[&'static str]| Take {
            queues: names.iter().map(|name| queue(name)).collect(),
            count: 1,
            block_ms: None,
            lease_ms: None,
            tied: false,
            decode: false,
        };
        let of = |take| Ok(Command::Take(take));
        let many = format!("DQ.TAKE q ALSO{}", " b".repeat(64));
        check(&[
            ("DQ.TAKE q", of(take(&["q"]))),
            ("DQ.TAKE q BLOCK 0", of(Take { block_ms: Some(0), ..take(&["q"]) })),
            (
                "DQ.TAKE q count 1000 block 5s tied Lease 2m decode also b count",
                of(Take {
                    count: 1_000,
                    block_ms: Some(5_000),
                    lease_ms: Some(120_000),
                    tied: true,
                    decode: true,
                    ..take(&["q", "b", "count"])
                }),
            ),
            ("DQ.TAKE q COUNT 0", Err("ERR COUNT '0' must be a whole number from 1 to 1000")),
            ("DQ.TAKE q COUNT 1001", Err("ERR COUNT '1001' must be a whole number from 1 to")),
            ("DQ.TAKE q BLOCK -1", Err("BADDELAY BLOCK '-1' must not be negative")),
            ("DQ.TAKE q BLOCK 2d", Err("BADDELAY BLOCK '2d' ")),
            ("DQ.TAKE q BLOCK", Err("ERR syntax error: BLOCK needs a value")),
            ("DQ.TAKE q LEASE 99", Err("BADDELAY LEASE '99' must be at least 100 ms")),
            ("DQ.TAKE q LEASE 25h", Err("BADDELAY LEASE '25h' ")),
            ("DQ.TAKE q COUNT 1 COUNT 1", Err("ERR syntax error: unexpected argument 'COUNT'")),
            ("DQ.TAKE q ALSO", Err("ERR wrong number of arguments for 'dq.take'")),
            ("DQ.TAKE q ALSO ''", Err("BADQUEUE queue '' must not be empty")),
            (&many, Err("TOOMANY more queues than 64 in one DQ.TAKE")),
            ("DQ.TAKE q TIED TIED", Err("ERR syntax error: unexpected argument 'TIED'")),
        ]);
    }
}
