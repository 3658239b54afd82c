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
//! so that the script keeps the order.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::queue::{Due, NameMode};
use crate::snowflake::Snowflake;
use crate::store::keys::QueueKeys;
use crate::store::offers::{Configured, Group, Outcome};
use crate::store::{Store, StoreError, member};

/// Bounds of a batch; from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub messages_max: usize,
    pub bytes_max: usize,
    /// So many messages waiting are worth a second call beside the one in flight.
    pub second_call_from: usize,
}

/// Queue keys kept built; when so many are, they are dropped and built again.
const KEYS_KEPT_MAX: usize = 4_096;

/// A batch that gathers, is in flight or is done.
pub struct Batch {
    groups: RefCell<Vec<Group>>,
    ids: RefCell<Vec<Vec<u64>>>,
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

/// What a ticket came to.
pub enum Told<'a> {
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
    pub fn outcome<T>(&self, with: impl FnOnce(Told<'_>) -> T) -> Option<T> {
        let outcomes = self.batch.result.get()?;
        let groups = self.batch.groups.borrow();
        let ids = self.batch.ids.borrow();
        let (Some(outcome), Some(group), Some(ids)) = (
            outcomes.get(self.group),
            groups.get(self.group),
            ids.get(self.group),
        ) else {
            let lost = "a batch has no outcome for one of its groups".to_owned();
            return Some(with(Told::Failed(&StoreError::Internal(lost))));
        };
        Some(match outcome {
            Outcome::Unmet => with(Told::Unmet),
            Outcome::Failed(error) => with(Told::Failed(error)),
            Outcome::Clash => with(Told::Failed(&StoreError::Unavailable(
                "every id that was tried is taken; is another broker using this node number?"
                    .into(),
            ))),
            Outcome::Stored { now_ms, .. } => {
                let range = self.first..self.first + self.count;
                let dues = group.dues.get(range.clone()).unwrap_or_default();
                let ids = ids.get(range).unwrap_or_default();
                let mut stored = dues.iter().zip(ids).map(|(due, id)| (due.ms(*now_ms), *id));
                with(Told::Stored(&mut stored))
            }
        })
    }
}

struct Open {
    batch: Rc<Batch>,
    /// The group that takes more messages for a queue.
    by_queue: HashMap<Bytes, usize>,
    messages: usize,
    bytes: usize,
}

/// Asked of every group before, and told of it when it is stored: metrics and the scheduler's hint.
pub trait Stored {
    /// Whether another queue may be offered to.
    ///
    /// # Errors
    /// The refusal that its offers are answered with.
    fn accepts(&self, keys: &QueueKeys) -> Result<(), StoreError>;

    /// `head`: the earliest due time among the group, if it is the queue's head now.
    fn stored(&self, keys: &QueueKeys, messages: u64, head: Option<u64>);
}

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
    keys: RefCell<HashMap<Bytes, Rc<QueueKeys>>>,
    in_flight: Cell<usize>,
    /// A task that will close the open batch is on its way.
    closing: Cell<bool>,
    lanes_busy: [Cell<bool>; 2],
    /// Refuses to store while it says why: no claimed node number.
    closed: RefCell<Option<String>>,
    opened: Notify,
    room: Notify,
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
            clock: store.clock.clone(),
            store,
            ids,
            limits,
            configured: RefCell::new(configured),
            metrics,
            stored,
            open: RefCell::new(Open::new()),
            keys: RefCell::default(),
            in_flight: Cell::new(0),
            closing: Cell::new(false),
            lanes_busy: [Cell::new(false), Cell::new(false)],
            closed: RefCell::new(Some("no node number has been claimed yet".into())),
            opened: Notify::new(),
            room: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Whether the open batch takes another message. Where it does not, wait for [`Offers::room`]:
    /// the connection stops reading, and TCP pushes back. There is as much room again for
    /// connections that have `few` offers in it: the others cannot fill that.
    pub fn has_room(&self, few: bool) -> bool {
        let (open, times) = (self.open.borrow(), if few { 2 } else { 1 });
        open.messages < times * self.limits.messages_max
            && open.bytes < times * self.limits.bytes_max
    }

    /// Waits until a batch was sent. Safe to cancel.
    pub async fn room(&self) {
        let room = self.room.notified();
        if !self.has_room(false) {
            room.await;
        }
    }

    /// Stops or allows storing: without a claimed node number an id could clash with another
    /// broker's.
    pub fn set_closed(&self, why: Option<String>) {
        if why.is_none() {
            self.opened.notify_waiters();
        }
        self.closed.replace(why);
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
        let index = match open.by_queue.get(queue) {
            Some(&index) => index,
            None => {
                let index = self.new_group(&mut open, queue, None);
                open.by_queue.insert(Bytes::copy_from_slice(queue), index);
                index
            }
        };
        self.fill(&mut open, index, messages)
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
        open.by_queue.remove(queue);
        let name = (Bytes::copy_from_slice(name), mode);
        let index = self.new_group(&mut open, queue, Some(name));
        self.fill(&mut open, index, std::iter::once((due, payload)))
    }

    fn new_group(&self, open: &mut Open, queue: &[u8], name: Option<(Bytes, NameMode)>) -> usize {
        let keys = self.keys_of(queue);
        let queue = keys.destination.clone();
        let configured = self.configured.borrow().get(&queue).copied();
        let (dues, members, ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups = open.batch.groups.borrow_mut();
        groups.push(Group {
            queue,
            keys,
            configured,
            dues,
            members,
            ends,
            name,
        });
        open.batch.ids.borrow_mut().push(Vec::new());
        groups.len() - 1
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
        if let (Some(group), Some(ids)) = (
            batch.groups.borrow_mut().get_mut(index),
            batch.ids.borrow_mut().get_mut(index),
        ) {
            first = group.dues.len();
            for (due, payload) in messages {
                let id = self.ids.next(now_ms);
                member::pack(&mut group.members, id, payload);
                group.ends.push(group.members.len());
                group.dues.push(due);
                ids.push(id);
                open.messages += 1;
                open.bytes += payload.len() + member::OVERHEAD;
                count += 1;
            }
        }
        Ticket {
            batch,
            group: index,
            first,
            count,
        }
    }

    fn keys_of(&self, queue: &[u8]) -> Rc<QueueKeys> {
        let mut kept = self.keys.borrow_mut();
        if let Some(keys) = kept.get(queue) {
            return keys.clone();
        }
        if kept.len() >= KEYS_KEPT_MAX {
            kept.clear();
        }
        let keys = Rc::new(QueueKeys::new(queue));
        kept.insert(keys.destination.clone(), keys.clone());
        keys
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
        if let (true, false, Some(lane)) = (
            self.open.borrow().messages >= enough,
            self.closing.get(),
            free,
        ) {
            self.closing.set(true);
            self.set_busy(lane, true);
            tokio::task::spawn_local(send(self.clone(), lane));
        }
    }

    /// Closes the open batch. Done when the sending task runs and not before, so that the
    /// connections whose reads are ready in the same turn of the runtime share the call.
    fn close(&self) -> Rc<Batch> {
        let open = std::mem::replace(&mut *self.open.borrow_mut(), Open::new());
        self.closing.set(false);
        self.room.notify_waiters();
        self.metrics.batch(open.messages as u64);
        open.batch
    }

    fn set_busy(&self, lane: usize, busy: bool) {
        if let Some(cell) = self.lanes_busy.get(lane) {
            cell.set(busy);
        }
        self.in_flight
            .set(self.lanes_busy.iter().filter(|busy| busy.get()).count());
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
    fn new() -> Self {
        let batch = Batch {
            groups: RefCell::default(),
            ids: RefCell::default(),
            result: OnceCell::new(),
            done: Notify::new(),
        };
        Self {
            batch: Rc::new(batch),
            by_queue: HashMap::new(),
            messages: 0,
            bytes: 0,
        }
    }
}

/// Sends one batch and tells its tickets.
async fn send(offers: Rc<Offers>, lane: usize) {
    let batch = offers.close();
    let closed = offers.closed.borrow().clone();
    // Nobody pushes into a batch that is no longer open.
    let mut groups = std::mem::take(&mut *batch.groups.borrow_mut());
    let mut ids = std::mem::take(&mut *batch.ids.borrow_mut());
    let outcomes = match closed {
        Some(why) => vec![Outcome::Failed(StoreError::Unavailable(why)); groups.len()],
        None => offers.store(lane, &mut groups, &mut ids).await,
    };
    for (group, outcome) in groups.iter_mut().zip(&outcomes) {
        // The payloads are Redis's now.
        group.members = Vec::new();
        if let Outcome::Stored { now_ms, head } = outcome {
            let head = head.then(|| group.dues.iter().map(|due| due.ms(*now_ms)).min());
            offers
                .stored
                .stored(&group.keys, group.dues.len() as u64, head.flatten());
        }
    }
    *batch.groups.borrow_mut() = groups;
    *batch.ids.borrow_mut() = ids;
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
    async fn store(&self, lane: usize, groups: &mut [Group], ids: &mut [Vec<u64>]) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = groups
            .iter()
            .map(|group| match self.stored.accepts(&group.keys) {
                Ok(()) => Outcome::Clash,
                Err(refusal) => Outcome::Failed(refusal),
            })
            .collect();
        for attempt in 0..=CLASHES_MAX {
            let left = |(place, outcome)| (outcome == &Outcome::Clash).then_some(place);
            let places: Vec<usize> = outcomes.iter().enumerate().filter_map(left).collect();
            if places.is_empty() {
                break;
            }
            if attempt > 0 {
                self.renew(&places, groups, ids);
            }
            let some: Vec<&Group> = places
                .iter()
                .filter_map(|&place| groups.get(place))
                .collect();
            let answered = self.store.offer(lane, &some).await;
            for (nth, &place) in places.iter().enumerate() {
                // What an earlier call stored is stored, whatever becomes of this one.
                let outcome = match &answered {
                    Ok(outcomes) => outcomes.get(nth).cloned(),
                    Err(error) => Some(Outcome::Failed(error.clone())),
                };
                if let (Some(slot), Some(outcome)) = (outcomes.get_mut(place), outcome) {
                    *slot = outcome;
                }
            }
        }
        outcomes
    }

    /// Gives the single messages of these groups new ids.
    fn renew(&self, places: &[usize], groups: &mut [Group], ids: &mut [Vec<u64>]) {
        for &place in places {
            if let (Some(group), Some(ids)) = (groups.get_mut(place), ids.get_mut(place)) {
                let id = self.ids.next(self.clock.now_us() / 1_000);
                *ids = vec![id];
                let header = member::OVERHEAD.min(group.members.len());
                let payload = group.members.split_off(header);
                group.members.clear();
                member::pack(&mut group.members, id, &payload);
            }
        }
    }
}
