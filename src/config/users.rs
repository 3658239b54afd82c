//! `[[users]]`: the users beside `default`, and what each of them may do.
//!
//! Does not know the commands; nothing shows a hash. All errors of all tables are reported at once.

use ::config::{Map, Value, ValueKind};

use crate::domain::password::PasswordHash;

use super::HIDDEN;
use super::kinds::{Kind, flag_of, text};
use super::layers::Reader;

/// The user that has `server.password`.
pub const DEFAULT: &str = "default";

const NAME_BYTES_MAX: usize = 64;
/// The patterns of one user, since each command that names a queue may match all of them.
const PATTERNS_BYTES_MAX: usize = 4 * 1024;

/// A user as the file has it. What is not given is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub password_hash: PasswordHash,
    /// In upper case, `+` or `-` in front: commands, and categories as `@READ`.
    pub commands: Vec<String>,
    /// Patterns of Redis.
    pub queues: Vec<String>,
    /// Whether it may run commands that show payloads.
    pub payloads: bool,
}

impl User {
    fn parse(keys: &Map<String, Value>) -> Result<Self, String> {
        let name = keys.get("name").map(text).transpose()?.unwrap_or_default();
        if name.is_empty() {
            return Err("each table needs a name".to_owned());
        }
        let wrong = |key: &str, rule: &str| format!("the {key} of {name:?} {rule}");
        if name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule = "must be at most 64 letters, digits and signs of ASCII, without spaces";
            return Err(wrong("name", rule));
        }
        if name == DEFAULT {
            return Err(wrong("name", "is that of the user of server.password"));
        }
        let known = ["name", "password_hash", "commands", "queues", "payloads"];
        if let Some(unknown) = keys.keys().find(|key| !known.contains(&key.as_str())) {
            let all = known.join(", ");
            let text = format!("{unknown} of {name:?} is not a setting of a user; there are {all}");
            return Err(text);
        }
        let hash = keys.get("password_hash").ok_or("must be set".to_owned()).and_then(text);
        let hash = hash.and_then(|text| Ok(PasswordHash::parse(&text)?));
        let payloads = keys.get("payloads").map(flag_of).transpose();
        let commands = texts(keys.get("commands")).and_then(|commands| {
            let commands: Vec<_> = commands.iter().map(|word| word.to_uppercase()).collect();
            let unsigned = commands.iter().find(|word| !word.starts_with(['+', '-']));
            match unsigned {
                Some(word) => Err(format!("must each begin with + or -, and {word:?} does not")),
                None => Ok(commands),
            }
        });
        let queues = texts(keys.get("queues")).and_then(|queues| {
            if queues.iter().any(String::is_empty) {
                return Err("must not be empty patterns".to_owned());
            }
            match queues.iter().map(String::len).sum() {
                0..=PATTERNS_BYTES_MAX => Ok(queues),
                bytes => Err(format!("have {bytes} bytes, more than {PATTERNS_BYTES_MAX}")),
            }
        });
        Ok(Self {
            password_hash: hash.map_err(|rule| wrong("password_hash", &rule))?,
            commands: commands.map_err(|rule| wrong("commands", &rule))?,
            queues: queues.map_err(|rule| wrong("queues", &rule))?,
            payloads: payloads.map_err(|rule| wrong("payloads", &rule))?.unwrap_or(false),
            name,
        })
    }

    fn shown(&self) -> toml::Value {
        let text = |text: &str| toml::Value::String(text.to_owned());
        let texts = |all: &[String]| toml::Value::Array(all.iter().map(|one| text(one)).collect());
        let pairs = [
            ("name", text(&self.name)),
            ("password_hash", text(HIDDEN)),
            ("commands", texts(&self.commands)),
            ("queues", texts(&self.queues)),
            ("payloads", toml::Value::Boolean(self.payloads)),
        ];
        toml::Value::Table(pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
    }
}

/// None, where the key is not there.
fn texts(value: Option<&Value>) -> Result<Vec<String>, String> {
    match value.map(|value| &value.kind) {
        None => Ok(Vec::new()),
        Some(ValueKind::Array(all)) => {
            let texts = all.iter().map(text).collect::<Result<Vec<_>, _>>();
            texts.map_err(|_| "must be a list of texts, in quotes".to_owned())
        }
        Some(_) => Err("must be a list of texts, in quotes".to_owned()),
    }
}

const RULE: &str = "must be tables with name, password_hash, commands, queues and payloads, and \
                    can be set in a file only";

pub fn users() -> Kind<Vec<User>> {
    let shown = |users: &Vec<User>| toml::Value::Array(users.iter().map(User::shown).collect());
    Kind { secret: true, ..Kind::new(RULE, parse_users, shown) }
}

fn parse_users(value: &Value) -> Result<Vec<User>, String> {
    let ValueKind::Array(tables) = &value.kind else {
        return Err(RULE.to_owned());
    };
    let (mut users, mut wrong): (Vec<User>, Vec<String>) = (Vec::new(), Vec::new());
    for (place, table) in tables.iter().enumerate() {
        let ValueKind::Table(keys) = &table.kind else {
            return Err(RULE.to_owned());
        };
        match User::parse(keys) {
            Ok(user) if users.iter().any(|known| known.name == user.name) => {
                wrong.push(format!("users[{place}]: {:?} is named twice", user.name));
            }
            Ok(user) => users.push(user),
            Err(rule) => wrong.push(format!("users[{place}]: {rule}")),
        }
    }
    if wrong.is_empty() { Ok(users) } else { Err(wrong.join("; ")) }
}

/// The commands and categories that they name exist.
pub fn check_users(keys: &mut Reader, users: &[User], known: Option<fn(&str) -> bool>) {
    for (place, user) in users.iter().enumerate() {
        for word in &user.commands {
            let name = word.get(1..).unwrap_or_default();
            let rule = match name {
                "@PAYLOAD" => "is given by payloads = true",
                name if known.is_some_and(|known| !known(name)) => {
                    "names neither a command nor a category: @read, @write, @admin, @dangerous, \
                     @all"
                }
                _ => continue,
            };
            let key = format!("users[{place}].commands of {:?}", user.name);
            keys.refuse_part(&key, format!("{word:?}"), rule.to_owned());
        }
    }
}
