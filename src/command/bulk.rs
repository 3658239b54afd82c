//! What is looked for by payload: the options of DQ.FIND; and `MATCH pattern` of DQ.CANCEL, DQ.FIRE
//! and DQ.RESCHEDULE, which does the same to all that matches, page by page.
//!
//! MATCH tells what payloads contain, so it needs the right to see them, in a dry run too. It is a
//! form of its own only where something follows it: a message may be called so.

use std::rc::Rc;

use crate::broker::{Broker, Change, Effect, FoundPage, Queue, Search, StoreError};
use crate::domain::glob::Pattern;
use crate::domain::queue::{MessageRef, QueueName, Score, Shown};
use crate::resp::Reply;

use super::args::{ArgError, Args, Page, in_order};
use super::{Caller, Categories, Category, Run, later, logged, show};

/// Bytes of a pattern of payloads: comparing one costs each byte of a payload so many 64ths.
const PATTERN_MAX: usize = 1_024;
/// Messages that a page changes at most, by default.
const COUNT_DEFAULT: usize = 1_000;

/// What the form needs besides what the command needs.
pub const CHANGES: Categories = Categories::of(&[Category::Dangerous, Category::Payload]);
/// The same of a dry run.
pub const LOOKS: Categories = Categories::of(&[Category::Payload]);

/// The arguments of [`Each`].
pub const USAGE: &str = "queue <message [message ...]|MATCH pattern [FROM from] [TO to] [COUNT n] \
                         [CURSOR c] [DECODE] [DRYRUN]>";

/// The messages that are named, or all that match.
#[derive(Debug, PartialEq)]
pub enum Each {
    These(QueueName, Vec<MessageRef>),
    Matching(Bulk),
}

impl Each {
    pub fn parse(args: &mut Args<'_, '_>, change: Change) -> Result<Self, ArgError> {
        let queue = args.queue()?;
        Ok(match args.takes_match(1) {
            true => Self::Matching(Bulk::parse(queue, args, |_| Ok(change))?),
            false => Self::These(queue, args.messages()?),
        })
    }

    /// `call` does it to those that are named; how many.
    pub fn run(
        self,
        caller: &Caller,
        broker: &Rc<Broker>,
        call: impl AsyncFnOnce(Queue<'_>, Vec<MessageRef>) -> Result<u64, StoreError> + 'static,
    ) -> Run {
        match self {
            Self::Matching(bulk) => bulk.run(caller, broker),
            Self::These(queue, messages) => {
                let call = async move |broker: &Broker| call(broker.queue(&queue), messages).await;
                later(broker, call, Reply::count)
            }
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct Bulk {
    queue: QueueName,
    search: Search,
    change: Change,
    dry_run: bool,
}

impl Bulk {
    /// Reads what follows MATCH; `change` reads what stands behind the pattern.
    pub fn parse<'a>(
        queue: QueueName,
        args: &mut Args<'a, '_>,
        change: impl FnOnce(&mut Args<'a, '_>) -> Result<Change, ArgError>,
    ) -> Result<Self, ArgError> {
        let raw = args.value_of("MATCH")?;
        let pattern = Some(args.pattern(raw)?);
        let change = change(args)?;
        let mut page = args.page(&["FROM", "TO", "COUNT", "CURSOR", "DECODE", "DRYRUN"])?;
        page.pattern = pattern;
        let (count, dry_run) = (page.count_or(COUNT_DEFAULT), page.dry_run);
        args.is_form(usize::from(dry_run))?;
        let search = search(page, count)?;
        Ok(Self { queue, search, change, dry_run })
    }

    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, search, change, dry_run } = self;
        let of = (change.command(), queue.to_bytes());
        let call = async move |broker: &Broker| {
            broker.queue(&queue).change_found(&search, change, dry_run).await
        };
        let effect = |page: &FoundPage<u64>| (page.found > 0).then(|| Effect::of(page.found));
        let reply =
            |page: FoundPage<u64>| show::found(page.next, page.looked, Reply::count(page.found));
        match dry_run {
            true => later(broker, call, reply),
            false => logged(caller, broker, of, call, effect, reply),
        }
    }
}

/// What the options of a page look for.
pub fn search(page: Page, count: usize) -> Result<Search, ArgError> {
    let cursor = page.cursor();
    let (from, to) = in_order(page.from.unwrap_or(Score::MIN), page.to.unwrap_or(Score::MAX))?;
    let pattern = match &page.pattern {
        Some(pattern) if pattern.len() > PATTERN_MAX => {
            let shown = Shown(pattern);
            return Err(ArgError::plain(format_args!(
                "pattern {shown} is too long: one of payloads may have {PATTERN_MAX} bytes"
            )));
        }
        pattern => pattern.as_deref().map(Pattern::new),
    };
    Ok(Search { pattern, from, to, count, cursor, decode: page.decode })
}
