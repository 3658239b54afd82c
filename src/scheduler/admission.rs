//! What may be offered to: the names that the configuration gives to keys, and the number of
//! queues, `limits.queues_max`. Pure.
//!
//! A queue that is offered to and not served yet has a *reservation*, so that one batch cannot go
//! beyond the limit. Queues that were found and have no place wait for one.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::domain::queue::Cut;
use crate::store::StoreError;
use crate::store::keys::{self, QueueKeys};

/// Queues that wait for a place; more are found by the SCAN.
const WAITING_MAX: usize = 1_000;

pub(super) struct Admission {
    queues_max: usize,
    /// By suffix, the names of the configuration, which no name recorded in Redis replaces.
    configured: HashMap<Bytes, Bytes>,
    /// By suffix, the number of batches under way that offer to it.
    reserved: HashMap<Bytes, usize>,
    /// Suffix and name of queues that found no place.
    waiting: BTreeMap<Bytes, Bytes>,
    /// The log has said that there are too many queues.
    logged: bool,
}

impl Admission {
    pub(super) fn new(queues_max: usize, configured: impl Iterator<Item = Bytes>) -> Self {
        Self {
            queues_max,
            configured: configured.map(|name| (keys::suffix_of(&name), name)).collect(),
            reserved: HashMap::new(),
            waiting: BTreeMap::new(),
            logged: false,
        }
    }

    /// The name that the configuration gives to these keys.
    pub(super) fn configured(&self, suffix: &[u8]) -> Option<&Bytes> {
        self.configured.get(suffix)
    }

    /// # Errors
    /// `BadQueue` where the configuration gives the keys to another name.
    pub(super) fn check_name(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        match self.configured.get(keys.suffix_bytes()) {
            Some(owner) if *owner != keys.name => {
                Err(StoreError::BadQueue { owner: owner.to_vec() })
            }
            _ => Ok(()),
        }
    }

    /// Whether one more queue may be served beside those that are.
    pub(super) fn has_place(&self, served: usize) -> bool {
        served + self.reserved.len() < self.queues_max
    }

    pub(super) fn is_reserved(&self, suffix: &[u8]) -> bool {
        self.reserved.contains_key(suffix)
    }

    /// Keeps a place for a queue that is not served yet.
    ///
    /// # Errors
    /// `TooManyQueues`.
    pub(super) fn reserve(&mut self, suffix: Bytes, served: usize) -> Result<(), StoreError> {
        if !self.is_reserved(&suffix) && !self.has_place(served) {
            return Err(StoreError::TooManyQueues { max: self.queues_max });
        }
        *self.reserved.entry(suffix).or_default() += 1;
        Ok(())
    }

    /// A batch that had reserved a place stored nothing.
    pub(super) fn release(&mut self, suffix: &[u8]) {
        if let Some(batches) = self.reserved.get_mut(suffix) {
            *batches -= 1;
            if *batches == 0 {
                self.reserved.remove(suffix);
            }
        }
    }

    /// The queue is served from now on; the number of batches under way that offer to it.
    pub(super) fn served(&mut self, suffix: &[u8]) -> usize {
        self.waiting.remove(suffix);
        self.reserved.remove(suffix).unwrap_or(0)
    }

    /// A queue was found, and there is no place for it.
    pub(super) fn wait(&mut self, keys: &QueueKeys) {
        if !std::mem::replace(&mut self.logged, true) {
            let (queue, max) = (Cut(&keys.name), self.queues_max);
            tracing::error!(%queue, max, "limits.queues_max is reached: no more queues are served");
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(keys.suffix(), keys.name.clone());
        }
    }

    pub(super) fn anyone_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The name of a queue that has waited: there is a place.
    pub(super) fn next_waiting(&mut self) -> Option<Bytes> {
        self.logged = false;
        self.waiting.pop_first().map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what is done to a queue, how many are served then, and whether one more finds a
    /// place after it. At most three queues.
    #[test]
    fn places() {
        let mut admission = Admission::new(3, std::iter::empty());
        let of = |name: &'static str| Bytes::from_static(name.as_bytes());
        for (what, name, served, has_place) in [
            ("reserve", "a", 0, true),
            ("reserve", "b", 1, false),
            ("reserve", "b", 1, false),
            ("refused", "c", 1, false),
            ("release", "b", 1, false),
            ("release", "b", 1, true),
            ("release", "never reserved", 1, true),
            ("served", "a", 2, true),
            ("reserve", "c", 2, false),
            ("served", "c", 3, false),
        ] {
            match what {
                "reserve" => assert_eq!(admission.reserve(of(name), served), Ok(()), "{name}"),
                "refused" => {
                    let refused = admission.reserve(of(name), served);
                    assert_eq!(refused, Err(StoreError::TooManyQueues { max: 3 }), "{name}");
                }
                "release" => admission.release(name.as_bytes()),
                _ => _ = admission.served(name.as_bytes()),
            }
            assert_eq!(admission.has_place(served), has_place, "{what} {name}");
        }
    }

    #[test]
    fn the_configuration_names_keys() {
        let configured = [Bytes::from_static(b"{a}")];
        let admission = Admission::new(1, configured.into_iter());
        for (name, is_good) in [("{a}", true), ("a", false), ("b", true)] {
            let checked = admission.check_name(&QueueKeys::new(name.as_bytes()));
            assert_eq!(checked.is_ok(), is_good, "{name}");
        }
    }
}
