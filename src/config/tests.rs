//! Tables of settings that fit and that do not; the reference file against the code.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn errors_of(layers: Layers) -> Vec<String> {
    let errors = Config::load(layers)
        .err()
        .map_or_else(Vec::new, |errors| errors.0);
    let one_line = |error: &ConfigError| ConfigErrors(vec![error.clone()]).to_string();
    errors
        .iter()
        .map(|error| one_line(error).lines().skip(1).collect())
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, Layers) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.toml");
    std::fs::write(&path, text).unwrap();
    (
        dir,
        Layers {
            file: Some(path),
            ..Layers::default()
        },
    )
}

fn environment(variables: &[(&str, &str)]) -> Layers {
    let own = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layers {
        environment: own.collect(),
        ..Layers::default()
    }
}

/// The reference names every setting and nothing else, and says of each its unit and default.
#[test]
fn default_toml_is_the_reference() {
    let config = Config::with(&[]).unwrap();
    let mut named = Vec::new();
    let (mut section, mut comment) = (String::new(), String::new());
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        } else if let Some(text) = line.strip_prefix('#') {
            comment.push_str(text);
        } else if let Some((key, _)) = line.split_once(" = ") {
            for part in ["Unit: ", "Default: "] {
                assert!(comment.contains(part), "{section}{key} has no {part:?}");
            }
            named.push(format!("{section}{key}"));
            comment.clear();
        }
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

#[test]
fn later_layers_are_stronger() {
    let (_dir, mut layers) = file("[server]\nclients_max = 1\ngrace_s = 1\nstall_timeout_s = 1");
    let variables = [
        ("DELAY_BROKER_SERVER__GRACE_S", "2"),
        ("DELAY_BROKER_SERVER__STALL_TIMEOUT_S", "2"),
        (
            "DELAY_BROKER_SERVER__DISABLED_COMMANDS",
            "dq.clear, dq.poll",
        ),
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
    assert_eq!(
        (server.clients_max, server.grace_s, server.stall_timeout_s),
        (1, 2, 3)
    );
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
        ("server.listen", "", "must be address:port"),
        ("server.listen", "0.0.0.0:7379", "needs server.password"),
        ("server.clients_max", "0", "from 1 to 1000000"),
        ("server.clients_max", "-1", "from 1 to 1000000"),
        ("server.clients_max", "many", "\"many\" (from a flag): must be a whole number"),
        ("server.protected_mode", "yes", "must be true or false"),
        ("limits.queue_pattern", "^[a-z]+$", ""),
        ("limits.queue_pattern", "(", "must be a regular expression"),
        ("limits.arguments_max", "2001", "at least 2 * limits.moffer_messages_max + 2"),
        ("limits.request_bytes_max", "33554432", "must exceed limits.payload_bytes_max"),
        ("redis.url", "redis://localhost", ""),
        ("redis.url", "redis://u:p@localhost:6379/3", ""),
        ("redis.url", "redis://[::1]:6379", ""),
        ("redis.url", "unix:///run/redis.sock", ""),
        ("redis.url", "http://localhost", "must be redis://"),
        ("redis.url", "redis://localhost/x", "must be redis://"),
        ("redis.url", "redis://localhost:0", "must be redis://"),
        ("redis.url", "redis+unix://", "must be redis://"),
        ("managed.port", "65536", "from 0 to 65535"),
        ("managed.port", "7379", "must not be the port of server.listen"),
        ("managed.appendfsync", "sometimes", "one of \"always\", \"everysec\", \"no\""),
        ("managed.data_dir", "", "must be a directory"),
        ("http.listen", "127.0.0.1:7379", "must not be the port of server.listen"),
        ("log.level", "info,delay_broker::clock=debug", ""),
        ("log.level", "a=b=c", "must be a level or a filter"),
        ("scheduler.retry_max_ms", "49", "must not be less than scheduler.retry_min_ms"),
        ("queues", "orders", "in a file only"),
        ("server.lissten", "x", "is not a setting"),
    ];
    for (key, text, part) in rows {
        let flags = vec![(key, text.to_owned())];
        let errors = errors_of(Layers {
            flags,
            ..Layers::default()
        });
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

#[test]
fn queues_come_from_the_file() {
    #[rustfmt::skip]
    let rows = [
        ("[[queues]]\nname = 'a'\nformat = 'legacy'\n[[queues]]\nname = 'b'", ""),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'a'", "\"a\" is named twice"),
        ("[[queues]]\nformat = 'legacy'", "needs a name"),
        ("[[queues]]\nname = 'a'\nformat = 'old'", "format of \"a\" must be one of"),
        ("[[queues]]\nname = 'a'\npriority = 1", "priority is not a setting of a queue"),
    ];
    for (text, part) in rows {
        let (_dir, layers) = file(text);
        let errors = errors_of(layers).concat();
        assert_eq!(errors.is_empty(), part.is_empty(), "{text}: {errors}");
        assert!(errors.contains(part), "{text}: {errors}");
    }
}

/// Everything at once, from all layers, and no secret in it.
#[test]
fn all_errors_at_once() {
    let (_dir, mut layers) = file(
        "[server]\npassword = 12345\nlisten = 7379\n[redis]\nurl = 'redis://u:hunter2@h:x'\n\
         pasword = 'hunter2'\n[nothing]\nkey = 1\n[log]\nformat = 'xml'",
    );
    layers.environment = environment(&[
        ("DELAY_BROKER_LOG_LEVEL", "x"),
        ("DELAY_BROKER_LIMITS__QUEUES_MAX", "0"),
    ])
    .environment;
    layers.flags = vec![("managed.port", "x".to_owned())];
    let errors = errors_of(layers);
    let keys: Vec<&str> = errors
        .iter()
        .filter_map(|line| line.trim().split([' ', ':']).next())
        .collect();
    #[rustfmt::skip]
    assert_eq!(keys, [
        "DELAY_BROKER_LOG_LEVEL", "server.listen", "server.password", "limits.queues_max",
        "redis.url", "managed.port", "log.format", "nothing.key", "redis.pasword",
    ]);
    let all = errors.concat();
    assert!(!all.contains("hunter2") && !all.contains("12345"), "{all}");
    assert!(
        all.contains("broker.toml") && all.contains("(from the environment)"),
        "{all}"
    );
}

#[test]
fn a_file_that_is_no_toml_names_the_line_and_not_its_text() {
    let (_dir, layers) = file("[server]\npassword = \"hunter2\nlisten = \"x\"");
    let errors = errors_of(layers).concat();
    assert!(errors.contains("line 2 is not TOML"), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
    let missing = Layers {
        file: Some("/nowhere/broker.toml".into()),
        ..Layers::default()
    };
    assert!(
        errors_of(missing)
            .concat()
            .contains("/nowhere/broker.toml: cannot be read")
    );
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
    assert!(
        config
            .effective()
            .contains("url = \"redis://(hidden)@example.com:6379/1\"")
    );
}
