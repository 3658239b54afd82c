//! Clients that mean harm, beside two that do not: what those notice, and what the broker holds.
//!
//! Each scene has a Redis and a broker of its own, with default settings, and measures in turns
//! without and with the hostile clients. One normal client offers one message at a time, another
//! sixteen. Keeps: each offer that was acknowledged is stored; far beyond the bounds is a fault.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::crowd::{self, Target};
use crate::figures::{Measure, Row, percentile};
use crate::normal::{self, Call, PACE};
use crate::servers::{self, NO_FILE, mib, raise_open_files};
use crate::support::broker::Broker;
use crate::support::process::Stopped;
use crate::support::redis::Redis;
use crate::support::resp::{Client, encode};
use crate::support::users;
use crate::{Outcome, Scale};

const MIB: usize = 1024 * 1024;
/// Of the second of the normal clients.
const PIPELINE: usize = 16;
/// What fails the run; the targets are 2 times, and 300 MiB.
const FAULT_RATIO: f64 = 20.0;
const FAULT_P99_MS: f64 = 250.0;
const FAULT_MIB: f64 = 400.0;
/// What is left of one window must not be seen in the next.
const SETTLE: Duration = Duration::from_secs(1);
const USER: &str = "ann";
const PASSWORD: &str = "of-default";
const PATIENCE: Duration = Duration::from_secs(60);
/// A machine that stands still for a moment holds up a window too; harm is there each time.
const TRIES: usize = 3;

/// One kind of harm: how many clients, full and quick, and what they do.
struct Scene {
    name: &'static str,
    clients: (usize, usize),
    harm: fn(&Target<'_>) -> Outcome<()>,
    /// Calls of `ready` that say that all are there.
    parts: usize,
    redis_is_stopped: bool,
    /// The broker has users, and the normal clients a password.
    users: bool,
    /// Redis itself is busy with what they send: what others notice fails nothing.
    is_work: bool,
    /// What fails the run; `--quick` may be a debug build, and fails by `FAULT_P99_MS` only.
    worst_ms: f64,
}

const SCENE: Scene = Scene {
    name: "",
    clients: (1000, 200),
    harm: slow,
    parts: 1,
    redis_is_stopped: false,
    users: false,
    is_work: false,
    worst_ms: FAULT_P99_MS,
};

#[rustfmt::skip]
const SCENES: [Scene; 17] = [
    Scene { name: "a byte a second", harm: slow, ..SCENE },
    Scene { name: "never read", harm: deaf, ..SCENE },
    Scene { name: "both", harm: both, parts: 2, ..SCENE },
    Scene { name: "64 KiB, then slow", harm: half, ..SCENE },
    Scene { name: "silent", harm: silent, ..SCENE },
    Scene { name: "garbage", harm: garbage, ..SCENE },
    Scene { name: "come and go", clients: (5000, 1000), harm: storm, ..SCENE },
    Scene { name: "log in", clients: (1000, 1000), harm: logins, parts: 2, users: true, ..SCENE },
    Scene { name: "endless line", clients: (1, 1), harm: line, ..SCENE },
    Scene { name: "endless PING", clients: (1, 1), harm: pings, ..SCENE },
    Scene { name: "50 endless PINGs", clients: (50, 50), harm: pings, ..SCENE },
    Scene { name: "100 ask COMMAND", clients: (100, 100), harm: commands, worst_ms: 50.0, ..SCENE },
    Scene { name: "endless large offers", clients: (1, 1), harm: large, is_work: true, ..SCENE },
    Scene { name: "50 large offers", clients: (50, 10), harm: large, is_work: true, ..SCENE },
    Scene { name: "endless offers", clients: (1, 1), harm: offers, is_work: true, ..SCENE },
    Scene { name: "50 endless offers", clients: (50, 50), harm: offers, is_work: true, ..SCENE },
    Scene { name: "Redis stopped", harm: offers, redis_is_stopped: true, ..SCENE },
];

/// Announces 16 MiB, and sends a byte a second.
fn slow(target: &Target<'_>) -> Outcome<()> {
    crowd::never_read(target, |_| ANNOUNCED.to_vec(), b"x")
}

const ANNOUNCED: &[u8] = b"*4\r\n$8\r\nDQ.OFFER\r\n$4\r\nslow\r\n$2\r\n1h\r\n$16777216\r\n";

/// The same, but for a first part that costs memory.
fn half(target: &Target<'_>) -> Outcome<()> {
    let first = [ANNOUNCED, &vec![b'x'; 64 * 1024]].concat();
    crowd::never_read(target, |_| first.clone(), b"x")
}

/// Asks for large messages or has much repeated, again and again, and takes no reply.
fn deaf(target: &Target<'_>) -> Outcome<()> {
    let echo = encode(&[&b"ECHO"[..], &vec![b'x'; 1000]]).repeat(1000);
    let first = |number: usize| match number % 3 {
        0 => encode(&["DQ.PEEK", "big", "COUNT", "1000"]).repeat(20),
        1 => encode(&["DQ.RANGE", "big", "-", "+", "COUNT", "1000"]).repeat(20),
        _ => echo.clone(),
    };
    crowd::never_read(target, first, &encode(&["DQ.PEEK", "big"]))
}

fn both(target: &Target<'_>) -> Outcome<()> {
    thread::scope(|scope| {
        let slow = scope.spawn(|| slow(target));
        deaf(target)?;
        slow.join().map_err(|_| "the slow ones failed")?
    })
}

fn silent(target: &Target<'_>) -> Outcome<()> {
    crowd::never_read(target, |_| Vec::new(), b"")
}

fn garbage(target: &Target<'_>) -> Outcome<()> {
    crowd::come_and_go(target, &b"*1\r\n*1\r\n\0\xff$-7\r\n".repeat(50))
}

fn storm(target: &Target<'_>) -> Outcome<()> {
    crowd::come_and_go(target, b"")
}

/// Twice as many as there are clients a second with the right password, and as many with a wrong
/// one.
fn logins(target: &Target<'_>) -> Outcome<()> {
    let right = encode(&["AUTH", USER, users::PASSWORD]);
    let twice = Target { clients: 2 * target.clients, ..*target };
    thread::scope(|scope| {
        let wrong = scope.spawn(|| crowd::come_and_go(target, &encode(&["AUTH", USER, "x"])));
        crowd::come_and_go(&twice, &right)?;
        wrong.join().map_err(|_| "the wrong ones failed")?
    })
}

fn line(target: &Target<'_>) -> Outcome<()> {
    crowd::flood(target, &[b'x'; MIB])
}

fn pings(target: &Target<'_>) -> Outcome<()> {
    crowd::flood(target, &b"PING\r\n".repeat(10_000))
}

/// Thousands of large replies each, asked for with little and never read.
fn commands(target: &Target<'_>) -> Outcome<()> {
    crowd::never_read(target, |_| b"COMMAND\r\n".repeat(5_000), b"COMMAND\r\n")
}

/// Named, so that the next replaces it, and Redis holds one.
fn large(target: &Target<'_>) -> Outcome<()> {
    let payload = vec![b'x'; 16 * MIB];
    let offer: [&[u8]; 6] = [b"DQ.OFFER", b"large", b"1h", &payload, b"NAME", b"one"];
    crowd::flood(target, &encode(&offer))
}

/// Tiny ones, to a queue of their own.
fn offers(target: &Target<'_>) -> Outcome<()> {
    let offer: [&[u8]; 4] = [b"DQ.OFFER", b"flood", b"1h", b"tiny"];
    crowd::flood(target, &encode(&offer).repeat(1000))
}

pub fn run(scale: Scale) -> Outcome<Row> {
    raise_open_files();
    let (mut measures, mut faults) = (Vec::new(), Vec::new());
    for scene in &SCENES {
        let found = play(scale, scene).map_err(|error| format!("{}: {error}", scene.name))?;
        let name = scene.name;
        for (client, which) in [("", 0), ("  -P 16", 1)] {
            for (part, figure) in [("p50 ms", 0), ("p99 ms", 1)] {
                let of = |windows: &[Window]| -> Vec<f64> {
                    windows.iter().map(|window| window.ms[which][figure]).collect()
                };
                let (with, without) = (of(&found.with), of(&found.without));
                let label = match (which, figure) {
                    (0, 0) => format!("{name}, p50 ms"),
                    _ => format!("  {} {part}", client.trim()),
                };
                let measure = Measure::both(label, with.into_iter(), without.into_iter());
                measures.push(if figure == 1 { measure.target("<= 2 x") } else { measure });
            }
        }
        measures.push(Measure::one("  RSS peak MiB", found.peak_mib).target("< 300"));
        faults.extend(found.faults.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    Ok(Row { measures, faults, ..Row::default() })
}

/// p50 and p99 of both clients.
#[derive(Debug)]
struct Window {
    ms: [[f64; 2]; 2],
    acknowledged: usize,
}

#[derive(Debug)]
struct Found {
    with: Vec<Window>,
    without: Vec<Window>,
    peak_mib: f64,
    faults: Vec<String>,
}

fn play(scale: Scale, scene: &Scene) -> Outcome<Found> {
    let redis = servers::redis(NO_FILE);
    let file = users::File::new(&users::user(USER, "commands = ['+@read']"));
    let args = if scene.users { file.args().to_vec() } else { Vec::new() };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let password = if scene.users { PASSWORD } else { "" };
    let broker = servers::broker_with(&redis, &args, &[("server.password", password)]);
    let mut meter = connect(&broker, scene)?;
    // Each alone is larger than a page of messages.
    for _ in 0..8 {
        meter.ask(&[b"DQ.OFFER", b"big", b"1h", &vec![b'x'; 4 * MIB - 256]])?;
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut faults, mut acknowledged) = (Vec::new(), 0);
    for _ in 0..scale.pick(2, 1) {
        for tries_left in (0..TRIES).rev() {
            let before = window(scale, scene, &redis, &broker, false)?;
            let beside = window(scale, scene, &redis, &broker, true)?;
            acknowledged += before.acknowledged + beside.acknowledged;
            let harmed = harmed(scale, scene, &before, &beside);
            if harmed.is_empty() || tries_left == 0 {
                without.push(before);
                with.push(beside);
                faults.extend(harmed);
                break;
            }
        }
    }
    let peak_mib = mib(broker.peak_bytes());
    thread::sleep(SETTLE);
    let stored =
        connect(&broker, scene)?.ask(&[b"DQ.SIZE", normal::QUEUE.as_bytes()])?.number()? as usize;
    if stored != acknowledged {
        faults.push(format!("{acknowledged} acknowledged and {stored} stored"));
    }
    if peak_mib > FAULT_MIB {
        faults.push(format!("the broker took {peak_mib:.0} MiB"));
    }
    Ok(Found { with, without, peak_mib, faults })
}

/// A client that may do everything.
fn connect(broker: &Broker, scene: &Scene) -> Outcome<Client> {
    let mut client = broker.connect()?;
    if scene.users {
        client.ask(&[b"AUTH", PASSWORD.as_bytes()])?;
    }
    Ok(client)
}

/// By how much the normal clients were held up, where that is far beyond the bounds.
fn harmed(scale: Scale, scene: &Scene, before: &Window, beside: &Window) -> Vec<String> {
    let worst_ms = scale.pick(scene.worst_ms, FAULT_P99_MS);
    let pairs = before.ms.iter().zip(&beside.ms).map(|(without, with)| (without[1], with[1]));
    pairs
        .filter(|(without, with)| {
            !scene.is_work && *with > worst_ms && *with > FAULT_RATIO * without
        })
        .map(|(without, with)| format!("p99 of others {with:.1} ms, {without:.1} without"))
        .collect()
}

fn window(
    scale: Scale,
    scene: &Scene,
    redis: &Redis,
    broker: &Broker,
    hostile: bool,
) -> Outcome<Window> {
    thread::sleep(scale.pick(SETTLE, SETTLE / 2));
    let (ready, stop, over) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let target = Target {
        port: broker.port(),
        clients: scale.pick(scene.clients.0, scene.clients.1),
        ready: &ready,
        stop: &stop,
    };
    let (one, many) = (connect(broker, scene)?, connect(broker, scene)?);
    let stopped = scene.redis_is_stopped.then(|| Stopped::new(redis.pid()));
    let measured = thread::scope(|scope| {
        let harm = hostile.then(|| scope.spawn(|| (scene.harm)(&target)));
        let deadline = Instant::now() + PATIENCE;
        while hostile && ready.load(Relaxed) < scene.parts && Instant::now() < deadline {
            thread::sleep(PACE);
        }
        let clients = [(one, 1), (many, PIPELINE)].map(|(connection, depth)| {
            let over = &over;
            let call = match scene.redis_is_stopped {
                true => Call::Ping,
                false => Call::Offer,
            };
            scope.spawn(move || normal::run(connection, depth, call, over))
        });
        thread::sleep(scale.pick(Duration::from_secs(3), Duration::from_secs(1)));
        over.store(true, Relaxed);
        let measured = clients.map(|client| client.join());
        stop.store(true, Relaxed);
        let harm = harm.map(|harm| harm.join());
        (measured, harm)
    });
    drop(stopped);
    let (measured, harm) = measured;
    if let Some(harm) = harm {
        harm.map_err(|_| "the hostile clients failed")??;
    }
    let mut acknowledged = 0;
    let mut ms = [[f64::NAN; 2]; 2];
    for (slot, client) in ms.iter_mut().zip(measured) {
        let (times, offers) = client.map_err(|_| "a normal client failed")??;
        *slot = [0.5, 0.99].map(|part| percentile(&times, part));
        acknowledged += offers;
    }
    Ok(Window { ms, acknowledged })
}
