//! Keeps the registry: notes new queues in it, and prunes empty ones.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::scheduler::host::Host;
use crate::scheduler::pace::pause_after;
use crate::store::Store;
use crate::store::keys::QueueKeys;

/// From one round to the next; a queue that is empty for this long may be forgotten.
const ROUND: Duration = Duration::from_secs(2);
/// Queues that one call notes.
const NAMES_MAX: usize = 500;

/// Notes new queues and prunes empty ones, for ever: run as a task of its own.
pub async fn keep(host: Rc<Host>, store: Rc<Store>) {
    let mut interval = tokio::time::interval(ROUND);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let begun = host.change(|schedule, _| schedule.take_begun());
        for names in begun.chunks(NAMES_MAX) {
            // A hint: what is lost here is found by SCAN.
            let _ = store.register(names.to_vec()).await;
        }
        for (suffix, name) in host.change(|schedule, _| schedule.take_empty()) {
            let began = Instant::now();
            let pruned = store.prune(&QueueKeys::new(&name)).await;
            let failed = pruned.is_err();
            host.change(|schedule, now| match pruned {
                Ok(true) => schedule.pruned(&suffix, now),
                Ok(false) => schedule.is_not_empty(&suffix, &name, now),
                Err(_) => schedule.prune_again(suffix, name),
            });
            if failed {
                tokio::time::sleep(pause_after(began.elapsed())).await;
            }
        }
    }
}
