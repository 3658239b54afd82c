//! `RBlockingQueue.take` and `DQ.TAKE` on one list: each message goes to one of them. And what
//! Redisson's methods see and do while messages are leased or wait for a retry: nothing.

use crate::handover::{each_once, offer_many};
use crate::jvm::Jvm;
use crate::scene::{Scene, ask, done, now_ms, spread};
use crate::stage::{call, delivered, eventually, field_of, info, list, offer, say};
use crate::support::resp::{Client, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const VERSIONS: [&str; 2] = ["4.7.0", "3.21.0"];
const BY_REDISSON: usize = 15_000;
const BY_THE_BROKER: usize = 5_000;
const LONGEST_MS: u64 = 5_000;
/// Of each kind.
const CONSUMERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(90);
const OF_CONSUMERS: [&str; 5] = ["leased", "retry", "dead", "taken", "tries"];

pub fn both(_: &'static str) -> String {
    VERSIONS.map(beside).join("; ")
}

fn beside(version: &'static str) -> String {
    let mut scene = Scene::new(version, &["q"]);
    let jvm = scene.warm_jvm();
    let over = AtomicBool::new(false);
    let replies: Vec<Value> = thread::scope(|scope| {
        let redissons = [&jvm; CONSUMERS].map(|jvm| {
            scope.spawn(move || {
                let mut client = Jvm::client(jvm);
                client.read_within(PATIENCE).unwrap();
                ask(&mut client, &["TAKEUNTIL", "q", "end"])
            })
        });
        let takers = [&scene; CONSUMERS].map(|scene| scope.spawn(|| take_all(scene, &over)));
        let offering = scope.spawn(|| {
            let command = ["OFFERMANY", "q", "15000", "redisson", "0", "5000"];
            ask(&mut jvm.client(), &command)
        });
        offer_many(&scene, BY_THE_BROKER, LONGEST_MS);
        offering.join().unwrap();
        let mut broker = scene.broker();
        eventually("nothing is left", || {
            let fields = ["pending", "ready", "leased", "waiting"];
            let left = fields.map(|field| info(&mut broker, "q", field));
            (left == [0; 4].map(Value::Int)).then_some(())
        });
        over.store(true, Ordering::Relaxed);
        let lent = takers.map(|one| one.join().unwrap());
        let acked: usize = lent.iter().map(|one| one.elements().len() / 2).sum();
        assert_eq!(info(&mut broker, "q", "acked"), Value::Int(acked as i64));
        let ends = [&["RPUSH", "q"][..], &["end"; CONSUMERS]].concat();
        call(&mut scene.client(), &ends);
        let taken = redissons.map(|one| one.join().unwrap());
        lent.into_iter().chain(taken).collect()
    });
    let late = each_once(&replies, &[("redisson", BY_REDISSON), ("broker", BY_THE_BROKER)]);
    assert_eq!(late.iter().find(|late| **late < 0.0), None, "early");
    for key in OF_CONSUMERS {
        let key = format!("delay_broker_{key}:{{q}}");
        assert_eq!(call(&mut scene.redis, &["EXISTS", &key]), Value::Int(0), "{key}");
    }
    let by_takers: usize = replies[..CONSUMERS].iter().map(|one| one.elements().len() / 2).sum();
    assert!((1..BY_REDISSON + BY_THE_BROKER).contains(&by_takers), "{by_takers} by takers");
    format!("{version}: {by_takers} by DQ.TAKE, {}", spread(late))
}

/// Takes and acknowledges until it is over; payloads and times in turn, as TAKEUNTIL answers.
fn take_all(scene: &Scene, over: &AtomicBool) -> Value {
    let mut broker = scene.broker();
    let mut all = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let taken = say(&mut broker, "DQ.TAKE q COUNT 10 BLOCK 100ms");
        let Value::Array(messages) = taken else {
            assert_eq!(taken, Value::Null);
            continue;
        };
        let mut ack = vec!["DQ.ACK".to_owned(), "q".to_owned()];
        for message in &messages {
            assert_eq!(field_of(message, "attempt"), Some(Value::Int(1)));
            ack.push(field_of(message, "receipt").unwrap().text());
            all.extend([field_of(message, "payload").unwrap(), Value::Int(now_ms())]);
        }
        assert_eq!(broker.call(&ack).unwrap(), Value::Int(messages.len() as i64));
    }
    Value::Array(all)
}

/// Takes one that must be this one, at this attempt; answers its receipt.
fn lent(broker: &mut Client, queue: &str, payload: &str, attempt: i64) -> String {
    let taken = call(broker, &["DQ.TAKE", queue, "BLOCK", "10s", "LEASE", "1h"]);
    let field = |name| field_of(&taken.elements()[0], name).unwrap();
    assert_eq!((field("payload").text(), field("attempt").int()), (payload.to_owned(), attempt));
    field("receipt").text()
}

/// A queue with one message leased, one that waits for a retry, one in the list and one pending;
/// the receipt of the first. Each payload says where its message is.
fn in_all_places(scene: &mut Scene, queue: &str) -> String {
    let mut broker = scene.broker();
    let [leased, waiting] = ["leased", "waiting"].map(|payload| {
        offer(&mut broker, &[queue, "0", payload]);
        lent(&mut broker, queue, payload, 1)
    });
    let nack = ["DQ.NACK", queue, &waiting, "DELAY", "500ms"];
    assert_eq!(call(&mut broker, &nack), Value::Int(1));
    offer(&mut broker, &[queue, "0", "ready"]);
    delivered(&mut scene.redis, queue, 1);
    offer(&mut broker, &[queue, "1h", "pending"]);
    leased
}

/// The consumers' messages are as they were: one is acknowledged, the other comes again.
fn consumers_go_on(scene: &Scene, queue: &str, leased: &str) {
    let mut broker = scene.broker();
    assert_eq!(call(&mut broker, &["DQ.ACK", queue, leased]), Value::Int(1));
    let again = lent(&mut broker, queue, "waiting", 2);
    assert_eq!(call(&mut broker, &["DQ.ACK", queue, &again]), Value::Int(1));
    assert_eq!(info(&mut broker, queue, "leased"), Value::Int(0));
}

pub fn methods(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    let jvm = scene.warm_jvm();
    let (mut redisson, mut broker) = (jvm.client(), scene.broker());

    // Methods of the list see what is ready, and nothing else.
    let leased = in_all_places(&mut scene, "list");
    for payload in ["leased", "waiting", "pending"] {
        assert_eq!(say(&mut redisson, &format!("LISTREMOVE list {payload}")), Value::Int(0));
    }
    assert_eq!(say(&mut redisson, "LISTREADALL list").texts(), ["ready"]);
    assert_eq!(say(&mut redisson, "LISTREMOVE list ready"), Value::Int(1));
    call(&mut scene.redis, &["RPUSH", "list", "another"]);
    assert_eq!(say(&mut redisson, "LISTPOLL list").text(), "another");
    assert_eq!(say(&mut redisson, "LISTPOLL list"), Value::Null);
    consumers_go_on(&scene, "list", &leased);
    // So do those of the delayed queue for what is pending.
    let leased = in_all_places(&mut scene, "delayed");
    assert_eq!(say(&mut redisson, "READALL delayed").texts(), ["pending"]);
    assert_eq!(say(&mut redisson, "REMOVE delayed leased"), Value::Int(0));
    assert_eq!(say(&mut redisson, "POLL delayed").text(), "pending");
    assert_eq!(say(&mut redisson, "POLL delayed"), Value::Null);
    done(&mut redisson, "LISTCLEAR delayed");
    consumers_go_on(&scene, "delayed", &leased);

    // It deletes what is pending, and it alone.
    let leased = in_all_places(&mut scene, "deleted");
    assert_eq!(say(&mut redisson, "DELETE deleted"), Value::Int(1));
    assert_eq!(info(&mut broker, "deleted", "pending"), Value::Int(0));
    assert_eq!(list(&mut scene.redis, "deleted"), ["ready"]);
    done(&mut redisson, "LISTCLEAR deleted");
    consumers_go_on(&scene, "deleted", &leased);

    // So does the end of an expiry.
    let leased = in_all_places(&mut scene, "expired");
    assert_eq!(say(&mut redisson, "EXPIRE expired 100"), Value::Int(1));
    eventually("what is pending vanishes", || {
        (info(&mut broker, "expired", "pending") == Value::Int(0)).then_some(())
    });
    assert_eq!(list(&mut scene.redis, "expired"), ["ready"]);
    done(&mut redisson, "LISTCLEAR expired");
    consumers_go_on(&scene, "expired", &leased);

    // It is the list that gets another name.
    let leased = in_all_places(&mut scene, "renamed");
    done(&mut redisson, "RENAME renamed other");
    assert_eq!(list(&mut scene.redis, "other"), ["ready"]);
    assert_eq!(info(&mut broker, "renamed", "pending"), Value::Int(1));
    consumers_go_on(&scene, "renamed", &leased);
    "leases and retries go on".to_owned()
}

/// Redisson offers to a queue that takers alone consume, whoever delivers; its methods do not know
/// messages that carry more than a payload.
pub fn takers_alone(version: &'static str) -> String {
    let scene = Scene::new(version, &[]);
    let jvm = scene.warm_jvm();
    let (mut redisson, mut broker) = (jvm.client(), scene.broker());
    done(&mut broker, "DQ.SETUP alone destination take");
    for number in 0..20 {
        let payload = format!("from Redisson {number}");
        assert_eq!(call(&mut redisson, &["OFFER", "alone", "20", &payload]).text(), "OK");
        let receipt = lent(&mut broker, "alone", &payload, 1);
        assert_eq!(call(&mut broker, &["DQ.ACK", "alone", &receipt]), Value::Int(1));
    }

    offer(&mut broker, &["alone", "1h", "plain"]);
    offer(&mut broker, &["alone", "1h", "carried", "HEADER", "k", "v"]);
    assert_eq!(say(&mut redisson, "SIZE alone"), Value::Int(2));
    assert_eq!(say(&mut redisson, "REMOVE alone carried"), Value::Int(0));
    assert_eq!(say(&mut redisson, "REMOVE alone plain"), Value::Int(1));
    assert_eq!(say(&mut broker, "DQ.REMOVE alone carried"), Value::Int(1));

    // Delivered by Redisson's own transfer it has its headers all the same.
    for number in 0..20 {
        let payload = number.to_string();
        offer(&mut broker, &["alone", "20", &payload, "HEADER", "number", &payload]);
        let taken = call(&mut broker, &["DQ.TAKE", "alone", "BLOCK", "10s"]);
        let field = |name| field_of(&taken.elements()[0], name).unwrap();
        assert_eq!((field("payload").text(), field("attempt")), (payload.clone(), Value::Int(1)));
        assert_eq!(field("headers").texts(), ["number".to_owned(), payload]);
        let receipt = field("receipt").text();
        assert_eq!(call(&mut broker, &["DQ.ACK", "alone", &receipt]), Value::Int(1));
    }
    "offers of both are taken".to_owned()
}
