//! Two brokers on one Redis: every message is moved once, whoever was offered it, and both keep a
//! pause that one of them was asked for.

use crate::stage::{
    Stage, call, delivered, due_of, eventually, info, list, metric, offer, say, sorted, take_due,
};
use crate::support::random::Random;
use crate::support::resp::{Value, encode};
use std::thread;

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
    let wanted = (0..2_000)
        .map(|n| format!("{}-{}", n / 1_000, n % 1_000))
        .collect();
    assert_eq!(sorted(came), sorted(wanted));
    // Each counts what it moved itself.
    let series = "delay_broker_messages_delivered_total{queue=\"q\"}";
    assert_eq!(
        metric(&stage.broker, series) + metric(&other, series),
        2_000.0
    );
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
        offer(&mut one, &["q", "AT", "0", &(n + 50).to_string()]);
    }
    assert_eq!(info(&mut two, "q", "paused"), Value::Int(1));
    eventually("the first is well overdue", || {
        (info(&mut two, "q", "oldest_overdue_ms").int() > 400).then_some(())
    });
    assert_eq!(
        call(&mut stage.redis, &["EXISTS", "q"]),
        Value::Int(0),
        "moved while paused"
    );
    // The one that did not pause it ends it; the other one is told too, or looks.
    assert_eq!(say(&mut two, "DQ.RESUME q"), Value::Simple("OK".into()));
    let came = delivered(&mut stage.redis, "q", 100);
    assert_eq!(
        sorted(came),
        sorted((0..100).map(|n| n.to_string()).collect())
    );
    assert_eq!(info(&mut one, "q", "paused"), Value::Int(0));
    call(&mut stage.redis, &["DEL", "q"]);
    let id = offer(&mut one, &["q", "30", "after it"]);
    take_due(&mut stage.redis, "q", "after it", due_of(&id));
}
