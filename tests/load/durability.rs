//! What a Redis that is killed keeps of what was acknowledged, by the setting of its append-only
//! file, also on a disk that is slow to flush; and broker and Redis killed again and again.
//!
//! A slow disk is made by strace, which holds back each flush. Keeps: a message counts as
//! acknowledged when its reply was read, and as lost when Redis, started again on its files, does
//! not have it. Killing the process is no power cut: what Redis has written is still in the
//! kernel then, flushed or not.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::figures::{Measure, Row};
use crate::servers::{self, NO_FILE};
use crate::support::kills;
use crate::support::resp::Client;
use crate::{Outcome, Scale};

const CLIENTS: u64 = 4;
const PIPELINE: u64 = 100;
const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
const EVERY_SECOND: &[&str] = &["--appendonly", "yes", "--appendfsync", "everysec"];
/// Each flush on the slow disk, in microseconds.
const SLOW_FLUSH: &str = "fsync,fdatasync:delay_enter=1500000";

/// Kill -9 of Redis under offers.
pub fn lost(scale: Scale) -> Outcome<Row> {
    let modes: [(&str, &[&str], bool); 5] = [
        ("always", ALWAYS, false),
        ("everysec", EVERY_SECOND, false),
        ("no file", NO_FILE, false),
        ("always, slow disk", ALWAYS, true),
        ("everysec, slow disk", EVERY_SECOND, true),
    ];
    let (mut measures, mut faults) = (Vec::new(), Vec::new());
    for (name, args, slow) in modes {
        let (mut acknowledged, mut lost) = (Vec::new(), Vec::new());
        for round in 0..scale.pick(5, 1) {
            let Some((all, gone)) = trial(args, slow, 2_000 + 300 * round)? else {
                println!("  {name}: not measured, needs strace and the right to use it");
                break;
            };
            acknowledged.push(all as f64);
            lost.push(gone as f64);
        }
        let worst = lost.iter().copied().fold(0.0, f64::max);
        if args == ALWAYS && worst > 0.0 {
            faults.push(format!("{name}: {worst} acknowledged messages were lost"));
        }
        measures.push(Measure::broker(format!("{name}: acked"), acknowledged.into_iter()));
        measures.push(Measure::broker("  lost, median", lost.into_iter()));
        measures.push(Measure::one("  lost, most", worst));
    }
    Ok(Row { measures, faults, ..Row::default() })
}

/// How many were acknowledged until Redis was killed, and how many of them it has lost. Nothing
/// where the disk cannot be made slow.
fn trial(args: &[&str], slow: bool, millis: u64) -> Outcome<Option<(usize, usize)>> {
    let mut redis = servers::redis(args);
    let broker = servers::broker(&redis, &[]);
    let tracer = slow.then(|| slow_disk(redis.pid()));
    if let Some(None) = tracer {
        return Ok(None);
    }
    let stop = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let offering: Vec<_> = (0..CLIENTS)
            .map(|who| {
                let (client, stop) = (broker.connect(), &stop);
                scope.spawn(move || offer(client?, who, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(millis));
        redis.kill();
        stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for one in offering {
            all.extend(one.join().map_err(|_| "a client panicked")??);
        }
        Outcome::Ok(all)
    })?;
    drop(broker);
    if let Some(mut tracer) = tracer.flatten() {
        tracer.wait()?;
    }
    redis.start_again();
    let mut client = redis.connect()?;
    let key: &[u8] = b"redisson_delay_queue_timeout:{q}";
    let mut kept = HashSet::new();
    for member in client.ask(&[b"ZRANGE", key, b"0", b"-1"])?.into_array()? {
        // Behind the id and the lengths.
        kept.insert(member.into_bytes()?.split_off(17));
    }
    let gone = |payload: &&Vec<u8>| !kept.contains(*payload);
    let lost = acknowledged.iter().filter(gone).count();
    Ok(Some((acknowledged.len(), lost)))
}

/// Holds back the flushes of a process until that ends.
fn slow_disk(pid: u32) -> Option<Child> {
    let inject = format!("inject={SLOW_FLUSH}");
    let mut child = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()])
        .args(["-e", "trace=fsync,fdatasync", "-e", &inject])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let traced = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("TracerPid:") && !status.contains("TracerPid:\t0\n")
    };
    // It ends by itself where it may not.
    while child.try_wait().ok()?.is_none() {
        if traced() {
            return Some(child);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Offers until the end; the payloads that were acknowledged.
fn offer(mut client: Client, who: u64, stop: &AtomicBool) -> Outcome<Vec<Vec<u8>>> {
    let mut acknowledged = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let payloads: Vec<Vec<u8>> = (number..number + PIPELINE)
            .map(|number| format!("payload of {who}, number {number}").into_bytes())
            .collect();
        number += PIPELINE;
        for payload in &payloads {
            client.push(&[b"DQ.OFFER", b"q", b"1h", payload]);
        }
        client.flush()?;
        for payload in payloads {
            // An error is what comes when Redis is gone.
            if client.answer().is_ok() {
                acknowledged.push(payload);
            }
        }
    }
    Ok(acknowledged)
}

/// Broker and Redis killed under load; the flow tests do the same for some seconds.
pub fn kills(scale: Scale) -> Outcome<Row> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
    println!("  seed {seed}");
    let during = Duration::from_secs(scale.pick(300, 10));
    let running = std::thread::spawn(move || kills::run(seed.into(), during));
    let account = running.join().map_err(|_| "it panicked; see above")?;
    let measures = [
        ("kills of the broker", account.kills_of_broker),
        ("kills of Redis", account.kills_of_redis),
        ("acknowledged", account.acknowledged),
        ("an answer was lost", account.may_be),
        ("cancelled", account.cancelled),
        ("delivered", account.delivered),
    ];
    let broken = [
        (account.lost, "acknowledged and never delivered"),
        (account.doubled, "delivered twice"),
        (account.after_cancel, "delivered after a positive cancel"),
        (account.early, "early"),
    ];
    let faults = broken.iter().filter(|(count, _)| *count > 0);
    Ok(Row {
        measures: measures.map(|(name, count)| Measure::one(name, count as f64)).into(),
        faults: faults.map(|(count, what)| format!("{count} {what}")).collect(),
        ..Row::default()
    })
}
