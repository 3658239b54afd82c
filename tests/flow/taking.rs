//! What tests of consumers share: taking, settling, and waiting until somebody waits.

use crate::stage::{call, eventually, field_of, info};
use crate::support::broker::Broker;
use crate::support::resp::{Client, Value};

/// One message that was handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub receipt: String,
    pub id: String,
    pub attempt: i64,
    /// Unix ms.
    pub until: i64,
    pub payload: String,
}

impl Taken {
    /// The number of its delivery, which only grows.
    pub fn delivery(&self) -> u64 {
        self.receipt.rsplit_once(':').unwrap().1.parse().unwrap()
    }
}

/// The messages of a reply to DQ.TAKE; none of nil.
pub fn read(reply: &Value) -> Vec<Taken> {
    if *reply == Value::Null {
        return Vec::new();
    }
    assert!(!reply.elements().is_empty(), "neither messages nor nil: {reply:?}");
    let row = |row: &Value| {
        let field = |name| field_of(row, name).unwrap_or_else(|| panic!("no {name}: {reply:?}"));
        Taken {
            receipt: field("receipt").text(),
            id: field("id").text(),
            attempt: field("attempt").int(),
            until: field("until").int(),
            payload: field("payload").text(),
        }
    };
    reply.elements().iter().map(row).collect()
}

/// `DQ.TAKE` with these words behind it.
pub fn take(client: &mut Client, words: &str) -> Vec<Taken> {
    send(client, words);
    read(&client.read().unwrap())
}

/// The same, and there is exactly one.
pub fn take_one(client: &mut Client, words: &str) -> Taken {
    let [taken] = take(client, words).try_into().unwrap();
    taken
}

/// Sends a take whose reply is read later.
pub fn send(client: &mut Client, words: &str) {
    let words: Vec<&str> = ["DQ.TAKE"].into_iter().chain(words.split(' ')).collect();
    client.send(&words).unwrap();
}

/// The payloads in the reply to a take that was sent before.
pub fn came(client: &mut Client) -> Vec<String> {
    read(&client.read().unwrap()).into_iter().map(|one| one.payload).collect()
}

/// A new connection that waits at queue `q`, and is the last in its line.
pub fn waits(broker: &Broker, words: &str) -> Client {
    let (mut client, mut other) = (broker.client(), broker.client());
    let before = info(&mut other, "q", "takers").int();
    send(&mut client, words);
    in_line(&mut other, before + 1);
    client
}

/// Until so many stand in the line of `q`.
pub fn in_line(client: &mut Client, count: i64) {
    eventually(&format!("{count} takers"), || {
        (info(client, "q", "takers").int() == count).then_some(())
    });
}

/// How many a settling command of one receipt settled; more words may follow.
pub fn settle(client: &mut Client, command: &str, taken: &Taken, words: &[&str]) -> i64 {
    let reply = call(client, &[&[command, "q", &taken.receipt], words].concat());
    assert!(matches!(reply, Value::Int(_)), "{command} {taken:?}: {reply:?}");
    reply.int()
}

pub fn ack(client: &mut Client, taken: &Taken) -> i64 {
    settle(client, "DQ.ACK", taken, &[])
}

/// Puts payloads into the list of `q` by hand.
pub fn push(redis: &mut Client, payloads: &[&str]) {
    push_to(redis, "q", payloads);
}

pub fn push_to(redis: &mut Client, queue: &str, payloads: &[&str]) {
    let pushed = call(redis, &[&["RPUSH", queue], payloads].concat());
    assert!(matches!(pushed, Value::Int(_)), "{pushed:?}");
}

/// What is left of the messages that were taken: leased, waiting, dead, payloads, tries.
pub fn held(redis: &mut Client) -> [i64; 5] {
    let mut count = |command, key| call(redis, &[command, &format!("delay_broker_{key}:{{q}}")]);
    [
        count("ZCARD", "leased"),
        count("ZCARD", "retry"),
        count("ZCARD", "dead"),
        count("HLEN", "taken"),
        count("HLEN", "tries"),
    ]
    .map(|count| count.int())
}

/// The dead messages, as (payload, attempts, reason).
pub fn dead(client: &mut Client) -> Vec<(String, i64, String)> {
    let reply = call(client, &["DQ.DEAD", "q", "LIST", "COUNT", "1000"]);
    let row = |row: &Value| {
        let field = |name| field_of(row, name).unwrap();
        (field("payload").text(), field("attempts").int(), field("reason").text())
    };
    reply.elements()[1].elements().iter().map(row).collect()
}
