//! What a MONITOR log of a Redisson client shows, replayed in both directions: its five members
//! are delivered by our scripts, and the same payloads offered by ours make the same keys.

use crate::bench::Bench;
use crate::support::keyspace::{Bytes, Stored};
use crate::support::redis::shared;
use crate::text::legacy;

const SCORES: [&str; 5] =
    ["1610452455407", "1610452455422", "1610452455424", "1610452455427", "1610452455429"];

/// The bytes before the payload, as logged: the random double, and 13 as the length.
const IDS: [&[u8; 8]; 5] = [
    b":\xdf\x0eO\x8c\xa7\xd4C",
    b"e\xfd\xfe?j?\xdbC",
    b"\x80J\x01j\x11\xee\xda\xc3",
    b"v\xb5\xd0r\xb48\xd4\xc3",
    b"\xe7\x07\x8b\xee\t-\x94C",
];

fn payload(number: usize) -> Vec<u8> {
    [b"\x04>\nfffffffff".as_slice(), (number + 1).to_string().as_bytes()].concat()
}

/// The members as logged, byte by byte.
fn members() -> Vec<Vec<u8>> {
    let member =
        |number: usize| [IDS[number].as_slice(), b"\r\0\0\0\0\0\0\0", &payload(number)].concat();
    (0..5).map(member).collect()
}

#[test]
fn theirs_is_delivered() {
    let mut bench = Bench::new("");
    let key = |role: &str| bench.names.key(role).into_bytes();
    let (timeout, list) = (key("timeout"), key("list"));
    for (member, score) in members().into_iter().zip(SCORES) {
        let zadd: [&[u8]; 4] = [b"ZADD", &timeout, score.as_bytes(), &member];
        bench.client.call(&zadd).unwrap();
        let rpush: [&[u8]; 3] = [b"RPUSH", &list, &member];
        bench.client.call(&rpush).unwrap();
    }
    bench.returns("transfer 1 1000", "OK 1610452455422 '' :0 :0 :0 :0 1610452455407 :1");
    for (name, listed) in [("timeout", 4), ("list", 4), ("destination", 1)] {
        let count = if name == "timeout" { "ZCARD" } else { "LLEN" };
        assert_eq!(bench.redis(&format!("{count} @{name}")).int(), listed, "{name}");
    }
    bench.returns(
        "transfer 2 1000",
        "OK 1610452455427 '' :0 :0 :0 :0 1610452455422 :1 1610452455424 :1",
    );
    bench.returns("transfer 2 1000", "OK '' '' :0 :0 :0 :0 1610452455427 :1 1610452455429 :1");
    let payloads = (0..5).map(|number| Bytes(payload(number))).collect();
    let destination = Bytes(bench.names.queue.clone().into_bytes());
    assert_eq!(bench.keyspace(), [(destination, Stored::List(payloads))].into());
}

/// The order of scores, members and publications; only the ids are ours.
#[test]
fn ours_is_like_theirs() {
    let mut bench = Bench::new("record name=$q format=legacy");
    let channel = format!("redisson_delay_queue_channel:{{{}}}", bench.names.queue);
    let mut subscriber = shared().client(0);
    subscriber.call(&["SUBSCRIBE", &channel]).unwrap();
    // Their scores lie in the past, which for an offer means now: the same ones 200 years on.
    let later = |score: &str| (score.parse::<u64>().unwrap() + 6_000_000_000_000).to_string();
    for (number, score) in SCORES.iter().enumerate() {
        let payload = payload(number).escape_ascii().to_string();
        let published = if number == 0 { "OK :0 :1" } else { "OK" };
        let call = format!("offer q -{}:m{number}({payload})", later(score));
        bench.returns(&call, published);
    }
    bench.client.call(&["PUBLISH", &channel, "end"]).unwrap();
    assert_eq!(subscriber.read().unwrap().texts(), ["message", &channel, &later(SCORES[0])]);
    assert_eq!(subscriber.read().unwrap().texts(), ["message", &channel, "end"]);

    let ours = |number: usize| Bytes(legacy(&(number as u64).to_be_bytes(), &payload(number)));
    let keyspace = bench.keyspace();
    let at = |role: &str| keyspace.get(&Bytes(bench.names.key(role).into_bytes())).unwrap();
    assert_eq!(*at("list"), Stored::List((0..5).map(ours).collect()));
    let pending = (0..5).map(|number| (ours(number), later(SCORES[number]))).collect();
    assert_eq!(*at("timeout"), Stored::Zset(pending));
    for (number, theirs) in members().iter().enumerate() {
        assert_eq!(ours(number).0[8..], theirs[8..], "all but the id");
    }
}

/// Their `remove(value)`: the first in list order is taken out of both and never delivered.
#[test]
fn theirs_is_removed() {
    let mut bench = Bench::new("timeout l1(a)=1 l2(b)=2 l3(a)=3; list l3(a) l1(a) l2(b)");
    bench.returns("remove_listed 1 a 1 10 1000 0 ''", "OK :1 :0 :0 ''");
    bench.then("timeout l1(a)=1 l2(b)=2; list l1(a) l2(b)", "removed");
    bench.returns("transfer 9 1000", "OK '' '' :0 :0 :0 :0 1 :1 2 :1");
    bench.then("destination a b", "delivered without it");
}
