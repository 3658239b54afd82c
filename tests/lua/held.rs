//! taken.lua, dead.lua, retry.lua, retry_get.lua, release.lua: messages that are leased, wait for a
//! retry or are dead, to look at and to change.

use crate::bench::{Bench, FOREVER_MS, Row, check};
use crate::support::resp::Value;
use crate::take::check_takes;
use std::collections::BTreeSet;

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
