//! A String as Redisson's default codec (Kryo5Codec) writes and reads it: the bytes of Kryo 5.
//!
//! ```text
//! 03                          the class: String
//! then one of
//!   chars                     2 to 32 ASCII characters, bit 7 set on the last
//!   flag-varint, chars        length in UTF-16 units plus 1; each unit in UTF-8 (surrogates alone)
//! ```
//!
//! A flag-varint begins with a byte of bit 7 (set), bit 6 (more follows) and six bits of value;
//! bytes of seven bits follow, low ones first. Writes what Kryo writes, to the byte: Redisson's
//! `remove` and `contains` compare bytes. Reads whatever Kryo reads as one text and nothing behind.

const CLASS: u8 = 0x03;

/// Lengths that Kryo writes without one, if all is ASCII.
const BARE: std::ops::RangeInclusive<usize> = 2..=32;

pub fn encode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 2 + 7);
    out.push(CLASS);
    if text.is_ascii() && BARE.contains(&text.len()) {
        out.extend_from_slice(text.as_bytes());
        if let Some(last) = out.last_mut() {
            *last |= 0x80;
        }
        return out;
    }
    flag_varint(&mut out, text.encode_utf16().count() + 1);
    for c in text.chars() {
        let mut units = [0; 2];
        match c.encode_utf16(&mut units) {
            [high, low] => [*high, *low].iter().for_each(|&unit| three(&mut out, unit)),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// The text, if the bytes are one String of Kryo's.
pub fn decode(bytes: &[u8]) -> Option<String> {
    let (&CLASS, rest) = bytes.split_first()? else {
        return None;
    };
    let (first, behind) = rest.split_first()?;
    if first & 0x80 == 0 {
        let (last, front) = rest.split_last()?;
        let ends_there = last & 0x80 != 0 && front.is_ascii();
        let text = front.iter().copied().chain([last & 0x7f]).collect();
        return ends_there.then(|| String::from_utf8(text).ok()).flatten();
    }
    let (length, chars) = read_varint(*first, behind)?;
    // 0 is null, which is no text.
    let (length, mut rest) = (length.checked_sub(1)?, chars);
    // Each unit takes a byte at least, so what is announced cannot cost more than what is there.
    let mut units = Vec::with_capacity(length.min(rest.len()));
    while units.len() < length {
        let (unit, size) = match *rest {
            [a, ..] if a < 0x80 => (u16::from(a), 1),
            [a, b, ..] if a >> 5 == 0b110 => (u16::from(a & 0x1f) << 6 | low(b)?, 2),
            [a, b, c, ..] if a >> 4 == 0b1110 => {
                (u16::from(a & 0x0f) << 12 | low(b)? << 6 | low(c)?, 3)
            }
            _ => return None,
        };
        units.push(unit);
        rest = rest.get(size..)?;
    }
    rest.is_empty().then(|| String::from_utf16(&units).ok()).flatten()
}

/// A UTF-16 unit in the three bytes of UTF-8.
fn three(out: &mut Vec<u8>, unit: u16) {
    let bits = |shift: u32, mask: u16| ((unit >> shift) & mask) as u8;
    out.extend([0xe0 | bits(12, 0x0f), 0x80 | bits(6, 0x3f), 0x80 | bits(0, 0x3f)]);
}

/// The six bits of a byte that goes on with a character.
fn low(byte: u8) -> Option<u16> {
    (byte >> 6 == 0b10).then(|| u16::from(byte & 0x3f))
}

fn flag_varint(out: &mut Vec<u8>, value: usize) {
    let more = if value >= 0x40 { 0x40 } else { 0 };
    out.push(0x80 | more | (value & 0x3f) as u8);
    let mut rest = value >> 6;
    while rest > 0 {
        let more = if rest >= 0x80 { 0x80 } else { 0 };
        out.push(more | (rest & 0x7f) as u8);
        rest >>= 7;
    }
}

/// The value that begins with `first`, and what follows it. Kryo reads five bytes at most.
fn read_varint(first: u8, rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = usize::from(first & 0x3f);
    if first & 0x40 == 0 {
        return Some((value, rest));
    }
    for (at, byte) in rest.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (6 + 7 * at);
        if byte & 0x80 == 0 {
            return Some((value, rest.get(at + 1..)?));
        }
    }
    None
}
