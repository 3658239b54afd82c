//! The Redis that the broker looks after: it comes and goes with the broker, survives its crash, is
//! started again when it dies, and keeps what is pending; what keeps it from that is said.

use crate::server::Stopped;
use crate::stage::{ON_TIME, SOON, call, due_of, eventually, list, offer, say, take_due};
use crate::stop::run;
use crate::support::broker::{Broker, signal};
use crate::support::data_dir::DataDir;
use crate::support::resp::{Client, Value};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const SHORT: [(&str, &str); 3] = [
    ("redis.call_timeout_ms", "300"),
    ("redis.settle_timeout_ms", "300"),
    ("redis.connect_timeout_ms", "300"),
];

pub fn managed(dir: &DataDir) -> (Broker, Client) {
    managed_with(dir, &[])
}

pub fn managed_with(dir: &DataDir, settings: &[(&str, &str)]) -> (Broker, Client) {
    let settings = [&[("managed.port", "0")], settings].concat();
    let broker = Broker::with_args(&["--data-dir", dir.text()], &settings);
    let (_, redis) = broker.ready_line().split_once(", Redis ").unwrap();
    let address = redis.split(' ').next().unwrap().to_owned();
    let redis = Client::connect(address).unwrap();
    (broker, redis)
}

pub fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}/exe")).exists()
}

#[test]
fn a_redis_of_its_own_comes_and_goes_with_the_broker_and_keeps_what_is_pending() {
    let dir = DataDir::new();
    let (mut broker, _) = managed(&dir);
    let kept = offer(&mut broker.client(), &["q", "8s", "over two restarts"]);
    let redis_pid = dir.pid().unwrap();
    broker.signal("INT");
    assert!(broker.wait(SOON).success());
    assert!(is_gone(redis_pid), "Redis outlived the broker");

    // Now as a crash: Redis may live on and is adopted then; it is never in the way.
    let (mut broker, _) = managed(&dir);
    let mut client = broker.client();
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
    let acknowledged = offer(&mut client, &["q", "8s", "just before the crash"]);
    broker.signal("KILL");
    broker.wait(SOON);
    let (mut broker, mut redis) = managed(&dir);
    take_due(&mut redis, "q", "over two restarts", due_of(&kept));
    take_due(&mut redis, "q", "just before the crash", due_of(&acknowledged));

    // A second broker on the same directory is refused, by name.
    let second = run(&["--data-dir", dir.text(), "--managed-port", "0"]);
    assert!(second.contains("another delay-broker") && second.contains("--data-dir"), "{second}");

    // Its Redis dies: it is started again, and the broker goes on.
    let redis_pid = dir.pid().unwrap();
    signal(redis_pid, "KILL");
    let mut client = broker.client();
    let id = eventually("offers are stored again", || {
        match call(&mut client, &["DQ.OFFER", "q", "100", "after Redis died"]) {
            Value::Bulk(id) => Some(String::from_utf8(id).unwrap()),
            _ => None,
        }
    });
    let (_, address) = broker.ready_line().split_once(", Redis ").unwrap();
    let mut redis = Client::connect(address.split(' ').next().unwrap()).unwrap();
    take_due(&mut redis, "q", "after Redis died", due_of(&id));

    let redis_pid = dir.pid().unwrap();
    broker.signal("TERM");
    assert!(broker.wait(SOON).success());
    assert!(is_gone(redis_pid), "Redis outlived the broker");
}

/// A Redis that hangs is waited for: two on the same files would destroy them.
#[test]
fn a_redis_that_hangs_is_left_alone() {
    let dir = DataDir::new();
    let (broker, mut redis) = managed_with(&dir, &SHORT);
    let mut client = broker.client();
    offer(&mut client, &["q", "500", "due"]);
    let pid = dir.pid().unwrap();
    let stopped = Stopped::new(pid);
    for _ in 0..4 {
        let reply = say(&mut client, "DQ.OFFER q 1h m").text();
        let honest = reply.starts_with("UNAVAILABLE ") || reply.starts_with("UNCERTAIN ");
        assert!(honest, "{reply}");
    }
    drop(stopped);
    let back = Instant::now();
    eventually("delivered", || (list(&mut redis, "q") == ["due"]).then_some(()));
    assert!(back.elapsed() < ON_TIME, "{:?}", back.elapsed());
    assert_eq!(dir.pid(), Some(pid));
    assert_eq!(broker.log().matches("is started again").count(), 0);
}

/// It cannot come back: commands are told so, and it is tried again until it can.
#[test]
fn a_redis_that_cannot_be_started_again_is_tried_again() {
    let dir = DataDir::new();
    let (broker, _) = managed_with(&dir, &SHORT);
    let mut client = broker.client();
    offer(&mut client, &["q", "1h", "kept"]);
    let (_, address) = broker.ready_line().split_once(", Redis ").unwrap();
    let address = address.split(' ').next().unwrap();
    // Whoever is first: the broker leaves 100 ms.
    let taken = eventually("its port is taken", || {
        dir.kill();
        TcpListener::bind(address).ok()
    });
    eventually("it was tried", || {
        let port = address.rsplit(':').next().unwrap();
        let says = format!("cannot be started: port {port} of 127.0.0.1");
        (broker.log().matches(&says).count() >= 2).then_some(())
    });
    let reply = say(&mut client, "DQ.OFFER q 1h m").text();
    assert!(reply.starts_with("UNAVAILABLE "), "{reply}");
    drop(taken);
    eventually("it is back", || (say(&mut client, "DQ.SIZE q") == Value::Int(1)).then_some(()));
}

/// The save of a stop is judged by its result.
#[test]
fn a_redis_that_is_killed_at_the_stop_is_a_failure() {
    let dir = DataDir::new();
    let (mut broker, _) = managed_with(&dir, &SHORT);
    offer(&mut broker.client(), &["q", "1h", "m"]);
    let pid = dir.pid().unwrap();
    signal(pid, "STOP");
    broker.signal("TERM");
    // Health is answered until nothing but Redis is left to be stopped.
    eventually("all but Redis has stopped", || {
        Client::connect(broker.http_address()).is_err().then_some(())
    });
    signal(pid, "KILL");
    assert_eq!(broker.wait(SOON).code(), Some(1));
    let log = broker.log();
    assert!(log.contains("stopped with signal: 9"), "{log}");
}

/// The last command of the file is cut off, as when the machine loses power: the rest is there.
/// Bytes that are no command are another matter: nobody guesses.
#[test]
fn a_file_that_ends_in_the_middle() {
    let dir = DataDir::new();
    for (end, left) in [("*3\r\n$3\r\nSET\r\n$5\r\nin th", true), ("garbage\r\n", false)] {
        let (mut broker, _) = managed(&dir);
        let mut client = broker.client();
        offer(&mut client, &["q", "1h", "kept"]);
        let size = say(&mut client, "DQ.SIZE q");
        broker.signal("TERM");
        assert!(broker.wait(SOON).success());
        let mut file =
            std::fs::OpenOptions::new().append(true).open(append_only_file(dir.path())).unwrap();
        file.write_all(end.as_bytes()).unwrap();
        if left {
            let (mut broker, _) = managed(&dir);
            assert_eq!(say(&mut broker.client(), "DQ.SIZE q"), size);
            broker.signal("TERM");
            assert!(broker.wait(SOON).success());
        } else {
            let said = run(&["--data-dir", dir.text(), "--managed-port", "0"]);
            assert!(said.contains("ended at once") && said.contains("--fix"), "{said}");
        }
    }
}

/// Where Redis writes now: one file, or the last part of several (Redis 7).
fn append_only_file(dir: &Path) -> PathBuf {
    let parts = std::fs::read_dir(dir.join("appendonlydir"));
    let parts = parts.into_iter().flatten().map(|part| part.unwrap().path());
    let incremental = |path: &PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    parts.filter(incremental).max().unwrap_or_else(|| dir.join("appendonly.aof"))
}

/// A server whose files cannot grow beyond the limit in a file, as on a full disk.
fn limited(dir: &DataDir) -> String {
    let script = dir.path().join("server");
    let text = "#!/bin/sh\n\
        trap '' XFSZ\n\
        ulimit -f \"$(cat \"${0%/*}/limit\")\"\n\
        exec \"$(command -v redis-server || command -v valkey-server)\" \"$@\"\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    limit(dir, "4000");
    script.to_str().unwrap().to_owned()
}

fn limit(dir: &DataDir, blocks: &str) {
    std::fs::write(dir.path().join("limit"), blocks).unwrap();
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let (dir, program) = (DataDir::new(), DataDir::new());
    let script = limited(&program);
    let settings = [&[("managed.program", script.as_str())], &SHORT[..]].concat();
    let (broker, _) = managed_with(&dir, &settings);
    let mut client = broker.client();
    let payload = "x".repeat(100_000);
    let (mut stored, mut uncertain, begun) = (0, 0, Instant::now());
    let refused = loop {
        let reply = call(&mut client, &["DQ.OFFER", "q", "1h", &payload]);
        let text = reply.text();
        match reply {
            Value::Bulk(_) => stored += 1,
            _ if text.starts_with("UNCERTAIN ") => uncertain += 1,
            // A machine that stalled may have refused it; the full disk ends Redis too.
            _ if begun.elapsed() < SOON && !broker.log().contains("is started again") => {}
            _ => break text,
        }
    };
    assert!(refused.starts_with("UNAVAILABLE "), "{refused}");
    assert!(stored > 2, "{stored}");
    eventually("the log says why", || {
        let log = broker.log();
        (log.contains("is started again") && log.contains("AOF")).then_some(())
    });
    limit(&program, "unlimited");
    let size = eventually("it goes on", || match say(&mut client, "DQ.SIZE q") {
        Value::Int(size) => Some(size),
        _ => None,
    });
    assert!((stored..=stored + uncertain).contains(&size), "{stored} {uncertain} {size}");
    eventually("offers are stored", || {
        let reply = call(&mut client, &["DQ.OFFER", "q", "1h", &payload]);
        matches!(reply, Value::Bulk(_)).then_some(())
    });
}

/// Without a flush before each reply Redis goes on while the disk is full: then the stop must not
/// say that all is well.
#[test]
fn a_stop_on_a_full_disk_is_a_failure() {
    let (dir, program) = (DataDir::new(), DataDir::new());
    let script = limited(&program);
    let more = [("managed.program", script.as_str()), ("managed.appendfsync", "everysec")];
    let (mut broker, _) = managed_with(&dir, &[&more, &SHORT[..]].concat());
    let mut client = broker.client();
    let payload = "x".repeat(100_000);
    eventually("refused", || {
        let reply = call(&mut client, &["DQ.OFFER", "q", "1h", &payload]).text();
        (reply.starts_with("UNAVAILABLE ") && reply.contains("MISCONF")).then_some(())
    });
    broker.signal("TERM");
    assert_eq!(broker.wait(SOON).code(), Some(1));
    assert!(broker.log().contains("could not write"), "{}", broker.log());
}
