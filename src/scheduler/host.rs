//! The owner of the schedule on the broker's thread. Whoever knows something tells it by
//! [`Host::change`]; the host makes the transfers that follow, and waits for the earliest timer.
//!
//! Looking at a queue costs a transfer only where a message is known to be due. Else its head is
//! marked, and read together with those of others by the
//! [`safety_scan`](crate::scheduler::safety_scan).

use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::scheduler::ownership::Ownership;
use crate::scheduler::schedule::{Limits, Schedule};
use crate::scheduler::takers::Takers;
use crate::scheduler::timer::Timer;
use crate::store::Store;
use crate::store::clock::monotonic_us;
use crate::store::keys::QueueKeys;

pub struct Host {
    store: Rc<Store>,
    /// Whoever waits for what transfers move.
    pub takers: Rc<Takers>,
    schedule: RefCell<Schedule>,
    transfer_bytes_max: u64,
    /// The local moment that the timer is set to.
    timer_set: Cell<Option<u64>>,
    rearm: Notify,
    idle: Notify,
    stopping: Cell<bool>,
    /// Heads are to be read.
    pub marked: Notify,
    /// A task will look again whether a call may be in vain.
    retry_under_way: Cell<bool>,
    /// How long the most overdue head of the queues that share their metrics has been due, as the
    /// last round of the safety scan saw.
    pub others_overdue_ms: Cell<u64>,
    me: Weak<Host>,
}

impl Host {
    pub fn new(
        store: Rc<Store>,
        takers: Rc<Takers>,
        metrics: Metrics,
        limits: Limits,
        configured: impl Iterator<Item = Bytes>,
    ) -> Rc<Self> {
        let asked = store.clone();
        let clock_of = Box::new(move |queue: &QueueKeys| asked.clock(queue));
        let schedule =
            Schedule::new(monotonic_us(), limits, metrics, Ownership::ALL, configured, clock_of);
        Rc::new_cyclic(|me| Self {
            store,
            takers,
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

    /// Changes the schedule at the local time that it is given, and does what follows.
    pub fn change<T>(&self, change: impl FnOnce(&mut Schedule, u64) -> T) -> T {
        let changed = change(&mut self.schedule.borrow_mut(), monotonic_us());
        self.start_transfers();
        let schedule = self.schedule();
        if schedule.has_marked() {
            self.marked.notify_one();
        }
        let at_us = schedule.next_timer();
        if self.timer_set.replace(at_us) != at_us {
            self.rearm.notify_one();
        }
        changed
    }

    /// The schedule, to be read. Nothing may change it meanwhile.
    pub fn schedule(&self) -> Ref<'_, Schedule> {
        self.schedule.borrow()
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
            let name = transfer.keys.name.clone();
            let takers = host.takers.clone();
            tokio::task::spawn_local(async move {
                let sent_us = monotonic_us();
                let (keys, messages_max) = (&transfer.keys, transfer.messages_max);
                let result = host.store.transfer(keys, messages_max, host.transfer_bytes_max);
                let result = result.await;
                // Another broker may have moved what was due.
                if result.is_ok() {
                    host.takers.look(&keys.name);
                }
                host.change(|schedule, now_us| {
                    schedule.answered(&transfer, result, now_us.saturating_sub(sent_us), now_us);
                });
                if host.schedule().in_flight() == 0 {
                    host.idle.notify_waiters();
                }
            });
            // Takers ask at once, right behind the transfer: a call that Redis comes to before it
            // finds nothing, and they ask again when the transfer is answered.
            takers.look(&name);
        }
        let retry_after = self.schedule().retry_after();
        if let Some(pause) = retry_after
            && !self.retry_under_way.replace(true)
            && let Some(host) = self.me.upgrade()
        {
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
                    for clock in self.store.clocks() {
                        self.change(|schedule, now| schedule.clock_stepped(&clock, now));
                    }
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
            if self.schedule().in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }
}
