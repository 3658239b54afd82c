//! Reads of many queues: they cost Redis no more for large messages, never pile up on one that is
//! behind, and say when they fail.

use crate::stage::{NO_SCAN, Stage, call, eventually, metric, offer, say};
use crate::support::broker::{Broker, signal};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

/// Calls and microseconds of all scripts so far.
fn scripts(redis: &mut Client) -> (f64, f64) {
    let text = call(redis, &["INFO", "commandstats"]).text();
    let (_, its) = text.split_once("cmdstat_evalsha:calls=").unwrap();
    let (calls, rest) = its.split_once(",usec=").unwrap();
    let usec = rest.split(',').next().unwrap();
    (calls.parse().unwrap(), usec.parse().unwrap())
}

fn scans(broker: &Broker, outcome: &str) -> f64 {
    metric(broker, &format!("delay_broker_scans_total{{outcome=\"{outcome}\"}}"))
}

/// Goal: many large heads hold up nobody. Method: offers to queues of them, while all heads are
/// scanned again and again; what one scan costs Redis, beside 80 MiB that it would have to copy.
#[test]
fn offers_go_on_beside_many_large_heads() {
    let mut stage = Stage::alone(&[("scheduler.scan_interval_ms", "100")]);
    let mut client = stage.broker.client();
    let large = "x".repeat(2 << 20);
    for queue in 0..40 {
        offer(&mut client, &[&format!("large-{queue}"), "1h", &large]);
    }
    let (scanned, before) = (scans(&stage.broker, "ok"), scripts(&mut stage.redis));
    let mut offered = 0.0;
    eventually("twenty scans", || {
        for queue in 0..40 {
            offer(&mut client, &[&format!("large-{queue}"), "2h", "behind"]);
            offered += 1.0;
        }
        (scans(&stage.broker, "ok") >= scanned + 20.0).then_some(())
    });
    let after = scripts(&mut stage.redis);
    let scanned = scans(&stage.broker, "ok") - scanned;
    // Half a millisecond each for the offers, though others may use the machine.
    let each_us = (after.1 - before.1 - 500.0 * offered) / scanned;
    assert!(each_us < 20_000.0, "a scan beside {offered} offers: {each_us} us");
    let size = say(&mut client, "DQ.SIZE large-7").int() as f64;
    assert_eq!(size, 1.0 + offered / 40.0);
}

/// Goal: whoever reads of many queues adds nothing to what a Redis has before it that does not
/// answer. Method: many ask while Redis is stopped; what it runs when it goes on.
#[test]
fn reads_of_many_queues_do_not_pile_up() {
    let redis = Redis::spawn(&[]);
    let settings = [NO_SCAN, ("redis.call_timeout_ms", "400")];
    let broker = Broker::spawn(&redis.url(0), &settings);
    let (mut admin, mut client) = (redis.client(0), broker.client());
    offer(&mut client, &["q", "1h", "x"]);
    assert_eq!(say(&mut client, "DQ.QUEUES").elements().len(), 2);
    let (pid, before) = (redis.pid(), scripts(&mut admin).0);
    signal(pid, "STOP");
    let mut clients: Vec<Client> = (0..30).map(|_| broker.client()).collect();
    for client in &mut clients {
        client.send(&["DQ.QUEUES"]).unwrap();
    }
    for client in &mut clients {
        let answer = client.read().unwrap().text();
        assert!(answer.starts_with("UNAVAILABLE "), "{answer}");
    }
    signal(pid, "CONT");
    // Behind all that came before.
    let ran = scripts(&mut admin).0 - before;
    assert!(ran <= 8.0, "{ran} scripts ran when Redis went on");
    eventually("answered again", || {
        let answer = say(&mut client, "DQ.QUEUES");
        matches!(answer, Value::Array(_)).then_some(())
    });
}

/// A safety scan that gets no answer is counted and said, not each time; then it goes on.
#[test]
fn a_scan_that_fails_is_said() {
    let settings = [("scheduler.scan_interval_ms", "100"), ("redis.call_timeout_ms", "200")];
    let redis = Redis::spawn(&[]);
    let broker = Broker::spawn(&redis.url(0), &settings);
    let mut client = broker.client();
    offer(&mut client, &["q", "1h", "x"]);
    eventually("it scans", || (scans(&broker, "ok") > 2.0).then_some(()));
    let pid = redis.pid();
    signal(pid, "STOP");
    eventually("said", || {
        let log = broker.log();
        log.contains("the safety scan of 1 heads failed").then_some(())
    });
    eventually("counted twice", || (scans(&broker, "failed") >= 2.0).then_some(()));
    signal(pid, "CONT");
    let before = scans(&broker, "ok");
    eventually("it goes on", || (scans(&broker, "ok") > before + 2.0).then_some(()));
    assert_eq!(broker.log().matches("the safety scan of 1 heads failed").count(), 1);
}
