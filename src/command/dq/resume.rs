//! `DQ.RESUME queue|ALL`: ends a pause, that of one queue or that of all.
//!
//! Replies with OK, also if there was none. Messages that became due meanwhile are transferred at
//! once.
//! A queue that is paused by itself stays so when that of all ends, and the other way round.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/resume.lua`,
//! `lua/pause_all.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Effect};
use crate::resp::Reply;

use crate::command::dq::pause::{Target, target};
use crate::command::{Caller, Categories, Category, Command, Flag, Flags, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.RESUME",
    usage: "<queue|ALL>",
    summary: "Ends a pause",
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    categories: Categories::of(&[Category::Admin]),
    words: &[("ALL", Categories::of(&[Category::Dangerous]))],
    ..Spec::of_queue(|args| Ok(Command::Resume(Resume(target(args)?))))
};

#[derive(Debug, PartialEq)]
pub struct Resume(Target);

impl Resume {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        logged(
            caller,
            broker,
            (SPEC.name, self.0.name()),
            async move |broker| match self.0 {
                Target::All => broker.resume_all().await,
                Target::One(queue) => broker.queue(&queue).resume().await,
            },
            |()| Some(Effect::default()),
            |()| Reply::Ok,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        check(&[
            ("DQ.RESUME q", Ok(Command::Resume(Resume(Target::One(queue("q")))))),
            ("dq.resume All", Ok(Command::Resume(Resume(Target::All)))),
        ]);
    }
}
