//! Every kind of command over queues of several primaries, while nothing fails.

use crate::stage::{call, eventually, get, offer, say};
use crate::support::broker::Broker;
use crate::support::cluster::Cluster;
use crate::support::resp::{Client, Value};

/// A queue of each primary.
fn queues(cluster: &Cluster, name: &str) -> Vec<String> {
    (0..3).map(|primary| cluster.queue_at(primary, name)).collect()
}

fn delivered(cluster: &Cluster, queue: &str, count: usize) -> Vec<String> {
    eventually(queue, || {
        let list = cluster.call(queue, &["LRANGE", queue, "0", "-1"]).texts();
        (list.len() >= count).then_some(list)
    })
}

#[test]
fn offers_are_stored_and_delivered_in_every_slot() {
    let cluster = Cluster::start(3, 0);
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    for queue in queues(&cluster, "q").iter().chain(&["{q}x".to_owned(), "a{b}c".to_owned()]) {
        offer(&mut client, &[queue, "50", "first"]);
        offer(&mut client, &[queue, "100", "second", "NAME", "n"]);
        let later = offer(&mut client, &[queue, "1h", "later"]);
        assert_eq!(delivered(&cluster, queue, 2), ["first", "second"], "{queue}");
        assert_eq!(say(&mut client, &format!("DQ.SIZE {queue}")).int(), 1);
        assert_eq!(say(&mut client, &format!("DQ.CANCEL {queue} {later}")).int(), 1);
        assert_eq!(say(&mut client, &format!("DQ.SIZE {queue}")).int(), 0);
    }
}
