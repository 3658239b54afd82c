//! Cursors as clients see them: opaque text that ends with a seal, so that an invented
//! number, or a cursor of another command or queue, is recognized.
//!
//! Nothing is kept for them: a broker accepts the cursors of all others, however old.

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::store::cursor::Cursor;

/// Hexadecimal digits of a seal.
const SEAL: usize = 8;

/// A cursor's text with its seal. `of`: the command and the queue that it is valid for.
pub fn sealed(of: &[&[u8]], text: &str) -> Bytes {
    Bytes::from(format!("{text}:{}", seal(of, text)))
}

/// The text, if the seal is right.
pub fn opened<'a>(of: &[&[u8]], cursor: &'a [u8]) -> Option<&'a str> {
    let (text, found) = std::str::from_utf8(cursor).ok()?.rsplit_once(':')?;
    (seal(of, text) == found).then_some(text)
}

fn seal(of: &[&[u8]], text: &str) -> String {
    let mut hash = Sha1::new();
    for part in of.iter().copied().chain([text.as_bytes()]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut seal = hex::encode(hash.finalize());
    seal.truncate(SEAL);
    seal
}

/// The cursor of a page of a zset.
pub fn sealed_page(of: &[&[u8]], cursor: &Cursor) -> Bytes {
    sealed(of, &page_text(cursor))
}

/// The same, read.
pub fn opened_page(of: &[&[u8]], text: &[u8]) -> Option<Cursor> {
    page_of(opened(of, text)?)
}

/// The same without a seal.
pub fn page_text(cursor: &Cursor) -> String {
    let (place, Cursor { rank, mark, .. }) = (cursor.place(), cursor);
    format!("{place}:{rank}:{mark}:{}", hex::encode(&cursor.from))
}

pub fn page_of(text: &str) -> Option<Cursor> {
    let mut parts = text.splitn(4, ':');
    let (place, rank, mark, from) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Cursor::new(place.as_bytes(), unhex(from)?, rank.parse().ok()?, mark.to_owned())
}

pub fn unhex(text: &str) -> Option<Bytes> {
    hex::decode(text).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_for_one_thing() {
        let cursor = sealed(&[b"DQ.RANGE", b"q"], "1e+20:5::0aff");
        assert_eq!(opened(&[b"DQ.RANGE", b"q"], &cursor), Some("1e+20:5::0aff"));
        assert_eq!(opened(&[b"DQ.RANGE", b"p"], &cursor), None);
        assert_eq!(opened(&[b"DQ.RANGEq", b""], &cursor), None);
        for other in ["", "0", "77", ":", "1e+20:5::0aff", "1e+20:5::0aff:00000000"] {
            assert_eq!(opened(&[b"DQ.RANGE", b"q"], other.as_bytes()), None, "{other}");
        }
        assert_eq!(unhex(&hex::encode(b"\x00\xffa")), Some(Bytes::from_static(b"\x00\xffa")));
        for text in ["a", "zz", "+1"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
