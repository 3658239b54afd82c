//! `DQ.TAKEN queue [LEASED|WAITING] [COUNT n] [CURSOR c]`: pages of the messages that consumers
//! have taken.
//!
//! Replies with the next cursor (`0` at the end) and an array of maps: id, attempt, until (LEASED,
//! the default: the end of the lease) or from (WAITING: when it can be taken again), reason (nil
//! where none was given). A lease that ran out is listed until a DQ.TAKE comes by.
//! Errors: ERR (COUNT), BADQUEUE, WRONGTYPE, UNAVAILABLE. Way: `lua/taken.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Held, HeldMessage};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, Page};
use crate::command::{Caller, Command, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.TAKEN",
    usage: "queue [LEASED|WAITING] [COUNT n] [CURSOR c]",
    summary: "Pages through the messages that consumers have taken",
    args: 1..=6,
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Taken {
    queue: QueueName,
    held: Held,
    page: Page,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let waiting = args.takes("WAITING");
    if !waiting {
        args.takes("LEASED");
    }
    let held = if waiting { Held::Waiting } else { Held::Leased };
    Ok(Command::Taken(Taken { queue, held, page: args.page(&["COUNT", "CURSOR"])? }))
}

impl Taken {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, held, page } = self;
        let (count, cursor) = (page.count(), page.cursor());
        let moment = if held == Held::Waiting { "from" } else { "until" };
        let row = move |message: HeldMessage| {
            Reply::map([
                ("id", hex::encode(&message.id).into()),
                ("attempt", Reply::count(message.attempts)),
                (moment, show::due(message.moment)),
                ("reason", show::reason(message.reason)),
            ])
        };
        later(
            broker,
            async move |broker| broker.queue(&queue).taken(held, count, cursor).await,
            move |(next, messages)| {
                show::page(next, Reply::Array(messages.into_iter().map(row).collect()))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of =
            |held| Ok(Command::Taken(Taken { queue: queue("q"), held, page: Page::default() }));
        check(&[
            ("DQ.TAKEN q", of(Held::Leased)),
            ("DQ.TAKEN q leased", of(Held::Leased)),
            ("DQ.TAKEN q Waiting", of(Held::Waiting)),
            ("DQ.TAKEN q DEAD", Err("ERR syntax error: unexpected argument 'DEAD'")),
            ("DQ.TAKEN q COUNT 0", Err("ERR COUNT '0' must be")),
        ]);
    }
}
