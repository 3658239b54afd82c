//! The calls about queues whose destination is a stream: what there is of them, and what their
//! keeper does for a group.
//!
//! Consumers ask Redis itself. Each of these scripts looks and acts in one, so any number of
//! brokers may make the same call, and each may be repeated.

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::domain::lease::Nack;
use crate::domain::queue::{QueueName, Score};
use crate::domain::setting::{CONSUMER_IDLE, LEASE, LIMIT, STREAM_KEEP};
use crate::domain::setup::Settings;
use crate::store::answer::Answer;
use crate::store::delivery::{broken, told_some};
use crate::store::keys::QueueKeys;
use crate::store::messages::{args, part_applied};
use crate::store::node::Asker;
use crate::store::script::{
    STREAM_AGAIN, STREAM_HEADS, STREAM_IDLE, STREAM_KEEP as KEEP, STREAM_LOOK, STREAM_NACK,
    STREAM_TRIM, Script,
};
use crate::store::settles::{Settled, chances, terms};
use crate::store::survey::Asked;
use crate::store::{Store, StoreError, number};

/// Entries of which one call reads the times, about half a millisecond of Redis.
const LOOKS_MAX: usize = 500;
/// Retries that one call looks at, and the payload bytes that one moves.
const RETRIES_MAX: usize = 100;
const BYTES_MAX: usize = 1 << 20;
/// Entries that one call takes out, well under a millisecond of Redis.
const TRIM_MAX: usize = 10_000;
/// Consumers that one call deletes.
const CONSUMERS_MAX: usize = 100;
/// Groups that one queue is served for.
const GROUPS_MAX: usize = 256;

/// A stream as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub settings: Settings,
    /// When the first retry is due, Unix ms.
    pub next_ms: Option<u64>,
    pub groups: Vec<StreamGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroup {
    pub name: Bytes,
    /// Entries that its consumers were given and have not acknowledged.
    pub pending: u64,
    /// Entries that it was not given yet; `None` where Redis cannot tell.
    pub lag: Option<u64>,
    pub consumers: u64,
}

/// Which of the two streams of a group is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// The destination of the queue.
    Destination,
    /// That of the group's own retries.
    Again,
}

impl Which {
    fn word(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Destination => b"",
            Self::Again => b"AGAIN",
        })
    }
}

/// The outcome of one call of the keeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Where to go on; empty at the end.
    pub cursor: Bytes,
    pub looked: u64,
    /// Entries that come again, and those that are dead.
    pub again: u64,
    pub died: u64,
}

/// A queue that may have a stream as its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    /// The recorded name.
    pub name: Option<Bytes>,
    pub is_stream: bool,
    /// When the first retry is due, Unix ms.
    pub next_ms: Option<u64>,
}

impl Store {
    /// The state of a stream, whose groups are made where the settings name them; `None`: the
    /// queue has another destination.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn stream_look(&self, k: &QueueKeys) -> Result<Option<StreamState>, StoreError> {
        let answered = self.read(&STREAM_LOOK, &k.of(&STREAM_LOOK), vec![k.name.clone()]).await;
        let Some(mut answer) = of_stream(answered)? else {
            return Ok(None);
        };
        let settings = Settings::parse(&answer.bytes()?);
        let next_ms = answer.score_if_any()?.map(Score::moment);
        let mut groups = Vec::new();
        while !answer.is_empty() && groups.len() < GROUPS_MAX {
            let (name, pending, lag) = (answer.bytes()?, answer.count()?, answer.bytes()?);
            let lag = std::str::from_utf8(&lag).ok().and_then(|lag| lag.parse().ok());
            groups.push(StreamGroup { name, pending, lag, consumers: answer.count()? });
        }
        Ok(Some(StreamState { settings, next_ms, groups }))
    }

    /// Lets entries come again that a group holds for longer than the lease, from a cursor on;
    /// `None`: there is nothing to keep.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn stream_keep(
        &self,
        k: &QueueKeys,
        group: &Bytes,
        which: Which,
        cursor: Bytes,
    ) -> Result<Option<Kept>, StoreError> {
        let more = [
            group.clone(),
            which.word(),
            number(LEASE.default),
            number(LIMIT.default),
            number(LOOKS_MAX),
            number(BYTES_MAX),
            cursor,
        ];
        let Some(mut answer) = self.of_group(&KEEP, k, group, more).await? else {
            return Ok(None);
        };
        let (cursor, looked) = (answer.bytes()?, answer.count()?);
        Ok(Some(Kept { cursor, looked, again: answer.count()?, died: answer.count()? }))
    }

    /// Adds the messages of a group whose retry is due; how many, those that died, and when the
    /// next retry is due, Unix ms.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn stream_again(
        &self,
        k: &QueueKeys,
        group: &Bytes,
    ) -> Result<Option<(Kept, Option<u64>)>, StoreError> {
        let more = [group.clone(), number(RETRIES_MAX), number(BYTES_MAX)];
        let Some(mut answer) = self.of_group(&STREAM_AGAIN, k, group, more).await? else {
            return Ok(None);
        };
        let (again, died) = (answer.count()?, answer.count()?);
        let next_ms = answer.score_if_any()?.map(Score::moment);
        Ok(Some((Kept { again, died, ..Kept::default() }, next_ms)))
    }

    /// Takes out what all groups have acknowledged; whether there may be more.
    /// `group`: one of the groups, whose own stream may be meant.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn stream_trim(
        &self,
        k: &QueueKeys,
        group: &Bytes,
        which: Which,
    ) -> Result<bool, StoreError> {
        let more = [which.word(), number(STREAM_KEEP.default), number(TRIM_MAX)];
        let Some(mut answer) = self.of_group(&STREAM_TRIM, k, group, more).await? else {
            return Ok(false);
        };
        let _trimmed = answer.count()?;
        Ok(answer.count()? == 1)
    }

    /// Deletes consumers of a group that are gone; how many.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn stream_idle(&self, k: &QueueKeys, group: &Bytes) -> Result<u64, StoreError> {
        let more = [group.clone(), number(CONSUMER_IDLE.default), number(CONSUMERS_MAX)];
        let answer = self.of_group(&STREAM_IDLE, k, group, more).await?;
        answer.map_or(Ok(0), |mut answer| answer.count())
    }

    /// Takes entries away from the consumers of a group.
    ///
    /// # Errors
    /// As every call; `NoStream`, `NoGroup`. Uncertain where some were taken away.
    pub async fn stream_nack(
        &self,
        queue: &QueueName,
        group: &Bytes,
        entries: &[Bytes],
        nack: &Nack,
    ) -> Result<Settled, StoreError> {
        let mut settled = Settled::default();
        let mut left = entries;
        while !left.is_empty() {
            let call = self.stream_nack_some(queue, group, left, nack);
            let (some, done) = call.await.map_err(|error| part_applied(error, settled.count))?;
            settled.count += some.count;
            settled.died += some.died;
            left = left.get(done.max(1)..).unwrap_or_default();
        }
        Ok(settled)
    }

    /// The same of the first of them, as many as one call may read; and how many those are.
    async fn stream_nack_some(
        &self,
        queue: &QueueName,
        group: &Bytes,
        entries: &[Bytes],
        nack: &Nack,
    ) -> Result<(Settled, usize), StoreError> {
        let each = entries.iter().cloned().zip(chances(entries.len()));
        let each = each.flat_map(<[Bytes; 2]>::from);
        let keys = QueueKeys::new(queue.as_bytes()).of_group(&STREAM_NACK, group);
        let more = [group.clone()].into_iter().chain(terms(nack)).chain(each);
        let mut answer = self.write(&STREAM_NACK, keys, args(queue, more)).await?;
        let (count, died, _next) = (answer.count()?, answer.count()?, answer.bytes()?);
        Ok((Settled { count, died, ..Settled::default() }, answer.count()? as usize))
    }

    /// Calls a script for one group; `None`: there is no stream, or nothing is to be done.
    async fn of_group(
        &self,
        script: &'static Script,
        k: &QueueKeys,
        group: &Bytes,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Option<Answer>, StoreError> {
        let args = [k.name.clone()].into_iter().chain(more).collect();
        of_stream(self.read(script, &k.of_group(script, group), args).await)
    }

    /// Of each queue whether its destination is a stream; at most 500. `None`: its node cannot be
    /// reached.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind.
    pub async fn stream_heads(
        &self,
        queues: &[Bytes],
    ) -> Result<Vec<Option<StreamHead>>, StoreError> {
        let keys: Vec<QueueKeys> = queues.iter().map(|queue| QueueKeys::new(queue)).collect();
        let keys: Vec<Bytes> =
            keys.iter().flat_map(|of| of.each_of(&STREAM_HEADS)).cloned().collect();
        let (asker, script, fields) = (Asker::Broker, &STREAM_HEADS, 3);
        let asked = Asked { asker, script, once: &[], each: &keys, args: &[], fields };
        let mut heads = vec![None; queues.len()];
        let read = |place: usize, answer: Option<&mut Answer>| {
            if let (Some(answer), Some(head)) = (answer, heads.get_mut(place)) {
                let name = Some(answer.bytes()?).filter(|name| !name.is_empty());
                let is_stream = answer.int()? == 1;
                let next_ms = answer.score_if_any()?.map(Score::moment);
                *head = Some(StreamHead { name, is_stream, next_ms });
            }
            Ok(())
        };
        let told = told_some(self.survey(asked, read).await?)?;
        heads.truncate(told);
        Ok(heads)
    }

    /// The entries of a group's own stream of retries.
    ///
    /// # Errors
    /// Redis cannot be reached; `WrongType`.
    pub async fn stream_retries(&self, k: &QueueKeys, group: &Bytes) -> Result<u64, StoreError> {
        Ok(match self.command("XLEN", &[k.again(group)]).await.map_err(broken)? {
            BytesFrame::Number { data, .. } => data.max(0) as u64,
            _ => 0,
        })
    }
}

fn of_stream(answered: Result<Answer, StoreError>) -> Result<Option<Answer>, StoreError> {
    match answered {
        Err(StoreError::NoStream) => Ok(None),
        answered => answered.map(Some),
    }
}
