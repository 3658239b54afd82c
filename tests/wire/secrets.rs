//! Secrets are in no output, and names from outside do nothing to a terminal or to the lines of a
//! log.

use crate::peer::Place;
use crate::support::broker::{Broker, run};
use crate::support::redis;
use crate::support::resp::Client;
use crate::support::users::{self, HASH};
use crate::support::wait::eventually;
use std::io::{Read, Write};
use std::net::TcpStream;

/// What clients send, what the URL holds, and what was typed wrong.
const PASSWORD: &str = "pass-of-the-broker-4711";
const OF_REDIS: &str = "pass-of-the-redis-4712";
const WRONG: &str = "wrong-pass-4713";
const NEXT: &str = "next-pass-4714";

fn assert_hidden(what: &str, output: &str) {
    assert!(!output.is_empty(), "{what}");
    for secret in [PASSWORD, OF_REDIS, WRONG, NEXT, HASH, "$argon2id$"] {
        assert!(!output.contains(secret), "{what} shows {secret}: {output}");
    }
}

pub fn get(broker: &Broker, path: &str) -> String {
    let mut stream = TcpStream::connect(broker.http_address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn shown(reply: std::io::Result<crate::support::resp::Value>) -> String {
    format!("{:?}", reply.unwrap())
}

/// A user of the shared Redis with a password, and a URL with it.
fn url_with_password(user: &str, password: &str) -> String {
    let database = redis::shared().fresh_database();
    let mut client = redis::shared().client(0);
    let rule = format!(">{OF_REDIS}");
    let made = client.call(&["ACL", "SETUSER", user, "on", &rule, "~*", "&*", "+@all"]);
    assert_eq!(made.unwrap().text(), "OK");
    let url = redis::shared().url(database);
    let (_, address) = url.split_once("://").unwrap();
    format!("redis://{user}:{password}@{address}")
}

#[test]
fn no_output_has_a_secret() {
    let url = url_with_password("secrets", OF_REDIS);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.toml");
    let ann = users::user("ann", "commands = [\"+@read\"]");
    std::fs::write(&file, format!("{ann}[server]\npassword = \"{PASSWORD}\"\n")).unwrap();
    let args = ["--redis", &url, "--config", file.to_str().unwrap(), "--log"];
    let broker = Broker::with_args(&[&args[..], &["trace"]].concat(), &[]);
    let mut client = broker.client();
    let mut outputs = Vec::new();
    for words in [
        &["AUTH", WRONG][..],
        &["AUTH", "default", WRONG],
        &["HELLO", "3", "AUTH", "default", WRONG],
        &["AUTH", "default", PASSWORD],
        &["RESET"],
        &["HELLO", "3", "AUTH", "default", PASSWORD],
        &["AUTH", PASSWORD],
        &["ACL", "LIST"],
        &["ACL", "GETUSER", "ann"],
        &["DQ.OFFER", "q", "1h", "x"],
        &["CLIENT", "LIST"],
        &["CLIENT", "INFO"],
        &["INFO"],
        &["CONFIG", "GET", "*"],
        &["DQ.INFO", "q"],
        &["COMMAND", "DOCS"],
    ] {
        outputs.push((words[0].to_owned(), shown(client.call(words))));
    }
    assert!(outputs[3].1 == "+OK" && outputs[13].1.contains("server.password"));
    let own = shown(broker.client().call(&["AUTH", "ann", users::PASSWORD]));
    assert_eq!(own, "+OK");
    // Another password, and then a file that is wrong in several ways.
    let next = format!("[server]\npassword = \"{NEXT}\"\n");
    std::fs::write(&file, &next).unwrap();
    broker.signal("HUP");
    eventually(|| shown(broker.client().call(&["AUTH", NEXT])), |reply| reply == "+OK");
    let wrong =
        format!("{next}pasword = \"{PASSWORD}\"\n[redis]\nurl = \"{OF_REDIS}\"\n[limits]\n");
    std::fs::write(&file, wrong + "queues_max = 0\nserver = 5").unwrap();
    broker.signal("HUP");
    eventually(|| broker.log(), |log| log.contains("limits.queues_max"));
    for path in ["/metrics", "/readyz", "/healthz", "/"] {
        outputs.push((path.to_owned(), get(&broker, path)));
    }
    outputs.push(("stdout".to_owned(), broker.said()));
    outputs.push(("the log".to_owned(), broker.log()));
    for (what, output) in &outputs {
        assert_hidden(what, output);
    }
}

#[test]
fn neither_has_what_is_said_of_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.toml");
    let url = format!("redis://user:{OF_REDIS}@localhost");
    let rows = [
        (format!("[server]\npassword = \"{PASSWORD}\"\n"), true),
        (format!("[redis]\nurl = \"{url}\"\n"), true),
        (format!("[[users]]\nname = \"ann\"\npassword_hash = \"{HASH}\"\n"), true),
        (format!("[[users]]\nname = \"ann\"\npassword_hash = \"{PASSWORD}\"\n"), false),
        (format!("[[users]]\nname = \"ann\"\npassword_hash = [\"{HASH}\"]\n"), false),
        (format!("[[users]]\nname = \"ann\"\npasword_hash = \"{HASH}\"\n"), false),
        (format!("users = \"{PASSWORD}\"\n"), false),
        (format!("[redis]\nurl = \"{url}:x\"\n"), false),
        (format!("[redis]\nurl = [\"{url}\"]\n"), false),
        (format!("[server]\npassword = [\"{PASSWORD}\"]\n"), false),
        (format!("[server]\npassword = \"{PASSWORD}\n"), false),
        (format!("[server]\npassword.is = \"{PASSWORD}\"\n"), false),
        (format!("[server]\npasword = \"{PASSWORD}\"\n"), false),
        (format!("server = \"{PASSWORD}\"\n"), false),
        (format!("password = \"{PASSWORD}\"\n"), false),
    ];
    for (text, fits) in &rows {
        std::fs::write(&file, text).unwrap();
        let (status, output) = run(&["check", "--config", file.to_str().unwrap()], &[]);
        assert_eq!(status.success(), *fits, "{text}: {output}");
        assert_hidden(text, &output);
    }
    // From the environment and from flags.
    for name in ["SERVER__PASSWORD", "SERVER__PASWORD", "SERVER__PASSWORD__X", "SERVERPASSWORD"] {
        let variable = format!("DELAY_BROKER_{name}");
        assert_hidden(name, &run(&["check"], &[(&variable, PASSWORD)]).1);
        std::fs::write(&file, "server = 5").unwrap();
        let args = ["check", "--config", file.to_str().unwrap()];
        assert_hidden(name, &run(&args, &[(&variable, PASSWORD)]).1);
    }
    for url in [&url, &format!("{url}:x"), &format!("redis+unix://u:{OF_REDIS}@h/nowhere")] {
        assert_hidden(url, &run(&["check", "--redis", url], &[]).1);
        assert_hidden(url, &run(&["health", "--redis", url, "--http", "127.0.0.1:1"], &[]).1);
    }
}

/// A Redis that knows another password.
#[test]
fn a_wrong_password_of_redis_is_not_shown_either() {
    let url = url_with_password("secrets-wrong", WRONG);
    let broker = Broker::with_args(&["--redis", &url, "--log", "trace"], &[]);
    let offered = shown(broker.client().call(&["DQ.OFFER", "q", "1h", "x"]));
    assert!(offered.starts_with("-UNAVAILABLE "), "{offered}");
    assert_hidden("the reply", &offered);
    assert_hidden("the log", &broker.log());
    assert_hidden("stdout", &broker.said());
    assert_hidden("/readyz", &get(&broker, "/readyz"));
}

/// Escapes of a terminal, line ends, quotes, and bytes that are no text.
const HOSTILE: &[u8] = b"\x1b[31mred\x1b]0;title\x07\r\nERROR forged\nx \"y\\\x00\xff\xc3\x28";

/// Names are in what the broker says in many places; nowhere as they are.
fn is_harmless(what: &str, output: &str) {
    let bad = |c: char| c.is_control() && c != '\n' || c == '\u{fffd}';
    assert!(!output.contains(bad), "{what}: {}", output.escape_debug());
    let forged = |line: &str| line.starts_with("ERROR forged") || line.starts_with("x \"");
    assert!(!output.lines().any(forged), "{what}: {output}");
}

#[test]
fn hostile_names_are_escaped_wherever_they_are_shown() {
    let label = r#"[a-z_]+="([^"\\]|\\["\\n])*""#;
    let line = format!(r"^(#.*|[a-z_]+(\{{{label}(,{label})*\}})? \S+)?$");
    let line = regex::Regex::new(&line).unwrap();
    for format in ["text", "json"] {
        let database = redis::shared().fresh_database();
        let mut backing: Client = redis::shared().client(database);
        let url = redis::shared().url(database);
        let zset = |name: &[u8]| [b"redisson_delay_queue_timeout:{", name, b"}"].concat();
        // Found by the scan: pending behind a list that is none, unreadable, and with scores that
        // no timer can wait for.
        let found = |tail: &[u8]| [HOSTILE, tail].concat();
        let key = |tail: &[u8]| zset(&found(tail));
        backing.call(&[&b"ZADD"[..], &key(b"1"), b"1", b"unreadable"]).unwrap();
        backing.call(&[&b"ZADD"[..], &key(b"2"), b"1e15", b"later"]).unwrap();
        backing.call(&[&b"SET"[..], &found(b"3"), b"no list"]).unwrap();
        let member = [&8_u8.to_le_bytes()[..], b"abcdefgh", &1_u64.to_le_bytes(), b"x"].concat();
        backing.call(&[&b"ZADD"[..], &key(b"3"), b"1", &member]).unwrap();
        let settings = [
            ("log.format", format),
            ("scheduler.scan_interval_ms", "100"),
            ("limits.queues_max", "5"),
        ];
        let broker = Broker::with_args(&["--redis", &url, "--log", "trace"], &settings);
        eventually(
            || broker.log(),
            |log| {
                let quarantined = log.contains("were put into quarantine");
                let waits = log.matches("delivery of this queue waits").count();
                quarantined && waits >= 2 && log.contains("not recorded")
            },
        );
        let mut client = broker.client();
        for tail in [&b""[..], b"4", b"5", b"6"] {
            let command = [&b"DQ.OFFER"[..], &found(tail), b"1h", b"x", b"NAME", HOSTILE];
            let reply = client.call(&command).unwrap();
            is_harmless("the reply", &reply.text());
            // One of them may have the place of the queue that is empty; the last is one too many.
            assert!(tail != b"6" || reply.text().starts_with("TOOMANY"), "{reply:?}");
        }
        for words in [
            &[&b"DQ.OFFER"[..], HOSTILE, HOSTILE, b"x"][..],
            &[b"DQ.OFFER", b"delay_broker_\n\x1b", b"1h", b"x"],
            &[b"DQ.CANCEL", HOSTILE, HOSTILE],
            &[HOSTILE, HOSTILE],
            &[b"CLIENT", HOSTILE],
            &[b"CONFIG", b"SET", HOSTILE],
            &[b"HELLO", b"3", HOSTILE],
            &[b"DQ.INFO", &found(b"3")],
        ] {
            if let crate::support::resp::Value::Error(text) = client.call(words).unwrap() {
                is_harmless("the error", &text);
            }
        }
        is_harmless("the log", &broker.log());
        let metrics = get(&broker, "/metrics");
        let (_, metrics) = metrics.split_once("\r\n\r\n").unwrap();
        is_harmless("the metrics", metrics);
        for text in metrics.lines() {
            assert!(line.is_match(text), "{text}");
        }
    }
}

/// The other place where a name is recorded: a place of its own for each test of the broker.
#[test]
fn a_hostile_client_name_stays_in_its_line() {
    let place = Place::spawn(&[]);
    let mut client = place.broker.client();
    let reply = client.call(&[&b"CLIENT"[..], b"SETNAME", HOSTILE]).unwrap();
    is_harmless("the reply", &reply.text());
    client.call(&[&b"CLIENT"[..], b"SETINFO", b"LIB-NAME", HOSTILE]).unwrap();
    let list = client.call(&["CLIENT", "LIST"]).unwrap().text();
    is_harmless("CLIENT LIST", &list);
    assert_eq!(list.lines().count(), 1, "{list}");
}
