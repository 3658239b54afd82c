//! cancel.lua, remove.lua, poll.lua, clear.lua: what takes messages out, so that they are never
//! delivered.

use crate::bench::{Bench, Row, check};
use crate::support::redis::Redis;

const NAMED: &str = "timeout m1(a)=1000 l2(b)=1000 m3(c)=2000; list m1(a) l2(b) m3(c)
     names n=1000-0000000000000001 k=2000-0000000000000003
     ids 0000000000000001=n 0000000000000003=k";

#[test]
fn cancel() {
    let rows: &[Row] = &[
        ("nothing there", "", "cancel 1000 #1 '' n", "OK :0", ""),
        (
            "one by id",
            "timeout m1(a)=1000; list m1(a)",
            "cancel 1000 #1",
            "OK :1",
            "",
        ),
        (
            "by id and by name, both formats",
            NAMED,
            "cancel 1000 #2 '' n",
            "OK :2",
            "timeout m3(c)=2000; list m3(c); names k=2000-0000000000000003
             ids 0000000000000003=k",
        ),
        (
            "the same one twice, by id and by name",
            NAMED,
            "cancel 1000 #1 '' n 1000 #1",
            "OK :1",
            "timeout l2(b)=1000 m3(c)=2000; list l2(b) m3(c); names k=2000-0000000000000003
             ids 0000000000000003=k",
        ),
        (
            "another score, another id, another length of id, no number",
            NAMED,
            "cancel 1001 #1 1000 #9 1000 1 1000 '' nonsense #1 '' z",
            "OK :0",
            NAMED,
        ),
        (
            "scores of others: negative, fractional, infinite",
            "timeout m1(a)=-5 m2(b)=0.5 m3(c)=inf m4(d)=1e+20; list m1(a) m2(b) m3(c) m4(d)",
            "cancel -5 #1 0.5 #2 inf #3 1e+20 #4",
            "OK :4",
            "",
        ),
        (
            "ids of other lengths",
            "timeout m[](a)=1 m[0102](b)=1 m1(c)=1; list m[](a) m[0102](b) m1(c)",
            "cancel 1 \\x01\\x02 1 ''",
            "OK :2",
            "timeout m1(c)=1; list m1(c)",
        ),
        (
            "not listed, or listed and not pending",
            "timeout m1(a)=1 m3(c)=3; list m2(b) m3(c)",
            "cancel 1 #1 2 #2",
            "OK :1",
            "timeout m3(c)=3; list m2(b) m3(c)",
        ),
        (
            "a name whose message is gone",
            "names n=1000-0000000000000001; ids 0000000000000001=n",
            "cancel '' n",
            "OK :0",
            "names n=1000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "unreadable members have no id",
            "timeout \\x08bad=1 bad=1; list \\x08bad bad",
            "cancel 1 bad 1 ''",
            "OK :0",
            "timeout \\x08bad=1 bad=1; list \\x08bad bad",
        ),
    ];
    check(rows);
}

/// More messages share a score than are read at once: found by halving, in both formats, also
/// among ids of other lengths and unreadable members.
#[test]
fn cancel_among_equal_scores() {
    let member = |id: u64| match id % 3 {
        0 => format!("l{}(x{id})", id << 40),
        1 => format!("m{}(x{id})", id << 40),
        _ => format!("m[{id:06x}](x{id})"),
    };
    let words: Vec<String> = (0..100).map(member).collect();
    let pending: Vec<String> = words.iter().map(|word| format!("{word}=7000")).collect();
    let noise = "m1(a)=6999 m1(b)=7001 \\x08=7000 \\x08\\xff=7000 \\xff=7000 ''=7000 \\x00=7000";
    let list = words.join(" ");
    let mut bench = Bench::new("");
    let zadd: Vec<String> = format!("{} {noise}", pending.join(" "))
        .split_whitespace()
        .map(|pair| {
            pair.rsplit_once('=')
                .map(|(m, s)| format!("{s} {m}"))
                .unwrap()
        })
        .collect();
    bench.redis(&format!("ZADD @timeout {}", zadd.join(" ")));
    bench.redis(&format!("RPUSH @list {list}"));
    for id in (0..100).rev() {
        let shown = match id % 3 {
            2 => format!("\\x{:02x}\\x{:02x}\\x{:02x}", 0, 0, id),
            _ => format!("#{}", id << 40),
        };
        bench.returns(
            &format!("get 7000 {shown}"),
            &format!("OK {} 7000 ''", member(id)),
        );
        bench.returns(&format!("cancel 7000 {shown}"), "OK :1");
        bench.returns(&format!("cancel 7000 {shown}"), "OK :0");
        bench.returns(&format!("get 7000 {shown}"), "OK '' '' ''");
    }
    bench.then(
        "timeout m1(a)=6999 ''=7000 \\x00=7000 \\x08=7000 \\x08\\xff=7000 \\xff=7000 m1(b)=7001",
        "only the noise is left",
    );
}

#[test]
fn remove() {
    let rows: &[Row] = &[
        ("nothing there", "", "remove m1(a)", "OK :0", ""),
        (
            "one",
            "timeout m1(a)=1000; list m1(a)",
            "remove m1(a)",
            "OK :1",
            "",
        ),
        (
            "exact members only, each once; names go too",
            NAMED,
            "remove m1(a) m1(a) l2(x) m3(c) m2(b)",
            "OK :2",
            "timeout l2(b)=1000; list l2(b)",
        ),
        (
            "unreadable, empty, with CR LF and zero byte",
            "timeout bad=1 ''=2 m3(\\r\\n\\x00)=3 m4(d)=4; list bad '' m3(\\r\\n\\x00) m4(d)",
            "remove bad '' m3(\\r\\n\\x00)",
            "OK :3",
            "timeout m4(d)=4; list m4(d)",
        ),
        (
            "one copy of a member that is listed twice",
            "timeout m1(a)=1 m2(b)=2; list m1(a) m2(b) m1(a)",
            "remove m1(a)",
            "OK :1",
            "timeout m2(b)=2; list m2(b) m1(a)",
        ),
        (
            "one copy from the nearer end",
            "timeout m3(c)=1 m4(d)=2; list m1(a) m3(c) m2(b) m3(c) m4(d)",
            "remove m3(c)",
            "OK :1",
            "timeout m4(d)=2; list m1(a) m3(c) m2(b) m4(d)",
        ),
        ("not listed", "timeout m1(a)=1", "remove m1(a)", "OK :1", ""),
    ];
    check(rows);
}

#[test]
fn poll() {
    let rows: &[Row] = &[
        ("nothing there", "", "poll 10 1000", "OK", ""),
        (
            "one",
            "timeout m1(a)=9000; list m1(a)",
            "poll 10 1000",
            "OK a",
            "",
        ),
        (
            "exactly the count, in offer order",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 3 1000",
            "OK a b c",
            "",
        ),
        (
            "count and one",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 2 1000",
            "OK a b",
            "timeout m3(c)=2; list m3(c)",
        ),
        (
            "as many bytes as allowed",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 9 36",
            "OK a b",
            "timeout m3(c)=2; list m3(c)",
        ),
        (
            "one, however large",
            "timeout m1(a)=9000 m2(b)=1; list m1(a) m2(b)",
            "poll 9 1",
            "OK a",
            "timeout m2(b)=1; list m2(b)",
        ),
        (
            "stale entries are dropped, poison goes to quarantine and does not count",
            "timeout m1(a)=1 bad=2 l4(\\r\\n\\x00)=3 m5(e)=4
             list m9(z) m1(a) bad m1(a) l4(\\r\\n\\x00) m5(e)",
            "poll 2 1000",
            "OK a \\r\\n\\x00",
            "timeout m5(e)=4; list m5(e); quarantine bad=2",
        ),
        (
            "what only the zset has comes last, by due time",
            "timeout m1(a)=3 m2(b)=1 bad=1 m3(c)=2; list m1(a)",
            "poll 2 1000",
            "OK a b",
            "timeout bad=1 m3(c)=2",
        ),
        (
            "and its poison goes too",
            "timeout m1(a)=3 m2(b)=1 bad=1 m3()=2; list m1(a)",
            "poll 3 1000",
            "OK a b ''",
            "quarantine bad=1",
        ),
        (
            "names go",
            NAMED,
            "poll 1 1000",
            "OK a",
            "timeout l2(b)=1000 m3(c)=2000; list l2(b) m3(c)
             names k=2000-0000000000000003; ids 0000000000000003=k",
        ),
        (
            "a pause is no matter",
            "timeout m1(a)=3; list m1(a); queue name=$q paused_until=-1",
            "poll 1 1000",
            "OK a",
            "queue name=$q paused_until=-1",
        ),
        (
            "none wanted",
            "timeout m1(a)=3; list m1(a)",
            "poll 0 1000",
            "OK",
            "timeout m1(a)=3; list m1(a)",
        ),
    ];
    check(rows);
}

/// More than one page of the list.
#[test]
fn poll_many() {
    let mut bench = Bench::new("");
    let ids = || 0..300_u64;
    let pending: Vec<String> = ids()
        .map(|id| format!("{} m{id}(x{id})", 300 - id))
        .collect();
    let listed: Vec<String> = ids()
        .map(|id| format!("m{id}(x{id}) m{}(gone)", id + 1000))
        .collect();
    bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
    bench.redis(&format!("RPUSH @list {}", listed.join(" ")));
    let payloads: Vec<String> = ids().map(|id| format!("x{id}")).collect();
    bench.returns(
        "poll 200 100000",
        &format!("OK {}", payloads[..200].join(" ")),
    );
    bench.returns(
        "poll 200 100000",
        &format!("OK {}", payloads[200..].join(" ")),
    );
    assert_eq!(bench.redis("EXISTS @timeout").int(), 0);
}

#[test]
fn clear() {
    let rows: &[Row] = &[
        ("nothing there", "", "clear", "OK :0", ""),
        (
            "everything pending, and only that",
            "timeout m1(a)=1 bad=2; list m1(a) bad m9(z); destination d; quarantine q=1
             names n=1-0000000000000001; ids 0000000000000001=n; queue name=$q paused_until=-1",
            "clear",
            "OK :2",
            "destination d; quarantine q=1; queue name=$q paused_until=-1",
        ),
    ];
    check(rows);
}

/// Whatever takes out goes on out of memory.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    for (call, returns, then) in [
        (
            "cancel 1 #1",
            "OK :1",
            "timeout bad=2 m2(b)=3; list bad m2(b)",
        ),
        (
            "remove m1(a)",
            "OK :1",
            "timeout bad=2 m2(b)=3; list bad m2(b)",
        ),
        ("poll 2 1000", "OK a b", "quarantine bad=2"),
        ("clear", "OK :3", ""),
    ] {
        let given = "timeout m1(a)=1 bad=2 m2(b)=3; list m1(a) bad m2(b)
                     names n=1-0000000000000001; ids 0000000000000001=n";
        let mut bench = Bench::on(&redis, given);
        bench.redis("CONFIG SET maxmemory 1");
        assert_eq!(bench.run(call), returns);
        bench.then(then, call);
        assert_eq!(bench.run(call), "SETTLED", "{call} is stored for settling");
        bench.redis("CONFIG SET maxmemory 0");
    }
}

/// Many members of a long list, in whatever order: ids that ascend, that come in bursts, that are
/// random as Redisson's, with stale and unreadable members among them. The others keep their order.
#[test]
fn many_at_once() {
    let ids: [fn(u64) -> u64; 3] = [
        |n| n * 1000,
        |n| (n / 700) << 40 | n,
        |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    ];
    for (call, id) in ["remove", "cancel"]
        .into_iter()
        .flat_map(|call| ids.map(|id| (call, id)))
    {
        let mut bench = Bench::new("");
        let member = |n: u64| match n % 10 {
            3 => format!("l{}(x{n})", id(n)),
            _ => format!("m{}(x{n})", id(n)),
        };
        let listed = |n: u64| match n % 100 {
            50 => format!("unreadable{n}"),
            _ => member(n),
        };
        let all: Vec<String> = (0..3000).map(listed).collect();
        let pending: Vec<String> = (0..3000)
            .map(|n| format!("{} {}", n % 7, member(n)))
            .collect();
        bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
        bench.redis(&format!("RPUSH @list {}", all.join(" ")));
        let taken: Vec<u64> = (0..900).map(|n| n * 1103 % 3000).collect();
        let words: Vec<String> = match call {
            "remove" => taken.iter().map(|n| member(*n)).collect(),
            _ => taken
                .iter()
                .map(|n| format!("{} #{}", n % 7, id(*n)))
                .collect(),
        };
        bench.returns(&format!("{call} {}", words.join(" ")), "OK :900");
        let left = (0..3000).filter(|n| !taken.contains(n) || n % 100 == 50);
        let left: Vec<Vec<u8>> = left.map(|n| bench.names.bytes(&listed(n))).collect();
        let list = bench.redis("LRANGE @list 0 -1");
        let list: Vec<Vec<u8>> = list.elements().iter().map(|one| one.bytes()).collect();
        assert!(list == left, "{call}: {} and {}", list.len(), left.len());
        assert_eq!(bench.redis("ZCARD @timeout").int(), 2100);
    }
}
