//! What commands do to pending messages: one method for each script.

use bytes::Bytes;

use crate::queue::{Due, Message, MessageId, MessageRef, QueueName};
use crate::store::answer::Answer;
use crate::store::member::message;
use crate::store::script::{
    CANCEL, CLEAR, FIRE, GET, INFO, PAUSE, POLL, QUARANTINE_DROP, QUARANTINE_LIST,
    QUARANTINE_RESTORE, RANGE, RESCHEDULE, RESUME, Script,
};
use crate::store::{Store, StoreError, number};

/// A count, and whether an earlier head was made by it: a hint for the scheduler.
pub struct Changed {
    pub count: u64,
    pub head: bool,
}

/// What Redis says of a queue now.
#[derive(Debug, Clone)]
pub struct QueueState {
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    pub next_due: String,
    pub listed: u64,
    pub quarantined: u64,
    /// Unix ms, -1 = until it is resumed; `None`: not paused.
    pub paused_until: Option<i64>,
    pub format: String,
    /// The least time to live of a key of the queue, where one has any.
    pub ttl_ms: Option<u64>,
    pub named: u64,
    /// `redisson`, or `zset` where no order list is kept.
    pub layout: String,
    /// Redis's time of this answer.
    pub now_us: u64,
}

/// Where a page of messages goes on: a score and the first bytes of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    pub score: String,
    pub prefix: Bytes,
}

/// Bytes of a member that take part in a position; an id has at most 256.
const PREFIX_MAX: usize = 64;

impl Store {
    /// A script on the keys of cancel: lane, timeout, list, queue, names, ids.
    pub(super) async fn change(
        &self,
        script: &'static Script,
        queue: &QueueName,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Answer, StoreError> {
        let k = self.keys(queue).await?;
        self.write(
            script,
            vec![k.timeout, k.list, k.queue, k.names, k.ids],
            args(queue, more),
        )
        .await
    }

    /// Takes messages out; each is atomic.
    ///
    /// # Errors
    /// As every call; applied or not as the error says.
    pub async fn cancel(
        &self,
        queue: &QueueName,
        messages: &[MessageRef],
    ) -> Result<u64, StoreError> {
        self.change(&CANCEL, queue, messages.iter().flat_map(pair))
            .await?
            .count()
    }

    /// Gives a pending message another due time; the new id and whether it is the head now.
    ///
    /// # Errors
    /// As every call.
    pub async fn reschedule(
        &self,
        queue: &QueueName,
        which: &MessageRef,
        due: Due,
    ) -> Result<Option<(MessageId, bool)>, StoreError> {
        let more = pair(which).into_iter().chain([number(due.packed())]);
        let mut answer = self.change(&RESCHEDULE, queue, more).await?;
        let (score, id, head) = (answer.text()?, answer.bytes()?, answer.int()?);
        Ok((!score.is_empty()).then(|| {
            (
                MessageId {
                    score,
                    id: id.to_vec(),
                },
                head == 1,
            )
        }))
    }

    /// Makes messages due now.
    ///
    /// # Errors
    /// As every call.
    pub async fn fire(
        &self,
        queue: &QueueName,
        messages: &[MessageRef],
    ) -> Result<Changed, StoreError> {
        changed(
            self.change(&FIRE, queue, messages.iter().flat_map(pair))
                .await?,
        )
    }

    /// Drops everything pending.
    ///
    /// # Errors
    /// As every call.
    pub async fn clear(&self, queue: &QueueName) -> Result<u64, StoreError> {
        self.change(&CLEAR, queue, []).await?.count()
    }

    /// Takes pending messages in offer order, whatever their due time. At most once: a lost reply
    /// loses them.
    ///
    /// # Errors
    /// `Uncertain` if the reply was lost after the messages were taken.
    pub async fn poll(&self, queue: &QueueName, count: u64) -> Result<Vec<Bytes>, StoreError> {
        let k = self.keys(queue).await?;
        let more = [number(count), number(self.limits.reply_bytes_max)];
        let keys = vec![k.timeout, k.list, k.queue, k.names, k.ids, k.quarantine];
        let answer = self.write(&POLL, keys, args(queue, more)).await?;
        match &answer.status[..] {
            b"APPLIED" => Err(reply_lost()),
            b"NOLIST" => self.take_first(queue, count as usize).await,
            _ => payloads(answer),
        }
    }

    /// Pauses delivery, for so many ms or until it is resumed.
    ///
    /// # Errors
    /// As every call.
    pub async fn pause(
        &self,
        queue: &QueueName,
        duration_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        let keys = vec![self.keys(queue).await?.queue];
        self.write(
            &PAUSE,
            keys,
            args(queue, [number(duration_ms.unwrap_or(0))]),
        )
        .await?;
        Ok(())
    }

    /// Ends a pause; true if there was one.
    ///
    /// # Errors
    /// As every call.
    pub async fn resume(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let keys = vec![self.keys(queue).await?.queue];
        Ok(self.write(&RESUME, keys, args(queue, [])).await?.int()? == 1)
    }

    /// One message, if it is pending.
    ///
    /// # Errors
    /// As every reading call: never applied anything.
    pub async fn get(
        &self,
        queue: &QueueName,
        which: &MessageRef,
    ) -> Result<Option<Message>, StoreError> {
        let k = self.keys(queue).await?;
        let mut answer = self
            .read(
                &GET,
                &[k.timeout, k.queue, k.names, k.ids],
                args(queue, pair(which)),
            )
            .await?;
        let (member, score, name) = (answer.bytes()?, answer.text()?, answer.bytes()?);
        Ok((!score.is_empty()).then(|| message(member, score, name)))
    }

    /// A page of pending messages by due time, from one score to another, after a position; and the
    /// position to go on from, if there is more.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn range(
        &self,
        queue: &QueueName,
        (from, to): (&str, &str),
        count: u64,
        after: Option<Position>,
    ) -> Result<(Vec<Message>, Option<Position>), StoreError> {
        let k = self.keys(queue).await?;
        let after = after.unwrap_or_default();
        let more = [
            Bytes::copy_from_slice(from.as_bytes()),
            Bytes::copy_from_slice(to.as_bytes()),
            number(count),
            number(self.limits.reply_bytes_max),
            Bytes::from(after.score),
            after.prefix,
        ];
        let mut answer = self
            .read(&RANGE, &[k.timeout, k.queue, k.ids], args(queue, more))
            .await?;
        let there_is_more = answer.int()? == 1;
        let mut messages = Vec::with_capacity(answer.len() / 3);
        let mut last = None;
        while !answer.is_empty() {
            let (member, score, name) = (answer.bytes()?, answer.text()?, answer.bytes()?);
            let prefix = member.slice(..member.len().min(PREFIX_MAX));
            last = Some(Position {
                score: score.clone(),
                prefix,
            });
            messages.push(message(member, score, name));
        }
        Ok((messages, last.filter(|_| there_is_more)))
    }

    /// What Redis says of a queue now.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn info(&self, queue: &QueueName) -> Result<QueueState, StoreError> {
        let k = self.keys(queue).await?;
        let keys = [
            k.destination,
            k.timeout,
            k.list,
            k.queue,
            k.names,
            k.quarantine,
        ];
        let mut answer = self.read(&INFO, &keys, args(queue, [])).await?;
        Ok(QueueState {
            now_us: answer.now_us,
            pending: answer.count()?,
            ready: answer.int()?,
            next_due: answer.text()?,
            listed: answer.count()?,
            quarantined: answer.count()?,
            paused_until: answer.text()?.parse().ok(),
            format: answer.text()?,
            ttl_ms: u64::try_from(answer.int()?).ok(),
            named: answer.count()?,
            layout: answer.text()?,
        })
    }

    /// Members that were put aside, with their scores.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn quarantine_list(
        &self,
        queue: &QueueName,
        count: u64,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        let k = self.keys(queue).await?;
        let keys = [k.quarantine, k.queue];
        let more = [number(count), number(self.limits.reply_bytes_max)];
        let mut answer = self
            .read(&QUARANTINE_LIST, &keys, args(queue, more))
            .await?;
        let mut members = Vec::with_capacity(answer.len() / 2);
        while !answer.is_empty() {
            let member = answer.bytes()?;
            members.push((answer.text()?, member));
        }
        Ok(members)
    }

    /// Puts members back to pending; all of them (at most 1,000) if none is named.
    ///
    /// # Errors
    /// As every call.
    pub async fn quarantine_restore(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<Changed, StoreError> {
        let k = self.keys(queue).await?;
        let keys = vec![k.timeout, k.list, k.queue, k.quarantine];
        changed(
            self.write(&QUARANTINE_RESTORE, keys, args(queue, members))
                .await?,
        )
    }

    /// Drops members that were put aside; all of them (at most 1,000) if none is named.
    ///
    /// # Errors
    /// As every call.
    pub async fn quarantine_drop(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        let k = self.keys(queue).await?;
        self.write(
            &QUARANTINE_DROP,
            vec![k.queue, k.quarantine],
            args(queue, members),
        )
        .await?
        .count()
    }
}

/// Messages were taken, and nobody has them.
pub(super) fn reply_lost() -> StoreError {
    StoreError::Uncertain(
        "the messages were taken, but the reply of Redis that held them was lost".into(),
    )
}

/// What is left of an answer.
pub(super) fn payloads(mut answer: Answer) -> Result<Vec<Bytes>, StoreError> {
    let mut payloads = Vec::with_capacity(answer.len());
    while !answer.is_empty() {
        payloads.push(answer.bytes()?);
    }
    Ok(payloads)
}

fn changed(mut answer: Answer) -> Result<Changed, StoreError> {
    Ok(Changed {
        count: answer.count()?,
        head: answer.int()? == 1,
    })
}

/// The queue's name goes first in every script.
fn args(queue: &QueueName, more: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let mut args = vec![Bytes::copy_from_slice(queue.as_bytes())];
    args.extend(more);
    args
}

/// A message as scripts take it: score and id bytes, or an empty score and the name.
fn pair(which: &MessageRef) -> [Bytes; 2] {
    match which {
        MessageRef::Id(id) => [Bytes::from(id.score.clone()), Bytes::from(id.id.clone())],
        MessageRef::Name(name) => [Bytes::new(), name.clone()],
    }
}
