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

/// A transfer starts with this many messages, doubles while it stays well below its time, and is
/// never made smaller: from here on its time is that of the pass over the list.
const TRANSFER_MESSAGES_MIN: u64 = 100;

/// After a transfer that took longer than it may, as much time is left to others, up to this.
const REST_MAX_MS: u64 = 250;

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
            messages_max: TRANSFER_MESSAGES_MIN,
            trouble: None,
        }
    }

    pub(super) fn name(&self) -> &Bytes {
        &self.keys.destination
    }

    /// Counts what was delivered and sizes the next transfer.
    pub(super) fn delivered(&mut self, done: &Transferred, took_us: u64, limits: &Limits) {
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
        if took_us > limits.transfer_us_max {
            self.messages_max = (self.messages_max / 2).max(TRANSFER_MESSAGES_MIN);
        } else if count >= self.messages_max && took_us < limits.transfer_us_max / 2 {
            self.messages_max = (self.messages_max * 2).min(limits.transfer_messages_max);
        }
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

    /// What it means for the loop; it took so long.
    pub(super) fn event(&self, took_us: u64, limits: &Limits) -> Event {
        match self.paused_until {
            Some(until) => Event::Paused {
                until: u64::try_from(until).ok(),
            },
            None => {
                let any = !self.moved.is_empty() || self.quarantined > 0;
                Event::Moved {
                    any,
                    next: moment(&self.next),
                    rest: if took_us > limits.transfer_us_max {
                        (took_us / 1_000).min(REST_MAX_MS)
                    } else {
                        0
                    },
                }
            }
        }
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
