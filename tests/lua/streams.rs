//! Queues whose destination is a stream: transfer.lua, and the scripts that keep what consumers of
//! a group have read and not acknowledged.

use crate::bench::Bench;
use crate::support::resp::Value;

const STREAM: &str = "record name=$q format=modern settings=\\x20destination:2/setup";

/// A stream queue with these settings.
fn stream(settings: &str) -> Bench {
    Bench::new(&format!("{STREAM}{settings}"))
}

/// The entries of a key as `field=value` words, each in a line, without their ids.
fn entries(bench: &mut Bench, role: &str) -> Vec<String> {
    let found = bench.redis(&format!("XRANGE @{role} - +"));
    let words = |fields: &[Value]| {
        let pair = |pair: &[Value]| {
            let value = pair[1].bytes().escape_ascii().to_string();
            format!("{}={value}", pair[0].bytes().escape_ascii())
        };
        fields.chunks(2).map(pair).collect::<Vec<_>>().join(" ")
    };
    found.elements().iter().map(|entry| words(entry.elements()[1].elements())).collect()
}

/// The ids of the entries of a key.
fn ids(bench: &mut Bench, role: &str) -> Vec<String> {
    let found = bench.redis(&format!("XRANGE @{role} - +"));
    found.elements().iter().map(|entry| entry.elements()[0].text()).collect()
}

/// Reads all that is new to a group, of one key.
fn read(bench: &mut Bench, role: &str, group: &str, consumer: &str) -> usize {
    let read = format!("XREADGROUP GROUP {group} {consumer} COUNT 1000 STREAMS @{role} >");
    match bench.redis(&read) {
        Value::Null => 0,
        found => found.elements()[0].elements()[1].elements().len(),
    }
}

/// A member that carries more than its payload: keys and values of the map, in hexadecimal.
fn member(id: u64, map: &str, payload: &str) -> String {
    let map: Vec<u8> = (0..map.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&map[at..at + 2], 16).unwrap())
        .collect();
    let size = (map.len() as u32).to_le_bytes();
    let bytes = [&b"\0DQ\x01"[..], &size, &map, payload.as_bytes()].concat();
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("m{id}({escaped})")
}

#[test]
fn due_messages_become_entries() {
    let mut bench = stream("");
    bench.give("timeout m1(a)=1000 m[0102](b\\x00\\r\\n)=1001.5 bad=1002; list m1(a) m[0102](b)");
    let moved = "OK '' '' :0 :1 :0 :0 1000 :1 1001.5 :1";
    let reply = bench.run("transfer 9 1000");
    assert_eq!(reply, moved);
    assert_eq!(
        entries(&mut bench, "destination"),
        ["payload=a id=0000000000000001 due=1000", "payload=b\\x00\\r\\n id=0102 due=1001.5"]
    );
    assert_eq!(bench.redis("ZRANGE @quarantine 0 -1").texts(), ["bad"]);
    assert_eq!(bench.redis("EXISTS @timeout @list").int(), 0);
    // The second time there is nothing, and nothing is written.
    assert_eq!(bench.run("transfer 9 1000"), "OK '' '' :0 :0 :0 :0");
    assert_eq!(entries(&mut bench, "destination").len(), 2);
}

/// Headers and limit of a message go along as fields; one that has expired is left out.
#[test]
fn envelopes() {
    let mut bench = stream("");
    let all = member(1, "82a1689 4a16ea17ba16da178a16c05".replace(' ', "").as_str(), "p");
    let empty = member(2, "80", "q");
    // `t` of 1 ms, and of 10^15.
    let over = member(3, "81a17401", "r");
    let not_over = member(4, "81a174cf00038d7ea4c68000", "s");
    let own_id = member(5, "81a169a8 0000000000000009".replace(' ', "").as_str(), "t");
    let wrong = member(6, "81a17a01", "u");
    bench.give(&format!("timeout {all}=1 {empty}=2 {over}=3 {not_over}=4 {own_id}=5 {wrong}=6"));
    bench.run("transfer 9 1000");
    assert_eq!(
        entries(&mut bench, "destination"),
        [
            "payload=p id=0000000000000001 due=1 limit=5 h.n={ h.m=x",
            "payload=q id=0000000000000002 due=2",
            "payload=s id=0000000000000004 due=4",
            "payload=t id=0000000000000009 due=5",
            "payload=\\x00DQ\\x01\\x04\\x00\\x00\\x00\\x81\\xa1z\\x01u id=0000000000000006 due=6",
        ]
    );
}

/// A stream that takes no entry any more: what is due stays pending, in both places, with its name.
#[test]
fn what_redis_refuses_stays_pending() {
    let given = "timeout m1(a)=1000 m2(b)=1001; list m1(a) m2(b); names n=1001-0000000000000002;
                 ids 0000000000000002=n";
    let mut bench = stream("");
    bench.give(given);
    bench.redis("XADD @destination 18446744073709551615-18446744073709551614 f v");
    let refused = bench.run("transfer 9 1000");
    assert!(refused.contains("exhausted the last possible ID"), "{refused}");
    // The first one still fitted.
    assert_eq!(entries(&mut bench, "destination").len(), 2);
    bench.redis("DEL @destination");
    bench.then(
        &format!(
            "{STREAM}; timeout m2(b)=1001; list m2(b); names n=1001-0000000000000002;
             ids 0000000000000002=n"
        ),
        "a stream that is used up",
    );
    bench.run("transfer 9 1000");
    assert_eq!(entries(&mut bench, "destination"), ["payload=b id=0000000000000002 due=1001"]);
}

/// Nothing is taken out of the queue for a key of another type, whichever the settings ask for.
#[test]
fn types() {
    for (settings, there) in [(STREAM, "RPUSH @destination x"), ("", "XADD @destination * f v")] {
        let given = format!("{settings}; timeout m1(a)=1000; list m1(a)");
        let mut bench = Bench::new(&given);
        bench.redis(there);
        let wrong = bench.names.normal("WRONGTYPE $q");
        assert_eq!(bench.run("transfer 9 1000"), wrong, "{there}");
        bench.redis("DEL @destination");
        bench.then(&given, there);
    }
}

/// The scripts of streams touch no list, and name it only where a stream should be.
#[test]
fn lists_where_streams_are_asked_for() {
    for call in [
        "stream_look",
        "stream_keep g '' 30000 16 500 1000 ''",
        "stream_again g 100 1000",
        "stream_nack g FAIL '' '' 16 5000 3600000 20 1-1 0",
        "stream_trim '' 0 1000",
        "stream_idle g 1000 10",
    ] {
        for (record, wanted) in [("record name=$q", "NOSTREAM"), (STREAM, "WRONGTYPE $q")] {
            let given = format!("{record}; destination a");
            let mut bench = Bench::new(&given);
            let wanted = bench.names.normal(wanted);
            assert_eq!(bench.run(call), wanted, "{call}");
            bench.then(&given, call);
        }
    }
}

#[test]
fn takers_are_sent_elsewhere() {
    for call in [
        "take 1 1000 1000 60000 16 #4",
        "ack #1 1",
        "nack FAIL '' '' 16 1 1 0 #1 1 0",
        "extend 60000 #1 1",
    ] {
        let given = format!("{STREAM}; retry #1g=5; taken #1g=x");
        let given = given.replace("#1g", "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01g");
        let mut bench = Bench::new(&given);
        assert_eq!(bench.run(call), "STREAM", "{call}");
        bench.then(&given, call);
        bench.redis("XADD @destination * f v");
        bench.number += 1;
        assert_eq!(bench.run(call), "STREAM", "{call}");
    }
}

/// Entries count as ready, also for the limit of a queue.
#[test]
fn sizes() {
    let mut bench = stream("\\x20max_length:3/setup");
    bench.redis("XADD @destination * f v");
    bench.returns("offer q 5:m1(a) 5:m2(b)", "OK :0 :1");
    bench.returns("offer q 5:m3(c)", "OK :0 FULL_3_3_1");
    let info = bench.run("info");
    assert!(info.starts_with("OK :2 :1 "), "{info}");
    let stats = bench.run("stats all timeout destination record quarantine leased retry dead");
    assert!(stats.starts_with("OK :2 :1 "), "{stats}");
}

/// Back to a list: only without entries, and without any that a group holds.
#[test]
fn the_way_back() {
    let mut bench = stream("");
    bench.redis("XADD @destination 1-1 f v");
    bench.redis("XGROUP CREATE @destination g 0");
    let in_use = bench.names.normal("INUSE $q");
    let back = |bench: &mut Bench| {
        bench.number += 1;
        bench.run("setup '' setup destination ''")
    };
    assert_eq!(back(&mut bench), in_use);
    read(&mut bench, "destination", "g", "c");
    bench.redis("XDEL @destination 1-1");
    assert_eq!(back(&mut bench), in_use);
    bench.redis("XACK @destination g 1-1");
    assert_eq!(back(&mut bench), "OK _destination:2/setup ''");
    bench.then("record name=$q", "back");
}

/// Groups of the settings are made, where they are missing; others are told of too.
#[test]
fn groups() {
    let mut bench = stream("\\x20groups:g,mail/setup");
    let look = |bench: &mut Bench| {
        let reply = bench.run("stream_look");
        let mut words: Vec<&str> = reply.split(' ').skip(3).collect();
        let mut found: Vec<String> = words.chunks_mut(4).map(|one| one.join(" ")).collect();
        found.sort();
        found
    };
    // Redis before 7.0 does not tell what a group has not read.
    let is_old = bench.redis("INFO server").text().contains("redis_version:6.");
    let told = |wanted: &[&str]| -> Vec<String> {
        let one = |row: &&str| {
            let mut words: Vec<&str> = row.split(' ').collect();
            words[2] = if is_old { "''" } else { words[2] };
            words.join(" ")
        };
        wanted.iter().map(one).collect()
    };
    assert_eq!(look(&mut bench), told(&["g :0 :0 :0", "mail :0 :0 :0"]));
    bench.redis("XADD @destination 1-1 f v");
    bench.redis("XGROUP CREATE @destination own $");
    read(&mut bench, "destination", "g", "c");
    assert_eq!(look(&mut bench), told(&["g :1 :0 :1", "mail :0 :1 :0", "own :0 :0 :0"]));
    bench.redis("DEL @destination");
    assert_eq!(look(&mut bench), told(&["g :0 :0 :0", "mail :0 :0 :0"]));
    // Each from the first entry on.
    bench.redis("XADD @destination 1-1 f v");
    bench.redis("XGROUP DESTROY @destination g");
    look(&mut bench);
    assert_eq!(read(&mut bench, "destination", "g", "c"), 1);
}

const KEEP: &str = "stream_keep g '' 30000 16 500 100000 ''";
const KEEP_OWN: &str = "stream_keep g AGAIN 30000 16 500 100000 ''";

/// An entry that nobody acknowledged for a lease comes again at the end, as the next attempt, and
/// is dead after the last one.
#[test]
fn lapses() {
    let mut bench = stream("\\x20lease_ms:100/setup\\x20limit:3/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XADD @destination 1-1 payload p id 00000000000000aa due 5 h.n v");
    bench.redis("XADD @destination 1-2 foreign f");
    assert_eq!(read(&mut bench, "destination", "g", "c"), 2);
    // Within the lease nothing happens.
    assert_eq!(bench.run(KEEP), "OK '' :2 :0 :0");
    let settings = "\\x20destination:2/setup\\x20lease_ms:1/setup\\x20limit:3/setup";
    bench.redis(&format!("HSET @record settings {settings}"));
    for attempt in 2..=3 {
        idle(&mut bench, "destination", "g");
        assert_eq!(bench.run(KEEP), "OK '' :2 :2 :0");
        assert_eq!(
            entries(&mut bench, "destination"),
            [
                format!("payload=p id=00000000000000aa due=5 h.n=v attempt={attempt}"),
                format!("foreign=f id=0000000000010002 attempt={attempt}"),
            ]
        );
        assert_eq!(read(&mut bench, "destination", "g", "c"), 2);
    }
    idle(&mut bench, "destination", "g");
    assert_eq!(bench.run(KEEP), "OK '' :2 :0 :2");
    assert_eq!(bench.redis("XLEN @destination").int(), 0);
    let pending = bench.redis("XPENDING @destination g");
    assert_eq!(pending.elements()[0].int(), 0);
    let dead = bench.redis("ZRANGE @dead 0 -1");
    let mut dead: Vec<Vec<u8>> = dead.elements().iter().map(Value::bytes).collect();
    dead.sort();
    let of = |id: u64| [&id.to_be_bytes()[..], b"g"].concat();
    assert_eq!(dead, [of(0xaa), of(0x10002)]);
    let tries = bench.redis("HVALS @tries");
    assert_eq!(tries.texts(), ["3 0 lease expired", "3 0 lease expired"]);
    let listed = bench.run("taken dead 10 1000 1000 '' '' 0 ''");
    assert!(listed.contains(":3 :0 lease_expired :1 p"), "{listed}");
    // Brought back, it has all its attempts again.
    bench.run("dead 0 9");
    pass(&mut bench);
    assert_eq!(bench.run("stream_again g 100 1000"), "OK :2 :0 ''");
    let back = entries(&mut bench, "destination");
    assert!(back.contains(&"payload=p id=00000000000000aa due=5 h.n=v".to_owned()), "{back:?}");
    let gone = ["dead", "retry", "taken", "tries"].map(|role| format!("@{role}")).join(" ");
    assert_eq!(bench.redis(&format!("EXISTS {gone}")).int(), 0);
}

/// Makes all that a group holds look as if it were held for an hour, and added before this moment.
fn idle(bench: &mut Bench, role: &str, group: &str) {
    let held = bench.redis(&format!("XPENDING @{role} {group} - + 1000"));
    for one in held.elements() {
        let (id, consumer) = (one.elements()[0].text(), one.elements()[1].text());
        let claim = format!("XCLAIM @{role} {group} {consumer} 0 {id} IDLE 3600000 JUSTID");
        bench.redis(&claim);
    }
    pass(bench);
}

/// Redis's clock goes on by 3 ms.
fn pass(bench: &mut Bench) {
    bench.run("stream_heads record retry");
    let until = bench.now_us + 3_000;
    while bench.now_us < until {
        bench.run("stream_heads record retry");
    }
}

/// The retry of one of several groups is a matter of that group alone.
#[test]
fn several_groups() {
    let mut bench = stream("\\x20lease_ms:1/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XGROUP CREATE @destination other 0");
    bench.redis("XADD @destination 1-1 payload p");
    read(&mut bench, "destination", "g", "c");
    idle(&mut bench, "destination", "g");
    assert_eq!(bench.run(KEEP), "OK '' :1 :1 :0");
    // The other one reads it for the first time.
    assert_eq!(entries(&mut bench, "destination"), ["payload=p"]);
    let again = entries(&mut bench, "again");
    assert_eq!(again, ["payload=p id=0000000000010001 attempt=2"]);
    let (ms, number) = ids(&mut bench, "again")[0].split_once('-').map(owned).unwrap();
    assert_eq!(ms, (bench.now_us / 1000).to_string());
    assert!(number.parse::<u64>().unwrap() >= 1_000_000_000, "{number}");
    // Its own stream is kept too.
    assert_eq!(read(&mut bench, "again", "g", "c"), 1);
    idle(&mut bench, "again", "g");
    assert_eq!(bench.run(KEEP), "OK '' :0 :0 :0");
    assert_eq!(bench.run(KEEP_OWN), "OK '' :1 :1 :0");
    assert_eq!(entries(&mut bench, "again"), ["payload=p id=0000000000010001 attempt=3"]);
    // And goes back where the group is the only one.
    assert_eq!(read(&mut bench, "again", "g", "c"), 1);
    idle(&mut bench, "again", "g");
    bench.redis("XGROUP DESTROY @destination other");
    assert_eq!(bench.run(KEEP_OWN), "OK '' :1 :1 :0");
    assert_eq!(bench.redis("XLEN @again").int(), 0);
    assert_eq!(
        entries(&mut bench, "destination"),
        ["payload=p", "payload=p id=0000000000010001 attempt=4"]
    );
}

fn owned((a, b): (&str, &str)) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

/// A late XACK counts; what was acknowledged does not come again.
#[test]
fn acknowledged_is_left_alone() {
    let mut bench = stream("\\x20lease_ms:100/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    for id in 1..=3 {
        bench.redis(&format!("XADD @destination 1-{id} payload {id}"));
    }
    read(&mut bench, "destination", "g", "c");
    idle(&mut bench, "destination", "g");
    bench.redis("XACK @destination g 1-1");
    // Somebody deleted this one.
    bench.redis("XDEL @destination 1-3");
    bench.run(KEEP);
    let found = entries(&mut bench, "destination");
    assert_eq!(found, ["payload=1", "payload=2 id=0000000000010002 attempt=2"]);
    assert_eq!(bench.redis("XPENDING @destination g").elements()[0].int(), 0);
    assert_eq!(bench.run(KEEP), "OK '' :0 :0 :0");
}

/// A consumer that reads its own entries anew each time that it starts never lets the lease end.
#[test]
fn poison_that_never_rests() {
    let mut bench = stream("\\x20lease_ms:100/setup\\x20limit:3/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XADD @destination 1-1 payload p attempt 2");
    read(&mut bench, "destination", "g", "c");
    assert_eq!(bench.run(KEEP), "OK '' :1 :0 :0");
    // The third attempt is the last one that may be; this is the fourth.
    bench.redis("XREADGROUP GROUP g c STREAMS @destination 0");
    bench.redis("XREADGROUP GROUP g c STREAMS @destination 0");
    assert_eq!(bench.run(KEEP), "OK '' :1 :0 :1");
    assert_eq!(bench.redis("ZCARD @dead").int(), 1);
}

/// A message's own limit goes before that of its queue; 0: it has none.
#[test]
fn own_limits() {
    for (limit, dies) in [("1", 1), ("0", 0), ("x", 0)] {
        let mut bench = stream("\\x20lease_ms:100/setup\\x20limit:2/setup");
        bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
        bench.redis(&format!("XADD @destination 1-1 payload p limit {limit}"));
        read(&mut bench, "destination", "g", "c");
        idle(&mut bench, "destination", "g");
        assert_eq!(bench.run(KEEP), format!("OK '' :1 :{} :{dies}", 1 - dies), "{limit}");
    }
}

/// Pages, a group that is not there, a keeper that is off, a queue that is no stream.
#[test]
fn bounds_of_the_keeper() {
    let mut bench = stream("\\x20lease_ms:100/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    for id in 1..=5 {
        bench.redis(&format!("XADD @destination 1-{id} payload {id}"));
    }
    read(&mut bench, "destination", "g", "c");
    assert_eq!(bench.run("stream_keep g '' 30000 16 2 1000 ''"), "OK 1-2 :2 :0 :0");
    assert_eq!(bench.run("stream_keep g '' 30000 16 2 1000 1-4"), "OK '' :1 :0 :0");
    idle(&mut bench, "destination", "g");
    // Bytes: one, however large.
    assert_eq!(bench.run("stream_keep g '' 30000 16 9 1 ''"), "OK 1-1 :1 :1 :0");
    assert_eq!(bench.run("stream_keep h '' 30000 16 9 1 ''"), "NOSTREAM");
    bench.redis(
        "HSET @record settings \\x20destination:2/setup\\x20keeper:1/setup\\x20lease_ms:100/setup",
    );
    assert_eq!(bench.run(KEEP), "NOSTREAM");
    assert_eq!(bench.run("stream_trim '' 0 100"), "NOSTREAM");
    assert_eq!(bench.run("stream_idle g 1 100"), "NOSTREAM");
    bench.redis("HSET @record settings \\x20lease_ms:100/setup");
    bench.redis("DEL @destination");
    for call in [KEEP, "stream_trim '' 0 100", "stream_again g 9 9", "stream_look"] {
        assert_eq!(bench.run(call), "NOSTREAM", "{call}");
    }
}

/// Ids ahead of Redis's clock are looked at all the same.
#[test]
fn ids_of_the_future() {
    let mut bench = stream("\\x20lease_ms:100/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XADD @destination 9000000000000-1 payload p");
    read(&mut bench, "destination", "g", "c");
    idle(&mut bench, "destination", "g");
    assert_eq!(bench.run(KEEP), "OK '' :1 :1 :0");
    assert_eq!(ids(&mut bench, "destination"), ["9000000000000-2"]);
}

/// An entry that the stream does not take waits for a retry, and comes later; nothing is lost.
#[test]
fn a_stream_that_is_used_up() {
    let mut bench = stream("\\x20lease_ms:100/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XADD @destination 1-1 payload p");
    read(&mut bench, "destination", "g", "c");
    idle(&mut bench, "destination", "g");
    bench.redis("XADD @destination 18446744073709551615-18446744073709551615 f v");
    assert_eq!(bench.run(KEEP), "OK '' :1 :1 :0");
    assert_eq!(bench.redis("ZCARD @retry").int(), 1);
    bench.redis("DEL @destination");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    let member = bench.redis("ZRANGE @retry 0 -1").elements()[0].bytes();
    let key = bench.names.key("retry");
    bench.client.call(&[b"ZADD".to_vec(), key.into_bytes(), b"5".to_vec(), member]).unwrap();
    assert_eq!(bench.run("stream_again g 100 1000"), "OK :1 :0 ''");
    let found = entries(&mut bench, "destination");
    assert_eq!(found, ["payload=p id=0000000000010001 attempt=2"]);
}

const NACK: &str = "16 1000 9000 0";

#[test]
fn nacks() {
    for (mode, call, wait, next) in [
        ("FAIL", "FAIL '' why", 1000, "attempt=2"),
        ("another wait", "FAIL 77 why", 77, "attempt=2"),
        ("SILENT", "SILENT '' ''", 0, ""),
    ] {
        let mut bench = stream("");
        bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
        bench.redis("XADD @destination 1-1 payload p");
        read(&mut bench, "destination", "g", "c");
        let nack = format!("stream_nack g {call} {NACK} 1-1 0 1-1 0 7-7 0");
        bench.returns(&nack, &format!("OK :1 :0 ceil+{wait} :3"));
        // Settled once; the same again finds nothing.
        bench.returns(&nack, "OK :0 :0 '' :3");
        assert_eq!(bench.redis("XLEN @destination").int(), 0, "{mode}");
        let tries = bench.redis("HVALS @tries").texts();
        assert_eq!(tries.len(), 1);
        bench.redis("SETRANGE @all 0 x");
        let member = bench.redis("ZRANGE @retry 0 -1").elements()[0].bytes();
        let key = bench.names.key("retry").into_bytes();
        bench.client.call(&[b"ZADD".to_vec(), key, b"5".to_vec(), member]).unwrap();
        assert_eq!(bench.run("stream_again g 100 1000"), "OK :1 :0 ''");
        let found = entries(&mut bench, "destination");
        let wanted = format!("payload=p id=0000000000010001 {next}");
        assert_eq!(found, [wanted.trim_end()], "{mode}");
    }
}

/// FATAL, and the last attempt; the reason stays with it. Of several groups the others still have
/// the entry.
#[test]
fn nacks_that_kill() {
    for (call, several) in [("FATAL '' why", false), ("FAIL '' why", false), ("FATAL '' why", true)]
    {
        let mut bench = stream("");
        bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
        if several {
            bench.redis("XGROUP CREATE @destination other 0");
        }
        bench.redis("XADD @destination 1-1 payload p attempt 16");
        read(&mut bench, "destination", "g", "c");
        bench.returns(&format!("stream_nack g {call} {NACK} 1-1 0"), "OK :1 :1 '' :1");
        assert_eq!(bench.redis("HVALS @tries").texts(), ["16 0 why"]);
        assert_eq!(bench.redis("XLEN @destination").int(), i64::from(several));
        assert_eq!(read(&mut bench, "destination", "g", "c"), 0);
    }
    let mut bench = stream("");
    bench.returns(&format!("stream_nack g FAIL '' '' {NACK} 1-1 0"), "NOGROUP");
    let mut bench = Bench::new("");
    bench.returns(&format!("stream_nack g FAIL '' '' {NACK} 1-1 0"), "NOSTREAM");
}

/// An entry of the group's own stream is found by its id, too.
#[test]
fn nacks_of_retries() {
    let mut bench = stream("\\x20lease_ms:100/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XGROUP CREATE @destination other 0");
    bench.redis("XADD @destination 1-1 payload p");
    read(&mut bench, "destination", "g", "c");
    idle(&mut bench, "destination", "g");
    bench.run(KEEP);
    read(&mut bench, "again", "g", "c");
    let id = ids(&mut bench, "again")[0].clone();
    bench.returns(&format!("stream_nack g FATAL '' '' {NACK} {id} 0"), "OK :1 :1 '' :1");
    assert_eq!(bench.redis("XLEN @again").int(), 0);
    assert_eq!(bench.redis("HVALS @tries").texts(), ["2 0 "]);
}

/// Retries of a group that somebody destroyed are dead, and so is what nobody can read.
#[test]
fn retries_that_nobody_can_have() {
    let mut bench = stream("");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.give(
        "retry AAAAAAAAgone=5 BBBBBBBBg=6 short=7 CCCCCCCCg=9000000000000
         taken BBBBBBBBg=\\xc1 AAAAAAAAgone=x",
    );
    assert_eq!(bench.run("stream_again g 100 1000"), "OK :0 :3 9000000000000");
    let dead = bench.redis("ZRANGE @dead 0 -1").texts();
    assert_eq!(dead, ["AAAAAAAAgone", "BBBBBBBBg", "short"]);
    assert_eq!(bench.redis("HGET @tries AAAAAAAAgone").text(), "1 0 its group is gone");
    assert_eq!(bench.redis("HGET @tries BBBBBBBBg").text(), "1 0 nobody can read it");
    let listed = bench.run("taken dead 10 1000 1000 '' '' 0 ''");
    assert!(listed.starts_with("OK "), "{listed}");
}

/// Two messages of one id, as other programs may write: neither is lost.
#[test]
fn ids_that_are_used_twice() {
    let mut bench = stream("");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    for id in 1..=3 {
        bench.redis(&format!("XADD @destination 1-{id} payload {id} id 00000000000000aa"));
    }
    read(&mut bench, "destination", "g", "c");
    for id in 4..=40 {
        bench.redis(&format!("XADD @destination 1-{id} payload {id} id 00000000000000aa"));
    }
    read(&mut bench, "destination", "g", "c");
    let all: String = (1..=40).map(|id| format!(" 1-{id} 0")).collect();
    bench.returns(&format!("stream_nack g FATAL '' '' {NACK}{all}"), "OK :40 :40 '' :40");
    assert_eq!(bench.redis("ZCARD @dead").int(), 40);
    assert_eq!(bench.redis("HLEN @taken").int(), 40);
}

/// Consumers that have gone are deleted, unless they hold something.
#[test]
fn consumers() {
    let mut bench = stream("\\x20consumer_idle_ms:1/setup");
    bench.redis("XGROUP CREATE @destination g 0 MKSTREAM");
    bench.redis("XADD @destination 1-1 payload p");
    read(&mut bench, "destination", "g", "holds");
    for name in ["a", "b", "c"] {
        bench.redis(&format!("XGROUP CREATECONSUMER @destination g {name}"));
    }
    // A clock of ms must have gone on.
    let began = bench.now_us;
    while bench.run("stream_idle g 1000000 0") != "OK :0" || bench.now_us < began + 3_000 {}
    let wait = bench.now_us + 5_000;
    while bench.now_us < wait {
        bench.run("stream_look");
    }
    assert_eq!(bench.run("stream_idle g 1000000 2"), "OK :2");
    assert_eq!(bench.run("stream_idle g 1000000 2"), "OK :1");
    assert_eq!(bench.run("stream_idle g 1000000 2"), "OK :0");
    let left = bench.redis("XINFO CONSUMERS @destination g");
    assert_eq!(left.elements().len(), 1);
}

/// No entry is taken out that a group has not acknowledged: three groups against a model.
#[test]
fn trims() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    for seed in 1..=seeds {
        trim_model(seed);
    }
}

fn trim_model(seed: u64) {
    let mut random = crate::support::random::Random::new(seed);
    let mut bench = stream("");
    let groups = ["g", "h", "i"];
    for group in groups {
        bench.redis(&format!("XGROUP CREATE @destination {group} 0 MKSTREAM"));
    }
    // By entry, from 1 on: of each group whether it has read it, and acknowledged it.
    let mut model: Vec<[(bool, bool); 3]> = Vec::new();
    for step in 0..300 {
        let at = random.below(3) as usize;
        let group = groups[at];
        match random.below(10) {
            0..3 => {
                for _ in 0..1 + random.below(40) {
                    model.push(Default::default());
                    bench.redis(&format!("XADD @destination {}-0 payload p", model.len()));
                }
            }
            3..6 => {
                let count = 1 + random.below(60);
                let read =
                    format!("XREADGROUP GROUP {group} c COUNT {count} STREAMS @destination >");
                bench.redis(&read);
                let unread = model.iter_mut().filter(|entry| !entry[at].0);
                unread.take(count as usize).for_each(|entry| entry[at].0 = true);
            }
            6..9 => {
                let held: Vec<usize> = (0..model.len())
                    .filter(|entry| model[*entry][at].0 && !model[*entry][at].1)
                    .collect();
                for entry in held {
                    if random.below(3) > 0 {
                        bench.redis(&format!("XACK @destination {group} {}-0", entry + 1));
                        model[entry][at].1 = true;
                    }
                }
            }
            _ => {
                bench.run("stream_trim '' 0 1000");
                let left = ids(&mut bench, "destination");
                let needed = model.iter().position(|entry| entry.iter().any(|(_, done)| !done));
                let first = left.first().map(|id| id.trim_end_matches("-0").parse().unwrap());
                let first: usize = first.unwrap_or(model.len() + 1);
                // Nothing that is needed is gone, and nothing else at the front is left.
                assert_eq!(first, needed.map_or(model.len(), |at| at) + 1, "{seed}, {step}");
                assert_eq!(left.len(), model.len() + 1 - first, "{seed}, {step}");
            }
        }
    }
}

/// No group, a group that never read, entries that are to be kept; many in parts.
#[test]
fn bounds_of_a_trim() {
    let mut bench = stream("");
    for id in 1..=1000 {
        bench.redis(&format!("XADD @destination {id}-0 payload p"));
    }
    assert_eq!(bench.run("stream_trim '' 0 100"), "NOSTREAM");
    bench.redis("XGROUP CREATE @destination g 990-0");
    assert_eq!(bench.run("stream_trim '' 0 310"), "OK :300 :1");
    bench.redis("XGROUP CREATE @destination never 0");
    assert_eq!(bench.run("stream_trim '' 0 300"), "OK :0 :0");
    bench.redis("XGROUP DESTROY @destination never");
    // Younger than 80 years.
    assert_eq!(bench.run("stream_trim '' 2524608000000 300"), "OK :0 :0");
    assert_eq!(bench.run("stream_trim '' 0 3000"), "OK :690 :0");
    assert_eq!(bench.redis("XLEN @destination").int(), 10);
    bench.redis("XGROUP SETID @destination g 18446744073709551615-18446744073709551615");
    // Not to be computed: the last one stays.
    bench.redis("XADD @destination 18446744073709551615-18446744073709551615 f v");
    assert_eq!(bench.run("stream_trim '' 0 1000"), "OK :10 :0");
}

#[test]
fn heads() {
    let mut bench = stream("");
    bench.give("retry AAAAAAAAg=5; p.record name=$p; p.retry AAAAAAAA=5");
    let reply = bench.run("stream_heads record retry p.record p.retry");
    assert_eq!(reply, bench.names.normal("OK $q :1 5 $p :0 ''"));
}
