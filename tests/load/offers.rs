//! Offers through the broker beside offers by Redisson's own script called on Redis.
//!
//! Both sides are driven by redis-benchmark with the same payloads, in turns (A B A B), each
//! round on a new Redis, so that none starts with the other's memory; the direct side's Redis
//! has no broker that would deliver from it. Keeps: a round counts only if Redis holds as many
//! messages afterwards as were offered.

use std::process::{Command, Stdio};

use crate::figures::{Measure, Row};
use crate::forwarder::Forwarder;
use crate::producer::{SCRIPT, keys};
use crate::servers::{self, NO_FILE};
use crate::support::redis::Redis;
use crate::support::resp::Client;
use crate::{Outcome, Scale};

/// Eight bytes, as Redisson's random ones; payloads differ, so members do.
const ID: &str = "\u{1}abcdefg";
/// 57 bytes. Four numbers, because with few queues each has only a thousand values.
const PAYLOAD: &str = "order-__rand_int__-__rand_int__-__rand_int__-__rand_int__";
/// redis-benchmark's random numbers have 12 digits, so with a 1 in front all are above 10^12 ms.
const DELAY_MAX: (&str, &str) = ("limits.delay_max_ms", "10000000000000");
const QUEUES: u64 = 1000;

/// One row: arguments of both sides and of redis-benchmark.
struct Shape {
    queue: &'static str,
    queues: u64,
    delay: &'static str,
    score: &'static str,
    clients: u64,
    pipeline: u64,
    /// Of each round: full, quick; divisible by clients and pipeline.
    requests: (u64, u64),
    /// Messages of one request through the broker; more than one are a DQ.MOFFER.
    batch: u64,
    measures: fn(&[Round], &[Round]) -> Vec<Measure>,
}

const RANDOM: Shape = Shape {
    queue: "bench",
    queues: 1,
    delay: "__rand_int__",
    score: "1__rand_int__",
    clients: 50,
    pipeline: 16,
    requests: (480_000, 24_000),
    batch: 1,
    measures: |broker, direct| throughput(broker, direct, ">= 1.9 x"),
};

pub fn random(scale: Scale) -> Outcome<Row> {
    run(scale, &RANDOM)
}

const FIXED: Shape = Shape {
    delay: "1h",
    score: "1755000000000",
    measures: |broker, direct| throughput(broker, direct, ">= 3 x"),
    ..RANDOM
};

pub fn fixed(scale: Scale) -> Outcome<Row> {
    run(scale, &FIXED)
}

/// On the direct side each key gets a random number of its own: as many zsets and lists, and as
/// long, though those of one call belong to different queues.
pub fn queues(scale: Scale) -> Outcome<Row> {
    let shape = Shape {
        queue: "q:__rand_int__",
        queues: QUEUES,
        delay: "1__rand_int__",
        measures: |broker, direct| throughput(broker, direct, ">= 1.2 x"),
        ..RANDOM
    };
    run(scale, &shape)
}

pub fn unpipelined(scale: Scale) -> Outcome<Row> {
    let shape = Shape {
        pipeline: 1,
        requests: (200_000, 10_000),
        measures: |broker, direct| throughput(broker, direct, ">= 1.1 x"),
        ..RANDOM
    };
    run(scale, &shape)
}

/// As a small web service: few clients, each with one request under way.
pub fn eight(scale: Scale) -> Outcome<Row> {
    let shape = Shape {
        clients: 8,
        pipeline: 1,
        requests: (200_000, 10_000),
        measures: |broker, direct| throughput(broker, direct, ">= 0.75 x"),
        ..RANDOM
    };
    run(scale, &shape)
}

/// Also beside a bare forwarder of Redisson's script, in turns with the others.
pub fn latency(scale: Scale) -> Outcome<Row> {
    let shape = Shape {
        clients: 1,
        pipeline: 1,
        requests: (20_000, 2_000),
        measures: |broker, direct| {
            let both = |name, value: fn(&Round) -> f64| {
                let (broker, direct) = (broker.iter().map(value), direct.iter().map(value));
                Measure::both(name, broker, direct).target("<= 1.4 x")
            };
            vec![both("mean us", |round| round.mean_us), both("p50 us", |round| round.p50_us)]
        },
        ..RANDOM
    };
    let (mut broker, mut direct, mut forwarded) = (Vec::new(), Vec::new(), Vec::new());
    let mut faults = Vec::new();
    for _ in 0..scale.pick(5, 1) {
        let (round, fault) = broker_round(scale, &shape, &servers::redis(NO_FILE))?;
        broker.push(round);
        faults.extend(fault);
        direct.push(direct_round(scale, &shape)?);
        let redis = servers::redis(NO_FILE);
        let forwarder = Forwarder::start(&redis.socket())?;
        forwarded.push(script_round(scale, &shape, &redis, forwarder.port)?);
    }
    let mut measures = (shape.measures)(&broker, &direct);
    let p50 = |rounds: &[Round]| rounds.iter().map(|round| round.p50_us).collect::<Vec<_>>();
    let (ours, theirs) = (p50(&broker).into_iter(), p50(&forwarded).into_iter());
    let beside = Measure::both("p50 us; other: a bare forwarder", ours, theirs);
    measures.push(beside.target("<= 1.15 x"));
    Ok(Row { measures, faults, ..Row::default() })
}

/// Beside Redisson's script at the pipeline that suits it: it has no such command.
const MANY: Shape =
    Shape { pipeline: 4, requests: (4_800, 400), batch: 100, measures: FIXED.measures, ..RANDOM };

pub fn moffer(scale: Scale) -> Outcome<Row> {
    run(scale, &MANY)
}

pub fn moffer_fixed(scale: Scale) -> Outcome<Row> {
    let shape = Shape { delay: FIXED.delay, score: FIXED.score, ..MANY };
    run(scale, &shape)
}

/// The first row on this Redis: offers a second, and what is missing.
pub fn with_redis(scale: Scale, redis: &Redis) -> Outcome<(f64, Option<String>)> {
    let (round, missing) = broker_round(scale, &RANDOM, redis)?;
    Ok((round.per_second, missing))
}

/// One client that waits on this Redis: p50 in microseconds, and what is missing.
pub fn alone_with_redis(scale: Scale, redis: &Redis) -> Outcome<(f64, Option<String>)> {
    let shape = Shape { clients: 1, pipeline: 1, requests: (5_000, 500), ..RANDOM };
    let (round, missing) = broker_round(scale, &shape, redis)?;
    Ok((round.p50_us, missing))
}

fn throughput(broker: &[Round], direct: &[Round], target: &'static str) -> Vec<Measure> {
    let both = |name, value: fn(&Round) -> f64| {
        Measure::both(name, broker.iter().map(value), direct.iter().map(value))
    };
    vec![
        both("offers/s", |round| round.per_second).target(target),
        both("Redis CPU us/offer", |round| round.redis_us),
        Measure::broker("broker CPU us/offer", broker.iter().map(|round| round.broker_us)),
    ]
}

struct Round {
    per_second: f64,
    mean_us: f64,
    p50_us: f64,
    /// Processor time for one offer.
    redis_us: f64,
    broker_us: f64,
}

fn run(scale: Scale, shape: &Shape) -> Outcome<Row> {
    let (mut broker, mut direct) = (Vec::new(), Vec::new());
    let mut faults = Vec::new();
    for _ in 0..scale.pick(5, 1) {
        let (round, fault) = broker_round(scale, shape, &servers::redis(NO_FILE))?;
        broker.push(round);
        faults.extend(fault);
        let alike = if shape.batch > 1 { &RANDOM } else { shape };
        direct.push(direct_round(scale, alike)?);
    }
    Ok(Row { measures: (shape.measures)(&broker, &direct), faults, ..Row::default() })
}

/// Also what is missing, if anything is.
fn broker_round(scale: Scale, shape: &Shape, redis: &Redis) -> Outcome<(Round, Option<String>)> {
    let broker = servers::broker(redis, &[DELAY_MAX]);
    let mut command = match shape.batch {
        1 => vec!["DQ.OFFER", shape.queue],
        _ => vec!["DQ.MOFFER", shape.queue],
    };
    for _ in 0..shape.batch {
        command.extend([shape.delay, PAYLOAD]);
    }
    let (redis_before, broker_before) = (redis.cpu_seconds()?, broker.cpu_seconds()?);
    let mut round = benchmark(scale, shape, broker.port(), &command)?;
    let offered = scale.pick(shape.requests.0, shape.requests.1) * shape.batch;
    let each = 1e6 / offered as f64;
    round.per_second *= shape.batch as f64;
    round.redis_us = (redis.cpu_seconds()? - redis_before) * each;
    round.broker_us = (broker.cpu_seconds()? - broker_before) * each;
    Ok((round, missing(shape, offered, &mut redis.connect()?)?))
}

fn direct_round(scale: Scale, shape: &Shape) -> Outcome<Round> {
    let redis = servers::redis(NO_FILE);
    script_round(scale, shape, &redis, redis.port())
}

/// Redisson's script by what listens on this port.
fn script_round(scale: Scale, shape: &Shape, redis: &Redis, port: u16) -> Outcome<Round> {
    let mut connection = redis.connect()?;
    let load: [&[u8]; 3] = [b"SCRIPT", b"LOAD", SCRIPT.as_bytes()];
    let sha = String::from_utf8(connection.ask(&load)?.into_bytes()?)?;
    let keys = keys(shape.queue);
    let mut command = vec!["EVALSHA", &sha, "4"];
    command.extend(keys.iter().map(String::as_str));
    command.extend([shape.score, ID, PAYLOAD]);
    let before = redis.cpu_seconds()?;
    let mut round = benchmark(scale, shape, port, &command)?;
    let offered = scale.pick(shape.requests.0, shape.requests.1);
    round.redis_us = (redis.cpu_seconds()? - before) * 1e6 / offered as f64;
    match missing(shape, offered, &mut connection)? {
        Some(missing) => Err(format!("the direct side: {missing}").into()),
        None => Ok(round),
    }
}

fn benchmark(scale: Scale, shape: &Shape, port: u16, command: &[&str]) -> Outcome<Round> {
    let keyspace = if shape.queues > 1 { shape.queues } else { 1_000_000_000 };
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--csv"])
        .args(["-c", &shape.clients.to_string(), "-P", &shape.pipeline.to_string()])
        .args(["-n", &scale.pick(shape.requests.0, shape.requests.1).to_string()])
        .args(["-r", &keyspace.to_string()])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("redis-benchmark (Debian: package redis-tools): {error}"))?;
    let (table, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",...; the test is the command.
    let line = table.lines().rfind(|line| !line.starts_with("\"test\""));
    let figures = line.and_then(|line| line.split_once("\",\"")).map(|(_, rest)| rest);
    let figures: Vec<f64> = figures
        .unwrap_or_default()
        .split(',')
        .filter_map(|figure| figure.trim_matches('"').parse().ok())
        .collect();
    match figures.as_slice() {
        [per_second, mean_ms, _, p50_ms, ..] if output.status.success() => Ok(Round {
            per_second: *per_second,
            mean_us: mean_ms * 1000.0,
            p50_us: p50_ms * 1000.0,
            redis_us: 0.0,
            broker_us: 0.0,
        }),
        _ => Err(format!("redis-benchmark: {} {table}{errors}", output.status).into()),
    }
}

/// Compares what Redis holds with what was offered; a few of the random delays have passed.
fn missing(shape: &Shape, offered: u64, redis: &mut Client) -> Outcome<Option<String>> {
    for number in 0..shape.queues {
        let queue = shape.queue.replace("__rand_int__", &format!("{number:012}"));
        let [list, timeout, ..] = keys(&queue);
        redis.push(&[b"ZCARD", timeout.as_bytes()]);
        redis.push(&[b"LLEN", list.as_bytes()]);
    }
    redis.flush()?;
    let mut held = 0;
    for _ in 0..shape.queues * 2 {
        held += redis.answer()?.number()?;
    }
    Ok((held != offered).then(|| format!("offered {offered}, Redis holds {held}")))
}
