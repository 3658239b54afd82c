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
//! from the read buffer by [`Offers::push`], which gives back a [`Ticket`]. Messages to one queue
//! form a group, in the order of pushing; a named message is a group of its own, and what is
//! offered to its queue after it begins another, so that the script keeps the order. What is pushed
//! to a node in one go, as by EXEC, is in one batch. All this is so of each slot of a Cluster, one
//! call at a time: a slot that is away holds up no other.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::domain::envelope::Carries;
use crate::domain::queue::{Due, NameMode};
use crate::domain::snowflake::{self, Snowflake};
use crate::metrics::Metrics;
use crate::store::batch::{Load, Ticket};
use crate::store::claim::Claim;
use crate::store::clock::Clock;
use crate::store::keys::QueueKeys;
use crate::store::lane::{PAST_END, Within};
use crate::store::node::Node;
use crate::store::offer::{Configured, Group, Outcome, Part};
use crate::store::order::Place;
use crate::store::router::Router;
use crate::store::{Store, StoreError, slots};

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
    part: Rc<Part>,
    configured: Configured,
    /// The batch and the group in it that take more messages for it, such as have these.
    group: Option<(u64, usize, Carries)>,
    /// It was full: up to this batch each command has a group of its own, so that those which fit
    /// are stored.
    fills_to: u64,
}

impl Kept {
    fn new_group(&self, name: Option<(Bytes, NameMode)>, carries: Carries) -> Group {
        Group::new(self.keys.clone(), self.configured, name, carries)
    }
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
    kept: RefCell<HashMap<Bytes, Kept>>,
    pub claim: Claim,
    /// The last id that took the place of another one.
    renewed: Cell<u64>,
    room: Notify,
    /// For room in the open batches. A connection whose next large message is ready whenever there
    /// is room would else keep all others out for ever.
    line: Arc<Semaphore>,
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
            claim: Claim::new(store.clock_of_all(), limits.claim_timeout),
            clock: store.clock_of_all(),
            store,
            ids,
            limits,
            configured: RefCell::new(configured),
            metrics,
            stored,
            kept: RefCell::default(),
            renewed: Cell::new(0),
            room: Notify::new(),
            line: Arc::new(Semaphore::new(1)),
        }
    }

    /// True if every open batch takes another message. Where one does not, wait for
    /// [`Offers::room`]: the connection stops reading, and TCP pushes back. While others wait, it
    /// takes those of the `first` in line only. There is as much room again for connections that
    /// have `few` offers in it, in line or not: the others cannot fill that.
    pub fn has_room(&self, few: bool, first: &FirstInLine) -> bool {
        let is_first = || first.is_some() || self.line.available_permits() > 0;
        if few { self.fits(2) } else { self.fits(1) && is_first() }
    }

    fn fits(&self, times: usize) -> bool {
        let fits = |messages: usize, bytes: usize, times: usize| {
            messages < times * self.limits.messages_max && bytes < times * self.limits.bytes_max
        };
        match &self.store.router {
            Router::One { part, .. } => {
                let open = part.batches.open.borrow();
                fits(open.messages, open.bytes, times)
            }
            // As much as one Redis has open and under way. What is for a node that does not answer
            // is refused instead.
            Router::Cluster(cluster) => cluster.nodes().iter().all(|node| {
                let Load { messages, bytes } = &*node.load;
                is_away(node) || fits(messages.get(), bytes.get(), times + UNDER_WAY)
            }),
        }
    }

    /// Why nothing more is taken for a node of a Cluster that does not answer, or that nobody
    /// knows. Others have room.
    fn refusal(&self, kept: &Kept) -> Option<StoreError> {
        let (slot, Router::Cluster(cluster)) = (kept.part.slot?, &self.store.router) else {
            return None;
        };
        let node = cluster.owner(slot);
        let load = node.as_ref().map_or(&cluster.load, |node| &node.load);
        let is_full = load.messages.get() >= (1 + UNDER_WAY) * self.limits.messages_max
            || load.bytes.get() >= (1 + UNDER_WAY) * self.limits.bytes_max;
        if is_full && node.as_ref().is_none_or(|node| is_away(node)) {
            let place = node.map_or_else(String::new, |node| format!(" at {}", node.place));
            return Some(StoreError::Unavailable(format!(
                "slot {slot} of the Cluster{place} does not answer, and as many offers wait as may"
            )));
        }
        kept.part.batches.open.borrow().count_for(load);
        None
    }

    /// Waits in line until every open batch has room again; whoever is the first already stays so.
    /// Given up, it has lost its place.
    pub async fn room(self: Rc<Self>, first: FirstInLine) -> FirstInLine {
        let first =
            if first.is_some() { first } else { self.line.clone().acquire_owned().await.ok() };
        let mut room = self.room.notified();
        while !self.fits(1) {
            // Nobody tells of a node of a Cluster that has stopped answering.
            let _ = tokio::time::timeout(LOOK_AGAIN, room).await;
            room = self.room.notified();
        }
        first
    }

    /// Changes what offers to a queue record of it where nothing is yet.
    pub fn configure(&self, queue: Bytes, configured: Configured) {
        if let Some(kept) = self.kept.borrow_mut().get_mut(&queue) {
            kept.configured = configured;
        }
        self.configured.borrow_mut().insert(queue, configured);
    }

    /// Puts one message into the open batch; the payload as it is stored.
    pub fn push(&self, queue: &[u8], due: Due, payload: &[u8], carries: Carries) -> Ticket {
        self.push_all(queue, std::iter::once((due, payload)), carries)
    }

    /// Puts messages into one group of the open batch: stored together or not at all. Those that
    /// carry what a destination may not have are in groups of their own.
    pub fn push_all<'a>(
        &self,
        queue: &[u8],
        messages: impl Iterator<Item = (Due, &'a [u8])>,
        carries: Carries,
    ) -> Ticket {
        self.with_kept(queue, |kept| {
            if let Some(why) = self.refusal(kept) {
                return Ticket::refused(kept.new_group(None, carries), why);
            }
            self.is_ready(&kept.part);
            let mut open = kept.part.batches.open.borrow_mut();
            let index = match kept.group {
                Some((batch, index, same))
                    if batch == open.number && same == carries && kept.fills_to < batch =>
                {
                    index
                }
                _ => open.new_group(kept.new_group(None, carries)),
            };
            kept.group = Some((open.number, index, carries));
            open.fill(index, messages, self.next_id())
        })
    }

    /// Puts one named message into the open batch, as a group of its own.
    pub fn push_named(
        &self,
        queue: &[u8],
        due: Due,
        payload: &[u8],
        (name, mode): (&[u8], NameMode),
        carries: Carries,
    ) -> Ticket {
        let name = (Bytes::copy_from_slice(name), mode);
        self.with_kept(queue, |kept| {
            if let Some(why) = self.refusal(kept) {
                return Ticket::refused(kept.new_group(Some(name), carries), why);
            }
            self.is_ready(&kept.part);
            let mut open = kept.part.batches.open.borrow_mut();
            kept.group = None;
            let index = open.new_group(kept.new_group(Some(name), carries));
            open.fill(index, std::iter::once((due, payload)), self.next_id())
        })
    }

    /// Ids for messages that another call is to store, and Redis's time, in ms, before which it has
    /// to: as long as the claim of the node number lasts.
    ///
    /// # Errors
    /// `Unavailable`: nothing may be stored now.
    pub async fn ids(&self, count: usize) -> Result<(Vec<u64>, u64), StoreError> {
        self.claim.held().await;
        match self.claim.closed() {
            Some(why) => Err(StoreError::Unavailable(why)),
            None => {
                let next_id = self.next_id();
                Ok(((0..count).map(|_| next_id()).collect(), self.claim.until_ms()))
            }
        }
    }

    /// Gives ids of this moment.
    fn next_id(&self) -> impl Fn() -> u64 {
        let now_ms = self.clock.now_us() / 1_000;
        move || self.ids.next(now_ms)
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
            part: match &self.store.router {
                Router::One { part, .. } => part.clone(),
                Router::Cluster(cluster) => cluster.part(slots::slot(&keys.timeout)),
            },
            keys,
            configured: self.configured.borrow().get(queue).copied().unwrap_or_default(),
            group: None,
            fills_to: 0,
        }))
    }

    /// Sends what is open if a lane is free for it, which it says; called once after each read of a
    /// connection and after each answer.
    pub fn flush(self: &Rc<Self>) -> bool {
        let send = |part: &Rc<Part>, second_call_from| {
            let lane = part.batches.lane(second_call_from);
            if let Some(lane) = lane {
                tokio::task::spawn_local(send(self.clone(), part.clone(), lane));
            }
            lane.is_some()
        };
        match &self.store.router {
            Router::One { part, .. } => send(part, self.limits.second_call_from),
            Router::Cluster(cluster) => {
                let mut sends = false;
                for part in cluster.ready.take() {
                    part.is_ready.set(false);
                    sends |= send(&part, usize::MAX);
                }
                sends
            }
        }
    }

    /// Something is put into the open batch of a part.
    fn is_ready(&self, part: &Rc<Part>) {
        if let Router::Cluster(cluster) = &self.store.router
            && !part.is_ready.replace(true)
        {
            cluster.ready.borrow_mut().push(part.clone());
        }
    }

    /// Waits until nothing is under way to any node, and nothing waits to be.
    pub async fn drained(&self) {
        for part in self.store.router.parts() {
            part.batches.drained().await;
        }
    }

    /// Messages that have no outcome yet and are not in flight.
    pub fn waiting(&self) -> usize {
        let parts = self.store.router.parts();
        parts.iter().map(|part| part.batches.open.borrow().messages).sum()
    }
}

/// Sends one batch and tells its tickets.
async fn send(offers: Rc<Offers>, part: Rc<Part>, lane: usize) {
    let (batch, messages) = part.batches.close();
    offers.room.notify_waiters();
    offers.metrics.batch(messages as u64);
    let place = part.batches.order.place();
    offers.claim.held().await;
    let closed = offers.claim.closed();
    let awaited = batch.awaited();
    let node = if awaited.is_empty() { None } else { offers.store.router.node(part.slot) };
    let seen = node.as_ref().and_then(|node| node.syncs.seen());
    let mut groups = batch.take();
    let outcomes = match closed {
        Some(why) => vec![Outcome::Failed(StoreError::Unavailable(why)); groups.len()],
        None => offers.store_at_node(&part, lane, &mut groups, &place).await,
    };
    // The payloads are Redis's now.
    groups.iter_mut().for_each(Group::forget_payloads);
    drop(place);
    // Redis has its next call before the clients have their replies: it works meanwhile.
    part.batches.sent(lane);
    if part.batches.may_be_sent() {
        offers.is_ready(&part);
    }
    if offers.flush() {
        tokio::task::yield_now().await;
    }
    for (group, outcome) in groups.iter().zip(&outcomes) {
        if let Outcome::Failed(StoreError::QueueFull { .. }) = outcome {
            offers.with_kept(&group.keys.name, |kept| {
                let open = kept.part.batches.open.borrow().number;
                kept.fills_to = open.saturating_add(APART_FOR);
            });
        }
        if let Outcome::Stored { now_ms, head } = outcome {
            let dues = || group.messages.iter().map(|message| message.due.ms(*now_ms));
            let head = head.then(|| dues().min());
            offers.stored.stored(&group.keys, group.messages.len() as u64, head.flatten());
        }
    }
    let stored = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Stored { .. }));
    batch.finish(groups, outcomes);
    if let Some(node) = node
        && !awaited.is_empty()
    {
        let awaited = awaited.into_iter().filter(|_| stored);
        let syncs = &node.syncs;
        let each = awaited.map(|what| async move { (what, syncs.confirm(what, seen).await) });
        batch.confirm(join_all(each).await);
    }
    if part.slot.is_some() {
        // What was under way was a part of the load.
        offers.room.notify_waiters();
    }
}

/// A node of a Cluster that cannot be reached, or has not answered an offer for a while.
fn is_away(node: &Node) -> bool {
    !node.offers.is_up() || node.offering.hangs()
}

/// Batches of a node that may be under way.
const UNDER_WAY: usize = 2;
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Batches in which the commands of a queue that was full are kept apart.
const APART_FOR: u64 = 1_000;
/// How often a message whose id is taken gets another one.
const CLASHES_MAX: usize = 3;

impl Offers {
    async fn store_at_node(
        &self,
        part: &Part,
        lane: usize,
        groups: &mut [Group],
        place: &Place<'_>,
    ) -> Vec<Outcome> {
        let node = part.slot.and_then(|_| self.store.router.node(part.slot));
        let stored = self.store(part, lane, groups, place);
        match node {
            Some(node) => node.offering.of(stored).await,
            None => stored.await,
        }
    }

    /// Stores the groups of a batch; a message whose id is taken already gets a new id and is
    /// stored again.
    async fn store(
        &self,
        part: &Part,
        lane: usize,
        groups: &mut [Group],
        place: &Place<'_>,
    ) -> Vec<Outcome> {
        let next_id = || {
            self.renewed.set(self.next_id()());
            self.renewed.get()
        };
        // The number that a message was offered with may be another broker's by now; and what was
        // offered before it may have got later ids for that.
        let is_stale = |group: &Group| {
            let (number, renewed) = (self.ids.node(), self.renewed.get());
            let mut ids = group.messages.iter().map(|message| message.id);
            ids.any(|id| snowflake::node_of(id) != number || id <= renewed)
        };
        if groups.iter().any(is_stale) {
            // Ids are given in the order of the batches: what is before has its own then.
            part.turn(&self.store.router, place).await;
        }
        for group in groups.iter_mut().filter(|group| is_stale(group)) {
            group.renew(next_id);
        }
        let mut within = Within { place: Some(place), end_ms: self.claim.until_ms() };
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
            let mut answered = part.offer(&self.store.router, lane, &some, &within).await;
            // Redis stood still, or its clock went ahead: surely not applied. Once more with the
            // claim as it is by then, if the number is the same.
            if matches!(&answered, Err(StoreError::Unavailable(why)) if why == PAST_END) {
                self.claim.held().await;
                within.end_ms = self.claim.until_ms();
                if self.claim.closed().is_none() && !some.iter().any(|group| is_stale(group)) {
                    answered = part.offer(&self.store.router, lane, &some, &within).await;
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
