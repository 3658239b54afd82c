//! The claim of a node number, without which nothing is stored: an id could clash with another
//! broker's.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::clock::Clock;

pub struct Claim {
    clock: Rc<Clock>,
    /// How long a batch waits where the claim has ended.
    timeout: Duration,
    /// Refuses to store while it says why.
    closed: RefCell<Option<String>>,
    opened: Notify,
    /// Redis's time, in ms, at which the claim ends.
    until_ms: Cell<u64>,
    ended: Notify,
    renewing: Cell<bool>,
}

impl Claim {
    pub(super) fn new(clock: Rc<Clock>, timeout: Duration) -> Self {
        Self {
            clock,
            timeout,
            closed: RefCell::new(Some("no node number has been claimed yet".into())),
            opened: Notify::new(),
            until_ms: Cell::new(0),
            ended: Notify::new(),
            renewing: Cell::new(false),
        }
    }

    /// Stops storing.
    pub fn close(&self, why: String) {
        self.closed.replace(Some(why));
    }

    /// Allows storing with the ids of a node number that is claimed until a moment of Redis's time.
    pub fn open_until(&self, until_ms: u64) {
        self.until_ms.set(until_ms);
        self.closed.replace(None);
        self.opened.notify_waiters();
    }

    /// Redis's time, in ms, at which it ends.
    pub(super) fn until_ms(&self) -> u64 {
        self.until_ms.get()
    }

    /// True if it has ended, as far as Redis's clock is known here.
    pub fn is_over(&self) -> bool {
        self.clock.now_us() / 1_000 >= self.until_ms.get()
    }

    /// Waits until the claim is made anew if it has ended, as where this process stood still for
    /// long; but not where that failed before.
    pub(super) async fn held(&self) {
        if self.closed.borrow().is_none() && self.is_over() {
            self.close("the claim of this broker's node number ran out".into());
            self.ended.notify_one();
            self.renewing.set(true);
        }
        if self.renewing.get() {
            self.opened(self.timeout).await;
            self.renewing.set(false);
        }
    }

    /// Waits until a batch finds that it has ended.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Why nothing is stored now, if so.
    pub fn closed(&self) -> Option<String> {
        self.closed.borrow().clone()
    }

    /// Waits until storing is allowed, at most so long.
    pub async fn opened(&self, at_most: Duration) {
        let opened = self.opened.notified();
        if self.closed.borrow().is_some() {
            let _ = tokio::time::timeout(at_most, opened).await;
        }
    }
}
