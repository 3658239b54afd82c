//! Consumers at least once: they take messages for a time, settle them, and look after those that
//! are taken, wait for a retry, or are dead.

use std::future::Ready;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::broker::queue::Queue;
use crate::domain::envelope::HEADERS_MAX;
use crate::domain::glob;
use crate::domain::lease::{Nack, Receipt};
use crate::domain::queue::QueueName;
use crate::scheduler::takers::{Hand, Take, Unsent, note_dropped, note_given_back};
use crate::scheduler::tied::Tied;
use crate::store::StoreError;
use crate::store::cursor::Cursor;
use crate::store::leases::{Held, HeldMessage, Leased, Wanted};
use crate::store::settles::{Settled, Settlement};

/// Dead messages that one command brings back or drops where none is named.
const DEAD_MAX: usize = 1_000;
/// Pages that one command reads to find those that match.
const PAGES_MAX: usize = 100;
/// Of a page without payloads.
const PAGE: u64 = 1_000;
/// Bytes of a reply around each payload, at most; the longest are those of RESP2 with DECODE.
/// Headers take their room from the envelope, but for what stands around each.
const ROW_BYTES: usize = 256 + 2 * HEADERS_MAX as usize * 8;

/// What a taker wants.
#[derive(Debug)]
pub struct TakeRequest {
    /// In the order in which they are asked.
    pub queues: Vec<QueueName>,
    pub count: usize,
    /// `None`: it does not wait; else so long, or for ever.
    pub block: Option<Option<Duration>>,
    /// `None`: that of the queue.
    pub lease_ms: Option<u64>,
    /// The connection that the leases are to end with.
    pub tied: Option<Rc<Tied>>,
}

/// What it got.
pub struct TakenMessages {
    pub queue: QueueName,
    /// The end of the leases, Unix ms.
    pub until_ms: u64,
    pub messages: Vec<Leased>,
    pub unsent: Unsent,
}

/// Dead messages: those with these ids, or without ids all, that match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dead {
    pub ids: Vec<Bytes>,
    /// Of the reason.
    pub pattern: Option<Bytes>,
}

impl Dead {
    fn has(&self, message: &HeldMessage) -> bool {
        let matches = |pattern: &Bytes| glob::matches(pattern, &message.reason);
        (self.ids.is_empty() || self.ids.contains(&message.id))
            && self.pattern.as_ref().is_none_or(matches)
    }
}

impl Broker {
    /// For the leases of a connection, which go back when this is dropped.
    pub fn tied(&self) -> Rc<Tied> {
        self.host.takers.tied()
    }

    /// Takes messages for a time; `None` if there are none within the time that it waits, or
    /// `enough` was said before. Safe to cancel: what it got by then goes back.
    ///
    /// # Errors
    /// As every call.
    pub async fn take(
        &self,
        request: TakeRequest,
        enough: &CancellationToken,
    ) -> Result<Option<TakenMessages>, StoreError> {
        let TakeRequest { queues, count, block, lease_ms, tied } = request;
        // What a reply has of each message beside its payload.
        let name = queues.iter().map(|queue| queue.as_bytes().len()).max().unwrap_or(0);
        let row = ROW_BYTES + if queues.len() > 1 { name } else { 0 };
        let output = self.config.borrow().server.output_bytes_max;
        let count = count.min((output / 2 / row).max(1));
        let message_max = self.message_bytes_max().min(output.saturating_sub(count * row));
        let wanted = Wanted { count, lease_ms, message_max };
        let takers = &self.host.takers;
        let taken = |hand: Hand| {
            let Hand { queue, until_ms, messages, unsent } = hand;
            TakenMessages { queue, until_ms, messages, unsent: unsent.tied_to(tied.clone()) }
        };
        // One after the other, so that what is there is taken in their order.
        if queues.len() > 1 || block.is_none() {
            let mut spoiled = None;
            for queue in &queues {
                let take = Take { queues: vec![queue.clone()], wanted };
                match takers.take(take, None::<Ready<()>>).await {
                    Ok(Some(hand)) => return Ok(Some(taken(hand))),
                    Ok(None) => {}
                    // The others have nothing to do with it.
                    Err(
                        error @ (StoreError::WrongType { .. }
                        | StoreError::BadQueue { .. }
                        | StoreError::TooBig { .. }
                        | StoreError::IsStream),
                    ) => spoiled = spoiled.or(Some(error)),
                    Err(error) => return Err(error),
                }
                if enough.is_cancelled() {
                    return Ok(None);
                }
            }
            if let Some(error) = spoiled {
                return Err(error);
            }
        }
        let Some(at_most) = block else {
            return Ok(None);
        };
        let elapsed = async {
            match at_most {
                Some(at_most) => tokio::time::sleep(at_most).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            hand = takers.take(Take { queues, wanted }, Some(elapsed)) => Ok(hand?.map(taken)),
            () = enough.cancelled() => Ok(None),
        }
    }
}

impl Queue<'_> {
    pub async fn ack(&self, receipts: Vec<Receipt>) -> Result<u64, StoreError> {
        let acked = self.settle(Settlement::Ack, receipts).await?;
        if acked.count > 0 {
            self.metrics().acked(acked.count);
            if acked.makes_room {
                self.broker.host.takers.look(self.name.as_bytes());
            }
        }
        Ok(acked.count)
    }

    pub async fn nack(&self, receipts: Vec<Receipt>, nack: Nack) -> Result<u64, StoreError> {
        let given = self.settle(Settlement::Nack(nack), receipts).await?;
        if note_given_back(&self.broker.metrics, self.name, &given) {
            self.broker.host.takers.look(self.name.as_bytes());
        }
        Ok(given.count)
    }

    pub async fn extend(
        &self,
        receipts: Vec<Receipt>,
        lease_ms: Option<u64>,
    ) -> Result<u64, StoreError> {
        Ok(self.settle(Settlement::Extend { lease_ms }, receipts).await?.count)
    }

    async fn settle(&self, how: Settlement, receipts: Vec<Receipt>) -> Result<Settled, StoreError> {
        let asked = receipts.len();
        let settled = self.broker.store.settle(self.name, how, receipts).await?;
        self.count_stale(asked, settled.count);
        Ok(settled)
    }

    /// Receipts that settled nothing; a queue without any messages gets no series for them.
    fn count_stale(&self, receipts: usize, settled: u64) {
        let stale = (receipts as u64).saturating_sub(settled);
        let (_, counts) = self.broker.metrics.shown(self.name.as_bytes());
        if stale > 0 && counts.taken > 0 {
            self.metrics().stale(stale);
        }
    }

    /// A page of the messages that are leased or wait, and the cursor of the next, if there is one.
    pub async fn taken(
        &self,
        held: Held,
        count: usize,
        cursor: Option<Bytes>,
    ) -> Result<(Option<Bytes>, Vec<HeldMessage>), StoreError> {
        let of = match held {
            Held::Leased => "DQ.TAKEN LEASED",
            Held::Waiting => "DQ.TAKEN WAITING",
            Held::Dead => "DQ.DEAD",
        };
        let cursor = self.opened(of, cursor.as_ref())?;
        let max = self.broker.message_bytes_max();
        let page = self.broker.store.held(self.name, held, count as u64, max, &cursor);
        let (messages, next) = page.await?;
        Ok((self.sealed(of, &next), messages))
    }

    /// Gives messages that wait for a retry back to the list, all or `count` at most; how many.
    pub async fn release(&self, count: Option<u64>) -> Result<u64, StoreError> {
        let released = self.broker.store.release(self.name, count.unwrap_or(u64::MAX)).await?;
        if released.lapsed > 0 {
            self.metrics().lapsed(released.lapsed);
            self.metrics().died(released.died);
        }
        if released.count > 0 {
            self.broker.host.takers.look(self.name.as_bytes());
        }
        Ok(released.count)
    }

    /// A page of the dead messages that match, and the cursor of the next, if there is one.
    pub async fn dead_list(
        &self,
        count: usize,
        cursor: Option<Bytes>,
        pattern: Option<Bytes>,
    ) -> Result<(Option<Bytes>, Vec<HeldMessage>), StoreError> {
        if cursor.is_none() {
            // A list is worth more than a clean one.
            let dropped = self.broker.store.drop_old_dead(self.name).await.unwrap_or(0);
            note_dropped(&self.broker.metrics, self.name, dropped);
        }
        let which = Dead { ids: Vec::new(), pattern };
        let (mut cursor, mut found) = (cursor, Vec::new());
        for _ in 0..PAGES_MAX {
            let (next, page) = self.taken(Held::Dead, count - found.len(), cursor).await?;
            let bytes: usize = page.iter().flat_map(|one| &one.payload).map(Bytes::len).sum();
            found.extend(page.into_iter().filter(|one| which.has(one)));
            cursor = next;
            // Without a pattern the page is what there is; with one, a reply stays bounded.
            let ends = which.pattern.is_none() || found.len() >= count || bytes > 0;
            if cursor.is_none() || (ends && !found.is_empty()) {
                break;
            }
        }
        Ok((cursor, found))
    }

    pub async fn dead_requeue(&self, which: Dead, delay_ms: u64) -> Result<u64, StoreError> {
        let Some(ids) = self.dead_ids(which).await? else {
            return Ok(0);
        };
        let requeue = self.broker.store.requeue_dead(self.name, &ids, delay_ms);
        let (requeued, dropped) = requeue.await?;
        note_dropped(&self.broker.metrics, self.name, dropped);
        if requeued > 0 {
            self.look_for_retries();
            self.metrics().requeued(requeued);
            self.broker.host.takers.look(self.name.as_bytes());
        }
        Ok(requeued)
    }

    pub async fn dead_drop(&self, which: Dead) -> Result<u64, StoreError> {
        let Some(ids) = self.dead_ids(which).await? else {
            return Ok(0);
        };
        let (count, others) = self.broker.store.drop_dead(self.name, &ids).await?;
        note_dropped(&self.broker.metrics, self.name, others);
        Ok(count)
    }

    /// The ids that are meant; empty: the first ones. `None` if none matches.
    async fn dead_ids(&self, which: Dead) -> Result<Option<Vec<Bytes>>, StoreError> {
        if which.pattern.is_none() {
            return Ok(Some(which.ids));
        }
        let (mut cursor, mut ids) = (Cursor::default(), Vec::new());
        loop {
            let page = self.broker.store.held(self.name, Held::Dead, PAGE, 0, &cursor);
            let (messages, next) = page.await?;
            let matching = messages.into_iter().filter(|one| which.has(one));
            ids.extend(matching.map(|one| one.id));
            ids.truncate(DEAD_MAX);
            if next.is_end() || ids.len() >= DEAD_MAX {
                return Ok((!ids.is_empty()).then_some(ids));
            }
            cursor = next;
            self.broker.turns.next().await;
        }
    }
}
