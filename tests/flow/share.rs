//! Two brokers on one Redis: every message is moved once, whoever was offered it, and both keep a
//! pause that one of them was asked for.

use crate::stage::{
    NO_SCAN, ON_TIME, Stage, call, delivered, due_of, eventually, info, list, metric, offer, say,
    sorted, take, take_due, time_us,
};
use crate::support::random::Random;
use crate::support::resp::{Client, Value, encode};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn two_brokers_deliver_each_message_once() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    thread::scope(|scope| {
        for (who, broker) in [&stage.broker, &other].into_iter().enumerate() {
            scope.spawn(move || {
                let (mut client, mut random) = (broker.client(), Random::new(who as u64 + 5));
                let mut commands = Vec::new();
                for n in 0..1_000 {
                    let delay = random.below(1_000).to_string();
                    commands.extend(encode(&["DQ.OFFER", "q", &delay, &format!("{who}-{n}")]));
                }
                client.send_bytes(&commands).unwrap();
                for _ in 0..1_000 {
                    assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
                }
            });
        }
    });
    let came = delivered(&mut stage.redis, "q", 2_000);
    let wanted = (0..2_000).map(|n| format!("{}-{}", n / 1_000, n % 1_000)).collect();
    assert_eq!(sorted(came), sorted(wanted));
    // Each counts what it moved itself.
    let series = "delay_broker_messages_delivered_total{queue=\"q\"}";
    assert_eq!(metric(&stage.broker, series) + metric(&other, series), 2_000.0);
    assert_eq!(list(&mut stage.redis, "redisson_delay_queue:{q}"), [""; 0]);
}

#[test]
fn a_pause_through_one_is_kept_by_the_other() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let (mut one, mut two) = (stage.broker.client(), other.client());
    offer(&mut two, &["q", "1h", "known to both"]);
    assert_eq!(say(&mut one, "DQ.PAUSE q"), Value::Simple("OK".into()));
    for n in 0..50 {
        offer(&mut two, &["q", &(n % 5 * 10).to_string(), &n.to_string()]);
        offer(&mut one, &["q", "AT", "2001-01-01T00:00:00Z", &(n + 50).to_string()]);
    }
    assert_eq!(info(&mut two, "q", "paused"), Value::Int(1));
    eventually("the first is well overdue", || {
        (info(&mut two, "q", "oldest_overdue_ms").int() > 400).then_some(())
    });
    assert_eq!(call(&mut stage.redis, &["EXISTS", "q"]), Value::Int(0), "moved while paused");
    // The one that did not pause it ends it; the other one is told too, or looks.
    assert_eq!(say(&mut two, "DQ.RESUME q"), Value::Simple("OK".into()));
    let came = delivered(&mut stage.redis, "q", 100);
    assert_eq!(sorted(came), sorted((0..100).map(|n| n.to_string()).collect()));
    assert_eq!(info(&mut one, "q", "paused"), Value::Int(0));
    call(&mut stage.redis, &["DEL", "q"]);
    let id = offer(&mut one, &["q", "30", "after it"]);
    take_due(&mut stage.redis, "q", "after it", due_of(&id));
}

/// The pause of all queues is in Redis: known queues and new ones wait, through either broker, and
/// whoever ends it, both go on; a queue's own pause is another one.
#[test]
fn a_pause_of_all_through_one_is_kept_by_the_other() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let (mut one, mut two) = (stage.broker.client(), other.client());
    let ok = Value::Simple("OK".into());
    offer(&mut two, &["known", "1h", "to both"]);
    assert_eq!(say(&mut one, "DQ.PAUSE ALL"), ok);
    say(&mut one, "DQ.PAUSE alone");
    for queue in ["known", "new", "alone"] {
        offer(&mut one, &[queue, "0", "through one"]);
        offer(&mut two, &[queue, "20", "through two"]);
    }
    let all = "delay_broker_paused_all";
    eventually("both have seen it, and all is well overdue", || {
        let queues = ["known", "new", "alone"];
        let mut overdue = queues.map(|queue| info(&mut two, queue, "oldest_overdue_ms").int());
        overdue.sort_unstable();
        let seen = [&stage.broker, &other].map(|broker| metric(broker, all));
        (overdue[0] > 1_500 && seen == [1.0, 1.0]).then_some(())
    });
    for queue in ["known", "new", "alone"] {
        let exists = call(&mut stage.redis, &["EXISTS", queue]);
        assert_eq!(exists, Value::Int(0), "{queue} moved while paused");
        assert_eq!(info(&mut two, queue, "paused_all"), Value::Int(1));
    }
    // A crash does not end it, and the broker that comes after it does not deliver.
    stage.replace_broker(&[]);
    let mut one = stage.broker.client();
    offer(&mut one, &["new", "0", "after the crash"]);
    assert_eq!(say(&mut two, "DQ.RESUME ALL"), ok);
    delivered(&mut stage.redis, "known", 2);
    delivered(&mut stage.redis, "new", 3);
    let exists = call(&mut stage.redis, &["EXISTS", "alone"]);
    assert_eq!(exists, Value::Int(0), "its own pause goes on");
    eventually("both have seen that it ended", || {
        let seen = [&stage.broker, &other].map(|broker| metric(broker, all));
        (seen == [0.0, 0.0]).then_some(())
    });
    assert_eq!(say(&mut one, "DQ.RESUME alone"), ok);
    delivered(&mut stage.redis, "alone", 2);
}

/// Who slept through the pause is woken by the look at its end, where no scan would: the broker
/// that was told to resume has ended.
#[test]
fn the_end_of_a_pause_of_all_is_seen_by_a_broker_that_nobody_told() {
    let mut stage = Stage::new(&[NO_SCAN]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.PAUSE ALL");
    offer(&mut client, &["q", "0", "m"]);
    eventually("its loop sleeps", || {
        (metric(&stage.broker, "delay_broker_paused_all") == 1.0).then_some(())
    });
    let key = ["HSET", "delay_broker_all", "paused_until", "1000"];
    call(&mut stage.redis, &key);
    assert_eq!(take(&mut stage.redis, "q").0, b"m");
    // One for a time ends by itself; what is due meanwhile is late from its end on only.
    let before = time_us(&mut stage.redis) / 1_000;
    say(&mut client, "DQ.PAUSE ALL 1500");
    let until = info(&mut client, "q", "paused_until").int() as u64;
    assert!((before + 1_500..before + 6_500).contains(&until));
    offer(&mut client, &["q", "0", "n"]);
    let (payload, at) = take(&mut stage.redis, "q");
    assert_eq!(payload, b"n");
    assert!(at >= until * 1_000, "moved while paused");
    let late = Duration::from_micros(at - until * 1_000);
    assert!(late < ON_TIME, "{late:?} after the end of the pause");
}

/// The node number in a message id.
fn node_in(id: &str) -> u64 {
    u64::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap() >> 12 & 1023
}

fn node_keys(stage: &mut Stage) -> Vec<String> {
    call(&mut stage.redis, &["KEYS", "delay_broker_node:*"]).texts()
}

/// A broker that stood still until its node number was another's stores nothing with that number,
/// not even what waited in its sockets.
#[test]
fn a_number_that_was_lost_is_not_used() {
    let mut stage = Stage::new(&[("redis.node_claim_ms", "1000")]);
    let mut client = stage.broker.client();
    let lost = node_in(&offer(&mut client, &["q", "1h", "before"]));
    let key = format!("delay_broker_node:{lost}");
    assert_eq!(node_keys(&mut stage).concat(), key);
    stage.broker.signal("STOP");
    // As another broker does it: only where nobody holds it.
    eventually("the claim ran out", || {
        (call(&mut stage.redis, &["SET", &key, "another broker", "NX"]) != Value::Null)
            .then_some(())
    });
    let mut commands = Vec::new();
    for n in 0..200 {
        commands.extend(encode(&["DQ.OFFER", "q", "1h", &n.to_string()]));
    }
    client.send_bytes(&commands).unwrap();
    stage.broker.signal("CONT");
    let mut last = 0;
    for n in 0..200 {
        let id = client.read().unwrap();
        assert!(matches!(id, Value::Bulk(_)), "{n}: {id:?}");
        assert_ne!(node_in(&id.text()), lost, "{n}");
        let digits = id.text().rsplit_once('-').unwrap().1.to_owned();
        let number = u64::from_str_radix(&digits, 16).unwrap();
        assert!(number > last, "{n}: {id:?}");
        last = number;
    }
    assert_eq!(call(&mut stage.redis, &["GET", &key]).text(), "another broker");
}

/// A key of a number that holds something else is passed over, at a start and later.
#[test]
fn node_keys_of_another_type_are_passed_over() {
    let mut stage = Stage::new(&[("redis.node_claim_ms", "1000")]);
    let mut client = stage.broker.client();
    let lost = node_in(&offer(&mut client, &["q", "1h", "before"]));
    let (key, next) = (lost, (lost + 1) % 1024);
    let [key, next] = [key, next].map(|number| format!("delay_broker_node:{number}"));
    call(&mut stage.redis, &["DEL", &key]);
    call(&mut stage.redis, &["RPUSH", &key, "x"]);
    call(&mut stage.redis, &["HSET", &next, "x", "y"]);
    let begun = Instant::now();
    let id = eventually("it goes on with another number", || {
        let id = offer_or_none(&mut client)?;
        (![lost, (lost + 1) % 1024].contains(&node_in(&id))).then_some(id)
    });
    assert_eq!(node_in(&id), (lost + 2) % 1024);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    eventually("the log names the key", || stage.broker.log().contains(&key).then_some(()));
    // All but one.
    let free = format!("delay_broker_node:{}", (lost + 500) % 1024);
    for number in 0..1024 {
        let key = format!("delay_broker_node:{number}");
        if key != free && call(&mut stage.redis, &["EXISTS", &key]) == Value::Int(0) {
            call(&mut stage.redis, &["RPUSH", &key, "x"]);
        }
    }
    let other = stage.another(&[]);
    let id = offer(&mut other.client(), &["q", "1h", "m"]);
    assert_eq!(format!("delay_broker_node:{}", node_in(&id)), free);
    // None.
    let third = stage.another(&[]);
    let reply = say(&mut third.client(), "DQ.OFFER q 1h m").text();
    assert!(reply.starts_with("UNAVAILABLE ") && reply.contains("delay_broker_node:"), "{reply}");
}

fn offer_or_none(client: &mut Client) -> Option<String> {
    match say(client, "DQ.OFFER q 1h m") {
        Value::Bulk(id) => Some(String::from_utf8(id).unwrap()),
        _ => None,
    }
}

/// Redis stands still for longer than the claim of a node number lasts, or its clock goes ahead by
/// more: it refuses the offer, whose claim is over by then. The broker makes the claim anew and
/// stores the offer, and its client notices nothing but the time.
#[test]
fn an_offer_that_outlives_the_claim_of_its_node_number_is_stored() {
    let mut stage =
        Stage::alone(&[("redis.node_claim_ms", "1000"), ("redis.call_timeout_ms", "8000")]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "before"]);
    say(&mut stage.redis, "CLIENT PAUSE 1300 ALL");
    let id = offer(&mut client, &["q", "1h", "meanwhile"]);
    assert_eq!(node_in(&id), node_in(&offer(&mut client, &["q", "1h", "after"])));
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(3));
}

/// Another broker notes the time of its ids while this one starts: no clock has stepped back, and
/// ids do not run ahead, further with each start.
#[test]
fn a_note_of_this_moment_is_no_step_back() {
    let mut stage = Stage::new(&[]);
    let number = |id: &str| u64::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap();
    let before = offer(&mut stage.broker.client(), &["q", "1h", "m"]);
    let soon = (time_us(&mut stage.redis) / 1_000 + 900).to_string();
    call(&mut stage.redis, &["ZADD", "delay_broker_id_time", &soon, "latest"]);
    let after = offer(&mut stage.another(&[]).client(), &["q", "1h", "m"]);
    let half_a_minute = 30_000 << 22;
    assert!(number(&after) < number(&before) + half_a_minute, "{before} {after}");
}

/// Redis's clock stepped back by an hour, and the broker was started anew: its ids go on behind
/// those that were given before, as what is due at one time is delivered in the order of offering.
#[test]
fn ids_go_on_where_the_clock_stepped_back() {
    let mut stage = Stage::new(&[("redis.node_claim_ms", "1000")]);
    let noted = |stage: &mut Stage| say(&mut stage.redis, "ZSCORE delay_broker_id_time latest");
    let number = |id: &str| u64::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap();
    let before = offer(&mut stage.broker.client(), &["q", "1h", "m"]);
    let now_ms = time_us(&mut stage.redis) / 1_000;
    eventually("the time of the ids is noted", || {
        (noted(&mut stage).text().parse::<u64>().unwrap() >= now_ms).then_some(())
    });
    // What a broker leaves behind that ran until an hour from now.
    let later = (now_ms + 3_600_000).to_string();
    call(&mut stage.redis, &["ZADD", "delay_broker_id_time", &later, "latest"]);
    stage.replace_broker(&[]);
    let after = offer(&mut stage.broker.client(), &["q", "1h", "m"]);
    let an_hour = 3_600_000 << 22;
    assert!(number(&after) > number(&before) + an_hour, "{before} {after}");
    stage.broker.has_logged("stepped back");
    // Nonsense is not followed, and stops nothing.
    for nonsense in ["1e300", "999999999999999"] {
        call(&mut stage.redis, &["ZADD", "delay_broker_id_time", nonsense, "latest"]);
        stage.replace_broker(&[]);
        let id = offer(&mut stage.broker.client(), &["q", "1h", "m"]);
        assert!(number(&id) < number(&after), "{nonsense}: {id}");
    }
    call(&mut stage.redis, &["SET", "delay_broker_id_time", "x"]);
    stage.replace_broker(&[]);
    offer(&mut stage.broker.client(), &["q", "1h", "m"]);
}
