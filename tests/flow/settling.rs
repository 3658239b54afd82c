//! Settlements of many clients share calls: each client has its own number, and what becomes of one
//! harms no other.

use crate::stage::{SOON, call, eventually, metric, say};
use crate::support::broker::Broker;
use crate::support::proxy::{Break, Proxy};
use crate::support::redis;
use crate::support::resp::{Client, Value};
use crate::taking::{Taken, held, push, take};
use delay_broker::store::script::{ACK, EXTEND, NACK};
use std::time::Instant;

struct Setting {
    broker: Broker,
    proxy: Proxy,
    redis: Client,
}

fn set_up(settings: &[(&str, &str)]) -> Setting {
    let shared = redis::shared();
    let database = shared.fresh_database();
    let proxy = Proxy::start(shared.address());
    let url = format!("redis://{}/{database}", proxy.address());
    Setting { broker: Broker::spawn(&url, settings), proxy, redis: shared.client(database) }
}

impl Setting {
    /// So many messages, all leased for an hour.
    fn leased(&mut self, count: usize) -> Vec<Taken> {
        let payloads: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        push(&mut self.redis, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
        let taken = take(&mut self.broker.client(), &format!("q COUNT {count} LEASE 1h"));
        assert_eq!(taken.len(), count);
        taken
    }

    /// Sends each line by a client of its own while Redis is not reached; then all of them wait.
    fn sent_at_once(&self, lines: &[String]) -> Vec<Client> {
        let mut control = self.broker.client();
        let mut clients: Vec<Client> = lines.iter().map(|_| self.broker.client()).collect();
        let commands = |control: &mut Client| {
            let stats = say(control, "INFO stats").text();
            let line = stats.lines().find_map(|one| one.strip_prefix("total_commands_processed:"));
            line.unwrap().parse::<usize>().unwrap()
        };
        self.proxy.hold_all();
        let (before, mut asked) = (commands(&mut control), 0);
        for (client, line) in clients.iter_mut().zip(lines) {
            client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
        }
        eventually("all have been read", || {
            asked += 1;
            (commands(&mut control) == before + lines.len() + asked).then_some(())
        });
        clients
    }

    fn calls(&self, script: &str) -> f64 {
        metric(&self.broker, &format!("delay_broker_script_seconds_count{{script=\"{script}\"}}"))
    }
}

fn line(command: &str, receipts: &[&Taken], words: &str) -> String {
    let receipts: Vec<&str> = receipts.iter().map(|one| &one.receipt[..]).collect();
    format!("{command} q {}{words}", receipts.join(" "))
}

fn replies(clients: &mut [Client]) -> Vec<Value> {
    clients.iter_mut().map(|client| client.read().unwrap()).collect()
}

#[test]
fn each_client_has_its_own_number() {
    let mut setting = set_up(&[]);
    let all = setting.leased(40);
    let all: Vec<&Taken> = all.iter().collect();
    let stale = Taken { receipt: format!("{}:7", all[39].id), ..all[39].clone() };
    // One of each, then those that share a call.
    for (command, script, words) in [("DQ.EXTEND", "extend", " LEASE 2h"), ("DQ.ACK", "ack", "")] {
        let lines = [
            line(command, &all[..1], words),
            line(command, &all[1..2], words),
            line(command, &[&stale], words),
            line(command, &all[2..39], words),
            line(command, &[all[39], &stale, all[39]], words),
        ];
        let before = setting.calls(script);
        let mut clients = setting.sent_at_once(&lines);
        setting.proxy.release();
        let counts: Vec<i64> = replies(&mut clients).iter().map(Value::int).collect();
        assert_eq!(counts, [1, 1, 0, 37, 1], "{command}");
        assert!(setting.calls(script) <= before + 2.0, "{command}");
    }
    assert_eq!(held(&mut setting.redis), [0; 5]);

    // Equal ones share calls, each reason has its own.
    let all = setting.leased(6);
    let lines: Vec<String> = (0..6)
        .map(|n| line("DQ.NACK", &[&all[n]], &format!(" DELAY 1h REASON r{}", n / 4)))
        .collect();
    let before = setting.calls("nack");
    let mut clients = setting.sent_at_once(&lines);
    setting.proxy.release();
    assert_eq!(replies(&mut clients), vec![Value::Int(1); 6]);
    assert!(setting.calls("nack") <= before + 4.0);
    let reply = say(&mut setting.broker.client(), "DQ.TAKEN q WAITING");
    let text = format!("{reply:?}");
    assert_eq!((text.matches("r0").count(), text.matches("r1").count()), (4, 2), "{text}");
}

/// More than one call takes: all are settled, whoever is large.
#[test]
fn more_receipts_than_one_call_takes() {
    let mut setting = set_up(&[]);
    let taken: Vec<Taken> = (0..3).flat_map(|_| setting.leased(1_000)).collect();
    let all: Vec<&Taken> = taken.iter().collect();
    let sizes = [1, 999, 1, 1_000, 400, 599];
    let mut from = 0;
    let lines: Vec<String> = sizes
        .iter()
        .map(|size| {
            from += size;
            line("DQ.ACK", &all[from - size..from], "")
        })
        .collect();
    let mut clients = setting.sent_at_once(&lines);
    setting.proxy.release();
    assert_eq!(replies(&mut clients), sizes.map(|size| Value::Int(size as i64)));
    assert_eq!(held(&mut setting.redis), [0; 5]);
}

#[test]
fn of_one_receipt_at_two_clients_one_counts() {
    let mut setting = set_up(&[]);
    for _ in 0..5 {
        let all = setting.leased(2);
        let both = line("DQ.ACK", &[&all[0], &all[1]], "");
        let lines = [line("DQ.ACK", &[&all[0]], ""), both.clone(), both];
        let mut clients = setting.sent_at_once(&lines);
        setting.proxy.release();
        let sum: i64 = replies(&mut clients).iter().map(Value::int).sum();
        assert_eq!(sum, 2);
    }
    assert_eq!(held(&mut setting.redis), [0; 5]);
}

/// Whoever leaves: what it has said is done, and the others have their replies.
#[test]
fn clients_that_leave() {
    let mut setting = set_up(&[]);
    let all = setting.leased(20);
    let lines: Vec<String> = all.iter().map(|one| line("DQ.ACK", &[one], "")).collect();
    let mut clients = setting.sent_at_once(&lines);
    let mut nth = 0;
    clients.retain(|_| {
        nth += 1;
        nth % 2 == 0
    });
    eventually("they are gone", || {
        let list = say(&mut setting.broker.client(), "CLIENT LIST").text();
        // With the two that ask.
        (list.lines().count() <= clients.len() + 2).then_some(())
    });
    setting.proxy.release();
    assert_eq!(replies(&mut clients), vec![Value::Int(1); 10]);
    eventually("all are settled", || (held(&mut setting.redis) == [0; 5]).then_some(()));
}

/// One call is broken, before Redis or behind it: each client is told what its own receipts did.
#[test]
fn a_link_that_breaks_around_a_shared_call() {
    let mut setting = set_up(&[]);
    for how in [Break::Reply, Break::HalfReply, Break::Request] {
        for (command, sha, words) in [
            ("DQ.EXTEND", EXTEND.sha(), " LEASE 2h"),
            ("DQ.NACK", NACK.sha(), " DELAY 1h"),
            ("DQ.ACK", ACK.sha(), ""),
        ] {
            let all = setting.leased(20);
            let lines: Vec<String> = all.iter().map(|one| line(command, &[one], words)).collect();
            let broken = setting.proxy.broken();
            setting.proxy.break_next(&[sha], how);
            let mut clients = setting.sent_at_once(&lines);
            setting.proxy.release();
            assert_eq!(replies(&mut clients), vec![Value::Int(1); 20], "{how:?} {command}");
            assert_eq!(setting.proxy.broken(), broken + 1, "{how:?} {command}");
            let mut control = setting.broker.client();
            for one in &all {
                let left = i64::from(command != "DQ.ACK");
                assert_eq!(call(&mut control, &["DQ.ACK", "q", &one.receipt]).int(), left);
            }
        }
    }
    assert_eq!(held(&mut setting.redis), [0; 5]);
}

/// While Redis is away all hear of it in time, and then may say it again.
#[test]
fn redis_is_away() {
    let limits = [("redis.call_timeout_ms", "500"), ("redis.settle_timeout_ms", "500")];
    let mut setting = set_up(&limits);
    let all = setting.leased(30);
    let lines: Vec<String> = all.iter().map(|one| line("DQ.ACK", &[one], "")).collect();
    let begun = Instant::now();
    let mut clients = setting.sent_at_once(&lines);
    let told = replies(&mut clients);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for reply in &told {
        let Value::Error(text) = reply else { panic!("{reply:?}") };
        assert!(text.starts_with("UNCERTAIN ") || text.starts_with("UNAVAILABLE "), "{text}");
    }
    setting.proxy.release();
    for one in &all {
        eventually("it is settled", || {
            let reply = call(&mut clients[0], &["DQ.ACK", "q", &one.receipt]);
            matches!(reply, Value::Int(_)).then_some(())
        });
    }
    assert_eq!(held(&mut setting.redis), [0; 5]);
}

/// What stands in one pipeline is done in its order, while others settle.
#[test]
fn a_pipeline_is_done_in_its_order() {
    let mut setting = set_up(&[]);
    let all = setting.leased(60);
    let lines = |one: &Taken, commands: &[&str]| -> String {
        commands.iter().map(|words| words.replace('$', &one.receipt) + "\r\n").collect()
    };
    let kinds: [(&[&str], &[i64]); 4] = [
        (&["DQ.ACK q $", "DQ.NACK q $ DELAY 1h"], &[1, 0]),
        (&["DQ.NACK q $ DELAY 1h", "DQ.EXTEND q $", "DQ.ACK q $"], &[1, 0, 1]),
        (&["DQ.EXTEND q $ LEASE 2h", "DQ.ACK q $", "DQ.ACK q $"], &[1, 1, 0]),
        (&["DQ.NACK q $ FATAL", "DQ.NACK q $ DELAY 1h", "DQ.ACK q $"], &[1, 0, 1]),
    ];
    let mut clients: Vec<Client> = all.iter().map(|_| setting.broker.client()).collect();
    for (n, (client, one)) in clients.iter_mut().zip(&all).enumerate() {
        client.send_bytes(lines(one, kinds[n % 4].0).as_bytes()).unwrap();
    }
    for (n, client) in clients.iter_mut().enumerate() {
        let (commands, wanted) = kinds[n % 4];
        let got: Vec<i64> = wanted.iter().map(|_| client.read().unwrap().int()).collect();
        assert_eq!(got, wanted, "{commands:?}");
    }
    assert_eq!(held(&mut setting.redis), [0; 5]);
}
