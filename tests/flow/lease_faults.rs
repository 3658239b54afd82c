//! Consumers, brokers, links and Redis that die: nothing is lost, and what was settled is never
//! handed out again.

use crate::server::Server;
use crate::stage::{SOON, Stage, call, eventually, offer, say, sorted};
use crate::support::broker::Broker;
use crate::support::proxy::{Break, Proxy};
use crate::support::redis;
use crate::support::resp::{Client, Value};
use crate::taking::{ack, held, in_line, push, read, send, take, take_one};
use delay_broker::store::script::TAKE;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Instant;

#[test]
fn a_broker_that_dies_between_take_and_ack() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    push(&mut stage.redis, &["m"]);
    let first = take_one(&mut stage.broker.client(), "q LEASE 500");
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    let mut client = other.client();
    let second = take_one(&mut client, "q BLOCK 0 LEASE 1h");
    assert_eq!((&second.id, second.attempt), (&first.id, 2));
    assert!(second.until - 3_600_001 >= first.until, "{second:?} before the end of {first:?}");
    assert_eq!(ack(&mut client, &first), 0);
    assert_eq!(ack(&mut client, &second), 1);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// They hear of an error, or go on to wait; all that is there when Redis is back is handed out.
#[test]
fn a_redis_that_restarts_under_takers() {
    let mut server = Server::start();
    let settings = [("redis.call_timeout_ms", "2000"), ("redis.settle_timeout_ms", "2000")];
    let broker = Broker::spawn(&server.url(), &settings);
    let mut client = broker.client();
    push(&mut server.client(), &["held"]);
    let taken = take_one(&mut client, "q LEASE 1h");
    let mut takers: Vec<Client> = (0..4).map(|_| broker.client()).collect();
    for taker in &mut takers {
        send(taker, "q BLOCK 0");
    }
    in_line(&mut client, 4);
    server.kill();
    server.start_again();
    eventually("Redis has read its files", || {
        let pushed = say(&mut server.client(), "RPUSH q 0 1 2 3");
        matches!(pushed, Value::Int(_)).then_some(())
    });
    let mut all = Vec::new();
    for taker in &mut takers {
        let reply = eventually("it is served", || match taker.read().unwrap() {
            Value::Error(text) => {
                assert!(text.starts_with("UN"), "{text}");
                send(taker, "q BLOCK 0");
                None
            }
            reply => Some(reply),
        });
        all.extend(read(&reply));
    }
    let payloads = all.iter().map(|one| one.payload.clone()).collect();
    assert_eq!(sorted(payloads), ["0", "1", "2", "3"]);
    all.push(taken);
    for one in &all {
        assert_eq!(ack(&mut client, one), 1, "{one:?}");
    }
    assert_eq!(held(&mut server.client()), [0; 5]);
}

/// What a take whose reply was lost has leased comes back at once, and uncounted; the taker that
/// asked for it gets it.
#[test]
fn a_link_that_breaks_around_a_take() {
    let shared = redis::shared();
    let proxy = Proxy::start(shared.address());
    let database = shared.fresh_database();
    let broker = Broker::spawn(&format!("redis://{}/{database}", proxy.address()), &[]);
    let mut redis = shared.client(database);
    let mut client = broker.client();
    for how in [Break::Reply, Break::HalfReply, Break::Request] {
        for words in ["q COUNT 5 LEASE 24h", "q COUNT 5 BLOCK 0 LEASE 24h"] {
            let broken = proxy.broken();
            push(&mut redis, &["a", "b", "c", "d", "e"]);
            proxy.break_next(&[TAKE.sha(), "q"], how);
            let mut all = Vec::new();
            let begun = Instant::now();
            while all.len() < 5 {
                assert!(begun.elapsed() < SOON, "{how:?} {words}: {all:?}");
                all.extend(take(&mut client, words));
            }
            assert_eq!(proxy.broken(), broken + 1, "{how:?} {words}");
            let payloads = all.iter().map(|one| one.payload.clone()).collect();
            assert_eq!(sorted(payloads), ["a", "b", "c", "d", "e"], "{how:?} {words}");
            for taken in &all {
                assert_eq!(taken.attempt, 1, "{how:?} {words}: {taken:?}");
                assert_eq!(ack(&mut client, taken), 1, "{how:?} {words}: {taken:?}");
            }
            assert_eq!(held(&mut redis), [0; 5], "{how:?} {words}");
        }
    }
}

/// Every few takes one loses its link, in turn before and behind Redis, while others settle. The
/// leases are so long that whatever is not given back at once is missed.
#[test]
fn links_that_break_again_and_again() {
    const MESSAGES: usize = 400;
    let shared = redis::shared();
    let proxy = Proxy::start(shared.address());
    let database = shared.fresh_database();
    let broker = Broker::spawn(&format!("redis://{}/{database}", proxy.address()), &[]);
    let mut redis = shared.client(database);
    let done: Mutex<HashSet<String>> = Mutex::default();
    proxy.break_every(TAKE.sha(), 7);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (broker, done) = (&broker, &done);
            scope.spawn(move || {
                let mut client = broker.client();
                let begun = Instant::now();
                while done.lock().unwrap().len() < MESSAGES {
                    assert!(begun.elapsed() < 2 * SOON, "{:?}", done.lock().unwrap().len());
                    send(&mut client, "q COUNT 3 BLOCK 100 LEASE 24h");
                    match client.read().unwrap() {
                        Value::Error(text) => assert!(text.starts_with("UN"), "{text}"),
                        reply => {
                            for taken in read(&reply) {
                                assert_eq!(taken.attempt, 1, "{taken:?}");
                                // Of an ack that another call's break took the link from, too.
                                assert_eq!(ack(&mut client, &taken), 1, "{taken:?}");
                                let payload = taken.payload.clone();
                                assert!(done.lock().unwrap().insert(payload), "{taken:?}");
                            }
                        }
                    }
                }
            });
        }
        for n in 0..MESSAGES {
            push(&mut redis, &[&n.to_string()]);
        }
    });
    assert!(proxy.broken() > 10, "{}", proxy.broken());
    assert_eq!(held(&mut redis), [0; 5]);
}

/// The receipt of a message that died fits until it is handed out again, at any broker.
#[test]
fn receipts_are_good_at_every_broker() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let (mut here, mut there) = (stage.broker.client(), other.client());
    offer(&mut here, &["q", "0", "m"]);
    let taken = take_one(&mut there, "q BLOCK 0");
    assert_eq!(call(&mut here, &["DQ.NACK", "q", &taken.receipt, "FATAL"]), Value::Int(1));
    assert_eq!(ack(&mut there, &taken), 1);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}
