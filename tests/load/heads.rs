//! What a large head costs those beside it: Redis's own time for an offer behind it, for DQ.SIZE,
//! and for one round of the safety scan over queues of which some have such heads.
//!
//! Both sides are the broker; the other one's heads have ten bytes. Keeps: the time is that of the
//! scripts, by Redis's own account, so that neither network nor this tool takes part in it.

use std::thread;
use std::time::Duration;

use crate::figures::{Measure, Row, percentile};
use crate::servers::{self, NO_FILE};
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const SMALL: usize = 10;
const LARGE: usize = 16 << 20;
const QUEUES: usize = 1_000;
/// So many of them the scan reads in one call.
const PAGE: usize = 500;
/// So many of them have a large head.
const LARGE_HEADS: usize = 8;
/// The scan far apart, so that only what is asked for runs.
const NO_SCAN: (&str, &str) = ("scheduler.scan_interval_ms", "600000");

/// Microseconds of Redis.
struct Costs {
    scan: f64,
    offer: f64,
    size: f64,
}

pub fn run(scale: Scale) -> Outcome<Row> {
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..scale.pick(3, 1) {
        large.push(costs(scale, LARGE)?);
        small.push(costs(scale, SMALL)?);
    }
    let both = |name: &str, of: fn(&Costs) -> f64| {
        Measure::both(name, large.iter().map(of), small.iter().map(of))
    };
    let scan = both("scan of 1,000 heads us", |costs| costs.scan);
    Ok(Row {
        measures: vec![
            both("offer us", |costs| costs.offer).target("<= 1.2 x"),
            both("DQ.SIZE us", |costs| costs.size).target("<= 1.2 x"),
            scan.target("<= 3,000"),
        ],
        ..Row::default()
    })
}

fn costs(scale: Scale, bytes: usize) -> Outcome<Costs> {
    let redis = servers::redis(NO_FILE);
    let mut control = redis.connect()?;
    let broker = servers::broker(&redis, &[]);
    let mut client = broker.connect()?;
    for queue in 0..QUEUES {
        let payload = vec![b'x'; if queue < LARGE_HEADS { bytes } else { SMALL }];
        offer(&mut client, &name(queue), "1h", &payload)?;
    }
    // Until the scan has seen them all.
    thread::sleep(Duration::from_secs(scale.pick(3, 2)));
    let seconds = scale.pick(10, 4);
    let page = median_us(&mut control, || {
        thread::sleep(Duration::from_secs(seconds));
        Ok(())
    })?;
    drop((client, broker));

    let broker = servers::broker(&redis, &[NO_SCAN]);
    let mut client = broker.connect()?;
    // Until it knows the queues, and waits for their heads.
    thread::sleep(Duration::from_secs(scale.pick(3, 2)));
    let (behind, calls) = (name(0), scale.pick(1_000, 200));
    let offer = median_us(&mut control, || {
        (0..calls).try_for_each(|_| offer(&mut client, &behind, "2h", b"behind it"))
    })?;
    let size = median_us(&mut control, || {
        (0..calls).try_for_each(|_| {
            let size = client.ask(&[b"DQ.SIZE", behind.as_bytes()])?;
            size.number()?;
            Ok(())
        })
    })?;
    let scan = page * QUEUES.div_ceil(PAGE) as f64;
    Ok(Costs { scan, offer, size })
}

/// Redis's time for a script, in microseconds, of those that run meanwhile: nearly all are alike.
fn median_us(redis: &mut Client, meanwhile: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let set = |redis: &mut Client, name: &[u8], value: &[u8]| {
        let set: [&[u8]; 4] = [b"CONFIG", b"SET", name, value];
        redis.ask(&set)
    };
    set(redis, b"slowlog-max-len", b"100000")?;
    // Without most of the commands inside the scripts, whose noting takes as long as they do.
    set(redis, b"slowlog-log-slower-than", b"3")?;
    redis.ask(&[b"SLOWLOG", b"RESET"])?;
    meanwhile()?;
    set(redis, b"slowlog-log-slower-than", b"-1")?;
    let mut times_us = Vec::new();
    for entry in redis.ask(&[b"SLOWLOG", b"GET", b"100000"])?.into_array()? {
        // Number, time, microseconds, arguments.
        let mut fields = entry.into_array()?.into_iter().skip(2);
        let us = fields.next().ok_or("SLOWLOG")?.number()?;
        let name = fields.next().ok_or("SLOWLOG")?.into_array()?.into_iter().next();
        if name.ok_or("SLOWLOG")?.into_bytes()?.eq_ignore_ascii_case(b"evalsha") {
            times_us.push(us as f64);
        }
    }
    times_us.sort_by(f64::total_cmp);
    Ok(percentile(&times_us, 0.5))
}

fn name(queue: usize) -> String {
    format!("head:{queue}")
}

fn offer(client: &mut Client, queue: &str, delay: &str, payload: &[u8]) -> Outcome<()> {
    client.ask(&[b"DQ.OFFER", queue.as_bytes(), delay.as_bytes(), payload])?.into_bytes()?;
    Ok(())
}
