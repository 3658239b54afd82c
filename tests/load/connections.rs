//! Connections that are open and send nothing: their memory, and what a client that offers notices
//! of them.
//!
//! Without and with them in turns. Keeps: the broker itself says that it has all of them.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{Measure, Row, percentile};
use crate::normal::{self, Call};
use crate::servers::{self, NO_FILE, info, mib, raise_open_files};
use crate::support::broker::Broker;
use crate::{Outcome, Scale};

/// Of this program, besides the idle connections.
const FILES: usize = 100;
const PATIENCE: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_secs(1);
/// Open at a time, so that none is refused for the length of the queue of those to be accepted.
const BURST: usize = 500;

pub fn run(scale: Scale) -> Outcome<Row> {
    let idle = scale.pick(10_000, 1000);
    let files = raise_open_files();
    if files < (idle + FILES) as u64 {
        let text = format!("{files} files may be open; raise it (ulimit -Hn) above");
        return Err(format!("{text} {}", idle + FILES).into());
    }
    let redis = servers::redis(NO_FILE);
    let limit = (idle + FILES).to_string();
    let settings = ["clients_max", "clients_per_address_max"].map(|name| format!("server.{name}"));
    let broker = servers::broker(&redis, &settings.each_ref().map(|name| (&name[..], &limit[..])));
    let (mut with, mut without, mut rss) = (Vec::new(), Vec::new(), Vec::new());
    let mut acknowledged = 0;
    for _ in 0..scale.pick(3, 1) {
        let (times, offers) = window(scale, &broker)?;
        without.push(times);
        acknowledged += offers;
        let streams = connected(&broker, idle)?;
        let (times, offers) = window(scale, &broker)?;
        with.push(times);
        acknowledged += offers;
        rss.push(mib(broker.resident_bytes()));
        drop(streams);
        until_clients(&broker, |clients| clients < idle / 10)?;
    }
    let mut measures = vec![Measure::broker("RSS MiB", rss.into_iter()).target("<= 300")];
    for (name, part, target) in [("p50 ms", 0.5, "<= 1.2 x"), ("p99 ms", 0.99, "<= 2 x")] {
        let of = |times: &Vec<f64>| percentile(times, part);
        let both = Measure::both(name, with.iter().map(of), without.iter().map(of));
        measures.push(both.target(target));
    }
    let size = broker.connect()?.ask(&[b"DQ.SIZE", normal::QUEUE.as_bytes()])?;
    let stored = size.number()? as usize;
    let missing = stored != acknowledged;
    let fault = missing.then(|| format!("{acknowledged} acknowledged and {stored} stored"));
    Ok(Row { measures, faults: fault.into_iter().collect(), ..Row::default() })
}

fn connected(broker: &Broker, count: usize) -> Outcome<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(count);
    while streams.len() < count {
        for _ in 0..BURST.min(count - streams.len()) {
            streams.push(TcpStream::connect(("127.0.0.1", broker.port()))?);
        }
        until_clients(broker, |clients| clients > streams.len())?;
    }
    Ok(streams)
}

/// The one that asks counts, too.
fn until_clients(broker: &Broker, is_so: impl Fn(usize) -> bool) -> Outcome<()> {
    let mut control = broker.connect()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let clients = info(&mut control, "clients", "connected_clients")? as usize;
        if is_so(clients) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("after {PATIENCE:?} the broker has {clients} clients").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn window(scale: Scale, broker: &Broker) -> Outcome<(Vec<f64>, usize)> {
    thread::sleep(SETTLE);
    let (over, connection) = (AtomicBool::new(false), broker.connect()?);
    thread::scope(|scope| {
        let client = scope.spawn(|| normal::run(connection, 1, Call::Offer, &over));
        thread::sleep(Duration::from_secs(scale.pick(5, 1)));
        over.store(true, Relaxed);
        client.join().map_err(|_| "the normal client failed")?
    })
}
