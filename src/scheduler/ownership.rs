//! "Is it mine?": whether this broker, of all that share a Redis, is to serve a queue. Pure.
//!
//! It says nothing of what may be offered to, which is [`admission`](crate::scheduler::admission)'s
//! to say: any broker stores an offer, and the owner of the queue delivers it.

/// Answers by the suffix of the queue's keys.
pub struct Ownership(fn(&[u8]) -> bool);

impl Ownership {
    /// Each broker serves all queues: a message that several ask for is moved once all the same.
    pub const ALL: Self = Self(|_| true);

    #[cfg(test)]
    pub(super) const fn by(rule: fn(&[u8]) -> bool) -> Self {
        Self(rule)
    }

    pub fn is_mine(&self, suffix: &[u8]) -> bool {
        (self.0)(suffix)
    }
}
