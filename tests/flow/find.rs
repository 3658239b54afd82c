//! DQ.FIND and the bulk forms of DQ.CANCEL, DQ.FIRE and DQ.RESCHEDULE: pages, many and large
//! messages, others that change them meanwhile, links that break, rights.

use crate::foreign::keys;
use crate::stage::{NO_SCAN, Stage, call, delivered, eventually, field_of, list, offer, say};
use crate::support::broker::Broker;
use crate::support::proxy::{Break, Proxy};
use crate::support::resp::{Client, Value};
use delay_broker::store::script::{CANCEL, FIRE};

/// Follows the cursors; the third part of each page, and how many were looked at in all.
fn pages(client: &mut Client, command: &str) -> (Vec<Value>, i64) {
    let (mut cursor, mut parts, mut looked) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let page = say(client, &format!("{command} CURSOR {cursor}"));
        let [next, looked_at, part] = page.elements() else { panic!("{command}: {page:?}") };
        assert!(parts.len() < 2_000, "{command} does not end");
        (cursor, looked) = (next.text(), looked + looked_at.int());
        parts.push(part.clone());
        if cursor == "0" {
            return (parts, looked);
        }
    }
}

/// The payloads that a search finds, and how many it looked at.
fn found(client: &mut Client, command: &str) -> (Vec<String>, i64) {
    let (parts, looked) = pages(client, command);
    let rows = parts.iter().flat_map(|part| part.elements());
    (rows.map(|row| field_of(row, "payload").unwrap().text()).collect(), looked)
}

/// How many messages a bulk form changed, and how many it looked at.
fn changed(client: &mut Client, command: &str) -> (i64, i64) {
    let (parts, looked) = pages(client, command);
    (parts.iter().map(Value::int).sum(), looked)
}

/// Pending messages `p1`, `p2` and so on, each due in a second of its own; all are listed.
fn fill(redis: &mut Client, first: usize, last: usize) {
    const FILL: &str = "for id = tonumber(ARGV[1]), tonumber(ARGV[2]) do
          local payload = 'p' .. id
          local member = struct.pack('>BI4I4<I8', 8, 100, id, #payload) .. payload
          redis.call('ZADD', KEYS[1], 4e12 + id * 1000, member)
          redis.call('RPUSH', KEYS[2], member)
        end";
    let k = keys("q");
    for from in (first..=last).step_by(20_000) {
        let (from, to) = (from.to_string(), last.min(from + 19_999).to_string());
        let done = call(redis, &["EVAL", FILL, "2", &k.timeout, &k.list, &from, &to]);
        assert!(!matches!(done, Value::Error(_)), "{done:?}");
    }
}

/// Each message is on exactly one page, also where all share a due time and where others' members
/// are alike in more bytes than a cursor has. What nobody can read has no id, so it stays.
#[test]
fn each_is_on_one_page() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..150 {
        let (mine, theirs) = (format!("a{n}"), format!("{}{n}", "z".repeat(2_000)));
        offer(&mut client, &["q", "AT", "4000000000000", &mine]);
        call(&mut stage.redis, &["ZADD", &keys("q").timeout, "4000000000000", &theirs]);
    }
    for (pattern, count, wanted) in
        [("*", 7, 300), ("a*", 1, 150), ("a?", 7, 10), ("z*", 7, 150), ("*9", 1_000, 30)]
    {
        let command = format!("DQ.FIND q COUNT {count} MATCH {pattern}");
        let (mut payloads, looked) = found(&mut client, &command);
        payloads.sort();
        payloads.dedup();
        assert_eq!((payloads.len(), looked), (wanted, 300), "{command}");
    }
    let all = "DQ.CANCEL q MATCH * COUNT 70";
    assert_eq!(changed(&mut client, &format!("{all} DRYRUN")), (150, 300));
    assert_eq!(changed(&mut client, all), (150, 300));
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(150));
}

/// The first 64 KiB of a payload count, decoded or not; what no reply can hold is passed over, and
/// not in the way.
#[test]
fn large_payloads() {
    let limits = [("limits.payload_bytes_max", "200000"), ("limits.reply_bytes_max", "100000")];
    let mut stage = Stage::new(&limits);
    let mut client = stage.broker.client();
    let seen = "s".repeat(65_536);
    let longer = format!("{seen}tail");
    let theirs = "u".repeat(300_000);
    for (due, payload) in [("1h", &seen[..]), ("2h", &longer), ("4h", "small")] {
        offer(&mut client, &["q", due, payload]);
    }
    for score in ["1e12", "3e12", "4e12"] {
        let theirs = format!("{theirs}{score}");
        call(&mut stage.redis, &["ZADD", &keys("q").timeout, score, &theirs]);
    }
    // The queue is behind with what is theirs, but it is put aside only where it is due.
    say(&mut client, "DQ.PAUSE q");
    for (what, wanted) in [
        ("MATCH s*", 3),
        ("MATCH *s", 2),
        ("MATCH *s DECODE", 2),
        ("MATCH *tail", 0),
        ("MATCH u*", 0),
        ("MATCH sm*", 1),
        ("MATCH *", 3),
        ("FROM 1", 3),
    ] {
        let (payloads, _) = found(&mut client, &format!("DQ.FIND q {what}"));
        assert_eq!(payloads.len(), wanted, "{what}");
        assert!(
            payloads.iter().all(|payload| [&seen[..], &longer, "small"].contains(&&payload[..]))
        );
    }
    assert_eq!(changed(&mut client, "DQ.CANCEL q MATCH s*").0, 3);
}

/// A walk that gives later times meets nothing twice: all its pages give the time of the first.
#[test]
fn later_times_are_met_once() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    fill(&mut stage.redis, 1, 1_000);
    let move_all = "DQ.RESCHEDULE q MATCH p* AT 4000000500000 COUNT 30";
    assert_eq!(changed(&mut client, &format!("{move_all} DRYRUN")).0, 999);
    assert_eq!(changed(&mut client, move_all).0, 999);
    say(&mut client, "DQ.CLEAR q");
    let mut offers = vec!["DQ.MOFFER", "q"];
    (0..500).for_each(|_| offers.extend(["1h", "p"]));
    (0..2).for_each(|_| drop(call(&mut client, &offers)));
    assert_eq!(changed(&mut client, "DQ.RESCHEDULE q MATCH p* 2h COUNT 30").0, 1_000);
    let range = say(&mut stage.redis, "ZRANGE redisson_delay_queue_timeout:{q} 0 -1 WITHSCORES");
    let scores: Vec<String> = range.elements().chunks(2).map(|pair| pair[1].text()).collect();
    assert!(scores.iter().all(|score| *score == scores[0]), "{}, {}", scores[0], scores[999]);
}

/// What is fired comes, and nothing else; the scheduler hears of it at once.
#[test]
fn what_is_fired_comes() {
    let mut stage = Stage::new(&[NO_SCAN]);
    let mut client = stage.broker.client();
    fill(&mut stage.redis, 1, 1_200);
    assert_eq!(changed(&mut client, "DQ.FIRE q MATCH p*7"), (120, 1_200));
    let came = delivered(&mut stage.redis, "q", 120);
    assert!(came.len() == 120 && came.iter().all(|payload| payload.ends_with('7')), "{came:?}");
    assert_eq!(list(&mut stage.redis, &keys("q").list).len(), 1_080);
}

/// Ten thousand go in pages, from the order list too, while others offer and take.
#[test]
fn ten_thousand_are_cancelled() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    fill(&mut stage.redis, 1, 20_000);
    let (mut cursor, mut cancelled, mut others) = ("0".to_owned(), 0, 0);
    loop {
        let page = say(&mut client, &format!("DQ.CANCEL q MATCH p*[02468] CURSOR {cursor}"));
        let [next, _, count] = page.elements() else { panic!("{page:?}") };
        (cursor, cancelled) = (next.text(), cancelled + count.int());
        if cursor == "0" {
            break;
        }
        offer(&mut client, &["q", "1h", "late"]);
        others += 1;
        // One of the last goes another way.
        let last = format!("p{}", 20_001 - others * 2);
        assert_eq!(call(&mut client, &["DQ.REMOVE", "q", &last]).int(), 1);
        assert!(others < 1_000, "it does not end");
    }
    assert_eq!(cancelled, 10_000);
    assert_eq!(say(&mut client, "DQ.SIZE q").int(), 10_000);
    assert_eq!(list(&mut stage.redis, &keys("q").list).len(), 10_000);
    assert_eq!(found(&mut client, "DQ.FIND q MATCH p*[02468]").0, [""; 0]);
}

/// A broker whose links can be made to fail, on a Redis of its own.
fn linked(stage: &Stage, settings: &[(&str, &str)]) -> (Proxy, Broker) {
    let proxy = Proxy::start(stage.redis_address());
    let broker = Broker::spawn(&format!("redis://{}/0", proxy.address()), settings);
    (proxy, broker)
}

/// A message that is changed after it was found, and before it would be, is left alone.
#[test]
fn changed_in_between() {
    let mut stage = Stage::alone(&[]);
    let (proxy, broker) = linked(&stage, &[]);
    fill(&mut stage.redis, 1, 3);
    let mut client = broker.client();
    for (command, script, score) in [
        ("DQ.RESCHEDULE q MATCH p* AT 4500000000000", &FIRE, "5000000000000"),
        ("DQ.CANCEL q MATCH p*", &CANCEL, "6000000000000"),
    ] {
        proxy.break_next(&[script.sha()], Break::Late);
        let broken = proxy.broken();
        client.send(&command.split(' ').collect::<Vec<_>>()).unwrap();
        eventually("the write is under way", || (proxy.broken() > broken).then_some(()));
        let members = say(&mut stage.redis, "ZRANGE redisson_delay_queue_timeout:{q} 0 -1");
        let last = members.elements()[2].bytes();
        let key = keys("q").timeout;
        stage.redis.call(&[b"ZADD", key.as_bytes(), score.as_bytes(), &last]).unwrap();
        proxy.release();
        let page = client.read().unwrap();
        assert_eq!(page.elements()[2], Value::Int(2), "{command}: {page:?}");
        let left = call(&mut stage.redis, &["ZRANGEBYSCORE", &key, score, score]);
        assert_eq!(left.elements()[0].bytes(), last, "{command}");
    }
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
}

/// Replies that are lost, and calls that never arrive, change no count.
#[test]
fn lost_replies() {
    let mut stage = Stage::alone(&[]);
    let (proxy, broker) = linked(&stage, &[]);
    fill(&mut stage.redis, 1, 2_000);
    let mut client = broker.client();
    for (command, script) in [
        ("DQ.RESCHEDULE q MATCH p*[05] AT 4500000000000", &FIRE),
        ("DQ.CANCEL q MATCH p*[05]", &CANCEL),
    ] {
        let broken = proxy.broken();
        proxy.break_every(script.sha(), 1);
        assert_eq!(changed(&mut client, command).0, 400, "{command}");
        assert!(proxy.broken() > broken + 1, "{command}");
        proxy.mend();
    }
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1_600));
}

/// Where nobody can find out what became of a call the answer is UNCERTAIN; the same page can be
/// asked for again.
#[test]
fn an_unknown_outcome() {
    let mut stage = Stage::alone(&[]);
    let settings = [("redis.call_timeout_ms", "2000"), ("redis.settle_timeout_ms", "2000")];
    let (proxy, broker) = linked(&stage, &settings);
    fill(&mut stage.redis, 1, 300);
    let mut client = broker.client();
    // The second hundred.
    proxy.break_next(&[CANCEL.sha(), "=4000000150000"], Break::Late);
    client.send(&["DQ.CANCEL", "q", "MATCH", "p*"]).unwrap();
    eventually("the write is under way", || (proxy.broken() == 1).then_some(()));
    proxy.hold_all();
    let reply = client.read().unwrap().text();
    assert!(reply.starts_with("UNCERTAIN "), "{reply}");
    proxy.release();
    let again = eventually("it is there again", || {
        let page = say(&mut client, "DQ.CANCEL q MATCH p*");
        (!matches!(page, Value::Error(_))).then_some(page)
    });
    // The held call may have arrived or not; nothing is met twice either way.
    let count = again.elements()[2].int();
    assert!(count == 200 || count == 100, "{again:?}");
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
}

/// An error after the first write says that a part is done.
#[test]
fn refused_in_the_middle() {
    let mut stage = Stage::alone(&[]);
    let (proxy, broker) = linked(&stage, &[]);
    fill(&mut stage.redis, 1, 300);
    let mut client = broker.client();
    proxy.break_next(&[CANCEL.sha(), "=4000000150000"], Break::Late);
    client.send(&["DQ.CANCEL", "q", "MATCH", "p*"]).unwrap();
    eventually("the write is under way", || (proxy.broken() == 1).then_some(()));
    say(&mut stage.redis, "REPLICAOF 127.0.0.1 1");
    proxy.release();
    let reply = client.read().unwrap().text();
    assert!(reply.starts_with("UNCERTAIN 100 of the messages are done; then: "), "{reply}");
    assert_eq!(say(&mut stage.redis, "ZCARD redisson_delay_queue_timeout:{q}").int(), 200);
}

/// Many clients at once: each takes its own share, and all come to an end.
#[test]
fn many_at_once() {
    let mut stage = Stage::new(&[]);
    fill(&mut stage.redis, 1, 5_000);
    let broker = &stage.broker;
    std::thread::scope(|scope| {
        let clients = (0..10).map(|digit| {
            let each = move || {
                let mut client = broker.client();
                let found = found(&mut client, &format!("DQ.FIND q MATCH p*{digit} COUNT 1000"));
                let cancel = format!("DQ.CANCEL q MATCH p*{digit} COUNT 100");
                (found.0.len(), changed(&mut client, &cancel).0)
            };
            scope.spawn(each)
        });
        for client in clients.collect::<Vec<_>>() {
            assert_eq!(client.join().unwrap(), (500, 500));
        }
    });
    assert_eq!(say(&mut stage.redis, "ZCARD redisson_delay_queue_timeout:{q}"), Value::Int(0));
}

/// Others have their turns while a search goes on: also one whose pattern is the worst there is.
#[test]
fn others_have_their_turns() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let payload = "a".repeat(60_000);
    for _ in 0..100 {
        offer(&mut client, &["q", "1h", &payload]);
    }
    let pattern = format!("*{}b", "a*".repeat(500));
    client.send(&["DQ.FIND", "q", "MATCH", &pattern]).unwrap();
    let mut other = stage.broker.client();
    assert_eq!(say(&mut other, "PING").text(), "PONG");
    let page = client.read().unwrap();
    assert_eq!(page.elements()[2], Value::Array(Vec::new()));
    // The time of a page is bounded, and so one has not all of them.
    assert!((1..=100).contains(&page.elements()[1].int()), "{page:?}");
    let (rows, looked) = found(&mut client, &format!("DQ.FIND q MATCH {pattern}"));
    assert_eq!((rows.len(), looked), (0, 100));
    say(&mut stage.redis, "PING");
}
