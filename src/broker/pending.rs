//! What may be done to pending messages: one call of the store each, its count for the metrics, and
//! the hint to the scheduler where a head was made earlier.

use bytes::Bytes;

use crate::broker::Broker;
use crate::metrics::WakeCause;
use crate::queue::{Due, Format, Message, MessageId, MessageRef, QueueName};
use crate::scheduler::served::moment;
use crate::store::StoreError;
use crate::store::convert::Converted;
use crate::store::keys::QueueKeys;
use crate::store::messages::Position;

impl Broker {
    pub async fn remove(
        &self,
        queue: &QueueName,
        payload: Bytes,
        count: u64,
    ) -> Result<u64, StoreError> {
        let removed = self.store.remove(queue, &payload, count).await?;
        self.metrics.queue(queue.as_bytes()).removed(removed);
        Ok(removed)
    }

    pub async fn cancel(
        &self,
        queue: &QueueName,
        messages: Vec<MessageRef>,
    ) -> Result<u64, StoreError> {
        let cancelled = self.store.cancel(queue, &messages).await?;
        self.metrics.queue(queue.as_bytes()).cancelled(cancelled);
        Ok(cancelled)
    }

    pub async fn reschedule(
        &self,
        queue: &QueueName,
        which: MessageRef,
        due: Due,
    ) -> Result<Option<MessageId>, StoreError> {
        let Some((id, head)) = self.store.reschedule(queue, &which, due).await? else {
            return Ok(None);
        };
        if head && let Some(due) = moment(&id.score) {
            self.host
                .hint(&QueueKeys::new(queue.as_bytes()), due, WakeCause::Offer);
        }
        Ok(Some(id))
    }

    pub async fn fire(
        &self,
        queue: &QueueName,
        messages: Vec<MessageRef>,
    ) -> Result<u64, StoreError> {
        let fired = self.store.fire(queue, &messages).await?;
        if fired.count > 0 {
            self.host
                .hint(&QueueKeys::new(queue.as_bytes()), 0, WakeCause::Offer);
        }
        Ok(fired.count)
    }

    pub async fn get(
        &self,
        queue: &QueueName,
        which: MessageRef,
    ) -> Result<Option<Message>, StoreError> {
        self.store.get(queue, &which).await
    }

    pub async fn size(&self, queue: &QueueName) -> Result<u64, StoreError> {
        Ok(self.store.info(queue).await?.pending)
    }

    pub async fn peek(&self, queue: &QueueName, count: usize) -> Result<Vec<Message>, StoreError> {
        Ok(self
            .store
            .range(queue, ("-inf", "+inf"), count as u64, None)
            .await?
            .0)
    }

    /// A page from one score to another, and the cursor of the next: `0` if there is none.
    pub async fn range(
        &self,
        queue: &QueueName,
        from: String,
        to: String,
        count: usize,
        cursor: Option<Bytes>,
    ) -> Result<(Bytes, Vec<Message>), StoreError> {
        let after = match cursor {
            None => None,
            Some(cursor) => {
                let position = MessageId::parse(&cursor).ok_or(StoreError::BadCursor)?;
                Some(Position {
                    score: position.score,
                    prefix: Bytes::from(position.id),
                })
            }
        };
        let (messages, next) = self
            .store
            .range(queue, (&from, &to), count as u64, after)
            .await?;
        let cursor = next.map(|next| {
            MessageId {
                score: next.score,
                id: next.prefix.to_vec(),
            }
            .to_string()
        });
        Ok((
            cursor.map_or(Bytes::from_static(b"0"), Bytes::from),
            messages,
        ))
    }

    pub async fn contains(
        &self,
        queue: &QueueName,
        payloads: Vec<Bytes>,
    ) -> Result<Vec<bool>, StoreError> {
        self.store.contains(queue, &payloads).await
    }

    pub async fn poll(&self, queue: &QueueName, count: usize) -> Result<Vec<Bytes>, StoreError> {
        let payloads = self.store.poll(queue, count as u64).await?;
        self.metrics
            .queue(queue.as_bytes())
            .removed(payloads.len() as u64);
        Ok(payloads)
    }

    pub async fn clear(&self, queue: &QueueName) -> Result<u64, StoreError> {
        let dropped = self.store.clear(queue).await?;
        self.metrics.queue(queue.as_bytes()).removed(dropped);
        Ok(dropped)
    }

    pub async fn convert(
        &self,
        queue: &QueueName,
        format: Option<Format>,
    ) -> Result<Converted, StoreError> {
        self.store.convert(queue, format).await
    }

    pub async fn pause(
        &self,
        queue: &QueueName,
        duration_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        self.store.pause(queue, duration_ms).await
    }

    pub async fn resume(&self, queue: &QueueName) -> Result<(), StoreError> {
        self.store.resume(queue).await?;
        self.host
            .look(&QueueKeys::new(queue.as_bytes()), WakeCause::Offer);
        Ok(())
    }

    // Quarantine.

    pub async fn quarantine_list(
        &self,
        queue: &QueueName,
        count: usize,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.store.quarantine_list(queue, count as u64).await
    }

    pub async fn quarantine_restore(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        let restored = self.store.quarantine_restore(queue, members).await?;
        if restored.head {
            self.host
                .look(&QueueKeys::new(queue.as_bytes()), WakeCause::Offer);
        }
        Ok(restored.count)
    }

    pub async fn quarantine_drop(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        self.store.quarantine_drop(queue, members).await
    }
}
