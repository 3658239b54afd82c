//! Messages of Redisson's own clients, whose ids are in no order, due in another order than they
//! were offered in: what the broker's transfers take of Redis, and how late messages are.
//!
//! Twice: by a broker that has just delivered many others in their order, so that it is used to
//! large transfers; and by one that starts when the first are due. Keeps: the whole list is
//! compared with what was offered.

use std::thread;
use std::time::Duration;

use crate::figures::{Measure, Row, percentile};
use crate::messages::{HOUR_MS, Receipt, judge, now_us, spread};
use crate::producer::{Producer, before_due};
use crate::servers::{self, NO_FILE, SlowLog};
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const QUEUE: &str = "foreign";
/// How often the list is looked at.
const PACE: Duration = Duration::from_millis(1);
const PATIENCE_US: u64 = 60_000_000;
/// Delivered before by the broker that is warm; offered elsewhere before, to learn how long the
/// offers will take.
const WARM: usize = 20_000;

struct Shape {
    /// In the names of what is measured.
    prefix: &'static str,
    total: usize,
    spread_ms: u64,
    /// Those that are due within this time are waited for.
    window_ms: u64,
    rounds: usize,
}

/// What one round found.
struct Found {
    longest_ms: f64,
    after_s: f64,
    p99_ms: f64,
    faults: Vec<String>,
}

pub fn random(scale: Scale) -> Outcome<Row> {
    let shape = Shape {
        prefix: "",
        total: scale.pick(100_000, 10_000),
        spread_ms: scale.pick(20_000, 2_000),
        window_ms: scale.pick(20_000, 2_000),
        rounds: scale.pick(3, 1),
    };
    // 500 are due a second.
    let million = Shape {
        prefix: "of a million, ",
        total: scale.pick(1_000_000, 20_000),
        spread_ms: scale.pick(2_000_000, 40_000),
        window_ms: scale.pick(20_000, 1_000),
        rounds: 1,
    };
    let mut row = Row::default();
    for (shape, warm) in [(&shape, true), (&shape, false), (&million, true), (&million, false)] {
        let mut rounds = Vec::new();
        for _ in 0..shape.rounds {
            rounds.push(before_due([3, 10, 30], |patience| round(shape, warm, patience))?);
        }
        let start = if warm { "" } else { ", started when due" };
        let name = |what| format!("{}{what}{start}", shape.prefix);
        let all = |of: fn(&Found) -> f64| rounds.iter().map(of).collect::<Vec<f64>>().into_iter();
        row.measures.extend([
            Measure::broker(name("longest script ms"), all(|one| one.longest_ms)).target("<= 30"),
            Measure::broker(name("p99 ms"), all(|one| one.p99_ms)).target("<= 1000"),
            Measure::broker(name("s after the last is due"), all(|one| one.after_s)),
        ]);
        row.faults.extend(rounds.into_iter().flat_map(|one| one.faults));
    }
    Ok(row)
}

/// None if the first were due before all were offered; then with more `patience`.
fn round(shape: &Shape, warm: bool, patience: u64) -> Outcome<Option<Found>> {
    let redis = servers::redis(NO_FILE);
    let mut meter = redis.connect()?;
    let mut producer = Producer::script(redis.connect()?)?;
    let mut broker = None;
    if warm {
        broker = Some(servers::broker(&redis, &[]));
    }

    let started_us = now_us();
    let due_ms = started_us / 1_000 + if warm { 0 } else { HOUR_MS };
    producer.load(&mut spread(QUEUE, WARM, due_ms..due_ms + 1))?;
    let each_us = (now_us() - started_us) / WARM as u64;
    if warm {
        let end_us = now_us() + PATIENCE_US;
        until(&mut meter, WARM, end_us)?;
        meter.ask(&[b"DEL", QUEUE.as_bytes()])?;
    } else {
        // Nothing of it is left.
        meter.ask(&[b"FLUSHALL"])?;
        producer = Producer::script(redis.connect()?)?;
    }

    let lead_us = 1_000_000 + patience * each_us * shape.total as u64;
    let start_ms = (now_us() + lead_us) / 1_000;
    let mut messages = spread(QUEUE, shape.total, start_ms..start_ms + shape.spread_ms);
    producer.load(&mut messages)?;
    if now_us() / 1_000 >= start_ms {
        return Ok(None);
    }
    let slow_log = SlowLog::start(&mut meter)?;
    thread::sleep(Duration::from_micros((start_ms * 1_000).saturating_sub(now_us())));
    let broker = match broker {
        Some(broker) => broker,
        None => servers::broker(&redis, &[]),
    };
    let window = start_ms..start_ms + shape.window_ms;
    let due = || messages.iter().map(|one| one.due_ms).filter(|due_ms| window.contains(due_ms));
    let last_due_us = due().max().unwrap_or_default() * 1_000;
    let seen = until(&mut meter, due().count(), last_due_us + PATIENCE_US)?;
    let longest_ms = slow_log.longest_ms(&mut meter, |name| name.starts_with("eval"))?;
    drop(broker);
    let done_us = seen.last().map_or(0, |(at_us, _)| *at_us);
    let receipts = receipts(&mut meter, &seen)?;
    let judged = judge(&messages, &receipts, window);
    Ok(Some(Found {
        longest_ms,
        after_s: done_us.saturating_sub(last_due_us) as f64 / 1e6,
        p99_ms: percentile(&judged.lateness_ms, 0.99),
        faults: judged.faults(),
    }))
}

/// When the list was seen to hold how many, until all are there or patience ends.
type Seen = Vec<(u64, usize)>;

fn until(meter: &mut Client, total: usize, end_us: u64) -> Outcome<Seen> {
    let mut seen = Seen::new();
    loop {
        let held = meter.ask(&[b"LLEN", QUEUE.as_bytes()])?.number()? as usize;
        let at_us = now_us();
        if seen.last().is_none_or(|(_, before)| *before < held) {
            seen.push((at_us, held));
        }
        if held >= total || at_us > end_us {
            return Ok(seen);
        }
        thread::sleep(PACE);
    }
}

/// What the list holds, with the moment at which each was seen there.
fn receipts(meter: &mut Client, seen: &Seen) -> Outcome<Vec<Receipt>> {
    let mut receipts = Vec::new();
    let mut from = 0;
    for &(at_us, held) in seen.iter().filter(|(_, held)| *held > 0) {
        let (first, last) = (from.to_string(), (held - 1).to_string());
        let page = [b"LRANGE", QUEUE.as_bytes(), first.as_bytes(), last.as_bytes()];
        for payload in meter.ask(&page)?.into_array()? {
            let payload = payload.into_bytes()?;
            receipts.push(Receipt { payload, at_us });
        }
        from = held;
    }
    Ok(receipts)
}
