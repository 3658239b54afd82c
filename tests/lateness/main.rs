//! Bounds lateness: the real program, a real Redis, a thousand messages at random times.
//!
//! A binary of its own, since `cargo test` runs these one after another: no other test takes the
//! processors meanwhile. The moments are those at which Redis appends to the list, as its MONITOR
//! tells them, so that no consumer adds its own lateness.
//!
//! A machine that is busy with other things wakes everybody late. A thread of the test measures how
//! late it is woken itself; a due message needs three such wakings: broker, Redis, and the work
//! before them.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../flow/stage.rs"]
#[allow(dead_code)]
mod stage;
#[path = "../support/mod.rs"]
mod support;

use stage::{Stage, call, due_of};
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use support::random::Random;
use support::resp::{Client, Value, encode};

const MESSAGES: usize = 1_000;
const P99_MAX: Duration = Duration::from_millis(5);
/// A machine that does something else for a moment is no lateness of ours: the best one counts.
const TRIES: u64 = 12;
const WAKINGS: u32 = 3;

#[test]
fn the_99th_percentile_is_bounded() {
    let mut tries = Vec::new();
    for seed in 0..TRIES {
        let (end, ended) = mpsc::channel();
        let watch = thread::spawn(move || late_wakings(&ended));
        let late = p99(lateness(seed));
        drop(end);
        let woken_late = p99(watch.join().unwrap());
        if late <= P99_MAX.max(WAKINGS * woken_late) {
            return;
        }
        tries.push((late, woken_late));
    }
    panic!("p99 of lateness, and of the wakings of a thread, in {TRIES} tries: {tries:?}");
}

fn p99(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() * 99 / 100 - 1]
}

/// How late a thread is woken that waits for a millisecond each time, until the other end goes.
fn late_wakings(ended: &mpsc::Receiver<()>) -> Vec<Duration> {
    const WAIT: Duration = Duration::from_millis(1);
    let mut late = Vec::new();
    loop {
        let began = Instant::now();
        if ended.recv_timeout(WAIT) == Err(mpsc::RecvTimeoutError::Disconnected) {
            return late;
        }
        // A stall makes all late that would have been woken meanwhile.
        let mut one = began.elapsed().saturating_sub(WAIT);
        late.push(one);
        while one > WAIT {
            one -= WAIT;
            late.push(one);
        }
    }
}

fn lateness(seed: u64) -> Vec<Duration> {
    let stage = Stage::alone(&[]);
    let mut monitor = Client::connect(stage.redis_address()).unwrap();
    assert_eq!(call(&mut monitor, &["MONITOR"]), Value::Simple("OK".into()));
    let mut client = stage.broker.client();
    let (mut random, mut commands) = (Random::new(seed), Vec::new());
    for n in 0..MESSAGES {
        let delay = (500 + random.below(4_000)).to_string();
        commands.extend(encode(&["DQ.OFFER", "q", &delay, &format!("m-{n}")]));
    }
    client.send_bytes(&commands).unwrap();
    let reply = |n| (format!("m-{n}"), due_of(&client.read().unwrap().text()) * 1_000);
    let mut due_us: HashMap<String, u64> = (0..MESSAGES).map(reply).collect();
    let mut late = Vec::with_capacity(MESSAGES);
    while late.len() < MESSAGES {
        let line = monitor.read().unwrap().text();
        let Some((at_us, payloads)) = appended(&line) else {
            continue;
        };
        for payload in payloads {
            let due_us = due_us.remove(payload).unwrap_or_else(|| panic!("{line}: not pending"));
            assert!(at_us >= due_us, "{payload} is early by {} us", due_us - at_us);
            late.push(Duration::from_micros(at_us - due_us));
        }
    }
    late
}

/// The moment, and the payloads, of `1795259193.264045 [0 lua] "rpush" "q" "m-1" "m-2"`.
fn appended(line: &str) -> Option<(u64, Vec<&str>)> {
    let mut words = line.split('"').step_by(2).zip(line.split('"').skip(1).step_by(2));
    let (head, command) = words.next()?;
    let is_ours = command.eq_ignore_ascii_case("rpush") && words.next()?.1 == "q";
    let (seconds, micros) = head.split_once(' ')?.0.split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    is_ours.then(|| (at_us, words.map(|(_, payload)| payload).collect()))
}
