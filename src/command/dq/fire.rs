//! `DQ.FIRE queue message [message ...]`: makes pending messages due now; with
//! `MATCH pattern` all that match.
//!
//! Replies with the number fired; they are transferred at once unless the queue is paused.
//! Errors: BADQUEUE, BADID, BADTIME, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/fire.lua`, one
//! call; `lua/retry.lua` for messages that wait for a retry. `src/command/bulk.rs` has MATCH.

use std::rc::Rc;

use crate::broker::{Broker, Change};

use crate::command::args::{ArgError, Args};
use crate::command::bulk::{self, Each};
use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec};

pub const SPEC: Spec = Spec {
    name: "DQ.FIRE",
    usage: bulk::USAGE,
    summary: "Makes pending messages due now",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    forms: &[("DQ.FIRE MATCH", bulk::CHANGES), ("DQ.FIRE MATCH DRYRUN", bulk::LOOKS)],
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Fire(Each);

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Fire(Fire(Each::parse(args, Change::Fire)?)))
}

impl Fire {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        self.0.run(caller, broker, async |queue, messages| queue.fire(messages).await)
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
            Ok(Command::Fire(Fire(Each::These(queue("q"), messages))))
        };
        check(&[
            ("DQ.FIRE q n", of(&["n"])),
            ("dq.fire q n 5-0Aff", of(&["n", "5-0aff"])),
            ("DQ.FIRE q a b ''", Err("BADID message 3: message '' must not be empty")),
            ("DQ.FIRE q 12345678901234567", Err("BADID message '12345678901234567' is longer")),
        ]);
    }
}
