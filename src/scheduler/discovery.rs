//! Finds queues: by publications, by the registry, and by a SCAN that never ends.
//!
//! Everything here is paced, so that it costs Redis little and never holds up readiness: after a
//! call that took long the next one waits longer. A queue that nothing else names is found by the
//! SCAN, which passes over 100,000 keys in [`SCAN_ROUND`].

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::domain::queue::{Cut, SCORE_END, Score};
use crate::metrics::WakeCause;
use crate::scheduler::crons::Crons;
use crate::scheduler::host::Host;
use crate::scheduler::pace::{CALL_PAUSE, RETRY, pause_after};
use crate::scheduler::run_queue::Urgency;
use crate::store::delivery::Found;
use crate::store::keys::{self, QueueKeys};
use crate::store::{Store, StoreError};

/// Keys that one step of SCAN passes over, and the pause between two steps, but for those after a
/// subscription: 100,000 keys in a round.
const SCAN_COUNT: u64 = 2_000;
const SLOW_SCAN_PAUSE: Duration = Duration::from_millis(160);
/// No round is shorter.
const SCAN_ROUND: Duration = Duration::from_secs(8);
/// Names that one step of reading the registry gives, the pause between two, and the least time for
/// all where there are few, and where there are many.
const REGISTRY_COUNT: u64 = 2_000;
const REGISTRY_STEP: Duration = Duration::from_millis(250);
const REGISTRY_ROUND: Duration = Duration::from_secs(2);
const REGISTRY_ROUND_OF_MANY: Duration = Duration::from_secs(5);
/// Of many they are read again only where their number has changed, or after this time.
const REGISTRY_TRUSTED: Duration = Duration::from_secs(30);
/// From this number of queues on they are many.
pub(super) const MANY: usize = 1_000;
/// Queues whose names and heads one call asks for.
const FOUND_MAX: usize = 500;
/// After a search that failed, as at a start that is quicker than the connection it takes.
const SEARCH_RETRY: Duration = Duration::from_millis(200);
/// Unknown queues that publications named and that are still to be asked for, and their bytes; the
/// SCAN finds more.
const HEARD_MAX: usize = 10_000;
const HEARD_BYTES_MAX: usize = 4 << 20;

pub struct Discovery {
    host: Rc<Host>,
    store: Rc<Store>,
    crons: Rc<Crons>,
    heard: RefCell<HeardOf>,
    guessed: RefCell<HashSet<Bytes>>,
    heard_one: Notify,
    scan: Notify,
    registry: Notify,
}

impl Discovery {
    pub fn new(host: Rc<Host>, store: Rc<Store>, crons: Rc<Crons>) -> Rc<Self> {
        Rc::new(Self {
            host,
            store,
            crons,
            heard: RefCell::default(),
            guessed: RefCell::default(),
            heard_one: Notify::new(),
            scan: Notify::new(),
            registry: Notify::new(),
        })
    }

    /// A publication named a queue that is not known.
    pub fn heard_of(&self, suffix: Bytes) {
        if self.heard.borrow_mut().push(suffix) {
            self.heard_one.notify_one();
        }
    }

    /// Looks through the registry and the whole database soon.
    pub fn scan_now(&self) {
        self.scan.notify_one();
        self.registry.notify_one();
        self.crons.learn_now();
    }

    /// Takes up a queue under its configured, recorded or guessed name.
    fn take_up(&self, found: &Found) {
        let configured = self.host.schedule().configured(&found.suffix).cloned();
        let name = match (configured, &found.name) {
            (Some(name), _) => name,
            (None, Some(name)) if keys::may_own(name, &found.suffix) => name.clone(),
            (None, recorded) => self.guess(&found.suffix, recorded.as_ref()),
        };
        let keys = QueueKeys::new(&name);
        self.host.change(|schedule, now| match found.head.map(Score::moment) {
            Some(due) if due < SCORE_END => schedule.hint(&keys, due, WakeCause::Scan, now),
            // To be pruned, or to be complained of; or what its head is was not looked for.
            _ => schedule.look(&keys, Urgency::Doubt, WakeCause::Scan, now),
        });
    }

    /// `recorded`: a name that cannot be that of these keys.
    fn guess(&self, suffix: &Bytes, recorded: Option<&Bytes>) -> Bytes {
        let name = Bytes::copy_from_slice(keys::guess(suffix));
        let mut guessed = self.guessed.borrow_mut();
        if guessed.len() < HEARD_MAX && guessed.insert(suffix.clone()) {
            let (keys, queue) = (Cut(suffix), Cut(&name));
            match recorded.map(|recorded| Cut(recorded)) {
                None => tracing::info!(
                    %keys,
                    %queue,
                    "found a queue whose name is not recorded; its messages go to the list of this \
                     name"
                ),
                Some(recorded) => tracing::warn!(
                    %keys,
                    %queue,
                    %recorded,
                    "found a queue whose recorded name has other keys: was something renamed by \
                     hand? Its messages go to the list 'queue'"
                ),
            }
        }
        name
    }

    /// Takes up what publications named, for ever: run as a task of its own.
    pub async fn listen(self: Rc<Self>) {
        loop {
            let some = self.heard.borrow_mut().take(FOUND_MAX);
            if some.is_empty() {
                self.heard_one.notified().await;
                continue;
            }
            let began = Instant::now();
            match self.store.found(some.clone()).await {
                // Channels ignore databases, and anyone can publish.
                Ok(found) => {
                    let pending = found.iter().filter(|found| !found.is_empty);
                    pending.for_each(|found| self.take_up(found));
                    if some.len() > 1 {
                        tokio::time::sleep(pause_after(began.elapsed())).await;
                    }
                }
                // The scan would find them too, but late. A bad key is left to it.
                Err(StoreError::Unavailable(_) | StoreError::Uncertain(_)) => {
                    some.into_iter().for_each(|suffix| self.heard_of(suffix));
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Finds queues by SCAN: fast after a subscription, then slowly for ever. Run as a task of its
    /// own. A subscription does not begin anew, or one that comes and goes would let no round end.
    pub async fn search(self: Rc<Self>) {
        let start = Bytes::from_static(b"0");
        let mut cursor = start.clone();
        let (mut fast_rounds, mut round) = (1, Instant::now());
        loop {
            let began = Instant::now();
            let next = match self.search_page(&cursor).await {
                Ok(next_cursor) => {
                    cursor = next_cursor;
                    if cursor != start {
                        match fast_rounds {
                            0 => began + SLOW_SCAN_PAUSE,
                            _ => Instant::now() + pause_after(began.elapsed()),
                        }
                    } else if fast_rounds > 1 {
                        fast_rounds -= 1;
                        round = Instant::now();
                        round
                    } else {
                        fast_rounds = 0;
                        round = Instant::now().max(round + SCAN_ROUND);
                        round
                    }
                }
                // Redis is away: the next subscription says when it is back.
                Err(_) => Instant::now() + SEARCH_RETRY,
            };
            if tokio::time::timeout_at(next, self.scan.notified()).await.is_ok() {
                // The rest of this round, and a whole one.
                fast_rounds = if cursor == start { 1 } else { 2 };
                // It begins before its time, and so does the next one.
                round = round.min(Instant::now());
            }
        }
    }

    async fn search_page(&self, cursor: &Bytes) -> Result<Bytes, StoreError> {
        let page = self.store.scan(cursor.clone(), SCAN_COUNT).await?;
        self.crons.found(page.crons);
        // A key that has only the name of a queue is left alone.
        self.take_up_unknown(page.found, |found| !found.is_wrong_type).await?;
        Ok(page.cursor)
    }

    /// Finds queues by the registry, again and again for ever: other brokers have written it, and
    /// the database may have become another one. Run as a task of its own.
    pub async fn read_registry(self: Rc<Self>) {
        // How many names there were when it was read last, and when, if all are served.
        let mut read: Option<(i64, Instant)> = None;
        loop {
            let began = Instant::now();
            // Whoever may not ask reads it each time.
            let size = self.store.registry_size().await;
            read =
                read.filter(|(names, at)| size == Some(*names) && at.elapsed() < REGISTRY_TRUSTED);
            let round = match read {
                Some(_) => REGISTRY_ROUND_OF_MANY,
                None => match self.read_registry_once().await {
                    Ok((names, missing)) if names > MANY => {
                        read = size.filter(|_| missing == 0).map(|size| (size, began));
                        REGISTRY_ROUND_OF_MANY
                    }
                    Ok(_) => REGISTRY_ROUND,
                    Err(_) => began.elapsed() + SEARCH_RETRY,
                },
            };
            tokio::select! {
                () = tokio::time::sleep_until(began + round) => {}
                () = self.registry.notified() => read = None,
            }
        }
    }

    /// How many names there are, and of how many the queues were not served.
    async fn read_registry_once(&self) -> Result<(usize, usize), StoreError> {
        let start = Bytes::from_static(b"0");
        let (mut cursor, mut names, mut missing) = (start.clone(), 0, 0);
        loop {
            let page = self.store.registered(cursor, REGISTRY_COUNT).await?;
            let suffixes = page.found.iter().map(|name| keys::suffix_of(name));
            let all = page.found.len();
            names += all;
            let unknown = self.take_up_unknown(suffixes.collect(), |_| true).await?;
            missing += unknown;
            cursor = page.cursor;
            if cursor == start {
                return Ok((names, missing));
            }
            // At a start all are unknown, and each page costs a call more.
            let known = unknown * 2 <= all;
            tokio::time::sleep(if known { REGISTRY_STEP } else { CALL_PAUSE.start }).await;
        }
    }

    /// Takes up those that are not served yet, if they are queues; how many are not served.
    async fn take_up_unknown(
        &self,
        suffixes: Vec<Bytes>,
        is_queue: fn(&Found) -> bool,
    ) -> Result<usize, StoreError> {
        let missing = |suffix: &Bytes| self.host.schedule().is_missing(suffix);
        let suffixes: Vec<Bytes> = suffixes.into_iter().filter(missing).collect();
        for some in suffixes.chunks(FOUND_MAX) {
            let found = self.store.found(some.to_vec()).await?;
            let queues = found.iter().filter(|found| is_queue(found));
            queues.for_each(|found| self.take_up(found));
        }
        Ok(suffixes.len())
    }
}

/// Suffixes in the order in which they were heard of, each once. Anyone can publish: they are
/// bounded in number and bytes.
#[derive(Default)]
struct HeardOf {
    line: VecDeque<Bytes>,
    all: HashSet<Bytes>,
    bytes: usize,
}

impl HeardOf {
    /// Whether it has a place now, and had none.
    fn push(&mut self, suffix: Bytes) -> bool {
        let bytes = self.bytes + suffix.len();
        let fits = self.line.len() < HEARD_MAX && bytes <= HEARD_BYTES_MAX;
        let is_new = fits && self.all.insert(suffix.clone());
        if is_new {
            self.line.push_back(suffix);
            self.bytes = bytes;
        }
        is_new
    }

    fn take(&mut self, count: usize) -> Vec<Bytes> {
        let some: Vec<Bytes> = self.line.drain(..count.min(self.line.len())).collect();
        for suffix in &some {
            self.all.remove(suffix);
            self.bytes -= suffix.len();
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_is_bounded() {
        let mut heard = HeardOf::default();
        let small: Vec<_> = (0..HEARD_MAX).map(|n| Bytes::from(n.to_string())).collect();
        assert!(small.iter().all(|suffix| heard.push(suffix.clone())));
        assert!(!heard.push(Bytes::from_static(b"one more")));
        assert_eq!(heard.take(2), ["0", "1"]);
        assert!(heard.push(Bytes::from_static(b"0")) && !heard.push(Bytes::from_static(b"0")));
        assert_eq!(heard.take(HEARD_MAX).len(), HEARD_MAX - 1);
        let large: Vec<_> = (0..8).map(|n| Bytes::from(vec![n; HEARD_BYTES_MAX / 4])).collect();
        assert_eq!(large.iter().filter(|suffix| heard.push((*suffix).clone())).count(), 4);
        assert_eq!((heard.take(9).len(), heard.bytes), (4, 0));
    }
}
