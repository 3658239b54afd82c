//! The kinds of settings: a number in a range, an address, one of a few words and so on.
//!
//! Knows no key. A kind says its rule once, for errors and for the documents; it parses a value of
//! any layer (the environment and flags have text only) and shows a parsed one as a file has it.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ::config::{Value, ValueKind};
use regex::bytes::Regex;

use super::{HIDDEN, HIDDEN_RULE, Place, RedisUrl, Secret, log_level, redis_url};

type Parse<T> = Box<dyn Fn(&Value) -> Result<T, String>>;
type Show<T> = Box<dyn Fn(&T) -> toml::Value>;

pub struct Kind<T> {
    /// Goes on after the key: "must be ...".
    pub rule: String,
    pub parse: Parse<T>,
    pub show: Show<T>,
    /// Neither errors nor settings show the value.
    pub secret: bool,
}

impl<T: 'static> Kind<T> {
    pub fn new(
        rule: &str,
        parse: impl Fn(&Value) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> toml::Value + 'static,
    ) -> Self {
        let (parse, show) = (Box::new(parse), Box::new(show));
        Self { rule: rule.to_owned(), parse, show, secret: false }
    }

    /// From text that is not empty.
    fn text(
        rule: &str,
        parse: impl Fn(&str) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Self {
        Self::new(
            rule,
            move |value| parse(&text(value)?),
            move |parsed| toml::Value::String(show(parsed)),
        )
    }

    /// From text; empty = none.
    fn optional(
        rule: &str,
        parse: impl Fn(&str) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Kind<Option<T>> {
        Kind::text(
            &format!("{rule}, or empty"),
            move |text| (!text.is_empty()).then(|| parse(text)).transpose(),
            move |parsed| parsed.as_ref().map_or_else(String::new, &show),
        )
    }
}

pub fn whole<T>(range: RangeInclusive<u64>) -> Kind<T>
where
    T: TryFrom<u64> + TryInto<i64> + Copy + 'static,
{
    let rule = format!("must be a whole number from {} to {}", range.start(), range.end());
    let error = rule.clone();
    let parse = move |value: &Value| {
        let number = match &value.kind {
            ValueKind::I64(number) => u64::try_from(*number).ok(),
            ValueKind::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| error.clone())
    };
    Kind::new(&rule, parse, |number| toml::Value::Integer((*number).try_into().unwrap_or(i64::MAX)))
}

pub fn flag() -> Kind<bool> {
    Kind::new("must be true or false", flag_of, |flag| toml::Value::Boolean(*flag))
}

/// One of a few words, each with its meaning.
pub fn words<T: Copy + PartialEq>(words: &'static [(&'static str, T)]) -> Kind<T> {
    let word_of = |choice: &T| {
        let found = words.iter().find(|(_, meaning)| meaning == choice);
        toml::Value::String(found.map_or("", |(word, _)| *word).to_owned())
    };
    Kind::new(&words_rule(words), |value| one_of(words, value), word_of)
}

pub fn address() -> Kind<Option<SocketAddr>> {
    const RULE: &str = "must be address:port, such as 127.0.0.1:7379 or [::1]:7379";
    let parse = |text: &str| {
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        local.or_else(|| text.parse().ok()).ok_or_else(|| RULE.to_owned())
    };
    Kind::optional(RULE, parse, SocketAddr::to_string)
}

pub fn path() -> Kind<Option<PathBuf>> {
    Kind::optional("must be a path", |path| Ok(PathBuf::from(path)), |path| shown(path))
}

/// A file that is read, though not yet used.
pub fn file<T: 'static>(rule: &str, read: fn(&Path) -> Result<T, String>) -> Kind<Option<PathBuf>> {
    let parse = move |path: &str| read(Path::new(path)).map(|_| PathBuf::from(path));
    Kind::optional(rule, parse, |path| shown(path))
}

pub fn directory() -> Kind<PathBuf> {
    const RULE: &str = "must be a directory";
    let parse = |path: &str| match path {
        "" => Err(RULE.to_owned()),
        path => Ok(PathBuf::from(path)),
    };
    Kind::text(RULE, parse, |path| shown(path))
}

pub fn password() -> Kind<Option<Secret>> {
    let parse = |password: &str| match password {
        HIDDEN => Err(HIDDEN_RULE.to_owned()),
        password => Ok(Secret(password.to_owned())),
    };
    let kind = Kind::optional("must be text", parse, |_| HIDDEN.to_owned());
    Kind { secret: true, ..kind }
}

pub fn user() -> Kind<Option<String>> {
    Kind::optional("must be text", |user| Ok(user.to_owned()), String::clone)
}

/// A few words for people.
pub fn label() -> Kind<Option<String>> {
    const RULE: &str = "must be text of at most 40 characters";
    let parse = |text: &str| match text.chars().count() {
        ..=40 => Ok(text.to_owned()),
        _ => Err(RULE.to_owned()),
    };
    Kind::optional(RULE, parse, String::clone)
}

pub fn redis_url() -> Kind<Option<RedisUrl>> {
    let kind = Kind::optional("must be a URL of a Redis", RedisUrl::parse, RedisUrl::to_string);
    Kind { secret: true, ..kind }
}

pub fn pattern() -> Kind<Option<Regex>> {
    const RULE: &str = "must be a regular expression";
    let parse = |pattern: &str| {
        Regex::new(pattern).map_err(|error| {
            // The lines before the last repeat the pattern, with a mark below.
            let text = error.to_string();
            format!("{RULE}: {}", text.lines().last().unwrap_or_default())
        })
    };
    Kind::optional(RULE, parse, |pattern| pattern.as_str().to_owned())
}

pub fn level() -> Kind<String> {
    let rule = "must be a level, perhaps with others for modules";
    Kind::text(rule, log_level::parse, String::clone)
}

/// Names in upper case: an array, or text with commas between (the environment has no arrays).
pub fn names() -> Kind<Vec<String>> {
    let parse = |name: &str| Ok(name.to_uppercase());
    list("must be a list of names", parse, String::clone)
}

/// Addresses that nodes of a Cluster announce, each with the one by which it is reached.
pub fn addresses() -> Kind<Vec<(Place, Place)>> {
    const RULE: &str = "must be a list of announced and reached addresses, each \
                        \"host:port=host:port\"";
    let parse = |pair: &str| {
        let place = |address| redis_url::at(address, "6379", false);
        let (announced, reached) = pair.split_once('=').ok_or_else(|| RULE.to_owned())?;
        Ok((place(announced.trim())?, place(reached.trim())?))
    };
    list(RULE, parse, |(announced, reached)| format!("{announced}={reached}"))
}

fn list<T: 'static>(
    rule: &'static str,
    parse: impl Fn(&str) -> Result<T, String> + 'static,
    show: impl Fn(&T) -> String + 'static,
) -> Kind<Vec<T>> {
    let all = move |value: &Value| {
        let parts = match &value.kind {
            ValueKind::Array(parts) => parts.iter().map(text).collect::<Result<Vec<_>, _>>()?,
            ValueKind::String(list) => list.split(',').map(str::to_owned).collect(),
            _ => return Err(rule.to_owned()),
        };
        let trimmed = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        trimmed.map(&parse).collect()
    };
    Kind::new(rule, all, move |parts: &Vec<T>| {
        toml::Value::Array(parts.iter().map(|part| toml::Value::String(show(part))).collect())
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn words_rule<T>(words: &[(&str, T)]) -> String {
    let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    format!("must be one of {}", all.join(", "))
}

pub fn one_of<T: Copy>(words: &[(&str, T)], value: &Value) -> Result<T, String> {
    let given = text(value)?;
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| words_rule(words))
}

/// A flag; as text where it comes from the environment.
pub fn flag_of(value: &Value) -> Result<bool, String> {
    match &value.kind {
        ValueKind::Boolean(flag) => Ok(*flag),
        ValueKind::String(text) if text == "true" => Ok(true),
        ValueKind::String(text) if text == "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Text as it was written; a number is not text.
pub fn text(value: &Value) -> Result<String, String> {
    match &value.kind {
        ValueKind::String(text) => Ok(text.clone()),
        _ => Err("must be text, in quotes".to_owned()),
    }
}
