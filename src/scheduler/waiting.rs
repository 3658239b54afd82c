//! Who waits at which queue for something to take: a line for each queue, in order of arrival.
//!
//! One that waits at several queues stands in the line of each, and in none once it is woken. A
//! wake-up that it did not use goes to the next of that line. All is bounded in number, and one
//! whose deadline has passed is woken no more: it ends by itself.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// Those that wait, by ids that grow; `T` wakes one.
#[derive(Debug)]
pub struct Waiting<T> {
    places_max: usize,
    places: usize,
    last_id: u64,
    lines: HashMap<Bytes, BTreeSet<u64>>,
    waiters: HashMap<u64, Waiter<T>>,
}

#[derive(Debug)]
struct Waiter<T> {
    queues: Vec<Bytes>,
    /// On the clock that `wake` is told.
    deadline: u64,
    bell: T,
    /// The queue that it is woken for, and has not taken from yet.
    woken_for: Option<Bytes>,
}

impl<T: Clone> Waiting<T> {
    /// `places_max`: places in all lines together.
    pub fn new(places_max: usize) -> Self {
        Self { places_max, places: 0, last_id: 0, lines: HashMap::new(), waiters: HashMap::new() }
    }

    /// Puts one at the end of the lines of these queues; `None` if there are too many.
    pub fn park(&mut self, queues: Vec<Bytes>, deadline: u64, bell: T) -> Option<u64> {
        if self.places + queues.len() > self.places_max {
            return None;
        }
        self.places += queues.len();
        self.last_id += 1;
        for queue in &queues {
            self.lines.entry(queue.clone()).or_default().insert(self.last_id);
        }
        let waiter = Waiter { queues, deadline, bell, woken_for: None };
        self.waiters.insert(self.last_id, waiter);
        Some(self.last_id)
    }

    /// Takes the first `count` of a queue's line out of all lines: they are to be woken.
    pub fn wake(&mut self, queue: &[u8], count: usize, now: u64) -> Vec<T> {
        let Some((queue, line)) = self.lines.get_key_value(queue) else {
            return Vec::new();
        };
        let queue = queue.clone();
        let waits = |id: &&u64| self.waiters.get(*id).is_some_and(|one| one.deadline > now);
        let first: Vec<u64> = line.iter().filter(waits).take(count).copied().collect();
        let mut bells = Vec::with_capacity(first.len());
        for id in first {
            self.step_out(id);
            if let Some(waiter) = self.waiters.get_mut(&id) {
                waiter.woken_for = Some(queue.clone());
                bells.push(waiter.bell.clone());
            }
        }
        bells
    }

    /// Forgets one: it goes on, or has left. Gives the queue that it was woken for: one that has
    /// left owes that wake-up to the next.
    pub fn remove(&mut self, id: u64) -> Option<Bytes> {
        self.step_out(id);
        self.waiters.remove(&id)?.woken_for
    }

    fn step_out(&mut self, id: u64) {
        let Some(waiter) = self.waiters.get_mut(&id) else {
            return;
        };
        let queues = std::mem::take(&mut waiter.queues);
        self.places -= queues.len();
        for queue in &queues {
            if let Some(line) = self.lines.get_mut(queue) {
                line.remove(&id);
                if line.is_empty() {
                    self.lines.remove(queue);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        /// Queues and deadline; the id that it gets, if there is a place.
        Park(&'static [&'static str], u64, Option<u64>),
        /// Queue, how many, now; the ids of those woken.
        Wake(&'static str, usize, u64, &'static [u64]),
        /// Id; the queue whose wake-up it did not use.
        Remove(u64, Option<&'static str>),
    }

    #[test]
    fn lines() {
        use Step::{Park, Remove, Wake};
        let rows: &[(&str, &[Step])] = &[
            (
                "in order of arrival, each queue for itself",
                &[
                    Park(&["a"], 9, Some(1)),
                    Park(&["b"], 9, Some(2)),
                    Park(&["a"], 9, Some(3)),
                    Park(&["a"], 9, Some(4)),
                    Wake("a", 2, 0, &[1, 3]),
                    Wake("a", 2, 0, &[4]),
                    Wake("b", 1, 0, &[2]),
                    Wake("b", 1, 0, &[]),
                    Wake("c", 1, 0, &[]),
                ],
            ),
            (
                "woken once, whatever it waits at",
                &[
                    Park(&["a", "b"], 9, Some(1)),
                    Park(&["b"], 9, Some(2)),
                    Wake("b", 1, 0, &[1]),
                    Wake("a", 1, 0, &[]),
                    Wake("b", 1, 0, &[2]),
                ],
            ),
            (
                "one that left is passed over, one that was woken gives the wake-up back",
                &[
                    Park(&["a"], 9, Some(1)),
                    Park(&["a"], 9, Some(2)),
                    Park(&["a"], 9, Some(3)),
                    Remove(1, None),
                    Wake("a", 1, 0, &[2]),
                    Remove(2, Some("a")),
                    Remove(2, None),
                    Wake("a", 1, 0, &[3]),
                ],
            ),
            (
                "until its deadline",
                &[
                    Park(&["a"], 5, Some(1)),
                    Park(&["a"], u64::MAX, Some(2)),
                    Wake("a", 9, 5, &[2]),
                    Park(&["a"], 6, Some(3)),
                    Wake("a", 9, 5, &[3]),
                    Remove(1, None),
                ],
            ),
            (
                "four places at most",
                &[
                    Park(&["a", "b", "c"], 9, Some(1)),
                    Park(&["a", "b"], 9, None),
                    Park(&["a"], 9, Some(2)),
                    Park(&["a"], 9, None),
                    Wake("c", 1, 0, &[1]),
                    Park(&["a", "b", "c"], 9, Some(3)),
                    Remove(3, None),
                    Park(&["d", "d", "d"], 9, Some(4)),
                ],
            ),
        ];
        for (what, steps) in rows {
            let mut waiting = Waiting::new(4);
            let mut next_id = 1;
            for (number, step) in steps.iter().enumerate() {
                let at = format!("{what}: step {number}");
                match step {
                    Park(queues, deadline, id) => {
                        let queues =
                            queues.iter().map(|queue| Bytes::from_static(queue.as_bytes()));
                        let given = waiting.park(queues.collect(), *deadline, next_id);
                        assert_eq!(given, *id, "{at}");
                        next_id += u64::from(given.is_some());
                    }
                    Wake(queue, count, now, woken) => {
                        assert_eq!(waiting.wake(queue.as_bytes(), *count, *now), *woken, "{at}");
                    }
                    Remove(id, queue) => {
                        let wanted = queue.map(|queue| Bytes::from_static(queue.as_bytes()));
                        assert_eq!(waiting.remove(*id), wanted, "{at}");
                    }
                }
            }
            // Nothing is left behind by those that are gone.
            (1..next_id).for_each(|id| drop(waiting.remove(id)));
            assert!(
                waiting.is_empty() && waiting.lines.is_empty() && waiting.places == 0,
                "{what}"
            );
        }
    }
}
