//! What another broker makes available wakes takers at once, by a publication; without it they find
//! it ten times a second.

use crate::stage::{NO_SCAN, ON_TIME, Stage, call, eventually, metric, say};
use crate::support::broker::Broker;
use crate::support::resp::{Client, Value, encode};
use crate::support::wait::all_the_time;
use crate::taking::{ack, held, push, read, take_one, waits};
use std::time::{Duration, Instant};

/// Rounds of each kind, of which so many must be quicker than a look can be on average.
const ROUNDS: usize = 20;
const QUICK: usize = 16;
const LOOK_HALF: Duration = Duration::from_millis(50);

/// Its name, words before the taker waits, words then; `$` is the receipt of a message that is
/// leased.
type Kind = (&'static str, &'static str, &'static str);

/// What a client of another broker does so that the taker gets a message.
const KINDS: [Kind; 7] = [
    ("given back", "", "DQ.NACK q $ DELAY 0"),
    ("not wanted", "", "DQ.NACK q $ SILENT"),
    ("given back for later", "", "DQ.NACK q $ DELAY 20"),
    ("brought back from the dead", "DQ.NACK q $ FATAL", "DQ.DEAD q REQUEUE"),
    ("the end of a pause", "DQ.NACK q $ DELAY 0|DQ.PAUSE q", "DQ.RESUME q"),
    ("a freed place", "DQ.SETUP q in_flight_max 1|PUSH", "DQ.ACK q $"),
    ("more places", "DQ.SETUP q in_flight_max 1|PUSH", "DQ.SETUP q in_flight_max 9"),
];

/// From the words until the message came to a taker at another broker, without the delay that they
/// name.
fn late(taker: &Broker, actor: &mut Client, redis: &mut Client, kind: Kind) -> Duration {
    let (what, before, then) = kind;
    push(redis, &["m"]);
    let first = take_one(actor, "q LEASE 1h");
    for words in before.split('|').filter(|words| !words.is_empty()) {
        if words == "PUSH" {
            push(redis, &["m"]);
        } else {
            say(actor, &words.replace('$', &first.receipt));
        }
    }
    let mut waiting = waits(taker, "q BLOCK 0 LEASE 1h");
    let begun = Instant::now();
    let reply = say(actor, &then.replace('$', &first.receipt));
    assert!(!matches!(reply, Value::Error(_) | Value::Int(0)), "{what}: {reply:?}");
    let [taken] = read(&waiting.read().unwrap()).try_into().unwrap();
    let late = begun.elapsed();
    ack(&mut waiting, &taken);
    ack(&mut waiting, &first);
    say(actor, "DQ.SETUP q RESET");
    let delay = if then.ends_with(" 20") { Duration::from_millis(20) } else { Duration::ZERO };
    late.saturating_sub(delay)
}

/// Takers at one of three brokers, which hears of it in time.
#[test]
fn what_others_do_wakes_takers_at_once() {
    let Stage { broker, mut redis, url, .. } = Stage::new(&[NO_SCAN]);
    let others = [(); 2].map(|()| Broker::spawn(&url, &[NO_SCAN]));
    let mut actors = others.each_ref().map(Broker::client);
    for kind in KINDS {
        let what = kind.0;
        // A machine that is busy with other things may be late, but not each time.
        eventually(what, || {
            let mut all: Vec<Duration> = (0..ROUNDS)
                .map(|round| late(&broker, &mut actors[round % 2], &mut redis, kind))
                .collect();
            all.sort_unstable();
            eprintln!("{what}: {:?} in the middle, {:?} at most", all[ROUNDS / 2], all[ROUNDS - 1]);
            (all[QUICK] < LOOK_HALF).then_some(())
        });
    }
    assert_eq!(held(&mut redis), [0; 5]);
}

/// A user who may not listen to it, or publish it, has all but that.
#[test]
fn without_the_right() {
    let mut stage = Stage::alone(&[]);
    let user = "ACL SETUSER old on >secret ~* resetchannels &redisson_delay_queue_channel:* \
                &delay_broker_heartbeat:* +@all";
    say(&mut stage.redis, user);
    let url = format!("redis://old:secret@{}/0", stage.redis_address());
    let brokers = [(); 2].map(|()| Broker::spawn(&url, &[NO_SCAN]));
    let mut actor = brokers[0].client();
    for kind in KINDS {
        let late = late(&brokers[1], &mut actor, &mut stage.redis, kind);
        assert!(late < ON_TIME, "{}: {late:?}", kind.0);
    }
    brokers[1].has_logged("&delay_broker_wake:*");
    assert_eq!(held(&mut stage.redis), [0; 5]);
}

/// Whoever publishes there what he likes costs little, and takers get what comes.
#[test]
fn a_storm_of_strangers() {
    // Brokers of other tests would hear it: channels know no databases.
    let mut stage = Stage::alone(&[NO_SCAN]);
    let (broker, redis) = (&stage.broker, &mut stage.redis);
    let mut taker = waits(broker, "q BLOCK 0");
    let huge = vec![b'9'; 1 << 20];
    let odd: [&[u8]; 10] = [
        b"",
        b" ",
        b"-1",
        b"1e400",
        b"nan \0\xff",
        b"99999999999999999999999 x",
        b"9000000000000 delay_broker_call:",
        b"delay_broker_call:x",
        &huge,
        b"0 \xf0\x9f",
    ];
    for message in odd {
        for channel in ["{q}", "", "{}", "q", "{{q}", "{q}}", "{q", "\u{1f600}"] {
            let channel = format!("delay_broker_wake:{channel}");
            redis.call(&[b"PUBLISH", channel.as_bytes(), message]).unwrap();
        }
    }
    let takes = || metric(broker, "delay_broker_script_seconds_count{script=\"take\"}");
    let publish = encode(&["PUBLISH", "delay_broker_wake:{q}", "0 x"]);
    // As fast as Redis takes them, and as fast as the broker can ask.
    for (at_once, times) in [(1_000, 20), (1, 10_000)] {
        let (begun, before) = (Instant::now(), takes());
        for _ in 0..times {
            redis.send_bytes(&publish.repeat(at_once)).unwrap();
            (0..at_once).for_each(|_| drop(redis.read().unwrap()));
        }
        // It may be far behind.
        eventually("nobody asks any more", || {
            let asked = takes();
            all_the_time(Duration::from_millis(300), || (), |()| true);
            (takes() == asked).then_some(())
        });
        // A hundred between two looks, and one by each.
        let most = (begun.elapsed().as_secs_f64() * 10.0 + 2.0) * 101.0;
        let asked = takes() - before;
        eprintln!("{at_once} at once: {asked} takes in {:?}", begun.elapsed());
        assert!(asked <= most, "{asked} takes, {most} at most");
    }
    push(redis, &["m"]);
    let [taken] = read(&taker.read().unwrap()).try_into().unwrap();
    assert_eq!(call(&mut taker, &["DQ.ACK", "q", &taken.receipt]), Value::Int(1));
    assert_eq!(held(redis), [0; 5]);
}
