//! take.lua, ack.lua, nack.lua, extend.lua, taken.lua, dead.lua, retry.lua, retry_get.lua,
//! release.lua, ready.lua: messages that consumers
//! take for a time.

use crate::bench::{Bench, FOREVER_MS, Row, check};
use crate::support::redis::Redis;
use crate::support::resp::Value;
use std::collections::BTreeSet;

/// Count, then bytes and message that no row meets, a lease of a minute, the limit, new ids.
const TAKE: &str = "1000 1000 60000 16";

/// Rows that say `TAKE` where a take has nothing special.
fn check_takes(rows: &[Row]) {
    for (what, given, call, returns, then) in rows {
        let call = call.replace("TAKE", TAKE);
        check(&[(what, given, &call, returns, then)]);
    }
}

#[test]
fn take() {
    check_takes(&[
        ("nothing there", "", "take 10 TAKE #1", "OK '' :floor+60001 :0 :0", ""),
        (
            "one, and the name is claimed",
            "destination a",
            "take 10 TAKE #1#2",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a",
            "leased #1=floor+60001; taken #1=a; record name=$q",
        ),
        (
            "exactly the count",
            "destination a b",
            "take 2 TAKE #1#2",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a #2 :1 :1 b",
            "leased #1=floor+60001 #2=floor+60001; taken #1=a #2=b; record name=$q",
        ),
        (
            "count and one: there is more now",
            "destination a b c; record name=$q format=legacy",
            "take 2 TAKE #1#2",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 a #2 :1 :1 b",
            "destination c; leased #1=floor+60001 #2=floor+60001; taken #1=a #2=b
             record name=$q format=legacy",
        ),
        (
            "any bytes, and none",
            "destination \\x00\\r\\n ''",
            "take 9 TAKE #1#2",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 \\x00\\r\\n #2 :1 :1 ''",
            "leased #1=floor+60001 #2=floor+60001; taken #1=\\x00\\r\\n #2=''; record name=$q",
        ),
        (
            "the same payload twice is two messages",
            "destination a a",
            "take 9 TAKE #2#1",
            "OK floor+60001 :floor+60001 :0 :0 #2 :1 :1 a #1 :1 :1 a",
            "leased #1=floor+60001 #2=floor+60001; taken #1=a #2=a; record name=$q",
        ),
        (
            "as many bytes as allowed",
            "destination aaaa bbbb cccc",
            "take 9 8 1000 60000 16 #1#2#3",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 aaaa #2 :1 :1 bbbb",
            "destination cccc; leased #1=floor+60001 #2=floor+60001; taken #1=aaaa #2=bbbb
             record name=$q",
        ),
        (
            "in the middle of one",
            "destination aaaa bbbb cccc",
            "take 9 7 1000 60000 16 #1#2#3",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 aaaa",
            "destination bbbb cccc; leased #1=floor+60001; taken #1=aaaa; record name=$q",
        ),
        (
            "one, however large",
            "destination aaaa bbbb",
            "take 9 1 1000 60000 16 #1#2",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 aaaa",
            "destination bbbb; leased #1=floor+60001; taken #1=aaaa; record name=$q",
        ),
        (
            "what no reply can hold is not taken, and said",
            "destination abc b",
            "take 9 1000 2 60000 16 #1#2",
            "TOOBIG :3 at\\x20the\\x20head\\x20of\\x20the\\x20list :2",
            "destination abc b",
        ),
        (
            "it ends a reply before it",
            "destination b abc c",
            "take 9 1000 2 60000 16 #1#2#3",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 b",
            "destination abc c; leased #1=floor+60001; taken #1=b; record name=$q",
        ),
        (
            "one that is tried again is dead, and in nobody's way",
            "destination b; retry #9=5; taken #9=abc",
            "take 9 1000 2 60000 16 #1",
            "OK floor+60001 :floor+60001 :0 :1 #1 :1 :1 b",
            "leased #1=floor+60001; dead #9=floor+0; taken #1=b #9=abc
             tries #9=1/0/too/large/for/a/reply; record name=$q",
        ),
        (
            "paused: nothing, and leases that ran out stay",
            "destination b; record name=$q paused_until=-1; leased #9=5; taken #9=a",
            "take 9 TAKE #1",
            "PAUSED -1",
            "destination b; record name=$q paused_until=-1; leased #9=5; taken #9=a",
        ),
        (
            "all are paused, for a time and longer than the queue",
            "destination b; record paused_until=9000000000000; all paused_until=9000000000001",
            "take 9 TAKE #1",
            "PAUSED 9000000000001",
            "destination b; record paused_until=9000000000000; all paused_until=9000000000001",
        ),
        (
            "pauses that are over, or no times",
            "destination b; record name=$q paused_until=1000; all paused_until=soon",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 b",
            "leased #1=floor+60001; taken #1=b; record name=$q paused_until=1000
             all paused_until=soon",
        ),
        (
            "what says when all are paused has another type",
            "destination b; all !string",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 b",
            "leased #1=floor+60001; taken #1=b; record name=$q; all !string",
        ),
        (
            "the keys belong to another name",
            "destination b; record name={$q}",
            "take 9 TAKE #1",
            "BADQUEUE {$q}",
            "destination b; record name={$q}",
        ),
    ]);
}

#[test]
fn take_again() {
    check_takes(&[
        (
            "when its time has come, before the list",
            "destination b; retry #9=5; taken #9=a",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #9 :2 :2 a #1 :1 :1 b",
            "leased #9=floor+60001 #1=floor+60001; taken #9=a #1=b; tries #9=2/0/; record name=$q",
        ),
        (
            "not before; that is when there is more",
            "retry #9=9000000000000; taken #9=a",
            "take 9 TAKE #1",
            "OK 9000000000000 :floor+60001 :0 :0",
            "retry #9=9000000000000; taken #9=a",
        ),
        (
            "or the end of a lease, which others keep",
            "retry #9=9000000000000; leased #8=8000000000000; taken #8=a #9=a",
            "take 9 TAKE #1",
            "OK 8000000000000 :floor+60001 :0 :0",
            "retry #9=9000000000000; leased #8=8000000000000; taken #8=a #9=a",
        ),
        (
            "deliveries grow, of the attempts those before the base do not count; reasons stay",
            "retry #8=5 #9=6; taken #8=a #9=b; tries #8=5/3/no/good #9=16/16/",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #8 :6 :3 a #9 :17 :1 b",
            "leased #8=floor+60001 #9=floor+60001; taken #8=a #9=b; record name=$q
             tries #8=6/3/no/good #9=17/16/",
        ),
        (
            "damaged: as if nothing was noted, and no attempt below the first",
            "retry #8=5 #9=6; taken #8=a #9=b; tries #8=nonsense #9=3/7/x",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #8 :2 :2 a #9 :4 :1 b",
            "leased #8=floor+60001 #9=floor+60001; taken #8=a #9=b; record name=$q
             tries #8=2/0/ #9=4/3/x",
        ),
        (
            "at most half of the places while payloads wait",
            "destination a b c d e; retry #6=1 #7=2 #8=3 #9=4; taken #6=w #7=x #8=y #9=z",
            "take 4 TAKE #1#2#3#4",
            "OK floor+0 :floor+60001 :0 :0 #6 :2 :2 w #7 :2 :2 x #1 :1 :1 a #2 :1 :1 b",
            "destination c d e; retry #8=3 #9=4; record name=$q; tries #6=2/0/ #7=2/0/
             leased #6=floor+60001 #7=floor+60001 #1=floor+60001 #2=floor+60001
             taken #6=w #7=x #8=y #9=z #1=a #2=b",
        ),
        (
            "of three places two",
            "destination a b; retry #6=1 #7=2 #8=3; taken #6=w #7=x #8=y",
            "take 3 TAKE #1#2#3",
            "OK floor+0 :floor+60001 :0 :0 #6 :2 :2 w #7 :2 :2 x #1 :1 :1 a",
            "destination b; retry #8=3; record name=$q; tries #6=2/0/ #7=2/0/
             leased #6=floor+60001 #7=floor+60001 #1=floor+60001; taken #6=w #7=x #8=y #1=a",
        ),
        (
            "more where fewer payloads wait",
            "destination a; retry #6=1 #7=2 #8=3 #9=4; taken #6=w #7=x #8=y #9=z",
            "take 4 TAKE #1#2#3#4",
            "OK floor+0 :floor+60001 :0 :0 #6 :2 :2 w #7 :2 :2 x #8 :2 :2 y #1 :1 :1 a",
            "retry #9=4; record name=$q; tries #6=2/0/ #7=2/0/ #8=2/0/
             leased #6=floor+60001 #7=floor+60001 #8=floor+60001 #1=floor+60001
             taken #6=w #7=x #8=y #9=z #1=a",
        ),
        (
            "places that nothing takes a second time are the list's",
            "destination a b c; retry #9=4; taken #9=z",
            "take 4 TAKE #1#2#3#4",
            "OK floor+60001 :floor+60001 :0 :0 #9 :2 :2 z #1 :1 :1 a #2 :1 :1 b #3 :1 :1 c",
            "record name=$q; tries #9=2/0/; taken #9=z #1=a #2=b #3=c
             leased #9=floor+60001 #1=floor+60001 #2=floor+60001 #3=floor+60001",
        ),
        (
            "bytes end it among those that are tried again",
            "destination a; retry #8=1 #9=2; taken #8=xxxx #9=yyyy",
            "take 9 7 1000 60000 16 #1",
            "OK floor+0 :floor+60001 :0 :0 #8 :2 :2 xxxx",
            "destination a; retry #9=2; record name=$q; tries #8=2/0/; leased #8=floor+60001
             taken #8=xxxx #9=yyyy",
        ),
        (
            "or behind them",
            "destination aaaa; retry #9=2; taken #9=yyyy",
            "take 9 7 1000 60000 16 #1",
            "OK floor+0 :floor+60001 :0 :0 #9 :2 :2 yyyy",
            "destination aaaa; record name=$q; tries #9=2/0/; leased #9=floor+60001
             taken #9=yyyy",
        ),
        (
            "somebody deleted the payload: forgotten",
            "destination b; retry #8=1 #9=2; taken #9=a; tries #8=2/0/x",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #9 :2 :2 a #1 :1 :1 b",
            "leased #9=floor+60001 #1=floor+60001; taken #9=a #1=b; tries #9=2/0/; record name=$q",
        ),
        (
            "and nothing else is there",
            "retry #8=1; tries #8=2/0/x",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :0 :0",
            "",
        ),
        (
            "ids that no receipt can name are not handed out; their payload is somebody's",
            "retry abc=1 ''=1 #1#2=1; taken abc=x ''=y #1#2=z; tries abc=2/0/x",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :0 :0",
            "taken abc=x ''=y #1#2=z",
        ),
        (
            "moments of others: fractions, before all, never",
            "retry #7=0.5 #8=-inf #9=inf; taken #7=a #8=b #9=c",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #8 :2 :2 b #7 :2 :2 a",
            "leased #8=floor+60001 #7=floor+60001; retry #9=inf; taken #7=a #8=b #9=c
             tries #7=2/0/ #8=2/0/; record name=$q",
        ),
    ]);
}

#[test]
fn leases_that_ran_out() {
    check_takes(&[
        (
            "handed out again, behind those that waited longer",
            "leased #8=5 #9=9000000000000; retry #7=4; taken #7=a #8=b #9=c",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :1 :0 #7 :2 :2 a #8 :2 :2 b",
            "leased #7=floor+60001 #8=floor+60001 #9=9000000000000; taken #7=a #8=b #9=c
             tries #7=2/0/ #8=2/0/; record name=$q",
        ),
        (
            "wait where there is no place",
            "leased #7=5 #8=6.5; taken #7=a #8=b",
            "take 1 TAKE #1",
            "OK 6 :floor+60001 :2 :0 #7 :2 :2 a",
            "leased #7=floor+60001; retry #8=6.5; taken #7=a #8=b; tries #7=2/0/; record name=$q",
        ),
        (
            "dead at the limit",
            "leased #9=5; taken #9=a; tries #9=16/0/",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :1 :1",
            "dead #9=floor+0; taken #9=a; tries #9=16/0/lease/expired",
        ),
        (
            "not one before it",
            "leased #9=5; taken #9=a; tries #9=15/0/",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :1 :0 #9 :16 :16 a",
            "leased #9=floor+60001; taken #9=a; tries #9=16/0/; record name=$q",
        ),
        (
            "dead of what consumers said; those of the list are taken",
            "destination b; leased #9=5; taken #9=a; tries #9=16/0/boom",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :1 :1 #1 :1 :1 b",
            "leased #1=floor+60001; dead #9=floor+0; taken #9=a #1=b; tries #9=16/0/boom
             record name=$q",
        ),
        (
            "what does not count brings it no nearer",
            "leased #9=5; taken #9=a; tries #9=20/10/",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :1 :0 #9 :21 :11 a",
            "leased #9=floor+60001; taken #9=a; tries #9=21/10/; record name=$q",
        ),
        (
            "a limit of one",
            "leased #9=5; taken #9=a",
            "take 9 1000 1000 60000 1 #1",
            "OK '' :floor+60001 :1 :1",
            "dead #9=floor+0; taken #9=a; tries #9=1/0/lease/expired",
        ),
        (
            "no limit",
            "leased #9=5; taken #9=a; tries #9=99/0/",
            "take 9 1000 1000 60000 0 #1",
            "OK floor+60001 :floor+60001 :1 :0 #9 :100 :100 a",
            "leased #9=floor+60001; taken #9=a; tries #9=100/0/; record name=$q",
        ),
        (
            "somebody deleted the payload",
            "leased #9=5; tries #9=2/0/",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :1 :0",
            "",
        ),
        (
            "ended, and dead, since it is too large for a reply now",
            "leased #9=5; taken #9=abc",
            "take 9 1000 2 60000 16 #1",
            "OK '' :floor+60001 :1 :1",
            "dead #9=floor+0; taken #9=abc; tries #9=1/0/too/large/for/a/reply",
        ),
    ]);
}

/// In each call so many leases end; the others are met by the next ones.
#[test]
fn many_leases_that_ran_out() {
    let mut bench = Bench::new("");
    for id in 1..=450 {
        bench.redis(&format!("ZADD @leased {id} #{id}"));
        bench.redis(&format!("HSET @taken #{id} x{id}"));
    }
    for (taken, lapsed, left) in [(1, 200, 250), (2, 200, 50), (3, 50, 0), (4, 0, 0)] {
        let expected =
            format!("OK {} :floor+60001 :{lapsed} :0 #{taken} :2 :2 x{taken}", taken + 1);
        bench.returns("take 1 1000 1000 60000 16 #999", &expected);
        let running = bench.redis("ZCOUNT @leased 1000 +inf").int();
        assert_eq!((running, bench.redis("ZCARD @leased").int() - running), (taken, left));
    }
}

/// Of a single place one call in two is for the list, by chance: the last digit of the time.
#[test]
fn one_at_a_time() {
    let mut bench = Bench::new("");
    let mut seen = BTreeSet::new();
    for id in 1..=64 {
        bench.give("destination new; retry #1=5; taken #1=old");
        bench.number = id;
        let reply = bench.run("take 1 1000 1000 60000 16 #2");
        let is_retry = bench.now_us % 2 == 1;
        let payload = if is_retry { "old" } else { "new" };
        assert!(reply.ends_with(payload), "{}: {reply}", bench.now_us);
        seen.insert(is_retry);
        bench.redis("FLUSHDB");
    }
    assert_eq!(seen.len(), 2, "in 64 calls");
    // Where only one of both is there it is taken at once.
    for id in 65..=80 {
        let given = ["destination x", "retry #1=5; taken #1=x"][id as usize % 2];
        bench.give(given);
        bench.number = id;
        let reply = bench.run("take 1 1000 1000 60000 16 #2");
        assert!(reply.ends_with(" x"), "{reply}");
        bench.redis("FLUSHDB");
    }
}

/// As many as one call may take, of both kinds.
#[test]
fn a_thousand() {
    let mut bench = Bench::new("");
    let ids: String = (1..=1000).map(|id| format!("#{id}")).collect();
    let payloads: Vec<String> = (1..=2500).map(|n| format!("x{n}")).collect();
    bench.redis(&format!("RPUSH @destination {}", payloads.join(" ")));
    let call = format!("take 1000 100000 1000 60000 16 {ids}");
    let taken = |bench: &mut Bench| {
        let reply = bench.reply(&call, FOREVER_MS);
        bench.number += 1;
        let messages = reply.elements()[6..].chunks(4);
        messages.map(|one| (one[0].bytes(), one[3].text())).collect::<Vec<_>>()
    };
    let first = taken(&mut bench);
    assert_eq!(first.len(), 1000);
    for (at, (id, payload)) in first.iter().enumerate() {
        let n = at + 1;
        assert_eq!((&id[..], &payload[..]), (&(n as u64).to_be_bytes()[..], &*format!("x{n}")));
    }
    let receipts: String = (1..=1000).map(|id| format!(" #{id} 1 0")).collect();
    let nack = format!("nack FAIL 0 '' 16 5000 9000 0{receipts}");
    bench.returns(&nack, "OK :1000 :0 ceil+0");
    // Those that wait are all due, and take as many places as none in the list needs.
    bench.redis("DEL @destination");
    let due_ms = (bench.now_us + 999) / 1000;
    while bench.now_us / 1000 < due_ms {
        bench.run("size");
    }
    assert_eq!(taken(&mut bench).len(), 1000);
    for (key, count) in [("HLEN @taken", 1000), ("HLEN @tries", 1000), ("ZCARD @leased", 1000)] {
        assert_eq!(bench.redis(key).int(), count, "{key}");
    }
    let receipts: String = (1..=1000).map(|id| format!(" #{id} 2")).collect();
    bench.returns(&format!("extend 60000{receipts}"), "OK :1000 :ceil+60000");
    bench.returns(&format!("ack{receipts}"), "OK :1000");
    bench.then("", "all are settled");
}

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

/// The settings that drop dead messages, in each script that makes some, and in DQ.DEAD.
#[test]
fn dead_messages_that_are_not_kept() {
    check_takes(&[
        (
            "the oldest, beyond so many",
            "record name=$q settings=\\x20dead_max:2/setup; dead #5=5 #6=6 #7=7; leased #8=9
             taken #5=a #6=b #7=c #8=d; tries #5=1/0/x #8=16/0/",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :1 :1 :0 :2",
            "record name=$q settings=\\x20dead_max:2/setup; dead #7=7 #8=floor+0; taken #7=c #8=d
             tries #8=16/0/lease/expired",
        ),
        (
            "those that died too long ago, behind what is taken",
            "record name=$q settings=\\x20dead_keep_ms:60000/file; dead #5=5 #6=9000000000000
             destination a; taken #5=a #6=b",
            "take 9 TAKE #1",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a :0 :1",
            "record name=$q settings=\\x20dead_keep_ms:60000/file; dead #6=9000000000000
             leased #1=floor+60001; taken #1=a #6=b",
        ),
        (
            "as many as are kept, and not too old",
            "record name=$q settings=\\x20dead_keep_ms:60000/file\\x20dead_max:1/file
             dead #6=9000000000000; taken #6=b",
            "take 9 TAKE #1",
            "OK '' :floor+60001 :0 :0",
            "record name=$q settings=\\x20dead_keep_ms:60000/file\\x20dead_max:1/file
             dead #6=9000000000000; taken #6=b",
        ),
    ]);
    let given = "record name=$q settings=\\x20dead_max:1/setup; dead #5=5; leased #1=9000000000000
                 taken #5=a #1=b; tries #5=16/0/x";
    let kept = "record name=$q settings=\\x20dead_max:1/setup";
    check(&[
        (
            "given back, and dead",
            given,
            "nack FATAL '' '' 16 5000 9000 0 #1 1 0",
            "OK :1 :1 '' :1",
            &format!("{kept}; dead #1=ceil+0; taken #1=b; tries #1=1/0/"),
        ),
        (
            "one that is brought back is not too many",
            given,
            "dead 0 0 #5",
            "OK :1 ceil+0",
            &format!(
                "{kept}; retry #5=ceil+0; leased #1=9000000000000; taken #5=a #1=b
                 tries #5=16/16/x"
            ),
        ),
        (
            "a look alone",
            "record name=$q settings=\\x20dead_max:1/setup; dead #5=5 #6=6; taken #5=a #6=b",
            "dead '' 0",
            "OK :0 '' :1",
            &format!("{kept}; dead #6=6; taken #6=b"),
        ),
    ]);
}

/// At most a thousand in one call.
#[test]
fn very_many_dead_ones() {
    let mut bench = Bench::new("record name=$q settings=\\x20dead_max:5/setup");
    let fill = "for i = 1, 2500 do redis.call('ZADD', KEYS[1], i, i)
                redis.call('HSET', KEYS[2], i, 'x') end";
    let keys = ["dead", "taken"].map(|role| bench.names.key(role));
    bench.client.call(&["EVAL", fill, "2", &keys[0], &keys[1]]).unwrap();
    for (dropped, left) in [(1000, 1500), (1000, 500), (495, 5)] {
        bench.returns("dead '' 0", &format!("OK :0 '' :{dropped}"));
        for (command, key) in [("ZCARD", &keys[0]), ("HLEN", &keys[1])] {
            assert_eq!(bench.client.call(&[command, key]).unwrap(), Value::Int(left));
        }
    }
    bench.returns("dead '' 0", "OK :0 ''");
}

#[test]
fn retry() {
    let given = "retry #1=5 #2=9000000000000; taken #1=a #2=b; tries #2=3/1/x";
    let rows: &[Row] = &[
        ("nothing there", "", "retry 0 #1", "OK :0", ""),
        ("nothing named", given, "retry 7000", "OK", given),
        (
            "now; one that can be had already keeps its place in the line",
            given,
            "retry 0 #1 #2 #9",
            "OK :1 :1 :0",
            "retry #1=5 #2=floor+0; taken #1=a #2=b; tries #2=3/1/x",
        ),
        (
            "after a time, the same twice",
            given,
            "retry 7000 #1 #1",
            "OK :1 :1",
            "retry #1=ceil+7000 #2=9000000000000; taken #1=a #2=b; tries #2=3/1/x",
        ),
        (
            "at a time",
            given,
            "retry -9100000000000 #1 #2",
            "OK :1 :1",
            "retry #1=9100000000000 #2=9100000000000; taken #1=a #2=b; tries #2=3/1/x",
        ),
        (
            "at a time that is past",
            given,
            "retry -5 #2",
            "OK :1",
            "retry #1=5 #2=ceil+0; taken #1=a #2=b; tries #2=3/1/x",
        ),
        (
            "forgotten, the same twice",
            given,
            "retry '' #2 #2 abc ''",
            "OK :1 :0 :0 :0",
            "retry #1=5; taken #1=a",
        ),
        ("all of them", given, "retry '' #2 #1", "OK :1 :1", ""),
        (
            "the record goes with the last one",
            "retry #1=5; taken #1=a; record name=$q",
            "retry '' #1",
            "OK :1",
            "",
        ),
        (
            "but not while another one is leased",
            "retry #1=5; leased #2=5; taken #1=a #2=b; record name=$q",
            "retry '' #1",
            "OK :1",
            "leased #2=5; taken #2=b; record name=$q",
        ),
        (
            "only what waits",
            "leased #1=5; dead #2=5; taken #1=a #2=b",
            "retry '' #1 #2",
            "OK :0 :0",
            "leased #1=5; dead #2=5; taken #1=a #2=b",
        ),
        (
            "an id of another length, and one without a payload",
            "retry abc=1 #1=2; taken abc=x",
            "retry '' abc #1",
            "OK :1 :1",
            "",
        ),
    ];
    check(rows);
}

#[test]
fn retry_get() {
    let given = "retry #1=5 #2=9000000000000 #3=7; leased #4=5; dead #5=5
                 taken #1=a\\x00\\r\\n #2=abc #4=d #5=e; tries #2=3/1/x\\x00y";
    let rows: &[Row] = &[
        ("nothing there", "", "retry_get #1 9", "OK ''", ""),
        ("one", given, "retry_get #1 4", "OK 5 :1 :0 '' a\\x00\\r\\n", given),
        ("with its reason", given, "retry_get #2 3", "OK 9000000000000 :3 :1 x\\x00y abc", given),
        ("too large", given, "retry_get #2 2", "TOOBIG :3 0-0000000000000002 :2", given),
        ("its payload was deleted", given, "retry_get #3 9", "OK ''", given),
        ("leased", given, "retry_get #4 9", "OK ''", given),
        ("dead", given, "retry_get #5 9", "OK ''", given),
        ("no id", given, "retry_get '' 9", "OK ''", given),
    ];
    check(rows);
}

#[test]
fn release() {
    let given = "retry #1=5 #2=9000000000000 #3=7; taken #1=aa #2=bb #3=cc #4=d #5=e
                 tries #2=3/1/x; destination z; leased #4=9000000000000; dead #5=5; record name=$q";
    let rows: &[Row] = &[
        ("nothing there", "", "release 9 1000 16", "OK :0 :0 :0 :0", ""),
        (
            "all, those first that can be had first",
            "retry #1=5 #2=9000000000000 #3=7; taken #1=a\\x00 #2=b #3=''; tries #2=3/1/x
             destination z; record name=$q",
            "release 9 1000 16",
            "OK :3 :0 :0 :0",
            "destination z a\\x00 '' b",
        ),
        (
            "so many; what is leased or dead stays",
            given,
            "release 2 1000 16",
            "OK :2 :1 :0 :0",
            "retry #2=9000000000000; taken #2=bb #4=d #5=e; tries #2=3/1/x
             destination z aa cc; leased #4=9000000000000; dead #5=5; record name=$q",
        ),
        (
            "so many bytes",
            given,
            "release 9 4 16",
            "OK :2 :1 :0 :0",
            "retry #2=9000000000000; taken #2=bb #4=d #5=e; tries #2=3/1/x
             destination z aa cc; leased #4=9000000000000; dead #5=5; record name=$q",
        ),
        (
            "one however large",
            "retry #1=5 #2=6; taken #1=aaaa #2=b",
            "release 9 3 16",
            "OK :1 :1 :0 :0",
            "retry #2=6; taken #2=b; destination aaaa",
        ),
        (
            "one whose payload was deleted is dropped, and one of another length goes back",
            "retry #1=5 abc=6; taken abc=x; tries #1=2/0/",
            "release 9 1000 16",
            "OK :1 :0 :0 :0",
            "destination x",
        ),
        (
            "leases that ran out go back, unless they were the last",
            "leased #1=5 #2=6 #3=9000000000000; taken #1=a #2=b #3=c; tries #2=2/0/",
            "release 9 1000 2",
            "OK :1 :0 :2 :1",
            "leased #3=9000000000000; dead #2=floor+0; taken #2=b #3=c; destination a
             tries #2=2/0/lease/expired",
        ),
        (
            "a setting, and what is pending, keep the record",
            "retry #1=5; taken #1=a; record name=$q format=modern settings=x; timeout m1(a)=5",
            "release 9 1000 16",
            "OK :1 :0 :0 :0",
            "destination a; record name=$q format=modern settings=x; timeout m1(a)=5",
        ),
    ];
    check(rows);
}

#[test]
fn dead() {
    let given = "dead #1=1 #2=2 #3=3; taken #1=a #2=b #3=c; tries #1=16/0/x #3=2/1/y";
    let rows: &[Row] = &[
        ("nothing there", "", "dead 0 1000", "OK :0 ''", ""),
        (
            "back: all attempts again, the reason stays",
            given,
            "dead 0 0 #1 #2",
            "OK :2 ceil+0",
            "dead #3=3; retry #1=ceil+0 #2=ceil+0; taken #1=a #2=b #3=c
             tries #1=16/16/x #2=1/1/ #3=2/1/y",
        ),
        (
            "after a delay; the same twice, and those that are none",
            given,
            "dead 7000 0 #3 #3 #9 abc ''",
            "OK :1 ceil+7000",
            "dead #1=1 #2=2; retry #3=ceil+7000; taken #1=a #2=b #3=c; tries #1=16/0/x #3=2/2/y",
        ),
        (
            "the first ones",
            given,
            "dead 7000 2",
            "OK :2 ceil+7000",
            "dead #3=3; retry #1=ceil+7000 #2=ceil+7000; taken #1=a #2=b #3=c
             tries #1=16/16/x #2=1/1/ #3=2/1/y",
        ),
        (
            "dropped",
            given,
            "dead '' 0 #1 #1 #9",
            "OK :1 ''",
            "dead #2=2 #3=3; taken #2=b #3=c; tries #3=2/1/y",
        ),
        ("all dropped", given, "dead '' 1000", "OK :3 ''", ""),
        (
            "the record goes with the last one",
            "dead #1=1; taken #1=a; record name=$q",
            "dead '' 1000",
            "OK :1 ''",
            "",
        ),
        (
            "but not while something is pending, or if it would be missed",
            "dead #1=1; taken #1=a; record name=$q; timeout m1(a)=5",
            "dead '' 1000",
            "OK :1 ''",
            "record name=$q; timeout m1(a)=5",
        ),
        (
            "a pause",
            "dead #1=1; taken #1=a; record name=$q paused_until=-1",
            "dead '' 1000",
            "OK :1 ''",
            "record name=$q paused_until=-1",
        ),
        (
            "only dead ones",
            "leased #1=5; retry #2=5; taken #1=a #2=b",
            "dead '' 0 #1 #2",
            "OK :0 ''",
            "leased #1=5; retry #2=5; taken #1=a #2=b",
        ),
        (
            "ids of another length, which somebody put there, and one without a payload",
            "dead abc=1 #1=2; taken abc=x",
            "dead '' 0 abc #1",
            "OK :2 ''",
            "",
        ),
    ];
    check(rows);
}

#[test]
fn taken() {
    let given = "leased #1=9000000000000 #2=5.5; retry #3=7; dead #4=1 #5=2 #6=3 ''=4
         taken #1=a #2=bb #3=c #4=dddd #5=\\x00\\r\\n ''=x
         tries #2=3/1/no/good #3=nonsense #4=16/0/boom";
    let rows: &[(&str, &str, &str)] = &[
        (
            "leased, by the end of the lease",
            "taken leased 10 1000 1000 '' '' 0 ''",
            "OK '' '' :0 '' #2 5.5 :3 :1 no\\x20good :0 '' #1 9000000000000 :1 :0 '' :0 ''",
        ),
        ("waiting", "taken retry 10 1000 1000 '' '' 0 ''", "OK '' '' :0 '' #3 7 :1 :0 '' :0 ''"),
        (
            "dead, with payloads; of one it is gone",
            "taken dead 10 1000 1000 '' '' 0 ''",
            "OK '' '' :0 '' #4 1 :16 :0 boom :4 dddd #5 2 :1 :0 '' :3 \\x00\\r\\n
             #6 3 :1 :0 '' :-1 '' '' 4 :1 :0 '' :1 x",
        ),
        ("a page", "taken dead 1 1000 1000 '' '' 0 ''", "OK (1 '' :0 '' #4 1 :16 :0 boom :4 dddd"),
        (
            "the one behind it",
            "taken dead 1 1000 1000 (1 '' 0 ''",
            "OK (2 '' :0 '' #5 2 :1 :0 '' :3 \\x00\\r\\n",
        ),
        ("behind all", "taken dead 1 1000 1000 (4 '' 0 ''", "OK '' '' :0 ''"),
        (
            "bytes end it",
            "taken dead 9 6 1000 '' '' 0 ''",
            "OK (1 '' :0 '' #4 1 :16 :0 boom :4 dddd",
        ),
        (
            "one, however large",
            "taken dead 9 1 1000 '' '' 0 ''",
            "OK (1 '' :0 '' #4 1 :16 :0 boom :4 dddd",
        ),
        (
            "what no reply can hold is left out, with its size",
            "taken dead 2 1000 3 '' '' 0 ''",
            "OK (2 '' :0 '' #4 1 :16 :0 boom :4 '' #5 2 :1 :0 '' :3 \\x00\\r\\n",
        ),
    ];
    check(&[("nothing there", "", "taken dead 9 9 9 '' '' 0 ''", "OK '' '' :0 ''", "")]);
    for (what, call, returns) in rows {
        check(&[(what, given, call, returns, given)]);
    }
}

/// Pages of any size show each once, also where all share a moment; while others are settled or
/// come, those that stay.
#[test]
fn taken_pages() {
    let mut bench = Bench::new("");
    let id = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for n in 1..=300 {
        bench.redis(&format!("ZADD @dead {} #{}", 5 + n / 200, id(n)));
        bench.redis(&format!("HSET @taken #{} x{n}", id(n)));
    }
    let all: BTreeSet<String> = (1..=300).map(|n| format!("x{n}")).collect();
    for count in [1, 7, 300] {
        let came = pages(&mut bench, count, |_, _| {});
        assert_eq!((came.len(), came.into_iter().collect()), (300, all.clone()), "by {count}");
    }
    let came = pages(&mut bench, 7, |bench, page| {
        bench.returns(&format!("ack #{} 1", id(2 * page + 2)), "OK :1");
        bench.redis(&format!("ZADD @dead 5 #{}", id(1000 + page)));
        bench.redis(&format!("HSET @taken #{} new", id(1000 + page)));
    });
    let left: BTreeSet<String> = bench.redis("HVALS @taken").texts().into_iter().collect();
    let stayed: Vec<&String> = left.iter().filter(|one| one.starts_with('x')).collect();
    assert!((200..290).contains(&stayed.len()), "{}", stayed.len());
    for one in stayed {
        assert_eq!(came.iter().filter(|other| *other == one).count(), 1, "{one}");
    }
}

/// Follows the cursors of the dead ones and gives the payloads that came.
fn pages(bench: &mut Bench, count: u64, mut between: impl FnMut(&mut Bench, u64)) -> Vec<String> {
    let (mut seen, mut cursor) = (Vec::new(), "'' '' 0 ''".to_owned());
    for page in 0.. {
        let call = format!("taken dead {count} 100000 1000 {cursor}");
        let reply = bench.reply(&call, FOREVER_MS);
        let [_, _, score, from, rank, _, messages @ ..] = reply.elements() else {
            panic!("{cursor}: {reply:?}");
        };
        seen.extend(messages.chunks(7).map(|message| message[6].text()));
        if score.bytes().is_empty() {
            break;
        }
        let from: String = from.bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let from = if from.is_empty() { "''".to_owned() } else { from };
        cursor = format!("{} {from} {} ''", score.text(), rank.int());
        between(bench, page);
    }
    seen
}

#[test]
fn ready() {
    let two = "ready destination leased retry record first \
               p.destination p.leased p.retry p.record p.first";
    let rows: &[(&str, &str, &str)] = &[
        ("nothing there", "", "OK :0 :0"),
        ("payloads", "p.destination a", "OK :0 :1"),
        ("with a priority", "first f1,p9(a)=5", "OK :1 :0"),
        ("leases", "leased #1=9000000000000; p.leased #1=5 #2=9000000000000", "OK :0 :1"),
        ("retries", "retry #1=5; p.retry #1=9000000000000", "OK :1 :0"),
        ("moments of others", "retry #1=-inf; p.leased #1=inf", "OK :1 :0"),
        ("dead ones are no matter", "dead #1=5; taken #1=a; p.destination !string", "OK :0 :0"),
        (
            "another type",
            "leased !string; retry #1=5; p.destination a; p.leased !string; p.retry !string",
            "OK :1 :1",
        ),
        ("nothing but another type", "leased !string; retry !string", "OK :0 :0"),
    ];
    for (what, given, returns) in rows {
        check(&[(what, given, two, returns, given)]);
    }
}

/// A take whose reply was lost tells what it leased, so that it can be given back.
#[test]
fn settle_a_take() {
    let mut bench = Bench::new("destination a; retry #9=5; taken #9=x; tries #9=4/0/");
    bench.run("take 9 1000 1000 60000 16 #1#2");
    for _ in 0..2 {
        let settled = bench.run("settle 1");
        assert_eq!(settled, bench.names.normal("APPLIED APPLIED #9 :5 #1 :1"));
    }
    bench.number += 1;
    bench.returns("nack SILENT '' '' 16 5000 9000 0 #9 5 0 #1 1 0", "OK :2 :0 ceil+0");
    bench.then(
        "retry #1=ceil+0 #9=ceil+100; taken #9=x #1=a; tries #9=5/1/ #1=1/1/; record name=$q",
        "given back",
    );
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
