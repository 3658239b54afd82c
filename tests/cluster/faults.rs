//! Slots that move, primaries that die and that stand still, under load: every message is
//! accounted for.

use crate::alone;
use crate::stage::{call, due_of, eventually, get, info, offer, say};
use crate::support::broker::Broker;
use crate::support::cluster::{Cluster, PATIENCE};
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use crate::support::wait::within;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CLIENTS: u64 = 4;
const QUEUES_EACH: usize = 4;
const DELAY_MS_MAX: u64 = 1_000;
/// What stands before the payload of a member: length of the id, id, length of the payload.
const BEFORE_PAYLOAD: usize = 17;

/// Unix time, ms: that of all clocks here, since all run on this machine.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// One offer and its answer: the message id, or the words of the error.
#[derive(Debug, Clone)]
struct Offered {
    queue: String,
    payload: String,
    sent_ms: u64,
    answer: Result<String, String>,
    took: Duration,
}

/// Clients that offer until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Offered>>>,
    /// When each payload was first seen in its list.
    eyes: JoinHandle<HashMap<String, u64>>,
}

impl Load {
    fn start(cluster: &Cluster, brokers: &[&Broker], queues: &[String]) -> Load {
        let stop = Arc::<AtomicBool>::default();
        let clients = (0..CLIENTS).zip(brokers.iter().cycle()).map(|(number, broker)| {
            let (stop, client, queues) = (stop.clone(), broker.client(), queues.to_vec());
            thread::spawn(move || offer_until(&stop, client, number, &queues))
        });
        let clients = clients.collect();
        let nodes = cluster.nodes.iter().map(|node| node.address()).collect();
        let (stopped, watched) = (stop.clone(), queues.to_vec());
        let eyes = thread::spawn(move || look_until(&stopped, nodes, &watched));
        Load { stop, clients, eyes }
    }

    fn end(self) -> (Vec<Offered>, HashMap<String, u64>) {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (all, self.eyes.join().unwrap())
    }
}

fn offer_until(
    stop: &AtomicBool,
    mut broker: Client,
    client: u64,
    queues: &[String],
) -> Vec<Offered> {
    broker.read_within(PATIENCE).unwrap();
    let (mut random, mut all) = (Random::new(client + 7), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let payload = format!("{client}-{}", all.len());
        let queue = queues[random.below(queues.len() as u64) as usize].clone();
        let delay = match random.below(4) {
            0 => "1h".to_owned(),
            _ => random.below(DELAY_MS_MAX).to_string(),
        };
        let (begun, sent_ms) = (Instant::now(), now_ms());
        let answer = match broker.call(&["DQ.OFFER", &queue, &delay, &payload]).unwrap() {
            Value::Bulk(id) => Ok(String::from_utf8(id).unwrap()),
            other => Err(other.text()),
        };
        all.push(Offered { queue, payload, sent_ms, answer, took: begun.elapsed() });
    }
    all
}

fn look_until(stop: &AtomicBool, nodes: Vec<String>, queues: &[String]) -> HashMap<String, u64> {
    let mut seen = HashMap::new();
    let mut clients: Vec<Option<Client>> = nodes.iter().map(|_| None).collect();
    while !stop.load(Ordering::Relaxed) {
        for (address, client) in nodes.iter().zip(&mut clients) {
            if client.is_none() {
                *client = Client::connect(address).ok();
            }
            let Some(redis) = client else { continue };
            redis.read_within(Duration::from_millis(500)).unwrap();
            for queue in queues {
                match redis.call(&["LRANGE", queue, "-100", "-1"]) {
                    Ok(list @ Value::Array(_)) => {
                        let seen_ms = now_ms();
                        for payload in list.texts() {
                            seen.entry(payload).or_insert(seen_ms);
                        }
                    }
                    Ok(_) => {}
                    Err(_) => {
                        *client = None;
                        break;
                    }
                }
            }
        }
    }
    seen
}

#[derive(Debug, Default)]
struct Judged {
    stored: usize,
    unavailable: usize,
    uncertain: usize,
    /// Acknowledged and gone: where, and when it was offered.
    lost: Vec<(String, u64)>,
    longest: Duration,
}

/// Waits until nothing is due any more, and counts.
fn judge(
    cluster: &Cluster,
    queues: &[String],
    (offered, seen): &(Vec<Offered>, HashMap<String, u64>),
) -> Judged {
    let mut found: HashMap<String, usize> = HashMap::new();
    for queue in queues {
        let zset = format!("redisson_delay_queue_timeout:{{{queue}}}");
        let until = (now_ms() + 10_000).to_string();
        let ask = || cluster.call(queue, &["ZCOUNT", &zset, "-inf", &until]).int();
        within(PATIENCE, ask, |due| *due == 0);
        for payload in cluster.call(queue, &["LRANGE", queue, "0", "-1"]).texts() {
            *found.entry(payload).or_default() += 1;
        }
        for member in cluster.call(queue, &["ZRANGE", &zset, "0", "-1"]).elements() {
            let payload = String::from_utf8(member.bytes()[BEFORE_PAYLOAD..].to_vec()).unwrap();
            *found.entry(payload).or_default() += 1;
        }
    }
    let mut judged = Judged::default();
    for one in offered {
        let count = found.remove(&one.payload).unwrap_or(0);
        assert!(count <= 1, "doubled: {one:?}");
        judged.longest = judged.longest.max(one.took);
        match &one.answer {
            Ok(id) => {
                judged.stored += 1;
                if let Some(seen_ms) = seen.get(&one.payload) {
                    assert!(*seen_ms >= due_of(id), "early: {one:?} seen at {seen_ms}");
                }
                if count == 0 {
                    judged.lost.push((one.queue.clone(), one.sent_ms));
                }
            }
            Err(words) if words.starts_with("UNCERTAIN") => judged.uncertain += 1,
            Err(words) => {
                assert!(words.starts_with("UNAVAILABLE"), "{one:?}");
                assert_eq!(count, 0, "stored all the same: {one:?}");
                judged.unavailable += 1;
            }
        }
    }
    assert!(found.is_empty(), "never offered: {found:?}");
    judged
}

fn queues(cluster: &Cluster) -> Vec<String> {
    let names = (0..QUEUES_EACH).flat_map(|n| (0..3).map(move |primary| (n, primary)));
    names.map(|(n, primary)| cluster.queue_at(primary, &format!("q{n}-{primary}-"))).collect()
}

fn broker(cluster: &Cluster) -> Broker {
    Broker::with_args(&["--redis", &cluster.url(), "--log", "info"], &[])
}

fn for_a_while(ms: u64) {
    let begun = Instant::now();
    within(PATIENCE, || begun.elapsed(), |past| *past >= Duration::from_millis(ms));
}

#[test]
fn slots_that_move_there_and_back() {
    let _alone = alone();
    let cluster = Cluster::start(3, 0);
    let queues = queues(&cluster);
    let [broker, other] = [(); 2].map(|()| broker(&cluster));
    // Each replaces the one before.
    let named = queues[0].clone();
    let (stop, mut client) = (Arc::<AtomicBool>::default(), broker.client());
    let (stopped, replaced) = (stop.clone(), named.clone());
    let replacing = thread::spawn(move || {
        client.read_within(PATIENCE).unwrap();
        let mut number = 0;
        while !stopped.load(Ordering::Relaxed) {
            number += 1;
            offer(&mut client, &[&replaced, "2h", &format!("named-{number}"), "NAME", "n"]);
        }
        number
    });
    let load = Load::start(&cluster, &[&broker, &other], &queues);
    for_a_while(500);
    for to in [1, 2] {
        for (number, queue) in queues.iter().enumerate() {
            let (slot, pause) = (cluster.slot(queue), if number % 3 == 0 { 200 } else { 0 });
            let owner = cluster.owner(slot).unwrap();
            cluster.move_slot(slot, (owner + to) % 3, || for_a_while(pause));
        }
        for_a_while(500);
    }
    stop.store(true, Ordering::Relaxed);
    let last = format!("named-{}", replacing.join().unwrap());
    assert!(
        format!("{:?}", say(&mut broker.client(), &format!("DQ.GET {named} n"))).contains(&last)
    );
    assert_eq!(say(&mut other.client(), &format!("DQ.CANCEL {named} n")).int(), 1);
    let load = load.end();
    let judged = judge(&cluster, &queues, &load);
    eprintln!("slots that move: {judged:?}");
    assert!(judged.stored > 100, "{judged:?}");
    assert_eq!((judged.unavailable, judged.uncertain), (0, 0), "{judged:?}");
    assert!(judged.lost.is_empty(), "{judged:?}");
}

/// The queues of the others go on, and those of the dead one with its successor.
#[test]
fn a_primary_that_dies() {
    let _alone = alone();
    let mut cluster = Cluster::start(3, 1);
    let queues = queues(&cluster);
    let broker = broker(&cluster);
    let load = Load::start(&cluster, &[&broker], &queues);
    for_a_while(1_000);
    let killed_ms = now_ms();
    let dead = queues.iter().filter(|q| cluster.slots_of(0).contains(&cluster.slot(q)));
    let dead: Vec<String> = dead.cloned().collect();
    cluster.kill(0);
    // Readiness says it until the successor is there.
    let slot = cluster.slot(&dead[0]);
    within(PATIENCE, || cluster.owner(slot), Option::is_some);
    for_a_while(2_000);
    let load = load.end();
    let judged = judge(&cluster, &queues, &load);
    eprintln!("kill -9: {judged:?}");
    for (queue, sent_ms) in &judged.lost {
        // What its replica did not have yet.
        assert!(dead.contains(queue) && *sent_ms + 5_000 > killed_ms, "{queue} {sent_ms}");
    }
    let failed = load.0.iter().filter(|one| one.answer.is_err());
    let others: Vec<&Offered> = failed.filter(|one| !dead.contains(&one.queue)).collect();
    assert!(others.is_empty(), "{others:?}");
    for queue in &dead {
        offer(&mut broker.client(), &[queue, "10", "after"]);
    }
    for queue in &dead {
        eventually(queue, || {
            let list = cluster.call(queue, &["LRANGE", queue, "0", "-1"]).texts();
            list.contains(&"after".to_owned()).then_some(())
        });
    }
}

/// It comes back when its successor serves, with calls in its sockets.
#[test]
fn a_primary_that_stands_still() {
    let _alone = alone();
    let cluster = Cluster::start(3, 1);
    let queues = queues(&cluster);
    let broker = broker(&cluster);
    let load = Load::start(&cluster, &[&broker], &queues);
    for_a_while(1_000);
    let still = queues.iter().filter(|q| cluster.slots_of(0).contains(&cluster.slot(q)));
    let still: Vec<String> = still.cloned().collect();
    let (slot, stopped_ms) = (cluster.slot(&still[0]), now_ms());
    let stopped = cluster.stop(0);
    let successor = || cluster.nodes[3].client(0).call(&["ROLE"]).unwrap().elements()[0].text();
    within(PATIENCE, successor, |role| role == "master");
    for_a_while(1_000);
    drop(stopped);
    for_a_while(1_500);
    let load = load.end();
    within(PATIENCE, || cluster.owner(slot), |owner| *owner == Some(3));
    let judged = judge(&cluster, &queues, &load);
    eprintln!("SIGSTOP: {judged:?}");
    for (queue, sent_ms) in &judged.lost {
        assert!(still.contains(queue) && *sent_ms + 5_000 > stopped_ms, "{queue} {sent_ms}");
    }
    let failed = load.0.iter().filter(|one| one.answer.is_err());
    let others: Vec<&Offered> = failed.filter(|one| !still.contains(&one.queue)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A slot that is left open: its queue waits and is warned of once, all others go on.
#[test]
fn a_slot_that_is_stuck() {
    let _alone = alone();
    let cluster = Cluster::start(3, 0);
    let [stuck, other] = ["stuck", "other"].map(|name| cluster.queue_at(0, name));
    let broker = broker(&cluster);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    offer(&mut client, &[&stuck, "200", "before"]);
    let (slot, ids) = (cluster.slot(&stuck), cluster.ids());
    let open = ["CLUSTER", "SETSLOT", &slot.to_string(), "MIGRATING", &ids[1]];
    assert_eq!(call(&mut cluster.nodes[0].client(0), &open).text(), "OK");
    let begun = Instant::now();
    let mut refused = 0;
    while begun.elapsed() < Duration::from_secs(12) {
        let reply = call(&mut client, &["DQ.OFFER", &stuck, "1h", "x"]).text();
        assert!(reply.starts_with("UNAVAILABLE"), "{reply}");
        assert!(reply.contains("TRYAGAIN") || reply.contains("ASK"), "{reply}");
        refused += 1;
        offer(&mut client, &[&other, "0", "goes on"]);
    }
    assert!(refused > 0);
    let warned = broker.log().matches("is being moved for long").count();
    assert_eq!(warned, 1);
    let stable = ["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"];
    assert_eq!(call(&mut cluster.nodes[0].client(0), &stable).text(), "OK");
    eventually("what was due", || {
        let list = cluster.call(&stuck, &["LRANGE", &stuck, "0", "-1"]).texts();
        (list == ["before"]).then_some(())
    });
    assert_eq!(say(&mut client, &format!("DQ.SIZE {stuck}")).int(), 0);
}

/// Without a successor: its queues answer UNAVAILABLE, the broker is ready for the others.
#[test]
fn a_primary_without_a_replica() {
    let _alone = alone();
    let mut cluster = Cluster::start(3, 0);
    let [gone, here] = [0, 1].map(|primary| cluster.queue_at(primary, "n"));
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    for queue in [&gone, &here] {
        offer(&mut client, &[queue, "1h", "x"]);
    }
    cluster.kill(0);
    let ready = || get(&broker, "/readyz");
    within(PATIENCE, ready, |(status, text)| *status == 200 && text.contains("2 of 3 primaries"));
    let reply = call(&mut client, &["DQ.OFFER", &gone, "1h", "x"]).text();
    assert!(reply.starts_with("UNAVAILABLE") && reply.contains("slot"), "{reply}");
    let reply = call(&mut client, &["DQ.SIZE", &gone]).text();
    assert!(reply.starts_with("UNAVAILABLE"), "{reply}");
    offer(&mut client, &[&here, "0", "y"]);
    eventually("a delivery", || (cluster.call(&here, &["LLEN", &here]).int() == 1).then_some(()));
}

/// All that are there are paused at once; those that are away are named.
#[test]
fn all_are_paused_but_where_a_primary_is_away() {
    let _alone = alone();
    let mut cluster = Cluster::start(3, 0);
    let here = [1, 2].map(|primary| cluster.queue_at(primary, "p"));
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    let away = cluster.nodes[0].address();
    cluster.kill(0);
    within(PATIENCE, || get(&broker, "/readyz").1, |text| text.contains("2 of 3 primaries"));
    for (command, paused) in [("DQ.PAUSE ALL", 1), ("DQ.RESUME ALL", 0)] {
        // It took minutes, of 2 s for each of the thousands of slots.
        let reply = say(&mut client, command).text();
        assert!(reply.starts_with("UNCERTAIN it was done in 10923 of 16384"), "{reply}");
        assert!(reply.contains(&away), "{reply}");
        for queue in &here {
            assert_eq!(info(&mut client, queue, "paused_all").int(), paused, "{queue}");
        }
    }
}

/// What was the Cluster serves nothing any more; what the other seed names does.
#[test]
fn seeds_are_asked_again() {
    let _alone = alone();
    let [first, second] = [(); 2].map(|()| Cluster::start(1, 0));
    let empty = |cluster: &Cluster| {
        let mut node = cluster.nodes[0].client(0);
        // At once: an empty node only gives its slots away.
        for command in ["MULTI", "FLUSHALL", "CLUSTER FLUSHSLOTS", "EXEC"] {
            say(&mut node, command);
        }
    };
    empty(&second);
    let seeds = format!("{},{}", first.url(), second.nodes[0].address());
    let broker = Broker::spawn(&seeds, &[]);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    offer(&mut client, &["q", "1h", "x"]);
    empty(&first);
    let ready = || get(&broker, "/readyz");
    within(PATIENCE, ready, |(status, text)| {
        *status == 503 && text.contains("no node of the Cluster serves a slot")
    });
    let range = "CLUSTER ADDSLOTSRANGE 0 16383";
    assert_eq!(say(&mut second.nodes[0].client(0), range).text(), "OK");
    within(PATIENCE, ready, |(status, _)| *status == 200);
    let mut offered = || call(&mut client, &["DQ.OFFER", "q", "1h", "x"]);
    within(PATIENCE, &mut offered, |reply| matches!(reply, Value::Bulk(_)));
}

/// What brokers note of ids is at a primary that is away, and then the number of this one, too.
#[test]
fn a_broker_begins_and_goes_on_without_primaries() {
    let _alone = alone();
    let mut cluster = Cluster::start(5, 0);
    let noted = cluster.owner(cluster.slot("delay_broker_id_time")).unwrap();
    cluster.kill(noted);
    let broker = Broker::spawn(&cluster.url(), &[("redis.node_claim_ms", "6000")]);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    let mut others = (0..5).filter(|node| *node != noted);
    let holds = |node: &usize| {
        let keys = say(&mut cluster.nodes[*node].client(0), "KEYS delay_broker_node:*");
        !keys.elements().is_empty()
    };
    let holder = || others.clone().find(holds);
    let holder = within(PATIENCE, holder, Option::is_some).unwrap();
    broker.has_logged("the time of the last ids cannot be read");
    let queue = cluster.queue_at(others.find(|node| *node != holder).unwrap(), "b");
    let mut offered = || call(&mut client, &["DQ.OFFER", &queue, "1h", "x"]);
    within(PATIENCE, &mut offered, |reply| matches!(reply, Value::Bulk(_)));
    cluster.kill(holder);
    // The claim has ended by then.
    for_a_while(7_000);
    within(PATIENCE, &mut offered, |reply| matches!(reply, Value::Bulk(_)));
}

/// Those who poll a queue that is away do not hold up those who poll another.
#[test]
fn polls_of_a_queue_that_is_away() {
    let _alone = alone();
    let mut cluster = Cluster::start(3, 0);
    let [gone, here] = [0, 1].map(|primary| cluster.queue_at(primary, "l"));
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    client.read_within(PATIENCE).unwrap();
    cluster.kill(0);
    within(PATIENCE, || get(&broker, "/readyz").1, |text| text.contains("2 of 3 primaries"));
    let stop = Arc::<AtomicBool>::default();
    let pollers = [(); 20].map(|()| {
        let (stop, mut client, gone) = (stop.clone(), broker.client(), gone.clone());
        client.read_within(PATIENCE).unwrap();
        thread::spawn(move || {
            let mut refused = 0;
            while !stop.load(Ordering::Relaxed) {
                let reply = say(&mut client, &format!("DQ.POLL {gone}")).text();
                assert!(reply.starts_with("UNAVAILABLE"), "{reply}");
                refused += 1;
            }
            refused
        })
    });
    // The first of them wait for a moment.
    for_a_while(2_500);
    let begun = Instant::now();
    for _ in 0..50 {
        offer(&mut client, &[&here, "1h", "x"]);
        assert_eq!(say(&mut client, &format!("DQ.POLL {here}")).texts(), ["x"]);
    }
    // Each waited for several seconds.
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    let refused: u32 = pollers.into_iter().map(|poller| poller.join().unwrap()).sum();
    assert!(refused > 0);
}
