//! `DQ.TAKEN queue [LEASED|WAITING] [COUNT n] [CURSOR c]`: pages of the messages that consumers
//! have taken. `DQ.TAKEN queue RELEASE [COUNT n]`: gives those that wait for a retry back to the
//! list, all of them unless COUNT says how many.
//!
//! Replies with the next cursor (`0` at the end) and an array of maps: id, attempt, until (LEASED,
//! the default: the end of the lease) or from (WAITING: when it can be taken again), reason (nil
//! where none was given). A lease that ran out is listed until a DQ.TAKE comes by. RELEASE replies
//! with how many; it needs the right to administrate.
//! Errors: ERR (COUNT), BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN (RELEASE).
//! Way: `lua/taken.lua`, `lua/release.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Effect, Held, HeldMessage};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, Page};
use crate::command::{
    Caller, Category, Command, Failure, Flag, Flags, Run, Spec, later, logged, show,
};

pub const SPEC: Spec = Spec {
    name: "DQ.TAKEN",
    usage: "queue [[LEASED|WAITING] [COUNT n] [CURSOR c]|RELEASE [COUNT n]]",
    summary: "Pages through the messages that consumers have taken, or gives back what waits",
    args: 1..=6,
    flags: Flags::of(&[Flag::Write]),
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Taken {
    queue: QueueName,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    Page(Held, Page),
    /// At most so many; 0: all.
    Release(u64),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    if args.takes("RELEASE") {
        let count = if args.takes("COUNT") { args.count(0..=u64::MAX)? } else { 0 };
        return Ok(Command::Taken(Taken { queue, action: Action::Release(count) }));
    }
    let waiting = args.takes("WAITING");
    if !waiting {
        args.takes("LEASED");
    }
    let held = if waiting { Held::Waiting } else { Held::Leased };
    let page = args.page(&["COUNT", "CURSOR"])?;
    Ok(Command::Taken(Taken { queue, action: Action::Page(held, page) }))
}

impl Taken {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, action } = self;
        match action {
            Action::Page(held, page) => Self::list(queue, held, &page, broker),
            Action::Release(count) => Self::release(queue, count, caller, broker),
        }
    }

    fn release(queue: QueueName, count: u64, caller: &Caller, broker: &Rc<Broker>) -> Run {
        if let Some(user) =
            caller.user.as_ref().filter(|user| !user.categories.has(Category::Admin))
        {
            let (user, command) = (user.name.clone(), "DQ.TAKEN RELEASE");
            return Run::Ready(Failure::NoCommand { user, command }.into());
        }
        let name = queue.to_bytes();
        logged(
            caller,
            broker,
            ("DQ.TAKEN RELEASE", name),
            async move |broker| {
                broker.queue(&queue).release(Some(count).filter(|&count| count > 0)).await
            },
            |released| Some(Effect::of(*released)),
            Reply::count,
        )
    }

    fn list(queue: QueueName, held: Held, page: &Page, broker: &Rc<Broker>) -> Run {
        let (count, cursor) = (page.count(), page.cursor());
        let moment = if held == Held::Waiting { "from" } else { "until" };
        let row = move |message: HeldMessage| {
            Reply::map([
                ("id", show::held_id(&message.id)),
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
        let is = |action| Ok(Command::Taken(Taken { queue: queue("q"), action }));
        let of = |held| is(Action::Page(held, Page::default()));
        check(&[
            ("DQ.TAKEN q", of(Held::Leased)),
            ("DQ.TAKEN q leased", of(Held::Leased)),
            ("DQ.TAKEN q Waiting", of(Held::Waiting)),
            ("DQ.TAKEN q release", is(Action::Release(0))),
            ("DQ.TAKEN q RELEASE count 5000", is(Action::Release(5_000))),
            ("DQ.TAKEN q RELEASE COUNT x", Err("ERR COUNT 'x' must be a whole number")),
            ("DQ.TAKEN q RELEASE CURSOR 0", Err("ERR syntax error: unexpected argument 'CURSOR'")),
            ("DQ.TAKEN q LEASED RELEASE", Err("ERR syntax error: unexpected argument 'RELEASE'")),
            ("DQ.TAKEN q DEAD", Err("ERR syntax error: unexpected argument 'DEAD'")),
            ("DQ.TAKEN q COUNT 0", Err("ERR COUNT '0' must be")),
        ]);
    }
}
