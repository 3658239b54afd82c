//! Messages that are taken for a time: what settles them, when they come again, and when they are
//! dead. Servers of their own are in `lease_faults.rs`, lines of takers in `takers.rs`.

use crate::stage::{Stage, call, eventually, info, metric, offer, say, time_us};
use crate::support::resp::{Client, Value};
use crate::support::wait::all_the_time;
use crate::taking::{Taken, ack, dead, held, in_line, push, send, settle, take, take_one, waits};
use std::time::Duration;

/// Deliveries that count.
const ATTEMPTS: i64 = 16;

/// Until the lease of the only message that is taken has run out.
fn lapsed(client: &mut Client) {
    eventually("the lease has run out", || {
        let [leased, waiting] = ["leased", "waiting"].map(|field| info(client, "q", field).int());
        ((leased, waiting) == (0, 1)).then_some(())
    });
}

#[test]
fn an_ack_counts_until_the_message_is_handed_out_again() {
    let mut stage = Stage::new(&[]);
    let (mut a, mut b) = (stage.broker.client(), stage.broker.client());
    push(&mut stage.redis, &["twice"]);
    let taken = take_one(&mut a, "q");
    // From another connection, and the same receipt twice in one call.
    let twice = ["DQ.ACK", "q", &taken.receipt, &taken.receipt];
    assert_eq!(call(&mut b, &twice), Value::Int(1));
    assert_eq!(ack(&mut a, &taken), 0);

    push(&mut stage.redis, &["late"]);
    let taken = take_one(&mut a, "q LEASE 100");
    lapsed(&mut b);
    assert_eq!(ack(&mut a, &taken), 1, "nobody else has it");
    assert_eq!(take(&mut b, "q"), []);

    push(&mut stage.redis, &["stale"]);
    let first = take_one(&mut a, "q LEASE 100");
    let second = take_one(&mut b, "q BLOCK 0 LEASE 1h");
    assert_eq!((&second.id, second.attempt, second.delivery()), (&first.id, 2, 2));
    for command in ["DQ.ACK", "DQ.NACK", "DQ.EXTEND"] {
        assert_eq!(settle(&mut a, command, &first, &[]), 0, "{command}");
    }
    assert_eq!(settle(&mut a, "DQ.NACK", &first, &["FATAL"]), 0);
    // The holder keeps its lease as it is.
    let reply = say(&mut a, "DQ.TAKEN q");
    let until = crate::stage::field_of(&reply.elements()[1].elements()[0], "until").unwrap();
    assert_eq!(until, Value::Int(second.until));
    assert_eq!(ack(&mut b, &second), 1);

    push(&mut stage.redis, &["given back"]);
    let taken = take_one(&mut a, "q");
    assert_eq!(settle(&mut a, "DQ.NACK", &taken, &["DELAY", "1h"]), 1);
    assert_eq!(ack(&mut a, &taken), 1, "nobody had it since");
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

#[test]
fn an_extended_lease_lasts() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["m"]);
    let taken = take_one(&mut client, "q LEASE 200");
    let mut other = waits(&stage.broker, "q BLOCK 600");
    assert_eq!(settle(&mut client, "DQ.EXTEND", &taken, &["LEASE", "1h"]), 1);
    assert_eq!(other.read().unwrap(), Value::Null);
    // Shorter, too.
    assert_eq!(settle(&mut client, "DQ.EXTEND", &taken, &["LEASE", "100"]), 1);
    let again = take_one(&mut other, "q BLOCK 0");
    assert_eq!((again.attempt, again.delivery()), (2, 2));
    // One that ran out is leased again, as long as nobody else has it.
    assert_eq!(settle(&mut other, "DQ.EXTEND", &again, &["LEASE", "100"]), 1);
    lapsed(&mut client);
    assert_eq!(settle(&mut other, "DQ.EXTEND", &again, &["LEASE", "1h"]), 1);
    assert_eq!(take(&mut client, "q"), []);
    assert_eq!(ack(&mut other, &again), 1);
}

/// A message whose consumer never answers: exactly so many deliveries, none before the lease of the
/// one before has ended, and then it is dead.
#[test]
fn poison_whose_lease_runs_out_each_time() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["poison"]);
    let mut ended = 0;
    for attempt in 1..=ATTEMPTS {
        let taken = take_one(&mut client, "q LEASE 100 BLOCK 0");
        assert_eq!((taken.attempt, taken.delivery()), (attempt, attempt as u64));
        // Its end is that of a lease from the next millisecond on.
        assert!(taken.until - 101 >= ended, "{taken:?} after {ended}");
        ended = taken.until;
    }
    eventually("it is dead", || {
        assert_eq!(take(&mut client, "q"), []);
        (!dead(&mut client).is_empty()).then_some(())
    });
    assert_eq!(dead(&mut client), [("poison".to_owned(), ATTEMPTS, "lease expired".to_owned())]);
    assert_eq!(held(&mut stage.redis), [0, 0, 1, 1, 1]);
    assert_eq!(info(&mut client, "q", "lapsed"), Value::Int(ATTEMPTS));
}

/// One that is given back each time, twice over: a requeue gives all attempts again.
#[test]
fn poison_that_is_given_back_each_time() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["poison"]);
    let mut last: Option<Taken> = None;
    for round in 0..2 {
        for attempt in 1..=ATTEMPTS {
            let taken = take_one(&mut client, "q BLOCK 0");
            assert_eq!(taken.attempt, attempt, "round {round}");
            assert_eq!(taken.delivery() as i64, round * ATTEMPTS + attempt);
            if let Some(last) = &last {
                assert_eq!(ack(&mut client, last), 0, "{last:?} is an old receipt");
            }
            let reason = format!("no {attempt}");
            let words = ["DELAY", "0", "REASON", &reason];
            assert_eq!(settle(&mut client, "DQ.NACK", &taken, &words), 1);
            last = Some(taken);
        }
        let wanted = ("poison".to_owned(), ATTEMPTS, format!("no {ATTEMPTS}"));
        assert_eq!(dead(&mut client), [wanted]);
        assert_eq!(take(&mut client, "q"), []);
        if round == 0 {
            assert_eq!(say(&mut client, "DQ.DEAD q REQUEUE"), Value::Int(1));
        }
    }
    assert_eq!(ack(&mut client, &last.unwrap()), 1, "a dead one is done, too");
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// What does not count never dies of it; from the third delivery on it rests for a moment.
#[test]
fn silent_deliveries_do_not_count() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["m"]);
    let first = take_one(&mut client, "q");
    let mut taken = first.clone();
    for delivery in 2..=20 {
        assert_eq!(settle(&mut client, "DQ.NACK", &taken, &["SILENT"]), 1);
        taken = take_one(&mut client, "q BLOCK 0");
        assert_eq!((taken.attempt, taken.delivery()), (1, delivery));
        assert_eq!(ack(&mut client, &first), 0);
    }
    assert_eq!(ack(&mut client, &taken), 1);
}

#[test]
fn a_message_that_was_requeued_is_settled_by_its_last_receipt() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["m", "n"]);
    let taken = take(&mut client, "q COUNT 2");
    for one in &taken {
        assert_eq!(settle(&mut client, "DQ.NACK", one, &["FATAL", "REASON", "bad"]), 1);
    }
    assert_eq!(say(&mut client, "DQ.DEAD q REQUEUE DELAY 1h"), Value::Int(2));
    assert_eq!(ack(&mut client, &taken[0]), 1);
    // Brought forward by the receipt that still counts; from then on it counts no more.
    assert_eq!(settle(&mut client, "DQ.NACK", &taken[1], &["SILENT", "DELAY", "0"]), 1);
    let again = take_one(&mut client, "q BLOCK 0");
    assert_eq!((again.attempt, again.delivery()), (1, 2));
    assert_eq!(ack(&mut client, &taken[1]), 0);
    assert_eq!(ack(&mut client, &again), 1);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

#[test]
fn a_pause_holds_back_what_could_be_taken_and_nothing_else() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    push(&mut stage.redis, &["a", "b", "c"]);
    let taken = take(&mut client, "q COUNT 3");
    say(&mut client, "DQ.PAUSE q");
    let mut waiting = waits(&stage.broker, "q BLOCK 0 COUNT 9");
    push(&mut stage.redis, &["d"]);
    assert_eq!(ack(&mut client, &taken[0]), 1);
    assert_eq!(settle(&mut client, "DQ.NACK", &taken[1], &["DELAY", "0"]), 1);
    assert_eq!(settle(&mut client, "DQ.EXTEND", &taken[2], &[]), 1);
    assert_eq!(take(&mut client, "q"), []);
    // It stays in line, but for moments in which it is asked for.
    all_the_time(
        Duration::from_millis(400),
        || [info(&mut client, "q", "ready"), info(&mut client, "q", "taken")],
        |counts| *counts == [1, 3].map(Value::Int),
    );
    say(&mut client, "DQ.RESUME q");
    let came = crate::taking::came(&mut waiting);
    assert_eq!(crate::stage::sorted(came), ["b", "d"]);
    // One that ends by itself.
    let until = time_us(&mut stage.redis) + 300_000;
    say(&mut client, "DQ.PAUSE q 300");
    push(&mut stage.redis, &["e"]);
    send(&mut waiting, "q BLOCK 0");
    assert_eq!(crate::taking::came(&mut waiting), ["e"]);
    assert!(time_us(&mut stage.redis) >= until);
}

#[test]
fn what_is_shown_of_a_queue() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..6 {
        offer(&mut client, &["q", "0", &n.to_string()]);
    }
    let mut taken = Vec::new();
    while taken.len() < 6 {
        taken.extend(take(&mut client, "q COUNT 6 BLOCK 0 LEASE 1h"));
    }
    assert_eq!(ack(&mut client, &taken[0]), 1);
    assert_eq!(ack(&mut client, &taken[0]), 0);
    assert_eq!(settle(&mut client, "DQ.NACK", &taken[1], &["DELAY", "1h"]), 1);
    assert_eq!(settle(&mut client, "DQ.NACK", &taken[2], &["FATAL"]), 1);
    assert_eq!(settle(&mut client, "DQ.NACK", &taken[3], &["FATAL"]), 1);
    assert_eq!(say(&mut client, "DQ.DEAD q DROP MATCH nothing"), Value::Int(0));
    let id = &taken[3].id;
    assert_eq!(call(&mut client, &["DQ.DEAD", "q", "REQUEUE", id, "DELAY", "1h"]), Value::Int(1));
    assert_eq!(settle(&mut client, "DQ.EXTEND", &taken[4], &["LEASE", "2h"]), 1);
    let _waiting = waits(&stage.broker, "q BLOCK 0");
    let fields = [
        ("leased", 2),
        ("waiting", 2),
        ("dead", 1),
        ("lease_ends", taken[5].until),
        ("takers", 1),
        ("taken", 6),
        ("acked", 1),
        ("nacked", 3),
        ("lapsed", 0),
        ("died", 2),
    ];
    for (field, value) in fields {
        assert_eq!(info(&mut client, "q", field), Value::Int(value), "{field}");
    }
    let series = [
        ("messages_taken", 6),
        ("messages_acked", 1),
        ("messages_nacked", 3),
        ("leases_lapsed", 0),
        ("messages_died", 2),
        ("messages_requeued", 1),
        ("receipts_stale", 1),
    ];
    for (name, value) in series {
        let name = format!("delay_broker_{name}_total{{queue=\"q\"}}");
        assert_eq!(metric(&stage.broker, &name), f64::from(value), "{name}");
    }
    eventually("the taker is shown", || {
        (metric(&stage.broker, "delay_broker_takers") == 1.0).then_some(())
    });
    in_line(&mut client, 1);
}

/// A queue that has nothing but leases is forgotten by nobody, and a broker that is new to it hands
/// out what lapses.
#[test]
fn a_queue_with_leases_only_outlives_its_broker() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "0", "m"]);
    let taken = take_one(&mut client, "q BLOCK 0 LEASE 5s");
    let record = "EXISTS delay_broker_queue:{q}";
    eventually("nothing is pending, so it is in no registry", || {
        let known = say(&mut stage.redis, "SISMEMBER delay_broker_queues q");
        (known == Value::Int(0)).then_some(())
    });
    assert_eq!(say(&mut stage.redis, record), Value::Int(1));
    stage.replace_broker(&[]);
    assert_eq!(say(&mut stage.redis, record), Value::Int(1));
    let mut client = stage.broker.client();
    assert_eq!(call(&mut client, &["DQ.SIZE", "{q}"]).text().split(' ').next(), Some("BADQUEUE"));
    assert_eq!(info(&mut client, "q", "leased"), Value::Int(1));
    let again = take_one(&mut client, "q BLOCK 0");
    assert_eq!((&again.id, again.attempt), (&taken.id, 2));
    assert_eq!(ack(&mut client, &taken), 0);
    assert_eq!(ack(&mut client, &again), 1);
    assert_eq!(held(&mut stage.redis), [0; 5]);
}
