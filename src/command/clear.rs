//! `DQ.CLEAR queue`: drops all pending messages.
//!
//! Replies with their number. The destination list and a pause stay as they are.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/clear.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CLEAR",
    usage: "queue",
    summary: "Drops all pending messages",
    args: 1..=1,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Clear {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Clear(Clear {
        queue: args.queue()?,
    }))
}

impl Clear {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        later(
            broker,
            async move |broker| broker.clear(&self.queue).await,
            Reply::count,
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.CLEAR q", "Clear { queue: QueueName('q') }"),
            (
                "DQ.CLEAR",
                "ERR wrong number of arguments for 'dq.clear' command",
            ),
            (
                "DQ.CLEAR q more",
                "ERR wrong number of arguments for 'dq.clear' command",
            ),
            ("DQ.CLEAR ''", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
