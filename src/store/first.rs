//! Offer order where no order list is kept: ids of ours grow from offer to offer, so what came
//! first has the lowest. Those of others are in no order: they come after all of ours, by due time.
//!
//! The zset is read in pages, and the first so many are kept in mind; then exactly those are taken.
//! Others go on meanwhile: what is gone by then is left out, what is offered later comes later.

use bytes::Bytes;

use crate::queue::{MessageId, QueueName};
use crate::snowflake;
use crate::store::messages::{payloads, reply_lost};
use crate::store::script::{FIRST, TAKE};
use crate::store::{Store, StoreError, member, number};

/// Members that one call looks at, and their bytes: one or two ms of Redis.
const LOOK_MAX: u64 = 1_000;
const BYTES_MAX: u64 = 1 << 20;
/// How often the rest is looked for anew, where others took what was found.
const ROUNDS_MAX: u32 = 4;
/// Members that a removal keeps in mind, and their bytes.
const KEPT_MAX: usize = 10_000;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The first so many of what a search of the zset came by.
struct First<T> {
    max: usize,
    now_ms: u64,
    /// With the place of each in offer order. Added to in the order of the zset.
    found: Vec<(u64, T)>,
}

impl<T> First<T> {
    fn new(max: usize, now_ms: u64) -> Self {
        Self {
            max,
            now_ms,
            found: Vec::new(),
        }
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
    ) -> Result<Vec<Bytes>, StoreError> {
        let mut taken = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let wanted = count - taken.len();
            let round = async {
                let first = self.first(queue, wanted).await?;
                let all = first.len() < wanted;
                let (full, payloads) = self.take(queue, first, &taken).await?;
                Ok((full || all, payloads))
            };
            match round.await {
                Ok((last, payloads)) => {
                    taken.extend(payloads);
                    if last || taken.len() >= count {
                        break;
                    }
                }
                // What is taken has to be answered.
                Err(error) if !taken.is_empty() => {
                    let queue = queue.as_bytes().escape_ascii();
                    tracing::warn!(%queue, %error, "DQ.POLL ended early");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// The ids of the first so many pending messages.
    async fn first(&self, queue: &QueueName, count: usize) -> Result<Vec<MessageId>, StoreError> {
        let mut first = First::new(count, self.clock.now_us() / 1_000);
        let (mut score, mut prefix) = (Bytes::new(), Bytes::new());
        loop {
            let k = self.keys(queue).await?;
            let args = vec![
                k.destination,
                score,
                prefix,
                number(LOOK_MAX),
                number(BYTES_MAX),
                first.before(),
            ];
            let mut answer = self.read(&FIRST, &[k.timeout, k.queue], args).await?;
            (score, prefix) = (answer.bytes()?, answer.bytes()?);
            while !answer.is_empty() {
                let (score, id) = (answer.text()?, answer.bytes()?.to_vec());
                let place = first.place(&id);
                first.found.push((place, MessageId { score, id }));
            }
            first.narrow();
            if score.is_empty() {
                return Ok(first.items());
            }
        }
    }

    /// Takes those of the messages that are still pending, beside what is `taken`; and whether a
    /// reply holds no more.
    async fn take(
        &self,
        queue: &QueueName,
        messages: Vec<MessageId>,
        taken: &[Bytes],
    ) -> Result<(bool, Vec<Bytes>), StoreError> {
        let k = self.keys(queue).await?;
        let bytes: usize = taken.iter().map(Bytes::len).sum();
        let bytes_max = self.limits.reply_bytes_max.saturating_sub(bytes);
        let mut args = vec![k.destination, number(bytes_max)];
        for MessageId { score, id } in messages {
            args.extend([Bytes::from(score), Bytes::from(id)]);
        }
        let keys = vec![k.timeout, k.queue, k.names, k.ids];
        let mut answer = self.write(&TAKE, keys, args).await?;
        if answer.status == "APPLIED" {
            return Err(reply_lost());
        }
        Ok((answer.int()? == 1, payloads(answer)?))
    }

    /// Removes the first `wanted` pending messages of this payload.
    pub(super) async fn remove_first(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        wanted: u64,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        let kept = KEPT_BYTES_MAX / (payload.len() + member::OVERHEAD);
        let kept = kept.clamp(1, KEPT_MAX) as u64;
        while removed < wanted {
            let max = (wanted - removed).min(kept);
            let mut first = First::new(max as usize, self.clock.now_us() / 1_000);
            let mut after = None;
            loop {
                let payloads = std::slice::from_ref(payload);
                let (found, next) = self.match_pending(queue, payloads, after).await?;
                for (member, _) in found {
                    let id = member::read(&member).and_then(|parts| member.get(parts.id));
                    let place = first.place(id.unwrap_or_default());
                    // A copy: the reply that it is part of need not be kept.
                    first.found.push((place, Bytes::copy_from_slice(&member)));
                }
                first.narrow();
                after = next;
                if after.is_none() {
                    break;
                }
            }
            let all = !first.is_full();
            let gone = self.remove_members(queue, first.items(), max).await?;
            removed += gone;
            if all || gone == 0 {
                break;
            }
        }
        Ok(removed)
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
        for (max, items) in [
            (9, &[3, 5, 1, 0, 2, 4][..]),
            (4, &[3, 5, 1, 0]),
            (2, &[3, 5]),
            (0, &[]),
        ] {
            let first = found(&ids, max);
            assert_eq!(first.is_full(), max <= items.len(), "{max}");
            assert_eq!(first.items(), items, "{max}");
        }
    }

    /// Only where there are enough, and the last of them has an order.
    #[test]
    fn before() {
        let ids: [&[u8]; 3] = [&[0xff; 8], &[0, 0, 0, 0, 1, 0, 0, 0], &[0; 8]];
        for (max, before) in [
            (4, &[][..]),
            (3, &[]),
            (2, &[0, 0, 0, 0, 1, 0, 0, 0]),
            (1, &[0; 8]),
            (0, &[]),
        ] {
            assert_eq!(found(&ids, max).before(), before, "{max}");
        }
    }
}
