//! `DQ.CANCEL queue message [message ...]`: cancels pending messages; with
//! `MATCH pattern` all that match.
//!
//! Replies with the number of cancelled messages, which are never delivered; 0 = none is pending.
//! Errors: BADQUEUE, BADID, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/cancel.lua`, one
//! call; `lua/retry.lua` for messages that wait for a retry. `src/command/bulk.rs` has MATCH.

use std::rc::Rc;

use crate::broker::{Broker, Change};

use crate::command::args::{ArgError, Args};
use crate::command::bulk::{self, Each};
use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec};

pub const SPEC: Spec = Spec {
    name: "DQ.CANCEL",
    usage: bulk::USAGE,
    summary: "Cancels pending messages, by id or name",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    forms: &[("DQ.CANCEL MATCH", bulk::CHANGES), ("DQ.CANCEL MATCH DRYRUN", bulk::LOOKS)],
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Cancel(Each);

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Cancel(Cancel(Each::parse(args, Change::Cancel)?)))
}

impl Cancel {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        self.0.run(caller, broker, async |queue, messages| queue.cancel(messages).await)
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
            Ok(Command::Cancel(Cancel(Each::These(queue("q"), messages))))
        };
        check(&[
            ("DQ.CANCEL q n", of(&["n"])),
            ("dq.cancel q n 5-0Aff", of(&["n", "5-0aff"])),
            ("DQ.CANCEL q a b ''", Err("BADID message 3: message '' must not be empty")),
            ("DQ.CANCEL q 12345678901234567", Err("BADID message '12345678901234567' is longer")),
        ]);
    }
}
