//! The settings that a queue can have: one table, from which come defaults, the words of people and
//! how these are read.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use Unit::{Messages, Ms, Names, Percent, Rate, Word};

use crate::domain::queue::Due;

/// What a value of a setting counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Written as a duration, too.
    Ms,
    Percent,
    Messages,
    /// Messages in a time, `100/s`, `30/m`, `5/h`; the number is that of an hour.
    Rate,
    /// One of these words; the number is its place among them.
    Word(&'static [&'static str]),
    /// Up to so many words of letters, digits and `_.:-`, with commas between them.
    Names(usize),
}

/// A value of a setting, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Names(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Names(names) => names.fmt(f),
        }
    }
}

/// The units of a rate, with how many of them an hour has.
const TIMES: [(&str, u64); 3] = [("s", 3_600), ("m", 60), ("h", 1)];

/// A setting of a queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub unit: Unit,
    pub default: u64,
    pub allowed: RangeInclusive<u64>,
    /// What it does, for people.
    pub about: &'static str,
}

/// Each: name, unit, default, and the numbers that are allowed; what it does.
macro_rules! settings {
    ($($vis:vis $id:ident: $name:literal, $unit:expr, $default:literal in $allowed:expr,
        $about:literal;)*) => {
        $(
            #[doc = $about]
            $vis static $id: Setting = Setting {
                name: $name,
                unit: $unit,
                default: $default,
                allowed: $allowed,
                about: $about,
            };
        )*

        /// In the order in which they are shown.
        pub static SETTINGS: [&Setting; [$($name),*].len()] = [$(&$id),*];
    };
}

settings! {
    pub LEASE: "lease_ms", Ms, 30_000 in 100..=86_400_000,
        "The lease of a DQ.TAKE or DQ.EXTEND that says no other.";
    pub LIMIT: "limit", Messages, 16 in 0..=1_000_000,
        "Deliveries that count; then a message is dead. 0: no limit.";
    pub BACKOFF_MIN: "backoff_min_ms", Ms, 5_000 in 0..=86_400_000,
        "The wait after the first failed attempt; it doubles with each further one.";
    pub BACKOFF_MAX: "backoff_max_ms", Ms, 3_600_000 in 0..=604_800_000,
        "The longest wait.";
    pub JITTER: "jitter", Percent, 20 in 0..=100,
        "Percent that a wait may be shorter by chance.";
    IN_FLIGHT_MAX: "in_flight_max", Messages, 0 in 0..=1_000_000_000,
        "Messages that may be leased at a time. 0: no limit; 1: one after the other.";
    DEAD_MAX: "dead_max", Messages, 0 in 0..=1_000_000_000,
        "Dead messages that are kept; beyond, the oldest are dropped. 0: all.";
    DEAD_KEEP: "dead_keep_ms", Ms, 0 in 0..=315_360_000_000,
        "How long dead messages are kept; then they are dropped. 0: for ever.";
    MAX_LENGTH: "max_length", Messages, 0 in 0..=1_000_000_000_000,
        "Messages that may be pending and in the list together; offers beyond are refused with \
         TOOMANY, and nothing old is dropped. 0: no limit.";
    RATE: "rate", Rate, 0 in 0..=3_600_000_000,
        "Due messages that are delivered in a time, over all brokers. 0: no limit.";
    BURST: "burst", Messages, 0 in 0..=1_000_000,
        "Messages that the rate lets go at once after a quiet time. 0: those of a tenth of a \
         second, at least one.";
    pub DESTINATION: "destination", Word(&["list", "take", "stream"]), 0 in 0..=2,
        "What a due message becomes: an element of the list (`list`); one that only DQ.TAKE hands \
         out, with all that was said of it (`take`); an entry of a stream (`stream`).";
    EXPIRED: "expired", Word(&["drop", "dead"]), 0 in 0..=1,
        "What becomes of a message whose TTL has passed before a taker had it: it is dropped \
         (`drop`), or goes to those of DQ.DEAD (`dead`).";
    NAMES_UNTIL: "names_until", Word(&["delivered", "done"]), 0 in 0..=1,
        "How long NX refuses another message of a name: until the message is delivered \
         (`delivered`), or until it is settled, dead or expired (`done`; destination `take`).";
    GROUPS: "groups", Names(16), 0 in 0..=0,
        "Groups of the stream that are made where they are missing, with commas between them; \
         others are served too.";
    pub STREAM_KEEP: "stream_keep_ms", Ms, 0 in 0..=31_536_000_000,
        "For how long entries of the stream stay after all groups have acknowledged them.";
    pub CONSUMER_IDLE: "consumer_idle_ms", Ms, 604_800_000 in 0..=31_536_000_000,
        "Consumers of the stream that have not asked for so long and hold nothing are deleted. 0: \
         none is.";
    KEEPER: "keeper", Word(&["on", "off"]), 0 in 0..=1,
        "Whether the brokers let entries of the stream come again that are not acknowledged \
         within the lease, trim it, and delete consumers that are gone.";
}

impl Setting {
    pub fn default(&self) -> Value {
        match self.unit {
            Unit::Names(_) => Value::Names(String::new()),
            _ => Value::Number(self.default),
        }
    }

    /// A value as it may be written; `None` where that is the number.
    pub fn shown(&self, value: &Value) -> Option<String> {
        let value = match value {
            Value::Names(names) => return Some(names.clone()),
            Value::Number(number) => *number,
        };
        if let Unit::Word(words) = self.unit {
            return words.get(usize::try_from(value).ok()?).map(|&word| word.to_owned());
        }
        let fits = |(_, times): &(&str, u64)| value.is_multiple_of(*times);
        let (unit, times) = TIMES.into_iter().find(fits).filter(|_| self.unit == Unit::Rate)?;
        (value > 0).then(|| format!("{}/{unit}", value / times))
    }

    /// The one of this name, in any case.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        SETTINGS.into_iter().find(|known| name.eq_ignore_ascii_case(known.name.as_bytes()))
    }

    /// # Errors
    /// The rule that the value breaks, as the end of a sentence.
    pub fn parse(&self, raw: &[u8]) -> Result<Value, String> {
        match self.unit {
            Unit::Names(most) => names(raw, most).map(Value::Names),
            _ => self.parse_number(raw).map(Value::Number),
        }
    }

    /// The same for one that is a number.
    ///
    /// # Errors
    /// As above.
    pub fn parse_number(&self, raw: &[u8]) -> Result<u64, String> {
        let (least, most) = (*self.allowed.start(), *self.allowed.end());
        if self.unit == Unit::Ms {
            return match Due::parse_delay(raw, most).map_err(|rule| rule.to_string())? {
                Due::In(ms) | Due::At(ms) if ms >= least => Ok(ms),
                _ => Err(format!("must be at least {least} ms")),
            };
        }
        if let Unit::Word(words) = self.unit {
            let place = words.iter().position(|word| raw.eq_ignore_ascii_case(word.as_bytes()));
            let rule = || format!("must be one of {}", words.join(", "));
            return place.map(|place| place as u64).ok_or_else(rule);
        }
        let text = std::str::from_utf8(raw).ok().filter(|text| !text.starts_with('+'));
        if self.unit == Unit::Rate {
            let rate = text.and_then(rate).filter(|rate| self.allowed.contains(rate));
            return rate
                .ok_or_else(|| "must be a rate up to 1000000/s, as 100/s, 30/m or 5/h".into());
        }
        let value = text.and_then(|text| text.parse().ok());
        value.filter(|value| self.allowed.contains(value)).ok_or_else(|| {
            let percent = if self.unit == Unit::Percent { " (percent)" } else { "" };
            format!("must be a whole number from {least} to {most}{percent}")
        })
    }
}

/// The names, each once.
fn names(raw: &[u8], most: usize) -> Result<String, String> {
    let rule = || {
        format!(
            "must be up to {most} names of letters, digits and _.:-, each up to {NAME_BYTES_MAX} \
             bytes, with commas between them"
        )
    };
    let text = std::str::from_utf8(raw).map_err(|_| rule())?;
    let is_name = |name: &&str| {
        let letters = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(letters)
    };
    let mut names: Vec<&str> = text.split(',').collect();
    if names.len() > most || !names.iter().all(is_name) {
        return Err(rule());
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    Ok(names.join(","))
}

/// Of a name in a setting.
const NAME_BYTES_MAX: usize = 64;

/// A rate as the messages of an hour; without a unit they are of a second.
fn rate(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let (_, times) = TIMES.into_iter().find(|(known, _)| unit.eq_ignore_ascii_case(known))?;
    number.parse::<u64>().ok()?.checked_mul(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::setup::{Origin, Settings};

    #[test]
    fn values() {
        let rows: [(&str, &str, Result<u64, &str>); 24] = [
            ("destination", "list", Ok(0)),
            ("destination", "Stream", Ok(2)),
            ("destination", "0", Err("must be one of list, take, stream")),
            ("rate", "0", Ok(0)),
            ("rate", "5", Ok(18_000)),
            ("rate", "5/s", Ok(18_000)),
            ("rate", "30/M", Ok(1_800)),
            ("rate", "1/h", Ok(1)),
            ("rate", "1/d", Err("must be a rate up to 1000000/s, as")),
            ("rate", "1000001/s", Err("must be a rate up to")),
            ("limit", "0", Ok(0)),
            ("LIMIT", "5", Ok(5)),
            ("limit", "-1", Err("must be a whole number from 0 to 1000000")),
            ("limit", "1000001", Err("must be a whole number from 0 to 1000000")),
            ("limit", "+1", Err("must be a whole number from 0 to 1000000")),
            ("limit", "", Err("must be a whole number from 0 to 1000000")),
            ("jitter", "100", Ok(100)),
            ("jitter", "0.2", Err("must be a whole number from 0 to 100 (percent)")),
            ("lease_ms", "100", Ok(100)),
            ("lease_ms", "2m", Ok(120_000)),
            ("lease_ms", "99", Err("must be at least 100 ms")),
            ("lease_ms", "25h", Err("")),
            ("backoff_max_ms", "7d", Ok(604_800_000)),
            ("backoff_max_ms", "-1", Err("")),
        ];
        for (name, raw, wanted) in rows {
            let setting = Setting::named(name.as_bytes()).unwrap();
            let parsed = setting.parse(raw.as_bytes());
            match wanted {
                Ok(value) => assert_eq!(parsed, Ok(value.into()), "{name} {raw}"),
                Err(rule) => assert!(parsed.unwrap_err().starts_with(rule), "{name} {raw}"),
            }
        }
        for shown in ["1/h", "100/m", "7/s"] {
            assert_eq!(RATE.shown(&RATE.parse(shown.as_bytes()).unwrap()).unwrap(), shown);
        }
        assert_eq!((RATE.shown(&0.into()), LIMIT.shown(&5.into())), (None, None));
        assert_eq!(Setting::named(b"lease"), None);
        for setting in SETTINGS {
            assert!(setting.allowed.contains(&setting.default), "{}", setting.name);
        }
    }

    #[test]
    fn names_with_commas() {
        let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for good in ["mail", "a_b.C:9-d,mail", &many[1..].join(",")] {
            let value = GROUPS.parse(good.as_bytes()).unwrap();
            assert_eq!(value, Value::Names(good.to_owned()));
            let own = Settings::parse(format!(" groups:{value}/setup").as_bytes());
            assert_eq!(own.get(&GROUPS), (value, Origin::Setup));
        }
        assert_eq!(GROUPS.parse(b"a,b,a"), Ok(Value::Names("a,b".into())));
        for bad in ["", ",", "a,", "a b", "a/b", "ä", "a,,b", &long, &many.join(",")] {
            let error = GROUPS.parse(bad.as_bytes()).unwrap_err();
            assert!(error.starts_with("must be up to 16 names"), "{bad}: {error}");
        }
        assert_eq!(Settings::parse(b" groups:a=b/setup").get(&GROUPS).1, Origin::Default);
        let (now, was) = (Settings::parse(b" groups:a/setup"), Settings::default());
        assert_eq!(now.differing(&was), "groups a (was none)");
    }
}
