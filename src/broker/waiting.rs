//! Commands that wait for something to take.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::scheduler::waiting::Waiting;
use crate::store::clock::monotonic_us;

/// Places in all lines together.
const PLACES_MAX: usize = 100_000;

/// Why a command waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There may be something to take.
    Woken,
    /// There was nothing in time.
    Elapsed,
    /// Nobody wants it any more.
    Enough,
    /// Too many wait already.
    Full,
}

pub(super) type Table = RefCell<Waiting<Rc<Notify>>>;

pub(super) fn table() -> Table {
    RefCell::new(Waiting::new(PLACES_MAX))
}

/// One that waits; out of all lines when dropped.
struct Line<'a> {
    broker: &'a Broker,
    id: u64,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let unused = self.broker.waiting.borrow_mut().remove(self.id);
        if let Some(queue) = unused {
            self.broker.wake(&queue, 1);
        }
    }
}

impl Broker {
    /// Waits at these queues; without `at_most` for ever. Safe to cancel.
    pub async fn wait_at(
        &self,
        queues: Vec<Bytes>,
        at_most: Option<Duration>,
        enough: &CancellationToken,
    ) -> Waited {
        let us = at_most.map_or(u64::MAX, |at_most| at_most.as_micros() as u64);
        let deadline = monotonic_us().saturating_add(us);
        let bell = Rc::new(Notify::new());
        let id = self.waiting.borrow_mut().park(queues, deadline, bell.clone());
        let Some(id) = id else {
            return Waited::Full;
        };
        let line = Line { broker: self, id };
        let elapsed = async {
            match at_most {
                Some(at_most) => tokio::time::sleep(at_most).await,
                None => std::future::pending().await,
            }
        };
        let waited = tokio::select! {
            biased;
            () = enough.cancelled() => Waited::Enough,
            () = bell.notified() => Waited::Woken,
            () = elapsed => Waited::Elapsed,
        };
        if waited == Waited::Woken {
            // The wake-up is used.
            self.waiting.borrow_mut().remove(id);
        }
        drop(line);
        waited
    }

    /// Something can be had of a queue: as many of those that wait there go on, the longest waiting
    /// first.
    pub fn wake(&self, queue: &[u8], count: usize) {
        let bells = self.waiting.borrow_mut().wake(queue, count, monotonic_us());
        bells.iter().for_each(|bell| bell.notify_one());
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }
}
