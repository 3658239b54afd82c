//! Batches of offers: one of each node is open, and up to two are under way; of a Cluster one of
//! each slot, and one.
//!
//! A [`Ticket`] is a claim on the outcome of what was pushed into a batch, so that a connection
//! waits for a batch once and not for each message.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use crate::domain::durability::Durability;
use crate::domain::queue::Due;
use crate::store::StoreError;
use crate::store::member;
use crate::store::offer::{Group, Message, Outcome};
use crate::store::order::Order;

/// The offers of a node of a Cluster that wait or are under way.
#[derive(Default)]
pub(super) struct Load {
    pub(super) messages: Cell<usize>,
    pub(super) bytes: Cell<usize>,
}

/// A part of it, given back when dropped.
#[derive(Default)]
struct Share {
    of: Option<Rc<Load>>,
    messages: usize,
    bytes: usize,
}

impl Share {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
        if let Some(load) = &self.of {
            load.messages.set(load.messages.get() + 1);
            load.bytes.set(load.bytes.get() + bytes);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(load) = &self.of {
            load.messages.set(load.messages.get().saturating_sub(self.messages));
            load.bytes.set(load.bytes.get().saturating_sub(self.bytes));
        }
    }
}

/// A batch that gathers, is in flight or is done.
#[derive(Default)]
pub struct Batch {
    groups: RefCell<Vec<Group>>,
    result: OnceCell<Vec<Outcome>>,
    /// What some of its tickets wait for besides, and what became of each.
    awaited: RefCell<Vec<Durability>>,
    confirmed: OnceCell<Vec<(Durability, Result<(), StoreError>)>>,
    share: RefCell<Share>,
    done: Notify,
}

impl Batch {
    /// The groups of a batch that is no longer open, to be stored.
    pub(super) fn take(&self) -> Vec<Group> {
        std::mem::take(&mut *self.groups.borrow_mut())
    }

    /// The outcome of each group. Called once, since a batch is sent once.
    pub(super) fn finish(&self, groups: Vec<Group>, outcomes: Vec<Outcome>) {
        self.groups.replace(groups);
        let _ = self.result.set(outcomes);
        self.share.take();
        self.done.notify_waiters();
    }

    /// What its tickets wait for besides, of a batch that is no longer open.
    pub(super) fn awaited(&self) -> Vec<Durability> {
        self.awaited.take()
    }

    /// What became of all of that. Called once, behind `finish`.
    pub(super) fn confirm(&self, each: Vec<(Durability, Result<(), StoreError>)>) {
        let _ = self.confirmed.set(each);
        self.done.notify_waiters();
    }
}

/// A claim on the outcome of one offer, or of one DQ.MOFFER.
pub struct Ticket {
    batch: Rc<Batch>,
    group: usize,
    first: usize,
    count: usize,
    awaits: Option<Durability>,
}

/// The outcome of an offer.
pub enum Offered<'a> {
    /// The due time and id of each message.
    Stored(&'a mut dyn Iterator<Item = (u64, u64)>),
    Unmet,
    Failed(&'a StoreError),
}

impl Ticket {
    /// The same, which is done only when what it stored is so durable. Before the batch is closed:
    /// in one go with the push.
    pub fn until(self, awaits: Option<Durability>) -> Self {
        if let Some(what) = awaits {
            let mut all = self.batch.awaited.borrow_mut();
            if !all.contains(&what) {
                all.push(what);
            }
        }
        Self { awaits, ..self }
    }

    /// True if it is done later than others of its batch.
    pub fn waits_longer(&self) -> bool {
        self.awaits.is_some()
    }

    /// Of an offer that is refused at once.
    pub(super) fn refused(group: Group, why: StoreError) -> Self {
        let batch = Rc::new(Batch::default());
        batch.finish(vec![group], vec![Outcome::Failed(why)]);
        Self { batch, group: 0, first: 0, count: 0, awaits: None }
    }

    pub fn is_done(&self) -> bool {
        let batch = &self.batch;
        batch.result.get().is_some() && (self.awaits.is_none() || batch.confirmed.get().is_some())
    }

    /// Waits for the batch; at once if it is done. Safe to cancel.
    pub async fn done(&self) {
        loop {
            let done = self.batch.done.notified();
            if self.is_done() {
                return;
            }
            done.await;
        }
    }

    /// Why what was stored is not known to be as durable as was asked for, if it is not.
    fn unconfirmed(&self) -> Option<&StoreError> {
        let what = self.awaits?;
        let each = self.batch.confirmed.get()?;
        each.iter().find(|(kind, _)| *kind == what)?.1.as_ref().err()
    }

    /// Calls `with` with the outcome, if there is one yet.
    pub fn outcome<T>(&self, with: impl FnOnce(Offered<'_>) -> T) -> Option<T> {
        let outcomes = self.batch.result.get().filter(|_| self.is_done())?;
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
                if let Some(error) = self.unconfirmed() {
                    return Some(with(Offered::Failed(error)));
                }
                let range = self.first..self.first + self.count;
                let messages = group.messages.get(range).unwrap_or_default();
                let told = |message: &Message| (message.due.ms(*now_ms), message.id);
                with(Offered::Stored(&mut messages.iter().map(told)))
            }
        })
    }
}

/// The batch that takes messages.
#[derive(Default)]
pub(super) struct Open {
    batch: Rc<Batch>,
    /// Counts the batches of a node.
    pub(super) number: u64,
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Open {
    /// What is put into it from now on is a part of the load of a node, if nothing is in it yet.
    pub(super) fn count_for(&self, load: &Rc<Load>) {
        if self.messages == 0 {
            *self.batch.share.borrow_mut() = Share { of: Some(load.clone()), ..Share::default() };
        }
    }

    /// Its index in the batch.
    pub(super) fn new_group(&self, group: Group) -> usize {
        let mut groups = self.batch.groups.borrow_mut();
        groups.push(group);
        groups.len() - 1
    }

    /// Puts messages into a group, each with an id.
    pub(super) fn fill<'a>(
        &mut self,
        group: usize,
        messages: impl Iterator<Item = (Due, &'a [u8])>,
        next_id: impl Fn() -> u64,
    ) -> Ticket {
        let (mut first, mut count) = (0, 0);
        if let Some(group) = self.batch.groups.borrow_mut().get_mut(group) {
            first = group.messages.len();
            for (due, payload) in messages {
                group.push(Message { due, id: next_id() }, payload);
                self.messages += 1;
                self.bytes += payload.len() + member::OVERHEAD;
                self.batch.share.borrow_mut().add(payload.len() + member::OVERHEAD);
                count += 1;
            }
        }
        Ticket { batch: self.batch.clone(), group, first, count, awaits: None }
    }
}

/// The batches that share calls.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) open: RefCell<Open>,
    /// A task that will close the open batch is on its way.
    closing: Cell<bool>,
    lanes_busy: [Cell<bool>; 2],
    pub(super) order: Order,
    idle: Notify,
}

impl Batches {
    fn in_flight(&self) -> usize {
        self.lanes_busy.iter().filter(|busy| busy.get()).count()
    }

    /// The lane that the open batch is to be sent by, if it is worth a call now; busy from then on,
    /// and until [`Batches::sent`].
    pub(super) fn lane(&self, second_call_from: usize) -> Option<usize> {
        let enough = if self.in_flight() == 0 { 1 } else { second_call_from };
        if self.closing.get() || self.open.borrow().messages < enough {
            return None;
        }
        let (lane, busy) = self.lanes_busy.iter().enumerate().find(|(_, busy)| !busy.get())?;
        busy.set(true);
        self.closing.set(true);
        Some(lane)
    }

    /// Closes the open batch, and says how many messages are in it. Done when the sending task runs
    /// and not before, so that the connections whose reads are ready in the same turn of the
    /// runtime share the call.
    pub(super) fn close(&self) -> (Rc<Batch>, usize) {
        let number = self.open.borrow().number + 1;
        let closed = self.open.replace(Open { number, ..Open::default() });
        self.closing.set(false);
        (closed.batch, closed.messages)
    }

    /// Nothing is under way, and something waits to be.
    pub(super) fn may_be_sent(&self) -> bool {
        self.in_flight() == 0 && self.open.borrow().messages > 0
    }

    /// The lane is free again.
    pub(super) fn sent(&self, lane: usize) {
        if let Some(busy) = self.lanes_busy.get(lane) {
            busy.set(false);
        }
        self.idle.notify_waiters();
    }

    /// Waits until nothing is under way, and nothing waits to be.
    pub(super) async fn drained(&self) {
        loop {
            let idle = self.idle.notified();
            if self.in_flight() == 0 && self.open.borrow().messages == 0 {
                return;
            }
            idle.await;
        }
    }
}
