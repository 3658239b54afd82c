//! `DQ.POLL queue [COUNT n]`: takes pending messages in offer order, whatever their due time.
//!
//! Replies with an array of payloads, as Redisson's `poll(limit)`. At most once: if the reply is
//! lost, so are its messages. Errors: ERR (COUNT), BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/poll.lua`; without an order list pages of `lua/first.lua`, then `lua/take.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.POLL",
    usage: "queue [COUNT n]",
    summary: "Takes pending messages in offer order, whatever their due time",
    args: 1..=3,
    kind: Kind::Messages,
    group: Group::Queue,
    flags: &["write"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Poll {
    queue: QueueName,
    count: usize,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Poll(Poll {
        queue: args.queue()?,
        count: args.only_count()?,
    }))
}

impl Poll {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, count } = self;
        let call = async move |broker: &Broker| broker.poll(&queue, count).await;
        later(broker, call, |taken| {
            Reply::Array(taken.into_iter().map(Reply::Bulk).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.POLL q", "Poll { queue: QueueName('q'), count: 10 }"),
            (
                "DQ.POLL q Count 1",
                "Poll { queue: QueueName('q'), count: 1 }",
            ),
            (
                "DQ.POLL q COUNT 1001",
                "ERR COUNT '1001' must be a whole number from 1 to 1000",
            ),
            (
                "DQ.POLL q LIMIT 5",
                "ERR syntax error: unexpected argument 'LIMIT'",
            ),
            (
                "DQ.POLL q COUNT 5 6",
                "ERR wrong number of arguments for 'dq.poll' command",
            ),
        ]);
    }
}
