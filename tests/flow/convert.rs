//! An upgrade of Redisson with messages pending: DQ.CONVERT, on a quiet queue and on a busy one.

use crate::foreign::{keys, legacy, modern, write};
use crate::stage::{
    Stage, call, delivered, eventually, field_of, list, offer, say, sorted, take_due, time_us,
};
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use std::thread;

fn convert(client: &mut Client, command: &str) -> (i64, i64) {
    let reply = say(client, command);
    let field = |name| match field_of(&reply, name) {
        Some(Value::Int(count)) => count,
        _ => panic!("{command}: {reply:?}"),
    };
    (field("converted"), field("left"))
}

fn members(redis: &mut Client, queue: &str) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let k = keys(queue);
    let all = |reply: Value| reply.elements().iter().map(Value::bytes).collect();
    (
        all(call(redis, &["ZRANGE", &k.timeout, "0", "-1"])),
        all(call(redis, &["LRANGE", &k.list, "0", "-1"])),
    )
}

/// Old members are what new clients read afterwards: in their places, with the ids that they had.
#[test]
fn what_an_old_redisson_left() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let due = time_us(&mut stage.redis) / 1_000 + 3_000;
    let mut random = Random::new(7);
    let mut ids = || random.below(u64::MAX >> 11).to_le_bytes();
    let (old, unlisted, poison) = (ids(), ids(), b"neither one nor the other");
    write(&mut stage.redis, "q", &due.to_string(), &legacy(old, b"old"), true);
    offer(&mut client, &["q", "AT", &(due + 100).to_string(), "new", "NAME", "n"]);
    let score = (due + 200).to_string();
    write(&mut stage.redis, "q", &score, &legacy(unlisted, b"retained"), false);
    write(&mut stage.redis, "q", "1999999999999", poison, true);

    assert_eq!(convert(&mut client, "DQ.CONVERT q"), (2, 1));
    let (pending, listed) = members(&mut stage.redis, "q");
    assert_eq!(pending[0], modern(old, b"old"));
    assert_eq!(pending[2], modern(unlisted, b"retained"));
    assert_eq!(listed, [&pending[0][..], &pending[1], poison]);
    let hex: String = old.iter().map(|byte| format!("{byte:02x}")).collect();
    let found = call(&mut client, &["DQ.GET", "q", &format!("{due}-{hex}")]);
    assert_eq!(field_of(&found, "payload").unwrap().text(), "old");
    take_due(&mut stage.redis, "q", "old", due);
    take_due(&mut stage.redis, "q", "new", due + 100);
    take_due(&mut stage.redis, "q", "retained", due + 200);
}

/// Converted to and fro by two clients while others offer, and while messages fall due: each is
/// delivered once.
#[test]
fn a_busy_queue() {
    const COUNT: u64 = 3_000;
    let mut stage = Stage::new(&[]);
    let mut random = Random::new(42);
    let due = time_us(&mut stage.redis) / 1_000 + 3_000;
    for n in 0..COUNT {
        let score = (due + random.below(1_500)).to_string();
        let id = random.below(u64::MAX >> 11).to_le_bytes();
        let listed = n % 10 > 0;
        write(&mut stage.redis, "q", &score, &legacy(id, n.to_string().as_bytes()), listed);
    }
    let mut converters = Vec::new();
    for format in ["MODERN", "LEGACY"] {
        let mut client = stage.broker.client();
        converters.push(thread::spawn(move || {
            let (mut converted, command) = (0, format!("DQ.CONVERT q {format}"));
            while say(&mut client, "DQ.SIZE q") != Value::Int(0) {
                converted += convert(&mut client, &command).0;
            }
            converted
        }));
    }
    let mut client = stage.broker.client();
    for n in COUNT..COUNT + 1_000 {
        offer(&mut client, &["q", &(n % 500).to_string(), &n.to_string()]);
    }
    for converter in converters {
        assert!(converter.join().unwrap() > 0);
    }
    let all = delivered(&mut stage.redis, "q", 4_000);
    let expected = (0..COUNT + 1_000).map(|n| n.to_string()).collect();
    assert_eq!(sorted(all), sorted(expected));
    eventually("nothing is listed", || {
        list(&mut stage.redis, &keys("q").list).is_empty().then_some(())
    });
}
