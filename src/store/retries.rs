//! The calls about messages that wait for a retry: when they can be taken again, and what they are.
//! Commands name them as [`MessageRef::retry`] says.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::domain::envelope::Envelope;
use crate::domain::lease::LeaseId;
use crate::domain::queue::{Due, MessageRef, QueueName};
use crate::domain::setting::LIMIT;
use crate::store::leases::HeldMessage;
use crate::store::messages::part_applied;
use crate::store::script::{RELEASE, RETRY, RETRY_GET};
use crate::store::search::BYTES_MAX;
use crate::store::{Store, StoreError, number};

/// Messages that one call changes.
const NAMED_MAX: usize = 1_000;
/// Messages that one call gives back to the list.
const RELEASED_MAX: u64 = 1_000;

/// The outcome of giving messages back to the list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Released {
    pub count: u64,
    /// Leases that were found to have run out, and the messages among them that died of it.
    pub lapsed: u64,
    pub died: u64,
}

impl Store {
    /// Says of those of the messages that wait for a retry when they can be taken again, or
    /// forgets them; how many, and the others.
    ///
    /// # Errors
    /// As every call; uncertain where some are changed.
    pub(super) async fn change_retries<'a>(
        &self,
        queue: &QueueName,
        messages: &'a [MessageRef],
        due: Option<Due>,
    ) -> Result<(u64, Cow<'a, [MessageRef]>), StoreError> {
        let waits = messages.iter().filter_map(MessageRef::retry).map(|id| (id, false));
        let mut waits: BTreeMap<LeaseId, bool> = waits.collect();
        if waits.is_empty() {
            return Ok((0, Cow::Borrowed(messages)));
        }
        let due = due.map_or_else(Bytes::new, |due| number(due.packed()));
        let mut changed = 0;
        let ids: Vec<LeaseId> = waits.keys().copied().collect();
        for some in ids.chunks(NAMED_MAX) {
            let named = some.iter().map(|id| Bytes::copy_from_slice(id));
            let answered = self.change(&RETRY, queue, [due.clone()].into_iter().chain(named)).await;
            let mut answer = answered.map_err(|error| part_applied(error, changed))?;
            for id in some {
                if answer.int()? == 1 {
                    changed += 1;
                    waits.insert(*id, true);
                }
            }
        }
        let waited = |one: &MessageRef| one.retry().is_some_and(|id| waits.get(&id) == Some(&true));
        Ok((changed, messages.iter().filter(|one| !waited(one)).cloned().collect()))
    }

    /// Gives messages that wait for a retry back to the list, `count` at most and no more than wait
    /// when it begins. Many of them take several calls.
    ///
    /// # Errors
    /// As every call; uncertain where some are given back.
    pub async fn release(&self, queue: &QueueName, count: u64) -> Result<Released, StoreError> {
        let (mut all, mut first_waiting) = (Released::default(), None);
        loop {
            let some = (count - all.count).min(RELEASED_MAX);
            let more = [number(some), number(BYTES_MAX), number(LIMIT.default)];
            let answered = self.change(&RELEASE, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, all.count))?;
            let (now, waiting) = (answer.count()?, answer.count()?);
            all.count += now;
            all.lapsed += answer.count()?;
            all.died += answer.count()?;
            // Others may come to wait meanwhile.
            let most = count.min(*first_waiting.get_or_insert(now + waiting));
            if all.count >= most || waiting == 0 {
                return Ok(all);
            }
        }
    }

    /// One message, if it waits for a retry.
    ///
    /// # Errors
    /// As every reading call; `TooBig`.
    pub async fn retry(
        &self,
        queue: &QueueName,
        id: LeaseId,
        message_max: usize,
    ) -> Result<Option<HeldMessage>, StoreError> {
        let id = Bytes::copy_from_slice(&id);
        let more = [id.clone(), number(message_max)];
        let mut answer = self.ask(&RETRY_GET, queue, more).await?;
        let Some(moment) = answer.score_if_any()? else {
            return Ok(None);
        };
        let (deliveries, base) = (answer.count()?, answer.count()?);
        let (reason, stored) = (answer.bytes()?, answer.bytes()?);
        let (envelope, payload) = Envelope::open(&stored);
        let (envelope, payload) = (envelope.unwrap_or_default(), Some(payload));
        let attempts = deliveries.saturating_sub(base);
        Ok(Some(HeldMessage { id, moment, deliveries, attempts, reason, payload, envelope }))
    }
}
