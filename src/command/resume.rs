//! `DQ.RESUME queue`: ends a pause.
//!
//! Replies with OK, also if there was none. What became due meanwhile is transferred at once.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/resume.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::QueueName;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.RESUME",
    usage: "queue",
    summary: "Ends a pause",
    args: 1..=1,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write", "fast"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Resume {
    queue: QueueName,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Resume(Resume {
        queue: args.queue()?,
    }))
}

impl Resume {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        later(
            broker,
            async move |broker| broker.resume(&self.queue).await,
            |()| Reply::Ok,
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("DQ.RESUME q", "Resume { queue: QueueName('q') }"),
            (
                "DQ.RESUME",
                "ERR wrong number of arguments for 'dq.resume' command",
            ),
            (
                "DQ.RESUME q more",
                "ERR wrong number of arguments for 'dq.resume' command",
            ),
            ("DQ.RESUME ''", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
