//! `SYNC` of offers: what is answered is on replicas, or on the disk, and what is not says so.

use crate::stage::{Stage, call, eventually, info, metric, say};
use crate::support::broker::Broker;
use crate::support::http::Api;
use crate::support::process::Stopped;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value, encode};
use crate::support::wait;
use serde_json::json;
use std::time::Duration;

/// A full synchronization begins at once.
const MASTER: [&str; 2] = ["--repl-diskless-sync", "no"];

fn replica_of(master: &Redis) -> Redis {
    let port = master.port().to_string();
    let replica = Redis::spawn(&["--replicaof", "127.0.0.1", &port]);
    wait::eventually(
        || say(&mut master.client(0), "INFO replication").text(),
        |text| text.contains("state=online"),
    );
    replica
}

fn error(value: Value) -> String {
    match value {
        Value::Error(text) => text,
        other => panic!("{other:?}"),
    }
}

fn pending(redis: &mut Client) -> i64 {
    say(redis, "ZCARD redisson_delay_queue_timeout:{q}").int()
}

/// How often Redis has run WAIT.
fn waits(redis: &mut Client) -> u64 {
    let text = say(redis, "INFO commandstats").text();
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// An acknowledged message is on as many replicas as was asked for; where there are too few,
/// nothing is stored.
#[test]
fn replicas_have_what_is_acknowledged() {
    let master = Redis::spawn(&MASTER);
    let broker = Broker::spawn(&master.url(0), &[("redis.call_timeout_ms", "9000")]);
    let mut client = broker.client();
    let none = "UNAVAILABLE SYNC replicas 1 needs 1 connected replicas, and Redis has 0; nothing \
                was stored";
    for command in ["DQ.OFFER q 1h p SYNC replicas 1", "DQ.MOFFER q SYNC REPLICAS 1 1h p 2h r"] {
        assert_eq!(error(say(&mut client, command)), none, "{command}");
        say(&mut client, "MULTI");
        assert_eq!(error(say(&mut client, command)), none, "{command}");
        assert!(error(say(&mut client, "EXEC")).starts_with("EXECABORT"), "{command}");
    }
    assert_eq!(pending(&mut master.client(0)), 0);

    let replica = replica_of(&master);
    let mut copy = replica.client(0);
    let offered = || say(&mut client, "DQ.OFFER q 1h p SYNC replicas 1");
    // What is known of the replicas may be a second old.
    wait::eventually(offered, |said| matches!(said, Value::Bulk(_)));
    assert_eq!(pending(&mut copy), 1);
    for count in 2..30 {
        call(&mut client, &["DQ.OFFER", "q", "1h", "p", "SYNC", "replicas", "1"]).bytes();
        assert_eq!(pending(&mut copy), count);
    }
    say(&mut client, "DQ.MOFFER q SYNC replicas 1 1h p 2h r").elements();
    assert_eq!(pending(&mut copy), 31);
    // In one pipeline, with others that wait for nothing, in the order of the commands.
    let one = encode(&["DQ.OFFER", "q", "1h", "p", "SYNC", "replicas", "1"]);
    let other = encode(&["DQ.OFFER", "q", "1h", "p"]);
    client.send_bytes(&[&one[..], &other, &one, &other].concat()).unwrap();
    for _ in 0..4 {
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
    }
    for command in ["MULTI", "DQ.OFFER q 1h p", "PING", "DQ.OFFER q 1h p SYNC replicas 1"] {
        say(&mut client, command);
    }
    let done = say(&mut client, "EXEC");
    let bulk = |place: usize| matches!(done.elements()[place], Value::Bulk(_));
    assert!(bulk(0) && bulk(2), "{done:?}");
    assert_eq!(pending(&mut copy), 37);
    // A named one that may not be stored waits for nothing.
    say(&mut client, "DQ.OFFER q 1h p NAME n SYNC replicas 1");
    assert_eq!(say(&mut client, "DQ.OFFER q 1h p NAME n NX SYNC replicas 1"), Value::Null);
    let two = error(say(&mut client, "DQ.OFFER q 1h p SYNC replicas 2"));
    assert!(two.contains("needs 2 connected replicas, and Redis has 1"), "{two}");
    assert_eq!(info(&mut client, "q", "pending").int(), 38);
    assert_eq!(metric(&broker, "delay_broker_sync_unconfirmed_total"), 0.0);
}

/// While the replica stands still offers are uncertain, and say that they are stored; others go on.
#[test]
fn a_replica_that_stands_still() {
    let master = Redis::spawn(&MASTER);
    let replica = replica_of(&master);
    let broker = Broker::spawn(&master.url(0), &[("redis.call_timeout_ms", "3000")]);
    let mut client = broker.client();
    let offer = "DQ.OFFER q 1h p SYNC replicas 1";
    wait::eventually(|| say(&mut client, offer), |said| matches!(said, Value::Bulk(_)));
    let before = pending(&mut master.client(0));
    let unconfirmed = || metric(&broker, "delay_broker_sync_unconfirmed_total");
    let unconfirmed_before = unconfirmed();
    let stopped = Stopped::new(replica.pid());
    let said = error(say(&mut client, offer));
    let wanted = "UNCERTAIN stored, but SYNC replicas 1 is not confirmed: 0 of 1 replicas \
                  confirmed within 3000 ms";
    assert_eq!(said, wanted);
    assert_eq!(pending(&mut master.client(0)), before + 1);
    // While it waits others do not.
    client.send_bytes(&encode(&offer.split(' ').collect::<Vec<_>>())).unwrap();
    let size = || pending(&mut master.client(0));
    wait::eventually(size, |size| *size == before + 2);
    assert!(matches!(say(&mut broker.client(), "DQ.OFFER q 1h p"), Value::Bulk(_)));
    assert_eq!(error(client.read().unwrap()), wanted);
    assert_eq!(unconfirmed(), unconfirmed_before + 2.0);
    drop(stopped);
    wait::eventually(|| say(&mut client, offer), |said| matches!(said, Value::Bulk(_)));
}

/// However many wait, one WAIT at a time serves them all.
#[test]
fn one_wait_serves_all() {
    const CLIENTS: usize = 500;
    let master = Redis::spawn(&MASTER);
    let replica = replica_of(&master);
    let settings = [("redis.call_timeout_ms", "60000"), ("server.clients_per_address_max", "1000")];
    let broker = Broker::spawn(&master.url(0), &settings);
    let mut redis = master.client(0);
    let mut first = broker.client();
    say(&mut first, "DQ.OFFER q 1h p SYNC replicas 1").bytes();
    let stopped = Stopped::new(replica.pid());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| broker.client()).collect();
    let offer = encode(&["DQ.OFFER", "q", "1h", "p", "SYNC", "replicas", "1"]);
    for client in &mut clients {
        client.read_within(Duration::from_secs(60)).unwrap();
        client.send_bytes(&offer).unwrap();
    }
    eventually("all are stored", || (pending(&mut redis) == CLIENTS as i64 + 1).then_some(()));
    drop(stopped);
    for client in &mut clients {
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
    }
    let (waits, rounds) = (waits(&mut redis), metric(&broker, "delay_broker_sync_rounds_total"));
    // And one for each connection, which asks whether it may.
    assert_eq!(waits as f64, rounds + 1.0);
    assert!((2..CLIENTS as u64).contains(&waits), "{waits} times WAIT");
}

/// A WAIT on a connection that was made later, or after the offers' was, vouches for nothing.
#[test]
fn a_connection_that_was_made_anew_vouches_for_nothing() {
    let master = Redis::spawn(&MASTER);
    let replica = replica_of(&master);
    let broker = Broker::spawn(&master.url(0), &[("redis.call_timeout_ms", "60000")]);
    let (mut redis, mut client) = (master.client(0), broker.client());
    client.read_within(Duration::from_secs(60)).unwrap();
    for link in ["delay-broker-sync", "delay-broker-offers"] {
        let offer = "DQ.OFFER q 1h p SYNC replicas 1";
        wait::eventually(|| say(&mut client, offer), |said| matches!(said, Value::Bulk(_)));
        let before = pending(&mut redis);
        let stopped = Stopped::new(replica.pid());
        client.send_bytes(&encode(&offer.split(' ').collect::<Vec<_>>())).unwrap();
        eventually("it is stored", || (pending(&mut redis) == before + 1).then_some(()));
        let list = say(&mut redis, "CLIENT LIST").text();
        let line = list.lines().find(|line| line.contains(&format!("name={link} "))).unwrap();
        let id = line.strip_prefix("id=").unwrap().split(' ').next().unwrap();
        say(&mut redis, &format!("CLIENT KILL ID {id}"));
        let series = format!("delay_broker_redis_reconnects_total{{link=\"{}\"}}", &link[13..]);
        eventually("it is made anew", || (metric(&broker, &series) > 0.0).then_some(()));
        // From here on WAIT would confirm it.
        drop(stopped);
        let said = error(client.read().unwrap());
        assert!(said.starts_with("UNCERTAIN stored, but SYNC replicas 1 is not"), "{link}: {said}");
        assert_eq!(pending(&mut redis), before + 1);
    }
}

/// The disk: where Redis cannot tell, nothing is stored.
#[test]
fn the_disk() {
    let offer = "DQ.OFFER q 1h p SYNC fsync";
    for (settings, needs) in [
        (&["--appendonly", "no"][..], None),
        (&["--appendonly", "yes", "--appendfsync", "everysec"], Some((7, 2))),
        (&["--appendonly", "yes", "--appendfsync", "always"], Some((0, 0))),
    ] {
        let redis = Redis::spawn(settings);
        let stage = Broker::spawn(&redis.url(0), &[("redis.call_timeout_ms", "9000")]);
        let (mut direct, mut client) = (redis.client(0), stage.client());
        let text = say(&mut direct, "INFO server").text();
        let version = text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
        let mut parts = version.trim().split('.').map(|part| part.parse::<u32>().unwrap());
        let version = (parts.next().unwrap(), parts.next().unwrap());
        let said = say(&mut client, offer);
        if needs.is_some_and(|needs| version >= needs) {
            assert!(matches!(said, Value::Bulk(_)), "{settings:?}: {said:?}");
            assert_eq!(pending(&mut direct), 1);
            say(&mut client, "DQ.MOFFER q SYNC fsync 1h p 2h r").elements();
            assert_eq!(pending(&mut direct), 3);
        } else {
            let said = error(said);
            assert!(said.starts_with("ERR SYNC fsync needs a Redis that"), "{settings:?}: {said}");
            assert_eq!(pending(&mut direct), 0);
        }
    }
}

/// A user that may not ask for it is told so before anything is stored.
#[test]
fn without_the_right() {
    let master = Redis::spawn(&MASTER);
    let _replica = replica_of(&master);
    let mut redis = master.client(0);
    say(&mut redis, "ACL SETUSER broker on >secret ~* &* +@all -wait");
    let url = master.url(0).replace("redis://", "redis://broker:secret@");
    let broker = Broker::spawn(&url, &[("redis.call_timeout_ms", "9000")]);
    let said = error(say(&mut broker.client(), "DQ.OFFER q 1h p SYNC replicas 1"));
    let wanted = "UNAVAILABLE SYNC replicas 1 cannot be had: Redis refused: NOPERM";
    assert!(said.starts_with(wanted), "{said}");
    assert_eq!(pending(&mut redis), 0);
    assert!(matches!(say(&mut broker.client(), "DQ.OFFER q 1h p"), Value::Bulk(_)));
}

/// `durability` of a queue is for offers that come without SYNC, through every door.
#[test]
fn durability_of_a_queue() {
    let stage = Stage::alone(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.toml");
    let text = "[[queues]]\nname = \"q\"\ndurability = \"replicas 1\"\n";
    std::fs::write(&file, text).unwrap();
    let args = ["--redis", &stage.url, "--config", file.to_str().unwrap()];
    let broker = Broker::with_args(&args, &[]);
    let mut client = broker.client();
    for command in ["DQ.OFFER q 1h p", "DQ.MOFFER q 1h p", "DQ.OFFER q 1h p SYNC replicas 1"] {
        let said = error(say(&mut client, command));
        assert!(said.starts_with("UNAVAILABLE SYNC replicas 1 needs 1"), "{command}: {said}");
    }
    let api = Api::new(broker.http_address());
    let body = json!({"delay": "1h", "payload": "p"});
    let said = api.call("POST", "/queues/q/messages", &body);
    assert_eq!(said.problem(), "503 UNAVAILABLE no");
    assert_eq!(info(&mut client, "q", "pending").int(), 0);
    for command in ["DQ.OFFER q 1h p SYNC none", "DQ.OFFER other 1h p"] {
        assert!(matches!(say(&mut client, command), Value::Bulk(_)), "{command}");
    }
}
