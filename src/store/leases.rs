//! The calls of consumers, who take messages for a time; those that settle them are in
//! [`settles`](crate::store::settles).
//!
//! A message that is taken has an id of its own, which is random, since a payload in a list has
//! none. Whoever settles it shows id and delivery number; `lua/_lease.lua` says what they are
//! compared with.

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::domain::envelope::Envelope;
use crate::domain::lease::{LeaseId, Receipt};
use crate::domain::queue::{QueueName, Score};
use crate::domain::setting::{LEASE, LIMIT};
use crate::domain::setup::{Settings, SettingsChange};
use crate::store::answer::Answer;
use crate::store::cursor::Cursor;
use crate::store::delivery::broken;
use crate::store::keys::{Key, QueueKeys};
use crate::store::messages::part_applied;
use crate::store::node::Asker;
use crate::store::router::Router;
use crate::store::script::{DEAD, READY, SETUP, TAKE, TAKEN};
use crate::store::settles::Settlement;
use crate::store::survey::Asked;
use crate::store::{Store, StoreError, number};

/// Messages that one call brings back or drops.
const DEAD_MAX: usize = 1_000;

/// What a call of takers may take.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub count: usize,
    /// `None`: that of the queue.
    pub lease_ms: Option<u64>,
    /// Bytes of a payload that a reply can hold.
    pub message_max: usize,
}

/// A message that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    pub receipt: Receipt,
    /// Deliveries that count, this one included.
    pub attempt: u64,
    pub payload: Bytes,
    /// What was said of it beside the payload; its id is that of the receipt.
    pub envelope: Envelope,
}

/// When there may be more to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Now,
    /// Not before this moment of Redis's clock, Unix ms, as far as is known.
    At(u64),
    Unknown,
}

/// The outcome of a take.
#[derive(Debug)]
pub struct Took {
    pub messages: Vec<Leased>,
    /// The end of the leases, Unix ms.
    pub until_ms: u64,
    pub next: Next,
    /// Leases that were found to have run out, and the messages that died of that or expired.
    pub lapsed: u64,
    pub died: u64,
    /// Messages that were met and had expired.
    pub expired: u64,
    /// Dead messages that the settings of the queue keep no longer.
    pub dropped: u64,
}

/// The messages that consumers have taken, by what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Leased,
    /// Waiting for a retry.
    Waiting,
    Dead,
}

/// A message that a consumer has taken, or had.
#[derive(Clone, Debug)]
pub struct HeldMessage {
    pub id: Bytes,
    /// The end of the lease, the time of the retry, or that of death.
    pub moment: Score,
    pub deliveries: u64,
    /// Deliveries that count.
    pub attempts: u64,
    pub reason: Bytes,
    /// Of a dead one that a reply can hold.
    pub payload: Option<Bytes>,
    /// Of a dead one: what was said of it beside the payload.
    pub envelope: Envelope,
}

impl Store {
    /// Leases what can be had: messages whose retry has come, and payloads of the list.
    ///
    /// # Errors
    /// As every call. Where the reply was lost what it held is given back, and nothing is taken.
    /// `TooBig`: nothing was taken.
    pub async fn take(&self, queue: &QueueName, wanted: Wanted) -> Result<Took, StoreError> {
        let mut ids = vec![0; wanted.count * size_of::<LeaseId>()];
        getrandom(&mut ids, GetRandomFlags::empty())
            .map_err(|error| StoreError::Unavailable(format!("no random ids: {error}")))?;
        let more = [
            number(wanted.count),
            number(self.limits.reply_bytes_max.min(wanted.message_max)),
            number(wanted.message_max),
            lease(wanted.lease_ms),
            number(LIMIT.default),
            Bytes::from(ids),
        ];
        let mut answer = self.change(&TAKE, queue, more).await?;
        let mut took = Took {
            messages: Vec::new(),
            until_ms: 0,
            next: Next::Unknown,
            lapsed: 0,
            died: 0,
            expired: 0,
            dropped: 0,
        };
        match &answer.status[..] {
            b"APPLIED" => {
                let mut lost = Vec::with_capacity(answer.len() / 2);
                while !answer.is_empty() {
                    lost.push(receipt(&mut answer)?);
                }
                // What fails here comes back when the lease runs out.
                drop(self.settle_now(queue, &Settlement::RETURN, &[lost]).await);
                took.next = Next::Now;
            }
            b"PAUSED" => took.next = u64::try_from(answer.int()?).map_or(Next::Unknown, Next::At),
            _ => {
                let now_ms = answer.now_us / 1_000;
                took.next = match answer.score_if_any()?.map(Score::moment) {
                    None => Next::Unknown,
                    Some(next) if next <= now_ms => Next::Now,
                    Some(next) => Next::At(next),
                };
                (took.until_ms, took.lapsed, took.died) =
                    (answer.count()?, answer.count()?, answer.count()?);
                while answer.len() >= 4 {
                    let receipt = receipt(&mut answer)?;
                    let (attempt, stored) = (answer.count()?, answer.bytes()?);
                    let (envelope, payload) = Envelope::open(&stored);
                    let envelope = envelope.unwrap_or_default();
                    took.messages.push(Leased { receipt, attempt, payload, envelope });
                }
                if !answer.is_empty() {
                    took.expired = answer.count()?;
                }
                took.dropped = dropped(&mut answer)?;
            }
        }
        Ok(took)
    }

    /// Records settings of a queue; those before and those now.
    ///
    /// # Errors
    /// As every call. Nothing is lost by a repetition.
    pub async fn setup(
        &self,
        queue: &QueueName,
        change: &SettingsChange,
    ) -> Result<(Settings, Settings), StoreError> {
        let pairs = change.values.iter().flat_map(|(setting, value)| {
            let value = value.as_ref().map_or_else(Bytes::new, number);
            [Bytes::from_static(setting.name.as_bytes()), value]
        });
        let terms = [change.mode.word(), change.origin.word()].map(str::as_bytes);
        let more = terms.into_iter().map(Bytes::from_static).chain(pairs);
        let mut answer = self.change(&SETUP, queue, more).await?;
        Ok((Settings::parse(&answer.bytes()?), Settings::parse(&answer.bytes()?)))
    }

    /// A page of the messages that are leased, wait or are dead, from a cursor on; and the cursor
    /// of the next. Of dead ones with their payloads.
    ///
    /// # Errors
    /// As every reading call; `LostCursor`.
    pub async fn held(
        &self,
        queue: &QueueName,
        held: Held,
        count: u64,
        message_max: usize,
        cursor: &Cursor,
    ) -> Result<(Vec<HeldMessage>, Cursor), StoreError> {
        let place = match held {
            Held::Leased => "leased",
            Held::Waiting => "retry",
            Held::Dead => "dead",
        };
        let more = [
            Bytes::from_static(place.as_bytes()),
            number(count),
            number(self.limits.reply_bytes_max.min(message_max)),
            number(message_max),
        ];
        let more = more.into_iter().chain(cursor.args());
        let mut answer = self.ask(&TAKEN, queue, more).await?;
        if answer.status == "LOST" {
            return Err(StoreError::LostCursor);
        }
        let next = Cursor::read(&mut answer)?;
        let mut messages = Vec::with_capacity(answer.len() / 7);
        while !answer.is_empty() {
            let (id, moment) = (answer.bytes()?, answer.score()?);
            let (deliveries, base) = (answer.count()?, answer.count()?);
            let (reason, size, payload) = (answer.bytes()?, answer.int()?, answer.bytes()?);
            let attempts = deliveries.saturating_sub(base);
            let stored = (held == Held::Dead && size == payload.len() as i64).then_some(payload);
            let (envelope, payload) = stored.as_ref().map(Envelope::open).unzip();
            let envelope = envelope.flatten().unwrap_or_default();
            messages.push(HeldMessage {
                id,
                moment,
                deliveries,
                attempts,
                reason,
                payload,
                envelope,
            });
        }
        Ok((messages, next))
    }

    /// Brings dead messages back, to be taken after a delay; how many, and how many others were
    /// dropped, which the settings keep no longer. `ids`: which, else the first 1,000.
    ///
    /// # Errors
    /// As every call; uncertain where some are back.
    pub async fn requeue_dead(
        &self,
        queue: &QueueName,
        ids: &[Bytes],
        delay_ms: u64,
    ) -> Result<(u64, u64), StoreError> {
        self.change_dead(queue, ids, DEAD_MAX, number(delay_ms)).await
    }

    /// Forgets dead messages; how many, and how many others, as above. `ids`: which, else the first
    /// 1,000.
    ///
    /// # Errors
    /// As every call; uncertain where some are gone.
    pub async fn drop_dead(
        &self,
        queue: &QueueName,
        ids: &[Bytes],
    ) -> Result<(u64, u64), StoreError> {
        self.change_dead(queue, ids, DEAD_MAX, Bytes::new()).await
    }

    /// Forgets the dead messages that the settings keep no longer; how many.
    ///
    /// # Errors
    /// As every call.
    pub async fn drop_old_dead(&self, queue: &QueueName) -> Result<u64, StoreError> {
        Ok(self.change_dead(queue, &[], 0, Bytes::new()).await?.1)
    }

    async fn change_dead(
        &self,
        queue: &QueueName,
        ids: &[Bytes],
        most: usize,
        delay: Bytes,
    ) -> Result<(u64, u64), StoreError> {
        self.not_long_away(queue)?;
        let first = if ids.is_empty() { most } else { 0 };
        let (mut changed, mut others) = (0, 0);
        let mut left = ids;
        loop {
            let (some, behind) = left.split_at(left.len().min(DEAD_MAX));
            let more = [delay.clone(), number(first)].into_iter().chain(some.iter().cloned());
            let answered = self.change(&DEAD, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, changed))?;
            changed += answer.count()?;
            answer.bytes()?;
            others += dropped(&mut answer)?;
            left = behind;
            if left.is_empty() {
                return Ok((changed, others));
            }
        }
    }

    /// Of each queue whether something can be taken now; at most 100.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind.
    pub async fn can_be_taken(&self, queues: &[Bytes]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<QueueKeys> = queues.iter().map(|queue| QueueKeys::new(queue)).collect();
        let keys: Vec<Bytes> = keys.iter().flat_map(|of| of.each_of(&READY)).cloned().collect();
        // Nearly all queues that somebody waits at hold nothing, which one command says of all.
        let each = keys.iter().zip(READY.each.iter().cycle());
        let holding = each.filter(|(_, key)| **key != Key::Record).map(|(name, _)| name.clone());
        if let Router::One { .. } = self.router {
            let held = self.command("EXISTS", &holding.collect::<Vec<_>>()).await;
            if held.map_err(broken)? == (BytesFrame::Number { data: 0, attributes: None }) {
                return Ok(vec![false; queues.len()]);
            }
        }
        let (asker, script, fields) = (Asker::Broker, &READY, 1);
        let asked = Asked { asker, script, once: &[], each: &keys, args: &[], fields };
        let mut ready = vec![false; queues.len()];
        let read = |place: usize, answer: Option<&mut Answer>| {
            if let (Some(answer), Some(ready)) = (answer, ready.get_mut(place)) {
                *ready = answer.int()? == 1;
            }
            Ok(())
        };
        self.survey(asked, read).await?;
        Ok(ready)
    }
}

/// What is behind the rest of an answer: dead messages that were dropped.
fn dropped(answer: &mut Answer) -> Result<u64, StoreError> {
    if answer.is_empty() { Ok(0) } else { answer.count() }
}

/// A lease as scripts take it.
pub(super) fn lease(lease_ms: Option<u64>) -> Bytes {
    lease_ms.map_or_else(|| number(format_args!("-{}", LEASE.default)), number)
}

fn receipt(answer: &mut Answer) -> Result<Receipt, StoreError> {
    let (id, delivery) = (answer.bytes()?, answer.count()?);
    let id = LeaseId::try_from(&id[..]);
    // Others may have put an id of another length there, which no receipt can name.
    Ok(Receipt { id: id.unwrap_or_default(), delivery })
}
