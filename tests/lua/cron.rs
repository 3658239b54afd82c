//! cron_set.lua, cron_stop.lua, cron_read.lua, cron_heads.lua, cron.lua: schedules, and the offers
//! of their occurrences.

use crate::bench::{Bench, Row, check};
use crate::support::redis::Redis;
use crate::support::resp::Value;

#[test]
fn set() {
    let rows: &[Row] = &[
        (
            "the first one, and the name is claimed",
            "",
            "cron_set n s p 700 600 1",
            "OK 700",
            "crons n=700; cron spec:n=s payload:n=p last:n=600; record name=$q",
        ),
        (
            "exactly the limit, and what is recorded stays",
            "crons a=inf; record name=$q format=legacy",
            "cron_set n s p 700 600 2",
            "OK 700",
            "crons a=inf n=700; cron spec:n=s payload:n=p last:n=600
             record name=$q format=legacy",
        ),
        ("one more", "crons a=5", "cron_set n s p 700 600 1", "FULL", "crons a=5"),
        (
            "one that is there, at the limit",
            "crons n=5; cron spec:n=x payload:n=y last:n=4",
            "cron_set n s p 700 600 1",
            "OK 5",
            "crons n=5; cron spec:n=s payload:n=p last:n=600; record name=$q",
        ),
        (
            "other moments",
            "crons n=5; cron spec:n={\"expr\":\"a\",\"tz\":\"b\"} payload:n=y last:n=4",
            "cron_set n {\"expr\":\"a\",\"tz\":\"c\"} p 700 600 1",
            "OK 700",
            "crons n=700; cron spec:n={\"expr\":\"a\",\"tz\":\"c\"} payload:n=p last:n=600
             record name=$q",
        ),
        (
            "the same moments: what was missed stays so",
            "crons n=5; cron spec:n={\"expr\":\"a\",\"tz\":\"b\",\"x\":1} payload:n=y last:n=4",
            "cron_set n {\"x\":2,\"tz\":\"b\",\"expr\":\"a\"} p 700 600 1",
            "OK 5",
            "crons n=5; cron spec:n={\"x\":2,\"tz\":\"b\",\"expr\":\"a\"} payload:n=p last:n=600
             record name=$q",
        ),
        (
            "of one that was damaged",
            "crons n=5; cron spec:n={\"expr\" last:n=4",
            "cron_set n {\"expr\":\"a\"} p 700 600 1",
            "OK 700",
            "crons n=700; cron spec:n={\"expr\":\"a\"} payload:n=p last:n=600; record name=$q",
        ),
        (
            "a paused one stays so",
            "crons n=inf; cron spec:n={\"expr\":\"a\"} payload:n=y last:n=4",
            "cron_set n {\"expr\":\"b\"} p 700 600 1",
            "OK inf",
            "crons n=inf; cron spec:n={\"expr\":\"b\"} payload:n=p last:n=600; record name=$q",
        ),
        (
            "any bytes, and none",
            "",
            "cron_set \\x00\\r\\n s '' 700 600 9",
            "OK 700",
            "crons \\x00\\r\\n=700; record name=$q
             cron spec:\\x00\\r\\n=s payload:\\x00\\r\\n='' last:\\x00\\r\\n=600",
        ),
    ];
    check(rows);
}

#[test]
fn stop() {
    let given = "crons n=5 m=6; cron spec:n=s payload:n=p last:n=4 spec:m=s payload:m=p last:m=4";
    let deleted = "crons m=6; cron spec:m=s payload:m=p last:m=4";
    let paused =
        "crons n=inf m=6; cron spec:n=s payload:n=p last:n=4 spec:m=s payload:m=p last:m=4";
    check(&[
        ("nothing there", "", "cron_stop n DEL", "OK :0", ""),
        ("nothing there to pause", "", "cron_stop n PAUSE", "OK :0", ""),
        ("one of two", given, "cron_stop n DEL", "OK :1", deleted),
        ("a name that there is not", given, "cron_stop x DEL", "OK :0", given),
        ("paused", given, "cron_stop n PAUSE", "OK :1", paused),
        ("paused already", paused, "cron_stop n PAUSE", "OK :0", paused),
        ("a paused one", paused, "cron_stop n DEL", "OK :1", deleted),
        ("the rest of one", "cron payload:n=p", "cron_stop n DEL", "OK :1", ""),
        ("the place of one", "crons n=5", "cron_stop n DEL", "OK :1", ""),
    ]);
}

#[test]
fn read() {
    let given = "crons a=5 b=9000000000000 c=inf; cron spec:a=s payload:a=pp last:a=4 spec:b=t
                 payload:b='' last:b=4 spec:c=u payload:c=p";
    let given = given.replace('\n', " ");
    let long = "x".repeat(2_049);
    let damaged = format!("crons a=5; cron spec:a={long} payload:a=p last:a=x");
    let rows: &[Row] = &[
        ("nothing there", "", "cron_read DUE 10", "OK ''", ""),
        ("no names", "", "cron_read NAMES 10", "OK ''", ""),
        ("a name that there is not", "", "cron_read THESE 1 a", "OK ''", ""),
        ("due", &given, "cron_read DUE 10", "OK 5 a 5 s 4 :2", &given),
        ("names", &given, "cron_read NAMES 10", "OK 5 a b c", &given),
        ("fewer names", &given, "cron_read NAMES 2", "OK 5 a b", &given),
        (
            "by name, in their order",
            &given,
            "cron_read THESE 3 c x b",
            "OK 5 c inf u '' :1 b 9000000000000 t 4 :0",
            &given,
        ),
        ("all are paused", "crons a=inf", "cron_read DUE 10", "OK inf", "crons a=inf"),
        (
            "exactly as many as are wanted, the first ones",
            "crons a=3 b=2 c=1",
            "cron_read DUE 2",
            "OK 1 c 1 '' '' :0 b 2 '' '' :0",
            "crons a=3 b=2 c=1",
        ),
        (
            "no payload",
            "crons a=5; cron spec:a=s",
            "cron_read DUE 9",
            "OK 5 a 5 '' '' :0",
            "crons a=5; cron spec:a=s",
        ),
        ("too long to be one", &damaged, "cron_read DUE 9", "OK 5 a 5 '' x :0", &damaged),
        (
            "scores of others",
            "crons a=-1.5",
            "cron_read DUE 9",
            "OK -1.5 a -1.5 '' '' :0",
            "crons a=-1.5",
        ),
    ];
    check(rows);
}

#[test]
fn heads() {
    let two = "cron_heads crons record p.crons p.record";
    check(&[
        ("nothing there", "", two, "OK '' '' '' ''", ""),
        (
            "two queues",
            "crons a=5 b=6; record name=$q; p.crons a=inf",
            two,
            "OK $q 5 '' inf",
            "crons a=5 b=6; record name=$q; p.crons a=inf",
        ),
        (
            "other types",
            "crons !string; record !string; p.crons a=7",
            two,
            "OK '' WRONGTYPE '' 7",
            "crons !string; record !string; p.crons a=7",
        ),
    ]);
}

/// Occurrences are due at their own moments, in the form of any other message.
#[test]
fn occurrences() {
    let one = "crons n=1000; cron spec:n=s payload:n=p last:n=4; record name=$q";
    let rows: &[Row] = &[
        (
            "one, which may overlap",
            one,
            "cron n s 1000 2000 1000 0 1 #1 1000",
            "OK 2000 1000 :1 ''",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000; record name=$q
             timeout m1(p)=1000; list m1(p)",
        ),
        (
            "one, which may not",
            one,
            "cron n s 1000 2000 1000 1 1 #1 1000",
            "OK 2000 1000 :1 ''",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000; record name=$q
             timeout m1(p)=1000; list m1(p); names cron:n=1000-0000000000000001
             ids 0000000000000001=cron:n",
        ),
        (
            "the one before is pending",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000; timeout m1(p)=1000; list m1(p)
             names cron:n=1000-0000000000000001; ids 0000000000000001=cron:n; record name=$q",
            "cron n s 2000 3000 2000 1 1 #2 2000",
            "OK 3000 '' :0 ''",
            "crons n=3000; cron spec:n=s payload:n=p last:n=2000; timeout m1(p)=1000; list m1(p)
             names cron:n=1000-0000000000000001; ids 0000000000000001=cron:n; record name=$q",
        ),
        (
            "it is pending, and overlap is allowed",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000; timeout m1(p)=1000; list m1(p)
             record name=$q",
            "cron n s 2000 3000 '' 0 1 #2 2000",
            "OK 3000 '' :1 ''",
            "crons n=3000; cron spec:n=s payload:n=p last:n=1000; timeout m1(p)=1000 m2(p)=2000
             list m1(p) m2(p); record name=$q",
        ),
        (
            "several that were missed",
            one,
            "cron n s 1000 4000 3000 0 3 #1 1000 #2 2000 #3 3000",
            "OK 4000 1000 :3 ''",
            "crons n=4000; cron spec:n=s payload:n=p last:n=3000; record name=$q
             timeout m1(p)=1000 m2(p)=2000 m3(p)=3000; list m1(p) m2(p) m3(p)",
        ),
        (
            "none: only the next moment, or a pause",
            one,
            "cron n s 1000 inf '' 0 0",
            "OK inf '' :0 ''",
            "crons n=inf; cron spec:n=s payload:n=p last:n=4; record name=$q",
        ),
        (
            "another broker was first",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000",
            "cron n s 1000 2000 1000 0 1 #1 1000",
            "OK 2000 '' :0 STALE",
            "crons n=2000; cron spec:n=s payload:n=p last:n=1000",
        ),
        (
            "it was set to something else meanwhile",
            "crons n=1000; cron spec:n=t payload:n=p last:n=4",
            "cron n s 1000 2000 1000 0 1 #1 1000",
            "OK 1000 '' :0 STALE",
            "crons n=1000; cron spec:n=t payload:n=p last:n=4",
        ),
        ("it was deleted", "", "cron n s 1000 2000 1000 0 1 #1 1000", "OK '' '' :0 STALE", ""),
        (
            "two schedules, one of them stale",
            "crons n=1000 m=900; cron spec:n=s payload:n=p spec:m=t payload:m=q; record name=$q",
            "cron m t 800 2000 '' 0 1 #1 800 n s 1000 2000 '' 0 1 #2 1000",
            "OK 900 1000 :0 STALE :1 ''",
            "crons n=2000 m=900; cron spec:n=s payload:n=p spec:m=t payload:m=q; record name=$q
             timeout m2(p)=1000; list m2(p)",
        ),
        (
            "what cannot be used is paused",
            "crons n=-inf; cron spec:n=s",
            "cron n '' -inf inf '' 0 0",
            "OK inf '' :0 ''",
            "crons n=inf; cron spec:n=s",
        ),
        (
            "behind an earlier head",
            "crons n=1000; cron spec:n=s payload:n=p; record name=$q; timeout m1(a)=5; list m1(a)",
            "cron n s 1000 2000 '' 0 1 #2 1000",
            "OK 2000 '' :1 ''",
            "crons n=2000; cron spec:n=s payload:n=p; record name=$q; timeout m1(a)=5 m2(p)=1000
             list m1(a) m2(p)",
        ),
        (
            "of a legacy queue",
            "crons n=1000; cron spec:n=s payload:n=p; record name=$q format=legacy",
            "cron n s 1000 2000 '' 1 1 #1 1000",
            "OK 2000 1000 :1 ''",
            "crons n=2000; cron spec:n=s payload:n=p; record name=$q format=legacy
             timeout l1(p)=1000; list l1(p); names cron:n=1000-0000000000000001
             ids 0000000000000001=cron:n",
        ),
        (
            "without an order list",
            "crons n=1000; cron spec:n=s payload:n=p; record name=$q order_list=off",
            "cron n s 1000 2000 '' 0 1 #1 1000",
            "OK 2000 1000 :1 ''",
            "crons n=2000; cron spec:n=s payload:n=p; record name=$q order_list=off
             timeout m1(p)=1000",
        ),
        (
            "nothing recorded: the name is claimed",
            "crons \\x00=1000; cron spec:\\x00=s payload:\\x00=''",
            "cron \\x00 s 1000 2000 '' 0 1 #1 1000",
            "OK 2000 1000 :1 ''",
            "crons \\x00=2000; cron spec:\\x00=s payload:\\x00=''; record name=$q
             timeout m1()=1000; list m1()",
        ),
        (
            "an id that is taken: it waits for that occurrence",
            "crons n=1000; cron spec:n=s payload:n=p last:n=4; record name=$q
             timeout m2(p)=5; list m2(p)",
            "cron n s 1000 4000 3000 0 3 #1 1000 #2 2000 #3 3000",
            "OK 2000 '' :1 CLASH",
            "crons n=2000; cron spec:n=s payload:n=p last:n=4; record name=$q
             timeout m1(p)=1000 m2(p)=5; list m2(p) m1(p)",
        ),
    ];
    check(rows);
}

/// At Redis's limit of memory nothing is set and nothing offered, and nothing is half done; what
/// frees memory goes on.
#[test]
fn out_of_memory() {
    let redis = Redis::spawn(&[]);
    let given = "crons n=1000 m=900; cron spec:n=s payload:n=p last:n=4; record name=$q";
    for (call, reply, then) in [
        ("cron_set x s p 5 5 9", "OOM", given),
        ("cron n s 1000 2000 1000 0 1 #1 1000", "OOM", given),
        ("cron n s 1000 2000 1000 1 1 #1 1000", "OOM", given),
        (
            "cron_stop n PAUSE",
            ":1",
            "crons n=inf m=900; cron spec:n=s payload:n=p last:n=4; record name=$q",
        ),
        ("cron_stop n DEL", ":1", "crons m=900; record name=$q"),
    ] {
        let mut bench = Bench::on(&redis, given);
        bench.client.call(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let found = bench.run(call);
        bench.client.call(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        assert!(found.contains(reply), "{call}: {found}");
        bench.then(then, call);
    }
}

/// An occurrence that becomes the head is published, as each offer is.
#[test]
fn publishes() {
    let mut bench = Bench::new("crons n=1000; cron spec:n=s payload:n=p; record name=$q");
    let channel = bench.names.key("guard");
    let mut other = crate::support::redis::shared().client(0);
    other.send(&["SUBSCRIBE", &channel]).unwrap();
    other.read().unwrap();
    bench.returns("cron n s 1000 2000 '' 0 1 #1 1000", "OK 2000 1000 :1 ''");
    let heard = other.read().unwrap();
    assert_eq!(heard.elements().last(), Some(&Value::Bulk(b"1000".to_vec())));
}
