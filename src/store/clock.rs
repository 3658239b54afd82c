//! Redis's time as the broker knows it: an offset to the local monotonic clock and how far it may
//! be off.
//!
//! Redis `TIME`, read inside the scripts, decides what is due; this estimate only says when to ask.
//! It is fed by the TIME that every script returns and by a watchdog that asks once a second. The
//! sample with the least round trip of a window wins, since an answer can lie about the offset by
//! at most half its round trip. Redis read its clock between the two moments of a sample, so an
//! estimate that lies outside is put right by any. All values are microseconds.

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

/// The effect of a sample on the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// No timer needs to be armed again.
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
        } else {
            let least = redis_us as i64 - received as i64;
            let offset = old.offset.clamp(least, least + round_trip as i64);
            self.estimate.set(Some(Estimate { offset, ..old }));
        }
        Sampled::Kept
    }

    /// Redis's time now. Before the first sample it is the local time of day, which only the first
    /// wait of a queue can notice: a transfer that comes early moves nothing.
    pub fn now_us(&self) -> u64 {
        self.at(monotonic_us())
    }

    /// Redis's time at a local moment, not far from now.
    pub fn at(&self, local_us: u64) -> u64 {
        match self.estimate.get() {
            Some(estimate) => (local_us as i64 + estimate.offset).max(0) as u64,
            None => {
                let wall = clock_gettime(ClockId::Realtime);
                let now_us = wall.tv_sec as u64 * 1_000_000 + wall.tv_nsec as u64 / 1_000;
                now_us.saturating_add_signed(local_us as i64 - monotonic_us() as i64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::wheel::{Wheel, approach};

    const BASE: u64 = 1_000_000;

    #[test]
    fn the_least_round_trip_wins_until_it_is_old() {
        let clock = Clock::default();
        assert_eq!(clock.sample(BASE, BASE + 1_000, 50_000_500), Sampled::Stepped);
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
    fn a_step_is_noticed() {
        let clock = Clock::default();
        clock.sample(BASE, BASE + 100, 50_000_050);
        assert_eq!(clock.sample(BASE, BASE + 100, 50_000_060), Sampled::Kept);
        assert_eq!(clock.sample(BASE, BASE + 100, 80_000_000), Sampled::Stepped);
        assert_eq!(clock.at(BASE + 50), 80_000_000);
    }

    /// A call that was sent too early shows that the estimate is fast, however slow its answer.
    #[test]
    fn an_answer_that_the_estimate_contradicts_puts_it_right() {
        let clock = Clock::default();
        clock.sample(BASE, BASE + 100, 50_000_050);
        for (redis_us, at_base) in [
            // Within the round trip nothing is known better.
            (50_000_400, 50_000_000),
            // The estimate was fast, then slow.
            (49_999_900, 49_999_900),
            (50_002_000, 50_001_000),
        ] {
            assert_eq!(clock.sample(BASE, BASE + 1_000, redis_us), Sampled::Kept);
            assert_eq!(clock.at(BASE), at_base, "{redis_us}");
        }
    }

    /// Goal: however the clocks drift apart, a timer of hours fires when Redis's clock shows its
    /// moment. Method: Redis's clock is a line of another slope; TIME is asked once a second over a
    /// link whose round trips vary, as a host does that arms again what fires too early.
    #[test]
    fn a_drifting_clock_makes_no_timer_late() {
        const SECOND: u64 = 1_000_000;
        const START: u64 = 1_795_228_205_123_456;
        for ppm in [-500_i64, -180, -20, 0, 20, 180, 500] {
            let redis =
                |local: u64| START + (local as i64 * (SECOND as i64 + ppm) / SECOND as i64) as u64;
            let clock = Clock::default();
            let (mut wheel, mut fired) = (Wheel::new(0), 0);
            let due_us = START + 3_600 * SECOND;
            let arm = |wheel: &mut Wheel, clock: &Clock, local: u64| {
                wheel.arm(0, local + approach(due_us.saturating_sub(clock.at(local))));
            };
            let mut local = 0;
            loop {
                let (round_trip, seconds) = (200 + local / SECOND * 7_919 % 700, local / SECOND);
                let (sent, received) = (seconds * SECOND, seconds * SECOND + round_trip);
                clock.sample(sent, received, redis(sent + round_trip * 2 / 5));
                if local == 0 {
                    arm(&mut wheel, &clock, received);
                }
                let next_sample = (seconds + 1) * SECOND;
                let at = wheel.next().unwrap();
                local = at.min(next_sample).max(received);
                if at <= local {
                    fired += 1;
                    wheel.disarm(0);
                    if clock.at(local) >= due_us {
                        break;
                    }
                    arm(&mut wheel, &clock, local);
                }
            }
            let late_us = redis(local) as i64 - due_us as i64;
            assert!((-500..500).contains(&late_us), "{ppm} ppm: {late_us} us late");
            assert!(fired < 10, "{ppm} ppm: fired {fired} times");
        }
    }
}
