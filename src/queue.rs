//! The words of the domain, checked when made and correct ever after: queue names, due times,
//! message ids and names, messages.
//!
//! Knows no Redis, no socket and no command: bytes in, types or the broken rule out. The errors say
//! the rule only; whoever parsed knows which argument it was and shows its value with [`Shown`].

use std::fmt::{self, Display};

use bytes::Bytes;
use regex::bytes::Regex;
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Due times lie below this: Redis scores are doubles, and beyond it Redisson's clients read
/// exponents.
pub const DUE_LIMIT_MS: u64 = 1_000_000_000_000_000;

/// A score as text has at most this many bytes (Redis prints up to 17 digits, sign and exponent).
const SCORE_BYTES_MAX: usize = 40;

/// What a message's id bytes can be at most: the length is one byte in the packed member.
const ID_BYTES_MAX: usize = 255;

/// Names that begin so would collide with the keys of a queue.
const RESERVED: [&[u8]; 2] = [b"redisson_delay_queue", b"delay_broker_"];

/// Bytes of a client made fit for a message: escaped, and cut after 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 64;
        let cut = self.0.get(..MAX).unwrap_or(self.0);
        write!(f, "'{}'", cut.escape_ascii())?;
        if cut.len() < self.0.len() {
            write!(f, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

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
    /// On a Cluster the keys of a name with `{` but no `}` would lie in different slots.
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
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.is_match(raw))
        {
            return Err(QueueNameError::Pattern);
        }
        Ok(())
    }
}

/// Redis hashes what is between the first `{` and the next `}`, if that is not empty; otherwise the
/// whole key, which differs between the keys of one queue.
fn slot_is_shared(raw: &[u8]) -> bool {
    let Some(open) = raw.iter().position(|&b| b == b'{') else {
        return true;
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
    #[error("has a {{ without a }} after it, so its keys would lie in different slots")]
    Slot,
}

/// When a message becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Milliseconds from the moment of storing.
    In(u64),
    /// Unix milliseconds, below [`DUE_LIMIT_MS`]; in the past means now.
    At(u64),
}

/// Units of a delay, large to small, with their milliseconds.
const UNITS: [(&[u8], u64); 5] = [
    (b"d", 86_400_000),
    (b"h", 3_600_000),
    (b"m", 60_000),
    (b"s", 1_000),
    (b"ms", 1),
];

impl Due {
    /// `1500`, `250ms`, `30s`, `15m`, `2h`, `7d`, `1h30m`: whole milliseconds, or numbers with
    /// units from large to small, each at most once.
    pub fn parse_delay(raw: &[u8], delay_max_ms: u64) -> Result<Self, DelayError> {
        match raw.first() {
            None => return Err(DelayError::Empty),
            Some(b'-') => return Err(DelayError::Negative),
            Some(_) => {}
        }
        if raw.iter().any(|&b| b == b'.' || b == b',') {
            return Err(DelayError::Fraction);
        }
        let ms = if raw.iter().all(u8::is_ascii_digit) {
            digits(raw).0
        } else {
            with_units(raw)?
        };
        if ms > delay_max_ms {
            return Err(DelayError::TooLong(delay_max_ms));
        }
        Ok(Self::In(ms))
    }

    /// Unix milliseconds, or RFC 3339 (rounded up to a millisecond: never early).
    pub fn parse_at(raw: &[u8]) -> Result<Self, TimeError> {
        let (past, number) = match raw.split_first() {
            None => return Err(TimeError::Empty),
            Some((b'-', number)) => (true, number),
            Some(_) => (false, raw),
        };
        if !number.is_empty() && number.iter().all(u8::is_ascii_digit) {
            return match digits(number).0 {
                _ if past => Ok(Self::At(0)),
                ms if ms < DUE_LIMIT_MS => Ok(Self::At(ms)),
                _ => Err(TimeError::TooFar),
            };
        }
        let text = std::str::from_utf8(raw).map_err(|_| TimeError::Form)?;
        let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimeError::Form)?;
        let ms = (moment.unix_timestamp_nanos() + 999_999).div_euclid(1_000_000);
        Ok(Self::At(u64::try_from(ms).unwrap_or(0)))
    }

    /// The due time in Unix ms of what was stored at `now_ms` of Redis's clock.
    pub fn ms(self, now_ms: u64) -> u64 {
        match self {
            Self::In(delay_ms) => now_ms + delay_ms,
            Self::At(ms) => ms.max(now_ms),
        }
    }

    /// One integer for the scripts: a delay as it is, a moment negated.
    pub fn packed(self) -> i64 {
        match self {
            Self::In(ms) => i64::try_from(ms).unwrap_or(i64::MAX),
            Self::At(ms) => -i64::try_from(ms.max(1)).unwrap_or(i64::MAX),
        }
    }
}

/// An end of a range of due times as a score: `-` and `+` for no end, Unix milliseconds (negative
/// or fractional too, as scores of others are), or RFC 3339 (to its last digit).
pub fn score_bound(raw: &[u8]) -> Result<String, TimeError> {
    let text = match raw {
        b"" => return Err(TimeError::Empty),
        b"-" => return Ok("-inf".to_owned()),
        b"+" => return Ok("+inf".to_owned()),
        _ => std::str::from_utf8(raw).map_err(|_| TimeError::Form)?,
    };
    let number = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if all_digits(whole) && all_digits(fraction) {
        let fits = text.len() <= SCORE_BYTES_MAX;
        return fits.then(|| text.to_owned()).ok_or(TimeError::TooFar);
    }
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimeError::Form)?;
    let ns = moment.unix_timestamp_nanos();
    let sign = if ns < 0 { "-" } else { "" };
    let (ms, rest) = (ns.unsigned_abs() / 1_000_000, ns.unsigned_abs() % 1_000_000);
    Ok(match rest {
        0 => format!("{sign}{ms}"),
        _ => format!("{sign}{ms}.{rest:06}"),
    })
}

/// The number that `raw` begins with (too large becomes the largest), and how many bytes it took.
fn digits(raw: &[u8]) -> (u64, usize) {
    let taken = raw.iter().take_while(|b| b.is_ascii_digit());
    taken.fold((0_u64, 0), |(number, used), &b| {
        (
            number
                .saturating_mul(10)
                .saturating_add(u64::from(b - b'0')),
            used + 1,
        )
    })
}

fn with_units(raw: &[u8]) -> Result<u64, DelayError> {
    let mut rest = raw;
    let mut smaller = UNITS.iter();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, used) = digits(rest);
        let tail = rest.get(used..).unwrap_or_default();
        let letters = tail.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let (unit, tail) = tail.split_at_checked(letters).ok_or(DelayError::Form)?;
        if used == 0 || !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(DelayError::Form);
        }
        let (_, ms) = smaller
            .find(|(name, _)| *name == unit)
            .ok_or(DelayError::Order)?;
        total = total.saturating_add(number.saturating_mul(*ms));
        rest = tail;
    }
    Ok(total)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DelayError {
    #[error("must not be empty")]
    Empty,
    #[error("must not be negative (a moment in the past is given as AT time)")]
    Negative,
    #[error("must be a whole number (smaller units instead of fractions, as in 1h30m)")]
    Fraction,
    #[error("must be whole milliseconds, or numbers with units (ms, s, m, h, d), as 1h30m")]
    Form,
    #[error("must have its units from large to small, each at most once, as in 1h30m")]
    Order,
    #[error("must be at most {0} ms")]
    TooLong(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimeError {
    #[error("must not be empty")]
    Empty,
    #[error("must be Unix milliseconds, or RFC 3339 as in 2030-01-31T08:00:00Z")]
    Form,
    #[error("must be below {DUE_LIMIT_MS} (Unix milliseconds)")]
    TooFar,
}

/// Where a message is found without an index: its score as Redis prints it, and its id bytes.
///
/// As text `<score>-<hex>`, opaque to clients; it changes when the due time changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    pub score: String,
    pub id: Vec<u8>,
}

impl MessageId {
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let dash = raw.iter().rposition(|&b| b == b'-')?;
        let (score, hex) = (raw.get(..dash)?, raw.get(dash + 1..)?);
        if score.len() > SCORE_BYTES_MAX || hex.len() > 2 * ID_BYTES_MAX {
            return None;
        }
        let score = std::str::from_utf8(score).ok()?;
        if score.parse::<f64>().ok()?.is_nan() {
            return None;
        }
        Some(Self {
            score: score.to_owned(),
            id: unhex(hex)?,
        })
    }
}

impl Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.score)?;
        self.id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn unhex(hex: &[u8]) -> Option<Vec<u8>> {
    let pairs = hex.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let nibble = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|n| u8::try_from(n).ok())
    };
    pairs
        .map(|pair| match *pair {
            [high, low] => Some(nibble(high)? << 4 | nibble(low)?),
            _ => None,
        })
        .collect()
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
    /// The due time as Redis prints it: Unix ms, but others may have stored anything.
    pub score: String,
    pub payload: Bytes,
    pub format: Format,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::type_complexity)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        const DAY: u64 = 86_400_000;
        let max = 365 * DAY;
        let rows: &[(&str, Result<u64, DelayError>)] = &[
            ("0", Ok(0)),
            ("1500", Ok(1_500)),
            ("0000000000000000000000000007", Ok(7)),
            ("250ms", Ok(250)),
            ("30s", Ok(30_000)),
            ("15m", Ok(900_000)),
            ("2h", Ok(7_200_000)),
            ("7d", Ok(7 * DAY)),
            ("1h30m", Ok(5_400_000)),
            ("1d2h3m4s5ms", Ok(DAY + 7_384_005)),
            ("90m", Ok(5_400_000)),
            ("0s", Ok(0)),
            ("365d", Ok(max)),
            ("", Err(DelayError::Empty)),
            ("-1", Err(DelayError::Negative)),
            ("-", Err(DelayError::Negative)),
            ("1.5", Err(DelayError::Fraction)),
            ("1.5h", Err(DelayError::Fraction)),
            ("+5", Err(DelayError::Form)),
            (" 5", Err(DelayError::Form)),
            ("5 s", Err(DelayError::Form)),
            ("s", Err(DelayError::Form)),
            ("1h30", Err(DelayError::Form)),
            ("5S", Err(DelayError::Form)),
            ("1e3", Err(DelayError::Form)),
            ("1w", Err(DelayError::Form)),
            ("1mms", Err(DelayError::Form)),
            ("5\r\n", Err(DelayError::Form)),
            ("30m1h", Err(DelayError::Order)),
            ("1s1s", Err(DelayError::Order)),
            ("365d1ms", Err(DelayError::TooLong(max))),
            ("99999999999999999999999999", Err(DelayError::TooLong(max))),
            (
                "18446744073709551615d18446744073709551615h",
                Err(DelayError::TooLong(max)),
            ),
        ];
        for (raw, wanted) in rows {
            let got = Due::parse_delay(raw.as_bytes(), max);
            assert_eq!(got, wanted.map(Due::In), "{raw:?}");
        }
        assert_eq!(Due::parse_delay(&[0xff, b's'], max), Err(DelayError::Form));
    }

    #[test]
    fn moments() {
        let rows: &[(&str, Result<u64, TimeError>)] = &[
            ("0", Ok(0)),
            ("01795228205123", Ok(1_795_228_205_123)),
            ("999999999999999", Ok(DUE_LIMIT_MS - 1)),
            ("1000000000000000", Err(TimeError::TooFar)),
            ("99999999999999999999999", Err(TimeError::TooFar)),
            ("-5", Ok(0)),
            ("-99999999999999999999999", Ok(0)),
            ("1970-01-01T00:00:01Z", Ok(1_000)),
            ("1970-01-01T00:00:00.0001Z", Ok(1)),
            ("1970-01-01T01:00:00.250+01:00", Ok(250)),
            ("1969-12-31T23:59:59Z", Ok(0)),
            ("2026-11-21T10:30:05.123Z", Ok(1_795_257_005_123)),
            ("9999-12-31T23:59:59Z", Ok(253_402_300_799_000)),
            ("", Err(TimeError::Empty)),
            ("-", Err(TimeError::Form)),
            ("+5", Err(TimeError::Form)),
            ("1.5", Err(TimeError::Form)),
            ("5s", Err(TimeError::Form)),
            ("tomorrow", Err(TimeError::Form)),
            ("2026-02-30T00:00:00Z", Err(TimeError::Form)),
            ("2026-11-21", Err(TimeError::Form)),
        ];
        for (raw, wanted) in rows {
            assert_eq!(
                Due::parse_at(raw.as_bytes()),
                wanted.map(Due::At),
                "{raw:?}"
            );
        }
    }

    #[test]
    fn ends_of_ranges() {
        let rows: &[(&str, Result<&str, TimeError>)] = &[
            ("-", Ok("-inf")),
            ("+", Ok("+inf")),
            ("0", Ok("0")),
            ("1795228205123", Ok("1795228205123")),
            ("-5", Ok("-5")),
            ("1.5", Ok("1.5")),
            ("1970-01-01T00:00:01.5Z", Ok("1500")),
            ("1970-01-01T00:00:01.0000005Z", Ok("1000.000500")),
            ("1969-12-31T23:59:59.9995Z", Ok("-0.500000")),
            ("", Err(TimeError::Empty)),
            ("inf", Err(TimeError::Form)),
            ("(5", Err(TimeError::Form)),
            ("1e5", Err(TimeError::Form)),
            ("--5", Err(TimeError::Form)),
            (".", Err(TimeError::Form)),
            (
                "99999999999999999999999999999999999999999",
                Err(TimeError::TooFar),
            ),
        ];
        for (raw, wanted) in rows {
            assert_eq!(
                score_bound(raw.as_bytes()),
                wanted.map(str::to_owned),
                "{raw:?}"
            );
        }
    }

    #[test]
    fn packed_for_scripts() {
        let rows = [
            (Due::In(0), 0),
            (Due::In(5), 5),
            (Due::At(0), -1),
            (Due::At(1_000), -1_000),
        ];
        for (due, wanted) in rows {
            assert_eq!(due.packed(), wanted, "{due:?}");
        }
    }

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
            (
                &open,
                b"redisson_delay_queue:{a}",
                Err(QueueNameError::Reserved),
            ),
            (&open, b"delay_broker_x", Err(QueueNameError::Reserved)),
            (&open, b"my_delay_broker_x", Ok(())),
            (&strict, b"mail:{1}", Ok(())),
            (&strict, b"mail:{1", Err(QueueNameError::Slot)),
            (&strict, b"mail:{}", Err(QueueNameError::Slot)),
            (&strict, b"mail:}{1", Err(QueueNameError::Slot)),
            (&strict, b"post", Err(QueueNameError::Pattern)),
        ];
        for (rules, raw, wanted) in rows {
            assert_eq!(rules.check(raw), *wanted, "{}", Shown(raw));
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
                score: score.into(),
                id: id.to_vec(),
            });
            let wanted = match id {
                Some(id) => MessageRef::Id(id),
                None => MessageRef::Name(Bytes::copy_from_slice(raw.as_bytes())),
            };
            assert_eq!(
                MessageRef::parse(raw.as_bytes(), 1_000),
                Ok(wanted),
                "{raw:?}"
            );
        }
        assert_eq!(MessageRef::parse(b"", 8), Err(BadId::Empty));
        assert_eq!(MessageRef::parse(b"ninebytes", 8), Err(BadId::TooLong(8)));
        assert_eq!(MessageName::new(b"5-ff", 8), Err(BadId::LikeAnId));
        let id = MessageId {
            score: "5".into(),
            id: vec![0, 0xab],
        };
        assert_eq!(id.to_string(), "5-00ab");
    }

    #[test]
    fn shown_is_escaped_and_cut() {
        assert_eq!(Shown(b"a'\r\n\0").to_string(), r"'a\'\r\n\x00'");
        let cut = format!("'{}'... (65 bytes)", "a".repeat(64));
        assert_eq!(Shown(&[b'a'; 65]).to_string(), cut);
    }
}
