//! The hashed timing wheel: which loops are to be woken at which millisecond.
//!
//! ```text
//! base                         base + SLOTS                         later
//!  | slot | slot | slot | ... | slot |            far: ordered by tick |
//!     bit    bit    bit          bit   one bit for each occupied slot
//! ```
//!
//! A slot is one millisecond of Redis's time; the wheel holds the next [`SLOTS`] of them. What is
//! due later waits in an ordered map and moves in as the base advances: with rounds instead, 10,000
//! timers an hour away would leave no slot empty and cost a wake-up every millisecond. Pure: no
//! clock, no async, no queue. A token (the index of a loop) is armed at most once; arming it again
//! moves it.

use std::collections::BTreeSet;

/// Milliseconds that the wheel itself holds: about four seconds.
pub const SLOTS: u64 = 4096;
const WORDS: usize = (SLOTS / 64) as usize;

/// Where a token stands, so that it can be moved without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Near { tick: u64, index: usize },
    Far { tick: u64 },
}

#[derive(Debug)]
pub struct Wheel {
    /// Every tick before this one has been handed out.
    base: u64,
    slots: Vec<Vec<usize>>,
    occupied: [u64; WORDS],
    far: BTreeSet<(u64, usize)>,
    places: Vec<Place>,
}

impl Wheel {
    /// An empty wheel that stands at tick `base`.
    pub fn new(base: u64) -> Self {
        Self {
            base,
            slots: vec![Vec::new(); SLOTS as usize],
            occupied: [0; WORDS],
            far: BTreeSet::new(),
            places: Vec::new(),
        }
    }

    /// Wakes `token` at `tick`, or at once if that has passed. Replaces what was armed for it.
    pub fn arm(&mut self, token: usize, tick: u64) {
        self.disarm(token);
        if token >= self.places.len() {
            self.places.resize(token + 1, Place::Nowhere);
        }
        let tick = tick.max(self.base);
        if tick - self.base < SLOTS {
            self.put_near(token, tick);
        } else {
            self.far.insert((tick, token));
            self.set_place(token, Place::Far { tick });
        }
    }

    /// Forgets what is armed for `token`; nothing if nothing is.
    pub fn disarm(&mut self, token: usize) {
        match self.places.get(token).copied().unwrap_or(Place::Nowhere) {
            Place::Nowhere => return,
            Place::Far { tick } => {
                self.far.remove(&(tick, token));
            }
            Place::Near { tick, index } => {
                let slot = (tick % SLOTS) as usize;
                if let Some(tokens) = self.slots.get_mut(slot) {
                    tokens.swap_remove(index);
                    let moved = tokens.get(index).copied();
                    if tokens.is_empty() {
                        self.mark(slot, false);
                    }
                    if let Some(moved) = moved {
                        self.set_place(moved, Place::Near { tick, index });
                    }
                }
            }
        }
        self.set_place(token, Place::Nowhere);
    }

    /// The earliest armed tick.
    pub fn next(&self) -> Option<u64> {
        self.next_near()
            .or_else(|| self.far.first().map(|&(tick, _)| tick))
    }

    /// Hands out every token armed at or before `now`, earliest first, and moves the base behind
    /// it.
    pub fn advance(&mut self, now: u64, woken: &mut Vec<usize>) {
        while let Some(tick) = self.next_near() {
            if tick > now {
                break;
            }
            let slot = (tick % SLOTS) as usize;
            self.mark(slot, false);
            let tokens = self
                .slots
                .get_mut(slot)
                .map(std::mem::take)
                .unwrap_or_default();
            for &token in &tokens {
                self.set_place(token, Place::Nowhere);
            }
            woken.extend_from_slice(&tokens);
        }
        // Ticks in the far map that lie before `now` were passed over by a long sleep.
        while let Some(&(tick, token)) = self.far.first() {
            if tick > now {
                break;
            }
            self.far.pop_first();
            self.set_place(token, Place::Nowhere);
            woken.push(token);
        }
        if now >= self.base {
            self.base = now + 1;
        }
        while let Some(&(tick, token)) = self.far.first() {
            if tick - self.base >= SLOTS {
                break;
            }
            self.far.pop_first();
            self.put_near(token, tick);
        }
    }

    /// Starts again at tick `base`, for a clock that stepped; every token is handed back to be
    /// armed anew.
    pub fn restart(&mut self, base: u64) -> Vec<usize> {
        let tokens = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| **place != Place::Nowhere)
            .map(|(token, _)| token)
            .collect();
        *self = Self::new(base);
        tokens
    }

    fn put_near(&mut self, token: usize, tick: u64) {
        let slot = (tick % SLOTS) as usize;
        let mut index = 0;
        if let Some(tokens) = self.slots.get_mut(slot) {
            index = tokens.len();
            tokens.push(token);
        }
        self.mark(slot, true);
        self.set_place(token, Place::Near { tick, index });
    }

    fn set_place(&mut self, token: usize, place: Place) {
        if let Some(entry) = self.places.get_mut(token) {
            *entry = place;
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
    fn next_near(&self) -> Option<u64> {
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
                let slot = index as u64 * 64 + u64::from(word.trailing_zeros());
                return Some(self.base + (slot + SLOTS - start) % SLOTS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_795_228_205_123;

    fn fired(wheel: &mut Wheel, now: u64) -> Vec<usize> {
        let mut woken = Vec::new();
        wheel.advance(now, &mut woken);
        woken
    }

    #[test]
    fn table() {
        // (armed as (token, ms after start), then (advance to ms after start, tokens woken, next))
        type Row = (
            &'static [(usize, i64)],
            &'static [(i64, &'static [usize], Option<i64>)],
        );
        let rows: &[Row] = &[
            (&[], &[(0, &[], None), (9_000_000, &[], None)]),
            (&[(1, 5)], &[(4, &[], Some(5)), (5, &[1], None)]),
            // The past is now.
            (&[(1, -50)], &[(0, &[1], None)]),
            // Armed again: only the last counts, earlier or later.
            (&[(1, 5), (1, 9)], &[(8, &[], Some(9)), (9, &[1], None)]),
            (&[(1, 9), (1, 5)], &[(5, &[1], None), (9, &[], None)]),
            // Around the ring, over its edge, and an hour away.
            (
                &[(1, 4095), (2, 4096)],
                &[
                    (4094, &[], Some(4095)),
                    (4095, &[1], Some(4096)),
                    (4096, &[2], None),
                ],
            ),
            (
                &[(3, 3_600_000)],
                &[(3_599_999, &[], Some(3_600_000)), (3_600_000, &[3], None)],
            ),
            // A sleep longer than the wheel hands out everything, earliest first.
            (
                &[(1, 10), (2, 9_000), (3, 20)],
                &[(10_000, &[1, 3, 2], None)],
            ),
            // Many in one millisecond, one of them moved away.
            (
                &[(1, 7), (2, 7), (3, 7), (1, 8)],
                &[(7, &[3, 2], Some(8)), (8, &[1], None)],
            ),
        ];
        for (armed, steps) in rows {
            let mut wheel = Wheel::new(START);
            for &(token, after) in *armed {
                wheel.arm(token, START.saturating_add_signed(after));
            }
            for &(now, woken, next) in *steps {
                assert_eq!(
                    fired(&mut wheel, START.saturating_add_signed(now)),
                    woken,
                    "{armed:?} at {now}"
                );
                assert_eq!(
                    wheel.next(),
                    next.map(|after| START.saturating_add_signed(after)),
                    "{armed:?} at {now}"
                );
            }
        }
    }

    #[test]
    fn disarm_and_restart() {
        let mut wheel = Wheel::new(START);
        for token in 0..100 {
            wheel.arm(token, START + token as u64 * 100);
        }
        for token in (0..100).step_by(2) {
            wheel.disarm(token);
        }
        wheel.disarm(5_000);
        let mut again = wheel.restart(START - 1_000_000);
        again.sort_unstable();
        assert_eq!(again, (1..100).step_by(2).collect::<Vec<_>>());
        assert_eq!(wheel.next(), None);
    }

    /// Goal: the wheel agrees with a plain sorted set. Method: a fixed seed drives arms, disarms
    /// and advances of all sizes; after each the next tick and the woken tokens are compared.
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
                    let tick = (now + random(20_000)).saturating_sub(100).max(now + 1);
                    model.retain(|&(_, other)| other != token);
                    model.insert((tick, token));
                    wheel.arm(token, tick);
                }
                2 => {
                    model.retain(|&(_, other)| other != token);
                    wheel.disarm(token);
                }
                _ => {
                    let longest = if random(20) == 0 { 12_000 } else { 40 };
                    now += random(longest);
                    let mut expected: Vec<usize> = model
                        .iter()
                        .filter(|(tick, _)| *tick <= now)
                        .map(|(_, token)| *token)
                        .collect();
                    model.retain(|(tick, _)| *tick > now);
                    let mut woken = fired(&mut wheel, now);
                    woken.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(woken, expected);
                }
            }
            assert_eq!(wheel.next(), model.first().map(|(tick, _)| *tick));
        }
    }
}
