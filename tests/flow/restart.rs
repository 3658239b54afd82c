//! Somebody dies: the broker, Redis, or Redis for a while. What was acknowledged is delivered
//! exactly once, what surely was not stored never comes, and no client waits for ever.

use crate::foreign;
use crate::server::{Server, Stopped};
use crate::stage::{
    NO_SCAN, SOON, Stage, call, delivered, eventually, get, list, offer, say, sorted, take_due,
    time_us,
};
use crate::support::broker::Broker;
use crate::support::random::Random;
use crate::support::resp::{Client, Value, encode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_broker_that_was_killed_is_followed_by_one_that_delivers_all_once() {
    let mut stage = Stage::new(&[]);
    let mut random = Random::new(29);
    let mut wanted = Vec::new();
    for round in 0..3 {
        let mut client = stage.broker.client();
        for n in 0..300 {
            let (queue, delay) = (format!("q{}", n % 3), random.below(1_200).to_string());
            let payload = format!("{round}-{n}");
            offer(&mut client, &[&queue, &delay, &payload]);
            wanted.push(payload);
        }
        // While messages are on their way.
        stage.replace_broker(&[]);
    }
    let come = |stage: &mut Stage| {
        (0..3).flat_map(|n| list(&mut stage.redis, &format!("q{n}"))).collect::<Vec<_>>()
    };
    eventually("all are delivered", || (come(&mut stage).len() >= wanted.len()).then_some(()));
    assert_eq!(sorted(come(&mut stage)), sorted(wanted));
}

#[test]
fn a_redis_that_was_killed_and_is_back_delivers_all_once() {
    let mut server = Server::start();
    let broker = Broker::spawn(
        &server.url(),
        &[("redis.call_timeout_ms", "2000"), ("redis.settle_timeout_ms", "2000"), NO_SCAN],
    );
    let mut client = broker.client();
    assert_eq!(get(&broker, "/readyz").0, 200);
    let (mut wanted, mut random) = (Vec::new(), Random::new(31));
    for n in 0..200 {
        let payload = format!("before-{n}");
        offer(&mut client, &["q", &random.below(3_000).to_string(), &payload]);
        wanted.push(payload);
    }
    server.kill();
    eventually("not ready without Redis", || (get(&broker, "/readyz").0 == 503).then_some(()));
    assert_eq!(get(&broker, "/healthz").0, 200, "the process is well");
    for command in ["DQ.OFFER q 1 away", "DQ.SIZE q", "DQ.CLEAR q", "DQ.PAUSE q"] {
        let begun = Instant::now();
        let reply = say(&mut client, command).text();
        assert!(reply.starts_with("UNAVAILABLE "), "{command}: {reply}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{command} took {:?}", begun.elapsed());
    }
    assert_eq!(say(&mut client, "PING"), Value::Simple("PONG".into()));
    server.start_again();
    eventually("ready again", || (get(&broker, "/readyz").0 == 200).then_some(()));
    for n in 0..50 {
        let payload = format!("after-{n}");
        offer(&mut client, &["q", &random.below(500).to_string(), &payload]);
        wanted.push(payload);
    }
    let mut redis = server.client();
    let came = delivered(&mut redis, "q", wanted.len());
    assert_eq!(sorted(came), sorted(wanted));
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
    wake_ups_are_heard(&server);
}

/// A stop does not wait for a Redis that is gone, and still answers what was read.
#[test]
fn a_broker_without_its_redis_stops_when_asked() {
    for stops in [false, true] {
        let mut server = Server::start();
        let settings = [("redis.call_timeout_ms", "500"), ("redis.settle_timeout_ms", "500")];
        let mut broker = Broker::spawn(&server.url(), &settings);
        let mut client = broker.client();
        offer(&mut client, &["q", "1h", "m"]);
        offer(&mut client, &["q", "1", "due while it is away"]);
        let stopped = stops.then(|| Stopped::new(server.pid()));
        if !stops {
            server.kill();
        }
        client.send_bytes(&encode(&["DQ.OFFER", "q", "1", "m"]).repeat(100)).unwrap();
        client.send(&["DQ.SIZE", "q"]).unwrap();
        // What came before the signal is read before it.
        assert_eq!(say(&mut broker.client(), "PING"), Value::Simple("PONG".into()));
        broker.signal("TERM");
        for n in 0..101 {
            let text = client.read().unwrap().text();
            let honest = text.starts_with("UNAVAILABLE ") || text.starts_with("UNCERTAIN ");
            assert!(honest, "{n}: {text}");
        }
        assert_eq!(client.read_to_end().unwrap(), b"");
        assert!(broker.wait(SOON).success());
        drop(stopped);
    }
}

/// Publications of others are heard: nothing else could make the broker look in time.
fn wake_ups_are_heard(server: &Server) {
    let mut redis = server.client();
    eventually("subscribed", || (say(&mut redis, "PUBSUB NUMPAT").int() > 0).then_some(()));
    let due = time_us(&mut redis) / 1_000 + 200;
    foreign::offer(&mut redis, "theirs", &due.to_string(), [7; 8], "heard");
    take_due(&mut redis, "theirs", "heard", due);
}

/// What one client was told of each of its offers.
#[derive(Default)]
struct Told {
    stored: Vec<String>,
    uncertain: Vec<String>,
    refused: Vec<String>,
}

fn offer_until(done: &AtomicBool, mut client: Client, who: usize) -> Told {
    let mut told = Told::default();
    client.read_within(SOON).unwrap();
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            break;
        }
        let payload = format!("{who}-{n}");
        let reply = call(&mut client, &["DQ.OFFER", "q", "200", &payload]);
        let text = reply.text();
        match reply {
            Value::Bulk(_) => told.stored.push(payload),
            Value::Error(_) if text.starts_with("UNCERTAIN ") => told.uncertain.push(payload),
            Value::Error(_) if text.starts_with("UNAVAILABLE ") => told.refused.push(payload),
            other => panic!("{payload}: {other:?}"),
        }
    }
    told
}

/// With long timeouts a stop is only waited for; with short ones calls are given up and settled.
#[test]
fn a_redis_that_stops_for_a_while_loses_and_doubles_nothing() {
    for timeout in ["3000", "200"] {
        let server = Server::start();
        let broker = Broker::spawn(
            &server.url(),
            &[
                ("redis.call_timeout_ms", timeout),
                ("redis.settle_timeout_ms", timeout),
                ("redis.connect_timeout_ms", timeout),
                NO_SCAN,
            ],
        );
        let done = AtomicBool::new(false);
        let told: Vec<Told> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|who| {
                    let client = broker.client();
                    scope.spawn({
                        let done = &done;
                        move || offer_until(done, client, who)
                    })
                })
                .collect();
            let mut client = broker.client();
            let flow = |client: &mut Client| {
                eventually("offers are stored", || {
                    let reply = call(client, &["DQ.OFFER", "other", "1h", "m"]);
                    matches!(reply, Value::Bulk(_)).then_some(())
                });
            };
            (0..40).for_each(|_| flow(&mut client));
            let stopped = Stopped::new(server.pid());
            // The stop itself is what is tested: it lasts so long, whatever happens meanwhile.
            let until = Instant::now() + Duration::from_millis(1_500);
            eventually("the stop is over", || (Instant::now() > until).then_some(()));
            drop(stopped);
            flow(&mut client);
            done.store(true, Ordering::SeqCst);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let all = |pick: fn(&Told) -> &Vec<String>| -> Vec<String> {
            told.iter().flat_map(|told| pick(told).clone()).collect()
        };
        let (stored, uncertain) = (all(|told| &told.stored), all(|told| &told.uncertain));
        let refused = all(|told| &told.refused);
        eprintln!("{timeout}: {} {} {}", stored.len(), uncertain.len(), refused.len());
        let (mut redis, mut client) = (server.client(), broker.client());
        eventually("all are delivered", || {
            (say(&mut client, "DQ.SIZE q") == Value::Int(0)).then_some(())
        });
        let mut came = sorted(list(&mut redis, "q"));
        let count = came.len();
        came.dedup();
        assert_eq!(count, came.len(), "something was delivered twice");
        let missing: Vec<_> =
            stored.iter().filter(|payload| came.binary_search(payload).is_err()).collect();
        assert!(missing.is_empty(), "acknowledged and never delivered: {missing:?}");
        let wrong: Vec<_> =
            refused.iter().filter(|payload| came.binary_search(payload).is_ok()).collect();
        assert!(wrong.is_empty(), "UNAVAILABLE and delivered: {wrong:?}");
        assert!(came.len() <= stored.len() + uncertain.len());
        match timeout {
            "3000" => assert_eq!((uncertain.len(), refused.len()), (0, 0), "it was back in time"),
            _ => assert!(!uncertain.is_empty() || !refused.is_empty(), "nothing was given up"),
        }
        wake_ups_are_heard(&server);
    }
}
