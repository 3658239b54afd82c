//! Pushes: messages that are due at once, past what is pending if nothing of it is due.

use bytes::Bytes;

use crate::domain::queue::{MessageId, Score};
use crate::store::keys::QueueKeys;
use crate::store::lane::Within;
use crate::store::offer::failure;
use crate::store::script::PUSH;
use crate::store::{Store, StoreError};

/// The outcome of a push.
#[derive(Debug)]
pub struct Pushed {
    /// In the order of the payloads; `None` where the destination knows no ids.
    pub ids: Option<Vec<MessageId>>,
    /// They were stored as offers that are due now, since others go before them, or the queue
    /// delivers nothing now.
    pub pending: bool,
    /// The due time of the new head of the queue, Unix ms, if one of them is that.
    pub head_ms: Option<u64>,
}

impl Store {
    /// Puts payloads into the destination, all or none. `ids`: one for each, valid for a call
    /// before `end_ms` of Redis's time.
    ///
    /// # Errors
    /// As every call. `QueueFull`.
    pub async fn push(
        &self,
        k: &QueueKeys,
        payloads: Vec<Bytes>,
        ids: Vec<u64>,
        end_ms: u64,
    ) -> Result<Pushed, StoreError> {
        let mut args = Vec::with_capacity(1 + 2 * payloads.len());
        args.push(k.name.clone());
        for (payload, id) in payloads.into_iter().zip(&ids) {
            args.extend([Bytes::copy_from_slice(&id.to_be_bytes()), payload]);
        }
        let within = Within { place: None, end_ms };
        let keys = k.of(&PUSH);
        let mut answer = self.write_within(&PUSH, keys, args, Some(&within)).await?;
        if answer.status == "FAILED" {
            let slot = self.router.slot(&k.timeout);
            return Err(failure(&answer.bytes()?, &self.router, slot));
        }
        let due_ms = answer.count()?;
        let (takes, pending, head) = (answer.int()? == 1, answer.int()? == 1, answer.int()? == 1);
        let score = Score::parse(due_ms.to_string().as_bytes()).unwrap_or(Score::MIN);
        let id = |id: &u64| MessageId { score, id: id.to_be_bytes().to_vec() };
        Ok(Pushed {
            ids: takes.then(|| ids.iter().map(id).collect()),
            pending,
            head_ms: head.then_some(due_ms),
        })
    }
}
