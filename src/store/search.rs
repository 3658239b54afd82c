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

use crate::domain::queue::QueueName;
use crate::store::cursor::{Cursor, Pages};
use crate::store::keys::QueueKeys;
use crate::store::messages::part_applied;
use crate::store::script::{CONTAINS, REMOVE_LISTED, REMOVE_PENDING};
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
