//! settle.lua, node.lua, and the guard they share the call key with.

use crate::bench::Bench;

#[test]
fn settle() {
    let mut bench = Bench::new("");
    assert_eq!(bench.run("settle 5"), "NOT", "nothing was ever applied");
    assert_eq!(bench.run("settle 5"), "NOT", "settled before");
    bench.number = 5;
    assert_eq!(
        bench.run("pause 0"),
        "SETTLED",
        "a settled call arrives late"
    );
    bench.number = 4;
    assert_eq!(bench.run("pause 0"), "SETTLED", "an older one too");
    bench.then("", "nothing applied");
    bench.number = 6;
    assert_eq!(bench.run("pause 0"), "OK");
    assert_eq!(bench.run("settle 6"), "APPLIED OK");
    assert_eq!(bench.run("settle 6"), "APPLIED OK", "as often as asked");
    assert_eq!(
        bench.run("settle 5"),
        "SETTLED",
        "forgotten: a later one is stored"
    );
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
}
