//! `DQ.RESCHEDULE queue message delay`, or `AT time`: gives a pending message another due time.
//!
//! Replies with the new message id (the due time is part of it), or nil if the message is not
//! pending. Payload, name and place in the offer order stay.
//! Errors: BADQUEUE, BADID, BADDELAY, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/reschedule.lua`; `lua/retry.lua` for a message that waits for a retry.
//! `src/command/bulk.rs` has `MATCH pattern`, which does it to all that match.

use std::rc::Rc;

use crate::broker::{Broker, Change};
use crate::domain::queue::{Due, MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::bulk::{self, Bulk};
use crate::command::{Caller, Command, Flag, Flags, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.RESCHEDULE",
    usage: "queue <message delay|MATCH pattern delay [FROM from] [TO to] [COUNT n] \
            [CURSOR c] [DECODE] [DRYRUN]>",
    summary: "Gives a pending message another due time",
    args: 3..=15,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    forms: &[("DQ.RESCHEDULE MATCH", bulk::CHANGES), ("DQ.RESCHEDULE MATCH DRYRUN", bulk::LOOKS)],
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub enum Reschedule {
    This(QueueName, MessageRef, Due),
    Matching(Bulk),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    Ok(Command::Reschedule(match args.takes_match(2) {
        true => {
            let change = |args: &mut Args<'a, '_>| args.due().map(Change::Reschedule);
            Reschedule::Matching(Bulk::parse(queue, args, change)?)
        }
        false => Reschedule::This(queue, args.message()?, args.due()?),
    }))
}

impl Reschedule {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let (queue, message, due) = match self {
            Self::This(queue, message, due) => (queue, message, due),
            Self::Matching(bulk) => return bulk.run(caller, broker),
        };
        later(
            broker,
            async move |broker| broker.queue(&queue).reschedule(message, due).await,
            |id| id.map_or(Reply::Null, |id| id.to_string().into()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, message, queue};

    #[test]
    fn parse() {
        let of = |due| Ok(Command::Reschedule(Reschedule::This(queue("q"), message("n"), due)));
        check(&[
            ("DQ.RESCHEDULE q n 2m", of(Due::In(120_000))),
            ("DQ.RESCHEDULE q n at 1999999999999", of(Due::At(1_999_999_999_999))),
            ("DQ.RESCHEDULE q n x", Err("BADDELAY delay 'x' must be whole milliseconds")),
        ]);
    }
}
