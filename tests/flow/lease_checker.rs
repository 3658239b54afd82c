//! Consumers, producers and two brokers through all that may fail, and every message accounted for.
//!
//! `MESSAGES=200000 cargo test --test flow lease_checker -- --nocapture` is the long run; what was
//! counted is printed. A run that fails prints its `SEED=`: it gives the same decisions, not the
//! same moments. A consumer that dies is a connection that closes with all that it held, and
//! `delay-broker work`, which is killed as a process.

use crate::lease_judge::{self, Clock, Dead, Fault, Hand, How, Log, Offer, Settle, Unread};
use crate::server::{Server, Stopped};
use crate::stage::{SOON, call, due_of, eventually, field_of, say};
use crate::support::broker::Broker;
use crate::support::faketime;
use crate::support::proxy::{Break, Proxy};
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use crate::support::wait::within;
use crate::taking::{Taken, read};
use crate::worker::Worker;
use delay_broker::store::script::TAKE;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const PRODUCERS: u64 = 3;
const CONSUMERS: u64 = 8;
/// `a` as it is without settings; a message of `b` dies soon.
const QUEUES: [&str; 2] = ["a", "b"];
/// Its messages have names, priorities, headers.
const TAKERS_ALONE: &str = "b";
const LIMITS: [i64; 2] = [16, 4];
const BACKOFF_MS: (i64, i64) = (50, 400);
const DELAY_MS_MAX: u64 = 400;
/// Of every so many messages one is due only after the test.
const FAR_EVERY: usize = 250;
const FAR_MS: u64 = 36_000_000;
const LEASE_MS: (u64, u64) = (200, 800);
/// Longer than all leases.
const STOPPED: Duration = Duration::from_millis(1_000);
const LASTS: Duration = Duration::from_millis(300);
const TIMEOUT_MS: &str = "1000";
/// How long after a fault a take may still be settled that it hit: a call, its settlement, and what
/// a busy machine needs.
const SETTLED_MS: i64 = 5_000;
/// Messages in a list that producers wait for.
const READY_MAX: i64 = 500;
/// Nobody can tell what became of a call if the clock steps there and back while it is in doubt,
/// which may last for a call and its settlement.
const STEPS_APART_MS: i64 = 2_500;
const HOUR_S: i64 = 3_600;
/// So many come in one round of all faults on the slowest of machines; most see thousands.
const MESSAGES: usize = 200;
const DRAINED: Duration = Duration::from_secs(60);

macro_rules! kinds {
    ($($kind:ident),*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum Kind {
            $($kind),*
        }

        const KINDS: &[Kind] = &[$($kind),*];
    };
}

use Kind::*;

kinds! {
    WorkerKilled, BrokerKilled, BrokerStopped, RedisKilled, RedisStopped, NetworkCut, LinksReset,
    HalfReply, ScriptFlush, MaxMemory, ClockAhead, ClockBack
}

/// All acknowledged offers are acked, dead or still there; none is handed out behind its ack or
/// early; each extra delivery has its reason.
#[test]
fn every_message_is_accounted_for() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed =
        std::env::var("SEED").map_or(u64::from(now.subsec_nanos()), |seed| seed.parse().unwrap());
    let messages = std::env::var("MESSAGES").map_or(MESSAGES, |count| count.parse().unwrap());
    eprintln!("SEED={seed}");
    let started = Instant::now();
    let mut storm = Storm::start();
    let mut log = Log::default();
    let client = &storm.clients;
    std::thread::scope(|scope| {
        let _over = (SetOnDrop(&client.calm), SetOnDrop(&client.drained));
        let producing: Vec<_> = (0..PRODUCERS)
            .map(|who| scope.spawn(move || client.produce(who, &mut Random::new(seed + 100 + who))))
            .collect();
        let consuming: Vec<_> = (0..CONSUMERS)
            .map(|who| scope.spawn(move || client.consume(&mut Random::new(seed + who))))
            .collect();
        storm.nemesis.rage(client, &mut Random::new(seed), messages);
        client.calm.store(true, Ordering::SeqCst);
        for one in producing {
            log.extend(one.join().unwrap());
        }
        storm.nemesis.drain();
        client.drained.store(true, Ordering::SeqCst);
        for one in consuming {
            log.extend(one.join().unwrap());
        }
    });
    let faults = storm.nemesis.finish(&mut log);
    let mut account = lease_judge::judge(&log);
    let wrong = std::mem::take(&mut account.wrong);
    eprintln!("{account:?}\n{faults:?}\n{:?}", started.elapsed());
    let some = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "SEED={seed}: {} wrong, such as\n{some}", wrong.len());
    // Else it would have shown little.
    assert!(account.stored >= messages && account.after_nack > 0, "{account:?}");
    assert!(account.after_lapse > 0 && account.unseen > 0 && account.dead > 0, "{account:?}");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A client that fails must not leave the others raging.
struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// As long as something has to go on.
fn goes_on(time: Duration) {
    let end = Instant::now() + time;
    eventually("the end of a time", || (Instant::now() >= end).then_some(()));
}

/// What clients know.
struct Clients {
    redis: String,
    brokers: [String; 2],
    /// Producers stop, and consumers only settle.
    calm: AtomicBool,
    drained: AtomicBool,
    stored: AtomicUsize,
}

impl Clients {
    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// To one of the brokers. Some clients are patient, some give up while a broker stands still.
    fn connect(&self, random: &mut Random) -> Client {
        eventually("a broker", || {
            let mut client = Client::connect(&self.brokers[random.below(2) as usize]).ok()?;
            client.read_within(Duration::from_millis(300 + random.below(2_500))).ok()?;
            Some(client)
        })
    }

    /// Waits until lists are short: what lies in them longer than all else shows nothing.
    fn keeps_up(&self) {
        let longest = || {
            let of = |queue: &&str| {
                let told = Client::connect(&self.redis).ok()?.call(&["LLEN", queue]).ok()?;
                if let Value::Int(count) = told { Some(count) } else { None }
            };
            QUEUES.iter().map(of).try_fold(0, |most, count| count.map(|count| most.max(count)))
        };
        let short = |longest: &Option<i64>| longest.is_some_and(|longest| longest < READY_MAX);
        within(DRAINED, longest, |longest| short(longest) || self.is_calm());
    }

    fn produce(&self, who: u64, random: &mut Random) -> Log {
        let _failed = SetOnPanic(&self.calm);
        let mut log = Log::default();
        let mut client = None;
        let mut number = 1;
        while !self.is_calm() {
            self.keeps_up();
            let batch = 1 + random.below(16) as usize;
            let offers: Vec<_> = (number..number + batch)
                .map(|number| {
                    let queue = QUEUES[random.below(2) as usize];
                    let delay = match number % FAR_EVERY {
                        0 => FAR_MS,
                        _ => random.below(DELAY_MS_MAX),
                    };
                    (format!("{queue}-{who}-{number}"), queue, delay.to_string())
                })
                .collect();
            number += batch;
            let connected = client.get_or_insert_with(|| self.connect(random));
            let sent = now_ms();
            let mut broken = offers.iter().any(|(payload, queue, delay)| {
                let mut words = vec!["DQ.OFFER", queue, delay, payload];
                if *queue == TAKERS_ALONE {
                    let all = ["NAME", payload, "PRIO", "5", "TTL", "30d", "HEADER", "k", "v"];
                    words.extend(&all[..[0, 2, 4, 9][random.below(4) as usize]]);
                }
                connected.send(&words).is_err()
            });
            let mut refused = false;
            for (payload, ..) in offers {
                let told = if broken { None } else { connected.read().ok() };
                broken |= told.is_none();
                let (stored, due) = match told {
                    Some(Value::Bulk(id)) => {
                        (Some(true), due_of(&String::from_utf8(id).unwrap()) as i64)
                    }
                    Some(reply) => (not_done(&reply).then_some(false), 0),
                    None => (None, 0),
                };
                refused |= stored == Some(false);
                self.stored.fetch_add(usize::from(stored == Some(true)), Ordering::SeqCst);
                log.offers.push(Offer { payload, sent, stored, due });
            }
            if broken {
                client = None;
            }
            if refused {
                goes_on(Duration::from_millis(5));
            }
        }
        log
    }

    /// Takes, and does this or that with it, until all is settled.
    fn consume(&self, random: &mut Random) -> Log {
        let _failed = SetOnPanic(&self.calm);
        let mut log = Log::default();
        let mut client = None;
        // Whose lease runs out before they are settled.
        let mut late: Vec<(&str, Taken)> = Vec::new();
        while !self.drained.load(Ordering::SeqCst) {
            if late.len() > 5 || (self.is_calm() && !late.is_empty()) {
                let (queue, taken) = late.remove(0);
                let how = if random.below(2) == 0 { How::Ack } else { How::Nack(20) };
                self.settle(&mut client, &mut log, random, queue, &[taken], how);
            }
            let queue = QUEUES[random.below(2) as usize];
            let count = 1 + random.below(8) as usize;
            let lease = (LEASE_MS.0 + random.below(LEASE_MS.1 - LEASE_MS.0)) as i64;
            let (counted, leased) = (count.to_string(), lease.to_string());
            let mut words = vec!["DQ.TAKE", queue, "COUNT", &counted, "LEASE", &leased];
            if random.below(8) > 0 {
                words.extend(["BLOCK", "100"]);
            }
            let connected = client.get_or_insert_with(|| self.connect(random));
            let from = now_ms();
            let leaves = !self.is_calm() && random.below(50) == 0;
            let reply = match leaves {
                true => connected.send(&words).map(|()| None),
                false => connected.call(&words).map(Some),
            };
            let taken = match reply {
                Ok(Some(reply)) if !matches!(reply, Value::Error(_)) => read(&reply),
                Ok(Some(refused)) if not_done(&refused) => {
                    goes_on(Duration::from_millis(5));
                    continue;
                }
                reply => {
                    if !matches!(reply, Ok(Some(_))) {
                        client = None;
                    }
                    log.unread.push(Unread { from, to: now_ms() + SETTLED_MS, count });
                    continue;
                }
            };
            let came = now_ms();
            if came - from >= LEASE_MS.0 as i64 {
                // The broker shows no message whose lease ended on the way.
                log.unread.push(Unread { from, to: came, count });
            }
            log.hands.extend(taken.iter().map(|one| Hand {
                id: one.id.clone(),
                number: one.delivery(),
                payload: one.payload.clone(),
                sent: from,
                came,
                // It ends a millisecond later than was asked for.
                lease: Some((one.until - 1 - lease, one.until)),
            }));
            if self.is_calm() || (!taken.is_empty() && random.below(3) == 0) {
                self.settle(&mut client, &mut log, random, queue, &taken, How::Ack);
                continue;
            }
            for one in taken {
                let attempt = one.attempt;
                let one = [one];
                match random.below(100) {
                    0..=59 => {
                        self.settle(&mut client, &mut log, random, queue, &one, How::Ack);
                    }
                    60..=79 => {
                        let wait = if random.below(2) == 0 {
                            How::Nack(random.below(150) as i64)
                        } else {
                            backoff(attempt)
                        };
                        self.settle(&mut client, &mut log, random, queue, &one, wait);
                    }
                    80 => {
                        self.settle(&mut client, &mut log, random, queue, &one, How::Fatal);
                    }
                    81..=85 => {
                        let extend = How::Extend(lease);
                        self.settle(&mut client, &mut log, random, queue, &one, extend);
                        late.extend(one.map(|one| (queue, one)));
                    }
                    86..=92 => late.extend(one.map(|one| (queue, one))),
                    // The consumer dies, with all that it holds.
                    93 => client = None,
                    _ => {}
                }
            }
        }
        log
    }

    /// Settles, and notes what was told; what is uncertain may be repeated.
    fn settle(
        &self,
        client: &mut Option<Client>,
        log: &mut Log,
        random: &mut Random,
        queue: &str,
        of: &[Taken],
        how: How,
    ) {
        if of.is_empty() {
            return;
        }
        let silent = random.below(3) == 0;
        loop {
            let connected = client.get_or_insert_with(|| self.connect(random));
            let (command, words) = match how {
                How::Ack => ("DQ.ACK", Vec::new()),
                How::Nack(wait) => {
                    let word = if silent { "SILENT" } else { "FAIL" };
                    ("DQ.NACK", vec![word.to_owned(), "DELAY".to_owned(), wait.to_string()])
                }
                How::Backoff(_) => ("DQ.NACK", Vec::new()),
                How::Fatal => ("DQ.NACK", vec!["FATAL".to_owned()]),
                How::Extend(lease) => ("DQ.EXTEND", vec!["LEASE".to_owned(), lease.to_string()]),
            };
            let mut args = vec![command, queue];
            args.extend(of.iter().map(|one| &one.receipt[..]));
            args.extend(words.iter().map(|word| &word[..]));
            let sent = now_ms();
            let told = match connected.call(&args) {
                Ok(Value::Int(0)) => Some(false),
                Ok(Value::Int(count)) => (count == of.len() as i64).then_some(true),
                Ok(reply) if not_done(&reply) => return,
                Ok(_) => None,
                Err(_) => {
                    *client = None;
                    None
                }
            };
            let came = now_ms();
            log.settles.extend(of.iter().map(|one| Settle {
                payload: one.payload.clone(),
                number: one.delivery(),
                how,
                sent,
                came,
                told,
            }));
            if told.is_some() || random.below(2) == 0 {
                return;
            }
        }
    }
}

/// The least wait by the settings of the queues; a fifth of it is chance.
fn backoff(attempt: i64) -> How {
    let (least, most) = BACKOFF_MS;
    let wait = least << (attempt - 1).clamp(0, 10);
    How::Backoff(wait.min(most) * 4 / 5)
}

/// Whether an error reply says that nothing was done; else it is not known.
fn not_done(reply: &Value) -> bool {
    let Value::Error(text) = reply else { panic!("{reply:?}") };
    let surely_not = text.starts_with("UNAVAILABLE ");
    assert!(surely_not || text.starts_with("UNCERTAIN "), "{text}");
    surely_not
}

struct Storm {
    clients: Clients,
    nemesis: Nemesis,
}

/// Does what is done to them.
struct Nemesis {
    server: Server,
    proxies: [Proxy; 2],
    brokers: [Broker; 2],
    /// A consumer that is a process; it runs a command for each message.
    worker: Option<Worker>,
    clock: Option<faketime::Clock>,
    ahead_s: i64,
    clocks: Vec<Clock>,
    faults: Vec<Fault>,
    struck: BTreeMap<Kind, usize>,
}

/// A port that the kernel gives to nobody else while the broker is down.
fn port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut ports = (20_000 + std::process::id() as u16 % 10_000..32_000)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    ports.nth(NEXT.fetch_add(1, Ordering::SeqCst)).unwrap()
}

fn broker(proxy: &Proxy, address: &str) -> Broker {
    let url = format!("redis://{}", proxy.address());
    let settings = [("redis.call_timeout_ms", TIMEOUT_MS), ("redis.settle_timeout_ms", TIMEOUT_MS)];
    Broker::with_args(&["--redis", &url, "--listen", address], &settings)
}

/// Notes what it is given; every tenth message fails the first time.
fn worker(broker: &Broker, traces: TempDir) -> Worker {
    let address = format!("redis://{}", broker.address());
    let script = r#"read -r payload
        echo "$DQ_RECEIPT $payload $DQ_ATTEMPT $(date +%s%3N)" >> "$DIR/seen"
        case $payload in *3) test "$DQ_ATTEMPT" -gt 1 ;; esac"#;
    let flags = ["a", "--also", "b", "--broker", &address, "--concurrency", "2", "--lease", "1s"];
    Worker::within(traces, &[&flags[..], &["--", "sh", "-c", script]].concat(), &[])
}

/// What the worker's commands noted. Nobody knows when it took a message, how long the lease was
/// in the end, and whether it could settle.
fn noted(seen: &str, log: &mut Log) {
    for line in seen.lines() {
        let [receipt, payload, attempt, came] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (id, number) = receipt.split_once(':').unwrap();
        let (attempt, came): (i64, i64) = (attempt.parse().unwrap(), came.parse().unwrap());
        let (id, payload) = (id.to_owned(), payload.to_owned());
        let number = number.parse().unwrap();
        let failed = payload.ends_with('3') && attempt == 1;
        let how = if failed { backoff(attempt) } else { How::Ack };
        let to = came + SETTLED_MS;
        let settle =
            Settle { payload: payload.clone(), number, how, sent: came, came: to, told: None };
        log.settles.push(settle);
        log.hands.push(Hand { id, number, payload, sent: came - SETTLED_MS, came, lease: None });
    }
}

impl Storm {
    fn start() -> Storm {
        let clock = faketime::Clock::new();
        if clock.is_none() {
            eprintln!("Redis's clock makes no step: no libfaketime, or not with this server");
        }
        let env = clock.as_ref().map(faketime::Clock::env).unwrap_or_default();
        // A file that is short, since Redis reads it after each kill.
        let args = "--appendonly yes --appendfsync always --auto-aof-rewrite-min-size 4mb";
        let server = Server::with_env(&args.split(' ').collect::<Vec<_>>(), &env);
        let proxies = [(); 2].map(|()| Proxy::start(server.address()));
        let addresses = [(); 2].map(|()| format!("127.0.0.1:{}", port()));
        let brokers = [0, 1].map(|place| broker(&proxies[place], &addresses[place]));
        let clients = Clients {
            redis: server.address(),
            brokers: addresses,
            calm: AtomicBool::default(),
            drained: AtomicBool::default(),
            stored: AtomicUsize::default(),
        };
        for (queue, limit) in QUEUES.into_iter().zip(LIMITS) {
            let (least, most) = BACKOFF_MS;
            let setup = format!(
                "DQ.SETUP {queue} limit {limit} backoff_min_ms {least} backoff_max_ms {most}"
            );
            let setup = match queue {
                TAKERS_ALONE => format!("{setup} destination take names_until done"),
                _ => setup,
            };
            assert_eq!(say(&mut brokers[0].client(), &setup), Value::Simple("OK".to_owned()));
        }
        let worker = Some(worker(&brokers[0], tempfile::tempdir().unwrap()));
        let clocks = vec![Clock { from: 0, to: i64::MAX, ahead: 0 }];
        let nemesis = Nemesis {
            server,
            proxies,
            brokers,
            worker,
            clock,
            ahead_s: 0,
            clocks,
            faults: Vec::new(),
            struck: BTreeMap::new(),
        };
        Storm { clients, nemesis }
    }
}

impl Nemesis {
    /// Each kind in turn, again and again, until there were so many messages.
    fn rage(&mut self, clients: &Clients, random: &mut Random, messages: usize) {
        let mut rounds = 0;
        let enough = || clients.stored.load(Ordering::SeqCst) >= messages;
        while !clients.is_calm() && (rounds == 0 || !enough()) {
            let mut kinds = KINDS.to_vec();
            while !kinds.is_empty() {
                let kind = kinds.swap_remove(random.below(kinds.len() as u64) as usize);
                // Some traffic between two faults; more where it is about many messages.
                let least = if messages > MESSAGES { 500 } else { 50 };
                goes_on(Duration::from_millis(least + random.below(2 * least)));
                let which = random.below(2) as usize;
                let from = now_ms();
                if !self.strike(kind, which) {
                    continue;
                }
                self.served();
                *self.struck.entry(kind).or_default() += 1;
                eprintln!("{from} to {}: {kind:?} {which}", now_ms());
                if ![ScriptFlush, MaxMemory].contains(&kind) {
                    self.faults.push(Fault { from, to: now_ms() + SETTLED_MS });
                }
            }
            rounds += 1;
        }
    }

    /// Whether it could.
    fn strike(&mut self, kind: Kind, which: usize) -> bool {
        let address = self.brokers[which].address();
        let (broker_of, proxy) = (&mut self.brokers[which], &self.proxies[which]);
        match kind {
            WorkerKilled => {
                let traces = self.worker.take().unwrap().leave();
                self.worker = Some(worker(broker_of, traces));
            }
            BrokerKilled => {
                broker_of.signal("KILL");
                broker_of.wait(SOON);
                *broker_of = broker(proxy, &address);
            }
            BrokerStopped => {
                let _stopped = Stopped::new(broker_of.pid());
                goes_on(STOPPED);
            }
            RedisKilled => {
                self.server.kill();
                self.server.start_again();
            }
            RedisStopped => {
                let _stopped = Stopped::new(self.server.pid());
                goes_on(LASTS);
            }
            NetworkCut => {
                proxy.hold_all();
                goes_on(LASTS);
                proxy.release();
            }
            LinksReset => {
                proxy.break_every(TAKE.sha(), 5);
                goes_on(LASTS);
                proxy.mend();
            }
            HalfReply => {
                let broken = proxy.broken();
                proxy.break_next(&[TAKE.sha()], Break::HalfReply);
                eventually("a take was hit", || (proxy.broken() > broken).then_some(()));
            }
            ScriptFlush => {
                let flushed = say(&mut self.server.client(), "SCRIPT FLUSH");
                assert_eq!(flushed, Value::Simple("OK".to_owned()));
            }
            MaxMemory => {
                say(&mut self.server.client(), "CONFIG SET maxmemory 1");
                goes_on(LASTS);
                say(&mut self.server.client(), "CONFIG SET maxmemory 0");
            }
            ClockAhead => return self.step(HOUR_S),
            ClockBack => return self.step(-HOUR_S),
        }
        true
    }

    fn step(&mut self, by_s: i64) -> bool {
        let Some(clock) = &self.clock else { return false };
        let since = self.clocks.last().unwrap().from;
        goes_on(Duration::from_millis((since + STEPS_APART_MS - now_ms()).max(0) as u64));
        let from = now_ms();
        self.ahead_s += by_s;
        clock.set(self.ahead_s);
        let ahead = self.ahead_s * 1_000;
        let mut redis = self.server.client();
        eventually("Redis's clock has stepped", || {
            let shown = say(&mut redis, "TIME").elements()[0].int() * 1_000;
            ((shown - ahead - now_ms()).abs() < 100_000).then_some(())
        });
        self.clocks.last_mut().unwrap().to = now_ms();
        self.clocks.push(Clock { from, to: i64::MAX, ahead });
        true
    }

    /// Both brokers reach Redis.
    fn served(&self) {
        for broker in &self.brokers {
            // Redis may have much to read first.
            let size = || broker.client().call(&["DQ.SIZE", "a"]);
            let _ = within(DRAINED, size, |size| matches!(size, Ok(Value::Int(_))));
        }
    }

    /// Until nothing is left but the dead, and what is far.
    fn drain(&mut self) {
        // What was to come when the clock was ahead, comes.
        self.step(2 * HOUR_S - self.ahead_s);
        let mut redis = self.server.client();
        let far = now_ms() + self.ahead_s * 1_000 + HOUR_S * 1_000;
        let left = || {
            let mut count = |words: String| say(&mut redis, &words).int();
            QUEUES.map(|queue| {
                let pending = format!("redisson_delay_queue_timeout:{{{queue}}}");
                count(format!("ZCOUNT {pending} -inf {far}"))
                    + count(format!("LLEN {queue}"))
                    + count(format!("ZCARD delay_broker_first:{{{queue}}}"))
                    + count(format!("ZCARD delay_broker_leased:{{{queue}}}"))
                    + count(format!("ZCARD delay_broker_retry:{{{queue}}}"))
            })
        };
        within(DRAINED, left, |left| *left == [0, 0]);
    }

    /// What is in Redis, and how often what was done.
    fn finish(&mut self, log: &mut Log) -> BTreeMap<Kind, usize> {
        let mut worker = self.worker.take().unwrap();
        assert_eq!(worker.stop(), 0, "{}", worker.log());
        let seen = worker.read("seen");
        assert!(!seen.is_empty(), "{}", worker.log());
        noted(&seen, log);
        // All that had one are settled or dead.
        let held = say(&mut self.server.client(), "EXISTS delay_broker_held:{b}");
        assert_eq!(held, Value::Int(0), "names are held");
        let mut client = self.brokers[0].client();
        for (queue, limit) in QUEUES.into_iter().zip(LIMITS) {
            log.limits.insert(queue.to_owned(), limit);
            let mut cursor = "0".to_owned();
            loop {
                let words = ["DQ.DEAD", queue, "LIST", "COUNT", "1000", "CURSOR", &cursor];
                let page = call(&mut client, &words);
                log.dead.extend(page.elements()[1].elements().iter().map(|row| Dead {
                    queue: queue.to_owned(),
                    payload: field_of(row, "payload").unwrap().text(),
                    attempts: field_of(row, "attempts").unwrap().int(),
                }));
                cursor = page.elements()[0].text();
                if cursor == "0" {
                    break;
                }
            }
            let pending = say(&mut client, &format!("DQ.PEEK {queue} COUNT 1000"));
            let payload = |row: &Value| field_of(row, "payload").unwrap().text();
            log.left.extend(pending.elements().iter().map(payload));
        }
        log.faults = std::mem::take(&mut self.faults);
        log.clocks = std::mem::take(&mut self.clocks);
        std::mem::take(&mut self.struck)
    }
}
