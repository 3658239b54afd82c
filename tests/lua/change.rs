//! reschedule.lua, fire.lua, pause.lua, resume.lua, pause_all.lua, configure.lua, prune.lua:
//! what changes a queue and adds or takes no message.

use crate::bench::{Bench, Row, check};
use crate::support::redis::{Redis, shared};

#[test]
fn reschedule() {
    let rows: &[Row] = &[
        ("nothing there", "", "reschedule 1000 #1 -9000000000000", "OK '' '' :0", ""),
        (
            "one, later: still the head",
            "timeout m1(a)=1000; list m1(a)",
            "reschedule 1000 #1 -9000000000000",
            "OK 9000000000000 #1 :1",
            "timeout m1(a)=9000000000000; list m1(a)",
        ),
        (
            "earlier and now the head; the list stays",
            "timeout m1(a)=9000000000000 l2(b)=9000000000001; list m1(a) l2(b)",
            "reschedule 9000000000001 #2 -8999999999999",
            "OK 8999999999999 #2 :1",
            "timeout l2(b)=8999999999999 m1(a)=9000000000000; list m1(a) l2(b)",
        ),
        (
            "no longer the head",
            "timeout m1(a)=9000000000000 m2(b)=9000000000001; list m1(a) m2(b)",
            "reschedule 9000000000000 #1 -9000000000002",
            "OK 9000000000002 #1 :0",
            "timeout m2(b)=9000000000001 m1(a)=9000000000002; list m1(a) m2(b)",
        ),
        (
            "among those that have left the list, where it stands: these are forgotten",
            "timeout m1(a)=9000000000002; list m1(a); record name=$q unlisted_until=9000000000001",
            "reschedule 9000000000002 #1 -9000000000000",
            "OK 9000000000000 #1 :1",
            "timeout m1(a)=9000000000000; list m1(a); record name=$q",
        ),
        (
            "by name, which stays; not listed",
            "timeout m1(a)=1000; names n=1000-0000000000000001; ids 0000000000000001=n",
            "reschedule '' n -9000000000000",
            "OK 9000000000000 #1 :1",
            "timeout m1(a)=9000000000000; names n=9000000000000-0000000000000001
             ids 0000000000000001=n",
        ),
        (
            "by id, and the name follows",
            "timeout m1(a)=1000; names n=1000-0000000000000001; ids 0000000000000001=n",
            "reschedule 1000 #1 -9000000000000",
            "OK 9000000000000 #1 :1",
            "timeout m1(a)=9000000000000; names n=9000000000000-0000000000000001
             ids 0000000000000001=n",
        ),
        (
            "a foreign score",
            "timeout m1(\\r\\n\\x00)=-5.5",
            "reschedule -5.5 #1 -9000000000000",
            "OK 9000000000000 #1 :1",
            "timeout m1(\\r\\n\\x00)=9000000000000",
        ),
    ];
    check(rows);
}

/// Delays count from Redis's time as those of offers do.
#[test]
fn reschedule_relative() {
    let mut bench = Bench::new("timeout m1(a)=9000000000000");
    let mut score = "9000000000000".to_owned();
    for (delay, from_now_ms) in [("60000", 60_000), ("0", 0), ("-1", 0)] {
        let reply = bench.run(&format!("reschedule {score} #1 {delay}"));
        bench.number += 1;
        score = ((bench.now_us + 999) / 1000 + from_now_ms).to_string();
        let expected = format!("OK {score} #1 :1");
        assert_eq!(reply, bench.names.normal(&expected));
        assert_eq!(bench.redis("ZSCORE @timeout m1(a)").text(), score);
    }
}

#[test]
fn fire() {
    let rows: &[Row] = &[
        ("nothing there", "", "fire '' 1000 #1 '' n", "OK :0 :0", ""),
        (
            "due already: counted, unchanged, not published",
            "timeout m1(a)=1000 m2(b)=-5; list m1(a) m2(b)",
            "fire '' 1000 #1 -5 #2 1000 #1",
            "OK :2 :0",
            "timeout m2(b)=-5 m1(a)=1000; list m1(a) m2(b)",
        ),
        (
            "another score",
            "timeout m1(a)=9000000000000; list m1(a)",
            "fire '' 9000000000001 #1",
            "OK :0 :0",
            "timeout m1(a)=9000000000000; list m1(a)",
        ),
    ];
    check(rows);
}

/// At a moment all are due then, earlier or later; those that are due then already count.
#[test]
fn fire_at() {
    let given = "timeout m1(a)=1000 m2(b)=9000000000000 m3(c)=8000000000000
         list m1(a) m2(b) m3(c)
         names n=9000000000000-0000000000000002; ids 0000000000000002=n";
    let mut bench = Bench::new(given);
    bench.returns("fire 8000000000000 1000 #1 '' n 8000000000000 #3", "OK :3 :1");
    let named = "8000000000000-0000000000000002";
    let moved = format!(
        "timeout m1(a)=8000000000000 m2(b)=8000000000000 m3(c)=8000000000000
         list m1(a) m2(b) m3(c); names n={named}; ids 0000000000000002=n"
    );
    bench.then(&moved, "moved");
}

/// By its whole bytes and its score a member is found that shares its id with another one, and none
/// that was changed.
#[test]
fn whole_members() {
    let given = "timeout m1(a)=9000000000000 m1(b)=9000000000000 m2(c)=inf m3(d)=9000000000000.5
         list m1(a) m1(b) m2(c) m3(d)";
    check(&[
        (
            "cancel",
            given,
            "cancel =9000000000000 m1(b) =inf m2(c) =9000000000000 m3(d) =9000000000000 m4(e)",
            "OK :2",
            "timeout m1(a)=9000000000000 m3(d)=9000000000000.5; list m1(a) m3(d)",
        ),
        (
            "fire, a score in another notation",
            given,
            "fire 9000000000001 =9e12 m1(b) =9000000000000 m2(c)",
            "OK :1 :0",
            "timeout m1(a)=9000000000000 m3(d)=9000000000000.5 m1(b)=9000000000001 m2(c)=inf
             list m1(a) m1(b) m2(c) m3(d)",
        ),
    ]);
}

/// Members that had left a long order list are looked for in it, but not many in one call.
#[test]
fn fire_at_lists_again() {
    const FILL: &str = "for id = 1, 250000 do redis.call('RPUSH', KEYS[1], id) end";
    let mut bench = Bench::new(
        "timeout m1(a)=1000 m2(b)=1000 m3(c)=1000 m4(d)=1000 m5(e)=1000
         record name=$q unlisted_until=2000",
    );
    let list = bench.names.key("list");
    bench.client.call(&["EVAL", FILL, "1", &list]).unwrap();
    let five = "1000 #1 1000 #2 1000 #3 1000 #4 1000 #5";
    bench.returns(&format!("fire 9000000000000 {five}"), "OK :3 :0 :3");
    assert_eq!(bench.redis("LLEN @list").int(), 250_003);
    bench.returns(&format!("fire 9000000000000 {five}"), "OK :2 :0");
    assert_eq!(bench.redis("LLEN @list").int(), 250_005);
}

/// Fired messages are due in the very next call, with their names.
#[test]
fn fire_now() {
    let mut bench = Bench::new(
        "timeout m1(a)=9000000000000 m2(b)=9000000000000 m3(c)=inf m4(d)=9000000000001
         list m1(a) m2(b) m3(c) m4(d)
         names n=9000000000000-0000000000000002; ids 0000000000000002=n
         record name=$q unlisted_until=8000000000000",
    );
    bench.returns("fire '' '' n inf #3 9000000000000 #2", "OK :2 :1");
    let now_ms = bench.now_us / 1000;
    let named = format!("{now_ms}-0000000000000002");
    bench.then(
        &format!(
            "timeout m2(b)={now_ms} m3(c)={now_ms} m1(a)=9000000000000 m4(d)=9000000000001
             list m1(a) m2(b) m3(c) m4(d); names n={named}; ids 0000000000000002=n
             record name=$q"
        ),
        "fired",
    );
    bench.returns("transfer 9 1000", &format!("OK 9000000000000 '' :0 :0 :0 :0 {now_ms} :2"));
    bench.returns("fire '' 9000000000000 #1", "OK :1 :1");
    bench.returns("fire '' 9000000000001 #4", "OK :1 :0");
}

/// What was made earlier and is the head is published, once; nothing else.
#[test]
fn publications() {
    let mut bench = Bench::new(
        "timeout m1(a)=9000000000000 m2(b)=9000000000001 m3(c)=9000000000002 m4(d)=0
         quarantine bad=-5 bad2=8.5; record name=$q",
    );
    let channel = format!("redisson_delay_queue_channel:{{{}}}", bench.names.queue);
    let mut subscriber = shared().client(0);
    subscriber.call(&["SUBSCRIBE", &channel]).unwrap();
    bench.returns("reschedule 9000000000001 #2 -8000000000000", "OK 8000000000000 #2 :0");
    bench.returns("fire '' 9000000000000 #1", "OK :1 :0");
    bench.returns("cancel 0 #4", "OK :1");
    bench.returns("clear", "OK :3");
    for (bad, take_out) in [("bad2", "none"), ("bad", "bad")] {
        let call = format!("quarantine_restore 0 1000 '' '' 0 '' {bad}");
        bench.returns(&call, "OK :1 :1 '' '' 0 ''");
        bench.redis(&format!("ZREM @timeout {take_out}"));
    }
    bench.returns("offer q -8000000000000:m5(e)", "OK");
    bench.redis("ZREM @timeout bad2");
    bench.returns("reschedule 8000000000000 #5 -7000000000000", "OK 7000000000000 #5 :1");
    bench.returns("fire '' 7000000000000 #5", "OK :1 :1");
    let now_ms = (bench.now_us / 1000).to_string();
    bench.client.call(&["PUBLISH", &channel, "end"]).unwrap();
    // A restored score is floored; one that no Redisson client can parse is not published.
    for score in ["8", "7000000000000", &now_ms, "end"] {
        assert_eq!(subscriber.read().unwrap().texts(), ["message", &channel, score]);
    }
}

#[test]
fn pause_and_resume() {
    let rows: &[Row] = &[
        ("until resumed, claims the name", "", "pause 0", "OK", "record name=$q paused_until=-1"),
        (
            "again; what else is recorded stays",
            "record name=$q paused_until=5 format=legacy",
            "pause 0",
            "OK",
            "record name=$q paused_until=-1 format=legacy",
        ),
        ("another name", "record name={$q}", "pause 0", "BADQUEUE {$q}", "record name={$q}"),
        ("nothing to resume", "", "resume", "OK :0", ""),
        (
            "a pause that is over",
            "record name=$q paused_until=1000",
            "resume",
            "OK :0",
            "record name=$q paused_until=1000",
        ),
    ];
    check(rows);
}

/// A pause for a time ends by itself, resuming ends it at once, and the end is recorded.
#[test]
fn pauses_end() {
    let mut bench = Bench::new("timeout m1(a)=1; list m1(a)");
    bench.returns("pause 60000", "OK");
    let until_ms = (bench.now_us + 999) / 1000 + 60_000;
    bench.returns("transfer 9 1000", &format!("PAUSED 1 {until_ms} :0 :0 :0 :0"));
    bench.returns("resume", "OK :1");
    let ended_ms = bench.now_us / 1000;
    bench.then(
        &format!("timeout m1(a)=1; list m1(a); record name=$q paused_until={ended_ms}"),
        "resumed",
    );
    bench.returns("resume", "OK :0");
    bench.returns("transfer 9 1000", &format!("OK '' '' :{ended_ms} :0 :0 :0 1 :1"));
    bench.returns("pause 0", "OK");
    bench.returns("offer q 0:m2(b)", "OK :0 :1");
    bench.returns("resume", "OK :1");
}

/// All queues: until resumed, for a time, and the later of two pauses counts.
#[test]
fn pause_of_all() {
    let rows: &[Row] = &[
        ("until resumed", "", "pause_all -1", "OK :0", "all paused_until=-1"),
        (
            "in place of one for a time",
            "all paused_until=9000000000000",
            "pause_all -1",
            "OK :1",
            "all paused_until=-1",
        ),
        ("nothing to resume", "", "pause_all 0", "OK :0", ""),
        (
            "a pause that is over",
            "all paused_until=1000",
            "pause_all 0",
            "OK :0",
            "all paused_until=1000",
        ),
    ];
    check(rows);
    let queue = "timeout m1(a)=1; list m1(a)";
    let mut bench = Bench::new(queue);
    bench.returns("pause_all 60000", "OK :0");
    let until_ms = (bench.now_us + 999) / 1000 + 60_000;
    let paused = |until| format!("PAUSED 1 {until} :0 :0 :0 :0");
    bench.returns("transfer 9 1000", &paused(until_ms));
    bench.returns("pause 90000", "OK");
    let own_ms = (bench.now_us + 999) / 1000 + 90_000;
    bench.returns("transfer 9 1000", &paused(own_ms));
    bench.returns("pause_all -1", "OK :1");
    bench.returns("transfer 9 1000", &paused(-1));
    bench.returns("resume", "OK :1");
    let first_ms = bench.now_us / 1000;
    bench.returns("transfer 9 1000", &paused(-1));
    bench.returns("pause_all 0", "OK :1");
    let ended_ms = bench.now_us / 1000;
    bench.then(
        &format!("{queue}; record name=$q paused_until={first_ms}; all paused_until={ended_ms}"),
        "resumed",
    );
    bench.returns("transfer 9 1000", &format!("OK '' '' :{ended_ms} :0 :0 :0 1 :1"));
}

/// Pausing and resuming go on out of memory.
#[test]
fn pause_out_of_memory() {
    let redis = Redis::spawn(&[]);
    let mut bench = Bench::on(&redis, "");
    bench.redis("CONFIG SET maxmemory 1");
    bench.returns("pause 0", "OK");
    bench.then("record name=$q paused_until=-1", "paused");
    bench.returns("resume", "OK :1");
    bench.returns("pause_all -1", "OK :0");
    bench.returns("pause_all 0", "OK :1");
}

#[test]
fn configure() {
    let rows: &[Row] = &[
        ("claims the name", "", "configure '' '' 0", "OK DONE :0", "record name=$q"),
        ("legacy", "", "configure legacy '' 0", "OK DONE :0", "record name=$q format=legacy"),
        (
            "a format stays unless told",
            "record name=$q format=legacy paused_until=-1",
            "configure '' '' 0",
            "OK DONE :0",
            "record name=$q format=legacy paused_until=-1",
        ),
        ("modern", "record format=legacy", "configure modern '' 0", "OK DONE :0", "record name=$q"),
        (
            "another name",
            "record name={$q}",
            "configure legacy '' 0",
            "BADQUEUE {$q}",
            "record name={$q}",
        ),
    ];
    check(rows);
}

#[test]
fn prune() {
    let rows: &[Row] = &[
        ("nothing there", "", "prune", "OK :1", ""),
        (
            "what would not be missed, a pause that is over too",
            "registry $q other; record name=$q paused_until=1000; destination d",
            "prune",
            "OK :1",
            "registry other; destination d",
        ),
        (
            "messages are pending",
            "registry $q; record name=$q; timeout m1(a)=1",
            "prune",
            "OK :0",
            "registry $q; record name=$q; timeout m1(a)=1",
        ),
        (
            "what others left: entries of the list, names",
            "registry $q; record name=$q; list m1(a); names n=5-0000000000000001
             ids 0000000000000001=n; quarantine bad=1",
            "prune",
            "OK :1",
            "quarantine bad=1",
        ),
        (
            "names too where the record is kept",
            "record name=$q format=legacy; names n=5-0000000000000001",
            "prune",
            "OK :1",
            "record name=$q format=legacy",
        ),
        (
            "schedules keep their queue, and nothing of messages that are gone",
            "registry $q; record name=$q; list m1(a); names n=5-0000000000000001; crons n=inf",
            "prune",
            "OK :0",
            "registry $q; record name=$q; crons n=inf",
        ),
        ("what is no time is no pause", "record name=$q paused_until=soon", "prune", "OK :1", ""),
        (
            "a pause is kept",
            "registry $q; record name=$q paused_until=-1",
            "prune",
            "OK :1",
            "record name=$q paused_until=-1",
        ),
        (
            "a pause for a time too",
            "registry $q; record name=$q paused_until=9000000000000",
            "prune",
            "OK :1",
            "record name=$q paused_until=9000000000000",
        ),
        (
            "a format is kept",
            "record name=$q format=legacy",
            "prune",
            "OK :1",
            "record name=$q format=legacy",
        ),
        (
            "the record is kept as long as consumers have messages, dead ones too",
            "registry $q; record name=$q; list m1(a); leased #1=5; dead #2=5; taken #1=a #2=b",
            "prune",
            "OK :1",
            "record name=$q; leased #1=5; dead #2=5; taken #1=a #2=b",
        ),
        (
            "the keys belong to another name",
            "registry $q; record name={$q}",
            "prune",
            "BADQUEUE {$q}",
            "registry $q; record name={$q}",
        ),
    ];
    check(rows);
}

/// A name that its keys alone would not say is kept.
#[test]
fn prune_keeps_braces() {
    let mut bench = Bench::new("registry {$q} other; record name={$q}");
    bench.names.braced = true;
    bench.returns("prune", "OK :1");
    bench.then("registry other; record name={$q}", "pruned");
}

/// The configuration claims a name with braces whatever is pending.
#[test]
fn configure_with_braces() {
    let mut bench = Bench::new("timeout m1(a)=1; list m1(a)");
    bench.names.braced = true;
    bench.returns("info", "BADQUEUE $q");
    bench.returns("configure '' '' 0", "OK DONE :0");
    bench.then("timeout m1(a)=1; list m1(a); record name={$q}", "claimed");
    bench.names.braced = false;
    bench.returns("configure '' '' 0", "BADQUEUE {$q}");
}
