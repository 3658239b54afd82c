//! Tables of settings that fit and that do not; the reference file against the code.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn errors_of(mut layers: Layers) -> Vec<String> {
    layers.known_command = Some(|name| ["DQ.CLEAR", "DQ.POLL"].contains(&name));
    let errors = Config::load(layers).err().map_or_else(Vec::new, |errors| errors.0);
    let one_line = |error: &ConfigError| ConfigErrors(vec![error.clone()]).to_string();
    errors.iter().map(|error| one_line(error).lines().skip(1).collect()).collect()
}

fn reloads(key: &str) -> bool {
    key == "users" || SETTINGS.iter().any(|known| known.key == key && known.reloads)
}

fn file(text: &str) -> (tempfile::TempDir, Layers) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.toml");
    std::fs::write(&path, text).unwrap();
    (dir, Layers { file: Some(path), ..Layers::default() })
}

fn environment(variables: &[(&str, &str)]) -> Layers {
    let own = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layers { environment: own.collect(), ..Layers::default() }
}

/// One setting of `config/default.toml`: the comment above it, taken apart, and its line.
struct Entry {
    section: String,
    key: String,
    default: String,
    text: String,
    unit: String,
    /// After "Default:", which names the default again for people, and why it is that.
    reason: String,
    flag: Option<String>,
    reloads: bool,
}

fn entries() -> Vec<Entry> {
    let (mut entries, mut section, mut comment) = (Vec::new(), String::new(), Vec::new());
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some(text) = line.strip_prefix('#') {
            comment.push(text.strip_prefix(' ').unwrap_or(text));
        } else if let Some((key, default)) = line.split_once(" = ") {
            let mut text = comment.join("\n");
            // What stands behind the last of these words, which may be split by the end of a line.
            let mut part = |name: &str| {
                let at = text.replace('\n', " ").rfind(name)?;
                let found = text.split_off(at).replace('\n', " ");
                Some(found.trim_start_matches(name).trim().to_owned())
            };
            let reloads = part("Reload: yes.").is_some();
            let flag = part("Flag: ").map(|flag| flag.trim_end_matches('.').to_owned());
            let [reason, unit] = ["Default: ", "Unit: "]
                .map(|name| part(name).unwrap_or_else(|| panic!("{key} has no {name:?}")));
            let (key, default) = (key.to_owned(), default.to_owned());
            let section = section.clone();
            let text = text.trim().to_owned();
            entries.push(Entry { section, key, default, text, unit, reason, flag, reloads });
            comment.clear();
        } else if line.is_empty() {
            comment.clear();
        }
    }
    entries
}

impl Entry {
    fn name(&self) -> String {
        format!("{}.{}", self.section, self.key).trim_start_matches('.').to_owned()
    }

    /// Its section of `docs/settings.md`.
    fn page(&self) -> String {
        let name = self.name();
        let variable = format!("DELAY_BROKER_{}__{}", self.section, self.key).to_uppercase();
        let rule = SETTINGS.iter().find(|setting| setting.key == name).map(|known| (known.rule)());
        let mut page = format!("\n### {name}\n\n{}\n\n", paragraph(&self.text));
        let mut line = |text: String| page += &format!("- {text}\n");
        line(format!("Unit: {}", self.unit));
        line(format!("Default: `{}`. {}", self.default, sentence(&self.reason)));
        if let Some(rule) = rule {
            line(format!("Value: {}.", rule.trim_start_matches("must be ")));
            line(format!("Environment: `{variable}`"));
        }
        if let Some(flag) = &self.flag {
            line(format!("Flag: `{flag}`"));
        }
        line(format!("Change: {}", if self.reloads { "SIGHUP" } else { "restart" }));
        page
    }
}

/// Lines joined; those that are indented are a block of code.
fn paragraph(text: &str) -> String {
    let (code, prose): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("  "));
    let mut shown = prose.join(" ");
    if !code.is_empty() {
        let code: Vec<&str> = code.iter().map(|line| line.trim_start()).collect();
        shown += &format!("\n\n```toml\n{}\n```", code.join("\n"));
    }
    shown
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The reference names every setting and nothing else, and says of each its unit and default.
#[test]
fn default_toml_is_the_reference() {
    let config = Config::with(&[]).unwrap();
    let mut named = Vec::new();
    for entry in entries() {
        assert_eq!(entry.reloads, reloads(&entry.name()), "{}", entry.name());
        named.push(entry.name());
    }
    let read: Vec<&String> = config.settings.iter().map(|(key, _)| key).collect();
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert_eq!(sorted(named), sorted(read.into_iter().cloned().collect()));
    let written: toml::Table = config.effective().parse().unwrap();
    assert_eq!(written, DEFAULTS.parse::<toml::Table>().unwrap());
}

/// `docs/settings.md` is made from `config/default.toml` and the list of settings:
/// `WRITE_DOCS=1 cargo test --lib settings_page` writes it.
#[test]
fn settings_page() {
    let mut page = String::from(
        "# Settings\n\nMade from `config/default.toml`, which is compiled into the broker as the \
         lowest of four layers: that file, the file of `--config`, the environment, flags; a later \
         layer overrides an earlier one. A file needs only the settings that differ, and an \
         unknown key is an error. `delay-broker check` reports all errors at once and prints the \
         settings in effect. The broker takes up a setting marked \"Change: SIGHUP\" when it \
         receives that signal; all others need a restart.\n",
    );
    let mut section = None;
    for entry in entries() {
        if section.as_ref() != Some(&entry.section) {
            let title = match entry.section.as_str() {
                "" => "Tables",
                section => &format!("[{section}]"),
            };
            page += &format!("\n## {title}\n");
            section = Some(entry.section.clone());
        }
        page += &entry.page();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "WRITE_DOCS=1 cargo test --lib settings_page writes docs/settings.md");
}

#[test]
fn later_layers_are_stronger() {
    let (_dir, mut layers) = file("[server]\nclients_max = 1\ngrace_s = 1\nstall_timeout_s = 1");
    let variables = [
        ("DELAY_BROKER_SERVER__GRACE_S", "2"),
        ("DELAY_BROKER_SERVER__STALL_TIMEOUT_S", "2"),
        ("DELAY_BROKER_SERVER__DISABLED_COMMANDS", "dq.clear, dq.poll"),
        ("DELAY_BROKER_SERVER__PROTECTED_MODE", "false"),
        ("DELAY_BROKER_SERVER__PASSWORD", "00123"),
        ("DELAY_BROKER_HTTP__LISTEN", ""),
        // Kubernetes sets these beside a service of that name.
        ("DELAY_BROKER_PORT_7379_TCP", "tcp://10.0.0.1:7379"),
        ("DELAY_BROKER_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    layers.environment = environment(&variables).environment;
    layers.flags = vec![("server.stall_timeout_s", "3".to_owned())];
    let config = Config::load(layers).unwrap();
    let server = &config.server;
    assert_eq!((server.clients_max, server.grace_s, server.stall_timeout_s), (1, 2, 3));
    assert_eq!(server.disabled_commands, ["DQ.CLEAR", "DQ.POLL"]);
    assert!(!server.protected_mode);
    assert_eq!(server.password.as_ref().map(Secret::expose), Some("00123"));
    assert_eq!(config.http.listen, None);
}

/// Each row: a setting as text, and a part of its error ("" = fits).
#[test]
fn rules() {
    #[rustfmt::skip]
    let rows = [
        ("server.listen", "127.0.0.1:0", ""),
        ("server.listen", "localhost:7000", ""),
        ("server.listen", "[::1]:7000", ""),
        ("server.listen", "7379", "must be address:port"),
        ("server.listen", "", "may be empty only where server.tls_listen"),
        ("server.tls_listen", "7380", "must be address:port"),
        ("server.listen", "0.0.0.0:7379", "needs server.password"),
        ("server.clients_max", "0", "from 1 to 1000000"),
        ("server.clients_max", "-1", "from 1 to 1000000"),
        ("server.clients_max", "many", "\"many\" (from a flag): must be a whole number"),
        ("server.protected_mode", "yes", "must be true or false"),
        ("limits.queue_pattern", "^[a-z]+$", ""),
        ("limits.queue_pattern", "(", "must be a regular expression: error: unclosed group"),
        ("server.password", "(hidden)", "stands in place of a secret"),
        ("server.disabled_commands", "dq.clear, DQ.POLL", ""),
        ("server.disabled_commands", "dq.clear, dq.claer", "\"DQ.CLAER\" is not one"),
        ("limits.arguments_max", "2001", "at least 2 * limits.moffer_messages_max + 2"),
        ("limits.request_bytes_max", "33554432", "must exceed limits.payload_bytes_max"),
        ("redis.url", "redis://localhost", ""),
        ("redis.url", "redis://u:p@localhost:6379/3", ""),
        ("redis.url", "redis://[::1]:6379", ""),
        ("redis.url", "unix:///run/redis.sock", ""),
        ("redis.url", "http://localhost", "its scheme \"http\""),
        ("redis.url", "redis://localhost/x", "its database must be a number"),
        ("redis.url", "redis://localhost:0", "its port"),
        ("redis.url", "redis+unix://", "its path"),
        ("redis.url", "redis://(hidden)@localhost", "stands in place of a secret"),
        ("redis.url", "redis://:a%zz@localhost", "(hidden) (from a flag): its password must have"),
        ("redis.tls_ca_file", "/nowhere/ca.pem", "(from a flag): cannot be read"),
        ("redis.tls_key_file", "/dev/null", "is not a file"),
        ("redis.audit", "on", "one of \"refuse\", \"warn\", \"off\""),
        ("managed.port", "65536", "from 0 to 65535"),
        ("managed.port", "7379", "must not be the port of server.listen"),
        ("managed.appendfsync", "sometimes", "one of \"always\", \"everysec\", \"no\""),
        ("managed.data_dir", "", "must be a directory"),
        ("http.listen", "127.0.0.1:7379", "must not be the port of server.listen"),
        ("log.level", "info,delay_broker::store::clock=debug", ""),
        ("log.level", "warning", ""),
        ("log.level", "", ""),
        ("log.level", "loud", "\"loud\" is neither a level nor one of the modules work, daemon"),
        ("scheduler.retry_max_ms", "49", "must not be less than scheduler.retry_min_ms"),
        ("queues", "orders", "in a file only"),
        ("server.lissten", "x", "is not a setting"),
    ];
    for (key, text, part) in rows {
        let flags = vec![(key, text.to_owned())];
        let errors = errors_of(Layers { flags, ..Layers::default() });
        match part {
            "" => assert_eq!(errors, [""; 0], "{key} = {text}"),
            part => {
                assert_eq!(errors.len(), 1, "{key} = {text}: {errors:?}");
                assert!(errors[0].trim().starts_with(key), "{errors:?}");
                assert!(errors[0].contains(part), "{key} = {text}: {errors:?}");
            }
        }
    }
}

const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRyaWdo$H5HWU9wN/c5Tb0k6ta0eUQ";

#[test]
fn users_come_from_the_file() {
    let hash = format!("password_hash = '{HASH}'");
    let hash = hash.as_str();
    #[rustfmt::skip]
    let rows: &[(&[&str], &str)] = &[
        (&["name = 'ann'", hash], ""),
        (&["name = 'ann'", hash, "commands = ['+@read', '-dq.clear']", "queues = ['a.*', '*']",
           "payloads = true"], ""),
        (&["name = 'ann'", hash, "[[users]]", "name = 'bob'", hash], ""),
        (&[hash], "users[0]: each table needs a name"),
        (&["name = 'ann'", hash, "[[users]]", "name = 'ann'", hash],
         "users[1]: \"ann\" is named twice"),
        (&["name = 'default'", hash], "the name of \"default\" is that of the user of"),
        (&["name = 'a b'", hash], "the name of \"a b\" must be at most 64 letters"),
        (&["name = 'ann'"], "the password_hash of \"ann\" must be set"),
        (&["name = 'ann'", "password_hash = 'secret-4711'"],
         "the password_hash of \"ann\" must be an Argon2id hash"),
        (&["name = 'ann'", hash, "commands = '+@read'"], "the commands of \"ann\" must be a list"),
        (&["name = 'ann'", hash, "commands = ['@read']"],
         "the commands of \"ann\" must each begin with + or -, and \"@READ\" does not"),
        (&["name = 'ann'", hash, "commands = ['+@payload']"],
         "users[0].commands of \"ann\" = \"+@PAYLOAD\": is given by payloads = true"),
        (&["name = 'ann'", hash, "commands = ['+dq.clera']"],
         "users[0].commands of \"ann\" = \"+DQ.CLERA\": names neither a command nor a category"),
        (&["name = 'ann'", hash, "queues = ['']"], "the queues of \"ann\" must not be empty"),
        (&["name = 'ann'", hash, "queues = [1]"], "the queues of \"ann\" must be a list of texts"),
        (&["name = 'ann'", hash, "payloads = 1"], "the payloads of \"ann\" must be true or false"),
        (&["name = 'ann'", hash, "rights = 1"], "rights of \"ann\" is not a setting of a user"),
        (&["name = 'ann'", "password_hash = 'x'", "[[users]]", hash], "; users[1]: each table"),
    ];
    for (lines, wanted) in rows {
        let (_dir, mut layers) = file(&format!("[[users]]\n{}", lines.join("\n")));
        layers.known_command = Some(|name| ["DQ.CLEAR", "@READ"].contains(&name));
        let said = Config::load(layers).map_err(|errors| errors.to_string()).err();
        let said = said.unwrap_or_default();
        assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{lines:?}: {said}");
        assert!(!said.contains("4711") && !said.contains("argon2id$"), "{said}");
    }
    let long = format!("name = 'ann'\n{hash}\nqueues = ['{}']", "q".repeat(4_097));
    let (_dir, layers) = file(&format!("[[users]]\n{long}"));
    let said = Config::load(layers).unwrap_err().to_string();
    assert!(said.contains("have 4097 bytes, more than 4096"), "{said}");
    let open = [("server.listen", "0.0.0.0:7379")];
    let (_dir, mut layers) = file(&format!("[[users]]\nname = 'ann'\n{hash}"));
    layers.flags = open.map(|(key, value)| (key, value.to_owned())).to_vec();
    assert!(Config::load(layers).is_ok(), "users are passwords");
}

/// A hash is in nothing that is shown, and another one is a change.
#[test]
fn hashes_of_users_are_hidden() {
    let load = |text: &str| {
        let (_dir, layers) = file(text);
        Config::load(layers).unwrap()
    };
    let table = format!("[[users]]\nname = 'ann'\npassword_hash = '{HASH}'\n");
    let (config, same) = (load(&table), load(&table));
    let shown = config.effective();
    assert!(shown.contains("\n# users = [{") && shown.contains("\"(hidden)\""), "{shown}");
    for text in [shown, format!("{config:?}"), format!("{:?}", config.settings)] {
        assert!(!text.contains("argon2id$"), "{text}");
    }
    assert_eq!(config.changes(&same), []);
    let other = load(&table.replace("$H5HWU9wN", "$H5HWU9wM"));
    let changes = config.changes(&other);
    assert_eq!(changes.len(), 1);
    assert!(changes[0].key == "users" && changes[0].reloaded, "{changes:?}");
    assert!(!format!("{changes:?}").contains("argon2id$"));
    assert_eq!(config.reloaded(&other).unwrap().users, other.users);
    // A listener that others can reach keeps its last user.
    let (_dir, mut layers) = file(&table);
    layers.flags = vec![("server.listen", "0.0.0.0:7379".to_owned())];
    let open = Config::load(layers).unwrap();
    assert!(open.reloaded(&load("")).is_err());
}

#[test]
fn queues_come_from_the_file() {
    #[rustfmt::skip]
    let rows = [
        ("[[queues]]\nname = 'a'\nformat = 'legacy'\n[[queues]]\nname = 'b'", ""),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'a'", "\"a\" is named twice"),
        ("[[queues]]\nformat = 'legacy'", "needs a name"),
        ("[[queues]]\nname = 'a'\nformat = 'old'", "format of \"a\" must be one of"),
        ("[[queues]]\nname = 'a'\ndurability = 'replicas 2'", ""),
        ("[[queues]]\nname = 'a'\ndurability = 'none'", ""),
        ("[[queues]]\nname = 'a'\ndurability = 'disk'", "durability of \"a\" must be fsync, none"),
        ("[[queues]]\nname = 'a'\ndurability = 2", "durability of \"a\" must be"),
        ("[[queues]]\nname = 'a'\nencoding = 'kryo5'", ""),
        ("[[queues]]\nname = 'a'\nencoding = 'kryo'", "encoding of \"a\" must be one of"),
        ("[[queues]]\nname = 'a'\norder_list = false", ""),
        ("[[queues]]\nname = 'a'\norder_list = 0", "order_list of \"a\" must be true or false"),
        ("[[queues]]\nname = 'a'\npriority = 1", "priority is not a setting of a queue"),
        ("[[queues]]\nformat = 'legacy'\n[[queues]]\nname = 'a'\nformat = 'old'",
         "needs a name; the format of \"a\" must be"),
        ("[[queues]]\nname = 'delay_broker_x'", "queues[0].name = \"delay_broker_x\": begins with"),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'B'\n[limits]\nqueue_pattern = '^[a-z]+$'",
         "queues[1].name = \"B\": "),
    ];
    for (text, part) in rows {
        let (_dir, layers) = file(text);
        let errors = errors_of(layers).concat();
        assert_eq!(errors.is_empty(), part.is_empty(), "{text}: {errors}");
        assert!(errors.contains(part), "{text}: {errors}");
    }
}

/// With an order list unless told; what is shown of it is read again.
#[test]
fn an_order_list_is_kept_unless_told() {
    let tables = "[[queues]]\nname = 'a'\n[[queues]]\nname = 'b'\norder_list = false\n\
                  durability = 'replicas 2'";
    let (_dir, layers) = file(tables);
    let config = Config::load(layers).unwrap();
    let kept: Vec<bool> = config.queues.iter().map(|queue| queue.order_list).collect();
    assert_eq!(kept, [true, false]);
    let shown = config.queues.iter().map(Queue::shown);
    let shown =
        toml::Table::from_iter([("queues".to_owned(), toml::Value::Array(shown.collect()))]);
    let (_dir, layers) = file(&shown.to_string());
    assert_eq!(Config::load(layers).unwrap().queues, config.queues);
}

/// Everything at once, from all layers, and no secret in it.
#[test]
fn all_errors_at_once() {
    let (_dir, mut layers) = file(
        "[server]\npassword = 12345\nlisten = 7379\n[redis]\nurl = 'redis://u:hunter2@h:x'\n\
         pasword = 'hunter2'\n[nothing]\nkey = 1\n[log]\nformat = 'xml'",
    );
    layers.environment =
        environment(&[("DELAY_BROKER_LOG_LEVEL", "x"), ("DELAY_BROKER_LIMITS__QUEUES_MAX", "0")])
            .environment;
    layers.flags = vec![("managed.port", "x".to_owned())];
    let errors = errors_of(layers);
    let keys: Vec<&str> =
        errors.iter().filter_map(|line| line.trim().split([' ', ':']).next()).collect();
    #[rustfmt::skip]
    assert_eq!(keys, [
        "DELAY_BROKER_LOG_LEVEL", "server.listen", "server.password", "limits.queues_max",
        "redis.url", "managed.port", "log.format", "nothing.key", "redis.pasword",
    ]);
    let all = errors.concat();
    assert!(!all.contains("hunter2") && !all.contains("12345"), "{all}");
    assert!(all.contains("broker.toml") && all.contains("(from the environment)"), "{all}");
}

/// The process reads its environment with U+FFFD in place of other bytes.
#[test]
fn a_variable_must_be_utf8() {
    let layers = environment(&[("DELAY_BROKER_SERVER__PASSWORD", "hunter2\u{fffd}")]);
    let errors = errors_of(layers).concat();
    let expected = "DELAY_BROKER_SERVER__PASSWORD (from the environment): must be UTF-8";
    assert!(errors.contains(expected), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
}

#[test]
fn a_file_that_is_no_toml_names_the_line_and_not_its_text() {
    let (dir, layers) = file("[server]\npassword = \"hunter2\nlisten = \"x\"");
    let errors = errors_of(layers).concat();
    assert!(errors.contains("line 2 is not TOML"), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
    let missing = Layers { file: Some("/nowhere/broker.toml".into()), ..Layers::default() };
    assert!(errors_of(missing).concat().contains("/nowhere/broker.toml: cannot be read"));
    // It could be read once only, and would hold up the broker until somebody writes.
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (layers, writes) = (Layers { file: Some(pipe.clone()), ..Layers::default() }, pipe);
    std::thread::spawn(move || std::fs::write(writes, ""));
    let errors = errors_of(layers).concat();
    assert!(errors.ends_with("/pipe: is not a file"), "{errors}");
}

#[test]
fn secrets_are_never_shown() {
    let config = Config::with(&[
        ("server.password", "hunter2"),
        ("redis.url", "redis://user:hunter2@example.com:6379/1"),
    ]);
    let config = config.unwrap();
    let shown = format!("{config:?}{}", config.effective());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(config.effective().contains("\n# url = \"redis://(hidden)@example.com:6379/1\"\n"));
}

/// What `check` prints is a file again; its secrets must be set again.
#[test]
fn the_effective_settings_are_a_file() {
    let given = [
        ("server.password", "hunter2"),
        ("redis.url", "redis://user:hunter2@example.com:6379/1"),
        ("limits.queue_pattern", "a\"\n\u{1b}"),
        ("server.disabled_commands", "DQ.CLEAR"),
    ];
    let config = Config::with(&given).unwrap();
    let (_dir, layers) = file(&config.effective());
    let again = Config::load(layers.clone()).unwrap();
    assert!(again.server.password.is_none() && again.redis.url.is_none());
    let flags = given.map(|(key, value)| (key, value.to_owned())).to_vec();
    let again = Config::load(Layers { flags, ..layers }).unwrap();
    assert!(again.changes(&config).is_empty() && config.changes(&again).is_empty());
}

/// The variable of each setting is the one that the reference's first lines say.
#[test]
fn each_key_has_its_variable() {
    for (key, _) in Config::with(&[]).unwrap().settings {
        let Some((section, name)) = key.split_once('.') else {
            continue;
        };
        let name = format!("DELAY_BROKER_{section}__{name}").to_uppercase();
        // No setting takes this but those that take any text.
        let wrong = environment(&[(&name, "(\u{1})=,=")]);
        let read = Config::load(wrong);
        let seen = match &read {
            Err(errors) => errors.0.iter().any(|error| {
                let unknown = error.rule.contains("is not a setting");
                error.key == key && !unknown
            }),
            Ok(config) => !config.changes(&Config::with(&[]).unwrap()).is_empty(),
        };
        assert!(seen, "{name}: {read:?}");
    }
}

/// A setting that is not the default's, for each key that can change without a restart.
#[test]
fn what_reloads_is_taken_up_and_the_rest_is_not() {
    let certified = tls::tests::Files::new();
    let base = certified.settings();
    let load = |more: &[(&'static str, &str)]| {
        let all: Vec<_> = base.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Config::with(&[&all[..], more].concat()).unwrap()
    };
    let before = load(&[]);
    let other = tls::tests::Files::new();
    let other = other.settings();
    let mut seen = Vec::new();
    for (key, default) in &before.settings {
        let value = match (key.as_str(), default) {
            ("server.tls_cert_file" | "server.tls_key_file", _) => continue,
            ("server.tls_client_ca_file", _) => other[1].1.clone(),
            ("server.disabled_commands", _) => "DQ.CLEAR".to_owned(),
            ("server.listen" | "http.listen", _) => "127.0.0.1:0".to_owned(),
            ("server.tls_listen", _) => "127.0.0.1:1".to_owned(),
            ("redis.url", _) => "redis://localhost".to_owned(),
            ("redis.audit", _) => "off".to_owned(),
            // For Sentinels only, and for TLS to Redis only.
            ("redis.sentinel_user" | "redis.sentinel_password", _) => continue,
            ("redis.addresses", _) => continue,
            ("redis.tls_ca_file" | "redis.tls_cert_file" | "redis.tls_key_file", _) => continue,
            ("managed.appendfsync", _) => "no".to_owned(),
            ("log.format", _) => "json".to_owned(),
            ("log.level", _) => "debug".to_owned(),
            ("queues" | "users", _) => continue,
            (_, toml::Value::Boolean(flag)) => (!flag).to_string(),
            (_, toml::Value::Integer(0)) => "1".to_owned(),
            (
                "limits.arguments_max" | "limits.request_bytes_max" | "managed.port",
                toml::Value::Integer(n),
            ) => (n + 1).to_string(),
            ("scheduler.retry_max_ms", toml::Value::Integer(n)) => (n + 1).to_string(),
            (_, toml::Value::Integer(n)) => (n - 1).to_string(),
            (_, _) => "other".to_owned(),
        };
        let key: &'static str = key.clone().leak();
        let wanted = load(&[(key, &value)]);
        let changes = before.changes(&wanted);
        assert_eq!(changes.len(), 1, "{key}: {changes:?}");
        let after = before.reloaded(&wanted).unwrap();
        let expected = if reloads(key) { &wanted } else { &before };
        assert_eq!(format!("{after:?}"), format!("{expected:?}"), "{key}");
        assert!(after.changes(expected).is_empty(), "{key}");
        seen.push(key);
    }
    // Those of a pair of files change together.
    let renewed: Vec<_> = other.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let wanted = Config::with(&renewed).unwrap();
    let after = before.reloaded(&wanted).unwrap();
    assert!(after.changes(&wanted).is_empty());
    let unseen = |key: &&&'static str| !seen.contains(key) && !key.starts_with("server.tls_");
    let reloaded = SETTINGS.iter().filter(|known| known.reloads).map(|known| &known.key);
    assert_eq!(reloaded.filter(unseen).collect::<Vec<_>>(), [&""; 0]);
}

/// The address stays until a restart, so the password that it needs stays, too.
#[test]
fn a_password_is_not_taken_from_an_address_that_stays_open() {
    let open = [("server.listen", "0.0.0.0:7379"), ("server.password", "x")];
    let before = Config::with(&open).unwrap();
    let closed = Config::with(&[]).unwrap();
    let error = before.reloaded(&closed).unwrap_err().to_string();
    assert!(error.contains("server.listen = 0.0.0.0:7379"), "{error}");
    assert!(closed.reloaded(&before).is_ok());
    // Its handshake goes on asking for no certificate, though the file names who signs them.
    let files = tls::tests::Files::new();
    let mut open = files.settings();
    open[0].1 = "0.0.0.0:0".to_owned();
    let mut open: Vec<_> = open.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let authority = ("server.tls_client_ca_file", open[1].1);
    open.push(("server.password", "x"));
    let before = Config::with(&open).unwrap();
    let closed = Config::with(&[authority]).unwrap();
    let error = before.reloaded(&closed).unwrap_err().to_string();
    assert!(error.contains("server.tls_listen = 0.0.0.0:0"), "{error}");
    let closed = Config::with(&[authority, ("server.password", "y")]).unwrap();
    let applied = before.changes(&closed).into_iter().filter(|change| change.reloaded);
    assert_eq!(applied.map(|change| change.key).collect::<Vec<_>>(), ["server.password"]);
    assert!(before.reloaded(&closed).unwrap().server.tls_client_ca_file.is_none());
}

#[test]
fn tls() {
    let files = tls::tests::Files::new();
    let other = tls::tests::Files::new();
    let [listen, certificate, key] = files.settings();
    let [_, _, other_key] = other.settings();
    let errors = |settings: &[(&'static str, &str)]| {
        let flags = settings.iter().map(|(key, value)| (*key, (*value).to_owned()));
        errors_of(Layers { flags: flags.collect(), ..Layers::default() }).concat()
    };
    let (cert, key) = (("server.tls_cert_file", &*certificate.1), ("server.tls_key_file", &*key.1));
    let listen = ("server.tls_listen", &*listen.1);
    let open = ("server.tls_listen", "0.0.0.0:0");
    let nowhere = ("server.listen", "");
    let ca = ("server.tls_client_ca_file", &*certificate.1);
    #[rustfmt::skip]
    let rows: &[(&[(&'static str, &str)], &[&str])] = &[
        (&[listen, cert, key], &[]),
        (&[listen, cert, key, nowhere], &[]),
        (&[listen, cert, key, ca], &[]),
        (&[listen], &["tls_cert_file = \"\": must be set", "tls_key_file = \"\": must be set"]),
        (&[listen, cert, ("server.tls_key_file", &other_key.1)], &["is not the key of"]),
        (&[listen, cert, ("server.tls_key_file", &certificate.1)], &["holds no private key"]),
        (&[listen, ("server.tls_cert_file", "/nowhere"), ("server.tls_key_file", "/no"),
           ("server.tls_client_ca_file", key.1)],
         &["tls_cert_file = \"/nowhere\": cannot be read", "tls_key_file = \"/no\": cannot be",
           "tls_client_ca_file = ", "holds no certificate"]),
        (&[open, cert, key], &["needs a password or server.tls_client_ca_file"]),
        (&[open, cert, key, ("server.password", "x")], &[]),
        (&[open, cert, key, ca], &[]),
        (&[open, cert, key, ca, ("server.listen", "0.0.0.0:0")],
         &["needs server.password or [[users]];"]),
        (&[("server.tls_listen", "127.0.0.1:7379"), cert, key],
         &["must not be the port of server.listen"]),
        // Nothing listens: nothing is read.
        (&[("server.tls_cert_file", "/nowhere")], &[]),
    ];
    for (settings, parts) in rows {
        let errors = errors(settings);
        assert_eq!(errors.is_empty(), parts.is_empty(), "{settings:?}: {errors}");
        for part in *parts {
            assert!(errors.contains(part), "{settings:?}: {errors}");
        }
        assert!(!errors.contains("PRIVATE KEY\n"), "{errors}");
    }
}
