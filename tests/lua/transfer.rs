//! transfer.lua: what is due reaches the destination once, in order, whatever else is in the way.

use crate::bench::{Bench, Row, check};
use crate::support::redis::Redis;

#[test]
fn rows() {
    let rows: &[Row] = &[
        (
            "nothing there",
            "",
            "transfer 10 1000",
            "OK '' '' :0 :0 :0 :0",
            "",
        ),
        (
            "nothing due",
            "timeout m1(a)=9000000000000; list m1(a)",
            "transfer 10 1000",
            "OK 9000000000000 '' :0 :0 :0 :0",
            "timeout m1(a)=9000000000000; list m1(a)",
        ),
        (
            "one",
            "timeout m1(a)=1000; list m1(a); destination z",
            "transfer 10 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1",
            "destination z a",
        ),
        (
            "exactly the limit",
            "timeout m1(a)=1000 m2(b)=1000 m3(c)=9000000000000; list m1(a) m2(b) m3(c)",
            "transfer 2 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1000 :2",
            "timeout m3(c)=9000000000000; list m3(c); destination a b",
        ),
        (
            "limit and one",
            "timeout m1(a)=1000 m2(b)=1001 m3(c)=1002; list m1(a) m2(b) m3(c)",
            "transfer 2 1000",
            "OK 1002 '' :0 :0 :0 :0 1000 :1 1001 :1",
            "timeout m3(c)=1002; list m3(c); destination a b",
        ),
        (
            "bytes are limited too",
            "timeout m1(aaaa)=1000 m2(bbbb)=1001 m3(cccc)=1002; list m1(aaaa) m2(bbbb) m3(cccc)",
            "transfer 9 42",
            "OK 1002 '' :0 :0 :0 :0 1000 :1 1001 :1",
            "timeout m3(cccc)=1002; list m3(cccc); destination aaaa bbbb",
        ),
        (
            "one, however large",
            "timeout m1(aaaa)=1000 m2(bbbb)=1001; list m1(aaaa) m2(bbbb)",
            "transfer 9 1",
            "OK 1001 '' :0 :0 :0 :0 1000 :1",
            "timeout m2(bbbb)=1001; list m2(bbbb); destination aaaa",
        ),
        (
            "scores in runs; equal ones in the order of ids",
            "timeout m3(c)=1000 m1(a)=1000 m2(b)=1001 m4(d)=1000; list m1(a) m2(b) m3(c) m4(d)",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :3 1001 :1",
            "destination a c d b",
        ),
        (
            "payloads of no byte, zero byte, CR LF; equal payloads",
            "timeout m1()=1 m2(\\x00)=2 m3(\\r\\n)=3 m4()=4; list m1() m2(\\x00) m3(\\r\\n) m4()",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1 :1 2 :1 3 :1 4 :1",
            "destination '' \\x00 \\r\\n ''",
        ),
        (
            "both formats and other lengths of id",
            "timeout l1(a)=1 m2(b)=2 m[](c)=3 m[0102](d)=4 l[07](e)=5 l7(f)=6
             list l1(a) m2(b) m[](c) m[0102](d) l7(f)",
            "transfer 9 1000",
            "OK '' '' :0 :1 :0 :0 1 :1 2 :1 3 :1 4 :1 6 :1",
            "destination a b c d f; quarantine l[07](e)=5",
        ),
        (
            "negative, fractional, minus infinite: now; huge: never",
            "timeout m1(a)=-5 m2(b)=1000.5 m3(c)=-inf m4(d)=inf m5(e)=1e+20
             list m1(a) m2(b) m3(c) m4(d) m5(e)",
            "transfer 9 1000",
            "OK 1e+20 '' :0 :0 :0 :0 -inf :1 -5 :1 1000.5 :1",
            "timeout m5(e)=1e+20 m4(d)=inf; list m4(d) m5(e); destination c a b",
        ),
        (
            "poison amid a batch goes to quarantine, the rest is moved once",
            "timeout m1(a)=1 poison=2 m3(c)=3; list m1(a) poison m3(c)",
            "transfer 9 1000",
            "OK '' '' :0 :1 :0 :0 1 :1 3 :1",
            "destination a c; quarantine poison=2",
        ),
        (
            "poison counts as one of the limit",
            "timeout m1(a)=1 ''=2 m3(c)=3; list m1(a) '' m3(c)",
            "transfer 2 1000",
            "OK 3 '' :0 :1 :0 :0 1 :1",
            "timeout m3(c)=3; list m3(c); destination a; quarantine ''=2",
        ),
        (
            "only poison",
            "timeout x=1; list x",
            "transfer 9 1000",
            "OK '' '' :0 :1 :0 :0",
            "quarantine x=1",
        ),
        (
            "what only the zset has",
            "timeout m1(a)=1 m2(b)=2 m3(c)=inf; list m3(c)",
            "transfer 9 1000",
            "OK inf '' :0 :0 :0 :0 1 :1 2 :1",
            "timeout m3(c)=inf; list m3(c); destination a b",
        ),
        (
            "the list out of order: entries go from wherever they stand",
            "timeout m1(a)=9000000000000 m2(b)=1 m3(c)=9000000000001 m4(d)=2 m5(e)=9000000000002
             list m1(a) m2(b) m3(c) m4(d) m5(e)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1 2 :1",
            "timeout m1(a)=9000000000000 m3(c)=9000000000001 m5(e)=9000000000002
             list m1(a) m3(c) m5(e); destination b d",
        ),
        (
            "a run at the list's head in another order than due",
            "timeout m1(a)=3 m2(b)=2 m3(c)=1 m4(d)=9000000000000; list m1(a) m2(b) m3(c) m4(d)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1 2 :1 3 :1",
            "timeout m4(d)=9000000000000; list m4(d); destination c b a",
        ),
        (
            "stale entries in front go with the run",
            "timeout m1(a)=1 m4(d)=9000000000000; list m9(z) m1(a) m8(y) m4(d)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m4(d)=9000000000000; list m8(y) m4(d); destination a",
        ),
        (
            "the same member twice in the list",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m1(a) m2(b)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m1(a) m2(b); destination a",
        ),
        (
            "names go with their messages",
            "timeout m1(a)=1 m2(b)=2 m3(c)=9000000000000; list m1(a) m2(b) m3(c)
             names n=1-0000000000000001 k=9000000000000-0000000000000003
             ids 0000000000000001=n 0000000000000003=k",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1 2 :1",
            "timeout m3(c)=9000000000000; list m3(c); destination a b
             names k=9000000000000-0000000000000003; ids 0000000000000003=k",
        ),
        (
            "a name that another message has now stays",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m2(b)
             names n=9000000000000-0000000000000002; ids 0000000000000001=n",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m2(b); destination a
             names n=9000000000000-0000000000000002",
        ),
        (
            "paused until resumed",
            "timeout m1(a)=1; list m1(a); queue name=$q paused_until=-1",
            "transfer 9 1000",
            "PAUSED 1 -1 :0 :0 :0 :0",
            "timeout m1(a)=1; list m1(a); queue name=$q paused_until=-1",
        ),
        (
            "paused for a time",
            "timeout m1(a)=1; list m1(a); queue paused_until=9000000000000",
            "transfer 9 1000",
            "PAUSED 1 9000000000000 :0 :0 :0 :0",
            "timeout m1(a)=1; list m1(a); queue paused_until=9000000000000",
        ),
        (
            "a pause that is over",
            "timeout m1(a)=1; list m1(a); queue paused_until=1000",
            "transfer 9 1000",
            "OK '' '' :1000 :0 :0 :0 1 :1",
            "destination a; queue paused_until=1000",
        ),
        (
            "the keys belong to another name",
            "timeout m1(a)=1; list m1(a); queue name=other",
            "transfer 9 1000",
            "BADQUEUE other",
            "timeout m1(a)=1; list m1(a); queue name=other",
        ),
    ];
    check(rows);
}

/// A second call moves nothing again.
#[test]
fn twice() {
    let mut bench = Bench::new("timeout m1(a)=1 bad=2 m2(b)=3; list m1(a) bad m2(b)");
    bench.returns("transfer 9 1000", "OK '' '' :0 :1 :0 :0 1 :1 3 :1");
    bench.returns("transfer 9 1000", "OK '' '' :0 :0 :0 :0");
    bench.then("destination a b; quarantine bad=2", "twice");
}

/// A message is due once Redis's time has reached its score, not before.
#[test]
fn never_early() {
    let mut bench = Bench::new("");
    bench.returns("offer q 50:m1(a)", "OK :0 :1");
    let due_ms = bench.redis("ZSCORE @timeout m1(a)").int();
    let moved = format!("OK '' '' :0 :0 :0 :0 {due_ms} :1");
    loop {
        let reply = bench.run("transfer 9 1000");
        assert_eq!(
            reply == moved,
            bench.now_us >= due_ms * 1000,
            "{reply} at {}",
            bench.now_us
        );
        if reply == moved {
            break;
        }
    }
}

/// Any mixture of order and poison: each message once in the destination, the list in step with
/// the zset after each call.
#[test]
fn many_in_any_order() {
    let ours = |id: u64| id;
    // In no order, as those that Redisson draws.
    let others = |id: u64| id * 7_919 % 10_007;
    // In bursts, as offers come.
    let bursts = |id: u64| (id / 300) * 100_000 + id % 300;
    type Place = fn(u64) -> u64;
    let rows: [(u64, usize, Place); 9] = [
        (1, 500, ours),
        (7, 9, ours),
        (7, 500, ours),
        (1999, 100, ours),
        (1000, 3000, ours),
        (7, 9, others),
        (7, 500, others),
        (7, 9, bursts),
        (7, 500, bursts),
    ];
    for (step, limit, place) in rows {
        let mut bench = Bench::new("");
        let member = |id: u64| match id % 50 {
            49 => format!("unreadable{id}"),
            odd if odd % 2 == 1 => format!("l{}(x{id})", place(id)),
            _ => format!("m{}(x{id})", place(id)),
        };
        let score =
            |id: u64| 1 + id * step % 2000 / 3 + if id % 5 == 4 { 9_000_000_000_000 } else { 0 };
        let ids = || 0..2000_u64;
        offer(&mut bench, ids().map(|id| (score(id), member(id))));

        let due = elements(&mut bench, "ZRANGEBYSCORE @timeout -inf 1000000");
        let expected: Vec<_> = due.iter().filter_map(|member| payload(member)).collect();
        let poison = due.len() - expected.len();
        let calls = due.len().div_ceil(limit);
        for call in 1..=calls {
            let reply = bench.run(&format!("transfer {limit} 1000000"));
            assert!(reply.starts_with("OK "), "{reply}");
            let pending = elements(&mut bench, "ZRANGE @timeout 0 -1");
            let listed = elements(&mut bench, "LRANGE @list 0 -1");
            assert_eq!(pending.len(), 2000 - due.len().min(call * limit));
            assert_eq!(listed.len(), pending.len());
        }
        assert_eq!(elements(&mut bench, "LRANGE @destination 0 -1"), expected);
        assert_eq!(bench.redis("ZCARD @quarantine").int(), poison as i64);
        let left: Vec<_> = ids()
            .filter(|id| id % 5 == 4)
            .map(|id| bench.names.bytes(&member(id)))
            .collect();
        assert_eq!(elements(&mut bench, "LRANGE @list 0 -1"), left);
    }
}

/// One message anywhere in a long list: what it cost counts as shared with more of them where ids
/// are in order, so that the next transfer takes more at once; else as the cost of each.
#[test]
fn one_of_a_long_list() {
    const LENGTH: usize = 12_000;
    let ours = |id: usize| id;
    let others = |id: usize| id * 7_919 % 12_007;
    for (call, place, id, each_costs) in [
        ("transfer 8 1000000", 1, ours as fn(usize) -> usize, false),
        ("transfer 8 1000000", 6_000, ours, false),
        ("transfer 8 1000000", 11_999, ours, false),
        ("transfer 8 1000000", 6_000, others, true),
        ("cancel 5 #0", 0, ours, false),
    ] {
        let mut bench = Bench::new("");
        let mut listed: Vec<String> = (0..LENGTH).map(|n| format!("m{}(x)", id(n))).collect();
        let score = |n: usize| if n == place { 5 } else { 9_000_000_000_000_u64 };
        let members = listed.iter().cloned().enumerate();
        offer(&mut bench, members.map(|(n, member)| (score(n), member)));

        let reply = bench.run(call);
        let each = reply.split(' ').nth(6);
        assert_eq!(each.is_some_and(|each| each != ":0"), each_costs, "{reply}");
        listed.remove(place);
        let left: Vec<Vec<u8>> = listed.iter().map(|one| bench.names.bytes(one)).collect();
        let list = elements(&mut bench, "LRANGE @list 0 -1");
        assert!(list == left, "{call} at {place}: {} are left", list.len());
    }
}

/// Where all that is pending is due, a long list in another order goes at once, and nothing is
/// looked for in what is listed after that, unless somebody lists a member with an old score.
#[test]
fn all_of_a_long_list() {
    const PENDING: u64 = 1_500;
    let mut bench = Bench::new("");
    let member = |n: u64| format!("m{n}(x{n})");
    let score = |n: u64| 10 + n * 7_919 % PENDING;
    offer(&mut bench, (0..PENDING).map(|n| (score(n), member(n))));

    bench.run("transfer 100 1000000");
    assert_eq!(bench.redis("EXISTS @list").int(), 0);
    assert_eq!(bench.redis("ZCARD @timeout").int(), PENDING as i64 - 100);
    assert_eq!(bench.redis("HEXISTS @queue unlisted_until").int(), 1);

    let later = 2_000..3_200_u64;
    let in_future = |n| (9_000_000_000_000, member(n));
    offer(&mut bench, later.clone().map(in_future));
    let quick = |bench: &mut Bench| {
        let reply = bench.run("transfer 100 1000000");
        let cost: Vec<&str> = reply.split(' ').skip(5).take(2).collect();
        cost == [":0", ":0"]
    };
    assert!(quick(&mut bench));
    // Another program's clock is behind.
    offer(&mut bench, [(5, member(5_000))].into_iter());
    assert!(!quick(&mut bench));
    while bench.redis("ZCARD @timeout").int() > 1_200 {
        assert!(quick(&mut bench));
    }

    let mut in_order: Vec<u64> = (0..PENDING).collect();
    in_order.sort_by_key(|n| score(*n));
    in_order.insert(200, 5_000);
    let expected: Vec<Vec<u8>> = in_order.iter().map(|n| format!("x{n}").into()).collect();
    assert!(elements(&mut bench, "LRANGE @destination 0 -1") == expected);
    let left: Vec<Vec<u8>> = later.map(|n| bench.names.bytes(&member(n))).collect();
    assert!(elements(&mut bench, "LRANGE @list 0 -1") == left);
    assert_eq!(bench.redis("HEXISTS @queue unlisted_until").int(), 0);
}

/// Found by its id where they are in bursts of bursts, so that guessing from them is of little use.
#[test]
fn one_among_bursts_of_bursts() {
    const LENGTH: u64 = 60_000;
    const PLACE: u64 = 52_207;
    let mut bench = Bench::new("");
    let id = |n: u64| {
        (0..16)
            .map(|bit| (n >> bit & 1) * 6_u64.pow(bit))
            .sum::<u64>()
    };
    let score = |n: u64| if n == PLACE { 5 } else { 9_000_000_000_000 };
    let member = |n: u64| format!("m{}(x)", id(n));
    offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
    let reply = bench.run("transfer 8 1000000");
    assert_eq!(reply.split(' ').nth(6), Some(":0"), "{reply}");
    assert_eq!(bench.redis("LLEN @list").int(), LENGTH as i64 - 1);
}

/// A list whose ids say nothing is read for many at once, but only so many bytes of it: the rest
/// are taken one by one, and count as such.
#[test]
fn large_members_in_no_order() {
    const LENGTH: usize = 1_500;
    for (bytes, each_costs) in [(10, false), (8_000, true)] {
        let mut bench = Bench::new("");
        let text = "x".repeat(bytes);
        let member = |n: usize| format!("m{}({text})", n * 7_919 % 10_007);
        let goes = |n: usize| n % 30 == 29;
        let score = |n: usize| if goes(n) { 5 } else { 9_000_000_000_000_u64 };
        offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
        let reply = bench.run("transfer 100 10000000");
        let each = reply.split(' ').nth(6);
        assert_eq!(each.is_some_and(|each| each != ":0"), each_costs);
        let stay = (0..LENGTH).filter(|n| !goes(*n));
        let left: Vec<Vec<u8>> = stay.map(|n| bench.names.bytes(&member(n))).collect();
        let list = elements(&mut bench, "LRANGE @list 0 -1");
        assert!(list == left, "{} are left", list.len());
    }
}

/// Puts members into zset and list.
fn offer(bench: &mut Bench, members: impl Iterator<Item = (u64, String)>) {
    let members: Vec<(u64, String)> = members.collect();
    for page in members.chunks(500) {
        let pending: Vec<String> = page.iter().map(|(due, m)| format!("{due} {m}")).collect();
        let listed: Vec<&str> = page.iter().map(|(_, m)| &m[..]).collect();
        bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
        bench.redis(&format!("RPUSH @list {}", listed.join(" ")));
    }
}

fn elements(bench: &mut Bench, call: &str) -> Vec<Vec<u8>> {
    let reply = bench.redis(call);
    reply.elements().iter().map(|one| one.bytes()).collect()
}

fn payload(member: &[u8]) -> Option<Vec<u8>> {
    let text = member.escape_ascii().to_string();
    if text.starts_with("unreadable") {
        return None;
    }
    Some(member[if member[0] == 8 { 17 } else { 16 }..].to_vec())
}

/// Delivery goes on out of memory: its first write frees.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    let mut bench = Bench::on(
        &redis,
        "timeout m1(a)=1 bad=2 m2(b)=3 m3(c)=9000000000000; list m1(a) bad m3(c) m2(b)
         names n=1-0000000000000001; ids 0000000000000001=n",
    );
    bench.redis("CONFIG SET maxmemory 1");
    bench.returns(
        "transfer 9 1000",
        "OK 9000000000000 '' :0 :1 :0 :0 1 :1 3 :1",
    );
    bench.then(
        "timeout m3(c)=9000000000000; list m3(c); destination a b; quarantine bad=2",
        "out of memory",
    );
}
