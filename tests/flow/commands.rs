//! What commands do to messages on their way: taken out, replaced, moved in time, delivered at
//! once, taken by payload or in offer order.

use crate::server::Stopped;
use crate::stage::{
    Stage, call, delivered, due_of, eventually, info, list, offer, say, sorted, take_due, time_us,
};
use crate::support::resp::{Client, Value, encode};
use std::thread;

#[test]
fn what_was_cancelled_never_comes() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    // Cancelled while they fall due: each is either cancelled or delivered.
    let mut cancelled = Vec::new();
    let mut ids = Vec::new();
    for n in 0..400 {
        ids.push((n, offer(&mut client, &["q", &(100 + n / 4).to_string(), &n.to_string()])));
    }
    for (n, id) in &ids {
        match call(&mut client, &["DQ.CANCEL", "q", id]) {
            Value::Int(1) => cancelled.push(n.to_string()),
            reply => assert_eq!(reply, Value::Int(0)),
        }
        assert_eq!(call(&mut client, &["DQ.CANCEL", "q", id]), Value::Int(0), "twice");
    }
    eventually("nothing is pending", || {
        (say(&mut client, "DQ.SIZE q") == Value::Int(0)).then_some(())
    });
    let mut all = list(&mut stage.redis, "q");
    assert_eq!(all.len() + cancelled.len(), 400);
    all.extend(cancelled);
    assert_eq!(sorted(all), sorted((0..400).map(|n| n.to_string()).collect()));
    assert_eq!(list(&mut stage.redis, "redisson_delay_queue:{q}"), [""; 0]);
}

/// More messages than one call names.
#[test]
fn many_messages_are_cancelled_and_fired_by_one_command() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let ids: Vec<String> =
        (0..250).map(|n| offer(&mut client, &["q", "1h", &n.to_string()])).collect();
    let named = |command: &str, ids: &[String]| -> Vec<String> {
        let before = [command.to_owned(), "q".to_owned(), "nobody".to_owned()];
        before.into_iter().chain(ids.iter().cloned()).collect()
    };
    let reply = client.call(&named("DQ.CANCEL", &ids[..120])).unwrap();
    assert_eq!(reply, Value::Int(120));
    let reply = client.call(&named("DQ.FIRE", &ids)).unwrap();
    assert_eq!(reply, Value::Int(130));
    eventually("all that were not cancelled are delivered", || {
        (list(&mut stage.redis, "q").len() == 130).then_some(())
    });
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
    assert_eq!(list(&mut stage.redis, "redisson_delay_queue:{q}"), [""; 0]);
}

#[test]
fn a_named_message_is_replaced_moved_and_its_name_is_free_again() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let first = offer(&mut client, &["q", "1h", "first", "NAME", "n"]);
    let nil = call(&mut client, &["DQ.OFFER", "q", "0", "refused", "NAME", "n", "NX"]);
    assert_eq!(nil, Value::Null);
    let second = offer(&mut client, &["q", "2h", "second", "NAME", "n", "xx"]);
    assert_eq!(call(&mut client, &["DQ.CANCEL", "q", &first]), Value::Int(0), "it was replaced");
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
    // Earlier, so that it comes; then its name is free.
    let moved = say(&mut client, "DQ.RESCHEDULE q n 150").text();
    assert_ne!(moved, second);
    take_due(&mut stage.redis, "q", "second", due_of(&moved));
    let nil = call(&mut client, &["DQ.OFFER", "q", "0", "refused", "NAME", "n", "XX"]);
    assert_eq!(nil, Value::Null);
    assert_eq!(say(&mut client, "DQ.GET q n"), Value::Null);
    // Later: what would have come soon does not.
    let soon = offer(&mut client, &["q", "2s", "postponed", "NAME", "n", "NX"]);
    let later = say(&mut client, "DQ.RESCHEDULE q n 3s").text();
    assert!(due_of(&later) > due_of(&soon) + 500);
    take_due(&mut stage.redis, "q", "postponed", due_of(&later));
    // At once, by name and by id; the reply counts each once.
    let far = offer(&mut client, &["q", "30d", "fired"]);
    offer(&mut client, &["q", "30d", "fired too", "NAME", "n"]);
    let before = time_us(&mut stage.redis) / 1_000;
    assert_eq!(call(&mut client, &["DQ.FIRE", "q", &far, "n", "nobody", "n"]), Value::Int(2));
    take_due(&mut stage.redis, "q", "fired", before);
    take_due(&mut stage.redis, "q", "fired too", before);
    // A replacement while the old one falls due: one of the two comes, never both, never none.
    for n in 0..100 {
        offer(&mut client, &["race", "3", &format!("old-{n}"), "NAME", "r"]);
        offer(&mut client, &["race", "3", &format!("new-{n}"), "NAME", "r"]);
    }
    eventually("nothing is pending", || {
        (say(&mut client, "DQ.SIZE race") == Value::Int(0)).then_some(())
    });
    let came = list(&mut stage.redis, "race");
    assert_eq!(came.last().map(String::as_str), Some("new-99"));
    assert_eq!(came.len() as i64 + replaced(&mut client, &came), 200);
    assert_eq!(call(&mut stage.redis, &["EXISTS", "delay_broker_names:{race}"]), Value::Int(0));
}

/// How many were replaced before they came: they are in no list, and were offered.
fn replaced(client: &mut crate::support::resp::Client, came: &[String]) -> i64 {
    let offered = info(client, "race", "offered").int();
    assert_eq!(info(client, "race", "delivered").int(), came.len() as i64);
    let mut once = came.to_vec();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), came.len(), "something came twice");
    offered - came.len() as i64
}

#[test]
fn poll_takes_in_offer_order_and_remove_takes_all_while_offers_go_on() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for (delay, payload) in [("3h", "a"), ("1h", "b"), ("2h", "c"), ("1h", "b")] {
        offer(&mut client, &["p", delay, payload]);
    }
    assert_eq!(say(&mut client, "DQ.POLL p COUNT 3").texts(), ["a", "b", "c"]);
    assert_eq!(say(&mut client, "DQ.POLL p").texts(), ["b"]);
    assert_eq!(say(&mut client, "DQ.POLL p"), Value::Array(Vec::new()));

    let offering = stage.broker.client();
    let writer = thread::spawn(move || {
        let mut client = offering;
        for _ in 0..20 {
            let mut commands = Vec::new();
            for n in 0..500 {
                let payload = if n % 2 == 0 { "wanted" } else { "other" };
                commands.extend(encode(&["DQ.OFFER", "q", "1h", payload]));
            }
            client.send_bytes(&commands).unwrap();
            for _ in 0..500 {
                assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
            }
        }
    });
    let mut removed = 0;
    while !writer.is_finished() {
        removed += say(&mut client, "DQ.REMOVE q wanted COUNT 0").int();
    }
    writer.join().unwrap();
    removed += say(&mut client, "DQ.REMOVE q wanted COUNT 0").int();
    assert_eq!(removed, 5_000);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(5_000));
    assert_eq!(say(&mut client, "DQ.CONTAINS q wanted other").texts(), ["0", "1"]);
    // What others took out of the middle leaves offer order as it is.
    assert_eq!(say(&mut client, "DQ.REMOVE q other COUNT 1000"), Value::Int(1_000));
    assert_eq!(say(&mut client, "DQ.CLEAR q"), Value::Int(4_000));
    offer(&mut client, &["q", "0", "still works"]);
    assert_eq!(delivered(&mut stage.redis, "q", 1), ["still works"]);
}

/// Goal: a call whose client is gone gives back what it took. Method: more clients than calls may
/// be under way wait for a Redis that does not answer, and are ended; then others call.
#[test]
fn clients_that_are_ended_in_the_middle_of_a_call_take_nothing_with_them() {
    let mut stage = Stage::alone(&[("redis.call_timeout_ms", "20000")]);
    let info = say(&mut stage.redis, "INFO server").text();
    let mut lines = info.lines();
    let pid = lines.find_map(|line| line.strip_prefix("process_id:"));
    let pid = pid.unwrap().trim().parse().unwrap();
    let mut client = stage.broker.client();
    say(&mut client, "DQ.OFFER q 1h a NAME n");
    let processed = |client: &mut Client| {
        let info = say(client, "INFO stats").text();
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let stopped = Stopped::new(pid);
    let before = processed(&mut client);
    let mut waiting: Vec<Client> = (0..40).map(|_| stage.broker.client()).collect();
    for other in &mut waiting {
        other.send(&["DQ.CANCEL", "q", "nobody"]).unwrap();
    }
    eventually("all are under way", || (processed(&mut client) >= before + 41).then_some(()));
    assert_eq!(say(&mut client, "CLIENT KILL TYPE normal"), Value::Int(40));
    eventually("all are gone", || {
        (say(&mut client, "CLIENT LIST").text().lines().count() == 1).then_some(())
    });
    drop(stopped);
    assert_eq!(say(&mut client, "DQ.CANCEL q n"), Value::Int(1));
}

/// Goal: two messages never become one, whoever gave the other its id. Method: a foreign client
/// takes every first id that this broker can give in the next seconds, with the same payload.
#[test]
fn a_message_whose_id_is_taken_gets_another() {
    const EPOCH_MS: u64 = 1_704_067_200_000;
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    let node = say(&mut stage.redis, "KEYS delay_broker_node:*").texts();
    let node: u64 = node[0].rsplit(':').next().unwrap().parse().unwrap();
    let from_ms = time_us(&mut stage.redis) / 1_000;
    let mut commands = Vec::new();
    for ms in from_ms..from_ms + 10_000 {
        let id = ((ms - EPOCH_MS) << 22 | node << 12).to_be_bytes();
        let member = [&[8][..], &id, &1_u64.to_le_bytes(), b"x"].concat();
        let key = "redisson_delay_queue_timeout:{q}";
        let due = (from_ms + 3_600_000).to_string();
        commands.extend(encode(&[b"ZADD".as_slice(), key.as_bytes(), due.as_bytes(), &member]));
    }
    stage.redis.send_bytes(&commands).unwrap();
    for _ in 0..10_000 {
        assert_eq!(stage.redis.read().unwrap(), Value::Int(1));
    }
    let ids: std::collections::BTreeSet<String> = (0..20)
        .map(|_| {
            eventually("stored", || {
                // On a busy machine each of its tries may be in another millisecond.
                match call(&mut client, &["DQ.OFFER", "q", "2h", "x"]) {
                    Value::Bulk(id) => Some(String::from_utf8(id).unwrap()),
                    other => {
                        let text = other.text();
                        assert!(text.contains("every id that was tried"), "{text}");
                        None
                    }
                }
            })
        })
        .collect();
    assert!(
        time_us(&mut stage.redis) / 1_000 < from_ms + 10_000,
        "the ids that were taken are used up: nothing was tried"
    );
    assert_eq!(ids.len(), 20);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(10_020));
    for id in &ids {
        assert_eq!(call(&mut client, &["DQ.CANCEL", "q", id]), Value::Int(1));
    }
}
