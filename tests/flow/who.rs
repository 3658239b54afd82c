//! Who did it: what takes messages out or holds them back is in the log, with the client; and a
//! flood of it is summed up.

use crate::stage::{Stage, call, eventually, offer, say};
use crate::support::broker::Broker;
use crate::support::resp::{Client, Value};
use crate::taking::{push, settle, take_one};

fn stage() -> Stage {
    let mut stage = Stage::new(&[]);
    stage.broker = Broker::with_args(&["--redis", &stage.url, "--log", "info"], &[]);
    stage
}

/// The lines of the log that a client's command made.
fn lines(stage: &Stage) -> Vec<String> {
    let log = stage.broker.log();
    let lines = log.lines().filter(|line| line.contains("\"command\":"));
    lines.map(str::to_owned).collect()
}

fn put_aside(client: &mut Client) {
    eventually("it is put aside", || {
        let put = say(client, "DQ.QUARANTINE q LIST").elements().len();
        (put == 1).then_some(())
    });
}

#[test]
fn what_takes_out_or_holds_back_is_in_the_log() {
    let mut stage = stage();
    let mut client = stage.broker.client();
    say(&mut client, "CLIENT SETNAME night-job");
    let list = say(&mut client, "CLIENT LIST").text();
    let addr = list.split_once("addr=").unwrap().1.split(' ').next().unwrap().to_owned();
    for n in 0..9 {
        offer(&mut client, &["q", "1h", &(n / 4).to_string()]);
    }
    let zset = "redisson_delay_queue_timeout:{q}";
    call(&mut stage.redis, &["ZADD", zset, "1", "unreadable"]);
    call(&mut stage.redis, &["PUBLISH", "redisson_delay_queue_channel:{q}", "1"]);
    put_aside(&mut client);
    let died = ["a", "b"].map(|payload| {
        push(&mut stage.redis, &[payload]);
        let taken = take_one(&mut client, "q");
        assert_eq!(settle(&mut client, "DQ.NACK", &taken, &["FATAL"]), 1);
        taken.id
    });
    let rows: [(&str, &str, &[&str]); 16] = [
        ("DQ.FIRE q MATCH 0 COUNT 1", "DQ.FIRE MATCH", &["\"messages\":1"]),
        ("DQ.RESCHEDULE q MATCH 2 2h", "DQ.RESCHEDULE MATCH", &["\"messages\":1"]),
        ("DQ.CANCEL q MATCH [2]", "DQ.CANCEL MATCH", &["\"messages\":1"]),
        ("DQ.REMOVE q 0 COUNT 0", "DQ.REMOVE COUNT 0", &["\"messages\":3"]),
        ("DQ.POLL q COUNT 2", "DQ.POLL", &["\"messages\":2"]),
        ("DQ.CONVERT q LEGACY", "DQ.CONVERT", &["\"messages\":2"]),
        ("DQ.QUARANTINE q RESTORE", "DQ.QUARANTINE RESTORE", &["\"messages\":1"]),
        ("DQ.PAUSE q 1h", "DQ.PAUSE", &["\"known\":true"]),
        ("DQ.RESUME q", "DQ.RESUME", &[]),
        ("DQ.DEAD q REQUEUE $", "DQ.DEAD REQUEUE", &["\"messages\":1"]),
        ("DQ.TAKEN q RELEASE", "DQ.TAKEN RELEASE", &["\"messages\":1"]),
        ("DQ.DEAD q DROP", "DQ.DEAD DROP", &["\"messages\":1"]),
        ("DQ.QUARANTINE q DROP", "DQ.QUARANTINE DROP", &["\"messages\":1"]),
        ("DQ.CLEAR q", "DQ.CLEAR", &["\"messages\":2"]),
        // A name with a mistake.
        ("DQ.PAUSE qq", "DQ.PAUSE", &["\"queue\":\"qq\"", "\"known\":false"]),
        ("DQ.PAUSE ALL", "DQ.PAUSE", &["\"queue\":\"ALL\""]),
    ];
    for (sent, command, parts) in rows {
        if sent == "DQ.QUARANTINE q DROP" {
            // What was restored is due, and readable no more than before.
            put_aside(&mut client);
        }
        let before = lines(&stage).len();
        let reply = say(&mut client, &sent.replace('$', &died[0]));
        assert!(!matches!(reply, Value::Error(_)), "{sent}: {reply:?}");
        let line = eventually(sent, || lines(&stage).get(before).cloned());
        let command = format!("\"command\":\"{command}\"");
        let client = format!("\"client\":\"{addr}\"");
        let all = ["INFO", &command, &client, "\"name\":\"night-job\"", "\"queue\":\""];
        for part in all.iter().chain(parts) {
            assert!(line.contains(part), "{sent}: {part} in {line}");
        }
    }
    // One or some by payload are as a cancel, and what took nothing took nothing.
    let before = lines(&stage).len();
    say(&mut client, "DQ.REMOVE q nothing COUNT 1");
    say(&mut client, "DQ.POLL empty");
    say(&mut client, "DQ.CANCEL q MATCH nothing");
    say(&mut client, "DQ.CANCEL q MATCH * DRYRUN");
    say(&mut client, "DQ.CLEAR last");
    eventually("the last one", || {
        lines(&stage).last().filter(|line| line.contains("last")).map(drop)
    });
    assert_eq!(lines(&stage).len(), before + 1);
}

/// Thousands of polls are two lines: the first, and the sum of the others. Another command is not
/// hidden by them; names are cut.
#[test]
fn a_flood_is_summed_up() {
    let stage = stage();
    let mut client = stage.broker.client();
    let queue = "q".repeat(1_000);
    let mut offers = vec!["DQ.MOFFER", &queue];
    for _ in 0..500 {
        offers.extend(["1h", "m"]);
    }
    for _ in 0..4 {
        call(&mut client, &offers);
    }
    for _ in 0..2_000 {
        assert_eq!(call(&mut client, &["DQ.POLL", &queue]).texts(), ["m"]);
    }
    call(&mut client, &["DQ.PAUSE", &queue]);
    let summed = eventually("the sum", || {
        let lines = lines(&stage);
        let sum = |line: &str, field: &str| -> Option<u64> {
            let rest = line.split_once(&format!("\"{field}\":"))?.1;
            rest.split([',', '}']).next()?.parse().ok()
        };
        let polls = lines.iter().filter(|line| line.contains("DQ.POLL"));
        let taken: u64 = polls.clone().filter_map(|line| sum(line, "messages")).sum();
        let calls: u64 = polls.clone().map(|line| sum(line, "calls").unwrap_or(1)).sum();
        ((taken, calls) == (2_000, 2_000)).then_some(polls.count())
    });
    // A slow machine needs more than one time to sum up.
    assert!(summed < 40, "{summed} lines");
    let lines = lines(&stage);
    assert!(lines.iter().any(|line| line.contains("DQ.PAUSE")), "{lines:?}");
    assert!(lines.iter().all(|line| line.len() < 600), "{lines:?}");
    drop(stage);
}

/// Nor is a command hidden by another one on hundreds of queues.
#[test]
fn a_flood_over_many_queues_hides_no_other_command() {
    let stage = stage();
    let mut client = stage.broker.client();
    for n in 0..300 {
        say(&mut client, &format!("DQ.PAUSE flood-{n} 1"));
    }
    offer(&mut client, &["victim", "1h", "m"]);
    assert_eq!(say(&mut client, "DQ.CLEAR victim").int(), 1);
    say(&mut client, "DQ.POLL victim");
    offer(&mut client, &["victim", "1h", "m"]);
    assert_eq!(say(&mut client, "DQ.POLL victim").texts(), ["m"]);
    eventually("both are in the log", || {
        let lines = lines(&stage);
        let has = |command: &str| {
            let of = format!("\"command\":\"{command}\"");
            let mut lines = lines.iter();
            lines.any(|line| line.contains(&of) && line.contains("\"queue\":\"victim\""))
        };
        (has("DQ.CLEAR") && has("DQ.POLL")).then_some(())
    });
}
