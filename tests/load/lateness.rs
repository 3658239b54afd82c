//! How late messages reach a consumer: from the due time to the moment BLPOP returns it.
//!
//! In the busy rows messages are offered all the while, at a pace that waits for nobody. Keeps:
//! every message is accounted for.

use std::time::Duration;

use crate::figures::{Curve, Measure, Row, percentile};
use crate::messages::{EVER, Judged, Message, Random, Receipt, judge, now_us};
use crate::meter::{Meter, late_ones};
use crate::producer::{Due, keys};
use crate::servers::NO_FILE;
use crate::sides::{Scene, Side, in_turns};
use crate::support::redis::Redis;
use crate::{Outcome, Scale};

/// How long after the last due time a message may still come and not be lost.
const PATIENCE_MS: u64 = 10_000;

struct Shape {
    queues: usize,
    per_second: u64,
    seconds: u64,
    connections: usize,
    rounds: usize,
    targets: [&'static str; 3],
}

fn alone(scale: Scale) -> Shape {
    Shape {
        queues: 1,
        per_second: 100,
        seconds: scale.pick(20, 2),
        connections: 1,
        rounds: scale.pick(3, 1),
        targets: ["<= 0.4", "<= 1.5", "<= 10"],
    }
}

pub fn one_queue(scale: Scale) -> Outcome<Row> {
    run(&alone(scale))
}

/// Ten keys each: two messages due on one connection while it is between two calls are rare.
pub fn many_queues(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        queues: 1000,
        per_second: 1000,
        seconds: scale.pick(60, 2),
        connections: 100,
        rounds: scale.pick(2, 1),
        targets: ["<= 0.6", "<= 2", "<= 20"],
    })
}

/// The broker's, with these arguments of Redis: p50 and p99 in milliseconds, and faults.
pub fn with_redis(scale: Scale, args: &[&str]) -> Outcome<([f64; 2], Vec<String>)> {
    let (judged, faults) = round(&alone(scale), Side::Broker, args)?;
    let figures = [0.5, 0.99].map(|part| percentile(&judged.lateness_ms, part));
    Ok((figures, faults))
}

fn run(shape: &Shape) -> Outcome<Row> {
    let one = |side| round(shape, side, NO_FILE);
    let mut turns = in_turns(Side::Broker, shape.rounds, shape.rounds, one)?;
    let mut row = turns.row(|(_, faults)| std::mem::take(faults));
    let [broker, other] = [&turns.broker, &turns.other].map(|side| side.iter().map(|one| &one.0));
    let names = ["p50 ms", "p99 ms", "max ms"];
    for ((name, part), target) in names.into_iter().zip([0.5, 0.99, 1.0]).zip(shape.targets) {
        let of = |judged: &Judged| percentile(&judged.lateness_ms, part);
        let measure = Measure::both(name, broker.clone().map(of), other.clone().map(of));
        row.measures.push(measure.target(target));
    }
    let both = |name, of: fn(&Judged) -> f64| {
        Measure::both(name, broker.clone().map(of), other.clone().map(of))
    };
    row.measures.extend([
        both("early", |judged| judged.early as f64).target("0"),
        both("received", |judged| judged.lateness_ms.len() as f64),
    ]);
    let late = |judged: &Judged| judged.lateness_ms.clone();
    let curve = Curve::of(broker.flat_map(late).collect(), other.flat_map(late).collect());
    row.curves.push(curve);
    Ok(row)
}

/// Also what broke a promise.
fn round(shape: &Shape, side: Side, args: &[&str]) -> Outcome<(Judged, Vec<String>)> {
    let names: Vec<String> = (0..shape.queues).map(|n| format!("late:{n}")).collect();
    let scene = Scene::with(side, &names, args)?;
    let mut producer = scene.producer()?;
    let mut random = Random::new();
    let total = (shape.per_second * shape.seconds) as usize;
    // The offers themselves must be over by the first due time.
    let start_ms = now_us() / 1000 + 1000 + total as u64 / 20;
    let mut messages: Vec<Message> = (0..total)
        .map(|number| {
            let queue = random.below(shape.queues as u64) as usize;
            let name = names.get(queue).map_or("", String::as_str);
            Message::new(name, number, start_ms + random.below(shape.seconds * 1000))
        })
        .collect();
    let meter = Meter { queues: &names, connections: shape.connections, many: false, total };
    let receipts = meter.run(&scene.redis, || {
        producer.offer(&mut messages, Due::At)?;
        Ok((start_ms + shape.seconds * 1000 + PATIENCE_MS) * 1000)
    })?;
    let judged = judge(&messages, &receipts, EVER);
    let mut faults = judged.faults();
    // Whatever a queue still holds after all was received was delivered twice.
    let held = held(&scene.redis, &names)?;
    faults.extend((held > 0).then(|| format!("{held} messages are in Redis after the end")));
    Ok((judged, faults))
}

fn held(redis: &Redis, names: &[String]) -> Outcome<usize> {
    let mut redis = redis.connect()?;
    let mut held = 0;
    for name in names {
        let [list, pending, ..] = keys(name);
        // In one, since a message may be moved from one to the other.
        let both = b"return redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])";
        held += redis.ask(&[b"EVAL", both, b"2", list.as_bytes(), pending.as_bytes()])?.number()?;
    }
    Ok(held as usize)
}

const BUSY: &str = "busy";
const BUSY_A_SECOND: u64 = 20_000;
const BUSY_DELAY_MS: u64 = 2000;
/// Of the offers.
const PACE: Duration = Duration::from_millis(5);
/// A message that is not there so long after it was due when the offers end is behind.
const BEHIND_MS: u64 = 500;

pub fn busy(scale: Scale) -> Outcome<Row> {
    busy_of(scale, Side::Broker, 1, "<= 20")
}

pub fn busy_off(scale: Scale) -> Outcome<Row> {
    busy_of(scale, Side::ListOff, 0, "<= 5")
}

struct Busy {
    judged: Judged,
    /// Still pending when all was over.
    left: usize,
    /// Messages that were behind when the offers ended, of 100 due.
    behind: f64,
    offered_a_second: f64,
    /// Until the offers ended.
    taken_a_second: f64,
}

fn busy_of(scale: Scale, ours: Side, redisson: usize, p99: &str) -> Outcome<Row> {
    let rounds = scale.pick(2, 1);
    let mut turns = in_turns(ours, rounds, redisson, |side| {
        // It is behind at once, and stays behind: no need to wait for long.
        let seconds = match side {
            Side::Redisson => scale.pick(10, 2),
            _ => scale.pick(30, 2),
        };
        busy_round(side, seconds)
    })?;
    let mut row = turns.row(|busy| busy.judged.faults());
    let both = |name: &str, of: &dyn Fn(&Busy) -> f64| {
        let (broker, other) = (turns.broker.iter(), turns.other.iter());
        Measure::both(name, broker.map(of), other.map(of))
    };
    for (name, side) in [("broker", &turns.broker), ("other side", &turns.other)] {
        let left = side.iter().map(|busy| busy.left).filter(|left| *left > 0);
        let notes = left.map(|left| format!("{name}: {}", late_ones(left)));
        row.notes.extend(notes);
    }
    let part = |part| move |busy: &Busy| percentile(&busy.judged.lateness_ms, part);
    row.measures = vec![
        both("behind at the end %", &|busy| busy.behind).target("0"),
        both("p50 ms", &part(0.5)),
        both("p99 ms", &part(0.99)).target(p99),
        both("max ms", &part(1.0)),
        both("offered/s", &|busy| busy.offered_a_second),
        both("delivered/s meanwhile", &|busy| busy.taken_a_second),
        both("early", &|busy| busy.judged.early as f64).target("0"),
    ];
    Ok(row)
}

fn busy_round(side: Side, seconds: u64) -> Outcome<Busy> {
    let names = [BUSY.to_owned()];
    let scene = Scene::start(side, &names)?;
    let mut producer = scene.producer()?;
    let total = (BUSY_A_SECOND * seconds) as usize;
    let mut random = Random::new();
    let mut messages: Vec<Message> =
        (0..total).map(|number| Message::new(BUSY, number, random.below(BUSY_DELAY_MS))).collect();
    let meter = Meter { queues: &names, connections: 1, many: true, total };
    let mut window = 0..0;
    let receipts = meter.run(&scene.redis, || {
        let each = (BUSY_A_SECOND * PACE.as_millis() as u64 / 1000) as usize;
        let start_ms = now_us() / 1000;
        producer.offer_paced(&mut messages, Due::After, each, PACE)?;
        window = start_ms..now_us() / 1000;
        Ok((window.end + BUSY_DELAY_MS + PATIENCE_MS) * 1000)
    })?;
    let took_s = (window.end - window.start) as f64 / 1000.0;
    let mut judged = judge(&messages, &receipts, EVER);
    // What is still pending is late, not lost; how much, says another figure.
    let left = held(&scene.redis, &names)?;
    judged.doubled += left.saturating_sub(judged.lost);
    judged.lost = judged.lost.saturating_sub(left);
    Ok(Busy {
        behind: behind(&messages, &receipts, window.end),
        offered_a_second: total as f64 / took_s,
        taken_a_second: taken_by(&receipts, window.end) as f64 / took_s,
        judged,
        left,
    })
}

/// Of 100 messages that were long due at that time, how many had not come.
fn behind(messages: &[Message], receipts: &[Receipt], end_ms: u64) -> f64 {
    let is_long_due = |one: &&Message| one.due_ms + BEHIND_MS < end_ms;
    let long_due = messages.iter().filter(is_long_due).count();
    let came = taken_by(receipts, end_ms);
    long_due.saturating_sub(came) as f64 * 100.0 / long_due.max(1) as f64
}

fn taken_by(receipts: &[Receipt], end_ms: u64) -> usize {
    let taken = receipts.iter().filter(|one| one.at_us < end_ms * 1000);
    taken.count()
}
