//! Broker and Redis killed again and again under load, and every message accounted for.
//!
//! The broker manages its Redis, so each start is one of the ways that there are: a Redis that runs
//! is adopted, one that died is started on its files, by the broker that lives or by the next one.
//! What a client was not told (`UNCERTAIN`, a connection that broke) counts as "may be". Consumers
//! move what comes to a second list, so that nothing is lost with their connections, and read
//! Redis's clock in the moment of taking.

use super::broker::Broker;
use super::data_dir::DataDir;
use super::random::Random;
use super::resp::{Client, Value, encode};
use super::wait::eventually;
use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PRODUCERS: u64 = 3;
const CONSUMERS: usize = 2;
const DELAY_MS_MAX: u64 = 1_500;
const BETWEEN_KILLS_MS: (u64, u64) = (300, 1_200);
/// Nobody asks a dead process oftener.
const RETRY: Duration = Duration::from_millis(5);

/// What was counted. The last four must be 0.
#[derive(Debug, Default)]
pub struct Account {
    pub kills_of_broker: usize,
    pub kills_of_redis: usize,
    pub acknowledged: usize,
    /// Messages of which some answer was lost.
    pub may_be: usize,
    pub cancelled: usize,
    pub delivered: usize,
    pub lost: usize,
    pub doubled: usize,
    pub after_cancel: usize,
    pub early: usize,
}

/// What a producer was told of one payload.
#[derive(Default)]
struct Told {
    acknowledged: usize,
    may_be: usize,
    cancelled: bool,
    cancel_may_be: bool,
}

struct Scene {
    dir: DataDir,
    redis_port: u16,
    /// Where the broker listens now.
    address: Mutex<String>,
    done: AtomicBool,
    early: AtomicUsize,
}

/// Kills for so long. The same seed gives the same decisions, not the same moments.
pub fn run(seed: u64, during: Duration) -> Account {
    // Not one that the kernel gives to others while Redis is down.
    let redis_port = (20_000 + std::process::id() as u16 % 10_000..32_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap();
    let scene = Scene {
        dir: DataDir::new(),
        redis_port,
        address: Mutex::default(),
        done: AtomicBool::new(false),
        early: AtomicUsize::new(0),
    };
    let mut account = Account::default();
    let mut broker = scene.start();
    let producers_done = AtomicBool::new(false);
    let told: HashMap<String, Told> = std::thread::scope(|scope| {
        let scene = &scene;
        // A thread that panics must not leave the others waiting.
        let _ended = (SetOnDrop(&producers_done), SetOnDrop(&scene.done));
        let producing: Vec<_> = (0..PRODUCERS)
            .map(|who| {
                let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(who + 1));
                let done = &producers_done;
                scope.spawn(move || scene.produce(who, &mut random, done))
            })
            .collect();
        (0..CONSUMERS).for_each(|_| drop(scope.spawn(|| scene.consume())));
        let mut random = Random::new(seed);
        let end = Instant::now() + during;
        let enough = |account: &Account| account.kills_of_broker.min(account.kills_of_redis) >= 3;
        while Instant::now() < end || !enough(&account) {
            let (least, most) = BETWEEN_KILLS_MS;
            sleep(Duration::from_millis(least + random.below(most - least)));
            let which = random.below(3);
            if which != 0 {
                scene.dir.kill();
                account.kills_of_redis += 1;
            }
            if which != 1 {
                broker.signal("KILL");
                broker.wait(Duration::from_secs(10));
                broker = scene.start();
                account.kills_of_broker += 1;
            }
        }
        producers_done.store(true, Ordering::SeqCst);
        let told = producing.into_iter().flat_map(|one| one.join().unwrap());
        let told = told.collect();
        // Delivered is what left the zset; consumers go on meanwhile.
        let size = || {
            let asked = scene.broker().ok().map(|mut client| client.call(&["DQ.SIZE", "q"]));
            matches!(asked, Some(Ok(Value::Int(0))))
        };
        eventually(size, |empty| *empty);
        scene.done.store(true, Ordering::SeqCst);
        told
    });
    let mut redis = scene.redis().unwrap();
    let mut times: HashMap<String, usize> = HashMap::new();
    for list in ["q", "taken"] {
        for payload in redis.call(&["LRANGE", list, "0", "-1"]).unwrap().texts() {
            *times.entry(payload).or_default() += 1;
        }
    }
    broker.signal("TERM");
    assert!(broker.wait(Duration::from_secs(30)).success());
    for (payload, told) in &told {
        let came = times.remove(payload).unwrap_or(0);
        account.acknowledged += usize::from(told.acknowledged > 0);
        account.may_be += usize::from(told.may_be > 0 || told.cancel_may_be);
        account.cancelled += usize::from(told.cancelled);
        account.delivered += usize::from(came > 0);
        let gone = told.cancelled || told.cancel_may_be;
        account.lost += usize::from(told.acknowledged > 0 && !gone && came == 0);
        let most = told.acknowledged + told.may_be;
        account.doubled += usize::from(came > most);
        account.after_cancel += usize::from(told.cancelled && came + 1 > most);
    }
    assert!(times.is_empty(), "never offered: {times:?}");
    account.early = scene.early.load(Ordering::SeqCst);
    account
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Scene {
    fn start(&self) -> Broker {
        let port = self.redis_port.to_string();
        let args = ["--data-dir", self.dir.text(), "--managed-port", &port];
        let broker = Broker::with_args(&args, &[]);
        *self.address.lock().unwrap() = broker.address();
        broker
    }

    fn broker(&self) -> std::io::Result<Client> {
        let address = self.address.lock().unwrap().clone();
        Client::connect(address)
    }

    fn redis(&self) -> std::io::Result<Client> {
        Client::connect(("127.0.0.1", self.redis_port))
    }

    /// Offers, and now and then takes back, until it is told to stop.
    fn produce(&self, who: u64, random: &mut Random, done: &AtomicBool) -> HashMap<String, Told> {
        let mut told: HashMap<String, Told> = HashMap::new();
        // Payload, and id or name to cancel it by.
        let mut pending: Vec<(String, String)> = Vec::new();
        let mut client = None;
        let mut number = 0;
        while !done.load(Ordering::SeqCst) {
            if client.is_none() {
                client = self.broker().ok();
            }
            let Some(connected) = &mut client else {
                sleep(RETRY);
                continue;
            };
            let broke = if random.below(3) == 0 && !pending.is_empty() {
                let (payload, message) =
                    pending.swap_remove(random.below(pending.len() as u64) as usize);
                cancel(connected, &message, told.get_mut(&payload).unwrap())
            } else {
                number += 1;
                let delay = random.below(DELAY_MS_MAX);
                let named = random.below(3) == 0;
                let payload = format!("{who}-{number}-{}", now_us() + delay * 1_000);
                let one = told.entry(payload.clone()).or_default();
                let (id, broke) = offer(connected, &payload, delay, named, one);
                pending.extend(id.map(|id| (payload, id)));
                broke
            };
            if broke {
                client = None;
            }
        }
        told
    }

    /// Moves what comes aside, and compares its time with Redis's.
    fn consume(&self) {
        while !self.done.load(Ordering::SeqCst) {
            let Ok(mut client) = self.redis() else {
                sleep(RETRY);
                continue;
            };
            while !self.done.load(Ordering::SeqCst) {
                let mut bytes = encode(&["BLMOVE", "q", "taken", "LEFT", "RIGHT", "1"]);
                bytes.extend(encode(&["TIME"]));
                let taken = client.send_bytes(&bytes).and_then(|()| client.read());
                let (Ok(taken), Ok(time)) = (taken, client.read()) else {
                    break;
                };
                let (Value::Bulk(_), [seconds, micros]) = (&taken, time.elements()) else {
                    // Nothing came, or it loads.
                    sleep(RETRY);
                    continue;
                };
                let at = seconds.int() * 1_000_000 + micros.int();
                let text = taken.text();
                let (_, earliest) = text.rsplit_once('-').unwrap();
                if at < earliest.parse().unwrap() {
                    self.early.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }
}

/// What to cancel it by if it is stored for sure, and whether the connection broke.
fn offer(
    client: &mut Client,
    payload: &str,
    delay: u64,
    named: bool,
    told: &mut Told,
) -> (Option<String>, bool) {
    let delay = delay.to_string();
    let mut args = vec!["DQ.OFFER", "q", &delay, payload];
    if named {
        args.extend(["NAME", payload]);
    }
    match client.call(&args) {
        Ok(Value::Bulk(id)) => {
            told.acknowledged += 1;
            let id = String::from_utf8(id).unwrap();
            (Some(if named { payload.to_owned() } else { id }), false)
        }
        Ok(reply) => {
            let text = reply.text();
            let surely_not = text.starts_with("UNAVAILABLE ");
            assert!(surely_not || text.starts_with("UNCERTAIN "), "{payload}: {text}");
            told.may_be += usize::from(!surely_not);
            (None, false)
        }
        Err(_) => {
            told.may_be += 1;
            (None, true)
        }
    }
}

/// Whether the connection broke.
fn cancel(client: &mut Client, message: &str, told: &mut Told) -> bool {
    match client.call(&["DQ.CANCEL", "q", message]) {
        Ok(Value::Int(count)) => told.cancelled = count == 1,
        Ok(reply) => {
            let text = reply.text();
            let surely_not = text.starts_with("UNAVAILABLE ");
            assert!(surely_not || text.starts_with("UNCERTAIN "), "{message}: {text}");
            told.cancel_may_be = !surely_not;
        }
        Err(_) => {
            told.cancel_may_be = true;
            return true;
        }
    }
    false
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros() as u64
}
