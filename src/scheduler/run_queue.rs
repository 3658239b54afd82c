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
const SHARES: [u64; 3] = [8, 4, 1];
/// Their least common multiple: a call of a class costs this divided by its share.
const ROUND: u64 = 8;

/// The most groups of `due`, and of `again`: a moment more joins the group whose turn is last.
const GROUPS_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct RunQueue {
    due: Groups,
    again: Groups,
    doubt: VecDeque<usize>,
    /// The part of its share that each class has used.
    used: [u64; 3],
}

/// Queues, grouped by the moment that they wait for. The group whose turn is next stands first.
#[derive(Debug, Default)]
struct Groups(VecDeque<(u64, VecDeque<usize>)>);

impl Groups {
    fn push(&mut self, token: usize, moment: u64) {
        let known = self.0.iter().rposition(|(of, _)| *of == moment);
        let full = self.0.len() >= GROUPS_MAX;
        let place = known.or(full.then_some(GROUPS_MAX - 1));
        match place.and_then(|place| self.0.get_mut(place)) {
            Some((_, group)) => group.push_back(token),
            None => self.0.push_back((moment, VecDeque::from([token]))),
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let (moment, mut group) = self.0.pop_front()?;
        let token = group.pop_front();
        if !group.is_empty() {
            self.0.push_back((moment, group));
        }
        token
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RunQueue {
    /// `moment`: the one that was waited for, or at which the next message is due. Queues with the
    /// same moment share a turn.
    pub fn push(&mut self, token: usize, urgency: Urgency, moment: u64) {
        let waiting = (0..3).filter(|&class| !self.is_empty_class(class));
        let least = waiting.map(|class| self.used_by(class)).min();
        let class = urgency as usize;
        // An empty class saves up no share; what a class has used is forgotten once all are empty.
        match (least, self.is_empty_class(class), self.used.get_mut(class)) {
            (None, ..) => self.used = [0; 3],
            (Some(least), true, Some(used)) => *used = least.max(*used),
            _ => {}
        }
        match urgency {
            Urgency::Due => self.due.push(token, moment),
            Urgency::Again => self.again.push(token, moment),
            Urgency::Doubt => self.doubt.push_back(token),
        }
    }

    /// The next queue; one of `again` or `doubt` only where that class is allowed.
    pub fn pop(&mut self, again: bool, doubt: bool) -> Option<(usize, Urgency)> {
        let allowed = [true, again, doubt];
        let may =
            |class: &usize| allowed.get(*class) == Some(&true) && !self.is_empty_class(*class);
        let class = (0..3).filter(may).min_by_key(|class| self.used_by(*class))?;
        let share = SHARES.get(class).copied().unwrap_or(1);
        if let Some(used) = self.used.get_mut(class) {
            *used += ROUND / share;
        }
        match class {
            0 => self.due.pop().map(|token| (token, Urgency::Due)),
            1 => self.again.pop().map(|token| (token, Urgency::Again)),
            _ => self.doubt.pop_front().map(|token| (token, Urgency::Doubt)),
        }
    }

    /// One of `doubt` has something to do after all.
    pub fn hurry(&mut self, token: usize, moment: u64) {
        if let Some(place) = self.doubt.iter().position(|one| *one == token) {
            self.doubt.remove(place);
            self.push(token, Urgency::Due, moment);
        }
    }

    /// Whether a queue of the class `doubt` waits.
    pub fn has_doubt(&self) -> bool {
        !self.doubt.is_empty()
    }

    fn is_empty_class(&self, class: usize) -> bool {
        match class {
            0 => self.due.is_empty(),
            1 => self.again.is_empty(),
            _ => self.doubt.is_empty(),
        }
    }

    fn used_by(&self, class: usize) -> u64 {
        self.used.get(class).copied().unwrap_or(u64::MAX)
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
