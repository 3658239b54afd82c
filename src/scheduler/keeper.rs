//! The keeper of streams: lets entries come again that consumers did not acknowledge, brings back
//! those whose retry is due, takes out what all groups have acknowledged, and deletes consumers
//! that are gone.
//!
//! Consumers of a stream ask Redis itself, so nobody tells the broker what they hold. Each stream
//! has its round, four in a lease; a round is some calls for each of its groups, each of which
//! looks and acts in one script. All brokers do that for all streams: who comes second finds
//! nothing to do.
//!
//! Which queues have a stream is noted in a set, which is read every few seconds together with the
//! heads of their retries. A queue that is not noted is found among those that are served.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Notify;

use crate::domain::queue::Cut;
use crate::domain::setting::LEASE;
use crate::metrics::{GroupReading, Metrics};
use crate::scheduler::host::Host;
use crate::scheduler::pace::RETRY;
use crate::scheduler::queue_loop::Moment;
use crate::store::clock::monotonic_us;
use crate::store::keys::{self, QueueKeys, STREAM_REGISTRY};
use crate::store::streams::{Kept, StreamGroup, StreamState, Which};
use crate::store::{Store, StoreError};

/// Streams that are worked on at one time.
const QUEUES_AT_ONCE: usize = 4;
/// Rounds of one stream in a lease; and the shortest and the longest time from one to the next.
const ROUNDS: u64 = 4;
const ROUND_LEAST_US: u64 = 1_000_000;
const ROUND_MOST_US: u64 = 30_000_000;
/// With more streams than this the rounds are further apart.
const MANY: u64 = 1_000;
/// Calls for one group in one round; where there is more to do, the next round comes soon.
const CALLS_MAX: usize = 20;
const SOON_US: u64 = 1_000_000;
/// Between two looks for consumers that are gone, for each thousand of them.
const CONSUMERS_EACH_US: u64 = 60_000_000;
/// Between two looks at which queues have a stream.
const LEARN_EACH: Duration = Duration::from_secs(2);
/// Queues that one call asks about.
const HEADS_MAX: usize = 500;
/// The longest sleep: Redis's clock may step meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A queue with a stream.
struct Entry {
    name: Bytes,
    /// The local moment of its next round.
    round_us: u64,
    /// When a retry is due, by Redis's clock.
    retry_ms: Option<Moment>,
    /// As they were found last.
    groups: Vec<Bytes>,
    /// Where a look at what a group holds goes on.
    cursors: BTreeMap<(Bytes, Which), Bytes>,
    /// The local moment of the next look for consumers that are gone.
    consumers_us: u64,
    under_way: bool,
    /// The log says that it cannot be kept.
    fails: bool,
}

pub struct Keeper {
    host: Rc<Host>,
    store: Rc<Store>,
    metrics: Metrics,
    /// By the suffix of their keys.
    queues: RefCell<BTreeMap<Bytes, Entry>>,
    /// Something is to be done sooner than was known.
    sooner: Notify,
}

/// When a stream has its turn again.
struct Next {
    /// How long until its next round; `None`: as it was, since only retries were looked at.
    round_us: Option<u64>,
    retry_ms: Option<Moment>,
}

impl Keeper {
    pub fn new(host: Rc<Host>, store: Rc<Store>, metrics: Metrics) -> Rc<Self> {
        Rc::new(Self { host, store, metrics, queues: RefCell::default(), sooner: Notify::new() })
    }

    /// A queue was given a stream, or its settings changed: it has its groups when this ends.
    ///
    /// # Errors
    /// As every call.
    pub async fn changed(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        self.learned(&keys.suffix(), &keys.name, true, None);
        if let Some(entry) = self.queues.borrow_mut().get_mut(&keys.suffix()) {
            entry.round_us = 0;
        }
        self.serve(keys.suffix()).await
    }

    /// Messages of a queue wait for a retry that did not before, perhaps of a stream.
    pub fn look(&self, keys: &QueueKeys) {
        if let Some(entry) = self.queues.borrow_mut().get_mut(&keys.suffix()) {
            entry.retry_ms = Some(0);
            self.sooner.notify_one();
        }
    }

    fn now_ms(&self) -> Moment {
        self.store.clock_of_all().now_us() / 1_000
    }

    // Which queues have a stream.

    /// Learns which queues have a stream, for ever: run as a task of its own.
    pub async fn learn(self: Rc<Self>) {
        let mut after = Bytes::new();
        loop {
            let pause = match self.learn_once(&mut after).await {
                Ok(streams) => LEARN_EACH * (1 + streams as u32 / 1_000),
                Err(_) => RETRY * 10,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// How many there are. `after`: where the look at served queues goes on.
    async fn learn_once(&self, after: &mut Bytes) -> Result<usize, StoreError> {
        let noted = self.store.noted(STREAM_REGISTRY).await?;
        let by_suffix = |name: &Bytes| (keys::suffix_of(name), name.clone());
        let mut names: BTreeMap<Bytes, Bytes> = noted.iter().map(by_suffix).collect();
        let is_noted: BTreeSet<Bytes> = names.keys().cloned().collect();
        let served = self.host.schedule().page(after, HEADS_MAX);
        *after = served.last().map(|(suffix, _)| suffix.clone()).unwrap_or_default();
        names.extend(served);
        for (suffix, entry) in self.queues.borrow().iter() {
            names.insert(suffix.clone(), entry.name.clone());
        }
        let (mut there, mut more, mut fewer) = (0, Vec::new(), Vec::new());
        let names: Vec<(Bytes, Bytes)> = names.into_iter().collect();
        for some in names.chunks(HEADS_MAX) {
            let asked: Vec<Bytes> = some.iter().map(|(_, name)| name.clone()).collect();
            let heads = self.store.stream_heads(&asked).await?;
            for ((suffix, name), head) in some.iter().zip(heads) {
                let Some(head) = head else { continue };
                let recorded = head.name.filter(|name| keys::may_own(name, suffix));
                let name = recorded.unwrap_or_else(|| name.clone());
                there += usize::from(head.is_stream);
                match (head.is_stream, is_noted.contains(suffix)) {
                    (true, false) => more.push(name.clone()),
                    (false, true) => fewer.push(name.clone()),
                    _ => {}
                }
                self.learned(suffix, &name, head.is_stream, head.next_ms);
            }
        }
        let _ = self.store.note(STREAM_REGISTRY, &more, &fewer).await;
        Ok(there)
    }

    fn learned(&self, suffix: &Bytes, name: &Bytes, is_stream: bool, retry_ms: Option<Moment>) {
        let mut queues = self.queues.borrow_mut();
        if !is_stream {
            if queues.remove(suffix).is_some() {
                self.metrics.queue(name).groups(Vec::new());
            }
            return;
        }
        let entry = queues.entry(suffix.clone()).or_insert_with(|| {
            self.sooner.notify_one();
            Entry {
                name: name.clone(),
                round_us: 0,
                retry_ms: None,
                groups: Vec::new(),
                cursors: BTreeMap::new(),
                consumers_us: 0,
                under_way: false,
                fails: false,
            }
        });
        entry.name = name.clone();
        let sooner = retry_ms.into_iter().chain(entry.retry_ms).min();
        if sooner != entry.retry_ms {
            entry.retry_ms = sooner;
            self.sooner.notify_one();
        }
    }

    // Rounds.

    /// Keeps all streams, for ever: run as a task of its own.
    pub async fn run(self: Rc<Self>) {
        loop {
            let (due, wait) = self.due();
            if due.is_empty() {
                let _ = tokio::time::timeout(wait, self.sooner.notified()).await;
                continue;
            }
            let each = stream::iter(due);
            each.for_each_concurrent(QUEUES_AT_ONCE, async |suffix| {
                let _ = self.serve(suffix).await;
            })
            .await;
        }
    }

    /// The streams for which something is to be done now; else how long nothing is.
    fn due(&self) -> (Vec<Bytes>, Duration) {
        let (local_us, now_ms) = (monotonic_us(), self.now_ms());
        let (mut due, mut wait_us) = (Vec::new(), SLEEP_MAX.as_micros() as u64);
        for (suffix, entry) in self.queues.borrow().iter().filter(|(_, entry)| !entry.under_way) {
            let retry_us = entry
                .retry_ms
                .map_or(u64::MAX, |ms| ms.saturating_sub(now_ms).saturating_mul(1_000));
            let entry_us = entry.round_us.saturating_sub(local_us).min(retry_us);
            if entry_us == 0 {
                due.push(suffix.clone());
            }
            wait_us = wait_us.min(entry_us);
        }
        (due, Duration::from_micros(wait_us))
    }

    /// Does what is to be done for one stream, and says when it has its turn again.
    async fn serve(&self, suffix: Bytes) -> Result<(), StoreError> {
        let begun = |entry: &mut Entry| {
            let local_us = monotonic_us();
            let is_round = entry.round_us <= local_us;
            (entry.under_way, entry.retry_ms) = (true, None);
            (QueueKeys::new(&entry.name), is_round || entry.groups.is_empty())
        };
        let Some((keys, is_round)) = self.queues.borrow_mut().get_mut(&suffix).map(begun) else {
            return Ok(());
        };
        let done = match is_round {
            true => self.round(&suffix, &keys).await,
            false => self.retries(&suffix, &keys).await,
        };
        let (local_us, now_ms) = (monotonic_us(), self.now_ms());
        let mut queues = self.queues.borrow_mut();
        let Some(entry) = queues.get_mut(&suffix) else {
            return done.map(|_| ());
        };
        entry.under_way = false;
        let later = entry.retry_ms;
        match &done {
            Ok(Some(next)) => {
                if let Some(round_us) = next.round_us {
                    entry.round_us = local_us + round_us;
                }
                // Not at once where the clock of Redis is behind what is known of it.
                let retry_ms = next.retry_ms.map(|ms| ms.max(now_ms + 1));
                entry.retry_ms = retry_ms.into_iter().chain(later).min();
            }
            // No stream any more: the next look at what is noted says so.
            Ok(None) => entry.round_us = local_us + ROUND_MOST_US,
            Err(_) => {
                entry.round_us = local_us + 5 * SOON_US;
                entry.groups.clear();
            }
        }
        let fails = done.as_ref().err().filter(|_| self.store.is_up());
        match (entry.fails, fails) {
            (false, Some(error)) => {
                let queue = Cut(&entry.name);
                tracing::warn!(%queue, %error, "the stream of this queue is not kept: what \
                    consumers do not acknowledge does not come again");
            }
            (true, None) => {
                tracing::info!(queue = %Cut(&entry.name), "the stream of this queue is kept again");
            }
            _ => {}
        }
        entry.fails = fails.is_some();
        done.map(|_| ())
    }

    /// Everything for one stream.
    async fn round(&self, suffix: &Bytes, keys: &QueueKeys) -> Result<Option<Next>, StoreError> {
        let Some(state) = self.store.stream_look(keys).await? else {
            return Ok(None);
        };
        self.show(keys, &state);
        let names: Vec<Bytes> = state.groups.iter().map(|group| group.name.clone()).collect();
        if let Some(entry) = self.queues.borrow_mut().get_mut(suffix) {
            entry.cursors.retain(|(group, _), _| names.contains(group));
            entry.groups.clone_from(&names);
        }
        let mut more = false;
        for group in &names {
            for which in [Which::Destination, Which::Again] {
                more |= self.keep(suffix, keys, group, which).await?;
            }
            more |= self.trim(keys, group, Which::Again).await?;
        }
        if let Some(group) = names.first() {
            more |= self.trim(keys, group, Which::Destination).await?;
        }
        self.forget_consumers(suffix, keys, &state).await?;
        let retry_ms = self.bring_back(keys, &names, state.next_ms).await?;
        let lease_us = state.settings.number(&LEASE).saturating_mul(1_000);
        let many = 1 + self.queues.borrow().len() as u64 / MANY;
        let round_us = (lease_us / ROUNDS).clamp(ROUND_LEAST_US, ROUND_MOST_US) * many;
        let round_us = if more { round_us.min(SOON_US) } else { round_us };
        Ok(Some(Next { round_us: Some(round_us), retry_ms }))
    }

    /// Only what is due to come back.
    async fn retries(&self, suffix: &Bytes, keys: &QueueKeys) -> Result<Option<Next>, StoreError> {
        let groups = self.queues.borrow().get(suffix).map(|entry| entry.groups.clone());
        let groups = groups.unwrap_or_default();
        let retry_ms = self.bring_back(keys, &groups, Some(0)).await?;
        Ok(Some(Next { round_us: None, retry_ms }))
    }

    /// Brings back the retries of all groups that are due; when the next one is.
    async fn bring_back(
        &self,
        keys: &QueueKeys,
        groups: &[Bytes],
        mut next_ms: Option<Moment>,
    ) -> Result<Option<Moment>, StoreError> {
        for _ in 0..CALLS_MAX {
            if next_ms.is_none_or(|next_ms| next_ms > self.now_ms()) {
                return Ok(next_ms);
            }
            let mut moved = 0;
            for group in groups {
                let Some((kept, next)) = self.store.stream_again(keys, group).await? else {
                    return Ok(None);
                };
                self.count(keys, &kept);
                (moved, next_ms) = (moved + kept.again + kept.died, next);
            }
            let now_ms = self.now_ms();
            if moved == 0 && next_ms.is_some_and(|next_ms| next_ms <= now_ms) {
                // Of a group that is new: the next round knows it.
                return Ok(Some(now_ms + SOON_US / 1_000));
            }
        }
        Ok(next_ms)
    }

    /// Lets entries come again that a group holds too long; whether there are more.
    async fn keep(
        &self,
        suffix: &Bytes,
        keys: &QueueKeys,
        group: &Bytes,
        which: Which,
    ) -> Result<bool, StoreError> {
        let of = (group.clone(), which);
        let noted = self.queues.borrow().get(suffix).and_then(|it| it.cursors.get(&of).cloned());
        let mut cursor = noted.unwrap_or_default();
        for _ in 0..CALLS_MAX {
            let Some(kept) = self.store.stream_keep(keys, group, which, cursor).await? else {
                return Ok(false);
            };
            self.count(keys, &kept);
            cursor = kept.cursor;
            if cursor.is_empty() {
                break;
            }
        }
        let more = !cursor.is_empty();
        if let Some(entry) = self.queues.borrow_mut().get_mut(suffix) {
            entry.cursors.insert(of, cursor);
        }
        Ok(more)
    }

    async fn trim(
        &self,
        keys: &QueueKeys,
        group: &Bytes,
        which: Which,
    ) -> Result<bool, StoreError> {
        for _ in 0..CALLS_MAX {
            if !self.store.stream_trim(keys, group, which).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn forget_consumers(
        &self,
        suffix: &Bytes,
        keys: &QueueKeys,
        state: &StreamState,
    ) -> Result<(), StoreError> {
        let local_us = monotonic_us();
        let is_time = |entry: &mut Entry| {
            if entry.consumers_us > local_us {
                return false;
            }
            let consumers: u64 = state.groups.iter().map(|group| group.consumers).sum();
            entry.consumers_us = local_us + CONSUMERS_EACH_US * (1 + consumers / 1_000);
            true
        };
        if self.queues.borrow_mut().get_mut(suffix).is_some_and(is_time) {
            for group in &state.groups {
                let deleted = self.store.stream_idle(keys, &group.name).await?;
                if deleted > 0 {
                    let (queue, group) = (Cut(&keys.name), Cut(&group.name));
                    tracing::info!(%queue, %group, deleted, "consumers that were gone are deleted");
                }
            }
        }
        Ok(())
    }

    fn count(&self, keys: &QueueKeys, kept: &Kept) {
        if kept.again + kept.died > 0 {
            let metrics = self.metrics.queue(&keys.name);
            if kept.looked > 0 {
                metrics.lapsed(kept.again + kept.died);
            }
            metrics.died(kept.died);
        }
    }

    fn show(&self, keys: &QueueKeys, state: &StreamState) {
        let group = |group: &StreamGroup| GroupReading {
            name: group.name.clone(),
            pending: group.pending,
            lag: group.lag,
        };
        self.metrics.queue(&keys.name).groups(state.groups.iter().map(group).collect());
    }
}
