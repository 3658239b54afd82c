//! Brokers that go away, and workers that are killed: every message is handled.

use crate::stage::{Stage, eventually, info, offer};
use crate::support::broker::{Broker, signal};
use crate::support::process::Stopped;
use crate::support::proxy::{Break, Proxy};
use crate::support::redis::shared;
use crate::support::wait::{WITHIN, within};
use crate::taking::{held, take_one};
use crate::worker::{Worker, acked, patiently};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const APPEND: &str = "echo \"$(cat)\" >> \"$DIR/handled\"";

fn handled(worker: &Worker) -> BTreeSet<String> {
    worker.read("handled").lines().map(str::to_owned).collect()
}

#[test]
fn a_broker_that_is_started_again() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let address = stage.broker.address();
    let mut worker = Worker::runs(&stage, &["--lease", "20s"], APPEND);
    offer(&mut client, &["q", "0", "a"]);
    acked(&mut client, 1);
    stage.broker.signal("KILL");
    stage.broker.wait(WITHIN);
    worker.has_logged("no take");
    stage.broker = Broker::with_args(&["--listen", &address, "--redis", &stage.url], &[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "0", "b"]);
    patiently("both are handled", || (handled(&worker).len() == 2).then_some(()));
    assert_eq!(worker.stop(), 0);
}

/// The broker dies while a handler runs; the worker settles at the other one.
#[test]
fn two_brokers_of_which_one_dies() {
    let mut stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let mut client = other.client();
    let (one, two) = (stage.broker.address(), other.address());
    let brokers = format!("redis://{one},redis://{two}");
    let script = "touch \"$DIR/begun\"; while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done; \
                  echo \"$(cat)\" >> \"$DIR/handled\"";
    let words = ["q", "--broker", &brokers, "--lease", "1h", "--", "sh", "-c", script];
    let mut worker = Worker::start(&words, &[]);
    worker.has_logged(&one);
    offer(&mut client, &["q", "0", "a"]);
    eventually("it runs", || worker.path("begun").exists().then_some(()));
    stage.broker.signal("KILL");
    stage.broker.wait(WITHIN);
    std::fs::write(worker.path("go"), "").unwrap();
    acked(&mut client, 1);
    offer(&mut client, &["q", "0", "b"]);
    acked(&mut client, 2);
    assert_eq!(handled(&worker).len(), 2);
    assert_eq!(held(&mut stage.redis), [0; 5]);
    assert_eq!(worker.stop(), 0);
}

#[test]
fn a_worker_that_is_killed_twice() {
    const MESSAGES: usize = 1_000;
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let payloads: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    for payload in &payloads {
        offer(&mut client, &["q", "0", payload]);
    }
    let mut worker = Worker::runs(&stage, &["--lease", "2s"], APPEND);
    for part in [200, 500] {
        patiently("a part is handled", || (handled(&worker).len() >= part).then_some(()));
        let dir = worker.leave();
        let broker = format!("redis://{}", stage.broker.address());
        let words = ["q", "--broker", &broker, "--lease", "2s", "--", "sh", "-c", APPEND];
        worker = Worker::within(dir, &words, &[]);
    }
    patiently("all are handled", || (handled(&worker).len() >= MESSAGES).then_some(()));
    // Each is whole, also those of commands that outlived their worker.
    assert_eq!(handled(&worker), payloads.into_iter().collect());
    patiently("all are settled", || (held(&mut stage.redis) == [0; 5]).then_some(()));
    assert_eq!(info(&mut client, "q", "acked").int() as usize, MESSAGES);
    let lines = worker.read("handled").lines().count();
    // At most what was in work when it was killed came twice.
    assert!(lines <= MESSAGES + 2 * 8, "{lines} lines");
    assert_eq!(worker.stop(), 0);
}

/// Nothing comes of the one, and its connections stay open.
#[test]
fn two_brokers_of_which_one_stands_still() {
    let stage = Stage::new(&[]);
    let other = stage.another(&[]);
    let mut client = other.client();
    let brokers = format!("redis://{},redis://{}", stage.broker.address(), other.address());
    let script = "touch \"$DIR/begun\"; while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done";
    let words = ["q", "--broker", &brokers, "--lease", "1h", "--", "sh", "-c", script];
    let mut worker = Worker::start(&words, &[]);
    offer(&mut client, &["q", "0", "a"]);
    eventually("it runs", || worker.path("begun").exists().then_some(()));
    let _stopped = Stopped::new(stage.broker.pid());
    std::fs::write(worker.path("go"), "").unwrap();
    patiently("it is settled", || (info(&mut client, "q", "acked").int() == 1).then_some(()));
    offer(&mut client, &["q", "0", "b"]);
    patiently("the next one too", || (info(&mut client, "q", "acked").int() == 2).then_some(()));
    assert_eq!(worker.stop(), 0);
}

/// The one has lost its Redis, and is set to look for it longer than a worker waits for an answer.
#[test]
fn two_brokers_of_which_one_answers_late() {
    let redis = shared();
    let database = redis.fresh_database();
    let proxy = Proxy::start(redis.address());
    let slow = ("redis.settle_timeout_ms", "120000");
    let url = format!("redis://{}/{database}", proxy.address());
    let one = Broker::spawn(&url, &[slow, ("redis.call_timeout_ms", "120000")]);
    let other = Broker::spawn(&redis.url(database), &[]);
    let mut client = other.client();
    let brokers = format!("redis://{},redis://{}", one.address(), other.address());
    let script = "touch \"$DIR/begun\"; while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done";
    let words = ["q", "--broker", &brokers, "--lease", "1h", "--", "sh", "-c", script];
    let mut worker = Worker::start(&words, &[]);
    worker.has_logged(&one.address());
    offer(&mut client, &["q", "0", "a"]);
    eventually("it runs", || worker.path("begun").exists().then_some(()));
    proxy.hold_all();
    std::fs::write(worker.path("go"), "").unwrap();
    patiently("it is settled", || (info(&mut client, "q", "acked").int() == 1).then_some(()));
    offer(&mut client, &["q", "0", "b"]);
    patiently("the next one too", || (info(&mut client, "q", "acked").int() == 2).then_some(()));
    proxy.release();
    assert_eq!(worker.stop(), 0);
}

/// The broker has settled the message, and its answer is lost: that call is made again.
#[test]
fn an_answer_that_is_lost() {
    for how in [Break::Reply, Break::HalfReply, Break::Request] {
        let mut stage = Stage::new(&[]);
        let proxy = Proxy::start(stage.broker.address());
        let mut client = stage.broker.client();
        let url = format!("redis://{}", proxy.address());
        let mut worker = Worker::start(&["q", "--broker", &url, "--", "true"], &[]);
        proxy.break_next(&["DQ.ACK"], how);
        offer(&mut client, &["q", "0", "a"]);
        acked(&mut client, 1);
        eventually("nothing is left", || (held(&mut stage.redis) == [0; 5]).then_some(()));
        assert_eq!(proxy.broken(), 1);
        assert_eq!(worker.stop(), 0);
        assert!(worker.log().contains("1 done, 0 failed"), "{}", worker.log());
    }
}

/// The reply of a take is on its way when the worker stops: it goes back, uncounted.
#[test]
fn messages_that_come_during_the_stop() {
    let stage = Stage::new(&[]);
    let (port, held_back) = forward(stage.broker.address());
    let mut client = stage.broker.client();
    let url = format!("redis://127.0.0.1:{port}");
    let words = ["q", "--broker", &url, "--lease", "1h", "--", "touch", "/nowhere/handled"];
    let mut worker = Worker::start(&words, &[]);
    eventually("it waits", || (info(&mut client, "q", "takers").int() == 1).then_some(()));
    let holds = held_back.lock().unwrap();
    offer(&mut client, &["q", "0", "a"]);
    eventually("it is taken", || (info(&mut client, "q", "leased").int() == 1).then_some(()));
    worker.signal("TERM");
    worker.has_logged("SIGTERM: stopping");
    drop(holds);
    assert_eq!(worker.wait(), 0);
    let log = worker.log();
    assert!(log.contains("0 failed, 0 dead, 0 timed out, 1 given back"), "{log}");
    assert_eq!(take_one(&mut client, "q BLOCK 5s").attempt, 1);
}

/// A port that leads to the address, half closed connections too. While the lock is held, no reply
/// passes.
fn forward(address: String) -> (u16, Arc<Mutex<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lock = Arc::new(Mutex::new(()));
    let gate = lock.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&address).unwrap();
            let replies = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let gate = gate.clone();
            std::thread::spawn(move || pass((client, server), None));
            std::thread::spawn(move || pass(replies, Some(&gate)));
        }
    });
    (port, lock)
}

fn pass((mut from, mut to): (TcpStream, TcpStream), gate: Option<&Mutex<()>>) -> Option<()> {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let _open = gate.map(|gate| gate.lock().unwrap());
        to.write_all(&bytes[..count]).ok()?;
    }
    to.shutdown(Shutdown::Write).ok()
}

/// Its log is a pipe that nobody reads, and its handlers print into the same.
#[test]
fn a_log_that_nobody_reads() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..300 {
        offer(&mut client, &["q", "0", &n.to_string()]);
    }
    let broker = format!("redis://{}", stage.broker.address());
    let script = "head -c 3000 /dev/zero | tr '\\0' x >&2; echo >&2";
    let mut worker = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .args(["work", "q", "--broker", &broker, "--log", "debug", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    patiently("all", || (info(&mut client, "q", "acked").int() == 300).then_some(()));
    signal(worker.id(), "TERM");
    let ended = within(Duration::from_secs(30), || worker.try_wait().unwrap(), Option::is_some);
    assert_eq!(ended.unwrap().code(), Some(0));
}
