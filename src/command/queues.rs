//! `DQ.QUEUES [MATCH pattern] [CURSOR c] [COUNT n]`: pages of the queues that the brokers know.
//!
//! Replies with the next cursor (`0` at the end) and an array of maps: queue, pending, ready (the
//! length of the destination, -1 if it holds another type), next_due (nil if nothing is pending).
//! Errors: ERR (COUNT), UNAVAILABLE. Way: the scheduler's list and `lua/stats.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, QueueRow};
use crate::resp::Reply;

use super::args::{ArgError, Args, COUNT_DEFAULT, is};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.QUEUES",
    usage: "[MATCH pattern] [CURSOR c] [COUNT n]",
    summary: "Pages through the known queues",
    args: 0..=6,
    kind: Kind::Store,
    group: Group::Server,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Queues {
    pattern: Option<Bytes>,
    /// `0` = from the start.
    cursor: Bytes,
    count: usize,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let (mut pattern, mut cursor, mut count) = (None, None, None);
    while let Some(option) = args.option() {
        if is(option, "MATCH") && pattern.is_none() {
            pattern = Some(Bytes::copy_from_slice(args.value_of("MATCH")?));
        } else if is(option, "CURSOR") && cursor.is_none() {
            cursor = Some(args.value_of("CURSOR")?);
        } else if is(option, "COUNT") && count.is_none() {
            count = Some(args.page()?);
        } else {
            return Err(args.unexpected(option));
        }
    }
    let cursor = cursor.filter(|c| !c.is_empty()).unwrap_or(b"0");
    let (cursor, count) = (
        Bytes::copy_from_slice(cursor),
        count.unwrap_or(COUNT_DEFAULT),
    );
    Ok(Command::Queues(Queues {
        pattern,
        cursor,
        count,
    }))
}

impl Queues {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            pattern,
            cursor,
            count,
        } = self;
        let call = async move |broker: &Broker| broker.queues(pattern, cursor, count).await;
        later(broker, call, |(next, rows)| {
            let next = if next.is_empty() {
                "0".into()
            } else {
                Reply::Bulk(next)
            };
            Reply::Array(vec![
                next,
                Reply::Array(rows.into_iter().map(row).collect()),
            ])
        })
    }
}

fn row(row: QueueRow) -> Reply {
    Reply::map([
        ("queue", Reply::Bulk(row.name)),
        ("pending", Reply::count(row.pending)),
        ("ready", Reply::Integer(row.ready)),
        (
            "next_due",
            row.next_due
                .map_or(Reply::Null, |score| message::due(&score)),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |pattern: &str, cursor: &str, count: usize| {
            format!("Queues {{ pattern: {pattern}, cursor: b\"{cursor}\", count: {count} }}")
        };
        check(&[
            ("DQ.QUEUES", &read("None", "0", 10)),
            (
                "dq.queues count 3 cursor x match a*",
                &read("Some(b\"a*\")", "x", 3),
            ),
            ("DQ.QUEUES CURSOR ''", &read("None", "0", 10)),
            (
                "DQ.QUEUES COUNT 1001",
                "ERR COUNT '1001' must be a whole number from 1 to 1000",
            ),
            ("DQ.QUEUES MATCH", "ERR syntax error: MATCH needs a value"),
            ("DQ.QUEUES a*", "ERR syntax error: unexpected argument 'a*'"),
        ]);
    }
}
