//! Consumers, brokers, links and Redis that die: nothing is lost, and what was settled is never
//! handed out again.

use crate::server::Server;
use crate::stage::{SOON, Stage, call, eventually, offer, say, sorted};
use crate::support::broker::Broker;
use crate::support::proxy::{Break, Proxy};
use crate::support::random::Random;
use crate::support::redis;
use crate::support::resp::{Client, Value};
use crate::taking::{Taken, ack, dead, held, in_line, push, read, send, take, take_one};
use delay_broker::store::script::TAKE;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

const CONSUMERS: u64 = 8;
const PRODUCERS: u64 = 2;
/// As long as all goes wrong; then what is left is settled.
const STORM: Duration = Duration::from_secs(5);

/// What one consumer saw and was told.
enum Seen {
    HandedOut(Taken),
    /// The reply to an ack: 1, 0, or unknown.
    Acked(Taken, Option<i64>),
}

/// Two brokers, one of which is killed again and again, and consumers that settle, give back,
/// leave, or let leases run out. Deliveries are told apart by their numbers.
#[test]
fn every_message_is_settled_once_whoever_dies() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = u64::from(now.subsec_nanos());
    eprintln!("seed {seed}");
    let Stage { broker: steady, mut redis, url, .. } = Stage::new(&[]);
    let mut mortal = Broker::spawn(&url, &[]);
    let addresses = Mutex::new([steady.address(), mortal.address()]);
    let (over, drained) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut offered = HashSet::new();
    let mut seen = Vec::new();
    let connect = |random: &mut Random| {
        let address = addresses.lock().unwrap()[random.below(2) as usize].clone();
        Client::connect(address).ok()
    };
    std::thread::scope(|scope| {
        let (over, drained, connect) = (&over, &drained, &connect);
        let producing: Vec<_> = (0..PRODUCERS)
            .map(|who| {
                let mut random = Random::new(seed + 100 + who);
                scope.spawn(move || produce(who, &mut random, connect, over))
            })
            .collect();
        let consuming: Vec<_> = (0..CONSUMERS)
            .map(|who| {
                let mut random = Random::new(seed + who);
                scope.spawn(move || consume(&mut random, connect, over, drained))
            })
            .collect();
        let begun = Instant::now();
        let mut client = steady.client();
        while begun.elapsed() < STORM {
            let until = begun.elapsed() + Duration::from_millis(700);
            eventually("some time of consuming", || (begun.elapsed() > until).then_some(()));
            mortal.signal("KILL");
            mortal.wait(SOON);
            mortal = Broker::spawn(&url, &[]);
            addresses.lock().unwrap()[1] = mortal.address();
        }
        over.store(true, Ordering::SeqCst);
        for one in producing {
            offered.extend(one.join().unwrap());
        }
        eventually("nothing is left but the dead", || {
            let [leased, retry, dead, taken, _] = held(&mut redis);
            let pending = say(&mut client, "DQ.SIZE q").int() + say(&mut redis, "LLEN q").int();
            (leased + retry + pending == 0 && dead == taken).then_some(())
        });
        drained.store(true, Ordering::SeqCst);
        for one in consuming {
            seen.extend(one.join().unwrap());
        }
    });
    let mut settled: HashSet<String> =
        dead(&mut steady.client()).into_iter().map(|(payload, ..)| payload).collect();
    eprintln!("{} offered, {} seen, {} dead", offered.len(), seen.len(), settled.len());
    check(&seen, &mut settled);
    let lost: Vec<&String> = offered.iter().filter(|one| !settled.contains(*one)).collect();
    assert!(lost.is_empty(), "offered, and neither settled nor dead: {lost:?}");
    assert!(offered.len() > 100, "only {}", offered.len());
}

/// One id for each payload, each delivery in one hand, one ack that counts, and none handed out
/// behind it. Adds what may be settled.
fn check(seen: &[Seen], settled: &mut HashSet<String>) {
    let mut ids: HashMap<&str, &str> = HashMap::new();
    let (mut last, mut hands) = (HashMap::<&str, u64>::new(), HashSet::new());
    for one in seen {
        if let Seen::HandedOut(taken) = one {
            let id = ids.entry(&taken.payload).or_insert(&taken.id);
            assert_eq!(*id, taken.id, "{taken:?}: taken as another message before");
            assert!(hands.insert(&taken.receipt), "{taken:?}: in two hands");
            let last = last.entry(&taken.id).or_default();
            *last = taken.delivery().max(*last);
            let due = taken.payload.rsplit_once('-').unwrap().1.parse::<i64>().unwrap();
            assert!(taken.until - LEASE_MS > due, "{taken:?} came early");
        }
    }
    let mut acked = HashSet::new();
    for one in seen {
        if let Seen::Acked(taken, told) = one {
            if *told != Some(0) {
                settled.insert(taken.payload.clone());
            }
            if *told == Some(1) {
                assert!(acked.insert(&taken.id), "{taken:?}: settled twice");
                assert_eq!(taken.delivery(), last[&*taken.id], "{taken:?}: handed out after it");
            }
        }
    }
}

/// Offers until it is over; gives the payloads that were acknowledged: who, number, due time.
fn produce(
    who: u64,
    random: &mut Random,
    connect: &(impl Fn(&mut Random) -> Option<Client> + Sync),
    over: &AtomicBool,
) -> Vec<String> {
    let mut told = Vec::new();
    let mut client = None;
    for number in 0.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let Some(connected) = client.as_mut() else {
            client = connect(random);
            continue;
        };
        let due = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
            + random.below(300);
        let (payload, due) = (format!("{who}-{number}-{due}"), due.to_string());
        match connected.call(&["DQ.OFFER", "q", "AT", &due, &payload]) {
            Ok(Value::Bulk(_)) => told.push(payload),
            Ok(Value::Error(text)) => assert!(text.starts_with("UN"), "{text}"),
            Ok(other) => panic!("{other:?}"),
            Err(_) => client = None,
        }
        // No faster than what consumers that fail so often can take.
        let pause = Instant::now() + Duration::from_millis(8);
        eventually("the next one", || (Instant::now() >= pause).then_some(()));
    }
    told
}

const LEASE_MS: i64 = 250;

/// Takes, and does this or that with it, until all is settled; from `over` on it only settles.
fn consume(
    random: &mut Random,
    connect: &(impl Fn(&mut Random) -> Option<Client> + Sync),
    over: &AtomicBool,
    drained: &AtomicBool,
) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut client = None;
    while !drained.load(Ordering::SeqCst) {
        let Some(connected) = client.as_mut() else {
            client = connect(random);
            continue;
        };
        let count = (1 + random.below(4)).to_string();
        let lease = LEASE_MS.to_string();
        let words = ["DQ.TAKE", "q", "COUNT", &count, "LEASE", &lease, "BLOCK", "100"];
        if connected.send(&words).is_err()
            || (random.below(40) == 0 && !over.load(Ordering::SeqCst))
        {
            client = None;
            continue;
        }
        let taken = match connected.read() {
            Ok(Value::Error(text)) => {
                assert!(text.starts_with("UN"), "{text}");
                continue;
            }
            Ok(reply) => read(&reply),
            Err(_) => {
                client = None;
                continue;
            }
        };
        seen.extend(taken.iter().cloned().map(Seen::HandedOut));
        for one in taken {
            let Some(connected) = client.as_mut() else {
                break;
            };
            let what = if over.load(Ordering::SeqCst) { 0 } else { random.below(10) };
            let receipt = one.receipt.clone();
            match what {
                0..=5 => {
                    let told = match connected.call(&["DQ.ACK", "q", &receipt]) {
                        Ok(Value::Int(count)) => Some(count),
                        Ok(Value::Error(text)) => {
                            assert!(text.starts_with("UN"), "{text}");
                            None
                        }
                        Ok(other) => panic!("{other:?}"),
                        Err(_) => {
                            client = None;
                            None
                        }
                    };
                    seen.push(Seen::Acked(one, told));
                }
                6 | 7 => {
                    let mode = ["FAIL", "SILENT"][random.below(2) as usize];
                    let delay = random.below(150).to_string();
                    let words = ["DQ.NACK", "q", &receipt, mode, "DELAY", &delay];
                    if connected.call(&words).is_err() {
                        client = None;
                    }
                }
                8 => {}
                _ => client = None,
            }
        }
    }
    seen
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
