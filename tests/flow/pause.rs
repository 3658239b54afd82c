//! A pause: nothing moves, everything else goes on, and it ends when it was said to end.

use crate::stage::{
    ON_TIME, Stage, call, delivered, due_of, eventually, info, offer, say, take, time_us,
};
use crate::support::resp::Value;
use std::time::Duration;

#[test]
fn nothing_moves_while_paused_and_the_rest_goes_on() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    // Before the queue has any message: a pause of a queue that is not there yet.
    assert_eq!(say(&mut client, "DQ.PAUSE q"), Value::Simple("OK".into()));
    for n in 0..6 {
        offer(&mut client, &["q", "50", &n.to_string(), "NAME", &n.to_string()]);
    }
    offer(&mut client, &["q", "1h", "fired", "NAME", "fired"]);
    assert_eq!(say(&mut client, "DQ.FIRE q fired"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CANCEL q 0"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.REMOVE q 1"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.POLL q COUNT 1").texts(), ["2"]);
    assert!(matches!(say(&mut client, "DQ.RESCHEDULE q 3 1h"), Value::Bulk(_)));
    eventually("it would have been delivered long ago", || {
        (info(&mut client, "q", "oldest_overdue_ms").int() > 400).then_some(())
    });
    assert_eq!(call(&mut stage.redis, &["EXISTS", "q"]), Value::Int(0), "moved while paused");
    assert_eq!(info(&mut client, "q", "paused_until"), Value::Int(-1));
    // A crash does not end it.
    stage.replace_broker(&[]);
    let mut client = stage.broker.client();
    assert_eq!(info(&mut client, "q", "paused"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.CLEAR other"), Value::Int(0));
    assert_eq!(call(&mut stage.redis, &["EXISTS", "q"]), Value::Int(0), "moved while paused");
    assert_eq!(say(&mut client, "DQ.RESUME q"), Value::Simple("OK".into()));
    let came = delivered(&mut stage.redis, "q", 3);
    assert_eq!(crate::stage::sorted(came), ["4", "5", "fired"]);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
}

#[test]
fn a_pause_with_a_duration_ends_by_itself_and_lateness_counts_from_its_end() {
    let mut stage = Stage::new(&[crate::stage::NO_SCAN]);
    let mut client = stage.broker.client();
    let before = time_us(&mut stage.redis) / 1_000;
    assert_eq!(say(&mut client, "DQ.PAUSE q 5s"), Value::Simple("OK".into()));
    let until = info(&mut client, "q", "paused_until").int() as u64;
    assert!(until >= before + 5_000 && until <= before + 5_000 + 5_000, "{before} {until}");
    let id = offer(&mut client, &["q", "0", "m"]);
    let (payload, at) = take(&mut stage.redis, "q");
    assert_eq!(payload, b"m");
    assert!(at >= until * 1_000, "moved while paused");
    let late = Duration::from_micros(at - until * 1_000);
    assert!(late < ON_TIME, "{late:?} after the end of the pause");
    assert_eq!(info(&mut client, "q", "paused"), Value::Int(0));
    eventually("it is counted", || {
        (info(&mut client, "q", "delivered") == Value::Int(1)).then_some(())
    });
    let waited_ms = (until - due_of(&id)) as f64;
    let lateness: f64 = info(&mut client, "q", "lateness_max_ms").text().parse().unwrap();
    assert!(waited_ms > 3_000.0 && lateness < 3_000.0, "waited {waited_ms}, late {lateness}");
}

/// What such a pause records is gone after it, also where the broker was another one when it began.
#[test]
fn a_pause_of_a_queue_that_is_not_there_leaves_nothing() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let record = |queue: &str| format!("EXISTS delay_broker_queue:{{{queue}}}");
    for (queue, pause) in [("short", "1"), ("long", "4000"), ("ever", "")] {
        say(&mut client, format!("DQ.PAUSE {queue} {pause}").trim());
        // The short one may have ended by now, and its record may be about to go.
        let known = info(&mut client, queue, "known");
        assert!(known == Value::Int(0) || queue == "short", "{queue}");
    }
    eventually("the short pause is forgotten", || {
        (say(&mut stage.redis, &record("short")) == Value::Int(0)).then_some(())
    });
    eventually("the long one is noted", || {
        let noted = say(&mut stage.redis, "SISMEMBER delay_broker_queues long");
        (noted == Value::Int(1)).then_some(())
    });
    stage.replace_broker(&[]);
    eventually("the long pause is forgotten", || {
        (say(&mut stage.redis, &record("long")) == Value::Int(0)).then_some(())
    });
    assert_eq!(say(&mut stage.redis, &record("ever")), Value::Int(1), "it has not ended");
    let mut client = stage.broker.client();
    assert_eq!(say(&mut client, "DQ.RESUME ever"), Value::Simple("OK".into()));
    eventually("nothing is left", || {
        let left = ["short", "long", "ever"].map(|queue| say(&mut stage.redis, &record(queue)));
        let noted = say(&mut stage.redis, "SCARD delay_broker_queues");
        (left == [0, 0, 0].map(Value::Int) && noted == Value::Int(0)).then_some(())
    });
}
