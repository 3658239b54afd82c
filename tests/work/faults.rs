//! Brokers that go away, and workers that are killed: every message is handled.

use crate::stage::{Stage, eventually, info, offer};
use crate::support::broker::Broker;
use crate::support::wait::WITHIN;
use crate::taking::held;
use crate::worker::{Worker, acked, patiently};
use std::collections::BTreeSet;

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
    patiently("all are handled", || (handled(&worker).len() == MESSAGES).then_some(()));
    patiently("all are settled", || (held(&mut stage.redis) == [0; 5]).then_some(()));
    assert_eq!(info(&mut client, "q", "acked").int() as usize, MESSAGES);
    let lines = worker.read("handled").lines().count();
    // At most what was in work when it was killed came twice.
    assert!(lines <= MESSAGES + 2 * 8, "{lines} lines");
    assert_eq!(worker.stop(), 0);
}
