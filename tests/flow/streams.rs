//! Queues whose destination is a stream: consumers read and acknowledge at Redis itself, and the
//! brokers let come again what they do not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use delay_broker::audit::rights::acl_line;

use crate::stage::{Stage, eventually, info, metric, offer, say, time_us};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

/// An entry: its id, its fields.
#[derive(Clone, Debug)]
struct Entry {
    id: String,
    fields: BTreeMap<String, String>,
}

impl Entry {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

fn entry(value: &Value) -> Entry {
    let [id, fields] = value.elements() else { panic!("{value:?}") };
    let fields = fields.texts();
    let pairs = fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    Entry { id: id.text(), fields: pairs.collect() }
}

/// Reads what is new, of one stream.
fn read(redis: &mut Client, stream: &str, group: &str, consumer: &str) -> Vec<Entry> {
    let read = format!("XREADGROUP GROUP {group} {consumer} COUNT 100 STREAMS {stream} >");
    match say(redis, &read) {
        Value::Null => Vec::new(),
        found => found.elements()[0].elements()[1].elements().iter().map(entry).collect(),
    }
}

/// Reads until one comes.
fn read_one(redis: &mut Client, stream: &str, group: &str) -> Entry {
    eventually(&format!("an entry of {stream} for {group}"), || {
        let mut found = read(redis, stream, group, "c");
        assert!(found.len() < 2, "{found:?}");
        found.pop()
    })
}

fn length(redis: &mut Client, stream: &str) -> i64 {
    say(redis, &format!("XLEN {stream}")).int()
}

/// A message reaches a consumer that waits, is acknowledged, and is gone from the stream.
#[test]
fn delivered_read_and_trimmed() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups mail,audit lease_ms 400");
    // The groups are there with the reply.
    assert!(read(&mut stage.redis, "q", "mail", "c").is_empty());
    say(&mut client, "DQ.SETUP q groups mail,audit,later");
    assert!(read(&mut stage.redis, "q", "later", "c").is_empty());
    say(&mut client, "DQ.SETUP q groups mail,audit");
    say(&mut stage.redis, "XGROUP DESTROY q later");
    let id = offer(&mut client, &["q", "30ms", "a"]);
    let found = stage.redis.call(&[
        "XREADGROUP",
        "GROUP",
        "mail",
        "c",
        "BLOCK",
        "9000",
        "STREAMS",
        "q",
        ">",
    ]);
    let now = time_us(&mut stage.redis);
    let found = entry(&found.unwrap().elements()[0].elements()[1].elements()[0]);
    let (due, hex) = id.split_once('-').unwrap();
    assert_eq!((found.field("payload"), found.field("id"), found.field("due")), ("a", hex, due));
    assert!(now >= due.parse::<u64>().unwrap() * 1_000, "early");
    assert_eq!(info(&mut client, "q", "ready").int(), 1);
    say(&mut stage.redis, &format!("XACK q mail {}", found.id));
    // Until every group has it.
    let other = read_one(&mut stage.redis, "q", "audit");
    assert_eq!(other.id, found.id);
    say(&mut stage.redis, &format!("XACK q audit {}", found.id));
    eventually("trimmed", || (length(&mut stage.redis, "q") == 0).then_some(()));
    assert_eq!(info(&mut client, "q", "ready").int(), 0);
    // Back to a list, and its messages with it.
    assert_eq!(say(&mut client, "DQ.SETUP q destination list"), Value::Simple("OK".into()));
    offer(&mut client, &["q", "0", "b"]);
    eventually("the list", || {
        let listed = stage.redis.call(&["LRANGE", "q", "0", "-1"]).unwrap();
        (listed.texts() == ["b"]).then_some(())
    });
}

/// A consumer that dies each time: attempts 1, 2, 3, then it is dead, and can be brought back to
/// the group that could not handle it.
#[test]
fn a_consumer_that_dies() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups mail lease_ms 300 limit 3");
    offer(&mut client, &["q", "0", "poison"]);
    let mut first = None;
    for attempt in 1..=3 {
        let found = read_one(&mut stage.redis, "q", "mail");
        let shown = if attempt == 1 { String::new() } else { attempt.to_string() };
        assert_eq!((found.field("payload"), found.field("attempt")), ("poison", &shown[..]));
        first.get_or_insert_with(|| found.clone());
        assert_eq!(found.field("id"), first.as_ref().unwrap().field("id"));
    }
    let dead = eventually("dead", || {
        let page = say(&mut client, "DQ.DEAD q LIST");
        page.elements()[1].elements().first().cloned()
    });
    let first = first.unwrap();
    let id = format!("{}@mail", first.field("id"));
    let field = |name: &str| crate::stage::field_of(&dead, name).unwrap();
    assert_eq!(field("id").text(), id);
    assert_eq!(field("attempts").int(), 3);
    assert_eq!(field("reason").text(), "lease expired");
    assert_eq!(field("payload").text(), "poison");
    assert_eq!(length(&mut stage.redis, "q"), 0);
    assert_eq!(say(&mut client, &format!("DQ.DEAD q REQUEUE {id}")).int(), 1);
    let back = read_one(&mut stage.redis, "q", "mail");
    assert_eq!((back.field("payload"), back.field("attempt")), ("poison", ""));
    assert_eq!(say(&mut stage.redis, &format!("XACK q mail {}", back.id)).int(), 1);
    // A late acknowledgement of an earlier one counts for nothing.
    assert_eq!(say(&mut stage.redis, &format!("XACK q mail {}", first.id)).int(), 0);
    let lapsed = metric(&stage.broker, "delay_broker_leases_lapsed_total{queue=\"q\"}");
    assert_eq!(lapsed as i64, 3);
}

/// An entry that one of three groups gives back comes to it alone, when it asked for it.
#[test]
fn one_of_three_groups_fails() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups a,b,c");
    offer(&mut client, &["q", "0", "m"]);
    let found = read_one(&mut stage.redis, "q", "a");
    for group in ["b", "c"] {
        let its = read_one(&mut stage.redis, "q", group);
        say(&mut stage.redis, &format!("XACK q {group} {}", its.id));
    }
    let before = time_us(&mut stage.redis);
    let mut settler = other.client();
    let nack = format!("DQ.NACK q GROUP a {} DELAY 700ms REASON why", found.id);
    assert_eq!(say(&mut settler, &nack).int(), 1);
    assert_eq!(say(&mut settler, &nack).int(), 0);
    let waiting = say(&mut client, "DQ.TAKEN q WAITING");
    let row = &waiting.elements()[1].elements()[0];
    let id = crate::stage::field_of(row, "id").unwrap().text();
    assert_eq!(id, format!("{}@a", found.field("id")));
    let again = read_one(&mut stage.redis, "delay_broker_again:{q}:a", "a");
    let waited = Duration::from_micros(time_us(&mut stage.redis) - before);
    assert!(waited >= Duration::from_millis(700), "{waited:?}");
    assert_eq!((again.field("payload"), again.field("attempt")), ("m", "2"));
    for group in ["b", "c"] {
        assert!(read(&mut stage.redis, "q", group, "c").is_empty());
    }
    // And once more, of its own stream, by the other way.
    assert_eq!(say(&mut client, &format!("DQ.NACK q GROUP a {} FATAL", again.id)).int(), 1);
    let dead = say(&mut client, "DQ.DEAD q DROP");
    assert_eq!(dead.int(), 1);
    eventually("the way back", || {
        let reply = say(&mut client, "DQ.SETUP q destination list");
        (reply == Value::Simple("OK".into())).then_some(())
    });
}

/// Several brokers do it once, one of which is killed; nothing acknowledged comes again.
#[test]
fn many_brokers_one_copy() {
    let mut stage = Stage::new(&[]);
    let brokers = [stage.another(&[]), stage.another(&[])];
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups g lease_ms 500 limit 0");
    for n in 0..300 {
        offer(&mut client, &["q", "0", &format!("{n:03}")]);
    }
    // The first attempt of each third is left alone, and of each second one of these the second.
    let mut seen: BTreeMap<(String, u64), usize> = BTreeMap::new();
    let (mut acked, mut killed) = (BTreeMap::new(), false);
    eventually("all of them", || {
        for found in read(&mut stage.redis, "q", "g", "c") {
            let attempt: u64 = found.field("attempt").parse().unwrap_or(1);
            let payload = found.field("payload").to_owned();
            assert!(!acked.contains_key(&payload), "{payload} again");
            *seen.entry((payload.clone(), attempt)).or_default() += 1;
            let number: usize = payload.parse().unwrap();
            let needed = if !number.is_multiple_of(3) { 1 } else { 2 + number as u64 % 2 };
            if attempt >= needed {
                assert_eq!(say(&mut stage.redis, &format!("XACK q g {}", found.id)).int(), 1);
                acked.insert(payload, attempt);
            }
        }
        if acked.len() > 100 && !killed {
            brokers[0].signal("KILL");
            killed = true;
        }
        (acked.len() == 300).then_some(())
    });
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    eventually("trimmed", || (length(&mut stage.redis, "q") == 0).then_some(()));
    drop(brokers);
}

/// A stream that somebody deletes has its groups again; a broker that starts knows all streams.
#[test]
fn a_stream_that_is_gone() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups g lease_ms 400");
    say(&mut stage.redis, "DEL q");
    eventually("the group", || {
        let groups = stage.redis.call(&["XINFO", "GROUPS", "q"]).unwrap();
        matches!(&groups, Value::Array(all) if all.len() == 1).then_some(())
    });
    offer(&mut client, &["q", "0", "a"]);
    assert_eq!(read_one(&mut stage.redis, "q", "g").field("payload"), "a");
    // Nothing is pending any more, and the set of streams is lost with the brokers.
    stage.broker.signal("KILL");
    say(&mut stage.redis, "SADD delay_broker_queues q");
    say(&mut stage.redis, "DEL delay_broker_stream_queues");
    let broker = stage.another(&[]);
    offer(&mut broker.client(), &["q", "1h", "keeps it known"]);
    assert_eq!(read_one(&mut stage.redis, "q", "g").field("attempt"), "2");
}

/// Only what was given back comes again where the keeper is off.
#[test]
fn a_keeper_that_is_off() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups g lease_ms 100 keeper off");
    for payload in ["left", "back"] {
        offer(&mut client, &["q", "0", payload]);
    }
    let mut held = Vec::new();
    eventually("both", || {
        held.extend(read(&mut stage.redis, "q", "g", "c"));
        (held.len() == 2).then_some(())
    });
    let back = held.iter().find(|one| one.field("payload") == "back").unwrap();
    say(&mut client, &format!("DQ.NACK q GROUP g {} SILENT", back.id));
    let again = read_one(&mut stage.redis, "q", "g");
    assert_eq!((again.field("payload"), again.field("attempt")), ("back", ""));
    let pending = say(&mut stage.redis, "XPENDING q g").elements()[0].int();
    assert_eq!(pending, 2);
    say(&mut client, "DQ.SETUP q keeper on");
    let mut came = BTreeSet::new();
    eventually("both again", || {
        let found = read(&mut stage.redis, "q", "g", "c");
        came.extend(found.iter().map(|one| one.field("payload").to_owned()));
        (came.len() == 2).then_some(())
    });
}

/// A user whose rights are those of 0.1.0: the audit says so, what is due there stays pending, all
/// else works; with the rights it comes.
#[test]
fn without_the_rights() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    let allow = |admin: &mut Client, all: bool| {
        let line = acl_line("app");
        let words = line.split(' ').chain([">secret"]);
        let words: Vec<&str> = words.filter(|word| all || !word.starts_with("+x")).collect();
        assert_eq!(admin.call(&words).unwrap(), Value::Simple("OK".to_owned()));
    };
    allow(&mut admin, true);
    let url = format!("redis://app:secret@{}", redis.address());
    let broker = Broker::spawn(&url, &[]);
    let mut client = broker.client();
    say(&mut client, "DQ.SETUP q destination stream groups g lease_ms 100");
    say(&mut client, "DQ.OFFER q 0 held");
    let held = read_one(&mut admin, "q", "g");
    // Those that were granted before are taken away.
    say(&mut admin, "ACL DELUSER app");
    allow(&mut admin, false);
    say(&mut admin, "CLIENT KILL USER app");
    eventually("the finding", || {
        let log = broker.log();
        let says = ["queues whose destination is a stream are not", "before 7.0 cannot be asked"];
        log.lines().find(|line| says.iter().any(|words| line.contains(words)))?;
        Some(())
    });
    eventually("offers", || {
        let stored = say(&mut client, "DQ.OFFER q 0 later");
        matches!(stored, Value::Bulk(_)).then_some(())
    });
    eventually("lists", || {
        let stored = say(&mut client, "DQ.OFFER list 0 x");
        let listed = say(&mut admin, "LLEN list").int();
        (matches!(stored, Value::Bulk(_)) && listed > 0).then_some(())
    });
    // Tried, and undone each time.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        assert!(say(&mut client, "DQ.SIZE q").int() > 0);
        assert_eq!(length(&mut admin, "q"), 1);
    }
    allow(&mut admin, true);
    say(&mut admin, "CLIENT KILL USER app");
    let mut came = Vec::new();
    eventually("all of them", || {
        came.extend(read(&mut admin, "q", "g", "c"));
        let payloads: Vec<&str> = came.iter().map(|one: &Entry| one.field("payload")).collect();
        (payloads.contains(&"held") && payloads.contains(&"later")).then_some(())
    });
    assert_eq!(came.iter().filter(|one| one.field("id") == held.field("id")).count(), 1);
}

/// Payloads of the greatest size, through delivery, retry, death and back.
#[test]
fn large_payloads() {
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    let large = "x".repeat(16 << 20);
    say(&mut client, "DQ.SETUP q destination stream groups g lease_ms 100 limit 2");
    offer(&mut client, &["q", "0", &large]);
    for attempt in ["", "2"] {
        let found = read_one(&mut stage.redis, "q", "g");
        assert_eq!((found.field("payload").len(), found.field("attempt")), (16 << 20, attempt));
    }
    eventually("dead", || (say(&mut client, "DQ.DEAD q REQUEUE").int() == 1).then_some(()));
    let found = read_one(&mut stage.redis, "q", "g");
    assert!(found.field("payload") == large);
}
