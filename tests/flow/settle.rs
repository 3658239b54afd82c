//! A link that breaks around one call: what was applied is answered as if nothing had happened,
//! what was not is repeated, and nothing is applied twice.

use crate::server::Server;
use crate::stage::{SOON, call, due_of, eventually, field_of, list, offer, say, take_due};
use crate::support::broker::Broker;
use crate::support::faketime;
use crate::support::proxy::{Break, Proxy};
use crate::support::redis::{self, Redis};
use crate::support::resp::{Client, Value, encode};
use delay_broker::store::script::{POLL_PENDING, TRANSFER};
use std::thread;
use std::time::{Duration, Instant};

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
    Setting { broker, proxy, redis: shared.client(database) }
}

/// What is left in the queue, as (payload, name).
fn pending(client: &mut Client, queue: &str) -> Vec<(String, String)> {
    let rows = call(client, &["DQ.PEEK", queue, "COUNT", "100"]);
    let field = |row: &Value, name: &str| field_of(row, name).unwrap().text();
    rows.elements().iter().map(|row| (field(row, "payload"), field(row, "name"))).collect()
}

#[test]
fn an_offer_whose_link_broke_is_settled_and_stored_once() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    for (n, how) in [Break::Reply, Break::Request, Break::HalfReply].into_iter().enumerate() {
        for (kind, more) in [("plain", &[][..]), ("named", &["NAME", "a name"])] {
            let payload = format!("needle-{n}-{kind}");
            let queue = format!("q-{n}-{kind}");
            proxy.break_next(&[&payload], how);
            let before = proxy.broken();
            let args = [&[queue.as_str(), "1h", payload.as_str()], more].concat();
            let id = offer(&mut client, &args);
            assert_eq!(proxy.broken(), before + 1, "{how:?} {kind}");
            assert_eq!(call(&mut client, &["DQ.SIZE", &queue]), Value::Int(1), "{how:?} {kind}");
            let listed = format!("redisson_delay_queue:{{{queue}}}");
            assert_eq!(list(&mut redis, &listed).len(), 1, "{how:?} {kind}");
            assert_eq!(call(&mut client, &["DQ.CANCEL", &queue, &id]), Value::Int(1));
        }
    }
    // Many at once: one of the batch's messages is met, all of them are settled.
    for how in [Break::Reply, Break::Request] {
        let queue = format!("many-{how:?}");
        proxy.break_next(&["needle-77;"], how);
        let mut commands = Vec::new();
        for n in 0..150 {
            let payload = format!("needle-{n};");
            commands.extend(encode(&["DQ.OFFER", &queue, "1h", &payload]));
        }
        client.send_bytes(&commands).unwrap();
        for n in 0..150 {
            let reply = client.read().unwrap();
            assert!(matches!(reply, Value::Bulk(_)), "{how:?} {n}: {reply:?}");
        }
        assert_eq!(call(&mut client, &["DQ.SIZE", &queue]), Value::Int(150), "{how:?}");
    }
}

/// Command, its reply in text, and what is pending after it. Each begins with `a` under the name
/// `needle`, then `b`; the request is met by that name or by a word of its own.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const COMMANDS: &[Row] = &[
    ("DQ.CANCEL $ needle", "1", &[("b", "")]),
    ("DQ.FIRE $ needle", "1", &[("b", "")]),
    ("DQ.REMOVE $ b-needle", "0", &[("a", "needle"), ("b", "")]),
    ("DQ.OFFER $ 2h c NAME needle", "", &[("b", ""), ("c", "needle")]),
    ("DQ.OFFER $ 3h c NAME needle NX", "", &[("a", "needle"), ("b", "")]),
    ("DQ.CLEAR $", "2", &[]),
    ("DQ.CONVERT $ LEGACY", "2", &[("a", "needle"), ("b", "")]),
    ("DQ.POLL $ COUNT 9", "", &[("b", "")]),
    ("DQ.PAUSE $", "OK", &[("a", "needle"), ("b", "")]),
];

#[test]
fn every_writing_command_is_applied_once_whatever_breaks() {
    let Setting { broker, proxy, redis: _redis } = set_up();
    let mut client = broker.client();
    for how in [Break::Reply, Break::HalfReply, Break::Request] {
        for (n, (command, reply, left)) in COMMANDS.iter().enumerate() {
            let queue = format!("{how:?}-{n}");
            offer(&mut client, &[&queue, "1h", "a", "NAME", "needle"]);
            offer(&mut client, &[&queue, "2h", "b"]);
            // Some carry nothing of their own but the queue, and the key of all writing calls.
            let needle = if command.contains("needle") { "needle" } else { "delay_broker_call" };
            proxy.break_next(&[needle, &queue], how);
            let before = proxy.broken();
            let command = command.replace('$', &queue);
            let told = say(&mut client, &command);
            let what = format!("{how:?} {command}: {told:?}");
            assert_eq!(proxy.broken(), before + 1, "{what}");
            match (&told, command.starts_with("DQ.POLL"), how) {
                // At most once: the reply held the message, and is lost.
                (Value::Error(text), true, Break::Reply | Break::HalfReply) => {
                    assert!(text.starts_with("UNCERTAIN "), "{what}");
                }
                (Value::Array(all), true, Break::Request) => {
                    assert_eq!(all.len(), 2, "{what}");
                }
                (Value::Error(_), ..) => panic!("{what}"),
                (Value::Array(all), ..) => assert_eq!(all[1].int().to_string(), *reply, "{what}"),
                (Value::Bulk(_), ..) if command.starts_with("DQ.OFFER") => {}
                (Value::Null, ..) if command.ends_with("NX") => {}
                _ => assert_eq!(told.text(), *reply, "{what}"),
            }
            let left: Vec<(String, String)> = match command.starts_with("DQ.POLL") {
                true => Vec::new(),
                false => left.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
            };
            // What was fired goes its way a moment later.
            eventually(&what, || (pending(&mut client, &queue) == left).then_some(()));
        }
    }
}

/// Where no order list is kept the call that takes is another, and as little is doubled.
#[test]
fn a_poll_without_order_list_is_applied_once_whatever_breaks() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    for how in [Break::Reply, Break::HalfReply, Break::Request] {
        let queue = format!("{how:?}");
        let record = format!("HSET delay_broker_queue:{{{queue}}} name {queue} order_list off");
        say(&mut redis, &record);
        offer(&mut client, &[&queue, "2h", "a"]);
        offer(&mut client, &[&queue, "1h", "b"]);
        proxy.break_next(&[POLL_PENDING.sha(), &queue], how);
        let before = proxy.broken();
        let told = call(&mut client, &["DQ.POLL", &queue, "COUNT", "9"]);
        assert_eq!(proxy.broken(), before + 1, "{how:?}: {told:?}");
        match how {
            Break::Request => assert_eq!(told.texts(), ["a", "b"]),
            _ => assert!(told.text().starts_with("UNCERTAIN "), "{how:?}: {told:?}"),
        }
        assert_eq!(pending(&mut client, &queue), [], "{how:?}");
    }
}

/// A poll that goes on because others took some of what it found takes no more than a reply holds.
#[test]
fn a_poll_of_several_rounds_keeps_to_the_size_of_a_reply() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    say(&mut redis, "HSET delay_broker_queue:{q} name q order_list off");
    let large = ["a", "b"].map(|letter| letter.repeat(700_000));
    for payload in [&large[0], "gone", &large[1]] {
        offer(&mut client, &["q", "1h", payload]);
    }
    proxy.break_next(&[POLL_PENDING.sha()], Break::Late);
    let polls = thread::spawn(move || call(&mut client, &["DQ.POLL", "q", "COUNT", "2"]));
    eventually("it takes", || (proxy.broken() == 1).then_some(()));
    say(&mut redis, "ZREMRANGEBYRANK redisson_delay_queue_timeout:{q} 1 1");
    proxy.release();
    assert!(polls.join().unwrap().texts() == [large[0].as_str()], "not one of the large ones");
    assert_eq!(call(&mut broker.client(), &["DQ.SIZE", "q"]), Value::Int(1));
}

/// However many members of quarantine a command names, no call to Redis names them all.
#[test]
fn many_members_of_quarantine_take_several_calls() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    say(&mut redis, "HSET delay_broker_queue:{q} name q");
    let members: Vec<String> = (0..250).map(|n| format!("spoiled-{n};")).collect();
    for action in ["DROP", "RESTORE"] {
        for member in &members {
            call(&mut redis, &["ZADD", "delay_broker_quarantine:{q}", "4e12", member]);
        }
        proxy.break_next(&["spoiled-0;", "spoiled-249;"], Break::Request);
        let named = members.iter().map(String::as_str);
        let command: Vec<&str> = ["DQ.QUARANTINE", "q", action].into_iter().chain(named).collect();
        assert_eq!(call(&mut client, &command), Value::Int(250), "{action}");
        assert_eq!(proxy.broken(), 0, "{action}");
    }
    assert_eq!(call(&mut client, &["DQ.SIZE", "q"]), Value::Int(250));
}

/// Links that break again and again, around any script: what was acknowledged comes once, what was
/// refused never, and what is uncertain at most once.
#[test]
fn links_that_break_again_and_again_lose_and_double_nothing() {
    let Setting { broker, proxy, mut redis } = set_up();
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
        let all = clients.into_iter().flat_map(|client| client.join().unwrap());
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
        assert!((least..=most).contains(&times), "{payload} came {times} times: {reply:?}");
    }
    assert!(stored > 300, "only {stored} of 400 were acknowledged");
}

/// A connection that is open and dead: Redis has the call and its reply never comes, or the call
/// still arrives when nobody waits for it any more. Other connections tell what became of it, well
/// within the time for settling.
#[test]
fn a_call_on_a_half_open_link_is_settled_on_another() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    offer(&mut client, &["named", "1h", "a", "NAME", "silent-needle"]);
    // The call is given up after 2 s and settled within another 2 s.
    let begun = Instant::now();
    proxy.break_next(&["silent-needle"], Break::Silence);
    assert_eq!(call(&mut client, &["DQ.CANCEL", "named", "silent-needle"]), Value::Int(1));
    proxy.break_next(&["silent-payload"], Break::Silence);
    offer(&mut client, &["q", "1h", "silent-payload"]);
    assert_eq!(call(&mut client, &["DQ.SIZE", "q"]), Value::Int(1));

    proxy.break_next(&["late-payload"], Break::Late);
    let reply = call(&mut client, &["DQ.OFFER", "q", "1h", "late-payload"]).text();
    assert!(reply.starts_with("UNAVAILABLE "), "{reply}");
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    assert_eq!(proxy.broken(), 3);
    // Now it arrives, and is refused: whoever was told that it is not stored may rely on it.
    let before = calls(&mut redis);
    proxy.release();
    eventually("it arrives", || (calls(&mut redis) != before).then_some(()));
    let again = offer(&mut client, &["q", "1h", "the next"]);
    assert!(!again.is_empty());
    assert_eq!(call(&mut client, &["DQ.SIZE", "q"]), Value::Int(2));
}

/// How often Redis ran a script, as it says it.
fn calls(redis: &mut Client) -> String {
    let stats = say(redis, "INFO commandstats").text();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.unwrap_or_default().to_owned()
}

/// A transfer that Redis comes to when its broker does not wait for it any more moves nothing: by
/// then another Redis may be the master, and have delivered.
#[test]
fn a_transfer_that_arrives_late_moves_nothing() {
    let own = Redis::spawn(&[]);
    let proxy = Proxy::start(own.address());
    let url = format!("redis://{}/0", proxy.address());
    let mut broker = Broker::spawn(&url, &[("redis.call_timeout_ms", "300")]);
    let mut redis = own.client(0);
    proxy.break_next(&[TRANSFER.sha(), "late"], Break::Late);
    let id = offer(&mut broker.client(), &["late", "500", "m"]);
    eventually("it is held", || (proxy.broken() == 1).then_some(()));
    broker.signal("KILL");
    broker.wait(SOON);
    eventually("nobody waits any more", || {
        let time = say(&mut redis, "TIME");
        let seconds: u64 = time.elements()[0].text().parse().unwrap();
        (seconds * 1_000 > due_of(&id) + 2_000).then_some(())
    });
    let before = calls(&mut redis);
    proxy.release();
    eventually("it arrives", || (calls(&mut redis) != before).then_some(()));
    assert_eq!(list(&mut redis, "late"), [] as [&str; 0]);
    let pending = say(&mut redis, "ZCARD redisson_delay_queue_timeout:{late}");
    assert_eq!(pending, Value::Int(1));
}

/// Every connection is dead at once, and new ones work: nobody is refused.
#[test]
fn links_that_are_all_half_open_are_made_anew() {
    let Setting { broker, proxy, mut redis } = set_up();
    let mut client = broker.client();
    offer(&mut client, &["q", "500", "due"]);
    proxy.hold_old();
    let begun = Instant::now();
    let reply = call(&mut client, &["DQ.OFFER", "q", "1h", "m"]);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(6_500), "{took:?}");
    let text = reply.text();
    assert!(matches!(reply, Value::Bulk(_)) || text.starts_with("UNAVAILABLE "), "{reply:?}");
    eventually("delivered", || (list(&mut redis, "q") == ["due"]).then_some(()));
    eprintln!("{reply:?} after {took:?}, delivered after {:?}", begun.elapsed());
    call(&mut redis, &["DEL", "q"]);
    let id = offer(&mut client, &["q", "100", "on time"]);
    take_due(&mut redis, "q", "on time", due_of(&id));
}

/// The largest batch that the settings allow, whose reply has two values for each queue: all of it
/// is settled.
#[test]
fn the_largest_batch_is_settled() {
    const QUEUES: usize = 9_000;
    let shared: &Redis = redis::shared();
    let proxy = Proxy::start(shared.address());
    let url = format!("redis://{}/{}", proxy.address(), shared.fresh_database());
    let broker = Broker::spawn(
        &url,
        &[
            ("offers.batch_messages_max", "10000"),
            ("limits.moffer_messages_max", "10000"),
            ("limits.arguments_max", "20002"),
            ("offers.batch_bytes_max", "67108864"),
            ("redis.call_timeout_ms", "60000"),
            ("redis.settle_timeout_ms", "60000"),
        ],
    );
    let mut client = broker.client();
    // What EXEC stores is one call.
    let mut commands = encode(&["MULTI"]);
    for n in 0..QUEUES {
        let queue = format!("q{n}");
        commands.extend(encode(&["DQ.OFFER", &queue, "1h", "needle"]));
    }
    commands.extend(encode(&["EXEC"]));
    proxy.break_next(&["needle"], Break::Reply);
    client.send_bytes(&commands).unwrap();
    for _ in 0..=QUEUES {
        assert!(matches!(client.read().unwrap(), Value::Simple(_)), "OK, or QUEUED");
    }
    let stored = client.read().unwrap().into_array().unwrap();
    assert_eq!(stored.len(), QUEUES);
    assert!(stored.iter().all(|reply| matches!(reply, Value::Bulk(_))));
    assert_eq!(proxy.broken(), 1);
    for n in [0, QUEUES / 2, QUEUES - 1] {
        assert_eq!(say(&mut client, &format!("DQ.SIZE q{n}")), Value::Int(1));
    }
}

/// What somebody wrote into the keys of the calls stops nothing: other keys are used, and the log
/// says so.
#[test]
fn calls_whose_keys_were_changed_go_on() {
    let Setting { broker, proxy: _proxy, mut redis } = set_up();
    let mut client = broker.client();
    for garbage in [
        &["SET", "$", "99999999999999999999"][..],
        &["RPUSH", "$", "x"],
        &["SET", "$", "9007199254740991 x"],
    ] {
        offer(&mut client, &["q", "1h", "before", "NAME", "n"]);
        assert_eq!(say(&mut client, "DQ.CANCEL q n"), Value::Int(1));
        let keys = call(&mut redis, &["KEYS", "delay_broker_call:*"]).texts();
        assert!(keys.len() > 1, "{keys:?}");
        for key in &keys {
            call(&mut redis, &["DEL", key]);
            let words: Vec<&str> =
                garbage.iter().map(|word| if *word == "$" { key } else { *word }).collect();
            call(&mut redis, &words);
        }
        let begun = Instant::now();
        offer(&mut client, &["q", "1h", "after", "NAME", "n"]);
        assert_eq!(say(&mut client, "DQ.CANCEL q n"), Value::Int(1));
        assert!(begun.elapsed() < Duration::from_secs(1), "{garbage:?}");
        // The log is written beside the replies.
        eventually("two of the keys in the log", || {
            let log = broker.log();
            (keys.iter().filter(|key| log.contains(key.as_str())).count() >= 2).then_some(())
        });
    }
}

/// The second of two offers is gathered for the other lane, and the link breaks around the first:
/// they are stored in their order, since the second waits until it is known what became of the
/// first.
#[test]
fn offers_keep_their_order_when_a_link_breaks() {
    let shared: &Redis = redis::shared();
    let proxy = Proxy::start(shared.address());
    let url = format!("redis://{}/{}", proxy.address(), shared.fresh_database());
    let settings = [("offers.second_call_from", "1"), ("redis.call_timeout_ms", "10000")];
    let broker = Broker::spawn(&url, &settings);
    let mut client = broker.client();
    let mut other = broker.client();
    for how in [Break::Request, Break::Reply] {
        for more in [&["NAME", "n"][..], &[]] {
            let queue = format!("{how:?}-{}", more.len());
            let offer = |payload: &str| {
                let args = ["DQ.OFFER", &queue, "AT", "1999999999999", payload];
                encode(&[&args, more].concat())
            };
            let broken = proxy.broken();
            proxy.break_next(&["the-first"], how);
            client.send_bytes(&offer("the-first")).unwrap();
            eventually("it is broken", || (proxy.broken() > broken).then_some(()));
            // No new connection until the second one is on its lane.
            proxy.hold_all();
            client.send_bytes(&offer("the-second")).unwrap();
            eventually("it is on its lane", || {
                (broker_says(&mut other, "offers_waiting:") == 0).then_some(())
            });
            proxy.release();
            for _ in 0..2 {
                let reply = client.read().unwrap();
                assert!(matches!(reply, Value::Bulk(_)), "{queue}: {reply:?}");
            }
            let left = call(&mut client, &["DQ.POLL", &queue, "COUNT", "9"]).texts();
            let wanted: &[&str] = match more {
                [] => &["the-first", "the-second"],
                _ => &["the-second"],
            };
            assert_eq!(left, wanted, "{queue}");
        }
    }
}

/// A number in INFO.
fn broker_says(client: &mut Client, field: &str) -> usize {
    let info = say(client, "INFO").text();
    let line = info.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim().parse().unwrap()
}

/// What a call stored expires as Redis's clock steps ahead by an hour: then nobody can tell what
/// became of the call, and no more is said.
#[test]
fn a_clock_that_steps_while_a_call_is_in_doubt() {
    let Some(clock) = faketime::Clock::new() else { return };
    let server = Server::with_env(&[], &clock.env());
    let proxy = Proxy::start(server.address());
    let broker = Broker::spawn(&format!("redis://{}", proxy.address()), &[]);
    let (mut client, mut redis) = (broker.client(), server.client());
    offer(&mut client, &["q", "10h", "before"]);
    proxy.break_next(&["silent-payload"], Break::Silence);
    client.send(&["DQ.OFFER", "q", "10h", "silent-payload"]).unwrap();
    eventually("it is stored", || {
        (say(&mut redis, "ZCARD redisson_delay_queue_timeout:{q}") == Value::Int(2)).then_some(())
    });
    clock.set(3_600);
    let reply = client.read().unwrap().text();
    assert!(reply.starts_with("UNCERTAIN "), "{reply}");
    assert_eq!(call(&mut client, &["DQ.SIZE", "q"]), Value::Int(2));
    offer(&mut client, &["q", "10h", "the next"]);
}
