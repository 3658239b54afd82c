//! Whose turn it is among connections that have more to do than one turn allows.
//!
//! They go on one at a time, each behind all that had something small to do meanwhile. So a client
//! that sends little waits for one turn of one other, however many send without end.

use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Turns {
    /// Lets the others go first, and waits in line. Safe to cancel.
    pub async fn next(&self) {
        let _first_in_line = self.0.acquire().await;
        tokio::task::yield_now().await;
    }
}
