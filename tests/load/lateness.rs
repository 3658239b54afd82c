//! How late messages reach a consumer: from the due time to the moment BLPOP returns it.
//!
//! The meter is a plain consumer on Redis, so what it measures includes Redis's own wake-up of
//! a blocked client and the meter's thread. Keeps: every message is accounted for.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::messages::{Message, Random, Receipt, judge, now_us, offer};
use crate::report::{Measure, Row, percentile};
use crate::resp::{Connection, Reply};
use crate::servers::{Broker, Redis};
use crate::{Outcome, Scale};

/// From the start to the first due time: the offers themselves must be over by then.
const LEAD_MS: u64 = 1000;
/// How long after the last due time a message may still come and not be lost.
const PATIENCE_MS: u64 = 10_000;

struct Shape {
    queues: u64,
    per_second: u64,
    seconds: u64,
    /// Connections that wait. BLPOP of many keys costs Redis for each of them, every time; more
    /// connections cost the meter threads.
    meters: usize,
    targets: [&'static str; 3],
}

pub fn one_queue(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        queues: 1,
        per_second: 100,
        seconds: scale.pick(10, 3),
        meters: 1,
        targets: ["<= 1 (later 0.4)", "<= 3 (later 1.5)", "(later 10)"],
    })
}

/// Ten keys each: two messages due on one connection while it is between two calls are rare.
pub fn many_queues(scale: Scale) -> Outcome<Row> {
    run(&Shape {
        queues: 1000,
        per_second: 1000,
        seconds: scale.pick(10, 3),
        meters: 100,
        targets: ["(later 0.6)", "(later 2)", "(later 20)"],
    })
}

fn run(shape: &Shape) -> Outcome<Row> {
    let redis = Redis::start()?;
    let broker = Broker::start(&redis, &[])?;
    let mut random = Random::new();
    let names: Vec<String> = (0..shape.queues).map(|n| format!("late:{n}")).collect();
    let total = (shape.per_second * shape.seconds) as usize;
    let start_ms = now_us() / 1000 + LEAD_MS;
    let mut messages: Vec<Message> = (0..total)
        .map(|number| {
            let queue = random.below(shape.queues) as usize;
            let name = names.get(queue).map_or("", String::as_str);
            Message::new(name, number, start_ms + random.below(shape.seconds * 1000))
        })
        .collect();

    let end_us = (start_ms + shape.seconds * 1000 + PATIENCE_MS) * 1000;
    let received = AtomicUsize::new(0);
    let receipts = thread::scope(|scope| -> Outcome<Vec<Receipt>> {
        let keys_each = names.len().div_ceil(shape.meters);
        let mut meters = Vec::new();
        for keys in names.chunks(keys_each) {
            let (connection, received) = (redis.connect()?, &received);
            let going_on = move || received.load(Relaxed) < total && now_us() < end_us;
            meters.push(scope.spawn(move || meter(connection, keys, received, going_on)));
        }
        let offered = offer(&mut broker.connect()?, &mut messages);
        if offered.is_err() {
            // Lets the meters go.
            received.store(total, Relaxed);
        }
        let mut receipts = Vec::new();
        for meter in meters {
            receipts.extend(meter.join().map_err(|_| "the meter failed")??);
        }
        offered.map(|()| receipts)
    })?;

    let mut judged = judge(&messages, &receipts);
    judged
        .faults
        .extend(left_over(&mut redis.connect()?, &names)?);
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| percentile(&judged.lateness_ms, part));
    let [p50_target, p99_target, max_target] = shape.targets;
    Ok(Row {
        measures: vec![
            Measure::one("p50 ms", p50).target(p50_target),
            Measure::one("p99 ms", p99).target(p99_target),
            Measure::one("max ms", max).target(max_target),
            Measure::one("early", judged.early as f64).target("0"),
            Measure::one("received", judged.lateness_ms.len() as f64),
        ],
        faults: judged.faults,
    })
}

fn meter(
    mut redis: Connection,
    keys: &[String],
    received: &AtomicUsize,
    going_on: impl Fn() -> bool,
) -> Outcome<Vec<Receipt>> {
    let mut args: Vec<&[u8]> = vec![b"BLPOP"];
    args.extend(keys.iter().map(String::as_bytes));
    // Comes back now and then to see whether all is over.
    args.push(b"0.5");
    let mut receipts = Vec::new();
    while going_on() {
        let reply = redis.call(&args)?;
        let at_us = now_us();
        if let Reply::Array(key_and_payload) = reply {
            let payload = key_and_payload.into_iter().nth(1).ok_or("BLPOP")?.text()?;
            receipts.push(Receipt { payload, at_us });
            received.fetch_add(1, Relaxed);
        }
    }
    Ok(receipts)
}

/// Whatever a queue still holds after all was received was delivered twice.
fn left_over(redis: &mut Connection, names: &[String]) -> Outcome<Option<String>> {
    let mut held = 0;
    for name in names {
        let pending = format!("redisson_delay_queue_timeout:{{{name}}}");
        held += redis.call(&[b"LLEN", name.as_bytes()])?.int()?;
        held += redis.call(&[b"ZCARD", pending.as_bytes()])?.int()?;
    }
    Ok((held > 0).then(|| format!("{held} messages are in Redis after the end")))
}
