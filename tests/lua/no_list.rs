//! A queue without order list: every script does the same as with one, but for the list; and what
//! stands in its place.

use crate::bench::{Bench, Row, check};
use crate::support::keyspace::{Bytes, Keyspace, Stored};
use crate::support::redis::Redis;

/// What is there but for list and queue hash; a call.
const SAME: [(&str, &str); 28] = [
    ("", "offer q -9000000000000:m1(a)"),
    (
        "timeout m3(a)=1 m1(b)=9000000000000; names k=1-0000000000000003",
        "offer q -9000000000002:m5(b) -9000000000001:m6(c) format=legacy / q -5:m7(d)",
    ),
    ("timeout m1(a)=1000", "offer q -9000000000000:m1(a)"),
    ("timeout m1(a)=1000 m2(b)=2", "offer q -9000000000001:m3(c) name=n"),
    (
        "timeout m1(a)=1000 m2(b)=9000000000000; names n=1000-0000000000000001
         ids 0000000000000001=n",
        "offer q -9000000000001:m3(c) name=n",
    ),
    (
        "timeout m1(a)=1000; names n=1000-0000000000000001; ids 0000000000000001=n",
        "offer q -9000000000001:m3(c) name=n mode=NX",
    ),
    (
        "timeout m1(a)=1000; names n=1000-0000000000000001; ids 0000000000000001=n",
        "offer q -9000000000001:m1(c) name=n mode=XX",
    ),
    (
        "timeout m4(a)=1 l3(b)=2 bad=2 m2(c)=2.5 m1(d)=9000000000000; destination z
         names n=1-0000000000000004; ids 0000000000000004=n",
        "transfer 9 1000",
    ),
    ("timeout m4(a)=1 l3(b)=2 bad=2 m2(c)=2.5", "transfer 2 1000"),
    ("destination !string; timeout m4(a)=1", "transfer 2 1000"),
    ("", "transfer 2 1000"),
    (
        "timeout m1(a)=1000 l2(b)=1000 m3(c)=2000; names n=1000-0000000000000001
         ids 0000000000000001=n",
        "cancel 1000 #2 '' n 5 #3",
    ),
    (
        "timeout m1(a)=1000 l2(b)=1000 m3(c)=2000; names n=1000-0000000000000001
         ids 0000000000000001=n",
        "remove c 1000 1000 #1 2000 #3",
    ),
    (
        "timeout m1(a)=1000; names n=1000-0000000000000001; ids 0000000000000001=n",
        "reschedule '' n -9000000000000",
    ),
    ("timeout m1(a)=1000 m2(b)=5", "fire '' 1000 #1 7 #2"),
    ("timeout m1(a)=1000 m2(b)=5", "get 1000 #1 1000"),
    ("timeout m1(a)=1000 m2(b)=5", "range -inf +inf 10 1000 1000 (5 '' 0 ''"),
    ("timeout m1(a)=1 m2(b)=2", "contains '' '' 0 '' 10 1000 1 b"),
    ("timeout m1(a)=1 m2(b)=2", "remove_pending 1 b 10 10 1000 '' '' 0 ''"),
    ("timeout m1(a)=1 bad=2; destination d; quarantine q=1; names n=1-0000000000000001", "clear"),
    ("timeout m1(a)=1", "pause 0"),
    ("timeout m1(a)=1", "resume"),
    ("timeout m1(a)=1; quarantine m2(b)=5 bad=0 m1(a)=7", "quarantine_restore 10 1000 '' '' 0 ''"),
    ("quarantine bad=0", "quarantine_drop 0 1000 '' '' 0 '' bad"),
    ("timeout m1(a)=1", "stats timeout destination record"),
    ("timeout l1(a)=-5 m2(b)=2000 bad=7", "convert_pending modern '' '' 0 '' 10 1000"),
    ("timeout m1(a)=1; registry $q", "prune"),
    ("timeout m1(a)=1", "configure '' '' 0"),
];

#[test]
fn the_rest_is_as_with_a_list() {
    // Due times that are now differ.
    let now = regex::Regex::new(r"\b1[789]\d{11}\b").unwrap();
    for (given, call) in SAME {
        // Ids in the order of offering, as the broker gives them.
        let mut listed: Vec<&str> = given
            .lines()
            .flat_map(|line| line.split(';'))
            .filter_map(|line| line.trim().strip_prefix("timeout "))
            .flat_map(|pairs| pairs.split(' ').map(|pair| pair.split('=').next().unwrap()))
            .collect();
        listed.sort_unstable_by_key(|member| member.get(1..2));
        let list =
            if listed.is_empty() { String::new() } else { format!("; list {}", listed.join(" ")) };
        let mut with = Bench::new(&format!("{given}; record name=$q{list}"));
        let mut without = Bench::new(&format!("{given}; record name=$q order_list=off"));
        let replies = [with.run(call), without.run(call)];
        let replies = replies.map(|reply| reply.replace(&with.names.queue, &without.names.queue));
        assert_eq!(replies[0], replies[1], "{call}");
        let mut wanted = with.keyspace();
        wanted.remove(&key(&with, "list"));
        let mut found = without.keyspace();
        assert_eq!(found.get(&key(&without, "list")), None, "{call}");
        let hash = found.get_mut(&key(&without, "record"));
        let Some(Stored::Hash(fields)) = hash else {
            panic!("{call}: {hash:?}");
        };
        let recorded = fields.remove(&Bytes(b"order_list".to_vec()));
        assert_eq!(recorded, Some(Bytes(b"off".to_vec())), "{call}");
        let shown = |keyspace: &Keyspace, bench: &Bench| {
            format!("{keyspace:?}").replace(&bench.names.queue, "q")
        };
        let [found, wanted] = [shown(&found, &without), shown(&wanted, &with)];
        assert_eq!(now.replace_all(&found, "now"), now.replace_all(&wanted, "now"), "{call}");
    }
}

fn key(bench: &Bench, role: &str) -> Bytes {
    Bytes(bench.names.key(role).into_bytes())
}

#[test]
fn rows() {
    let rows: &[Row] = &[
        (
            "recorded by the first offer",
            "",
            "offer q -9000000000000:m1(a) order_list=off / q -9000000000001:m2(b)",
            "OK :0 :1",
            "timeout m1(a)=9000000000000 m2(b)=9000000000001; record name=$q order_list=off",
        ),
        (
            "by a named one too, and legacy with it",
            "",
            "offer q -9000000000000:m1(a) name=n order_list=off format=legacy",
            "OK :0 :1",
            "timeout l1(a)=9000000000000; record name=$q order_list=off format=legacy
             names n=9000000000000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "not while messages are pending",
            "timeout m1(a)=1; list m1(a)",
            "offer q -9000000000000:m2(b) order_list=off",
            "OK",
            "timeout m1(a)=1 m2(b)=9000000000000; list m1(a) m2(b); record name=$q",
        ),
        (
            "what is recorded holds whatever the caller thinks",
            "record name=$q order_list=off",
            "offer q -9000000000000:m1(a) order_list=on",
            "OK :0 :1",
            "timeout m1(a)=9000000000000; record name=$q order_list=off",
        ),
        (
            "nothing is recorded where nothing is stored",
            "timeout !string",
            "offer q -9000000000000:m1(a) order_list=off",
            "OK :0 WRONGTYPE_@timeout",
            "timeout !string",
        ),
        (
            "the list's type, which the transfer would stop at",
            "list !string; record name=$q order_list=off",
            "offer q -9000000000000:m1(a)",
            "OK :0 WRONGTYPE_@list",
            "list !string; record name=$q order_list=off",
        ),
        (
            "what Redisson lists goes with the next transfer",
            "timeout m1(a)=1 m2(b)=9000000000000; list m9(x) m2(b); record order_list=off",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0 1 :1",
            "timeout m2(b)=9000000000000; destination a; record order_list=off",
        ),
        (
            "if that moves anything",
            "timeout m2(b)=9000000000000; list m9(x) m2(b); record order_list=off",
            "transfer 9 1000",
            "OK 9000000000000 '' :0 :0 :0 :0",
            "timeout m2(b)=9000000000000; list m9(x) m2(b); record order_list=off",
        ),
        (
            "cancel leaves the list alone",
            "timeout m2(b)=9; list m9(x) m2(b); record order_list=off",
            "cancel 9 #2",
            "OK :1",
            "list m9(x) m2(b); record order_list=off",
        ),
        (
            "and remove",
            "timeout m2(b)=9; list m9(x) m2(b); record order_list=off",
            "remove b 1000 9 #2",
            "OK :1 :1",
            "list m9(x) m2(b); record order_list=off",
        ),
        (
            "poll has another way",
            "timeout m2(b)=9; list m2(b); record order_list=off",
            "poll 1 1000 1000",
            "NOLIST",
            "timeout m2(b)=9; list m2(b); record order_list=off",
        ),
        (
            "and what looks for payloads in the order of offering",
            "timeout m2(b)=9; list m2(b); record order_list=off",
            "remove_listed 1 b 10 10 1000 0 ''",
            "NOLIST",
            "timeout m2(b)=9; list m2(b); record order_list=off",
        ),
        (
            "info",
            "timeout m2(b)=9; record order_list=off",
            "info",
            "OK :1 :0 9 :0 :0 '' modern :-1 :0 zset :0 '' :0 :0 :0 '' :0 '' ''",
            "timeout m2(b)=9; record order_list=off",
        ),
        (
            "the record is kept when the queue is empty",
            "registry $q; record name=$q order_list=off",
            "prune",
            "OK :1",
            "record name=$q order_list=off",
        ),
    ];
    check(rows);
}

#[test]
fn take() {
    let given = "timeout m1(a)=9000 l2(b)=1 m3(c)=2 m4(\\r\\n)=2 bad=2; record order_list=off
         names n=9000-0000000000000001; ids 0000000000000001=n";
    let rows: &[Row] = &[
        ("nothing there", "", "poll_pending 1000 1000 5 #1", "OK :0", ""),
        (
            "in the order that is asked for; names go",
            given,
            "poll_pending 1000 1000 9000 #1 1 #2 2 #4",
            "OK :0 a b \\r\\n",
            "timeout m3(c)=2 bad=2; record order_list=off",
        ),
        (
            "what is gone, named twice, or has another score",
            given,
            "poll_pending 1000 1000 1 #2 1 #2 7 #3 2 #9",
            "OK :0 b",
            "timeout m1(a)=9000 m3(c)=2 m4(\\r\\n)=2 bad=2; record order_list=off
             names n=9000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "as many bytes as allowed",
            given,
            "poll_pending 36 1000 2 #3 1 #2 2 #4",
            "OK :1 c b",
            "timeout m1(a)=9000 m4(\\r\\n)=2 bad=2; record order_list=off
             names n=9000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "what no reply can hold is not taken, and said",
            given,
            "poll_pending 1000 17 2 #3 1 #2",
            "TOOBIG :18 2-0000000000000003 :17",
            given,
        ),
        (
            "it ends a reply before it",
            given,
            "poll_pending 1000 17 1 #2 2 #3",
            "OK :1 b",
            "timeout m1(a)=9000 m3(c)=2 m4(\\r\\n)=2 bad=2; record order_list=off
             names n=9000-0000000000000001; ids 0000000000000001=n",
        ),
        (
            "one, however large",
            given,
            "poll_pending 1 1000 2 #3 1 #2",
            "OK :1 c",
            "timeout m1(a)=9000 l2(b)=1 m4(\\r\\n)=2 bad=2; record order_list=off
             names n=9000-0000000000000001; ids 0000000000000001=n",
        ),
    ];
    check(rows);
}

#[test]
fn first() {
    let given = "timeout m5(a)=1 l4(b)=2 bad=2 m[0102](c)=3 m6(d)=3 m1(e)=9000";
    let rows: &[Row] = &[
        ("nothing there", "", "first '' '' 0 '' 10 1000 ''", "OK '' '' :0 '' :0", ""),
        (
            "scores and ids; unreadable ones have none",
            given,
            "first '' '' 0 '' 10 1000 ''",
            "OK '' '' :0 '' :0 1 #5 2 #4 3 \\x01\\x02 3 #6 9000 #1",
            given,
        ),
        (
            "only what comes before; ids of another length are in no order",
            given,
            "first '' '' 0 '' 10 1000 #5",
            "OK '' '' :0 '' :0 2 #4 3 \\x01\\x02 9000 #1",
            given,
        ),
        (
            "only those with a payload",
            given,
            "first '' '' 0 '' 10 1000 '' 1 d",
            "OK '' '' :0 '' :0 3 #6",
            given,
        ),
        (
            "in doubt",
            "timeout m1(bc)=1 m2(cc)=2",
            "first '' '' 0 '' 10 1000 '' 2 c",
            "OK '' '' 0 '' :1",
            "timeout m1(bc)=1 m2(cc)=2",
        ),
        ("a page", given, "first '' '' 0 '' 2 1000 ''", "OK 2 b :2 '' :0 1 #5 2 #4", given),
        (
            "the page after it",
            given,
            "first 2 b 2 '' 2 1000 ''",
            "OK 3 \\x08 :4 '' :0 3 \\x01\\x02",
            given,
        ),
        (
            "its place is another one now",
            given,
            "first 3 \\x02\\x01\\x01 2 '' 9 1000 ''",
            "OK '' '' :0 '' :0 3 \\x01\\x02 3 #6 9000 #1",
            given,
        ),
        (
            "a page ends early by its bytes",
            given,
            "first '' '' 0 '' 10 1 ''",
            "OK (1 '' :0 '' :0 1 #5",
            given,
        ),
    ];
    check(rows);
}

#[test]
fn configure() {
    let listed = "timeout m1(a)=1 l2(b)=2; list m1(a) l2(b) m9(stale); record name=$q";
    let off = "timeout m1(a)=1 l2(b)=2; record name=$q order_list=off";
    let rows: &[Row] = &[
        (
            "of a new queue",
            "",
            "configure modern off 0",
            "OK DONE :0",
            "record name=$q order_list=off",
        ),
        (
            "what is listed is dropped, what is pending stays",
            listed,
            "configure modern off 0",
            "OK DONE :3",
            off,
        ),
        ("once", off, "configure modern off 0", "OK DONE :0", off),
        (
            "clients of Redisson that come later change nothing",
            off,
            "configure modern off 1",
            "OK DONE :0",
            off,
        ),
        (
            "not while they listen; the rest is recorded",
            listed,
            "configure legacy off 1",
            "OK LISTENERS :0",
            &format!("{listed} format=legacy"),
        ),
        (
            "a member of Redisson",
            "timeout m1(a)=1 m[8182838485868788](b)=1; list m1(a) m[8182838485868788](b)",
            "configure modern off 0",
            "OK OTHERS :0",
            "timeout m1(a)=1 m[8182838485868788](b)=1; list m1(a) m[8182838485868788](b)
             record name=$q",
        ),
        (
            "one of an old Redisson, of today's time as it happens but for a bit",
            "timeout m1(a)=1; list m1(a) l9223372036854775809(b)",
            "configure modern off 0",
            "OK OTHERS :0",
            "timeout m1(a)=1; list m1(a) l9223372036854775809(b); record name=$q",
        ),
        (
            "another length of id",
            "list m[0102](b)",
            "configure modern off 0",
            "OK OTHERS :0",
            "list m[0102](b); record name=$q",
        ),
        (
            "one that nobody can read",
            "list bad",
            "configure modern off 0",
            "OK OTHERS :0",
            "list bad; record name=$q",
        ),
        (
            "what only the zset has is no matter",
            "timeout m[8182838485868788](b)=1",
            "configure modern off 0",
            "OK DONE :0",
            "timeout m[8182838485868788](b)=1; record name=$q order_list=off",
        ),
        ("back, while messages are pending", off, "configure modern on 0", "OK PENDING :0", off),
        (
            "back, when none is; what Redisson listed goes",
            "list m9(x); record name=$q order_list=off format=legacy",
            "configure modern on 0",
            "OK DONE :0",
            "record name=$q",
        ),
        ("a queue that has its list", listed, "configure modern on 1", "OK DONE :0", listed),
        ("whoever says nothing leaves it", off, "configure '' '' 0", "OK DONE :0", off),
    ];
    check(rows);
}

/// Only both ends are looked at: members of others in the middle of a long list are not seen, and
/// are delivered all the same.
#[test]
fn configure_looks_at_both_ends() {
    for (place, outcome) in
        [(0, "OTHERS"), (49, "OTHERS"), (50, "DONE"), (149, "DONE"), (150, "OTHERS")]
    {
        let mut bench = Bench::new("");
        let member = |n| match n == place {
            true => "m[8182838485868788](x)".to_owned(),
            false => format!("m{n}(x)"),
        };
        let members: Vec<String> = (0..200).map(member).collect();
        bench.redis(&format!("RPUSH @list {}", members.join(" ")));
        let reply = bench.run("configure modern off 0");
        assert!(reply.starts_with(&format!("OK {outcome}")), "{place}: {reply}");
        let length = if outcome == "DONE" { 0 } else { 200 };
        assert_eq!(bench.redis("LLEN @list").int(), length, "{place}");
    }
}

/// An id of today is ours, one of the day after tomorrow is not.
#[test]
fn configure_knows_our_ids_by_their_time() {
    for (days, outcome) in [(-900, "DONE"), (0, "DONE"), (2, "OTHERS")] {
        let mut bench = Bench::new("");
        bench.run("configure '' '' 0");
        let ms = bench.now_us / 1_000 - 1_704_067_200_000 + days * 86_400_000;
        let id = (ms as u64) << 22 | 0x003f_ffff;
        assert!(
            delay_broker::domain::snowflake::may_be(id, bench.now_us as u64 / 1_000)
                == (outcome == "DONE")
        );
        bench.redis(&format!("RPUSH @list m{id}(x)"));
        let reply = bench.run("configure modern off 0");
        assert!(reply.starts_with(&format!("OK {outcome}")), "{days}: {reply}");
    }
}

/// Out of memory nothing is written, as ZADD is the first write; what takes out goes on.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    let given = "timeout m1(a)=1000; record name=$q order_list=off";
    let mut bench = Bench::on(&redis, given);
    bench.redis("CONFIG SET maxmemory 1");
    for call in [
        "offer q -9000000000000:m2(b)",
        "offer q -9000000000000:m2(b) -9000000000000:m3(b)",
        "offer q -9000000000000:m2(b) name=n",
    ] {
        let reply = bench.run(call);
        assert!(reply.starts_with("OK :0 OOM_command_not_allowed"), "{call}: {reply}");
        bench.then(given, call);
    }
    let reply = bench.run("offer p -9000000000000:m3(b) order_list=off");
    assert!(reply.starts_with("OK :0 OOM_command_not_allowed"), "{reply}");
    bench.then(given, "a new queue");
    assert_eq!(bench.run("settle 1"), "NOT");
    bench.number += 1;
    bench.returns("poll_pending 1000 1000 1000 #1", "OK :0 a");
    bench.then("record name=$q order_list=off", "taken");
}

/// 2,500 messages take several chunks of ZADD.
#[test]
fn large_groups() {
    let mut bench = Bench::new("");
    let call: Vec<String> =
        (0..2500).map(|id| format!("-{}:m{id}(x{id})", 9_000_000_000_000_u64 + id % 7)).collect();
    bench.returns(&format!("offer q {} order_list=off", call.join(" ")), "OK :0 :1");
    assert_eq!(bench.redis("ZCARD @timeout").int(), 2500);
    assert_eq!(bench.redis("EXISTS @list").int(), 0);
}
