//! Paged work by payload: finds members without holding Redis for long, then acts on exact members.
//!
//! Pages move on while others change the queue. A page of the list begins behind an anchor (the
//! last element seen); if the anchor itself is gone the search begins anew. A page of the zset goes
//! on behind a score and a member, which others cannot shift. What is found is exact members, so
//! acting on one twice does nothing. Where no order list is kept [`super::first`] finds the order.

use std::collections::HashSet;

use bytes::Bytes;

use crate::queue::QueueName;
use crate::store::script::{MATCH_LISTED, MATCH_PENDING, REMOVE};
use crate::store::{Store, StoreError, number};

/// Elements of the list or the zset that one call looks at: about 2 ms of Redis for small payloads.
const PAGE: u64 = 4_000;
/// Members that one call removes.
const REMOVE_MAX: usize = 100;
/// How often a search of the list begins anew because its anchor was taken away; then the zset,
/// which needs no anchor, is searched.
const RESTARTS_MAX: u32 = 16;

impl Store {
    /// Removes up to `count` pending messages of this payload, the first ones in offer order; 0
    /// means all.
    ///
    /// # Errors
    /// As every call; some may have been removed.
    pub async fn remove(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        count: u64,
    ) -> Result<u64, StoreError> {
        let wanted = if count == 0 { u64::MAX } else { count };
        let mut removed = match self.remove_listed(queue, payload, wanted).await? {
            Some(removed) => removed,
            None if count > 0 => return self.remove_first(queue, payload, count).await,
            None => 0,
        };
        // Messages that only the zset has count too, after all listed ones.
        let mut after = None;
        while removed < wanted {
            let (found, next) = self
                .match_pending(queue, std::slice::from_ref(payload), after)
                .await?;
            let members: Vec<Bytes> = found.into_iter().map(|(member, _)| member).collect();
            removed += self
                .remove_members(queue, members, wanted - removed)
                .await?;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        Ok(removed)
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
        let mut contained = vec![false; payloads.len()];
        let mut after = None;
        loop {
            let (found, next) = self.match_pending(queue, payloads, after).await?;
            for (_, which) in found {
                // The same payload may be asked for more than once.
                let Some(payload) = payloads.get(which) else {
                    continue;
                };
                for (slot, other) in contained.iter_mut().zip(payloads) {
                    *slot |= other == payload;
                }
            }
            match next {
                Some(next) if !contained.iter().all(|found| *found) => after = Some(next),
                _ => return Ok(contained),
            }
        }
    }

    /// `None` where no order list is kept.
    async fn remove_listed(
        &self,
        queue: &QueueName,
        payload: &Bytes,
        wanted: u64,
    ) -> Result<Option<u64>, StoreError> {
        let (mut removed, mut restarts) = (0, 0);
        let (mut index, mut anchor) = (0, Bytes::new());
        let mut seen: HashSet<Bytes> = HashSet::new();
        while removed < wanted && restarts <= RESTARTS_MAX {
            let k = self.keys(queue).await?;
            let args = vec![
                Bytes::copy_from_slice(queue.as_bytes()),
                number(index),
                anchor,
                number(PAGE),
                number((wanted - removed).min(REMOVE_MAX as u64)),
                payload.clone(),
            ];
            let mut answer = self
                .read(&MATCH_LISTED, &[k.timeout, k.list, k.queue], args)
                .await?;
            if answer.status == "NOLIST" {
                return Ok(None);
            }
            if answer.status == "LOST" {
                (index, anchor, restarts) = (0, Bytes::new(), restarts + 1);
                continue;
            }
            let next = answer.int()?;
            anchor = answer.bytes()?;
            let mut members = Vec::new();
            while !answer.is_empty() {
                let member = answer.bytes()?;
                answer.int()?;
                if seen.insert(member.clone()) {
                    members.push(member);
                }
            }
            let gone = self
                .remove_members(queue, members, wanted - removed)
                .await?;
            removed += gone;
            if next < 0 {
                break;
            }
            // What was just removed stood before the next index.
            index = next.saturating_sub(gone as i64);
        }
        Ok(Some(removed))
    }

    pub(super) async fn remove_members(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
        wanted: u64,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        for some in members.chunks(REMOVE_MAX) {
            let left = usize::try_from(wanted - removed).unwrap_or(usize::MAX);
            let some = some.iter().take(left).cloned();
            removed += self.change(&REMOVE, queue, some).await?.count()?;
            if removed >= wanted {
                break;
            }
        }
        Ok(removed)
    }

    /// One page of the zset: members with one of the payloads (and which), and where to go on.
    #[allow(clippy::type_complexity)]
    pub(super) async fn match_pending(
        &self,
        queue: &QueueName,
        payloads: &[Bytes],
        after: Option<(Bytes, Bytes)>,
    ) -> Result<(Vec<(Bytes, usize)>, Option<(Bytes, Bytes)>), StoreError> {
        let k = self.keys(queue).await?;
        let (score, member) = after.unwrap_or_default();
        let mut args = vec![
            Bytes::copy_from_slice(queue.as_bytes()),
            score,
            member,
            number(PAGE),
        ];
        args.extend(payloads.iter().cloned());
        let mut answer = self
            .read(&MATCH_PENDING, &[k.timeout, k.queue], args)
            .await?;
        let (score, member) = (answer.bytes()?, answer.bytes()?);
        let mut found = Vec::with_capacity(answer.len() / 2);
        while !answer.is_empty() {
            let member = answer.bytes()?;
            found.push((member, (answer.count()? as usize).saturating_sub(1)));
        }
        Ok((found, (!score.is_empty()).then_some((score, member))))
    }
}
