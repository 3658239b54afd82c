//! The pause of all queues.
//!
//! It is in Redis, and the transfer checks it, so the copy here is a hint: it is read every second.
//! It spares Redis a transfer of each overdue queue at each round of the safety scan, and ends the
//! sleep of the queues when another broker resumed all.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::broker::Broker;
use crate::scheduler::schedule::Schedule;
use crate::store::StoreError;

/// Between two looks at the pause of all.
const WATCH: Duration = Duration::from_secs(1);

/// The pause of all queues, as it was last seen: until this moment in ms, -1: until resumed; 0 and
/// what has passed: none.
#[derive(Debug, Default)]
pub(super) struct PausedAll(Cell<i64>);

impl PausedAll {
    fn is_at(&self, now_ms: u64) -> bool {
        let until = self.0.get();
        until < 0 || u64::try_from(until).is_ok_and(|until| until > now_ms)
    }
}

/// Looks at the pause of all for ever: run as a task of its own.
pub(super) async fn watch(broker: Rc<Broker>) {
    let mut said = false;
    loop {
        match broker.store.all_paused_until().await {
            Ok(until) => {
                said = false;
                broker.set_paused_all(until);
            }
            Err(error @ StoreError::WrongType { .. }) => {
                broker.set_paused_all(0);
                if !std::mem::replace(&mut said, true) {
                    tracing::error!(%error, "a pause of all queues cannot be read; none counts");
                }
            }
            // As it was last seen, until Redis says otherwise.
            Err(_) => {}
        }
        tokio::time::sleep(WATCH).await;
    }
}

impl Broker {
    /// Pauses all queues, those to come too; those that are paused by themselves stay so.
    pub async fn pause_all(&self, duration_ms: Option<u64>) -> Result<(), StoreError> {
        self.store.pause_all(duration_ms).await?;
        // Whoever asks next is told of it, and not only after the next look.
        let now_ms = self.store.clock_of_all().now_us() / 1_000;
        let end = |ms| i64::try_from(now_ms.saturating_add(ms)).unwrap_or(-1);
        self.set_paused_all(duration_ms.map_or(-1, end));
        Ok(())
    }

    pub async fn resume_all(&self) -> Result<(), StoreError> {
        self.store.resume_all().await?;
        self.paused_all.0.set(0);
        self.host.change(Schedule::resumed_all);
        Ok(())
    }

    /// True if all queues were paused at the last look.
    pub fn all_are_paused(&self) -> bool {
        self.paused_all.is_at(self.store.clock_of_all().now_us() / 1_000)
    }

    fn set_paused_all(&self, until: i64) {
        self.paused_all.0.set(until);
        let paused = self.all_are_paused();
        self.host.change(|schedule, now| schedule.set_paused_all(paused, now));
    }
}
