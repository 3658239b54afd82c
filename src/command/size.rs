//! `DQ.SIZE queue`: how many messages are pending.
//!
//! Replies with the number; what is due but not transferred yet counts, too.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/info.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.SIZE",
    usage: "queue",
    summary: "Counts the pending messages",
    args: 1..=1,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["readonly", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Size {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Size(Size {
        queue: args.queue()?,
    }))
}

impl Size {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        later(
            broker,
            async move |broker| broker.size(&self.queue).await,
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
            ("DQ.SIZE q", "Size { queue: QueueName('q') }"),
            (
                "DQ.SIZE",
                "ERR wrong number of arguments for 'dq.size' command",
            ),
            (
                "DQ.SIZE q more",
                "ERR wrong number of arguments for 'dq.size' command",
            ),
            ("DQ.SIZE ''", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
