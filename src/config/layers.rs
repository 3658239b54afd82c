//! Layers of settings -> one value per key, read key by key with every error kept.
//!
//! Knows no key and no rule: `settings.rs` names them. Keeps: each value either fits its rule or is
//! in the list of errors, and a key that no setting has is an error too. (Serde
//! would stop at the first error.) No value is guessed from text before its rule is known: a
//! password `00123` stays what it is.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ::config::{Environment, File, FileFormat, Format, Map, Value, ValueKind};
use thiserror::Error;

use super::kinds::Kind;
use super::{Secret, pem};

/// The lowest layer, and the reference of all settings.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// The words in place of a secret wherever settings are shown.
pub const HIDDEN: &str = "(hidden)";

const PREFIX: &str = "DELAY_BROKER_";

/// Enough for 100,000 tables of queues.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where settings come from, above the embedded defaults, the later the stronger.
#[derive(Clone, Default)]
pub struct Layers {
    pub file: Option<PathBuf>,
    /// All variables of the process; those that are not ours are passed over.
    pub environment: Vec<(String, String)>,
    /// Keys as `section.key`, with the text of the flag.
    pub flags: Vec<(&'static str, String)>,
    /// True if a command of this name, in upper case, exists; `None`: names are not checked.
    pub known_command: Option<fn(&str) -> bool>,
}

/// One setting that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub key: String,
    pub value: String,
    pub origin: String,
    pub rule: String,
}

impl ConfigError {
    /// Without its value, which may be a secret or none.
    fn of(key: String, origin: &str, rule: String) -> Self {
        Self { key, value: String::new(), origin: origin.to_owned(), rule }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, origin, rule } = self;
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
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the configuration is not valid:{}",
    .0.iter().map(|error| format!("\n  {error}")).collect::<String>()
)]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// All keys with their values as they may be shown, and the secrets among them.
pub type Read = (Vec<(String, toml::Value)>, BTreeMap<String, Secret>);

/// The merged layers, from which each key is read once.
pub struct Reader {
    values: BTreeMap<String, Value>,
    defaults: BTreeMap<String, Value>,
    errors: Vec<ConfigError>,
    settings: Vec<(String, toml::Value)>,
    secrets: BTreeMap<String, Secret>,
}

impl Reader {
    pub fn new(layers: Layers) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let defaults = || File::from_str(DEFAULTS, FileFormat::Toml);
        let mut builder = ::config::Config::builder().add_source(defaults());
        if let Some(path) = &layers.file {
            match file(path) {
                Ok(parsed) => builder = builder.add_source(parsed),
                Err(rule) => {
                    let key = format!("configuration file {}", path.display());
                    errors.push(ConfigError::of(key, "", rule));
                }
            }
        }
        let environment = Environment::with_prefix("DELAY_BROKER")
            .prefix_separator("_")
            .separator("__")
            .source(Some(ours(layers.environment, &mut errors)));
        builder = builder.add_source(environment);
        let mut flags = layers.flags.into_iter();
        let merged = flags.try_fold(builder, |merged, (key, text)| merged.set_override(key, text));
        let only_defaults = ::config::Config::builder().add_source(defaults()).build();
        match (merged.and_then(|merged| merged.build()), only_defaults) {
            (Ok(merged), Ok(defaults)) => Ok(Self {
                values: flat(merged.cache),
                defaults: flat(defaults.cache),
                errors,
                settings: Vec::new(),
                secrets: BTreeMap::new(),
            }),
            (Err(error), _) | (_, Err(error)) => {
                errors.push(ConfigError::of("configuration".to_owned(), "", error.to_string()));
                Err(ConfigErrors(errors))
            }
        }
    }

    /// Reads one key. Where its value breaks the rule the default is given, so that reading goes on
    /// to the next error.
    pub fn read<T>(&mut self, key: &str, kind: &Kind<T>) -> T {
        let given = self.values.remove(key);
        if let (true, Some(given)) = (kind.secret, &given) {
            self.secrets.insert(key.to_owned(), Secret(given.to_string()));
        }
        let value = match given.as_ref().map(|given| (given, (kind.parse)(given))) {
            Some((_, Ok(value))) => value,
            wrong => {
                if let Some((given, Err(rule))) = wrong {
                    self.errors.push(ConfigError {
                        key: key.to_owned(),
                        value: if kind.secret { HIDDEN.to_owned() } else { literal(given) },
                        origin: given.origin().unwrap_or("a flag").to_owned(),
                        rule,
                    });
                }
                let default = self.defaults.get(key).map(&kind.parse);
                default.and_then(Result::ok).expect("default.toml fits its rules, as a test shows")
            }
        };
        self.settings.push((key.to_owned(), (kind.show)(&value)));
        value
    }

    /// An error that only several settings together show.
    pub fn refuse(&mut self, key: &str, rule: impl Into<String>) {
        let shown = self.settings.iter().find(|(known, _)| known == key);
        let value = shown.map_or_else(String::new, |(_, value)| value.to_string());
        self.refuse_part(key, value, rule.into());
    }

    /// The same of a part of a setting.
    pub fn refuse_part(&mut self, key: &str, value: String, rule: String) {
        // A value that breaks its own rule was replaced, so this would be a second error about it.
        if self.errors.iter().all(|error| error.key != key) {
            let (key, origin) = (key.to_owned(), String::new());
            self.errors.push(ConfigError { key, value, origin, rule });
        }
    }

    /// Keys that were not read yet are not checked.
    pub fn pass_over_the_rest(&mut self) {
        self.values.clear();
    }

    /// The settings as read, with secrets hidden, and the secrets; or everything that was wrong.
    pub fn finish(mut self) -> Result<Read, ConfigErrors> {
        for (key, value) in &self.values {
            // An unknown key may be a misspelt password.
            let (origin, rule) =
                (value.origin(), "is not a setting; config/default.toml lists all");
            let origin = origin.unwrap_or("a flag");
            self.errors.push(ConfigError::of(key.clone(), origin, rule.to_owned()));
        }
        if self.errors.is_empty() {
            Ok((self.settings, self.secrets))
        } else {
            Err(ConfigErrors(self.errors))
        }
    }
}

/// A value as it would be written in the file.
pub fn literal(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => format!("{text:?}"),
        _ => value.to_string(),
    }
}

/// A file, read once: its owner may be writing it, and a second look would find something else.
fn file(path: &Path) -> Result<::config::Config, String> {
    let text = String::from_utf8(pem::read(path, FILE_BYTES_MAX)?);
    let text = text.map_err(|error| format!("is not UTF-8: {}", error.utf8_error()))?;
    // First by itself: errors of the merging parser quote the line, which may hold a password.
    text.parse::<toml::Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line} is not TOML: {}", error.message())
    })?;
    let values = FileFormat::Toml.parse(Some(&path.display().to_string()), &text);
    let values = values.map_err(|_| "cannot be merged with the other settings".to_owned())?;
    let mut file = ::config::Config::default();
    file.cache = values.into();
    Ok(file)
}

/// The variables that name a setting. Others with our prefix are errors, except for those that
/// Kubernetes gives every container beside a service named `delay-broker`, and the password of
/// workers, which may share a file of variables with the broker.
fn ours(all: Vec<(String, String)>, errors: &mut Vec<ConfigError>) -> Map<String, String> {
    let mut ours = Map::new();
    for (name, value) in all {
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let others = ["PORT", "SERVICE_HOST", "SERVICE_PORT", "WORK_PASSWORD"];
        if matches!(key.split_once("__"), Some((section, key)) if !section.is_empty()
            && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'))
        {
            // In place of bytes that are not UTF-8: a password would be another, and easy to guess.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                let rule = "must be UTF-8".to_owned();
                errors.push(ConfigError::of(name, "the environment", rule));
            } else {
                ours.insert(name, value);
            }
        } else if !others.iter().any(|other| key.starts_with(other)) {
            let rule = format!("is not a setting; the form is {PREFIX}SECTION__KEY");
            errors.push(ConfigError::of(name, "the environment", rule));
        }
    }
    ours
}

/// `section.key` -> value, down to two levels, as deep as settings go.
fn flat(root: Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (section, value) in root.into_table().unwrap_or_default() {
        match value.kind {
            ValueKind::Table(keys) => {
                let keys = keys.into_iter();
                flat.extend(keys.map(|(key, value)| (format!("{section}.{key}"), value)));
            }
            _ => _ = flat.insert(section, value),
        }
    }
    flat
}
