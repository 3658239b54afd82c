//! Stops, second signals, pauses.

use crate::stage::{Stage, eventually, info, offer};
use crate::taking::{held, take_one};
use crate::worker::{Worker, acked};

/// Says that it runs, and ends when it may.
const UNTIL_GO: &str = "echo $$ >> \"$DIR/begun\"; while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done";

fn begun(worker: &Worker, count: usize) {
    eventually("handlers run", || (worker.read("begun").lines().count() == count).then_some(()));
}

fn gone(pid: &str) {
    eventually("the handler is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn handlers_get_the_grace_time() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut worker = Worker::runs(&stage, &["--concurrency", "1"], UNTIL_GO);
    offer(&mut client, &["q", "0", "a"]);
    begun(&worker, 1);
    offer(&mut client, &["q", "0", "b"]);
    worker.signal("TERM");
    worker.has_logged("SIGTERM: stopping");
    std::fs::write(worker.path("go"), "").unwrap();
    assert_eq!(worker.wait(), 0);
    assert_eq!(info(&mut client, "q", "acked").int(), 1);
    assert!(worker.log().contains("1 done, 0 failed"), "{}", worker.log());
    let left = take_one(&mut client, "q BLOCK 5s");
    assert_eq!((left.payload.as_str(), left.attempt), ("b", 1));
    assert_eq!(held(&mut stage.redis)[0], 1, "only that one is leased");
}

#[test]
fn after_the_grace_time_messages_go_back_uncounted() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let flags = ["--concurrency", "2", "--grace", "100ms", "--lease", "1h"];
    let mut worker = Worker::runs(&stage, &flags, UNTIL_GO);
    for payload in ["a", "b", "c"] {
        offer(&mut client, &["q", "0", payload]);
    }
    begun(&worker, 2);
    assert_eq!(worker.stop(), 0);
    worker.read("begun").lines().for_each(gone);
    for _ in 0..3 {
        assert_eq!(take_one(&mut client, "q BLOCK 5s").attempt, 1);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut worker = Worker::runs(&stage, &["--grace", "1h"], UNTIL_GO);
    offer(&mut client, &["q", "0", "a"]);
    begun(&worker, 1);
    worker.signal("TERM");
    worker.has_logged("stopping");
    worker.signal("INT");
    assert_eq!(worker.wait(), 130);
    gone(&worker.read("begun"));
}

#[test]
fn pauses() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut worker = Worker::runs(&stage, &[], "cat >> \"$DIR/handled\"");
    let takers = |client: &mut _, count| {
        eventually("takers", || (info(client, "q", "takers").int() == count).then_some(()));
    };
    takers(&mut client, 1);
    for (round, resume) in [(1, "USR2"), (2, "USR1")] {
        worker.signal("USR1");
        takers(&mut client, 0);
        offer(&mut client, &["q", "0", "x"]);
        let list = |redis: &mut _| crate::stage::list(redis, "q").len();
        eventually("it is delivered", || (list(&mut stage.redis) == 1).then_some(()));
        assert_eq!(info(&mut client, "q", "acked").int(), round - 1);
        worker.signal(resume);
        acked(&mut client, round);
        takers(&mut client, 1);
    }
    assert_eq!(worker.read("handled"), "xx");
    // A stop while it is paused.
    worker.signal("USR1");
    takers(&mut client, 0);
    assert_eq!(worker.stop(), 0);
}
