//! Consumers at least once: what DQ.TAKE and DQ.ACK cost, how soon a due message reaches a taker,
//! and what thousands of takers that wait cost.
//!
//! Keeps: each message is handed out once and acknowledged once, and nothing is left behind.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{Measure, Row, percentile};
use crate::messages::{EVER, Judged, Message, Random, Receipt, judge, now_us};
use crate::meter::Meter;
use crate::normal::{self, Call};
use crate::producer::{Due, Producer};
use crate::servers::{self, NO_FILE, info, mib, raise_open_files};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::{Outcome, Scale};

const QUEUE: &str = "work";
const CLIENTS: usize = 50;
const THREADS: usize = 2;
const PAYLOAD: usize = 100;
/// Messages of one RPUSH that fills the list.
const FILL: usize = 1_000;

/// A message of a reply of DQ.TAKE.
struct Taken {
    receipt: Vec<u8>,
    payload: Vec<u8>,
}

/// The messages of a reply of DQ.TAKE in RESP2; none where it is nil.
fn taken(reply: Value) -> Outcome<Vec<Taken>> {
    if reply == Value::Null {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for map in reply.into_array()? {
        let mut fields = map.into_array()?.into_iter();
        let (mut receipt, mut payload) = (None, None);
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match &name.bytes()[..] {
                b"receipt" => receipt = Some(value.into_bytes()?),
                b"payload" => payload = Some(value.into_bytes()?),
                _ => {}
            }
        }
        let (receipt, payload) = (receipt.ok_or("no receipt")?, payload.ok_or("no payload")?);
        all.push(Taken { receipt, payload });
    }
    Ok(all)
}

fn push_ack(client: &mut Client, messages: &[Taken]) {
    let mut args: Vec<&[u8]> = vec![b"DQ.ACK", QUEUE.as_bytes()];
    args.extend(messages.iter().map(|one| &one.receipt[..]));
    client.push(&args);
}

fn filled(redis: &Redis, total: usize) -> Outcome<()> {
    let mut client = redis.connect()?;
    for first in (0..total).step_by(FILL) {
        let payloads: Vec<String> = (first..total.min(first + FILL))
            .map(|number| format!("{number:.>width$}", width = PAYLOAD))
            .collect();
        let mut args: Vec<&[u8]> = vec![b"RPUSH", QUEUE.as_bytes()];
        args.extend(payloads.iter().map(|payload| payload.as_bytes()));
        client.ask(&args)?;
    }
    Ok(())
}

/// Messages a second that 50 clients take and acknowledge, and Redis's time for each.
pub fn throughput(scale: Scale) -> Outcome<Row> {
    const ALWAYS: &[&str] = &["--appendfsync", "always"];
    let mut row = Row::default();
    for (count, of, args, [rate, cost]) in [
        (16, "", NO_FILE, [">= 60,000", "<= 8"]),
        (16, ", appendfsync always", ALWAYS, [""; 2]),
        (1, ", COUNT 1", NO_FILE, [""; 2]),
    ] {
        let total = scale.pick(if count == 1 { 100_000 } else { 400_000 }, 20_000);
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..scale.pick(3, 1) {
            let (rate, us, faults) = drained(args, total, count)?;
            rates.push(rate);
            costs.push(us);
            row.faults.extend(faults);
        }
        let measure = |name, all: Vec<f64>| Measure::broker(format!("{name}{of}"), all.into_iter());
        row.measures.push(measure("messages/s", rates).target(rate));
        if args == NO_FILE {
            row.measures.push(measure("Redis us a message", costs).target(cost));
        }
    }
    Ok(row)
}

fn drained(args: &[&str], total: usize, count: usize) -> Outcome<(f64, f64, Vec<String>)> {
    let redis = servers::redis(args);
    let broker = servers::broker(&redis, &[]);
    filled(&redis, total)?;
    let mut control = redis.connect()?;
    control.ask(&[b"CONFIG", b"RESETSTAT"])?;
    let started = Instant::now();
    let counts = thread::scope(|scope| -> Outcome<Vec<(usize, usize)>> {
        let workers: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| work(&broker, CLIENTS / THREADS, count))).collect();
        workers.into_iter().map(|one| one.join().map_err(|_| "a worker failed")?).collect()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let (got, acked) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let us = scripts_us(&mut control)?;
    let mut faults = Vec::new();
    if (got, acked) != (total, total) {
        faults.push(format!("of {total} messages {got} were taken and {acked} acknowledged"));
    }
    let left = control.ask(&[b"EXISTS", QUEUE.as_bytes(), b"delay_broker_taken:{work}"])?;
    if left != Value::Int(0) {
        faults.push("something is left of the messages in Redis".to_owned());
    }
    Ok((total as f64 / seconds, us / total as f64, faults))
}

/// Clients that each take so many and acknowledge them, until there are no more: how many they
/// took, and how many acknowledgements counted.
fn work(broker: &Broker, clients: usize, count: usize) -> Outcome<(usize, usize)> {
    let mut clients: Vec<(Client, Option<usize>)> =
        (0..clients).map(|_| Ok((broker.connect()?, None))).collect::<Outcome<_>>()?;
    let (mut got, mut acked) = (0, 0);
    let count = count.to_string();
    let take: [&[u8]; 4] = [b"DQ.TAKE", QUEUE.as_bytes(), b"COUNT", count.as_bytes()];
    for (client, _) in &mut clients {
        client.push(&take);
        client.flush()?;
    }
    while !clients.is_empty() {
        let mut left = Vec::with_capacity(clients.len());
        for (mut client, settles) in clients {
            if let Some(count) = settles {
                acked += client.answer()?.number()? as usize;
                got += count;
            }
            let messages = taken(client.answer()?)?;
            if messages.is_empty() {
                continue;
            }
            // The next take waits behind the acknowledgement, as it does in a program.
            push_ack(&mut client, &messages);
            client.push(&take);
            client.flush()?;
            left.push((client, Some(messages.len())));
        }
        clients = left;
    }
    Ok((got, acked))
}

/// Redis's own account of the time of all scripts.
fn scripts_us(redis: &mut Client) -> Outcome<f64> {
    let stats = redis.ask(&[b"INFO", b"commandstats"])?.text();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let line = line.ok_or("no script ran")?;
    let us = line.split(',').find_map(|field| field.strip_prefix("usec="));
    Ok(us.ok_or("no usec")?.parse()?)
}

/// One client that takes one message and acknowledges it, again and again.
pub fn one(scale: Scale) -> Outcome<Row> {
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..scale.pick(3, 1) {
        let redis = servers::redis(NO_FILE);
        let broker = servers::broker(&redis, &[]);
        let total = scale.pick(20_000, 2_000);
        filled(&redis, total)?;
        let mut client = broker.connect()?;
        let mut times = Vec::with_capacity(total);
        for _ in 0..total {
            let started = Instant::now();
            let messages = taken(client.ask(&[b"DQ.TAKE", QUEUE.as_bytes()])?)?;
            push_ack(&mut client, &messages);
            client.flush()?;
            if client.answer()? != Value::Int(1) {
                return Err("an acknowledgement did not count".into());
            }
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        p50.push(percentile(&times, 0.5));
        p99.push(percentile(&times, 0.99));
    }
    let measures = vec![
        Measure::broker("p50 ms", p50.into_iter()).target("<= 0.6"),
        Measure::broker("p99 ms", p99.into_iter()),
    ];
    Ok(Row { measures, ..Row::default() })
}

/// From the due time to the reply of a DQ.TAKE that waits; beside it the reply of BLPOP.
pub fn pick_up(scale: Scale) -> Outcome<Row> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut faults = Vec::new();
    for _ in 0..scale.pick(3, 1) {
        for (takes, found) in [(true, &mut ours), (false, &mut theirs)] {
            let judged = due_and_taken(scale, takes)?;
            faults.extend(judged.faults());
            found.push(judged);
        }
    }
    let both = |name: &str, part: f64| {
        let of = move |judged: &Judged| percentile(&judged.lateness_ms, part);
        Measure::both(name, ours.iter().map(of), theirs.iter().map(of))
    };
    let measures = vec![
        both("p50 ms", 0.5).target("<= 0.2 more"),
        both("p99 ms", 0.99).target("<= 2"),
        both("max ms", 1.0),
    ];
    Ok(Row { measures, faults, ..Row::default() })
}

fn due_and_taken(scale: Scale, takes: bool) -> Outcome<Judged> {
    let redis = servers::redis(NO_FILE);
    let broker = servers::broker(&redis, &[]);
    let (seconds, per_second) = (scale.pick(20, 2), 100);
    let total = seconds * per_second;
    let start_ms = now_us() / 1000 + 1_000;
    let mut random = Random::new();
    let mut messages: Vec<Message> = (0..total as usize)
        .map(|number| Message::new(QUEUE, number, start_ms + random.below(seconds * 1_000)))
        .collect();
    let end_us = (start_ms + seconds * 1_000 + 10_000) * 1_000;
    let mut producer = Producer::Broker(broker.connect()?);
    if !takes {
        let names = [QUEUE.to_owned()];
        let meter = Meter { queues: &names, connections: 1, many: false, total: messages.len() };
        let receipts = meter.run(&redis, || {
            producer.offer(&mut messages, Due::At)?;
            Ok(end_us)
        })?;
        return Ok(judge(&messages, &receipts, EVER));
    }
    let mut taker = broker.connect()?;
    let count = messages.len();
    let receipts = thread::scope(|scope| -> Outcome<Vec<Receipt>> {
        let taking = scope.spawn(move || -> Outcome<Vec<Receipt>> {
            let mut receipts = Vec::new();
            while receipts.len() < count && now_us() < end_us {
                let take: [&[u8]; 4] = [b"DQ.TAKE", QUEUE.as_bytes(), b"BLOCK", b"500"];
                let messages = taken(taker.ask(&take)?)?;
                let at_us = now_us();
                if !messages.is_empty() {
                    push_ack(&mut taker, &messages);
                    taker.flush()?;
                    taker.answer()?;
                }
                receipts.extend(
                    messages.into_iter().map(|one| Receipt { payload: one.payload, at_us }),
                );
            }
            Ok(receipts)
        });
        producer.offer(&mut messages, Due::At)?;
        taking.join().map_err(|_| "the taker failed")?
    })?;
    Ok(judge(&messages, &receipts, EVER))
}

/// Thousands of clients that wait in DQ.TAKE, on one queue and on one each: what they cost while
/// nothing comes, what a client that offers notices, and that each gets its message.
pub fn crowd(scale: Scale) -> Outcome<Row> {
    let takers = scale.pick(10_000, 500);
    if raise_open_files() < takers as u64 + 100 {
        return Err(format!("raise the limit of open files above {takers}").into());
    }
    let mut row = Row::default();
    for (name, queues) in [("one queue", 1), ("a queue each", takers)] {
        let found = crowded(scale, takers, queues)?;
        let [cpu, redis_cpu, rss, alone, beside] = found.figures;
        row.faults.extend(found.faults);
        row.measures.extend([
            Measure::one(format!("{name}: idle broker CPU %"), cpu).target("< 1"),
            Measure::one(format!("{name}: idle Redis CPU %"), redis_cpu),
            Measure::one(format!("{name}: RSS MiB"), rss).target("<= 300"),
            Measure::both(
                format!("{name}: p99 of offers ms"),
                std::iter::once(beside),
                std::iter::once(alone),
            )
            .target("<= 2 x"),
        ]);
    }
    Ok(row)
}

struct Crowded {
    /// Broker and Redis CPU %, RSS MiB, p99 of offers without and with them, ms.
    figures: [f64; 5],
    faults: Vec<String>,
}

fn crowded(scale: Scale, takers: usize, queues: usize) -> Outcome<Crowded> {
    let redis = servers::redis(NO_FILE);
    let limit = (takers + 100).to_string();
    let settings = ["clients_max", "clients_per_address_max"].map(|name| format!("server.{name}"));
    let broker = servers::broker(&redis, &settings.each_ref().map(|name| (&name[..], &limit[..])));
    let alone = offers_p99(scale, &broker)?;
    let name = |number: usize| format!("wait:{}", number % queues);
    let mut waiting = Vec::with_capacity(takers);
    for number in 0..takers {
        let mut client = Client::patient(("127.0.0.1", broker.port()))?;
        client.send(&["DQ.TAKE", &name(number), "BLOCK", "0"])?;
        waiting.push(client);
    }
    let mut control = broker.connect()?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while (info(&mut control, "clients", "blocked_clients")? as usize) < takers {
        if Instant::now() > deadline {
            return Err("not all takers wait".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_secs(scale.pick(2, 1)));
    let before = (broker.cpu_seconds()?, redis.cpu_seconds()?);
    let started = Instant::now();
    thread::sleep(Duration::from_secs(scale.pick(15, 2)));
    let seconds = started.elapsed().as_secs_f64();
    let share = |now: f64, before: f64| (now - before) / seconds * 100.0;
    let cpu = share(broker.cpu_seconds()?, before.0);
    let redis_cpu = share(redis.cpu_seconds()?, before.1);
    let rss = mib(broker.resident_bytes());
    let beside = offers_p99(scale, &broker)?;
    // Each gets one.
    let mut offering = broker.connect()?;
    for first in (0..takers).step_by(500) {
        for number in first..takers.min(first + 500) {
            let payload = number.to_string();
            offering.push(&[b"DQ.OFFER", name(number).as_bytes(), b"0", payload.as_bytes()]);
        }
        offering.flush()?;
        for _ in first..takers.min(first + 500) {
            offering.answer()?;
        }
    }
    let mut payloads = HashSet::new();
    for client in &mut waiting {
        for message in taken(client.answer()?)? {
            payloads.insert(message.payload);
        }
    }
    let missing = takers - payloads.len();
    let fault = (missing > 0).then(|| format!("{missing} of {takers} takers got nothing new"));
    let figures = [cpu, redis_cpu, rss, alone, beside];
    Ok(Crowded { figures, faults: fault.into_iter().collect() })
}

fn offers_p99(scale: Scale, broker: &Broker) -> Outcome<f64> {
    let (over, connection) = (AtomicBool::new(false), broker.connect()?);
    let (times, _) = thread::scope(|scope| {
        let client = scope.spawn(|| normal::run(connection, 1, Call::Offer, &over));
        thread::sleep(Duration::from_secs(scale.pick(5, 1)));
        over.store(true, Relaxed);
        client.join().map_err(|_| "the normal client failed")?
    })?;
    Ok(percentile(&times, 0.99))
}
