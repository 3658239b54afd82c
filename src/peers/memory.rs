//! The memory of the buffers of all connections, and which connections may read more into theirs.
//!
//! Bytes are charged as they arrive, not when they are announced. Below the limit all connections
//! read. Beyond it connections that hold little still read, so that small commands are always
//! served, and so does one that holds much, so that large commands get through one after the other.
//! The other connections wait, and TCP pushes back. Replies of Redis cannot be pushed back: a
//! command whose reply may be large takes one of a few permits first, and keeps it until the client
//! has taken the reply. Knows no socket. One thread owns all of it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Permits a large reply.
pub type Permit = OwnedSemaphorePermit;

/// Bytes that a connection may always hold.
pub const SMALL: usize = 16 * 1024;
/// Maximum number of large replies at a time, even with memory for more: Redis runs one call at a
/// time, and the further ones only hide the round trip.
const PERMITS_MAX: usize = 4;

/// What may be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    Messages,
    /// A search goes on for long, so those have a permit apart.
    Search,
}

/// The limit and the bytes that count towards it, shared by all connections.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    used: Cell<usize>,
    /// A large share reads beyond the limit; there is one at most.
    large: Cell<bool>,
    /// Notified when a share gave memory back.
    freed: Notify,
    /// Notified when the limit was reached, or a command began to wait for a permit.
    filled: Notify,
    permits: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// Commands that wait for a permit.
    waiting: Cell<usize>,
}

/// The memory of one connection, given back when dropped.
#[derive(Debug)]
pub struct Share {
    memory: Rc<Memory>,
    bytes: usize,
    large: bool,
    permit: Option<Permit>,
}

impl Memory {
    /// `limit`: bytes for all connections; `reply_max`: bytes of the largest reply, about.
    pub fn new(limit: usize, reply_max: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            used: Cell::new(0),
            large: Cell::new(false),
            freed: Notify::new(),
            filled: Notify::new(),
            permits: Arc::new(Semaphore::new((limit / reply_max).clamp(1, PERMITS_MAX))),
            searches: Arc::new(Semaphore::new(1)),
            waiting: Cell::new(0),
        })
    }

    pub fn share(self: &Rc<Self>) -> Share {
        Share { memory: Rc::clone(self), bytes: 0, large: false, permit: None }
    }

    /// Bytes that all connections hold, and their limit.
    pub fn used_and_limit(&self) -> (usize, usize) {
        (self.used.get(), self.limit)
    }

    fn is_full(&self) -> bool {
        self.used.get() >= self.limit
    }

    /// A permit for a large reply, given in the order of the requests; none if none is free within
    /// `at_most`. Safe to cancel.
    pub async fn permit(&self, large: Large, at_most: Duration) -> Option<Permit> {
        let permits = match large {
            Large::Messages => &self.permits,
            Large::Search => &self.searches,
        };
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = Waiting::new(self);
        let permit = Arc::clone(permits).acquire_owned();
        tokio::time::timeout(at_most, permit).await.ok()?.ok()
    }
}

/// Counts one command among those that wait for a permit, until dropped.
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
    /// Records that the connection holds `bytes` now. Below the small part it gives its permit
    /// back.
    pub fn set(&mut self, bytes: usize) {
        if bytes < SMALL {
            self.permit = None;
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

    /// Keeps the permit of a large reply until the connection holds little.
    pub fn keep(&mut self, permit: Option<Permit>) {
        self.permit = permit;
    }

    pub fn memory(&self) -> Rc<Memory> {
        Rc::clone(&self.memory)
    }

    /// True if the connection may read more now.
    pub fn may_grow(&mut self) -> bool {
        if !self.is_large() || self.large || !self.memory.is_full() {
            return true;
        }
        self.large = !self.memory.large.replace(true);
        self.large
    }

    /// True if all connections together hold as much as they may.
    pub fn is_scarce(&self) -> bool {
        self.memory.is_full()
    }

    /// True if the connection holds more than its small part.
    pub fn is_large(&self) -> bool {
        self.bytes >= SMALL
    }

    /// True if other connections need the memory that this one holds beyond its small part: then it
    /// must make progress.
    pub fn is_in_the_way(&self) -> bool {
        let awaited = self.permit.is_some() && self.memory.waiting.get() > 0;
        self.is_large() && (awaited || self.memory.is_full())
    }

    /// Waits until a share gives memory back. Safe to cancel.
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
        assert!(one.may_grow() && !one.is_in_the_way());
        two.set(40_000);
        small.set(1_000);
        assert!(one.is_in_the_way() && two.is_in_the_way() && !small.is_in_the_way());
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
