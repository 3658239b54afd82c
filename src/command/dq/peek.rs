//! `DQ.PEEK queue [COUNT n] [DECODE]`: the next pending messages by due time.
//!
//! Replies with an array of the map of DQ.GET; ends early where a reply would be too large. DECODE
//! shows payloads as text where they are.
//! Errors: ERR (COUNT), BADQUEUE, TOOBIG, WRONGTYPE, UNAVAILABLE. Way: `lua/range.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::QueueName;

use crate::command::args::Page;
use crate::command::{Caller, Categories, Category, Command, Kind, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.PEEK",
    usage: "queue [COUNT n] [DECODE]",
    summary: "Shows the next pending messages by due time",
    args: 1..=4,
    kind: Kind::Messages,
    categories: Categories::of(&[Category::Read, Category::Payload]),
    ..Spec::reading(|args| {
        Ok(Command::Peek(Peek { queue: args.queue()?, page: args.page(&["COUNT", "DECODE"])? }))
    })
};

#[derive(Debug, PartialEq)]
pub struct Peek {
    queue: QueueName,
    page: Page,
}

impl Peek {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let (queue, count, decode) = (self.queue, self.page.count(), self.page.decode);
        later(
            broker,
            async move |broker| broker.queue(&queue).peek(count).await,
            move |messages| show::replies(messages, decode),
        )
    }
}
