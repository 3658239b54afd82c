//! Those who wait in DQ.TAKE: who wakes them, who gets what, and what becomes of it when they
//! leave.

use crate::stage::{
    NO_SCAN, ON_TIME, SOON, Stage, call, due_of, eventually, info, offer, say, sorted, time_us,
};
use crate::support::broker::Broker;
use crate::support::proxy::Proxy;
use crate::support::random::Random;
use crate::support::redis;
use crate::support::resp::{Client, Value, encode};
use crate::support::wait::all_the_time;
use crate::taking::{
    Taken, ack, came, held, in_line, push, push_to, read, send, take, take_one, waits,
};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What wakes a taker.
struct Wakes {
    what: &'static str,
    /// The lease of a message that is taken before the taker waits.
    lease: Option<&'static str>,
    /// Words to the broker, about that message, before the taker waits.
    before: &'static str,
    /// And then: words to the broker; none: a payload is pushed by hand.
    then: &'static str,
    /// From then until it may come, ms.
    ms: u64,
}

const WAKES: [Wakes; 12] = [
    Wakes { what: "it is due", lease: None, before: "", then: "DQ.OFFER q 150 m", ms: 150 },
    Wakes { what: "due at once", lease: None, before: "", then: "DQ.OFFER q 0 m", ms: 0 },
    Wakes { what: "pushed by hand", lease: None, before: "", then: "", ms: 0 },
    Wakes { what: "given back", lease: Some("1h"), before: "", then: "DQ.NACK q $ DELAY 0", ms: 0 },
    Wakes {
        what: "given back for later",
        lease: Some("1h"),
        before: "",
        then: "DQ.NACK q $ DELAY 200",
        ms: 200,
    },
    Wakes {
        what: "the time of a retry",
        lease: Some("1h"),
        before: "DQ.NACK q $ DELAY 400",
        then: "PING",
        ms: 0,
    },
    Wakes {
        what: "fired",
        lease: Some("1h"),
        before: "DQ.NACK q $ DELAY 1h",
        then: "DQ.FIRE q 0-%",
        ms: 0,
    },
    Wakes {
        what: "another time of a retry",
        lease: Some("1h"),
        before: "DQ.NACK q $ DELAY 1h",
        then: "DQ.RESCHEDULE q 0-% 200",
        ms: 200,
    },
    Wakes {
        what: "back in the list",
        lease: Some("1h"),
        before: "DQ.NACK q $ DELAY 1h",
        then: "DQ.TAKEN q RELEASE",
        ms: 0,
    },
    Wakes { what: "the end of a lease", lease: Some("400"), before: "", then: "PING", ms: 0 },
    Wakes {
        what: "the end of a pause",
        lease: Some("100"),
        before: "DQ.PAUSE q",
        then: "DQ.RESUME q",
        ms: 0,
    },
    Wakes {
        what: "brought back from the dead",
        lease: Some("1h"),
        before: "DQ.NACK q $ FATAL",
        then: "DQ.DEAD q REQUEUE DELAY 100",
        ms: 100,
    },
];

/// How late a taker at one broker is woken by what a client of another one does.
fn late(taker: &Broker, actor: &mut Client, redis: &mut Client, wakes: &Wakes) -> Duration {
    let what = wakes.what;
    let now = |redis: &mut Client| time_us(redis) / 1_000;
    let (mut receipt, mut earliest) = (String::new(), 0);
    if let Some(lease) = wakes.lease {
        push(redis, &["m"]);
        let taken = take_one(actor, &format!("q LEASE {lease}"));
        if lease != "1h" {
            earliest = taken.until as u64;
        }
        receipt = taken.receipt;
    }
    let mut says = |words: &str| {
        let id = receipt.split(':').next().unwrap();
        let reply = say(actor, &words.replace('$', &receipt).replace('%', id));
        assert!(!matches!(reply, Value::Error(_) | Value::Int(0)), "{what}: {reply:?}");
        reply
    };
    if !wakes.before.is_empty() {
        if wakes.before.ends_with("400") {
            earliest = now(redis) + 400;
        }
        says(wakes.before);
    }
    let mut waiting = waits(taker, "q BLOCK 0");
    let begun = now(redis);
    match wakes.then {
        "" => push(redis, &["m"]),
        "PING" => {}
        words => match says(words) {
            Value::Bulk(id) if !id.starts_with(b"0-") => {
                earliest = due_of(&String::from_utf8(id).unwrap());
            }
            _ => earliest = earliest.max(begun + wakes.ms),
        },
    }
    let taken = read(&waiting.read().unwrap());
    let at = now(redis);
    assert!(at >= earliest, "{what}: {at} is before {earliest}");
    assert_eq!(taken.len(), 1, "{what}: {taken:?}");
    assert_eq!(ack(&mut waiting, &taken[0]), 1, "{what}");
    let late = Duration::from_millis(at - earliest.max(begun));
    assert!(late < ON_TIME, "{what}: late by {late:?}");
    late
}

/// By what is done at its own broker, and at another one, which tells it nothing.
#[test]
fn whatever_can_be_had_wakes_a_taker() {
    let Stage { broker, mut redis, url, .. } = Stage::new(&[NO_SCAN]);
    let other = Broker::spawn(&url, &[NO_SCAN]);
    let mut actor = broker.client();
    for (place, taker) in [("here", &broker), ("elsewhere", &other)] {
        for wakes in &WAKES {
            // A machine that is busy with other things may be late, but not each time.
            let times = (0..3).map(|_| late(taker, &mut actor, &mut redis, wakes));
            let best = times.min().unwrap();
            eprintln!("{}, {place}: {best:?}", wakes.what);
            assert!(best < Duration::from_secs(1), "{}, {place}: {best:?}", wakes.what);
        }
    }
    assert_eq!(held(&mut redis), [0; 5]);
}

#[test]
fn messages_are_dealt_like_cards() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut takers: Vec<Client> = (0..10).map(|_| stage.broker.client()).collect();
    for taker in &mut takers {
        send(taker, "q COUNT 10 BLOCK 0");
    }
    in_line(&mut client, 10);
    let payloads: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    push(&mut stage.redis, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
    let mut all = Vec::new();
    for taker in &mut takers {
        let mine = came(taker);
        assert_eq!(mine.len(), 10, "{mine:?}");
        all.extend(mine);
    }
    assert_eq!(sorted(all), sorted(payloads));
    // Whoever wants more than a share gets no more while others wait.
    for taker in &mut takers[..3] {
        send(taker, "q COUNT 300 BLOCK 0");
    }
    in_line(&mut client, 3);
    push(&mut stage.redis, &["a", "b", "c", "d"]);
    let shares: Vec<usize> = takers[..3].iter_mut().map(|taker| came(taker).len()).collect();
    assert_eq!(shares, [2, 1, 1]);
}

#[test]
fn who_waits_longest_is_first() {
    let mut stage = Stage::new(&[]);
    let mut takers: Vec<Client> = (0..5).map(|_| waits(&stage.broker, "q BLOCK 0")).collect();
    push(&mut stage.redis, &["0", "1", "2", "3", "4"]);
    for (n, taker) in takers.iter_mut().enumerate() {
        assert_eq!(came(taker), [n.to_string()]);
    }
    // One by one, and one of them leaves meanwhile.
    let mut client = stage.broker.client();
    let mut takers: Vec<Client> = (0..5).map(|_| waits(&stage.broker, "q BLOCK 0")).collect();
    drop(takers.remove(2));
    in_line(&mut client, 4);
    for (n, taker) in takers.iter_mut().enumerate() {
        push(&mut stage.redis, &[&n.to_string()]);
        let taken = read(&taker.read().unwrap());
        assert_eq!((taken[0].payload.clone(), taken[0].attempt), (n.to_string(), 1));
    }
    in_line(&mut client, 0);
}

/// Another lease is another call: nobody is passed over for ever.
#[test]
fn takers_with_different_leases() {
    let mut stage = Stage::new(&[]);
    let words = |n: usize| format!("q BLOCK 0 LEASE {}", 1_000_000 + n % 3);
    let mut takers: Vec<Client> = (0..9).map(|n| waits(&stage.broker, &words(n))).collect();
    for n in 0..9 {
        push(&mut stage.redis, &[&n.to_string()]);
    }
    let all: Vec<String> = takers.iter_mut().flat_map(came).collect();
    assert_eq!(sorted(all), (0..9).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn several_queues() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let words = "b COUNT 2 BLOCK 0 ALSO q";
    push_to(&mut stage.redis, "b", &["b1"]);
    push(&mut stage.redis, &["q1"]);
    // The left one first, and of one queue at a time.
    for payload in ["b1", "q1"] {
        assert_eq!(take_one(&mut client, words).payload, payload);
    }
    for queue in ["b", "q", "q", "b"] {
        let mut waiting = waits(&stage.broker, words);
        // While one of the queues is asked it stands in no line.
        eventually("it waits at both", || {
            (info(&mut client, "b", "takers") == Value::Int(1)).then_some(())
        });
        push_to(&mut stage.redis, queue, &[queue]);
        assert_eq!(came(&mut waiting), [queue]);
    }
    // Both at once: never more than COUNT, and the rest is for the next.
    for round in 0..20 {
        let mut waiting = waits(&stage.broker, "b BLOCK 0 LEASE 1h ALSO q q");
        let both = "redis.call('RPUSH', KEYS[1], 'm'); redis.call('RPUSH', KEYS[2], 'm')";
        call(&mut stage.redis, &["EVAL", both, "2", "b", "q"]);
        let one = read(&waiting.read().unwrap());
        let other = take(&mut client, "b BLOCK 0 LEASE 1h ALSO q");
        assert_eq!((one.len(), other.len()), (1, 1), "round {round}");
        assert_eq!((one[0].attempt, other[0].attempt), (1, 1), "round {round}");
    }
}

#[test]
fn nobody_waits_longer_than_asked_or_than_the_broker_lives() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let begun = Instant::now();
    assert_eq!(take(&mut client, "q BLOCK 200"), []);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(take(&mut client, "q BLOCK 100 ALSO a b c"), []);
    in_line(&mut client, 0);
    let mut waiting: Vec<Client> = ["q BLOCK 0", "q BLOCK 1h COUNT 5", "a BLOCK 0 ALSO q"]
        .map(|words| waits(&stage.broker, words))
        .into();
    for taker in &mut waiting {
        taker.send_bytes(b"PING\r\n").unwrap();
    }
    stage.broker.signal("TERM");
    for mut taker in waiting {
        assert_eq!(taker.read().unwrap(), Value::Null);
        // What is behind it may be answered, too; then the connection ends.
        let rest = taker.read_to_end().unwrap();
        assert!(rest.is_empty() || rest == b"+PONG\r\n", "{}", rest.escape_ascii());
    }
    assert!(stage.broker.wait(SOON).success());
    push(&mut stage.redis, &["m"]);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// Until the broker knows of so many clients.
fn clients(client: &mut Client, count: usize) {
    eventually(&format!("{count} clients"), || {
        let list = say(client, "CLIENT LIST").text();
        (list.lines().filter(|line| line.contains("addr=")).count() == count).then_some(())
    });
}

/// Takers that leave while Redis hands something out to them: it comes back at once and uncounted,
/// long before the lease ends.
#[test]
fn what_nobody_is_left_for_comes_back_at_once() {
    let shared = redis::shared();
    let database = shared.fresh_database();
    let proxy = Proxy::start(shared.address());
    let url = format!("redis://{}/{database}", proxy.address());
    let settings = [("redis.call_timeout_ms", "20000"), NO_SCAN];
    let broker = Broker::spawn(&url, &settings);
    let mut redis = shared.client(database);
    let mut client = broker.client();
    for round in 0..5 {
        assert_eq!(take(&mut client, "q"), []);
        clients(&mut client, 1);
        proxy.hold_all();
        let mut leaves: Vec<Client> = (0..3).map(|_| broker.client()).collect();
        for one in &mut leaves {
            send(one, "q COUNT 2 BLOCK 0 LEASE 24h");
        }
        clients(&mut client, 4);
        push(&mut redis, &["a", "b", "c", "d"]);
        drop(leaves);
        // Once it is known that they are gone, nothing may be written to them.
        clients(&mut client, 1);
        let mut stays = broker.client();
        send(&mut stays, "q COUNT 9 BLOCK 0 LEASE 24h");
        proxy.release();
        let (mut all, mut receipts) = (Vec::new(), Vec::new());
        while all.len() < 4 {
            if !all.is_empty() {
                send(&mut stays, "q COUNT 9 BLOCK 0 LEASE 24h");
            }
            for taken in read(&stays.read().unwrap()) {
                assert_eq!(taken.attempt, 1, "round {round}: {taken:?}");
                all.push(taken.payload.clone());
                receipts.push(taken);
            }
        }
        assert_eq!(sorted(all), ["a", "b", "c", "d"], "round {round}");
        for taken in &receipts {
            assert_eq!(ack(&mut stays, taken), 1, "round {round}: {taken:?}");
        }
        drop(stays);
        assert_eq!(held(&mut redis), [0; 5], "round {round}");
    }
}

/// Clients that leave at any moment. What was on its way into a socket that nobody reads comes
/// again when its lease ends; nothing is lost, and nothing is handed out beside a lease.
#[test]
fn takers_that_leave_at_any_moment() {
    const MESSAGES: usize = 300;
    let Stage { broker, mut redis, .. } = Stage::new(&[]);
    let seen: Mutex<HashMap<String, Vec<Taken>>> = Mutex::default();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for who in 0..4 {
            let (broker, seen, done) = (&broker, &seen, &done);
            scope.spawn(move || {
                let mut random = Random::new(41 + who);
                while done.load(Ordering::SeqCst) < MESSAGES {
                    let mut client = broker.client();
                    send(&mut client, "q COUNT 3 BLOCK 200 LEASE 300");
                    if random.below(3) > 0 {
                        // At any moment: after as many turns of another connection as it says.
                        let mut other = broker.client();
                        (0..random.below(12)).for_each(|_| drop(say(&mut other, "PING")));
                        continue;
                    }
                    for taken in read(&client.read().unwrap()) {
                        let acked = ack(&mut client, &taken);
                        let mut seen = seen.lock().unwrap();
                        seen.entry(taken.payload.clone()).or_default().push(taken);
                        done.fetch_add(acked as usize, Ordering::SeqCst);
                    }
                }
            });
        }
        for n in 0..MESSAGES {
            push(&mut redis, &[&n.to_string()]);
        }
    });
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), MESSAGES);
    for (payload, times) in seen {
        let ids: Vec<&str> = times.iter().map(|one| one.id.as_str()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{payload}: {times:?}");
    }
    assert_eq!(held(&mut redis), [0; 5]);
}

/// Consumers of both kinds on one list: each payload goes to one of them, and to one only.
#[test]
fn beside_blpop() {
    const MESSAGES: usize = 5_000;
    let Stage { broker, mut redis, url, .. } = Stage::new(&[]);
    let database: u32 = url.rsplit_once('/').unwrap().1.parse().unwrap();
    let (got, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all: Vec<(bool, String)> = std::thread::scope(|scope| {
        let popping: Vec<_> = (0..3)
            .map(|_| {
                let (mut client, over, got) = (redis::shared().client(database), &over, &got);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let popped = say(&mut client, "BLPOP q 0.1");
                        mine.extend(popped.elements().get(1).map(|one| (false, one.text())));
                        got.fetch_add(popped.elements().len() / 2, Ordering::SeqCst);
                    }
                    mine
                })
            })
            .collect();
        let taking: Vec<_> = (0..3)
            .map(|_| {
                let (mut client, over, got) = (broker.client(), &over, &got);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let taken = take(&mut client, "q COUNT 50 BLOCK 100 LEASE 1h");
                        let mut words = vec!["DQ.ACK", "q"];
                        words.extend(taken.iter().map(|one| one.receipt.as_str()));
                        if !taken.is_empty() {
                            let acked = call(&mut client, &words);
                            assert_eq!(acked, Value::Int(taken.len() as i64));
                        }
                        got.fetch_add(taken.len(), Ordering::SeqCst);
                        mine.extend(taken.into_iter().map(|one| (true, one.payload)));
                    }
                    mine
                })
            })
            .collect();
        for from in (0..MESSAGES).step_by(100) {
            let some: Vec<String> = (from..from + 100).map(|n| n.to_string()).collect();
            push(&mut redis, &some.iter().map(String::as_str).collect::<Vec<_>>());
        }
        eventually("all are handed out", || (got.load(Ordering::SeqCst) >= MESSAGES).then_some(()));
        over.store(true, Ordering::SeqCst);
        popping.into_iter().chain(taking).flat_map(|one| one.join().unwrap()).collect()
    });
    let taken = all.iter().filter(|(taken, _)| *taken).count();
    eprintln!("{taken} of {MESSAGES} were taken, the others popped");
    let mut numbers: Vec<usize> = all.iter().map(|(_, payload)| payload.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..MESSAGES), "each exactly once");
    assert_eq!(held(&mut redis), [0; 5]);
}

/// Takers at one broker, offers and settles at the other.
#[test]
fn takers_at_one_broker_and_offers_at_the_other() {
    let Stage { broker, mut redis, url, .. } = Stage::new(&[NO_SCAN]);
    let other = Broker::spawn(&url, &[NO_SCAN]);
    let (mut offering, mut settling) = (other.client(), other.client());
    let mut takers: Vec<Client> = (0..4).map(|_| waits(&broker, "q BLOCK 0 COUNT 2")).collect();
    let mut waited = Vec::new();
    let mut all = Vec::new();
    for n in 0..40 {
        let taker = &mut takers[n % 4];
        offer(&mut offering, &["q", "0", &n.to_string()]);
        let begun = Instant::now();
        let taken = read(&taker.read().unwrap());
        waited.push(begun.elapsed());
        for one in taken {
            assert_eq!(ack(&mut settling, &one), 1);
            all.push(one.payload);
        }
        send(taker, "q BLOCK 0 COUNT 2");
        // The line is in order again before the next one comes.
        in_line(&mut broker.client(), 4);
    }
    waited.sort_unstable();
    eprintln!("waited {:?} in the middle, {:?} at most", waited[20], waited[39]);
    assert!(waited[20] < Duration::from_secs(1), "{waited:?}");
    assert_eq!(all, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(held(&mut redis), [0; 5]);
}

const CROWD: usize = 2_000;
/// Of a second of one processor, for takers that wait and get nothing.
const IDLE_CPU_MAX: f64 = 0.3;

/// Crowds of takers cost next to nothing while they wait, and each is served.
#[test]
fn crowds() {
    let mut stage = Stage::alone(&[]);
    for queues in [1, CROWD] {
        let queue = |n: usize| format!("crowd{}", n % queues);
        let mut takers: Vec<Client> = (0..CROWD).map(|_| stage.broker.client()).collect();
        for (n, taker) in takers.iter_mut().enumerate() {
            taker.send(&["DQ.TAKE", &queue(n), "BLOCK", "0"]).unwrap();
        }
        let mut client = stage.broker.client();
        eventually("all wait", || {
            let waiting = crate::stage::metric(&stage.broker, "delay_broker_takers");
            (waiting == CROWD as f64).then_some(())
        });
        let cpu = || stage.broker.cpu_seconds().unwrap();
        // What came last may still be asked for; a busy machine makes no idle broker busier.
        let idle = eventually("it rests", || {
            let (before, begun) = (cpu(), Instant::now());
            all_the_time(Duration::from_secs(1), || (), |()| true);
            let share = (cpu() - before) / begun.elapsed().as_secs_f64();
            eprintln!("{CROWD} takers at {queues} queues: {share:.3} of a processor");
            (share < IDLE_CPU_MAX).then_some(share)
        });
        assert!(idle < IDLE_CPU_MAX);
        let mut pushes = Vec::new();
        for n in 0..CROWD {
            pushes.extend(encode(&["RPUSH", &queue(n), &n.to_string()]));
        }
        stage.redis.send_bytes(&pushes).unwrap();
        (0..CROWD).for_each(|_| drop(stage.redis.read().unwrap()));
        let begun = Instant::now();
        let mut all: Vec<usize> = Vec::new();
        for taker in &mut takers {
            let taken = came(taker);
            assert_eq!(taken.len(), 1, "{taken:?}");
            all.push(taken[0].parse().unwrap());
        }
        eprintln!("served after {:?}", begun.elapsed());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..CROWD), "each exactly once");
        assert_eq!(say(&mut client, "PING"), Value::Simple("PONG".into()));
    }
}

/// However short BLOCK is, Redis is asked once, and what the call brings is handed out: given back
/// each time, it would never reach anybody.
#[test]
fn a_block_that_is_shorter_than_a_call() {
    let database = redis::shared().fresh_database();
    let proxy = Proxy::start(redis::shared().address());
    let broker = Broker::spawn(&format!("redis://{}/{database}", proxy.address()), &[NO_SCAN]);
    let mut client = broker.client();
    push(&mut redis::shared().client(database), &["m"]);
    proxy.delay(Duration::from_millis(20));
    let taken = take_one(&mut client, "q BLOCK 5");
    assert_eq!((taken.payload.as_str(), taken.delivery()), ("m", 1));
    assert_eq!(take(&mut client, "q BLOCK 5"), []);
    proxy.mend();
}

/// Of many that wait, each hears in time that there is nothing; and what comes then, in a burst
/// that takes many calls, reaches those that wait on.
#[test]
fn more_takers_than_one_call_asks_for() {
    let mut stage = Stage::new(&[NO_SCAN]);
    let mut short: Vec<Client> = (0..60).map(|_| stage.broker.client()).collect();
    short.iter_mut().for_each(|client| send(client, "q BLOCK 300"));
    for client in &mut short {
        assert_eq!(read(&client.read().unwrap()), []);
    }
    let mut long: Vec<Client> =
        (0..60).map(|_| waits(&stage.broker, "q COUNT 100 BLOCK 2s")).collect();
    let payloads: Vec<String> = (0..6_000).map(|number| number.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    push(&mut stage.redis, &payloads);
    let mut got: Vec<String> = Vec::new();
    while got.len() < payloads.len() {
        for client in &mut long {
            got.extend(read(&client.read().unwrap()).into_iter().map(|one| one.payload));
            send(client, "q COUNT 100 BLOCK 2s");
        }
    }
    got.sort_by_key(|payload| payload.parse::<u32>().unwrap());
    assert_eq!(got, payloads);
}
