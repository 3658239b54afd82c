//! Many messages due at once: how long until all are in their list, and who notices.
//!
//! The list is left alone until all is there, so that the broker and Redis are measured and no
//! consumer. Keeps: the whole list is compared with what was offered; at no moment does it hold
//! more than was due.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::messages::{Message, Random, Receipt, judge, now_us, offer};
use crate::report::{Measure, Row, percentile};
use crate::resp::{Connection, Reply};
use crate::servers::{Broker, Redis};
use crate::{Outcome, Scale};

const QUEUE: &str = "drain";
/// How often the list is looked at, and another connection sends PING.
const PACE: Duration = Duration::from_millis(1);
const PATIENCE_US: u64 = 60_000_000;
/// Offered first, elsewhere, to learn how long the offers will take.
const PILOT: usize = 2000;
const HOUR_MS: u64 = 3_600_000;

pub fn at_once(scale: Scale) -> Outcome<Row> {
    run(scale, 1, "<= 0.25")
}

pub fn within_a_second(scale: Scale) -> Outcome<Row> {
    run(scale, 1000, "<= 1")
}

/// `spread_ms`: the messages are due in these many milliseconds.
fn run(scale: Scale, spread_ms: u64, target: &'static str) -> Outcome<Row> {
    for patience in [2, 6, 20] {
        if let Some(row) = attempt(scale, spread_ms, target, patience)? {
            return Ok(row);
        }
    }
    Err("the first were due before all were offered".into())
}

/// None where the offers took longer than `patience` times what the pilot promised.
fn attempt(
    scale: Scale,
    spread_ms: u64,
    target: &'static str,
    patience: u64,
) -> Outcome<Option<Row>> {
    let total = scale.pick(100_000, 20_000);
    let redis = Redis::start()?;
    let broker = Broker::start(&redis, &[])?;
    let mut offers = broker.connect()?;
    let mut meter = redis.connect()?;

    let lead_us = 300_000 + patience * pilot(&mut offers)? * (total / PILOT) as u64;
    let start_ms = (now_us() + lead_us) / 1000;
    let mut random = Random::new();
    let mut messages: Vec<Message> = (0..total)
        .map(|number| Message::new(QUEUE, number, start_ms + random.below(spread_ms)))
        .collect();
    offer(&mut offers, &mut messages)?;
    if now_us() / 1000 >= start_ms {
        return Ok(None);
    }
    let mut scores: Vec<u64> = messages.iter().map(|message| message.due_ms).collect();
    scores.sort_unstable();
    let last_due_us = scores.last().copied().unwrap_or_default() * 1000;

    meter.call(&[b"CONFIG", b"SET", b"slowlog-max-len", b"100000"])?;
    meter.call(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"100"])?;
    meter.call(&[b"SLOWLOG", b"RESET"])?;
    let (done_us, pings) = watch(&redis, &mut meter, &scores)?;
    let longest_ms = longest_script_ms(&mut meter)?;

    let list = meter.call(&[b"LRANGE", QUEUE.as_bytes(), b"0", b"-1"])?;
    let mut receipts = Vec::with_capacity(total);
    for payload in list.array()? {
        let (payload, at_us) = (payload.text()?, done_us);
        receipts.push(Receipt { payload, at_us });
    }
    let faults = judge(&messages, &receipts).faults;
    let during: Vec<f64> = pings
        .iter()
        .filter(|(at_us, _)| (start_ms * 1000..=done_us).contains(at_us))
        .map(|(_, ms)| *ms)
        .collect();
    let [ping_p99, ping_max] = [0.99, 1.0].map(|part| percentile(&during, part));
    let seconds = (done_us.saturating_sub(last_due_us)) as f64 / 1e6;
    let row = Row {
        measures: vec![
            Measure::one("s after the last is due", seconds).target(target),
            Measure::one("PING p99 ms", ping_p99).target("<= 5"),
            Measure::one("PING max ms", ping_max),
            Measure::one("longest script ms", longest_ms).target("<= 30"),
            Measure::one("received", receipts.len() as f64),
            Measure::one("out of order", out_of_order(&messages, &receipts) as f64),
        ],
        faults,
    };
    Ok(Some(row))
}

/// Microseconds that `PILOT` offers take.
fn pilot(broker: &mut Connection) -> Outcome<u64> {
    let started = now_us();
    let due_ms = started / 1000 + HOUR_MS;
    let mut messages: Vec<Message> = (0..PILOT)
        .map(|number| Message::new("pilot", number, due_ms))
        .collect();
    offer(broker, &mut messages)?;
    Ok(now_us() - started)
}

/// When and how long, in milliseconds.
type Pings = Vec<(u64, f64)>;

/// Until the list holds all (or patience ends), with the answers to PING on another connection.
fn watch(redis: &Redis, meter: &mut Connection, scores: &[u64]) -> Outcome<(u64, Pings)> {
    let end_us = scores.last().copied().unwrap_or_default() * 1000 + PATIENCE_US;
    let going_on = AtomicBool::new(true);
    let other = redis.connect()?;
    thread::scope(|scope| {
        let pinging = scope.spawn(|| ping(other, &going_on));
        let full = until_full(meter, scores, end_us);
        going_on.store(false, Relaxed);
        let pings = pinging.join().map_err(|_| "the pings failed")??;
        Ok((full?, pings))
    })
}

fn until_full(meter: &mut Connection, scores: &[u64], end_us: u64) -> Outcome<u64> {
    loop {
        let held = meter.call(&[b"LLEN", QUEUE.as_bytes()])?.int()? as usize;
        let at_us = now_us();
        let due = scores.partition_point(|score| score * 1000 <= at_us);
        if held > due && due < scores.len() {
            return Err(format!("early: {held} delivered when {due} were due").into());
        }
        if held >= scores.len() || at_us > end_us {
            return Ok(at_us);
        }
        thread::sleep(PACE);
    }
}

/// At a steady pace. A PING that could not be sent in time, because the one before was not yet
/// answered, counts as sent then and answered with it: a stall is not one slow answer among many.
fn ping(mut redis: Connection, going_on: &AtomicBool) -> Outcome<Pings> {
    let pace_us = PACE.as_micros() as u64;
    let mut pings = Vec::new();
    let mut next_us = now_us();
    while going_on.load(Relaxed) {
        thread::sleep(Duration::from_micros(next_us.saturating_sub(now_us())));
        // A sleep ends a little late: that is not Redis's fault.
        let mut from_us = now_us();
        redis.call(&[b"PING"])?;
        let answered_us = now_us();
        while from_us <= answered_us {
            let ms = (answered_us - from_us) as f64 / 1000.0;
            pings.push((from_us, ms));
            from_us += pace_us;
        }
        next_us = from_us;
    }
    pings.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(pings)
}

/// From Redis's slow log; 0 where none took a tenth of a millisecond.
fn longest_script_ms(redis: &mut Connection) -> Outcome<f64> {
    let mut longest_us = 0;
    let log = redis.call(&[b"SLOWLOG", b"GET", b"100000"])?;
    for record in log.array()? {
        let mut fields = record.array()?.into_iter().skip(2);
        let us = fields.next().ok_or("no duration")?.int()?;
        let args = fields.next().ok_or("no arguments")?.array()?;
        let is_script = |name: &[u8]| name.to_ascii_lowercase().starts_with(b"eval");
        if matches!(args.first(), Some(Reply::Text(name)) if is_script(name)) {
            longest_us = longest_us.max(us);
        }
    }
    Ok(longest_us as f64 / 1000.0)
}

/// Neighbours in the list of which the second should be first: by due time, then as offered.
fn out_of_order(messages: &[Message], receipts: &[Receipt]) -> usize {
    let place: std::collections::HashMap<&[u8], (u64, usize)> = messages
        .iter()
        .enumerate()
        .map(|(number, message)| (message.payload.as_slice(), (message.due_ms, number)))
        .collect();
    let at = |receipt: &Receipt| place.get(receipt.payload.as_slice()).copied();
    let wrong = |pair: &&[Receipt]| matches!(pair, [a, b] if at(a) > at(b));
    receipts.windows(2).filter(wrong).count()
}
