//! Which queues there are: the registry, a slow SCAN for ever, publications; and the safety scan of
//! their heads.
//!
//! Everything here is paced, so that it costs Redis little and never holds up readiness. The safety
//! scan reads many heads in a call: each queue once in [`interval`], which bounds what a wake-up
//! that nobody published costs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::WakeCause;
use crate::scheduler::host::Host;
use crate::scheduler::queue_loop::SCORE_END;
use crate::scheduler::served::moment;
use crate::store::delivery::Found;
use crate::store::keys::{self, QueueKeys};
use crate::store::{Store, StoreError};

/// Heads read by one call: under a millisecond of Redis.
const HEADS_MAX: usize = 500;
/// Keys that one step of SCAN looks at.
const SCAN_COUNT: u64 = 1_000;
/// Pause between two steps of the first SCAN after a subscription, and of the slow one for ever.
const SCAN_PAUSE: Duration = Duration::from_millis(5);
const SLOW_SCAN_PAUSE: Duration = Duration::from_millis(500);
/// After a whole round the slow SCAN rests.
const SLOW_SCAN_REST: Duration = Duration::from_secs(60);
/// After a search that failed.
const SEARCH_RETRY: Duration = Duration::from_secs(1);
/// Unknown queues that publications named and that wait to be looked at; more are left to the SCAN.
const HEARD_MAX: usize = 10_000;
/// Between two attempts to ask Redis for one of them.
const HEARD_RETRY: Duration = Duration::from_millis(50);
/// Between two rounds of writing and pruning the registry; a queue that is empty for so long may be
/// forgotten.
const REGISTRY_PAUSE: Duration = Duration::from_secs(2);
/// Queues that one call notes in the registry.
const REGISTER_MAX: usize = 500;

/// How long one round of the safety scan takes: a second for up to 1,000 queues, ten for 100,000.
pub fn interval(queues: usize, base: Duration) -> Duration {
    match queues {
        0..=1_000 => base,
        1_001..=100_000 => base * 10,
        _ => base * 10 * u32::try_from(queues.div_ceil(100_000)).unwrap_or(u32::MAX),
    }
}

pub struct Discovery {
    host: Rc<Host>,
    store: Rc<Store>,
    /// Names that the configuration gives to a suffix: they go before a guess.
    configured: HashMap<Bytes, Bytes>,
    heard: RefCell<VecDeque<Bytes>>,
    heard_set: RefCell<HashSet<Bytes>>,
    guessed: RefCell<HashSet<Bytes>>,
    heard_one: Notify,
    scan: Notify,
}

impl Discovery {
    pub fn new(
        host: Rc<Host>,
        store: Rc<Store>,
        configured: impl Iterator<Item = Bytes>,
    ) -> Rc<Self> {
        let configured = configured
            .map(|name| (keys::suffix_of(&name), name))
            .collect();
        Rc::new(Self {
            host,
            store,
            configured,
            heard: RefCell::default(),
            heard_set: RefCell::default(),
            guessed: RefCell::default(),
            heard_one: Notify::new(),
            scan: Notify::new(),
        })
    }

    /// A publication named a queue that is not known.
    pub fn heard_of(&self, suffix: Bytes) {
        let mut heard = self.heard.borrow_mut();
        if heard.len() < HEARD_MAX && self.heard_set.borrow_mut().insert(suffix.clone()) {
            heard.push_back(suffix);
            self.heard_one.notify_one();
        }
    }

    /// Looks through the whole database soon.
    pub fn scan_now(&self) {
        self.scan.notify_one();
    }

    /// Takes up a queue under its configured, recorded or guessed name.
    fn take_up(&self, found: &Found) {
        let name = match (self.configured.get(&found.suffix), &found.name) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) if keys::suffix_of(name) == found.suffix => name.clone(),
            (None, _) => self.guess(&found.suffix),
        };
        let keys = QueueKeys::new(&name);
        match moment(&found.head) {
            Some(due) if due < SCORE_END => self.host.hint(&keys, due, WakeCause::Scan),
            // To be pruned, or to be complained of.
            _ => self.host.look(&keys, WakeCause::Scan),
        }
    }

    fn guess(&self, suffix: &Bytes) -> Bytes {
        let name = Bytes::copy_from_slice(keys::guess(suffix));
        let mut guessed = self.guessed.borrow_mut();
        if guessed.len() < HEARD_MAX && guessed.insert(suffix.clone()) {
            tracing::info!(
                keys = %suffix.escape_ascii(),
                queue = %name.escape_ascii(),
                "found a queue whose name is not recorded; its messages go to the list of this name"
            );
        }
        name
    }

    /// Takes up what publications named, for ever: run as a task of its own.
    pub async fn listen(self: Rc<Self>) {
        loop {
            let next = self.heard.borrow_mut().pop_front();
            let Some(suffix) = next else {
                self.heard_one.notified().await;
                continue;
            };
            self.heard_set.borrow_mut().remove(&suffix);
            match self.store.found(vec![suffix.clone()]).await {
                // Channels ignore databases, and anyone can publish.
                Ok(found) => {
                    let pending = found.iter().filter(|found| !found.head.is_empty());
                    pending.for_each(|found| self.take_up(found));
                }
                // The scan would find it too, but late. A bad key is left to it.
                Err(StoreError::Unavailable(_) | StoreError::Uncertain(_)) => {
                    self.heard_of(suffix);
                    tokio::time::sleep(HEARD_RETRY).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Finds queues by the registry and by SCAN: fast after a subscription, then slowly for ever.
    pub async fn search(self: Rc<Self>) {
        let mut pause = SCAN_PAUSE;
        loop {
            let again = tokio::select! {
                biased;
                // Begin anew: everything may have been missed.
                () = self.scan.notified() => true,
                found = self.search_once(pause) => {
                    // Redis is away if it failed: the next subscription starts it again.
                    let rest = if found.is_ok() { SLOW_SCAN_REST } else { SEARCH_RETRY };
                    tokio::time::timeout(rest, self.scan.notified()).await.is_ok()
                }
            };
            pause = if again { SCAN_PAUSE } else { SLOW_SCAN_PAUSE };
        }
    }

    async fn search_once(&self, pause: Duration) -> Result<(), StoreError> {
        let start = Bytes::from_static(b"0");
        let mut cursor = start.clone();
        loop {
            let page = self.store.registered(cursor, SCAN_COUNT).await?;
            let suffixes: Vec<Bytes> = page
                .found
                .iter()
                .map(|name| keys::suffix_of(name))
                .collect();
            self.take_up_unknown(suffixes).await?;
            cursor = page.cursor;
            if cursor == start {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        loop {
            let page = self.store.scan(cursor, SCAN_COUNT).await?;
            self.take_up_unknown(page.found).await?;
            cursor = page.cursor;
            if cursor == start {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn take_up_unknown(&self, suffixes: Vec<Bytes>) -> Result<(), StoreError> {
        let unknown = |suffix: &Bytes| !self.host.serves(suffix);
        let suffixes: Vec<Bytes> = suffixes.into_iter().filter(unknown).collect();
        for some in suffixes.chunks(HEADS_MAX) {
            let found = self.store.found(some.to_vec()).await?;
            found.iter().for_each(|found| self.take_up(found));
        }
        Ok(())
    }

    /// Reads the head of every served queue, round after round, for ever; a head that the loop does
    /// not wait for is a hint, one that is overdue a look.
    pub async fn watch_heads(self: Rc<Self>, base: Duration) {
        let mut after = Bytes::new();
        let mut round = Instant::now();
        let mut overdue_ms = 0;
        loop {
            let page = self.host.page(&after, HEADS_MAX);
            let queues = self.host.len();
            let Some((last, _)) = page.last() else {
                after = Bytes::new();
                self.host
                    .set_others_overdue_ms(std::mem::take(&mut overdue_ms));
                tokio::time::sleep_until(round + interval(queues, base)).await;
                round = Instant::now();
                continue;
            };
            after = last.clone();
            let timeouts: Vec<Bytes> = page
                .iter()
                .map(|(_, name)| QueueKeys::new(name).timeout)
                .collect();
            if let Ok(heads) = self.store.heads(&timeouts).await {
                for ((suffix, _), head) in page.iter().zip(heads) {
                    let head = moment(&head);
                    overdue_ms = overdue_ms.max(self.host.overdue_ms(suffix, head));
                    self.host.scanned(suffix, head);
                }
            }
            // Spread over the interval, so that Redis never sees them all at once.
            let pages = queues.div_ceil(HEADS_MAX).max(1) as u32;
            tokio::time::sleep(interval(queues, base) / (pages + 1)).await;
        }
    }

    /// Writes what is new into the registry and prunes what is empty, for ever.
    pub async fn keep_registry(self: Rc<Self>) {
        let mut interval = tokio::time::interval(REGISTRY_PAUSE);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            for names in self.host.take_begun().chunks(REGISTER_MAX) {
                // A hint: what is lost here is found by SCAN.
                let _ = self.store.register(names.to_vec()).await;
            }
            for (suffix, name) in self.host.take_empty() {
                if matches!(self.store.prune(&QueueKeys::new(&name)).await, Ok(true)) {
                    self.host.end(&suffix);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_bounded() {
        let base = Duration::from_secs(1);
        for (queues, seconds) in [
            (0, 1),
            (1_000, 1),
            (1_001, 10),
            (100_000, 10),
            (200_000, 20),
        ] {
            assert_eq!(
                interval(queues, base),
                Duration::from_secs(seconds),
                "{queues}"
            );
        }
    }
}
