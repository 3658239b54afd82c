//! How the broker learns of what others offer: by publication, by looking, and when one of them
//! fails. A wake-up is a hint: without it a message is later, never lost.

use crate::foreign::{self, keys, legacy, modern, write};
use crate::stage::{
    NO_SCAN, ON_TIME, SOON, Stage, call, delivered, due_of, eventually, list, metric, offer, say,
    sorted, take, take_due, time_us,
};
use crate::support::resp::Value;
use std::time::Duration;

/// In so many ms, as a score.
fn due_in(stage: &mut Stage, ms: u64) -> u64 {
    time_us(&mut stage.redis) / 1_000 + ms
}

#[test]
fn a_queue_of_others_is_found_by_its_publication() {
    let mut stage = Stage::new(&[NO_SCAN]);
    // The second queue has an earlier message published while the first head waits.
    for (queue, delays) in [("published-1", &[300][..]), ("published-2", &[30_000, 400, 500])] {
        let due: Vec<u64> = delays.iter().map(|ms| due_in(&mut stage, *ms)).collect();
        for (n, due) in due.iter().enumerate() {
            let id = [n as u8 + 1; 8];
            foreign::offer(&mut stage.redis, queue, &due.to_string(), id, &due.to_string());
        }
        for due in due.into_iter().filter(|due| due - delays[0] < 20_000).skip(delays.len() / 3) {
            take_due(&mut stage.redis, queue, &due.to_string(), due);
        }
    }
}

#[test]
fn a_queue_of_others_is_found_without_any_publication() {
    // Written before there was a broker.
    let mut stage = Stage::new(&[NO_SCAN]);
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    let due = due_in(&mut stage, 5_000);
    write(&mut stage.redis, "before", &due.to_string(), &modern([1; 8], b"modern"), true);
    write(&mut stage.redis, "be{fo}re", &due.to_string(), &legacy([1; 8], b"legacy"), false);
    stage.broker = stage.another(&[]);
    take_due(&mut stage.redis, "before", "modern", due);
    take_due(&mut stage.redis, "be{fo}re", "legacy", due);

    // Behind the back of a broker that knows the queue and waits for something later: the safety
    // scan, once a second, sees it.
    let mut client = stage.broker.client();
    offer(&mut client, &["behind", "1h", "later"]);
    let due = due_in(&mut stage, 0);
    write(&mut stage.redis, "behind", &due.to_string(), &modern([2; 8], b"overdue"), true);
    let (payload, at) = take(&mut stage.redis, "behind");
    assert_eq!(payload, b"overdue");
    let late = Duration::from_micros(at - due * 1_000);
    assert!(late < Duration::from_secs(1) + ON_TIME, "late by {late:?}");
    // It may have been looked at for another reason once; the scan is counted as such.
    assert!(metric(&stage.broker, "delay_broker_wakeups_total{cause=\"scan\"}") >= 1.0);
}

#[test]
fn scores_that_are_no_times() {
    let mut stage = Stage::new(&[]);
    let now = due_in(&mut stage, 0);
    let queue = "odd";
    let fraction = format!("{}.5", now + 3_000);
    // Score, payload, whether it is in the order list too.
    for (n, (score, payload, listed)) in [
        ("-5", "negative", true),
        ("-inf", "before all", false),
        (&fraction, "fraction", true),
        ("1e+17", "huge", true),
        ("inf", "never", false),
        (&(now + 3_300).to_string(), "zset only", false),
    ]
    .into_iter()
    .enumerate()
    {
        write(&mut stage.redis, queue, score, &modern([n as u8; 8], payload.as_bytes()), listed);
    }
    call(&mut stage.redis, &["PUBLISH", &keys(queue).channel, "-5"]);
    let mut came = delivered(&mut stage.redis, queue, 2);
    assert_eq!(crate::stage::sorted(came.split_off(0)), ["before all", "negative"]);
    call(&mut stage.redis, &["DEL", queue]);
    let (payload, at) = take(&mut stage.redis, queue);
    assert_eq!(payload, b"fraction");
    assert!(at >= (now + 3_000) * 1_000 + 500, "early");
    take_due(&mut stage.redis, queue, "zset only", now + 3_300);
    // What never comes costs nothing: no more than looks at a few heads.
    let transfers = "delay_broker_script_seconds_count{script=\"transfer\"}";
    let mut client = stage.broker.client();
    let id = offer(&mut client, &["other", "700", "meanwhile"]);
    let before = metric(&stage.broker, transfers);
    take_due(&mut stage.redis, "other", "meanwhile", due_of(&id));
    let calls = metric(&stage.broker, transfers) - before;
    assert!(calls < 20.0, "{calls} transfers while nothing could move");
    assert_eq!(call(&mut client, &["DQ.SIZE", queue]), Value::Int(2));
}

#[test]
fn on_time_without_the_subscription_and_after_it_is_back() {
    // The scan is the only help while no subscription is allowed, and none when it is back.
    let mut stage = Stage::alone(&[("scheduler.scan_interval_ms", "300")]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "much later"]);
    let patterns = |stage: &mut Stage| call(&mut stage.redis, &["PUBSUB", "NUMPAT"]).int();
    eventually("subscribed", || (patterns(&mut stage) > 0).then_some(()));
    say(&mut stage.redis, "ACL SETUSER default -psubscribe");
    let killed = say(&mut stage.redis, "CLIENT KILL TYPE pubsub");
    assert_eq!(killed, Value::Int(1));
    assert_eq!(patterns(&mut stage), 0);
    let due = due_in(&mut stage, 500);
    foreign::offer(&mut stage.redis, "q", &due.to_string(), [1; 8], "unheard");
    take_due(&mut stage.redis, "q", "unheard", due);
    assert_eq!(patterns(&mut stage), 0, "it came back too early");
    // Trying again must not become a storm.
    let connections = |stage: &mut Stage| {
        let info = say(&mut stage.redis, "INFO stats").text();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = connections(&mut stage);
    let id = offer(&mut client, &["q", "500", "by the broker"]);
    take_due(&mut stage.redis, "q", "by the broker", due_of(&id));
    let made = connections(&mut stage) - before;
    assert!(made < 100, "{made} connections in half a second");

    say(&mut stage.redis, "ACL SETUSER default +psubscribe");
    eventually("subscribed again", || (patterns(&mut stage) > 0).then_some(()));
    stage.replace_broker(&[NO_SCAN]);
    say(&mut stage.redis, "CLIENT KILL TYPE pubsub");
    eventually("subscribed again", || (patterns(&mut stage) > 0).then_some(()));
    let due = due_in(&mut stage, 300);
    foreign::offer(&mut stage.redis, "q", &due.to_string(), [2; 8], "heard");
    take_due(&mut stage.redis, "q", "heard", due);
}

#[test]
fn what_was_published_while_the_subscription_was_away_is_found_when_it_is_back() {
    let mut stage = Stage::alone(&[NO_SCAN]);
    let due = due_in(&mut stage, 400);
    // Killed and offered before anybody can subscribe again: nobody hears it.
    say(&mut stage.redis, "MULTI");
    say(&mut stage.redis, "CLIENT KILL TYPE pubsub");
    let names = keys("unheard");
    let member = modern([1; 8], b"m");
    let score = due.to_string();
    stage.redis.call(&[b"ZADD", names.timeout.as_bytes(), score.as_bytes(), &member]).unwrap();
    say(&mut stage.redis, &format!("PUBLISH {} {due}", names.channel));
    let done = say(&mut stage.redis, "EXEC");
    assert_eq!(done.elements()[2], Value::Int(0), "nobody heard: {done:?}");
    take_due(&mut stage.redis, "unheard", "m", due);
}

#[test]
fn on_time_after_the_scripts_were_flushed() {
    let mut stage = Stage::alone(&[NO_SCAN]);
    let mut client = stage.broker.client();
    let pending = offer(&mut client, &["q", "400", "pending"]);
    say(&mut stage.redis, "SCRIPT FLUSH");
    take_due(&mut stage.redis, "q", "pending", due_of(&pending));
    for round in 0..3 {
        say(&mut stage.redis, "SCRIPT FLUSH");
        let mut commands = Vec::new();
        for n in 0..200 {
            commands.extend(crate::support::resp::encode(&["DQ.OFFER", "p", "5", &n.to_string()]));
        }
        client.send_bytes(&commands).unwrap();
        say(&mut stage.redis, "SCRIPT FLUSH");
        for _ in 0..200 {
            let reply = client.read().unwrap();
            assert!(matches!(reply, Value::Bulk(_)), "{reply:?}");
        }
        say(&mut stage.redis, "SCRIPT FLUSH");
        let wanted: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        // A batch whose script was gone is stored, and so due, later than the one behind it.
        let came = delivered(&mut stage.redis, "p", 200);
        assert_eq!(sorted(came), sorted(wanted), "round {round}");
        call(&mut stage.redis, &["DEL", "p"]);
    }
    for command in ["DQ.SIZE q", "DQ.CLEAR q", "DQ.POLL q", "DQ.REMOVE q m", "DQ.INFO q"] {
        say(&mut stage.redis, "SCRIPT FLUSH");
        let reply = say(&mut client, command);
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
    assert_eq!(list(&mut stage.redis, "q"), [""; 0]);
}

/// Nobody offers to them or publishes: all of them are found by the first look at the database.
#[test]
fn a_thousand_queues_of_others_are_found_at_the_start() {
    let mut stage = Stage::new(&[NO_SCAN]);
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    let due = due_in(&mut stage, 1_500);
    for n in 0..1_000 {
        let member = modern([1; 8], n.to_string().as_bytes());
        write(&mut stage.redis, &format!("queue-{n}"), &due.to_string(), &member, n % 2 == 0);
    }
    stage.broker = stage.another(&[NO_SCAN]);
    for n in (0..1_000).rev() {
        // When it is taken says little of when it came, but that it did not come before its time.
        let (payload, at) = take(&mut stage.redis, &format!("queue-{n}"));
        assert_eq!(payload, n.to_string().as_bytes());
        assert!(at >= due * 1_000, "{n} is early");
    }
}
