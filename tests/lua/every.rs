//! What holds for every script: it loads, comes back after SCRIPT FLUSH, names what it uses in its
//! header, and refuses wrong types before it writes.

use crate::bench::{Bench, SCRIPTS, file_text, source};
use crate::support::redis::Redis;
use crate::support::resp::Value;
use delay_broker::store::script::{ALL, PROBE};
use std::collections::BTreeSet;

/// A call of each script that finds nothing to complain of.
const CALLS: [&str; 29] = [
    "offer q 5:m1(a) / q 5:m2(b) name=n",
    "transfer 9 1000",
    "heads timeout",
    "found timeout queue",
    "match_listed 0 '' 10 10 a",
    "match_pending '' '' 10 a",
    "remove m1(a)",
    "cancel 5 #1",
    "reschedule 5 #1 5",
    "fire 5 #1",
    "get 5 #1",
    "range -inf +inf 10 1000 '' ''",
    "poll 1 1000",
    "first '' '' 10 1000 ''",
    "take 1000 5 #1",
    "clear",
    "pause 0",
    "resume",
    "quarantine_list 10 1000000",
    "quarantine_restore",
    "quarantine_drop",
    "info",
    "stats timeout destination queue",
    "settle 9",
    "node token 1000",
    "prune",
    "configure '' '' 0",
    "convert_listed legacy 0 10 10 1000",
    "convert_pending legacy '' '' 10 1000",
];

/// The directory and the table agree; each script has a call above.
#[test]
fn files() {
    let dir = std::fs::read_dir(format!("{}/lua", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let files: BTreeSet<String> = dir
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".lua").map(str::to_owned))
        .collect();
    let scripts = SCRIPTS.iter().map(|(name, _)| (*name).to_owned());
    let parts = ALL.iter().flat_map(|script| script.parts);
    let parts = parts.map(|part| format!("_{part}"));
    let probe = [PROBE.name.to_owned()];
    assert_eq!(files, scripts.chain(parts).chain(probe).collect());
    for ((name, _), call) in SCRIPTS.iter().zip(CALLS) {
        assert_eq!(call.split(' ').next(), Some(*name));
    }
}

/// By its hash each is found, is not after a flush, and is again once loaded.
#[test]
fn loads_and_survives_a_flush() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    for (script, _) in SCRIPTS {
        let mut hashes = BTreeSet::new();
        for _ in 0..2 {
            let reply = client.call(&["SCRIPT", "LOAD", source(script)]).unwrap();
            assert!(!matches!(reply, Value::Error(_)), "{script}: {reply:?}");
            hashes.insert(reply.text());
            let exists = ["SCRIPT", "EXISTS", &reply.text()];
            assert_eq!(client.call(&exists).unwrap().elements(), [Value::Int(1)]);
            client.call(&["SCRIPT", "FLUSH"]).unwrap();
            assert_eq!(client.call(&exists).unwrap().elements(), [Value::Int(0)]);
        }
        assert_eq!(hashes.len(), 1, "{script}");
    }
}

/// Each script answers the same to a queue that was never heard of, with the time first.
#[test]
fn runs_on_nothing() {
    for call in CALLS {
        let mut bench = Bench::new("");
        let reply = bench.run(call);
        assert!(reply == "NOT" || reply.starts_with("OK"), "{call}: {reply}");
        assert!(bench.now_us > 1_700_000_000_000_000, "{call}");
    }
}

/// A key of another type is named and nothing is written, whatever else is there. Where a script
/// does not touch what the key holds, it says nothing.
#[test]
fn wrong_types() {
    let unread: [(&str, &str); 3] = [
        ("info", "destination"),
        ("reschedule", "list"),
        ("fire", "list"),
    ];
    let mut checked = 0;
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        for role in roles
            .split(' ')
            .filter(|role| !["call", "...", "node"].contains(role))
        {
            if unread.contains(&(script, role)) {
                continue;
            }
            let others = [
                ("timeout", "m1(a)=5 bad=6"),
                ("list", "m1(a) bad"),
                ("names", "n=5-0000000000000001"),
                ("ids", "0000000000000001=n"),
                ("quarantine", "x=1"),
                ("queue", "name=$q"),
            ];
            let others = others.iter().filter(|(other, _)| *other != role);
            let others: Vec<String> = others
                .map(|(key, value)| format!("{key} {value}"))
                .collect();
            let given = format!("{}; {role} !string", others.join("; "));
            let mut bench = Bench::new(&given);
            let expected = bench.names.normal(&format!("WRONGTYPE @{role}"));
            assert_eq!(bench.run(call), expected, "{script}, {role}");
            bench.then(&given, call);
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked}");
}

/// The call key is ours alone: another type there is an error of Redis, before any write.
#[test]
fn call_key_of_another_type() {
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        if roles.starts_with("call") {
            let mut bench = Bench::new("timeout m1(a)=5; list m1(a)");
            bench.redis("RPUSH @call x");
            assert!(bench.run(call).contains("WRONGTYPE"), "{script}");
            bench.then("timeout m1(a)=5; list m1(a)", call);
        }
    }
}

/// Another queue's keys are refused by every script that is told its queue.
#[test]
fn keys_of_another_queue() {
    let given = "timeout m1(a)=5 bad=6; list m1(a) bad; quarantine x=1; queue name=other
                 names n=5-0000000000000001; ids 0000000000000001=n";
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        if roles.contains("queue") {
            let mut bench = Bench::new(given);
            assert_eq!(bench.run(call), "BADQUEUE other", "{script}");
            bench.then(given, call);
        }
    }
}

/// The header says what the code takes: the same KEYS and ARGV, each with type and name, and what
/// is returned and what it costs.
#[test]
fn headers() {
    for (script, roles) in SCRIPTS {
        let text = file_text(script);
        let header: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect();
        let code = &text[header.iter().map(|line| line.len() + 1).sum()..];
        assert!(
            header[0].ends_with(['.', ':', ',']) || header[0].len() > 80,
            "{script}: a sentence"
        );
        for word in ["RETURN", "COST"] {
            let found = header
                .iter()
                .filter(|line| line.starts_with(&format!("-- {word}")))
                .count();
            assert_eq!(found, 1, "{script}: {word}");
        }
        for source in ["KEYS", "ARGV"] {
            let listed: Vec<&str> = header
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("-- {source}[")))
                .collect();
            let (mut last, mut open) = (0, false);
            for (place, line) in listed.iter().enumerate() {
                let (index, words) = line.split_once(']').unwrap();
                last = index.trim_end_matches("..").parse().unwrap();
                open = index.ends_with("..");
                assert_eq!(last, place + 1, "{script}: {source} in turn");
                let named = words.split_whitespace().count() >= 2 || words.contains("of each");
                assert!(named, "{script}: {source}[{index}] has a type and a name");
            }
            assert_eq!((last, open), used(code, source), "{script}: {source}");
            if source == "KEYS" && !roles.contains("...") {
                assert_eq!(last, roles.split(' ').count(), "{script}: keys of the call");
            }
        }
        for line in text.lines() {
            assert!(line.len() <= 100, "{script}: {line}");
        }
    }
}

/// The highest index of KEYS or ARGV in the code, and whether a loop takes all from there on.
fn used(code: &str, source: &str) -> (usize, bool) {
    let (mut last, mut open) = (0, false);
    for line in code.lines() {
        let start = format!("{source}[");
        let indexes = line.split(&start).skip(1);
        for index in indexes.filter_map(|rest| rest.split_once(']')?.0.parse().ok()) {
            last = last.max(index);
        }
        if line.contains(&format!("= unpack({source}")) {
            last = last.max(line.split('=').next().unwrap().split(',').count());
        }
        if line.contains(&format!(", #{source}")) {
            let first = line
                .split_once("for i = ")
                .unwrap()
                .1
                .split(',')
                .next()
                .unwrap();
            (last, open) = (first.parse().unwrap(), true);
        }
        // Keys of groups and of many queues are taken in a loop of their own.
        if line.contains(&format!("= {source}")) && !line.contains(&format!("{source}[")) {
            (last, open) = (1, true);
        }
        if line.contains(&format!("unpack({source}, ")) && line.contains("key") {
            (last, open) = (last + 1, true);
        }
    }
    (last, open)
}
