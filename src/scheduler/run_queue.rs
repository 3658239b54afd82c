//! The queues that wait for a transfer, and which of them is next. Pure: no clock, no async, no
//! Redis.
//!
//! ```text
//! due     woken now: [1] [2 2 2 2 2] [3 3]    a group for each moment waited for, in turn
//! again   had a transfer just now, and is behind: groups by what is due next
//! doubt   perhaps there is nothing to do: looks, retries; a token bucket bounds them
//! ```
//!
//! The three classes share the calls by weight ([`SHARES`]), so no class waits for a whole round
//! of another. Within `due` and `again` the moments take turns, since ten thousand queues can be
//! due in one millisecond, with many messages each: a queue that is due a little later waits for
//! one call of theirs, not for all.

use std::collections::VecDeque;

/// Why a queue waits for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A message has become due, as far as is known.
    Due,
    /// More is due than the transfer before could move.
    Again,
    /// Perhaps there is nothing to do: the last transfer failed, or nothing says that a message is
    /// due.
    Doubt,
}

/// The calls of each class in a round, where all three wait.
const SHARES: [(Urgency, u64); 3] = [(Urgency::Due, 8), (Urgency::Again, 4), (Urgency::Doubt, 1)];
/// Their least common multiple: a call of a class costs this divided by its share.
const ROUND: u64 = 8;

/// The most groups of a class: a moment more joins the group whose turn is last.
const GROUPS_MAX: usize = 64;

/// The classes, in the order of [`SHARES`].
#[derive(Debug, Default)]
pub struct RunQueue([Class; 3]);

/// Queues of one urgency, grouped by the moment that they wait for. The group whose turn is next
/// stands first.
#[derive(Debug, Default)]
struct Class {
    groups: VecDeque<(u64, VecDeque<usize>)>,
    /// The part of its share that it has used.
    used: u64,
}

impl Class {
    fn push(&mut self, token: usize, moment: u64) {
        let known = self.groups.iter().rposition(|(of, _)| *of == moment);
        let full = self.groups.len() >= GROUPS_MAX;
        let place = known.or(full.then_some(GROUPS_MAX - 1));
        match place.and_then(|place| self.groups.get_mut(place)) {
            Some((_, group)) => group.push_back(token),
            None => self.groups.push_back((moment, VecDeque::from([token]))),
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let (moment, mut group) = self.groups.pop_front()?;
        let token = group.pop_front();
        if !group.is_empty() {
            self.groups.push_back((moment, group));
        }
        token
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl RunQueue {
    /// `moment`: the one that was waited for, or at which the next message is due. Queues with the
    /// same moment share a turn; all that are in doubt do.
    pub fn push(&mut self, token: usize, urgency: Urgency, moment: u64) {
        let waiting = self.0.iter().filter(|class| !class.is_empty());
        let least = waiting.map(|class| class.used).min();
        if least.is_none() {
            self.0.iter_mut().for_each(|class| class.used = 0);
        }
        if let Some(class) = self.0.get_mut(urgency as usize) {
            // An empty class saves up no share; what a class has used is forgotten once all are
            // empty.
            if class.is_empty() {
                class.used = class.used.max(least.unwrap_or(0));
            }
            class.push(token, if urgency == Urgency::Doubt { 0 } else { moment });
        }
    }

    /// The next queue; one of `again` or `doubt` only where that class is allowed.
    pub fn pop(&mut self, again: bool, doubt: bool) -> Option<(usize, Urgency)> {
        let allowed = [true, again, doubt];
        let classes = self.0.iter_mut().zip(SHARES).zip(allowed);
        let may_go = classes.filter(|((class, _), allowed)| *allowed && !class.is_empty());
        let ((class, (urgency, share)), _) = may_go.min_by_key(|((class, _), _)| class.used)?;
        class.used += ROUND / share;
        Some((class.pop()?, urgency))
    }

    /// One of `doubt` has something to do after all.
    pub fn hurry(&mut self, token: usize, moment: u64) {
        if let [.., doubt] = &mut self.0
            && let Some((_, line)) = doubt.groups.front_mut()
            && let Some(place) = line.iter().position(|one| *one == token)
        {
            line.remove(place);
            doubt.groups.retain(|(_, line)| !line.is_empty());
            self.push(token, Urgency::Due, moment);
        }
    }

    /// Whether a queue of the class `doubt` waits.
    pub fn has_doubt(&self) -> bool {
        self.0.last().is_some_and(|doubt| !doubt.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::Urgency::{Again, Doubt, Due};
    use super::*;

    fn queue(of: &[(usize, Urgency, u64)]) -> RunQueue {
        let mut queue = RunQueue::default();
        for &(token, urgency, moment) in of {
            queue.push(token, urgency, moment);
        }
        queue
    }

    fn all(queue: &mut RunQueue) -> Vec<usize> {
        std::iter::from_fn(|| queue.pop(true, true)).map(|(token, _)| token).collect()
    }

    /// Each row: who comes, and in which order they go.
    #[test]
    fn table() {
        type Row = (&'static str, &'static [(usize, Urgency, u64)], &'static [usize]);
        let rows: &[Row] = &[
            ("nobody", &[], &[]),
            (
                "first come, first served, of one moment",
                &[(3, Due, 7), (1, Due, 7), (2, Due, 7)],
                &[3, 1, 2],
            ),
            (
                "moments take turns, the first to come first",
                &[(1, Due, 7), (2, Due, 7), (3, Due, 7), (4, Due, 8), (5, Due, 9), (6, Due, 9)],
                &[1, 4, 5, 2, 6, 3],
            ),
            (
                "what is due goes before what is in doubt",
                &[(1, Doubt, 1), (2, Again, 1), (3, Due, 1)],
                &[3, 2, 1],
            ),
            (
                "those that are behind get half as many calls",
                &[(1, Again, 1), (2, Again, 1), (3, Due, 1), (4, Due, 1), (5, Due, 1), (6, Due, 1)],
                &[3, 1, 4, 5, 2, 6],
            ),
            (
                "those that are behind take turns by what is due next",
                &[(1, Again, 7), (2, Again, 7), (3, Again, 7), (4, Again, 8)],
                &[1, 4, 2, 3],
            ),
            (
                "an earlier moment that comes later goes behind",
                &[(1, Due, 9), (2, Due, 9), (3, Due, 8)],
                &[1, 3, 2],
            ),
        ];
        for (name, of, order) in rows {
            assert_eq!(all(&mut queue(of)), *order, "{name}");
        }
    }

    /// A class that had many calls owes nothing once all classes begin again.
    #[test]
    fn shares_begin_anew() {
        let mut queue = RunQueue::default();
        for token in 0..1_000 {
            queue.push(token, Again, 1);
            assert_eq!(queue.pop(true, true), Some((token, Again)));
        }
        let crowd: Vec<_> = (0..100).map(|token| (token, Due, 1)).collect();
        for (token, urgency, moment) in crowd {
            queue.push(token, urgency, moment);
        }
        queue.push(999, Again, 1);
        let waited = all(&mut queue).iter().position(|token| *token == 999);
        assert!(waited.unwrap() < 4, "{waited:?}");
    }

    /// A queue comes back with the moment of its next message: it goes behind those that wait,
    /// however long they do.
    #[test]
    fn who_comes_back_goes_to_the_end() {
        let mut queue = queue(&[(1, Again, 7), (2, Again, 7), (3, Again, 6)]);
        let mut went = Vec::new();
        for moment in 8..14 {
            let (token, _) = queue.pop(true, true).unwrap();
            went.push(token);
            queue.push(token, Again, moment);
        }
        assert_eq!(went, [1, 3, 2, 1, 3, 2]);
    }

    #[test]
    fn who_may_not_go_waits() {
        let mut queue = queue(&[(1, Doubt, 1), (2, Again, 1)]);
        assert_eq!(queue.pop(false, false), None);
        assert_eq!(queue.pop(false, true), Some((1, Doubt)));
        assert!(!queue.has_doubt());
        assert_eq!(queue.pop(true, false), Some((2, Again)));
    }

    #[test]
    fn who_has_something_to_do_is_in_doubt_no_more() {
        let mut queue = queue(&[(1, Doubt, 1), (2, Doubt, 1)]);
        queue.hurry(2, 1);
        queue.hurry(3, 1);
        assert_eq!(queue.pop(true, false), Some((2, Due)));
        assert_eq!(queue.pop(true, true), Some((1, Doubt)));
        assert_eq!(queue.pop(true, true), None);
    }

    /// Goal: whoever comes waits for a bounded number of calls, however many wait already. Method:
    /// crowds of each kind, of many moments; then one newcomer of each kind.
    #[test]
    fn nobody_waits_for_a_whole_round() {
        for (newcomer, calls_max) in
            [(Due, 2 * GROUPS_MAX), (Again, 2 * GROUPS_MAX), (Doubt, 10_001)]
        {
            for crowd in [Due, Again, Doubt] {
                let mut queue = RunQueue::default();
                for token in 0..10_000 {
                    queue.push(token, crowd, token as u64 / 500);
                }
                for _ in 0..5_000 {
                    queue.pop(true, true);
                }
                queue.push(99_999, newcomer, 1_000);
                let waited = all(&mut queue).iter().position(|token| *token == 99_999);
                let most = if newcomer == crowd { calls_max } else { 10 };
                assert!(waited.unwrap() <= most, "{newcomer:?} in {crowd:?}: {waited:?}");
            }
        }
    }
}
