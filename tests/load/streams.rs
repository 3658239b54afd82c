//! Consumers of a stream: what delivery, XREADGROUP, XACK and the trim cost Redis together.
//!
//! Keeps: each message is read once, none early, and none is left in the stream.

use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{Measure, Row, percentile};
use crate::messages::{EVER, Message, Receipt, judge, now_us};
use crate::producer::{Due, Producer};
use crate::servers::{self, NO_FILE};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::{Outcome, Scale};

const QUEUE: &str = "work";
/// Messages that are due in one millisecond, and that a consumer reads at once.
const BATCH: usize = 16;
/// From one such millisecond to the next.
const EACH_MS: u64 = 2;

/// One consumer that reads and acknowledges 16 at a time, while 16 fall due every 2 ms.
pub fn run(scale: Scale) -> Outcome<Row> {
    let mut row = Row::default();
    let (mut costs, mut p50, mut p99) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.pick(3, 1) {
        let redis = servers::redis(NO_FILE);
        let broker = servers::broker(&redis, &[]);
        let found = consumed(&redis, &broker, scale.pick(100_000, 10_000))?;
        costs.push(found.us);
        p50.push(percentile(&found.lateness_ms, 0.5));
        p99.push(percentile(&found.lateness_ms, 0.99));
        row.faults.extend(found.faults);
    }
    row.measures = vec![
        Measure::broker("Redis us a message", costs.into_iter()).target("<= 7"),
        Measure::broker("p50 ms", p50.into_iter()),
        Measure::broker("p99 ms", p99.into_iter()),
    ];
    Ok(row)
}

struct Found {
    /// Of Redis, for each message.
    us: f64,
    lateness_ms: Vec<f64>,
    faults: Vec<String>,
}

fn consumed(redis: &Redis, broker: &Broker, total: usize) -> Outcome<Found> {
    let mut client = broker.connect()?;
    client.ask(&[
        b"DQ.SETUP",
        QUEUE.as_bytes(),
        b"destination",
        b"stream",
        b"groups",
        b"g",
        b"lease_ms",
        b"4s",
    ])?;
    // Offers take their time, which is not to be counted.
    let start_ms = now_us() / 1000 + 3_000 + total as u64 / 10;
    let mut messages: Vec<Message> = (0..total)
        .map(|number| {
            let due_ms = start_ms + (number / BATCH) as u64 * EACH_MS;
            Message::new(QUEUE, number, due_ms)
        })
        .collect();
    Producer::Broker(broker.connect()?).offer(&mut messages, Due::At)?;
    if now_us() / 1000 > start_ms {
        return Err("the offers took until the first message was due".into());
    }
    let mut control = redis.connect()?;
    control.ask(&[b"CONFIG", b"RESETSTAT"])?;
    let receipts = read(&mut redis.connect()?, total)?;
    let mut faults = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while control.ask(&[b"XLEN", QUEUE.as_bytes()])? != Value::Int(0) {
        if Instant::now() > deadline {
            faults.push("entries that are acknowledged are left in the stream".to_owned());
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let us = commands_us(&mut control, &["evalsha", "xreadgroup", "xack"])?;
    let judged = judge(&messages, &receipts, EVER);
    faults.extend(judged.faults());
    Ok(Found { us: us / total as f64, lateness_ms: judged.lateness_ms, faults })
}

/// Reads and acknowledges until all have come.
fn read(client: &mut Client, total: usize) -> Outcome<Vec<Receipt>> {
    let (mut receipts, count) = (Vec::with_capacity(total), BATCH.to_string());
    let mut idle = 0;
    while receipts.len() < total && idle < 40 {
        let read: [&[u8]; 11] = [
            b"XREADGROUP",
            b"GROUP",
            b"g",
            b"worker",
            b"COUNT",
            count.as_bytes(),
            b"BLOCK",
            b"500",
            b"STREAMS",
            QUEUE.as_bytes(),
            b">",
        ];
        let found = client.ask(&read)?;
        let at_us = now_us();
        if found == Value::Null {
            idle += 1;
            continue;
        }
        idle = 0;
        let mut ids = Vec::with_capacity(BATCH);
        for entry in found.elements()[0].elements()[1].elements() {
            let [id, fields] = entry.elements() else {
                return Err("an entry has another shape".into());
            };
            ids.push(id.bytes());
            receipts.push(Receipt { payload: fields.elements()[1].bytes(), at_us });
        }
        let mut ack: Vec<&[u8]> = vec![b"XACK", QUEUE.as_bytes(), b"g"];
        ack.extend(ids.iter().map(|id| &id[..]));
        client.ask(&ack)?;
    }
    Ok(receipts)
}

/// Redis's own account of the time of these commands.
fn commands_us(redis: &mut Client, commands: &[&str]) -> Outcome<f64> {
    let stats = redis.ask(&[b"INFO", b"commandstats"])?.text();
    let mut sum = 0.0;
    for command in commands {
        let start = format!("cmdstat_{command}:");
        let line = stats.lines().find_map(|line| line.strip_prefix(&start));
        let us = line.and_then(|line| line.split(',').find_map(|it| it.strip_prefix("usec=")));
        sum += us.ok_or_else(|| format!("no {command} ran"))?.parse::<f64>()?;
    }
    Ok(sum)
}
