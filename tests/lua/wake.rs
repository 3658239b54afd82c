//! Scripts that tell takers at other brokers that something can be had: when, once, and that they
//! go on where their user may not say so.

use crate::bench::{Bench, FOREVER_MS};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

/// What is there, the call, and what it publishes.
const ROWS: [(&str, &str, Option<&str>); 26] = [
    ("nothing there", "nack FAIL 0 '' 16 5000 9000 0 #1 1 0", None),
    ("leased #1=9000000000000; taken #1=a", "nack FAIL 0 '' 16 5000 9000 0 #1 1 0", Some("ceil+0")),
    (
        "leased #1=9000000000000; taken #1=a",
        "nack FAIL '' '' 16 5000 9000 0 #1 1 0",
        Some("ceil+5000"),
    ),
    ("leased #1=9000000000000; taken #1=a", "nack FAIL 0 '' 16 5000 9000 0 #1 2 0", None),
    ("leased #1=9000000000000; taken #1=a", "nack FATAL '' '' 16 5000 9000 0 #1 1 0", None),
    // Of several the first moment.
    (
        "leased #1=9000000000000 #2=5; taken #1=a #2=b; tries #2=3/0/",
        "nack FAIL '' '' 16 5000 90000 0 #2 3 0 '' '' '' #1 1 0",
        Some("ceil+5000"),
    ),
    // Others are expected sooner, or at the same time.
    (
        "leased #1=9000000000000; retry #2=5; taken #1=a #2=b",
        "nack FAIL 0 '' 16 5000 9000 0 #1 1 0",
        None,
    ),
    (
        "leased #1=9000000000000; retry #2=9000000000001; taken #1=a #2=b",
        "nack FAIL 5 '' 16 5000 9000 0 #1 1 0",
        Some("ceil+5"),
    ),
    // No more could be leased before.
    (
        "leased #1=9000000000000; taken #1=a; record name=$q settings=\\x20in_flight_max:1/setup",
        "ack #1 1",
        Some("0"),
    ),
    (
        "leased #1=5 #2=5; taken #1=a #2=b; record name=$q settings=\\x20in_flight_max:2/setup",
        "ack #9 1 '' '' #1 1 #2 1",
        Some("0"),
    ),
    (
        "leased #1=9000000000000; taken #1=a; record name=$q settings=\\x20in_flight_max:1/setup",
        "nack FAIL '' '' 16 5000 9000 0 #1 1 0",
        Some("0"),
    ),
    (
        "leased #1=9000000000000; taken #1=a; record name=$q settings=\\x20in_flight_max:1/setup",
        "nack FATAL '' '' 16 5000 9000 0 #1 1 0",
        Some("0"),
    ),
    // There was room, nothing ended, or it was no lease.
    (
        "leased #1=9000000000000; taken #1=a; record name=$q settings=\\x20in_flight_max:2/setup",
        "ack #1 1",
        None,
    ),
    (
        "leased #1=9000000000000; taken #1=a; record name=$q settings=\\x20in_flight_max:1/setup",
        "ack #2 1",
        None,
    ),
    (
        "leased #2=9; retry #1=5; taken #1=a #2=b; tries #1=1/0/
         record name=$q settings=\\x20in_flight_max:1/setup",
        "ack #1 1",
        None,
    ),
    ("leased #1=9000000000000; taken #1=a", "ack #1 1", None),
    ("leased #1=9000000000000; taken #1=a", "extend 60000 #1 1", None),
    ("dead #1=5; taken #1=a", "dead 0 9", Some("ceil+0")),
    ("dead #1=5; taken #1=a", "dead 900 0 #1", Some("ceil+900")),
    ("dead #1=5; taken #1=a", "dead 900 0 #2", None),
    ("dead #1=5; taken #1=a", "dead '' 9", None),
    ("record name=$q paused_until=-1", "resume", Some("0")),
    ("record name=$q", "resume", None),
    ("nothing there", "setup '' setup in_flight_max 2", Some("0")),
    ("nothing there", "setup '' setup", None),
    ("nothing there", "take 1 1000 1000 60000 16 #4", None),
];

#[test]
fn what_is_published() {
    let mut listener = None;
    for (given, call, published) in ROWS {
        let mut bench = Bench::new(if given == "nothing there" { "" } else { given });
        let channel = format!("delay_broker_wake:{{{}}}", bench.names.queue);
        let listener: &mut Client =
            listener.get_or_insert_with(|| crate::support::redis::shared().client(0));
        listener.call(&["SUBSCRIBE", &channel]).unwrap();
        let reply = bench.run(call);
        assert!(reply.starts_with("OK"), "{call}: {reply}");
        bench.client.call(&["PUBLISH", &channel, "end"]).unwrap();
        let call_key = bench.names.key("call");
        let expected = published.map(|moment| format!("{} {call_key}", bench.timed(moment)));
        for message in expected.iter().map(String::as_str).chain(["end"]) {
            let heard = listener.read().unwrap().texts();
            assert_eq!(heard, ["message", &channel, message], "{given}: {call}");
        }
        listener.call(&["UNSUBSCRIBE", &channel]).unwrap();
    }
}

/// A user with the rights that 0.1.0 asked for: all is done, and can be settled.
#[test]
fn without_the_right() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    let words = "ACL SETUSER old on nopass ~* resetchannels &redisson_delay_queue_channel:* +@all";
    say(&mut admin, words);
    for (given, call, published) in ROWS {
        let given = if given == "nothing there" { "" } else { given };
        let (mut bench, mut free) = (Bench::on(&redis, given), Bench::on(&redis, given));
        say(&mut bench.client, "AUTH old x");
        let refused = bench.client.call(&["PUBLISH", "delay_broker_wake:{q}", "0"]).unwrap();
        assert!(matches!(refused, Value::Error(_)), "{refused:?}");
        let (reply, wanted) = (bench.reply(call, FOREVER_MS), free.reply(call, FOREVER_MS));
        let status = |reply: &Value| (reply.elements().len(), reply.elements()[1].text());
        assert_eq!(status(&reply), status(&wanted), "{call}");
        let sizes = |bench: &mut Bench| bench.keyspace().len();
        assert_eq!(sizes(&mut bench), sizes(&mut free), "{call}");
        if published.is_some() {
            let settled = bench.run("settle 1");
            assert!(settled.starts_with("APPLIED OK"), "{call}: {settled}");
        }
    }
}

fn say(client: &mut Client, words: &str) {
    let reply = client.call(&words.split(' ').collect::<Vec<_>>()).unwrap();
    assert_eq!(reply, Value::Simple("OK".into()), "{words}");
}
