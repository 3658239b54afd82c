//! One queue that is served: its keys and loop, its metrics, the size of its next transfer. The
//! answer of a transfer becomes an event of the loop here.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::queue::{Cut, SCORE_END, Score};
use crate::metrics::{Metrics, QueueMetrics};
use crate::scheduler::pace::{TRANSFER_MESSAGES_FIRST, TransferSize, next_size};
use crate::scheduler::queue_loop::{Event, Moment, QueueLoop};
use crate::scheduler::run_queue::Urgency;
use crate::store::clock::Clock;
use crate::store::delivery::Transferred;
use crate::store::keys::QueueKeys;

/// One queue that the broker serves.
pub(super) struct ScheduledQueue {
    pub(super) suffix: Bytes,
    pub(super) keys: Rc<QueueKeys>,
    pub(super) state: QueueLoop,
    pub(super) metrics: Arc<QueueMetrics>,
    /// Of the node that it lives on.
    pub(super) clock: Rc<Clock>,
    /// When the head is due, as an answer of Redis last said.
    pub(super) head: Option<Moment>,
    /// How many messages the next transfer may move.
    pub(super) messages_max: u64,
    /// Why the queue cannot be delivered, as logged: one line at each change.
    pub(super) trouble: Option<String>,
    /// The key of the quarantine, where it holds another type and a member has to go there.
    pub(super) no_quarantine: Option<String>,
    /// Batches under way that offer to it.
    pub(super) offers: usize,
    /// It has schedules, so it is served as long as they are there.
    pub(super) crons: bool,
    /// Its head is to be read.
    pub(super) marked: bool,
    /// It stands in line with those that perhaps have nothing to do.
    pub(super) waits_in_doubt: bool,
    /// The transfer under way was counted as one that may be in vain.
    pub(super) in_vain: bool,
}

impl ScheduledQueue {
    pub(super) fn new(keys: &QueueKeys, clock: Rc<Clock>, metrics: Arc<QueueMetrics>) -> Self {
        Self {
            suffix: keys.suffix(),
            keys: Rc::new(keys.clone()),
            state: QueueLoop::default(),
            metrics,
            clock,
            head: None,
            messages_max: TRANSFER_MESSAGES_FIRST,
            trouble: None,
            no_quarantine: None,
            offers: 0,
            crons: false,
            marked: false,
            waits_in_doubt: false,
            in_vain: false,
        }
    }

    /// Its keys belong to another name.
    pub(super) fn rename(&mut self, keys: &QueueKeys, metrics: &Metrics) {
        self.keys = Rc::new(keys.clone());
        self.metrics = metrics.queue(&keys.name);
    }

    pub(super) fn name(&self) -> &Bytes {
        &self.keys.name
    }

    /// Whether it may be dropped, if it is empty.
    pub(super) fn may_end(&self) -> bool {
        self.state.is_idle() && self.offers == 0 && !self.crons
    }

    /// Whether an event says that there is something to do for it, where it stands in line already.
    pub(super) fn is_due_by(&self, event: Event, urgency: Option<Urgency>, now: Moment) -> bool {
        let may_deliver = !self.state.is_paused() && !self.state.has_failed();
        match event {
            Event::Look => urgency == Some(Urgency::Due),
            Event::Hint(_) => may_deliver,
            Event::Seen(Some(head)) => may_deliver && head <= now,
            _ => false,
        }
    }

    /// Counts the messages that a transfer delivered, sizes the next one, and makes the event of
    /// it.
    /// `waited_us`: from sending the call to its answer.
    pub(super) fn delivered(
        &mut self,
        done: &Transferred,
        waited_us: u64,
        bounds: &TransferSize,
    ) -> Event {
        self.head = done.next.map(Score::moment);
        let mut count = 0;
        for &(score, messages) in &done.moved {
            let since_ms = score.ms().max(done.pause_ended_ms as f64);
            let late = (done.now_us as f64 / 1e6 - since_ms / 1e3).max(0.0);
            // A foreign score before any time is delivered at once; it has no lateness.
            self.metrics.lateness(if score.ms() < 0.0 { 0.0 } else { late }, messages);
            count += messages;
        }
        if count > 0 {
            self.metrics.delivered(count);
        }
        if done.expired > 0 {
            self.metrics.expired(done.expired);
        }
        if done.quarantined > 0 {
            self.metrics.quarantined(done.quarantined);
            tracing::warn!(
                queue = %Cut(self.name()),
                members = done.quarantined,
                "members that could not be read were put into quarantine: DQ.QUARANTINE shows them"
            );
        }
        // The time waited includes the way to Redis and back, and the work of others.
        let took_us = done.took_us.unwrap_or_else(|| done.work_us().min(waited_us));
        let size = self.messages_max;
        self.messages_max = next_size(size, took_us, done, bounds);
        done.event(took_us, size, bounds)
    }

    /// Logs a new reason why the queue cannot be delivered, and the end of one.
    pub(super) fn set_trouble(&mut self, trouble: Option<String>) {
        if self.trouble == trouble {
            return;
        }
        let queue = Cut(self.name());
        match &trouble {
            Some(trouble) => tracing::warn!(%queue, trouble, "delivery of this queue waits"),
            None => tracing::info!(%queue, "delivery of this queue goes on"),
        }
        self.trouble = trouble;
    }
}

impl Transferred {
    /// No timer can wait for a head with such a score; it stays pending.
    pub(super) fn trouble(&self) -> Option<String> {
        let never = self.next.filter(|next| next.moment() >= SCORE_END);
        never.map(|next| format!("the head's score {next} is not a valid time"))
    }

    /// The event of the loop; the transfer took `took_us`, and might move `size` messages.
    fn event(&self, took_us: u64, size: u64, bounds: &TransferSize) -> Event {
        match self.paused_until {
            Some(until) => Event::Paused { until: u64::try_from(until).ok() },
            None => {
                let any = self.again || self.count() > 0;
                Event::Moved {
                    any,
                    next: self.next.map(Score::moment),
                    rest: self.rest_ms(took_us, size, bounds),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TransferSize =
        TransferSize { messages_max: 512, bytes_max: 1, took_us_max: 2_000 };

    /// Neither the work of Redis's other clients nor a long way to Redis makes a transfer smaller:
    /// where Redis does not say how long the script ran, the work is estimated from what it did.
    #[test]
    fn its_own_time_counts() {
        let metrics = crate::metrics::Metrics::new(1).queue(&Bytes::from_static(b"q"));
        for (took_us, passed, next) in
            [(Some(100), 0, 512), (Some(5_000), 0, 256), (None, 0, 512), (None, 400_000, 256)]
        {
            let mut served =
                ScheduledQueue::new(&QueueKeys::new(b"q"), Rc::default(), metrics.clone());
            served.messages_max = 512;
            let done = Transferred {
                moved: vec![(Score::MIN, 512)],
                took_us,
                passed,
                ..Transferred::default()
            };
            served.delivered(&done, 50_000, &BOUNDS);
            assert_eq!(served.messages_max, next, "{took_us:?} {passed}");
        }
    }

    /// A part of the work on a list changes no size, and is progress.
    #[test]
    fn a_part_of_the_work() {
        let metrics = crate::metrics::Metrics::new(1).queue(&Bytes::from_static(b"q"));
        let mut served = ScheduledQueue::new(&QueueKeys::new(b"q"), Rc::default(), metrics);
        let done = Transferred {
            now_us: 5_000,
            again: true,
            took_us: Some(15_000),
            next: Score::parse(b"5"),
            ..Transferred::default()
        };
        let (next, rest) = (Some(5), 15);
        let expected = Event::Moved { any: true, next, rest };
        assert_eq!(served.delivered(&done, 15_000, &BOUNDS), expected);
        assert_eq!(served.messages_max, TRANSFER_MESSAGES_FIRST);
    }
}
