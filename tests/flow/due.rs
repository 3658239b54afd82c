//! The main job: what is offered is taken from the list when it is due, in order, and never before.

use crate::stage::{
    ON_TIME, Stage, call, delivered, due_of, eventually, info, metric, offer, say, take, take_due,
};
use crate::support::broker::Broker;
use crate::support::proxy::Proxy;
use crate::support::random::Random;
use crate::support::redis::Redis;
use crate::support::resp::{Value, encode};
use std::collections::HashMap;
use std::time::Duration;

#[test]
fn an_offer_is_taken_on_time_and_not_before() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for (due, payload) in [("150", "ms"), ("1s", "unit"), ("0", "now"), ("0", "")] {
        let id = offer(&mut client, &["q", due, payload]);
        take_due(&mut stage.redis, "q", payload, due_of(&id));
    }
    // A time in the past is now, and not the time that was given.
    let before = crate::stage::time_us(&mut stage.redis) / 1_000;
    for past in ["978307200001", "2001-01-01T00:00:00Z"] {
        let id = offer(&mut client, &["q", "AT", past, "past"]);
        assert!(due_of(&id) >= before, "{id}");
        take_due(&mut stage.redis, "q", "past", due_of(&id));
    }
    assert_eq!(info(&mut client, "q", "delivered"), Value::Int(6));
}

#[test]
fn the_order_is_by_due_time_and_equal_times_as_offered() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let base = crate::stage::time_us(&mut stage.redis) / 1_000 + 3_000;
    // In turn: late, early, middle, each many times and with one due time.
    let mut commands = Vec::new();
    let mut wanted = vec![Vec::new(); 3];
    for n in 0..300 {
        let which = [2, 0, 1][n % 3];
        let (at, payload) = ((base + which as u64 * 40).to_string(), format!("{which}-{n}"));
        commands.extend(encode(&["DQ.OFFER", "q", "AT", &at, &payload]));
        wanted[which].push(payload);
    }
    client.send_bytes(&commands).unwrap();
    for _ in 0..300 {
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
    }
    let mut more = vec!["DQ.MOFFER".to_owned(), "m".to_owned()];
    more.extend((0..100).flat_map(|n| ["300".to_owned(), format!("more-{n}")]));
    assert_eq!(client.call(&more).unwrap().elements().len(), 100);
    assert_eq!(delivered(&mut stage.redis, "q", 300), wanted.concat());
    let in_order: Vec<String> = (0..100).map(|n| format!("more-{n}")).collect();
    assert_eq!(delivered(&mut stage.redis, "m", 100), in_order);
}

#[test]
fn a_thousand_at_random_times_each_once() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut random = Random::new(17);
    let mut commands = Vec::new();
    for n in 0..1_000 {
        let delay = random.below(8_000).to_string();
        commands.extend(encode(&["DQ.OFFER", "q", &delay, &format!("message-{n}")]));
    }
    client.send_bytes(&commands).unwrap();
    let mut due = HashMap::new();
    for n in 0..1_000 {
        let id = client.read().unwrap().text();
        due.insert(format!("message-{n}"), due_of(&id));
    }
    let mut worst = Duration::ZERO;
    for _ in 0..1_000 {
        let (payload, at) = take(&mut stage.redis, "q");
        let payload = String::from_utf8(payload).unwrap();
        // Taken out here: a second copy would not be found.
        let due_ms = due.remove(&payload).unwrap_or_else(|| panic!("{payload} came twice"));
        assert!(at >= due_ms * 1_000, "{payload} is early by {} us", due_ms * 1_000 - at);
        worst = worst.max(Duration::from_micros(at - due_ms * 1_000));
    }
    assert!(worst < ON_TIME, "late by {worst:?}");
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
    assert_eq!(say(&mut stage.redis, "LLEN q"), Value::Int(0));
}

#[test]
fn large_messages_are_delivered_in_order_among_small_ones() {
    // On a server of its own: 16 MiB hold up whoever shares it.
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.PAUSE q");
    let sizes = [1, 16 << 20, 2, 3, 16 << 20, 8 << 20, 5, 16 << 20, 0];
    for (n, size) in sizes.into_iter().enumerate() {
        let args: [&[u8]; 4] = [b"DQ.OFFER", b"q", b"0", &vec![n as u8; size]];
        assert!(matches!(client.call(&args).unwrap(), Value::Bulk(_)), "{size}");
    }
    say(&mut client, "DQ.RESUME q");
    for (n, size) in sizes.into_iter().enumerate() {
        let (payload, _) = take(&mut stage.redis, "q");
        assert!(payload == vec![n as u8; size], "{n}: {} bytes", payload.len());
    }
}

/// A long way to Redis makes no transfer smaller, also where Redis's clock stands still in a
/// script, so that its time is not told from that of the way (7.2 and newer, Valkey).
#[test]
fn a_long_way_to_redis() {
    const TOTAL: usize = 10_000;
    let own = Redis::spawn(&[]);
    let mut redis = own.client(0);
    let proxy = Proxy::start(own.address());
    let url = format!("redis://{}/0", proxy.address());
    // Far more than a transfer takes, far less than the way.
    let broker = Broker::spawn(&url, &[("scheduler.transfer_ms_max", "30")]);
    let mut client = broker.client();
    call(&mut client, &["DQ.PAUSE", "far"]);
    for _ in 0..TOTAL / 500 {
        let mut args = vec!["DQ.MOFFER", "far"];
        args.extend(["0", "x"].repeat(500));
        call(&mut client, &args);
    }
    let count = |broker: &Broker| {
        metric(broker, "delay_broker_script_seconds_count{script=\"transfer\"}") as usize
    };
    let before = count(&broker);
    proxy.delay(Duration::from_millis(40));
    call(&mut client, &["DQ.RESUME", "far"]);
    eventually("all are delivered", || {
        (say(&mut redis, "LLEN far") == Value::Int(TOTAL as i64)).then_some(())
    });
    let transfers = count(&broker) - before;
    assert!(transfers < 60, "{transfers}");
}
