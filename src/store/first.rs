//! Offer order where no order list is kept: ids of ours grow from offer to offer, so what came
//! first has the lowest. Those of others are in no order: they come after all of ours, by due time.
//!
//! The zset is read in pages, and the first so many are kept in mind; then exactly those are taken.
//! Others go on meanwhile: what is gone by then is left out, what is offered later comes later.

use bytes::Bytes;

use crate::domain::queue::{Cut, MessageId, QueueName};
use crate::domain::snowflake;
use crate::store::cursor::{Cursor, Pages};
use crate::store::keys::QueueKeys;
use crate::store::messages::{part_applied, payloads, reply_lost};
use crate::store::script::{FIRST, POLL_PENDING, REMOVE};
use crate::store::search::{BYTES_MAX, wanted};
use crate::store::{Store, StoreError, number};

/// Members that one call looks at: one or two ms of Redis.
const LOOK_MAX: u64 = 1_000;
/// How often the rest is looked for anew, where others took what was found.
const ROUNDS_MAX: u32 = 4;
/// Messages that a removal keeps in mind, and those that one call removes.
const KEPT_MAX: u64 = 10_000;
const REMOVE_MAX: usize = 100;

/// The first so many of what a search of the zset came by.
struct First<T> {
    max: usize,
    now_ms: u64,
    /// With the place of each in offer order. Added to in the order of the zset.
    found: Vec<(u64, T)>,
}

impl<T> First<T> {
    fn new(max: usize, now_ms: u64) -> Self {
        Self { max, now_ms, found: Vec::new() }
    }

    fn place(&self, id: &[u8]) -> u64 {
        let id = id.try_into().map(u64::from_be_bytes);
        let ours = id.ok().filter(|id| snowflake::may_be(*id, self.now_ms));
        ours.unwrap_or(u64::MAX)
    }

    /// After each page: lets go of what is not among the first.
    fn narrow(&mut self) {
        // Stable: where the place is the same, due time decides.
        self.found.sort_by_key(|(place, _)| *place);
        self.found.truncate(self.max);
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.max
    }

    /// The id that others of ours have to be below; empty if all count.
    fn before(&self) -> Bytes {
        match self.found.last() {
            Some((place, _)) if self.is_full() && *place < u64::MAX => {
                Bytes::copy_from_slice(&place.to_be_bytes())
            }
            _ => Bytes::new(),
        }
    }

    fn items(self) -> Vec<T> {
        self.found.into_iter().map(|(_, item)| item).collect()
    }
}

impl Store {
    /// Takes the first pending messages, whatever their due time. At most once.
    pub(super) async fn take_first(
        &self,
        queue: &QueueName,
        count: usize,
        message_max: usize,
    ) -> Result<Vec<Bytes>, StoreError> {
        let mut taken = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let wanted = count - taken.len();
            let round = async {
                let first = self.first(queue, wanted, None).await?;
                if first.is_empty() {
                    return Ok((true, Vec::new()));
                }
                let all = first.len() < wanted;
                let (full, payloads) = self.poll_pending(queue, first, &taken, message_max).await?;
                Ok((full || all, payloads))
            };
            match round.await {
                Ok((last, payloads)) => {
                    taken.extend(payloads);
                    if last || taken.len() >= count {
                        break;
                    }
                }
                // The next one does not fit beside those that are taken.
                Err(StoreError::TooBig { .. }) if !taken.is_empty() => break,
                // Messages that are taken have to be answered.
                Err(error) if !taken.is_empty() => {
                    let queue = Cut(queue.as_bytes());
                    tracing::warn!(%queue, %error, "DQ.POLL ended early");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// The ids of the first so many pending messages; of those with a payload, if one is given.
    async fn first(
        &self,
        queue: &QueueName,
        count: usize,
        payload: Option<&Bytes>,
    ) -> Result<Vec<MessageId>, StoreError> {
        let mut first =
            First::new(count, self.clock(&QueueKeys::new(queue.as_bytes())).now_us() / 1_000);
        let (mut pages, mut whole) = (Pages::default(), false);
        loop {
            let k = QueueKeys::new(queue.as_bytes());
            let mut args = vec![k.name.clone()];
            args.extend(pages.cursor.args());
            args.extend([number(LOOK_MAX), number(BYTES_MAX), first.before()]);
            args.extend(payload.into_iter().flat_map(|payload| wanted(payload, whole)));
            let mut answer = self.read(&FIRST, &k.of(&FIRST), args).await?;
            if answer.status == "LOST" {
                pages.lost(0)?;
                first.found.clear();
                continue;
            }
            pages.cursor = Cursor::read(&mut answer)?;
            whole = answer.int()? == 1;
            while !answer.is_empty() {
                let (score, id) = (answer.score()?, answer.bytes()?.to_vec());
                let place = first.place(&id);
                first.found.push((place, MessageId { score, id }));
            }
            first.narrow();
            if pages.cursor.is_end() && !whole {
                return Ok(first.items());
            }
        }
    }

    /// Takes those of the messages that are still pending, beside what is `taken`; and whether a
    /// reply holds no more.
    async fn poll_pending(
        &self,
        queue: &QueueName,
        messages: Vec<MessageId>,
        taken: &[Bytes],
        message_max: usize,
    ) -> Result<(bool, Vec<Bytes>), StoreError> {
        let bytes: usize = taken.iter().map(Bytes::len).sum();
        let bytes_max = self.limits.reply_bytes_max.min(message_max);
        let bytes_max = bytes_max.saturating_sub(bytes);
        // Only the first of a reply may be larger.
        let message_max = if taken.is_empty() { message_max } else { bytes_max };
        let bounds = [number(bytes_max), number(message_max)].into_iter();
        let ids = messages.into_iter();
        let ids = ids.flat_map(|MessageId { score, id }| [number(score), Bytes::from(id)]);
        let mut answer = self.change(&POLL_PENDING, queue, bounds.chain(ids)).await?;
        if answer.status == "APPLIED" {
            return Err(reply_lost());
        }
        Ok((answer.int()? == 1, payloads(answer)?))
    }

    /// Removes the first pending messages of this payload until `wanted` are removed, and says how
    /// many are.
    pub(super) async fn remove_first(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        wanted: u64,
        mut removed: u64,
    ) -> Result<u64, StoreError> {
        while removed < wanted {
            let max = (wanted - removed).min(KEPT_MAX);
            let first = self.first(queue, max as usize, Some(payload)).await;
            let first = first.map_err(|error| part_applied(error, removed))?;
            let (all, before) = ((first.len() as u64) < max, removed);
            self.remove_ids(queue, payload, &first, &mut removed).await?;
            if all || removed == before {
                break;
            }
        }
        Ok(removed)
    }

    /// Removes those of the messages that are still pending and carry this payload, and counts
    /// them beside those that are removed.
    async fn remove_ids(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        mut messages: &[MessageId],
        removed: &mut u64,
    ) -> Result<(), StoreError> {
        while !messages.is_empty() {
            let more = [payload.clone(), number(BYTES_MAX)];
            let some = messages.iter().take(REMOVE_MAX);
            let ids = some.flat_map(|one| [number(one.score), Bytes::from(one.id.clone())]);
            let more = more.into_iter().chain(ids);
            let answered = self.change(&REMOVE, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, *removed))?;
            *removed += answer.count()?;
            let done = (answer.count()? as usize).max(1);
            messages = messages.get(done..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_795_000_000_000;

    /// In the order of the zset: ids of ours, one too short, random ones of others.
    fn found(ids: &[&[u8]], max: usize) -> First<usize> {
        let mut first = First::new(max, NOW_MS);
        for (item, id) in ids.iter().enumerate() {
            let place = first.place(id);
            first.found.push((place, item));
        }
        first.narrow();
        first
    }

    #[test]
    fn lowest_ids_first_and_others_by_due_time() {
        let ids: [&[u8]; 6] = [
            &[0xff; 8],
            &[0, 0, 0, 0, 1, 0, 0, 0],
            &[1, 2],
            &[0, 0, 0, 0, 0, 0xff, 0, 0],
            &[0x80, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0xff, 0, 1],
        ];
        for (max, items) in
            [(9, &[3, 5, 1, 0, 2, 4][..]), (4, &[3, 5, 1, 0]), (2, &[3, 5]), (0, &[])]
        {
            let first = found(&ids, max);
            assert_eq!(first.is_full(), max <= items.len(), "{max}");
            assert_eq!(first.items(), items, "{max}");
        }
    }

    /// Only where there are enough, and the last of them has an order.
    #[test]
    fn before() {
        let ids: [&[u8]; 3] = [&[0xff; 8], &[0, 0, 0, 0, 1, 0, 0, 0], &[0; 8]];
        for (max, before) in
            [(4, &[][..]), (3, &[]), (2, &[0, 0, 0, 0, 1, 0, 0, 0]), (1, &[0; 8]), (0, &[])]
        {
            assert_eq!(found(&ids, max).before(), before, "{max}");
        }
    }
}
