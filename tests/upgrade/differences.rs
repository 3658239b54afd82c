//! What the earlier version does not know or does otherwise: the tables of docs/operate/upgrade.md,
//! row by row.

use crate::Version::{self, Earlier, This};
use crate::foreign;
use crate::stage::{call, delivered, eventually, field_of, info, metric, offer, say};
use crate::support::redis::Redis;
use crate::support::resp::Value;
use delay_broker::audit::rights::acl_line;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A pause of all queues holds no earlier broker back, and outlives it.
#[test]
fn the_pause_of_all_queues() {
    let redis = Redis::spawn(&[]);
    let mut direct = redis.client(0);
    let this = This.start(&redis.url(0), &[]);
    let mut client = this.client();
    assert_eq!(say(&mut client, "DQ.PAUSE ALL").text(), "OK");
    offer(&mut client, &["q", "0", "m"]);
    eventually("it is well overdue", || {
        (info(&mut client, "q", "oldest_overdue_ms").int() > 300).then_some(())
    });
    assert_eq!(say(&mut direct, "EXISTS q"), Value::Int(0));
    let earlier = Earlier.start(&redis.url(0), &[]);
    delivered(&mut direct, "q", 1);
    // To it ALL is the name of a queue.
    say(&mut earlier.client(), "DQ.RESUME ALL");
    assert_eq!(say(&mut direct, "HGET delay_broker_all paused_until").text(), "-1");
    drop(this);
    let after = This.start(&redis.url(0), &[]);
    eventually("it is known again", || {
        (metric(&after, "delay_broker_paused_all") == 1.0).then_some(())
    });
}

/// The text in backticks in the first column of one table of the page.
fn told(heading: &str) -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operate/upgrade.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|line| line.replace("\\|", "\0").split('|').nth(1).unwrap().to_owned());
    let quoted = |cell: String| {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(|part| part.replace('\0', "|")).collect::<Vec<_>>()
    };
    cells.flat_map(quoted).collect()
}

/// What the earlier version says of itself.
fn earlier_pages() -> String {
    std::fs::read_to_string(Earlier.program().with_file_name("pages.md")).unwrap()
}

fn check(version: Version, file: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.toml");
    std::fs::write(&path, file).unwrap();
    let mut check = Command::new(version.program());
    let output = check.args(["check", "--config"]).arg(&path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Each setting, as `section.key`, with its value.
fn settings(version: Version) -> BTreeMap<String, String> {
    let (code, said) = check(version, "");
    assert_eq!(code, Some(0), "{said}");
    let mut section = String::new();
    let mut found = BTreeMap::new();
    for line in said.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, value)) = line.split_once(" = ") {
            let key = format!("{section}.{}", key.trim_start_matches("# "));
            found.insert(key.trim_start_matches('.').to_owned(), value.to_owned());
        }
    }
    assert!(found.len() > 30, "{said}");
    found
}

/// Settings that are new end an earlier broker at its start, which names them; none is gone.
#[test]
fn settings_that_are_new() {
    let (earlier, this) = (settings(Earlier), settings(This));
    let gone: Vec<_> = earlier.keys().filter(|key| !this.contains_key(*key)).collect();
    assert!(gone.is_empty(), "an earlier file of settings is refused for {gone:?}");
    let new = this.into_iter().filter(|(key, _)| !earlier.contains_key(key));
    let new: BTreeMap<_, _> = new.collect();
    assert_eq!(new.keys().cloned().collect::<BTreeSet<_>>(), told("Settings:"));
    for (setting, value) in new {
        let (key, file) = match setting.split_once('.') {
            Some((section, key)) => (key, format!("[{section}]\n{key} = {value}\n")),
            // Tables, as those of users.
            None => (&setting[..], format!("[[{setting}]]\nname = \"one\"\n")),
        };
        let (code, said) = check(Earlier, &file);
        assert_eq!(code, Some(64), "{setting}: {said}");
        assert!(said.contains(key), "{setting}: {said}");
    }
}

/// The keys that are new are those of the page.
#[test]
fn new_keys_are_told() {
    let keys = |pages: &str| -> BTreeSet<String> {
        let rows = pages.lines().filter_map(|line| line.strip_prefix("| `delay_broker_"));
        let names = rows.filter(|row| !row.contains(" | counter |") && !row.contains(" | gauge |"));
        names.map(|row| format!("delay_broker_{}", row.split(['`', ':']).next().unwrap())).collect()
    };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/internals/data-in-redis.md");
    let this = keys(&std::fs::read_to_string(page).unwrap());
    let earlier = keys(&earlier_pages());
    assert!(earlier.contains("delay_broker_queues"), "{earlier:?}");
    let new: BTreeSet<_> = this.difference(&earlier).cloned().collect();
    let told = told("Keys and fields in Redis:");
    assert!(new.is_subset(&told), "{new:?} are new, the page has {told:?}");
    assert!(new.contains("delay_broker_all"), "{new:?}");
}

/// Each serves with the rights that the other one asks for.
#[test]
fn rights() {
    let pages = earlier_pages();
    let earlier_line = pages.lines().find(|line| line.starts_with("ACL SETUSER broker on "));
    let (earlier_line, this_line) = (earlier_line.unwrap(), acl_line("broker"));
    let words = |line: &str| -> BTreeSet<String> { line.split(' ').map(str::to_owned).collect() };
    let new: BTreeSet<_> = words(&this_line).difference(&words(earlier_line)).cloned().collect();
    assert_eq!(new, told("Rights in Redis:"));
    for (version, line) in [(This, earlier_line), (Earlier, &this_line)] {
        let redis = Redis::spawn(&[]);
        let mut direct = redis.client(0);
        let words: Vec<&str> = line.split(' ').chain([">secret"]).collect();
        assert_eq!(call(&mut direct, &words).text(), "OK", "{words:?}");
        let url = format!("redis://broker:secret@{}", redis.address());
        let broker = version.start(&url, &[]);
        let mut client = broker.client();
        offer(&mut client, &["q", "0", "m"]);
        offer(&mut client, &["q", "10", "n", "NAME", "n"]);
        offer(&mut client, &["q", "1h", "o"]);
        delivered(&mut direct, "q", 2);
        for command in ["DQ.REMOVE q o", "DQ.CLEAR q", "DQ.PAUSE q", "DQ.RESUME q"] {
            let reply = say(&mut client, command);
            assert!(!matches!(reply, Value::Error(_)), "{version:?}: {command}: {reply:?}");
        }
        let finding = metric(&broker, "delay_broker_audit_finding{finding=\"acl\"}");
        let lacks = version == This && !new.is_empty();
        assert_eq!(finding, f64::from(lacks), "{version:?}: {}", broker.log());
    }
}

/// Whose the keys of `a` and `{a}` are, where nothing is recorded.
#[test]
fn the_queues_with_the_same_keys() {
    for version in [Earlier, This] {
        let redis = Redis::spawn(&[]);
        let mut direct = redis.client(0);
        foreign::write(&mut direct, "a", "9999999999999", &foreign::modern([1; 8], b"m"), true);
        let broker = version.start(&redis.url(0), &[]);
        let mut client = broker.client();
        let reply = say(&mut client, "DQ.OFFER {a} 1h x");
        let recorded = say(&mut direct, "HGET delay_broker_queue:{a} name").text();
        if version == Earlier {
            assert_eq!(recorded, "{a}", "{reply:?}");
        } else {
            assert!(reply.text().starts_with("BADQUEUE "), "{reply:?}");
            assert_ne!(recorded, "{a}");
        }
    }
}

/// Transactions are refused by the earlier one.
#[test]
fn transactions() {
    for (version, answer) in [(Earlier, "ERR "), (This, "OK")] {
        let redis = Redis::spawn(&[]);
        let broker = version.start(&redis.url(0), &[]);
        let reply = say(&mut broker.client(), "MULTI").text();
        assert!(reply.starts_with(answer), "{version:?}: {reply}");
    }
}

/// Messages that consumers have taken stay as they are while an earlier broker works, which forgets
/// their queue; then their receipts count.
#[test]
fn messages_that_are_taken() {
    let redis = Redis::spawn(&[]);
    let mut direct = redis.client(0);
    let mut this = This.start(&redis.url(0), &[]);
    let mut client = this.client();
    let mut receipts = Vec::new();
    for payload in ["leased", "waits", "died"] {
        offer(&mut client, &["q", "0", payload]);
        let Value::Array(taken) = say(&mut client, "DQ.TAKE q BLOCK 5s LEASE 1h") else {
            panic!("{payload} is not taken");
        };
        receipts.push(field_of(&taken[0], "receipt").unwrap().text());
    }
    let [leased, waits, died] = &receipts[..] else { panic!("{receipts:?}") };
    assert_eq!(say(&mut client, &format!("DQ.NACK q {waits} DELAY 1h")), Value::Int(1));
    assert_eq!(say(&mut client, &format!("DQ.NACK q {died} FATAL")), Value::Int(1));
    this.signal("TERM");
    this.wait(crate::stage::SOON);
    let mut held = || {
        let zsets = ["leased", "retry", "dead"];
        let zsets = zsets.map(|key| format!("ZRANGE delay_broker_{key}:{{q}} 0 -1 WITHSCORES"));
        let sizes = ["taken", "tries"].map(|key| format!("HLEN delay_broker_{key}:{{q}}"));
        let asked = zsets.iter().chain(&sizes);
        asked.map(|command| say(&mut direct, command)).collect::<Vec<_>>()
    };
    let before = held();
    let mut earlier = Earlier.start(&redis.url(0), &[]);
    let mut client = earlier.client();
    assert!(say(&mut client, "DQ.TAKE q").text().starts_with("ERR unknown command"));
    offer(&mut client, &["q", "0", "delivered"]);
    let mut direct = redis.client(0);
    delivered(&mut direct, "q", 1);
    eventually("it has forgotten the queue", || {
        (say(&mut direct, "EXISTS delay_broker_queue:{q}") == Value::Int(0)).then_some(())
    });
    assert_eq!(held(), before);
    earlier.signal("TERM");
    earlier.wait(crate::stage::SOON);
    let this = This.start(&redis.url(0), &[]);
    let mut client = this.client();
    let all = format!("DQ.ACK q {leased} {waits} {died}");
    assert_eq!(say(&mut client, &all), Value::Int(3));
}

/// Keys that are new stay as they are while an earlier broker works, and it works.
#[test]
fn keys_that_are_new() {
    let redis = Redis::spawn(&[]);
    let mut direct = redis.client(0);
    let mut this = This.start(&redis.url(0), &[]);
    offer(&mut this.client(), &["q", "1h", "m"]);
    let noted = |direct: &mut _| say(direct, "ZSCORE delay_broker_id_time latest");
    let before = eventually("the time of ids is noted", || {
        Some(noted(&mut direct)).filter(|noted| *noted != Value::Null)
    });
    this.signal("TERM");
    this.wait(crate::stage::SOON);
    let before = match noted(&mut direct) {
        Value::Null => before,
        last => last,
    };
    let broker = Earlier.start(&redis.url(0), &[]);
    offer(&mut broker.client(), &["q", "0", "n"]);
    delivered(&mut direct, "q", 1);
    assert_eq!(noted(&mut direct), before);
}
