//! `DQ.TAKEN ... RELEASE`: consumers return to BLPOP.

use crate::stage::{Stage, call, eventually, info, list, say, sorted};
use crate::support::resp::Value;
use crate::taking::{held, push, settle, take, take_one};

/// Everything that waits, in several calls, large payloads too.
#[test]
fn all_that_waits() {
    const MESSAGES: usize = 2_500;
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut payloads: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    payloads.push("x".repeat(3 << 20));
    payloads.push("y".repeat(300_000));
    for some in payloads.chunks(500) {
        push(&mut stage.redis, &some.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let mut taken = 0;
    while taken < payloads.len() {
        for one in take(&mut client, "q COUNT 1000 LEASE 1h").chunks(500) {
            let mut nack = vec!["DQ.NACK", "q"];
            nack.extend(one.iter().map(|one| &*one.receipt));
            nack.extend(["DELAY", "1h"]);
            taken += call(&mut client, &nack).int() as usize;
        }
    }
    assert_eq!(info(&mut client, "q", "waiting").int() as usize, payloads.len());
    let released = say(&mut client, "DQ.TAKEN q RELEASE");
    assert_eq!(released, Value::Int(payloads.len() as i64));
    assert_eq!(sorted(list(&mut stage.redis, "q")), sorted(payloads));
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// A consumer that died has left a lease that no DQ.TAKE ends; what others have stays theirs.
#[test]
fn what_the_dead_have_left() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["a", "b"]);
    let left = take_one(&mut client, "q LEASE 100");
    let has = take_one(&mut client, "q LEASE 1h");
    eventually("its lease ends", || {
        (say(&mut client, "DQ.TAKEN q RELEASE") == Value::Int(1)).then_some(())
    });
    assert_eq!(list(&mut stage.redis, "q"), ["a"]);
    assert_eq!(settle(&mut client, "DQ.ACK", &left, &[]), 0);
    assert_eq!(settle(&mut client, "DQ.ACK", &has, &[]), 1);
    let again = take_one(&mut client, "q");
    assert_eq!((&*again.payload, again.attempt), ("a", 1));
}
