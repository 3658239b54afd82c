//! The owner of the schedule on the broker's thread: tells it what happens, makes the transfers
//! that follow, and waits for its earliest timer.
//!
//! Looking at a queue costs a transfer only where a message is known to be due. Else its head is
//! marked, and read together with those of others by the
//! [`safety_scan`](crate::scheduler::safety_scan).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::metrics::{Metrics, WakeCause};
use crate::scheduler::ownership::Ownership;
use crate::scheduler::queue_loop::Moment;
use crate::scheduler::run_queue::Urgency;
use crate::scheduler::schedule::{Limits, Schedule};
use crate::scheduler::timer::Timer;
use crate::store::clock::monotonic_us;
use crate::store::keys::QueueKeys;
use crate::store::{Store, StoreError};

pub struct Host {
    store: Rc<Store>,
    metrics: Metrics,
    schedule: RefCell<Schedule>,
    transfer_bytes_max: u64,
    /// The local moment that the timer is set to.
    timer_set: Cell<Option<u64>>,
    rearm: Notify,
    idle: Notify,
    stopping: Cell<bool>,
    /// Heads are to be read.
    marked: Notify,
    /// A task will look again whether a call may be in vain.
    retry_under_way: Cell<bool>,
    others_overdue_ms: Cell<u64>,
    me: Weak<Host>,
}

impl Host {
    pub fn new(
        store: Rc<Store>,
        metrics: Metrics,
        limits: Limits,
        configured: impl Iterator<Item = Bytes>,
    ) -> Rc<Self> {
        let asked = store.clone();
        let clock_of = Box::new(move |queue: &QueueKeys| asked.clock(queue));
        let schedule = Schedule::new(
            monotonic_us(),
            limits,
            metrics.clone(),
            Ownership::ALL,
            configured,
            clock_of,
        );
        Rc::new_cyclic(|me| Self {
            store,
            metrics,
            schedule: RefCell::new(schedule),
            transfer_bytes_max: limits.transfer.bytes_max,
            timer_set: Cell::new(None),
            rearm: Notify::new(),
            idle: Notify::new(),
            stopping: Cell::new(false),
            marked: Notify::new(),
            retry_under_way: Cell::new(false),
            others_overdue_ms: Cell::new(0),
            me: me.clone(),
        })
    }

    /// Changes the schedule, and does what follows.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule, u64) -> T) -> T {
        let changed = change(&mut self.schedule.borrow_mut(), monotonic_us());
        self.start_transfers();
        let schedule = self.schedule.borrow();
        if schedule.has_marked() {
            self.marked.notify_one();
        }
        let at_us = schedule.next_timer();
        if self.timer_set.replace(at_us) != at_us {
            self.rearm.notify_one();
        }
        changed
    }

    /// Looks at a queue now, whatever it waits for; serves it from now on.
    pub fn look(&self, keys: &QueueKeys, cause: WakeCause) {
        self.metrics.wakeup(cause);
        self.change(|schedule, now| schedule.look(keys, Urgency::Due, now));
    }

    /// Looks at a queue that perhaps has nothing to do, when others leave time for it.
    pub fn look_some_time(&self, keys: &QueueKeys, cause: WakeCause) {
        self.metrics.wakeup(cause);
        self.change(|schedule, now| schedule.look(keys, Urgency::Doubt, now));
    }

    /// The head of a queue was seen, due at `due`; serves it from now on. 0: now, whatever its
    /// score.
    pub fn hint(&self, keys: &QueueKeys, due: Moment, cause: WakeCause) {
        self.metrics.wakeup(cause);
        self.change(|schedule, now| schedule.hint(keys, due, now));
    }

    /// The head of a served queue was read.
    pub fn head_read(&self, suffix: &[u8], head: Option<Moment>, cause: WakeCause) {
        self.change(|schedule, now| schedule.head_read(suffix, head, cause, now));
    }

    /// A publication says when a message of the queue with this suffix is due. False: the queue is
    /// to be served, and is not yet.
    pub fn published(&self, suffix: &[u8], due: Moment) -> bool {
        self.change(|schedule, now| schedule.published(suffix, due, now))
    }

    /// Keeps a place for a queue that is about to be offered to, until [`Host::offered`] or
    /// [`Host::release`].
    ///
    /// # Errors
    /// `TooManyQueues`; `BadQueue` where the configuration gives its keys to another name;
    /// `WrongType` where it cannot be delivered.
    pub fn reserve(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        self.schedule.borrow_mut().reserve(keys)
    }

    /// Nothing was stored, as far as is known.
    pub fn release(&self, keys: &QueueKeys) {
        self.change(|schedule, now| schedule.release(keys, now));
    }

    /// Counts messages that were offered through this broker; `head`: one of them is the head now.
    pub fn offered(&self, keys: &QueueKeys, messages: u64, head: Option<Moment>) {
        self.change(|schedule, now| schedule.offered(keys, messages, head, now));
    }

    /// All queues are paused, or not, as was read from Redis.
    pub fn set_paused_all(&self, paused: bool) {
        self.change(|schedule, now| schedule.set_paused_all(paused, now));
    }

    /// A command has ended the pause of all queues.
    pub fn resumed_all(&self) {
        self.change(Schedule::resumed_all);
    }

    /// Redis is back: what waits for a transfer goes on, and every queue that failed is looked at.
    pub fn redis_is_back(&self) {
        self.change(Schedule::redis_is_back);
    }

    /// Reads the head of every queue soon: something may have been missed.
    pub fn mark_all(&self) {
        self.change(|schedule, _| schedule.mark_all());
    }

    /// The same of the queues whose publications cannot be heard.
    pub fn mark_unheard(&self) {
        self.change(|schedule, _| schedule.mark_unheard());
    }

    /// The head of this queue could not be read.
    pub fn mark_again(&self, suffix: &[u8]) {
        self.change(|schedule, _| schedule.mark_again(suffix));
    }

    /// Waits until there are heads to read.
    pub async fn has_marked(&self) {
        self.marked.notified().await;
    }

    /// Up to `count` queues whose heads are to be read now: (suffix, name).
    pub fn take_marked(&self, count: usize) -> Vec<(Bytes, Bytes)> {
        self.change(|schedule, _| schedule.take_marked(count))
    }

    /// Queues to be noted in the registry.
    pub fn take_begun(&self) -> Vec<Bytes> {
        self.schedule.borrow_mut().take_begun()
    }

    /// Queues to be pruned: (suffix, name).
    pub fn take_empty(&self) -> Vec<(Bytes, Bytes)> {
        self.schedule.borrow_mut().take_empty()
    }

    /// The queue was pruned.
    pub fn pruned(&self, suffix: &[u8]) {
        self.change(|schedule, now| schedule.pruned(suffix, now));
    }

    /// Messages are pending in a queue that was to be pruned.
    pub fn is_not_empty(&self, suffix: &[u8], name: &Bytes) {
        self.change(|schedule, now| schedule.is_not_empty(suffix, name, now));
    }

    /// A queue could not be pruned: it is tried again.
    pub fn prune_again(&self, suffix: Bytes, name: Bytes) {
        self.schedule.borrow_mut().prune_again(suffix, name);
    }

    /// Whether the keys with this suffix are served.
    pub fn serves(&self, suffix: &[u8]) -> bool {
        self.schedule.borrow().index(suffix).is_some()
    }

    /// Whether the queue is this broker's to serve, and is not served yet.
    pub fn is_missing(&self, suffix: &[u8]) -> bool {
        self.schedule.borrow().is_missing(suffix)
    }

    /// The name that the configuration gives to these keys.
    pub fn configured(&self, suffix: &[u8]) -> Option<Bytes> {
        self.schedule.borrow().configured(suffix).cloned()
    }

    /// When the head of a queue is due, as far as is known.
    pub fn head(&self, suffix: &[u8]) -> Option<Moment> {
        self.schedule.borrow().head(suffix)
    }

    /// How many queues are served.
    pub fn len(&self) -> usize {
        self.schedule.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `count` served queues behind `behind` in the order of their key suffixes: (suffix,
    /// name).
    pub fn page(&self, behind: &Bytes, count: usize) -> Vec<(Bytes, Bytes)> {
        self.schedule.borrow().page(behind, count)
    }

    /// How long the head of a queue that shares its metrics with others has been due; 0 if it is
    /// not, or is paused.
    pub fn overdue_ms(&self, suffix: &[u8], head: Option<Moment>) -> u64 {
        self.schedule.borrow().overdue_ms(suffix, head, monotonic_us())
    }

    /// The longest of these that the last round of the safety scan saw.
    pub fn others_overdue_ms(&self) -> u64 {
        self.others_overdue_ms.get()
    }

    pub fn set_others_overdue_ms(&self, ms: u64) {
        self.others_overdue_ms.set(ms);
    }

    /// How many transfers are under way.
    pub fn transfers(&self) -> usize {
        self.schedule.borrow().in_flight()
    }

    /// Starts the transfers that may begin; none while Redis is away.
    fn start_transfers(&self) {
        if self.stopping.get() || !self.store.can_transfer() {
            return;
        }
        loop {
            let next = self.schedule.borrow_mut().next_transfer(monotonic_us());
            let (Some(transfer), Some(host)) = (next, self.me.upgrade()) else {
                break;
            };
            tokio::task::spawn_local(async move {
                let sent_us = monotonic_us();
                let (keys, messages_max) = (&transfer.keys, transfer.messages_max);
                let result = host.store.transfer(keys, messages_max, host.transfer_bytes_max);
                let result = result.await;
                host.change(|schedule, now_us| {
                    schedule.answered(&transfer, result, now_us.saturating_sub(sent_us), now_us);
                });
                if host.transfers() == 0 {
                    host.idle.notify_waiters();
                }
            });
        }
        let retry_after = self.schedule.borrow().retry_after();
        if let Some(pause) = retry_after {
            self.retry_after(pause);
        }
    }

    fn retry_after(&self, pause: Duration) {
        if let (false, Some(host)) = (self.retry_under_way.replace(true), self.me.upgrade()) {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(pause).await;
                host.retry_under_way.set(false);
                host.start_transfers();
            });
        }
    }

    /// Waits for the timer, and for steps of Redis's clock, for ever: run as a task of its own.
    ///
    /// # Errors
    /// The kernel refused a timer.
    pub async fn run(self: Rc<Self>, stepped: Rc<Notify>) -> std::io::Result<()> {
        let timer = Timer::new()?;
        loop {
            timer.set(self.timer_set.get())?;
            tokio::select! {
                biased;
                () = stepped.notified() => {
                    let clock = self.store.clock_of_all();
                    self.change(|schedule, now| schedule.clock_stepped(&clock, now));
                }
                fired = timer.fired() => {
                    fired?;
                    self.change(Schedule::elapsed);
                }
                // Set to another moment.
                () = self.rearm.notified() => {}
            }
        }
    }

    /// Starts no more transfers and waits for those in flight.
    pub async fn stop(&self) {
        self.stopping.set(true);
        loop {
            let idle = self.idle.notified();
            if self.transfers() == 0 {
                return;
            }
            idle.await;
        }
    }
}
