//! The scripts that only read: get, range, heads, found, info, stats, match_listed, match_pending.

use crate::bench::{Bench, check};

/// Rows of a script that reads: its reply, with the keyspace as it was.
fn check_reads(rows: &[(&str, &str, &str, &str)]) {
    for (what, given, call, returns) in rows {
        check(&[(what, given, call, returns, given)]);
    }
}

#[test]
fn get() {
    let given = "timeout m1(a)=1000 l2(\\r\\n\\x00)=2000.5 m3()=-inf
         names n=1000-0000000000000001 gone=5-0000000000000009
         ids 0000000000000001=n";
    check_reads(&[
        ("nothing there", "", "get 1000 #1", "OK '' '' ''"),
        ("by id, named", given, "get 1000 #1", "OK m1(a) 1000 n"),
        ("by name", given, "get '' n", "OK m1(a) 1000 n"),
        (
            "legacy, no name",
            given,
            "get 2000.5 #2",
            "OK l2(\\r\\n\\x00) 2000.5 ''",
        ),
        (
            "the score in another notation",
            given,
            "get 1e3 #1",
            "OK m1(a) 1000 n",
        ),
        ("empty payload", given, "get -inf #3", "OK m3() -inf ''"),
        (
            "the name of one that is gone",
            given,
            "get '' gone",
            "OK '' '' ''",
        ),
        ("no such name", given, "get '' z", "OK '' '' ''"),
        ("no such score", given, "get 1001 #1", "OK '' '' ''"),
        ("a score that is none", given, "get (1000 #1", "OK '' '' ''"),
    ]);
}

#[test]
fn range() {
    let given = "timeout m1(a)=-5 bad=1000 l2(b)=1000 m3(c)=2000.5 m4()=inf
         ids 0000000000000002=n";
    check_reads(&[
        (
            "nothing there",
            "",
            "range -inf +inf 10 1000 '' ''",
            "OK :0",
        ),
        (
            "all, unreadable ones too",
            given,
            "range -inf +inf 10 1000 '' ''",
            "OK :0 m1(a) -5 '' l2(b) 1000 n bad 1000 '' m3(c) 2000.5 '' m4() inf ''",
        ),
        (
            "both ends count",
            given,
            "range 1000 1000 10 1000 '' ''",
            "OK :0 l2(b) 1000 n bad 1000 ''",
        ),
        ("between", given, "range 1001 2000 10 1000 '' ''", "OK :0"),
        (
            "the wrong way round",
            given,
            "range 2000 1000 10 1000 '' ''",
            "OK :0",
        ),
        (
            "exactly the count",
            given,
            "range 1000 1000 2 1000 '' ''",
            "OK :0 l2(b) 1000 n bad 1000 ''",
        ),
        (
            "count and one",
            given,
            "range -inf +inf 1 1000 '' ''",
            "OK :1 m1(a) -5 ''",
        ),
        (
            "bytes",
            given,
            "range -inf +inf 10 35 '' ''",
            "OK :1 m1(a) -5 '' l2(b) 1000 n",
        ),
        (
            "one, however large",
            given,
            "range -inf +inf 10 1 '' ''",
            "OK :1 m1(a) -5 ''",
        ),
        (
            "after a cursor",
            given,
            "range -inf +inf 2 1000 1000 l2(b)",
            "OK :1 bad 1000 '' m3(c) 2000.5 ''",
        ),
        (
            "after a cursor whose message is gone",
            given,
            "range -inf +inf 1 1000 1000 l3(b)",
            "OK :1 bad 1000 ''",
        ),
        (
            "a cursor before the range",
            given,
            "range 2000 +inf 1 1000 1 x",
            "OK :1 m3(c) 2000.5 ''",
        ),
        (
            "a cursor at the end",
            given,
            "range -inf +inf 1 1000 inf m4()",
            "OK :0",
        ),
    ]);
}

/// Pages of any size show every message exactly once, also where hundreds share a score and have
/// more than the 64 bytes of a cursor.
#[test]
fn range_pages() {
    let mut bench = Bench::new("");
    let tail = "y".repeat(80);
    let some: Vec<String> = (0..300)
        .map(|id| format!("{} m{id}(x{id}{tail})", id / 120))
        .collect();
    bench.redis(&format!("ZADD @timeout {}", some.join(" ")));
    let all: Vec<String> = (0..300).map(|id| format!("m{id}(x{id}{tail})")).collect();
    for count in [1, 7, 300] {
        let (mut seen, mut cursor) = (Vec::new(), ("''".to_owned(), "''".to_owned()));
        loop {
            let reply = bench.run(&format!(
                "range 0 5 {count} 100000 {} {}",
                cursor.0, cursor.1
            ));
            let words: Vec<&str> = reply.split(' ').collect();
            seen.extend(words[2..].chunks(3).map(|message| message[0].to_owned()));
            if words[1] == ":0" {
                break;
            }
            let last = &words[words.len() - 3..];
            let prefix = &bench.names.bytes(last[0])[..64];
            let prefix = prefix.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            cursor = (last[1].to_owned(), prefix);
        }
        assert_eq!(seen, all, "pages of {count}");
    }
}

#[test]
fn heads() {
    check_reads(&[
        ("nothing there", "", "heads timeout", "OK ''"),
        (
            "each in turn",
            "timeout m1(a)=-5.5 m2(b)=1; p.timeout m1(a)=9000000000000; list m1(a)",
            "heads p.timeout timeout destination list timeout",
            "OK 9000000000000 -5.5 '' WRONGTYPE -5.5",
        ),
    ]);
}

#[test]
fn found() {
    check_reads(&[
        ("nothing there", "", "found timeout queue", "OK '' ''"),
        (
            "each in turn",
            "timeout m1(a)=-5.5 m2(b)=1; queue name=x; p.timeout !string; p.queue !string",
            "found timeout queue p.timeout p.queue destination p.names",
            "OK x -5.5 '' WRONGTYPE '' ''",
        ),
    ]);
}

#[test]
fn stats() {
    check_reads(&[
        (
            "nothing there",
            "",
            "stats timeout destination queue",
            "OK :0 :0 '' :0",
        ),
        (
            "each in turn",
            "timeout m1(a)=-5.5 m2(b)=1; destination x y z
             p.timeout !string; p.destination !string; p.queue !string; queue paused_until=-1",
            "stats timeout destination queue p.timeout p.destination p.queue
             timeout p.destination names",
            "OK :2 :3 -5.5 :1 :-1 :-1 '' :0 :2 :-1 -5.5 :0",
        ),
        (
            "a pause for a time, one that is over",
            "queue paused_until=9000000000000; p.queue paused_until=1000",
            "stats timeout destination queue p.timeout p.destination p.queue",
            "OK :0 :0 '' :1 :0 :0 '' :0",
        ),
    ]);
}

#[test]
fn info() {
    check_reads(&[
        (
            "nothing there",
            "",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson",
        ),
        (
            "everything there",
            "timeout m1(a)=-5.5 m2(b)=1; destination x y z; list m1(a); quarantine bad=1
             queue name=$q paused_until=-1 format=legacy; names a=1-01 b=2-02",
            "info",
            "OK :2 :3 -5.5 :1 :1 -1 legacy :-1 :2 redisson",
        ),
        (
            "a destination of another type, a pause that is over",
            "destination !string; queue paused_until=1000",
            "info",
            "OK :0 :-1 '' :0 :0 '' modern :-1 :0 redisson",
        ),
        (
            "a pause for a time",
            "queue paused_until=9000000000000",
            "info",
            "OK :0 :0 '' :0 :0 9000000000000 modern :-1 :0 redisson",
        ),
        ("another name", "queue name=other", "info", "BADQUEUE other"),
    ]);
}

/// The least time to live of zset and list.
#[test]
fn info_ttl() {
    let mut bench = Bench::new("timeout m1(a)=1; list m1(a)");
    let ttl_ms = |bench: &mut Bench| -> i64 {
        let reply = bench.run("info");
        reply
            .split(' ')
            .nth(8)
            .unwrap()
            .trim_start_matches(':')
            .parse()
            .unwrap()
    };
    assert_eq!(ttl_ms(&mut bench), -1);
    bench.redis("EXPIRE @list 1000");
    assert!((990_000..=1_000_000).contains(&ttl_ms(&mut bench)));
    bench.redis("EXPIRE @timeout 500");
    assert!((490_000..=500_000).contains(&ttl_ms(&mut bench)));
    bench.redis("PERSIST @list");
    assert!((490_000..=500_000).contains(&ttl_ms(&mut bench)));
}

#[test]
fn match_listed() {
    let given = "timeout m1(a)=1 l2(b)=2 m3(a)=3 m4()=4 m5(\\r\\n\\x00)=5 bad=6
         list m1(a) l2(b) m9(a) m3(a) m4() m5(\\r\\n\\x00) bad";
    check_reads(&[
        (
            "nothing there",
            "",
            "match_listed 0 '' 10 10 a",
            "OK :-1 ''",
        ),
        (
            "pending ones only",
            given,
            "match_listed 0 '' 10 10 a",
            "OK :-1 '' m1(a) :1 m3(a) :1",
        ),
        (
            "several payloads, equal ones under the first number",
            given,
            "match_listed 0 '' 10 10 '' b a \\r\\n\\x00 b zz",
            "OK :-1 '' m1(a) :3 l2(b) :2 m3(a) :3 m4() :1 m5(\\r\\n\\x00) :4",
        ),
        (
            "a page",
            given,
            "match_listed 0 '' 2 10 a b",
            "OK :2 l2(b) m1(a) :1 l2(b) :2",
        ),
        (
            "the page after it",
            given,
            "match_listed 2 l2(b) 2 10 a b",
            "OK :4 m3(a) m3(a) :1",
        ),
        (
            "exactly to the end",
            given,
            "match_listed 4 m3(a) 3 10 a",
            "OK :7 bad",
        ),
        (
            "beyond the end",
            given,
            "match_listed 7 bad 3 10 a",
            "OK :-1 ''",
        ),
        (
            "enough found",
            given,
            "match_listed 0 '' 10 1 a",
            "OK :1 m1(a) m1(a) :1",
        ),
        (
            "the list has moved",
            given,
            "match_listed 5 l2(b) 2 10 a",
            "OK :4 m3(a) m3(a) :1",
        ),
        (
            "the anchor is gone",
            given,
            "match_listed 2 m8(x) 10 10 a",
            "LOST",
        ),
        (
            "a part of a payload is none",
            given,
            "match_listed 0 '' 10 10 \\x00 \\n",
            "OK :-1 ''",
        ),
    ]);
}

#[test]
fn match_pending() {
    let given = "timeout m1(a)=1 l2(b)=2 m3(a)=2 m4()=2 m5(\\r\\n\\x00)=5.5 bad=6";
    check_reads(&[
        ("nothing there", "", "match_pending '' '' 10 a", "OK '' ''"),
        (
            "one payload",
            given,
            "match_pending '' '' 10 a",
            "OK '' '' m1(a) :1 m3(a) :1",
        ),
        (
            "several",
            given,
            "match_pending '' '' 10 b '' \\r\\n\\x00 b",
            "OK '' '' l2(b) :1 m4() :2 m5(\\r\\n\\x00) :3",
        ),
        (
            "a page",
            given,
            "match_pending '' '' 2 a",
            "OK 2 l2(b) m1(a) :1",
        ),
        (
            "the page after it",
            given,
            "match_pending 2 l2(b) 1 a",
            "OK 2 m3(a) m3(a) :1",
        ),
        (
            "after one that is gone",
            given,
            "match_pending 2 l9(b) 1 a",
            "OK 2 m3(a) m3(a) :1",
        ),
        (
            "exactly to the end",
            given,
            "match_pending 2 m4() 2 a",
            "OK 6 bad",
        ),
        (
            "beyond the end",
            given,
            "match_pending 6 bad 2 a",
            "OK '' ''",
        ),
    ]);
}

/// Payloads that share their last bytes are told apart, short and long ones together.
#[test]
fn matches_by_tail() {
    let given = "timeout m1(xlong-same-tail)=1 m2(ylong-same-tail)=2 m3(same-tail)=3 m4(tail)=4
                 list m1(xlong-same-tail) m2(ylong-same-tail) m3(same-tail) m4(tail)";
    check_reads(&[
        (
            "long",
            given,
            "match_listed 0 '' 10 10 ylong-same-tail same-tail",
            "OK :-1 '' m2(ylong-same-tail) :1 m3(same-tail) :2",
        ),
        (
            "short too",
            given,
            "match_pending '' '' 10 ylong-same-tail tail",
            "OK '' '' m2(ylong-same-tail) :1 m4(tail) :2",
        ),
    ]);
}
