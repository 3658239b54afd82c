//! A queue with a million pending messages: delivering some of them all the time, and taking
//! single ones out.
//!
//! Their due times are in no order, so the order list is in another order than the timeout set:
//! the dear case. How busy Redis is includes the meter's BLPOP. Keeps: what was not taken out is
//! still there afterwards.

use std::thread;
use std::time::Duration;

use crate::figures::{Measure, Row, percentile};
use crate::messages::{HOUR_MS, Message, Random, judge, now_us, spread};
use crate::meter::{Meter, late_ones};
use crate::producer::{Producer, keys};
use crate::servers::SlowLog;
use crate::sides::{Scene, Side};
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const QUEUE: &str = "million";

fn pending(scale: Scale) -> usize {
    scale.pick(1_000_000, 20_000)
}

pub fn steady(scale: Scale) -> Outcome<Row> {
    steady_of(scale, Side::Broker, "< 50", "<= 250")
}

pub fn steady_off(scale: Scale) -> Outcome<Row> {
    steady_of(scale, Side::ListOff, "< 5", "<= 5")
}

const DUE_A_SECOND: usize = 500;
/// What becomes due in 250 ms.
const KEEPS_UP: &str = "<= 125";
/// What became due while all was loaded must not be seen in the figures.
const SETTLE_MS: u64 = 1000;
/// How long a message that was due in the window may take.
const PATIENCE_MS: u64 = 5000;

/// They are due from the first offer on, so that when all are loaded it goes on as it did.
fn steady_of(scale: Scale, side: Side, busy: &str, p99: &str) -> Outcome<Row> {
    let names = [QUEUE.to_owned()];
    let scene = Scene::start(side, &names)?;
    let redis = &scene.redis;
    let (mut producer, mut control) = (scene.producer()?, redis.connect()?);
    let now_ms = now_us() / 1000;
    let spread_ms = (pending(scale) * 1000 / DUE_A_SECOND) as u64;
    let mut messages = spread(QUEUE, pending(scale), now_ms..now_ms + spread_ms);
    let meter = Meter { queues: &names, connections: 1, many: false, total: messages.len() };
    let (mut window, mut busy_percent, mut longest_ms) = (0..0, 0.0, 0.0);
    let receipts = meter.run(redis, || {
        producer.load(&mut messages)?;
        thread::sleep(Duration::from_millis(SETTLE_MS));
        let slow_log = SlowLog::start(&mut control)?;
        let (before, start_us) = (redis.cpu_seconds()?, now_us());
        thread::sleep(Duration::from_secs(scale.pick(60, 3)));
        let end_us = now_us();
        busy_percent = (redis.cpu_seconds()? - before) * 1e8 / (end_us - start_us) as f64;
        longest_ms = slow_log.longest_ms(&mut control, |name| name.starts_with("eval"))?;
        window = start_us / 1000..end_us / 1000;
        // What is due until then may come early in this time, too.
        Ok(end_us + PATIENCE_MS * 1000)
    })?;
    let mut judged = judge(&messages, &receipts, window.clone());
    // What is still pending is late, not lost; how much, says another figure.
    let ([_, timeout, ..], end) = (keys(QUEUE), window.end.to_string());
    let pending = control.ask(&[b"ZCOUNT", timeout.as_bytes(), b"-inf", end.as_bytes()])?;
    let pending = pending.number()? as usize;
    judged.lost = judged.lost.saturating_sub(pending);
    let note = (pending > 0).then(|| late_ones(pending));
    let due = messages.iter().filter(|one| window.contains(&one.due_ms));
    let behind = receipts.iter().filter(|one| one.at_us <= window.end * 1000);
    let due_by_end = messages.iter().filter(|one| one.due_ms < window.end);
    let behind = due_by_end.count().saturating_sub(behind.count());
    let due = due.count() as f64 * 1000.0 / (window.end - window.start) as f64;
    let of = |part| percentile(&judged.lateness_ms, part);
    Ok(Row {
        measures: vec![
            Measure::one("Redis busy %", busy_percent).target(busy),
            Measure::one("p50 ms", of(0.5)),
            Measure::one("p99 ms", of(0.99)).target(p99),
            Measure::one("max ms", of(1.0)),
            Measure::one("due/s", due),
            Measure::one("behind at the end", behind as f64).target(KEEPS_UP),
            Measure::one("longest script ms", longest_ms),
            Measure::one("early", judged.early as f64).target("0"),
        ],
        faults: judged.faults(),
        notes: note.into_iter().collect(),
        ..Row::default()
    })
}

/// A scene with all of them, due in an hour or two.
struct Loaded {
    scene: Scene,
    broker: Client,
    messages: Vec<Message>,
}

impl Loaded {
    fn start(scale: Scale, side: Side) -> Outcome<Self> {
        let scene = Scene::start(side, &[QUEUE.to_owned()])?;
        let mut producer = scene.producer()?;
        let due_ms = now_us() / 1000 + HOUR_MS;
        let mut messages = spread(QUEUE, pending(scale), due_ms..due_ms + HOUR_MS);
        producer.load(&mut messages)?;
        let Producer::Broker(broker) = producer else {
            return Err("only the broker knows its commands".into());
        };
        Ok(Loaded { scene, broker, messages })
    }

    /// What is wrong with what is left, after so many were taken out.
    fn faults(&self, taken: usize) -> Outcome<Vec<String>> {
        let [list, timeout, ..] = keys(QUEUE);
        let mut redis = self.scene.redis.connect()?;
        let pending = redis.ask(&[b"ZCARD", timeout.as_bytes()])?.number()? as usize;
        let came = redis.ask(&[b"LLEN", list.as_bytes()])?.number()?;
        let expected = self.messages.len() - taken;
        let wrong = pending != expected || came > 0;
        let text = format!("{pending} are pending and {came} delivered, not {expected} and 0");
        Ok(wrong.then_some(text).into_iter().collect())
    }
}

pub fn cancel(scale: Scale) -> Outcome<Row> {
    cancel_of(scale, Side::Broker, "<= 20")
}

pub fn cancel_off(scale: Scale) -> Outcome<Row> {
    cancel_of(scale, Side::ListOff, "<= 1")
}

fn cancel_of(scale: Scale, side: Side, target: &str) -> Outcome<Row> {
    let mut loaded = Loaded::start(scale, side)?;
    let mut redis = loaded.scene.redis.connect()?;
    let slow_log = SlowLog::start(&mut redis)?;
    // A step that meets each of them once, all over the queue.
    let (count, mut random) = (scale.pick(1000, 200), Random::new());
    let first = random.below(loaded.messages.len() as u64) as usize;
    let step = loaded.messages.len() / count + 1;
    let (mut times_ms, mut missing) = (Vec::with_capacity(count), 0);
    for number in 0..count {
        let place = (first + number * step) % loaded.messages.len();
        let id = loaded.messages.get(place).map_or(&[][..], |one| &one.id);
        let started_us = now_us();
        let cancelled = loaded.broker.ask(&[b"DQ.CANCEL", QUEUE.as_bytes(), id])?;
        times_ms.push((now_us() - started_us) as f64 / 1000.0);
        missing += usize::from(cancelled.number()? != 1);
    }
    times_ms.sort_by(f64::total_cmp);
    let mut faults = loaded.faults(count - missing)?;
    faults.extend((missing > 0).then(|| format!("{missing} of {count} were not there")));
    let longest_ms = slow_log.longest_ms(&mut redis, |name| name.starts_with("eval"))?;
    let of = |part| percentile(&times_ms, part);
    Ok(Row {
        measures: vec![
            Measure::one("p50 ms", of(0.5)),
            Measure::one("p99 ms", of(0.99)).target(target),
            Measure::one("max ms", of(1.0)),
            Measure::one("longest script ms", longest_ms),
        ],
        faults,
        ..Row::default()
    })
}

pub fn remove(scale: Scale) -> Outcome<Row> {
    let mut loaded = Loaded::start(scale, Side::Broker)?;
    let mut redis = loaded.scene.redis.connect()?;
    let (total, rounds) = (loaded.messages.len(), scale.pick(3, 1));
    let (mut measures, mut faults) = (Vec::new(), Vec::new());
    for (name, first) in [("last", total - rounds), ("in the middle", total / 2)] {
        let (mut seconds, mut longest_ms) = (Vec::new(), Vec::new());
        for message in loaded.messages.iter().skip(first).take(rounds) {
            let slow_log = SlowLog::start(&mut redis)?;
            let started_us = now_us();
            let remove: [&[u8]; 3] = [b"DQ.REMOVE", QUEUE.as_bytes(), &message.payload];
            let removed = loaded.broker.ask(&remove)?.number()?;
            seconds.push((now_us() - started_us) as f64 / 1e6);
            longest_ms.push(slow_log.longest_ms(&mut redis, |name| name != "config")?);
            if removed != 1 {
                faults.push(format!("{name}: {removed} removed, not 1"));
            }
        }
        let call = format!("{name}: longest call ms");
        measures.extend([
            Measure::broker(format!("{name}: s"), seconds.into_iter()).target("<= 2"),
            Measure::broker(call, longest_ms.into_iter()).target("<= 20"),
        ]);
    }
    faults.extend(loaded.faults(2 * rounds)?);
    Ok(Row { measures, faults, ..Row::default() })
}
