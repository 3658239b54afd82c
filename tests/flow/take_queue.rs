//! Queues that only takers consume: ids, headers, priorities, TTL, limits and names, from the offer
//! to the end, and pushes in order with offers.

use std::time::Duration;

use crate::server::Server;
use crate::stage::{Stage, bytes_of, call, eventually, field_of, get, info, offer, say};
use crate::support::broker::Broker;
use crate::support::resp::{Client, Value, encode};
use crate::taking::{Taken, came, read, take, take_one, waits};

/// A stage whose queue `q` has takers alone, and a connection to its broker.
fn for_takers(settings: &str) -> (Stage, Client) {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    say(&mut client, format!("DQ.SETUP q destination take {settings}").trim_end());
    (stage, client)
}

/// The id that a taker gets of a message that was offered.
fn id_of(message: &str) -> String {
    bytes_of(message).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ready(client: &mut Client, queue: &str, count: i64) {
    eventually("all are ready", || (info(client, queue, "ready").int() == count).then_some(()));
}

/// Any bytes, of any size, through retry, death and the way back.
#[test]
fn payloads_stay_as_they_are() {
    let (_stage, mut client) = for_takers("limit 2");
    client.read_within(Duration::from_secs(60)).unwrap();
    let like: Vec<u8> = b"\0DQ\x01\x01\0\0\0\x80p".to_vec();
    let huge: Vec<u8> = like.iter().copied().cycle().take(16 << 20).collect();
    for payload in [&like[..], b"", &huge] {
        for more in [&[][..], &["HEADER", "k", "v", "PRIO", "3", "TTL", "1h"]] {
            let mut args: Vec<&[u8]> = vec![b"DQ.OFFER", b"q", b"0", payload];
            args.extend(more.iter().map(|word| word.as_bytes()));
            let id = id_of(&client.call(&args).unwrap().text());
            for attempt in 1..=3 {
                let reply = call(&mut client, &["DQ.TAKE", "q", "BLOCK", "60s"]);
                let [message] = reply.elements() else { panic!("{} messages", more.len()) };
                let field = |name| field_of(message, name).unwrap();
                assert_eq!(field("id").text(), id);
                assert!(field("payload").bytes() == payload, "attempt {attempt}");
                let headers = field_of(message, "headers").map(|map| map.texts());
                let wanted = (!more.is_empty()).then(|| vec!["k".to_owned(), "v".to_owned()]);
                assert_eq!(headers, wanted);
                let receipt = field("receipt").text();
                if attempt == 3 {
                    assert_eq!(say(&mut client, &format!("DQ.ACK q {receipt}")), Value::Int(1));
                    continue;
                }
                assert_eq!(
                    say(&mut client, &format!("DQ.NACK q {receipt} DELAY 0")),
                    Value::Int(1)
                );
                if attempt == 2 {
                    let dead = say(&mut client, "DQ.DEAD q LIST");
                    let row = &dead.elements()[1].elements()[0];
                    assert!(field_of(row, "payload").unwrap().bytes() == payload);
                    assert_eq!(say(&mut client, "DQ.DEAD q REQUEUE"), Value::Int(1));
                }
            }
        }
    }
}

/// What a list held before the change is taken as well; back there is no way while anything is.
#[test]
fn a_list_becomes_one_for_takers() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "0", "delivered"]);
    ready(&mut client, "q", 1);
    let pending = offer(&mut client, &["q", "1h", "pending"]);
    assert_eq!(say(&mut client, "DQ.SETUP q destination take"), Value::Simple("OK".into()));
    call(&mut client, &["DQ.FIRE", "q", &pending]);
    let mut got: Vec<Taken> = Vec::new();
    for _ in 0..2 {
        got.push(take_one(&mut client, "q BLOCK 10s"));
    }
    let payloads: Vec<&str> = got.iter().map(|one| &one.payload[..]).collect();
    assert_eq!(payloads, ["delivered", "pending"]);
    assert_eq!(got[1].id, id_of(&pending));
    for one in &got {
        let refused = say(&mut client, "DQ.SETUP q destination list");
        assert!(matches!(refused, Value::Error(_)), "{refused:?}");
        assert_eq!(say(&mut client, &format!("DQ.ACK q {}", one.receipt)), Value::Int(1));
    }
    assert_eq!(say(&mut client, "DQ.SETUP q destination list"), Value::Simple("OK".into()));
}

/// Names until done: what each command says of a name in each place.
#[test]
fn names_are_held_until_their_messages_are_done() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let places = ["pending", "ready", "leased", "waiting", "dead"];
    for (place, [nx, xx, replace, cancel, get, reschedule, fire]) in places.into_iter().zip([
        // Whether each does something.
        [false, true, true, true, true, true, true],
        [false, false, true, false, false, false, false],
        [false, false, true, false, false, false, false],
        [false, false, true, false, false, false, false],
        [true, false, true, false, false, false, false],
    ]) {
        let commands = [
            ("DQ.OFFER q 1h b NAME n NX", nx),
            ("DQ.OFFER q 1h b NAME n XX", xx),
            ("DQ.OFFER q 1h b NAME n", replace),
            ("DQ.CANCEL q n", cancel),
            ("DQ.GET q n", get),
            ("DQ.RESCHEDULE q n 2h", reschedule),
            ("DQ.FIRE q n", fire),
        ];
        for (at, (command, does)) in commands.into_iter().enumerate() {
            let q = &format!("{place}{at}");
            say(&mut client, &format!("DQ.SETUP {q} destination take names_until done limit 1"));
            let delay = if place == "pending" { "1h" } else { "0" };
            offer(&mut client, &[q, delay, "a", "NAME", "n"]);
            if place != "pending" {
                ready(&mut client, q, 1);
            }
            if !["pending", "ready"].contains(&place) {
                let receipt = take_one(&mut client, &format!("{q} BLOCK 10s")).receipt;
                let gives = match place {
                    "waiting" => "SILENT DELAY 1h",
                    "dead" => "FAIL",
                    _ => "",
                };
                if !gives.is_empty() {
                    say(&mut client, &format!("DQ.NACK {q} {receipt} {gives}"));
                }
            }
            let reply = say(&mut client, &command.replace(" q ", &format!(" {q} ")));
            let done = !matches!(reply, Value::Null | Value::Int(0));
            assert_eq!(done, does, "{command} of one that is {place}: {reply:?}");
        }
    }
}

/// It is free when its message is settled, expired or dropped, and when the queue is forgotten.
#[test]
fn names_are_free_again() {
    let (mut stage, mut client) = for_takers("names_until done");
    let nx = ["q", "0", "a", "NAME", "n", "NX"];
    let is_free = |client: &mut Client| offer(client, &nx);
    let refused = |client: &mut Client| {
        let all = [&["DQ.OFFER"], &nx[..]].concat();
        assert_eq!(call(client, &all), Value::Null);
    };
    is_free(&mut client);
    let one = take_one(&mut client, "q BLOCK 10s");
    refused(&mut client);
    say(&mut client, &format!("DQ.ACK q {}", one.receipt));
    // Expired.
    is_free(&mut client);
    ready(&mut client, "q", 1);
    let one = take_one(&mut client, "q");
    say(&mut client, &format!("DQ.ACK q {}", one.receipt));
    let ttl = [&nx[..], &["TTL", "100ms"]].concat();
    offer(&mut client, &ttl);
    eventually("it expires", || {
        assert!(take(&mut client, "q LEASE 100ms").len() <= 1);
        (info(&mut client, "q", "expired").int() == 1).then_some(())
    });
    // Deleted by hand, and the queue is forgotten.
    is_free(&mut client);
    ready(&mut client, "q", 1);
    call(&mut stage.redis, &["DEL", "q"]);
    refused(&mut client);
    // It may have been forgotten before, while its message was there: now it is known again.
    let other = offer(&mut client, &["q", "1h", "other"]);
    assert_eq!(call(&mut client, &["DQ.CANCEL", "q", &other]), Value::Int(1));
    eventually("the name is forgotten", || {
        (call(&mut stage.redis, &["EXISTS", "delay_broker_held:{q}"]) == Value::Int(0))
            .then_some(())
    });
    is_free(&mut client);
}

/// An occurrence is left out while the one before is worked on.
#[test]
fn a_schedule_waits_for_its_last_one() {
    let (mut stage, mut client) = for_takers("names_until done");
    call(&mut client, &["DQ.CRON", "q", "SET", "c", "* * * * * *", "p"]);
    let first = take_one(&mut client, "q BLOCK 15s LEASE 1h");
    let skipped = || {
        let (_, text) = get(&stage.broker, "/metrics");
        let line = text.lines().find(|line| line.contains("cron_skipped_total{queue=\"q\"}"));
        line.and_then(|line| line.rsplit_once(' ')).map_or(0, |(_, n)| n.parse().unwrap())
    };
    eventually("two are left out", || (skipped() >= 2_u64).then_some(()));
    assert_eq!(call(&mut stage.redis, &["LLEN", "q"]), Value::Int(0));
    say(&mut client, &format!("DQ.ACK q {}", first.receipt));
    take_one(&mut client, "q BLOCK 15s");
}

/// Offers that are due at once and pushes, in turn in one pipeline: first in, first out.
#[test]
fn pushes_keep_the_order() {
    for settings in ["destination list", "destination take"] {
        let stage = Stage::new(&[]);
        let mut client = stage.broker.client();
        client.read_within(Duration::from_secs(120)).unwrap();
        say(&mut client, &format!("DQ.SETUP q {settings}"));
        const COUNT: usize = 10_000;
        let mut sends = stage.broker.client();
        let sender = std::thread::spawn(move || {
            sends.read_within(Duration::from_secs(120)).unwrap();
            for some in (0..COUNT).collect::<Vec<_>>().chunks(500) {
                let bytes = some.iter().flat_map(|number| match number % 2 {
                    0 => encode(&["DQ.OFFER", "q", "0", &number.to_string()]),
                    _ => encode(&["DQ.PUSH", "q", &number.to_string()]),
                });
                sends.send_bytes(&bytes.collect::<Vec<u8>>()).unwrap();
                for number in some {
                    let reply = sends.read().unwrap();
                    assert!(!matches!(reply, Value::Error(_) | Value::Null), "{number}: {reply:?}");
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < COUNT {
            let reply = call(
                &mut client,
                &["DQ.TAKE", "q", "COUNT", "1000", "BLOCK", "60s", "LEASE", "1h"],
            );
            got.extend(read(&reply).into_iter().map(|one| one.payload.parse::<usize>().unwrap()));
        }
        sender.join().unwrap();
        // The first that is out of order, and those around it.
        let wrong = got.iter().zip(0..).position(|(number, place)| *number != place);
        let around = wrong.map(|at| &got[at.saturating_sub(5)..(at + 20).min(got.len())]);
        assert_eq!(around, None, "{settings}: from {wrong:?} on");
    }
}

/// A taker that waits gets what is pushed, at its own broker and at another one.
#[test]
fn a_push_wakes_takers() {
    let stage = Stage::new(&[]);
    let other = stage.another(&[]);
    for broker in [&stage.broker, &other] {
        let mut taker = waits(&stage.broker, "q BLOCK 60s");
        say(&mut broker.client(), "DQ.PUSH q a");
        assert_eq!(came(&mut taker), ["a"]);
    }
}

/// What is pending, ready, leased and waiting is there when Redis is back, with all that was said.
#[test]
fn a_redis_that_restarts() {
    let mut server = Server::start();
    let broker = Broker::spawn(&server.url(), &[]);
    let mut client = broker.client();
    say(&mut client, "DQ.SETUP q destination take names_until done");
    let more = ["HEADER", "k", "v", "LIMIT", "9", "TTL", "1h"];
    let mut ids = Vec::new();
    for (payload, delay) in [("leased", "0"), ("waiting", "0"), ("ready", "0"), ("pending", "1h")] {
        let name = ["q", delay, payload, "NAME", payload];
        ids.push(id_of(&offer(&mut client, &[&name[..], &more].concat())));
        if payload == "leased" || payload == "waiting" {
            let one = take_one(&mut client, "q BLOCK 10s LEASE 1h");
            if payload == "waiting" {
                say(&mut client, &format!("DQ.NACK q {} DELAY 1h", one.receipt));
            }
        }
    }
    ready(&mut client, "q", 1);
    server.kill();
    server.start_again();
    let mut redis = server.client();
    eventually("Redis has read its files", || {
        let far = say(&mut redis, "ZCARD delay_broker_leased:{q}");
        (far == Value::Int(1)).then_some(())
    });
    eventually("the broker serves again", || {
        (say(&mut client, "DQ.FIRE q pending") == Value::Int(1)).then_some(())
    });
    for key in ["leased", "retry"] {
        let key = format!("delay_broker_{key}:{{q}}");
        let id = call(&mut redis, &["ZRANGE", &key, "0", "0"]).elements()[0].bytes();
        has_come(&mut redis, &key, &id);
    }
    let mut got = Vec::new();
    eventually("all come", || {
        let reply = say(&mut client, "DQ.TAKE q COUNT 9 LEASE 1h");
        for message in reply.elements() {
            let headers = field_of(message, "headers").unwrap().texts();
            assert_eq!(headers, ["k", "v"]);
            got.push((
                field_of(message, "name").unwrap().text(),
                field_of(message, "id").unwrap().text(),
            ));
        }
        (got.len() == 4).then_some(())
    });
    got.sort();
    let names = ["leased", "waiting", "ready", "pending"].map(str::to_owned);
    let mut wanted: Vec<_> = names.into_iter().zip(ids).collect();
    wanted.sort();
    assert_eq!(got, wanted);
    for (name, _) in &got {
        let nx = ["DQ.OFFER", "q", "0", "b", "NAME", name, "NX"];
        assert_eq!(call(&mut client, &nx), Value::Null, "{name} is held");
    }
}

/// The end of a lease, or of a wait, has come.
fn has_come(redis: &mut Client, key: &str, id: &[u8]) {
    let args: [&[u8]; 5] = [b"ZADD", key.as_bytes(), b"XX", b"5", id];
    assert_eq!(redis.call(&args).unwrap(), Value::Int(0));
}
