//! offer.lua: groups are stored whole or not at all, and apart from each other.

use crate::bench::{Bench, Row, check};
use crate::support::redis::{Redis, shared};
use crate::support::resp::Value;
use std::time::Duration;

#[test]
fn rows() {
    let rows: &[Row] = &[
        (
            "one into nothing is the head and claims the name",
            "",
            "offer q -9000000000000:m1(a)",
            "OK :0 :1",
            "timeout m1(a)=9000000000000; list m1(a); record name=$q",
        ),
        (
            "later than the head",
            "timeout m1(a)=1000; list m1(a); record name=$q",
            "offer q -9000000000000:m2(b)",
            "OK",
            "timeout m1(a)=1000 m2(b)=9000000000000; list m1(a) m2(b); record name=$q",
        ),
        (
            "as late as the head, after it by bytes",
            "timeout m1(a)=9000000000000; list m1(a)",
            "offer q -9000000000000:m2(b)",
            "OK",
            "timeout m1(a)=9000000000000 m2(b)=9000000000000; list m1(a) m2(b); record name=$q",
        ),
        (
            "as late as the head, before it by bytes",
            "timeout m2(b)=9000000000000; list m2(b)",
            "offer q -9000000000000:m1(a)",
            "OK :0 :1",
            "timeout m1(a)=9000000000000 m2(b)=9000000000000; list m2(b) m1(a); record name=$q",
        ),
        (
            "a negative, a fractional and an infinite head of others",
            "timeout m7(x)=-5 m8(y)=9000000000000.5 m9(z)=inf",
            "offer q -9000000000000:m1(a)",
            "OK",
            "timeout m7(x)=-5 m1(a)=9000000000000 m8(y)=9000000000000.5 m9(z)=inf
             list m1(a); record name=$q",
        ),
        (
            "only an infinite head",
            "timeout m9(z)=inf",
            "offer q -9000000000000:m1(a)",
            "OK :0 :1",
            "timeout m1(a)=9000000000000 m9(z)=inf; list m1(a); record name=$q",
        ),
        (
            "several delays in one group",
            "",
            "offer q -9000000000003:m1(a) -9000000000001:m2(b) -9000000000001:m3(c)",
            "OK :0 :1",
            "timeout m2(b)=9000000000001 m3(c)=9000000000001 m1(a)=9000000000003
             list m1(a) m2(b) m3(c); record name=$q",
        ),
        (
            "equal delays as an array",
            "",
            "offer q each -9000000000001:m1(a) -9000000000001:m2(b)",
            "OK :0 :1",
            "timeout m1(a)=9000000000001 m2(b)=9000000000001; list m1(a) m2(b); record name=$q",
        ),
        (
            "the greatest due time, to the digit",
            "",
            "offer q -999999999999999:m1(a)",
            "OK :0 :1",
            "timeout m1(a)=999999999999999; list m1(a); record name=$q",
        ),
        (
            "payloads of no byte, zero byte, CR LF",
            "",
            "offer q -9000000000000:m1() -9000000000000:m2(\\x00) -9000000000000:m3(\\r\\n)",
            "OK :0 :1",
            "timeout m1()=9000000000000 m2(\\x00)=9000000000000 m3(\\r\\n)=9000000000000
             list m1() m2(\\x00) m3(\\r\\n); record name=$q",
        ),
        (
            "legacy is recorded and written",
            "",
            "offer q -9000000000000:m1(a) format=legacy",
            "OK :0 :1",
            "timeout l1(a)=9000000000000; list l1(a); record name=$q format=legacy",
        ),
        (
            "recorded legacy holds whatever the caller thinks",
            "record name=$q format=legacy",
            "offer q -9000000000000:m1(a) format=modern / q -9000000000001:m2(b)",
            "OK :0 :1",
            "timeout l1(a)=9000000000000 l2(b)=9000000000001; list l1(a) l2(b)
             record name=$q format=legacy",
        ),
        (
            "modern is what is recorded by recording nothing",
            "",
            "offer q -9000000000000:m1(a) format=modern",
            "OK :0 :1",
            "timeout m1(a)=9000000000000; list m1(a); record name=$q",
        ),
        (
            "a recorded name that has other keys is not believed",
            "record name=other",
            "offer q -9000000000000:m1(a)",
            "OK :0 :1",
            "timeout m1(a)=9000000000000; list m1(a); record name=$q",
        ),
        (
            "the keys belong to another name",
            "record name={$q}",
            "offer q -9000000000000:m1(a)",
            "OK :0 BADQUEUE_{$q}",
            "record name={$q}",
        ),
        (
            "an id that is pending already",
            "timeout m1(a)=1000; list m1(a) m9(z)",
            "offer q -9000000000000:m1(a)",
            "OK :0 CLASH",
            "timeout m1(a)=1000; list m1(a) m9(z)",
        ),
        (
            "one member twice in a group",
            "",
            "offer q -9000000000000:m1(a) -9000000000000:m1(a)",
            "OK :0 INTERNAL_id_clash",
            "timeout m1(a)=9000000000000; list m1(a) m1(a)",
        ),
        (
            "a wrong type fails its own group only",
            "p.list !string",
            "offer q -9000000000000:m1(a) / p -9000000000000:m2(b) / q -8000000000000:m3(c)",
            "OK :0 :1 :1 WRONGTYPE_@p.list :2 :1",
            "timeout m3(c)=8000000000000 m1(a)=9000000000000; list m1(a) m3(c); record name=$q
             p.list !string",
        ),
        (
            "the destination's type",
            "destination !string",
            "offer q -9000000000000:m1(a)",
            "OK :0 WRONGTYPE_@destination",
            "destination !string",
        ),
        (
            "the zset's type",
            "timeout !string",
            "offer q -9000000000000:m1(a)",
            "OK :0 WRONGTYPE_@timeout",
            "timeout !string",
        ),
        (
            "the list's type",
            "list !string",
            "offer q -9000000000000:m1(a) -9000000000000:m2(b)",
            "OK :0 WRONGTYPE_@list",
            "list !string",
        ),
        (
            "the queue hash's type",
            "record !string",
            "offer q -9000000000000:m1(a)",
            "OK :0 WRONGTYPE_@record",
            "record !string",
        ),
    ];
    check(rows);
}

#[test]
fn names() {
    let rows: &[Row] = &[
        (
            "a new name",
            "",
            "offer q -9000000000000:m1(a) name=n",
            "OK :0 :1",
            "timeout m1(a)=9000000000000; list m1(a); record name=$q
             names n=9000000000000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "a legacy member goes by the same id",
            "record name=$q format=legacy",
            "offer q -9000000000000:m1(a) name=n",
            "OK :0 :1",
            "timeout l1(a)=9000000000000; list l1(a); record name=$q format=legacy
             names n=9000000000000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "replaces the pending one, at the end of the list",
            "timeout m1(a)=1000 m2(b)=9000000000000; list m1(a) m2(b)
             names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n",
            "OK",
            "timeout m2(b)=9000000000000 m3(c)=9000000000001; list m2(b) m3(c); record name=$q
             names n=9000000000001-0000000000000003; ids 0000000000000003=n",
        ),
        (
            "the name of a message that is gone",
            "names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n mode=NX",
            "OK :0 :1",
            "timeout m3(c)=9000000000001; list m3(c); record name=$q
             names n=9000000000001-0000000000000003; ids 0000000000000003=n",
        ),
        (
            "NX finds one",
            "timeout m1(a)=1000; list m1(a)
             names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n mode=NX",
            "OK :0 :2",
            "timeout m1(a)=1000; list m1(a)
             names n=1000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "XX finds none, although the name is in the hash",
            "names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n mode=XX",
            "OK :0 :2",
            "names n=1000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "XX replaces",
            "timeout m1(a)=1000; list m1(a)
             names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n mode=XX",
            "OK :0 :1",
            "timeout m3(c)=9000000000001; list m3(c); record name=$q
             names n=9000000000001-0000000000000003; ids 0000000000000003=n",
        ),
        (
            "a name of any bytes, and a name that holds nonsense",
            "names \\x00\\r\\n=nonsense",
            "offer q -9000000000001:m3(c) name=\\x00\\r\\n",
            "OK :0 :1",
            "timeout m3(c)=9000000000001; list m3(c); record name=$q
             names \\x00\\r\\n=9000000000001-0000000000000003
             ids 0000000000000003=\\x00\\r\\n",
        ),
        (
            "a clash leaves the old one in place",
            "timeout m1(a)=1000 m3(c)=2000; list m1(a) m3(c)
             names n=1000-0000000000000001; ids 0000000000000001=n",
            "offer q -9000000000001:m3(c) name=n",
            "OK :0 CLASH",
            "timeout m1(a)=1000 m3(c)=2000; list m1(a) m3(c)
             names n=1000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "the names' type",
            "names !string",
            "offer q -9000000000001:m3(c) name=n",
            "OK :0 WRONGTYPE_@names",
            "names !string",
        ),
        (
            "the ids' type",
            "ids !string",
            "offer q -9000000000001:m3(c) name=n",
            "OK :0 WRONGTYPE_@ids",
            "ids !string",
        ),
        (
            "plain and named in one call, two queues",
            "",
            "offer q -9000000000001:m1(a) / p -9000000000002:m2(b) name=n / q -9000000000003:m3(c)",
            "OK :0 :1 :1 :1",
            "timeout m1(a)=9000000000001 m3(c)=9000000000003; list m1(a) m3(c); record name=$q
             p.timeout m2(b)=9000000000002; p.list m2(b); p.record name=$p
             p.names n=9000000000002-0000000000000002; p.ids 0000000000000002=n",
        ),
    ];
    check(rows);
}

/// Each named offer sweeps two names of messages that are gone; those that are pending stay.
#[test]
fn stale_names_are_swept() {
    let mut bench = Bench::new(
        "timeout m1(a)=1000; list m1(a)
         names n=1000-0000000000000001 s=1-0000000000000005 t=2-0000000000000006
         ids 0000000000000001=n 0000000000000005=s 0000000000000006=t",
    );
    for id in 10..60 {
        bench.returns(&format!("offer q -9000000000000:m{id}(b) name=k"), "OK");
    }
    bench.then(
        "timeout m1(a)=1000 m59(b)=9000000000000; list m1(a) m59(b); record name=$q
         names n=1000-0000000000000001 k=9000000000000-000000000000003b
         ids 0000000000000001=n 000000000000003b=k",
        "swept",
    );
}

/// Delays count from Redis's time, rounded up to the millisecond; the past means now.
#[test]
fn due_times() {
    let mut bench = Bench::new("");
    for (delay, from_now_ms) in [("0", 0), ("1800000", 1_800_000), ("-1", 0), ("-1000", 0)] {
        bench.client.call(&["FLUSHDB"]).unwrap();
        bench.returns(&format!("offer q {delay}:m1(a)"), "OK :0 :1");
        let score = bench.redis("ZSCORE @timeout m1(a)").int();
        assert_eq!(score, (bench.now_us + 999) / 1000 + from_now_ms, "delay {delay}");
    }
}

/// 2,500 messages take several chunks of RPUSH and ZADD.
#[test]
fn large_groups() {
    let mut bench = Bench::new("");
    let due = |id: u64| 9_000_000_000_000 + id % 7;
    let call: Vec<String> = (0..2500).map(|id| format!("-{}:m{id}(x{id})", due(id))).collect();
    bench.returns(&format!("offer q {}", call.join(" ")), "OK :0 :1");
    let mut by_due: Vec<u64> = (0..2500).collect();
    by_due.sort_by_key(|id| due(*id));
    let pending = by_due.iter().map(|id| format!("m{id}(x{id})={}", due(*id)));
    let listed = (0..2500).map(|id| format!("m{id}(x{id})"));
    let join = |words: Vec<String>| words.join(" ");
    bench.then(
        &format!(
            "timeout {}; list {}; record name=$q",
            join(pending.collect()),
            join(listed.collect())
        ),
        "2,500",
    );
}

/// The publish rule: once, after all writes, and only if the head is a message of this call.
#[test]
fn publications() {
    let mut bench = Bench::new("");
    let mut subscriber = shared().client(0);
    subscriber.read_within(Duration::from_secs(5)).unwrap();
    let channel = |queue: &str| format!("redisson_delay_queue_channel:{{{queue}}}");
    let (mine, other) = (channel(&bench.names.queue), bench.names.key("p.destination"));
    let other = channel(&other);
    subscriber.call(&["SUBSCRIBE", &mine]).unwrap();
    subscriber.call(&["SUBSCRIBE", &other]).unwrap();

    bench.returns("offer q -9000000000005:m1(a)", "OK :0 :1");
    bench.returns("offer q -9000000000006:m2(b) -9000000000007:m3(c)", "OK");
    bench.returns("offer q -9000000000004:m4(a) -9000000000003:m5(b)", "OK :0 :1");
    bench.returns("offer q -9000000000003:m6(c) / p -9000000000001:m7(d)", "OK :1 :1");
    bench.returns("offer q -9000000000002:m8(c) name=n", "OK :0 :1");
    bench.returns("offer q -9000000000009:m9(c) name=n", "OK");
    bench.returns("offer q -9000000000009:m9(c)", "OK :0 CLASH");
    bench.redis("PUBLISH nobody end");
    bench.client.call(&["PUBLISH", &mine, "end"]).unwrap();

    let expected = [
        (&mine, "9000000000005"),
        (&mine, "9000000000003"),
        (&other, "9000000000001"),
        (&mine, "9000000000002"),
        (&mine, "end"),
    ];
    for (channel, score) in expected {
        assert_eq!(subscriber.read().unwrap().texts(), ["message", channel, score]);
    }
}

/// Out of memory each group says so and nothing is written; settling says that it was not applied.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    let given = "timeout m1(a)=1000; list m1(a); names n=1000-0000000000000001 s=1-05
                 ids 0000000000000001=n";
    let mut bench = Bench::on(&redis, given);
    bench.redis("CONFIG SET maxmemory 1");
    for call in [
        "offer q -9000000000000:m2(b)",
        "offer q -9000000000000:m2(b) -9000000000000:m3(b)",
        "offer q -9000000000000:m2(b) name=n",
        "offer q -9000000000000:m2(b) name=k",
    ] {
        let reply = bench.run(call);
        assert!(reply.starts_with("OK :0 OOM_command_not_allowed"), "{call}: {reply}");
        bench.then(given, call);
    }
    let reply = bench.run("offer q -9000000000000:m2(b) / p -9000000000000:m3(b) name=n");
    assert_eq!(reply.matches("OOM").count(), 2, "{reply}");
    bench.then(given, "two groups");
    assert_eq!(bench.run("settle 1"), "NOT");
    bench.redis("CONFIG SET maxmemory 0");
    assert_eq!(bench.run("offer q -9000000000000:m2(b)"), "SETTLED");
    bench.then(given, "settled");
}

/// An argument that is no msgpack is a mistake of ours, and is answered by Redis.
#[test]
fn broken_group() {
    let mut bench = Bench::new("");
    let keys = [bench.names.key("call").into_bytes()];
    let args = [b"1".to_vec(), b"9000000000000000".to_vec(), b"\xc4\x01a".to_vec()];
    assert!(matches!(bench.eval("offer", &keys, &args), Value::Error(_)));
    bench.then("", "broken");
}

/// A name with braces takes over no keys that hold what another program offered, unless it is
/// configured; where nothing is pending it may begin.
#[test]
fn names_with_braces() {
    let theirs = "timeout m1(a)=1000; list m1(a)";
    let offers = [
        "offer q -9000000000000:m2(b)",
        "offer q -9000000000000:m2(b) -9000000000000:m3(c)",
        "offer q -9000000000000:m2(b) name=n",
    ];
    for offer in offers {
        let mut bench = Bench::new(theirs);
        bench.names.braced = true;
        let owner = bench.names.queue.clone();
        bench.returns(offer, &format!("OK :0 BADQUEUE_{owner}"));
        bench.then(theirs, offer);
        bench.redis("DEL @timeout @list");
        bench.returns(offer, "OK :0 :1");
        assert_eq!(bench.redis("HGET @record name").text(), bench.names.key("destination"));
        // Recorded, it goes on while messages are pending.
        bench.returns("offer q -9000000000000:m9(z)", "OK");
    }
    let mut bench = Bench::new(theirs);
    bench.names.braced = true;
    bench.returns("offer q -9000000000000:m2(b) format=modern", "OK");
    bench.then(
        "timeout m1(a)=1000 m2(b)=9000000000000; list m1(a) m2(b); record name={$q}",
        "configured",
    );
}
