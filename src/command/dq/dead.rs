//! `DQ.DEAD queue LIST [COUNT n] [CURSOR c] [MATCH pattern]`, `REQUEUE [id ...] [MATCH pattern]
//! [DELAY d]`, `DROP [id ...] [MATCH pattern]`: messages whose attempts are used up.
//!
//! LIST replies with the next cursor (`0` at the end) and an array of maps: id, died (Unix ms),
//! attempts, reason, payload (nil where it is gone or too large for a reply), headers where there
//! are any. REQUEUE and DROP
//! reply with how many: those named, or without ids the first 1,000. MATCH is a pattern of the
//! reason. A message that is requeued has all its attempts again.
//! Errors: ERR, BADID, BADDELAY, BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/taken.lua`, `lua/dead.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Dead as Which, Effect, HeldMessage};
use crate::domain::lease;
use crate::domain::queue::{QueueName, Shown};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, Page, is};
use crate::command::{
    Caller, Categories, Category, Command, Flag, Flags, Kind, MANY, Run, Spec, later, logged, show,
};

pub const SPEC: Spec = Spec {
    name: "DQ.DEAD",
    usage: "queue <LIST [COUNT n] [CURSOR c] [MATCH pattern]|REQUEUE [id ...] [MATCH pattern] \
            [DELAY d]|DROP [id ...] [MATCH pattern]>",
    summary: "Lists, brings back or drops messages whose attempts are used up",
    args: 2..=MANY,
    kind: Kind::Messages,
    flags: Flags::of(&[Flag::Write]),
    categories: Categories::of(&[Category::Admin, Category::Payload]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Dead {
    queue: QueueName,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    List(Page),
    Requeue(Which, u64),
    Drop(Which),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let action = if args.takes("LIST") {
        Action::List(args.page(&["COUNT", "CURSOR", "MATCH"])?)
    } else if args.takes("REQUEUE") {
        let (which, delay_ms) = which(args, true)?;
        Action::Requeue(which, delay_ms)
    } else if args.takes("DROP") {
        Action::Drop(which(args, false)?.0)
    } else {
        let word = Shown(args.value()?);
        let text = format_args!("unknown subcommand {word}; LIST, REQUEUE or DROP is expected");
        return Err(ArgError::plain(text));
    };
    Ok(Command::Dead(Dead { queue, action }))
}

fn which(args: &mut Args<'_, '_>, delays: bool) -> Result<(Which, u64), ArgError> {
    let (mut which, mut delay_ms) = (Which::default(), None);
    while let Some(value) = args.option() {
        if is(value, "MATCH") && which.pattern.is_none() {
            let pattern = args.value_of("MATCH")?;
            which.pattern = Some(args.pattern(pattern)?);
        } else if delays && is(value, "DELAY") && delay_ms.is_none() {
            delay_ms = Some(args.ms("DELAY", args.rules.delay_max_ms)?);
        } else if let Some(id) = lease::parse_held_id(value) {
            which.ids.push(id);
        } else {
            let rule = "must be the id that DQ.DEAD LIST shows, 16 hexadecimal digits, and of a \
                        stream @group behind them";
            return Err(ArgError::new("BADID", format_args!("id {} {rule}", Shown(value))));
        }
    }
    Ok((which, delay_ms.unwrap_or(0)))
}

impl Dead {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, action } = self;
        let name = queue.to_bytes();
        let effect = |messages: &u64| Some(Effect::of(*messages));
        match action {
            Action::List(page) => later(
                broker,
                async move |broker| {
                    let (count, cursor) = (page.count(), page.cursor());
                    broker.queue(&queue).dead_list(count, cursor, page.pattern).await
                },
                |(next, messages)| {
                    show::page(next, Reply::Array(messages.into_iter().map(row).collect()))
                },
            ),
            Action::Requeue(which, delay_ms) => logged(
                caller,
                broker,
                ("DQ.DEAD REQUEUE", name),
                async move |broker| broker.queue(&queue).dead_requeue(which, delay_ms).await,
                effect,
                Reply::count,
            ),
            Action::Drop(which) => logged(
                caller,
                broker,
                ("DQ.DEAD DROP", name),
                async move |broker| broker.queue(&queue).dead_drop(which).await,
                effect,
                Reply::count,
            ),
        }
    }
}

fn row(message: HeldMessage) -> Reply {
    let headers = show::headers(&message.envelope);
    let fields = [
        ("id", show::held_id(&message.id)),
        ("died", show::due(message.moment)),
        ("attempts", Reply::count(message.attempts)),
        ("reason", show::reason(message.reason)),
        ("payload", message.payload.map_or(Reply::Null, Reply::Bulk)),
    ];
    let fields = fields.into_iter().chain(headers);
    Reply::Map(fields.map(|(key, value)| (key.into(), value)).collect())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |action| Ok(Command::Dead(Dead { queue: queue("q"), action }));
        let which = |ids: &[u8], pattern: Option<&'static str>| Which {
            ids: ids.iter().map(|id| Bytes::from(vec![*id; 8])).collect(),
            pattern: pattern.map(Bytes::from),
        };
        check(&[
            ("DQ.DEAD q list", of(Action::List(Page::default()))),
            ("DQ.DEAD q REQUEUE", of(Action::Requeue(which(&[], None), 0))),
            (
                "DQ.DEAD q requeue 0101010101010101 match a* FFFFFFFFFFFFFFFF delay 1m",
                of(Action::Requeue(which(&[1, 255], Some("a*")), 60_000)),
            ),
            (
                "DQ.DEAD q DROP 0101010101010101@mail",
                of(Action::Drop(Which {
                    ids: vec![b"\x01\x01\x01\x01\x01\x01\x01\x01mail"[..].into()],
                    pattern: None,
                })),
            ),
            ("DQ.DEAD q Drop 0101010101010101", of(Action::Drop(which(&[1], None)))),
            ("DQ.DEAD q DROP DELAY 5", Err("BADID id 'DELAY' must be the id that DQ.DEAD LIST")),
            ("DQ.DEAD q DROP 0101010101010101:1", Err("BADID id '0101010101010101:1' must be")),
            ("DQ.DEAD q KICK", Err("ERR unknown subcommand 'KICK'; LIST, REQUEUE or DROP")),
            ("DQ.DEAD q LIST COUNT 0", Err("ERR COUNT '0' must be")),
        ]);
    }
}
