//! A broker on an empty database, and what tests ask of the two: take what is due, wait for what
//! must come, read a metric.
//!
//! Keeps: what comes before its time by Redis's clock fails the test that takes it.

use crate::support::broker::Broker;
use crate::support::redis::{self, Redis};
use crate::support::resp::{Client, Value, encode};
use crate::support::wait;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What "on time" leaves to a machine that is busy with other things.
pub const ON_TIME: Duration = Duration::from_secs(4);
/// Within this everything that must come has come.
pub const SOON: Duration = wait::WITHIN;
/// The safety scan and the heartbeat's help far apart: only a wake-up can be in time.
pub const NO_SCAN: (&str, &str) = ("scheduler.scan_interval_ms", "600000");

/// A broker, a connection to its database, and the Redis behind if it has one of its own.
pub struct Stage {
    pub broker: Broker,
    pub redis: Client,
    pub url: String,
    own: Option<Redis>,
}

impl Stage {
    /// On a fresh database of the server that all tests share.
    pub fn new(settings: &[(&str, &str)]) -> Stage {
        let database = redis::shared().fresh_database();
        let url = redis::shared().url(database);
        let broker = Broker::spawn(&url, settings);
        Stage { broker, redis: redis::shared().client(database), url, own: None }
    }

    /// On a server of its own.
    pub fn alone(settings: &[(&str, &str)]) -> Stage {
        let own = Redis::spawn(&[]);
        let url = own.url(0);
        let broker = Broker::spawn(&url, settings);
        Stage { broker, redis: own.client(0), url, own: Some(own) }
    }

    /// `host:port` of the server that is this stage's alone.
    pub fn redis_address(&self) -> String {
        self.own.as_ref().unwrap().address()
    }

    /// Ends the server that is this stage's alone, as a crash does.
    pub fn kill_redis(&mut self) {
        assert!(self.own.take().is_some(), "the server is shared");
    }

    /// Another broker on the same database.
    pub fn another(&self, settings: &[(&str, &str)]) -> Broker {
        Broker::spawn(&self.url, settings)
    }

    /// Kills the broker as a crash does and starts another one on the same database.
    pub fn replace_broker(&mut self, settings: &[(&str, &str)]) {
        self.broker.signal("KILL");
        self.broker.wait(SOON);
        self.broker = Broker::spawn(&self.url, settings);
    }
}

/// Asks again until there is something, and fails after [`SOON`].
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    let ask = || {
        found = look();
        (what, found.is_some())
    };
    wait::eventually(ask, |(_, there)| *there);
    found.unwrap()
}

/// One call that must not fail on the way; its reply may be an error.
pub fn call(client: &mut Client, args: &[&str]) -> Value {
    client.call(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// Words of a command without blanks in its arguments.
pub fn say(client: &mut Client, command: &str) -> Value {
    call(client, &command.split(' ').collect::<Vec<_>>())
}

/// Offers and gives back the message id.
pub fn offer(client: &mut Client, args: &[&str]) -> String {
    let mut all = vec!["DQ.OFFER"];
    all.extend(args);
    match call(client, &all) {
        Value::Bulk(id) => String::from_utf8(id).unwrap(),
        other => panic!("{all:?}: {other:?}"),
    }
}

/// The due time in a message id, Unix ms.
pub fn due_of(id: &str) -> u64 {
    id.rsplit_once('-').unwrap().0.parse().unwrap()
}

/// The id bytes in a message id.
pub fn bytes_of(id: &str) -> Vec<u8> {
    let digits = id.rsplit_once('-').unwrap().1;
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Redis's TIME in microseconds.
pub fn time_us(redis: &mut Client) -> u64 {
    parse_time(&say(redis, "TIME"))
}

fn parse_time(reply: &Value) -> u64 {
    let parts = reply.texts();
    parts[0].parse::<u64>().unwrap() * 1_000_000 + parts[1].parse::<u64>().unwrap()
}

/// Takes the next delivered message, and Redis's TIME in microseconds when it came: TIME waits in
/// the server behind the BLPOP, so it is read in the moment of delivery.
pub fn take(redis: &mut Client, queue: &str) -> (Vec<u8>, u64) {
    let mut bytes = encode(&["BLPOP", queue, "15"]);
    bytes.extend(encode(&["TIME"]));
    redis.read_within(Duration::from_secs(20)).unwrap();
    redis.send_bytes(&bytes).unwrap();
    let popped = redis.read().unwrap();
    let at = parse_time(&redis.read().unwrap());
    let payload = popped.elements().get(1).unwrap_or_else(|| panic!("nothing came to {queue}"));
    (payload.bytes(), at)
}

/// Takes one message that must be this one: not before `due` by Redis's clock, and on time.
pub fn take_due(redis: &mut Client, queue: &str, payload: &str, due_ms: u64) {
    assert_eq!(take_one_due(redis, queue, due_ms), payload);
}

/// Takes whichever message is next: not before `due` by Redis's clock, and on time.
pub fn take_one_due(redis: &mut Client, queue: &str, due_ms: u64) -> String {
    let (taken, at) = take(redis, queue);
    let payload = String::from_utf8_lossy(&taken).into_owned();
    assert!(at >= due_ms * 1_000, "{payload} is early: due {due_ms} ms, taken at {at} us");
    let late = Duration::from_micros(at - due_ms * 1_000);
    assert!(late < ON_TIME, "{payload} is late by {late:?}");
    payload
}

/// Everything in a list.
pub fn list(redis: &mut Client, key: &str) -> Vec<String> {
    call(redis, &["LRANGE", key, "0", "-1"]).texts()
}

/// Waits until the destination holds so many, then gives all of them back.
pub fn delivered(redis: &mut Client, queue: &str, count: usize) -> Vec<String> {
    eventually(&format!("{count} delivered to {queue}"), || {
        (call(redis, &["LLEN", queue]).int() as usize >= count).then_some(())
    });
    list(redis, queue)
}

/// A field of DQ.INFO.
pub fn info(broker: &mut Client, queue: &str, field: &str) -> Value {
    let reply = call(broker, &["DQ.INFO", queue]);
    field_of(&reply, field).unwrap_or_else(|| panic!("DQ.INFO has no {field}: {reply:?}"))
}

/// A field of a map, as RESP2 and RESP3 show maps.
pub fn field_of(map: &Value, field: &str) -> Option<Value> {
    match map {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| key.text() == field).map(|p| p.1.clone()),
        other => other
            .elements()
            .chunks(2)
            .find(|pair| pair[0].text() == field)
            .map(|pair| pair[1].clone()),
    }
}

/// Status and body of a GET.
pub fn get(broker: &Broker, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(broker.http_address()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

/// A number of /metrics, by its name with labels as it is printed; 0 if it is not there.
pub fn metric(broker: &Broker, series: &str) -> f64 {
    let (status, body) = get(broker, "/metrics");
    assert_eq!(status, 200, "{body}");
    let line = body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |number| number.parse().unwrap())
}

/// Sorted, to compare what came whatever its order.
pub fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}
