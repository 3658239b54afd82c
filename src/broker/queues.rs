//! The queues that this broker knows, in pages, with their state in Redis.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, cursor};
use crate::domain::glob;
use crate::domain::queue::Score;
use crate::scheduler::queue_loop::Moment;
use crate::store::StoreError;
use crate::store::delivery::Stats;
use crate::store::keys;

/// Known queues that DQ.QUEUES looks at in one step.
const PAGE: usize = 500;
/// To match a pattern takes its length times that of a name, at most; after so many steps others
/// have their turn.
const STEPS_MAX: usize = 1 << 20;

/// A row of DQ.QUEUES.
#[derive(Clone, Debug)]
pub struct QueueRow {
    pub name: Bytes,
    pub stats: Stats,
    /// How long the head has been due, if it is.
    pub overdue_ms: u64,
}

impl Broker {
    /// A page of the queues that this broker knows, in the order of their keys, and the cursor of
    /// the next, if there is one. `pattern`: those that match it; `within`: those that match one of
    /// these as well.
    pub async fn queues(
        &self,
        pattern: Option<Bytes>,
        within: Option<Rc<[Bytes]>>,
        cursor: Option<Bytes>,
        count: usize,
    ) -> Result<(Option<Bytes>, Vec<QueueRow>), StoreError> {
        let opened = |cursor: &Bytes| cursor::unhex(cursor::opened(&[b"DQ.QUEUES"], cursor)?);
        let mut after = match cursor {
            None => Bytes::new(),
            Some(cursor) => opened(&cursor).ok_or(StoreError::BadCursor)?,
        };
        let mut names = Vec::new();
        let mut next = None;
        // Bounded by one step through the queues that are known.
        loop {
            let page = self.host.schedule().page(&after, PAGE);
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            let mut steps = 0;
            for (suffix, name) in page {
                let (pattern, within) = (pattern.as_deref(), within.as_deref());
                if pattern.is_none_or(|pattern| glob::matches(pattern, &name))
                    && within.is_none_or(|within| glob::any_matches(within, &name))
                {
                    names.push((suffix, name.clone()));
                }
                let patterns = within.into_iter().flatten().map(Bytes::len).sum::<usize>();
                steps += (pattern.map_or(0, <[u8]>::len) + patterns) * name.len();
                if steps >= STEPS_MAX {
                    steps = 0;
                    self.turns.next().await;
                }
            }
            self.turns.next().await;
            if names.len() > count {
                names.truncate(count);
                let sealed = |suffix| cursor::sealed(&[b"DQ.QUEUES"], &hex::encode(suffix));
                next = names.last().map(|(suffix, _)| sealed(suffix));
                break;
            }
        }
        let names: Vec<Bytes> = names.into_iter().map(|(_, name)| name).collect();
        let stats = self.store.stats(&self.with_heads(&names)).await?;
        let row = |(name, stats): (Bytes, Stats)| {
            let overdue_ms = overdue_ms(stats.next_due, stats.now_ms);
            QueueRow { name, stats, overdue_ms }
        };
        Ok((next, names.into_iter().zip(stats).map(row).collect()))
    }

    /// How many queues are served.
    pub fn queues_known(&self) -> usize {
        self.host.schedule().served()
    }

    /// Each with the moment at which its head is due, as far as is known.
    pub(super) fn with_heads(&self, names: &[Bytes]) -> Vec<(Bytes, Option<Moment>)> {
        let head = |name: &Bytes| self.host.schedule().head(&keys::suffix_of(name));
        names.iter().map(|name| (name.clone(), head(name))).collect()
    }
}

/// How long a head has been due; 0 where its score is no time, since nobody knows then.
pub(super) fn overdue_ms(next_due: Option<Score>, now_ms: u64) -> u64 {
    let due = next_due.map(Score::moment).filter(|due| *due > 0);
    due.map_or(0, |due| now_ms.saturating_sub(due))
}
