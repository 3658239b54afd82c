//! A link that breaks around one call: what was applied is answered as if nothing had happened,
//! what was not is repeated, and nothing is applied twice.

use crate::proxy::{Break, Proxy};
use crate::stage::{call, eventually, field_of, list, offer, say};
use crate::support::broker::Broker;
use crate::support::redis::{self, Redis};
use crate::support::resp::{Client, Value};
use std::thread;

struct Setting {
    broker: Broker,
    proxy: Proxy,
    redis: Client,
}

fn set_up() -> Setting {
    let shared: &Redis = redis::shared();
    let database = shared.fresh_database();
    let proxy = Proxy::start(shared.address());
    let broker = Broker::spawn(&format!("redis://{}/{database}", proxy.address()), &[]);
    Setting {
        broker,
        proxy,
        redis: shared.client(database),
    }
}

/// What is left in the queue, as (payload, name).
fn pending(client: &mut Client, queue: &str) -> Vec<(String, String)> {
    let rows = call(client, &["DQ.PEEK", queue, "COUNT", "100"]);
    let field = |row: &Value, name: &str| field_of(row, name).unwrap().text();
    rows.elements()
        .iter()
        .map(|row| (field(row, "payload"), field(row, "name")))
        .collect()
}

#[test]
fn an_offer_whose_link_broke_is_settled_and_stored_once() {
    let Setting {
        broker,
        proxy,
        mut redis,
    } = set_up();
    let mut client = broker.client();
    for (n, how) in [Break::Reply, Break::Request, Break::Reply]
        .into_iter()
        .enumerate()
    {
        for (kind, more) in [("plain", &[][..]), ("named", &["NAME", "a name"])] {
            let payload = format!("needle-{n}-{kind}");
            let queue = format!("q-{n}-{kind}");
            proxy.break_next(&[&payload], how);
            let before = proxy.broken();
            let args = [&[queue.as_str(), "1h", payload.as_str()], more].concat();
            let id = offer(&mut client, &args);
            assert_eq!(proxy.broken(), before + 1, "{how:?} {kind}");
            assert_eq!(
                call(&mut client, &["DQ.SIZE", &queue]),
                Value::Int(1),
                "{how:?} {kind}"
            );
            let listed = format!("redisson_delay_queue:{{{queue}}}");
            assert_eq!(list(&mut redis, &listed).len(), 1, "{how:?} {kind}");
            assert_eq!(
                call(&mut client, &["DQ.CANCEL", &queue, &id]),
                Value::Int(1)
            );
        }
    }
    // Many at once: one of the batch's messages is met, all of them are settled.
    for how in [Break::Reply, Break::Request] {
        let queue = format!("many-{how:?}");
        proxy.break_next(&["needle-77;"], how);
        let mut commands = Vec::new();
        for n in 0..150 {
            let payload = format!("needle-{n};");
            commands.extend(crate::support::resp::encode(&[
                "DQ.OFFER", &queue, "1h", &payload,
            ]));
        }
        client.send_bytes(&commands).unwrap();
        for n in 0..150 {
            let reply = client.read().unwrap();
            assert!(matches!(reply, Value::Bulk(_)), "{how:?} {n}: {reply:?}");
        }
        assert_eq!(
            call(&mut client, &["DQ.SIZE", &queue]),
            Value::Int(150),
            "{how:?}"
        );
    }
}

/// Command, its reply in text, and what is pending after it. Each begins with `a` under the name
/// `needle`, then `b`; the request is met by that name or by a word of its own.
type Row = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const COMMANDS: &[Row] = &[
    ("DQ.CANCEL $ needle", "1", &[("b", "")]),
    ("DQ.FIRE $ needle", "1", &[("b", "")]),
    ("DQ.REMOVE $ b-needle", "0", &[("a", "needle"), ("b", "")]),
    (
        "DQ.OFFER $ 2h c NAME needle",
        "",
        &[("b", ""), ("c", "needle")],
    ),
    (
        "DQ.OFFER $ 3h c NAME needle NX",
        "",
        &[("a", "needle"), ("b", "")],
    ),
    ("DQ.CLEAR $", "2", &[]),
    ("DQ.POLL $", "", &[("b", "")]),
    ("DQ.PAUSE $", "OK", &[("a", "needle"), ("b", "")]),
];

#[test]
fn every_writing_command_is_applied_once_whatever_breaks() {
    let Setting {
        broker,
        proxy,
        redis: _redis,
    } = set_up();
    let mut client = broker.client();
    for how in [Break::Reply, Break::Request] {
        for (n, (command, reply, left)) in COMMANDS.iter().enumerate() {
            let queue = format!("{how:?}-{n}");
            offer(&mut client, &[&queue, "1h", "a", "NAME", "needle"]);
            offer(&mut client, &[&queue, "2h", "b"]);
            // Some carry nothing of their own but the queue, and the key of all writing calls.
            let needle = if command.contains("needle") {
                "needle"
            } else {
                "delay_broker_call"
            };
            proxy.break_next(&[needle, &queue], how);
            let before = proxy.broken();
            let command = command.replace('$', &queue);
            let told = say(&mut client, &command);
            let what = format!("{how:?} {command}: {told:?}");
            assert_eq!(proxy.broken(), before + 1, "{what}");
            match (&told, command.starts_with("DQ.POLL"), how) {
                // At most once: the reply held the message, and is lost.
                (Value::Error(text), true, Break::Reply) => {
                    assert!(text.starts_with("UNCERTAIN "), "{what}");
                }
                (Value::Array(all), true, Break::Request) => {
                    assert_eq!(all.len(), 2, "{what}");
                }
                (Value::Error(_), ..) => panic!("{what}"),
                (Value::Bulk(_), ..) if command.starts_with("DQ.OFFER") => {}
                (Value::Null, ..) if command.ends_with("NX") => {}
                _ => assert_eq!(told.text(), *reply, "{what}"),
            }
            let left: Vec<(String, String)> = match command.starts_with("DQ.POLL") {
                true => Vec::new(),
                false => left
                    .iter()
                    .map(|(a, b)| (a.to_string(), b.to_string()))
                    .collect(),
            };
            // What was fired goes its way a moment later.
            eventually(&what, || {
                (pending(&mut client, &queue) == left).then_some(())
            });
        }
    }
}

/// Links that break again and again, around any script: what was acknowledged comes once, what was
/// refused never, and what is uncertain at most once.
#[test]
fn links_that_break_again_and_again_lose_and_double_nothing() {
    let Setting {
        broker,
        proxy,
        mut redis,
    } = set_up();
    proxy.break_every("EVALSHA", 9);
    let told: Vec<(String, Value)> = thread::scope(|scope| {
        let offering = |who: usize| {
            let mut client = broker.client();
            move || {
                let offer = |n: usize| {
                    let (payload, delay) = (format!("{who}-{n}"), (n % 50).to_string());
                    let reply = call(&mut client, &["DQ.OFFER", "q", &delay, &payload]);
                    (payload, reply)
                };
                (0..100).map(offer).collect::<Vec<_>>()
            }
        };
        let clients: Vec<_> = (0..4).map(|who| scope.spawn(offering(who))).collect();
        let all = clients
            .into_iter()
            .flat_map(|client| client.join().unwrap());
        all.collect()
    });
    assert!(proxy.broken() > 10, "{} were broken", proxy.broken());
    proxy.mend();
    let mut client = broker.client();
    eventually("nothing is pending", || {
        (say(&mut client, "DQ.SIZE q") == Value::Int(0)).then_some(())
    });
    let came = list(&mut redis, "q");
    let times = |payload: &String| came.iter().filter(|other| *other == payload).count();
    let mut stored = 0;
    for (payload, reply) in &told {
        let text = reply.text();
        let (least, most) = match reply {
            Value::Bulk(_) => (1, 1),
            _ if text.starts_with("UNCERTAIN ") => (0, 1),
            _ if text.starts_with("UNAVAILABLE ") => (0, 0),
            _ => panic!("{payload}: {reply:?}"),
        };
        stored += least;
        let times = times(payload);
        assert!(
            (least..=most).contains(&times),
            "{payload} came {times} times: {reply:?}"
        );
    }
    assert!(stored > 300, "only {stored} of 400 were acknowledged");
}
