//! A message as it stands in the zset and the list: packed as Redisson packs it.
//!
//! ```text
//! modern (Bc0Lc0)  1 byte id length (8) | 8 id bytes | 8 bytes length, little-endian | payload
//! legacy (dLc0)                           8 id bytes | 8 bytes length, little-endian | payload
//! ```
//!
//! Told apart by exact length; `lua/_member.lua` holds the same rule for the scripts. New members
//! are packed as modern; a queue that is recorded as legacy drops the first byte in the script.

use bytes::Bytes;

use crate::domain::envelope::Envelope;
use crate::domain::queue::{Format, Message, MessageId, Score};

/// Bytes of a member besides its payload.
pub const OVERHEAD: usize = 17;

/// Appends the packed modern member of (`id`, `payload`).
pub fn pack(out: &mut Vec<u8>, id: u64, payload: &[u8]) {
    out.push(8);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(payload);
}

/// A member taken apart: where its id and payload stand.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    pub id: std::ops::Range<usize>,
    pub payload: std::ops::Range<usize>,
    pub format: Format,
}

/// Reads a member; `None` if it is neither format. One that fits both with an id length of 7 has
/// the same payload in both readings and counts as legacy; any other that fits both is modern, as
/// today's Redisson reads it.
pub fn read(member: &[u8]) -> Option<Parts> {
    let legacy = length_at(member, 8).is_some_and(|length| length == member.len() - 16);
    let id_length = usize::from(*member.first()?);
    let modern = length_at(member, 1 + id_length)
        .is_some_and(|length| length == member.len() - id_length - 9);
    match (modern, legacy) {
        (true, fits_both) if !(fits_both && id_length == 7) => Some(Parts {
            id: 1..1 + id_length,
            payload: 9 + id_length..member.len(),
            format: Format::Modern,
        }),
        (_, true) => Some(Parts { id: 0..8, payload: 16..member.len(), format: Format::Legacy }),
        _ => None,
    }
}

/// The length field at `offset`; `None` if the member ends before its end.
fn length_at(member: &[u8], offset: usize) -> Option<usize> {
    let field = member.get(offset..offset + 8)?;
    let length = u64::from_le_bytes(field.try_into().ok()?);
    usize::try_from(length).ok()
}

/// A message as commands show it.
pub fn message(member: Bytes, score: Score, name: Bytes) -> Message {
    let name = (!name.is_empty()).then_some(name);
    match read(&member) {
        Some(parts) => {
            let id = member.get(parts.id).unwrap_or_default().to_vec();
            let id = Some(MessageId { score, id });
            let (envelope, payload) = Envelope::open(&member.slice(parts.payload));
            let envelope = envelope.unwrap_or_default();
            Message { id, name, score, payload, envelope, format: parts.format }
        }
        None => {
            let (envelope, format) = (Envelope::default(), Format::Unreadable);
            Message { id: None, name, score, payload: member, envelope, format }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn reads_what_redisson_wrote() {
        let rows: &[(&str, Option<(&str, &str, Format)>)] = &[
            (
                "08 a0a1a2a3a4a5a6a7 0500000000000000 68656c6c6f",
                Some(("a0a1a2a3a4a5a6a7", "68656c6c6f", Format::Modern)),
            ),
            (
                "81e97df41022b143 0500000000000000 68656c6c6f",
                Some(("81e97df41022b143", "68656c6c6f", Format::Legacy)),
            ),
            // Any id length is read: 0 and 1 here.
            ("00 0100000000000000 61", Some(("", "61", Format::Modern))),
            ("01 ff 0100000000000000 61", Some(("ff", "61", Format::Modern))),
            // An old member whose first byte is 07 fits both: the same payload, and legacy.
            (
                "07e97df41022b143 0100000000000000 61",
                Some(("07e97df41022b143", "61", Format::Legacy)),
            ),
            // An empty payload behind an id that ends in 01 fits both too: modern, not a zero byte.
            (
                "08 a0a1a2a3a4a5a601 0000000000000000",
                Some(("a0a1a2a3a4a5a601", "", Format::Modern)),
            ),
            ("", None),
            ("08", None),
            ("08 a0a1a2a3a4a5a6a7 0500000000000000 68656c6c", None),
            ("08 a0a1a2a3a4a5a6a7 0500000000000000 68656c6c6f6f", None),
            ("81e97df41022b143 ffffffffffffffff 68656c6c6f", None),
        ];
        for (member, expected) in rows {
            let member = hex(member);
            let found = read(&member).map(|parts| {
                (member[parts.id].to_vec(), member[parts.payload].to_vec(), parts.format)
            });
            let expected = expected.map(|(id, payload, format)| (hex(id), hex(payload), format));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn packs_what_it_reads() {
        let mut member = Vec::new();
        pack(&mut member, 0xa0a1_a2a3_a4a5_a6a7, b"hello");
        assert_eq!(member, hex("08 a0a1a2a3a4a5a6a7 0500000000000000 68656c6c6f"));
    }
}
