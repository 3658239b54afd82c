//! Sets that note which queues have something that is looked after apart: schedules, streams.
//! A hint: who finds that it is wrong notes it again.

use bytes::Bytes;

use crate::store::delivery::broken;
use crate::store::{Store, StoreError};

/// Names in one page, and in one note.
const PAGE: usize = 500;
/// Names that are read at most.
const QUEUES_MAX: usize = 500_000;

impl Store {
    /// The queues in a set; none if the key holds another type.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn noted(&self, registry: &'static str) -> Result<Vec<Bytes>, StoreError> {
        let start = Bytes::from_static(b"0");
        let (mut cursor, mut names) = (start.clone(), Vec::new());
        loop {
            let page = match self.names_of(registry, cursor, PAGE as u64).await {
                Err(StoreError::WrongType { .. }) => return Ok(names),
                page => page?,
            };
            names.extend(page.found);
            cursor = page.cursor;
            if cursor == start || names.len() >= QUEUES_MAX {
                return Ok(names);
            }
        }
    }

    /// Notes queues that belong into a set, and those that do not any more.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn note(
        &self,
        registry: &'static str,
        more: &[Bytes],
        fewer: &[Bytes],
    ) -> Result<(), StoreError> {
        for (command, names) in [("SADD", more), ("SREM", fewer)] {
            for some in names.chunks(PAGE) {
                let mut args = vec![Bytes::from_static(registry.as_bytes())];
                args.extend_from_slice(some);
                self.command(command, &args).await.map_err(broken)?;
            }
        }
        Ok(())
    }
}
