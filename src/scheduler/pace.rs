//! The pace of calls: how many messages the next transfer may move, how long its queue rests after
//! it, how many transfers a second may be in vain, and the pause after a call that reads. Pure: no
//! clock, no async, no Redis.

use std::ops::Range;
use std::time::Duration;

use crate::domain::queue::Score;
use crate::store::delivery::Transferred;

/// Bounds from the settings.
#[derive(Clone, Copy, Debug)]
pub struct TransferSize {
    pub messages_max: u64,
    pub bytes_max: u64,
    /// A transfer that takes longer than this is made smaller.
    pub took_us_max: u64,
}

/// The first transfer of a queue moves at most this many messages: nothing is known of its order
/// list yet.
pub const TRANSFER_MESSAGES_FIRST: u64 = 8;
/// The time that a transfer took makes the next one no smaller than this: it may have waited for
/// the work of others.
const TRANSFER_MESSAGES_LEAST: u64 = 100;
/// A transfer that passes over the order list may take this many times as long for its own part,
/// so that fewer passes are made; all of it at most `PASSING_MAX_US`, but where the pass alone
/// takes nearly that, `OWN_MORE_LEAST_US` on top of the pass.
const OWN_MORE: u64 = 8;
const PASSING_MAX_US: u64 = 20_000;
const OWN_MORE_LEAST_US: u64 = 8_000;
/// And it may move this many times as many messages.
const SHARING_MORE: u64 = 8;
/// Elements of a list that LREM passes in a microsecond.
const PASSED_PER_US: u64 = 40;
/// The time that moving a message takes, where Redis does not say how long a script ran.
const MESSAGE_US: u64 = 3;

/// No queue rests longer after a transfer.
const REST_MAX_MS: u64 = 250;
/// Other clients of Redis notice a transfer that takes longer than this.
const NOTICED_US: u64 = 8_000;

impl Transferred {
    /// How many messages it delivered, put into quarantine, or dropped since they had expired.
    pub(super) fn count(&self) -> u64 {
        let delivered: u64 = self.moved.iter().map(|(_, messages)| messages).sum();
        delivered + self.quarantined + self.expired
    }

    /// How long Redis worked on it, estimated from what it did.
    pub(super) fn work_us(&self) -> u64 {
        self.count() * MESSAGE_US + self.passed / PASSED_PER_US
    }

    /// After a transfer that took longer than it may, or passed over the list, the queue rests: for
    /// half the time that the transfer took, and for all of it where other clients noticed; in that
    /// case for half as long again where nothing more is due, so that messages that become due
    /// meanwhile share the next pass.
    pub(super) fn rest_ms(&self, took_us: u64, size: u64, bounds: &TransferSize) -> u64 {
        if took_us <= bounds.took_us_max && self.passed_shared == 0 {
            return 0;
        }
        let is_due = |next: Score| next.moment() <= self.now_us / 1_000;
        let done = self.count() < size && !self.next.is_some_and(is_due);
        let rest_us = match took_us {
            0..=NOTICED_US => took_us / 2,
            _ if done => took_us + took_us / 2,
            _ => took_us,
        };
        rest_us.div_ceil(1_000).min(REST_MAX_MS)
    }
}

/// How many messages the next transfer may move, after one of at most `size`.
pub(super) fn next_size(size: u64, took_us: u64, done: &Transferred, bounds: &TransferSize) -> u64 {
    // None of the work was for messages.
    if done.again {
        return size;
    }
    let count = done.count();
    // A larger transfer would share this part: it is no reason for a smaller one.
    let shared_us = done.passed_shared / PASSED_PER_US;
    let own_us = took_us.saturating_sub(shared_us);
    let left_us = PASSING_MAX_US.saturating_sub(shared_us);
    let more_us = (OWN_MORE * shared_us).min(left_us.max(OWN_MORE_LEAST_US));
    let own_max_us = bounds.took_us_max + more_us;
    let more = if shared_us > 0 { SHARING_MORE } else { 1 };
    let messages_max = bounds.messages_max * more;
    let full = count >= size;
    if full && (size < TRANSFER_MESSAGES_LEAST || own_us < own_max_us / 2) {
        (size * 2).min(messages_max)
    } else if own_us > own_max_us {
        (size / 2).max(TRANSFER_MESSAGES_LEAST.min(size))
    } else {
        size.min(messages_max)
    }
}

/// The pause after a call that reads heads or names, as a multiple of the time that it took, and
/// its bounds.
const CALL_PAUSE_TIMES: u32 = 4;
pub const CALL_PAUSE: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(250);
/// The pause after such a call that failed.
pub const RETRY: Duration = Duration::from_millis(50);

/// A slow Redis is asked less often.
pub fn pause_after(took: Duration) -> Duration {
    (took * CALL_PAUSE_TIMES).clamp(CALL_PAUSE.start, CALL_PAUSE.end)
}

/// Bounds calls in vain: a token bucket. A call that finds something to do gives its token back.
#[derive(Debug)]
pub struct TokenBucket {
    tokens: u64,
    tokens_max: u64,
    /// The time after which a token is added.
    refill_us: u64,
    refilled_at_us: u64,
}

impl TokenBucket {
    pub fn new(per_second: u64) -> Self {
        Self {
            tokens: per_second,
            tokens_max: per_second,
            refill_us: (1_000_000 / per_second.max(1)).max(1),
            refilled_at_us: 0,
        }
    }

    /// Whether there is a token.
    pub fn has(&mut self, now_us: u64) -> bool {
        let more = now_us.saturating_sub(self.refilled_at_us) / self.refill_us;
        self.refilled_at_us += more * self.refill_us;
        self.tokens = self.tokens.saturating_add(more).min(self.tokens_max);
        self.tokens > 0
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now_us: u64) -> bool {
        let has = self.has(now_us);
        self.tokens -= u64::from(has);
        has
    }

    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1).min(self.tokens_max);
    }

    /// After this time there is a token for sure.
    pub fn refill_us(&self) -> u64 {
        self.refill_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TransferSize =
        TransferSize { messages_max: 512, bytes_max: 1, took_us_max: 2_000 };

    /// Each row: how many it was to move and moved, the time it took, elements passed for all, and
    /// then how many the next is to move.
    #[test]
    fn sizes() {
        for (what, size, count, took_us, passed_shared, next) in [
            ("grows while it is quick", 8, 8, 50, 0, 16),
            ("small ones grow whatever they waited for", 64, 64, 9_000, 0, 128),
            ("not beyond the setting", 512, 512, 100, 0, 512),
            ("stays where nothing more was due", 128, 5, 50, 0, 128),
            ("shrinks where it is slow", 512, 512, 5_000, 0, 256),
            ("but only so far", 128, 128, 5_000, 0, 100),
            ("a pass that all share is no reason", 512, 512, 25_000, 1_000_000, 1_024),
            ("without it the setting holds", 1_024, 5, 50, 0, 512),
            ("beside a short pass it may take long", 512, 512, 16_000, 80_000, 512),
            ("beside a long one less, so that all is bounded", 512, 512, 37_000, 1_000_000, 256),
        ] {
            let done = Transferred {
                moved: vec![(Score::MIN, count)],
                passed_shared,
                ..Transferred::default()
            };
            assert_eq!(next_size(size, took_us, &done, &BOUNDS), next, "{what}");
        }
    }

    /// Each row: how many it was to move and moved, the time it took, elements passed for all, and
    /// how many ms the queue then rests.
    #[test]
    fn rests() {
        for (what, size, count, took_us, passed_shared, rest) in [
            ("a quick one needs none", 512, 512, 2_000, 0, 0),
            ("one that passed over the list some", 512, 5, 900, 80_000, 1),
            ("so does one that took longer than it may", 512, 512, 7_000, 0, 4),
            ("after a long one others get as much time", 512, 512, 9_000, 80_000, 9),
            ("and more where nothing more is due", 512, 5, 60_000, 80_000, 90),
            ("at most so long", 512, 512, 900_000, 0, 250),
        ] {
            let mut done = Transferred {
                now_us: 5_000_000,
                moved: vec![(Score::MIN, count)],
                passed_shared,
                next: Score::parse(b"5001"),
                ..Transferred::default()
            };
            assert_eq!(done.rest_ms(took_us, size, &BOUNDS), rest, "{what}");
            // It moved fewer than it might, and more is due all the same.
            done.next = Score::parse(b"5000");
            let rest = if count < size && rest > 8 { 60 } else { rest };
            assert_eq!(done.rest_ms(took_us, size, &BOUNDS), rest, "{what}");
        }
    }

    #[test]
    fn a_bucket_refills_with_time() {
        let mut bucket = TokenBucket::new(100);
        let taken =
            |bucket: &mut TokenBucket, now_us| (0..1_000).filter(|_| bucket.take(now_us)).count();
        assert_eq!(taken(&mut bucket, 5_000_000), 100);
        assert_eq!(taken(&mut bucket, 5_009_999), 0);
        assert_eq!(taken(&mut bucket, 5_010_000), 1);
        assert_eq!(taken(&mut bucket, 5_500_000), 49);
        bucket.give_back();
        assert!(bucket.has(5_500_000));
        assert_eq!(taken(&mut bucket, 60_000_000), 100);
    }
}
