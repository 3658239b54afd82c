//! settle.lua, node.lua, and the guard they share the call key with.

use crate::bench::Bench;
use crate::support::redis::Redis;
use crate::support::resp::Value;

#[test]
fn settle() {
    let mut bench = Bench::new("");
    assert_eq!(bench.run("settle 5"), "NOT", "nothing was ever applied");
    assert_eq!(bench.run("settle 5"), "NOT", "settled before");
    bench.number = 5;
    assert_eq!(bench.run("pause 0"), "SETTLED", "a settled call arrives late");
    bench.number = 4;
    assert_eq!(bench.run("pause 0"), "SETTLED", "an older one too");
    bench.then("", "nothing applied");
    bench.number = 6;
    assert_eq!(bench.run("pause 0"), "OK");
    assert_eq!(bench.run("settle 6"), "APPLIED OK");
    assert_eq!(bench.run("settle 6"), "APPLIED OK", "as often as asked");
    assert_eq!(bench.run("settle 5"), "SETTLED", "forgotten: a later one is stored");
    assert_eq!(bench.run("settle 7"), "NOT");
    assert_eq!(bench.run("settle 6"), "SETTLED");
}

/// A call whose reply holds numbers and errors is settled with just that reply.
#[test]
fn replies_survive() {
    let mut bench = Bench::new("p.list !string");
    let reply = bench.run("offer q -9000000000000:m1(a) / p 5:m2(b) / q -9000000000001:m3(c)");
    assert_eq!(bench.run("settle 1"), format!("APPLIED {reply}"));
}

/// However much a batch answered: more than Lua's `unpack` has room for.
#[test]
fn large_replies_survive() {
    let mut bench = Bench::new("");
    let stores = "local reply = {}
        for i = 1, tonumber(ARGV[1]) do reply[i] = 1700000000000000 + i end
        redis.call('SET', KEYS[1], '5 ' .. cmsgpack.pack(reply))";
    let call = bench.names.key("call").into_bytes();
    // Twice as many groups as a batch may have, since few more fit where it is full: two each.
    for values in [7_998, 8_000, 40_002] {
        let count = values.to_string();
        let args: [&[u8]; 5] = [b"EVAL", stores.as_bytes(), b"1", &call, count.as_bytes()];
        bench.client.call(&args).unwrap();
        let answer =
            bench.eval("settle", std::slice::from_ref(&call), &[b"5".to_vec(), b"0".to_vec()]);
        let answer = answer.elements();
        assert_eq!(answer.len(), values + 2);
        assert_eq!(answer[1].text(), "APPLIED");
        let last = Value::Int(1_700_000_000_000_000 + values as i64);
        assert_eq!(answer[values + 1], last);
    }
}

/// What no call stores tells nothing, stays, and lets no call run that it might hide.
#[test]
fn keys_that_others_wrote() {
    for (command, refuses) in [
        ("RPUSH @call x", true),
        ("HSET @call x y", true),
        ("SET @call 99999999999999999999999", true),
        ("SET @call 7_and_more", true),
        ("SET @call nonsense", false),
    ] {
        let mut bench = Bench::new("");
        bench.number = 5;
        bench.redis(command);
        assert_eq!(bench.run("settle 5"), "SETTLED", "{command}");
        let reply = if refuses { "SETTLED" } else { "OK" };
        assert_eq!(bench.run("pause 0"), reply, "{command}");
    }
    for reply in ["x", "\u{1}", ""] {
        let mut bench = Bench::new("");
        let call = bench.names.key("call");
        let stored = format!("5 {reply}");
        bench.client.call(&["SET", &call, &stored]).unwrap();
        assert_eq!(bench.run("settle 5"), "SETTLED", "{reply:?}");
    }
}

/// However large it is what others wrote, little of it is read.
#[test]
fn large_keys_that_others_wrote() {
    let mut bench = Bench::new("");
    let call = bench.names.key("call");
    bench.client.call(&["SET", &call, &format!("5 {}", "x".repeat(32 << 20))]).unwrap();
    assert!(bench.bytes_read("settle 4") < 100);
    assert_eq!(bench.run("settle 5"), "SETTLED");
    assert!(bench.bytes_read("settle 5") < (16 << 20) + 100);
}

/// Numbers stay exact up to 2^53, and what is stored expires.
#[test]
fn numbers_and_expiry() {
    let mut bench = Bench::new("");
    bench.number = 9_007_199_254_740_991;
    assert_eq!(bench.run("pause 0"), "OK");
    assert_eq!(bench.run("pause 0"), "SETTLED");
    assert_eq!(bench.run("settle 9007199254740991"), "APPLIED OK");
    let ttl = bench.redis("TTL @call").int();
    assert!((590..=600).contains(&ttl), "{ttl}");
    assert_eq!(bench.run("settle 9007199254740992"), "NOT");
    assert!((590..=600).contains(&bench.redis("TTL @call").int()));
}

/// `valid_until` is the last moment at which a call may run.
#[test]
fn late() {
    let mut bench = Bench::new("");
    bench.run("settle 0");
    let soon_ms = (bench.now_us / 1000 + 60_000).to_string();
    assert_eq!(bench.run_until("pause 0", &soon_ms), "OK");
    bench.number = 2;
    let before_ms = (bench.now_us / 1000 - 1).to_string();
    assert_eq!(bench.run_until("resume", &before_ms), "LATE");
    assert_eq!(bench.run("resume"), "OK :1", "being late stores nothing");
}

/// Redis's clock stepped ahead, so what the call stored may have expired: nobody can tell then.
#[test]
fn a_settlement_behind_a_step() {
    let mut bench = Bench::new("");
    let before = |bench: &Bench, by_ms: i64| (bench.now_us / 1000 - by_ms).to_string();
    bench.run("settle 0");
    bench.redis("DEL @call");
    let stepped = before(&bench, 310_000);
    assert_eq!(bench.run_until("settle 5", &stepped), "SETTLED");
    let slow = before(&bench, 240_000);
    assert_eq!(bench.run_until("settle 5", &slow), "NOT");
    bench.number = 6;
    assert_eq!(bench.run("pause 0"), "OK");
    assert_eq!(bench.run_until("settle 6", &stepped), "APPLIED OK", "it is there");
}

/// A master that may not write tells all the same what was not applied, once that is sure.
#[test]
fn without_enough_replicas() {
    let redis = Redis::spawn(&[]);
    let mut bench = Bench::on(&redis, "");
    assert_eq!(bench.run("settle 0"), "NOT");
    assert_eq!(bench.redis("CONFIG SET min-replicas-to-write 1").text(), "OK");
    let soon_ms = (bench.now_us / 1000 + 60_000).to_string();
    let refused = bench.run_until("settle 5", &soon_ms);
    assert!(refused.contains("NOREPLICAS"), "it may still come: {refused}");
    let before_ms = (bench.now_us / 1000 - 1).to_string();
    assert_eq!(bench.run_until("settle 5", &before_ms), "NOT");
}

#[test]
fn node() {
    let mut bench = Bench::new("");
    assert_eq!(bench.run("node mine 60000"), "OK :1", "free");
    assert_eq!(bench.run("node other 60000"), "OK :0", "taken");
    bench.then("node mine", "another's claim changes nothing");
    bench.redis("PEXPIRE @node 1000");
    assert_eq!(bench.run("node mine 60000"), "OK :1", "refreshed");
    assert!(bench.redis("PTTL @node").int() > 50_000);
    bench.redis("DEL @node");
    assert_eq!(bench.run("node other 60000"), "OK :1", "free again");
    bench.then("node other", "claimed");
    let mut bench = Bench::new("");
    bench.redis("RPUSH @node x");
    assert_eq!(bench.run("node mine 60000"), bench.names.normal("WRONGTYPE @node"));
}
