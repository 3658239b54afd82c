//! `DQ.PEEK queue [COUNT n] [DECODE]`: the next pending messages by due time.
//!
//! Replies with an array of the map of DQ.GET; ends early where a reply would be too large. DECODE
//! shows payloads as text where they are.
//! Errors: ERR (COUNT), BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/range.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;

use super::args::{ArgError, Args, COUNT_DEFAULT, is};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.PEEK",
    usage: "queue [COUNT n] [DECODE]",
    summary: "Shows the next pending messages by due time",
    args: 1..=4,
    kind: Kind::Messages,
    group: Group::Queue,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Peek {
    queue: QueueName,
    count: usize,
    decode: bool,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let (mut count, mut decode) = (None, false);
    while let Some(option) = args.option() {
        if is(option, "COUNT") && count.is_none() {
            count = Some(args.page()?);
        } else if is(option, "DECODE") && !decode {
            decode = true;
        } else {
            return Err(args.unexpected(option));
        }
    }
    Ok(Command::Peek(Peek {
        queue,
        count: count.unwrap_or(COUNT_DEFAULT),
        decode,
    }))
}

impl Peek {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            count,
            decode,
        } = self;
        later(
            broker,
            async move |broker| broker.peek(&queue, count).await,
            move |messages| message::replies(messages, decode),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |count: usize, decode: bool| {
            format!("Peek {{ queue: QueueName('q'), count: {count}, decode: {decode} }}")
        };
        check(&[
            ("DQ.PEEK q", &read(10, false)),
            ("DQ.PEEK q count 1000", &read(1000, false)),
            ("DQ.PEEK q decode COUNT 5", &read(5, true)),
            (
                "DQ.PEEK q DECODE DECODE",
                "ERR syntax error: unexpected argument 'DECODE'",
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
