//! Stopping and starting: everything that was read is answered, the broker's own Redis comes and
//! goes with it and keeps what is pending, and a port that is taken is named.

use crate::stage::{SOON, Stage, call, due_of, eventually, offer, say, take_due};
use crate::support::broker::{Broker, signal};
use crate::support::resp::{Client, Value, encode};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn what_was_read_is_answered_before_the_end() {
    for round in 0..3 {
        let mut stage = Stage::new(&[]);
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3)
                .map(|who| {
                    let client = stage.broker.client();
                    scope.spawn(move || offer_until_the_end(client, who))
                })
                .collect();
            eventually("offers are stored", || {
                (call(&mut stage.redis, &["EXISTS", "redisson_delay_queue:{q}"]).int() == 1)
                    .then_some(())
            });
            stage.broker.signal("TERM");
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        assert!(stage.broker.wait(SOON).success(), "round {round}");
        let stored = call(
            &mut stage.redis,
            &["ZCARD", "redisson_delay_queue_timeout:{q}"],
        )
        .int();
        let answered: u64 = counts.iter().sum();
        assert_eq!(
            answered, stored as u64,
            "round {round}: ids given and messages stored"
        );
        assert!(
            answered > 0 && answered < 300_000,
            "round {round}: {answered}"
        );
    }
}

/// Sends as many offers as the broker takes, and counts the ids until the connection ends.
fn offer_until_the_end(mut client: Client, who: usize) -> u64 {
    let mut sending = client.stream().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for n in 0..100 {
            let mut commands = Vec::new();
            for m in 0..1_000 {
                let payload = format!("{who}-{n}-{m}");
                commands.extend(encode(&["DQ.OFFER", "q", "1h", &payload]));
            }
            // The broker is gone: nothing more can be sent.
            if std::io::Write::write_all(&mut sending, &commands).is_err() {
                return;
            }
        }
    });
    let mut ids = 0;
    loop {
        match client.read() {
            Ok(Value::Bulk(_)) => ids += 1,
            // A request that was refused was not stored.
            Ok(Value::Error(text)) if text.starts_with("UNAVAILABLE ") => {}
            Ok(other) => panic!("{other:?}"),
            Err(_) => break,
        }
    }
    client.stream().shutdown(std::net::Shutdown::Both).ok();
    writer.join().unwrap();
    ids
}

/// A client that takes its replies late: they wait in the kernel's buffers on both sides, behind
/// requests that nobody reads any more.
#[test]
fn replies_reach_a_client_that_is_slow_to_take_them() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut sending = client.stream().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let command = encode(&["DQ.OFFER", "q", "1h", "m"]);
        // Fails at the end of the connection at the latest.
        while std::io::Write::write_all(&mut sending, &command.repeat(100)).is_ok() {}
    });
    let stored = |stage: &mut Stage| {
        call(
            &mut stage.redis,
            &["ZCARD", "redisson_delay_queue_timeout:{q}"],
        )
        .int()
    };
    // Until the replies are too many to be taken, and so nothing more is read.
    let (mut before, mut since) = (0, Instant::now());
    let mut goes_on = || {
        let now = stored(&mut stage);
        if now != std::mem::replace(&mut before, now) {
            since = Instant::now();
            return Some(true);
        }
        (now > 10_000 && since.elapsed() > Duration::from_millis(300)).then_some(false)
    };
    while eventually("more is stored, or nothing for a while", &mut goes_on) {}
    stage.broker.signal("TERM");
    eventually("no new clients", || {
        std::net::TcpStream::connect(stage.broker.address())
            .is_err()
            .then_some(())
    });
    let mut ids = 0;
    while let Ok(reply) = client.read() {
        assert!(matches!(reply, Value::Bulk(_)), "{reply:?}");
        ids += 1;
    }
    client.stream().shutdown(std::net::Shutdown::Both).ok();
    writer.join().unwrap();
    assert!(stage.broker.wait(SOON).success());
    assert_eq!(ids, stored(&mut stage), "ids given and messages stored");
}

#[test]
fn a_client_that_has_said_everything_still_hears_the_answers() {
    let stage = Stage::new(&[]);
    for (n, commands) in ["DQ.OFFER q 1h m", "DQ.OFFER q 1h m\r\nDQ.SIZE q"]
        .into_iter()
        .enumerate()
    {
        let mut client = stage.broker.client();
        client
            .send_bytes(format!("{commands}\r\n").as_bytes())
            .unwrap();
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
        let rest = client.read_to_end().unwrap();
        assert_eq!(rest.escape_ascii().to_string(), ["", r":2\r\n"][n]);
    }
}

/// A data directory whose Redis does not outlive the test, whatever happens.
struct DataDir(TempDir);

impl DataDir {
    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.0.path().join("redis.pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let Some(pid) = self.pid() else { return };
        let works_here = std::fs::read_link(format!("/proc/{pid}/cwd"));
        if works_here.is_ok_and(|dir| dir == self.0.path()) {
            signal(pid, "KILL");
        }
    }
}

fn managed(dir: &DataDir) -> (Broker, Client) {
    let path = dir.0.path().to_str().unwrap();
    let settings = [("managed.port", "0")];
    let broker = Broker::with_args(&["--data-dir", path], &settings);
    let (_, redis) = broker.ready_line().split_once(", Redis ").unwrap();
    let address = redis.split(' ').next().unwrap().to_owned();
    let redis = Client::connect(address).unwrap();
    (broker, redis)
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}/exe")).exists()
}

#[test]
fn a_redis_of_its_own_comes_and_goes_with_the_broker_and_keeps_what_is_pending() {
    let dir = DataDir(tempfile::tempdir().unwrap());
    let (mut broker, _) = managed(&dir);
    let kept = offer(&mut broker.client(), &["q", "3s", "over two restarts"]);
    let redis_pid = dir.pid().unwrap();
    broker.signal("INT");
    assert!(broker.wait(SOON).success());
    assert!(is_gone(redis_pid), "Redis outlived the broker");

    // Now as a crash: Redis may live on and is adopted then; it is never in the way.
    let (mut broker, _) = managed(&dir);
    let mut client = broker.client();
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
    let acknowledged = offer(&mut client, &["q", "4s", "just before the crash"]);
    broker.signal("KILL");
    broker.wait(SOON);
    let (mut broker, mut redis) = managed(&dir);
    take_due(&mut redis, "q", "over two restarts", due_of(&kept));
    take_due(
        &mut redis,
        "q",
        "just before the crash",
        due_of(&acknowledged),
    );

    // A second broker on the same directory is refused, by name.
    let second = run(&[
        "--data-dir",
        dir.0.path().to_str().unwrap(),
        "--managed-port",
        "0",
    ]);
    assert!(
        second.contains("another delay-broker") && second.contains("--data-dir"),
        "{second}"
    );

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

/// Runs the program to its end, which must be a failure; what it says on stderr.
fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .args(["--log", "error"])
        .args(args)
        .args(if args.contains(&"--listen") {
            &[][..]
        } else {
            &["--listen", "127.0.0.1:0"]
        })
        .args(if args.contains(&"--http") {
            &[][..]
        } else {
            &["--http", "127.0.0.1:0"]
        })
        .output()
        .unwrap();
    assert!(!output.status.success(), "{args:?} did not fail");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag_that_chooses_another() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, port) = (
        taken.local_addr().unwrap().to_string(),
        taken.local_addr().unwrap().port(),
    );
    let port = port.to_string();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let redis = "redis://127.0.0.1:1";
    for (args, flag) in [
        (&["--redis", redis, "--listen", &address][..], "--listen"),
        (&["--redis", redis, "--http", &address], "--http"),
        (
            &["--data-dir", dir, "--managed-port", &port],
            "--managed-port",
        ),
    ] {
        let said = run(args);
        assert!(
            said.contains(&port) && said.contains(flag) && said.contains("taken"),
            "{said}"
        );
    }
}
