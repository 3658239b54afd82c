//! `DQ.EXTEND queue receipt [receipt ...] [LEASE d]`: leases messages for longer.
//!
//! Replies with how many were extended. The time counts from now, and is not added. A lease that
//! has run out is extended too, as long as no DQ.TAKE of the queue came by; what was given back is
//! not.
//! Errors: BADID, BADDELAY, BADQUEUE, TOOMANY, WRONGTYPE, UNAVAILABLE, UNCERTAIN (it may be
//! repeated). Way: `lua/extend.lua`, one call.

use std::rc::Rc;

use crate::broker::{Broker, Settlement};
use crate::domain::lease::Receipt;
use crate::domain::queue::QueueName;

use crate::command::args::{ArgError, Args};
use crate::command::dq::take::lease;
use crate::command::{Caller, Command, Flag, Flags, Kind, MANY, Run, Spec, settled};

pub const SPEC: Spec = Spec {
    name: "DQ.EXTEND",
    usage: "queue receipt [receipt ...] [LEASE d]",
    summary: "Leases messages that were taken for longer",
    args: 2..=MANY,
    kind: Kind::Settle,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Extend {
    queue: QueueName,
    receipts: Vec<Receipt>,
    /// `None`: that of the queue.
    lease_ms: Option<u64>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (queue, receipts) = (args.queue()?, args.receipts(&["LEASE"])?);
    let lease_ms = args.takes("LEASE").then(|| lease(args)).transpose()?;
    Ok(Command::Extend(Extend { queue, receipts, lease_ms }))
}

impl Extend {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, receipts, lease_ms } = self;
        let line = (queue.clone(), Settlement::Extend { lease_ms });
        let tied = caller.tied.get().map(|tied| (Rc::clone(tied), receipts.clone()));
        let call = async move |broker: &Broker| {
            let extended = broker.queue(&queue).extend(receipts, lease_ms).await?;
            if let Some((tied, receipts)) = tied {
                tied.extended(&queue, &receipts);
            }
            Ok(extended)
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
        let of = |count, lease_ms| {
            let receipts = vec![Receipt { id: [0xff; 8], delivery: 1 }; count];
            Ok(Command::Extend(Extend { queue: queue("q"), receipts, lease_ms }))
        };
        check(&[
            ("DQ.EXTEND q ffffffffffffffff:1", of(1, None)),
            ("DQ.EXTEND q ffffffffffffffff:1 ffffffffffffffff:1 lease 1m", of(2, Some(60_000))),
            ("DQ.EXTEND q LEASE 1m", Err("BADID receipt 1: receipt 'LEASE' must be")),
            ("DQ.EXTEND q ffffffffffffffff:1 LEASE 0", Err("BADDELAY LEASE '0' must be at")),
            ("DQ.EXTEND q ffffffffffffffff:1 LEASE 1m x", Err("ERR syntax error: unexpected")),
        ]);
    }
}
