//! What the buffers of all connections hold together, and who may read more into them.
//!
//! Bytes are charged as they arrive, not when they are announced. Below the limit everybody reads.
//! Beyond it a connection that holds little still does, so that small commands are always served,
//! and one that holds much, so that large ones get through one after the other; the others wait,
//! and TCP pushes back. What Redis is asked for cannot be pushed back: a command whose reply may be
//! large takes one of a few places first, and keeps it until the client has taken the reply. Knows
//! no socket. One thread owns all of it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A place for a large reply.
pub type Permit = OwnedSemaphorePermit;

/// What a connection may always hold.
pub const SMALL: usize = 16 * 1024;
/// Places for large replies, where there is memory for more: Redis runs one call at a time, the
/// others hide the round trip.
const PLACES_MAX: usize = 4;

/// The limit and what counts towards it; one for all connections.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    used: Cell<usize>,
    /// One share reads beyond the limit.
    large: Cell<bool>,
    /// Something was given back.
    freed: Notify,
    /// The limit was reached, or somebody began to wait for a place.
    filled: Notify,
    places: Arc<Semaphore>,
    /// Those that wait for a place.
    waiting: Cell<usize>,
}

/// What one connection holds; given back when dropped.
#[derive(Debug)]
pub struct Share {
    memory: Rc<Memory>,
    bytes: usize,
    large: bool,
    place: Option<Permit>,
}

impl Memory {
    /// `reply_max`: bytes of the largest reply, about.
    pub fn new(limit: usize, reply_max: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            used: Cell::new(0),
            large: Cell::new(false),
            freed: Notify::new(),
            filled: Notify::new(),
            places: Arc::new(Semaphore::new((limit / reply_max).clamp(1, PLACES_MAX))),
            waiting: Cell::new(0),
        })
    }

    pub fn share(self: &Rc<Self>) -> Share {
        Share {
            memory: Rc::clone(self),
            bytes: 0,
            large: false,
            place: None,
        }
    }

    /// Bytes held by all, and how many they may be.
    pub fn used_and_limit(&self) -> (usize, usize) {
        (self.used.get(), self.limit)
    }

    fn is_full(&self) -> bool {
        self.used.get() >= self.limit
    }

    /// A place for a large reply, in order of asking; none, if there is none in time. Safe to
    /// cancel.
    pub async fn place(&self, at_most: Duration) -> Option<Permit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let _waiting = Waiting::new(self);
        let place = Arc::clone(&self.places).acquire_owned();
        tokio::time::timeout(at_most, place).await.ok()?.ok()
    }
}

/// Counted among those that wait.
struct Waiting<'a>(&'a Memory);

impl<'a> Waiting<'a> {
    fn new(memory: &'a Memory) -> Self {
        let waiting = memory.waiting.get();
        memory.waiting.set(waiting + 1);
        if waiting == 0 {
            memory.filled.notify_waiters();
        }
        Self(memory)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl Share {
    /// It holds so many bytes now. A place is given back where that is little.
    pub fn set(&mut self, bytes: usize) {
        if bytes < SMALL {
            self.place = None;
        }
        if bytes == self.bytes {
            return;
        }
        let (memory, was_full) = (&self.memory, self.memory.is_full());
        memory.used.set(memory.used.get() - self.bytes + bytes);
        let freed = bytes < self.bytes;
        self.bytes = bytes;
        if self.large && bytes < SMALL {
            self.large = false;
            self.memory.large.set(false);
        }
        if freed && was_full {
            self.memory.freed.notify_waiters();
        } else if !was_full && self.memory.is_full() {
            self.memory.filled.notify_waiters();
        }
    }

    /// Keeps the place that its large reply took, until it holds little.
    pub fn keep(&mut self, place: Option<Permit>) {
        self.place = place;
    }

    pub fn memory(&self) -> Rc<Memory> {
        Rc::clone(&self.memory)
    }

    /// Whether it may read more now.
    pub fn may_grow(&mut self) -> bool {
        if !self.is_large() || self.large || !self.memory.is_full() {
            return true;
        }
        self.large = !self.memory.large.replace(true);
        self.large
    }

    /// Whether all together hold as much as they may.
    pub fn is_scarce(&self) -> bool {
        self.memory.is_full()
    }

    /// Whether it holds more than its small part.
    pub fn is_large(&self) -> bool {
        self.bytes >= SMALL
    }

    /// Whether others need what it holds beyond its small part: then it must make progress.
    pub fn presses(&self) -> bool {
        let awaited = self.place.is_some() && self.memory.waiting.get() > 0;
        self.is_large() && (awaited || self.memory.is_full())
    }

    /// Waits until something was given back. Safe to cancel.
    pub async fn freed(&self) {
        self.memory.freed.notified().await;
    }

    /// Waits until memory becomes scarce. Safe to cancel.
    pub async fn filled(&self) {
        self.memory.filled.notified().await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_one_large_share_reads_at_a_time() {
        let memory = Memory::new(100_000, 100_000);
        let (mut one, mut two, mut small) = (memory.share(), memory.share(), memory.share());
        one.set(60_000);
        assert!(one.may_grow() && !one.presses());
        two.set(40_000);
        small.set(1_000);
        assert!(one.presses() && two.presses() && !small.presses());
        assert!(one.may_grow(), "the first takes the place of the large one");
        assert!(!two.may_grow(), "there is one");
        assert!(small.may_grow(), "always");
        one.set(90_000);
        assert!(one.may_grow() && !two.may_grow());
        one.set(70_000);
        assert!(!two.may_grow(), "it is still large");
        // Its request is done.
        one.set(0);
        assert!(two.may_grow());
        one.set(99_000);
        assert!(one.may_grow() && !two.may_grow());
        drop(one);
        assert!(two.may_grow());
        drop(two);
        drop(small);
        assert_eq!(memory.used.get(), 0);
        assert!(!memory.large.get());
    }
}
