//! The words of the domain, checked when made and correct ever after: queue names, due times,
//! message ids and names, messages.
//!
//! Knows no Redis, no socket and no command: bytes in, types or the broken rule out. The errors say
//! the rule only; whoever parsed knows which argument it was and shows its value with [`Shown`].

use std::fmt::{self, Display};

use bytes::Bytes;
use regex::bytes::Regex;
use thiserror::Error;

use crate::domain::envelope::Envelope;
use crate::domain::lease::LeaseId;

pub use crate::domain::due::{DUE_LIMIT_MS, DelayError, Due, TimeError, moment, score_bound};
pub use crate::domain::score::{SCORE_END, Score};
pub use crate::domain::text::{Cut, Shown};

/// What a message's id bytes can be at most: the length is one byte in the packed member.
const ID_BYTES_MAX: usize = 255;

/// Names that begin so would collide with the keys of a queue.
const RESERVED: [&[u8]; 2] = [b"redisson_delay_queue", b"delay_broker_"];

/// The name of a queue, which is also the key of its destination list.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Bytes);

impl QueueName {
    pub fn new(raw: &[u8], rules: &QueueRules) -> Result<Self, QueueNameError> {
        rules.check(raw)?;
        Ok(Self(Bytes::copy_from_slice(raw)))
    }

    /// A name read back from Redis, or from checked configuration: the rules are for clients.
    pub fn trusted(raw: Bytes) -> Self {
        Self(raw)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueName({})", Shown(&self.0))
    }
}

impl Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

/// Which queue names clients may use.
#[derive(Clone, Debug)]
pub struct QueueRules {
    pub bytes_max: usize,
    pub pattern: Option<Regex>,
    /// The backing Redis is a Cluster, on which all keys of a queue have to share a slot.
    pub cluster: bool,
}

impl QueueRules {
    pub fn check(&self, raw: &[u8]) -> Result<(), QueueNameError> {
        if raw.is_empty() {
            return Err(QueueNameError::Empty);
        }
        if raw.len() > self.bytes_max {
            return Err(QueueNameError::TooLong(self.bytes_max));
        }
        if RESERVED.iter().any(|prefix| raw.starts_with(prefix)) {
            return Err(QueueNameError::Reserved);
        }
        if self.cluster && !slot_is_shared(raw) {
            return Err(QueueNameError::Slot);
        }
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(raw)) {
            return Err(QueueNameError::Pattern);
        }
        Ok(())
    }
}

/// Redis hashes what is between the first `{` and the next `}`, if that is not empty; otherwise the
/// whole key, which differs between the keys of one queue. A name without `{` stands in braces in
/// them, so that it may have no `}` either.
fn slot_is_shared(raw: &[u8]) -> bool {
    let Some(open) = raw.iter().position(|&b| b == b'{') else {
        return !raw.contains(&b'}');
    };
    let tag = raw.iter().skip(open + 1).position(|&b| b == b'}');
    tag.is_some_and(|length| length > 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueNameError {
    #[error("must not be empty")]
    Empty,
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    #[error("begins with a prefix of the broker's own keys (redisson_delay_queue, delay_broker_)")]
    Reserved,
    #[error("does not match the configured pattern of queue names")]
    Pattern,
    #[error(
        "has braces by which its keys would lie in different slots of the Cluster: the first {{ \
         needs a }} with something in between, and a }} needs a {{ before it"
    )]
    Slot,
}

/// Where a message is found without an index: its score and its id bytes.
///
/// As text `<score>-<hex>`, opaque to clients; it changes when the due time changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    pub score: Score,
    pub id: Vec<u8>,
}

impl MessageId {
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let dash = raw.iter().rposition(|&b| b == b'-')?;
        let (score, digits) = (raw.get(..dash)?, raw.get(dash + 1..)?);
        if digits.len() > 2 * ID_BYTES_MAX {
            return None;
        }
        Some(Self { score: Score::parse(score)?, id: hex::decode(digits).ok()? })
    }
}

impl Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.score, hex::encode(&self.id))
    }
}

/// How a client points at a message: by id, or by the name it chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRef {
    Id(MessageId),
    Name(Bytes),
}

impl MessageRef {
    pub fn parse(raw: &[u8], name_bytes_max: usize) -> Result<Self, BadId> {
        match MessageId::parse(raw) {
            Some(id) => Ok(Self::Id(id)),
            None => Ok(Self::Name(MessageName::new(raw, name_bytes_max)?.0)),
        }
    }

    /// The id of a message that may wait for a retry: it is named with the score 0, since it has
    /// none, as in `0-9d0f3a61c2b84e75`.
    pub fn retry(&self) -> Option<LeaseId> {
        match self {
            Self::Id(MessageId { score, id }) if score.whole_ms() == Some(0) => {
                LeaseId::try_from(&id[..]).ok()
            }
            _ => None,
        }
    }
}

/// A name that a client chose for a message. Never empty, and never one that reads as an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageName(Bytes);

impl MessageName {
    pub fn new(raw: &[u8], bytes_max: usize) -> Result<Self, BadId> {
        Self::check(raw, bytes_max)?;
        Ok(Self(Bytes::copy_from_slice(raw)))
    }

    /// The rules alone, for a caller that goes on with the borrowed bytes.
    pub fn check(raw: &[u8], bytes_max: usize) -> Result<(), BadId> {
        if raw.is_empty() {
            return Err(BadId::Empty);
        }
        if raw.len() > bytes_max {
            return Err(BadId::TooLong(bytes_max));
        }
        if MessageId::parse(raw).is_some() {
            return Err(BadId::LikeAnId);
        }
        Ok(())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadId {
    #[error("must not be empty")]
    Empty,
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    #[error("reads as a message id, so it cannot be a name")]
    LikeAnId,
}

/// What a named offer does about a pending message of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMode {
    /// Replaces it, or is the first.
    Replace,
    /// Stores only if there is none.
    Nx,
    /// Stores only if there is one, which it replaces.
    Xx,
}

/// How a message is packed in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Modern,
    Legacy,
    /// Not a packed member: the payload is the raw member, and there is no id.
    Unreadable,
}

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A pending message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: Option<MessageId>,
    pub name: Option<Bytes>,
    /// The due time: Unix ms, but others may have stored anything.
    pub score: Score,
    pub payload: Bytes,
    /// What was said of it beside the payload.
    pub envelope: Envelope,
    pub format: Format,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::type_complexity)]
mod tests {
    use super::*;

    #[test]
    fn queue_names() {
        let rules = |pattern: Option<&str>, cluster| QueueRules {
            bytes_max: 32,
            pattern: pattern.map(|p| Regex::new(p).unwrap()),
            cluster,
        };
        let (open, strict) = (rules(None, false), rules(Some("^mail:"), true));
        let rows: &[(&QueueRules, &[u8], Result<(), QueueNameError>)] = &[
            (&open, b"mail", Ok(())),
            (&open, b"a\0\xff\r\n", Ok(())),
            (&open, b"{mail", Ok(())),
            (&open, b"", Err(QueueNameError::Empty)),
            (&open, &[b'a'; 32], Ok(())),
            (&open, &[b'a'; 33], Err(QueueNameError::TooLong(32))),
            (&open, b"redisson_delay_queue:{a}", Err(QueueNameError::Reserved)),
            (&open, b"delay_broker_x", Err(QueueNameError::Reserved)),
            (&open, b"my_delay_broker_x", Ok(())),
            (&strict, b"mail:{1}", Ok(())),
            (&strict, b"mail:{1", Err(QueueNameError::Slot)),
            (&strict, b"mail:{}", Err(QueueNameError::Slot)),
            (&strict, b"mail:}{1", Err(QueueNameError::Slot)),
            (&strict, b"mail:}", Err(QueueNameError::Slot)),
            (&strict, b"mail:}{1}", Ok(())),
            (&strict, b"post", Err(QueueNameError::Pattern)),
        ];
        for (rules, raw, wanted) in rows {
            assert_eq!(rules.check(raw), *wanted, "{}", Shown(raw));
        }
    }

    #[test]
    fn messages_that_may_wait_for_a_retry() {
        for (text, waits) in [
            ("0-00000000000000ff", true),
            ("00-00000000000000FF", true),
            ("1-00000000000000ff", false),
            ("0.5-00000000000000ff", false),
            ("0-000000000000ff", false),
            ("0-0000000000000000ff", false),
            ("00000000000000ff", false),
        ] {
            let retry = MessageRef::parse(text.as_bytes(), 64).unwrap().retry();
            assert_eq!(retry, waits.then_some([0, 0, 0, 0, 0, 0, 0, 0xff]), "{text}");
        }
    }

    #[test]
    fn message_references() {
        let long = format!("1-{}", "ab".repeat(256));
        let rows: &[(&str, Option<(&str, &[u8])>)] = &[
            ("1795228205123-01a2", Some(("1795228205123", &[0x01, 0xa2]))),
            ("1795228205123-01A2", Some(("1795228205123", &[0x01, 0xa2]))),
            ("-5-ff", Some(("-5", &[0xff]))),
            ("1.5-ff", Some(("1.5", &[0xff]))),
            ("1e+17-ff", Some(("1e+17", &[0xff]))),
            ("1e-05-ff", Some(("1e-05", &[0xff]))),
            ("inf-ff", Some(("inf", &[0xff]))),
            ("5-", Some(("5", &[]))),
            ("nan-ff", None),
            ("order-ff", None),
            ("-ff", None),
            ("5-f", None),
            ("5-fg", None),
            ("order:42", None),
            (long.as_str(), None),
        ];
        for (raw, wanted) in rows {
            let id = wanted.map(|(score, id)| MessageId {
                score: Score::parse(score.as_bytes()).unwrap(),
                id: id.to_vec(),
            });
            let wanted = match id {
                Some(id) => MessageRef::Id(id),
                None => MessageRef::Name(Bytes::copy_from_slice(raw.as_bytes())),
            };
            assert_eq!(MessageRef::parse(raw.as_bytes(), 1_000), Ok(wanted), "{raw:?}");
        }
        assert_eq!(MessageRef::parse(b"", 8), Err(BadId::Empty));
        assert_eq!(MessageRef::parse(b"ninebytes", 8), Err(BadId::TooLong(8)));
        assert_eq!(MessageName::new(b"5-ff", 8), Err(BadId::LikeAnId));
        let id = MessageId { score: Score::parse(b"5").unwrap(), id: vec![0, 0xab] };
        assert_eq!(id.to_string(), "5-00ab");
    }

    #[test]
    fn shown_is_escaped_and_cut() {
        assert_eq!(Shown(b"a'\r\n\0").to_string(), r"'a\'\r\n\x00'");
        let cut = format!("'{}'... (65 bytes)", "a".repeat(64));
        assert_eq!(Shown(&[b'a'; 65]).to_string(), cut);
        let cut = format!("{}... (129 bytes)", r"\x00".repeat(128));
        assert_eq!(Cut(&[0; 129]).to_string(), cut);
        assert_eq!(Cut(&[b'a'; 128]).to_string(), "a".repeat(128));
    }
}
