//! `DQ.CANCEL queue message [message ...]`: cancels pending messages.
//!
//! Replies with the number of cancelled messages, which are never delivered; 0 = none is pending.
//! Errors: BADQUEUE, BADID, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/cancel.lua`, one call;
//! `lua/retry.lua` for messages that wait for a retry.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::{MessageRef, QueueName};
use crate::resp::Reply;

use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CANCEL",
    usage: "queue message [message ...]",
    summary: "Cancels pending messages, by id or name",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    ..Spec::writing(|args| {
        Ok(Command::Cancel(Cancel { queue: args.queue()?, messages: args.messages()? }))
    })
};

#[derive(Debug, PartialEq)]
pub struct Cancel {
    queue: QueueName,
    messages: Vec<MessageRef>,
}

impl Cancel {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, messages } = self;
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
            Ok(Command::Cancel(Cancel { queue: queue("q"), messages }))
        };
        check(&[
            ("DQ.CANCEL q n", of(&["n"])),
            ("dq.cancel q n 5-0Aff", of(&["n", "5-0aff"])),
            ("DQ.CANCEL q a b ''", Err("BADID message 3: message '' must not be empty")),
            ("DQ.CANCEL q 12345678901234567", Err("BADID message '12345678901234567' is longer")),
        ]);
    }
}
