//! Search: pages of pending messages whose payloads match a pattern, and what is done to them.
//!
//! Redis hands out all that is pending, a call of about 1 ms after the other, and the broker
//! compares: a pattern costs Redis nothing, and finds the text in payloads of codecs too. One
//! search at a time does that, so neither Redis nor the memory has to do with more than one call.
//! What is found is changed by its whole member and its score, so a message that somebody changed
//! since then is left alone, and a page may be repeated.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::broker::cursor;
use crate::broker::queue::Queue;
use crate::domain::encoding;
use crate::domain::glob::Pattern;
use crate::domain::queue::{DUE_LIMIT_MS, Due, Message, Score};
use crate::store::cursor::Cursor;
use crate::store::messages::part_applied;
use crate::store::search::{Pending, Read};
use crate::store::{StoreError, member};

/// Messages that one page looks at, and how long it goes on; it ends behind the call in which it
/// reaches one of these.
const LOOKED_MAX: u64 = 10_000;
const GOES_ON_FOR: Duration = Duration::from_millis(100);
/// Messages that the first call reads; each after it reads four times as many.
const FIRST_READ: u64 = 100;
/// Messages that are changed between two calls that read.
const CHANGED_MAX: usize = 100;
/// Bytes of a payload that a pattern sees.
const SEEN_MAX: usize = 64 * 1024;
/// Between a call that reads and the next one, of whichever search, Redis has a rest as long as the
/// first one took, up to this.
const REST_MAX: Duration = Duration::from_millis(250);
/// Steps of comparing after which others have their turn: 0.1 ms.
const STEPS_MAX: usize = 64 << 10;

/// What is looked for.
#[derive(Debug, PartialEq)]
pub struct Search {
    pub pattern: Option<Pattern>,
    pub from: Score,
    pub to: Score,
    /// Messages that a page finds at most.
    pub count: usize,
    pub cursor: Option<Bytes>,
    /// The pattern is compared with the text of the payload.
    pub decode: bool,
}

/// What is done to each message that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Cancel,
    Fire,
    Reschedule(Due),
}

/// A page of a search.
#[derive(Debug, Default)]
pub struct FoundPage<T> {
    /// The cursor of the next one, if there is one.
    pub next: Option<Bytes>,
    /// The messages that it looked at.
    pub looked: u64,
    pub found: T,
}

impl Search {
    /// The steps that it takes to compare, and whether the message matches.
    fn matches(&self, pending: &Pending) -> (usize, bool) {
        let Some(pattern) = &self.pattern else { return (1, true) };
        let name = Bytes::new();
        let payload = member::message(pending.member.clone(), pending.score, name).payload;
        let seen = payload.get(..SEEN_MAX).unwrap_or(&payload);
        let steps = 1 + seen.len() * pattern.words();
        if self.decode && payload.len() <= SEEN_MAX {
            // To decode may take some times as long.
            return (steps + 4 * seen.len(), pattern.matches(&encoding::decode(seen).1));
        }
        (steps, pattern.matches(seen))
    }
}

impl Queue<'_> {
    /// A page of the messages that match; together they have no more bytes than a reply may have.
    pub async fn find(&self, search: &Search) -> Result<FoundPage<Vec<Message>>, StoreError> {
        let mut at = self.opened("DQ.FIND", search.cursor.as_ref())?;
        let mut found = Vec::new();
        let within = (usize::MAX, self.broker.config().limits.reply_bytes_max);
        let each = async |_: &Read, some: Vec<Pending>| {
            let some = some.into_iter();
            found.extend(some.map(|one| member::message(one.member, one.score, one.name)));
            Ok(())
        };
        let looked = self.walk(search, &mut at, within, |_, _| true, each).await?;
        Ok(FoundPage { next: self.sealed("DQ.FIND", &at), looked, found })
    }

    /// Changes the messages of a page that match; the number of those that were changed, or would
    /// be, in a dry run. All that one search finds gets the same due time.
    pub async fn change_found(
        &self,
        search: &Search,
        change: Change,
        dry_run: bool,
    ) -> Result<FoundPage<u64>, StoreError> {
        let of = [change.command().as_bytes(), self.name.as_bytes()];
        let opened = |text: &[u8]| {
            let (due_ms, page) = cursor::opened(&of, text)?.split_once(';')?;
            let due_ms = match due_ms {
                "" => None,
                due_ms => Some(due_ms.parse().ok().filter(|ms| *ms < DUE_LIMIT_MS)?),
            };
            Some((due_ms, cursor::page_of(page)?))
        };
        let (known_ms, mut at) = match &search.cursor {
            None => (None, Cursor::default()),
            Some(text) => opened(text).ok_or(StoreError::BadCursor)?,
        };
        let due_ms = Cell::new(known_ms);
        let wants = |read: &Read, one: &Pending| {
            if member::read(&one.member).is_none() {
                return false;
            }
            let ms = one.score.ms();
            match change {
                Change::Cancel => true,
                Change::Fire => ms > (read.now_us / 1_000) as f64,
                Change::Reschedule(due) => {
                    let first = || due.ms(read.now_us.div_ceil(1_000));
                    let due = due_ms.get().unwrap_or_else(first);
                    due_ms.set(Some(due));
                    ms != due as f64
                }
            }
        };
        let mut changed = 0;
        let each = async |_: &Read, some: Vec<Pending>| {
            changed += if dry_run {
                some.len() as u64
            } else {
                self.change(&some, change, due_ms.get(), changed).await?
            };
            Ok(())
        };
        let walked = self.walk(search, &mut at, (CHANGED_MAX, usize::MAX), wants, each).await;
        let done = if dry_run { 0 } else { changed };
        let looked = walked.map_err(|error| part_applied(error, done))?;
        let due_ms = due_ms.get().map_or_else(String::new, |ms| ms.to_string());
        let page = || cursor::sealed(&of, &format!("{due_ms};{}", cursor::page_text(&at)));
        Ok(FoundPage { next: (!at.is_end()).then(page), looked, found: changed })
    }

    async fn change(
        &self,
        some: &[Pending],
        change: Change,
        due_ms: Option<u64>,
        done: u64,
    ) -> Result<u64, StoreError> {
        let store = &self.broker.store;
        let moved = match change {
            Change::Cancel => {
                let cancelled = store.cancel_pending(self.name, some, done).await?;
                self.metrics().cancelled(cancelled);
                return Ok(cancelled);
            }
            Change::Fire => store.move_pending(self.name, some, None, done).await?,
            Change::Reschedule(_) => store.move_pending(self.name, some, due_ms, done).await?,
        };
        if moved.head {
            self.hint(due_ms.unwrap_or(0));
        }
        Ok(moved.count)
    }

    /// Calls `each` with what matches and is wanted, after each call that reads, up to the end of a
    /// page; how many messages it looked at. `within`: how many it gets at a time, and bytes of a
    /// page.
    async fn walk(
        &self,
        search: &Search,
        at: &mut Cursor,
        within: (usize, usize),
        wants: impl Fn(&Read, &Pending) -> bool,
        mut each: impl AsyncFnMut(&Read, Vec<Pending>) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let (broker, bounds) = (self.broker, (search.from, search.to));
        let message_max = broker.message_bytes_max();
        let (at_a_time, bytes_max) = within;
        let at_most = Duration::from_millis(broker.config().redis.call_timeout_ms);
        let (mut looked, mut found, mut bytes, mut steps) = (0, 0, 0, 0);
        let (mut reads, started) = (FIRST_READ, Instant::now());
        loop {
            let Ok(mut turn) = tokio::time::timeout(at_most, broker.searches.lock()).await else {
                return if looked > 0 { Ok(looked) } else { Err(busy()) };
            };
            if let Some(rests_to) = *turn {
                tokio::time::sleep_until(rests_to).await;
            }
            let asked = Instant::now();
            let read = broker.store.read_on(self.name, bounds, reads, message_max, at).await?;
            // Half of Redis's time is for others than searches.
            *turn = Some(Instant::now() + asked.elapsed().min(REST_MAX));
            let (mut some, mut ends_at, mut is_full) = (Vec::new(), None, false);
            for (place, one) in read.pending.iter().enumerate() {
                let (more, matches) = search.matches(one);
                steps += more;
                if steps >= STEPS_MAX {
                    steps = 0;
                    broker.turns.next().await;
                }
                if !matches || !wants(&read, one) {
                    continue;
                }
                bytes += one.member.len() + one.name.len();
                is_full = found == search.count || (bytes > bytes_max && found > 0);
                if is_full || some.len() == at_a_time {
                    ends_at = Some(place);
                    break;
                }
                found += 1;
                some.push(one.clone());
            }
            looked += ends_at.unwrap_or(read.pending.len()) as u64 + u64::from(read.passed_one);
            *at = ends_at.map_or_else(|| read.next.clone(), |place| read.cursor_at(place));
            reads = if ends_at.is_some() { FIRST_READ } else { reads.saturating_mul(4) };
            if !some.is_empty() {
                each(&read, some).await?;
            }
            let enough = looked >= LOOKED_MAX || started.elapsed() >= GOES_ON_FOR;
            if is_full || at.is_end() || enough {
                return Ok(looked);
            }
        }
    }
}

fn busy() -> StoreError {
    StoreError::Unavailable("other searches take all the time that there is for them; retry".into())
}

impl Change {
    /// The command that does it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Cancel => "DQ.CANCEL MATCH",
            Self::Fire => "DQ.FIRE MATCH",
            Self::Reschedule(_) => "DQ.RESCHEDULE MATCH",
        }
    }
}
