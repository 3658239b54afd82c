//! `DQ.QUARANTINE queue LIST [COUNT n]`, `RESTORE [member ...]`, `DROP [member ...]`: members that
//! could not be read were put aside so that the rest of the queue goes on.
//!
//! LIST replies with an array of maps of due and member; RESTORE and DROP with how many went back
//! to pending or away: those named, or without names the first 1,000.
//! Errors: ERR, BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/quarantine_list.lua`, `lua/quarantine_restore.lua`, `lua/quarantine_drop.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::queue::{QueueName, Shown};
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, MANY, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.QUARANTINE",
    usage: "queue <LIST [COUNT n]|RESTORE [member ...]|DROP [member ...]>",
    summary: "Shows, restores or drops members that could not be read",
    args: 2..=MANY,
    kind: Kind::Messages,
    group: Group::Queue,
    flags: &["write"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Quarantine {
    queue: QueueName,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    List { count: usize },
    Restore(Vec<Bytes>),
    Drop(Vec<Bytes>),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let what = if args.takes("LIST") {
        What::List {
            count: args.only_count()?,
        }
    } else if args.takes("RESTORE") {
        What::Restore(args.rest())
    } else if args.takes("DROP") {
        What::Drop(args.rest())
    } else {
        let word = Shown(args.value()?);
        let text = format_args!("unknown subcommand {word}; LIST, RESTORE or DROP is expected");
        return Err(ArgError::plain(text));
    };
    Ok(Command::Quarantine(Quarantine { queue, what }))
}

impl Quarantine {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { queue, what } = self;
        match what {
            What::List { count } => later(
                broker,
                async move |b| b.quarantine_list(&queue, count).await,
                rows,
            ),
            What::Restore(members) => later(
                broker,
                async move |b| b.quarantine_restore(&queue, members).await,
                Reply::count,
            ),
            What::Drop(members) => later(
                broker,
                async move |b| b.quarantine_drop(&queue, members).await,
                Reply::count,
            ),
        }
    }
}

fn rows(members: Vec<(String, Bytes)>) -> Reply {
    let members = members.into_iter();
    let row = |(score, member): (String, Bytes)| {
        Reply::map([
            ("due", message::due(&score)),
            ("member", Reply::Bulk(member)),
        ])
    };
    Reply::Array(members.map(row).collect())
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |what: &str| format!("Quarantine {{ queue: QueueName('q'), what: {what} }}");
        check(&[
            ("DQ.QUARANTINE q list", &read("List { count: 10 }")),
            ("DQ.QUARANTINE q LIST COUNT 5", &read("List { count: 5 }")),
            ("DQ.QUARANTINE q RESTORE", &read("Restore([])")),
            (
                "DQ.QUARANTINE q Restore a b",
                &read("Restore([b\"a\", b\"b\"])"),
            ),
            ("DQ.QUARANTINE q DROP a", &read("Drop([b\"a\"])")),
            (
                "DQ.QUARANTINE q",
                "ERR wrong number of arguments for 'dq.quarantine' command",
            ),
            (
                "DQ.QUARANTINE q SHOW",
                "ERR unknown subcommand 'SHOW'; LIST, RESTORE or DROP",
            ),
            (
                "DQ.QUARANTINE q LIST 5",
                "ERR syntax error: unexpected argument '5'",
            ),
        ]);
    }
}
