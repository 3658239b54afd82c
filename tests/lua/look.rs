//! The scripts that only read: get, range, found, info, stats, contains.

use crate::bench::{Bench, FOREVER_MS, check};
use crate::support::resp::Value;

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
        ("nothing there", "", "get 1000 #1 1000", "OK '' '' ''"),
        ("by id, named", given, "get 1000 #1 1000", "OK m1(a) 1000 n"),
        ("by name", given, "get '' n 1000", "OK m1(a) 1000 n"),
        ("legacy, no name", given, "get 2000.5 #2 1000", "OK l2(\\r\\n\\x00) 2000.5 ''"),
        ("the score in another notation", given, "get 1e3 #1 1000", "OK m1(a) 1000 n"),
        ("empty payload", given, "get -inf #3 1000", "OK m3() -inf ''"),
        ("the name of one that is gone", given, "get '' gone 1000", "OK '' '' ''"),
        ("no such name", given, "get '' z 1000", "OK '' '' ''"),
        ("no such score", given, "get 1001 #1 1000", "OK '' '' ''"),
        ("a score that is none", given, "get (1000 #1 1000", "OK '' '' ''"),
    ]);
}

#[test]
fn range() {
    let given = "timeout m1(a)=-5 bad=1000 l2(b)=1000 m3(c)=2000.5 m4()=inf
         ids 0000000000000002=n";
    check_reads(&[
        ("nothing there", "", "range -inf +inf 10 1000 1000 '' '' 0 ''", "OK '' '' :0 ''"),
        (
            "all, unreadable ones too",
            given,
            "range -inf +inf 10 1000 1000 '' '' 0 ''",
            "OK '' '' :0 '' m1(a) -5 '' l2(b) 1000 n bad 1000 '' m3(c) 2000.5 '' m4() inf ''",
        ),
        (
            "both ends count",
            given,
            "range 1000 1000 10 1000 1000 '' '' 0 ''",
            "OK '' '' :0 '' l2(b) 1000 n bad 1000 ''",
        ),
        ("between", given, "range 1001 2000 10 1000 1000 '' '' 0 ''", "OK '' '' :0 ''"),
        ("the wrong way round", given, "range 2000 1000 10 1000 1000 '' '' 0 ''", "OK '' '' :0 ''"),
        (
            "exactly the count",
            given,
            "range 1000 1000 2 1000 1000 '' '' 0 ''",
            "OK '' '' :0 '' l2(b) 1000 n bad 1000 ''",
        ),
        (
            "count and one: behind its score",
            given,
            "range -inf +inf 1 1000 1000 '' '' 0 ''",
            "OK (-5 '' :0 '' m1(a) -5 ''",
        ),
        (
            "among equal scores: the first bytes that tell the next one",
            given,
            "range 1000 +inf 1 1000 1000 '' '' 0 ''",
            "OK 1000 b :2 '' l2(b) 1000 n",
        ),
        (
            "bytes, of names too",
            given,
            "range -inf +inf 10 36 1000 '' '' 0 ''",
            "OK 1000 b :2 '' m1(a) -5 '' l2(b) 1000 n",
        ),
        (
            "one, however large",
            given,
            "range -inf +inf 10 1 1000 '' '' 0 ''",
            "OK (-5 '' :0 '' m1(a) -5 ''",
        ),
        (
            "behind a score",
            given,
            "range -inf +inf 2 1000 1000 (1000 '' 0 ''",
            "OK '' '' :0 '' m3(c) 2000.5 '' m4() inf ''",
        ),
        (
            "among equal scores, with the right rank and with wrong ones",
            given,
            "range -inf +inf 1 1000 1000 1000 b 2 ''",
            "OK (1000 '' :0 '' bad 1000 ''",
        ),
        (
            "too far back",
            given,
            "range -inf +inf 1 1000 1000 1000 b 1 ''",
            "OK (1000 '' :0 '' bad 1000 ''",
        ),
        (
            "too far on",
            given,
            "range -inf +inf 1 1000 1000 1000 b 4 ''",
            "OK (1000 '' :0 '' bad 1000 ''",
        ),
        (
            "the message that came next is gone",
            given,
            "range -inf +inf 1 1000 1000 1000 ab 1 ''",
            "OK (1000 '' :0 '' bad 1000 ''",
        ),
        (
            "and all of its score",
            given,
            "range -inf +inf 1 1000 1000 1500 ab 1 ''",
            "OK (2000.5 '' :0 '' m3(c) 2000.5 ''",
        ),
        (
            "a cursor before the range",
            given,
            "range 2000 +inf 1 1000 1000 1 x 0 ''",
            "OK (2000.5 '' :0 '' m3(c) 2000.5 ''",
        ),
        (
            "a cursor at the end",
            given,
            "range -inf +inf 1 1000 1000 (inf '' 0 ''",
            "OK '' '' :0 ''",
        ),
        (
            "the first is too large to show",
            given,
            "range 1000 +inf 9 1000 16 '' '' 0 ''",
            "TOOBIG :17 1000-0000000000000002 :16",
        ),
        (
            "one that nobody can read",
            "timeout unreadable=7.5 b=8",
            "range 1 +inf 9 1000 5 '' '' 0 ''",
            "TOOBIG :10 7.5 :5",
        ),
        (
            "another one ends the page before it",
            "timeout b=7 unreadable=7.5 c=8",
            "range 1 +inf 9 1000 5 '' '' 0 ''",
            "OK (7 '' :0 '' b 7 ''",
        ),
    ]);
}

/// A search is told the rank of the first member, and passes over what is too large.
#[test]
fn range_of_a_search() {
    let given = "timeout m1(a)=-5 bad=1000 l2(b)=1000 m3(c)=2000.5; ids 0000000000000002=n";
    let search = |line: &str, cursor: &str| format!("range {line} {cursor} search");
    let start = "'' '' 0 ''";
    check_reads(&[
        ("nothing", "", &search("-inf +inf 9 1000 1000", start), "OK '' '' :0 '' :0"),
        (
            "from a score on: half as many where there are names",
            given,
            &search("0 +inf 3 1000 1000", start),
            "OK (1000 '' :0 '' :1 l2(b) 1000 n bad 1000 ''",
        ),
        (
            "from a cursor on",
            given,
            &search("0 2000 9 1000 1000", "1000 b 9 ''"),
            "OK '' '' :0 '' :2 bad 1000 ''",
        ),
        (
            "the first is too large",
            given,
            &search("0 +inf 9 1000 16", start),
            "PASSED 1000 b :2 ''",
        ),
        (
            "it is the last of its score",
            given,
            &search("-9 0 9 1000 16", start),
            "PASSED '' '' :0 ''",
        ),
        (
            "it is the last of all",
            given,
            &search("2000 +inf 9 1000 16", start),
            "PASSED '' '' :0 ''",
        ),
        (
            "another one ends the page before it",
            "timeout b=7 unreadable=7.5 c=8",
            &search("1 +inf 9 1000 5", start),
            "OK (7 '' :0 '' :0 b 7 ''",
        ),
    ]);
}

#[test]
fn timeline() {
    let given = "timeout m1(a)=-5 m2(b)=1000 bad=1000 m3(c)=1999.5 m4()=2000 m5()=inf";
    check_reads(&[
        ("nothing there", "", "timeline 1 5 9", "OK :0 :0"),
        ("no step", given, "timeline 1000", "OK"),
        ("from the start on, before the end", given, "timeline 1000 2000 3000", "OK :3 :1"),
        ("steps of any length", given, "timeline 0 999 1000 1001 9000", "OK :0 :0 :2 :2"),
    ]);
}

/// Follows the cursors of a range and gives the members that came.
fn pages(
    bench: &mut Bench,
    range: &str,
    mut between: impl FnMut(&mut Bench, usize),
) -> Vec<Vec<u8>> {
    let (mut seen, mut cursor) = (Vec::new(), "'' '' 0 ''".to_owned());
    for page in 0.. {
        let reply = bench.reply(&format!("{range} {cursor}"), FOREVER_MS);
        let [_, _, score, from, rank, mark, messages @ ..] = reply.elements() else {
            panic!("{cursor}: {reply:?}");
        };
        seen.extend(messages.chunks(3).map(|message| message[0].bytes()));
        if score.bytes().is_empty() {
            break;
        }
        let from = from.bytes();
        let from: String = from.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let or_none = |word: String| if word.is_empty() { "''".into() } else { word };
        let (from, mark) = (or_none(from), or_none(mark.text()));
        cursor = format!("{} {from} {} {mark}", score.text(), rank.int());
        between(bench, page);
    }
    seen
}

/// What is pending.
fn pending(bench: &mut Bench) -> Vec<Vec<u8>> {
    let all = bench.redis("ZRANGE @timeout 0 -1");
    all.elements().iter().map(Value::bytes).collect()
}

/// Pages of any size show every message exactly once, also where hundreds share a score, and where
/// many that nobody can read share more than a cursor holds.
#[test]
fn range_pages() {
    let tail = "y".repeat(80);
    let large = "z".repeat(1500);
    let words = |id: usize| match id % 4 {
        0 => format!("m{id}(x{tail})"),
        1 => format!("m7(x{tail}{id:04})"),
        2 => format!("n{tail}{id:04}"),
        _ => format!("n{large}{id:04}"),
    };
    let mut bench = Bench::new("");
    let some: Vec<String> = (0..300).map(|id| format!("{} {}", id / 120, words(id))).collect();
    bench.redis(&format!("ZADD @timeout {}", some.join(" ")));
    let all = pending(&mut bench);
    assert_eq!(all.len(), 300);
    for count in [1, 7, 300] {
        let range = format!("range 0 5 {count} 1000000 100000");
        let came = pages(&mut bench, &range, |_, _| {});
        let differs = came.iter().zip(&all).position(|(came, one)| came != one);
        assert_eq!((came.len(), differs), (300, None), "pages of {count}");
    }
    // What stays is shown once, also while others come and go.
    let range = "range 0 5 7 1000000 100000";
    let came = pages(&mut bench, range, |bench, page| {
        let id = 299 - 2 * page;
        if id % 4 != 3 {
            bench.redis(&format!("ZREM @timeout {}", words(id)));
        }
        let (first, second) = (1000 + page, 2000 + page);
        bench.redis(&format!("ZADD @timeout 1 m{first}(z) 0 m{second}(z)"));
    });
    let mut left = pending(&mut bench);
    left.retain(|one| all.contains(one));
    assert!((200..290).contains(&left.len()), "{}", left.len());
    for one in &left {
        let count = came.iter().filter(|other| *other == one).count();
        assert_eq!(count, 1, "{}", one.escape_ascii());
    }
}

/// Of members that share more than a cursor holds it finds the one that it stands behind, wherever
/// that is now; once that is gone it says so.
#[test]
fn range_behind_many_alike() {
    let alike = |id: usize| format!("n{}{id:04}", "z".repeat(1500));
    let mut bench = Bench::new("");
    let some: Vec<String> = (0..20).map(|id| format!("1 {}", alike(id))).collect();
    bench.redis(&format!("ZADD @timeout {}", some.join(" ")));
    let range = "range 0 5 5 1000000 100000";
    let first = bench.run(&format!("{range} '' '' 0 ''"));
    let words: Vec<String> = first.split(' ').map(str::to_owned).collect();
    assert_eq!(words[3], ":5");
    assert_eq!(words[4].len(), 40, "a hash: {}", words[4]);
    let next = format!("{range} 1 {} 5 {}", words[2], words[4]);
    let comes = |bench: &mut Bench| {
        let reply = bench.run(&next);
        let word = reply.split(' ').nth(5).map(str::to_owned);
        word.unwrap_or(reply)
    };
    assert_eq!(comes(&mut bench), alike(5));
    bench.redis(&format!("ZREM @timeout {} {}", alike(0), alike(3)));
    bench.redis("ZADD @timeout 0 m1(x) 0 m2(x) 0 m3(x)");
    assert_eq!(comes(&mut bench), alike(5));
    bench.redis(&format!("ZREM @timeout {}", alike(4)));
    assert_eq!(comes(&mut bench), "LOST");
}

#[test]
fn found() {
    check_reads(&[
        ("nothing there", "", "found timeout record", "OK '' ''"),
        (
            "each in turn",
            "timeout m1(a)=-5.5 m2(b)=1; record name=x; p.timeout !string; p.record !string",
            "found timeout record p.timeout p.record destination p.names",
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
            "stats all timeout destination record quarantine leased retry dead first",
            "OK :0 :0 '' :0 :0 :0 :0 :0 :0 :0 ''",
        ),
        (
            "each in turn",
            "timeout m1(a)=-5.5 m2(b)=1; destination x y z
             p.timeout !string; p.destination !string; p.record !string; record paused_until=-1
             quarantine bad=1; p.quarantine !string; all !string
             leased #1=2000 #2=3000; retry #3=1000; dead #4=5 #5=6; p.leased !string",
            "stats all timeout destination record quarantine leased retry dead first
             p.timeout p.destination p.record p.quarantine p.leased p.retry p.dead p.first
             timeout p.destination names ids p.leased leased dead first",
            "OK :2 :3 -5.5 :1 :1 :2 :2 :2 :1 :2 1000 :-1 :-1 '' :0 :-1 :-1 :-1 :-1 :0 :0 '' \
             :2 :-1 -5.5 :0 :0 :2 :2 :-1 :2 :2 2000",
        ),
        (
            "a pause for a time, one that is over",
            "record paused_until=9000000000000; p.record paused_until=1000",
            "stats all timeout destination record quarantine leased retry dead first
             p.timeout p.destination p.record p.quarantine p.leased p.retry p.dead p.first",
            "OK :0 :0 '' :1 :0 :0 :0 :0 :0 :0 '' :0 :0 '' :0 :0 :0 :0 :0 :0 :0 ''",
        ),
        (
            "all are paused",
            "p.record paused_until=1000; all paused_until=-1",
            "stats all timeout destination record quarantine leased retry dead first
             p.timeout p.destination p.record p.quarantine p.leased p.retry p.dead p.first",
            "OK :0 :0 '' :1 :0 :0 :0 :0 :0 :0 '' :0 :0 '' :1 :0 :0 :0 :0 :0 :0 ''",
        ),
        (
            "what is no time is no pause",
            "record paused_until=soon; p.record paused_until=1e300; all paused_until=nan",
            "stats all timeout destination record quarantine leased retry dead first
             p.timeout p.destination p.record p.quarantine p.leased p.retry p.dead p.first",
            "OK :0 :0 '' :0 :0 :0 :0 :0 :0 :0 '' :0 :0 '' :0 :0 :0 :0 :0 :0 :0 ''",
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
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "everything there",
            "timeout m1(a)=-5.5 m2(b)=1; destination x y z; list m1(a); quarantine bad=1
             record name=$q paused_until=-1 format=legacy; names a=1-01 b=2-02",
            "info",
            "OK :2 :3 -5.5 :1 :1 -1 legacy :-1 :2 redisson :0 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "a destination of another type, a pause that is over",
            "destination !string; record paused_until=1000",
            "info",
            "OK :0 :-1 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "a pause for a time",
            "record paused_until=9000000000000",
            "info",
            "OK :0 :0 '' :0 :0 9000000000000 modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "all are paused, for longer than the queue",
            "record paused_until=9000000000000; all paused_until=9000000000001",
            "info",
            "OK :0 :0 '' :0 :0 9000000000001 modern :-1 :0 redisson :1 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "all are paused, not as long as the queue",
            "record paused_until=-1; all paused_until=9000000000001",
            "info",
            "OK :0 :0 '' :0 :0 -1 modern :-1 :0 redisson :1 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "a rate that holds some back",
            "timeout m1(a)=5 m2(b)=6 m3(c)=7 m4(d)=8 m5(e)=9000000000000; record name=$q \
             settings=\\x20rate:3600/setup\\x20burst:5/setup \
             tokens=1.500000\\x209000000000000.000",
            "info",
            "OK :5 :0 5 :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' \
             \\x20rate:3600/setup\\x20burst:5/setup :3",
        ),
        (
            "as many as it lets go",
            "timeout m1(a)=5; record settings=\\x20rate:3600/setup\\x20burst:5/setup \
             tokens=1.500000\\x209000000000000.000",
            "info",
            "OK :1 :0 5 :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' \
             \\x20rate:3600/setup\\x20burst:5/setup",
        ),
        (
            "a pause holds all",
            "timeout m1(a)=5; record paused_until=-1 settings=\\x20rate:3600/setup \
             tokens=0.500000\\x209000000000000.000",
            "info",
            "OK :1 :0 5 :0 :0 -1 modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' \
             \\x20rate:3600/setup",
        ),
        (
            "a pause of all that is over",
            "all paused_until=1000",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :0 '' ''",
        ),
        (
            "leases, of which two ran out; retries, of which one may be taken; dead ones",
            "leased #1=1000 #2=2000 #3=9000000000000 #4=9000000000001
             retry #5=1 #6=9000000000000; dead #7=1; taken #1=a",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :2 :4 :1 9000000000000 :0 '' ''",
        ),
        (
            "all leases ran out",
            "leased #1=1000; taken #1=a",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :1 :0 '' :0 '' ''",
        ),
        (
            "schedules",
            "crons b=9000000000000 a=inf; cron spec:b=s",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :2 9000000000000 ''",
        ),
        (
            "schedules, all paused",
            "crons a=inf",
            "info",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0 '' :0 :0 :0 '' :1 inf ''",
        ),
        ("another name", "record name={$q}", "info", "BADQUEUE {$q}"),
    ]);
}

/// What cannot be used of the keys is named, and the rest is read.
#[test]
fn info_of_spoiled_keys() {
    for (given, trouble, reads, consumers) in [
        (
            "record paused_until=soon",
            "paused_until in @record is no time",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":0 :0 :0 '' :0 '' ''",
        ),
        (
            "record paused_until=-5",
            "paused_until in @record is no time",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":0 :0 :0 '' :0 '' ''",
        ),
        (
            "record paused_until=nan",
            "paused_until in @record is no time",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":0 :0 :0 '' :0 '' ''",
        ),
        (
            "names !string; quarantine !string; ids !string; timeout m1(a)=5",
            "@names holds another type; @quarantine holds another type; @ids holds another type",
            "OK :1 :0 5 :0 :-1 '' modern :-1 :-1 redisson :0",
            ":0 :0 :0 '' :0 '' ''",
        ),
        (
            "leased #1=1000 #2=9000000000000; retry !string; dead !string",
            "@retry holds another type; @dead holds another type",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":1 :-1 :-1 9000000000000 :0 '' ''",
        ),
        (
            "leased !string; retry #1=5; dead #2=5",
            "@leased holds another type",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":-1 :1 :1 '' :0 '' ''",
        ),
        (
            "crons !string",
            "@crons holds another type",
            "OK :0 :0 '' :0 :0 '' modern :-1 :0 redisson :0",
            ":0 :0 :0 '' :-1 '' ''",
        ),
    ] {
        let mut bench = Bench::new(given);
        let reply = bench.run("info ''");
        let roles = ["record", "names", "quarantine", "ids", "leased", "retry", "dead", "crons"];
        let trouble = roles.iter().fold(trouble.to_owned(), |text, role| {
            text.replace(&format!("@{role}"), &bench.names.key(role))
        });
        assert_eq!(reply, format!("{reads} {} {consumers}", trouble.replace(' ', "_")), "{given}");
    }
}

/// The least time to live of zset and list.
#[test]
fn info_ttl() {
    let mut bench = Bench::new("timeout m1(a)=1; list m1(a)");
    let ttl_ms = |bench: &mut Bench| -> i64 {
        let reply = bench.run("info");
        reply.split(' ').nth(8).unwrap().trim_start_matches(':').parse().unwrap()
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
fn contains() {
    let given = "timeout m1(a)=1 l2(b)=2 m3(a)=2 m4()=2 m5(\\r\\n\\x00)=5.5 bad=6";
    check_reads(&[
        ("nothing there", "", "contains '' '' 0 '' 10 1000 1 a", "OK '' '' :0 '' :0"),
        (
            "one payload, which two carry",
            given,
            "contains '' '' 0 '' 10 1000 1 a",
            "OK '' '' :0 '' :0 :1",
        ),
        (
            "several, of equal ones the first",
            given,
            "contains '' '' 0 '' 10 1000 2 zz 1 b 1 b",
            "OK '' '' :0 '' :0 :2",
        ),
        ("an empty one", given, "contains '' '' 0 '' 10 1000 2 zz 0 ''", "OK '' '' :0 '' :0 :2"),
        (
            "a part of a payload is none",
            given,
            "contains '' '' 0 '' 10 1000 1 \\x00 1 \\n",
            "OK '' '' :0 '' :0",
        ),
        ("a page", given, "contains '' '' 0 '' 1 1000 1 b", "OK (1 '' :0 '' :0"),
        ("the page after it", given, "contains (1 '' 0 '' 1 1000 1 b", "OK 2 \\x08 :2 '' :0 :1"),
        ("by bytes", given, "contains '' '' 0 '' 9 1 1 b", "OK (1 '' :0 '' :0"),
        (
            "exactly to the end",
            given,
            "contains (2 '' 0 '' 2 1000 3 \\r\\n\\x00",
            "OK (6 '' :0 '' :0 :1",
        ),
        ("beyond the end", given, "contains (6 '' 0 '' 2 1000 1 a", "OK '' '' :0 '' :0"),
        (
            "in doubt: the page ends before it",
            "timeout m1(q)=1 m2(xxab)=2",
            "contains '' '' 0 '' 9 1000 1 q 4 ab 4 xb",
            "OK (1 '' :0 '' :2 :1",
        ),
        (
            "the one that is sent whole is not",
            "timeout m1(q)=1 m2(xxab)=2",
            "contains (1 '' 0 '' 9 1000 1 q 4 xxab 4 xb",
            "OK '' '' :0 '' :0 :2",
        ),
        (
            "the size tells",
            "timeout m1(q)=1 m2(xxab)=2",
            "contains '' '' 0 '' 9 1000 5 ab",
            "OK '' '' :0 '' :0",
        ),
    ]);
}

/// Payloads that share their last bytes are told apart, short and long ones together.
#[test]
fn matches_by_tail() {
    let given = "timeout m1(xlong-same-tail)=1 m2(ylong-same-tail)=2 m3(same-tail)=3 m4(tail)=4";
    check_reads(&[
        (
            "long",
            given,
            "contains '' '' 0 '' 9 1000 15 ylong-same-tail 15 zlong-same-tail 9 same-tail",
            "OK '' '' :0 '' :0 :1 :3",
        ),
        (
            "short too",
            given,
            "contains '' '' 0 '' 9 1000 15 ylong-same-tail 4 tail",
            "OK '' '' :0 '' :0 :1 :2",
        ),
    ]);
}
