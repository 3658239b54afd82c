//! Text from outside made fit for a line: escaped and cut. Versions of Redis.

use std::fmt::{self, Display};

/// Bytes of a client made fit for a message: escaped, and cut after 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

/// A name or a key, as a field of the log: escaped, and cut after 128 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a>(pub &'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cut, more) = cut(self.0, 64);
        write!(f, "'{}'{more}", cut.escape_ascii())
    }
}

impl Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cut, more) = cut(self.0, 128);
        write!(f, "{}{more}", cut.escape_ascii())
    }
}

/// What is shown, and what stands behind it where that is not all.
fn cut(bytes: &[u8], max: usize) -> (&[u8], String) {
    match bytes.get(..max) {
        Some(cut) if cut.len() < bytes.len() => (cut, format!("... ({} bytes)", bytes.len())),
        _ => (bytes, String::new()),
    }
}

/// The bytes of a text in which a % and two hexadecimal digits stand for one; none where a % stands
/// for nothing.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(hex::decode(digits).ok()?);
        bytes.extend(rest.as_bytes());
    }
    Some(bytes)
}

/// Text from outside as one line: what is not printable is escaped.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\'' | '"' => line.push(letter),
            _ => line.extend(letter.escape_debug()),
        }
    }
    line
}

/// Major and minor number of `7.0.15`. Valkey says there which Redis it is like.
pub fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
