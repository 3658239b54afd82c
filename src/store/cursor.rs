//! Where a page of the zset goes on: the cursor of `lua/_page.lua`, opaque but for its ends.

use bytes::Bytes;

use crate::store::answer::Answer;
use crate::store::messages::part_applied;
use crate::store::{StoreError, number};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// As Redis prints it, with `(` in front where all of this score was seen; empty at both ends.
    pub score: String,
    /// The first bytes of the member that comes next.
    pub from: Bytes,
    pub rank: u64,
    /// Empty, or a hash of the member before it.
    pub mark: String,
}

impl Cursor {
    pub fn is_end(&self) -> bool {
        self.score.is_empty()
    }

    pub(super) fn args(&self) -> [Bytes; 4] {
        [
            Bytes::from(self.score.clone()),
            self.from.clone(),
            number(self.rank),
            Bytes::from(self.mark.clone()),
        ]
    }

    pub(super) fn read(answer: &mut Answer) -> Result<Self, StoreError> {
        Ok(Self {
            score: answer.text()?,
            from: answer.bytes()?,
            rank: answer.count()?,
            mark: answer.text()?,
        })
    }
}

/// A cursor of one search, and how often it began anew because its place was lost.
#[derive(Default)]
pub(super) struct Pages {
    pub cursor: Cursor,
    lost: u32,
}

/// Others would have to change members that share 1 KiB between two pages, again and again.
const LOST_MAX: u32 = 16;

impl Pages {
    /// Begins anew. `applied`: messages that the search has changed.
    pub fn lost(&mut self, applied: u64) -> Result<(), StoreError> {
        self.lost += 1;
        if self.lost > LOST_MAX {
            let why = "the queue changes faster than it can be searched; retry";
            return Err(part_applied(StoreError::Unavailable(why.into()), applied));
        }
        self.cursor = Cursor::default();
        Ok(())
    }
}
