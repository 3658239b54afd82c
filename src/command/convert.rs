//! `DQ.CONVERT queue [MODERN|LEGACY]`: rewrites pending messages that are packed in the other
//! format in this one, or in that of the queue.
//!
//! Replies with a map: how many were converted, and how many are left as they are, because the
//! format cannot hold them or nobody can read them. Ids, names, due times and places stay. What is
//! offered meanwhile may be overlooked; it may be cancelled and repeated.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: pages of `lua/convert_listed.lua`,
//! then of `lua/convert_pending.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::queue::{Format, QueueName};
use crate::resp::Reply;
use crate::store::convert::Converted;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

pub const SPEC: Spec = Spec {
    name: "DQ.CONVERT",
    usage: "queue [MODERN|LEGACY]",
    summary: "Rewrites pending messages in one of the formats that Redisson reads",
    args: 1..=2,
    kind: Kind::Store,
    group: Group::Queue,
    flags: &["write"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Convert {
    queue: QueueName,
    /// `None`: that of the queue's new messages.
    format: Option<Format>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let format = if args.takes("MODERN") {
        Some(Format::Modern)
    } else if args.takes("LEGACY") {
        Some(Format::Legacy)
    } else {
        None
    };
    Ok(Command::Convert(Convert { queue, format }))
}

impl Convert {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, format } = self;
        let call = async move |broker: &Broker| broker.convert(&queue, format).await;
        later(broker, call, |Converted { converted, left }| {
            Reply::map([
                ("converted", Reply::count(converted)),
                ("left", Reply::count(left)),
            ])
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            (
                "DQ.CONVERT q",
                "Convert { queue: QueueName('q'), format: None }",
            ),
            (
                "DQ.CONVERT q modern",
                "Convert { queue: QueueName('q'), format: Some(Modern) }",
            ),
            (
                "DQ.CONVERT LEGACY LEGACY",
                "Convert { queue: QueueName('LEGACY'), format: Some(Legacy) }",
            ),
            (
                "DQ.CONVERT q old",
                "ERR syntax error: unexpected argument 'old'; usage: DQ.CONVERT queue [MODERN|LEG",
            ),
            (
                "DQ.CONVERT q MODERN LEGACY",
                "ERR wrong number of arguments for 'dq.convert' command",
            ),
            (
                "DQ.CONVERT",
                "ERR wrong number of arguments for 'dq.convert' command",
            ),
            ("DQ.CONVERT ''", "BADQUEUE queue '' must not be empty"),
        ]);
    }
}
