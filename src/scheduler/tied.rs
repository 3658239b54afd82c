//! The leases of a connection that asked for it (`TIED`): those that are not settled when it closes
//! go back at once, and the attempt counts.
//!
//! Only a receipt is remembered, which decides: what somebody else has settled or taken meanwhile
//! stays as it is. What is forgotten here runs out like any lease.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Weak;

use crate::domain::lease::{LeaseId, Receipt};
use crate::domain::queue::QueueName;
use crate::scheduler::takers::Takers;

/// Leases of one connection that are remembered; then the oldest is forgotten.
pub const LEASES_MAX: usize = 1_000;
/// Of all connections together; then each new one takes the place of its own connection's oldest.
pub const ALL_LEASES_MAX: usize = 100_000;

/// What one connection has taken and not settled. When this is dropped it goes back.
#[derive(Debug)]
pub struct Tied {
    leases: RefCell<Leases>,
    takers: Weak<Takers>,
}

#[derive(Debug, Default)]
struct Leases {
    /// From the oldest on.
    by_age: BTreeMap<u64, (QueueName, Receipt)>,
    ages: HashMap<LeaseId, u64>,
    youngest: u64,
}

impl Leases {
    fn put(&mut self, queue: QueueName, receipt: Receipt) {
        self.youngest += 1;
        if let Some(before) = self.ages.insert(receipt.id, self.youngest) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.youngest, (queue, receipt));
    }

    fn forget(&mut self, queue: &QueueName, receipt: &Receipt) -> Option<QueueName> {
        let age = *self.ages.get(&receipt.id)?;
        self.by_age.get(&age).filter(|known| (&known.0, &known.1) == (queue, receipt))?;
        self.ages.remove(&receipt.id);
        self.by_age.remove(&age).map(|(queue, _)| queue)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, (_, receipt))) = self.by_age.pop_first() {
            self.ages.remove(&receipt.id);
        }
    }
}

impl Tied {
    pub(super) fn new(takers: Weak<Takers>) -> Self {
        Self { leases: RefCell::default(), takers }
    }

    /// Changes what is remembered, with the places that all connections together have left.
    fn change(&self, change: impl FnOnce(&mut Leases, usize)) {
        let Some(takers) = self.takers.upgrade() else {
            return;
        };
        let leases = &mut *self.leases.borrow_mut();
        let others = takers.tied.get().saturating_sub(leases.by_age.len());
        change(leases, ALL_LEASES_MAX.saturating_sub(others));
        takers.tied.set(others + leases.by_age.len());
    }

    /// The connection has these messages of a queue now.
    pub(super) fn add(&self, queue: &QueueName, receipts: Vec<Receipt>) {
        self.change(|leases, left| {
            // One copy of a name for all of its leases.
            let known = leases.by_age.values().rev().find(|(known, _)| known == queue);
            let queue = known.map_or(queue, |(known, _)| known).clone();
            for receipt in receipts {
                leases.put(queue.clone(), receipt);
                if leases.by_age.len() > LEASES_MAX.min(left) {
                    leases.forget_oldest();
                }
            }
        });
    }

    /// It has settled these, or given them back.
    pub fn settled(&self, queue: &QueueName, receipts: &[Receipt]) {
        self.change(|leases, _| {
            for receipt in receipts {
                leases.forget(queue, receipt);
            }
        });
    }

    /// It has leased those of them that are its own anew.
    pub fn extended(&self, queue: &QueueName, receipts: &[Receipt]) {
        self.change(|leases, _| {
            for receipt in receipts {
                if let Some(queue) = leases.forget(queue, receipt) {
                    leases.put(queue, *receipt);
                }
            }
        });
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        let mut all: BTreeMap<QueueName, Vec<Receipt>> = BTreeMap::new();
        self.change(|leases, _| {
            for (queue, receipt) in std::mem::take(&mut leases.by_age).into_values() {
                all.entry(queue).or_default().push(receipt);
            }
        });
        if let Some(takers) = self.takers.upgrade().filter(|_| !all.is_empty()) {
            takers.give_back_tied(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(id: u64, delivery: u64) -> Receipt {
        Receipt { id: id.to_be_bytes(), delivery }
    }

    #[test]
    fn each_once_and_the_oldest_first() {
        let (a, b) = (QueueName::trusted("a".into()), QueueName::trusted("b".into()));
        let mut leases = Leases::default();
        let order = |leases: &Leases| {
            assert_eq!(leases.by_age.len(), leases.ages.len());
            let id = |(_, receipt): &(QueueName, Receipt)| u64::from_be_bytes(receipt.id);
            leases.by_age.values().map(id).collect::<Vec<_>>()
        };
        for id in 1..=4 {
            leases.put(a.clone(), receipt(id, 1));
        }
        // It was handed out again, to the same one.
        leases.put(a.clone(), receipt(2, 2));
        assert_eq!(order(&leases), [1, 3, 4, 2]);
        // Another queue, another delivery, another message.
        for (queue, other) in [(&b, receipt(1, 1)), (&a, receipt(2, 1)), (&a, receipt(9, 1))] {
            assert_eq!(leases.forget(queue, &other), None);
        }
        assert_eq!(leases.forget(&a, &receipt(3, 1)), Some(a.clone()));
        leases.forget_oldest();
        assert_eq!(order(&leases), [4, 2]);
        leases.forget_oldest();
        leases.forget_oldest();
        leases.forget_oldest();
        assert_eq!(order(&leases), [0; 0]);
    }
}
