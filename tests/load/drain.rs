//! Many messages due at once: how long until all are in their list, and who notices.
//!
//! The list is left alone until all is there, so that the broker and Redis are measured and no
//! consumer. Keeps: the whole list is compared with what was offered; at no moment does it hold
//! more than was due.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::figures::{Measure, Row, percentile};
use crate::messages::{EVER, HOUR_MS, Message, Receipt, judge, now_us, spread};
use crate::producer::{Producer, before_due};
use crate::servers::SlowLog;
use crate::sides::{Scene, Side, in_turns};
use crate::support::redis::Redis;
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const QUEUE: &str = "drain";
/// How often the list is looked at, and another connection sends PING.
const PACE: Duration = Duration::from_millis(1);
const PATIENCE_US: u64 = 300_000_000;
/// Offered first, elsewhere, to learn how long the offers will take.
const PILOT: usize = 4000;
/// Messages of the list that are read at a time.
const PAGE: usize = 50_000;

struct Shape {
    ours: Side,
    total: usize,
    /// The messages are due in these many milliseconds.
    spread_ms: u64,
    rounds: usize,
    redisson: usize,
    /// Of seconds, messages a second and the longest script.
    targets: [&'static str; 3],
}

pub fn at_once(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        ours: Side::Broker,
        total: scale.pick(100_000, 10_000),
        spread_ms: 1,
        rounds: scale.pick(3, 1),
        redisson: 1,
        targets: ["<= 0.25", "", ""],
    })
}

pub fn random(scale: Scale) -> Outcome<Row> {
    run(&at_random(scale))
}

fn at_random(scale: Scale) -> Shape {
    Shape {
        ours: Side::Broker,
        total: scale.pick(100_000, 10_000),
        spread_ms: 1000,
        rounds: scale.pick(3, 1),
        redisson: 1,
        targets: ["<= 1", "", "<= 30"],
    }
}

pub fn random_off(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        ours: Side::ListOff,
        redisson: 0,
        targets: ["<= 0.1", "", ""],
        ..at_random(scale)
    })
}

pub fn million(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        ours: Side::Broker,
        total: scale.pick(1_000_000, 20_000),
        spread_ms: 1,
        rounds: scale.pick(3, 1),
        redisson: 0,
        targets: ["", ">= 300,000", ""],
    })
}

/// What one round found.
struct Drained {
    seconds: f64,
    ping_p99_ms: f64,
    ping_max_ms: f64,
    longest_ms: f64,
    received: usize,
    out_of_order: usize,
    faults: Vec<String>,
}

fn run(shape: &Shape) -> Outcome<Row> {
    let mut turns = in_turns(shape.ours, shape.rounds, shape.redisson, |side| {
        before_due([2, 6, 20], |patience| attempt(side, shape, patience))
    })?;
    let mut row = turns.row(|drained| std::mem::take(&mut drained.faults));
    let both = |name: &str, of: &dyn Fn(&Drained) -> f64| {
        let (broker, other) = (turns.broker.iter(), turns.other.iter());
        Measure::both(name, broker.map(of), other.map(of))
    };
    let total = shape.total as f64;
    let [seconds, per_second, longest] = shape.targets;
    row.measures = vec![
        both("s after the last is due", &|round| round.seconds).target(seconds),
        both("PING p99 ms", &|round| round.ping_p99_ms).target("<= 5"),
        both("PING max ms", &|round| round.ping_max_ms),
        both("longest script ms", &|round| round.longest_ms).target(longest),
        both("received", &|round| round.received as f64),
        both("out of order", &|round| round.out_of_order as f64),
    ];
    // Of those due over a time this would be the pace of their due times.
    if shape.spread_ms == 1 {
        let pace = both("messages/s", &|round| total / round.seconds);
        row.measures.insert(1, pace.target(per_second));
    }
    Ok(row)
}

/// None where the offers took longer than `patience` times what the pilot promised.
fn attempt(side: Side, shape: &Shape, patience: u64) -> Outcome<Option<Drained>> {
    let scene = Scene::start(side, &[QUEUE.to_owned()])?;
    let redis = &scene.redis;
    let mut producer = scene.producer()?;
    let mut meter = redis.connect()?;

    let lead_us = 300_000 + patience * pilot(&mut producer)? * (shape.total / PILOT + 1) as u64;
    let start_ms = (now_us() + lead_us) / 1000;
    let mut messages = spread(QUEUE, shape.total, start_ms..start_ms + shape.spread_ms);
    producer.load(&mut messages)?;
    if now_us() / 1000 >= start_ms {
        return Ok(None);
    }
    let mut scores: Vec<u64> = messages.iter().map(|message| message.due_ms).collect();
    scores.sort_unstable();
    let last_due_us = scores.last().copied().unwrap_or_default() * 1000;

    let slow_log = SlowLog::start(&mut meter)?;
    let (done_us, pings) = watch(redis, &mut meter, &scores)?;
    let longest_ms = slow_log.longest_ms(&mut meter, |name| name.starts_with("eval"))?;

    let mut receipts = Vec::with_capacity(shape.total);
    for first in (0..shape.total).step_by(PAGE) {
        let (first, last) = (first.to_string(), (first + PAGE - 1).to_string());
        let page = [b"LRANGE", QUEUE.as_bytes(), first.as_bytes(), last.as_bytes()];
        for payload in meter.ask(&page)?.into_array()? {
            let (payload, at_us) = (payload.into_bytes()?, done_us);
            receipts.push(Receipt { payload, at_us });
        }
    }
    let during: Vec<f64> = pings
        .iter()
        .filter(|(at_us, _)| (start_ms * 1000..=done_us).contains(at_us))
        .map(|(_, ms)| *ms)
        .collect();
    let [ping_p99_ms, ping_max_ms] = [0.99, 1.0].map(|part| percentile(&during, part));
    Ok(Some(Drained {
        seconds: (done_us.saturating_sub(last_due_us)) as f64 / 1e6,
        ping_p99_ms,
        ping_max_ms,
        longest_ms,
        received: receipts.len(),
        out_of_order: out_of_order(&messages, &receipts),
        faults: judge(&messages, &receipts, EVER).faults(),
    }))
}

/// Microseconds that `PILOT` offers take.
fn pilot(producer: &mut Producer) -> Outcome<u64> {
    let started = now_us();
    let due_ms = started / 1000 + HOUR_MS;
    producer.load(&mut spread("pilot", PILOT, due_ms..due_ms + 1))?;
    Ok(now_us() - started)
}

/// When and how long, in milliseconds.
type Pings = Vec<(u64, f64)>;

/// Until the list holds all (or patience ends), with the answers to PING on another connection.
fn watch(redis: &Redis, meter: &mut Client, scores: &[u64]) -> Outcome<(u64, Pings)> {
    let end_us = scores.last().copied().unwrap_or_default() * 1000 + PATIENCE_US;
    let going_on = AtomicBool::new(true);
    let other = redis.connect()?;
    thread::scope(|scope| {
        let pinging = scope.spawn(|| ping(other, &going_on));
        let full = until_full(meter, scores, end_us);
        going_on.store(false, Relaxed);
        let pings = pinging.join().map_err(|_| "the pings failed")??;
        Ok((full?, pings))
    })
}

fn until_full(meter: &mut Client, scores: &[u64], end_us: u64) -> Outcome<u64> {
    loop {
        let held = meter.ask(&[b"LLEN", QUEUE.as_bytes()])?.number()? as usize;
        let at_us = now_us();
        let due = scores.partition_point(|score| score * 1000 <= at_us);
        if held > due && due < scores.len() {
            return Err(format!("early: {held} delivered when {due} were due").into());
        }
        if held >= scores.len() || at_us > end_us {
            return Ok(at_us);
        }
        thread::sleep(PACE);
    }
}

/// At a steady pace. A PING that could not be sent in time, because the one before was not yet
/// answered, counts as sent then and answered with it: a stall is not one slow answer among many.
fn ping(mut redis: Client, going_on: &AtomicBool) -> Outcome<Pings> {
    let pace_us = PACE.as_micros() as u64;
    let mut pings = Vec::new();
    let mut next_us = now_us();
    while going_on.load(Relaxed) {
        thread::sleep(Duration::from_micros(next_us.saturating_sub(now_us())));
        // A sleep ends a little late: that is not Redis's fault.
        let mut from_us = now_us();
        redis.ask(&[b"PING"])?;
        let answered_us = now_us();
        while from_us <= answered_us {
            let ms = (answered_us - from_us) as f64 / 1000.0;
            pings.push((from_us, ms));
            from_us += pace_us;
        }
        next_us = from_us;
    }
    pings.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(pings)
}

/// Neighbours in the list of which the second should be first: by due time, then as offered.
fn out_of_order(messages: &[Message], receipts: &[Receipt]) -> usize {
    let place: std::collections::HashMap<&[u8], (u64, usize)> = messages
        .iter()
        .enumerate()
        .map(|(number, message)| (message.payload.as_slice(), (message.due_ms, number)))
        .collect();
    let at = |receipt: &Receipt| place.get(receipt.payload.as_slice()).copied();
    let wrong = |pair: &&[Receipt]| matches!(pair, [a, b] if at(a) > at(b));
    receipts.windows(2).filter(wrong).count()
}
