//! take.lua, ready.lua: messages that consumers take for a time; settle.lua of a take.

use crate::bench::{Bench, FOREVER_MS, Row, check};
use std::collections::BTreeSet;

/// Count, then bytes and message that no row meets, a lease of a minute, the limit, new ids.
const TAKE: &str = "1000 1000 60000 16";

/// Rows that say `TAKE` where a take has nothing special.
pub fn check_takes(rows: &[Row]) {
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
