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
        ("one by id", "timeout m1(a)=1000; list m1(a)", "cancel 1000 #1", "OK :1", ""),
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

/// With the last message go the names whose messages other programs took.
#[test]
fn names_of_an_empty_queue() {
    let given = "timeout m1(a)=1000; list m1(a); names n=1000-0000000000000001 \
                 old=5-0000000000000009; ids 0000000000000001=n 0000000000000009=old";
    for call in [
        "cancel 1000 #1",
        "remove a 1000 1000 #1",
        "remove_listed 1 a 9 9 1000 0 ''",
        "remove_pending 1 a 9 9 1000 '' '' 0 ''",
        "poll 1 1000 1000",
        "poll_pending 1000 1000 1000 #1",
        "transfer 9 1000",
        "clear",
    ] {
        let mut bench = Bench::new(given);
        bench.run(call);
        assert_eq!(bench.redis("EXISTS @names @ids").int(), 0, "{call}");
    }
    // Not while another one is pending.
    let mut bench = Bench::new(given);
    bench.redis("ZADD @timeout 9000000000000 m2(b)");
    bench.returns("cancel 1000 #1", "OK :1");
    assert_eq!(bench.redis("HLEN @names").int(), 1);
}

/// Ids of others in a long list, which only a pass over it finds, and large members: a call comes
/// to the first of its messages, and leaves the others as they are.
#[test]
fn many_at_a_time_are_left_to_the_next_call() {
    left_to_the_next_call("cancel");
    left_to_the_next_call("remove '' 1000000");

    let mut bench = Bench::new("");
    let large = "x".repeat(600_000);
    for id in 1..4 {
        bench.redis(&format!("ZADD @timeout 9000000000000 m{id}({large})"));
        bench.redis(&format!("RPUSH @list m{id}({large})"));
    }
    let three = "9000000000000 #1 9000000000000 #2 9000000000000 #3";
    bench.returns(&format!("cancel {three}"), "OK :1 :1");
    bench.returns(&format!("fire '' {three}"), "OK :1 :1 :2");
    bench.returns("cancel '' n 9000000000000 #3", "OK :1");
    assert_eq!(bench.redis("LLEN @list").int(), 1);
}

fn left_to_the_next_call(call: &str) {
    const LENGTH: u64 = 60_000;
    let mut bench = Bench::new("");
    let id = |n: u64| n * 7_919 % 60_013 + 1;
    for from in (0..LENGTH).step_by(500) {
        let page = from..from + 500;
        let pending: Vec<String> = page.clone().map(|n| format!("{n} m{}()", id(n))).collect();
        let listed: Vec<String> = page.map(|n| format!("m{}()", id(n))).collect();
        bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
        bench.redis(&format!("RPUSH @list {}", listed.join(" ")));
    }
    let named: Vec<u64> = (0..100).map(|n| 30_000 + n * 7).collect();
    let (mut left, mut calls) = (&named[..], 0);
    while !left.is_empty() {
        let words: Vec<String> = left.iter().map(|n| format!("{n} #{}", id(*n))).collect();
        let reply = bench.run(&format!("{call} {}", words.join(" ")));
        bench.number += 1;
        let count = |nth: usize| -> Option<usize> {
            let word = reply.split(' ').nth(nth)?;
            word.trim_start_matches(':').parse().ok()
        };
        let (cancelled, done) = (count(1).unwrap(), count(2).unwrap_or(left.len()));
        assert_eq!(cancelled, done, "{reply}");
        // Half of the list for each that it looks for: 600,000 elements and one more message.
        assert!((1..=21).contains(&done), "{reply}");
        left = &left[done..];
        calls += 1;
        let gone = (named.len() - left.len()) as i64;
        for count in ["ZCARD @timeout", "LLEN @list"] {
            assert_eq!(bench.redis(count).int(), LENGTH as i64 - gone, "{count}");
        }
    }
    assert!(calls >= 5, "{calls}");
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
        .map(|pair| pair.rsplit_once('=').map(|(m, s)| format!("{s} {m}")).unwrap())
        .collect();
    bench.redis(&format!("ZADD @timeout {}", zadd.join(" ")));
    bench.redis(&format!("RPUSH @list {list}"));
    for id in (0..100).rev() {
        let shown = match id % 3 {
            2 => format!("\\x{:02x}\\x{:02x}\\x{:02x}", 0, 0, id),
            _ => format!("#{}", id << 40),
        };
        bench.returns(&format!("get 7000 {shown} 1000"), &format!("OK {} 7000 ''", member(id)));
        bench.returns(&format!("cancel 7000 {shown}"), "OK :1");
        bench.returns(&format!("cancel 7000 {shown}"), "OK :0");
        bench.returns(&format!("get 7000 {shown} 1000"), "OK '' '' ''");
    }
    bench.then(
        "timeout m1(a)=6999 ''=7000 \\x00=7000 \\x08=7000 \\x08\\xff=7000 \\xff=7000 m1(b)=7001",
        "only the noise is left",
    );
}

#[test]
fn remove() {
    let rows: &[Row] = &[
        ("nothing there", "", "remove a 1000 1000 #1", "OK :0 :1", ""),
        ("one", "timeout m1(a)=1000; list m1(a)", "remove a 1000 1000 #1", "OK :1 :1", ""),
        (
            "only with this payload, each once; names go too",
            NAMED,
            "remove c 1000 1000 #1 2000 #3 2000 #3 1000 #9",
            "OK :1 :4",
            "timeout m1(a)=1000 l2(b)=1000; list m1(a) l2(b); names n=1000-0000000000000001
             ids 0000000000000001=n",
        ),
        (
            "two of one id and due time: the one that carries it",
            "timeout m1(a)=1 m1(b)=1 m1(c)=1; list m1(c) m1(b) m1(a)",
            "remove b 1000 1 #1",
            "OK :1 :1",
            "timeout m1(a)=1 m1(c)=1; list m1(c) m1(a)",
        ),
        (
            "ends early by bytes",
            "timeout m1(a)=1 m2(a)=2; list m1(a) m2(a)",
            "remove a 1 1 #1 2 #2",
            "OK :1 :1",
            "timeout m2(a)=2; list m2(a)",
        ),
        ("not listed", "timeout m1(a)=1", "remove a 1000 1 #1", "OK :1 :1", ""),
    ];
    check(rows);
}

#[test]
fn remove_listed() {
    let given = "timeout m1(a)=1 l2(b)=2 m3(a)=3 m4()=4 m5(\\r\\n\\x00)=5 bad=6
         list m1(a) l2(b) m9(a) m3(a) m4() m5(\\r\\n\\x00) bad
         names n=3-0000000000000003; ids 0000000000000003=n";
    let rows: &[Row] = &[
        ("nothing there", "", "remove_listed 1 a 10 10 1000 0 ''", "OK :0 :0 :-1 ''", ""),
        (
            "all; stale ones and names go too",
            given,
            "remove_listed 1 a 10 10 1000 0 ''",
            "OK :2 :0 :-1 3_bad",
            "timeout l2(b)=2 m4()=4 m5(\\r\\n\\x00)=5 bad=6
             list l2(b) m4() m5(\\r\\n\\x00) bad",
        ),
        (
            "the first",
            given,
            "remove_listed 1 a 1 10 1000 0 ''",
            "OK :1 :0 :0 ''",
            "timeout l2(b)=2 m3(a)=3 m4()=4 m5(\\r\\n\\x00)=5 bad=6
             list l2(b) m9(a) m3(a) m4() m5(\\r\\n\\x00) bad
             names n=3-0000000000000003; ids 0000000000000003=n",
        ),
        (
            "an empty payload, one with CR LF and zero byte",
            given,
            "remove_listed 3 \\r\\n\\x00 1 10 1000 5 17_m4()",
            "OK :1 :0 :5 17_m4()",
            "timeout m1(a)=1 l2(b)=2 m3(a)=3 m4()=4 bad=6
             list m1(a) l2(b) m9(a) m3(a) m4() bad
             names n=3-0000000000000003; ids 0000000000000003=n",
        ),
        (
            "a part of a payload is none",
            given,
            "remove_listed 1 \\n 10 10 1000 0 ''",
            "OK :0 :0 :-1 3_bad",
            given,
        ),
        ("none wanted", given, "remove_listed 1 a 0 10 1000 0 ''", "OK :0 :0 :0 ''", given),
        (
            "each of many in the middle, once",
            "timeout m1(a)=1 m2(b)=2 m3(a)=3 m4(c)=4 m5(a)=5 m6(d)=6 m7(a)=7
             list m2(b) m3(a) m4(c) m1(a) m1(a) m5(a) m6(d) m7(a)",
            "remove_listed 1 a 3 10 1000 0 ''",
            "OK :3 :0 :2 18_m4(c)",
            "timeout m2(b)=2 m4(c)=4 m6(d)=6 m7(a)=7; list m2(b) m4(c) m6(d) m7(a)",
        ),
        (
            "in doubt: the last bytes fit, and the size",
            "timeout m1(xxab)=1 m2(yab)=2 m3(zzab)=3; list m1(xxab) m2(yab) m3(zzab)",
            "remove_listed 3 ab 10 10 1000 0 ''",
            "OK :0 :1 :1 21_m1(xxab)",
            "timeout m1(xxab)=1 m2(yab)=2 m3(zzab)=3; list m1(xxab) m2(yab) m3(zzab)",
        ),
    ];
    let rows: Vec<Row> = rows.to_vec();
    for (what, given, call, returns, then) in rows {
        anchored(what, given, call, returns, then);
    }
}

/// A row of which anchors are written as `18_m4(c)`: size and member.
fn anchored(what: &str, given: &str, call: &str, returns: &str, then: &str) {
    let mut bench = Bench::new(given);
    let anchor = |bench: &Bench, word: &str| match word.split_once('_') {
        Some((size, member)) if size.parse::<u32>().is_ok() => {
            let bytes = bench.names.bytes(member);
            let start = bytes.iter().take(64).map(|byte| format!("\\x{byte:02x}"));
            let digits = size.bytes().map(|byte| format!("\\x{byte:02x}"));
            digits.chain(["\\x20".to_owned()]).chain(start).collect()
        }
        _ => word.to_owned(),
    };
    let words = |bench: &Bench, text: &str| {
        let words: Vec<String> = text.split(' ').map(|word| anchor(bench, word)).collect();
        words.join(" ")
    };
    let (call, returns) = (words(&bench, call), words(&bench, returns));
    let reply = bench.run(&call);
    assert_eq!(reply, bench.names.normal(&returns), "reply of: {what}");
    bench.then(then, what);
}

/// Others took away or put in what stands before the page: nothing is passed over.
#[test]
fn remove_listed_from_where_it_was() {
    let pending = "timeout m1(b)=1 m2(b)=2 m3(b)=3 m4(a)=4 m5(b)=5";
    for (what, list, call, returns, left) in [
        (
            "as it was",
            "m1(b) m2(b) m3(b) m4(a) m5(b)",
            "remove_listed 1 a 9 9 1000 3 18_m3(b)",
            "OK :1 :0 :-1 18_m5(b)",
            "m1(b) m2(b) m3(b) m5(b)",
        ),
        (
            "some before it went",
            "m3(b) m4(a) m5(b)",
            "remove_listed 1 a 9 9 1000 3 18_m3(b)",
            "OK :1 :0 :-1 18_m5(b)",
            "m3(b) m5(b)",
        ),
        (
            "so many that the page's bounds end the search for it",
            "m3(b) m4(a) m1(b) m2(b) m5(b)",
            "remove_listed 1 a 9 2 1000 4 18_m3(b)",
            "OK :0 :0 :2 18_m3(b)",
            "m3(b) m4(a) m1(b) m2(b) m5(b)",
        ),
        (
            "where it goes on next",
            "m3(b) m4(a) m1(b) m2(b) m5(b)",
            "remove_listed 1 a 9 2 1000 1 18_m3(b)",
            "OK :1 :0 :1 18_m3(b)",
            "m3(b) m1(b) m2(b) m5(b)",
        ),
        (
            "it went too: from the head",
            "m1(b) m4(a) m5(b)",
            "remove_listed 1 a 9 9 1000 3 18_m3(b)",
            "OK :0 :0 :0 ''",
            "m1(b) m4(a) m5(b)",
        ),
        (
            "the list is shorter now",
            "m3(b) m4(a)",
            "remove_listed 1 a 9 9 1000 70 18_m3(b)",
            "OK :1 :0 :-1 18_m3(b)",
            "m3(b)",
        ),
        (
            "others stand before it now: from the head",
            "m9(b) m1(b) m2(b) m3(b) m4(a)",
            "remove_listed 1 a 9 9 1000 3 18_m3(b)",
            "OK :0 :0 :0 ''",
            "m9(b) m1(b) m2(b) m3(b) m4(a)",
        ),
    ] {
        let left_pending = match left.contains("(a)") {
            true => pending.to_owned(),
            false => pending.replace("m4(a)=4 ", ""),
        };
        let given = format!("{pending}; list {list}");
        anchored(what, &given, call, returns, &format!("{left_pending}; list {left}"));
    }
}

#[test]
fn remove_pending() {
    let given = "timeout m1(a)=1 l2(b)=2 m3(a)=2 m4()=2 m5(\\r\\n\\x00)=5.5 bad=6; list m3(a) m1(a)
         names n=1-0000000000000001; ids 0000000000000001=n";
    let rows: &[Row] = &[
        (
            "nothing there",
            "",
            "remove_pending 1 a 10 10 1000 '' '' 0 ''",
            "OK :0 :0 '' '' :0 ''",
            "",
        ),
        (
            "all, off the list too, names as well",
            given,
            "remove_pending 1 a 10 10 1000 '' '' 0 ''",
            "OK :2 :0 '' '' :0 ''",
            "timeout l2(b)=2 m4()=2 m5(\\r\\n\\x00)=5.5 bad=6",
        ),
        (
            "so many",
            given,
            "remove_pending 1 a 1 10 1000 '' '' 0 ''",
            "OK :1 :0 (1 '' :0 ''",
            "timeout l2(b)=2 m3(a)=2 m4()=2 m5(\\r\\n\\x00)=5.5 bad=6; list m3(a)",
        ),
        (
            "in doubt",
            "timeout m1(xxab)=1 m2(yab)=2; list m1(xxab) m2(yab)",
            "remove_pending 3 ab 10 10 1000 '' '' 0 ''",
            "OK :0 :1 (1 '' :0 ''",
            "timeout m1(xxab)=1 m2(yab)=2; list m1(xxab) m2(yab)",
        ),
    ];
    check(rows);
    let mut bench = Bench::new(given);
    assert_eq!(
        bench.run("remove_pending 0 '' 9 2 1000 '' '' 0 ''"),
        bench.names.normal("OK :0 :0 2 \\x08 :2 ''")
    );
}

#[test]
fn poll() {
    let rows: &[Row] = &[
        ("nothing there", "", "poll 10 1000 1000", "OK :0", ""),
        ("one", "timeout m1(a)=9000; list m1(a)", "poll 10 1000 1000", "OK :0 a", ""),
        (
            "exactly the count, in offer order",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 3 1000 1000",
            "OK :0 a b c",
            "",
        ),
        (
            "count and one",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 2 1000 1000",
            "OK :0 a b",
            "timeout m3(c)=2; list m3(c)",
        ),
        (
            "as many bytes as allowed",
            "timeout m1(a)=9000 m2(b)=1 m3(c)=2; list m1(a) m2(b) m3(c)",
            "poll 9 36 1000",
            "OK :0 a b",
            "timeout m3(c)=2; list m3(c)",
        ),
        (
            "one, however large",
            "timeout m1(a)=9000 m2(b)=1; list m1(a) m2(b)",
            "poll 9 1 1000",
            "OK :0 a",
            "timeout m2(b)=1; list m2(b)",
        ),
        (
            "stale entries are dropped, poison goes to quarantine and does not count",
            "timeout m1(a)=1 bad=2 l4(\\r\\n\\x00)=3 m5(e)=4
             list m9(z) m1(a) bad m1(a) l4(\\r\\n\\x00) m5(e)",
            "poll 2 1000 1000",
            "OK :0 a \\r\\n\\x00",
            "timeout m5(e)=4; list m5(e); quarantine bad=2",
        ),
        (
            "what only the zset has comes last, by due time",
            "timeout m1(a)=3 m2(b)=1 bad=1 m3(c)=2; list m1(a)",
            "poll 2 1000 1000",
            "OK :0 a b",
            "timeout bad=1 m3(c)=2",
        ),
        (
            "and its poison goes too",
            "timeout m1(a)=3 m2(b)=1 bad=1 m3()=2; list m1(a)",
            "poll 3 1000 1000",
            "OK :0 a b ''",
            "quarantine bad=1",
        ),
        (
            "names go",
            NAMED,
            "poll 1 1000 1000",
            "OK :0 a",
            "timeout l2(b)=1000 m3(c)=2000; list l2(b) m3(c)
             names k=2000-0000000000000003; ids 0000000000000003=k",
        ),
        (
            "a pause is no matter",
            "timeout m1(a)=3; list m1(a); record name=$q paused_until=-1",
            "poll 1 1000 1000",
            "OK :0 a",
            "record name=$q paused_until=-1",
        ),
        (
            "what no reply can hold is not taken, and said",
            "timeout m1(abc)=3 m2(b)=2; list m1(abc) m2(b)",
            "poll 9 1000 19",
            "TOOBIG :20 3-0000000000000001 :19",
            "timeout m1(abc)=3 m2(b)=2; list m1(abc) m2(b)",
        ),
        (
            "it ends a reply before it; stale ones go",
            "timeout m1(abc)=3 m2(b)=2; list m9(x) m2(b) m1(abc)",
            "poll 9 1000 19",
            "OK :0 b",
            "timeout m1(abc)=3; list m1(abc)",
        ),
        (
            "not listed",
            "timeout m1(abc)=3",
            "poll 9 1000 19",
            "TOOBIG :20 3-0000000000000001 :19",
            "timeout m1(abc)=3",
        ),
        (
            "none wanted",
            "timeout m1(a)=3; list m1(a)",
            "poll 0 1000 1000",
            "OK :0",
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
    let pending: Vec<String> = ids().map(|id| format!("{} m{id}(x{id})", 300 - id)).collect();
    let listed: Vec<String> =
        ids().map(|id| format!("m{id}(x{id}) m{}(gone)", id + 1000)).collect();
    bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
    bench.redis(&format!("RPUSH @list {}", listed.join(" ")));
    let payloads: Vec<String> = ids().map(|id| format!("x{id}")).collect();
    bench.returns("poll 200 100000 1000", &format!("OK :0 {}", payloads[..200].join(" ")));
    bench.returns("poll 200 100000 1000", &format!("OK :0 {}", payloads[200..].join(" ")));
    assert_eq!(bench.redis("EXISTS @timeout").int(), 0);
}

#[test]
fn clear() {
    let rows: &[Row] = &[
        ("nothing there", "", "clear", "OK :0", ""),
        (
            "everything pending, and only that",
            "timeout m1(a)=1 bad=2; list m1(a) bad m9(z); destination d; quarantine q=1
             names n=1-0000000000000001; ids 0000000000000001=n; record name=$q paused_until=-1",
            "clear",
            "OK :2",
            "destination d; quarantine q=1; record name=$q paused_until=-1",
        ),
    ];
    check(rows);
}

/// Whatever takes out goes on out of memory.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    for (call, returns, then) in [
        ("cancel 1 #1", "OK :1", "timeout bad=2 m2(b)=3; list bad m2(b)"),
        ("remove a 1000 1 #1", "OK :1 :1", "timeout bad=2 m2(b)=3; list bad m2(b)"),
        ("poll 2 1000 1000", "OK :0 a b", "quarantine bad=2"),
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
    let ids: [fn(u64) -> u64; 3] =
        [|n| n * 1000, |n| (n / 700) << 40 | n, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)];
    for (call, id) in ["remove", "cancel"].into_iter().flat_map(|call| ids.map(|id| (call, id))) {
        let mut bench = Bench::new("");
        let taken: Vec<u64> = (0..900).map(|n| n * 1103 % 3000).collect();
        let member = |n: u64| match n % 10 {
            _ if call == "remove" && taken.contains(&n) => format!("m{}(same)", id(n)),
            3 => format!("l{}(x{n})", id(n)),
            _ => format!("m{}(x{n})", id(n)),
        };
        let listed = |n: u64| match n % 100 {
            50 => format!("unreadable{n}"),
            _ => member(n),
        };
        let all: Vec<String> = (0..3000).map(listed).collect();
        let pending: Vec<String> = (0..3000).map(|n| format!("{} {}", n % 7, member(n))).collect();
        bench.redis(&format!("ZADD @timeout {}", pending.join(" ")));
        bench.redis(&format!("RPUSH @list {}", all.join(" ")));
        let words: Vec<String> = taken.iter().map(|n| format!("{} #{}", n % 7, id(*n))).collect();
        let (start, done) = match call {
            "remove" => ("remove same 1000000", "OK :900 :900"),
            _ => (call, "OK :900"),
        };
        bench.returns(&format!("{start} {}", words.join(" ")), done);
        let left = (0..3000).filter(|n| !taken.contains(n) || n % 100 == 50);
        let left: Vec<Vec<u8>> = left.map(|n| bench.names.bytes(&listed(n))).collect();
        let list = bench.redis("LRANGE @list 0 -1");
        let list: Vec<Vec<u8>> = list.elements().iter().map(|one| one.bytes()).collect();
        assert!(list == left, "{call}: {} and {}", list.len(), left.len());
        assert_eq!(bench.redis("ZCARD @timeout").int(), 2100);
    }
}
