//! Schedules: each occurrence once, on time, whoever dies; and what becomes of those that nobody
//! was there for.
//!
//! Where moments are compared the queue is paused, so that occurrences stay pending: their scores
//! are the moments. That time passes, or Redis's clock steps, is shown by moving what is recorded.

use crate::stage::{
    NO_SCAN, ON_TIME, SOON, Stage, call, delivered, eventually, field_of, info, metric, say, take,
    take_due, time_us,
};
use crate::support::broker::Broker;
use crate::support::redis::shared;
use crate::support::resp::{Client, Value};
use crate::support::wait::{self, all_the_time};
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Sets a schedule of queue `q`; its next occurrence.
fn set(client: &mut Client, name: &str, expr: &str, words: &str) -> u64 {
    let mut args = vec!["DQ.CRON", "q", "SET", name, expr, name];
    args.extend(words.split_whitespace());
    match call(client, &args) {
        Value::Int(next) => next as u64,
        other => panic!("{args:?}: {other:?}"),
    }
}

/// The due times of what is pending in `q`.
fn pending(redis: &mut Client) -> Vec<u64> {
    let key = "redisson_delay_queue_timeout:{q}";
    let all = call(redis, &["ZRANGE", key, "0", "-1", "WITHSCORES"]).texts();
    all.chunks(2).map(|pair| pair[1].parse().unwrap()).collect()
}

/// The next occurrence as Redis has it.
fn next(redis: &mut Client, name: &str) -> f64 {
    let score = call(redis, &["ZSCORE", "delay_broker_crons:{q}", name]);
    score.text().parse().unwrap_or_else(|_| panic!("no schedule: {score:?}"))
}

/// Moves what is recorded of a schedule: as if Redis's clock had gone the other way meanwhile.
fn shift(redis: &mut Client, name: &str, ms: i64) {
    let moved = |then: u64| (then as i64 + ms).to_string();
    let next = moved(next(redis, name) as u64);
    call(redis, &["ZADD", "delay_broker_crons:{q}", "XX", &next, name]);
    let field = format!("last:{name}");
    let last = call(redis, &["HGET", "delay_broker_cron:{q}", &field]).text().parse().unwrap();
    call(redis, &["HSET", "delay_broker_cron:{q}", &field, &moved(last)]);
}

/// So many occurrences have come, one after the other.
fn come(redis: &mut Client, count: usize) {
    for count in 1..=count {
        eventually("an occurrence", || (pending(redis).len() >= count).then_some(()));
    }
}

fn refused(reply: &Value, wanted: &str) {
    assert!(format!("{reply:?}").starts_with(wanted), "{reply:?}");
}

fn now_ms(redis: &mut Client) -> u64 {
    time_us(redis) / 1_000
}

/// Not the safety scan finds it, nor is anybody told.
#[test]
fn comes_on_time() {
    let mut stage = Stage::new(&[NO_SCAN]);
    let mut client = stage.broker.client();
    let first = set(&mut client, "tick", "* * * * * *", "");
    for n in 0..3 {
        take_due(&mut stage.redis, "q", "tick", first + n * 1_000);
    }
    let reply = say(&mut client, "DQ.CRON q SET tock * p");
    refused(&reply, "-ERR expression '*' must have 5 fields");
    // It is a message like any other: with a name, an id and a lateness.
    say(&mut client, "DQ.PAUSE q");
    let peek =
        eventually("an occurrence", || say(&mut client, "DQ.PEEK q").elements().first().cloned());
    assert_eq!(field_of(&peek, "name").unwrap().text(), "cron:tick");
    assert!(info(&mut client, "q", "offered").int() >= 4);
    assert!(metric(&stage.broker, "delay_broker_cron_offered_total{queue=\"q\"}") >= 4.0);
}

/// Goal: each second's occurrence is offered exactly once while brokers come and die. Method: three
/// brokers, of which one is killed after 5 occurrences and another after 12; then the moments.
#[test]
fn each_comes_once_with_brokers_that_die() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut others = vec![stage.another(&[]), stage.another(&[])];
    say(&mut client, "DQ.PAUSE q");
    let first = set(&mut client, "tick", "* * * * * *", "OVERLAP ALLOW");
    for count in [5, 12] {
        come(&mut stage.redis, count);
        stage.broker.signal("KILL");
        stage.broker.wait(SOON);
        stage.broker = others.pop().unwrap();
    }
    come(&mut stage.redis, 20);
    let came = pending(&mut stage.redis);
    let wanted: Vec<u64> = (0..came.len() as u64).map(|n| first + n * 1_000).collect();
    assert_eq!(came, wanted);
}

/// Each row: what is set, what comes of the outage of three hours and a bit, and what is counted.
#[test]
fn missed_ones() {
    for (words, offered, missed) in [
        ("", 1, 35),
        ("CATCHUP 0", 0, 36),
        ("CATCHUP 3 OVERLAP ALLOW", 3, 33),
        ("CATCHUP 100 OVERLAP ALLOW", 36, 0),
    ] {
        let mut stage = Stage::new(&[]);
        let mut client = stage.broker.client();
        say(&mut client, "DQ.PAUSE q");
        // Every five minutes, the next one in more than one.
        let minute = now_ms(&mut stage.redis) / 60_000 + 2;
        let minutes: Vec<String> = (0..12).map(|n| (minute % 5 + n * 5).to_string()).collect();
        let expr = minutes.join(",") + " * * * *";
        let next_ms = set(&mut client, "n", &expr, words);
        stage.broker.signal("KILL");
        stage.broker.wait(SOON);
        shift(&mut stage.redis, "n", -(3 * HOUR_MS as i64));
        let due = next(&mut stage.redis, "n") as u64;
        stage.broker = Broker::spawn(&stage.url, &[]);
        eventually(words, || (next(&mut stage.redis, "n") == next_ms as f64).then_some(()));
        // At their own moments, the first of those that were missed.
        let wanted: Vec<u64> = (0..offered).map(|n| due + n * 300_000).collect();
        assert_eq!(pending(&mut stage.redis), wanted, "{words}");
        let series = "delay_broker_cron_missed_total{queue=\"q\"}";
        let counted = || metric(&stage.broker, series);
        wait::eventually(counted, |counted| *counted == f64::from(missed));
    }
}

#[test]
fn paused_resumed_deleted() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.PAUSE q");
    set(&mut client, "tick", "* * * * * *", "OVERLAP ALLOW");
    come(&mut stage.redis, 1);
    assert_eq!(say(&mut client, "DQ.CRON q PAUSE tick"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CRON q PAUSE tick"), Value::Int(0));
    assert_eq!(info(&mut client, "q", "crons"), Value::Int(1));
    assert_eq!(info(&mut client, "q", "next_cron_ms"), Value::Null);
    let before = pending(&mut stage.redis);
    let stays = |redis: &mut Client, before: &[u64]| {
        all_the_time(Duration::from_millis(2_500), || pending(redis), |now| now == before);
    };
    stays(&mut stage.redis, &before);
    let resumed = now_ms(&mut stage.redis);
    assert_eq!(say(&mut client, "DQ.CRON q RESUME tick"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CRON q RESUME tick"), Value::Int(0));
    come(&mut stage.redis, before.len() + 2);
    // None of those of the pause.
    let after: Vec<u64> = pending(&mut stage.redis).split_off(before.len());
    assert!(after.iter().all(|at| *at >= resumed), "{resumed}: {after:?}");
    assert_eq!(say(&mut client, "DQ.CRON q DEL tick"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CRON q DEL tick"), Value::Int(0));
    let before = pending(&mut stage.redis);
    stays(&mut stage.redis, &before);
    assert_eq!(call(&mut stage.redis, &["EXISTS", "delay_broker_cron:{q}"]), Value::Int(0));
}

/// While the last one is pending no other one comes; DQ.CLEAR leaves the schedule.
#[test]
fn skips_while_the_last_one_is_pending() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.PAUSE q");
    let first = set(&mut client, "tick", "* * * * * *", "");
    let skipped = "delay_broker_cron_skipped_total{queue=\"q\"}";
    eventually("skipped ones", || (metric(&stage.broker, skipped) >= 2.0).then_some(()));
    assert_eq!(pending(&mut stage.redis), [first]);
    assert_eq!(say(&mut client, "DQ.CLEAR q"), Value::Int(1));
    eventually("another one", || (pending(&mut stage.redis).len() == 1).then_some(()));
    assert!(pending(&mut stage.redis)[0] > first);
    say(&mut client, "DQ.RESUME q");
    delivered(&mut stage.redis, "q", 3);
}

/// Nothing names the queue but the schedule itself.
#[test]
fn a_restart_finds_schedules() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "daily", "@daily", "TZ Europe/Berlin");
    let listed = |client: &mut Client| {
        let rows = say(client, "DQ.QUEUES").elements()[1].elements().to_vec();
        rows.iter().any(|row| field_of(row, "queue").unwrap().text() == "q")
    };
    // It is empty, and is not forgotten.
    all_the_time(Duration::from_secs(5), || listed(&mut client), |listed| *listed);
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    for key in ["delay_broker_queues", "delay_broker_cron_queues", "delay_broker_queue:{q}"] {
        call(&mut stage.redis, &["DEL", key]);
    }
    let due = now_ms(&mut stage.redis) + 2_000;
    call(&mut stage.redis, &["ZADD", "delay_broker_crons:{q}", "XX", &due.to_string(), "daily"]);
    stage.broker = Broker::spawn(&stage.url, &[]);
    // Found, within a round of the SCAN.
    let (taken, at) = take(&mut stage.redis, "q");
    assert!(taken == b"daily" && at >= due * 1_000, "{due}: {at}");
    assert!(listed(&mut stage.broker.client()));
    let noted = || call(&mut stage.redis, &["SMEMBERS", "delay_broker_cron_queues"]).texts();
    wait::eventually(noted, |noted| noted == &["q"]);
}

/// A broker that learned of a schedule from another one is in time when that one dies at once.
#[test]
fn another_broker_takes_over() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let mut client = stage.broker.client();
    let due = set(&mut client, "n", "every 1s", "");
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    stage.broker = other;
    let (_, at) = take(&mut stage.redis, "q");
    assert!(at >= due * 1_000);
    let next = next(&mut stage.redis, "n") as u64;
    take_due(&mut stage.redis, "q", "n", next);
}

/// Goal: no wall-clock minute has two occurrences, whatever Redis's clock does. Method: the clock
/// goes an hour ahead and back again, as what is recorded shows it; the moments that were offered.
#[test]
fn a_clock_that_steps() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.PAUSE q");
    set(&mut client, "tick", "* * * * * *", "OVERLAP ALLOW");
    eventually("one", || (!pending(&mut stage.redis).is_empty()).then_some(()));
    say(&mut client, "DQ.CRON q PAUSE tick");
    // Back by an hour: what was offered lies ahead, and nothing comes until it is passed.
    let ahead = now_ms(&mut stage.redis) / 1_000 * 1_000 + HOUR_MS;
    let (key, ahead_text) = ("delay_broker_cron:{q}", ahead.to_string());
    call(&mut stage.redis, &["ZADD", "delay_broker_crons:{q}", "XX", &ahead_text, "tick"]);
    call(&mut stage.redis, &["HSET", key, "last:tick", &ahead_text]);
    let before = pending(&mut stage.redis);
    let still = |redis: &mut Client| pending(redis);
    all_the_time(Duration::from_secs(3), || still(&mut stage.redis), |now| *now == before);
    // Nor where it is set to other moments, or paused and resumed.
    let anew = set(&mut client, "tick", "*/2 * * * * *", "OVERLAP ALLOW");
    assert!(anew > ahead, "{anew} {ahead}");
    assert_eq!(say(&mut client, "DQ.CRON q PAUSE tick"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CRON q RESUME tick"), Value::Int(1));
    assert!(next(&mut stage.redis, "tick") > ahead as f64);
    // By two days: the clock before was wrong, and whoever meets the schedule begins anew.
    shift(&mut stage.redis, "tick", 2 * DAY_MS as i64);
    stage.replace_broker(&[]);
    eventually("more", || (pending(&mut stage.redis).len() > before.len() + 1).then_some(()));
    stage.broker.has_logged("begin anew");
    let came = pending(&mut stage.redis);
    assert!(came.is_sorted_by(|a, b| a < b), "{came:?}");
    let soon = now_ms(&mut stage.redis) + ON_TIME.as_millis() as u64;
    assert!(came.iter().all(|at| *at <= soon), "{came:?}");
}

/// Redis loses everything: the schedule is gone, and the queue is forgotten; it can be set again.
#[test]
fn flushed() {
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "tick", "* * * * * *", "");
    delivered(&mut stage.redis, "q", 1);
    call(&mut stage.redis, &["FLUSHALL"]);
    eventually("forgotten", || {
        let rows = say(&mut client, "DQ.QUEUES").elements()[1].elements().len();
        (rows == 0).then_some(())
    });
    let keys = call(&mut stage.redis, &["KEYS", "delay_broker_cron*"]).texts();
    assert_eq!(keys, Vec::<String>::new());
    let due = set(&mut client, "tick", "* * * * * *", "");
    take_due(&mut stage.redis, "q", "tick", due);
}

/// As many as there may be, all due at one moment.
#[test]
fn a_thousand_at_once() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..1_000 {
        let name = n.to_string();
        client.send(&["DQ.CRON", "q", "SET", &name, "every 1d", &name]).unwrap();
    }
    let next_ms = (0..1_000).map(|_| client.read().unwrap().int()).max().unwrap();
    let full = call(&mut client, &["DQ.CRON", "q", "SET", "more", "every 1d", "p"]);
    refused(&full, "-TOOMANY the queue has 1000 schedules");
    let due = (now_ms(&mut stage.redis) + 1_500).to_string();
    let mut all = vec!["ZADD".to_owned(), "delay_broker_crons:{q}".to_owned()];
    all.extend((0..1_000).flat_map(|n| [due.clone(), n.to_string()]));
    stage.redis.call(&all).unwrap();
    // The brokers look at what is noted every few seconds.
    let mut came = delivered(&mut stage.redis, "q", 1_000);
    came.sort();
    came.dedup();
    assert_eq!(came.len(), 1_000);
    assert_eq!(next(&mut stage.redis, "0"), next_ms as f64);
}

/// What others wrote harms only itself.
#[test]
fn damaged_ones() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "good", "* * * * * *", "");
    for (name, spec) in [("a", ""), ("b", "{}"), ("c", r#"{"expr":", * * * *","tz":"UTC"}"#)] {
        let field = format!("spec:{name}");
        call(&mut stage.redis, &["HSET", "delay_broker_cron:{q}", &field, spec]);
        call(&mut stage.redis, &["ZADD", "delay_broker_crons:{q}", "-inf", name]);
    }
    delivered(&mut stage.redis, "q", 3);
    for name in ["a", "b", "c"] {
        assert_eq!(next(&mut stage.redis, name), f64::INFINITY);
    }
    stage.broker.has_logged("cannot be read");
    let reply = say(&mut client, "DQ.CRON q RESUME b");
    refused(&reply, "-UNAVAILABLE the schedule cannot be read");
}

/// A queue that cannot be offered to keeps its occurrences waiting, and others go on.
#[test]
fn a_queue_that_cannot_be_offered_to() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "n", "* * * * * *", "");
    delivered(&mut stage.redis, "q", 1);
    call(&mut stage.redis, &["DEL", "q"]);
    call(&mut stage.redis, &["SET", "q", "other"]);
    stage.broker.has_logged("schedules of this queue wait");
    call(&mut client, &["DQ.CRON", "other", "SET", "n", "* * * * * *", "p"]);
    delivered(&mut stage.redis, "other", 1);
    call(&mut stage.redis, &["DEL", "q"]);
    delivered(&mut stage.redis, "q", 1);
}

/// Two brokers on two databases of one server: each has its own schedules.
#[test]
fn databases_are_apart() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "n", "every 1d", "");
    let database = shared().fresh_database();
    let other = Broker::spawn(&shared().url(database), &[]);
    let found = say(&mut other.client(), "DQ.CRON q LIST");
    assert_eq!(found.elements()[1].elements().len(), 0);
    assert_eq!(info(&mut client, "q", "crons"), Value::Int(1));
}

/// A set that others spoiled names no queues; the SCAN finds them all the same.
#[test]
fn a_spoiled_registry() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    set(&mut client, "n", "every 1d", "");
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    for key in ["delay_broker_queues", "delay_broker_cron_queues"] {
        call(&mut stage.redis, &["DEL", key]);
        call(&mut stage.redis, &["SET", key, "spoiled"]);
    }
    call(&mut stage.redis, &["ZADD", "delay_broker_crons:{q}", "XX", "5", "n"]);
    stage.broker = Broker::spawn(&stage.url, &[]);
    delivered(&mut stage.redis, "q", 1);
}

/// Whoever leaves while its schedule is being set leaves no place behind that keeps the queue.
#[test]
fn a_client_that_leaves() {
    let mut stage = Stage::new(&[("limits.queues_max", "1")]);
    for _ in 0..50 {
        let mut client = stage.broker.client();
        client.send(&["DQ.CRON", "gone", "SET", "n", "every 1d", "p"]).unwrap();
    }
    let mut client = stage.broker.client();
    let set_last = |client: &mut Client| say(client, "DQ.CRON gone DEL n");
    wait::eventually(|| set_last(&mut client), |reply| *reply == Value::Int(0));
    // The only place is free again.
    eventually("a place", || {
        set_last(&mut client);
        let reply = call(&mut client, &["DQ.CRON", "q", "SET", "n", "* * * * * *", "p"]);
        matches!(reply, Value::Int(_)).then_some(())
    });
    let full = call(&mut client, &["DQ.CRON", "more", "SET", "n", "@daily", "p"]);
    refused(&full, "-TOOMANY the limit of 1 queues");
    delivered(&mut stage.redis, "q", 1);
}
