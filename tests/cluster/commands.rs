//! Every kind of command over queues of several primaries, while nothing fails.

use crate::alone;
use crate::stage::{call, eventually, get, offer, say};
use crate::support::broker::Broker;
use crate::support::cluster::Cluster;
use crate::support::resp::Value;

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
    let _alone = alone();
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

/// One connection, one write: offers and others of many slots are answered in their order.
#[test]
fn a_pipeline_over_many_slots() {
    let _alone = alone();
    let cluster = Cluster::start(3, 0);
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    for number in 0..600 {
        let (queue, payload) = (format!("p{}", number % 200), number.to_string());
        client.push(&[b"DQ.OFFER", queue.as_bytes(), b"1h", payload.as_bytes()]);
        if number % 50 == 49 {
            client.push(&[b"DQ.SIZE", queue.as_bytes()]);
        }
    }
    client.flush().unwrap();
    for number in 0..600 {
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)), "{number}");
        if number % 50 == 49 {
            assert_eq!(client.read().unwrap().int(), 1 + number / 200, "{number}");
        }
    }
    // All queues, whichever primary has them.
    let page = say(&mut client, "DQ.QUEUES MATCH p* COUNT 500");
    let shown = format!("{page:?}");
    assert!(shown.contains("\"p0\"") && shown.contains("\"p199\""), "{shown}");
    // A transaction may offer to several slots.
    for command in ["MULTI", "DQ.OFFER p0 2h x", "DQ.OFFER p1 2h x", "DQ.OFFER p0 2h y"] {
        say(&mut client, command);
    }
    let replies = say(&mut client, "EXEC");
    assert!(replies.elements().iter().all(|id| matches!(id, Value::Bulk(_))), "{replies:?}");
    let sizes = ["p0", "p1"].map(|queue| say(&mut client, &format!("DQ.SIZE {queue}")).int());
    assert_eq!(sizes, [5, 4]);
}

#[test]
fn consumers_pauses_schedules_and_streams() {
    let _alone = alone();
    let cluster = Cluster::start(3, 0);
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    let all = queues(&cluster, "c");
    for queue in &all {
        // Leases.
        say(&mut client, &format!("DQ.SETUP {queue} destination take"));
        offer(&mut client, &[queue, "50", "job"]);
        let took = call(&mut client, &["DQ.TAKE", queue, "BLOCK", "30s"]);
        let receipt = took.elements()[0].elements()[1].text();
        assert_eq!(say(&mut client, &format!("DQ.NACK {queue} {receipt} DELAY 10")).int(), 1);
        let again = call(&mut client, &["DQ.TAKE", queue, "BLOCK", "30s"]);
        let receipt = again.elements()[0].elements()[1].text();
        assert_eq!(say(&mut client, &format!("DQ.ACK {queue} {receipt}")).int(), 1);
    }
    for queue in queues(&cluster, "s") {
        say(&mut client, &format!("DQ.SETUP {queue} destination stream groups workers"));
        offer(&mut client, &[&queue, "50", "entry"]);
        let length = || {
            let length = cluster.call(&queue, &["XLEN", &queue]).int();
            (length == 1).then_some(())
        };
        eventually("an entry", length);
    }
    for queue in queues(&cluster, "t") {
        let set = call(&mut client, &["DQ.CRON", &queue, "SET", "tick", "every 1s", "tock"]);
        assert!(!matches!(set, Value::Error(_)), "{set:?}");
        assert_eq!(delivered(&cluster, &queue, 1)[0], "tock");
    }
    // All queues at once, on every primary.
    let paused = queues(&cluster, "z");
    assert_eq!(say(&mut client, "DQ.PAUSE ALL").text(), "OK");
    for queue in &paused {
        offer(&mut client, &[queue, "0", "held"]);
    }
    for queue in &paused {
        let info = format!("{:?}", say(&mut client, &format!("DQ.INFO {queue}")));
        assert!(info.contains("paused"), "{info}");
        assert_eq!(cluster.call(queue, &["LLEN", queue]).int(), 0);
    }
    assert_eq!(say(&mut client, "DQ.RESUME ALL").text(), "OK");
    for queue in &paused {
        assert_eq!(delivered(&cluster, queue, 1), ["held"]);
    }
}

/// What others offer is heard of, or found: on each primary.
#[test]
fn queues_of_others_are_found() {
    let _alone = alone();
    let cluster = Cluster::start(3, 0);
    let [one, other] = [(); 2].map(|()| Broker::spawn(&cluster.url(), &[]));
    let all = queues(&cluster, "o");
    for queue in &all {
        offer(&mut one.client(), &[queue, "300", "heard"]);
    }
    one.signal("KILL");
    for queue in &all {
        assert_eq!(delivered(&cluster, queue, 1), ["heard"]);
    }
    // Nobody listens while these are stored.
    for queue in &all {
        offer(&mut other.client(), &[queue, "700", "found"]);
    }
    other.signal("KILL");
    let third = Broker::spawn(&cluster.url(), &[]);
    for queue in &all {
        assert_eq!(delivered(&cluster, queue, 2), ["heard", "found"]);
    }
    drop(third);
}

#[test]
fn names_whose_keys_are_in_different_slots() {
    let _alone = alone();
    let cluster = Cluster::start(1, 0);
    let broker = Broker::spawn(&cluster.url(), &[]);
    let mut client = broker.client();
    for queue in ["lone{", "a{}b", "{}", "close}"] {
        for command in [&["DQ.OFFER", queue, "1", "x"][..], &["DQ.SIZE", queue]] {
            let text = match call(&mut client, command) {
                Value::Error(text) => text,
                other => panic!("{command:?}: {other:?}"),
            };
            assert!(text.contains("different slots of the Cluster"), "{command:?}: {text}");
        }
    }
    assert_eq!(say(&mut client, "DQ.SIZE a{b}c").int(), 0);
    // A Cluster of one node is one.
    offer(&mut client, &["q", "1", "x"]);
    assert_eq!(delivered(&cluster, "q", 1), ["x"]);
}

/// Half of the seeds may be wrong; a seed that is no Cluster, or all of them, are said.
#[test]
fn seeds() {
    let _alone = alone();
    let cluster = Cluster::start(2, 0);
    let alone = crate::support::redis::Redis::spawn(&[]);
    let wrong = "redis-cluster://127.0.0.1:1,";
    let some = format!("{wrong}{},{}", alone.address(), cluster.nodes[1].address());
    let broker = Broker::spawn(&some, &[]);
    for queue in ["a", "b", "c", "d"] {
        offer(&mut broker.client(), &[queue, "1", "x"]);
        assert_eq!(delivered(&cluster, queue, 1), ["x"]);
    }
    let none = format!("{wrong}{}", alone.address());
    let broker = Broker::spawn(&none, &[]);
    let (_, why) = get(&broker, "/readyz");
    assert!(why.contains("this Redis is no node of a Cluster"), "{why}");
}

/// As behind NAT: what nodes announce reaches nobody.
#[test]
fn announced_addresses() {
    let _alone = alone();
    let cluster = Cluster::with(1, 0, &["--cluster-announce-ip", "10.255.255.1"]);
    let address = cluster.nodes[0].address();
    let port = cluster.nodes[0].port();
    let told = format!("10.255.255.1:{port}={address}");
    let broker = Broker::spawn(&cluster.url(), &[("redis.addresses", &told)]);
    offer(&mut broker.client(), &["q", "1", "x"]);
    assert_eq!(delivered(&cluster, "q", 1), ["x"]);
}

/// A user with the rights of `docs/operate/redis.md` and one more.
#[test]
fn rights() {
    let _alone = alone();
    let cluster = Cluster::start(2, 0);
    let page = include_str!("../../docs/operate/redis.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER broker")).unwrap();
    let user = |more: &str| {
        for node in &cluster.nodes {
            let words = format!("{line} >secret {more}");
            say(&mut node.client(0), words.trim());
        }
    };
    let url = cluster.url().replace("://", "://broker:secret@");
    user("-cluster");
    let broker = Broker::spawn(&url, &[]);
    let (_, why) = get(&broker, "/readyz");
    assert!(why.contains("lacks the right to CLUSTER NODES"), "{why}");
    user("+cluster|nodes");
    eventually("ready", || (get(&broker, "/readyz").0 == 200).then_some(()));
    for queue in ["a", "b", "c", "d"] {
        offer(&mut broker.client(), &[queue, "1", "x"]);
        assert_eq!(delivered(&cluster, queue, 1), ["x"]);
    }
    assert!(!broker.log().contains("\"finding\":\"acl\""), "{}", broker.log());
}
