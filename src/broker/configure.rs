//! The configured queues: recorded in Redis, where the scripts read what is set of them.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::broker::Broker;
use crate::config::{MemberFormat, Queue};
use crate::domain::queue::{Cut, QueueName};
use crate::domain::setup::{ChangeMode, Origin, SettingsChange};
use crate::store::StoreError;
use crate::store::delivery::Recorded;
use crate::store::keys;
use crate::store::offer::Configured;

/// Between two looks for settings that are not recorded.
const RECORD_AGAIN: Duration = Duration::from_secs(5);

/// Records the configured queues once Redis is there, for ever: run as a task of its own. A queue
/// that was refused is tried again, and so is a name that its keys alone would not say, since Redis
/// may have lost it.
pub(super) async fn configure(broker: Rc<Broker>) {
    let config = broker.config();
    let (mut recorded, mut refused) = (HashSet::new(), HashSet::new());
    loop {
        for queue in &config.queues {
            let name = Bytes::from(queue.name.clone());
            let again = recorded.contains(&name);
            // A Redis that lost everything lost these too. What somebody set since is kept.
            if again && !queue.settings.is_empty() && is_lost(&broker, &name).await {
                set_up(&broker, queue, ChangeMode::IfAbsent).await;
            }
            if again && keys::is_guessed(&name) {
                continue;
            }
            let wanted = if again { Configured::default() } else { words(queue) };
            match record(&broker, &name, wanted).await {
                Ok(done) => {
                    if refused.remove(&name) {
                        tracing::info!(queue = queue.name, "its settings are recorded now");
                    }
                    if recorded.insert(name.clone()) {
                        tell(&queue.name, done);
                        let mode = ChangeMode::Named;
                        if !queue.settings.is_empty() && !set_up(&broker, queue, mode).await {
                            recorded.remove(&name);
                        }
                        if let Recorded::All { .. } = done {
                            broker.offers.configure(name, words(queue));
                        }
                    }
                }
                Err(error) if refused.insert(name) => match error {
                    StoreError::BadQueue { owner } => tracing::error!(
                        queue = queue.name,
                        owner = %Cut(&owner),
                        "two queues claim one set of keys; this one is not delivered"
                    ),
                    error => tracing::error!(
                        queue = queue.name,
                        %error,
                        "its settings are not recorded"
                    ),
                },
                Err(_) => {}
            }
        }
        let _ = tokio::time::timeout(RECORD_AGAIN, broker.store.comes_up()).await;
    }
}

/// True if surely no file's settings are recorded of a queue.
async fn is_lost(broker: &Broker, name: &Bytes) -> bool {
    let info = broker.store.info(&QueueName::trusted(name.clone()), None).await;
    info.is_ok_and(|state| !state.settings.has_file)
}

/// Records the settings that the file names; true if they are.
async fn set_up(broker: &Broker, queue: &Queue, mode: ChangeMode) -> bool {
    let values = queue.settings.iter().map(|(setting, value)| (*setting, Some(value.clone())));
    let change = SettingsChange { mode, origin: Origin::File, values: values.collect() };
    let name = QueueName::trusted(Bytes::from(queue.name.clone()));
    match broker.queue(&name).setup(&change).await {
        Ok((before, now)) => {
            let changed = now.differing(&before);
            if mode == ChangeMode::Named && !before.is_empty() && !changed.is_empty() {
                tracing::warn!(
                    queue = queue.name,
                    changed,
                    "the file of this broker names other settings of this queue than were in \
                     effect; those of the file are, for all brokers"
                );
            }
            true
        }
        // Once: whoever empties the queue says so by a restart.
        Err(error @ StoreError::InUse { .. }) => {
            tracing::warn!(queue = queue.name, %error, "its settings are not recorded");
            true
        }
        Err(error) => {
            tracing::debug!(queue = queue.name, %error, "its settings are not recorded yet");
            false
        }
    }
}

/// Records one queue, whenever Redis can be reached.
///
/// # Errors
/// `BadQueue`, `WrongType`: it cannot be recorded as it is.
async fn record(broker: &Broker, name: &Bytes, words: Configured) -> Result<Recorded, StoreError> {
    loop {
        match broker.store.configure(name, words).await {
            Err(error @ (StoreError::BadQueue { .. } | StoreError::WrongType { .. })) => {
                return Err(error);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            Ok(recorded) => return Ok(recorded),
        }
    }
}

/// The settings of a queue, in the words of the scripts.
pub(super) fn words(queue: &Queue) -> Configured {
    Configured {
        format: match queue.format {
            MemberFormat::Modern => "modern",
            MemberFormat::Legacy => "legacy",
        },
        order_list: if queue.order_list { "on" } else { "off" },
    }
}

/// Logs the settings that are not in effect.
fn tell(queue: &str, recorded: Recorded) {
    match recorded {
        Recorded::All { dropped: 0 } => {}
        Recorded::All { dropped } => tracing::info!(
            queue,
            dropped,
            "order_list = false: the order list is dropped; pending messages stay pending"
        ),
        Recorded::Pending => tracing::warn!(
            queue,
            "order_list = true is not in effect: messages are pending that were offered without an \
             order list; let the queue become empty, or DQ.CLEAR it, and restart the broker"
        ),
        Recorded::Listeners => tracing::warn!(
            queue,
            "order_list = false is not in effect: clients of Redisson listen on the channel of \
             this queue; stop them and restart the broker, or take the setting away"
        ),
        Recorded::Others => tracing::warn!(
            queue,
            "order_list = false is not in effect: the order list holds members that Redisson \
             wrote; once they are delivered and no client of Redisson uses this queue any more, \
             restart the broker; or take the setting away"
        ),
    }
}
