//! The calls of schedules: set, stop and read them, and offer their occurrences.
//!
//! When a schedule comes next is computed by the broker and recorded together with the offer of the
//! occurrence before, by one script that does nothing where another broker was first.

use bytes::Bytes;

use crate::domain::cron::CRONS_MAX;
use crate::domain::queue::{QueueName, SCORE_END, Score};
use crate::store::answer::Answer;
use crate::store::delivery::told_some;
use crate::store::keys::QueueKeys;
use crate::store::lane::Within;
use crate::store::node::Asker;
use crate::store::script::{CRON, CRON_HEADS, CRON_READ, CRON_SET, CRON_STOP};
use crate::store::survey::Asked;
use crate::store::{Store, StoreError, number};

/// Queues that one call reads the heads of.
const HEADS_MAX: usize = 500;
/// Names of schedules that are read of one queue: more than it may have, fewer than others could
/// write.
const NAMES_MAX: usize = 10 * CRONS_MAX;

/// A schedule as Redis has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronRow {
    pub name: Bytes,
    /// Its next occurrence as it is recorded.
    pub due: Score,
    /// Empty where it cannot be used.
    pub spec: Bytes,
    /// Nothing at or before this moment is offered again, Unix ms.
    pub last_ms: u64,
    /// Of its payload.
    pub bytes: usize,
}

impl CronRow {
    /// Its next occurrence, Unix ms; `None` while it is paused.
    pub fn next_ms(&self) -> Option<u64> {
        moment(Some(self.due))
    }
}

/// Schedules that were read.
#[derive(Debug)]
pub struct CronRows {
    /// Redis's time of this answer.
    pub now_ms: u64,
    pub head: CronHead,
    pub rows: Vec<CronRow>,
}

/// The schedules of a queue as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronHead {
    /// There are none; or the key holds another type.
    Nothing,
    /// All are paused.
    Paused,
    /// The next occurrence, Unix ms.
    At(u64),
}

impl CronHead {
    fn read(text: &[u8]) -> Self {
        match Score::parse(text) {
            None => Self::Nothing,
            some => moment(some).map_or(Self::Paused, Self::At),
        }
    }
}

/// A step of a schedule: occurrences to be offered, and the one after them.
#[derive(Clone, Debug)]
pub struct CronStep {
    /// As it was read.
    pub row: CronRow,
    /// Unix ms, growing.
    pub occurrences: Vec<u64>,
    /// The next one; `None` pauses the schedule.
    pub next_ms: Option<u64>,
    /// Nothing at or before this moment is offered again; `None` leaves what is noted.
    pub last_ms: Option<u64>,
    /// An occurrence is left out while the one before is pending.
    pub skips: bool,
    /// Occurrences that are passed over with it.
    pub missed: u64,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronStepped {
    /// So many occurrences were offered, the others were left out.
    Offered(u64),
    /// The schedule is not as it was read: nothing was done.
    Stale,
    /// So many were offered; why the next one was not.
    Failed(u64, String),
}

/// The outcome of steps.
#[derive(Debug)]
pub struct CronSteps {
    pub outcomes: Vec<CronStepped>,
    /// The due time of the first message that became the head of the queue, Unix ms.
    pub earliest_ms: Option<u64>,
}

impl Store {
    /// Sets a schedule; its next occurrence, Unix ms, or `None` if it is paused.
    ///
    /// # Errors
    /// As every call; `TooManyCrons`.
    pub async fn cron_set(
        &self,
        queue: &QueueName,
        name: &Bytes,
        (spec, payload): (String, Bytes),
        next_ms: u64,
        last_ms: u64,
    ) -> Result<Option<u64>, StoreError> {
        let spec = Bytes::from(spec);
        let times = [number(next_ms), number(last_ms), number(CRONS_MAX)];
        let more = [name.clone(), spec, payload].into_iter().chain(times);
        let mut answer = self.change(&CRON_SET, queue, more).await?;
        if answer.status == "FULL" {
            return Err(StoreError::TooManyCrons { max: CRONS_MAX });
        }
        Ok(moment(answer.score_if_any()?))
    }

    /// Pauses a schedule that runs, or forgets one; whether there was one.
    ///
    /// # Errors
    /// As every call.
    pub async fn cron_stop(
        &self,
        queue: &QueueName,
        name: &Bytes,
        forget: bool,
    ) -> Result<bool, StoreError> {
        let how = Bytes::from_static(if forget { b"DEL" } else { b"PAUSE" });
        Ok(self.change(&CRON_STOP, queue, [name.clone(), how]).await?.int()? == 1)
    }

    /// Schedules that are due now, at most so many.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn crons_due(&self, k: &QueueKeys, most: usize) -> Result<CronRows, StoreError> {
        let which = [Bytes::from_static(b"DUE"), number(most)];
        rows(self.cron_read(k, &which, &[]).await?)
    }

    /// The schedules of these names that there are.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn crons(&self, k: &QueueKeys, names: &[Bytes]) -> Result<CronRows, StoreError> {
        let which = [Bytes::from_static(b"THESE"), number(names.len())];
        rows(self.cron_read(k, &which, names).await?)
    }

    /// The names of all schedules.
    ///
    /// # Errors
    /// As every reading call.
    pub async fn cron_names(&self, k: &QueueKeys) -> Result<Vec<Bytes>, StoreError> {
        let which = [Bytes::from_static(b"NAMES"), number(NAMES_MAX)];
        let mut answer = self.cron_read(k, &which, &[]).await?;
        let _head = answer.bytes()?;
        let mut names = Vec::with_capacity(answer.len());
        while !answer.is_empty() {
            names.push(answer.bytes()?);
        }
        Ok(names)
    }

    async fn cron_read(
        &self,
        k: &QueueKeys,
        which: &[Bytes; 2],
        names: &[Bytes],
    ) -> Result<Answer, StoreError> {
        let args = [k.name.clone()].into_iter().chain(which.iter().chain(names).cloned());
        self.read(&CRON_READ, &k.of(&CRON_READ), args.collect()).await
    }

    /// Makes steps of schedules of one queue. `ids`: for all their occurrences, valid for a call
    /// before `end_ms` of Redis's time.
    ///
    /// # Errors
    /// As every call; whatever was applied, a schedule that is due is still to be read again.
    pub async fn cron_steps(
        &self,
        k: &QueueKeys,
        steps: &[CronStep],
        ids: Vec<u64>,
        end_ms: u64,
    ) -> Result<CronSteps, StoreError> {
        let mut ids = ids.into_iter();
        let mut args = vec![k.name.clone()];
        for CronStep { row, occurrences, next_ms, last_ms, skips, .. } in steps {
            let next = next_ms.map_or(Bytes::from_static(b"inf"), number);
            let last = last_ms.map_or_else(Bytes::new, number);
            args.extend([row.name.clone(), row.spec.clone(), number(row.due), next, last]);
            args.extend([number(u8::from(*skips)), number(occurrences.len())]);
            for (moment, id) in occurrences.iter().zip(&mut ids) {
                args.extend([Bytes::copy_from_slice(&id.to_be_bytes()), number(moment)]);
            }
        }
        let within = Within { place: None, end_ms };
        let keys = k.of(&CRON);
        let mut answer = self.write_within(&CRON, keys, args, Some(&within)).await?;
        let _head = answer.bytes()?;
        let earliest_ms = moment(answer.score_if_any()?);
        let mut outcomes = Vec::with_capacity(steps.len());
        while !answer.is_empty() {
            let (stored, why) = (answer.count()?, answer.text()?);
            outcomes.push(match &why[..] {
                "" => CronStepped::Offered(stored),
                "STALE" => CronStepped::Stale,
                _ => CronStepped::Failed(stored, why),
            });
        }
        Ok(CronSteps { outcomes, earliest_ms })
    }

    /// The recorded name of each queue, if there is one, and the head of its schedules; `None`: its
    /// node cannot be reached.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind.
    pub async fn cron_heads(
        &self,
        queues: &[Bytes],
    ) -> Result<Vec<Option<(Option<Bytes>, CronHead)>>, StoreError> {
        let mut heads = Vec::with_capacity(queues.len());
        for some in queues.chunks(HEADS_MAX) {
            let keys: Vec<QueueKeys> = some.iter().map(|queue| QueueKeys::new(queue)).collect();
            let keys: Vec<Bytes> =
                keys.iter().flat_map(|of| of.each_of(&CRON_HEADS)).cloned().collect();
            let (asker, script, fields) = (Asker::Broker, &CRON_HEADS, 2);
            let asked = Asked { asker, script, once: &[], each: &keys, args: &[], fields };
            let mut page = vec![None; some.len()];
            let read = |place: usize, answer: Option<&mut Answer>| {
                if let (Some(answer), Some(head)) = (answer, page.get_mut(place)) {
                    let name = Some(answer.bytes()?).filter(|name| !name.is_empty());
                    *head = Some((name, CronHead::read(&answer.bytes()?)));
                }
                Ok(())
            };
            let told = told_some(self.survey(asked, read).await?)?;
            page.truncate(told);
            heads.extend(page);
        }
        Ok(heads)
    }
}

fn rows(mut answer: Answer) -> Result<CronRows, StoreError> {
    let (now_ms, head) = (answer.now_us / 1_000, CronHead::read(&answer.bytes()?));
    let mut rows = Vec::with_capacity(answer.len() / 5);
    while !answer.is_empty() {
        let (name, due, spec) = (answer.bytes()?, answer.score()?, answer.bytes()?);
        let last_ms = answer.text()?.parse().unwrap_or(0);
        rows.push(CronRow { name, due, spec, last_ms, bytes: answer.count()? as usize });
    }
    Ok(CronRows { now_ms, head, rows })
}

/// A score as a moment; `None` where a schedule is paused.
pub(super) fn moment(score: Option<Score>) -> Option<u64> {
    score.map(Score::moment).filter(|ms| *ms < SCORE_END)
}
