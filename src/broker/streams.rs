//! Queues whose destination is a stream: their settings, and what their consumers give back.

use bytes::Bytes;

use crate::broker::queue::Queue;
use crate::domain::lease::Nack;
use crate::domain::queue::Cut;
use crate::domain::setup::SettingsChange;
use crate::scheduler::takers::note_given_back;
use crate::store::StoreError;
use crate::store::keys::STREAM_REGISTRY;

impl Queue<'_> {
    /// Before the settings change.
    ///
    /// # Errors
    /// `InUse`: the retries of a group lie in a stream that would be forgotten. As every call.
    pub(super) async fn before_setup(&self, change: &SettingsChange) -> Result<(), StoreError> {
        let keys = self.keys();
        if change.makes_stream() {
            // A hint, given before: who stops in between leaves no stream that nobody keeps.
            let more = std::slice::from_ref(&keys.name);
            let _ = self.broker.store.note(STREAM_REGISTRY, more, &[]).await;
        } else if change.may_end_stream()
            && let Some(state) = self.broker.store.stream_look(&keys).await?
        {
            for group in state.groups {
                if self.broker.store.stream_retries(&keys, &group.name).await? > 0 {
                    let key = Cut(&keys.again(&group.name)).to_string();
                    return Err(StoreError::InUse { key });
                }
            }
        }
        Ok(())
    }

    /// The destination is a stream now: its groups are there when this ends, or soon.
    pub(super) async fn after_setup(&self) {
        let keys = self.keys();
        if let Err(error) = self.broker.keeper.changed(&keys).await {
            let queue = Cut(&keys.name);
            tracing::warn!(%queue, %error, "the groups of this stream are not made yet");
        }
    }

    /// Retries may be due; of a queue that has no stream nothing happens.
    pub(super) fn look_for_retries(&self) {
        self.broker.keeper.look(&self.keys());
    }

    /// Takes entries away from consumers of a group; how many.
    pub async fn stream_nack(
        &self,
        group: Bytes,
        entries: Vec<Bytes>,
        nack: &Nack,
    ) -> Result<u64, StoreError> {
        let store = &self.broker.store;
        let given = store.stream_nack(self.name, &group, &entries, nack).await?;
        if note_given_back(&self.broker.metrics, self.name, &given) {
            self.look_for_retries();
        }
        Ok(given.count)
    }
}
