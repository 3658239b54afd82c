//! Takers: whoever wants messages of a queue stands in its line, and one task for each line asks
//! Redis for all of them together.
//!
//! What a call brings is dealt like cards, one each from the longest waiting on, until each has
//! what it asked for. If that is less than they asked for, the task waits until something can be
//! had: it was told so ([`Takers::look`]: a transfer, a message given back), a retry or the end of
//! a lease has come, or a look at all lines together found something that others put there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::domain::lease::{Nack, NackMode, Receipt};
use crate::domain::queue::{Cut, QueueName};
use crate::metrics::Metrics;
use crate::scheduler::tied::Tied;
use crate::scheduler::waiting::Waiting;
use crate::store::keys::{self, QueueKeys};
use crate::store::leases::{Leased, Next, Took, Wanted};
use crate::store::settles::{Settled, Settlement};
use crate::store::{Store, StoreError};

/// Messages that one call asks for.
const CALL_MESSAGES_MAX: usize = 1_000;
/// Takers that the first of several calls asks for.
const TAKERS_MIN: usize = 16;
/// Calls under way at once: each may bring as much as a reply may hold.
const CALLS_MAX: usize = 8;
/// Between two looks at the lines, and how many queues one of them reads: for 100 queues a look
/// takes Redis 0.1 ms.
const LOOK_EACH: Duration = Duration::from_millis(100);
const LOOK_QUEUES: usize = 100;
/// Leases of a connection that closed which one call gives back.
const GIVEN_BACK_MAX: usize = 200;
/// Why a lease ended whose connection closed.
const CLOSED: Bytes = Bytes::from_static(b"connection closed");
/// Times that other brokers may wake tasks in vain between two looks: 1 % of Redis.
const WAKES_MAX: usize = 100;
/// After a call that failed.
const REST: Duration = Duration::from_millis(100);

/// What one taker wants.
#[derive(Clone, Debug)]
pub struct Take {
    pub queues: Vec<QueueName>,
    pub wanted: Wanted,
}

struct Taker {
    wanted: Wanted,
    answer: oneshot::Sender<Result<Option<Hand>, StoreError>>,
}

/// The messages that one taker got.
pub struct Hand {
    pub queue: QueueName,
    pub until_ms: u64,
    pub messages: Vec<Leased>,
    pub unsent: Unsent,
}

/// Messages of which the taker has seen nothing. If this is dropped they go back at once, and the
/// delivery does not count.
pub struct Unsent {
    queue: QueueName,
    receipts: Vec<Receipt>,
    takers: Weak<Takers>,
    tied: Option<Rc<Tied>>,
}

impl Unsent {
    /// Once they are sent they belong to a connection, if to any.
    pub fn tied_to(mut self, tied: Option<Rc<Tied>>) -> Self {
        self.tied = tied;
        self
    }

    /// The taker may have seen them: from now on they are its own.
    pub fn sent(mut self) {
        let receipts = std::mem::take(&mut self.receipts);
        if let Some(tied) = &self.tied {
            tied.add(&self.queue, receipts);
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(takers) = self.takers.upgrade().filter(|_| !self.receipts.is_empty()) {
            takers.give_back(self.queue.clone(), std::mem::take(&mut self.receipts));
        }
    }
}

/// The task of a line.
#[derive(Default)]
struct Task {
    /// It is to ask, or to see whether it is still needed.
    bell: Notify,
    /// It would have asked, but all in its line were asked for at other queues.
    missed: Cell<bool>,
    /// The last one that came before a call that found no more.
    heard_to: Cell<u64>,
    /// The moment up to which it sleeps unless the bell rings, Unix ms; 0: it does not sleep.
    sleeps_to_ms: Cell<u64>,
    /// Another broker rang, and it has not asked since.
    woken: Cell<bool>,
}

/// One that stands in line; out of it when dropped.
struct InLine<'a> {
    takers: &'a Takers,
    id: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.takers.leave(self.id);
    }
}

/// Counts dead messages that the settings of a queue keep no longer, and says so.
pub fn note_dropped(metrics: &Metrics, queue: &QueueName, dropped: u64) {
    if dropped > 0 {
        metrics.queue(queue.as_bytes()).dead_dropped(dropped);
        let (queue, messages) = (Cut(queue.as_bytes()).to_string(), dropped);
        tracing::warn!(
            queue,
            messages,
            "dead messages were dropped, the oldest first: dead_max or dead_keep_ms of the queue"
        );
    }
}

/// Counts messages that were given back, and those that were dropped; whether there are any.
pub fn note_given_back(metrics: &Metrics, queue: &QueueName, given: &Settled) -> bool {
    note_dropped(metrics, queue, given.dropped);
    if given.count > 0 {
        let metrics = metrics.queue(queue.as_bytes());
        metrics.nacked(given.count);
        metrics.died(given.died);
    }
    given.count > 0
}

pub struct Takers {
    store: Rc<Store>,
    metrics: Metrics,
    waiting: RefCell<Waiting<Taker>>,
    tasks: RefCell<BTreeMap<Bytes, Rc<Task>>>,
    /// Those that do not wait any longer than for the next answer of one of these queues.
    impatient: RefCell<BTreeMap<u64, Vec<Bytes>>>,
    calls: Semaphore,
    /// Calls for connections that closed.
    gives_back: Semaphore,
    /// The last queue that was looked at.
    looked_at: RefCell<Bytes>,
    places_max: Cell<usize>,
    /// Leases that are remembered for connections.
    pub(super) tied: Cell<usize>,
    /// Connections are closed by the broker, and their clients go on elsewhere.
    stops: Cell<bool>,
    /// Times that other brokers may still wake tasks in vain.
    wakes_left: Cell<usize>,
    me: Weak<Self>,
}

impl Takers {
    pub fn new(store: Rc<Store>, metrics: Metrics, places_max: usize) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            store,
            metrics,
            waiting: RefCell::default(),
            tasks: RefCell::default(),
            impatient: RefCell::default(),
            calls: Semaphore::new(CALLS_MAX),
            gives_back: Semaphore::new(1),
            looked_at: RefCell::default(),
            places_max: Cell::new(places_max),
            tied: Cell::default(),
            stops: Cell::default(),
            wakes_left: Cell::new(WAKES_MAX),
            me: me.clone(),
        })
    }

    /// Places in all lines together, from now on.
    pub fn set_places_max(&self, places_max: usize) {
        self.places_max.set(places_max);
    }

    /// For the leases of a connection.
    pub fn tied(&self) -> Rc<Tied> {
        Rc::new(Tied::new(self.me.clone()))
    }

    /// From now on leases stay when their connection closes: the broker stops.
    pub fn keep_tied(&self) {
        self.stops.set(true);
    }

    /// Takes messages of one of these queues, or waits for them as long as `patience`; `None` if
    /// there were none. Redis is asked once at least, however short that is. Safe to cancel: it is
    /// out of line then, and what it got goes back.
    ///
    /// # Errors
    /// As every call. `TooManyTakers`.
    pub async fn take(
        &self,
        take: Take,
        patience: Option<impl Future<Output = ()>>,
    ) -> Result<Option<Hand>, StoreError> {
        let Take { queues, wanted } = take;
        let (answer, mut answered) = oneshot::channel();
        let taker = Taker { wanted, answer };
        let names: Vec<Bytes> = queues.iter().map(QueueName::to_bytes).collect();
        let max = self.places_max.get();
        let parked = self.waiting.borrow_mut().park(names.clone(), max, taker);
        let id = parked.ok_or(StoreError::TooManyTakers { max })?;
        let in_line = InLine { takers: self, id };
        names.iter().for_each(|name| self.serve(name));
        let stops =
            || StoreError::Unavailable("the broker takes no more messages, since it stops".into());
        if let Some(patience) = patience {
            tokio::select! {
                biased;
                answer = &mut answered => return answer.unwrap_or_else(|_| Err(stops())),
                () = patience => {}
            }
            if self.has_heard(id, &names) {
                drop(in_line);
                return Ok(None);
            }
            // What the call under way brings is its own: given back again and again, it would
            // reach nobody.
            names.iter().for_each(|name| self.look(name));
        }
        self.impatient.borrow_mut().insert(id, names);
        answered.await.unwrap_or_else(|_| Err(stops()))
    }

    /// Whether no call is under way for one, and one that was made since it came found no more.
    fn has_heard(&self, id: u64, queues: &[Bytes]) -> bool {
        let tasks = self.tasks.borrow();
        let mut tasks = queues.iter().filter_map(|queue| tasks.get(queue));
        !self.waiting.borrow().is_out(id) && tasks.any(|task| task.heard_to.get() >= id)
    }

    /// Something may be had of a queue.
    pub fn look(&self, queue: &[u8]) {
        if let Some(task) = self.tasks.borrow().get(queue) {
            task.bell.notify_one();
        }
    }

    /// Another broker says that something of a queue, by the suffix of its keys, can be had from a
    /// moment on, Unix ms. Anybody can say so: if it was in vain too often, nobody listens before
    /// the next look at all lines.
    pub fn heard(&self, suffix: &[u8], from_ms: u64) {
        let tasks = self.tasks.borrow();
        let names = [keys::guess(suffix), suffix];
        let names = &names[usize::from(names[0] == suffix)..];
        for task in names.iter().filter_map(|name| tasks.get(*name)) {
            let sleeps_to_ms = task.sleeps_to_ms.get();
            let expects = sleeps_to_ms > 0 && sleeps_to_ms <= from_ms;
            let left = self.wakes_left.get();
            if !expects && left > 0 && !task.woken.replace(true) {
                self.wakes_left.set(left - 1);
                task.bell.notify_one();
            }
        }
    }

    /// How many wait in the line of a queue, and in all.
    pub fn in_line(&self, queue: &[u8]) -> usize {
        self.waiting.borrow().in_line(queue)
    }

    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks for what others put into the queues that takers wait at, for ever: run as a task of
    /// its own.
    pub async fn look_at_all(self: Rc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EACH).await;
            self.wakes_left.set(WAKES_MAX);
            let queues = self.next_lines();
            if queues.is_empty() {
                continue;
            }
            // A Redis that does not answer is found out by the calls of the lines.
            let ready = self.store.can_be_taken(&queues).await.unwrap_or_default();
            for (queue, _) in queues.iter().zip(ready).filter(|(_, ready)| *ready) {
                self.look(queue);
            }
        }
    }

    /// The lines that are looked at next.
    fn next_lines(&self) -> Vec<Bytes> {
        let (tasks, mut last) = (self.tasks.borrow(), self.looked_at.borrow_mut());
        let behind = (Bound::Excluded(&*last), Bound::Unbounded);
        let mut queues: Vec<Bytes> = tasks
            .range::<Bytes, _>(behind)
            .take(LOOK_QUEUES)
            .map(|(name, _)| name.clone())
            .collect();
        let more = LOOK_QUEUES - queues.len();
        let before = tasks.range::<Bytes, _>((Bound::Unbounded, Bound::Included(&*last)));
        queues.extend(before.take(more).map(|(name, _)| name.clone()));
        if let Some(queue) = queues.last() {
            *last = queue.clone();
        }
        queues
    }

    /// Makes sure that the line of a queue has its task, and that it looks now.
    fn serve(&self, queue: &Bytes) {
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.get(queue) {
            task.bell.notify_one();
        } else if let Some(takers) = self.me.upgrade() {
            let task = Rc::new(Task::default());
            tasks.insert(queue.clone(), task.clone());
            tokio::task::spawn_local(takers.serve_line(queue.clone(), task));
        }
    }

    /// The task of a line, which ends with the line.
    async fn serve_line(self: Rc<Self>, name: Bytes, task: Rc<Task>) {
        let queue = QueueName::trusted(name.clone());
        let clock = self.store.clock(&QueueKeys::new(&name));
        // Few at first, since there is nothing in most calls, and then more from call to call.
        let mut most = TAKERS_MIN;
        loop {
            // Within a call's time all that come are asked for together.
            let permit = self.calls.acquire().await;
            let (asked, wanted) = self.ask_for(&name, most);
            let Some(wanted) = wanted else {
                drop(permit);
                if !self.waiting.borrow().is_line(&name) {
                    break;
                }
                task.missed.set(true);
                task.bell.notified().await;
                continue;
            };
            let newest = self.waiting.borrow().last_id();
            let woken = task.woken.replace(false);
            let outcome = self.store.take(&queue, wanted).await;
            drop(permit);
            let next = match outcome {
                Ok(took) => {
                    if woken && !took.messages.is_empty() {
                        self.wakes_left.set(self.wakes_left.get() + 1);
                    }
                    let next = self.next_after(&took, wanted);
                    self.deal(&queue, asked, took);
                    next
                }
                Err(error) => {
                    for id in asked {
                        self.answer(id, Err(error.clone()));
                    }
                    tokio::time::sleep(REST).await;
                    Next::Now
                }
            };
            let wait = match next {
                Next::Now => {
                    most = CALL_MESSAGES_MAX.min(2 * most);
                    continue;
                }
                Next::At(ms) => Some(Duration::from_micros(
                    (ms.saturating_mul(1_000)).saturating_sub(clock.now_us()),
                )),
                Next::Unknown => None,
            };
            most = TAKERS_MIN;
            task.heard_to.set(newest);
            self.answer_those_that_do_not_wait(&name, newest);
            if !self.waiting.borrow().is_line(&name) {
                break;
            }
            task.sleeps_to_ms.set(if let Next::At(ms) = next { ms } else { u64::MAX });
            match wait {
                Some(wait) => drop(tokio::time::timeout(wait, task.bell.notified()).await),
                None => task.bell.notified().await,
            }
            task.sleeps_to_ms.set(0);
        }
        self.tasks.borrow_mut().remove(&name);
    }

    /// When there may be more: at once where a call brought all that it asked for.
    fn next_after(&self, took: &Took, wanted: Wanted) -> Next {
        if took.messages.len() < wanted.count { took.next } else { Next::Now }
    }

    /// Takes the first ones out of line whose wishes one call can serve; `None` if nobody waits.
    /// `most`: how many.
    fn ask_for(&self, queue: &[u8], most: usize) -> (Vec<u64>, Option<Wanted>) {
        let mut waiting = self.waiting.borrow_mut();
        let (mut asked, mut all): (Vec<u64>, Option<Wanted>) = (Vec::new(), None);
        for (id, taker) in waiting.line(queue) {
            let wanted = taker.wanted;
            match &mut all {
                _ if asked.len() == most => break,
                None => all = Some(wanted),
                // One call, one lease.
                Some(all) if all.lease_ms != wanted.lease_ms => continue,
                Some(all) if all.count + wanted.count > CALL_MESSAGES_MAX => break,
                Some(all) => all.count += wanted.count,
            }
            asked.push(id);
        }
        asked.iter().for_each(|id| waiting.take_out(*id));
        (asked, all)
    }

    /// Deals messages, one each in turn. Takers that get none are back in line; messages that
    /// nobody is left for go back.
    fn deal(&self, queue: &QueueName, asked: Vec<u64>, took: Took) {
        // Whoever asks and finds nothing takes no series from the queues that come.
        note_dropped(&self.metrics, queue, took.dropped);
        if took.lapsed > 0 || took.expired > 0 || !took.messages.is_empty() {
            let metrics = self.metrics.queue(queue.as_bytes());
            metrics.lapsed(took.lapsed);
            metrics.died(took.died);
            metrics.expired(took.expired);
            metrics.taken(took.messages.len() as u64);
        }
        let mut hands: Vec<(u64, usize, Vec<Leased>)> = Vec::with_capacity(asked.len());
        for id in asked {
            // Some may have left meanwhile.
            let count = self.waiting.borrow().get(id).map(|taker| taker.wanted.count);
            hands.extend(count.map(|count| (id, count, Vec::new())));
        }
        let mut left = took.messages.into_iter();
        let mut turns: VecDeque<usize> = (0..hands.len()).collect();
        while let Some(turn) = turns.pop_front()
            && let Some((_, count, hand)) = hands.get_mut(turn)
            && let Some(message) = left.next()
        {
            hand.push(message);
            if hand.len() < *count {
                turns.push_back(turn);
            }
        }
        let hand = |messages: Vec<Leased>| Hand {
            queue: queue.clone(),
            until_ms: took.until_ms,
            unsent: Unsent {
                queue: queue.clone(),
                receipts: messages.iter().map(|one| one.receipt).collect(),
                takers: self.me.clone(),
                tied: None,
            },
            messages,
        };
        for (id, _, messages) in hands {
            if messages.is_empty() {
                self.put_back(id);
            } else {
                self.answer(id, Ok(Some(hand(messages))));
            }
        }
        drop(hand(left.collect()));
    }

    /// Those that came before the last call was sent, and got nothing.
    fn answer_those_that_do_not_wait(&self, queue: &[u8], newest: u64) {
        let of_queue = |(id, names): (&u64, &Vec<Bytes>)| {
            names.iter().any(|name| name == queue).then_some(*id)
        };
        let done: Vec<u64> =
            self.impatient.borrow().range(..=newest).filter_map(of_queue).collect();
        for id in done {
            self.answer(id, Ok(None));
        }
    }

    /// One got nothing. Others that would have asked for it meanwhile do so now.
    fn put_back(&self, id: u64) {
        let mut waiting = self.waiting.borrow_mut();
        let tasks = self.tasks.borrow();
        for task in waiting.put_back(id).iter().filter_map(|queue| tasks.get(queue)) {
            if task.missed.replace(false) {
                task.bell.notify_one();
            }
        }
    }

    /// One goes on, or has left. The task of a line that nobody has a place in any more ends.
    fn leave(&self, id: u64) -> Option<Taker> {
        self.impatient.borrow_mut().remove(&id);
        let (taker, queues) = self.waiting.borrow_mut().remove(id)?;
        for queue in queues {
            if !self.waiting.borrow().is_line(&queue) {
                self.look(&queue);
            }
        }
        Some(taker)
    }

    /// One is answered, and out of line.
    fn answer(&self, id: u64, answer: Result<Option<Hand>, StoreError>) {
        let taker = self.leave(id);
        // What nobody waits for any more goes back when it is dropped here.
        if let Some(taker) = taker {
            drop(taker.answer.send(answer));
        }
    }

    /// Messages that nobody saw can be taken again at once.
    fn give_back(self: Rc<Self>, queue: QueueName, receipts: Vec<Receipt>) {
        tokio::task::spawn_local(async move {
            // What fails here comes back when the lease runs out.
            let _ = self.store.settle(&queue, Settlement::RETURN, receipts).await;
            self.look(queue.as_bytes());
        });
    }

    /// The leases of a connection that closed: the attempt counts, so that a message at which its
    /// program crashes reaches the limit. One call after the other, of all such connections: where
    /// many close at once, none waits in line for longer than a call may.
    pub(super) fn give_back_tied(self: Rc<Self>, leases: BTreeMap<QueueName, Vec<Receipt>>) {
        if self.stops.get() {
            return;
        }
        tokio::task::spawn_local(async move {
            let each = leases.iter().flat_map(|(queue, receipts)| {
                receipts.chunks(GIVEN_BACK_MAX).map(move |some| (queue, some))
            });
            for (queue, receipts) in each {
                let permit = self.gives_back.acquire().await;
                // What fails here comes back when the lease runs out.
                let nack = Nack { mode: NackMode::Tied, delay_ms: None, reason: CLOSED };
                let how = Settlement::Nack(nack);
                let given = self.store.settle(queue, how, receipts.to_vec()).await;
                drop(permit);
                let Ok(given) = given else { continue };
                if note_given_back(&self.metrics, queue, &given) {
                    self.look(queue.as_bytes());
                }
            }
        });
    }
}
