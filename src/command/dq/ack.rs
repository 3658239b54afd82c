//! `DQ.ACK queue receipt [receipt ...]`: settles messages that DQ.TAKE handed out as done.
//!
//! Replies with how many were done by this call; a receipt counts until its message is handed out
//! again, also after its lease has run out, and from any connection. 0 = settled before, or handed
//! out again. Errors: BADID, BADQUEUE, TOOMANY, WRONGTYPE, UNAVAILABLE, UNCERTAIN (it may be
//! repeated). Way: `lua/ack.lua`, one call.

use std::rc::Rc;

use crate::broker::{Broker, Settlement};
use crate::domain::lease::Receipt;
use crate::domain::queue::QueueName;

use crate::command::{Caller, Command, Flag, Flags, Kind, MANY, Run, Spec, settled};

pub const SPEC: Spec = Spec {
    name: "DQ.ACK",
    usage: "queue receipt [receipt ...]",
    summary: "Settles messages that were taken as done",
    args: 2..=MANY,
    kind: Kind::Settle,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(|args| {
        Ok(Command::Ack(Ack { queue: args.queue()?, receipts: args.receipts(&[])? }))
    })
};

#[derive(Debug, PartialEq)]
pub struct Ack {
    queue: QueueName,
    receipts: Vec<Receipt>,
}

impl Ack {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, receipts } = self;
        let line = (queue.clone(), Settlement::Ack);
        let tied = caller.tied.get().map(|tied| (Rc::clone(tied), receipts.clone()));
        let call = async move |broker: &Broker| {
            let acked = broker.queue(&queue).ack(receipts).await?;
            if let Some((tied, receipts)) = tied {
                tied.settled(&queue, &receipts);
            }
            Ok(acked)
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
        let of = |deliveries: &[u64]| {
            let receipt = |&delivery| Receipt { id: [0, 0, 0, 0, 0, 0, 0, 0xff], delivery };
            let receipts = deliveries.iter().map(receipt).collect();
            Ok(Command::Ack(Ack { queue: queue("q"), receipts }))
        };
        check(&[
            ("DQ.ACK q 00000000000000ff:1", of(&[1])),
            ("dq.ack q 00000000000000FF:2 00000000000000ff:13", of(&[2, 13])),
            (
                "DQ.ACK q 00000000000000ff:1 00000000000000ff",
                Err("BADID receipt 2: receipt '00000000000000ff' must be the receipt that DQ.TAKE"),
            ),
            ("DQ.ACK q ''", Err("BADID receipt 1: receipt '' must be")),
            ("DQ.ACK q", Err("ERR wrong number of arguments for 'dq.ack'")),
        ]);
    }
}
