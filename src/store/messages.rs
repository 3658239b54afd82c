//! The changes and questions of commands about pending messages: one method for each script.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use crate::domain::envelope::Envelope;
use crate::domain::queue::{Due, Message, MessageId, MessageRef, QueueName, Score};
use crate::domain::setup::Settings;
use crate::store::answer::{Answer, misplaced};
use crate::store::crons::moment;
use crate::store::cursor::{Cursor, Pages};
use crate::store::delivery::moment_or_none;
use crate::store::keys::{ALL, QueueKeys};
use crate::store::member::message;
use crate::store::router::Router;
use crate::store::script::{
    CANCEL, CLEAR, FIRE, GET, INFO, PAUSE, PAUSE_ALL, POLL, QUARANTINE_DROP, QUARANTINE_LIST,
    QUARANTINE_RESTORE, RANGE, RESCHEDULE, RESUME, SIZE, Script, TIMELINE,
};
use crate::store::search::BYTES_MAX;
use crate::store::slots::{self, SLOTS};
use crate::store::{Store, StoreError, number};

/// Messages or members that one call names.
const NAMED_MAX: usize = 100;

/// Counts of one call: where members are large, each takes as long as to read a part of one.
const COUNTED_MAX: usize = 25;

/// A count, and whether an earlier head was made by it: a hint for the scheduler.
#[derive(Default)]
pub struct Changed {
    pub count: u64,
    pub head: bool,
}

/// Slots of a node of a Cluster in which all queues are paused at one time: lanes are left for
/// others.
const SLOTS_AT_ONCE: usize = 8;
/// Nodes that an error names.
const NODES_NAMED_MAX: usize = 8;

/// The state of a queue in Redis now.
#[derive(Debug, Clone, Default)]
pub struct QueueState {
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    /// The score of the head; `None` if nothing is pending.
    pub next_due: Option<Score>,
    pub listed: u64,
    /// -1: the key holds another type; and so `named`.
    pub quarantined: i64,
    /// Unix ms, -1 = until it is resumed; `None`: not paused. By itself or with all queues.
    pub paused_until: Option<i64>,
    pub paused_all: bool,
    pub format: String,
    /// The least time to live of a key of the queue, where one has any.
    pub ttl_ms: Option<u64>,
    pub named: i64,
    /// Those of the queue's own keys that cannot be used; it does without them.
    pub trouble: Option<Bytes>,
    /// `redisson`, or `zset` where no order list is kept.
    pub layout: String,
    /// Messages that consumers have taken, that wait for a retry, and that are dead; -1: as above.
    pub leased: i64,
    pub waiting: i64,
    pub dead: i64,
    /// When the first of the leases ends, Unix ms.
    pub lease_ends_ms: Option<u64>,
    /// Schedules, -1 as above; and when the next occurrence of them comes, Unix ms.
    pub crons: i64,
    pub next_cron_ms: Option<u64>,
    /// What is set of it.
    pub settings: Settings,
    /// Due messages that its rate holds back now.
    pub held_by_rate: u64,
    /// Redis's time of this answer.
    pub now_us: u64,
}

/// Calls of one poll that meet stale and unreadable members only; each takes many of them away.
const POLLS_MAX: u32 = 1_000;
/// Members of quarantine that go back or away where none is named.
const QUARANTINED_MAX: u64 = 1_000;

impl Store {
    /// Calls a writing script of one queue.
    pub(super) async fn change(
        &self,
        script: &'static Script,
        queue: &QueueName,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Answer, StoreError> {
        let keys = QueueKeys::new(queue.as_bytes()).of(script);
        self.write(script, keys, args(queue, more)).await
    }

    /// Calls a reading script of one queue.
    pub(super) async fn ask(
        &self,
        script: &'static Script,
        queue: &QueueName,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Answer, StoreError> {
        let keys = QueueKeys::new(queue.as_bytes()).of(script);
        self.not_long_away(queue)?;
        self.read(script, &keys, args(queue, more)).await
    }

    /// Takes messages out; each is atomic. Many of them take several calls.
    ///
    /// # Errors
    /// As every call; applied or not as the error says.
    pub async fn cancel(
        &self,
        queue: &QueueName,
        messages: &[MessageRef],
    ) -> Result<u64, StoreError> {
        let (mut cancelled, others) = self.change_retries(queue, messages, None).await?;
        let mut left = &others[..];
        while !left.is_empty() {
            let some = left.iter().take(NAMED_MAX).flat_map(pair);
            let answered = self.change(&CANCEL, queue, some).await;
            let mut answer = answered.map_err(|error| part_applied(error, cancelled))?;
            cancelled += answer.count()?;
            left = rest(left, &mut answer)?;
        }
        Ok(cancelled)
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
        let which = std::slice::from_ref(which);
        let (_, others) = self.change_retries(queue, which, Some(due)).await?;
        let which = match (&others[..], which) {
            ([pending], _) => pending,
            (_, [MessageRef::Id(id)]) => return Ok(Some((id.clone(), false))),
            _ => return Ok(None),
        };
        let more = pair(which).into_iter().chain([number(due.packed())]);
        let mut answer = self.change(&RESCHEDULE, queue, more).await?;
        let (score, id, head) = (answer.score_if_any()?, answer.bytes()?, answer.int()?);
        Ok(score.map(|score| (MessageId { score, id: id.to_vec() }, head == 1)))
    }

    /// Makes messages due now; each is atomic. Many of them take several calls.
    ///
    /// # Errors
    /// As every call; applied or not as the error says.
    pub async fn fire(
        &self,
        queue: &QueueName,
        messages: &[MessageRef],
    ) -> Result<Changed, StoreError> {
        // A message stays pending: in another call it would be counted again. Its id changes with
        // its due time, its name does not.
        let mut seen = HashSet::new();
        let (waited, others) = self.change_retries(queue, messages, Some(Due::In(0))).await?;
        let mut messages: Vec<MessageRef> =
            others.iter().filter(|one| seen.insert(pair(one))).cloned().collect();
        messages.sort_by_key(|one| matches!(one, MessageRef::Id(_)));
        let (mut all, mut left) = (Changed { count: waited, head: false }, &messages[..]);
        while !left.is_empty() {
            let some = left.iter().take(NAMED_MAX).flat_map(pair);
            let now = Bytes::new();
            let answered = self.change(&FIRE, queue, [now].into_iter().chain(some)).await;
            let mut answer = answered.map_err(|error| part_applied(error, all.count))?;
            all.count += answer.count()?;
            all.head |= answer.int()? == 1;
            left = rest(left, &mut answer)?;
        }
        Ok(all)
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
    /// `Uncertain`: the reply was lost after the messages were taken. `TooBig`: nothing was taken.
    pub async fn poll(
        &self,
        queue: &QueueName,
        count: u64,
        message_max: usize,
    ) -> Result<Vec<Bytes>, StoreError> {
        let keys = QueueKeys::new(queue.as_bytes()).of(&POLL);
        self.not_long_away(queue)?;
        for _ in 0..POLLS_MAX {
            let more = [
                number(count),
                number(self.limits.reply_bytes_max.min(message_max)),
                number(message_max),
            ];
            let mut answer = self.write(&POLL, keys.clone(), args(queue, more)).await?;
            match &answer.status[..] {
                b"APPLIED" => return Err(reply_lost()),
                b"NOLIST" => return self.take_first(queue, count as usize, message_max).await,
                _ => {}
            }
            let more = answer.int()? == 1;
            let payloads = payloads(answer)?;
            if !more || !payloads.is_empty() {
                return Ok(payloads);
            }
        }
        Ok(Vec::new())
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
        self.change(&PAUSE, queue, [number(duration_ms.unwrap_or(0))]).await?;
        Ok(())
    }

    /// Ends a pause; true if there was one.
    ///
    /// # Errors
    /// As every call.
    pub async fn resume(&self, queue: &QueueName) -> Result<bool, StoreError> {
        Ok(self.change(&RESUME, queue, []).await?.int()? == 1)
    }

    /// Pauses all queues, for so many ms or until they are resumed.
    ///
    /// # Errors
    /// As every call.
    pub async fn pause_all(&self, duration_ms: Option<u64>) -> Result<(), StoreError> {
        let duration_ms = duration_ms.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
        self.set_pause_all(duration_ms).await?;
        Ok(())
    }

    /// Ends the pause of all queues; true if there was one. Those that are paused by themselves
    /// stay so.
    ///
    /// # Errors
    /// As every call.
    pub async fn resume_all(&self) -> Result<bool, StoreError> {
        self.set_pause_all(0).await
    }

    async fn set_pause_all(&self, duration_ms: i64) -> Result<bool, StoreError> {
        let Router::Cluster(_) = &self.router else {
            let keys = QueueKeys::new(ALL.as_bytes()).of(&PAUSE_ALL);
            let mut answer = self.write(&PAUSE_ALL, keys, vec![number(duration_ms)]).await?;
            return Ok(answer.int()? == 1);
        };
        // Of a Cluster in each slot, and it may be repeated.
        let set = async |slot: u16| {
            // One that is away is not waited for: it has thousands of slots.
            let down = |why| StoreError::Unavailable(format!("Redis cannot be reached{why}"));
            self.route(Some(slot)).link_now().map_err(down)?;
            // A queue whose guard is in the slot.
            let keys = QueueKeys::new(slots::tag(slot).to_string().as_bytes()).of(&PAUSE_ALL);
            let args = vec![number(duration_ms)];
            self.write_at(Some(slot), &PAUSE_ALL, keys, args, None).await?.int()
        };
        let set = async |slot: u16| (slot, set(slot).await);
        // Each node by itself: none waits for another.
        let mut by_node: BTreeMap<Option<u64>, Vec<u16>> = BTreeMap::new();
        for slot in 0..SLOTS {
            let node = self.router.node(Some(slot)).map(|node| node.number);
            by_node.entry(node).or_default().push(slot);
        }
        let calls = by_node.into_values().map(|slots| stream::iter(slots).map(&set));
        let mut done = stream::select_all(calls.map(|calls| calls.buffer_unordered(SLOTS_AT_ONCE)));
        let (mut was_paused, mut failed, mut why) = (false, 0, None);
        let mut at = BTreeSet::new();
        while let Some((slot, set)) = done.next().await {
            match set {
                Ok(paused) => was_paused |= paused == 1,
                Err(error) => {
                    let node = self.router.node(Some(slot));
                    at.insert(node.map_or("nobody".to_owned(), |node| node.place.clone()));
                    failed += 1;
                    why = Some(error);
                }
            }
        }
        let at: Vec<String> = at.into_iter().take(NODES_NAMED_MAX).collect();
        match why {
            None => Ok(was_paused),
            Some(why) => Err(StoreError::Uncertain(format!(
                "it was done in {} of {SLOTS} slots of the Cluster, and perhaps not in others, \
                 which are at {}; repeat it: {why}",
                SLOTS - failed,
                at.join(", ")
            ))),
        }
    }

    /// One message, if it is pending.
    ///
    /// # Errors
    /// As every reading call: never applied anything.
    pub async fn get(
        &self,
        queue: &QueueName,
        which: &MessageRef,
        message_max: usize,
    ) -> Result<Option<Message>, StoreError> {
        let more = pair(which).into_iter().chain([number(message_max)]);
        let mut answer = self.ask(&GET, queue, more).await?;
        let (member, score, name) = (answer.bytes()?, answer.score_if_any()?, answer.bytes()?);
        Ok(score.map(|score| message(member, score, name)))
    }

    /// A page of pending messages by due time, from one score to another, from a cursor on; and
    /// the cursor of the next.
    ///
    /// # Errors
    /// As every reading call; `LostCursor`, `TooBig`.
    pub async fn range(
        &self,
        queue: &QueueName,
        (from, to): (Score, Score),
        count: u64,
        message_max: usize,
        cursor: &Cursor,
    ) -> Result<(Vec<Message>, Cursor), StoreError> {
        let bounds = [
            number(from),
            number(to),
            number(count),
            number(self.limits.reply_bytes_max.min(message_max)),
            number(message_max),
        ];
        let more = bounds.into_iter().chain(cursor.args());
        let mut answer = self.ask(&RANGE, queue, more).await?;
        if answer.status == "LOST" {
            return Err(StoreError::LostCursor);
        }
        let next = Cursor::read(&mut answer)?;
        let mut messages = Vec::with_capacity(answer.len() / 3);
        while !answer.is_empty() {
            let (member, score, name) = (answer.bytes()?, answer.score()?, answer.bytes()?);
            messages.push(message(member, score, name));
        }
        Ok((messages, next))
    }

    /// How many messages are pending.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn size(&self, queue: &QueueName) -> Result<u64, StoreError> {
        self.ask(&SIZE, queue, []).await?.count()
    }

    /// How many messages are due from each moment on and before the next, Unix ms ascending.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn timeline(
        &self,
        queue: &QueueName,
        moments: &[u64],
    ) -> Result<Vec<u64>, StoreError> {
        let keys = QueueKeys::new(queue.as_bytes()).of(&TIMELINE);
        let mut counts = Vec::with_capacity(moments.len());
        while let Some(some) = moments.get(counts.len()..).filter(|left| left.len() > 1) {
            let some = some.iter().take(COUNTED_MAX + 1).map(number);
            let mut answer = self.read(&TIMELINE, &keys, args(queue, some)).await?;
            if answer.is_empty() {
                return Err(misplaced("count"));
            }
            while !answer.is_empty() {
                counts.push(answer.count()?);
            }
        }
        Ok(counts)
    }

    /// The state of a queue in Redis now; `known`: when its head is due, as far as is known.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn info(
        &self,
        queue: &QueueName,
        known: Option<u64>,
    ) -> Result<QueueState, StoreError> {
        let mut answer = self.ask(&INFO, queue, [moment_or_none(known)]).await?;
        Ok(QueueState {
            now_us: answer.now_us,
            pending: answer.count()?,
            ready: answer.int()?,
            next_due: answer.score_if_any()?,
            listed: answer.count()?,
            quarantined: answer.int()?,
            paused_until: answer.text()?.parse().ok(),
            format: answer.text()?,
            ttl_ms: u64::try_from(answer.int()?).ok(),
            named: answer.int()?,
            layout: answer.text()?,
            paused_all: answer.int()? == 1,
            trouble: Some(answer.bytes()?).filter(|trouble| !trouble.is_empty()),
            leased: answer.int()?,
            waiting: answer.int()?,
            dead: answer.int()?,
            lease_ends_ms: answer.score_if_any()?.map(Score::moment),
            crons: answer.int()?,
            next_cron_ms: moment(answer.score_if_any()?),
            settings: Settings::parse(&answer.bytes()?),
            held_by_rate: if answer.is_empty() { 0 } else { answer.count()? },
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
        message_max: usize,
    ) -> Result<Vec<(Score, Bytes)>, StoreError> {
        let more = [
            number(count),
            number(self.limits.reply_bytes_max.min(message_max)),
            number(message_max),
        ];
        let mut answer = self.ask(&QUARANTINE_LIST, queue, more).await?;
        let mut members = Vec::with_capacity(answer.len() / 2);
        while !answer.is_empty() {
            let member = answer.bytes()?;
            members.push((answer.score()?, member));
        }
        Ok(members)
    }

    /// Puts members back to pending; if none is named the first 1,000, in several steps where they
    /// are large.
    ///
    /// # Errors
    /// As every call; uncertain where some are back.
    pub async fn quarantine_restore(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<Changed, StoreError> {
        self.quarantined(&QUARANTINE_RESTORE, queue, members).await
    }

    /// Drops members that were put aside; if none is named the first 1,000.
    ///
    /// # Errors
    /// As every call; uncertain where some are gone.
    pub async fn quarantine_drop(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        Ok(self.quarantined(&QUARANTINE_DROP, queue, members).await?.count)
    }

    async fn quarantined(
        &self,
        script: &'static Script,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<Changed, StoreError> {
        let (named, mut left) = (!members.is_empty(), &members[..]);
        let (mut count, mut head, mut pages) = (0, false, Pages::default());
        self.not_long_away(queue)?;
        loop {
            let (some, behind) = left.split_at(few(left, Bytes::len));
            let first = if named { 0 } else { QUARANTINED_MAX - count };
            let more = [number(first), number(BYTES_MAX)].into_iter();
            let more = more.chain(pages.cursor.args());
            let more = more.chain(some.iter().cloned());
            let answered = self.change(script, queue, more).await;
            let mut answer = answered.map_err(|error| part_applied(error, count))?;
            if answer.status == "LOST" {
                pages.lost(count)?;
                continue;
            }
            count += answer.count()?;
            head |= answer.int()? == 1;
            // A restored member may be put aside again meanwhile: behind the cursor it is not met.
            pages.cursor = Cursor::read(&mut answer)?;
            left = behind;
            let all = pages.cursor.is_end() || count >= QUARANTINED_MAX;
            if left.is_empty() && (named || all) {
                return Ok(Changed { count, head });
            }
        }
    }
}

/// How many of these one call names; one, however large.
pub(super) fn few<T>(left: &[T], size: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    let fits = |one: &&T| {
        bytes += size(one) as u64;
        bytes <= BYTES_MAX
    };
    let few = left.iter().take(NAMED_MAX).take_while(fits).count();
    few.max(1).min(left.len())
}

/// The messages that a call which named the first of them did not come to.
fn rest<'a>(named: &'a [MessageRef], answer: &mut Answer) -> Result<&'a [MessageRef], StoreError> {
    let done = match answer.is_empty() {
        true => NAMED_MAX,
        false => answer.count()?.max(1) as usize,
    };
    Ok(named.get(done..).unwrap_or_default())
}

/// The error of a call that follows others of one command: some of it is applied.
pub fn part_applied(error: StoreError, applied: u64) -> StoreError {
    match error {
        StoreError::Uncertain(_) | StoreError::Internal(_) => error,
        surely_not if applied == 0 => surely_not,
        then => StoreError::Uncertain(format!("{applied} of the messages are done; then: {then}")),
    }
}

/// Messages were taken, and nobody has them.
pub(super) fn reply_lost() -> StoreError {
    StoreError::Uncertain(
        "the messages were taken, but the reply of Redis that held them was lost".into(),
    )
}

/// The rest of an answer, as consumers get it.
pub(super) fn payloads(mut answer: Answer) -> Result<Vec<Bytes>, StoreError> {
    let mut payloads = Vec::with_capacity(answer.len());
    while !answer.is_empty() {
        payloads.push(Envelope::open(&answer.bytes()?).1);
    }
    Ok(payloads)
}

/// The queue's name goes first in every script.
pub(super) fn args(queue: &QueueName, more: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let mut args = vec![Bytes::copy_from_slice(queue.as_bytes())];
    args.extend(more);
    args
}

/// A message as scripts take it: score and id bytes, or an empty score and the name.
fn pair(which: &MessageRef) -> [Bytes; 2] {
    match which {
        MessageRef::Id(id) => [number(id.score), Bytes::from(id.id.clone())],
        MessageRef::Name(name) => [Bytes::new(), name.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::cursor::Pages;

    #[test]
    fn no_error_says_that_nothing_was_done_where_something_was() {
        let mut pages = Pages::default();
        let gave_up = std::iter::repeat_with(|| pages.lost(0)).find_map(Result::err).unwrap();
        let wrong_type = StoreError::WrongType { key: "k".into() };
        for (error, words) in [
            (gave_up, "2 of the messages are done; then: the queue changes faster"),
            (wrong_type, "2 of the messages are done; then: a key of this queue holds another"),
            (StoreError::Uncertain("lost".into()), "lost"),
        ] {
            assert_eq!(part_applied(error.clone(), 0), error);
            let told = part_applied(error, 2);
            assert!(matches!(told, StoreError::Uncertain(_)), "{told:?}");
            assert!(told.to_string().starts_with(words), "{told}");
        }
        let mut pages = Pages::default();
        let gave_up = std::iter::repeat_with(|| pages.lost(1)).find_map(Result::err);
        assert!(matches!(gave_up, Some(StoreError::Uncertain(_))));
    }
}
