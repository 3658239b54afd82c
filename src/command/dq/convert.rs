//! `DQ.CONVERT queue [MODERN|LEGACY]`: rewrites pending messages that are packed in the other
//! format in this one, or in that of the queue.
//!
//! Replies with a map: how many were converted, and how many are left as they are, because the
//! format cannot hold them or nobody can read them. Ids, names, due times and places stay. Messages
//! that are offered meanwhile may be overlooked. The command may be cancelled and repeated.
//! Errors: BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: pages of `lua/convert_listed.lua`,
//! then of `lua/convert_pending.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Converted, Effect};
use crate::domain::queue::{Format, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Categories, Category, Command, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.CONVERT",
    usage: "queue [MODERN|LEGACY]",
    summary: "Rewrites pending messages in one of the formats that Redisson reads",
    args: 1..=2,
    categories: Categories::of(&[Category::Admin]),
    ..Spec::writing(parse)
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
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, format } = self;
        let name = queue.to_bytes();
        let call = async move |broker: &Broker| broker.queue(&queue).convert(format).await;
        let effect = |done: &Converted| Some(Effect::of(done.converted));
        let reply = |Converted { converted, left }| {
            Reply::map([("converted", Reply::count(converted)), ("left", Reply::count(left))])
        };
        logged(caller, broker, (SPEC.name, name), call, effect, reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |name, format| Ok(Command::Convert(Convert { queue: queue(name), format }));
        check(&[
            ("DQ.CONVERT q", of("q", None)),
            ("DQ.CONVERT q modern", of("q", Some(Format::Modern))),
            ("DQ.CONVERT LEGACY LEGACY", of("LEGACY", Some(Format::Legacy))),
        ]);
    }
}
