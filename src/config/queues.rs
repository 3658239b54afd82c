//! `[[queues]]`: the queues that differ from the rest.
//!
//! Does not know how a format packs members. All errors of a table are reported at once.

use ::config::{Map, Value, ValueKind};

use crate::domain::durability::Durability;
use crate::domain::encoding::{Encoding, WORDS};
use crate::domain::queue::QueueRules;
use crate::domain::setting::{SETTINGS, Setting, Value as Setup};

use super::Limits;
use super::kinds::{Kind, flag_of, one_of, text};
use super::layers::Reader;

/// A queue that differs from the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    pub format: MemberFormat,
    /// For payloads that come without AS.
    pub encoding: Encoding,
    /// True if pending messages are in the order list too.
    pub order_list: bool,
    /// What offers wait for that come without SYNC.
    pub durability: Option<Durability>,
    /// Those of DQ.SETUP that it names.
    pub settings: Vec<(&'static Setting, Setup)>,
}

/// How members are written; both are always read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberFormat {
    Modern,
    Legacy,
}

impl Queue {
    const FORMATS: [(&str, MemberFormat); 2] =
        [("modern", MemberFormat::Modern), ("legacy", MemberFormat::Legacy)];

    fn parse(keys: &Map<String, Value>) -> Result<Self, String> {
        let known = ["name", "format", "encoding", "order_list", "durability"];
        let of_setup = |key: &str| SETTINGS.into_iter().find(|setting| setting.name == key);
        let is_known = |key: &str| known.contains(&key) || of_setup(key).is_some();
        if let Some(unknown) = keys.keys().find(|key| !is_known(key)) {
            let all = known.into_iter().chain(SETTINGS.map(|setting| setting.name));
            let all: Vec<&str> = all.collect();
            return Err(format!(
                "{unknown} is not a setting of a queue; there are {}",
                all.join(", ")
            ));
        }
        let name = keys.get("name").map(text).transpose()?.unwrap_or_default();
        if name.is_empty() {
            return Err("each table needs a name".to_owned());
        }
        let format = keys.get("format").map(|word| one_of(&Self::FORMATS, word)).transpose();
        let encoding = keys.get("encoding").map(|word| one_of(&WORDS, word)).transpose();
        let order_list = keys.get("order_list").map(flag_of).transpose();
        let durable =
            |value| text(value).and_then(|text| Durability::parse(text.as_bytes(), || None));
        let durability = keys.get("durability").map(durable).transpose();
        let wrong = |key: &str, rule: String| format!("the {key} of {name:?} {rule}");
        let mut settings = Vec::new();
        for setting in SETTINGS {
            if let Some(value) = keys.get(setting.name) {
                let written = match &value.kind {
                    ValueKind::I64(number) => Ok(number.to_string()),
                    _ => text(value),
                };
                let value = written.and_then(|text| setting.parse(text.as_bytes()));
                settings.push((setting, value.map_err(|rule| wrong(setting.name, rule))?));
            }
        }
        Ok(Self {
            format: format.map_err(|rule| wrong("format", rule))?.unwrap_or(MemberFormat::Modern),
            encoding: encoding.map_err(|rule| wrong("encoding", rule))?.unwrap_or_default(),
            order_list: order_list.map_err(|rule| wrong("order_list", rule))?.unwrap_or(true),
            durability: durability.map_err(|rule| wrong("durability", rule))?.flatten(),
            settings,
            name,
        })
    }

    pub fn shown(&self) -> toml::Value {
        let format = if self.format == MemberFormat::Legacy { "legacy" } else { "modern" };
        let keys =
            [("name", self.name.as_str()), ("format", format), ("encoding", self.encoding.word())];
        let text = |text: &str| toml::Value::String(text.to_owned());
        let pairs = keys.map(|(key, value)| (key.to_owned(), text(value)));
        let order_list = toml::Value::Boolean(self.order_list);
        let value = |value: &Setup| match value {
            Setup::Number(number) => toml::Value::Integer((*number).try_into().unwrap_or(i64::MAX)),
            Setup::Names(names) => text(names),
        };
        let settings = self.settings.iter();
        let settings = settings.map(|(setting, of)| {
            let shown = setting.shown(of).map_or_else(|| value(of), toml::Value::String);
            (setting.name.to_owned(), shown)
        });
        let pairs = pairs.into_iter().chain([("order_list".to_owned(), order_list)]);
        let durability = self.durability.map(|what| text(&what.to_string()));
        let pairs = pairs.chain(durability.map(|what| ("durability".to_owned(), what)));
        let pairs = pairs.chain(settings);
        toml::Value::Table(pairs.collect())
    }
}

const RULE: &str = "must be tables with name, format, encoding, order_list, durability and \
                    settings of DQ.SETUP, and can be set in a file only";

pub fn queues() -> Kind<Vec<Queue>> {
    let shown = |queues: &Vec<Queue>| toml::Value::Array(queues.iter().map(Queue::shown).collect());
    Kind::new(RULE, parse_queues, shown)
}

fn parse_queues(value: &Value) -> Result<Vec<Queue>, String> {
    let ValueKind::Array(tables) = &value.kind else {
        return Err(RULE.to_owned());
    };
    let (mut queues, mut wrong): (Vec<Queue>, Vec<String>) = (Vec::new(), Vec::new());
    for table in tables {
        let ValueKind::Table(keys) = &table.kind else {
            return Err(RULE.to_owned());
        };
        match Queue::parse(keys) {
            Ok(queue) if queues.iter().any(|known| known.name == queue.name) => {
                wrong.push(format!("{:?} is named twice", queue.name));
            }
            Ok(queue) => queues.push(queue),
            Err(rule) => wrong.push(rule),
        }
    }
    if wrong.is_empty() { Ok(queues) } else { Err(wrong.join("; ")) }
}

/// They are named by the rules that clients have to keep.
pub fn check_queues(keys: &mut Reader, queues: &[Queue], limits: &Limits, cluster: bool) {
    let rules = QueueRules {
        bytes_max: limits.queue_name_bytes_max,
        pattern: limits.queue_pattern.clone(),
        cluster,
    };
    for (place, queue) in queues.iter().enumerate() {
        if let Err(rule) = rules.check(queue.name.as_bytes()) {
            let key = format!("queues[{place}].name");
            keys.refuse_part(&key, format!("{:?}", queue.name), rule.to_string());
        }
    }
}
