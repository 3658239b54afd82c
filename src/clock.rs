//! Redis's time as the broker knows it: an offset to the local monotonic clock and how far it may
//! be off.
//!
//! Redis `TIME`, read inside the scripts, decides what is due; this estimate only says when to ask.
//! It is fed by the TIME that every script returns and by a watchdog that asks once a second. The
//! sample with the least round trip of a window wins, since an answer can lie about the offset by
//! at most half its round trip. All values are microseconds.

use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

/// Samples older than this may be beaten by a slower one: two crystals drift apart by up to
/// 100 us in a second, so a good sample is worth less every second.
const WINDOW_US: u64 = 10_000_000;
/// Drift allowed for when a sample is compared with the estimate: 200 ppm.
const DRIFT_PER_MILLION: u64 = 200;
/// A sample this far outside the estimate's uncertainty is a step of Redis's clock, not noise.
const STEP_US: i64 = 2_000;

/// The local monotonic clock, in microseconds. Never steps; says nothing about the time of day.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    offset: i64,
    round_trip: u64,
    at: u64,
}

/// What a sample did to the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Nothing that a timer must know.
    Kept,
    /// Redis's clock stepped (failover, NTP): every timer is to be armed again.
    Stepped,
}

/// The one owner of the estimate; shared by reference on the broker's thread.
#[derive(Debug, Default)]
pub struct Clock {
    estimate: Cell<Option<Estimate>>,
}

impl Clock {
    /// Takes in one answer: sent and received by the local clock, `redis_us` as Redis said.
    pub fn sample(&self, sent: u64, received: u64, redis_us: u64) -> Sampled {
        let round_trip = received.saturating_sub(sent);
        let new = Estimate {
            offset: redis_us as i64 - (sent + round_trip / 2) as i64,
            round_trip,
            at: received,
        };
        let Some(old) = self.estimate.get() else {
            self.estimate.set(Some(new));
            return Sampled::Stepped;
        };
        let age = received.saturating_sub(old.at);
        let drift = age * DRIFT_PER_MILLION / 1_000_000;
        let apart = (new.offset - old.offset).unsigned_abs();
        let explained = round_trip / 2 + old.round_trip / 2 + drift;
        if apart > explained + STEP_US.unsigned_abs() {
            self.estimate.set(Some(new));
            return Sampled::Stepped;
        }
        if round_trip <= old.round_trip + 2 * drift || age > WINDOW_US {
            self.estimate.set(Some(new));
        }
        Sampled::Kept
    }

    /// Redis's time now. Before the first sample it is the local time of day, which only the first
    /// wait of a queue can notice: a transfer that comes early moves nothing.
    pub fn now_us(&self) -> u64 {
        let local = monotonic_us();
        match self.estimate.get() {
            Some(estimate) => (local as i64 + estimate.offset).max(0) as u64,
            None => {
                let wall = clock_gettime(ClockId::Realtime);
                wall.tv_sec as u64 * 1_000_000 + wall.tv_nsec as u64 / 1_000
            }
        }
    }

    /// The local moment at which Redis's clock will show `redis_us`, for an absolute timer.
    pub fn local_us(&self, redis_us: u64) -> u64 {
        match self.estimate.get() {
            Some(estimate) => (redis_us as i64 - estimate.offset).max(0) as u64,
            None => monotonic_us() + redis_us.saturating_sub(self.now_us()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1_000_000;

    #[test]
    fn the_least_round_trip_wins_until_it_is_old() {
        let clock = Clock::default();
        assert_eq!(
            clock.sample(BASE, BASE + 1_000, 50_000_500),
            Sampled::Stepped
        );
        let first = clock.estimate.get().unwrap().offset;
        // A slower answer that agrees within its round trip changes nothing.
        assert_eq!(clock.sample(BASE, BASE + 1_800, 50_000_100), Sampled::Kept);
        assert_eq!(clock.estimate.get().unwrap().offset, first);
        // A faster one does.
        assert_eq!(clock.sample(BASE, BASE + 100, 50_000_040), Sampled::Kept);
        assert_eq!(clock.estimate.get().unwrap().round_trip, 100);
        // So does a slow one when the good one has grown old.
        let late = BASE + WINDOW_US + 1_000;
        clock.sample(late, late + 900, 50_000_040 + WINDOW_US + 1_000);
        assert_eq!(clock.estimate.get().unwrap().round_trip, 900);
    }

    #[test]
    fn a_step_is_told() {
        let clock = Clock::default();
        clock.sample(BASE, BASE + 100, 50_000_050);
        assert_eq!(clock.sample(BASE, BASE + 100, 50_000_060), Sampled::Kept);
        assert_eq!(clock.sample(BASE, BASE + 100, 80_000_000), Sampled::Stepped);
        assert_eq!(clock.local_us(80_000_000), BASE + 50);
    }
}
