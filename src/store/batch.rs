//! Offers of many clients, stored by one script call.
//!
//! ```text
//! push -> open batch ----+                      +-> in flight (lane 0) -> outcome -> tickets
//! push -> open batch     +-- a lane is free? -->+
//! push -> open batch ----+                      +-> in flight (lane 1), if enough wait
//! ```
//!
//! There is no timer: while one call is in flight the next batch gathers, and goes when it returns;
//! a second call is made beside it only where enough messages wait. A message is packed straight
//! from the read buffer by [`Offers::push`], which gives back a [`Ticket`]; a connection waits for
//! a batch once, not for each message. Messages to one queue form a group, in the order of pushing;
//! a named message is a group of its own, and what is offered to its queue after it begins another,
//! so that the script keeps the order. What is pushed in one go, as by EXEC, is in one batch.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::domain::queue::{Due, NameMode};
use crate::domain::snowflake::{self, Snowflake};
use crate::metrics::Metrics;
use crate::store::clock::Clock;
use crate::store::keys::QueueKeys;
use crate::store::lane::{PAST_END, Within};
use crate::store::offers::{Configured, Group, Message, Outcome};
use crate::store::order::{Order, Place};
use crate::store::{Store, StoreError, member};

/// Bounds of a batch; from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub messages_max: usize,
    pub bytes_max: usize,
    /// How long a batch waits where the claim of the node number ran out.
    pub claim_timeout: Duration,
    /// So many messages waiting are worth a second call beside the one in flight.
    pub second_call_from: usize,
}

/// Queues kept in mind; when so many are, they are forgotten and met anew.
const KEPT_MAX: usize = 4_096;

/// A queue that is kept in mind, so that an offer looks it up once.
struct Kept {
    keys: Rc<QueueKeys>,
    configured: Configured,
    /// The group that takes more messages for it, and the number of its batch; 0 is none.
    group: usize,
    batch: u64,
}

/// A batch that gathers, is in flight or is done.
pub struct Batch {
    groups: RefCell<Vec<Group>>,
    result: OnceCell<Vec<Outcome>>,
    done: Notify,
}

/// A claim on the outcome of one offer, or of one DQ.MOFFER.
pub struct Ticket {
    batch: Rc<Batch>,
    group: usize,
    first: usize,
    count: usize,
}

/// The outcome of an offer.
pub enum Offered<'a> {
    /// The due time and id of each message.
    Stored(&'a mut dyn Iterator<Item = (u64, u64)>),
    Unmet,
    Failed(&'a StoreError),
}

impl Ticket {
    pub fn is_done(&self) -> bool {
        self.batch.result.get().is_some()
    }

    /// Waits for the batch; at once if it is done. Safe to cancel.
    pub async fn done(&self) {
        let done = self.batch.done.notified();
        if !self.is_done() {
            done.await;
        }
    }

    /// Calls `with` with the outcome, if there is one yet.
    pub fn outcome<T>(&self, with: impl FnOnce(Offered<'_>) -> T) -> Option<T> {
        let outcomes = self.batch.result.get()?;
        let groups = self.batch.groups.borrow();
        let (Some(outcome), Some(group)) = (outcomes.get(self.group), groups.get(self.group))
        else {
            let lost = "a batch has no outcome for one of its groups".to_owned();
            return Some(with(Offered::Failed(&StoreError::Internal(lost))));
        };
        Some(match outcome {
            Outcome::Unmet => with(Offered::Unmet),
            Outcome::Failed(error) => with(Offered::Failed(error)),
            Outcome::Clash => with(Offered::Failed(&StoreError::Unavailable(
                "every id that was tried is taken; is another broker using this node number?"
                    .into(),
            ))),
            Outcome::Stored { now_ms, .. } => {
                let range = self.first..self.first + self.count;
                let messages = group.messages.get(range).unwrap_or_default();
                let told = |message: &Message| (message.due.ms(*now_ms), message.id);
                with(Offered::Stored(&mut messages.iter().map(told)))
            }
        })
    }
}

struct Open {
    batch: Rc<Batch>,
    /// Counts batches, from 1.
    number: u64,
    messages: usize,
    bytes: usize,
}

/// Asked of every group before, and told of it when it is stored: metrics and the scheduler's hint.
pub trait Stored {
    /// Keeps a place for the queue among those that are served, until one of the two below.
    ///
    /// # Errors
    /// The refusal that its offers are answered with.
    fn keep_place(&self, keys: &QueueKeys) -> Result<(), StoreError>;

    /// The group was not stored, or nobody knows.
    fn give_place_back(&self, keys: &QueueKeys);

    /// `head`: the earliest due time among the group, if it is the queue's head now.
    fn stored(&self, keys: &QueueKeys, messages: u64, head: Option<u64>);
}

/// Of a connection that waits for room in the open batch: it is the first one until it drops this.
pub type FirstInLine = Option<OwnedSemaphorePermit>;

/// Where offers are pushed. One for each broker; one owner, on its thread.
pub struct Offers {
    store: Rc<Store>,
    clock: Rc<Clock>,
    ids: Rc<Snowflake>,
    limits: Limits,
    configured: RefCell<HashMap<Bytes, Configured>>,
    metrics: Metrics,
    stored: Rc<dyn Stored>,
    open: RefCell<Open>,
    kept: RefCell<HashMap<Bytes, Kept>>,
    in_flight: Cell<usize>,
    /// A task that will close the open batch is on its way.
    closing: Cell<bool>,
    lanes_busy: [Cell<bool>; 2],
    /// Refuses to store while it says why: no claimed node number.
    closed: RefCell<Option<String>>,
    opened: Notify,
    /// Redis's time, in ms, at which the claim of the node number ends.
    claimed_until_ms: Cell<u64>,
    claim_ended: Notify,
    renewing: Cell<bool>,
    order: Order,
    /// The last id that took the place of another one.
    renewed: Cell<u64>,
    room: Notify,
    /// For room in the open batch. A connection whose next large message is ready whenever there
    /// is room would else keep all others out for ever.
    line: Arc<Semaphore>,
    idle: Notify,
}

impl Offers {
    pub fn new(
        store: Rc<Store>,
        ids: Rc<Snowflake>,
        limits: Limits,
        configured: HashMap<Bytes, Configured>,
        metrics: Metrics,
        stored: Rc<dyn Stored>,
    ) -> Self {
        Self {
            clock: store.clock_of_all(),
            store,
            ids,
            limits,
            configured: RefCell::new(configured),
            metrics,
            stored,
            open: RefCell::new(Open::new(1)),
            kept: RefCell::default(),
            in_flight: Cell::new(0),
            closing: Cell::new(false),
            lanes_busy: [Cell::new(false), Cell::new(false)],
            closed: RefCell::new(Some("no node number has been claimed yet".into())),
            opened: Notify::new(),
            claimed_until_ms: Cell::new(0),
            claim_ended: Notify::new(),
            renewing: Cell::new(false),
            order: Order::default(),
            renewed: Cell::new(0),
            room: Notify::new(),
            line: Arc::new(Semaphore::new(1)),
            idle: Notify::new(),
        }
    }

    /// True if the open batch takes another message. Where it does not, wait for [`Offers::room`]:
    /// the connection stops reading, and TCP pushes back. While others wait, it takes those of the
    /// `first` in line only. There is as much room again for connections that have `few` offers in
    /// it, in line or not: the others cannot fill that.
    pub fn has_room(&self, few: bool, first: &FirstInLine) -> bool {
        let is_first = || first.is_some() || self.line.available_permits() > 0;
        if few { self.fits(2) } else { self.fits(1) && is_first() }
    }

    fn fits(&self, times: usize) -> bool {
        let open = self.open.borrow();
        open.messages < times * self.limits.messages_max
            && open.bytes < times * self.limits.bytes_max
    }

    /// Waits in line until the open batch has room again; whoever is the first already stays so.
    /// Given up, it has lost its place.
    pub async fn room(self: Rc<Self>, first: FirstInLine) -> FirstInLine {
        let first =
            if first.is_some() { first } else { self.line.clone().acquire_owned().await.ok() };
        let mut room = self.room.notified();
        while !self.fits(1) {
            room.await;
            room = self.room.notified();
        }
        first
    }

    /// Stops storing: without a claimed node number an id could clash with another broker's.
    pub fn close(&self, why: String) {
        self.closed.replace(Some(why));
    }

    /// Allows storing with the ids of a node number that is claimed until a moment of Redis's time.
    pub fn open_until(&self, claimed_until_ms: u64) {
        self.claimed_until_ms.set(claimed_until_ms);
        self.closed.replace(None);
        self.opened.notify_waiters();
    }

    /// True if the claim of the node number has ended, as far as Redis's clock is known here.
    pub fn claim_is_over(&self) -> bool {
        self.clock.now_us() / 1_000 >= self.claimed_until_ms.get()
    }

    /// Waits until the claim is made anew if it has ended, as where this process stood still for
    /// long; but not where that failed before.
    async fn claimed(&self) {
        if self.closed.borrow().is_none() && self.claim_is_over() {
            self.close("the claim of this broker's node number ran out".into());
            self.claim_ended.notify_one();
            self.renewing.set(true);
        }
        if self.renewing.get() {
            self.opened(self.limits.claim_timeout).await;
            self.renewing.set(false);
        }
    }

    /// Waits until a batch finds that the claim has ended.
    pub async fn claim_ended(&self) {
        self.claim_ended.notified().await;
    }

    /// Why nothing is stored now, if so.
    pub fn closed(&self) -> Option<String> {
        self.closed.borrow().clone()
    }

    /// Waits until storing is allowed, at most so long.
    pub async fn opened(&self, at_most: Duration) {
        let opened = self.opened.notified();
        if self.closed.borrow().is_some() {
            let _ = tokio::time::timeout(at_most, opened).await;
        }
    }

    /// Changes what offers to a queue record of it where nothing is yet.
    pub fn configure(&self, queue: Bytes, configured: Configured) {
        if let Some(kept) = self.kept.borrow_mut().get_mut(&queue) {
            kept.configured = configured;
        }
        self.configured.borrow_mut().insert(queue, configured);
    }

    /// Puts one message into the open batch.
    pub fn push(&self, queue: &[u8], due: Due, payload: &[u8]) -> Ticket {
        self.push_all(queue, std::iter::once((due, payload)))
    }

    /// Puts messages into one group of the open batch: stored together or not at all.
    pub fn push_all<'a>(
        &self,
        queue: &[u8],
        messages: impl Iterator<Item = (Due, &'a [u8])>,
    ) -> Ticket {
        let mut open = self.open.borrow_mut();
        self.with_kept(queue, |kept| {
            if kept.batch != open.number {
                (kept.group, kept.batch) = (open.new_group(kept, None), open.number);
            }
            self.fill(&mut open, kept.group, messages)
        })
    }

    /// Puts one named message into the open batch, as a group of its own.
    pub fn push_named(
        &self,
        queue: &[u8],
        due: Due,
        payload: &[u8],
        name: &[u8],
        mode: NameMode,
    ) -> Ticket {
        let mut open = self.open.borrow_mut();
        let name = (Bytes::copy_from_slice(name), mode);
        self.with_kept(queue, |kept| {
            kept.batch = 0;
            let index = open.new_group(kept, Some(name));
            self.fill(&mut open, index, std::iter::once((due, payload)))
        })
    }

    fn fill<'a>(
        &self,
        open: &mut Open,
        index: usize,
        messages: impl Iterator<Item = (Due, &'a [u8])>,
    ) -> Ticket {
        let batch = open.batch.clone();
        let now_ms = self.clock.now_us() / 1_000;
        let (mut first, mut count) = (0, 0);
        if let Some(group) = batch.groups.borrow_mut().get_mut(index) {
            first = group.messages.len();
            for (due, payload) in messages {
                let id = self.ids.next(now_ms);
                group.push(Message { due, id }, payload);
                open.messages += 1;
                open.bytes += payload.len() + member::OVERHEAD;
                count += 1;
            }
        }
        Ticket { batch, group: index, first, count }
    }

    fn with_kept<T>(&self, queue: &[u8], with: impl FnOnce(&mut Kept) -> T) -> T {
        let mut all = self.kept.borrow_mut();
        if let Some(kept) = all.get_mut(queue) {
            return with(kept);
        }
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        let keys = Rc::new(QueueKeys::new(queue));
        let name = keys.name.clone();
        with(all.entry(name).or_insert(Kept {
            keys,
            configured: self.configured.borrow().get(queue).copied().unwrap_or_default(),
            group: 0,
            batch: 0,
        }))
    }

    /// Sends what is open if a lane is free for it; called once after each read of a connection and
    /// after each answer.
    pub fn flush(self: &Rc<Self>) {
        let enough = match self.in_flight.get() {
            0 => 1,
            1 => self.limits.second_call_from,
            _ => return,
        };
        let free = self.lanes_busy.iter().position(|busy| !busy.get());
        if let (true, false, Some(lane)) =
            (self.open.borrow().messages >= enough, self.closing.get(), free)
        {
            self.closing.set(true);
            self.set_busy(lane, true);
            tokio::task::spawn_local(send(self.clone(), lane));
        }
    }

    /// Closes the open batch. Done when the sending task runs and not before, so that the
    /// connections whose reads are ready in the same turn of the runtime share the call.
    fn close_batch(&self) -> Rc<Batch> {
        let mut open = self.open.borrow_mut();
        let next = Open::new(open.number + 1);
        let open = std::mem::replace(&mut *open, next);
        self.closing.set(false);
        self.room.notify_waiters();
        self.metrics.batch(open.messages as u64);
        open.batch
    }

    fn set_busy(&self, lane: usize, busy: bool) {
        if let Some(cell) = self.lanes_busy.get(lane) {
            cell.set(busy);
        }
        self.in_flight.set(self.lanes_busy.iter().filter(|busy| busy.get()).count());
    }

    /// Waits until everything that was pushed has its outcome.
    pub async fn drained(&self) {
        loop {
            let idle = self.idle.notified();
            if self.in_flight.get() == 0 && self.open.borrow().messages == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Messages that have no outcome yet and are not in flight.
    pub fn waiting(&self) -> usize {
        self.open.borrow().messages
    }
}

impl Open {
    fn new(number: u64) -> Self {
        let batch =
            Batch { groups: RefCell::default(), result: OnceCell::new(), done: Notify::new() };
        Self { batch: Rc::new(batch), number, messages: 0, bytes: 0 }
    }

    fn new_group(&self, queue: &Kept, name: Option<(Bytes, NameMode)>) -> usize {
        let mut groups = self.batch.groups.borrow_mut();
        groups.push(Group::new(queue.keys.clone(), queue.configured, name));
        groups.len() - 1
    }
}

/// Sends one batch and tells its tickets.
async fn send(offers: Rc<Offers>, lane: usize) {
    let batch = offers.close_batch();
    let place = offers.order.place();
    offers.claimed().await;
    let closed = offers.closed();
    // Nobody pushes into a batch that is no longer open.
    let mut groups = std::mem::take(&mut *batch.groups.borrow_mut());
    let outcomes = match closed {
        Some(why) => vec![Outcome::Failed(StoreError::Unavailable(why)); groups.len()],
        None => offers.store(lane, &mut groups, &place).await,
    };
    for (group, outcome) in groups.iter_mut().zip(&outcomes) {
        // The payloads are Redis's now.
        group.forget_payloads();
        if let Outcome::Stored { now_ms, head } = outcome {
            let dues = || group.messages.iter().map(|message| message.due.ms(*now_ms));
            let head = head.then(|| dues().min());
            offers.stored.stored(&group.keys, group.messages.len() as u64, head.flatten());
        }
    }
    *batch.groups.borrow_mut() = groups;
    // Set once: a batch is sent once.
    let _ = batch.result.set(outcomes);
    batch.done.notify_waiters();
    offers.set_busy(lane, false);
    offers.flush();
    if offers.in_flight.get() == 0 {
        offers.idle.notify_waiters();
    }
}

/// How often a message whose id is taken gets another one.
const CLASHES_MAX: usize = 3;

impl Offers {
    /// Stores the groups of a batch; a message whose id is taken already gets a new id and is
    /// stored again.
    async fn store(&self, lane: usize, groups: &mut [Group], place: &Place<'_>) -> Vec<Outcome> {
        let next_id = || {
            self.renewed.set(self.ids.next(self.clock.now_us() / 1_000));
            self.renewed.get()
        };
        // The number that a message was offered with may be another broker's by now; and what was
        // offered before it may have got later ids for that.
        let is_stale = |group: &Group| {
            let (node, renewed) = (self.ids.node(), self.renewed.get());
            let mut ids = group.messages.iter().map(|message| message.id);
            ids.any(|id| snowflake::node_of(id) != node || id <= renewed)
        };
        if groups.iter().any(is_stale) {
            // Ids are given in the order of the batches: what is before has its own then.
            self.store.offers_turn(place).await;
        }
        for group in groups.iter_mut().filter(|group| is_stale(group)) {
            group.renew(next_id);
        }
        let mut within = Within { place, end_ms: self.claimed_until_ms.get() };
        let mut outcomes: Vec<Outcome> = groups
            .iter()
            .map(|group| match self.stored.keep_place(&group.keys) {
                Ok(()) => Outcome::Clash,
                Err(refusal) => Outcome::Failed(refusal),
            })
            .collect();
        let kept: Vec<bool> = outcomes.iter().map(|one| *one == Outcome::Clash).collect();
        for attempt in 0..=CLASHES_MAX {
            let left = |(place, outcome)| (outcome == &Outcome::Clash).then_some(place);
            let places: Vec<usize> = outcomes.iter().enumerate().filter_map(left).collect();
            if places.is_empty() {
                break;
            }
            if attempt > 0 {
                for &place in &places {
                    if let Some(group) = groups.get_mut(place) {
                        group.renew(next_id);
                    }
                }
            }
            let some: Vec<&Group> = places.iter().filter_map(|&place| groups.get(place)).collect();
            let mut answered = self.store.offer(lane, &some, &within).await;
            // Redis stood still, or its clock went ahead: surely not applied. Once more with the
            // claim as it is by then, if the number is the same.
            if matches!(&answered, Err(StoreError::Unavailable(why)) if why == PAST_END) {
                self.claimed().await;
                within.end_ms = self.claimed_until_ms.get();
                if self.closed().is_none() && !some.iter().any(|group| is_stale(group)) {
                    answered = self.store.offer(lane, &some, &within).await;
                }
            }
            for (nth, &place) in places.iter().enumerate() {
                // Groups that an earlier call stored are stored, whatever becomes of this one.
                let outcome = match &answered {
                    Ok(outcomes) => outcomes.get(nth).cloned(),
                    Err(error) => Some(Outcome::Failed(error.clone())),
                };
                if let (Some(slot), Some(outcome)) = (outcomes.get_mut(place), outcome) {
                    *slot = outcome;
                }
            }
        }
        for ((group, outcome), kept) in groups.iter().zip(&outcomes).zip(kept) {
            if kept && !matches!(outcome, Outcome::Stored { .. }) {
                self.stored.give_place_back(&group.keys);
            }
        }
        outcomes
    }
}
