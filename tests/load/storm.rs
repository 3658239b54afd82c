//! How late one quiet queue is while the broker has to do with all others at once.
//!
//! Each case has a Redis and a broker of its own. The bystander has a message due every few
//! milliseconds; then the storm breaks loose: the subscription is lost where many queues are known,
//! strangers publish about queues known and unknown, or all other queues are due in one moment.
//! Keeps: what is due in the storm is delivered too, and counted.

use std::thread;
use std::time::Duration;

use crate::figures::{Measure, Row, percentile};
use crate::messages::{EVER, HOUR_MS, Judged, Message, judge, now_us};
use crate::meter::Meter;
use crate::producer::{Due, Producer, keys};
use crate::servers::{self, NO_FILE};
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const BYSTANDER: &str = "bystander";
/// Between two messages of the bystander.
const EACH_MS: u64 = 5;
/// From its first message until the storm, and from there to its last. None of its is due in the
/// very millisecond of the storm: whoever is so is a part of it.
const BEFORE_MS: u64 = 502;
const AFTER_MS: u64 = 4_000;
/// Then all must have come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Commands of one write.
const PIPELINE: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Storm {
    LostSubscription,
    Publications,
    AllDue,
}

const STORMS: [(&str, Storm); 3] = [
    ("lost subscription", Storm::LostSubscription),
    ("foreign PUBLISHes", Storm::Publications),
    ("all due at once", Storm::AllDue),
];

pub fn run(scale: Scale) -> Outcome<Row> {
    let mut row = Row::default();
    for (name, storm) in STORMS {
        let mut rounds = Vec::new();
        for _ in 0..scale.pick(3, 1) {
            let judged = round(scale, storm)?;
            row.faults.extend(judged.faults());
            rounds.push(judged.lateness_ms);
        }
        for (figure, part) in [("max", 1.0), ("p99", 0.99)] {
            let of = rounds.iter().map(|late| percentile(late, part));
            let measure = Measure::broker(format!("{name}: {figure} ms"), of);
            let target = if figure == "max" { "<= 100" } else { "" };
            row.measures.push(measure.target(target));
        }
    }
    Ok(row)
}

fn round(scale: Scale, storm: Storm) -> Outcome<Judged> {
    let redis = servers::redis(NO_FILE);
    let broker = servers::broker(&redis, &[]);
    let mut producer = Producer::Broker(broker.connect()?);
    let mut control = redis.connect()?;
    let storm_ms = match storm {
        Storm::AllDue => {
            // Long enough for all offers.
            let due_ms = now_us() / 1000 + scale.pick(60_000, 12_000);
            let (queues, each) = scale.pick((10_000, 100), (1_000, 20));
            for queue in 0..queues {
                let message = |number| Message::new(&crowd(queue), number, due_ms);
                let mut messages: Vec<Message> = (0..each).map(message).collect();
                producer.load(&mut messages)?;
            }
            due_ms
        }
        _ => {
            let due_ms = now_us() / 1000 + HOUR_MS;
            let message = |queue| Message::new(&crowd(queue), 0, due_ms);
            let queues = scale.pick(50_000, 5_000);
            let mut messages: Vec<Message> = (0..queues).map(message).collect();
            producer.offer(&mut messages, Due::At)?;
            now_us() / 1000 + 6_000
        }
    };
    let first_ms = storm_ms - BEFORE_MS;
    let due = (first_ms..storm_ms + AFTER_MS).step_by(EACH_MS as usize);
    let mut messages: Vec<Message> =
        due.enumerate().map(|(number, due_ms)| Message::new(BYSTANDER, number, due_ms)).collect();
    let meter = Meter {
        queues: &[BYSTANDER.to_owned()],
        connections: 1,
        many: false,
        total: messages.len(),
    };
    let receipts = meter.run(&redis, || {
        producer.offer(&mut messages, Due::At)?;
        if now_us() / 1000 >= first_ms {
            return Err("the first were due before all were offered".into());
        }
        thread::sleep(Duration::from_micros((storm_ms * 1000).saturating_sub(now_us())));
        match storm {
            Storm::LostSubscription => {
                control.ask(&[b"CLIENT", b"KILL", b"TYPE", b"pubsub"])?;
            }
            Storm::Publications => publish(&mut control, scale)?,
            Storm::AllDue => {}
        }
        Ok((storm_ms + AFTER_MS) * 1000 + PATIENCE.as_micros() as u64)
    })?;
    if storm == Storm::AllDue {
        let (queues, each) = scale.pick((10_000, 100), (1_000, 20));
        all_there(&mut control, queues, queues * each)?;
    }
    Ok(judge(&messages, &receipts, EVER))
}

fn crowd(queue: usize) -> String {
    format!("storm:{queue}")
}

/// That each of them is due now, which is not true; half of them are known.
fn publish(redis: &mut Client, scale: Scale) -> Outcome<()> {
    let count: usize = scale.pick(40_000, 4_000);
    for from in (0..count).step_by(PIPELINE) {
        for queue in from..from + PIPELINE {
            let unknown = if queue % 2 == 0 { "" } else { "x" };
            let [_, _, _, channel] = keys(&(crowd(queue) + unknown));
            redis.push(&[b"PUBLISH", channel.as_bytes(), b"1"]);
        }
        redis.flush()?;
        for _ in 0..PIPELINE {
            redis.answer()?;
        }
    }
    Ok(())
}

/// What was due in the storm came too, each once.
fn all_there(redis: &mut Client, queues: usize, total: usize) -> Outcome<()> {
    let end_us = now_us() + PATIENCE.as_micros() as u64;
    loop {
        for queue in 0..queues {
            redis.push(&[b"LLEN", crowd(queue).as_bytes()]);
        }
        redis.flush()?;
        let mut held = 0;
        for _ in 0..queues {
            held += redis.answer()?.number()? as usize;
        }
        if held == total {
            return Ok(());
        }
        if held > total || now_us() > end_us {
            return Err(format!("{held} of {total} messages of the storm were delivered").into());
        }
        thread::sleep(Duration::from_millis(100));
    }
}
