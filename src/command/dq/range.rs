//! `DQ.RANGE queue from to [COUNT n] [CURSOR c] [DECODE]`: pages of pending messages by due time.
//!
//! `from` and `to` are inclusive: `-` and `+`, Unix ms, or RFC 3339. Replies with the next cursor
//! (`0` at the end) and an array of the map of DQ.GET. A message that stays pending unchanged while
//! a client follows the cursor appears exactly once. DECODE shows payloads as text where they are.
//! Errors: ERR (COUNT), BADQUEUE, BADTIME, TOOBIG, WRONGTYPE, UNAVAILABLE. Way: `lua/range.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::{QueueName, Score};

use crate::command::args::{ArgError, Args, Page, bound, in_order};
use crate::command::{Caller, Categories, Category, Command, Kind, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.RANGE",
    usage: "queue from to [COUNT n] [CURSOR c] [DECODE]",
    summary: "Pages through the pending messages by due time",
    args: 3..=8,
    kind: Kind::Messages,
    categories: Categories::of(&[Category::Read, Category::Payload]),
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Range {
    queue: QueueName,
    from: Score,
    to: Score,
    page: Page,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let (from, to) = (bound("from", args.value()?)?, bound("to", args.value()?)?);
    let (from, to) = in_order(from, to)?;
    let page = args.page(&["COUNT", "CURSOR", "DECODE"])?;
    Ok(Command::Range(Range { queue, from, to, page }))
}

impl Range {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, from, to, page } = self;
        let (count, cursor, decode) = (page.count(), page.cursor(), page.decode);
        later(
            broker,
            async move |broker| broker.queue(&queue).range((from, to), count, cursor).await,
            move |(next, messages)| show::page(next, show::replies(messages, decode)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |from: &str, to: &str| {
            let [from, to] = [from, to].map(|text| Score::parse(text.as_bytes()).unwrap());
            Ok(Command::Range(Range { queue: queue("q"), from, to, page: Page::default() }))
        };
        check(&[
            ("DQ.RANGE q - +", of("-inf", "+inf")),
            ("DQ.RANGE q 5 1970-01-01T00:00:01Z", of("5", "1000")),
            ("DQ.RANGE q + +", of("+inf", "+inf")),
            ("DQ.RANGE q 0 -1", Err("BADTIME from '0' must not be later than to '-1'")),
            ("DQ.RANGE q + -", Err("BADTIME from '+inf' must not be later than to '-inf'")),
            (
                "DQ.RANGE q 1970-01-01T00:00:01Z 999.5",
                Err("BADTIME from '1000' must not be later than to '999.5'"),
            ),
        ]);
    }
}
