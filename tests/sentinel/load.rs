//! Offers from several clients while a master is replaced, the ledger of their answers, and eyes on
//! both servers; at the end every message is accounted for.

use crate::stage::due_of;
use crate::support::broker::Broker;
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use crate::support::sentinel::PATIENCE;
use crate::support::wait::within;
use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const QUEUE: &str = "q";
pub const CLIENTS: u64 = 4;
const PENDING: &str = "redisson_delay_queue_timeout:{q}";
/// What stands before the payload of a member: length of the id, id, length of the payload.
const BEFORE_PAYLOAD: usize = 17;
/// Of messages that become due; the others stay pending.
const DELAY_MS_MAX: u64 = 1_500;

/// Unix time in microseconds: that of all clocks here, since all run on this machine.
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// One offer and its answer.
#[derive(Debug, Clone)]
pub struct Offered {
    pub payload: String,
    pub answered_us: u64,
    /// The message id, or the words of the error.
    pub answer: Result<String, String>,
    /// WAIT has said that the replica has it.
    pub replicated: bool,
}

/// Clients that offer until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Offered>>>,
}

impl Load {
    /// `master`: the address of the one whose replica is asked for.
    pub fn start(brokers: &[&Broker], master: &str) -> Load {
        let stop = Arc::<AtomicBool>::default();
        let clients = (0..CLIENTS).zip(brokers.iter().cycle()).map(|(number, broker)| {
            let (stop, broker) = (stop.clone(), broker.client());
            let master = Client::connect(master).ok();
            thread::spawn(move || offer_until(&stop, broker, master, number))
        });
        Load { clients: clients.collect(), stop }
    }

    pub fn end(self) -> Vec<Offered> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

fn offer_until(
    stop: &AtomicBool,
    mut broker: Client,
    mut master: Option<Client>,
    client: u64,
) -> Vec<Offered> {
    broker.read_within(PATIENCE).unwrap();
    let (mut random, mut all) = (Random::new(client + 7), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let payload = format!("{client}-{}", all.len());
        let delay = match random.below(4) {
            0 => "1h".to_owned(),
            _ => random.below(DELAY_MS_MAX).to_string(),
        };
        let reply = broker.call(&["DQ.OFFER", QUEUE, &delay, &payload]).unwrap();
        let answered_us = now_us();
        let answer = match reply {
            Value::Bulk(id) => Ok(String::from_utf8(id).unwrap()),
            other => Err(other.text()),
        };
        let replicated = answer.is_ok() && is_replicated(&mut master);
        all.push(Offered { payload, answered_us, answer, replicated });
    }
    all
}

/// PING first, so that WAIT is about what the server has done until then.
fn is_replicated(master: &mut Option<Client>) -> bool {
    let Some(client) = master else { return false };
    client.read_within(Duration::from_secs(1)).unwrap();
    let asked = client.call(&["PING"]).and_then(|_| client.call(&["WAIT", "1", "200"]));
    match asked {
        Ok(Value::Int(count)) => count > 0,
        _ => {
            *master = None;
            false
        }
    }
}

/// What one server shows, looked at all the time.
#[derive(Debug, Default)]
pub struct Seen {
    /// When a payload was first in the list, by the server's clock, which is read behind the list.
    pub delivered_us: HashMap<String, u64>,
    /// When it first said that it is a master, once it had not.
    pub promoted_us: Option<u64>,
}

pub struct Eyes {
    stop: Arc<AtomicBool>,
    looks: JoinHandle<Seen>,
}

impl Eyes {
    pub fn on(address: String) -> Eyes {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        Eyes { stop, looks: thread::spawn(move || look_until(&stopped, &address)) }
    }

    pub fn close(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.looks.join().unwrap()
    }
}

fn look_until(stop: &AtomicBool, address: &str) -> Seen {
    let (mut seen, mut was_replica, mut known) = (Seen::default(), false, 0_usize);
    let mut client = None;
    let mut look_once = || {
        let stopped = stop.load(Ordering::Relaxed);
        let Some(redis) = &mut client else {
            client = Client::connect(address).ok();
            return stopped;
        };
        redis.read_within(Duration::from_secs(1)).unwrap();
        let mut look = || {
            redis.push(&[b"ROLE"]);
            redis.push(&[b"LLEN", QUEUE.as_bytes()]);
            redis.push(&[b"LRANGE", QUEUE.as_bytes(), known.to_string().as_bytes(), b"-1"]);
            redis.push(&[b"TIME"]);
            redis.flush()?;
            Ok::<_, std::io::Error>([redis.read()?, redis.read()?, redis.read()?, redis.read()?])
        };
        let Ok([role, length, list, time]) = look() else {
            client = None;
            return stopped;
        };
        let (Value::Array(role), Value::Array(time)) = (role, time) else { return stopped };
        let now_us = time[0].text().parse::<u64>().unwrap() * 1_000_000
            + time[1].text().parse::<u64>().unwrap();
        match role[0].text() == "master" {
            true if was_replica => drop(seen.promoted_us.get_or_insert(now_us)),
            true => {}
            false => was_replica = true,
        }
        let Value::Int(length) = length else { return stopped };
        // A replica that begins anew has another list.
        known = known.min(length as usize);
        let list = list.texts();
        known += list.len();
        for payload in list {
            seen.delivered_us.entry(payload).or_insert(now_us);
        }
        stopped
    };
    within(4 * PATIENCE, &mut look_once, |stopped| *stopped);
    seen
}

/// Writes of scripts at a server, as its MONITOR shows them: when their script began, and which.
pub struct Writes(JoinHandle<Vec<(u64, String)>>);

impl Writes {
    pub fn at(address: &str) -> Writes {
        let mut monitor = Client::connect(address).unwrap();
        monitor.call(&["MONITOR"]).unwrap();
        Writes(thread::spawn(move || {
            monitor.read_within(PATIENCE).unwrap();
            let lines = monitor.reader().lines().map_while(Result::ok);
            let (mut writes, mut began_us) = (Vec::new(), 0);
            for line in lines.take_while(|line| !line.contains("\"the end\"")) {
                match monitored(&line) {
                    Some((at_us, None)) => began_us = at_us,
                    // A server that was stopped in a script goes on with it.
                    Some((_, Some(write))) => writes.push((began_us, write)),
                    None => {}
                }
            }
            writes
        }))
    }

    pub fn end(self, address: &str) -> Vec<(u64, String)> {
        // Or the server has ended the connection.
        drop(Client::connect(address).and_then(|mut client| client.call(&["ECHO", "the end"])));
        self.0.join().unwrap()
    }
}

/// `+1700000000.000001 [0 127.0.0.1:5000] "EVALSHA" ...`, the beginning of a script, and
/// `+1700000000.000002 [0 lua] "ZADD" ...`, a command of it, if that writes.
fn monitored(line: &str) -> Option<(u64, Option<String>)> {
    let (time, rest) = line.strip_prefix('+').unwrap_or(line).split_once(" [")?;
    let (from, command) = rest.split_once("] \"")?;
    let at_us = (time.parse::<f64>().ok()? * 1e6) as u64;
    let word = command.split('"').next()?.to_uppercase();
    if !from.ends_with(" lua") {
        return (word == "EVALSHA").then_some((at_us, None));
    }
    let writes = ["ZADD", "ZREM", "RPUSH", "LREM", "SET", "HSET", "SADD", "LTRIM", "DEL", "UNLINK"];
    let is_write = writes.contains(&&word[..]) || word.starts_with("ZREM");
    is_write.then(|| (at_us, Some(command.to_owned())))
}

/// What the master holds: how often each payload, in the list or pending.
fn held(master: &mut Client) -> HashMap<String, usize> {
    let list = master.call(&["LRANGE", QUEUE, "0", "-1"]).unwrap().texts();
    let pending = master.call(&["ZRANGE", PENDING, "0", "-1"]).unwrap();
    let pending = pending
        .elements()
        .iter()
        .map(|member| String::from_utf8_lossy(&member.bytes()[BEFORE_PAYLOAD..]).into_owned());
    let mut held = HashMap::new();
    for payload in list.into_iter().chain(pending) {
        *held.entry(payload).or_default() += 1;
    }
    held
}

/// Figures of one failover.
#[derive(Debug, Default, Clone)]
pub struct Judged {
    pub acknowledged: usize,
    pub unavailable: usize,
    pub uncertain: usize,
    /// Acknowledged before the switch, and not there.
    pub lost: usize,
    /// From the switch to the first offer that was stored, and to the first message delivered.
    pub offers_after: Duration,
    pub delivery_after: Duration,
}

/// Everything that must hold once the new master has delivered what is due.
pub fn judge(offered: &[Offered], master: &mut Client, seen: &Seen, switched_us: u64) -> Judged {
    let pending_due = || {
        let due = master.call(&["ZCOUNT", PENDING, "-inf", &(now_us() / 1_000).to_string()]);
        due.unwrap().int()
    };
    within(PATIENCE, pending_due, |due| *due == 0);
    let held = held(master);
    let doubled: Vec<_> = held.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
    let mut judged = Judged::default();
    for one in offered {
        let is_held = held.contains_key(&one.payload);
        match &one.answer {
            Ok(id) => {
                judged.acknowledged += 1;
                let due_us = due_of(id) * 1_000;
                let early = seen.delivered_us.get(&one.payload).filter(|at| **at < due_us);
                assert_eq!(early, None, "early: due {due_us}, {one:?}");
                if !is_held {
                    let late = one.answered_us > switched_us;
                    assert!(!late && !one.replicated, "lost, switch at {switched_us}: {one:?}");
                    judged.lost += 1;
                }
            }
            Err(words) if words.starts_with("UNAVAILABLE ") => {
                judged.unavailable += 1;
                assert!(!is_held, "stored although it was refused: {one:?}");
            }
            Err(words) if words.starts_with("UNCERTAIN ") => judged.uncertain += 1,
            Err(_) => panic!("{one:?}"),
        }
    }
    let stored = offered.iter().filter(|one| one.answer.is_ok() && one.answered_us > switched_us);
    let first = stored.map(|one| one.answered_us).min().expect("nothing was stored after it");
    let delivered = seen.delivered_us.values().filter(|at| **at > switched_us).min();
    let since = |us: u64| Duration::from_micros(us - switched_us);
    judged.offers_after = since(first);
    judged.delivery_after = since(*delivered.expect("nothing was delivered after it"));
    judged
}
