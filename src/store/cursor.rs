//! Where a page of the zset goes on: the cursor of `lua/_page.lua`, opaque but for its ends.

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::domain::queue::Score;
use crate::store::answer::{Answer, misplaced};
use crate::store::messages::part_applied;
use crate::store::{StoreError, number};

/// Bytes of a member that a cursor has at most.
const FROM_MAX: usize = 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// `None` at both ends.
    score: Option<Score>,
    /// All members of this score were seen.
    is_behind: bool,
    /// The first bytes of the member that comes next.
    pub from: Bytes,
    pub rank: u64,
    /// Empty, or a hash of the member before it.
    pub mark: String,
}

impl Cursor {
    pub fn is_end(&self) -> bool {
        self.score.is_none()
    }

    /// `place` as [`Self::place`] writes it; `None` if it is no score.
    pub fn new(place: &[u8], from: Bytes, rank: u64, mark: String) -> Option<Self> {
        let text = place.strip_prefix(b"(").unwrap_or(place);
        let score = Score::parse(text);
        let is_behind = text.len() < place.len();
        (score.is_some() || place.is_empty()).then_some(Self { score, is_behind, from, rank, mark })
    }

    /// The score as scripts and clients have it: `(` in front of it where all of it was seen; empty
    /// at both ends.
    pub fn place(&self) -> String {
        let behind = if self.is_behind { "(" } else { "" };
        self.score.map_or_else(String::new, |score| format!("{behind}{score}"))
    }

    /// The cursor in front of a member that was read at this rank, of this score; `before`: the
    /// member before it, if that has the same score. As `Page.cursor_behind` of `lua/_page.lua`.
    pub fn between(before: Option<&Bytes>, member: &Bytes, score: Score, rank: u64) -> Self {
        let alike = |before: &Bytes| {
            let pairs = before.iter().zip(member.iter()).take(FROM_MAX);
            pairs.take_while(|(one, other)| one == other).count()
        };
        let same = before.map(alike);
        let length = same.map_or(0, |same| (same + 1).min(FROM_MAX)).min(member.len());
        let marked = before.filter(|_| same.is_some_and(|same| same >= FROM_MAX));
        let mark = marked.map_or_else(String::new, |before| hex::encode(Sha1::digest(before)));
        Self { score: Some(score), is_behind: false, from: member.slice(..length), rank, mark }
    }

    pub(super) fn args(&self) -> [Bytes; 4] {
        [
            Bytes::from(self.place()),
            self.from.clone(),
            number(self.rank),
            Bytes::from(self.mark.clone()),
        ]
    }

    pub(super) fn read(answer: &mut Answer) -> Result<Self, StoreError> {
        Self::new(&answer.bytes()?, answer.bytes()?, answer.count()?, answer.text()?)
            .ok_or_else(|| misplaced("cursor"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_front_of_a_member() {
        let (score, long) = (Score::ZERO, "x".repeat(FROM_MAX));
        let longer = format!("{long}y");
        let marked = hex::encode(Sha1::digest(&long));
        let rows: [(Option<&str>, &str, &str, &str); 6] = [
            (None, "abc", "", ""),
            (Some("aac"), "abc", "ab", ""),
            (Some("ab"), "abc", "abc", ""),
            (Some(""), "abc", "a", ""),
            (Some(&long[1..]), &longer, &long, ""),
            (Some(&long), &longer, &long, &marked),
        ];
        for (before, member, from, mark) in rows {
            let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
            let before = before.map(bytes);
            let cursor = Cursor::between(before.as_ref(), &bytes(member), score, 7);
            assert_eq!((cursor.from, cursor.rank, &cursor.mark[..]), (bytes(from), 7, mark));
        }
    }

    /// Each row: a place as scripts or clients have it, and as it is written; `None`: it is none.
    #[test]
    fn places() {
        for (place, written) in [
            ("", Some("")),
            ("4102444800000", Some("4102444800000")),
            ("(4102444800000", Some("(4102444800000")),
            ("(-inf", Some("(-inf")),
            // From a Redis that writes the score differently.
            ("(0.1", Some("(0.10000000000000001")),
            ("(", None),
            ("((5", None),
            ("nan", None),
            ("x", None),
        ] {
            let cursor = Cursor::new(place.as_bytes(), Bytes::new(), 0, String::new());
            assert_eq!(cursor.as_ref().map(Cursor::place).as_deref(), written, "{place}");
            let is_end = written.map(str::is_empty);
            assert_eq!(cursor.map(|cursor| cursor.is_end()), is_end, "{place}");
        }
    }
}
