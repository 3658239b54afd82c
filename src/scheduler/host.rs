//! Many queue loops, one wheel, one timer: the only place that waits for due times.
//!
//! The host owns every loop (a slab of them), the wheel and the set of transfers in flight. What
//! happens to a queue is told to its loop by [`Host::tell`]; what the loop answers is done at once:
//! arm the wheel, or ask for a transfer. Transfers are bounded in number; those that find no place
//! wait in line, first come, first served. One timerfd fires for the earliest tick of the wheel:
//! 0.04 ms late in the median where the runtime's own timer is a millisecond late.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::rc::{Rc, Weak};

use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::clock::{Clock, monotonic_us};
use crate::metrics::{Metrics, OTHER, WakeCause};
use crate::scheduler::queue_loop::{Backoff, Event, Moment, Next};
use crate::scheduler::served::Served;
use crate::scheduler::wheel::Wheel;
use crate::store::delivery::Transferred;
use crate::store::keys::{self, QueueKeys};
use crate::store::{Store, StoreError};

/// From the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub transfers_in_flight_max: usize,
    pub transfer_messages_max: u64,
    pub transfer_bytes_max: u64,
    /// A transfer that takes longer than this is made smaller.
    pub transfer_us_max: u64,
    pub backoff: Backoff,
    /// Loops; what is found beyond is refused with an error in the log.
    pub queues_max: usize,
}

struct State {
    loops: Vec<Option<Served>>,
    free: Vec<usize>,
    /// By the suffix of the keys: `a` and `{a}` cannot both be served.
    by_suffix: BTreeMap<Bytes, usize>,
    wheel: Wheel,
    waiting: VecDeque<usize>,
    in_flight: usize,
    woken: Vec<usize>,
}

pub struct Host {
    store: Rc<Store>,
    clock: Rc<Clock>,
    metrics: Metrics,
    limits: Limits,
    state: RefCell<State>,
    /// Local time that the timer is set to; 0 if it is not.
    timer_set: Cell<u64>,
    rearm: Notify,
    idle: Notify,
    stopping: Cell<bool>,
    /// Loops whose queue was found empty: their queue is to be pruned, then they end.
    empty: RefCell<BTreeSet<usize>>,
    /// Queues that are new: to be noted in the registry.
    begun: RefCell<Vec<Bytes>>,
    /// Names of the configuration, which do not give way to what Redis has recorded.
    configured: HashSet<Bytes>,
    /// Whether it was said that there are too many queues.
    full: Cell<bool>,
    others_overdue_ms: Cell<u64>,
    me: Weak<Host>,
}

impl Host {
    pub fn new(
        store: Rc<Store>,
        metrics: Metrics,
        limits: Limits,
        configured: HashSet<Bytes>,
    ) -> Rc<Self> {
        let clock = store.clock.clone();
        let state = State {
            loops: Vec::new(),
            free: Vec::new(),
            by_suffix: BTreeMap::new(),
            wheel: Wheel::new(clock.now_us() / 1_000),
            waiting: VecDeque::new(),
            in_flight: 0,
            woken: Vec::new(),
        };
        Rc::new_cyclic(|me| Self {
            store,
            clock,
            metrics,
            limits,
            state: RefCell::new(state),
            timer_set: Cell::new(0),
            rearm: Notify::new(),
            idle: Notify::new(),
            stopping: Cell::new(false),
            empty: RefCell::default(),
            begun: RefCell::default(),
            configured,
            full: Cell::new(false),
            others_overdue_ms: Cell::new(0),
            me: me.clone(),
        })
    }

    /// Looks at a queue now; starts its loop if there is none.
    pub fn look(&self, keys: &QueueKeys, cause: WakeCause) {
        self.metrics.wakeup(cause);
        if let Some(index) = self.serve(keys, false) {
            self.tell(index, Event::Look);
        }
    }

    /// A hint that a queue has a message due at `due`; starts its loop if there is none.
    pub fn hint(&self, keys: &QueueKeys, due: Moment, cause: WakeCause) {
        self.metrics.wakeup(cause);
        if let Some(index) = self.serve(keys, false) {
            self.tell(index, Event::Hint(due));
        }
    }

    /// The safety scan saw this head, or none: nothing happens if the loop waits for it already.
    pub fn scanned(&self, suffix: &[u8], head: Option<Moment>) {
        let Some(index) = self.index(suffix) else {
            return;
        };
        let event = match head {
            Some(head) if head > self.now() => Event::Hint(head),
            None if self.is_idle(index) => return,
            // Overdue; or empty, and the loop waits for what was taken out.
            Some(_) | None => Event::Overdue,
        };
        if self.tell(index, event) {
            self.metrics.wakeup(WakeCause::Scan);
        }
    }

    /// How long the head of a queue that shares its metrics with others has been due; 0 if it is
    /// not, or is paused.
    pub fn overdue_ms(&self, suffix: &[u8], head: Option<Moment>) -> u64 {
        let state = self.state.borrow();
        let served = state
            .by_suffix
            .get(suffix)
            .and_then(|index| state.loops.get(*index)?.as_ref());
        let counts = served
            .is_some_and(|served| served.metrics.label() == OTHER && !served.state.is_paused());
        let head = head.filter(|head| counts && *head > 0);
        head.map_or(0, |head| self.now().saturating_sub(head))
    }

    /// The longest of these that the last round of the safety scan saw.
    pub fn others_overdue_ms(&self) -> u64 {
        self.others_overdue_ms.get()
    }

    pub fn set_others_overdue_ms(&self, ms: u64) {
        self.others_overdue_ms.set(ms);
    }

    fn is_idle(&self, index: usize) -> bool {
        let state = self.state.borrow();
        let served = state.loops.get(index).and_then(Option::as_ref);
        served.is_none_or(|served| served.state.is_idle())
    }

    /// Whether the keys with this suffix are served.
    pub fn serves(&self, suffix: &[u8]) -> bool {
        self.index(suffix).is_some()
    }

    /// A hint for the queue that has this suffix, if there is one: false if it is not known.
    pub fn hint_suffix(&self, suffix: &[u8], due: Moment, cause: WakeCause) -> bool {
        let Some(index) = self.index(suffix) else {
            return false;
        };
        self.metrics.wakeup(cause);
        self.tell(index, Event::Hint(due));
        true
    }

    /// Whether a queue is served, or may be.
    ///
    /// # Errors
    /// `TooManyQueues`.
    pub fn accepts(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        let max = self.limits.queues_max;
        if self.len() < max || self.serves(&keys.suffix()) {
            return Ok(());
        }
        Err(StoreError::TooManyQueues { max })
    }

    /// Counts what was offered through this broker, and takes the hint if it made a new head.
    pub fn offered(&self, keys: &QueueKeys, messages: u64, head: Option<Moment>) {
        let known = self.serves(&keys.suffix());
        let Some(index) = self.serve(keys, false) else {
            return;
        };
        if let Some(served) = self
            .state
            .borrow()
            .loops
            .get(index)
            .and_then(Option::as_ref)
        {
            served.metrics.offered(messages);
        }
        match head {
            Some(due) => {
                self.metrics.wakeup(WakeCause::Offer);
                self.tell(index, Event::Hint(due));
            }
            // Another head is before it, which nobody has told us of.
            None if !known => {
                self.tell(index, Event::Look);
            }
            None => {}
        }
    }

    /// Looks at every queue: after each (re)subscription, and after a step of Redis's clock.
    pub fn look_at_all(&self, cause: WakeCause) {
        let indexes: Vec<usize> = self.state.borrow().by_suffix.values().copied().collect();
        for index in indexes {
            self.metrics.wakeup(cause);
            self.tell(index, Event::Look);
        }
    }

    /// Redis is back: looks at every queue that waits because of a failure.
    pub fn look_at_failed(&self) {
        let state = self.state.borrow();
        let loops = state.loops.iter().enumerate();
        let failed = loops.filter(|(_, served)| {
            let served = served.as_ref();
            served.is_some_and(|served| served.state.has_failed())
        });
        let failed: Vec<usize> = failed.map(|(index, _)| index).collect();
        drop(state);
        for index in failed {
            self.tell(index, Event::Look);
        }
    }

    /// Redis's clock stepped: every timer is armed again, for the times of another clock.
    pub fn clock_stepped(&self) {
        self.state.borrow_mut().wheel.restart(self.now());
        self.look_at_all(WakeCause::Timer);
        self.set_timer();
    }

    /// How many transfers are under way.
    pub fn transfers(&self) -> usize {
        self.state.borrow().in_flight
    }

    /// How many queues are served.
    pub fn len(&self) -> usize {
        self.state.borrow().by_suffix.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `count` served queues behind `after` in the order of their key suffixes: (suffix,
    /// name).
    pub fn page(&self, after: &Bytes, count: usize) -> Vec<(Bytes, Bytes)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let state = self.state.borrow();
        state
            .by_suffix
            .range::<Bytes, _>((Excluded(after), Unbounded))
            .take(count)
            .filter_map(|(suffix, index)| {
                let served = state.loops.get(*index)?.as_ref()?;
                Some((suffix.clone(), served.name().clone()))
            })
            .collect()
    }

    /// Queues to be noted in the registry.
    pub fn take_begun(&self) -> Vec<Bytes> {
        self.begun.take()
    }

    /// Suffix and name of queues that were found empty since the last call and still wait for
    /// nothing.
    pub fn take_empty(&self) -> Vec<(Bytes, Bytes)> {
        let empty = self.empty.take();
        let state = self.state.borrow();
        let idle = |index: usize| {
            let served = state.loops.get(index)?.as_ref()?;
            served
                .state
                .is_idle()
                .then(|| (served.suffix.clone(), served.name().clone()))
        };
        empty.into_iter().filter_map(idle).collect()
    }

    /// Ends the loop of a queue that was pruned; it comes back with the next offer, publication or
    /// scan.
    pub fn end(&self, suffix: &[u8]) {
        let Some(index) = self.index(suffix) else {
            return;
        };
        let mut state = self.state.borrow_mut();
        let slot = state.loops.get_mut(index);
        let Some(ended) = slot.and_then(|slot| slot.take_if(|served| served.state.is_idle()))
        else {
            // It came back to life in between: noted again.
            let back = state
                .loops
                .get(index)
                .and_then(Option::as_ref)
                .map(|served| served.name().clone());
            self.begun.borrow_mut().extend(back);
            return;
        };
        state.by_suffix.remove(&ended.suffix);
        self.full.set(false);
        state.free.push(index);
    }

    /// The queue's loop; made if there is none. `rename`: where the keys are served under another
    /// name, this one takes its place.
    fn serve(&self, keys: &QueueKeys, rename: bool) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let (queue, suffix) = (&keys.destination, keys.suffix());
        if let Some(&index) = state.by_suffix.get(&suffix) {
            if rename && let Some(served) = state.loops.get_mut(index).and_then(Option::as_mut) {
                served.keys = Rc::new(keys.clone());
                served.metrics = self.metrics.queue(queue);
            }
            return Some(index);
        }
        if state.by_suffix.len() >= self.limits.queues_max {
            if !self.full.replace(true) {
                let (queue, max) = (queue.escape_ascii(), self.limits.queues_max);
                tracing::error!(%queue, max, "limits.queues_max is reached: no more are served");
            }
            return None;
        }
        let served = Served::new(keys, self.metrics.queue(queue));
        let index = match state.free.pop() {
            Some(index) => index,
            None => {
                state.loops.push(None);
                state.loops.len() - 1
            }
        };
        if let Some(slot) = state.loops.get_mut(index) {
            *slot = Some(served);
        }
        state.by_suffix.insert(suffix, index);
        self.begun.borrow_mut().push(queue.clone());
        Some(index)
    }

    /// Tells a loop what happened and does what it answers; false if that was nothing.
    fn tell(&self, index: usize, event: Event) -> bool {
        let now = self.now();
        let mut state = self.state.borrow_mut();
        let Some(served) = state.loops.get_mut(index).and_then(Option::as_mut) else {
            return false;
        };
        match served.state.on(event, now, self.limits.backoff) {
            Next::Stay => return false,
            Next::Transfer => {
                state.wheel.disarm(index);
                state.waiting.push_back(index);
                drop(state);
                self.pump();
                return true;
            }
            Next::WaitUntil(moment) => state.wheel.arm(index, moment),
            Next::Sleep => state.wheel.disarm(index),
            Next::End => {
                state.wheel.disarm(index);
                self.empty.borrow_mut().insert(index);
            }
        }
        drop(state);
        self.set_timer();
        true
    }

    /// Starts transfers while there is a place for one and a queue in line.
    fn pump(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            if self.stopping.get() || state.in_flight >= self.limits.transfers_in_flight_max {
                return;
            }
            let Some(index) = state.waiting.pop_front() else {
                return;
            };
            let Some(served) = state.loops.get(index).and_then(Option::as_ref) else {
                continue;
            };
            let (keys, messages) = (served.keys.clone(), served.messages_max);
            state.in_flight += 1;
            drop(state);
            let Some(host) = self.me.upgrade() else {
                return;
            };
            tokio::task::spawn_local(async move {
                let sent = monotonic_us();
                let bytes = host.limits.transfer_bytes_max;
                let result = host.store.transfer(&keys, messages, bytes).await;
                host.answered(index, result, monotonic_us().saturating_sub(sent));
            });
        }
    }

    /// Takes in what a transfer did. The loop is still there: it does not end with a transfer under
    /// way.
    fn answered(&self, index: usize, result: Result<Transferred, StoreError>, waited_us: u64) {
        let mut rename = None;
        let event = {
            let mut state = self.state.borrow_mut();
            state.in_flight -= 1;
            let Some(served) = state.loops.get_mut(index).and_then(Option::as_mut) else {
                return;
            };
            match result {
                Ok(done) => {
                    served.troubled(done.trouble());
                    served.delivered(&done, waited_us, &self.limits)
                }
                Err(error) => {
                    if let StoreError::BadQueue { owner } = &error {
                        rename = Some(Bytes::copy_from_slice(owner));
                    }
                    served.troubled(Some(error.to_string()));
                    Event::Failed
                }
            }
        };
        match rename {
            // The recorded name is the true one, unless both were claimed here: then delivery
            // stops.
            Some(owner) if self.may_rename(index) => {
                self.serve(&QueueKeys::new(&owner), true);
                self.tell(index, Event::Failed);
                self.tell(index, Event::Look);
            }
            _ => {
                self.tell(index, event);
            }
        }
        self.pump();
        if self.state.borrow().in_flight == 0 {
            self.idle.notify_waiters();
        }
    }

    /// A guessed name gives way to the recorded one; a configured name does not.
    fn may_rename(&self, index: usize) -> bool {
        let state = self.state.borrow();
        let served = state.loops.get(index).and_then(Option::as_ref);
        served.is_some_and(|served| {
            let guessed = keys::guess(&served.suffix) == &served.name()[..];
            guessed && !self.configured.contains(served.name())
        })
    }

    fn index(&self, suffix: &[u8]) -> Option<usize> {
        self.state.borrow().by_suffix.get(suffix).copied()
    }

    fn now(&self) -> Moment {
        self.clock.now_us() / 1_000
    }

    /// Sets the timer to the earliest tick, if it is not set to it already.
    fn set_timer(&self) {
        let next = self.state.borrow().wheel.next();
        let at = next.map_or(0, |tick| self.clock.local_us(tick * 1_000).max(1));
        if self.timer_set.get() != at {
            self.timer_set.set(at);
            self.rearm.notify_one();
        }
    }

    /// Waits for the timer for ever: run as a task of its own.
    ///
    /// # Errors
    /// The kernel refused a timer.
    pub async fn run(self: Rc<Self>, stepped: Rc<Notify>) -> std::io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Deprecated for types that could hand out another descriptor later; an OwnedFd cannot, and
        // the replacement is an unsafe call.
        #[allow(deprecated)]
        let timer = AsyncFd::new(timer)?;
        loop {
            arm(&timer, self.timer_set.get())?;
            tokio::select! {
                biased;
                () = stepped.notified() => self.clock_stepped(),
                ready = timer.readable() => {
                    let mut ready = ready?;
                    let mut count = [0_u8; 8];
                    let _ = rustix::io::read(timer.get_ref(), &mut count);
                    ready.clear_ready();
                    self.elapsed();
                }
                // Set to another moment.
                () = self.rearm.notified() => {}
            }
        }
    }

    /// Tells every loop whose moment has come.
    fn elapsed(&self) {
        // The timer is set in local time; a microsecond that rounding took must not cost a
        // millisecond.
        let now = (self.clock.now_us() + 20) / 1_000;
        let mut woken = std::mem::take(&mut self.state.borrow_mut().woken);
        self.state.borrow_mut().wheel.advance(now, &mut woken);
        for &index in &woken {
            self.metrics.wakeup(WakeCause::Timer);
            self.tell(index, Event::Elapsed);
        }
        woken.clear();
        self.state.borrow_mut().woken = woken;
        // The same tick again would find the timer unset.
        self.timer_set.set(0);
        self.set_timer();
    }

    /// Starts no more transfers and waits for those in flight.
    pub async fn stop(&self) {
        self.stopping.set(true);
        loop {
            let idle = self.idle.notified();
            if self.state.borrow().in_flight == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// Sets the timer to a local moment in microseconds; 0 unsets it.
fn arm(timer: &AsyncFd<OwnedFd>, at_us: u64) -> std::io::Result<()> {
    let value = Timespec {
        tv_sec: (at_us / 1_000_000) as i64,
        tv_nsec: (at_us % 1_000_000 * 1_000) as _,
    };
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: value,
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}
