//! Settings of queues: who goes by them, and where they come from.

use std::time::Instant;

use crate::stage::{Stage, eventually, field_of, info, metric, say};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::taking::{came, dead, held, in_line, push, send, settle, take, take_one};

/// The value and the origin of one setting of `q`.
fn setting(client: &mut Client, name: &str) -> (i64, String) {
    let all = say(client, "DQ.SETUP q");
    let has = |row: &&Value| field_of(row, "setting").unwrap().text() == name;
    let row = all.elements().iter().find(has).unwrap();
    (field_of(row, "value").unwrap().int(), field_of(row, "origin").unwrap().text())
}

/// Only so many are leased at a time; each that is settled lets the next one go, at any broker.
#[test]
fn in_flight() {
    let redis = Redis::spawn(&[]);
    let (a, b) = (Broker::spawn(&redis.url(0), &[]), Broker::spawn(&redis.url(0), &[]));
    let (mut client, mut other) = (a.client(), b.client());
    say(&mut client, "DQ.SETUP q in_flight_max 2");
    redis.client(0).call(&["RPUSH", "q", "1", "2", "3", "4", "5"]).unwrap();
    let first = take(&mut client, "q COUNT 10");
    assert_eq!(first.len(), 2);
    assert!(take(&mut client, "q COUNT 10").is_empty());
    // They wait until there is room: at the broker of the ack, and at another one.
    for (waits, settles) in [(true, 0), (false, 1)] {
        let mut taker = if waits { a.client() } else { b.client() };
        send(&mut taker, "q BLOCK 60s");
        in_line(if waits { &mut client } else { &mut other }, 1);
        say(&mut client, &format!("DQ.ACK q {}", first[settles].receipt));
        assert_eq!(came(&mut taker).len(), 1);
    }
    // A lease that runs out makes room as well.
    let third = take(&mut client, "q");
    assert!(third.is_empty());
    say(&mut client, "DQ.SETUP q in_flight_max 0 lease_ms 100");
    let last = take_one(&mut client, "q BLOCK 10s");
    assert_eq!(last.attempt, 1);
    assert_eq!(take_one(&mut client, "q BLOCK 10s").id, last.id);
}

/// The file of a broker is recorded when it starts, in place of what was set; what clients set
/// afterwards stays, until Redis has lost everything.
#[test]
fn settings_of_the_file() {
    let redis = Redis::spawn(&[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[[queues]]\nname = \"q\"\nlimit = 3\nlease_ms = \"2s\"\n";
    std::fs::write(file.path(), text).unwrap();
    let plain = Broker::spawn(&redis.url(0), &[]);
    let mut client = plain.client();
    say(&mut client, "DQ.SETUP q limit 9 jitter 1");
    let broker = Broker::with_args(
        &["--redis", &redis.url(0), "--config", file.path().to_str().unwrap()],
        &[],
    );
    let of_file = (3, "file".to_owned());
    eventually("the file's limit", || (setting(&mut client, "limit") == of_file).then_some(()));
    assert_eq!(setting(&mut client, "lease_ms"), (2_000, "file".to_owned()));
    assert_eq!(setting(&mut client, "jitter"), (1, "setup".to_owned()));
    say(&mut client, "DQ.SETUP q limit 4");
    assert_eq!(setting(&mut broker.client(), "limit"), (4, "setup".to_owned()));
    // Unset by a client is not lost.
    say(&mut client, "DQ.SETUP q RESET");
    let record = "delay_broker_queue:{q}";
    let field = redis.client(0).call(&["HGET", record, "settings"]).unwrap().text();
    assert_eq!(field, " file:1/file");
    assert_eq!(setting(&mut client, "limit"), (16, "default".to_owned()));
    redis.client(0).call(&["FLUSHALL"]).unwrap();
    eventually("the file's limit again", || {
        (setting(&mut client, "limit") == of_file).then_some(())
    });
    assert_eq!(setting(&mut client, "jitter"), (20, "default".to_owned()));
}

/// So many dead messages are kept, or for so long; the oldest go first, and it is said.
#[test]
fn dead_messages_that_are_not_kept() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q dead_max 3");
    let mut die = |client: &mut Client, payload: &str| {
        push(&mut stage.redis, &[payload]);
        let taken = take_one(client, "q");
        assert_eq!(settle(client, "DQ.NACK", &taken, &["FATAL"]), 1);
        taken.id
    };
    let payloads = |client: &mut Client| -> Vec<String> {
        dead(client).into_iter().map(|(payload, ..)| payload).collect()
    };
    let ids: Vec<String> =
        ["a", "b", "c", "d", "e"].iter().map(|one| die(&mut client, one)).collect();
    assert_eq!(payloads(&mut client), ["c", "d", "e"]);
    assert_eq!(say(&mut client, &format!("DQ.DEAD q REQUEUE {}", ids[0])), Value::Int(0));
    // What is brought back leaves room for another one.
    assert_eq!(say(&mut client, &format!("DQ.DEAD q REQUEUE {} DELAY 1h", ids[2])), Value::Int(1));
    die(&mut client, "f");
    assert_eq!(payloads(&mut client), ["d", "e", "f"]);
    // Fewer from now on: DQ.DEAD looks.
    say(&mut client, "DQ.SETUP q dead_max 1");
    assert_eq!(payloads(&mut client), ["f"]);
    let dropped = "delay_broker_messages_dead_dropped_total{queue=\"q\"}";
    assert_eq!(metric(&stage.broker, dropped), 4.0);
    say(&mut client, "DQ.SETUP q dead_max 0 dead_keep_ms 200");
    eventually("the last one is too old", || payloads(&mut client).is_empty().then_some(()));
    // And as takers come by.
    die(&mut client, "g");
    eventually("it is too old", || {
        assert!(take(&mut client, "q").is_empty());
        (info(&mut client, "q", "dead") == Value::Int(0)).then_some(())
    });
    assert_eq!(metric(&stage.broker, dropped), 6.0);
    assert_eq!(held(&mut stage.redis), [0, 1, 0, 1, 1]);
    eventually("the log says so", || {
        let log = stage.broker.log();
        let said = log.lines().filter(|line| line.contains("dead messages were dropped"));
        (said.filter(|line| line.contains("WARN") && line.contains("\"queue\":\"q\"")).count() >= 5)
            .then_some(())
    });
}

/// A storm is smoothed, over two brokers together, and nothing is lost or counted as late.
#[test]
fn a_rate() {
    let redis = Redis::spawn(&[]);
    let brokers = [Broker::spawn(&redis.url(0), &[]), Broker::spawn(&redis.url(0), &[])];
    let mut clients = brokers.each_ref().map(Broker::client);
    say(&mut clients[0], "DQ.SETUP q rate 20/s burst 5");
    let begun = Instant::now();
    for n in 0..50 {
        say(&mut clients[n % 2], &format!("DQ.OFFER q 0 {n:02}"));
    }
    let mut backing = redis.client(0);
    let mut seen = 0;
    eventually("all of them", || {
        let delivered = backing.call(&["LLEN", "q"]).unwrap().int();
        // What is there now has come by now, at most at the rate.
        let most = 5.0 + 20.0 * begun.elapsed().as_secs_f64() + 1.0;
        assert!(delivered as f64 <= most, "{delivered} of {most}");
        assert!(delivered >= seen, "{delivered} after {seen}");
        seen = delivered;
        (delivered == 50).then_some(())
    });
    assert_eq!(info(&mut clients[0], "q", "held_by_rate"), Value::Int(0));
    // What it holds back is shown.
    say(&mut clients[0], "DQ.SETUP q rate 1/h burst 1");
    for n in 0..3 {
        say(&mut clients[0], &format!("DQ.OFFER q 0 late{n}"));
    }
    eventually("some are held back", || {
        let held = info(&mut clients[0], "q", "held_by_rate").int();
        assert!((0..=3).contains(&held), "{held}");
        (held >= 2 && backing.call(&["LLEN", "q"]).unwrap().int() == 53 - held).then_some(())
    });
    say(&mut clients[0], "DQ.PAUSE q");
    assert_eq!(info(&mut clients[0], "q", "held_by_rate"), Value::Int(0));
    let all = backing.call(&["LRANGE", "q", "0", "49"]).unwrap().texts();
    let mut sorted = all.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((sorted.len(), all.len()), (50, 50));
}
