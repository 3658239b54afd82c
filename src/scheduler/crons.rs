//! Schedules: offers each occurrence at its moment.
//!
//! For each queue with schedules the agenda has the moment of its next occurrence. When that has
//! come, what is due is read, the moments after it are computed, and one script offers the
//! occurrences and notes these moments. All brokers do that for all queues: who comes second finds
//! nothing to do. An occurrence is a message that is due at once, so the rest is the work of the
//! queue's own loop.
//!
//! Which queues have schedules is noted in a set, which is read every few seconds together with the
//! heads of their schedules. A queue that is not noted is found by SCAN.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Notify;

use crate::domain::cron::{Overlap, Plan, Spec, is_wrong};
use crate::domain::queue::Cut;
use crate::metrics::Metrics;
use crate::scheduler::host::Host;
use crate::scheduler::pace::RETRY;
use crate::scheduler::queue_loop::Moment;
use crate::store::clock::monotonic_us;
use crate::store::crons::{CronHead, CronRow, CronRows, CronStep, CronStepped};
use crate::store::keys::{self, CRON_REGISTRY, QueueKeys};
use crate::store::offers::Offers;
use crate::store::{Store, StoreError};

/// Schedules that one call reads, and the payload bytes of one that offers occurrences.
const ROWS_MAX: usize = 100;
const BYTES_MAX: usize = 1 << 20;
/// Rounds of one queue, until others have their turn.
const ROUNDS_MAX: u32 = 64;
/// Queues that are worked on at one time.
const QUEUES_AT_ONCE: usize = 8;
/// Plans that are made in one go.
const PLANS_AT_ONCE: usize = 8;
/// Between two looks at which queues have schedules and when they come, where they are few; and
/// for each further thousand of them.
const LEARN_EACH: Duration = Duration::from_secs(2);
/// A queue whose occurrences could not be offered is tried again after this time, ms.
const RETRY_MS: u64 = 1_000;
/// A step of Redis's clock that may be one of a day and more.
const STEPPED_US: u64 = 3_600_000_000;
/// The longest sleep: Redis's clock may step meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Unknown queues of the SCAN that are still to be looked at.
const FOUND_MAX: usize = 10_000;

/// A queue with schedules.
struct Entry {
    name: Bytes,
    /// When something is to be done; `None`: all are paused.
    at: Option<Moment>,
    /// The log says that its occurrences wait.
    waits: bool,
}

/// The queues with schedules by the suffixes of their keys, and by when something is to be done.
#[derive(Default)]
struct Agenda {
    queues: BTreeMap<Bytes, Entry>,
    by_moment: BTreeSet<(Moment, Bytes)>,
}

impl Agenda {
    /// Whether it is new.
    fn set(&mut self, suffix: &Bytes, name: &Bytes, at: Option<Moment>) -> bool {
        let known = self.queues.get_mut(suffix);
        let is_new = known.is_none();
        match known {
            Some(entry) => {
                if let Some(before) = entry.at {
                    self.by_moment.remove(&(before, suffix.clone()));
                }
                (entry.at, entry.name) = (at, name.clone());
            }
            None => {
                let entry = Entry { name: name.clone(), at, waits: false };
                self.queues.insert(suffix.clone(), entry);
            }
        }
        self.by_moment.extend(at.map(|at| (at, suffix.clone())));
        is_new
    }

    fn remove(&mut self, suffix: &Bytes) {
        if let Some(Entry { at: Some(at), .. }) = self.queues.remove(suffix) {
            self.by_moment.remove(&(at, suffix.clone()));
        }
    }

    /// Those for which something is to be done by now: suffix and name.
    fn due(&self, now_ms: Moment) -> Vec<(Bytes, Bytes)> {
        let due = self.by_moment.iter().take_while(|(at, _)| *at <= now_ms);
        let named = |(_, suffix): &(Moment, Bytes)| {
            Some((suffix.clone(), self.queues.get(suffix)?.name.clone()))
        };
        due.filter_map(named).collect()
    }

    fn next(&self) -> Option<Moment> {
        self.by_moment.first().map(|(at, _)| *at)
    }
}

pub struct Crons {
    host: Rc<Host>,
    store: Rc<Store>,
    offers: Rc<Offers>,
    metrics: Metrics,
    agenda: RefCell<Agenda>,
    /// Suffixes that the SCAN found.
    found: RefCell<HashSet<Bytes>>,
    /// Something is to be done sooner than was known.
    sooner: Notify,
    learn: Notify,
}

impl Crons {
    pub fn new(host: Rc<Host>, store: Rc<Store>, offers: Rc<Offers>, metrics: Metrics) -> Rc<Self> {
        Rc::new(Self {
            host,
            store,
            offers,
            metrics,
            agenda: RefCell::default(),
            found: RefCell::default(),
            sooner: Notify::new(),
            learn: Notify::new(),
        })
    }

    /// Schedules of a queue were changed: it is looked at now.
    pub fn changed(&self, keys: &QueueKeys) {
        self.host.change(|schedule, _| schedule.set_crons(keys, true));
        self.set(&keys.suffix(), &keys.name, Some(0));
    }

    /// The SCAN came by the schedules of these queues.
    pub fn found(&self, suffixes: Vec<Bytes>) {
        let agenda = self.agenda.borrow();
        let unknown = suffixes.into_iter().filter(|suffix| !agenda.queues.contains_key(suffix));
        let mut found = self.found.borrow_mut();
        let places = FOUND_MAX.saturating_sub(found.len());
        found.extend(unknown.take(places));
        if !found.is_empty() {
            self.learn.notify_one();
        }
    }

    /// Looks anew at all that is noted, soon.
    pub fn learn_now(&self) {
        self.learn.notify_one();
    }

    fn set(&self, suffix: &Bytes, name: &Bytes, at: Option<Moment>) -> bool {
        let mut agenda = self.agenda.borrow_mut();
        let before = agenda.next();
        let is_new = agenda.set(suffix, name, at);
        if agenda.next() < before || before.is_none() {
            self.sooner.notify_one();
        }
        is_new
    }

    fn forget(&self, keys: &QueueKeys) {
        self.agenda.borrow_mut().remove(&keys.suffix());
        self.host.change(|schedule, _| schedule.set_crons(keys, false));
    }

    fn now_ms(&self) -> Moment {
        self.store.clock_of_all().now_us() / 1_000
    }

    // Which queues have schedules.

    /// Learns which queues have schedules and when they come, for ever: run as a task of its own.
    pub async fn learn(self: Rc<Self>) {
        let mut ahead_us = 0;
        loop {
            // How far Redis's clock is ahead of one that never steps.
            let before_us = std::mem::replace(
                &mut ahead_us,
                self.store.clock_of_all().now_us().saturating_sub(monotonic_us()),
            );
            let stepped_back = ahead_us + STEPPED_US < before_us;
            let pause = match self.learn_once(stepped_back).await {
                Ok(queues) => LEARN_EACH * (1 + queues as u32 / 1_000),
                Err(_) => RETRY * 10,
            };
            let _ = tokio::time::timeout(pause, self.learn.notified()).await;
        }
    }

    /// How many queues have schedules.
    async fn learn_once(&self, stepped_back: bool) -> Result<usize, StoreError> {
        let noted = self.store.noted(CRON_REGISTRY).await?;
        let by_suffix = |name: &Bytes| (keys::suffix_of(name), name.clone());
        let mut names: BTreeMap<Bytes, Bytes> = noted.iter().map(by_suffix).collect();
        let is_noted: HashSet<Bytes> = names.keys().cloned().collect();
        let found: Vec<Bytes> = self.found.borrow_mut().drain().collect();
        for suffix in found {
            let guess = Bytes::copy_from_slice(keys::guess(&suffix));
            names.entry(suffix).or_insert(guess);
        }
        for (suffix, entry) in &self.agenda.borrow().queues {
            names.insert(suffix.clone(), entry.name.clone());
        }
        let (mut there, mut more, mut fewer) = (0, Vec::new(), Vec::new());
        let names: Vec<(Bytes, Bytes)> = names.into_iter().collect();
        for some in names.chunks(ROWS_MAX * 5) {
            let asked: Vec<Bytes> = some.iter().map(|(_, name)| name.clone()).collect();
            let heads = self.store.cron_heads(&asked).await?;
            for ((suffix, name), head) in some.iter().zip(heads) {
                let Some((recorded, head)) = head else { continue };
                let recorded = recorded.filter(|name| keys::may_own(name, suffix));
                let keys = QueueKeys::new(recorded.as_ref().unwrap_or(name));
                there += usize::from(head != CronHead::Nothing);
                match (head, is_noted.contains(suffix)) {
                    (CronHead::Nothing, true) => fewer.push(name.clone()),
                    (CronHead::Nothing, false) => {}
                    (_, false) => more.push(keys.name.clone()),
                    (_, true) => {}
                }
                self.learned(&keys, head, stepped_back).await;
            }
        }
        let _ = self.store.note(CRON_REGISTRY, &more, &fewer).await;
        Ok(there)
    }

    async fn learned(&self, keys: &QueueKeys, head: CronHead, stepped_back: bool) {
        let at = match head {
            CronHead::Nothing => return self.forget(keys),
            CronHead::Paused => None,
            CronHead::At(at) => Some(at),
        };
        self.host.change(|schedule, _| schedule.set_crons(keys, true));
        // What could not be offered has its own time.
        let waits = |agenda: &Agenda| agenda.queues.get(&keys.suffix()).is_some_and(|it| it.waits);
        let waits = waits(&self.agenda.borrow());
        let is_new = !waits && self.set(&keys.suffix(), &keys.name, at);
        // Far away: perhaps since Redis's clock was wrong when it was computed.
        if (is_new || stepped_back) && at.is_some_and(|at| is_wrong(at, self.now_ms())) {
            let _ = self.put_right(keys).await;
        }
    }

    /// Schedules that were moved on by a clock that was wrong begin anew.
    async fn put_right(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        let names = self.store.cron_names(keys).await?;
        for some in names.chunks(ROWS_MAX) {
            let CronRows { now_ms, rows, .. } = self.store.crons(keys, some).await?;
            let wrong = |row: &CronRow| row.next_ms().is_some() && is_wrong(row.last_ms, now_ms);
            let mut steps = Vec::new();
            for row in rows.into_iter().filter(wrong) {
                let moments = Spec::read(&row.spec, now_ms).map(|(_, moments)| moments);
                steps.push(CronStep {
                    next_ms: moments.and_then(|moments| moments.next(now_ms)),
                    last_ms: Some(now_ms),
                    ..CronStep::of(row)
                });
                tokio::task::yield_now().await;
            }
            if !steps.is_empty() {
                let queue = Cut(&keys.name);
                tracing::warn!(%queue, schedules = steps.len(),
                    "schedules begin anew, since Redis's clock stepped back by more than a day");
                self.store.cron_steps(keys, &steps, Vec::new(), u64::MAX).await?;
                self.set(&keys.suffix(), &keys.name, Some(0));
            }
        }
        Ok(())
    }

    // Occurrences.

    /// Offers occurrences as they come, for ever: run as a task of its own.
    pub async fn run(self: Rc<Self>) {
        loop {
            let now_us = self.store.clock_of_all().now_us();
            let due = self.agenda.borrow().due(now_us / 1_000);
            if !due.is_empty() {
                let each = stream::iter(due);
                each.for_each_concurrent(QUEUES_AT_ONCE, |(suffix, name)| self.serve(suffix, name))
                    .await;
                continue;
            }
            let next = self.agenda.borrow().next();
            let wait_us = next.map_or(u64::MAX, |at| (at * 1_000).saturating_sub(now_us));
            let wait = Duration::from_micros(wait_us).min(SLEEP_MAX);
            let _ = tokio::time::timeout(wait, self.sooner.notified()).await;
        }
    }

    /// Offers the occurrences of a queue that are due, and says when it is to be looked at again.
    async fn serve(&self, suffix: Bytes, name: Bytes) {
        let keys = QueueKeys::new(&name);
        // A change that comes meanwhile shows.
        self.set(&suffix, &name, None);
        let (mut name, mut failed) = (name, None);
        let outcome = self.offer_due(&keys).await;
        let now_ms = self.now_ms();
        let at = match outcome {
            Ok((CronHead::Nothing, _)) => None,
            // Whoever lets them go on again may be another broker: nothing waits here.
            Ok((CronHead::Paused, _)) => None,
            Ok((CronHead::At(at), why)) => {
                failed = why;
                let retry = if failed.is_some() { RETRY_MS } else { 1 };
                // Not sooner, where Redis's clock is behind what is known of it.
                Some(if at <= now_ms { now_ms + retry } else { at })
            }
            Err(StoreError::BadQueue { owner }) if keys::may_own(&owner, &suffix) => {
                name = Bytes::from(owner);
                Some(now_ms + RETRY_MS)
            }
            Err(error) => {
                failed = Some(error.to_string());
                Some(now_ms + RETRY_MS)
            }
        };
        let changed = self.agenda.borrow().queues.get(&suffix).and_then(|entry| entry.at);
        // Where there is nothing any more, the next look at what is noted says so.
        self.set(&suffix, &name, changed.into_iter().chain(at).min());
        self.tell(&suffix, failed);
    }

    /// Logs that occurrences wait, and that they do no more.
    fn tell(&self, suffix: &Bytes, failed: Option<String>) {
        let mut agenda = self.agenda.borrow_mut();
        let Some(entry) = agenda.queues.get_mut(suffix) else {
            return;
        };
        let queue = Cut(&entry.name);
        match (entry.waits, &failed) {
            // A link that is down says so itself.
            (false, Some(why)) if self.store.is_up() => {
                tracing::warn!(%queue, why, "schedules of this queue wait");
            }
            (true, None) => tracing::info!(%queue, "schedules of this queue go on"),
            _ => {}
        }
        entry.waits = failed.is_some();
    }

    /// The head of the schedules then, and why occurrences wait that are due, if they do.
    async fn offer_due(&self, keys: &QueueKeys) -> Result<(CronHead, Option<String>), StoreError> {
        let mut why = None;
        for _ in 0..ROUNDS_MAX {
            let CronRows { now_ms, head, rows } = self.store.crons_due(keys, ROWS_MAX).await?;
            if rows.is_empty() || why.is_some() {
                return Ok((head, why));
            }
            let mut steps = Vec::with_capacity(rows.len());
            for (place, row) in rows.into_iter().enumerate() {
                steps.push(self.step(keys, row, now_ms));
                if place % PLANS_AT_ONCE == PLANS_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            for some in parts(steps) {
                why = self.make(keys, &some).await?.or(why);
            }
        }
        Ok((CronHead::At(0), Some("they get no further: does somebody change them?".into())))
    }

    /// What is to be done of a schedule that is due.
    fn step(&self, keys: &QueueKeys, row: CronRow, now_ms: Moment) -> CronStep {
        let Some((spec, moments)) = Spec::read(&row.spec, now_ms) else {
            let (queue, schedule) = (Cut(&keys.name), Cut(&row.name));
            tracing::warn!(%queue, %schedule, "a schedule cannot be read, and is paused");
            return CronStep { next_ms: None, ..CronStep::of(row) };
        };
        let due_ms = row.next_ms().unwrap_or(now_ms);
        let Plan { mut occurrences, mut missed, mut next } =
            moments.plan(due_ms, spec.catchup, now_ms);
        // Of large ones a part, and the next is due at once.
        let most = (BYTES_MAX / row.bytes.max(1)).max(1);
        if occurrences.len() > most {
            (next, missed) = (occurrences.get(most).copied(), 0);
            occurrences.truncate(most);
        }
        let last_ms = Some(occurrences.last().copied().unwrap_or(now_ms));
        let skips = spec.overlap == Overlap::Skip;
        CronStep { occurrences, next_ms: next, last_ms, skips, missed, ..CronStep::of(row) }
    }

    /// Makes steps in one call; why an occurrence was not offered, if so.
    async fn make(
        &self,
        keys: &QueueKeys,
        steps: &[CronStep],
    ) -> Result<Option<String>, StoreError> {
        let count = steps.iter().map(|step| step.occurrences.len()).sum();
        let (ids, end_ms) = self.offers.ids(count).await?;
        self.host.change(|schedule, _| schedule.reserve(keys))?;
        let made = self.store.cron_steps(keys, steps, ids, end_ms).await;
        let (mut offered, mut skipped, mut missed, mut why) = (0, 0, 0, None);
        let mut earliest_ms = None;
        if let Ok(made) = &made {
            earliest_ms = made.earliest_ms;
            for (step, outcome) in steps.iter().zip(&made.outcomes) {
                match outcome {
                    CronStepped::Offered(stored) => {
                        offered += stored;
                        missed += step.missed;
                        skipped += (step.occurrences.len() as u64).saturating_sub(*stored);
                    }
                    CronStepped::Stale => {}
                    CronStepped::Failed(stored, reason) => {
                        offered += stored;
                        why = Some(reason.clone());
                    }
                }
            }
        }
        self.host.change(|schedule, now| match offered {
            0 => schedule.release(keys, now),
            _ => schedule.offered(keys, offered, earliest_ms, now),
        });
        if offered + skipped + missed > 0 {
            let metrics = self.metrics.queue(&keys.name);
            metrics.cron_offered(offered);
            metrics.cron_skipped(skipped);
            metrics.cron_missed(missed);
        }
        made.map(|_| why)
    }
}

impl CronStep {
    /// One that offers nothing and changes nothing of a schedule that is as it was read.
    pub fn of(row: CronRow) -> Self {
        let next_ms = row.next_ms();
        Self { row, occurrences: Vec::new(), next_ms, last_ms: None, skips: false, missed: 0 }
    }
}

/// Steps that one call makes: about so many bytes, and so many occurrences.
fn parts(steps: Vec<CronStep>) -> Vec<Vec<CronStep>> {
    let (mut parts, mut bytes, mut count) = (vec![Vec::new()], 0, 0);
    for step in steps {
        let more = step.row.bytes.saturating_mul(step.occurrences.len());
        if bytes > 0 && bytes + more > BYTES_MAX || count + step.occurrences.len() > ROWS_MAX {
            parts.push(Vec::new());
            (bytes, count) = (0, 0);
        }
        bytes += more;
        count += step.occurrences.len();
        if let Some(part) = parts.last_mut() {
            part.push(step);
        }
    }
    parts.retain(|part: &Vec<CronStep>| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::Score;

    #[test]
    fn the_agenda() {
        let (a, b) = (Bytes::from_static(b"{a}"), Bytes::from_static(b"{b}"));
        let mut agenda = Agenda::default();
        assert_eq!((agenda.next(), agenda.due(99)), (None, Vec::new()));
        assert!(agenda.set(&a, &Bytes::from_static(b"a"), Some(5)));
        assert!(agenda.set(&b, &Bytes::from_static(b"b"), None));
        assert_eq!((agenda.next(), agenda.due(4).len(), agenda.due(5).len()), (Some(5), 0, 1));
        // Another moment, and another name.
        assert!(!agenda.set(&a, &a, Some(7)));
        assert!(!agenda.set(&b, &Bytes::from_static(b"b"), Some(6)));
        assert_eq!(agenda.due(7), [(b.clone(), Bytes::from_static(b"b")), (a.clone(), a.clone())]);
        agenda.set(&b, &Bytes::from_static(b"b"), None);
        agenda.remove(&a);
        agenda.remove(&a);
        assert_eq!((agenda.next(), agenda.queues.len()), (None, 1));
    }

    /// Each row: the bytes of payloads and how many occurrences they have; how many steps go into
    /// each call.
    #[test]
    fn calls_are_bounded() {
        let step = |&(bytes, count): &(usize, u64)| {
            let due = Score::MIN;
            let row = CronRow { name: Bytes::new(), due, spec: Bytes::new(), last_ms: 0, bytes };
            CronStep { occurrences: (0..count).collect(), ..CronStep::of(row) }
        };
        let (mib, all) = (BYTES_MAX, ROWS_MAX as u64);
        let rows: &[(&[(usize, u64)], &[usize])] = &[
            (&[], &[]),
            (&[(1, 1), (1, 1)], &[2]),
            (&[(mib / 2, 1), (mib / 2, 1), (1, 1)], &[2, 1]),
            (&[(16 * mib, 1), (16 * mib, 1)], &[1, 1]),
            (&[(16 * mib, 0), (1, 1)], &[2]),
            (&[(1, all), (1, 0), (1, 1)], &[2, 1]),
            (&[(1, all + 11), (0, 1)], &[1, 1]),
        ];
        for (steps, wanted) in rows {
            let parts = parts(steps.iter().map(step).collect());
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert_eq!(sizes, *wanted, "{steps:?}");
        }
    }
}
