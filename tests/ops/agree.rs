//! INFO and /metrics are the same numbers, and a scrape shows what there is now.

use crate::stage::{SOON, Stage, call, eventually, get, metric, offer, say};
use crate::support::broker::{Broker, signal};
use crate::support::resp::{Client, Value, encode};

/// A field of INFO.
fn field(client: &mut Client, name: &str) -> f64 {
    let info = say(client, "INFO").text();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("INFO has no {name}")).parse().unwrap()
}

/// The sum over all series of a metric.
fn sum(broker: &Broker, name: &str) -> f64 {
    let text = get(broker, "/metrics").1;
    let series = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    series.map(|rest| rest.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[test]
fn info_and_metrics_are_the_same_numbers() {
    let stage = Stage::new(&[("server.clients_max", "3")]);
    let mut client = stage.broker.client();
    let mut second = stage.broker.client();
    for queue in ["a", "b", "c"] {
        offer(&mut client, &[queue, "1h", "x"]);
    }
    say(&mut second, "CLUSTER INFO");
    say(&mut second, "NOPE");
    let mut third = stage.broker.client();
    say(&mut third, "PING");
    let refused = stage.broker.client().call(&["PING"]);
    assert!(!matches!(refused, Ok(reply) if reply.text() == "PONG"));
    drop(third);
    eventually("two are left", || {
        (metric(&stage.broker, "delay_broker_clients") == 2.0).then_some(())
    });
    for (info, name) in [
        ("connected_clients", "delay_broker_clients"),
        ("total_connections_received", "delay_broker_connections_total"),
        ("queues_known", "delay_broker_known_queues"),
        ("offers_waiting", "delay_broker_offers_waiting"),
    ] {
        assert_eq!(field(&mut client, info), metric(&stage.broker, name), "{info}");
    }
    // The INFO that says so counts itself after it, as in Redis.
    let processed = field(&mut client, "total_commands_processed");
    assert_eq!(sum(&stage.broker, "delay_broker_commands_total"), processed + 1.0);
    let refused = "delay_broker_connections_refused_total{reason=\"clients_max\"}";
    assert_eq!(metric(&stage.broker, refused), 1.0);
    assert_eq!(metric(&stage.broker, "delay_broker_ready"), 1.0);
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("delay_broker_build_info{{version=\"{version}\"}}");
    assert_eq!(metric(&stage.broker, &build), 1.0);
    let memory = metric(&stage.broker, "process_resident_memory_bytes");
    let used = field(&mut client, "used_memory");
    assert!((memory / used - 1.0).abs() < 0.2, "{memory} and {used}");
    // What was refused is shown once it was met, and not before.
    let text = get(&stage.broker, "/metrics").1;
    let commands: Vec<&str> =
        text.lines().filter(|line| line.contains("command=\"CLUSTER\"")).collect();
    let wanted = "delay_broker_commands_total{command=\"CLUSTER\",outcome=\"ERR\"} 1";
    assert_eq!(commands, [wanted]);
    assert!(!text.contains("SENTINEL"), "{text}");
}

#[test]
fn overdue_and_paused_are_read_at_the_scrape() {
    let mut stage = Stage::new(&[("metrics.queues_max", "2")]);
    let mut client = stage.broker.client();
    let series =
        |name: &str, queue: &str| format!("delay_broker_queue_{name}{{queue=\"{queue}\"}}");
    for queue in ["waits", "done", "shares", "shares-too"] {
        say(&mut client, &format!("DQ.PAUSE {queue}"));
        offer(&mut client, &[queue, "0", "x"]);
    }
    say(&mut client, "DQ.RESUME done");
    eventually("the paused one is overdue, the other done", || {
        let overdue = metric(&stage.broker, &series("oldest_overdue_seconds", "waits"));
        let ready = metric(&stage.broker, &series("ready", "done"));
        (overdue > 0.1 && ready == 1.0).then_some(())
    });
    for (name, queue, number) in [
        ("paused", "waits", 1.0),
        ("pending", "waits", 1.0),
        ("paused", "done", 0.0),
        ("pending", "done", 0.0),
        ("oldest_overdue_seconds", "done", 0.0),
        ("pending", "other", 2.0),
        ("paused", "other", 2.0),
        // Of those that share, paused ones do not count.
        ("oldest_overdue_seconds", "other", 0.0),
    ] {
        assert_eq!(metric(&stage.broker, &series(name, queue)), number, "{name} {queue}");
    }
    // Delivered, taken and forgotten, the queue is shown as it is, and not as it was.
    call(&mut stage.redis, &["LPOP", "done"]);
    eventually("nothing is left", || {
        (metric(&stage.broker, &series("ready", "done")) == 0.0).then_some(())
    });
    say(&mut client, "DQ.CLEAR shares-too");
    eventually("one is left", || {
        (metric(&stage.broker, &series("pending", "other")) == 1.0).then_some(())
    });
    // Of those that share, one that cannot be delivered is seen by the scan.
    say(&mut stage.redis, "SET shares text");
    say(&mut client, "DQ.RESUME shares");
    eventually("it is overdue", || {
        let overdue = metric(&stage.broker, &series("oldest_overdue_seconds", "other"));
        (overdue > 0.1).then_some(())
    });
}

#[test]
fn what_falls_due_and_what_lies_in_quarantine_is_read_at_the_scrape() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for delay in ["30s", "10m", "2h"] {
        offer(&mut client, &["q", delay, "x"]);
    }
    let timeout = "redisson_delay_queue_timeout:{q}";
    call(&mut stage.redis, &["ZADD", timeout, "1", "unreadable"]);
    offer(&mut client, &["q", "0", "x"]);
    let series = |name: &str| format!("delay_broker_queue_{name}{{queue=\"q\"}}");
    eventually("it is put aside", || {
        let both = ["quarantined", "ready"].map(|name| metric(&stage.broker, &series(name)));
        (both == [1.0, 1.0]).then_some(())
    });
    assert_eq!(metric(&stage.broker, &series("due_minute")), 1.0);
    assert_eq!(metric(&stage.broker, &series("due_hour")), 2.0);
    assert_eq!(say(&mut client, "DQ.QUARANTINE q DROP").int(), 1);
    assert_eq!(metric(&stage.broker, &series("quarantined")), 0.0);
}

/// A user of Redis that may not subscribe: slower for what others offer, and no reason to send work
/// elsewhere.
#[test]
fn without_wake_ups_it_is_ready_and_says_how() {
    let stage = Stage::alone(&[]);
    let user = "ACL SETUSER deaf on nopass allkeys allchannels +@all -psubscribe";
    let mut redis = Client::connect(stage.redis_address()).unwrap();
    assert_eq!(say(&mut redis, user), Value::Simple("OK".to_owned()));
    let broker = Broker::spawn(&format!("redis://deaf:x@{}", stage.redis_address()), &[]);
    eventually("it is ready", || {
        let (status, text) = get(&broker, "/readyz");
        (status == 200 && text.starts_with("ready, but wake-ups are not heard")).then_some(())
    });
    let link = |name: &str| format!("delay_broker_redis_link_up{{link=\"{name}\"}}");
    // The audit says why, and it is never taken for heard.
    eventually("the audit names it", || {
        let lacks = "delay_broker_audit_finding{finding=\"acl\"}";
        assert_eq!(metric(&broker, &link("subscription")), 0.0);
        (metric(&broker, lacks) > 0.0).then_some(())
    });
    assert_eq!(metric(&broker, &link("calls")), 1.0);
    assert_eq!(metric(&broker, "delay_broker_ready"), 1.0);
}

/// Whoever shares out work by `/readyz` sends none to a broker that drains.
#[test]
fn a_broker_that_stops_is_not_ready() {
    let mut stage = Stage::alone(&[("redis.call_timeout_ms", "8000")]);
    let info = say(&mut stage.redis, "INFO server").text();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    let pid: u32 = pid.unwrap().trim().parse().unwrap();
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "x"]);
    signal(pid, "STOP");
    // Its reply is owed when the stop begins.
    client.send_bytes(&encode(&["DQ.SIZE", "q"])).unwrap();
    let mut second = stage.broker.client();
    eventually("it was read", || {
        let clients = say(&mut second, "CLIENT LIST").text().to_lowercase();
        clients.contains("cmd=dq.size").then_some(())
    });
    stage.broker.signal("TERM");
    let stopping = (503, "not ready: the broker is stopping\n".to_owned());
    eventually("it says that it stops", || {
        (get(&stage.broker, "/readyz") == stopping).then_some(())
    });
    assert_eq!(get(&stage.broker, "/healthz").0, 200);
    signal(pid, "CONT");
    assert_eq!(client.read().unwrap(), Value::Int(1));
    assert!(stage.broker.wait(SOON).success());
}

#[test]
fn while_redis_is_away_metrics_are_served_without_its_numbers() {
    let mut stage = Stage::alone(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "x"]);
    let pending = "delay_broker_queue_pending{queue=\"q\"}";
    assert_eq!(metric(&stage.broker, pending), 1.0);
    eventually("the first heartbeat came back", || {
        (get(&stage.broker, "/readyz") == (200, "ready\n".to_owned())).then_some(())
    });
    stage.kill_redis();
    eventually("it is not ready", || {
        (metric(&stage.broker, "delay_broker_ready") == 0.0).then_some(())
    });
    let (status, text) = get(&stage.broker, "/metrics");
    assert_eq!(status, 200);
    assert!(!text.contains(pending), "{text}");
    for link in ["offers", "calls", "transfers", "subscription"] {
        let up = format!("delay_broker_redis_link_up{{link=\"{link}\"}}");
        eventually(&format!("{link} is down"), || {
            (metric(&stage.broker, &up) == 0.0).then_some(())
        });
    }
    assert_eq!(get(&stage.broker, "/readyz").0, 503);
    assert_eq!(get(&stage.broker, "/healthz").0, 200);
    stage.broker.signal("TERM");
    stage.broker.wait(SOON);
}
