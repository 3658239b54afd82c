//! What a broker with nothing to do costs: requests, processor time and memory.
//!
//! Two windows one after the other, because MONITOR costs Redis time: the first for processor
//! time and Redis's own counter, the second for requests. That counter includes the commands
//! inside scripts; MONITOR marks those with `lua`, so requests are the lines without it.

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{Message, now_us, offer};
use crate::report::{Measure, Row};
use crate::resp::Connection;
use crate::servers::{Broker, Redis};
use crate::{Outcome, Scale};

const QUEUES: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

pub fn run(scale: Scale) -> Outcome<Row> {
    // Longer than one round of a scan over all queues may take.
    let settle = Duration::from_secs(scale.pick(12, 1));
    let processor_window = Duration::from_secs(scale.pick(20, 5));
    let requests_window = Duration::from_secs(scale.pick(20, 2));

    let redis = Redis::start()?;
    let broker = Broker::start(&redis, &[])?;
    let due_ms = now_us() / 1000 + HOUR_MS;
    let mut messages: Vec<Message> = (0..QUEUES)
        .map(|number| Message::new(&format!("idle:{number}"), number, due_ms))
        .collect();
    offer(&mut broker.connect()?, &mut messages)?;
    thread::sleep(settle);

    let mut meter = redis.connect()?;
    let commands_before = commands_processed(&mut meter)?;
    let (redis_before, broker_before) = (redis.cpu_seconds()?, broker.cpu_seconds()?);
    let started = Instant::now();
    thread::sleep(processor_window);
    let seconds = started.elapsed().as_secs_f64();
    let redis_share = (redis.cpu_seconds()? - redis_before) / seconds * 100.0;
    let broker_share = (broker.cpu_seconds()? - broker_before) / seconds * 100.0;
    // The first INFO is counted after its own reply.
    let commands = commands_processed(&mut meter)? - commands_before - 1.0;

    let requests = monitor(redis.connect()?, requests_window)?;
    let per_second = |count: usize| count as f64 / requests_window.as_secs_f64();
    let mut measures = vec![
        Measure::one("requests/s", per_second(requests.values().sum())).target("< 20"),
        Measure::one("with inner commands/s", commands / seconds),
        Measure::one("Redis CPU %", redis_share).target("< 1"),
        Measure::one("broker CPU %", broker_share).target("< 1"),
        Measure::one("broker RSS MiB", broker.rss_mib()?).target("< 100"),
    ];
    for (command, count) in requests {
        measures.push(Measure::one(format!("  {command}/s"), per_second(count)));
    }
    let faults = delivered(&mut meter, &messages)?.into_iter().collect();
    Ok(Row { measures, faults })
}

fn commands_processed(redis: &mut Connection) -> Outcome<f64> {
    let info = String::from_utf8(redis.call(&[b"INFO", b"stats"])?.text()?)?;
    let field = |line: &str| line.strip_prefix("total_commands_processed:")?.parse().ok();
    Ok(info
        .lines()
        .find_map(field)
        .ok_or("no total_commands_processed")?)
}

/// Requests of connections, by command.
fn monitor(mut redis: Connection, window: Duration) -> Outcome<BTreeMap<String, usize>> {
    redis.call(&[b"MONITOR"])?;
    let end = Instant::now() + window;
    let stream = redis.stream();
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

fn delivered(redis: &mut Connection, messages: &[Message]) -> Outcome<Option<String>> {
    for message in messages {
        let queue = String::from_utf8_lossy(&message.queue);
        let pending = format!("redisson_delay_queue_timeout:{{{queue}}}");
        redis.push(&[b"ZCARD", pending.as_bytes()]);
    }
    redis.flush()?;
    let mut pending = 0;
    for _ in messages {
        pending += redis.reply()?.int()? as usize;
    }
    let offered = messages.len();
    let text = || format!("{pending} of {offered} messages are pending, an hour too early");
    Ok((pending != offered).then(text))
}
