//! Paged work by payload: looks through a queue without holding Redis for long.
//!
//! Each page is one script, bounded in members and bytes, which finds and takes out in one step, so
//! no member comes here. A page of the order list begins at an index and behind an anchor (a few
//! bytes of what stands before it): what others take away before it is noticed, and nothing is
//! passed over. A page of the zset goes on from a cursor that others cannot shift. Where no order
//! list is kept [`super::first`] finds the order.
//!
//! A large payload is not sent with each page: its size and its last bytes tell nearly always, and
//! where they do not the page is asked for again with all of it.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use crate::domain::queue::{QueueName, Score};
use crate::store::cursor::{Cursor, Pages};
use crate::store::keys::QueueKeys;
use crate::store::messages::{Changed, few, part_applied};
use crate::store::script::{CANCEL, CONTAINS, FIRE, RANGE, REMOVE_LISTED, REMOVE_PENDING, Script};
use crate::store::{Store, StoreError, number};

/// Members of the list or the zset that one call looks at: about 2 ms of Redis.
pub(super) const LOOK_MAX: u64 = 2_000;
/// Their bytes; a large one is read whole, and with it at most two more.
pub(super) const BYTES_MAX: u64 = 512 << 10;
/// How often a search of the list begins anew because its anchor was taken away; then the zset,
/// which needs none, is searched.
const RESTARTS_MAX: u32 = 16;
/// Bytes of a payload that go with each page; of a larger one so many of its last.
const SENT_MAX: usize = 1024;
const TAIL: usize = 32;

/// Members that one call of a search reads and hands out, with at most so many bytes: about 1 ms of
/// Redis.
const READ_MAX: u64 = 200;
const READ_BYTES_MAX: usize = 256 << 10;

/// A pending member, whole.
#[derive(Clone, Debug)]
pub struct Pending {
    pub member: Bytes,
    pub score: Score,
    /// Empty if it has none.
    pub name: Bytes,
}

/// What one call of a search read.
pub struct Read {
    /// Redis's time.
    pub now_us: u64,
    pub pending: Vec<Pending>,
    /// The first one was too large to be handed out.
    pub passed_one: bool,
    /// The rank of the first.
    rank: u64,
    start: Cursor,
    pub next: Cursor,
}

impl Read {
    /// The cursor of a page that begins with the one at this place.
    pub fn cursor_at(&self, place: usize) -> Cursor {
        let (Some(here), Some(before)) =
            (self.pending.get(place), place.checked_sub(1).and_then(|at| self.pending.get(at)))
        else {
            return self.start.clone();
        };
        let before = (before.score == here.score).then_some(&before.member);
        Cursor::between(before, &here.member, here.score, self.rank + place as u64)
    }
}

/// A payload as `lua/_match.lua` takes it: size, and all of its bytes or the last ones.
pub(super) fn wanted(payload: &Bytes, whole: bool) -> [Bytes; 2] {
    let bytes = if whole || payload.len() <= SENT_MAX {
        payload.clone()
    } else {
        payload.slice(payload.len() - TAIL..)
    };
    [number(payload.len()), bytes]
}

impl Store {
    /// Removes up to `count` pending messages of this payload, the first ones in offer order; 0
    /// means all.
    ///
    /// # Errors
    /// As every call; uncertain where some are removed.
    pub async fn remove(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        count: u64,
    ) -> Result<u64, StoreError> {
        let all = if count == 0 { u64::MAX } else { count };
        let (is_listed, mut removed) = self.remove_listed(queue, payload, all).await?;
        if !is_listed && count > 0 {
            return self.remove_first(queue, payload, count, removed).await;
        }
        // Messages that only the zset has count too, after all listed ones.
        let (mut pages, mut whole) = (Pages::default(), false);
        while removed < all {
            let [size, bytes] = wanted(payload, whole);
            let more = [size, bytes, number(all - removed)].into_iter();
            let more = more.chain([number(LOOK_MAX), number(BYTES_MAX)]);
            let more = more.chain(pages.cursor.args());
            let answered = self.change(&REMOVE_PENDING, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, removed))?;
            if answer.status == "LOST" {
                pages.lost(removed)?;
                continue;
            }
            removed += answer.count()?;
            whole = answer.int()? == 1;
            pages.cursor = Cursor::read(&mut answer)?;
            if pages.cursor.is_end() && !whole {
                break;
            }
        }
        Ok(removed)
    }

    /// True if an order list is kept, also at the end; and how many were removed.
    async fn remove_listed(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        all: u64,
    ) -> Result<(bool, u64), StoreError> {
        let (mut removed, mut restarts, mut whole) = (0, 0, false);
        let (mut index, mut anchor) = (0, Bytes::new());
        while removed < all && restarts <= RESTARTS_MAX {
            let [size, bytes] = wanted(payload, whole);
            let more = [size, bytes, number(all - removed)].into_iter();
            let more = more.chain([number(LOOK_MAX), number(BYTES_MAX)]);
            let more = more.chain([number(index), anchor]);
            let answered = self.change(&REMOVE_LISTED, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, removed))?;
            if answer.status == "NOLIST" {
                return Ok((false, removed));
            }
            removed += answer.count()?;
            whole = answer.int()? == 1;
            let next = answer.int()?;
            anchor = answer.bytes()?;
            if next < 0 {
                break;
            }
            restarts += u32::from(index > 0 && next == 0);
            index = next;
        }
        Ok((true, removed))
    }

    /// Reads the pending messages from one score to another, from a cursor on: so many, or fewer.
    ///
    /// # Errors
    /// As every reading call; `LostCursor`.
    pub async fn read_on(
        &self,
        queue: &QueueName,
        (from, to): (Score, Score),
        count: u64,
        message_max: usize,
        start: &Cursor,
    ) -> Result<Read, StoreError> {
        let bounds = [
            number(from),
            number(to),
            number(count.min(READ_MAX)),
            number(READ_BYTES_MAX),
            number(message_max),
        ];
        let more = bounds.into_iter().chain(start.args()).chain([Bytes::from_static(b"search")]);
        let mut answer = self.ask(&RANGE, queue, more).await?;
        if answer.status == "LOST" {
            return Err(StoreError::LostCursor);
        }
        let (passed_one, now_us) = (answer.status == "PASSED", answer.now_us);
        let (start, next) = (start.clone(), Cursor::read(&mut answer)?);
        let rank = if passed_one { 0 } else { answer.count()? };
        let mut pending = Vec::with_capacity(answer.len() / 3);
        while !answer.is_empty() {
            let (member, score, name) = (answer.bytes()?, answer.score()?, answer.bytes()?);
            pending.push(Pending { member, score, name });
        }
        Ok(Read { now_us, pending, passed_one, rank, start, next })
    }

    /// Takes out those of these that are still pending as they were read. `done`: how many messages
    /// the command has changed before, which its error says.
    ///
    /// # Errors
    /// As every call; uncertain where some are taken out.
    pub async fn cancel_pending(
        &self,
        queue: &QueueName,
        pending: &[Pending],
        done: u64,
    ) -> Result<u64, StoreError> {
        Ok(self.change_pending(&CANCEL, queue, None, pending, done).await?.count)
    }

    /// Makes those of these due that are still pending as they were read: at a moment, Unix ms, or
    /// now.
    ///
    /// # Errors
    /// As every call; uncertain where some are changed.
    pub async fn move_pending(
        &self,
        queue: &QueueName,
        pending: &[Pending],
        due_ms: Option<u64>,
        done: u64,
    ) -> Result<Changed, StoreError> {
        let due = due_ms.map_or_else(Bytes::new, number);
        self.change_pending(&FIRE, queue, Some(due), pending, done).await
    }

    async fn change_pending(
        &self,
        script: &'static Script,
        queue: &QueueName,
        due: Option<Bytes>,
        mut left: &[Pending],
        done: u64,
    ) -> Result<Changed, StoreError> {
        let mut all = Changed::default();
        while !left.is_empty() {
            let some = few(left, |one| one.member.len());
            let pairs = left
                .iter()
                .take(some)
                .flat_map(|one| [Bytes::from(format!("={}", one.score)), one.member.clone()]);
            let answered = self.change(script, queue, due.clone().into_iter().chain(pairs)).await;
            let mut answer = answered.map_err(|error| part_applied(error, done + all.count))?;
            all.count += answer.count()?;
            if due.is_some() {
                all.head |= answer.int()? == 1;
            }
            let met = if answer.is_empty() { some } else { answer.count()?.max(1) as usize };
            left = left.get(met..).unwrap_or_default();
        }
        Ok(all)
    }

    /// Which of the payloads are pending.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn contains(
        &self,
        queue: &QueueName,
        payloads: &[Bytes],
    ) -> Result<Vec<bool>, StoreError> {
        let keys = QueueKeys::new(queue.as_bytes()).of(&CONTAINS);
        // For each the first place of an equal one: of equal ones only that one is asked for.
        let mut places = HashMap::new();
        let first = |(place, payload)| *places.entry(payload).or_insert(place);
        let first: Vec<usize> = payloads.iter().enumerate().map(first).collect();
        let mut left: BTreeSet<usize> = places.into_values().collect();
        let mut pages = Pages::default();
        // Of those that the page in hand is in doubt about, all bytes are sent.
        let mut doubted: Vec<usize> = Vec::new();
        while !left.is_empty() {
            let asked: Vec<usize> = left.iter().copied().collect();
            let mut args = vec![Bytes::copy_from_slice(queue.as_bytes())];
            args.extend(pages.cursor.args());
            args.extend([number(LOOK_MAX), number(BYTES_MAX)]);
            for place in &asked {
                if let Some(payload) = payloads.get(*place) {
                    args.extend(wanted(payload, doubted.contains(place)));
                }
            }
            let mut answer = self.read(&CONTAINS, &keys, args).await?;
            if answer.status == "LOST" {
                pages.lost(0)?;
                continue;
            }
            let next = Cursor::read(&mut answer)?;
            let place = |number: u64| asked.get((number as usize).wrapping_sub(1)).copied();
            let doubt = answer.count()?;
            while !answer.is_empty() {
                if let Some(found) = place(answer.count()?) {
                    left.remove(&found);
                }
            }
            if next != pages.cursor {
                doubted.clear();
            }
            doubted.extend(place(doubt));
            pages.cursor = next;
            if doubt == 0 && pages.cursor.is_end() {
                break;
            }
        }
        Ok(first.iter().map(|place| !left.contains(place)).collect())
    }
}
