//! ack.lua, nack.lua, extend.lua: how consumers settle what they took, and what a receipt is good
//! for.

use crate::bench::{Bench, Row, check};
use crate::support::redis::Redis;
use crate::support::resp::Value;

#[test]
fn ack() {
    let rows: &[Row] = &[
        ("nothing there", "", "ack #1 1", "OK :0", ""),
        (
            "one of two",
            "leased #1=9000000000000 #2=9000000000000; taken #1=a #2=b; record name=$q",
            "ack #1 1",
            "OK :1",
            "leased #2=9000000000000; taken #2=b; record name=$q",
        ),
        (
            "the same receipt twice",
            "leased #1=9000000000000; taken #1=a",
            "ack #1 1 #1 1",
            "OK :1",
            "",
        ),
        (
            "its lease has run out, and nobody else has it",
            "leased #1=5; retry #2=5; taken #1=a #2=b; tries #2=3/0/x",
            "ack #1 1 #2 3",
            "OK :2",
            "",
        ),
        (
            "it waits for a retry, or is dead",
            "retry #1=9000000000000; dead #2=5 #3=5; taken #1=a #2=b #3=c
             tries #1=2/0/ #2=16/0/boom #3=16/0/",
            "ack #1 2 #2 16",
            "OK :2",
            "dead #3=5; taken #3=c; tries #3=16/0/",
        ),
        (
            "handed out again since; not handed out so often; another id, another length",
            "leased #1=9000000000000 #2=9000000000000; taken #1=a #2=b; tries #1=2/0/",
            "ack #1 1 #1 3 #2 2 #9 1 abc 1 '' 1",
            "OK :0",
            "leased #1=9000000000000 #2=9000000000000; taken #1=a #2=b; tries #1=2/0/",
        ),
        (
            "somebody deleted the payload, or what is noted",
            "leased #1=9000000000000 #2=9000000000000; taken #2=b",
            "ack #1 1 #2 1",
            "OK :2",
            "",
        ),
        (
            "a payload that nobody has",
            "taken #1=a; tries #1=2/0/",
            "ack #1 2",
            "OK :0",
            "taken #1=a; tries #1=2/0/",
        ),
        (
            "a pause is no matter",
            "leased #1=5; taken #1=a; record name=$q paused_until=-1",
            "ack #1 1",
            "OK :1",
            "record name=$q paused_until=-1",
        ),
        (
            "several clients: of a receipt that two have, one is the first",
            "leased #1=9000000000000 #2=9000000000000; retry #3=5; taken #1=a #2=b #3=c
             tries #3=2/0/",
            "ack #1 1 '' '' #9 1 '' '' #3 2 #1 1 #2 1 '' '' #2 1",
            "OK :1 :0 :2 :0",
            "",
        ),
    ];
    check(rows);
}

const LEASED: &str = "leased #1=9000000000000; taken #1=a";

#[test]
fn nack() {
    let rows: &[Row] = &[
        ("nothing there", "", "nack FAIL '' '' 16 5000 9000 0 #1 1 0", "OK :0 :0 ''", ""),
        (
            "by the backoff",
            LEASED,
            "nack FAIL '' '' 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+5000",
            "retry #1=ceil+5000; taken #1=a; tries #1=1/0/",
        ),
        (
            "with a delay and a reason",
            LEASED,
            "nack FAIL 7 no\\x20good\\r\\n 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+7",
            "retry #1=ceil+7; taken #1=a; tries #1=1/0/no/good\\r\\n",
        ),
        (
            "a reason with a zero byte",
            LEASED,
            "nack FAIL 0 no\\x00good 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+0",
            "retry #1=ceil+0; taken #1=a; tries #1=1/0/no\\x00good",
        ),
        (
            "the reason of before stays without a new one, and goes with one",
            "leased #1=5 #2=6; taken #1=a #2=b; tries #1=2/0/old #2=2/1/old",
            "nack FAIL 900 '' 16 5000 9000 0 #1 2 0 #2 2 0",
            "OK :2 :0 ceil+900",
            "retry #1=ceil+900 #2=ceil+900; taken #1=a #2=b; tries #1=2/0/old #2=2/1/old",
        ),
        (
            "in its place",
            "leased #1=5; taken #1=a; tries #1=2/0/old",
            "nack FAIL 900 new 16 5000 9000 0 #1 2 0",
            "OK :1 :0 ceil+900",
            "retry #1=ceil+900; taken #1=a; tries #1=2/0/new",
        ),
        (
            "silent: at once, and the attempt does not count",
            LEASED,
            "nack SILENT '' '' 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+0",
            "retry #1=ceil+0; taken #1=a; tries #1=1/1/",
        ),
        (
            "silent at the limit, with a delay and a reason",
            "leased #1=9000000000000; taken #1=a; tries #1=16/0/old",
            "nack SILENT 7000 busy 16 5000 9000 0 #1 16 0",
            "OK :1 :0 ceil+7000",
            "retry #1=ceil+7000; taken #1=a; tries #1=16/1/busy",
        ),
        (
            "silent where the attempt does not count already",
            "leased #1=9000000000000; taken #1=a; tries #1=1/1/",
            "nack SILENT '' '' 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+0",
            "retry #1=ceil+0; taken #1=a; tries #1=1/1/",
        ),
        (
            "its connection closed: at once, counted, and with the reason that it had",
            "leased #1=5 #2=6; taken #1=a #2=b; tries #2=2/1/old",
            "nack TIED '' closed 16 5000 9000 0 #1 1 0 #2 2 0",
            "OK :2 :0 ceil+0",
            "retry #1=ceil+0 #2=ceil+0; taken #1=a #2=b; tries #1=1/0/closed #2=2/1/old",
        ),
        (
            "what waits already keeps its time, the dead their place, and others what they have",
            "retry #1=9000000000000; dead #2=5; leased #3=5; taken #1=a #2=b #3=c; tries #3=2/0/",
            "nack TIED '' closed 16 5000 9000 0 #1 1 0 #2 1 0 #3 1 0",
            "OK :0 :0 ''",
            "retry #1=9000000000000; dead #2=5; leased #3=5; taken #1=a #2=b #3=c; tries #3=2/0/",
        ),
        (
            "at the limit, and not at once from the third delivery on",
            "leased #1=5 #2=5; taken #1=a #2=b; tries #1=3/0/ #2=16/0/",
            "nack TIED '' closed 16 5000 9000 0 #1 3 0 #2 16 0",
            "OK :2 :1 ceil+100",
            "retry #1=ceil+100; dead #2=ceil+0; taken #1=a #2=b
             tries #1=3/0/closed #2=16/0/closed",
        ),
        (
            "fatal: dead, whatever the delay",
            LEASED,
            "nack FATAL 7000 bad\\x20data 16 5000 9000 0 #1 1 0",
            "OK :1 :1 ''",
            "dead #1=ceil+0; taken #1=a; tries #1=1/0/bad/data",
        ),
        (
            "at the limit: dead",
            "leased #1=9000000000000; taken #1=a; tries #1=16/0/old",
            "nack FAIL '' '' 16 5000 9000 0 #1 16 0",
            "OK :1 :1 ''",
            "dead #1=ceil+0; taken #1=a; tries #1=16/0/old",
        ),
        (
            "one before it, and where some do not count",
            "leased #1=5 #2=5; taken #1=a #2=b; tries #1=15/0/ #2=31/16/",
            "nack FAIL 500 '' 16 5000 9000 0 #1 15 0 #2 31 0",
            "OK :2 :0 ceil+500",
            "retry #1=ceil+500 #2=ceil+500; taken #1=a #2=b; tries #1=15/0/ #2=31/16/",
        ),
        (
            "no limit",
            "leased #1=5; taken #1=a; tries #1=99/0/",
            "nack FAIL '' '' 0 5000 9000 0 #1 99 0",
            "OK :1 :0 ceil+9000",
            "retry #1=ceil+9000; taken #1=a; tries #1=99/0/",
        ),
        (
            "the lease has run out",
            "leased #1=5; taken #1=a",
            "nack FAIL 300 '' 16 5000 9000 0 #1 1 0",
            "OK :1 :0 ceil+300",
            "retry #1=ceil+300; taken #1=a; tries #1=1/0/",
        ),
        (
            "it waits already: its time moves",
            "retry #1=9000000000000; taken #1=a; tries #1=3/1/x",
            "nack FAIL 300 '' 16 5000 9000 0 #1 3 0",
            "OK :1 :0 ceil+300",
            "retry #1=ceil+300; taken #1=a; tries #1=3/1/x",
        ),
        (
            "silent then: it has counted",
            "retry #1=9000000000000; taken #1=a; tries #1=3/1/x",
            "nack SILENT 300 '' 16 5000 9000 0 #1 3 0",
            "OK :1 :0 ceil+300",
            "retry #1=ceil+300; taken #1=a; tries #1=3/1/x",
        ),
        (
            "by the backoff where the attempt does not count any more: that of the first",
            "retry #1=9000000000000; taken #1=a; tries #1=2/2/",
            "nack FAIL '' '' 16 5000 9000 0 #1 2 0",
            "OK :1 :0 ceil+5000",
            "retry #1=ceil+5000; taken #1=a; tries #1=2/2/",
        ),
        (
            "the same receipt twice: the first counts",
            LEASED,
            "nack FAIL '' '' 16 5000 9000 1000 #1 1 0 #1 1 999",
            "OK :1 :0 ceil+5000",
            "retry #1=ceil+5000; taken #1=a; tries #1=1/0/",
        ),
        (
            "dead ones stay so; handed out again since; another id, another length",
            "dead #1=5; leased #2=5; taken #1=a #2=b; tries #2=2/0/",
            "nack FATAL '' '' 16 5000 9000 0 #1 1 0 #2 1 0 #2 3 0 #9 1 0 abc 1 0 '' 1 0",
            "OK :0 :0 ''",
            "dead #1=5; leased #2=5; taken #1=a #2=b; tries #2=2/0/",
        ),
        (
            "several: when the first of them can be taken; one is dead of it",
            "leased #1=5 #2=5 #3=5; taken #1=a #2=b #3=c; tries #1=2/0/ #3=16/0/",
            "nack FAIL '' '' 16 5000 9000 0 #1 2 0 #2 1 0 #3 16 0",
            "OK :3 :1 ceil+5000",
            "retry #2=ceil+5000 #1=ceil+9000; dead #3=ceil+0; taken #1=a #2=b #3=c
             tries #1=2/0/ #2=1/0/ #3=16/0/",
        ),
        (
            "from the third delivery on none comes back at once",
            "leased #1=5 #2=5 #3=5; taken #1=a #2=b #3=c; tries #2=2/0/ #3=3/0/",
            "nack FAIL 0 '' 16 5000 9000 0 #1 1 0 #2 2 0 #3 3 0",
            "OK :3 :0 ceil+0",
            "retry #1=ceil+0 #2=ceil+0 #3=ceil+100; taken #1=a #2=b #3=c
             tries #1=1/0/ #2=2/0/ #3=3/0/",
        ),
        (
            "silent ones neither, however few count",
            "leased #1=5; taken #1=a; tries #1=3/2/",
            "nack SILENT '' '' 16 5000 9000 0 #1 3 0",
            "OK :1 :0 ceil+100",
            "retry #1=ceil+100; taken #1=a; tries #1=3/3/",
        ),
        (
            "a pause is no matter",
            "leased #1=5; taken #1=a; record name=$q paused_until=-1",
            "nack FATAL '' '' 16 5000 9000 0 #1 1 0",
            "OK :1 :1 ''",
            "dead #1=ceil+0; taken #1=a; tries #1=1/0/; record name=$q paused_until=-1",
        ),
        (
            "several clients, as one after the other",
            "leased #1=9000000000000 #2=9000000000000 #3=5; taken #1=a #2=b #3=c; tries #3=16/0/",
            "nack FAIL 7000 '' 16 5000 9000 0
             #1 1 0 #3 16 0 #1 1 0 '' '' '' #9 1 0 '' '' '' #1 1 0 #2 1 0",
            "OK :2 :1 :0 :0 :2 :0 ceil+7000",
            "retry #1=ceil+7000 #2=ceil+7000; dead #3=ceil+0; taken #1=a #2=b #3=c
             tries #1=1/0/ #2=1/0/ #3=16/0/",
        ),
    ];
    check(rows);
}

/// Doubled with each attempt up to the longest, and shorter by chance, by no more than the jitter.
#[test]
fn backoff() {
    let (min, max, jitter) = (5_000_u64, 3_600_000, 20);
    for attempt in 1..=16_u32 {
        // What counts are attempts, whatever the deliveries.
        for (base, chance) in [(0, 0), (0, 999), (3, 500)] {
            let deliveries = attempt + base;
            let given = format!("{LEASED}; tries #1={deliveries}/{base}/");
            let mut bench = Bench::new(&given);
            let call = format!("nack FAIL '' '' 99 {min} {max} {jitter} #1 {deliveries} {chance}");
            let reply = bench.run(&call);
            let from: i64 = reply.strip_prefix("OK :1 :0 ").unwrap().parse().unwrap();
            assert_eq!(bench.redis("ZSCORE @retry #1").text(), from.to_string());
            let wait = (from - (bench.now_us + 999) / 1000) as u64;
            let longest = max.min(min << (attempt - 1));
            let shortest = longest * (100 - jitter) / 100;
            match chance {
                0 => assert_eq!(wait, longest, "attempt {attempt}"),
                999 => assert_eq!(wait, shortest, "attempt {attempt}"),
                _ => assert!((shortest + 1..longest).contains(&wait), "attempt {attempt}: {wait}"),
            }
        }
    }
}

/// No more of a reason is kept than this.
#[test]
fn long_reasons() {
    for size in [511, 512, 513, 5000] {
        let mut bench = Bench::new(LEASED);
        let reason = "x".repeat(size);
        let kept = "x".repeat(size.min(512));
        let call = format!("nack FATAL '' {reason} 16 5000 9000 0 #1 1 0");
        bench.returns(&call, "OK :1 :1 ''");
        bench.then(&format!("dead #1=ceil+0; taken #1=a; tries #1=1/0/{kept}"), "cut");
    }
}

/// Attempts that do not count bring a message no nearer to its limit, however many there are. Each
/// receipt is good until the next delivery; given back twice, extended in between, it counts once.
#[test]
fn silent_ones() {
    let mut bench = Bench::new("destination a");
    let again = |bench: &mut Bench| {
        bench.redis("ZADD @retry XX 5 #1");
    };
    for delivery in 1..=40 {
        let reply = bench.run("take 1 1000 1000 60000 2 #1");
        bench.number += 1;
        assert!(
            reply.ends_with(&format!("#1 :{delivery} :1 a").replace("#1", &id_word(1))),
            "{reply}"
        );
        if delivery > 1 {
            let old = delivery - 1;
            bench.returns(&format!("nack SILENT '' '' 2 1 1 0 #1 {old} 0"), "OK :0 :0 ''");
            bench.returns(&format!("extend 60000 #1 {old}"), "OK :0 :ceil+60000");
            bench.returns(&format!("ack #1 {old}"), "OK :0");
        }
        for _ in 0..2 {
            let reply = bench.run(&format!("nack SILENT '' '' 2 1 1 0 #1 {delivery} 0"));
            bench.number += 1;
            assert!(reply.starts_with("OK :1 :0 "), "{reply}");
            // What was given back is leased no more, so it is not excused twice.
            bench.returns(&format!("extend 60000 #1 {delivery}"), "OK :0 :ceil+60000");
        }
        let reply = bench.run(&format!("nack SILENT '' '' 2 1 1 0 #1 {delivery} 0"));
        bench.number += 1;
        assert!(reply.starts_with("OK :1 :0 "), "{reply}");
        again(&mut bench);
    }
    bench.then("retry #1=5; taken #1=a; tries #1=40/40/; record name=$q", "given back");
    bench.returns("ack #1 40", "OK :1");
    bench.then("", "settled");
}

/// An id as replies show it.
fn id_word(id: u64) -> String {
    id.to_be_bytes().escape_ascii().to_string()
}

#[test]
fn extend() {
    let rows: &[Row] = &[
        ("nothing there", "", "extend 60000 #1 1", "OK :0 :ceil+60000", ""),
        (
            "counted from now, also where that is sooner",
            "leased #1=5000000000000 #2=9000000000000; taken #1=a #2=b",
            "extend 60000 #1 1",
            "OK :1 :ceil+60000",
            "leased #1=ceil+60000 #2=9000000000000; taken #1=a #2=b",
        ),
        (
            "the lease has run out; what waits for a retry goes on waiting",
            "leased #1=5; retry #2=5 #3=9000000000000; taken #1=a #2=b #3=c; tries #3=2/1/x",
            "extend 60000 #1 1 #2 1 #3 2",
            "OK :1 :ceil+60000",
            "leased #1=ceil+60000; retry #2=5 #3=9000000000000; taken #1=a #2=b #3=c
             tries #3=2/1/x",
        ),
        (
            "the same receipt twice",
            LEASED,
            "extend 60000 #1 1 #1 1",
            "OK :1 :ceil+60000",
            "leased #1=ceil+60000; taken #1=a",
        ),
        (
            "dead; handed out again since; another id, another length",
            "dead #1=5; leased #2=9000000000000; taken #1=a #2=b; tries #2=2/0/",
            "extend 60000 #1 1 #2 1 #2 3 #9 1 abc 1",
            "OK :0 :ceil+60000",
            "dead #1=5; leased #2=9000000000000; taken #1=a #2=b; tries #2=2/0/",
        ),
        (
            "a pause is no matter",
            "leased #1=5; taken #1=a; record name=$q paused_until=-1",
            "extend 60000 #1 1",
            "OK :1 :ceil+60000",
            "leased #1=ceil+60000; taken #1=a; record name=$q paused_until=-1",
        ),
        (
            "several clients, as one after the other",
            "leased #1=9000000000000; dead #2=5; taken #1=a #2=b",
            "extend 60000 #1 1 #1 1 '' '' #2 1 '' '' #2 1 #1 1",
            "OK :1 :0 :1 :ceil+60000",
            "leased #1=ceil+60000; dead #2=5; taken #1=a #2=b",
        ),
    ];
    check(rows);
}

/// What a receipt is good for, from the take to the end.
#[test]
fn receipts() {
    let mut bench = Bench::new("destination a");
    let take = "take 9 1000 1000 60000 16 #1";
    bench.returns(take, "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a");
    let reply = bench.run(take);
    bench.number += 1;
    assert_eq!(reply.split(' ').count(), 5, "leased: not handed out: {reply}");
    bench.redis("ZADD @leased 5 #1");
    bench.returns(take, "OK floor+60001 :floor+60001 :1 :0 #1 :2 :2 a");
    // The second one has it, whatever the first does.
    for call in ["ack #1 1", "nack FAIL '' x 16 1 1 0 #1 1 0", "extend 60000 #1 1"] {
        let reply = bench.run(call);
        bench.number += 1;
        assert!(reply.starts_with("OK :0"), "{call}: {reply}");
    }
    let held = "taken #1=a; tries #1=2/0/; record name=$q";
    let until_ms = bench.redis("ZSCORE @leased #1").text();
    bench.then(&format!("leased #1={until_ms}; {held}"), "as it was");
    bench.returns("nack FAIL 60000 '' 16 1 1 0 #1 2 0", "OK :1 :0 ceil+60000");
    bench.returns("nack FAIL 70000 '' 16 1 1 0 #1 2 0", "OK :1 :0 ceil+70000");
    bench.then(&format!("retry #1=ceil+70000; {held}"), "the time moves, and it counts once");
    bench.returns("ack #1 2", "OK :1");
    bench.returns("ack #1 2", "OK :0");
    bench.then("", "settled");
}

/// Exactly so many deliveries that count, then dead; brought back it has them all again. A receipt
/// is good until the message is handed out again, wherever it was in between.
#[test]
fn poison() {
    let mut bench = Bench::new("destination a");
    let take = "take 9 1000 1000 60000 3 #1";
    for round in 0..3 {
        for attempt in 1..=3 {
            let delivery = 3 * round + attempt;
            let lapsed = u32::from(attempt == 3);
            let taken =
                format!("OK floor+60001 :floor+60001 :{lapsed} :0 #1 :{delivery} :{attempt} a");
            bench.returns(take, &taken);
            let old = delivery - 1;
            bench.returns(&format!("ack #1 {old}"), "OK :0");
            match attempt {
                1 => {
                    let reply = bench.run(&format!("nack FAIL 0 '' 3 1 1 0 #1 {delivery} 0"));
                    assert!(reply.starts_with("OK :1 :0"), "{reply}");
                    bench.number += 1;
                    bench.redis("ZADD @retry XX 5 #1");
                }
                _ => _ = bench.redis("ZADD @leased XX 5 #1"),
            }
        }
        bench.returns(take, "OK '' :floor+60001 :1 :1");
        let delivery = 3 * round + 3;
        let base = 3 * round;
        let reason = format!("{delivery}/{base}/lease/expired");
        bench.then(
            &format!("dead #1=floor+0; taken #1=a; tries #1={reason}; record name=$q"),
            "dead",
        );
        bench.returns("dead 70000 0 #1", "OK :1 ceil+70000");
        let reason = format!("{delivery}/{delivery}/lease/expired");
        bench.then(
            &format!("retry #1=ceil+70000; taken #1=a; tries #1={reason}; record name=$q"),
            "back",
        );
        bench.redis("ZADD @retry XX 5 #1");
    }
    bench.returns("ack #1 9", "OK :1");
    bench.then("", "done late");
}

/// Consumers go on out of memory: they take and settle, and what is to be tried again waits.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    let taken = "taken #1=a #2=b #3=c";
    let all = format!("leased #1=5; retry #2=5; dead #3=5; {taken}");
    let rows: &[Row] = &[
        (
            "a take from the list",
            "destination a b",
            "take 1 1000 1000 60000 16 #1",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 a",
            "destination b; leased #1=floor+60001; taken #1=a; record name=$q",
        ),
        (
            "of one that is tried again",
            "retry #1=5; taken #1=a",
            "take 1 1000 1000 60000 16 #2",
            "OK floor+60001 :floor+60001 :0 :0 #1 :2 :2 a",
            "leased #1=floor+60001; taken #1=a; tries #1=2/0/; record name=$q",
        ),
        (
            "of one whose lease ran out, beside one that dies",
            "leased #1=5 #2=5; taken #1=a #2=b; tries #2=16/0/",
            "take 9 1000 1000 60000 16 #2",
            "OK floor+60001 :floor+60001 :2 :1 #1 :2 :2 a",
            "leased #1=floor+60001; dead #2=floor+0; taken #1=a #2=b
             tries #1=2/0/ #2=16/0/lease/expired; record name=$q",
        ),
        ("a take of nothing", "", "take 9 1000 1000 60000 16 #1", "OK '' :floor+60001 :0 :0", ""),
        ("ack", &all, "ack #1 1 #3 1", "OK :2", "retry #2=5; taken #2=b"),
        (
            "nack",
            &all,
            "nack FAIL 9000 long\\x20enough 16 5000 9000 0 #2 1 0 #1 1 0",
            "OK :2 :0 ceil+9000",
            "retry #1=ceil+9000 #2=ceil+9000; dead #3=5; taken #1=a #2=b #3=c
             tries #1=1/0/long/enough #2=1/0/long/enough",
        ),
        (
            "extend",
            &all,
            "extend 60000 #2 1 #1 1",
            "OK :1 :ceil+60000",
            "leased #1=ceil+60000; retry #2=5; dead #3=5; taken #1=a #2=b #3=c",
        ),
        (
            "dead ones brought back",
            &all,
            "dead 9000 0 #9 #3",
            "OK :1 ceil+9000",
            "leased #1=5; retry #2=5 #3=ceil+9000; taken #1=a #2=b #3=c; tries #3=1/1/",
        ),
        ("dropped", &all, "dead '' 9", "OK :1 ''", "leased #1=5; retry #2=5; taken #1=a #2=b"),
    ];
    for (what, given, call, returns, then) in rows {
        let mut bench = Bench::on(&redis, given);
        bench.redis("CONFIG SET maxmemory 1");
        let reply = bench.run(call);
        assert_eq!(reply, bench.names.normal(&bench.timed(returns)), "{what}");
        let then = bench.timed(then);
        bench.then(&then, what);
        if *what != "a take of nothing" {
            assert_eq!(bench.run(call), "SETTLED", "{what}: stored for settling");
        }
        assert_ne!(bench.redis("SET x y"), Value::Simple("OK".into()), "{what}");
        bench.redis("CONFIG SET maxmemory 0");
    }
}
