//! What is set of a queue, as it is recorded in Redis, so that all brokers go by it.
//!
//! The record has the settings as ` <name>:<value>/<origin>`, each that is set (`lua/setup.lua`);
//! what is not set has its default, which the broker passes to the scripts.

use std::fmt::Write;

use crate::domain::setting::{DESTINATION, SETTINGS, Setting, Unit, Value};

/// The place of `stream` among the words of the destination.
const STREAM: u64 = 2;

/// Who set a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody: it has its default.
    Default,
    /// A client, by DQ.SETUP.
    Setup,
    /// `[[queues]]` in a broker's file.
    File,
}

impl Origin {
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Setup => "setup",
            Self::File => "file",
        }
    }
}

/// Which settings a change leaves as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeMode {
    /// Those that it does not name.
    #[default]
    Named,
    /// Those that are set.
    IfAbsent,
    /// None: what it does not name has its default.
    Reset,
}

impl ChangeMode {
    /// As the script has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Named => "",
            Self::IfAbsent => "IFABSENT",
            Self::Reset => "RESET",
        }
    }
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsChange {
    pub mode: ChangeMode,
    pub origin: Origin,
    /// `None`: it has its default.
    pub values: Vec<(&'static Setting, Option<Value>)>,
}

impl SettingsChange {
    /// Whether a stream may not be the destination any more.
    pub fn may_end_stream(&self) -> bool {
        let names = self.values.iter().any(|(setting, _)| *setting == &DESTINATION);
        (names || self.mode == ChangeMode::Reset) && !self.makes_stream()
    }

    /// Whether due messages become entries of a stream from then on.
    pub fn makes_stream(&self) -> bool {
        let stream = Some(Value::Number(STREAM));
        self.values.iter().any(|(setting, value)| *setting == &DESTINATION && *value == stream)
    }
}

/// The settings of a queue as its record has them. What was not written by us counts as not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    each: Vec<(&'static Setting, Value, Origin)>,
    /// A broker has recorded those of its file, since Redis was empty.
    pub has_file: bool,
}

impl Settings {
    pub fn parse(field: &[u8]) -> Self {
        let one = |pair: &str| {
            let (name, rest) = pair.split_once(':')?;
            let (value, origin) = rest.split_once('/')?;
            let setting = Setting::named(name.as_bytes())?;
            let origin = if origin == "file" { Origin::File } else { Origin::Setup };
            let value = match setting.unit {
                Unit::Names(_) => setting.parse(value.as_bytes()).ok()?,
                _ => Value::Number(value.parse().ok()?),
            };
            Some((setting, value, origin))
        };
        let text = String::from_utf8_lossy(field);
        Self {
            each: text.split(' ').filter_map(one).collect(),
            has_file: text.split(' ').any(|pair| pair == "file:1/file"),
        }
    }

    /// The value in effect, and where it comes from.
    pub fn get(&self, setting: &'static Setting) -> (Value, Origin) {
        let own = self.each.iter().find(|(known, ..)| *known == setting);
        own.map_or_else(
            || (setting.default(), Origin::Default),
            |(_, value, origin)| (value.clone(), *origin),
        )
    }

    /// The value in effect of one that is a number.
    pub fn number(&self, setting: &'static Setting) -> u64 {
        match self.get(setting).0 {
            Value::Number(number) => number,
            Value::Names(_) => 0,
        }
    }

    /// Whether due messages become entries of a stream.
    pub fn is_stream(&self) -> bool {
        self.number(&DESTINATION) == STREAM
    }

    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// What is other than in another one, for people: `limit 5 (was 3)`.
    pub fn differing(&self, before: &Self) -> String {
        let mut text = String::new();
        for setting in SETTINGS {
            let ((now, _), (was, _)) = (self.get(setting), before.get(setting));
            if now != was {
                let comma = if text.is_empty() { "" } else { ", " };
                let shown = |value: Value| match setting.shown(&value) {
                    Some(none) if none.is_empty() => "none".to_owned(),
                    shown => shown.unwrap_or_else(|| value.to_string()),
                };
                let (now, was) = (shown(now), shown(was));
                let _ = write!(text, "{comma}{} {now} (was {was})", setting.name);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::setting::{JITTER, LEASE, LIMIT};

    #[test]
    fn records() {
        let own = Settings::parse(b" limit:5/file newer:7/setup lease_ms:60000/setup");
        assert_eq!(own.get(&LIMIT), (5.into(), Origin::File));
        assert_eq!(own.get(&LEASE), (60_000.into(), Origin::Setup));
        assert_eq!(own.get(&JITTER), (20.into(), Origin::Default));
        for nothing in
            [&b""[..], b"limit", b" limit:x/file", b" limit:-1/file", b" limit:5", b"\xff"]
        {
            assert!(Settings::parse(nothing).is_empty(), "{nothing:?}");
        }
        let before = Settings::parse(b" limit:3/setup");
        assert_eq!(own.differing(&before), "lease_ms 60000 (was 30000), limit 5 (was 3)");
        assert_eq!(own.differing(&own), "");
    }
}
