//! `DQ.PEEK queue [COUNT n]`: the next pending messages by due time.
//!
//! Replies with an array of the map of DQ.GET; ends early where a reply would be too large.
//! Errors: ERR (COUNT), BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/range.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.PEEK",
    usage: "queue [COUNT n]",
    summary: "Shows the next pending messages by due time",
    args: 1..=3,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Peek {
    queue: QueueName,
    count: usize,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Peek(Peek {
        queue: args.queue()?,
        count: args.only_count()?,
    }))
}

impl Peek {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, count } = self;
        later(
            broker,
            async move |broker| broker.peek(&queue, count).await,
            message::replies,
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.PEEK q", "Peek { queue: QueueName('q'), count: 10 }"),
            (
                "DQ.PEEK q count 1000",
                "Peek { queue: QueueName('q'), count: 1000 }",
            ),
            (
                "DQ.PEEK q COUNT 0",
                "ERR COUNT '0' must be a whole number from 1 to 1000",
            ),
            (
                "DQ.PEEK q COUNT 1001",
                "ERR COUNT '1001' must be a whole number from 1 to 1000",
            ),
            (
                "DQ.PEEK q COUNT x",
                "ERR COUNT 'x' must be a whole number from 1 to 1000",
            ),
            ("DQ.PEEK q COUNT", "ERR syntax error: COUNT needs a value"),
            ("DQ.PEEK q 5", "ERR syntax error: unexpected argument '5'"),
        ]);
    }
}
