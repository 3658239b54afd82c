//! The log as whoever reads it finds it, or does not read it at all.

use crate::stage::{SOON, get, metric, say};
use crate::support::broker::Broker;
use crate::support::redis;
use crate::support::tls::Authority;
use crate::support::wait::eventually;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A pipe that takes nothing more until it is read.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut filled = 0;
    loop {
        match writer.write(&[b'\n'; 4096]) {
            Ok(taken) => filled += taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(filled >= 4096);
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// On a fresh database, with flags besides, its log going into a pipe that is full.
fn unread(flags: &[&str], settings: &[(&str, &str)]) -> (Broker, PipeReader) {
    let url = redis::shared().url(redis::shared().fresh_database());
    let (reader, writer) = full_pipe();
    let flags = [&["--redis", &url], flags].concat();
    (Broker::with_stderr(&flags, settings, writer), reader)
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let (mut broker, reader) = unread(&["--log", "info"], &[]);
    let mut client = broker.client();
    say(&mut client, "DQ.OFFER q 0 m");
    let delivered = || get(&broker, "/metrics").1.contains("delivered_total{queue=\"q\"} 1");
    eventually(delivered, |there| *there);
    broker.signal("HUP");
    assert_eq!(get(&broker, "/readyz").0, 200);
    let since = Instant::now();
    broker.signal("TERM");
    assert!(broker.wait(SOON).success());
    assert!(since.elapsed() < Duration::from_secs(8), "bounded");
    drop(reader);
}

#[test]
fn lines_that_were_lost_are_counted_and_said() {
    let identity = Authority::new().issue();
    let settings = identity.settings();
    let settings: Vec<_> = settings.iter().map(|(key, v)| (*key, v.as_str())).collect();
    // Each handshake that fails has a line at this level, so that they are more than is kept.
    let (mut broker, mut reader) = unread(&["--log", "debug"], &settings);
    let lost = eventually(
        || {
            for _ in 0..200 {
                let mut stream = TcpStream::connect(broker.tls_address()).unwrap();
                stream.write_all(b"PING\r\n").unwrap();
            }
            metric(&broker, "delay_broker_log_lines_lost_total")
        },
        |lost| *lost > 0.0,
    );
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text).unwrap()
    });
    broker.signal("TERM");
    assert!(broker.wait(SOON).success());
    let log = reading.join().unwrap();
    let said = log.lines().find(|line| line.contains("were lost"));
    let said = said.unwrap_or_else(|| panic!("{} bytes", log.len()));
    let (_, number) = said.split_once("\"lines\":").unwrap();
    let number: f64 = number.split(['}', ',']).next().unwrap().parse().unwrap();
    assert!(number >= lost, "{said}");
    assert!(log.contains("\"stopped\""), "what came last is there too");
}

#[test]
fn an_error_at_the_end_does_not_wait_for_who_reads_it() {
    let (_reader, writer) = full_pipe();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .args(["--redis", "redis://127.0.0.1:1", "--listen", "192.0.2.1:7379"])
        .args(["--http", "127.0.0.1:0", "--log", "off"])
        .env("DELAY_BROKER_SERVER__PROTECTED_MODE", "false")
        .stderr(writer)
        .spawn()
        .unwrap();
    let ended = eventually(|| program.try_wait().unwrap(), Option::is_some);
    assert_eq!(ended.unwrap().code(), Some(1));
}

/// Redis ends the links again and again: the log says so, and says how often, in a bounded number
/// of lines.
#[test]
fn links_that_flap_are_summed_up() {
    let own = redis::Redis::spawn(&[]);
    let broker = Broker::with_args(&["--redis", &own.url(0), "--log", "info"], &[]);
    let mut admin = own.client(0);
    let (begun, mut killed) = (Instant::now(), 0);
    while killed < 200 && begun.elapsed() < Duration::from_secs(30) {
        killed += say(&mut admin, "CLIENT KILL TYPE normal SKIPME yes").int();
        std::thread::yield_now();
    }
    let count = |log: &str, parts: [&str; 2]| {
        let lines = log.lines();
        let all = |line: &&str| parts.iter().all(|part| line.contains(part));
        lines.filter(all).count()
    };
    // Which of these comes often enough depends on where in its making a link is broken.
    let kinds = ["connected to Redis", "Redis cannot be reached", "the link to Redis is down"];
    let summed = |log: &str| {
        let is = |kind: &&str| count(log, ["more lines of this kind", kind]) > 0;
        kinds.iter().any(is)
    };
    let log = eventually(|| broker.log(), |log| summed(log));
    // Of one kind fifty, and one a second.
    for kind in kinds {
        let lines = count(&log, [&format!(r#""message":"{kind}""#), "target"]);
        let most = 50 + begun.elapsed().as_secs() as usize + 1;
        assert!(lines <= most, "{lines} lines of '{kind}' for {killed} links");
    }
}
