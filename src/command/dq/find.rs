//! `DQ.FIND queue [MATCH pattern] [FROM from] [TO to] [COUNT n] [CURSOR c] [DECODE]`: searches the
//! pending messages by payload.
//!
//! Replies with the next cursor (`0` at the end), how many messages were looked at, and an array of
//! the map of DQ.GET. A message that stays pending unchanged while a client follows the cursor is
//! looked at exactly once. The pattern is compared with the first 64 KiB of the payload, with
//! DECODE as text where it is one.
//! Errors: ERR (COUNT, pattern), BADQUEUE, BADTIME, WRONGTYPE, UNAVAILABLE. Way: pages of
//! `lua/range.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Search};
use crate::domain::queue::QueueName;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Categories, Category, Command, Kind, Run, Spec, bulk, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.FIND",
    usage: "queue [MATCH pattern] [FROM from] [TO to] [COUNT n] [CURSOR c] [DECODE]",
    summary: "Searches the pending messages by payload",
    args: 1..=12,
    kind: Kind::Search,
    categories: Categories::of(&[Category::Read, Category::Payload]),
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Find {
    queue: QueueName,
    search: Search,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let page = args.page(&["MATCH", "FROM", "TO", "COUNT", "CURSOR", "DECODE"])?;
    let count = page.count();
    Ok(Command::Find(Find { queue, search: bulk::search(page, count)? }))
}

impl Find {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, search } = self;
        let decode = search.decode;
        later(
            broker,
            async move |broker| broker.queue(&queue).find(&search).await,
            move |page| show::found(page.next, page.looked, show::replies(page.found, decode)),
        )
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::command::tests::{check, queue};
    use crate::domain::glob::Pattern;
    use crate::domain::queue::Score;

    #[test]
    fn parse() {
        let all = || Search {
            pattern: None,
            from: Score::MIN,
            to: Score::MAX,
            count: 10,
            cursor: None,
            decode: false,
        };
        let of = |search| Ok(Command::Find(Find { queue: queue("q"), search }));
        let pattern = Some(Pattern::new(b"*4?"));
        let score = |text: &str| Score::parse(text.as_bytes()).unwrap();
        let long = format!("DQ.FIND q MATCH {}", "*".repeat(1_025));
        check(&[
            ("DQ.FIND q", of(all())),
            ("dq.find q match *4? cursor 0", of(Search { pattern, ..all() })),
            (
                "DQ.FIND q DECODE TO 7 CURSOR x FROM -5 COUNT 3",
                of(Search {
                    from: score("-5"),
                    to: score("7"),
                    count: 3,
                    cursor: Some(Bytes::from_static(b"x")),
                    decode: true,
                    ..all()
                }),
            ),
            ("DQ.FIND q FROM + TO -", Err("BADTIME from '+inf' must not be later than to '-inf'")),
            ("DQ.FIND q FROM soon", Err("BADTIME FROM 'soon' must be Unix milliseconds")),
            ("DQ.FIND q MATCH", Err("ERR syntax error: MATCH needs a value")),
            ("DQ.FIND q DRYRUN", Err("ERR syntax error: unexpected argument 'DRYRUN'")),
            ("DQ.FIND q MATCH a MATCH b", Err("ERR syntax error: unexpected argument 'MATCH'")),
            ("DQ.FIND q COUNT 1001", Err("ERR COUNT '1001' must be a whole number from 1 to 1000")),
            (&long, Err("ERR pattern '****")),
        ]);
    }
}
