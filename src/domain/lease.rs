//! Leases: the words of consumers that take messages and settle them, and how often and when a
//! message is tried again.

use std::fmt::{self, Display};

use bytes::Bytes;

/// Bytes of a reason that are kept; `lua/_lease.lua` holds the same number.
pub const REASON_BYTES_MAX: usize = 512;

/// The id of a message that was taken: random, so no counter has to be kept.
pub type LeaseId = [u8; 8];

/// What a taker settles a message by: its id, and the number of the delivery. It is valid until the
/// message is handed out again.
///
/// As text `<16 hexadecimal digits>:<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: LeaseId,
    pub delivery: u64,
}

impl Receipt {
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let colon = raw.iter().position(|&b| b == b':')?;
        let (id, number) = (raw.get(..colon)?, raw.get(colon + 1..)?);
        let is_number = matches!(number, [b'1'..=b'9', ..] if number.len() <= 15)
            && number.iter().all(u8::is_ascii_digit);
        let delivery = std::str::from_utf8(number).ok().filter(|_| is_number)?.parse().ok()?;
        Some(Self { id: parse_id(id)?, delivery })
    }
}

/// The id of a receipt, without its number.
pub fn parse_id(raw: &[u8]) -> Option<LeaseId> {
    let mut id = LeaseId::default();
    hex::decode_to_slice(raw, &mut id).ok()?;
    Some(id)
}

/// The id of a message that is kept: that of a receipt, or of a stream `<id>@<group>`. As scripts
/// have it.
pub fn parse_held_id(raw: &[u8]) -> Option<Bytes> {
    let at = raw.iter().position(|&b| b == b'@').unwrap_or(raw.len());
    let (id, group) = raw.split_at_checked(at)?;
    Some([&parse_id(id)?[..], group.get(1..).unwrap_or_default()].concat().into())
}

/// The same for people.
pub fn held_id(id: &[u8]) -> Bytes {
    match id.split_at_checked(size_of::<LeaseId>()) {
        Some((id, group)) if !group.is_empty() => {
            [hex::encode(id).as_bytes(), b"@", group].concat().into()
        }
        _ => hex::encode(id).into(),
    }
}

impl Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", hex::encode(self.id), self.delivery)
    }
}

/// How a message is given back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nack {
    pub mode: NackMode,
    /// `None`: as the mode says.
    pub delay_ms: Option<u64>,
    /// Kept with the message; at most [`REASON_BYTES_MAX`].
    pub reason: Bytes,
}

/// Whether the attempt of a message that is given back counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NackMode {
    /// The attempt counts.
    Fail,
    /// It does not.
    Silent,
    /// It is the last one.
    Fatal,
    /// The attempt counts, without a wait; only of a message that is leased. No word of clients:
    /// the connection of the lease was closed.
    Tied,
}

impl NackMode {
    /// As clients and scripts have it.
    pub const WORDS: [(Self, &str); 3] =
        [(Self::Fail, "FAIL"), (Self::Silent, "SILENT"), (Self::Fatal, "FATAL")];

    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(mode, _)| *mode == self).map_or("TIED", |(_, word)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts() {
        let id = [0x05, 0x4e, 0xe5, 0x9a, 0x82, 0xcd, 0x60, 0];
        for (text, delivery) in [
            ("054ee59a82cd6000:1", Some(1)),
            ("054EE59A82CD6000:17", Some(17)),
            ("054ee59a82cd6000:999999999999999", Some(999_999_999_999_999)),
            ("054ee59a82cd6000:1000000000000000", None),
            ("054ee59a82cd6000:0", None),
            ("054ee59a82cd6000:01", None),
            ("054ee59a82cd6000:+1", None),
            ("054ee59a82cd6000:1 ", None),
            ("054ee59a82cd6000:", None),
            ("054ee59a82cd6000", None),
            ("054ee59a82cd60:1", None),
            ("054ee59a82cd600000:1", None),
            ("054ee59a82cd600g:1", None),
            (":1", None),
            ("", None),
        ] {
            let receipt = Receipt::parse(text.as_bytes());
            assert_eq!(receipt, delivery.map(|delivery| Receipt { id, delivery }), "{text}");
            let shown = receipt.map(|receipt| receipt.to_string());
            assert_eq!(shown, delivery.map(|_| text.to_ascii_lowercase()), "{text}");
        }
    }
}
