//! `DQ.POLL queue [COUNT n]`: takes pending messages in offer order, whatever their due time.
//!
//! Replies with an array of payloads, as Redisson's `poll(limit)`: one, unless COUNT says more, so
//! that a look at a queue takes no more than LPOP does. At most once: if the reply is lost, so are
//! its messages. Errors: ERR (COUNT), BADQUEUE, TOOBIG (nothing was taken), WRONGTYPE,
//! UNAVAILABLE, UNCERTAIN.
//! Way: `lua/poll.lua`; without an order list pages of `lua/first.lua`, then
//! `lua/poll_pending.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Effect};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::{Caller, Categories, Category, Command, Kind, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.POLL",
    usage: "queue [COUNT n]",
    summary: "Takes pending messages in offer order, whatever their due time",
    args: 1..=3,
    kind: Kind::Messages,
    categories: Categories::of(&[Category::Write, Category::Payload]),
    ..Spec::writing(|args| {
        Ok(Command::Poll(Poll { queue: args.queue()?, count: args.page(&["COUNT"])?.count_or(1) }))
    })
};

#[derive(Debug, PartialEq)]
pub struct Poll {
    queue: QueueName,
    count: usize,
}

impl Poll {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, count } = self;
        let name = queue.to_bytes();
        let call = async move |broker: &Broker| broker.queue(&queue).poll(count).await;
        // A client that polls an empty queue again and again is not logged.
        let effect = |taken: &Vec<Bytes>| match taken.len() as u64 {
            0 => None,
            taken => Some(Effect::of(taken)),
        };
        logged(caller, broker, (SPEC.name, name), call, effect, |taken| {
            Reply::Array(taken.into_iter().map(Reply::Bulk).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |count| Ok(Command::Poll(Poll { queue: queue("q"), count }));
        check(&[("DQ.POLL q", of(1)), ("DQ.POLL q Count 7", of(7))]);
    }
}
