//! A master that Sentinels name: how it is found, which server is refused, and what is said of
//! Sentinels that are wrong, dead, locked or stopped. Failovers are in `tests/sentinel`.
//!
//! Most Sentinels here need a hundred others to agree before they would replace anything.

use crate::stage::due_of;
use crate::stage::{ON_TIME, call, eventually, get, metric, offer, say, take_due};
use crate::support::broker::{Broker, run};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value, encode};
use crate::support::sentinel::{NAME, Sentinel, url, watching};
use crate::support::tls::Authority;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

const ALONE: u32 = 100;

/// A field of INFO.
fn info(broker: &Broker, field: &str) -> String {
    let info = say(&mut broker.client(), "INFO").text();
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// Offers, and takes it from this Redis.
fn delivers(broker: &Broker, redis: &mut Client) {
    let id = offer(&mut broker.client(), &["q", "50", "x"]);
    take_due(redis, "q", "x", due_of(&id));
}

#[test]
fn a_master_is_found() {
    let redis = Redis::spawn(&[]);
    let sentinel = Sentinel::of(&redis, ALONE);
    let broker = Broker::spawn(&format!("{}/5", url(&[&sentinel])), &[]);
    delivers(&broker, &mut redis.client(5));
    eventually("ready", || (get(&broker, "/readyz") == (200, "ready\n".to_owned())).then_some(()));
    for (field, value) in [
        ("backing_address", format!("{}/5", url(&[&sentinel]))),
        ("backing_master_name", format!("'{NAME}'")),
        ("backing_master", redis.address()),
        ("backing_epoch", "0".to_owned()),
        ("backing_failovers", "0".to_owned()),
        ("backing_sentinels", "1".to_owned()),
        ("backing_sentinels_reachable", "1".to_owned()),
        ("backing_role", "master".to_owned()),
    ] {
        let shown = info(&broker, field);
        assert_eq!(shown.trim_matches('\''), value.trim_matches('\''), "{field}");
    }
    let series = format!("delay_broker_redis_master_info{{address=\"{}\"}}", redis.address());
    assert_eq!(metric(&broker, &series), 1.0);
    assert_eq!(metric(&broker, "delay_broker_redis_sentinels"), 1.0);
    assert_eq!(metric(&broker, "delay_broker_redis_sentinels_reachable"), 1.0);
    assert_eq!(metric(&broker, "delay_broker_redis_failovers_total"), 0.0);
    // The audit says how to lose nothing, and sees that it was done.
    let replicas = "delay_broker_audit_finding{finding=\"replicas\"}";
    assert_eq!(metric(&broker, replicas), 1.0);
    assert!(broker.log().contains("min-replicas-to-write 1"), "{}", broker.log());
    let mut admin = redis.client(0);
    for set in ["min-replicas-to-write 1", "min-replicas-max-lag 2"] {
        assert_eq!(say(&mut admin, &format!("CONFIG SET {set}")), Value::Simple("OK".into()));
    }
    let refused = call(&mut broker.client(), &["DQ.OFFER", "q", "1h", "x"]).text();
    assert!(refused.starts_with("UNAVAILABLE Redis refused: NOREPLICAS"), "{refused}");
}

#[test]
fn what_check_refuses() {
    for (args, env, part) in [
        (["--redis", "redis-sentinel://h:1,g:2"], [("A", "")], "has no name of the master"),
        (["--redis", "redis-sentinel://h,,g/m"], [("A", "")], "has no host"),
        (
            ["--redis", "redis://h"],
            [("DELAY_BROKER_REDIS__SENTINEL_PASSWORD", "secret")],
            "is for Sentinels only",
        ),
        (
            ["--redis", "redis-sentinel://h/m"],
            [("DELAY_BROKER_REDIS__SENTINEL_USER", "u")],
            "needs redis.sentinel_password as well",
        ),
    ] {
        let (status, said) = run(&[&["check"], &args[..]].concat(), &env);
        assert_eq!(status.code(), Some(64), "{said}");
        assert!(said.contains(part) && !said.contains("secret"), "{said}");
    }
    let env = [("DELAY_BROKER_REDIS__SENTINEL_PASSWORD", "hunter2")];
    let url = "redis-sentinel://u:hunter2@h:1,[::1]/m";
    let (status, said) = run(&["check", "--redis", url], &env);
    assert!(status.success() && said.contains("(hidden)@h:1,[::1]/m"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

/// Four of five are wrong, each in its own way: the fifth is enough, and each is told of.
#[test]
fn sentinels_that_are_wrong() {
    let redis = Redis::spawn(&[]);
    let good = Sentinel::of(&redis, ALONE);
    let locked =
        Sentinel::spawn(&[&watching(&redis, ALONE)[..], &["requirepass x".into()]].concat());
    let other = Sentinel::spawn(&["sentinel monitor another 127.0.0.1 1 2".to_owned()]);
    let dead = Sentinel::of(&redis, ALONE).address();
    let sentinels = format!(
        "redis-sentinel://{},{},{},{dead},{}/{NAME}",
        other.address(),
        redis.address(),
        locked.address(),
        good.address()
    );
    let broker = Broker::spawn(&sentinels, &[]);
    delivers(&broker, &mut redis.client(0));
    for (sentinel, part) in [
        (other.address(), "it knows no master 'orders'"),
        (redis.address(), "this is no Sentinel"),
        (locked.address(), "redis.sentinel_password"),
        (dead, "Connection refused"),
    ] {
        eventually(&format!("{sentinel}: {part}"), || {
            let log = broker.log();
            let told = |line: &&str| line.contains(&sentinel) && line.contains(part);
            log.lines().any(|line| told(&line)).then_some(())
        });
    }
    assert_eq!(info(&broker, "backing_sentinels_reachable"), "1");
    // Once each, not at each attempt.
    assert_eq!(broker.log().matches("it knows no master").count(), 1, "{}", broker.log());

    // Without a good one it waits, and says for what.
    let lost = Broker::spawn(&url(&[&other]), &[]);
    let (status, why) = get(&lost, "/readyz");
    assert_eq!(status, 503);
    assert!(why.contains("no Sentinel names the master 'orders'"), "{why}");
    assert!(why.contains("it knows no master 'orders': look at the name"), "{why}");
    let refused = call(&mut lost.client(), &["DQ.OFFER", "q", "1h", "x"]).text();
    assert!(refused.starts_with("UNAVAILABLE "), "{refused}");
    assert!(info(&lost, "ready_why").contains("it knows no master 'orders'"));
    // It is told of one later.
    let port = redis.port().to_string();
    call(&mut other.client(), &["SENTINEL", "MONITOR", NAME, "127.0.0.1", &port, "100"]);
    eventually("served", || (get(&lost, "/readyz").0 == 200).then_some(()));
}

/// A Sentinel that hangs holds up nothing; without any, the master that is known serves on, but
/// not one that restarted: it may be without data, and another one the master.
#[test]
fn sentinels_that_hang() {
    let mut redis = Redis::spawn(&["--appendonly", "yes", "--appendfsync", "always"]);
    let sentinels = [(); 2].map(|()| Sentinel::of(&redis, ALONE));
    let first = sentinels[0].stop();
    let begun = Instant::now();
    let broker = Broker::spawn(&url(&sentinels.each_ref()), &[]);
    delivers(&broker, &mut redis.client(0));
    assert!(begun.elapsed() < 2 * ON_TIME, "{:?}", begun.elapsed());
    let second = sentinels[1].stop();
    let deaf = "ready, but no Sentinel can be asked: a failover would not be noticed\n";
    eventually("it is said", || (get(&broker, "/readyz").1 == deaf).then_some(()));
    assert_eq!(metric(&broker, "delay_broker_redis_sentinels_reachable"), 0.0);
    delivers(&broker, &mut redis.client(0));
    // The same server, over new connections.
    say(&mut redis.client(0), "CLIENT KILL TYPE normal SKIPME yes");
    eventually("connected again", || (get(&broker, "/readyz").0 == 200).then_some(()));
    delivers(&broker, &mut redis.client(0));
    redis.start_again();
    eventually("it is refused", || {
        let (status, why) = get(&broker, "/readyz");
        (status == 503 && why.contains("has restarted, and no Sentinel says")).then_some(())
    });
    drop((first, second));
    eventually("it is used", || (get(&broker, "/readyz").0 == 200).then_some(()));
    delivers(&broker, &mut redis.client(0));
}

/// The highest epoch counts, however many say otherwise.
#[test]
fn a_sentinel_that_is_behind() {
    let (old, new) = (Redis::spawn(&[]), Redis::spawn(&[]));
    let epoch = "sentinel config-epoch @ 7".to_owned();
    let ahead = Sentinel::spawn(&[&watching(&new, ALONE)[..], &[epoch]].concat());
    let behind = [(); 2].map(|()| Sentinel::of(&old, ALONE));
    let broker = Broker::spawn(&url(&[&behind[0], &behind[1], &ahead]), &[]);
    let master = || info(&broker, "backing_master");
    eventually("the new one", || (master() == new.address()).then_some(()));
    delivers(&broker, &mut new.client(0));
    let disputed = "A Sentinel names another master by an epoch that is not higher".to_lowercase();
    eventually("it is said", || broker.log().to_lowercase().contains(&disputed).then_some(()));
    drop(ahead);
    eventually("it is gone", || {
        (info(&broker, "backing_sentinels_reachable") == "2").then_some(())
    });
    assert_eq!(master(), new.address());
    delivers(&broker, &mut new.client(0));
    assert_eq!(say(&mut old.client(0), "DBSIZE"), Value::Int(0));
}

/// As while Sentinels name one that is a replica by its own word.
#[test]
fn a_replica_is_refused() {
    let first = Redis::spawn(&[]);
    let port = first.port().to_string();
    let replica = Redis::spawn(&["--replicaof", "127.0.0.1", &port]);
    let sentinel = Sentinel::of(&replica, ALONE);
    let broker = Broker::spawn(&url(&[&sentinel]), &[]);
    let (status, why) = get(&broker, "/readyz");
    assert_eq!(status, 503, "{why}");
    assert!(why.contains("is a replica (role:slave)"), "{why}");
    say(&mut replica.client(0), "REPLICAOF NO ONE");
    eventually("served", || (get(&broker, "/readyz").0 == 200).then_some(()));
    delivers(&broker, &mut replica.client(0));
}

/// Users with the rights of the documents, and TLS, for the master and the Sentinel.
#[test]
fn users_and_tls() {
    let authority = Authority::new();
    let identity = authority.issue();
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (ca, cert, key) =
        (path(authority.file()), path(identity.certificate()), path(identity.key()));
    let tls_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = tls_port.to_string();
    let tls = ["--tls-port", &port, "--tls-ca-cert-file", &ca, "--tls-cert-file", &cert];
    let tls = [&tls[..], &["--tls-key-file", &key, "--tls-auth-clients", "no"]].concat();
    let redis = Redis::spawn(&tls);
    let line = delay_broker::audit::rights::acl_line("broker") + " >secret";
    assert_eq!(say(&mut redis.client(0), &line), Value::Simple("OK".into()));
    let (_, line) =
        include_str!("../../docs/operate/sentinel.md").split_once("ACL SETUSER ").unwrap();
    let rights = line.lines().next().unwrap().trim_end_matches('`');
    let sentinel_tls = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sentinel_port = sentinel_tls.local_addr().unwrap().port();
    drop(sentinel_tls);
    let sentinel = Sentinel::spawn(&[
        format!("sentinel monitor @ 127.0.0.1 {tls_port} 100"),
        format!("tls-port {sentinel_port}\ntls-replication yes\ntls-auth-clients no"),
        format!("tls-ca-cert-file {ca}\ntls-cert-file {cert}\ntls-key-file {key}"),
        format!("user {rights}"),
        "user default on >other ~* &* +@all".to_owned(),
    ]);
    let url = format!("rediss-sentinel://broker:secret@127.0.0.1:{sentinel_port}/{NAME}");
    let settings = [
        ("redis.tls_ca_file", ca.as_str()),
        ("redis.sentinel_user", "broker"),
        ("redis.sentinel_password", "secret"),
    ];
    let broker = Broker::spawn(&url, &settings);
    delivers(&broker, &mut redis.client(0));
    assert!(get(&broker, "/readyz").1.starts_with("ready"), "{}", broker.log());
    // Neither side was refused anything else that it asked.
    let mut admin = Client::connect(sentinel.address()).unwrap();
    say(&mut admin, "AUTH other");
    let log = say(&mut admin, "ACL LOG").elements().iter().map(Value::texts).collect::<Vec<_>>();
    let refused = |entry: &Vec<String>| {
        let object = entry.iter().position(|word| word == "object").map(|at| entry[at + 1].clone());
        object.is_some_and(|object| !["hello", "ping"].contains(&object.as_str()))
    };
    assert!(!log.iter().any(refused), "{log:?}");
    let wrong = Broker::spawn(&url, &[settings[0], settings[1], ("redis.sentinel_password", "no")]);
    let (status, why) = get(&wrong, "/readyz");
    assert_eq!(status, 503);
    assert!(why.contains("look at redis.sentinel_user and redis.sentinel_password"), "{why}");
}

/// How a Sentinel that is none answers the question for the master.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fake {
    Silent,
    Garbage,
    /// A string that never ends.
    Endless,
    /// As a Sentinel does, and with news without end.
    Flood,
}

/// Its address, and how often it was asked.
fn fake(how: Fake, redis: &Redis) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asked, port) = (Arc::<AtomicUsize>::default(), redis.port());
    let count = asked.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, count) = (client.unwrap(), count.clone());
            // Ends with its connection.
            thread::spawn(move || drop(pretend(how, port, client, &count)));
        }
    });
    (address, asked)
}

fn pretend(how: Fake, port: u16, mut client: TcpStream, asked: &AtomicUsize) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let size = client.read(&mut bytes)?;
        if size == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes[..size]).into_owned();
        if text.contains("PING") {
            client.write_all(b"+OK\r\n+PONG\r\n")?;
        }
        if text.contains("SUBSCRIBE") {
            client.write_all(&encode(&["subscribe", "+switch-master", "1"]))?;
            let news = encode(&["message", "+switch-master", &"x".repeat(1_000)]);
            if how == Fake::Flood {
                while client.write_all(&news).is_ok() {}
            }
        }
        if text.contains("GET-MASTER-ADDR") {
            asked.fetch_add(1, Ordering::Relaxed);
            match how {
                Fake::Silent => {}
                Fake::Garbage => client.write_all(b"HTTP/1.1 400 Bad Request\r\n")?,
                Fake::Endless => {
                    client.write_all(b"$999999999\r\n")?;
                    while client.write_all(&[b'x'; 10_000]).is_ok() {}
                }
                Fake::Flood => {
                    let port = &port.to_string();
                    let about = format!(
                        "ip 127.0.0.1 port {port} flags master config-epoch 0 \
                         down-after-milliseconds 500"
                    );
                    client.write_all(&encode(&about.split(' ').collect::<Vec<_>>()))?;
                    client.write_all(&encode(&["127.0.0.1", port]))?;
                }
            }
        }
    }
}

/// Sentinels that anybody may have put there: each costs a bound, and nobody waits for them.
#[test]
fn sentinels_that_are_hostile() {
    let redis = Redis::spawn(&[]);
    let good = Sentinel::of(&redis, ALONE);
    let kinds = [Fake::Silent, Fake::Garbage, Fake::Endless, Fake::Flood];
    let fakes = kinds.map(|how| fake(how, &redis));
    let fakes_are: Vec<&str> = fakes.iter().map(|(address, _)| address.as_str()).collect();
    let url = format!("redis-sentinel://{},{}/{NAME}", fakes_are.join(","), good.address());
    let begun = Instant::now();
    let broker = Broker::spawn(&url, &[]);
    for _ in 0..20 {
        delivers(&broker, &mut redis.client(0));
    }
    for (address, words) in fakes_are.iter().zip(["says nothing", "begins with 'H'", "bytes"]) {
        eventually(&format!("{address}: {words}"), || {
            let log = broker.log();
            let told = |line: &str| line.contains(address) && line.contains(words);
            log.lines().any(told).then_some(())
        });
    }
    assert_eq!(info(&broker, "backing_sentinels_reachable"), "2");
    let asked = fakes.each_ref().map(|(_, asked)| asked.load(Ordering::Relaxed));
    let most = begun.elapsed().as_millis() as usize / 20 + 1;
    assert!(asked.iter().all(|asked| (1..=most).contains(asked)), "{asked:?} of {most}");
    assert!(broker.resident_bytes() < 200 << 20, "{} bytes", broker.resident_bytes());
}
