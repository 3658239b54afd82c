//! transfer.lua: what is due reaches the destination once, in order, whatever else is in the way.

use crate::bench::{Bench, Row, check};
use crate::support::redis::Redis;
use crate::support::resp::Value;

#[test]
fn rows() {
    let rows: &[Row] = &[
        ("nothing there", "", "transfer 10 1000", "OK '' '' :0 :0 :0 :0", ""),
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
            "those that carry the flag of the record, one by one",
            "timeout m1(a)=1 m2(b)=2 m3(\\x00Fx)=2 m4(c)=2 m5(d)=2 l6(\\x00F)=2 m7(F)=3 bad=4
             list m1(a) m2(b) m3(\\x00Fx) m4(c) m5(d) l6(\\x00F) m7(F); record flag=\\x00F",
            "transfer 9 1000",
            "OK '' '' :0 :1 :0 :0 1 :1 2 #6 2 :1 2 #3 2 :2 3 :1",
            "destination a \\x00F b \\x00Fx c d F; quarantine bad=4; record flag=\\x00F",
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
            "stale entries go with the run, before it and behind it",
            "timeout m1(a)=1 m4(d)=9000000000000; list m9(z) m1(a) m8(y) m4(d)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m4(d)=9000000000000; list m4(d); destination a",
        ),
        (
            "the same member twice in the list",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m1(a) m2(b)",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m2(b); destination a",
        ),
        (
            "what is listed and not pending goes with the last message",
            "timeout m1(a)=1; list m7(z) m8(z) m1(a) m9(z)",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1 :1",
            "destination a",
        ),
        (
            "and where nothing is pending",
            "list m7(z) m8(z)",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0",
            "",
        ),
        (
            "what cannot be read about the list is forgotten",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m2(b)
             record unlisted_until=soon unlisted_tail=x",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m2(b); destination a",
        ),
        (
            "in any of its fields",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m2(b)
             record unlisted_until=5 unlisted_from=nan unlisted_after=inf unlisted_tail=\\xc1",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m2(b); destination a",
        ),
        (
            "and where a number is no index",
            "timeout m1(a)=1 m2(b)=9000000000000; list m2(b) m1(a)
             record unlisted_until=5 \
             unlisted_tail=\\x92\\xcb\\x3f\\xf8\\x00\\x00\\x00\\x00\\x00\\x00\\xa1x",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; list m2(b); destination a",
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
            "timeout m1(a)=1; list m1(a); record name=$q paused_until=-1",
            "transfer 9 1000",
            "PAUSED 1 -1 :0 :0 :0 :0",
            "timeout m1(a)=1; list m1(a); record name=$q paused_until=-1",
        ),
        (
            "paused for a time",
            "timeout m1(a)=1; list m1(a); record paused_until=9000000000000",
            "transfer 9 1000",
            "PAUSED 1 9000000000000 :0 :0 :0 :0",
            "timeout m1(a)=1; list m1(a); record paused_until=9000000000000",
        ),
        (
            "a pause that is over",
            "timeout m1(a)=1; list m1(a); record paused_until=1000",
            "transfer 9 1000",
            "OK '' '' :1000 :0 :0 :0 1 :1",
            "destination a; record paused_until=1000",
        ),
        (
            "a recorded name that has other keys is not believed",
            "timeout m1(a)=1; list m1(a); record name=other",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1 :1",
            "destination a; record name=other",
        ),
        (
            "the keys belong to another name",
            "timeout m1(a)=1; list m1(a); record name={$q}",
            "transfer 9 1000",
            "BADQUEUE {$q}",
            "timeout m1(a)=1; list m1(a); record name={$q}",
        ),
    ];
    check(rows);
}

/// A second call moves nothing again.
/// Without names it goes on; without quarantine too, as long as nothing is for it.
#[test]
fn spoiled_keys() {
    for given in [
        "names !string; ids 0000000000000001=n",
        "names n=1000-0000000000000001; ids !string",
        "names !string; ids !string; quarantine !string",
        "quarantine !string",
    ] {
        let mut bench =
            Bench::new(&format!("timeout m1(a)=1000 m2(b)=1001; list m1(a) m2(b); {given}"));
        let reply = bench.run("transfer 1 1000");
        assert!(reply.starts_with("OK 1001 "), "{given}: {reply}");
        assert_eq!(bench.redis("LLEN @destination").int(), 1, "{given}");
    }
    let given = "timeout m1(a)=1000 bad=1001; list m1(a) bad; quarantine !string";
    let mut bench = Bench::new(given);
    let wanted = bench.names.normal("WRONGTYPE @quarantine");
    assert_eq!(bench.run("transfer 9 1000"), wanted);
    bench.then(given, "nothing is moved");
}

#[test]
fn twice() {
    let mut bench = Bench::new("timeout m1(a)=1 bad=2 m2(b)=3; list m1(a) bad m2(b)");
    bench.returns("transfer 9 1000", "OK '' '' :0 :1 :0 :0 1 :1 3 :1");
    bench.returns("transfer 9 1000", "OK '' '' :0 :0 :0 :0");
    bench.then("destination a b; quarantine bad=2", "twice");
}

/// A call that nobody waits for any more, whatever is due.
#[test]
fn late() {
    let given = "timeout m1(a)=1; list m1(a)";
    let mut bench = Bench::new(given);
    assert_eq!(bench.run_until("transfer 9 1000", "1"), "LATE");
    bench.then(given, "late");
    bench.returns("transfer 9 1000", "OK '' '' :0 :0 :0 :0 1 :1");
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
        assert_eq!(reply == moved, bench.now_us >= due_ms * 1000, "{reply} at {}", bench.now_us);
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
        let left: Vec<_> =
            ids().filter(|id| id % 5 == 4).map(|id| bench.names.bytes(&member(id))).collect();
        assert_eq!(elements(&mut bench, "LRANGE @list 0 -1"), left);
    }
}

/// One message anywhere in a long list: what it costs is bounded, whether ids say where it is or
/// not.
#[test]
fn one_of_a_long_list() {
    const LENGTH: usize = 12_000;
    let ours = |id: usize| id;
    let others = |id: usize| id * 7_919 % 12_007;
    for (call, place, id, most) in [
        ("transfer 8 1000000", 1, ours as fn(usize) -> usize, 2_500),
        ("transfer 8 1000000", 6_000, ours, 10_000),
        ("transfer 8 1000000", 11_999, ours, 2_500),
        ("transfer 8 1000000", 6_000, others, 15_000),
        ("cancel 5 #0", 0, ours, 0),
    ] {
        let mut bench = Bench::new("");
        let mut listed: Vec<String> = (0..LENGTH).map(|n| format!("m{}(x)", id(n))).collect();
        let score = |n: usize| if n == place { 5 } else { 9_000_000_000_000_u64 };
        let members = listed.iter().cloned().enumerate();
        offer(&mut bench, members.map(|(n, member)| (score(n), member)));

        let reply = bench.run(call);
        assert!(call.starts_with("cancel") || cost(&reply) <= most, "{reply}");
        listed.remove(place);
        let left: Vec<Vec<u8>> = listed.iter().map(|one| bench.names.bytes(one)).collect();
        let list = elements(&mut bench, "LRANGE @list 0 -1");
        assert!(list == left, "{call} at {place}: {} are left", list.len());
    }
}

/// Elements of the list that a transfer passed, or as much work.
fn cost(reply: &str) -> u64 {
    let passed = reply.split(' ').nth(6).unwrap();
    passed.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{reply}"))
}

/// What a transfer may cost, whatever it was told to move: 25 ms.
const COST_MAX: u64 = 1_000_000;

/// Transfers until nothing due is left; gives how often, and what all cost. Each does a part of the
/// work, and none more than it may.
fn transfer_all(bench: &mut Bench, messages_max: u64) -> (usize, u64) {
    let mut all = 0;
    for calls in 1..=2_000 {
        let pending = bench.redis("ZCOUNT @timeout -inf 1000000").int();
        if pending == 0 {
            return (calls - 1, all);
        }
        let reply = bench.run(&format!("transfer {messages_max} 100000000"));
        assert!(cost(&reply) <= COST_MAX, "{reply}");
        all += cost(&reply);
        let left = bench.redis("ZCOUNT @timeout -inf 1000000").int();
        assert!(reply.starts_with("AGAIN") || left < pending, "{reply}");
    }
    panic!("it does not come to an end");
}

/// Ids of others in a long list, due in no order: each transfer costs no more than it may, however
/// many it is told to move; a pass over the list serves many. Delivered in due order, and nothing
/// else leaves the list.
#[test]
fn ids_of_others_in_a_long_list() {
    const LENGTH: u64 = 60_000;
    let id = |n: u64| n * 7_919 % 60_013;
    let member = |n: u64| format!("m{}(x{n})", id(n));
    for (every, messages_max) in [(2_000, 8), (2_000, 4_096), (20, 8), (20, 4_096), (6, 4_096)] {
        let mut bench = Bench::new("");
        let goes = |n: u64| n % every == every - 1;
        let score = |n: u64| {
            if goes(n) { 5 + n * 31 % 1_009 } else { 9_000_000_000_000 }
        };
        offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
        let due = elements(&mut bench, "ZRANGEBYSCORE @timeout -inf 1000000");
        let expected: Vec<_> = due.iter().filter_map(|member| payload(member)).collect();

        let (calls, all) = transfer_all(&mut bench, messages_max);
        // By LREM alone they cost as much as half the list each.
        let most = due.len() as u64 * LENGTH / 2 + COST_MAX;
        assert!(all <= most.min(10 * COST_MAX), "{every}: {all} in {calls} calls");
        assert!(elements(&mut bench, "LRANGE @destination 0 -1") == expected);
        let stay = (0..LENGTH).filter(|n| !goes(*n));
        let left: Vec<Vec<u8>> = stay.map(|n| bench.names.bytes(&member(n))).collect();
        assert!(elements(&mut bench, "LRANGE @list 0 -1") == left);
        assert_eq!(bench.redis("EXISTS @record").int(), 0);
    }
}

/// In a list that is too long for one LREM each call searches at most one half of it.
#[test]
fn one_in_a_list_of_half_a_million() {
    const LENGTH: u64 = 520_000;
    let mut bench = Bench::new("");
    let member = |n: u64| format!("m{}(x)", n * 7_919 % 520_019);
    offer(&mut bench, (0..LENGTH).map(|n| (9_000_000_000_000, member(n))));
    for (at, again) in [(LENGTH / 8, 0), (LENGTH * 3 / 8, 1), (LENGTH * 5 / 8, 2), (500_000, 1)] {
        bench.redis(&format!("ZADD @timeout 5 {}", member(at)));
        for call in 0..again {
            let reply = bench.run("transfer 9 1000");
            assert!(reply.starts_with("AGAIN 5 "), "{at}, call {call}: {reply}");
        }
        let reply = bench.run("transfer 9 1000");
        assert!(reply.starts_with("OK 9000000000000 "), "{at}: {reply}");
        assert_eq!(bench.redis(&format!("LPOS @list {}", member(at))), Value::Null, "{at}");
    }
    // Only the zset has it. Others that leave meanwhile, or take its place, are no harm.
    bench.redis(&format!("ZADD @timeout 5 {}", member(LENGTH)));
    assert!(bench.run("transfer 9 1000").starts_with("AGAIN 5 "));
    bench.redis(&format!("ZADD @timeout 4 {}", member(LENGTH + 1)));
    assert!(bench.run("transfer 9 1000").starts_with("AGAIN 4 "));
    assert!(bench.run("transfer 9 1000").starts_with("OK 5 "));
    assert!(bench.run("transfer 9 1000").starts_with("AGAIN 5 "));
    assert!(bench.run("transfer 9 1000").starts_with("OK 9000000000000 "));
    assert_eq!(bench.redis("LLEN @list").int(), LENGTH as i64 - 4);
    assert_eq!(bench.redis("LLEN @destination").int(), 6);
    assert_eq!(bench.redis("EXISTS @record").int(), 0);
}

/// A list that could be read in one call is not read in each, where more is due than one takes.
#[test]
fn a_pass_over_a_list_that_is_not_so_long() {
    const LENGTH: u64 = 30_000;
    let mut bench = Bench::new("");
    let member = |n: u64| format!("m{}(x{n})", n * 7_919 % 30_011);
    let score = |n: u64| {
        if n % 10 == 9 { 5 + n * 31 % 1_009 } else { 9_000_000_000_000 }
    };
    offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
    let (calls, all) = transfer_all(&mut bench, 100);
    assert!(all < 3 * COST_MAX, "{all} in {calls} calls");
    assert_eq!(bench.redis("LLEN @list").int(), 27_000);
}

/// Members that only the zset has share what it costs to see that.
#[test]
fn many_that_are_not_listed_before_a_long_list() {
    const LENGTH: u64 = 60_000;
    let mut bench = Bench::new("");
    let member = |n: u64| format!("m{}(x{n})", n * 7_919 % 100_003);
    let far = 9_000_000_000_000;
    offer(&mut bench, (0..LENGTH).map(|n| (far, member(n))));
    for n in LENGTH..LENGTH + 1_000 {
        bench.redis(&format!("ZADD @timeout 5 {}", member(n)));
    }
    let (calls, all) = transfer_all(&mut bench, 512);
    assert!(calls < 12 && all < 4 * COST_MAX, "{all} in {calls} calls");
    assert_eq!(bench.redis("LLEN @destination").int(), 1_000);
    assert_eq!(bench.redis("LLEN @list").int(), LENGTH as i64);
}

/// Others take out and offer while a pass is under way: with ids of theirs, with a clock that is
/// behind, and what was at the end when the pass began.
#[test]
fn a_pass_while_others_write() {
    const LENGTH: u64 = 60_000;
    let mut bench = Bench::new("");
    let member = |n: u64| format!("m{}(x{n})", n * 7_919 % 100_003);
    let due = |n: u64| n % 20 == 19;
    let score = |n: u64| {
        if due(n) { 5 + n * 31 % 1_009 } else { 9_000_000_000_000 }
    };
    offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
    assert!(bench.run("transfer 512 1000000").starts_with("AGAIN"));
    let mut next = LENGTH;
    for round in 0..50 {
        // From the front, the middle and the end; due or not.
        for n in [round, 30_000 + round, next - 1, next - 2] {
            bench.redis(&format!("LREM @list 1 {}", member(n)));
            bench.redis(&format!("ZREM @timeout {}", member(n)));
        }
        let late = (next..next + 3).map(|n| (score(n), member(n)));
        offer(&mut bench, late);
        next += 3;
        bench.run("transfer 512 1000000");
        if bench.redis("EXISTS @record").int() == 0 {
            break;
        }
    }
    assert_eq!(bench.redis("EXISTS @record").int(), 0);
    transfer_all(&mut bench, 512);
    let mut pending = elements(&mut bench, "ZRANGE @timeout 0 -1");
    let mut listed = elements(&mut bench, "LRANGE @list 0 -1");
    pending.sort();
    listed.sort();
    assert!(pending == listed);
}

/// A list that is all due: it goes at once, see [`all_of_a_long_list`].
fn all_due(bench: &mut Bench, pending: u64) -> impl Fn(u64) -> String + use<> {
    let member = |n: u64| format!("m{n}(x{n})");
    offer(bench, (0..pending).map(|n| (10 + n * 7_919 % pending, member(n))));
    assert!(bench.run("transfer 8 1000000").starts_with("OK "));
    assert_eq!(bench.redis("EXISTS @list").int(), 0);
    member
}

/// Where all that is pending is due, a long list in another order goes at once. Who offers with an
/// old score is met, and what is offered meanwhile is looked at once.
#[test]
fn all_of_a_long_list() {
    const PENDING: u64 = 1_500;
    let mut bench = Bench::new("");
    let member = all_due(&mut bench, PENDING);
    let later = 2_000..3_200_u64;
    let in_future = |n| (9_000_000_000_000, member(n));
    offer(&mut bench, later.clone().map(in_future));
    assert!(cost(&bench.run("transfer 100 1000000")) > 10_000);
    assert_eq!(cost(&bench.run("transfer 100 1000000")), 0);
    // Another program's clock is behind.
    offer(&mut bench, [(5, member(5_000))].into_iter());
    while bench.redis("ZCARD @timeout").int() > 1_200 {
        assert!(cost(&bench.run("transfer 100 1000000")) < 100);
    }

    let mut in_order: Vec<u64> = (0..PENDING).collect();
    in_order.sort_by_key(|n| n * 7_919 % PENDING);
    in_order.insert(208, 5_000);
    let expected: Vec<Vec<u8>> = in_order.iter().map(|n| format!("x{n}").into()).collect();
    assert!(elements(&mut bench, "LRANGE @destination 0 -1") == expected);
    let left: Vec<Vec<u8>> = later.map(|n| bench.names.bytes(&member(n))).collect();
    assert!(elements(&mut bench, "LRANGE @list 0 -1") == left);
    assert_eq!(bench.redis("EXISTS @record").int(), 0);
}

/// A pause lists again what had left the list, behind what was offered since: by parts, each in due
/// order.
#[test]
fn a_pause_lists_again() {
    const PENDING: u64 = 40_000;
    let mut bench = Bench::new("");
    let member = all_due(&mut bench, PENDING);
    offer(&mut bench, [(9_000_000_000_000, member(90_000))].into_iter());
    bench.returns("pause 0", "OK");
    let mut parts = 0;
    loop {
        let reply = bench.run("transfer 100 1000000");
        assert!(cost(&reply) <= COST_MAX, "{reply}");
        if reply.starts_with("PAUSED") {
            break;
        }
        assert!(reply.starts_with("AGAIN"), "{reply}");
        parts += 1;
        if parts == 1 {
            // An old score meanwhile.
            offer(&mut bench, [(5, member(95_000))].into_iter());
        }
    }
    assert!(parts > 1, "{parts}");
    let mut pending = elements(&mut bench, "ZRANGE @timeout 0 -1");
    let mut listed = elements(&mut bench, "LRANGE @list 0 -1");
    assert_eq!(listed[0], bench.names.bytes(&member(90_000)));
    pending.sort();
    listed.sort();
    assert!(pending == listed);
    assert_eq!(bench.redis("HLEN @record").int(), 2);
    bench.returns("resume", "OK :1");
    transfer_all(&mut bench, 4_096);
    assert_eq!(bench.redis("LLEN @destination").int(), PENDING as i64 + 1);
    assert_eq!(bench.redis("LLEN @list").int(), 1);
}

/// What had left the list and gets another due time is listed again; nothing that was delivered
/// stays in the list, whoever offers besides.
#[test]
fn what_is_rescheduled_is_listed_again() {
    const PENDING: u64 = 1_500;
    let mut bench = Bench::new("");
    let member = all_due(&mut bench, PENDING);
    let last = (0..PENDING).find(|n| n * 7_919 % PENDING == PENDING - 1).unwrap();
    let score = 10 + PENDING - 1;
    let reply = bench.run(&format!("reschedule {score} #{last} 3600000"));
    assert!(reply.starts_with("OK "), "{reply}");
    bench.number += 1;
    let listed = [bench.names.bytes(&member(last))];
    assert_eq!(elements(&mut bench, "LRANGE @list 0 -1"), listed);
    // Another program's clock is behind: entries are as many as before all the same.
    offer(&mut bench, [(5, member(5_000))].into_iter());
    transfer_all(&mut bench, 100);
    assert_eq!(elements(&mut bench, "LRANGE @list 0 -1"), listed);
    assert_eq!(bench.redis("LLEN @destination").int(), PENDING as i64);
}

/// Found by its id where they are in bursts of bursts, so that guessing from them is of little use.
#[test]
fn one_among_bursts_of_bursts() {
    const LENGTH: u64 = 60_000;
    const PLACE: u64 = 52_207;
    let mut bench = Bench::new("");
    let id = |n: u64| (0..16).map(|bit| (n >> bit & 1) * 6_u64.pow(bit)).sum::<u64>();
    let score = |n: u64| if n == PLACE { 5 } else { 9_000_000_000_000 };
    let member = |n: u64| format!("m{}(x)", id(n));
    offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
    let reply = bench.run("transfer 8 1000000");
    assert!(cost(&reply) < 15_000, "{reply}");
    assert_eq!(bench.redis("LLEN @list").int(), LENGTH as i64 - 1);
}

/// A list whose ids say nothing is read for many at once where its members are small; else they
/// are taken one by one.
#[test]
fn large_members_in_no_order() {
    const LENGTH: usize = 1_500;
    for bytes in [10, 8_000] {
        let mut bench = Bench::new("");
        let text = "x".repeat(bytes);
        let member = |n: usize| format!("m{}({text})", n * 7_919 % 10_007);
        let goes = |n: usize| n % 30 == 29;
        let score = |n: usize| if goes(n) { 5 } else { 9_000_000_000_000_u64 };
        offer(&mut bench, (0..LENGTH).map(|n| (score(n), member(n))));
        let reply = bench.run("transfer 100 10000000");
        assert!(cost(&reply) < 60_000, "{reply}");
        let stay = (0..LENGTH).filter(|n| !goes(*n));
        let left: Vec<Vec<u8>> = stay.map(|n| bench.names.bytes(&member(n))).collect();
        let list = elements(&mut bench, "LRANGE @list 0 -1");
        assert!(list == left, "{} are left", list.len());
    }
}

/// What stays may be large, and so may be what is due behind what is small: little of it is read.
#[test]
fn few_large_members_are_read() {
    const LARGE: u64 = 1 << 16;
    let redis = Redis::spawn(&[]);
    let large = "x".repeat(LARGE as usize);
    // In the order of the list: how many, whether large, whether due; and MiB at most.
    for (runs, bytes_max, most) in [
        (&[(7, false, true), (40, true, false), (40, false, true)][..], LARGE, 4),
        (&[(40, true, false), (40, false, true)], LARGE, 2),
        (&[(40, false, true), (40, true, true)], LARGE, 18),
        (&[(40, true, true)], 4 * LARGE, 10),
    ] {
        let mut bench = Bench::on(&redis, "");
        let mut id = 0;
        for &(count, is_large, is_due) in runs {
            for _ in 0..count {
                id += 1;
                let text = if is_large { &large } else { "x" };
                let score = if is_due { id } else { 9_000_000_000_000 };
                offer(&mut bench, [(score, format!("m{id}({text})"))].into_iter());
            }
        }
        let read = bench.bytes_read(&format!("transfer 512 {bytes_max}"));
        assert!(read <= most * LARGE + 20_000, "{runs:?}: {read} bytes");
        bench.redis("FLUSHDB");
    }
}

/// Far from the ends of a list pages are larger. A run of large members is not read in such pages,
/// though all members around it are small; nor where the user may not ask how large the list is.
#[test]
fn few_large_members_are_read_far_from_the_ends() {
    const HALF: u64 = 65_000;
    const RUN: u64 = 40; // shorter than a page
    const LARGE: u64 = 1 << 19;
    let redis = Redis::spawn(&[]);
    let large = "x".repeat(LARGE as usize);
    let id = |n: u64| n * 7_919 % 130_171;
    let score = |n: u64| if n.is_multiple_of(100) { 5 } else { 9_000_000_000_000 };
    for user in ["+memory", "-memory"] {
        let mut bench = Bench::on(&redis, "");
        bench.redis(&format!("ACL SETUSER default {user}"));
        let small = |n: u64| (score(n), format!("m{}(x)", id(n)));
        let run = |n: u64| (9_000_000_000_000, format!("m{}({large})", id(n)));
        offer(&mut bench, (0..HALF).map(small));
        offer(&mut bench, (HALF..HALF + RUN).map(run));
        offer(&mut bench, (HALF + RUN..2 * HALF + RUN).map(small));
        let mut read = Vec::new();
        while bench.redis("LLEN @destination").int() < 1_000 && read.len() < 100 {
            read.push(bench.bytes_read("transfer 1000 1000000") / LARGE);
        }
        assert!(read.len() < 100 && read.iter().all(|as_large| *as_large < 32), "{user}: {read:?}");
        bench.redis("FLUSHDB");
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
    bench.returns("transfer 9 1000", "OK 9000000000000 '' :0 :1 :0 :0 1 :1 3 :1");
    bench.then(
        "timeout m3(c)=9000000000000; list m3(c); destination a b; quarantine bad=2",
        "out of memory",
    );
}

/// So do the parts of a pass: to list again, and to take off what was appended meanwhile.
#[test]
fn a_pass_out_of_memory() {
    let redis = Redis::spawn(&[]);
    let mut bench = Bench::on(
        &redis,
        "timeout m1(a)=1 m2(b)=2; list m1(a); record unlisted_until=2 unlisted_after=1 \
         unlisted_tail=\\x92\\x01\\xb2\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\
         \\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00a",
    );
    bench.redis("CONFIG SET maxmemory 1");
    let reply = bench.run("transfer 9 1000");
    assert!(reply.starts_with("AGAIN 1 "), "{reply}");
    bench.then("timeout m1(a)=1 m2(b)=2; list m1(a) m2(b)", "listed again");

    bench.redis("CONFIG SET maxmemory 0");
    let mut bench =
        Bench::on(&redis, "timeout m1(a)=1; record unlisted_until=1 unlisted_tail=\\x91\\x00");
    offer(&mut bench, (2..1_500).map(|id| (9_000_000_000_000, format!("m{id}(a)"))));
    let stale: Vec<String> = (0..20).map(|id| format!("m9{id}(stale)")).collect();
    bench.redis(&format!("RPUSH @list {}", stale.join(" ")));
    offer(&mut bench, (2_000..3_500).map(|id| (9_000_000_000_000, format!("m{id}(a)"))));
    bench.redis("CONFIG SET maxmemory 1");
    let reply = bench.run("transfer 9 1000");
    assert!(reply.starts_with("OK 9000000000000 "), "{reply}");
    assert_eq!(bench.redis("LLEN @list").int(), 2_998);
}
