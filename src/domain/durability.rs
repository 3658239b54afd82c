//! How far a message is stored when its offer is answered. Knows no Redis.

use std::fmt::{self, Display};

/// The most replicas that an offer can wait for.
pub const REPLICAS_MAX: u8 = 16;

/// What an offer waits for, beside Redis having the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The disk of Redis has it.
    Fsync,
    /// So many replicas have it.
    Replicas(u8),
}

impl Durability {
    /// Of a word, in any case, and of the number behind it: of the same text, or of the next one,
    /// which is taken only where it is needed. `None` = nothing more.
    ///
    /// # Errors
    /// The rule that they break, as the end of a sentence.
    pub fn parse<'a>(
        text: &'a [u8],
        next: impl FnOnce() -> Option<&'a [u8]>,
    ) -> Result<Option<Self>, String> {
        if text.eq_ignore_ascii_case(b"none") {
            return Ok(None);
        }
        if text.eq_ignore_ascii_case(b"fsync") {
            return Ok(Some(Self::Fsync));
        }
        let (word, own) = text.split_at_checked(WORD.len()).unwrap_or((text, b""));
        if !word.eq_ignore_ascii_case(WORD) || !matches!(own.first(), None | Some(b' ')) {
            return Err("must be fsync, none, or replicas and their number".to_owned());
        }
        let number = if own.is_empty() { next() } else { own.get(1..) };
        let number = number.and_then(|raw| std::str::from_utf8(raw).ok());
        let number = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()) {
            Some(number @ 1..=REPLICAS_MAX) => Ok(Some(Self::Replicas(number))),
            _ => Err(format!("needs a whole number from 1 to {REPLICAS_MAX} behind it")),
        }
    }
}

const WORD: &[u8] = b"replicas";

impl Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fsync => f.write_str("fsync"),
            Self::Replicas(number) => write!(f, "replicas {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let rows: [(&str, Result<Option<Durability>, &str>); 14] = [
            ("none", Ok(None)),
            ("fsync", Ok(Some(Durability::Fsync))),
            ("FSync", Ok(Some(Durability::Fsync))),
            ("replicas 1", Ok(Some(Durability::Replicas(1)))),
            ("Replicas 16", Ok(Some(Durability::Replicas(16)))),
            ("replicas 17", Err("needs a whole number from 1 to 16")),
            ("replicas 0", Err("needs a whole number from 1 to 16")),
            ("replicas +1", Err("needs a whole number from 1 to 16")),
            ("replicas", Err("needs a whole number from 1 to 16")),
            ("replicas 1 2", Err("needs a whole number from 1 to 16")),
            ("replicasx 1", Err("must be fsync, none, or replicas")),
            ("replica", Err("must be fsync, none, or replicas")),
            ("fsync 1", Err("must be fsync, none, or replicas")),
            ("", Err("must be fsync, none, or replicas")),
        ];
        for (text, wanted) in rows {
            match (Durability::parse(text.as_bytes(), || None), wanted) {
                (Ok(said), Ok(wanted)) => {
                    assert_eq!(said, wanted, "{text}");
                    let shown = said.map(|said| said.to_string());
                    let shown = shown.as_deref().unwrap_or("none");
                    let again = Durability::parse(shown.as_bytes(), || None);
                    assert_eq!(again, Ok(said), "{text}");
                }
                (Err(rule), Err(wanted)) => assert!(rule.starts_with(wanted), "{text}: {rule}"),
                (said, _) => panic!("{text}: {said:?}"),
            }
        }
    }
}
