//! Which queues are served, and what is to be done for them next. Pure: no runtime and no Redis; it
//! is given the local time, and what Redis answered.
//!
//! What happens to a queue is an event of its loop ([`Schedule::on`]), whose answer arms its timer,
//! puts it into the run queue, or marks its head to be read. The [`host`](crate::scheduler::host)
//! makes the calls. Timers count local time; each queue converts its moments by the clock of the
//! node that it lives on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::domain::queue::Cut;
use crate::metrics::{Metrics, OTHER, WakeCause};
use crate::scheduler::admission::Admission;
use crate::scheduler::ownership::Ownership;
use crate::scheduler::pace::{TokenBucket, TransferSize};
use crate::scheduler::queue::ScheduledQueue;
use crate::scheduler::queue_loop::{Backoff, Event, Moment, Next, QueueLoop};
use crate::scheduler::run_queue::{RunQueue, Urgency};
use crate::scheduler::wheel::{self, Wheel};
use crate::store::StoreError;
use crate::store::clock::Clock;
use crate::store::delivery::Transferred;
use crate::store::keys::{self, QueueKeys};

/// From the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub transfers_in_flight_max: usize,
    pub transfer: TransferSize,
    pub backoff: Backoff,
    pub queues_max: usize,
}

/// Transfers a second that may be in vain: retries, looks, publications of strangers.
const IN_VAIN_PER_SECOND: u64 = 200;
/// A timer may fire this much too early: rounding took it, and it must not cost a millisecond.
const ROUNDED_US: u64 = 20;
/// Queues that gave their place away and are still to be pruned; a broker that reads the registry
/// finds more.
const EVICTED_MAX: usize = 1_000;

/// The clock of the node that a queue lives on.
pub(super) type ClockOf = Box<dyn Fn(&QueueKeys) -> Rc<Clock>>;

/// A transfer to be made.
pub(super) struct Transfer {
    pub(super) index: usize,
    pub(super) keys: Rc<QueueKeys>,
    pub(super) messages_max: u64,
    pub(super) urgency: Urgency,
}

pub struct Schedule {
    queues: Vec<Option<ScheduledQueue>>,
    free: Vec<usize>,
    /// By the suffix of the keys: `a` and `{a}` cannot both be served.
    by_suffix: BTreeMap<Bytes, usize>,
    ownership: Ownership,
    admission: Admission,
    clock_of: ClockOf,
    wheel: Wheel,
    run_queue: RunQueue,
    in_vain: TokenBucket,
    in_flight: usize,
    /// Of these, the transfers of queues that have not just become due.
    others_in_flight: usize,
    woken: Vec<usize>,
    /// Queues whose head is to be read, each once.
    marked: VecDeque<usize>,
    /// All heads are to be read: those behind this suffix, and then perhaps all again.
    marked_behind: Option<Bytes>,
    all_marked_again: bool,
    /// Suffixes whose publications cannot be heard, since they are no text.
    unheard: BTreeSet<Bytes>,
    /// Queues that were found empty: to be pruned, then they are served no more.
    empty: BTreeSet<usize>,
    /// Suffix and name of queues that were empty and gave their place away.
    evicted: BTreeMap<Bytes, Bytes>,
    /// Queues that are new: to be noted in the registry.
    begun: Vec<Bytes>,
    /// All queues are paused, as far as is known.
    paused_all: bool,
    limits: Limits,
    metrics: Metrics,
}

impl Schedule {
    pub(super) fn new(
        local_us: u64,
        limits: Limits,
        metrics: Metrics,
        ownership: Ownership,
        configured: impl Iterator<Item = Bytes>,
        clock_of: ClockOf,
    ) -> Self {
        Self {
            queues: Vec::new(),
            free: Vec::new(),
            by_suffix: BTreeMap::new(),
            ownership,
            admission: Admission::new(limits.queues_max, configured),
            clock_of,
            wheel: Wheel::new(local_us),
            run_queue: RunQueue::default(),
            in_vain: TokenBucket::new(IN_VAIN_PER_SECOND),
            in_flight: 0,
            others_in_flight: 0,
            woken: Vec::new(),
            marked: VecDeque::new(),
            marked_behind: None,
            all_marked_again: false,
            unheard: BTreeSet::new(),
            empty: BTreeSet::new(),
            evicted: BTreeMap::new(),
            begun: Vec::new(),
            paused_all: false,
            limits,
            metrics,
        }
    }

    // What happens.

    /// Looks at a queue now, or when others leave time for it, whatever it waits for; serves it
    /// from now on.
    pub fn look(&mut self, keys: &QueueKeys, urgency: Urgency, cause: WakeCause, local_us: u64) {
        self.metrics.wakeup(cause);
        if let Some(index) = self.serve(keys) {
            self.on(index, Event::Look, Some(urgency), local_us);
        }
    }

    /// The head of a queue was seen, due at `due`; serves it from now on. 0: now, whatever its
    /// score.
    pub fn hint(&mut self, keys: &QueueKeys, due: Moment, cause: WakeCause, local_us: u64) {
        self.metrics.wakeup(cause);
        if let Some(index) = self.serve(keys) {
            self.set_head(index, Some(due).filter(|due| *due > 0));
            self.on(index, Event::Hint(due), None, local_us);
        }
    }

    /// The head of a served queue was read: nothing happens if its loop waits for it already.
    pub fn head_read(
        &mut self,
        suffix: &[u8],
        head: Option<Moment>,
        cause: WakeCause,
        local_us: u64,
    ) {
        let Some(index) = self.index(suffix) else {
            return;
        };
        self.set_head(index, head);
        let is_paused = |queue: &mut ScheduledQueue| queue.state.is_paused();
        let paused = self.paused_all && self.at(index).is_some_and(is_paused);
        if !paused && self.on(index, Event::Seen(head), None, local_us) {
            self.metrics.wakeup(cause);
        }
    }

    /// A publication says when a message of the queue with this suffix is due. False: the queue is
    /// to be served, and is not yet.
    pub fn published(&mut self, suffix: &[u8], due: Moment, local_us: u64) -> bool {
        let Some(index) = self.index(suffix) else {
            return !self.ownership.is_mine(suffix);
        };
        self.metrics.wakeup(WakeCause::Publish);
        self.on(index, Event::Heard(due), None, local_us);
        true
    }

    /// Keeps a place for a queue that is about to be offered to, until [`Schedule::offered`] or
    /// [`Schedule::release`].
    ///
    /// # Errors
    /// `TooManyQueues`; `BadQueue` where the configuration gives its keys to another name;
    /// `WrongType` where it cannot be delivered.
    pub fn reserve(&mut self, keys: &QueueKeys) -> Result<(), StoreError> {
        self.admission.check_name(keys)?;
        let suffix = keys.suffix_bytes();
        if let Some(queue) = self.queue(suffix) {
            // The offer would be stored, and not delivered.
            if let Some(key) = &queue.no_quarantine {
                return Err(StoreError::WrongType { key: key.clone() });
            }
            queue.offers += 1;
            return Ok(());
        }
        if !self.admission.is_reserved(suffix) {
            self.free_place();
        }
        self.admission.reserve(keys.suffix(), self.by_suffix.len())
    }

    /// Nothing was stored, as far as is known.
    pub fn release(&mut self, keys: &QueueKeys, local_us: u64) {
        match self.queue(keys.suffix_bytes()) {
            Some(queue) => queue.offers = queue.offers.saturating_sub(1),
            None => self.admission.release(keys.suffix_bytes()),
        }
        self.serve_waiting(local_us);
    }

    /// A queue has schedules, and is served from now on; or it has none any more.
    pub fn set_crons(&mut self, keys: &QueueKeys, there: bool) {
        let known = self.index(keys.suffix_bytes());
        let index = if there { known.or_else(|| self.serve(keys)) } else { known };
        if let Some(index) = index
            && let Some(queue) = self.at(index)
        {
            queue.crons = there;
            if queue.may_end() {
                self.empty.insert(index);
            }
        }
    }

    /// Counts messages that were offered through this broker; `head`: one of them is the head now.
    pub fn offered(
        &mut self,
        keys: &QueueKeys,
        messages: u64,
        head: Option<Moment>,
        local_us: u64,
    ) {
        let known = self.index(keys.suffix_bytes());
        let Some(index) = known.or_else(|| self.serve(keys)) else {
            // Its owner hears of it by the publication.
            self.admission.release(keys.suffix_bytes());
            self.metrics.queue(&keys.name).offered(messages);
            return;
        };
        let metrics = self.metrics.clone();
        if let Some(queue) = self.at(index) {
            queue.offers = queue.offers.saturating_sub(1);
            if *queue.name() != keys.name {
                // Redis took it, so the keys are recorded as this queue's by now.
                queue.rename(keys, &metrics);
            }
            queue.metrics.offered(messages);
        }
        match head {
            Some(due) => {
                metrics.wakeup(WakeCause::Offer);
                self.set_head(index, Some(due));
                self.on(index, Event::Hint(due), None, local_us);
            }
            // Another head is before it, and this broker does not know of it.
            None if known.is_none() => _ = self.on(index, Event::Look, None, local_us),
            None => {}
        }
    }

    /// All queues are paused, or not, as was read from Redis.
    pub fn set_paused_all(&mut self, paused: bool, local_us: u64) {
        if std::mem::replace(&mut self.paused_all, paused) && !paused {
            self.resumed_all(local_us);
        }
    }

    /// The pause of all queues has ended: those that know of it, or are about to, are looked at.
    pub fn resumed_all(&mut self, local_us: u64) {
        self.paused_all = false;
        self.anew(|state| state.is_paused() || state.is_asking(), local_us);
    }

    /// Redis is back: every queue that failed is looked at.
    pub fn redis_is_back(&mut self, local_us: u64) {
        self.anew(QueueLoop::has_failed, local_us);
    }

    /// An obstacle to these queues may have ended: their heads are read.
    fn anew(&mut self, which: fn(&QueueLoop) -> bool, local_us: u64) {
        for index in self.indexes(|queue| which(&queue.state)) {
            self.on(index, Event::Anew, None, local_us);
            self.mark(index);
        }
    }

    /// The clock of a node stepped: the timers of its queues are armed again, and no others.
    pub(super) fn clock_stepped(&mut self, clock: &Rc<Clock>, local_us: u64) {
        for index in self.indexes(|queue| Rc::ptr_eq(&queue.clock, clock)) {
            self.on(index, Event::Stepped, None, local_us);
            self.mark(index);
        }
    }

    /// Queues may be on other nodes than before: those go by the clock of the new one, and are
    /// looked at.
    pub(super) fn follow(&mut self, local_us: u64) {
        let moved: Vec<(usize, Rc<Clock>)> = self
            .queues
            .iter()
            .enumerate()
            .filter_map(|(index, queue)| {
                let queue = queue.as_ref()?;
                let clock = (self.clock_of)(&queue.keys);
                (!Rc::ptr_eq(&clock, &queue.clock)).then_some((index, clock))
            })
            .collect();
        for (index, clock) in moved {
            let Some(queue) = self.at(index) else { continue };
            queue.clock = clock;
            let had_failed = queue.state.has_failed();
            if had_failed {
                self.on(index, Event::Anew, None, local_us);
            }
            self.on(index, Event::Stepped, None, local_us);
            self.mark(index);
        }
    }

    /// Wakes each queue whose moment has come; a timer that fired too early is armed again.
    pub(super) fn elapsed(&mut self, local_us: u64) {
        let mut woken = std::mem::take(&mut self.woken);
        self.wheel.advance(local_us, &mut woken);
        for index in woken.drain(..) {
            let Some(queue) = self.at(index) else {
                continue;
            };
            let redis_us = queue.clock.at(local_us);
            match queue.state.armed() {
                Some(moment) if moment.saturating_mul(1_000) > redis_us + ROUNDED_US => {
                    self.arm(index, moment, local_us, redis_us);
                }
                _ => {
                    self.metrics.wakeup(WakeCause::Timer);
                    self.on(index, Event::Elapsed, None, local_us);
                }
            }
        }
        self.woken = woken;
    }

    /// The event of a loop, and what follows from it; false if the queue is not woken, and waits
    /// for what it waited for. `urgency`: of the transfer, where one follows.
    fn on(&mut self, index: usize, event: Event, urgency: Option<Urgency>, local_us: u64) -> bool {
        let Some(queue) = self.queues.get_mut(index).and_then(Option::as_mut) else {
            return false;
        };
        let redis_us = queue.clock.at(local_us);
        let now = redis_us / 1_000;
        // Queues that waited for the same moment, or are behind with the same one, share a turn,
        // however late all of them are woken.
        let moment = match event {
            Event::Elapsed => queue.state.armed(),
            Event::Moved { next, .. } => next,
            _ => None,
        };
        let mut next = queue.state.on(event, now, self.limits.backoff);
        if next == Next::Check {
            if !self.in_vain.take(local_us) {
                self.mark(index);
                return true;
            }
            // Taken at its word. The token comes back if there is something to do.
            queue.in_vain = true;
            next = queue.state.on(Event::Hint(0), now, self.limits.backoff);
        }
        match next {
            Next::Stay | Next::Check => {
                // Somebody knows better than to doubt, and that line can take minutes.
                if queue.waits_in_doubt && queue.is_due_by(event, urgency, now) {
                    queue.waits_in_doubt = false;
                    self.run_queue.hurry(index, now);
                }
                return false;
            }
            Next::Transfer(of_loop) => {
                let urgency = urgency.unwrap_or(of_loop);
                queue.waits_in_doubt = urgency == Urgency::Doubt;
                self.wheel.disarm(index);
                self.run_queue.push(index, urgency, moment.unwrap_or(now));
            }
            Next::WaitUntil(moment) => self.arm(index, moment, local_us, redis_us),
            Next::Sleep => self.wheel.disarm(index),
            Next::End => {
                self.wheel.disarm(index);
                self.empty.insert(index);
                self.serve_waiting(local_us);
                return false;
            }
        }
        true
    }

    /// Arms the timer of a queue for a moment of its node's clock, which shows `redis_us` now.
    fn arm(&mut self, index: usize, moment: Moment, local_us: u64, redis_us: u64) {
        let wait_us = moment.saturating_mul(1_000).saturating_sub(redis_us);
        self.wheel.arm(index, local_us + wheel::approach(wait_us));
    }

    /// The local moment of the earliest timer.
    pub(super) fn next_timer(&self) -> Option<u64> {
        self.wheel.next()
    }

    // Transfers.

    /// The next transfer, if one may begin. Half of the calls are kept for queues that have just
    /// become due.
    pub(super) fn next_transfer(&mut self, local_us: u64) -> Option<Transfer> {
        let max = self.limits.transfers_in_flight_max;
        while self.in_flight < max {
            let others = self.others_may_go();
            let in_vain = others && self.in_vain.has(local_us);
            let (index, urgency) = self.run_queue.pop(others, in_vain)?;
            let is_doubt = urgency == Urgency::Doubt && self.in_vain.take(local_us);
            let Some(queue) = self.at(index) else {
                continue;
            };
            queue.in_vain |= is_doubt;
            queue.waits_in_doubt = false;
            let (keys, messages_max) = (queue.keys.clone(), queue.messages_max);
            self.in_flight += 1;
            self.others_in_flight += usize::from(urgency != Urgency::Due);
            return Some(Transfer { index, keys, messages_max, urgency });
        }
        None
    }

    fn others_may_go(&self) -> bool {
        self.others_in_flight < self.limits.transfers_in_flight_max.div_ceil(2)
    }

    /// Queues wait only until another call may be in vain: after this time.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let waits = self.run_queue.has_doubt()
            && self.in_flight < self.limits.transfers_in_flight_max
            && self.others_may_go();
        waits.then(|| Duration::from_micros(self.in_vain.refill_us()))
    }

    /// Takes in what a transfer did, `waited_us` after it was sent. The queue is still served: it
    /// does not end with a transfer under way.
    pub(super) fn answered(
        &mut self,
        transfer: &Transfer,
        result: Result<Transferred, StoreError>,
        waited_us: u64,
        local_us: u64,
    ) {
        self.in_flight -= 1;
        self.others_in_flight -= usize::from(transfer.urgency != Urgency::Due);
        let size = self.limits.transfer;
        let metrics = self.metrics.clone();
        let configured = self.admission.configured(transfer.keys.suffix_bytes()).cloned();
        let Some(queue) = self.at(transfer.index) else {
            return;
        };
        let in_vain = std::mem::take(&mut queue.in_vain);
        let had_failed = queue.state.has_failed();
        queue.no_quarantine = None;
        let event = match result {
            Ok(done) => {
                queue.set_trouble(done.trouble());
                queue.delivered(&done, waited_us, &size)
            }
            Err(StoreError::BadQueue { owner }) => {
                let keys = renamed(queue, &Bytes::from(owner), configured.is_some());
                queue.set_trouble(keys.as_ref().err().cloned());
                match keys {
                    Err(_) => Event::Failed,
                    Ok(keys) => {
                        tracing::error!(
                            queue = %Cut(&keys.name),
                            before = %Cut(queue.name()),
                            "Redis has recorded another name for the keys of a queue; messages go \
                             to the list of that name from now on"
                        );
                        queue.rename(&keys, &metrics);
                        Event::Renamed
                    }
                }
            }
            Err(error) => {
                queue.set_trouble(Some(error.to_string()));
                // The other keys are checked by the offer itself.
                if let StoreError::WrongType { key } = error
                    && key == queue.keys.quarantine.escape_ascii().to_string()
                {
                    queue.no_quarantine = Some(key);
                }
                Event::Failed
            }
        };
        if in_vain && matches!(event, Event::Moved { any, .. } if any || had_failed) {
            self.in_vain.give_back();
        }
        self.on(transfer.index, event, None, local_us);
    }

    /// How many transfers are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    // Heads to be read.

    /// All heads are to be read soon: something may have been missed.
    pub fn mark_all(&mut self) {
        match self.marked_behind {
            Some(_) => self.all_marked_again = true,
            None => self.marked_behind = Some(Bytes::new()),
        }
    }

    /// The same of the queues whose publications cannot be heard.
    pub fn mark_unheard(&mut self) {
        let unheard = std::mem::take(&mut self.unheard);
        unheard.iter().for_each(|suffix| self.mark_again(suffix));
        self.unheard = unheard;
    }

    pub fn mark_again(&mut self, suffix: &[u8]) {
        if let Some(index) = self.index(suffix) {
            self.mark(index);
        }
    }

    fn mark(&mut self, index: usize) {
        if let Some(queue) = self.at(index)
            && !std::mem::replace(&mut queue.marked, true)
        {
            self.marked.push_back(index);
        }
    }

    pub(super) fn has_marked(&self) -> bool {
        !self.marked.is_empty() || self.marked_behind.is_some()
    }

    /// Up to `count` queues whose heads are to be read now: (suffix, name). Those that were marked
    /// one by one go first, and leave half of the places where all are to be read.
    pub fn take_marked(&mut self, count: usize) -> Vec<(Bytes, Bytes)> {
        let mut page = Vec::new();
        let alone_max = if self.marked_behind.is_some() { count / 2 } else { count };
        while page.len() < alone_max
            && let Some(index) = self.marked.pop_front()
        {
            if let Some(queue) = self.at(index)
                && std::mem::take(&mut queue.marked)
            {
                page.push((queue.suffix.clone(), queue.name().clone()));
            }
        }
        if let Some(behind) = self.marked_behind.take() {
            let all = self.page(&behind, count - page.len());
            self.marked_behind = match all.last() {
                Some((suffix, _)) => Some(suffix.clone()),
                None => std::mem::take(&mut self.all_marked_again).then(Bytes::new),
            };
            page.extend(all);
        }
        page
    }

    // Which queues are served.

    /// Where the queue is served, from now on if it is not yet; nothing if it is another broker's,
    /// or has no place.
    fn serve(&mut self, keys: &QueueKeys) -> Option<usize> {
        let suffix = keys.suffix();
        if let Some(&index) = self.by_suffix.get(&suffix) {
            return Some(index);
        }
        if !self.ownership.is_mine(&suffix) {
            return None;
        }
        if !self.admission.is_reserved(&suffix) && !self.free_place() {
            self.admission.wait(keys);
            return None;
        }
        let metrics = self.metrics.queue(&keys.name);
        let mut queue = ScheduledQueue::new(keys, (self.clock_of)(keys), metrics);
        queue.offers = self.admission.served(&suffix);
        let index = self.free.pop().unwrap_or_else(|| {
            self.queues.push(None);
            self.queues.len() - 1
        });
        if let Some(slot) = self.queues.get_mut(index) {
            *slot = Some(queue);
        }
        if std::str::from_utf8(&suffix).is_err() {
            self.unheard.insert(suffix.clone());
        }
        self.evicted.remove(&suffix);
        self.by_suffix.insert(suffix, index);
        self.begun.push(keys.name.clone());
        Some(index)
    }

    /// Whether there is a place for one more queue; where there is none, one that is empty gives
    /// its place away, and is pruned later.
    fn free_place(&mut self) -> bool {
        while !self.admission.has_place(self.by_suffix.len()) {
            let Some(index) = self.empty.pop_first() else {
                return false;
            };
            if let Some(queue) = self.at(index)
                && queue.may_end()
            {
                let (suffix, name) = (queue.suffix.clone(), queue.name().clone());
                self.remove(index, &suffix);
                if self.evicted.len() < EVICTED_MAX {
                    self.evicted.insert(suffix, name);
                }
            }
        }
        true
    }

    /// Gives free places to queues that found none before.
    fn serve_waiting(&mut self, local_us: u64) {
        while self.admission.anyone_waits() && self.free_place() {
            let Some(name) = self.admission.next_waiting() else {
                return;
            };
            self.look(&QueueKeys::new(&name), Urgency::Due, WakeCause::Scan, local_us);
        }
    }

    fn remove(&mut self, index: usize, suffix: &[u8]) {
        if let Some(slot) = self.queues.get_mut(index) {
            *slot = None;
        }
        self.by_suffix.remove(suffix);
        self.unheard.remove(suffix);
        self.free.push(index);
    }

    /// Queues to be noted in the registry.
    pub fn take_begun(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.begun)
    }

    /// Queues to be pruned, suffix and name: those that were found empty since the last call and
    /// still wait for nothing, and those that gave their place away.
    pub fn take_empty(&mut self) -> Vec<(Bytes, Bytes)> {
        let mut empty: Vec<_> = std::mem::take(&mut self.evicted).into_iter().collect();
        for index in std::mem::take(&mut self.empty) {
            if let Some(queue) = self.at(index)
                && queue.state.is_idle()
                && !queue.crons
            {
                empty.push((queue.suffix.clone(), queue.name().clone()));
            }
        }
        empty
    }

    /// The queue was pruned: it is served again with the next offer, publication or scan.
    pub fn pruned(&mut self, suffix: &[u8], local_us: u64) {
        if let Some(index) = self.index(suffix)
            && let Some(queue) = self.at(index)
        {
            if queue.may_end() {
                self.remove(index, suffix);
                self.serve_waiting(local_us);
            } else {
                // It came back to life in between: noted again. What is offered may yet be refused.
                let name = queue.name().clone();
                self.begun.push(name);
                self.empty.insert(index);
            }
        }
    }

    /// Messages are pending in a queue that was to be pruned. Where it is served still, its loop
    /// was woken by what brought them.
    pub fn is_not_empty(&mut self, suffix: &[u8], name: &Bytes, local_us: u64) {
        if !self.serves(suffix) {
            self.look(&QueueKeys::new(name), Urgency::Doubt, WakeCause::Scan, local_us);
        }
    }

    /// A queue could not be pruned: it is tried again, else its place would be lost.
    pub fn prune_again(&mut self, suffix: Bytes, name: Bytes) {
        match self.index(&suffix) {
            Some(index) => _ = self.empty.insert(index),
            None if self.evicted.len() < EVICTED_MAX => _ = self.evicted.insert(suffix, name),
            None => {}
        }
    }

    /// Whether the queue is this broker's to serve, and is not served yet.
    pub fn is_missing(&self, suffix: &[u8]) -> bool {
        !self.serves(suffix) && self.ownership.is_mine(suffix)
    }

    /// The name that the configuration gives to these keys.
    pub fn configured(&self, suffix: &[u8]) -> Option<&Bytes> {
        self.admission.configured(suffix)
    }

    /// Whether the keys with this suffix are served.
    pub fn serves(&self, suffix: &[u8]) -> bool {
        self.by_suffix.contains_key(suffix)
    }

    fn index(&self, suffix: &[u8]) -> Option<usize> {
        self.by_suffix.get(suffix).copied()
    }

    /// How many queues are served.
    pub fn served(&self) -> usize {
        self.by_suffix.len()
    }

    /// Up to `count` served queues behind `behind` in the order of their suffixes: (suffix, name).
    pub fn page(&self, behind: &Bytes, count: usize) -> Vec<(Bytes, Bytes)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let range = self.by_suffix.range::<Bytes, _>((Excluded(behind), Unbounded));
        let row = |(suffix, index): (&Bytes, &usize)| {
            let queue = self.queues.get(*index)?.as_ref()?;
            Some((suffix.clone(), queue.name().clone()))
        };
        range.take(count).filter_map(row).collect()
    }

    /// When the head of a queue is due, as far as is known.
    pub fn head(&self, suffix: &[u8]) -> Option<Moment> {
        self.queues.get(self.index(suffix)?)?.as_ref()?.head
    }

    fn set_head(&mut self, index: usize, head: Option<Moment>) {
        if let Some(queue) = self.at(index) {
            queue.head = head;
        }
    }

    /// How long the head of a queue that shares its metrics with others has been due; 0 if it is
    /// not, or is paused.
    pub fn overdue_ms(&self, suffix: &[u8], head: Option<Moment>, local_us: u64) -> u64 {
        let queue = self.index(suffix).and_then(|index| self.queues.get(index)?.as_ref());
        let shares =
            |queue: &&ScheduledQueue| queue.metrics.label() == OTHER && !queue.state.is_paused();
        match (queue.filter(shares), head) {
            (Some(queue), Some(head)) if head > 0 => {
                (queue.clock.at(local_us) / 1_000).saturating_sub(head)
            }
            _ => 0,
        }
    }

    fn indexes(&self, which: impl Fn(&ScheduledQueue) -> bool) -> Vec<usize> {
        let all = self.queues.iter().enumerate();
        let is_one = |queue: &Option<ScheduledQueue>| queue.as_ref().is_some_and(&which);
        all.filter(|(_, queue)| is_one(queue)).map(|(index, _)| index).collect()
    }

    fn at(&mut self, index: usize) -> Option<&mut ScheduledQueue> {
        self.queues.get_mut(index)?.as_mut()
    }

    fn queue(&mut self, suffix: &[u8]) -> Option<&mut ScheduledQueue> {
        self.at(self.index(suffix)?)
    }
}

/// The keys under the name that Redis has recorded, which is the true one; or why it is not taken:
/// a name of the configuration stays, and so delivery stops.
fn renamed(
    queue: &ScheduledQueue,
    owner: &Bytes,
    is_configured: bool,
) -> Result<QueueKeys, String> {
    let name = Cut(owner);
    if !keys::may_own(owner, &queue.suffix) {
        return Err(format!(
            "the recorded name {name} has other keys: was something renamed by hand?"
        ));
    }
    if is_configured {
        return Err(format!("its keys belong to the queue {name}"));
    }
    Ok(QueueKeys::new(owner))
}

#[cfg(test)]
mod tests;
