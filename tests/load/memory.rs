//! What a pending message takes of Redis's memory.
//!
//! By two accounts of Redis's own: MEMORY USAGE of the keys, each element counted, and its memory
//! in use before and after, which has the hash table behind a key, too. Keeps: both sides hold the
//! same payloads.

use std::iter;

use crate::figures::{Measure, Row};
use crate::messages::{HOUR_MS, Message, now_us};
use crate::producer::{Producer, keys};
use crate::servers::{self, NO_FILE, info};
use crate::sides::{Scene, Side};
use crate::support::redis::Redis;
use crate::support::resp::Value;
use crate::{Outcome, Scale};

const QUEUE: &str = "memory";

pub fn listed(scale: Scale) -> Outcome<Row> {
    run(scale, Side::Broker, "<= 335")
}

pub fn off(scale: Scale) -> Outcome<Row> {
    run(scale, Side::ListOff, "<= 215")
}

fn run(scale: Scale, side: Side, target: &str) -> Outcome<Row> {
    let scene = Scene::start(side, &[QUEUE.to_owned()])?;
    let broker = bytes_each(scale, &scene.redis, scene.producer()?)?;
    let redis = servers::redis(NO_FILE);
    let other = bytes_each(scale, &redis, Producer::script(redis.connect()?)?)?;
    let both = |name: &str, of: fn(&Bytes) -> f64| {
        let (broker, other) = (iter::once(of(&broker)), iter::once(of(&other)));
        Measure::both(name, broker, other)
    };
    Ok(Row {
        measures: vec![
            both("bytes a message", |bytes| bytes.of_keys).target(target),
            both("by memory in use", |bytes| bytes.in_use),
        ],
        ..Row::default()
    })
}

/// For each message.
struct Bytes {
    of_keys: f64,
    in_use: f64,
}

fn bytes_each(scale: Scale, redis: &Redis, mut producer: Producer) -> Outcome<Bytes> {
    let total = scale.pick(1_000_000, 20_000);
    let due_ms = now_us() / 1000 + HOUR_MS;
    let mut messages: Vec<Message> = (0..total)
        .map(|number| {
            let mut message = Message::new(QUEUE, number, due_ms + number as u64);
            message.payload.resize(100, b'.');
            message
        })
        .collect();
    let mut control = redis.connect()?;
    let before = info(&mut control, "memory", "used_memory")?;
    producer.load(&mut messages)?;
    let after = info(&mut control, "memory", "used_memory")?;
    let [_, timeout, list, _] = keys(QUEUE);
    let held = control.ask(&[b"ZCARD", timeout.as_bytes()])?.number()? as usize;
    if held != total {
        return Err(format!("offered {total}, Redis holds {held}").into());
    }
    let mut of_keys = 0;
    for key in [timeout, list] {
        let usage: [&[u8]; 5] = [b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"];
        // Nothing of a key that is not there.
        if let Value::Int(bytes) = control.ask(&usage)? {
            of_keys += bytes;
        }
    }
    Ok(Bytes { of_keys: of_keys as f64 / total as f64, in_use: (after - before) / total as f64 })
}
