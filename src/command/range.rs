//! `DQ.RANGE queue from to [COUNT n] [CURSOR c] [DECODE]`: pages of pending messages by due time.
//!
//! `from` and `to` are inclusive: `-` and `+`, Unix ms, or RFC 3339. Replies with the next cursor
//! (`0` at the end) and an array of the map of DQ.GET. A message that stays pending unchanged while
//! a client follows the cursor appears exactly once. DECODE shows payloads as text where they are.
//! Errors: ERR (COUNT), BADQUEUE, BADTIME, WRONGTYPE, UNAVAILABLE. Way: `lua/range.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::queue::{QueueName, score_bound};
use crate::resp::Reply;

use super::args::{ArgError, Args, COUNT_DEFAULT, bad_time, is};
use super::{Command, Group, Kind, Run, Session, Spec, later, message};

pub const SPEC: Spec = Spec {
    name: "DQ.RANGE",
    usage: "queue from to [COUNT n] [CURSOR c] [DECODE]",
    summary: "Pages through the pending messages by due time",
    args: 3..=8,
    kind: Kind::Messages,
    group: Group::Queue,
    flags: &["readonly"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Range {
    queue: QueueName,
    from: String,
    to: String,
    count: usize,
    /// As an earlier reply gave it; none = from the start.
    cursor: Option<Bytes>,
    decode: bool,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let mut bound = |name: &str| {
        let raw = args.value()?;
        score_bound(raw).map_err(|rule| bad_time(name, raw, rule))
    };
    let (from, to) = (bound("from")?, bound("to")?);
    let (mut count, mut cursor, mut decode) = (None, None, false);
    while let Some(option) = args.option() {
        if is(option, "COUNT") && count.is_none() {
            count = Some(args.page()?);
        } else if is(option, "CURSOR") && cursor.is_none() {
            cursor = Some(args.value_of("CURSOR")?);
        } else if is(option, "DECODE") && !decode {
            decode = true;
        } else {
            return Err(args.unexpected(option));
        }
    }
    let cursor = cursor
        .filter(|c| !c.is_empty() && *c != b"0")
        .map(Bytes::copy_from_slice);
    let count = count.unwrap_or(COUNT_DEFAULT);
    Ok(Command::Range(Range {
        queue,
        from,
        to,
        count,
        cursor,
        decode,
    }))
}

impl Range {
    pub fn run(self, _: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self {
            queue,
            from,
            to,
            count,
            cursor,
            decode,
        } = self;
        later(
            broker,
            async move |broker| broker.range(&queue, from, to, count, cursor).await,
            move |(next, messages)| {
                let next = if next.is_empty() {
                    "0".into()
                } else {
                    Reply::Bulk(next)
                };
                Reply::Array(vec![next, message::replies(messages, decode)])
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let read = |from: &str, to: &str, count: usize, cursor: &str| {
            format!(
                "Range {{ queue: QueueName('q'), from: \"{from}\", to: \"{to}\", \
                 count: {count}, cursor: {cursor}, decode: false }}"
            )
        };
        check(&[
            ("DQ.RANGE q - +", &read("-inf", "+inf", 10, "None")),
            (
                "DQ.RANGE q 5 1970-01-01T00:00:01Z",
                &read("5", "1000", 10, "None"),
            ),
            (
                "DQ.RANGE q - + cursor 0 count 7",
                &read("-inf", "+inf", 7, "None"),
            ),
            (
                "DQ.RANGE q - + CURSOR ''",
                &read("-inf", "+inf", 10, "None"),
            ),
            (
                "DQ.RANGE q -5 + CURSOR abc",
                &read("-5", "+inf", 10, "Some(b\"abc\")"),
            ),
            (
                "DQ.RANGE q - + CURSOR DECODE decode",
                &read("-inf", "+inf", 10, "Some(b\"DECODE\")").replace("false", "true"),
            ),
            (
                "DQ.RANGE q - + DECODE DECODE",
                "ERR syntax error: unexpected argument 'DECODE'",
            ),
            (
                "DQ.RANGE q x +",
                "BADTIME from 'x' must be Unix milliseconds",
            ),
            ("DQ.RANGE q - ''", "BADTIME to '' must not be empty"),
            (
                "DQ.RANGE q - + COUNT 0",
                "ERR COUNT '0' must be a whole number from 1 to 1000",
            ),
            (
                "DQ.RANGE q - + CURSOR",
                "ERR syntax error: CURSOR needs a value",
            ),
            (
                "DQ.RANGE q - + COUNT 1 COUNT 2",
                "ERR syntax error: unexpected argument 'COUNT'",
            ),
            (
                "DQ.RANGE q -",
                "ERR wrong number of arguments for 'dq.range' command",
            ),
        ]);
    }
}
