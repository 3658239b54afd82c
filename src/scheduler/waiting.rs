//! Who waits at which queue for something to take: a line for each queue, in order of arrival.
//!
//! One that waits at several queues stands in the line of each. While a call asks for it, it is out
//! of all lines, which keep its places; if that brought nothing, it is back there. All is bounded
//! in number.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// Those that wait, by ids that grow; `T` says what each wants.
#[derive(Debug)]
pub struct Waiting<T> {
    places: usize,
    last_id: u64,
    lines: HashMap<Bytes, Line>,
    waiters: HashMap<u64, Waiter<T>>,
}

#[derive(Debug, Default)]
struct Line {
    present: BTreeSet<u64>,
    /// How many are out.
    out: usize,
}

#[derive(Debug)]
struct Waiter<T> {
    /// Each once.
    queues: Vec<Bytes>,
    is_out: bool,
    wants: T,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { places: 0, last_id: 0, lines: HashMap::new(), waiters: HashMap::new() }
    }
}

impl<T> Waiting<T> {
    /// Puts one at the end of the lines of these queues; `None` if that would be more places than
    /// `places_max` in all lines together.
    pub fn park(&mut self, mut queues: Vec<Bytes>, places_max: usize, wants: T) -> Option<u64> {
        let mut seen = BTreeSet::new();
        queues.retain(|queue| seen.insert(queue.clone()));
        if self.places + queues.len() > places_max {
            return None;
        }
        self.places += queues.len();
        self.last_id += 1;
        for queue in &queues {
            self.lines.entry(queue.clone()).or_default().present.insert(self.last_id);
        }
        self.waiters.insert(self.last_id, Waiter { queues, is_out: false, wants });
        Some(self.last_id)
    }

    /// The last one that came, whether it still waits or not.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// The line of a queue, the longest waiting first.
    pub fn line(&self, queue: &[u8]) -> impl Iterator<Item = (u64, &T)> {
        let line = self.lines.get(queue).into_iter().flat_map(|line| &line.present);
        line.filter_map(|id| Some((*id, &self.waiters.get(id)?.wants)))
    }

    /// Whether anybody has a place there, those that are out included.
    pub fn is_line(&self, queue: &[u8]) -> bool {
        self.lines.contains_key(queue)
    }

    /// How many have a place in the line of a queue.
    pub fn in_line(&self, queue: &[u8]) -> usize {
        self.lines.get(queue).map_or(0, |line| line.present.len() + line.out)
    }

    /// Takes one out of all lines, for now.
    pub fn take_out(&mut self, id: u64) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| !waiter.is_out) else {
            return;
        };
        waiter.is_out = true;
        for queue in &waiter.queues {
            if let Some(line) = self.lines.get_mut(queue) {
                line.present.remove(&id);
                line.out += 1;
            }
        }
    }

    /// Puts one back at its places; gives the queues in whose lines it stands.
    pub fn put_back(&mut self, id: u64) -> &[Bytes] {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.is_out) else {
            return &[];
        };
        waiter.is_out = false;
        for queue in &waiter.queues {
            if let Some(line) = self.lines.get_mut(queue) {
                line.present.insert(id);
                line.out -= 1;
            }
        }
        &waiter.queues
    }

    /// Forgets one, which goes on or has left; gives the queues too in whose lines it stood.
    pub fn remove(&mut self, id: u64) -> Option<(T, Vec<Bytes>)> {
        let Waiter { queues, is_out, wants } = self.waiters.remove(&id)?;
        self.places -= queues.len();
        for queue in &queues {
            let Some(line) = self.lines.get_mut(queue) else { continue };
            if is_out {
                line.out -= 1;
            } else {
                line.present.remove(&id);
            }
            if line.out == 0 && line.present.is_empty() {
                self.lines.remove(queue);
            }
        }
        Some((wants, queues))
    }

    pub fn get(&self, id: u64) -> Option<&T> {
        self.waiters.get(&id).map(|waiter| &waiter.wants)
    }

    pub fn is_out(&self, id: u64) -> bool {
        self.waiters.get(&id).is_some_and(|waiter| waiter.is_out)
    }

    /// All that wait.
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
        /// Queues; the id that it gets, if there is a place.
        Park(&'static [&'static str], Option<u64>),
        /// Queue; the ids in its line, and how many of it are out.
        Line(&'static str, &'static [u64], usize),
        Out(u64),
        Back(u64),
        Remove(u64),
    }

    #[test]
    fn lines() {
        use Step::{Back, Line, Out, Park, Remove};
        let rows: &[(&str, &[Step])] = &[
            (
                "in order of arrival, each queue for itself",
                &[
                    Park(&["a"], Some(1)),
                    Park(&["b"], Some(2)),
                    Park(&["a"], Some(3)),
                    Line("a", &[1, 3], 0),
                    Line("b", &[2], 0),
                    Line("c", &[], 0),
                ],
            ),
            (
                "one that a call asks for is in no line, and then at its place again",
                &[
                    Park(&["a", "b"], Some(1)),
                    Park(&["b"], Some(2)),
                    Out(1),
                    Out(1),
                    Line("a", &[], 1),
                    Line("b", &[2], 1),
                    Back(1),
                    Back(1),
                    Line("a", &[1], 0),
                    Line("b", &[1, 2], 0),
                ],
            ),
            (
                "one that left is in no line",
                &[
                    Park(&["a"], Some(1)),
                    Park(&["a"], Some(2)),
                    Remove(1),
                    Remove(1),
                    Back(1),
                    Line("a", &[2], 0),
                    Out(2),
                    Line("a", &[], 1),
                    Remove(2),
                    Back(2),
                    Line("a", &[], 0),
                ],
            ),
            (
                "four places at most, a queue named twice has one",
                &[
                    Park(&["a", "b", "c"], Some(1)),
                    Park(&["a", "b"], None),
                    Park(&["a", "a"], Some(2)),
                    Park(&["a"], None),
                    Out(1),
                    Park(&["a"], None),
                    Remove(1),
                    Park(&["a", "b", "c"], Some(3)),
                    Line("a", &[2, 3], 0),
                ],
            ),
        ];
        for (what, steps) in rows {
            let mut waiting = Waiting::default();
            for (number, step) in steps.iter().enumerate() {
                let at = format!("{what}: step {number}");
                match step {
                    Park(queues, id) => {
                        let queues =
                            queues.iter().map(|queue| Bytes::from_static(queue.as_bytes()));
                        assert_eq!(waiting.park(queues.collect(), 4, ()), *id, "{at}");
                    }
                    Line(queue, ids, out) => {
                        let line: Vec<u64> =
                            waiting.line(queue.as_bytes()).map(|(id, ())| id).collect();
                        assert_eq!(line, *ids, "{at}");
                        let all = ids.len() + out;
                        assert_eq!(waiting.in_line(queue.as_bytes()), all, "{at}");
                        assert_eq!(waiting.is_line(queue.as_bytes()), all > 0, "{at}");
                    }
                    Out(id) => waiting.take_out(*id),
                    Back(id) => {
                        waiting.put_back(*id);
                    }
                    Remove(id) => {
                        waiting.remove(*id);
                    }
                }
            }
            // Nothing is left behind by those that are gone.
            for id in 1..=waiting.last_id() {
                waiting.remove(id);
            }
            assert!(
                waiting.is_empty() && waiting.lines.is_empty() && waiting.places == 0,
                "{what}"
            );
        }
    }
}
