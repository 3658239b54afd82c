//! The turns of connections that have more to do than one turn allows.
//!
//! They take turns one at a time, and between two turns all connections run that have little to do.
//! So a client that sends little waits for one turn of one other client, however many clients send
//! without pause.

use tokio::sync::Mutex;

#[derive(Debug, Default)]
pub struct Turns(Mutex<()>);

impl Turns {
    /// Waits in line for the next turn, and lets other connections run before it. Safe to cancel.
    pub async fn next(&self) {
        let _first_in_line = self.0.lock().await;
        tokio::task::yield_now().await;
    }
}
