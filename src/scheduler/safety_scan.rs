//! The safety scan: reads the heads of all queues, many in a call, so that a wake-up that was lost
//! or never published costs time and no message.
//!
//! Each queue has its turn once in an [`interval`]. Beside that, heads that the host has marked are
//! read soon: all of them after a new subscription, and those of queues whose publications cannot
//! be taken at their word, or cannot be heard.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::metrics::{Metrics, ScanOutcome, WakeCause};
use crate::scheduler::discovery::MANY;
use crate::scheduler::host::Host;
use crate::scheduler::pace::{RETRY, pause_after};
use crate::scheduler::queue_loop::Moment;
use crate::store::keys;
use crate::store::{Store, StoreError};

/// Heads that one call reads: under a millisecond of Redis; fewer where a call took long.
const HEADS_MAX: usize = 500;
const HEADS_LEAST: usize = 16;
/// After a call that took longer than the first the next one reads fewer heads, after one that
/// took less than the second more.
const HEADS_SLOW: Duration = Duration::from_millis(20);
const HEADS_QUICK: Duration = Duration::from_millis(5);
/// The pause between two lines of the log that say that the safety scan is slow or fails.
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// From one reading to the next of the heads of queues whose publications cannot be heard.
const UNHEARD_PAUSE: Duration = Duration::from_millis(500);

/// The time of a round of the safety scan: a second for up to 1,000 queues, ten for 100,000.
pub fn interval(queues: usize, base: Duration) -> Duration {
    match queues {
        _ if queues <= MANY => base,
        ..=100_000 => base * 10,
        _ => base * 10 * u32::try_from(queues.div_ceil(100_000)).unwrap_or(u32::MAX),
    }
}

pub struct SafetyScan {
    pub host: Rc<Host>,
    pub store: Rc<Store>,
    pub metrics: Metrics,
}

impl SafetyScan {
    /// Reads the head of every served queue, round after round, for ever; a head that the loop does
    /// not wait for is a hint. Run as a task of its own.
    pub async fn read_all(self: Rc<Self>, base: Duration) {
        let mut after = Bytes::new();
        let mut round = Instant::now();
        let mut overdue_ms = 0;
        let (mut heads_max, mut logged) = (HEADS_MAX, None);
        loop {
            let page = self.host.schedule().page(&after, heads_max);
            let queues = self.host.schedule().served();
            let Some((last, _)) = page.last() else {
                after = Bytes::new();
                self.host.others_overdue_ms.set(std::mem::take(&mut overdue_ms));
                tokio::time::sleep_until(round + interval(queues, base)).await;
                round = Instant::now();
                continue;
            };
            after = last.clone();
            let asked = Instant::now();
            let heads = self.heads(&page).await;
            let scanned = Scanned::new(&heads, asked.elapsed(), page.len(), heads_max);
            self.metrics.scanned(scanned.outcome);
            if let Some(warning) = scanned.warning {
                // A failure is said where slowness was said before. A link that is down says so
                // itself.
                let is_new = logged.is_none_or(|(at, outcome): (Instant, _)| {
                    at.elapsed() > LOG_PAUSE
                        || (outcome == ScanOutcome::Slow && scanned.outcome != outcome)
                });
                if is_new && self.store.is_up() {
                    logged = Some((Instant::now(), scanned.outcome));
                    tracing::warn!("{warning}");
                }
            }
            heads_max = scanned.next_max;
            if let Ok(heads) = heads {
                let read = heads.len();
                for ((suffix, _), head) in page.iter().zip(heads) {
                    self.host.change(|schedule, now| {
                        overdue_ms = overdue_ms.max(schedule.overdue_ms(suffix, head, now));
                        schedule.head_read(suffix, head, WakeCause::Scan, now);
                    });
                }
                // The others at once: what took long was a part of their turn.
                if let Some((suffix, _)) = page.get(..read).and_then(<[_]>::last)
                    && read < page.len()
                {
                    after = suffix.clone();
                    continue;
                }
            }
            // Spread over the interval, so that Redis never sees them all at once.
            let pages = queues.div_ceil(heads_max).max(1) as u32;
            tokio::time::sleep(interval(queues, base) / (pages + 1)).await;
        }
    }

    /// Reads the heads that the host has marked, for ever: run as a task of its own.
    pub async fn read_marked(self: Rc<Self>) {
        let mut unheard = Instant::now();
        loop {
            if unheard.elapsed() >= UNHEARD_PAUSE {
                unheard = Instant::now();
                self.host.change(|schedule, _| schedule.mark_unheard());
            }
            let page = self.host.change(|schedule, _| schedule.take_marked(HEADS_MAX));
            if page.is_empty() {
                let next = unheard + UNHEARD_PAUSE;
                let _ = tokio::time::timeout_at(next, self.host.marked.notified()).await;
                continue;
            }
            let began = Instant::now();
            let heads = self.heads(&page).await;
            let failed = heads.is_err();
            let heads = heads.unwrap_or_default();
            self.host.change(|schedule, now| {
                for (suffix, _) in page.iter().skip(heads.len()) {
                    schedule.mark_again(suffix);
                }
                for ((suffix, _), head) in page.iter().zip(heads) {
                    schedule.head_read(suffix, head, WakeCause::Subscribe, now);
                }
            });
            if failed {
                tokio::time::sleep(RETRY).await;
            }
            tokio::time::sleep(pause_after(began.elapsed())).await;
        }
    }

    /// When the heads of these queues are due; of the first ones only, where finding that out took
    /// long. One that is later than what is known of it may go for that: its loop wakes in vain.
    async fn heads(&self, page: &[(Bytes, Bytes)]) -> Result<Vec<Option<Moment>>, StoreError> {
        let timeouts = page.iter().map(|(_, name)| keys::timeout_of(name));
        let known = page.iter().map(|(suffix, _)| self.host.schedule().head(suffix));
        let (timeouts, known): (Vec<_>, Vec<_>) = timeouts.zip(known).unzip();
        self.store.heads(&timeouts, &known).await
    }
}

/// What a call for the heads of many queues comes to.
struct Scanned {
    outcome: ScanOutcome,
    /// The line for the log.
    warning: Option<String>,
    /// How many heads the next call reads.
    next_max: usize,
}

impl Scanned {
    /// `count`: the heads that were asked for; `max`: the most that might have been.
    fn new<T>(heads: &Result<T, StoreError>, took: Duration, count: usize, max: usize) -> Self {
        let fewer = (max / 2).max(HEADS_LEAST);
        let (outcome, next_max, warning) = match heads {
            Err(error) => {
                let warning = format!(
                    "the safety scan of {count} heads failed; it reads fewer at once: {error}"
                );
                (ScanOutcome::Failed, fewer, Some(warning))
            }
            Ok(_) if took > HEADS_SLOW => {
                let warning = format!(
                    "the safety scan waited {} ms for {count} heads; it reads fewer at once: Redis \
                     is busy, see SLOWLOG and delay_broker_script_seconds",
                    took.as_millis()
                );
                (ScanOutcome::Slow, fewer, Some(warning))
            }
            Ok(_) if took < HEADS_QUICK => (ScanOutcome::Ok, (max * 2).min(HEADS_MAX), None),
            Ok(_) => (ScanOutcome::Ok, max, None),
        };
        Self { outcome, warning, next_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_scan_shrinks_and_grows_back() {
        let heads = |took| if took == 0 { Err(StoreError::BadCursor) } else { Ok(()) };
        let scanned = |took, max| Scanned::new(&heads(took), Duration::from_millis(took), 9, max);
        let (quick, fair, slow, failed) = (1, 10, 30, 0);
        let mut max = HEADS_MAX;
        let mut seen = Vec::new();
        for step in [quick, slow, failed, fair, slow, slow, slow, slow, quick, quick] {
            max = scanned(step, max).next_max;
            seen.push(max);
        }
        assert_eq!(seen, [500, 250, 125, 125, 62, 31, 16, 16, 32, 64]);
        let warning = |took| scanned(took, max).warning;
        assert_eq!((warning(quick), warning(fair)), (None, None));
        let warnings = [warning(slow).unwrap(), warning(failed).unwrap()];
        assert!(warnings[0].contains("30 ms for 9 heads"), "{warnings:?}");
        assert!(warnings[1].contains("cursor"), "{warnings:?}");
    }

    #[test]
    fn a_round_is_bounded() {
        let base = Duration::from_secs(1);
        for (queues, seconds) in [(0, 1), (1_000, 1), (1_001, 10), (100_000, 10), (200_000, 20)] {
            assert_eq!(interval(queues, base), Duration::from_secs(seconds), "{queues}");
        }
    }
}
