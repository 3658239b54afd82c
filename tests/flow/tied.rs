//! Leases that end with their connection (`DQ.TAKE ... TIED`).

use crate::stage::{ON_TIME, SOON, Stage, call, eventually, info, metric, say, sorted};
use crate::support::resp::Client;
use crate::support::wait::within;
use crate::taking::{
    Taken, ack, came, dead, held, in_line, push, push_to, read, settle, take, take_one, waits,
};
use std::time::{Duration, Instant};

/// The messages that wait for a retry, as (payload's id, from).
fn waiting(client: &mut Client) -> Vec<String> {
    let reply = say(client, "DQ.TAKEN q WAITING COUNT 1000");
    reply.elements()[1].elements().iter().map(|row| row.elements()[1].text()).collect()
}

/// Until so many are leased.
fn leased(client: &mut Client, count: i64) {
    eventually(&format!("{count} leased"), || {
        (info(client, "q", "leased").int() == count).then_some(())
    });
}

fn take_all(taker: &mut Client, count: usize) -> Vec<Taken> {
    let mut all: Vec<Taken> = Vec::new();
    while all.len() < count {
        all.extend(read(&call(taker, &["DQ.TAKE", "q", "COUNT", "1000", "BLOCK", "9s"])));
    }
    all
}

#[test]
fn what_a_client_leaves_comes_back_at_once_and_counts() {
    let mut stage = Stage::new(&[]);
    let mut best = SOON;
    // A machine that is busy with other things may be late, but not each time.
    for round in 1..=10 {
        let mut crashes = stage.broker.client();
        push(&mut stage.redis, &["a", "b", "c", "d", "e"]);
        assert_eq!(take(&mut crashes, "q COUNT 5 TIED LEASE 1h").len(), 5);
        let mut next = waits(&stage.broker, "q COUNT 5 BLOCK 0");
        drop(crashes);
        let begun = Instant::now();
        let mut all = read(&next.read().unwrap());
        best = best.min(begun.elapsed());
        all.extend(take_all(&mut next, 5 - all.len()));
        assert!(all.iter().all(|one| one.attempt == 2), "{all:?}");
        for taken in &all {
            assert_eq!(ack(&mut next, taken), 1);
        }
        counted(&stage, f64::from(5 * round));
        if best < Duration::from_millis(100) {
            break;
        }
    }
    assert!(best < Duration::from_millis(100), "{best:?}");
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// Until the broker has counted so many as given back.
fn counted(stage: &Stage, nacked: f64) {
    let name = "delay_broker_messages_nacked_total{queue=\"q\"}";
    let now = || metric(&stage.broker, name);
    within(SOON, now, |now| *now >= nacked);
    assert_eq!(now(), nacked);
}

/// A program that crashes at a message reaches the limit.
#[test]
fn a_crash_counts_until_the_limit() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, "DQ.SETUP q limit 4");
    push(&mut stage.redis, &["m"]);
    for attempt in 1..=4 {
        let mut crashes = stage.broker.client();
        let taken = take_one(&mut crashes, "q BLOCK 9s LEASE 1h TIED");
        assert_eq!(taken.attempt, attempt);
    }
    eventually("it is dead", || (info(&mut client, "q", "dead").int() == 1).then_some(()));
    assert_eq!(dead(&mut client), [("m".into(), 4, "connection closed".into())]);
}

/// Each message of a connection, settled by itself or by another one of its pool.
#[test]
fn a_pool_of_connections() {
    let mut stage = Stage::new(&[]);
    let (mut own, mut other) = (stage.broker.client(), stage.broker.client());
    push(&mut stage.redis, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let taken = take(&mut own, "q COUNT 8 TIED LEASE 1h");
    let [a, b, c, d, e, f, g, h] = taken.try_into().unwrap();
    for (is_own, command, which, words) in [
        (false, "DQ.ACK", &a, &[][..]),
        (false, "DQ.NACK", &b, &["DELAY", "1h"]),
        (false, "DQ.NACK", &c, &["FATAL"]),
        (false, "DQ.EXTEND", &d, &["LEASE", "2h"]),
        (true, "DQ.ACK", &e, &[]),
        (true, "DQ.NACK", &f, &["DELAY", "1h"]),
        (true, "DQ.EXTEND", &g, &[]),
        // Another one has it then, for as long as it likes.
        (false, "DQ.NACK", &h, &["DELAY", "0"]),
    ] {
        let who = if is_own { &mut own } else { &mut other };
        assert_eq!(settle(who, command, which, words), 1, "{command} {which:?}");
    }
    let again = take_one(&mut other, "q BLOCK 9s LEASE 1h");
    assert_eq!((&*again.payload, again.attempt), ("h", 2));
    drop(own);
    let mut back: Vec<String> =
        take_all(&mut other, 2).into_iter().map(|one| one.payload).collect();
    back.sort();
    assert_eq!(back, ["d", "g"]);
    assert_eq!(sorted(waiting(&mut other)), sorted(vec![b.id, f.id]));
    assert_eq!(dead(&mut other).len(), 1);
    assert_eq!(ack(&mut other, &again), 1);
}

/// However a connection ends, and RESET, which leaves it as a new one.
#[test]
fn each_end_of_a_connection() {
    let mut stage = Stage::new(&[("server.idle_timeout_s", "2")]);
    for end in ["closed", "QUIT", "RESET", "CLIENT KILL", "in the middle of a command", "idle"] {
        let mut client = stage.broker.client();
        let id = say(&mut client, "CLIENT ID").text();
        push(&mut stage.redis, &[end]);
        push_to(&mut stage.redis, "b", &[end]);
        assert_eq!(take(&mut client, "q TIED LEASE 1h").len(), 1);
        // And of another queue.
        assert_eq!(take(&mut client, "b TIED LEASE 1h").len(), 1);
        let mut open = None;
        match end {
            "closed" => drop(client),
            "CLIENT KILL" => {
                say(&mut stage.broker.client(), &format!("CLIENT KILL ID {id}"));
            }
            "in the middle of a command" => client.send_bytes(b"*3\r\n$6\r\nDQ.ACK\r\n").unwrap(),
            "idle" => open = Some(client),
            words => drop(say(&mut client, words)),
        }
        let mut next = stage.broker.client();
        for words in ["q BLOCK 9s", "b BLOCK 9s"] {
            let taken = take_one(&mut next, words);
            assert_eq!((&*taken.payload, taken.attempt), (end, 2), "{words}");
        }
        drop(open);
    }
}

/// Without TIED a lease is nobody's, also on a connection that has tied ones.
#[test]
fn other_leases_stay() {
    let mut stage = Stage::new(&[]);
    let (mut own, mut other) = (stage.broker.client(), stage.broker.client());
    push(&mut stage.redis, &["a", "b"]);
    let stays = take_one(&mut own, "q LEASE 1h");
    take_one(&mut own, "q LEASE 1h TIED");
    drop(own);
    assert_eq!(take_one(&mut other, "q BLOCK 9s").payload, "b");
    assert_eq!(ack(&mut other, &stays), 1);
}

/// Its client goes on at another broker, and settles there what it has.
#[test]
fn a_broker_that_stops_gives_nothing_back() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["m"]);
    let taken = take_one(&mut client, "q TIED LEASE 1h");
    let mut waiting = waits(&stage.broker, "q BLOCK 0");
    stage.broker.signal("TERM");
    assert!(stage.broker.wait(SOON).success());
    assert!(came(&mut waiting).is_empty());
    assert_eq!(held(&mut stage.redis), [1, 0, 0, 1, 0]);
    let other = stage.another(&[]);
    assert_eq!(ack(&mut other.client(), &taken), 1);
}

/// A thousand leases are remembered; the oldest beyond runs out instead, as if it was not tied.
/// An extended one is the newest.
#[test]
fn the_oldest_is_forgotten() {
    let mut stage = Stage::new(&[]);
    let (mut own, mut other) = (stage.broker.client(), stage.broker.client());
    let payloads: Vec<String> = (0..1_002).map(|n| n.to_string()).collect();
    push(&mut stage.redis, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
    let first = take(&mut own, "q COUNT 1000 TIED LEASE 1h");
    assert_eq!(first.len(), 1_000);
    assert_eq!(settle(&mut own, "DQ.EXTEND", &first[0], &["LEASE", "1h"]), 1);
    assert_eq!(take(&mut own, "q COUNT 2 TIED LEASE 1h").len(), 2);
    drop(own);
    leased(&mut other, 2);
    assert_eq!(waiting(&mut other).len(), 1_000);
    for forgotten in &first[1..3] {
        assert_eq!(ack(&mut other, forgotten), 1);
    }
    assert_eq!(held(&mut stage.redis)[..3], [0, 1_000, 0]);
}

/// Connections that close all at once, with more leases than are remembered of all together: what
/// is remembered comes back, however many calls that takes, and the rest runs out.
#[test]
fn a_crowd_that_leaves() {
    const EACH: usize = 1_000;
    let mut stage = Stage::new(&[]);
    let payloads = vec!["m"; EACH];
    let mut crowd: Vec<Client> = Vec::new();
    for _ in 0..101 {
        push(&mut stage.redis, &payloads);
        let mut client = stage.broker.client();
        assert_eq!(take(&mut client, "q COUNT 1000 TIED LEASE 1h").len(), EACH);
        crowd.push(client);
    }
    drop(crowd);
    let back = || held(&mut stage.redis)[..2].to_vec();
    within(Duration::from_secs(90), back, |back| *back == [1_000, 100_000]);
    counted(&stage, 100_000.0);
}

/// A client that leaves while its ACK is under way has settled it, and what it did not settle
/// comes back.
#[test]
fn behind_the_last_command() {
    let mut stage = Stage::new(&[]);
    let mut other = stage.broker.client();
    for round in 0..20 {
        let mut own = stage.broker.client();
        push(&mut stage.redis, &["a", "b"]);
        let [a, b] = take(&mut own, "q COUNT 2 TIED LEASE 1h").try_into().unwrap();
        own.send(&["DQ.ACK", "q", &a.receipt]).unwrap();
        own.send(&["DQ.TAKE", "q", "TIED", "BLOCK", "0"]).unwrap();
        drop(own);
        let back = take_one(&mut other, "q BLOCK 9s");
        assert_eq!((&back.payload, back.attempt), (&b.payload, 2), "round {round}");
        assert_eq!(ack(&mut other, &back), 1);
        in_line(&mut other, 0);
    }
    let begun = Instant::now();
    leased(&mut other, 0);
    assert!(begun.elapsed() < ON_TIME);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}
