//! `DQ.QUARANTINE queue LIST [COUNT n]`, `RESTORE [member ...]`, `DROP [member ...]`: members that
//! could not be read were put aside so that the rest of the queue goes on.
//!
//! LIST replies with an array of maps of due and member; RESTORE and DROP with how many went back
//! to pending or away: those named, or without names the first 1,000.
//! Errors: ERR, BADQUEUE, TOOBIG, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/quarantine_list.lua`, `lua/quarantine_restore.lua`, `lua/quarantine_drop.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Effect};
use crate::domain::queue::{QueueName, Score, Shown};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{
    Caller, Categories, Category, Command, Flag, Flags, Kind, MANY, Run, Spec, later, logged, show,
};

pub const SPEC: Spec = Spec {
    name: "DQ.QUARANTINE",
    usage: "queue <LIST [COUNT n]|RESTORE [member ...]|DROP [member ...]>",
    summary: "Lists, restores or drops members that cannot be read",
    args: 2..=MANY,
    kind: Kind::Messages,
    flags: Flags::of(&[Flag::Write]),
    categories: Categories::of(&[Category::Admin, Category::Payload]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Quarantine {
    queue: QueueName,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    List { count: usize },
    Restore(Vec<Bytes>),
    Drop(Vec<Bytes>),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let action = if args.takes("LIST") {
        Action::List { count: args.page(&["COUNT"])?.count() }
    } else if args.takes("RESTORE") {
        Action::Restore(args.rest())
    } else if args.takes("DROP") {
        Action::Drop(args.rest())
    } else {
        let word = Shown(args.value()?);
        let text = format_args!("unknown subcommand {word}; LIST, RESTORE or DROP is expected");
        return Err(ArgError::plain(text));
    };
    Ok(Command::Quarantine(Quarantine { queue, action }))
}

impl Quarantine {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, action } = self;
        let name = queue.to_bytes();
        let effect = |members: &u64| Some(Effect::of(*members));
        match action {
            Action::List { count } => {
                later(broker, async move |b| b.queue(&queue).quarantine_list(count).await, rows)
            }
            Action::Restore(members) => logged(
                caller,
                broker,
                ("DQ.QUARANTINE RESTORE", name),
                async move |b| b.queue(&queue).quarantine_restore(members).await,
                effect,
                Reply::count,
            ),
            Action::Drop(members) => logged(
                caller,
                broker,
                ("DQ.QUARANTINE DROP", name),
                async move |b| b.queue(&queue).quarantine_drop(members).await,
                effect,
                Reply::count,
            ),
        }
    }
}

fn rows(members: Vec<(Score, Bytes)>) -> Reply {
    let members = members.into_iter();
    let row = |(score, member): (Score, Bytes)| {
        Reply::map([("due", show::due(score)), ("member", Reply::Bulk(member))])
    };
    Reply::Array(members.map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |action| Ok(Command::Quarantine(Quarantine { queue: queue("q"), action }));
        let members = |all: &[&'static str]| {
            all.iter().map(|one| Bytes::from_static(one.as_bytes())).collect()
        };
        check(&[
            ("DQ.QUARANTINE q list", of(Action::List { count: 10 })),
            ("DQ.QUARANTINE q LIST COUNT 5", of(Action::List { count: 5 })),
            ("DQ.QUARANTINE q Restore a b", of(Action::Restore(members(&["a", "b"])))),
            ("DQ.QUARANTINE q DROP", of(Action::Drop(members(&[])))),
        ]);
    }
}
