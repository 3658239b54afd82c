//! One queue that is served: its keys and loop, what it counts, how much its next transfer moves.
//! What a transfer answered becomes an event of the loop here.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::metrics::QueueMetrics;
use crate::scheduler::host::Limits;
use crate::scheduler::queue_loop::{Event, Moment, QueueLoop, SCORE_END};
use crate::store::delivery::Transferred;
use crate::store::keys::QueueKeys;

/// The first transfer moves at most so many: nothing is known of the order list yet.
const TRANSFER_MESSAGES_FIRST: u64 = 8;
/// A transfer is not made smaller than this for the time it took: that may be others' time, which
/// it waited for.
const TRANSFER_MESSAGES_LEAST: u64 = 100;
/// A transfer that has to pass over the list may take so many times as long for its own part, so
/// that fewer passes are made; but not longer than this in all, where that leaves as much as this.
const OWN_MORE: u64 = 8;
const PASSING_MAX_US: u64 = 20_000;
const OWN_MORE_LEAST_US: u64 = 8_000;
/// And move so many times as many messages.
const SHARING_MORE: u64 = 8;
/// Elements of a list that LREM passes in a microsecond.
const PASSED_PER_US: u64 = 40;

/// No queue rests longer after a transfer.
const REST_MAX_MS: u64 = 250;
/// Others of Redis notice a transfer that takes longer than this.
const NOTICED_US: u64 = 8_000;

/// One queue that the broker serves.
pub(super) struct Served {
    pub(super) suffix: Bytes,
    pub(super) keys: Rc<QueueKeys>,
    pub(super) state: QueueLoop,
    pub(super) metrics: Arc<QueueMetrics>,
    /// How many messages the next transfer may move.
    pub(super) messages_max: u64,
    /// What keeps the queue from being delivered, as logged: one line at each change.
    pub(super) trouble: Option<String>,
}

impl Served {
    pub(super) fn new(keys: &QueueKeys, metrics: Arc<QueueMetrics>) -> Self {
        Self {
            suffix: keys.suffix(),
            keys: Rc::new(keys.clone()),
            state: QueueLoop::default(),
            metrics,
            messages_max: TRANSFER_MESSAGES_FIRST,
            trouble: None,
        }
    }

    pub(super) fn name(&self) -> &Bytes {
        &self.keys.destination
    }

    /// Counts what was delivered, sizes the next transfer, and says what it means for the loop.
    /// `waited_us`: from sending the call to its answer.
    pub(super) fn delivered(
        &mut self,
        done: &Transferred,
        waited_us: u64,
        limits: &Limits,
    ) -> Event {
        let mut count = 0;
        for &(score, messages) in &done.moved {
            let since_ms = score.max(done.pause_ended_ms as f64);
            let late = (done.now_us as f64 / 1e6 - since_ms / 1e3).max(0.0);
            // A foreign score before any time is delivered at once; it has no lateness.
            self.metrics
                .lateness(if score < 0.0 { 0.0 } else { late }, messages);
            count += messages;
        }
        if count > 0 {
            self.metrics.delivered(count);
        }
        if done.quarantined > 0 {
            self.metrics.quarantined(done.quarantined);
            tracing::warn!(
                queue = %self.name().escape_ascii(),
                members = done.quarantined,
                "members that could not be read were put into quarantine: DQ.QUARANTINE shows them"
            );
        }
        // That time may be others', which it waited for.
        let took_us = done.took_us.unwrap_or(waited_us);
        let size = self.messages_max;
        self.messages_max = next_size(size, took_us, done, limits);
        done.event(took_us, size, limits)
    }

    /// Says when what keeps the queue from being delivered changes.
    pub(super) fn troubled(&mut self, trouble: Option<String>) {
        if self.trouble == trouble {
            return;
        }
        let queue = self.name().escape_ascii();
        match &trouble {
            Some(trouble) => tracing::warn!(%queue, trouble, "delivery of this queue waits"),
            None => tracing::info!(%queue, "delivery of this queue goes on"),
        }
        self.trouble = trouble;
    }
}

impl Transferred {
    /// A head that no timer can wait for is said once; it stays pending.
    pub(super) fn trouble(&self) -> Option<String> {
        let never = moment(&self.next).is_some_and(|next| next >= SCORE_END);
        never.then(|| format!("the score of the head, {}, is no time in ms", self.next))
    }

    /// What it means for the loop; it took so long, and was to move at most `size` messages.
    fn event(&self, took_us: u64, size: u64, limits: &Limits) -> Event {
        match self.paused_until {
            Some(until) => Event::Paused {
                until: u64::try_from(until).ok(),
            },
            None => {
                let any = !self.moved.is_empty() || self.quarantined > 0;
                Event::Moved {
                    any,
                    next: moment(&self.next),
                    rest: self.rest_ms(took_us, size, limits),
                }
            }
        }
    }
}

impl Transferred {
    /// How many messages and members it moved.
    fn count(&self) -> u64 {
        let delivered: u64 = self.moved.iter().map(|(_, messages)| messages).sum();
        delivered + self.quarantined
    }

    /// A transfer that took longer than it may, or passed over the list, is followed by a rest:
    /// half the time that it took, and all of it where others noticed; then half as much again
    /// where nothing more is due, so that what becomes due meanwhile shares the next pass.
    fn rest_ms(&self, took_us: u64, size: u64, limits: &Limits) -> u64 {
        if took_us <= limits.transfer_us_max && self.passed_shared == 0 {
            return 0;
        }
        let done = self.count() < size;
        let rest_us = match took_us {
            0..=NOTICED_US => took_us / 2,
            _ if done => took_us + took_us / 2,
            _ => took_us,
        };
        rest_us.div_ceil(1_000).min(REST_MAX_MS)
    }
}

/// How many messages the next transfer may move, after one of at most `size`.
fn next_size(size: u64, took_us: u64, done: &Transferred, limits: &Limits) -> u64 {
    let count = done.count();
    let each_us = done.passed_each / PASSED_PER_US;
    if each_us > limits.transfer_us_max {
        return (count * limits.transfer_us_max / each_us).clamp(1, size);
    }
    // What a larger batch would share with this one is no reason for smaller ones.
    let shared_us = done.passed_shared / PASSED_PER_US;
    let own_us = took_us.saturating_sub(shared_us);
    let left_us = PASSING_MAX_US.saturating_sub(shared_us);
    let more_us = (OWN_MORE * shared_us).min(left_us.max(OWN_MORE_LEAST_US));
    let own_max_us = limits.transfer_us_max + more_us;
    let more = if shared_us > 0 { SHARING_MORE } else { 1 };
    let messages_max = limits.transfer_messages_max * more;
    let full = count >= size;
    if full && (size < TRANSFER_MESSAGES_LEAST || own_us < own_max_us / 2) {
        (size * 2).min(messages_max)
    } else if own_us > own_max_us {
        (size / 2).max(TRANSFER_MESSAGES_LEAST.min(size))
    } else {
        size.min(messages_max)
    }
}

/// A score as a moment: the first millisecond at which it has passed. Negative is at once, huge is
/// no time; `None` for an empty text: nothing is pending.
pub fn moment(score: &str) -> Option<Moment> {
    let score: f64 = score.parse().ok()?;
    Some(if score >= SCORE_END as f64 {
        SCORE_END
    } else {
        score.max(0.0).ceil() as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::queue_loop::Backoff;

    const LIMITS: Limits = Limits {
        transfers_in_flight_max: 1,
        transfer_messages_max: 512,
        transfer_bytes_max: 1,
        transfer_us_max: 2_000,
        backoff: Backoff {
            min_ms: 1,
            max_ms: 1,
        },
        queues_max: 1,
    };

    /// Each row: how many it was to move and moved, the time it took, elements passed for all and
    /// for each, and then how many the next is to move.
    #[test]
    fn sizes() {
        for (what, size, count, took_us, passed_shared, passed_each, next) in [
            ("grows while it is quick", 8, 8, 50, 0, 0, 16),
            (
                "small ones grow whatever they waited for",
                64,
                64,
                9_000,
                0,
                0,
                128,
            ),
            ("not beyond the setting", 512, 512, 100, 0, 0, 512),
            ("stays where nothing more was due", 128, 5, 50, 0, 0, 128),
            ("shrinks where it is slow", 512, 512, 5_000, 0, 0, 256),
            ("but only so far", 128, 128, 5_000, 0, 0, 100),
            (
                "a pass that all share is no reason",
                512,
                512,
                25_000,
                1_000_000,
                0,
                1_024,
            ),
            ("without it the setting holds", 1_024, 5, 50, 0, 0, 512),
            (
                "beside a short pass it may take long",
                512,
                512,
                16_000,
                80_000,
                0,
                512,
            ),
            (
                "beside a long one less, so that all is bounded",
                512,
                512,
                37_000,
                1_000_000,
                0,
                256,
            ),
            ("what each takes is", 100, 100, 1_200_000, 0, 48_000_000, 1),
            ("down to one, and back", 1, 1, 1_000, 0, 40_000, 2),
        ] {
            let done = Transferred {
                moved: vec![(0.0, count)],
                passed_shared,
                passed_each,
                ..Transferred::default()
            };
            assert_eq!(next_size(size, took_us, &done, &LIMITS), next, "{what}");
        }
    }

    /// Each row: how many it was to move and moved, the time it took, elements passed for all, and
    /// how many ms the queue then rests.
    #[test]
    fn rests() {
        for (what, size, count, took_us, passed_shared, rest) in [
            ("a quick one needs none", 512, 512, 2_000, 0, 0),
            ("one that passed over the list some", 512, 5, 900, 80_000, 1),
            (
                "so does one that took longer than it may",
                512,
                512,
                7_000,
                0,
                4,
            ),
            (
                "after a long one others get as much time",
                512,
                512,
                9_000,
                80_000,
                9,
            ),
            (
                "and more where nothing more is due",
                512,
                5,
                60_000,
                80_000,
                90,
            ),
            ("at most so long", 512, 512, 900_000, 0, 250),
        ] {
            let done = Transferred {
                moved: vec![(0.0, count)],
                passed_shared,
                ..Transferred::default()
            };
            assert_eq!(done.rest_ms(took_us, size, &LIMITS), rest, "{what}");
        }
    }

    /// What others of Redis took meanwhile makes no transfer smaller, where Redis says its own.
    #[test]
    fn its_own_time_counts() {
        let metrics = crate::metrics::Metrics::new(1).queue(&Bytes::from_static(b"q"));
        for (took_us, next) in [(Some(100), 512), (None, 256)] {
            let mut served = Served::new(&QueueKeys::new(b"q"), metrics.clone());
            served.messages_max = 512;
            let done = Transferred {
                moved: vec![(0.0, 512)],
                took_us,
                ..Transferred::default()
            };
            served.delivered(&done, 50_000, &LIMITS);
            assert_eq!(served.messages_max, next, "{took_us:?}");
        }
    }

    #[test]
    fn moments() {
        for (score, expected) in [
            ("1795228205123", Some(1_795_228_205_123)),
            ("1795228205123.5", Some(1_795_228_205_124)),
            ("-5", Some(0)),
            ("-inf", Some(0)),
            ("inf", Some(SCORE_END)),
            ("1e+17", Some(SCORE_END)),
            ("", None),
        ] {
            assert_eq!(moment(score), expected, "{score}");
        }
    }
}
