//! The envelope of a payload: what is said of a message beside its payload.
//!
//! ```text
//! 00 44 51 01 | size (4, little-endian) | msgpack map of this size | payload
//! ```
//!
//! `lua/_envelope.lua` has the keys of the map, and the same rules for the scripts. Strings are
//! `str`, since the scripts know no `bin`. Whatever does not fit the rules is no envelope, but a
//! payload that begins so; [`wraps`] says which payloads have to be stored in an empty one.

use std::borrow::Cow;

use bytes::Bytes;
use rmp::Marker;

const MAGIC: [u8; 4] = *b"\0DQ\x01";
/// Bytes before the map.
const HEAD: usize = 8;
/// Bytes of the map.
const BYTES_MAX: usize = 16_384;
/// Bytes of a whole envelope, without the payload.
pub const OVERHEAD_MAX: usize = HEAD + BYTES_MAX;
/// Headers of a message: no setting allows more.
pub const HEADERS_MAX: u64 = 128;
/// Bytes of their names and values together: no setting allows more, so that the map never has more
/// than `BYTES_MAX`.
pub const HEADERS_BYTES_MAX: u64 = 8_192;
/// Numbers in it are at most this: beyond, Lua's are not exact.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;

/// What is said of a message. What is `None` or empty is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub id: Option<[u8; 8]>,
    /// Name, value; in the order of the offer.
    pub headers: Vec<(Bytes, Bytes)>,
    /// 0 to 9; `None`: 0.
    pub priority: Option<u64>,
    /// From the due time on.
    pub ttl_ms: Option<u64>,
    /// Unix ms.
    pub expires_ms: Option<u64>,
    /// Deliveries that count, then it is dead; 0: none.
    pub limit: Option<u64>,
    /// Held until the message is done.
    pub name: Option<Bytes>,
}

/// What an envelope has that not every destination does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    #[default]
    Nothing,
    /// Headers, a TTL or a limit.
    More,
    Priority,
}

/// True if a payload would be taken for an envelope, so that it needs one.
pub fn wraps(payload: &[u8]) -> bool {
    payload.starts_with(&MAGIC)
}

impl Envelope {
    pub fn carries(&self) -> Carries {
        match self.priority {
            Some(_) => Carries::Priority,
            None if *self == Self::default() => Carries::Nothing,
            None => Carries::More,
        }
    }

    /// A payload as it is stored: in this envelope, if there is anything in it, or if the payload
    /// needs one.
    pub fn around<'a>(&self, payload: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.carries() == Carries::Nothing && !wraps(&payload) {
            return payload;
        }
        let mut stored = Vec::with_capacity(payload.len() + 64);
        self.pack(&mut stored);
        stored.extend_from_slice(&payload);
        Cow::Owned(stored)
    }

    /// Appends the envelope; the payload follows it.
    pub fn pack(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        let numbers =
            [("p", self.priority), ("t", self.ttl_ms), ("x", self.expires_ms), ("l", self.limit)];
        let strings = [
            ("i", self.id.as_ref().map(|id| &id[..])),
            ("n", self.name.as_ref().map(|name| &name[..])),
        ];
        let count = numbers.iter().filter(|(_, value)| value.is_some()).count()
            + strings.iter().filter(|(_, value)| value.is_some()).count()
            + usize::from(!self.headers.is_empty());
        // Writing to a Vec cannot fail.
        let _ = rmp::encode::write_map_len(out, count as u32);
        for (key, value) in strings {
            if let Some(value) = value {
                string(out, key.as_bytes());
                string(out, value);
            }
        }
        for (key, value) in numbers {
            if let Some(value) = value {
                string(out, key.as_bytes());
                let _ = rmp::encode::write_uint(out, value);
            }
        }
        if !self.headers.is_empty() {
            string(out, b"h");
            let _ = rmp::encode::write_array_len(out, 2 * self.headers.len() as u32);
            for (name, value) in &self.headers {
                string(out, name);
                string(out, value);
            }
        }
        let size = (out.len() - start - HEAD) as u32;
        if let Some(field) = out.get_mut(start + MAGIC.len()..start + HEAD) {
            field.copy_from_slice(&size.to_le_bytes());
        }
    }

    /// A stored payload: its envelope, if it has one, and what is in it.
    pub fn open(stored: &Bytes) -> (Option<Self>, Bytes) {
        let opened = || {
            let rest = stored.strip_prefix(&MAGIC)?;
            let (size, rest) = rest.split_first_chunk()?;
            let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
            if size > BYTES_MAX || size > rest.len() {
                return None;
            }
            let map = stored.slice(HEAD..HEAD + size);
            Some((Self::read(map)?, stored.slice(HEAD + size..)))
        };
        match opened() {
            Some((envelope, payload)) => (Some(envelope), payload),
            None => (None, stored.clone()),
        }
    }

    /// A map that is read to its last byte; `None` where it breaks a rule.
    fn read(map: Bytes) -> Option<Self> {
        let mut reader = Reader(map);
        let mut envelope = Self::default();
        for _ in 0..reader.map_len()? {
            match &reader.string()?[..] {
                b"i" => envelope.id = Some(reader.string()?[..].try_into().ok()?),
                b"h" => {
                    let count = reader.array_len()?;
                    if count == 0 || !count.is_multiple_of(2) {
                        return None;
                    }
                    // A claimed length reserves nothing.
                    envelope.headers.clear();
                    for _ in 0..count / 2 {
                        envelope.headers.push((reader.string()?, reader.string()?));
                    }
                }
                b"p" => envelope.priority = Some(reader.number()?),
                b"t" => envelope.ttl_ms = Some(reader.number()?),
                b"x" => envelope.expires_ms = Some(reader.number()?),
                b"l" => envelope.limit = Some(reader.number()?),
                b"n" => envelope.name = Some(reader.string()?),
                _ => return None,
            }
        }
        reader.0.is_empty().then_some(envelope)
    }
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let _ = rmp::encode::write_str_len(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Reads msgpack from front to back; `None` for anything else than what is asked for.
struct Reader(Bytes);

impl Reader {
    fn with<T, E>(&mut self, read: impl FnOnce(&mut &[u8]) -> Result<T, E>) -> Option<T> {
        let mut left = &self.0[..];
        let value = read(&mut left).ok()?;
        let used = self.0.len() - left.len();
        let _ = self.0.split_to(used);
        Some(value)
    }

    fn map_len(&mut self) -> Option<u32> {
        // The scripts pack an empty table as an array.
        if self.0.first().copied().map(Marker::from_u8) == Some(Marker::FixArray(0)) {
            return self.array_len();
        }
        self.with(|left| rmp::decode::read_map_len(left))
    }

    fn array_len(&mut self) -> Option<u32> {
        self.with(|left| rmp::decode::read_array_len(left))
    }

    fn string(&mut self) -> Option<Bytes> {
        let size = self.with(|left| rmp::decode::read_str_len(left))?;
        let size = usize::try_from(size).ok()?;
        (size <= self.0.len()).then(|| self.0.split_to(size))
    }

    fn number(&mut self) -> Option<u64> {
        let value: u64 = self.with(|left| rmp::decode::read_int(left))?;
        (value <= NUMBER_MAX).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Envelope {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        Envelope {
            id: Some([1, 2, 3, 4, 5, 6, 7, 8]),
            headers: vec![(text("a"), text("")), (text("a"), text("\0\r\n"))],
            priority: Some(9),
            ttl_ms: Some(86_400_000),
            expires_ms: Some(1_800_000_000_000),
            limit: Some(0),
            name: Some(text("n")),
        }
    }

    #[test]
    fn opens_what_it_packs() {
        for envelope in [Envelope::default(), full()] {
            for payload in [&b""[..], b"\0DQ\x01", b"p", &[0xff; 70_000]] {
                let mut stored = Vec::new();
                envelope.pack(&mut stored);
                assert!(wraps(&stored));
                stored.extend_from_slice(payload);
                let opened = Envelope::open(&Bytes::from(stored));
                assert_eq!(opened, (Some(envelope.clone()), Bytes::copy_from_slice(payload)));
            }
        }
    }

    /// What is cut, changed or goes on is a payload, and none of it a panic.
    #[test]
    fn anything_else_is_a_payload() {
        let mut stored = Vec::new();
        full().pack(&mut stored);
        for size in 0..stored.len() {
            let cut = Bytes::copy_from_slice(stored.get(..size).unwrap());
            assert_eq!(Envelope::open(&cut), (None, cut));
        }
        for (map, is_one) in [
            (&b"\x80"[..], true),
            (b"\x90", true),
            (b"\x80\x80", false),
            (b"\x81\xa1z\x01", false),
            (b"\x81\xa1i\xa7abcdefg", false),
            (b"\x81\xa1i\xa8abcdefgh", true),
            (b"\x81\xa1p\xff", false),
            (b"\x81\xa1p\xa11", false),
            (b"\x81\xa1p\xcb\x3f\xf0\0\0\0\0\0\0", false),
            (b"\x81\xa1x\xcf\xff\xff\xff\xff\xff\xff\xff\xff", false),
            (b"\x81\xa1h\x90", false),
            (b"\x81\xa1h\x91\xa1a", false),
            (b"\x81\xa1h\x92\xa1a\x01", false),
            (b"\x81\xa1h\x92\xa1a\xa1b", true),
            (b"\x81\xa1h\xdd\xff\xff\xff\xfe", false),
            (b"\xdf\xff\xff\xff\xff", false),
            (b"\xc0", false),
            (b"", false),
        ] {
            let mut stored = MAGIC.to_vec();
            stored.extend_from_slice(&(map.len() as u32).to_le_bytes());
            stored.extend_from_slice(map);
            stored.extend_from_slice(b"p");
            let stored = Bytes::from(stored);
            let payload = if is_one { Bytes::from_static(b"p") } else { stored.clone() };
            let (envelope, found) = Envelope::open(&stored);
            assert_eq!((envelope.is_some(), found), (is_one, payload), "{map:?}");
        }
    }
}
