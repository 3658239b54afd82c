//! What the broker says of itself is true: DQ.INFO, /metrics and Redis agree.

use crate::stage::{Stage, call, delivered, eventually, get, info, metric, offer, say};
use crate::support::broker::run;
use crate::support::resp::Value;

#[test]
fn info_metrics_and_redis_agree() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..7 {
        offer(&mut client, &["q", "1h", &n.to_string(), "NAME", &n.to_string()]);
        offer(&mut client, &["q", "1", "soon"]);
    }
    delivered(&mut stage.redis, "q", 7);
    assert_eq!(say(&mut client, "DQ.CANCEL q 0 1 nobody"), Value::Int(2));
    assert_eq!(say(&mut client, "DQ.REMOVE q 2"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.POLL q COUNT 1").texts(), ["3"]);
    for (field, metric_name, wanted) in [
        ("pending", "queue_pending", 3),
        ("ready", "queue_ready", 7),
        ("offered", "messages_offered_total", 14),
        ("delivered", "messages_delivered_total", 7),
        ("cancelled", "messages_cancelled_total", 2),
        ("removed", "messages_removed_total", 2),
    ] {
        // A reply of Redis may still be on its way to the counters.
        eventually(&format!("{field} is {wanted}"), || {
            let told = info(&mut client, "q", field).int();
            (told == wanted).then_some(())
        });
        let series = format!("delay_broker_{metric_name}{{queue=\"q\"}}");
        assert_eq!(metric(&stage.broker, &series), wanted as f64, "{series}");
    }
    assert_eq!(
        call(&mut stage.redis, &["ZCARD", "redisson_delay_queue_timeout:{q}"]),
        Value::Int(3)
    );
    let counted = metric(&stage.broker, "delay_broker_lateness_seconds_count{queue=\"q\"}");
    assert_eq!(counted, 7.0);
    assert!(info(&mut client, "q", "next_due").int() > 0);
    assert_eq!(info(&mut client, "q", "named"), Value::Int(3));
    assert_eq!(info(&mut client, "q", "ttl_ms"), Value::Null);
    say(&mut stage.redis, "PEXPIRE redisson_delay_queue_timeout:{q} 100000000");
    assert!(info(&mut client, "q", "ttl_ms").int() > 0);
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/nothing", 404)] {
        assert_eq!(get(&stage.broker, path).0, status, "{path}");
    }
}

/// As the health check of a container, which has the variables of the broker and not its flags: the
/// password that the open port wants stands in a file.
#[test]
fn health_is_asked_without_the_file_of_the_broker() {
    let stage = Stage::new(&[]);
    let open = ("DELAY_BROKER_SERVER__LISTEN", "0.0.0.0:7379");
    assert_eq!(run(&[], &[open]).0.code(), Some(64));
    let address = stage.broker.http_address();
    let health = |address: &str| run(&["health"], &[open, ("DELAY_BROKER_HTTP__LISTEN", address)]);
    eventually("it is ready", || health(&address).0.success().then_some(()));
    for (address, code, said) in [
        ("127.0.0.1:1", 1, "no answer from 127.0.0.1:1"),
        ("", 1, "http.listen is empty"),
        ("7380", 64, "http.listen"),
    ] {
        let (status, output) = health(address);
        assert_eq!(status.code(), Some(code), "{output}");
        assert!(output.contains(said), "{output}");
    }
}

#[test]
fn a_destination_of_another_type_waits_and_its_neighbours_do_not() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["wrong", "2s", "kept"]);
    say(&mut stage.redis, "SET wrong text");
    let reply = say(&mut client, "DQ.OFFER wrong 0 refused").text();
    assert!(reply.starts_with("WRONGTYPE "), "{reply}");
    for n in 0..20 {
        offer(&mut client, &["right", "10", &n.to_string()]);
    }
    assert_eq!(delivered(&mut stage.redis, "right", 20).len(), 20);
    eventually("it is overdue", || {
        (info(&mut client, "wrong", "oldest_overdue_ms").int() > 300).then_some(())
    });
    assert_eq!(info(&mut client, "wrong", "ready"), Value::Int(-1));
    let waits = |log: &str| {
        log.lines()
            .filter(|line| line.contains("WRONGTYPE") || line.contains("another type"))
            .count()
    };
    assert_eq!(waits(&stage.broker.log()), 1, "one line for one change of state");
    say(&mut stage.redis, "DEL wrong");
    assert_eq!(delivered(&mut stage.redis, "wrong", 1), ["kept"]);
}
