//! One queue: the handle that commands and other doors get from [`Broker::queue`].
//!
//! Each method is one call of the store (which knows the node of the queue), its count for the
//! metrics, and the hint to the scheduler where the head became earlier.

use std::sync::Arc;

use bytes::Bytes;

use crate::broker::{Broker, cursor, overdue_ms};
use crate::domain::envelope;
use crate::domain::queue::{Due, Format, Message, MessageId, MessageRef, QueueName, Score};
use crate::domain::setup::{Settings, SettingsChange};
use crate::metrics::{QueueMetrics, QueueSnapshot, WakeCause};
use crate::scheduler::queue_loop::Moment;
use crate::scheduler::run_queue::Urgency;
use crate::store::convert::Converted;
use crate::store::cursor::Cursor;
use crate::store::keys::{self, QueueKeys};
use crate::store::leases::HeldMessage;
use crate::store::messages::QueueState;
use crate::store::{StoreError, member};

/// Bytes of a reply around its messages.
const REPLY_HEAD: usize = 64;

/// The state of a queue that DQ.INFO shows: Redis's now, and this broker's counts since its start.
#[derive(Clone, Debug, Default)]
pub struct QueueInfo {
    /// It has messages or had them not long ago, or is configured.
    pub known: bool,
    pub state: QueueState,
    /// How long the head has been due, if it is.
    pub oldest_overdue_ms: u64,
    /// Unix ms of the broker's start.
    pub since: u64,
    /// The metrics' label that the counts are of: the queue's name, or `other`.
    pub label: String,
    pub counts: QueueSnapshot,
    /// Clients that wait for messages at this broker.
    pub takers: usize,
}

/// A message that a command named.
pub enum Found {
    Pending(Message),
    /// It waits for a retry.
    Waiting(HeldMessage),
}

pub struct Queue<'a> {
    pub(super) broker: &'a Broker,
    pub(super) name: &'a QueueName,
}

impl Broker {
    /// The handle of one queue, which need not exist yet.
    pub fn queue<'a>(&'a self, name: &'a QueueName) -> Queue<'a> {
        Queue { broker: self, name }
    }

    /// The bytes of a member that a reply can hold: more would disconnect the client that asked, or
    /// take the memory of others. The bytes of a member beside its payload are more than those that
    /// a reply puts around each, but for its own head.
    pub(super) fn message_bytes_max(&self) -> usize {
        let config = self.config.borrow();
        let limits = &config.limits;
        let reply = limits.reply_bytes_max.max(limits.payload_bytes_max);
        let reply = reply + member::OVERHEAD + envelope::OVERHEAD_MAX;
        reply.min(config.server.output_bytes_max.saturating_sub(REPLY_HEAD))
    }
}

impl Queue<'_> {
    pub(super) fn keys(&self) -> QueueKeys {
        QueueKeys::new(self.name.as_bytes())
    }

    /// The scheduler looks at it now.
    fn look(&self) {
        let keys = self.keys();
        self.broker.host.change(|schedule, now| {
            schedule.look(&keys, Urgency::Due, WakeCause::Offer, now);
        });
    }

    /// The scheduler is told that its head is due at `due`; 0: now.
    pub(super) fn hint(&self, due: Moment) {
        let keys = self.keys();
        self.broker.host.change(|schedule, now| schedule.hint(&keys, due, WakeCause::Offer, now));
    }

    /// Its series of the metrics; made now if there is none, so only where something is counted.
    pub(super) fn metrics(&self) -> Arc<QueueMetrics> {
        self.broker.metrics.queue(self.name.as_bytes())
    }

    /// Where the page of a client begins. `of`: the command that gave it the cursor.
    pub(super) fn opened(&self, of: &str, text: Option<&Bytes>) -> Result<Cursor, StoreError> {
        let Some(text) = text else {
            return Ok(Cursor::default());
        };
        let of = [of.as_bytes(), self.name.as_bytes()];
        cursor::opened_page(&of, text).ok_or(StoreError::BadCursor)
    }

    /// The cursor of the next page, if there is one.
    pub(super) fn sealed(&self, of: &str, next: &Cursor) -> Option<Bytes> {
        let of = [of.as_bytes(), self.name.as_bytes()];
        (!next.is_end()).then(|| cursor::sealed_page(&of, next))
    }

    /// Its state in Redis, and the counts of this broker.
    pub async fn info(&self) -> Result<QueueInfo, StoreError> {
        let (broker, name) = (self.broker, self.name.as_bytes());
        let known = broker.host.schedule().head(&keys::suffix_of(name));
        let state = broker.store.info(self.name, known).await?;
        let (label, counts) = broker.metrics.shown(name);
        let now_ms = state.now_us / 1_000;
        let quarantined = state.quarantined.unsigned_abs();
        let held = [state.leased, state.waiting, state.dead, state.crons].map(i64::unsigned_abs);
        let holds = [state.pending, state.listed, quarantined].into_iter().chain(held);
        let configured = &broker.config().queues;
        // A queue that has nothing but a pause is served until that ends.
        let serves = broker.host.schedule().serves(self.keys().suffix_bytes());
        let known = serves && state.paused_until.is_none()
            || holds.into_iter().any(|count| count > 0)
            || state.ready > 0
            || !state.settings.is_empty()
            || configured.iter().any(|known| known.name.as_bytes() == name);
        Ok(QueueInfo {
            known,
            oldest_overdue_ms: overdue_ms(state.next_due, now_ms),
            state,
            since: now_ms.saturating_sub(broker.started.elapsed().as_millis() as u64),
            label,
            counts,
            takers: broker.host.takers.in_line(name),
        })
    }

    pub async fn pause(&self, duration_ms: Option<u64>) -> Result<(), StoreError> {
        self.broker.store.pause(self.name, duration_ms).await?;
        // A queue that has nothing but this pause: it is looked at again when the pause ends, and
        // then forgotten; else its record would stay.
        let keys = self.keys();
        if duration_ms.is_some() && self.broker.host.schedule().is_missing(keys.suffix_bytes()) {
            self.look();
        }
        Ok(())
    }

    /// Changes settings; those before and those now.
    pub async fn setup(&self, change: &SettingsChange) -> Result<(Settings, Settings), StoreError> {
        self.before_setup(change).await?;
        let changed = self.broker.store.setup(self.name, change).await?;
        if changed.1.is_stream() {
            self.after_setup().await;
        }
        // More may be leased at a time now.
        self.broker.host.takers.look(self.name.as_bytes());
        Ok(changed)
    }

    pub async fn resume(&self) -> Result<(), StoreError> {
        let was_paused = self.broker.store.resume(self.name).await?;
        let keys = self.keys();
        self.broker.host.takers.look(self.name.as_bytes());
        if was_paused || self.broker.host.schedule().serves(keys.suffix_bytes()) {
            self.look();
        }
        Ok(())
    }

    /// Puts payloads into the destination at once, all or none; their ids, if takers have them.
    pub async fn push(&self, payloads: Vec<Bytes>) -> Result<Option<Vec<MessageId>>, StoreError> {
        let (keys, host) = (self.keys(), &self.broker.host);
        let count = payloads.len() as u64;
        let (ids, end_ms) = self.broker.offers.ids(payloads.len()).await?;
        host.change(|schedule, _| schedule.reserve(&keys))?;
        let pushed = self.broker.store.push(&keys, payloads, ids, end_ms).await;
        host.change(|schedule, now| match &pushed {
            Ok(pushed) if pushed.pending => schedule.offered(&keys, count, pushed.head_ms, now),
            _ => schedule.release(&keys, now),
        });
        let pushed = pushed?;
        if !pushed.pending {
            self.metrics().offered(count);
            self.metrics().delivered(count);
            host.takers.look(self.name.as_bytes());
        }
        Ok(pushed.ids)
    }

    pub async fn remove(&self, payload: Bytes, count: u64) -> Result<u64, StoreError> {
        let removed = self.broker.store.remove(self.name, &payload, count).await?;
        if removed > 0 {
            self.metrics().removed(removed);
        }
        Ok(removed)
    }

    pub async fn cancel(&self, messages: Vec<MessageRef>) -> Result<u64, StoreError> {
        let cancelled = self.broker.store.cancel(self.name, &messages).await?;
        if cancelled > 0 {
            self.metrics().cancelled(cancelled);
        }
        Ok(cancelled)
    }

    pub async fn reschedule(
        &self,
        which: MessageRef,
        due: Due,
    ) -> Result<Option<MessageId>, StoreError> {
        let Some((id, head)) = self.broker.store.reschedule(self.name, &which, due).await? else {
            return Ok(None);
        };
        if head {
            self.hint(id.score.moment());
        }
        self.broker.host.takers.look(self.name.as_bytes());
        Ok(Some(id))
    }

    pub async fn fire(&self, messages: Vec<MessageRef>) -> Result<u64, StoreError> {
        let fired = self.broker.store.fire(self.name, &messages).await?;
        if fired.count > 0 {
            self.hint(0);
            self.broker.host.takers.look(self.name.as_bytes());
        }
        Ok(fired.count)
    }

    pub async fn get(&self, which: MessageRef) -> Result<Option<Found>, StoreError> {
        let (store, max) = (&self.broker.store, self.broker.message_bytes_max());
        if let Some(id) = which.retry()
            && let Some(waits) = store.retry(self.name, id, max).await?
        {
            return Ok(Some(Found::Waiting(waits)));
        }
        Ok(store.get(self.name, &which, max).await?.map(Found::Pending))
    }

    pub async fn size(&self) -> Result<u64, StoreError> {
        self.broker.store.size(self.name).await
    }

    pub async fn peek(&self, count: usize) -> Result<Vec<Message>, StoreError> {
        let (all, max) = ((Score::MIN, Score::MAX), self.broker.message_bytes_max());
        let start = Cursor::default();
        let page = self.broker.store.range(self.name, all, count as u64, max, &start);
        Ok(page.await?.0)
    }

    /// A page from one score to another, and the cursor of the next, if there is one.
    pub async fn range(
        &self,
        bounds: (Score, Score),
        count: usize,
        cursor: Option<Bytes>,
    ) -> Result<(Option<Bytes>, Vec<Message>), StoreError> {
        let cursor = self.opened("DQ.RANGE", cursor.as_ref())?;
        let max = self.broker.message_bytes_max();
        let page = self.broker.store.range(self.name, bounds, count as u64, max, &cursor);
        let (messages, next) = page.await?;
        Ok((self.sealed("DQ.RANGE", &next), messages))
    }

    /// Redis's time, as far as it is known here, Unix ms.
    pub fn now_ms(&self) -> u64 {
        self.broker.store.clock(&self.keys()).now_us() / 1_000
    }

    pub async fn timeline(&self, moments: &[u64]) -> Result<Vec<u64>, StoreError> {
        self.broker.store.timeline(self.name, moments).await
    }

    pub async fn contains(&self, payloads: Vec<Bytes>) -> Result<Vec<bool>, StoreError> {
        self.broker.store.contains(self.name, &payloads).await
    }

    pub async fn poll(&self, count: usize) -> Result<Vec<Bytes>, StoreError> {
        let max = self.broker.message_bytes_max();
        let payloads = self.broker.store.poll(self.name, count as u64, max).await?;
        if !payloads.is_empty() {
            let taken = payloads.len() as u64;
            self.metrics().removed(taken);
        }
        Ok(payloads)
    }

    pub async fn clear(&self) -> Result<u64, StoreError> {
        let dropped = self.broker.store.clear(self.name).await?;
        if dropped > 0 {
            self.metrics().removed(dropped);
        }
        Ok(dropped)
    }

    pub async fn convert(&self, format: Option<Format>) -> Result<Converted, StoreError> {
        self.broker.store.convert(self.name, format).await
    }

    // Quarantine.

    pub async fn quarantine_list(&self, count: usize) -> Result<Vec<(Score, Bytes)>, StoreError> {
        let max = self.broker.message_bytes_max();
        self.broker.store.quarantine_list(self.name, count as u64, max).await
    }

    pub async fn quarantine_restore(&self, members: Vec<Bytes>) -> Result<u64, StoreError> {
        let restored = self.broker.store.quarantine_restore(self.name, members).await?;
        if restored.head {
            self.look();
        }
        Ok(restored.count)
    }

    pub async fn quarantine_drop(&self, members: Vec<Bytes>) -> Result<u64, StoreError> {
        self.broker.store.quarantine_drop(self.name, members).await
    }
}
