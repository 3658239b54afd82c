//! The schedules of a queue, as commands set, show and stop them.

use bytes::Bytes;

use crate::broker::queue::Queue;
use crate::broker::{Broker, cursor};
use crate::domain::cron::{Moments, Spec, is_wrong};
use crate::scheduler::host::Host;
use crate::store::StoreError;
use crate::store::crons::{CronRow, CronStep, CronStepped};
use crate::store::keys::{CRON_REGISTRY, QueueKeys};

/// Schedules that one call reads.
const ROWS_MAX: usize = 100;
/// Attempts to let a schedule go on while somebody else changes it.
const TRIES: usize = 8;

/// A schedule.
#[derive(Clone, Debug)]
pub struct CronInfo {
    pub name: Bytes,
    /// `None`: somebody else wrote what cannot be read.
    pub spec: Option<Spec>,
    /// Its next occurrence, Unix ms; `None` while it is paused.
    pub next_ms: Option<u64>,
    /// Of its payload.
    pub bytes: usize,
}

/// A place for a queue among those that are served, until this is dropped: its client may leave.
struct Place<'a> {
    host: &'a Host,
    keys: &'a QueueKeys,
}

impl<'a> Place<'a> {
    fn keep(host: &'a Host, keys: &'a QueueKeys) -> Result<Self, StoreError> {
        host.change(|schedule, _| schedule.reserve(keys))?;
        Ok(Self { host, keys })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.host.change(|schedule, now| schedule.release(self.keys, now));
    }
}

impl Broker {
    /// Redis's time, Unix ms, as it is known here.
    pub fn redis_ms(&self) -> u64 {
        self.store.clock_of_all().now_us() / 1_000
    }
}

impl Queue<'_> {
    /// Sets a schedule, or changes one; its next occurrence, Unix ms, or `None` if it is paused.
    pub async fn cron_set(
        &self,
        name: Bytes,
        spec: Spec,
        moments: Moments,
        payload: Bytes,
    ) -> Result<Option<u64>, StoreError> {
        let (broker, keys) = (self.broker, self.keys());
        let _place = Place::keep(&broker.host, &keys)?;
        let last_ms = self.cron(&keys, &name).await?.map_or(0, |row| row.last_ms);
        let now_ms = self.now_ms();
        let never = || StoreError::Unavailable("no moment follows Redis's clock".into());
        let next_ms = moments.resumed(last_ms, now_ms).ok_or_else(never)?;
        let last_ms = if is_wrong(last_ms, now_ms) { now_ms } else { last_ms.max(now_ms) };
        // A hint, given before: who stops in between leaves no schedule that nobody knows of.
        let more = std::slice::from_ref(&keys.name);
        let _ = broker.store.note(CRON_REGISTRY, more, &[]).await;
        let what = (spec.text(), payload);
        let set = broker.store.cron_set(self.name, &name, what, next_ms, last_ms).await;
        if set.is_ok() {
            broker.crons.changed(&keys);
        }
        set
    }

    /// Forgets a schedule; whether there was one.
    pub async fn cron_del(&self, name: Bytes) -> Result<bool, StoreError> {
        self.cron_stop(name, true).await
    }

    /// Pauses a schedule; whether it ran.
    pub async fn cron_pause(&self, name: Bytes) -> Result<bool, StoreError> {
        self.cron_stop(name, false).await
    }

    async fn cron_stop(&self, name: Bytes, forget: bool) -> Result<bool, StoreError> {
        let stopped = self.broker.store.cron_stop(self.name, &name, forget).await?;
        if stopped {
            self.broker.crons.changed(&self.keys());
        }
        Ok(stopped)
    }

    /// Lets a schedule go on from now; whether it was paused.
    pub async fn cron_resume(&self, name: Bytes) -> Result<bool, StoreError> {
        let keys = self.keys();
        for _ in 0..TRIES {
            let row = self.cron(&keys, &name).await?.filter(|row| row.next_ms().is_none());
            let Some(row) = row else {
                return Ok(false);
            };
            let now_ms = self.now_ms();
            let moments = Spec::read(&row.spec, now_ms).map(|(_, moments)| moments);
            let unreadable = || {
                let why = "the schedule cannot be read: set it anew, or delete it";
                StoreError::Unavailable(why.into())
            };
            let next_ms = moments.and_then(|moments| moments.resumed(row.last_ms, now_ms));
            let next_ms = Some(next_ms.ok_or_else(unreadable)?);
            let step = CronStep { next_ms, last_ms: Some(row.last_ms), ..CronStep::of(row) };
            let made = self.broker.store.cron_steps(&keys, &[step], Vec::new(), u64::MAX).await?;
            if made.outcomes.first() == Some(&CronStepped::Stale) {
                continue;
            }
            self.broker.crons.changed(&keys);
            return Ok(true);
        }
        Err(StoreError::Unavailable("somebody else changes the schedule: retry".into()))
    }

    async fn cron(&self, keys: &QueueKeys, name: &Bytes) -> Result<Option<CronRow>, StoreError> {
        let mut found = self.broker.store.crons(keys, std::slice::from_ref(name)).await?;
        Ok(found.rows.pop())
    }

    /// A page of the schedules, by name, and the cursor of the next, if there is one.
    pub async fn cron_list(
        &self,
        count: usize,
        cursor: Option<Bytes>,
    ) -> Result<(Option<Bytes>, Vec<CronInfo>), StoreError> {
        let of = [b"DQ.CRON", self.name.as_bytes()];
        let opened = |text: &Bytes| cursor::unhex(cursor::opened(&of, text)?);
        let after = match &cursor {
            None => None,
            Some(text) => Some(opened(text).ok_or(StoreError::BadCursor)?),
        };
        let keys = self.keys();
        let mut names = self.broker.store.cron_names(&keys).await?;
        names.sort_unstable();
        names.retain(|name| after.as_ref().is_none_or(|after| name > after));
        let more = names.len() > count;
        names.truncate(count);
        let last = names.last().filter(|_| more).cloned();
        let (mut found, now_ms) = (Vec::with_capacity(names.len()), self.now_ms());
        for some in names.chunks(ROWS_MAX) {
            for row in self.broker.store.crons(&keys, some).await?.rows {
                let (next_ms, CronRow { name, spec, bytes, .. }) = (row.next_ms(), row);
                let spec = Spec::read(&spec, now_ms).map(|(spec, _)| spec);
                found.push(CronInfo { name, spec, next_ms, bytes });
            }
            self.broker.turns.next().await;
        }
        Ok((last.map(|name| cursor::sealed(&of, &hex::encode(name))), found))
    }
}
