//! convert_listed.lua and convert_pending.lua: members in the other format, in their places.

use crate::bench::{Bench, Row, check};
use crate::support::redis::shared;

#[test]
fn listed() {
    let mixed = "timeout l1(a)=-5 m2(b)=2000 l3(\\r\\n\\x00)=2000.5 bad=7 l[0700000000000001]()=inf
         list l3(\\r\\n\\x00) bad l[0700000000000001]() l1(a) m2(b)";
    let modern =
        "timeout m1(a)=-5 m2(b)=2000 m3(\\r\\n\\x00)=2000.5 bad=7 m[0700000000000001]()=inf
         list m3(\\r\\n\\x00) bad m[0700000000000001]() m1(a) m2(b)";
    let recorded = "; record name=$q format=legacy";
    let with = |keys: &str| format!("{keys}{recorded}");
    let rows: &[Row] = &[
        ("nothing there", "", "convert_listed '' 0 10 10 1000", "OK :-1 :0", ""),
        ("to modern", mixed, "convert_listed modern 0 10 10 1000", "OK :-1 :3", modern),
        ("no format is modern", mixed, "convert_listed '' 0 10 10 1000", "OK :-1 :3", modern),
        ("all are", modern, "convert_listed modern 0 10 10 1000", "OK :-1 :0", modern),
        (
            "that of the queue",
            &with("timeout m1(a)=5 l2(b)=6; list m1(a) l2(b)"),
            "convert_listed '' 0 10 10 1000",
            "OK :-1 :1",
            &with("timeout l1(a)=5 l2(b)=6; list l1(a) l2(b)"),
        ),
        (
            "another than that of the queue",
            &with("timeout l1(a)=5; list l1(a)"),
            "convert_listed modern 0 10 10 1000",
            "OK :-1 :1",
            &with("timeout m1(a)=5; list m1(a)"),
        ),
        (
            "names follow the id, which stays",
            "timeout l1(a)=5; list l1(a); names n=5-0000000000000001; ids 0000000000000001=n",
            "convert_listed modern 0 10 10 1000",
            "OK :-1 :1",
            "timeout m1(a)=5; list m1(a); names n=5-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "legacy holds ids of 8 bytes only",
            "timeout m[01](a)=5 m[](b)=6 m4(c)=7; list m[01](a) m[](b) m4(c)",
            "convert_listed legacy 0 10 10 1000",
            "OK :-1 :1",
            "timeout m[01](a)=5 m[](b)=6 l4(c)=7; list m[01](a) m[](b) l4(c)",
        ),
        (
            "what would be read as another message",
            "timeout m[08a1a2a3a4a5a6a7](\\x00)=5; list m[08a1a2a3a4a5a6a7](\\x00)",
            "convert_listed legacy 0 10 10 1000",
            "OK :-1 :0",
            "timeout m[08a1a2a3a4a5a6a7](\\x00)=5; list m[08a1a2a3a4a5a6a7](\\x00)",
        ),
        (
            "stale entries stay stale",
            "timeout l2(b)=5; list l1(a) l2(b)",
            "convert_listed modern 0 10 10 1000",
            "OK :-1 :1",
            "timeout m2(b)=5; list l1(a) m2(b)",
        ),
        (
            "pending in both formats",
            "timeout l1(a)=5 m1(a)=6; list l1(a) m1(a)",
            "convert_listed modern 0 10 10 1000",
            "OK :-1 :0",
            "timeout l1(a)=5 m1(a)=6; list l1(a) m1(a)",
        ),
        (
            "a page ends after so many rewritten",
            "timeout l1(a)=5 m2(b)=6 l3(c)=7; list l1(a) m2(b) l3(c)",
            "convert_listed modern 0 10 1 1000",
            "OK :1 :1",
            "timeout m1(a)=5 m2(b)=6 l3(c)=7; list m1(a) m2(b) l3(c)",
        ),
        (
            "after so many looked at",
            "timeout l1(a)=5 l2(b)=6 l3(c)=7; list l1(a) l2(b) l3(c)",
            "convert_listed modern 1 1 10 1000",
            "OK :2 :1",
            "timeout l1(a)=5 m2(b)=6 l3(c)=7; list l1(a) m2(b) l3(c)",
        ),
        (
            "after so many bytes, one at least",
            "timeout l1(a)=5 l2(b)=6 l3(c)=7; list l1(a) l2(b) l3(c)",
            "convert_listed modern 0 10 10 1",
            "OK :1 :1",
            "timeout m1(a)=5 l2(b)=6 l3(c)=7; list m1(a) l2(b) l3(c)",
        ),
        (
            "behind the end",
            "timeout l1(a)=5; list l1(a)",
            "convert_listed modern 9 10 10 1000",
            "OK :-1 :0",
            "timeout l1(a)=5; list l1(a)",
        ),
    ];
    check(rows);
}

#[test]
fn pending() {
    let rows: &[Row] = &[
        ("nothing there", "", "convert_pending '' '' '' 0 '' 10 1000", "OK :0 :0 '' '' :0 ''", ""),
        (
            "not listed",
            "timeout l1(a)=5",
            "convert_pending modern '' '' 0 '' 10 1000",
            "OK :1 :0 '' '' :0 ''",
            "timeout m1(a)=5",
        ),
        (
            "listed after all: in its place",
            "timeout l1(a)=5; list m3(c) l1(a) m2(b)",
            "convert_pending modern '' '' 0 '' 10 1000",
            "OK :1 :0 '' '' :0 ''",
            "timeout m1(a)=5; list m3(c) m1(a) m2(b)",
        ),
        (
            "what stays is counted: unreadable, another length of the id, pending in both formats",
            "timeout bad=1 m[01](a)=2 l2(b)=3 m3(c)=4 l3(c)=5 m1()=inf
             record name=$q format=legacy",
            "convert_pending legacy '' '' 0 '' 10 1000",
            "OK :1 :3 '' '' :0 ''",
            "timeout bad=1 m[01](a)=2 l2(b)=3 m3(c)=4 l3(c)=5 l1()=inf
             record name=$q format=legacy",
        ),
        (
            "behind one that has gone, among equal scores",
            "timeout l1(a)=5 m2(b)=5 l3(c)=6",
            "convert_pending modern 5 \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01 0 '' 10 1000",
            "OK :2 :0 '' '' :0 ''",
            "timeout m1(a)=5 m2(b)=5 m3(c)=6",
        ),
        (
            "a page is fixed before what it rewrote moves",
            "timeout l1(a)=5 l2(b)=5 l3(c)=6",
            "convert_pending modern '' '' 0 '' 1 1000",
            "OK :1 :0 5 \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02 :1 ''",
            "timeout m1(a)=5 l2(b)=5 l3(c)=6",
        ),
        (
            "and found again after it",
            "timeout m1(a)=5 l2(b)=5 l3(c)=6",
            "convert_pending modern 5 \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02 1 '' 1 1000",
            "OK :1 :0 5 \\x08 :1 ''",
            "timeout m1(a)=5 m2(b)=5 l3(c)=6",
        ),
        (
            "after so many looked at",
            "timeout m1(a)=5 m2(b)=6",
            "convert_pending modern '' '' 0 '' 1 1000",
            "OK :0 :0 (5 '' :0 ''",
            "timeout m1(a)=5 m2(b)=6",
        ),
        (
            "after so many bytes, one at least",
            "timeout m1(a)=5 m2(b)=6",
            "convert_pending modern '' '' 0 '' 10 1",
            "OK :0 :0 (5 '' :0 ''",
            "timeout m1(a)=5 m2(b)=6",
        ),
    ];
    check(rows);
}

/// Pages of both scripts, one after the other, rewrite all, whatever the order of the list; a large
/// member is a page of its own.
#[test]
fn page_by_page() {
    let large = "x".repeat(5_000);
    let members = |kind: &str| -> Vec<String> {
        let small = (0..600).map(|n| format!("{kind}{n}(p{n})"));
        small.chain([format!("{kind}600({large})")]).collect()
    };
    let keyspace = |kind: &str| {
        let members = members(kind);
        let due: Vec<_> = members.iter().map(|member| format!("{member}=7")).collect();
        // Every third is not listed.
        let listed = members.iter().enumerate().filter(|(n, _)| n % 3 > 0);
        let listed: Vec<_> = listed.map(|(_, member)| member.as_str()).rev().collect();
        format!("timeout {}; list {}", due.join(" "), listed.join(" "))
    };
    let mut bench = Bench::new(&keyspace("l"));
    let (mut index, mut converted) = (0, 0);
    while index >= 0 {
        let reply = bench.run(&format!("convert_listed modern {index} 50 20 2000"));
        bench.number += 1;
        let words: Vec<&str> = reply.split(' ').collect();
        index = words[1][1..].parse::<i64>().unwrap();
        converted += words[2][1..].parse::<u64>().unwrap();
    }
    assert_eq!(converted, 400);
    let (mut cursor, mut pages) = ("'' '' 0 ''".to_owned(), 0);
    loop {
        let reply = bench.run(&format!("convert_pending modern {cursor} 50 2000"));
        bench.number += 1;
        let words: Vec<&str> = reply.split(' ').collect();
        converted += words[1][1..].parse::<u64>().unwrap();
        assert_eq!(words[2], ":0", "{reply}");
        pages += 1;
        if words[3] == "''" {
            break;
        }
        cursor = format!("{} {} {} ''", words[3], words[4], &words[5][1..]);
    }
    assert_eq!(converted, 601);
    assert!(pages > 5, "{pages}");
    bench.then(&keyspace("m"), "converted");
}

/// The head is the same message as before, at the same time: nobody is woken.
#[test]
fn publishes_nothing() {
    let mut bench = Bench::new("timeout l1(a)=9000000000000 l2(b)=9000000000001; list l1(a)");
    let channel = format!("redisson_delay_queue_channel:{{{}}}", bench.names.queue);
    let mut subscriber = shared().client(0);
    subscriber.call(&["SUBSCRIBE", &channel]).unwrap();
    bench.returns("convert_listed modern 0 10 10 1000", "OK :-1 :1");
    bench.returns("convert_pending modern '' '' 0 '' 10 1000", "OK :1 :0 '' '' :0 ''");
    bench.client.call(&["PUBLISH", &channel, "end"]).unwrap();
    let heard = subscriber.read().unwrap().texts();
    assert_eq!(heard, ["message", &channel, "end"]);
}
