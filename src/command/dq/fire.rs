//! `DQ.FIRE queue message [message ...]`: makes pending messages due now.
//!
//! Replies with the number fired; they are transferred at once unless the queue is paused.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/fire.lua`, one call;
//! `lua/retry.lua` for messages that wait for a retry.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.FIRE",
    usage: "queue message [message ...]",
    summary: "Makes pending messages due now",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(|args| {
        Ok(Command::Fire(Fire { queue: args.queue()?, messages: args.messages()? }))
    })
};

#[derive(Debug, PartialEq)]
pub struct Fire {
    queue: QueueName,
    messages: Vec<MessageRef>,
}

impl Fire {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, messages } = self;
        later(broker, async move |broker| broker.queue(&queue).fire(messages).await, Reply::count)
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
            Ok(Command::Fire(Fire { queue: queue("q"), messages }))
        };
        check(&[
            ("DQ.FIRE q n", of(&["n"])),
            ("dq.fire q n 5-0Aff", of(&["n", "5-0aff"])),
            ("DQ.FIRE q a b ''", Err("BADID message 3: message '' must not be empty")),
            ("DQ.FIRE q 12345678901234567", Err("BADID message '12345678901234567' is longer")),
        ]);
    }
}
