//! The hashed timing wheel: which loops are to be woken when, by the local monotonic clock.
//!
//! ```text
//! base                         base + SLOTS                         later
//!  | slot | slot | slot | ... | slot |            far: ordered by moment |
//!     bit    bit    bit          bit   one bit for each occupied slot
//! ```
//!
//! A slot is one local millisecond; what stands in it keeps its microsecond. The wheel holds the
//! next [`SLOTS`] of them. What is later waits in an ordered map and moves in as the base advances:
//! with rounds instead, 10,000 timers an hour away would leave no slot empty and cost a wake-up
//! every millisecond.
//!
//! Local time, because it never steps and is one for all queues, whatever clock their due times are
//! of: that clock is asked again when a timer fires. It and the local one drift apart, so a timer
//! that is far away fires a thousandth of its wait too early ([`approach`]) and is armed again for
//! what is left: an hour away it fires twice in vain, and then to the microsecond. Pure: no clock,
//! no async, no queue. A token (the index of a loop) is armed at most once; arming it again moves
//! it.

use std::collections::BTreeSet;

/// Milliseconds that the wheel itself holds: about four seconds.
pub const SLOTS: u64 = 4096;
const WORDS: usize = (SLOTS / 64) as usize;
const SLOT_US: u64 = 1_000;

/// Two clocks drift apart by less than this part of the time that passes: crystals differ by up to
/// 200 millionths, and a clock that is being corrected goes up to 500 millionths faster or slower.
const DRIFT_PART: u64 = 1_000;
/// The drift up to which a timer is not worth firing twice.
const DRIFT_FREE_US: u64 = 100;

/// How long to wait by one clock at first, where `wait_us` are to pass on another.
pub fn approach(wait_us: u64) -> u64 {
    let drift_us = wait_us / DRIFT_PART;
    let early_us = if drift_us > DRIFT_FREE_US { drift_us } else { 0 };
    wait_us - early_us
}

/// Where a token is armed, so that it can be moved without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    Nowhere,
    Near { slot: usize, index: usize },
    Far { at_us: u64 },
}

/// The tokens to be woken in one millisecond, in no order, and their earliest moment. A slot
/// without tokens holds no memory: each may have held all of them once.
#[derive(Clone, Debug, Default)]
struct Slot {
    armed: Vec<(u64, usize)>,
    earliest_us: u64,
}

#[derive(Debug)]
pub struct Wheel {
    /// The millisecond that the wheel stands at: all before it was handed out.
    base: u64,
    slots: Vec<Slot>,
    occupied: [u64; WORDS],
    far: BTreeSet<(u64, usize)>,
    by_token: Vec<Armed>,
}

impl Wheel {
    /// An empty wheel that stands at `now_us`.
    pub fn new(now_us: u64) -> Self {
        Self {
            base: now_us / SLOT_US,
            slots: vec![Slot::default(); SLOTS as usize],
            occupied: [0; WORDS],
            far: BTreeSet::new(),
            by_token: Vec::new(),
        }
    }

    /// Wakes `token` at `at_us`, or at once if that has passed. Replaces what was armed for it.
    pub fn arm(&mut self, token: usize, at_us: u64) {
        self.disarm(token);
        if token >= self.by_token.len() {
            self.by_token.resize(token + 1, Armed::Nowhere);
        }
        if self.is_near(at_us) {
            self.put_near(token, at_us);
        } else {
            self.far.insert((at_us, token));
            self.set_armed(token, Armed::Far { at_us });
        }
    }

    /// Forgets what is armed for `token`; nothing if nothing is.
    pub fn disarm(&mut self, token: usize) {
        match self.by_token.get(token).copied().unwrap_or(Armed::Nowhere) {
            Armed::Nowhere => return,
            Armed::Far { at_us } => {
                self.far.remove(&(at_us, token));
            }
            Armed::Near { slot: number, index } => {
                let Some(slot) = self.slots.get_mut(number) else {
                    return;
                };
                let (at_us, _) = slot.armed.swap_remove(index);
                let moved = slot.armed.get(index).map(|&(_, token)| token);
                if at_us == slot.earliest_us {
                    slot.find_earliest();
                }
                if slot.armed.is_empty() {
                    slot.armed = Vec::new();
                    self.mark(number, false);
                }
                if let Some(moved) = moved {
                    self.set_armed(moved, Armed::Near { slot: number, index });
                }
            }
        }
        self.set_armed(token, Armed::Nowhere);
    }

    /// When the earliest is to be woken.
    pub fn next(&self) -> Option<u64> {
        let near = self.next_near().and_then(|slot| self.slots.get(slot));
        near.map(|slot| slot.earliest_us).or_else(|| self.far.first().map(|&(at_us, _)| at_us))
    }

    /// Hands out every token that is to be woken by `now_us`, earliest first, and moves the base
    /// there.
    pub fn advance(&mut self, now_us: u64, woken: &mut Vec<usize>) {
        while let Some(number) = self.next_near()
            && let Some(slot) = self.slots.get_mut(number)
            && slot.earliest_us <= now_us
        {
            let all = std::mem::take(&mut slot.armed).into_iter();
            let (mut due, armed): (Vec<_>, Vec<_>) = all.partition(|(at_us, _)| *at_us <= now_us);
            slot.armed = armed;
            slot.find_earliest();
            due.sort_unstable();
            let stays: Vec<usize> = slot.armed.iter().map(|&(_, token)| token).collect();
            if stays.is_empty() {
                self.mark(number, false);
            }
            for (index, token) in stays.into_iter().enumerate() {
                self.set_armed(token, Armed::Near { slot: number, index });
            }
            for (_, token) in due {
                self.set_armed(token, Armed::Nowhere);
                woken.push(token);
            }
        }
        // Those that a long sleep passed over.
        while let Some(&(at_us, token)) = self.far.first()
            && at_us <= now_us
        {
            self.far.pop_first();
            self.set_armed(token, Armed::Nowhere);
            woken.push(token);
        }
        self.base = self.base.max(now_us / SLOT_US);
        while let Some(&(at_us, token)) = self.far.first()
            && self.is_near(at_us)
        {
            self.far.pop_first();
            self.put_near(token, at_us);
        }
    }

    fn is_near(&self, at_us: u64) -> bool {
        at_us / SLOT_US < self.base + SLOTS
    }

    fn put_near(&mut self, token: usize, at_us: u64) {
        let number = ((at_us / SLOT_US).max(self.base) % SLOTS) as usize;
        let mut index = 0;
        if let Some(slot) = self.slots.get_mut(number) {
            index = slot.armed.len();
            slot.armed.push((at_us, token));
            if index == 0 || at_us < slot.earliest_us {
                slot.earliest_us = at_us;
            }
        }
        self.mark(number, true);
        self.set_armed(token, Armed::Near { slot: number, index });
    }

    fn set_armed(&mut self, token: usize, armed: Armed) {
        if let Some(entry) = self.by_token.get_mut(token) {
            *entry = armed;
        }
    }

    fn mark(&mut self, slot: usize, occupied: bool) {
        if let Some(word) = self.occupied.get_mut(slot / 64) {
            let bit = 1 << (slot % 64);
            *word = if occupied { *word | bit } else { *word & !bit };
        }
    }

    /// The first occupied slot from the base on, around the ring: at most one word more than the
    /// ring has.
    fn next_near(&self) -> Option<usize> {
        let start = self.base % SLOTS;
        let (first_word, first_bit) = ((start / 64) as usize, start % 64);
        for step in 0..=WORDS {
            let index = (first_word + step) % WORDS;
            let mut word = self.occupied.get(index).copied().unwrap_or(0);
            if step == 0 {
                word &= u64::MAX << first_bit;
            } else if step == WORDS {
                word &= !(u64::MAX << first_bit);
            }
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
        }
        None
    }
}

impl Slot {
    fn find_earliest(&mut self) {
        let earliest = self.armed.iter().map(|&(at_us, _)| at_us).min();
        self.earliest_us = earliest.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_795_228_205_123;

    fn woken(wheel: &mut Wheel, now_us: u64) -> Vec<usize> {
        let mut woken = Vec::new();
        wheel.advance(now_us, &mut woken);
        woken
    }

    #[test]
    fn table() {
        // (armed as (token, us after start), then (us after start, tokens woken, next))
        type Row = (&'static [(usize, i64)], &'static [(i64, &'static [usize], Option<i64>)]);
        let rows: &[Row] = &[
            (&[], &[(0, &[], None), (9_000_000, &[], None)]),
            (&[(1, 5)], &[(4, &[], Some(5)), (5, &[1], None)]),
            // The past is now, in its order.
            (&[(1, -5_000)], &[(0, &[1], None)]),
            (&[(1, 3), (2, -5_000)], &[(0, &[2], Some(3)), (3, &[1], None)]),
            // Armed again: only the last counts, earlier or later.
            (&[(1, 5), (1, 9)], &[(8, &[], Some(9)), (9, &[1], None)]),
            (&[(1, 9), (1, 5)], &[(5, &[1], None), (9, &[], None)]),
            // One millisecond is handed out in parts, the earliest first.
            (&[(1, 800), (2, 200), (3, 500)], &[(300, &[2], Some(500)), (900, &[3, 1], None)]),
            // Around the ring, over its edge, and an hour away.
            (
                &[(1, 4_095_000), (2, 4_096_000)],
                &[
                    (4_094_999, &[], Some(4_095_000)),
                    (4_095_000, &[1], Some(4_096_000)),
                    (4_096_000, &[2], None),
                ],
            ),
            (
                &[(3, 3_600_000_000)],
                &[(3_599_999_999, &[], Some(3_600_000_000)), (3_600_000_000, &[3], None)],
            ),
            // A sleep longer than the wheel hands out everything, the earliest first.
            (&[(1, 10), (2, 9_000_000), (3, 20_000)], &[(10_000_000, &[1, 3, 2], None)]),
            // Many in one moment, one of them moved away.
            (&[(1, 7), (2, 7), (3, 7), (1, 8)], &[(7, &[2, 3], Some(8)), (8, &[1], None)]),
        ];
        for (armed, steps) in rows {
            let mut wheel = Wheel::new(START);
            for &(token, after) in *armed {
                wheel.arm(token, START.saturating_add_signed(after));
            }
            for &(now, tokens, next) in *steps {
                let now = START.saturating_add_signed(now);
                assert_eq!(woken(&mut wheel, now), tokens, "{armed:?} at {now}");
                let next = next.map(|after| START.saturating_add_signed(after));
                assert_eq!(wheel.next(), next, "{armed:?} at {now}");
            }
        }
    }

    #[test]
    fn disarm() {
        let mut wheel = Wheel::new(START);
        for token in 0..100 {
            wheel.arm(token, START + token as u64 * 100);
        }
        for token in (0..100).step_by(2) {
            wheel.disarm(token);
        }
        wheel.disarm(0);
        wheel.disarm(5_000);
        let odd: Vec<usize> = (1..100).step_by(2).collect();
        assert_eq!(woken(&mut wheel, START * 2), odd);
        assert_eq!(wheel.next(), None);
        assert!(wheel.slots.iter().all(|slot| slot.armed.capacity() == 0), "memory is kept");
    }

    /// Goal: the wheel agrees with a plain sorted set. Method: a fixed seed drives arms, disarms
    /// and advances of all sizes; after each the next moment and the woken tokens are compared.
    #[test]
    fn agrees_with_a_sorted_set() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let (mut wheel, mut model, mut now) = (Wheel::new(START), BTreeSet::new(), START);
        for _ in 0..50_000 {
            let token = random(64) as usize;
            match random(4) {
                0 | 1 => {
                    let longest = if random(3) == 0 { 20_000_000 } else { 3_000 };
                    let at_us = (now + random(longest)).saturating_sub(1_000);
                    model.retain(|&(_, other)| other != token);
                    model.insert((at_us, token));
                    wheel.arm(token, at_us);
                }
                2 => {
                    model.retain(|&(_, other)| other != token);
                    wheel.disarm(token);
                }
                _ => {
                    let longest = if random(20) == 0 { 12_000_000 } else { 4_000 };
                    now += random(longest);
                    let due = model.iter().filter(|(at_us, _)| *at_us <= now);
                    let mut expected: Vec<usize> = due.map(|(_, token)| *token).collect();
                    model.retain(|(at_us, _)| *at_us > now);
                    let mut tokens = woken(&mut wheel, now);
                    // What was armed for the past stands in the slot of the base.
                    tokens.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(tokens, expected);
                }
            }
            assert_eq!(wheel.next(), model.first().map(|(at_us, _)| *at_us));
        }
    }

    /// Each row: for how long to wait, and how much too early the first timer is.
    #[test]
    fn approaches() {
        for (wait_us, early_us) in [
            (0, 0),
            (1_000, 0),
            (100_000, 0),
            (200_000, 200),
            (10_000_000, 10_000),
            (3_600_000_000, 3_600_000),
        ] {
            assert_eq!(approach(wait_us), wait_us - early_us, "{wait_us}");
        }
    }
}
