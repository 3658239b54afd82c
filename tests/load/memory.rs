//! What a pending message takes of Redis's memory.
//!
//! By Redis's own account, before and after; so with the tables behind its keys, as full as they
//! are at that number of messages. Keeps: both sides hold the same payloads.

use crate::figures::{Measure, Row};
use crate::messages::{HOUR_MS, Message, now_us};
use crate::producer::{Producer, keys};
use crate::servers::{Redis, info};
use crate::sides::{Scene, Side};
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
    let redis = Redis::start()?;
    let other = bytes_each(scale, &redis, Producer::script(redis.connect()?)?)?;
    let bytes = Measure::both(
        "bytes a message",
        std::iter::once(broker),
        std::iter::once(other),
    );
    Ok(Row {
        measures: vec![bytes.target(target)],
        ..Row::default()
    })
}

fn bytes_each(scale: Scale, redis: &Redis, mut producer: Producer) -> Outcome<f64> {
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
    let [_, timeout, ..] = keys(QUEUE);
    let held = control.call(&[b"ZCARD", timeout.as_bytes()])?.int()? as usize;
    if held != total {
        return Err(format!("offered {total}, Redis holds {held}").into());
    }
    Ok((after - before) / total as f64)
}
