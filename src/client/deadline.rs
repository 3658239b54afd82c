//! When a connection is cut off: a client that does not take its replies, or leaves a large request
//! unfinished, or is idle longer than it may be. While it waits for the broker it is none of these.
//! It is cut off sooner if others need the memory that it holds.
//!
//! Pure: each call brings the time.

use std::time::{Duration, Instant};

use crate::client::settings::Settings;

/// Under memory pressure a connection that holds memory which others wait for must move PROGRESS
/// bytes within STALL.
const STALL_WHEN_SCARCE: Duration = Duration::from_secs(1);
const PROGRESS_WHEN_SCARCE: usize = 256 * 1024;
/// An unfinished request of this size must make progress; a smaller one harms nobody.
const PARTIAL_LARGE: usize = 64 * 1024;

/// The bytes that have moved on a connection, and the moments at which they did.
#[derive(Debug)]
pub struct Progress {
    /// When bytes last moved, in or out, or the broker did what the client waits for.
    last: Instant,
    /// When many bytes had moved, and how many have since.
    much: Instant,
    moved: usize,
    /// When memory for buffers became scarce while this connection held much of it.
    scarce: Instant,
}

/// The reasons for which a connection waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes of a request.
    pub reads: bool,
    /// Its client, to take replies.
    pub writes: bool,
    /// The broker, to answer.
    pub answers: bool,
    /// Bytes of the unfinished request.
    pub partial_bytes: usize,
    /// Others wait for memory that it holds.
    pub is_in_the_way: bool,
}

impl Progress {
    pub fn new(now: Instant) -> Self {
        Self { last: now, much: now, moved: 0, scarce: now }
    }

    /// Bytes came or went; `is_large`: the connection still holds more than its small part.
    pub fn moved(&mut self, bytes: usize, is_large: bool, now: Instant) {
        self.last = now;
        self.moved += bytes;
        if self.moved >= PROGRESS_WHEN_SCARCE || !is_large {
            self.moved = 0;
            self.much = now;
        }
    }

    /// An offer that the client waited for is stored.
    pub fn stored(&mut self, now: Instant) {
        self.last = now;
    }

    /// A call that the client waited for is answered, or there is memory for its request again.
    pub fn held_up_until(&mut self, now: Instant) {
        (self.last, self.much) = (now, now);
    }

    pub fn memory_is_scarce_since(&mut self, now: Instant) {
        self.scarce = now;
    }

    /// When the connection is cut off if nothing moves until then.
    pub fn cut_off_at(&self, waiting: Waiting, settings: &Settings) -> Option<Instant> {
        let Waiting { reads, writes, answers, partial_bytes, is_in_the_way } = waiting;
        let stalled = self.last + settings.stall_timeout;
        if is_in_the_way && (reads || writes) {
            return Some(stalled.min(self.much.max(self.scarce) + STALL_WHEN_SCARCE));
        }
        if writes || (reads && partial_bytes >= PARTIAL_LARGE) {
            return Some(stalled);
        }
        let idle = settings.idle_timeout.filter(|_| !answers)?;
        Some(self.last + idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const NOTHING: Waiting = Waiting {
        reads: false,
        writes: false,
        answers: false,
        partial_bytes: 0,
        is_in_the_way: false,
    };
    const READS: Waiting = Waiting { reads: true, ..NOTHING };
    const WRITES: Waiting = Waiting { writes: true, ..NOTHING };
    const PARTIAL: Waiting = Waiting { partial_bytes: PARTIAL_LARGE, ..READS };
    const IN_THE_WAY: Waiting = Waiting { is_in_the_way: true, ..PARTIAL };

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Bytes, of a large connection.
        Moved(usize),
        /// The same, and the connection is small again.
        MovedAll(usize),
        Stored,
        HeldUp,
        Scarce,
    }

    /// Stall after 30 s, idle after 300 s where it is said: steps at a second, and the second at
    /// which a connection that waits so is cut off.
    #[test]
    fn cut_off() {
        use Step::{HeldUp, Moved, MovedAll, Scarce, Stored};
        let answers = Waiting { answers: true, ..READS };
        let small = Waiting { partial_bytes: PARTIAL_LARGE - 1, ..READS };
        let in_the_way = Waiting { is_in_the_way: true, ..WRITES };
        let awaits = Waiting { is_in_the_way: true, answers: true, ..NOTHING };
        let much = PROGRESS_WHEN_SCARCE;
        let rows: [(&str, &[(u64, Step)], Waiting, Option<u64>, Option<u64>); 13] = [
            ("idle", &[(5, Moved(1))], READS, None, Some(305)),
            ("waits for its answer", &[(5, Moved(1))], answers, None, None),
            ("a small part of a request", &[(5, Moved(1))], small, None, Some(305)),
            ("a large part", &[(5, Moved(1))], PARTIAL, Some(35), Some(35)),
            ("takes no replies", &[(5, Moved(1)), (7, Stored)], WRITES, Some(37), Some(37)),
            ("in the way", &[(5, Moved(much))], IN_THE_WAY, Some(6), Some(6)),
            (
                "moves too little",
                &[(5, Moved(1)), (9, Moved(much - 2))],
                in_the_way,
                Some(1),
                Some(1),
            ),
            (
                "and then enough",
                &[(5, Moved(1)), (9, Moved(much - 1))],
                in_the_way,
                Some(10),
                Some(10),
            ),
            ("is small again", &[(5, Moved(1)), (9, MovedAll(1))], in_the_way, Some(10), Some(10)),
            ("scarce since", &[(5, Moved(1)), (9, Scarce)], in_the_way, Some(10), Some(10)),
            ("held up by others", &[(9, HeldUp)], in_the_way, Some(10), Some(10)),
            ("stored is not moved", &[(9, Stored)], in_the_way, Some(1), Some(1)),
            ("in the way, by the broker's fault", &[(9, Stored)], awaits, None, None),
        ];
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        for (what, steps, waiting, without_idle, with_idle) in rows {
            let mut progress = Progress::new(start);
            for (s, step) in steps {
                match *step {
                    Moved(bytes) => progress.moved(bytes, true, at(*s)),
                    MovedAll(bytes) => progress.moved(bytes, false, at(*s)),
                    Stored => progress.stored(at(*s)),
                    HeldUp => progress.held_up_until(at(*s)),
                    Scarce => progress.memory_is_scarce_since(at(*s)),
                }
            }
            for (idle, wanted) in [("0", without_idle), ("300", with_idle)] {
                let given = [("server.stall_timeout_s", "30"), ("server.idle_timeout_s", idle)];
                let settings = Settings::new(&Config::with(&given).unwrap());
                let cut = progress.cut_off_at(waiting, &settings);
                assert_eq!(cut, wanted.map(at), "{what}, idle {idle}");
            }
        }
    }
}
