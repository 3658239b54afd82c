//! `DQ.CANCEL queue message [message ...]`: cancels pending messages; with
//! `MATCH pattern` all that match.
//!
//! Replies with the number of cancelled messages, which are never delivered; 0 = none is pending.
//! Errors: BADQUEUE, BADID, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/cancel.lua`, one
//! call; `lua/retry.lua` for messages that wait for a retry. `src/command/bulk.rs` has MATCH.

use std::rc::Rc;

use crate::broker::{Broker, Change};
use crate::domain::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::bulk::{self, Bulk};
use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CANCEL",
    usage: "queue <message [message ...]|MATCH pattern [FROM from] [TO to] [COUNT n] \
            [CURSOR c] [DECODE] [DRYRUN]>",
    summary: "Cancels pending messages, by id or name",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    forms: &[("DQ.CANCEL MATCH", bulk::CHANGES), ("DQ.CANCEL MATCH DRYRUN", bulk::LOOKS)],
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub enum Cancel {
    These(QueueName, Vec<MessageRef>),
    Matching(Bulk),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    Ok(Command::Cancel(match args.takes_match(1) {
        true => Cancel::Matching(Bulk::parse(queue, args, |_| Ok(Change::Cancel))?),
        false => Cancel::These(queue, args.messages()?),
    }))
}

impl Cancel {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let (queue, messages) = match self {
            Self::These(queue, messages) => (queue, messages),
            Self::Matching(bulk) => return bulk.run(caller, broker),
        };
        later(broker, async move |broker| broker.queue(&queue).cancel(messages).await, Reply::count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, message, queue};

    #[test]
    fn parse() {
        let of = |messages: &[&str]| {
            let messages = messages.iter().map(|text| message(text)).collect();
            Ok(Command::Cancel(Cancel::These(queue("q"), messages)))
        };
        check(&[
            ("DQ.CANCEL q n", of(&["n"])),
            ("dq.cancel q n 5-0Aff", of(&["n", "5-0aff"])),
            ("DQ.CANCEL q a b ''", Err("BADID message 3: message '' must not be empty")),
            ("DQ.CANCEL q 12345678901234567", Err("BADID message '12345678901234567' is longer")),
        ]);
    }
}
