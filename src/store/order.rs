//! The order in which calls of several lanes are applied.
//!
//! Two batches of offers may be under way at once. On one connection they reach Redis in the order
//! they were sent in. When a link breaks they would not: the later one could be stored on the new
//! connection before it is known what became of the earlier one, which is then repeated, so that
//! the older of two messages of one name replaces the newer. So a call is sent while all earlier
//! ones are on their way on the same connection, and no later one is on its way; and one that a
//! later one has overtaken all the same is not repeated.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::store::link::Link;

#[derive(Default)]
pub struct Order {
    /// Those that have no outcome yet, oldest first: one for each lane at most.
    calls: RefCell<VecDeque<Rc<Call>>>,
    changed: Notify,
}

#[derive(Default)]
struct Call {
    /// The number of the connection that it was sent on; 0 while it surely is not applied.
    sent_on: Cell<u64>,
    /// A later one was applied.
    overtaken: Cell<bool>,
}

/// A call's place in the order; given up when dropped.
pub struct Place<'a> {
    order: &'a Order,
    call: Rc<Call>,
}

impl Order {
    /// The place behind all that were taken before.
    pub fn place(&self) -> Place<'_> {
        let call = Rc::new(Call::default());
        self.calls.borrow_mut().push_back(call.clone());
        Place { order: self, call }
    }
}

impl Place<'_> {
    /// Waits until the call may be sent. Safe to cancel.
    pub async fn turn(&self, link: &Link) {
        loop {
            let changed = self.order.changed.notified();
            if self.may_be_sent(link.connection()) {
                return;
            }
            changed.await;
        }
    }

    fn may_be_sent(&self, connection: u64) -> bool {
        let calls = self.order.calls.borrow();
        let mine = calls.iter().position(|call| Rc::ptr_eq(call, &self.call));
        calls.iter().enumerate().all(|(place, call)| {
            let needed = match Some(place).cmp(&mine) {
                std::cmp::Ordering::Less => connection,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => 0,
            };
            call.sent_on.get() == needed
        })
    }

    /// A new call begins in this place.
    pub fn begin(&self) {
        self.call.overtaken.set(false);
    }

    /// It is about to be sent.
    pub fn sent(&self, link: &Link) {
        self.set(link.connection());
    }

    /// It was not applied, and never will be as it was sent.
    pub fn not_applied(&self) {
        self.set(0);
    }

    pub fn applied(&self) {
        let calls = self.order.calls.borrow();
        let earlier = calls.iter().take_while(|call| !Rc::ptr_eq(call, &self.call));
        earlier.for_each(|call| call.overtaken.set(true));
    }

    /// True if a later one was applied since it was sent.
    pub fn is_overtaken(&self) -> bool {
        self.call.overtaken.get()
    }

    fn set(&self, sent_on: u64) {
        self.call.sent_on.set(sent_on);
        self.order.changed.notify_waiters();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut calls = self.order.calls.borrow_mut();
        calls.retain(|call| !Rc::ptr_eq(call, &self.call));
        self.order.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the connections that three calls were sent on (0: not sent), and which of them may
    /// be sent on the second one.
    #[test]
    fn who_may_be_sent() {
        for (sent_on, may) in [
            ([0, 0, 0], [true, false, false]),
            ([2, 0, 0], [true, true, false]),
            ([2, 2, 0], [false, true, true]),
            // The first one broke, and nobody knows what became of it.
            ([1, 0, 0], [true, false, false]),
            // It surely was not applied; the second one, sent after it, is in doubt.
            ([0, 1, 0], [false, false, false]),
            ([0, 0, 2], [false, false, false]),
        ] {
            let order = Order::default();
            let places = [order.place(), order.place(), order.place()];
            for (place, sent_on) in places.iter().zip(sent_on) {
                place.set(sent_on);
            }
            assert_eq!(places.each_ref().map(|place| place.may_be_sent(2)), may);
        }
    }

    #[test]
    fn who_is_overtaken() {
        let order = Order::default();
        let (first, second, third) = (order.place(), order.place(), order.place());
        second.applied();
        drop(second);
        assert!(first.is_overtaken() && !third.is_overtaken());
        assert!(!third.may_be_sent(1), "the first one is in the way");
        drop(first);
        assert!(third.may_be_sent(1));
    }
}
