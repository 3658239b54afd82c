//! Payloads as the codecs of Redisson's consumers read them: text in, checked or encoded bytes out;
//! and back, for people.
//!
//! A consumer has taken a message before it decodes it, so what its codec cannot read is lost. That
//! is why a payload is checked here before it is stored. Knows no command and no Redis.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use thiserror::Error;

pub mod kryo5;

/// JSON that is nested deeper is refused, because Jackson refuses to read it.
const DEPTH_MAX: usize = 1_000;

/// What becomes of a payload before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Any bytes, as they are.
    #[default]
    Raw,
    /// UTF-8, as it is: StringCodec.
    String,
    /// A whole number of 64 bits, as it is: LongCodec.
    Long,
    /// JSON (RFC 8259), as it is: the Jackson codecs.
    Json,
    /// UTF-8, written as a String of Kryo 5: Redisson's default codec.
    Kryo5,
}

/// The words of commands and settings.
pub const WORDS: [(&str, Encoding); 5] = [
    ("raw", Encoding::Raw),
    ("string", Encoding::String),
    ("long", Encoding::Long),
    ("json", Encoding::Json),
    ("kryo5", Encoding::Kryo5),
];

/// Which rule of its encoding a payload breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodingError {
    #[error("is not UTF-8: byte {0} is the first that is not")]
    Utf8(usize),
    #[error("is not a whole number from {min} to {max}, in digits", min = i64::MIN, max = i64::MAX)]
    Long,
    #[error("is not JSON: {0}")]
    Json(String),
    #[error("is JSON nested deeper than {DEPTH_MAX}, which Jackson does not read")]
    Depth,
}

impl Encoding {
    /// In any case, as options are.
    pub fn parse(word: &[u8]) -> Option<Self> {
        let mut words = WORDS.iter();
        words
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, encoding)| *encoding)
    }

    pub fn word(self) -> &'static str {
        let mut words = WORDS.iter();
        words.find(|(_, one)| *one == self).map_or("", |(word, _)| word)
    }

    /// The bytes to store for what a client gave.
    ///
    /// # Errors
    /// The rule that the payload breaks.
    pub fn encode(self, payload: &[u8]) -> Result<Cow<'_, [u8]>, EncodingError> {
        match self {
            Self::Raw => {}
            Self::String => drop(text(payload)?),
            Self::Long => check_long(payload)?,
            Self::Json => check_json(text(payload)?)?,
            Self::Kryo5 => return Ok(Cow::Owned(kryo5::encode(text(payload)?))),
        }
        Ok(Cow::Borrowed(payload))
    }
}

/// A payload for people, and what it was read as; one that nobody can read stays as it is. Never
/// longer than the payload.
///
/// What is not known is guessed from the bytes alone: a String of Kryo 5 if they are exactly one,
/// JSON if that is a string, an array or an object, other text if it is UTF-8. A JSON string is
/// shown without quotes and escapes.
pub fn decode(payload: &[u8]) -> (Encoding, Cow<'_, [u8]>) {
    if let Some(text) = kryo5::decode(payload) {
        return (Encoding::Kryo5, Cow::Owned(text.into_bytes()));
    }
    let Ok(text) = text(payload) else {
        return (Encoding::Raw, Cow::Borrowed(payload));
    };
    match text.trim_start().as_bytes().first() {
        Some(b'"') => {
            if let Ok(string) = serde_json::from_str::<String>(text) {
                return (Encoding::Json, Cow::Owned(string.into_bytes()));
            }
        }
        Some(b'[' | b'{') if check_json(text).is_ok() => {
            return (Encoding::Json, Cow::Borrowed(payload));
        }
        _ => {}
    }
    (Encoding::String, Cow::Borrowed(payload))
}

fn text(payload: &[u8]) -> Result<&str, EncodingError> {
    std::str::from_utf8(payload).map_err(|error| EncodingError::Utf8(error.valid_up_to()))
}

/// As Java's `Long.valueOf` reads it.
fn check_long(payload: &[u8]) -> Result<(), EncodingError> {
    let number = std::str::from_utf8(payload).ok();
    let number = number.and_then(|digits| digits.parse::<i64>().ok());
    number.map(drop).ok_or(EncodingError::Long)
}

fn check_json(text: &str) -> Result<(), EncodingError> {
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| EncodingError::Json(error.to_string()))?;
    if depth(text) > DEPTH_MAX {
        return Err(EncodingError::Depth);
    }
    Ok(())
}

/// How deep arrays and objects stand in one another, of a text that is JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
