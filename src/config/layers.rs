//! Layers of settings -> one value per key, read key by key with every error kept.
//!
//! Knows no key and no rule: `config.rs` names them. Keeps: what is read here either fits its
//! rule or is in the list of errors, and a key that nobody asked for is an error too. (Serde
//! would stop at the first one.) No value is guessed from text before its rule is known: a
//! password `00123` stays what it is.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ::config::{Environment, File, FileFormat, Map, Value, ValueKind};

/// The lowest layer, and the reference of all settings.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// What stands in place of a secret wherever settings are shown.
pub const HIDDEN: &str = "(hidden)";

const PREFIX: &str = "DELAY_BROKER_";

/// Where settings come from, above the embedded defaults, the later the stronger.
#[derive(Clone, Default)]
pub struct Layers {
    pub file: Option<PathBuf>,
    /// All variables of the process; those that are not ours are passed over.
    pub environment: Vec<(String, String)>,
    /// Keys as `section.key`, with the text of the flag.
    pub flags: Vec<(&'static str, String)>,
}

/// One setting that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub key: String,
    pub value: String,
    pub origin: String,
    pub rule: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            origin,
            rule,
        } = self;
        f.write_str(key)?;
        if !value.is_empty() {
            write!(f, " = {value}")?;
        }
        if !origin.is_empty() {
            write!(f, " (from {origin})")?;
        }
        write!(f, ": {rule}")
    }
}

/// All that is wrong with a configuration, at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is not valid:")?;
        for error in &self.0 {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

/// The merged layers, from which each key is read once.
pub struct Reader {
    values: BTreeMap<String, Value>,
    defaults: BTreeMap<String, Value>,
    errors: Vec<ConfigError>,
    settings: Vec<(String, toml::Value)>,
}

impl Reader {
    pub fn new(layers: Layers) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let defaults = || File::from_str(DEFAULTS, FileFormat::Toml);
        let mut builder = ::config::Config::builder().add_source(defaults());
        if let Some(path) = &layers.file {
            match readable_toml(path) {
                Ok(()) => {
                    builder =
                        builder.add_source(File::from(path.as_path()).format(FileFormat::Toml));
                }
                Err(rule) => errors.push(ConfigError {
                    key: format!("configuration file {}", path.display()),
                    value: String::new(),
                    origin: String::new(),
                    rule,
                }),
            }
        }
        let environment = Environment::with_prefix("DELAY_BROKER")
            .prefix_separator("_")
            .separator("__")
            .source(Some(ours(layers.environment, &mut errors)));
        builder = builder.add_source(environment);
        for (key, text) in layers.flags {
            builder = match builder.set_override(key, text) {
                Ok(builder) => builder,
                Err(error) => return Err(unreadable(errors, &error)),
            };
        }
        let only_defaults = ::config::Config::builder().add_source(defaults()).build();
        match (builder.build(), only_defaults) {
            (Ok(merged), Ok(defaults)) => Ok(Self {
                values: flat(merged.cache),
                defaults: flat(defaults.cache),
                errors,
                settings: Vec::new(),
            }),
            (Err(error), _) | (_, Err(error)) => Err(unreadable(errors, &error)),
        }
    }

    /// Reads one key. `shown` is how the checked value is printed. Where it breaks its rule the
    /// default is given, so that reading goes on to the next error.
    pub fn read<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&Value) -> Result<T, String>,
        shown: impl Fn(&T) -> toml::Value,
    ) -> T {
        let given = self.values.remove(key);
        let value = match given.as_ref().map(|given| (given, parse(given))) {
            Some((_, Ok(value))) => value,
            wrong => {
                if let Some((given, Err(rule))) = wrong {
                    self.errors.push(ConfigError {
                        key: key.to_owned(),
                        value: literal(given),
                        origin: given.origin().unwrap_or("a flag").to_owned(),
                        rule,
                    });
                }
                let default = self.defaults.get(key).map(&parse);
                default
                    .and_then(Result::ok)
                    .expect("default.toml fits its rules, as a test shows")
            }
        };
        self.settings.push((key.to_owned(), shown(&value)));
        value
    }

    /// As `read`, but neither errors nor settings show the value.
    pub fn read_secret<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&Value) -> Result<T, String>,
        shown: impl Fn(&T) -> String,
    ) -> T {
        let errors_before = self.errors.len();
        let value = self.read(key, parse, |value| toml::Value::String(shown(value)));
        for error in self.errors.iter_mut().skip(errors_before) {
            error.value = HIDDEN.to_owned();
        }
        value
    }

    pub fn whole(&mut self, key: &str, range: RangeInclusive<u64>) -> u64 {
        let rule = format!(
            "must be a whole number from {} to {}",
            range.start(),
            range.end()
        );
        let parse = |value: &Value| {
            let number = match &value.kind {
                ValueKind::I64(number) => u64::try_from(*number).ok(),
                ValueKind::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            number
                .filter(|number| range.contains(number))
                .ok_or_else(|| rule.clone())
        };
        self.read(key, parse, |number| {
            toml::Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX))
        })
    }

    pub fn size(&mut self, key: &str, range: RangeInclusive<u64>) -> usize {
        usize::try_from(self.whole(key, range)).unwrap_or(usize::MAX)
    }

    pub fn flag(&mut self, key: &str) -> bool {
        self.read(key, flag, |flag| toml::Value::Boolean(*flag))
    }

    /// One of a few words, each with its meaning.
    pub fn choice<T: Copy + PartialEq>(&mut self, key: &str, words: &[(&str, T)]) -> T {
        let word_of = |choice: &T| {
            let found = words.iter().find(|(_, meaning)| meaning == choice);
            toml::Value::String(found.map_or("", |(word, _)| *word).to_owned())
        };
        self.read(key, |value| one_of(words, value), word_of)
    }

    /// An error that only several settings together show.
    pub fn refuse(&mut self, key: &str, value: impl fmt::Display, rule: impl Into<String>) {
        // A value that breaks its own rule was replaced: what follows from it is no news.
        if self.errors.iter().all(|error| error.key != key) {
            self.errors.push(ConfigError {
                key: key.to_owned(),
                value: value.to_string(),
                origin: String::new(),
                rule: rule.into(),
            });
        }
    }

    /// What was not read yet is neither checked nor missed.
    pub fn pass_over_the_rest(&mut self) {
        self.values.clear();
    }

    /// The settings as read, with secrets hidden; or everything that was wrong.
    pub fn finish(mut self) -> Result<Vec<(String, toml::Value)>, ConfigErrors> {
        for (key, value) in &self.values {
            self.errors.push(ConfigError {
                key: key.clone(),
                // An unknown key may be a misspelt password.
                value: String::new(),
                origin: value.origin().unwrap_or("a flag").to_owned(),
                rule: "is not a setting; config/default.toml names all".to_owned(),
            });
        }
        if self.errors.is_empty() {
            Ok(self.settings)
        } else {
            Err(ConfigErrors(self.errors))
        }
    }
}

pub fn one_of<T: Copy>(words: &[(&str, T)], value: &Value) -> Result<T, String> {
    let given = text(value)?;
    words
        .iter()
        .find(|(word, _)| *word == given)
        .map(|(_, meaning)| *meaning)
        .ok_or_else(|| {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("must be one of {}", all.join(", "))
        })
}

/// A flag; as text where it comes from the environment.
pub fn flag(value: &Value) -> Result<bool, String> {
    match &value.kind {
        ValueKind::Boolean(flag) => Ok(*flag),
        ValueKind::String(text) if text == "true" => Ok(true),
        ValueKind::String(text) if text == "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Text as it was written; a number is no text.
pub fn text(value: &Value) -> Result<String, String> {
    match &value.kind {
        ValueKind::String(text) => Ok(text.clone()),
        _ => Err("must be text, in quotes".to_owned()),
    }
}

/// A list of names: an array, or text with commas between (the environment has no arrays).
pub fn names(value: &Value) -> Result<Vec<String>, String> {
    let parts = match &value.kind {
        ValueKind::Array(parts) => parts.iter().map(text).collect::<Result<Vec<_>, _>>()?,
        ValueKind::String(list) => list.split(',').map(str::to_owned).collect(),
        _ => return Err("must be a list of names".to_owned()),
    };
    let trimmed = parts.iter().map(|part| part.trim().to_owned());
    Ok(trimmed.filter(|part| !part.is_empty()).collect())
}

/// A value as it would be written in the file.
pub fn literal(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => format!("{text:?}"),
        _ => value.to_string(),
    }
}

fn unreadable(mut errors: Vec<ConfigError>, error: &::config::ConfigError) -> ConfigErrors {
    errors.push(ConfigError {
        key: "configuration".to_owned(),
        value: String::new(),
        origin: String::new(),
        rule: error.to_string(),
    });
    ConfigErrors(errors)
}

/// Parses the file first by itself: the text of the merging parser would quote the line, and
/// the line may hold a password.
fn readable_toml(path: &std::path::Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    text.parse::<toml::Table>().map(drop).map_err(|error| {
        let before = error
            .span()
            .and_then(|span| text.get(..span.start))
            .unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line} is not TOML: {}", error.message())
    })
}

/// The variables that name a setting. What begins like ours and is none is an error, but for
/// those that Kubernetes gives every container beside a service named `delay-broker`.
fn ours(all: Vec<(String, String)>, errors: &mut Vec<ConfigError>) -> Map<String, String> {
    let mut ours = Map::new();
    for (name, value) in all {
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let service_link = ["PORT", "SERVICE_HOST", "SERVICE_PORT"];
        if matches!(key.split_once("__"), Some((section, key)) if !section.is_empty()
            && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'))
        {
            ours.insert(name, value);
        } else if !service_link.iter().any(|link| key.starts_with(link)) {
            errors.push(ConfigError {
                key: name,
                value: String::new(),
                origin: "the environment".to_owned(),
                rule: format!("is not a setting; the form is {PREFIX}SECTION__KEY"),
            });
        }
    }
    ours
}

/// `section.key` -> value, down to two levels, as deep as settings go.
fn flat(root: Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    let ValueKind::Table(sections) = root.kind else {
        return flat;
    };
    for (section, value) in sections {
        match value.kind {
            ValueKind::Table(keys) => {
                flat.extend(
                    keys.into_iter()
                        .map(|(key, value)| (format!("{section}.{key}"), value)),
                );
            }
            _ => {
                flat.insert(section, value);
            }
        }
    }
    flat
}
