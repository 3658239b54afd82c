//! What the scheduler has to bear: many queues, publications that are not true, and a Redis whose
//! keys were changed under it.

use crate::foreign::{keys, modern, write};
use crate::stage::{
    NO_SCAN, ON_TIME, SOON, Stage, call, due_of, eventually, metric, offer, say, take, take_due,
    time_us,
};
use crate::support::resp::{Client, Value, encode};
use std::time::{Duration, Instant};

const TRANSFERS: &str = "delay_broker_script_seconds_count{script=\"transfer\"}";
const FOUND: &str = "delay_broker_script_seconds_count{script=\"found\"}";
/// Queues of a crowd: a call for each of them would show.
const CROWD: usize = 2_000;
/// Calls that may be in vain at once, and in a second.
const IN_VAIN: f64 = 200.0;

/// Sends all at once; what each was answered.
fn pipeline(client: &mut Client, commands: &[String]) -> Vec<Value> {
    let words = commands.iter().map(|one| one.split(' ').collect::<Vec<_>>());
    let bytes: Vec<u8> = words.flat_map(|words| encode(&words)).collect();
    client.send_bytes(&bytes).unwrap();
    commands.iter().map(|_| client.read().unwrap()).collect()
}

fn crowd(command: impl Fn(usize) -> String) -> Vec<String> {
    (0..CROWD).map(command).collect()
}

/// A stage on which a crowd of queues is known, each with a message in an hour.
fn crowded() -> (Stage, Client) {
    let stage = Stage::alone(&[NO_SCAN]);
    let mut client = stage.broker.client();
    let offered = pipeline(&mut client, &crowd(|n| format!("DQ.OFFER crowd-{n} 1h m")));
    let all = offered.iter().all(|reply| matches!(reply, Value::Bulk(_)));
    assert!(all, "{offered:?}");
    (stage, client)
}

/// After a lost subscription all queues are looked at: by reading heads, many in a call. What was
/// missed meanwhile is found so.
#[test]
fn a_new_subscription_costs_no_transfer_for_each_queue() {
    let (mut stage, _client) = crowded();
    let due = time_us(&mut stage.redis) / 1_000 + 500;
    let transfers = metric(&stage.broker, TRANSFERS);
    // Nobody hears of what is written behind the back of the broker.
    let member = modern([1; 8], b"unheard");
    write(&mut stage.redis, "crowd-7", &due.to_string(), &member, true);
    say(&mut stage.redis, "CLIENT KILL TYPE pubsub");
    take_due(&mut stage.redis, "crowd-7", "unheard", due);
    let more = metric(&stage.broker, TRANSFERS) - transfers;
    assert!(more < 100.0, "{more} transfers, and one was due");
}

/// Strangers publish that all of them are due, which is not true; and name a crowd of queues that
/// are not there. One that is true is heard all the same.
#[test]
fn publications_that_are_not_true_cost_few_calls() {
    let (mut stage, _client) = crowded();
    let began = Instant::now();
    let before = (metric(&stage.broker, TRANSFERS), metric(&stage.broker, FOUND));
    for payload in ["0", "1", "nonsense"] {
        let lies = crowd(|n| format!("PUBLISH {} {payload}", keys(&format!("crowd-{n}")).channel));
        pipeline(&mut stage.redis, &lies);
        let nobodys = crowd(|n| format!("PUBLISH {} 0", keys(&format!("no-{n}")).channel));
        pipeline(&mut stage.redis, &nobodys);
    }
    let due = time_us(&mut stage.redis) / 1_000 + 300;
    let member = modern([1; 8], b"true");
    write(&mut stage.redis, "crowd-7", &due.to_string(), &member, true);
    let channel = keys("crowd-7").channel;
    call(&mut stage.redis, &["PUBLISH", &channel, &due.to_string()]);
    // Behind thousands of lies; the scan would come after ten minutes.
    let (payload, at) = take(&mut stage.redis, "crowd-7");
    assert_eq!(payload, b"true");
    assert!(at >= due * 1_000, "early");
    // Those not yet looked at would come before the next is.
    say(&mut stage.redis, "PUBLISH redisson_delay_queue_channel:{last} 0");
    let allowed = IN_VAIN * (2.0 + began.elapsed().as_secs_f64());
    let transfers = metric(&stage.broker, TRANSFERS) - before.0;
    assert!(transfers < allowed, "{transfers} transfers for {} lies", 3 * CROWD);
    let found = metric(&stage.broker, FOUND) - before.1;
    assert!(found < CROWD as f64 / 2.0, "{found} calls for {} queues", CROWD);
}

/// A place is kept for each queue before its offer is sent, so one batch cannot go beyond the
/// limit; and a place that is free again is given away.
#[test]
fn no_more_queues_than_are_allowed_however_they_come() {
    let mut stage = Stage::new(&[("limits.queues_max", "10"), NO_SCAN]);
    let mut client = stage.broker.client();
    let offers: Vec<String> = (0..60).map(|n| format!("DQ.OFFER many-{n} 300 m")).collect();
    let replies = pipeline(&mut client, &offers);
    let (stored, refused): (Vec<_>, Vec<_>) =
        replies.iter().enumerate().partition(|(_, reply)| matches!(reply, Value::Bulk(_)));
    assert_eq!(stored.len(), 10, "{replies:?}");
    for (_, reply) in &refused {
        assert!(reply.text().starts_with("TOOMANY"), "{reply:?}");
    }
    // What was refused took no place, and is not there; what others write waits for one.
    let due = time_us(&mut stage.redis) / 1_000;
    write(&mut stage.redis, "strange", &due.to_string(), &modern([1; 8], b"s"), true);
    call(&mut stage.redis, &["PUBLISH", &keys("strange").channel, &due.to_string()]);
    for (n, reply) in stored {
        take_due(&mut stage.redis, &format!("many-{n}"), "m", due_of(&reply.text()));
    }
    let (payload, at) = take(&mut stage.redis, "strange");
    assert_eq!(payload, b"s");
    let late = Duration::from_micros(at - due * 1_000);
    assert!(late < SOON / 2, "late by {late:?}: a place was free before");
    eventually("there is a place again", || {
        let reply = say(&mut client, "DQ.OFFER another 1h m");
        matches!(reply, Value::Bulk(_)).then_some(())
    });
}

/// A queue that has become empty gives its place to the next offer, and not only once it is pruned,
/// as happens every two seconds.
#[test]
fn the_place_of_an_empty_queue_is_free_at_once() {
    let mut stage = Stage::new(&[("limits.queues_max", "1"), NO_SCAN]);
    let mut client = stage.broker.client();
    let began = Instant::now();
    for n in 0..15 {
        let queue = format!("one-{n}");
        let id = eventually("there is a place", || {
            let reply = say(&mut client, &format!("DQ.OFFER {queue} 0 m"));
            matches!(reply, Value::Bulk(_)).then(|| reply.text())
        });
        take_due(&mut stage.redis, &queue, "m", due_of(&id));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // They are forgotten all the same.
    let registry = ["SCARD", "delay_broker_queues"];
    eventually("all are pruned", || {
        (call(&mut stage.redis, &registry) == Value::Int(0)).then_some(())
    });
}

/// A batch that Redis refuses gives its places back.
#[test]
fn what_is_not_stored_takes_no_place() {
    let stage = Stage::new(&[("limits.queues_max", "5"), NO_SCAN]);
    let mut client = stage.broker.client();
    for n in 0..20 {
        let reply = say(&mut client, &format!("DQ.OFFER none-{n} 1h m NAME n XX"));
        assert_eq!(reply, Value::Null, "{n}");
    }
}

/// A queue that is empty gives its place back, also where Redis refused to forget it at first.
#[test]
fn a_queue_that_could_not_be_forgotten_gives_its_place_back_later() {
    let mut stage = Stage::alone(&[("limits.queues_max", "2"), NO_SCAN]);
    let mut client = stage.broker.client();
    let ids = ["one", "two"].map(|queue| offer(&mut client, &[queue, "300", "m"]));
    // The registry of queues holds another type for a while.
    say(&mut stage.redis, "DEL delay_broker_queues");
    say(&mut stage.redis, "SET delay_broker_queues x");
    for (queue, id) in ["one", "two"].iter().zip(&ids) {
        take_due(&mut stage.redis, queue, "m", due_of(id));
    }
    const PRUNE: &str = "delay_broker_script_seconds_count{script=\"prune\"}";
    eventually("it was tried", || (metric(&stage.broker, PRUNE) >= 2.0).then_some(()));
    say(&mut stage.redis, "DEL delay_broker_queues");
    eventually("there is a place again", || {
        let reply = say(&mut client, "DQ.OFFER three 1h m");
        matches!(reply, Value::Bulk(_)).then_some(())
    });
}

/// Calls to Redis in the next moments; that the broker is busy with nothing must not show.
fn scripts_a_second(redis: &mut Client) -> f64 {
    let calls = |redis: &mut Client| {
        let stats = say(redis, "INFO commandstats").text();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let count = line.and_then(|line| line.split(',').next());
        count.unwrap().parse::<f64>().unwrap()
    };
    let (began, before) = (Instant::now(), calls(redis));
    eventually("a second has passed", || (began.elapsed() > Duration::from_secs(1)).then_some(()));
    (calls(redis) - before) / began.elapsed().as_secs_f64()
}

/// Somebody renames all keys of a queue, with its record; or writes another name into it.
#[test]
fn a_record_with_a_name_that_has_other_keys_is_not_believed() {
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["old", "1500ms", "renamed"]);
    let id = offer(&mut client, &["q", "1500ms", "overwritten"]);
    for prefix in ["redisson_delay_queue_timeout", "redisson_delay_queue", "delay_broker_queue"] {
        say(&mut stage.redis, &format!("RENAME {prefix}:{{old}} {prefix}:{{new}}"));
    }
    say(&mut stage.redis, "HSET delay_broker_queue:{q} name nobody");
    // Both queues have been met by the scan meanwhile.
    take_due(&mut stage.redis, "q", "overwritten", due_of(&id));
    let (payload, _) = take(&mut stage.redis, "new");
    assert_eq!(payload, b"renamed");
    // The recorded name is that of a queue which cannot be delivered, and offers go on.
    offer(&mut client, &["new", "1h", "later"]);
    let name = call(&mut stage.redis, &["HGET", "delay_broker_queue:{new}", "name"]);
    assert_eq!(name.text(), "new");
    let calls = scripts_a_second(&mut stage.redis);
    assert!(calls < 100.0, "{calls} scripts a second with nothing to do");
}

/// Queues that cannot be delivered are asked about now and then, all of them together.
#[test]
fn queues_that_cannot_be_delivered_do_not_make_redis_busy() {
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    let offers: Vec<String> = (0..1_000).map(|n| format!("DQ.OFFER bad-{n} 3000 m")).collect();
    pipeline(&mut client, &offers);
    let wrong: Vec<String> = (0..1_000).map(|n| format!("SET bad-{n} x")).collect();
    pipeline(&mut stage.redis, &wrong);
    let id = offer(&mut client, &["good", "3500", "m"]);
    take_due(&mut stage.redis, "good", "m", due_of(&id));
    let calls = scripts_a_second(&mut stage.redis);
    assert!(calls < 2.0 * IN_VAIN, "{calls} scripts a second with nothing to do");
    let right: Vec<String> = (0..1_000).map(|n| format!("DEL bad-{n}")).collect();
    pipeline(&mut stage.redis, &right);
    eventually("all are delivered", || {
        let lengths: Vec<String> = (0..1_000).map(|n| format!("LLEN bad-{n}")).collect();
        let lengths = pipeline(&mut stage.redis, &lengths);
        lengths.iter().all(|length| length.int() == 1).then_some(())
    });
}

/// A Redis that comes back empty is taken as it is: the keys belong to whoever is first again.
#[test]
fn names_may_change_after_a_flush() {
    let mut stage = Stage::alone(&[NO_SCAN]);
    let mut client = stage.broker.client();
    for (first, second) in [("{x}", "x"), ("y", "{y}")] {
        offer(&mut client, &[first, "1h", "lost"]);
        say(&mut stage.redis, "FLUSHALL");
        let id = offer(&mut client, &[second, "300", "kept"]);
        take_due(&mut stage.redis, second, "kept", due_of(&id));
        // The broker waited for the old name, and goes on with the new one.
        let id = offer(&mut client, &[second, "0", "again"]);
        take_due(&mut stage.redis, second, "again", due_of(&id));
    }
}

/// Data that nobody published: written by hand, restored, or that of another database.
#[test]
fn what_nobody_published_is_found() {
    const WITHIN: Duration = Duration::from_secs(10);
    let mut stage = Stage::alone(&[NO_SCAN]);
    // The fast search after the subscription is over once a slow round has begun.
    let mut client = stage.broker.client();
    eventually("searched", || {
        let scans = say(&mut stage.redis, "INFO commandstats").text();
        scans.contains("cmdstat_scan:").then_some(())
    });
    offer(&mut client, &["known", "1h", "m"]);
    let due = time_us(&mut stage.redis) / 1_000;
    write(&mut stage.redis, "by-hand", &due.to_string(), &modern([1; 8], b"hand"), true);
    let (payload, at) = take(&mut stage.redis, "by-hand");
    assert_eq!(payload, b"hand");
    let late = Duration::from_micros(at - due * 1_000);
    assert!(late < WITHIN + ON_TIME, "late by {late:?}");

    say(&mut stage.redis, "SELECT 1");
    write(&mut stage.redis, "swapped", "1000", &modern([2; 8], b"swap"), true);
    call(&mut stage.redis, &["SADD", "delay_broker_queues", "swapped"]);
    say(&mut stage.redis, "SELECT 0");
    say(&mut stage.redis, "SWAPDB 0 1");
    let swapped_at = time_us(&mut stage.redis);
    let (payload, at) = take(&mut stage.redis, "swapped");
    assert_eq!(payload, b"swap");
    let late = Duration::from_micros(at - swapped_at);
    assert!(late < SOON / 2, "late by {late:?}: the registry names it");
}

/// What is published of names that are no text is never heard; other brokers deliver them on time
/// all the same, after the one that was offered it is gone.
#[test]
fn queues_whose_names_are_no_text_are_delivered_by_other_brokers() {
    const QUEUE: &[u8] = b"caf\xe9\xff";
    let mut stage = Stage::new(&[NO_SCAN]);
    let mut other = stage.another(&[NO_SCAN]);
    let mut client = other.client();
    let offered = |client: &mut Client, delay: &str, payload: &str| {
        let args: [&[u8]; 4] = [b"DQ.OFFER", QUEUE, delay.as_bytes(), payload.as_bytes()];
        due_of(&client.call(&args).unwrap().text())
    };
    offered(&mut client, "1h", "later");
    // The registry has it: the other broker reads it soon.
    eventually("registered", || {
        let member: [&[u8]; 3] = [b"SISMEMBER", b"delay_broker_queues", QUEUE];
        (stage.redis.call(&member).unwrap().int() == 1).then_some(())
    });
    let due = offered(&mut client, "4s", "m");
    other.signal("KILL");
    other.wait(SOON);
    let bytes = [encode(&[b"BLPOP", QUEUE, b"15"]), encode(&["TIME"])].concat();
    stage.redis.read_within(Duration::from_secs(20)).unwrap();
    stage.redis.send_bytes(&bytes).unwrap();
    let popped = stage.redis.read().unwrap();
    let time = stage.redis.read().unwrap().texts();
    assert_eq!(popped.elements()[1].text(), "m");
    let at_us = time[0].parse::<u64>().unwrap() * 1_000_000 + time[1].parse::<u64>().unwrap();
    assert!(at_us >= due * 1_000, "early");
    let late = Duration::from_micros(at_us - due * 1_000);
    assert!(late < ON_TIME, "late by {late:?}");
}

/// A key that nothing but its name makes a queue is left alone by the SCAN.
#[test]
fn a_key_of_another_type_is_no_queue() {
    let mut stage = Stage::new(&[]);
    call(&mut stage.redis, &["SET", &keys("strange").timeout, "x"]);
    let due = time_us(&mut stage.redis) / 1_000;
    write(&mut stage.redis, "plain", &due.to_string(), &modern([1; 8], b"m"), true);
    let later = (due + 3_600_000).to_string();
    write(&mut stage.redis, "plain", &later, &modern([2; 8], b"later"), true);
    // It finds both in one step.
    stage.replace_broker(&[]);
    assert_eq!(take(&mut stage.redis, "plain").0, b"m");
    let mut client = stage.broker.client();
    let queues = format!("{:?}", say(&mut client, "DQ.QUEUES"));
    assert!(queues.contains("plain") && !queues.contains("strange"), "{queues}");
}
