//! What the buffers of all connections hold together, and who may read more into them.
//!
//! Bytes are charged as they arrive, not when they are announced. Below the limit everybody reads.
//! Beyond it a connection that holds little still does, so that small commands are always served,
//! and one that holds much, so that large ones get through one after the other; the others wait,
//! and TCP pushes back. Knows no socket. One thread owns all of it.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// What a connection may always hold.
const SMALL: usize = 16 * 1024;

/// The limit and what counts towards it; one for all connections.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    used: Cell<usize>,
    /// One share reads beyond the limit.
    large: Cell<bool>,
    /// Something was given back.
    freed: Notify,
    /// The limit was reached.
    filled: Notify,
}

/// What one connection holds; given back when dropped.
#[derive(Debug)]
pub struct Share {
    memory: Rc<Memory>,
    bytes: usize,
    large: bool,
}

impl Memory {
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            used: Cell::new(0),
            large: Cell::new(false),
            freed: Notify::new(),
            filled: Notify::new(),
        })
    }

    pub fn share(self: &Rc<Self>) -> Share {
        Share {
            memory: Rc::clone(self),
            bytes: 0,
            large: false,
        }
    }

    fn is_full(&self) -> bool {
        self.used.get() >= self.limit
    }
}

impl Share {
    /// It holds so many bytes now.
    pub fn set(&mut self, bytes: usize) {
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

    /// Whether it may read more now.
    pub fn may_grow(&mut self) -> bool {
        if !self.is_large() || self.large || !self.memory.is_full() {
            return true;
        }
        self.large = !self.memory.large.replace(true);
        self.large
    }

    /// Whether it holds more than its small part.
    pub fn is_large(&self) -> bool {
        self.bytes >= SMALL
    }

    /// Whether the memory is scarce, and it holds more than its small part: then it must make
    /// progress.
    pub fn presses(&self) -> bool {
        self.is_large() && self.memory.is_full()
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
        let memory = Memory::new(100_000);
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
