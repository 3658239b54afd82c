//! A copy of the data directory is a backup: docs/operate/backup.md.

use crate::stage::{SOON, call, offer, say, take};
use crate::support::broker::Broker;
use crate::support::data_dir::DataDir;
use crate::support::resp::{Client, Value};
use std::process::Command;

fn start(dir: &DataDir) -> Broker {
    Broker::with_args(&["--data-dir", dir.text(), "--managed-port", "0"], &[])
}

/// The Redis that the broker started, for consumers.
fn redis(broker: &Broker) -> Client {
    let (_, rest) = broker.ready_line().split_once("Redis ").unwrap();
    let address = rest.split([',', ' ']).next().unwrap();
    Client::connect(address.trim_start_matches("redis://")).unwrap()
}

fn stop(mut broker: Broker) {
    broker.signal("TERM");
    assert!(broker.wait(SOON).success(), "{}", broker.log());
}

#[test]
fn a_restored_copy_knows_nothing_of_what_came_after_it() {
    let (dir, copy) = (DataDir::new(), DataDir::new());
    let broker = start(&dir);
    let ids = ["delivered later", "stays"]
        .map(|payload| offer(&mut broker.client(), &["q", "2h", payload]));
    stop(broker);
    let inside = format!("{}/.", dir.text());
    let copied = Command::new("cp").args(["-a", &inside, copy.text()]).status();
    assert!(copied.unwrap().success());

    let broker = start(&dir);
    let mut client = broker.client();
    assert_eq!(call(&mut client, &["DQ.FIRE", "q", &ids[0]]), Value::Int(1));
    assert_eq!(take(&mut redis(&broker), "q").0, b"delivered later");
    offer(&mut client, &["q", "2h", "offered later"]);
    stop(broker);

    // What was delivered is pending again; what was offered later is not there.
    let broker = start(&copy);
    let mut client = broker.client();
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(2));
    for (id, payload) in ids.iter().zip(["delivered later", "stays"]) {
        assert_eq!(call(&mut client, &["DQ.FIRE", "q", id]), Value::Int(1));
        assert_eq!(take(&mut redis(&broker), "q").0, payload.as_bytes());
    }
    stop(broker);
}
