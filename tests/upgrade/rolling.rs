//! Both versions at once on one Redis, as while brokers are replaced one by one.

use crate::Version::{self, Earlier, This};
use crate::ledger::Ledger;
use crate::stage::{NO_SCAN, SOON, call, due_of, eventually, info, offer, say, take_due};
use crate::support::broker::Broker;
use crate::support::random::Random;
use crate::support::redis::Redis;
use crate::support::resp::Value;
use std::collections::BTreeSet;

const QUEUES: [&str; 2] = ["plain", "listless"];
const SETTINGS: &str = "[[queues]]\nname = \"listless\"\norder_list = false\n";

/// Offers through the one; every fourth is taken back through the other, half of these by name.
fn produce(through: &Broker, other: &Broker, ledger: &Ledger, seed: u64) {
    let (mut client, mut other) = (through.client(), other.client());
    let mut random = Random::new(seed);
    for n in 0..200 {
        let (queue, payload) = (QUEUES[n % 2], format!("{seed} {n}"));
        let delay = random.below(1_500).to_string();
        match n % 8 {
            3 => {
                let id = offer(&mut client, &[queue, "1h", &payload]);
                assert_eq!(call(&mut other, &["DQ.CANCEL", queue, &id]), Value::Int(1));
            }
            7 => {
                offer(&mut client, &[queue, "1h", &payload, "NAME", &payload]);
                assert_eq!(call(&mut other, &["DQ.CANCEL", queue, &payload]), Value::Int(1));
            }
            _ => ledger.promise(queue, &payload, &offer(&mut client, &[queue, &delay, &payload])),
        }
    }
}

/// One after the other becomes the other version, there and back, under load.
#[test]
fn brokers_are_replaced_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.toml");
    std::fs::write(&file, SETTINGS).unwrap();
    let redis = Redis::spawn(&[]);
    let mut ledger = Ledger::new(&redis, &QUEUES);
    let start = |version: Version| version.start_with_file(&redis.url(0), file.to_str().unwrap());
    let mut brokers = [start(Earlier), start(Earlier)];
    let replaced = [None, Some((0, This)), Some((1, This)), Some((0, Earlier)), Some((1, Earlier))];
    for (round, change) in (0..).zip(replaced) {
        if let Some((which, version)) = change {
            brokers[which].signal("TERM");
            assert!(brokers[which].wait(SOON).success(), "{}", brokers[which].log());
            brokers[which] = start(version);
        }
        let (one, two) = (&brokers[0], &brokers[1]);
        std::thread::scope(|scope| {
            let ledger = &ledger;
            scope.spawn(move || produce(one, two, ledger, 2 * round + 1));
            scope.spawn(move || produce(two, one, ledger, 2 * round + 2));
        });
    }
    ledger.settle(&mut redis.client(0));
}

/// Ids do not meet: each holds a number of its own.
#[test]
fn both_hold_node_numbers_of_their_own() {
    let redis = Redis::spawn(&[]);
    let brokers = [Earlier, This, Earlier, This].map(|version| version.start(&redis.url(0), &[]));
    let ids = brokers.iter().flat_map(|broker| {
        let mut client = broker.client();
        (0..20).map(move |_| offer(&mut client, &["q", "1h", "m"])).collect::<Vec<_>>()
    });
    let ids: Vec<String> = ids.collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 80);
    let node =
        |id: &String| u64::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap() >> 12 & 1023;
    assert_eq!(ids.iter().map(node).collect::<BTreeSet<_>>().len(), 4);
    let claims = call(&mut redis.client(0), &["KEYS", "delay_broker_node:*"]);
    assert_eq!(claims.elements().len(), 4);
}

/// What the one is offered the other delivers on time, though no scan helps it; and both keep a
/// queue's pause.
#[test]
fn each_is_woken_by_the_other() {
    for (one, two) in [(Earlier, This), (This, Earlier)] {
        let redis = Redis::spawn(&[]);
        let mut direct = redis.client(0);
        let told = one.start(&redis.url(0), &[NO_SCAN]);
        let heard = two.start(&redis.url(0), &[NO_SCAN]);
        let (mut client, mut other) = (told.client(), heard.client());
        offer(&mut client, &["q", "1h", "it is known"]);
        eventually("to both", || {
            let queues = say(&mut other, "DQ.QUEUES");
            (queues.elements()[1].elements().len() == 1).then_some(())
        });
        // First a wake-up while the other one sleeps for an hour, then one that is earlier.
        let later = offer(&mut client, &["q", "900", "later"]);
        let id = offer(&mut client, &["q", "600", "m"]);
        told.signal("STOP");
        take_due(&mut direct, "q", "m", due_of(&id));
        take_due(&mut direct, "q", "later", due_of(&later));
        told.signal("CONT");
        assert_eq!(say(&mut client, "DQ.PAUSE q").text(), "OK");
        offer(&mut other, &["q", "0", "through the other"]);
        offer(&mut client, &["q", "0", "through the one"]);
        eventually("it is well overdue", || {
            (info(&mut other, "q", "oldest_overdue_ms").int() > 300).then_some(())
        });
        assert_eq!(say(&mut direct, "EXISTS q"), Value::Int(0), "moved while paused");
        assert_eq!(say(&mut other, "DQ.RESUME q").text(), "OK");
        eventually("both are delivered", || {
            (say(&mut direct, "LLEN q") == Value::Int(2)).then_some(())
        });
    }
}
