//! Ids of messages: 64 bits that grow with every message of this broker and clash with no other
//! broker's.
//!
//! ```text
//! 1 bit 0 | 41 bits milliseconds since 2024-01-01 | 10 bits node | 12 bits sequence
//! ```
//!
//! Written big-endian into the member, so equal due times keep the order of offering, and the order
//! of the list, of the zset and of the ids agree. The millisecond part follows the estimate of
//! Redis's clock and never steps back, not even at a start where Redis's clock did: when a
//! millisecond's 4,096 ids are used up it borrows from the next one. The node number is claimed in
//! Redis (`lua/node.lua`) at each start; without a fresh claim there are no ids.

use std::cell::Cell;

/// 2024-01-01 in Unix milliseconds; 41 bits reach to 2093.
const EPOCH_MS: u64 = 1_704_067_200_000;
const SEQUENCE_BITS: u32 = 12;
const NODE_BITS: u32 = 10;
/// Node numbers are below this: as many brokers may share one Redis.
pub const NODES: u64 = 1 << NODE_BITS;

/// The node number in an id.
pub fn node_of(id: u64) -> u64 {
    id >> SEQUENCE_BITS & (NODES - 1)
}

/// The time at which an id was made, Unix ms.
pub fn made_at(id: u64) -> u64 {
    EPOCH_MS + (id >> (SEQUENCE_BITS + NODE_BITS))
}

/// Whether a broker may have given this id: not before 2024, and not after tomorrow. Of random
/// ids, such as Redisson's, one in fifty may be, in 2026. `lua/configure.lua` holds the same rule.
pub fn may_be(id: u64, now_ms: u64) -> bool {
    const DAY_MS: u64 = 86_400_000;
    id >> (SEQUENCE_BITS + NODE_BITS) <= now_ms.saturating_sub(EPOCH_MS) + DAY_MS
}

#[derive(Debug, Default)]
pub struct Snowflake {
    /// Milliseconds since the epoch and sequence of the last id, as one growing number.
    last: Cell<u64>,
    node: Cell<u64>,
}

impl Snowflake {
    /// Takes over a claimed node number.
    pub fn set_node(&self, node: u64) {
        self.node.set(node % NODES);
    }

    pub fn node(&self) -> u64 {
        self.node.get()
    }

    /// No id of before this moment from now on.
    pub fn not_before(&self, ms: u64) {
        let at_least = ms.saturating_sub(EPOCH_MS) << SEQUENCE_BITS;
        self.last.set(self.last.get().max(at_least));
    }

    /// The moment of the last id, Unix ms: that of Redis's clock, or later where it stepped back.
    pub fn last_ms(&self) -> u64 {
        EPOCH_MS + (self.last.get() >> SEQUENCE_BITS)
    }

    /// The next id; `now_ms` is Redis's time as estimated.
    pub fn next(&self, now_ms: u64) -> u64 {
        let at_least = now_ms.saturating_sub(EPOCH_MS) << SEQUENCE_BITS;
        let this = at_least.max(self.last.get() + 1);
        self.last.set(this);
        let sequence = this & ((1 << SEQUENCE_BITS) - 1);
        let milliseconds = this >> SEQUENCE_BITS;
        (milliseconds << (SEQUENCE_BITS + NODE_BITS))
            | (self.node.get() << SEQUENCE_BITS)
            | sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_whatever_the_clock_does() {
        let ids = Snowflake::default();
        ids.set_node(1023);
        let mut last = 0;
        let now = EPOCH_MS + 90_000_000_000;
        for step in 0..20_000_u64 {
            let clock = if step % 3 == 0 { now - 5_000 } else { now + step / 100 };
            let id = ids.next(clock);
            assert!(id > last && id >> 63 == 0);
            assert_eq!(node_of(id), 1023);
            last = id;
        }
    }

    #[test]
    fn ids_go_on_where_others_ended() {
        let (before, after) = (Snowflake::default(), Snowflake::default());
        let now = EPOCH_MS + 90_000_000_000;
        let last = before.next(now);
        assert_eq!(before.last_ms(), now);
        after.not_before(before.last_ms() + 1);
        assert!(after.next(now - 3_600_000) > last);
        after.not_before(0);
        assert_eq!(after.last_ms(), now + 1);
    }

    #[test]
    fn what_may_be_ours() {
        let now = EPOCH_MS + 90_000_000_000;
        let ids = Snowflake::default();
        ids.set_node(1023);
        for (at, may) in [(EPOCH_MS, true), (now, true), (now + 3_600_000, true)] {
            assert_eq!(may_be(ids.next(at), now), may, "{at}");
        }
        assert!(!may_be(ids.next(now + 100_000_000), now));
        assert!(!may_be(u64::MAX, now) && !may_be(1 << 63, now));
        // A clock before all ids is wrong, and no reason to panic.
        assert!(may_be(0, 0));
    }

    #[test]
    fn two_nodes_never_meet() {
        let (one, two) = (Snowflake::default(), Snowflake::default());
        one.set_node(1);
        two.set_node(2);
        let first: std::collections::HashSet<u64> =
            (0..5_000).map(|_| one.next(EPOCH_MS + 7)).collect();
        assert!((0..5_000).all(|_| !first.contains(&two.next(EPOCH_MS + 7))));
    }
}
