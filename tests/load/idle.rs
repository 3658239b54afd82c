//! What a broker with nothing to do costs: requests, processor time and memory.
//!
//! Two windows one after the other, because MONITOR costs Redis time: the first for processor
//! time and Redis's own counter, the second for requests. That counter includes the commands
//! inside scripts; MONITOR marks those with `lua`, so requests are the lines without it.

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{Measure, Row};
use crate::messages::{HOUR_MS, Message, now_us};
use crate::producer::{Due, Producer, keys};
use crate::servers::{self, NO_FILE, info, mib};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const PATIENCE: Duration = Duration::from_secs(300);

struct Shape {
    queues: usize,
    /// Of requests a second and of memory.
    targets: [&'static str; 2],
}

pub fn some(scale: Scale) -> Outcome<Row> {
    let shape = Shape { queues: scale.pick(10_000, 5_000), targets: ["< 20", "< 100"] };
    let redis = servers::redis(NO_FILE);
    let broker = servers::broker(&redis, &[]);
    let messages = offered(&shape, &broker)?;
    cost(scale, &shape, &redis, &broker, &messages)
}

/// A broker that ends at once leaves them to the next, which is measured.
pub fn many(scale: Scale) -> Outcome<Row> {
    let shape = Shape { queues: scale.pick(100_000, 5_000), targets: ["< 50", "<= 200"] };
    let redis = servers::redis(NO_FILE);
    let messages = offered(&shape, &servers::broker(&redis, &[]))?;
    let (mut ready_s, mut known_s) = (Vec::new(), Vec::new());
    let mut started = None;
    for _ in 0..scale.pick(3, 1) {
        // The one before ends first.
        drop(started.take());
        let start = Instant::now();
        let broker = started.insert(servers::broker(&redis, &[]));
        ready_s.push(start.elapsed().as_secs_f64());
        let mut control = broker.connect()?;
        while (info(&mut control, "queues", "queues_known")? as usize) < shape.queues {
            if start.elapsed() > PATIENCE {
                return Err(format!("after {PATIENCE:?} the broker does not know all").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        known_s.push(start.elapsed().as_secs_f64());
    }
    let broker = started.ok_or("no round")?;
    let mut row = cost(scale, &shape, &redis, &broker, &messages)?;
    let start = [
        Measure::broker("start until ready s", ready_s.into_iter()),
        Measure::broker("until it knows all s", known_s.into_iter()).target("<= 10"),
    ];
    row.measures.splice(0..0, start);
    Ok(row)
}

fn offered(shape: &Shape, broker: &Broker) -> Outcome<Vec<Message>> {
    let due_ms = now_us() / 1000 + HOUR_MS;
    let mut messages: Vec<Message> = (0..shape.queues)
        .map(|number| Message::new(&format!("idle:{number}"), number, due_ms))
        .collect();
    Producer::Broker(broker.connect()?).offer(&mut messages, Due::At)?;
    Ok(messages)
}

fn cost(
    scale: Scale,
    shape: &Shape,
    redis: &Redis,
    broker: &Broker,
    messages: &[Message],
) -> Outcome<Row> {
    // Longer than one round of a scan over all queues may take.
    let settle = Duration::from_secs(scale.pick(12, 1));
    let processor_window = Duration::from_secs(scale.pick(20, 3));
    let requests_window = Duration::from_secs(scale.pick(20, 2));
    thread::sleep(settle);

    let mut meter = redis.connect()?;
    let commands = |meter: &mut Client| info(meter, "stats", "total_commands_processed");
    let commands_before = commands(&mut meter)?;
    let (redis_before, broker_before) = (redis.cpu_seconds()?, broker.cpu_seconds()?);
    let started = Instant::now();
    thread::sleep(processor_window);
    let seconds = started.elapsed().as_secs_f64();
    let redis_share = (redis.cpu_seconds()? - redis_before) / seconds * 100.0;
    let broker_share = (broker.cpu_seconds()? - broker_before) / seconds * 100.0;
    // The first INFO is counted after its own reply.
    let commands = commands(&mut meter)? - commands_before - 1.0;

    let requests = monitor(redis.connect()?, requests_window)?;
    let per_second = |count: usize| count as f64 / requests_window.as_secs_f64();
    let [aim, memory] = shape.targets;
    let mut measures = vec![
        Measure::one("requests/s", per_second(requests.values().sum())).target(aim),
        Measure::one("with inner commands/s", commands / seconds),
        Measure::one("Redis CPU %", redis_share).target("< 1"),
        Measure::one("broker CPU %", broker_share).target("< 1"),
        Measure::one("broker RSS MiB", mib(broker.resident_bytes())).target(memory),
    ];
    for (command, count) in requests {
        measures.push(Measure::one(format!("  {command}/s"), per_second(count)));
    }
    Ok(Row {
        measures,
        faults: delivered(&mut meter, messages)?.into_iter().collect(),
        ..Row::default()
    })
}

/// Requests of connections, by command.
fn monitor(mut redis: Client, window: Duration) -> Outcome<BTreeMap<String, usize>> {
    redis.ask(&[b"MONITOR"])?;
    let end = Instant::now() + window;
    let stream = redis.reader();
    let poll = Duration::from_millis(20);
    stream.get_ref().set_read_timeout(Some(poll))?;
    let (mut requests, mut line) = (BTreeMap::new(), Vec::new());
    while Instant::now() < end {
        match stream.read_until(b'\n', &mut line) {
            Ok(0) => return Err("Redis closed the connection of MONITOR".into()),
            Ok(_) => {
                // 1795259193.264045 [0 127.0.0.1:52324] "evalsha" "..."
                let text = String::from_utf8_lossy(&line);
                let mut parts = text.splitn(3, '"');
                let from = parts.next().unwrap_or_default();
                if !from.ends_with(" lua] ") {
                    let command = parts.next().unwrap_or_default().to_lowercase();
                    *requests.entry(command).or_insert(0) += 1;
                }
                line.clear();
            }
            // What came of the line stays in it.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(requests)
}

fn delivered(redis: &mut Client, messages: &[Message]) -> Outcome<Option<String>> {
    for message in messages {
        let queue = String::from_utf8_lossy(&message.queue);
        let [_, timeout, ..] = keys(&queue);
        redis.push(&[b"ZCARD", timeout.as_bytes()]);
    }
    redis.flush()?;
    let mut pending = 0;
    for _ in messages {
        pending += redis.answer()?.number()? as usize;
    }
    let offered = messages.len();
    let text = || format!("{pending} of {offered} messages are pending, an hour too early");
    Ok((pending != offered).then(text))
}
