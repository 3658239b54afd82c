//! A queue without order list: configured, recorded for all brokers, migrated, refused where
//! Redisson is at work; delivered in any order without a look at a list.

use crate::foreign::{self, Listener, keys};
use crate::stage::{
    SOON, Stage, bytes_of, call, delivered, due_of, eventually, info, list, offer, say, sorted,
    take_due, take_one_due, time_us,
};
use crate::support::broker::Broker;
use crate::support::random::Random;
use crate::support::resp::{Client, Value, encode};
use std::thread;

/// Redisson's own transfer, as 4.7.0 has it but for its limit.
const PUSH_TASK: &str = "local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1], \
    'limit', 0, 100); \
    for i, v in ipairs(expired) do \
    local id, value = struct.unpack('Bc0Lc0', v); \
    redis.call('rpush', KEYS[1], value); redis.call('lrem', KEYS[3], 1, v); end; \
    if #expired > 0 then redis.call('zrem', KEYS[2], unpack(expired)); end; \
    return #expired;";

const OFF: &str = "[[queues]]\nname = \"q\"\norder_list = false\n";
const ON: &str = "[[queues]]\nname = \"q\"\n";

/// A broker on the stage's database, with this file of settings.
fn configured(stage: &Stage, tables: &str) -> Broker {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&config, tables).unwrap();
    let path = config.path().to_str().unwrap();
    Broker::with_args(&["--redis", &stage.url, "--config", path], &[])
}

/// Waits until the queue is recorded so.
fn recorded(redis: &mut Client, wanted: &Value) {
    eventually(&format!("order_list is {wanted:?}"), || {
        let found = say(redis, "HMGET delay_broker_queue:{q} name order_list");
        let [name, order_list] = found.elements() else {
            panic!("{found:?}");
        };
        (*name != Value::Null && order_list == wanted).then_some(())
    });
}

fn off() -> Value {
    Value::Bulk(b"off".to_vec())
}

/// Waits until the log says it.
fn logged(broker: &Broker, words: &str) {
    eventually(words, || broker.log().contains(words).then_some(()));
}

fn listed(redis: &mut Client) -> usize {
    list(redis, "redisson_delay_queue:{q}").len()
}

#[test]
fn one_broker_is_told_and_all_go_by_it() {
    let mut stage = Stage::new(&[]);
    let told = configured(&stage, OFF);
    recorded(&mut stage.redis, &off());
    let mut clients = [told.client(), stage.broker.client()];
    let due = time_us(&mut stage.redis) / 1_000 + 3_000;
    let at = due.to_string();
    for (n, client) in clients.iter_mut().enumerate() {
        for kind in ["plain", "named"] {
            let payload = format!("{kind}-{n}");
            let mut args = vec!["q", "AT", &at, &payload];
            args.extend(["NAME", &payload].iter().filter(|_| kind == "named"));
            offer(client, &args);
            assert_eq!(listed(&mut stage.redis), 0, "{payload}");
        }
    }
    assert_eq!(info(&mut clients[1], "q", "layout").text(), "zset");
    assert_eq!(say(&mut clients[0], "DQ.CANCEL q named-1"), Value::Int(1));
    // Without list the order between brokers is only as exact as their clocks agree.
    let mut taken = [(); 3].map(|()| take_one_due(&mut stage.redis, "q", due));
    taken.sort_by_key(|payload| payload.ends_with('1'));
    assert_eq!(taken, ["plain-0", "named-0", "plain-1"]);
    // Also after the one that was told is gone, and the queue was empty.
    drop(told);
    stage.replace_broker(&[]);
    let id = offer(&mut stage.broker.client(), &["q", "100", "later"]);
    assert_eq!(listed(&mut stage.redis), 0);
    take_due(&mut stage.redis, "q", "later", due_of(&id));
}

/// Two brokers that are told otherwise: what is recorded holds for both. It changes only while
/// nothing is pending, and not back and forth while they run.
#[test]
fn brokers_that_are_told_otherwise_go_by_the_record() {
    let mut stage = Stage::new(&[]);
    let without = configured(&stage, OFF);
    recorded(&mut stage.redis, &off());
    let with = configured(&stage, "[[queues]]\nname = \"q\"\norder_list = true\n");
    let mut clients = [without.client(), with.client(), without.client()];
    let mut layouts = Vec::new();
    for _ in 0..6 {
        for (n, client) in clients.iter_mut().enumerate() {
            // The last offered is due first.
            let delay = (3_600_000 - 1_000 * n).to_string();
            offer(client, &["q", &delay, &n.to_string()]);
        }
        let layout = info(&mut clients[0], "q", "layout").text();
        let wanted = if layout == "zset" { 0 } else { 3 };
        assert_eq!(listed(&mut stage.redis), wanted, "{layout}");
        layouts.push(layout);
        // Without list the order between brokers is as exact as their clocks agree.
        let polled = call(&mut clients[1], &["DQ.POLL", "q", "COUNT", "9"]).texts();
        let place = |payload: &str| polled.iter().position(|other| other == payload);
        assert!(place("0") < place("2"), "{polled:?}");
        assert_eq!(sorted(polled), ["0", "1", "2"]);
    }
    layouts.dedup();
    assert!(layouts.len() <= 2, "{layouts:?}");
}

/// The record is lost with everything else, and comes again with the next offer.
#[test]
fn recorded_anew_after_a_flush() {
    let mut stage = Stage::new(&[]);
    stage.broker = configured(&stage, OFF);
    recorded(&mut stage.redis, &off());
    say(&mut stage.redis, "FLUSHDB");
    for options in [&[][..], &["NAME", "n"]] {
        // Once this broker knows that it was recorded, its offers say so.
        eventually("an offer that is not listed", || {
            say(&mut stage.redis, "FLUSHDB");
            let args = [&["q", "1h", "m"], options].concat();
            offer(&mut stage.broker.client(), &args);
            (listed(&mut stage.redis) == 0).then_some(())
        });
        recorded(&mut stage.redis, &off());
    }
}

/// Names, ids, due times and the order of offering stay when the list goes.
#[test]
fn what_is_listed_is_dropped_and_stays_pending() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut ids = Vec::new();
    for n in 0..300 {
        let (delay, payload) = (format!("{}s", 4_000 - n), format!("m{n}"));
        ids.push(offer(&mut client, &["q", &delay, &payload, "NAME", &payload]));
    }
    assert_eq!(listed(&mut stage.redis), 300);
    let told = configured(&stage, OFF);
    logged(&told, "the order list is dropped");
    told.has_logged("\"dropped\":300");
    recorded(&mut stage.redis, &off());
    assert_eq!(listed(&mut stage.redis), 0);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(300));
    let taken = say(&mut client, "DQ.POLL q COUNT 3").texts();
    assert_eq!(taken, ["m0", "m1", "m2"]);
    let cancel = format!("DQ.CANCEL q {} m4", ids[3]);
    assert_eq!(say(&mut client, &cancel), Value::Int(2));
    let again = offer(&mut client, &["q", "1", "replaced", "NAME", "m5"]);
    take_due(&mut stage.redis, "q", "replaced", due_of(&again));
    assert_eq!(say(&mut client, "DQ.REMOVE q m6"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(293));
    // A second start finds nothing to do.
    drop(told);
    let told = configured(&stage, OFF);
    offer(&mut told.client(), &["q", "1h", "m"]);
    assert_eq!(listed(&mut stage.redis), 0);
    assert!(!told.log().contains("order_list"), "{}", told.log());
}

#[test]
fn refused_where_redisson_offered() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "ours"]);
    let due = time_us(&mut stage.redis) / 1_000 + 3_600_000;
    let id = *b"\xa1\x02\x03\x04\x05\x06\x07\x08";
    foreign::offer(&mut stage.redis, "q", &due.to_string(), id, "theirs");
    let told = configured(&stage, OFF);
    logged(&told, "members that Redisson wrote");
    for payload in ["one", "two"] {
        offer(&mut told.client(), &["q", "1h", payload]);
    }
    assert_eq!(listed(&mut stage.redis), 4);
    assert_eq!(info(&mut client, "q", "layout").text(), "redisson");
    // Nor does it become so when the queue is empty: only a start decides.
    assert_eq!(say(&mut client, "DQ.CLEAR q"), Value::Int(4));
    offer(&mut told.client(), &["q", "1h", "three"]);
    assert_eq!(listed(&mut stage.redis), 1);
    drop(told);
    let told = configured(&stage, OFF);
    logged(&told, "the order list is dropped");
    recorded(&mut stage.redis, &off());
}

#[test]
fn refused_where_redisson_listens() {
    // Channels know no databases, so a server of its own.
    let mut stage = Stage::alone(&[]);
    let address = stage.redis_address();
    let connect = || Client::connect(&address).unwrap();
    let listener = Listener::new(connect(), connect(), "q");
    let told = configured(&stage, OFF);
    logged(&told, "clients of Redisson listen");
    recorded(&mut stage.redis, &Value::Null);
    offer(&mut told.client(), &["q", "1h", "m"]);
    assert_eq!(listed(&mut stage.redis), 1);
    drop((told, listener));
    let _told = configured(&stage, OFF);
    recorded(&mut stage.redis, &off());
}

/// Back to a list: once the queue is empty at a start; before that the log says what to do.
#[test]
fn back_when_nothing_is_pending() {
    let mut stage = Stage::new(&[]);
    let told = configured(&stage, OFF);
    recorded(&mut stage.redis, &off());
    drop(told);
    offer(&mut stage.broker.client(), &["q", "1h", "m"]);
    let told = configured(&stage, ON);
    logged(&told, "DQ.CLEAR");
    offer(&mut told.client(), &["q", "1h", "n"]);
    assert_eq!(listed(&mut stage.redis), 0);
    assert_eq!(say(&mut told.client(), "DQ.CLEAR q"), Value::Int(2));
    recorded(&mut stage.redis, &off());
    drop(told);
    let told = configured(&stage, ON);
    recorded(&mut stage.redis, &Value::Null);
    offer(&mut told.client(), &["q", "1h", "m"]);
    assert_eq!(listed(&mut stage.redis), 1);
}

/// A queue whose keys hold something else keeps no other from its settings.
#[test]
fn settings_of_a_damaged_queue() {
    let mut stage = Stage::new(&[]);
    say(&mut stage.redis, "SET redisson_delay_queue:{damaged} x");
    let damaged = "[[queues]]\nname = \"damaged\"\norder_list = false\n";
    let told = configured(&stage, &[damaged, OFF].concat());
    recorded(&mut stage.redis, &off());
    logged(&told, "settings are not recorded");
}

/// Due in another order than offered: delivered in due order, and no script looks at a list.
#[test]
fn a_drain_in_random_order_touches_no_list() {
    const COUNT: usize = 20_000;
    let mut stage = Stage::alone(&[]);
    say(&mut stage.redis, "HSET delay_broker_queue:{q} name q order_list off");
    let mut client = stage.broker.client();
    let from = time_us(&mut stage.redis) / 1_000 + 2_000;
    let mut random = Random::new(11);
    let dues: Vec<u64> = (0..COUNT).map(|_| from + random.below(500)).collect();
    let mut bytes = Vec::new();
    for (n, due) in dues.iter().enumerate() {
        let (due, payload) = (due.to_string(), n.to_string());
        bytes.extend(encode(&["DQ.OFFER", "q", "AT", &due, &payload]));
    }
    client.send_bytes(&bytes).unwrap();
    let ids: Vec<String> = dues.iter().map(|_| client.read().unwrap().text()).collect();
    let came = delivered(&mut stage.redis, "q", COUNT);
    let mut wanted: Vec<usize> = (0..COUNT).collect();
    wanted.sort_by_key(|n| (due_of(&ids[*n]), bytes_of(&ids[*n])));
    let wanted: Vec<String> = wanted.iter().map(usize::to_string).collect();
    assert!(came == wanted, "not in the order of due times");
    let calls = say(&mut stage.redis, "INFO commandstats").text();
    for command in ["lrem", "lset", "ltrim", "lindex", "lrange", "rpop"] {
        let line = calls.split_once(&format!("cmdstat_{command}:calls="));
        let count = line.map_or("0", |(_, rest)| rest.split(',').next().unwrap());
        // The audit asks for the right to each once in a while.
        assert!(count.parse::<u64>().unwrap() < 10, "{command}: {count}");
    }
}

/// More than one page, while two poll: each takes in the order of offering, and nothing twice.
#[test]
fn polls_in_offer_order_whatever_is_due_first() {
    const COUNT: usize = 2_500;
    let mut stage = Stage::new(&[]);
    say(&mut stage.redis, "HSET delay_broker_queue:{q} name q order_list off");
    let mut client = stage.broker.client();
    let dues = |n: usize| (3_600_000 + n * 7_919 % COUNT).to_string();
    for (from, to) in [(0, 1_000), (1_000, 2_000), (2_000, COUNT)] {
        let mut args = vec!["DQ.MOFFER".to_owned(), "q".to_owned()];
        args.extend((from..to).flat_map(|n| [dues(n), format!("m{n}")]));
        assert_eq!(client.call(&args).unwrap().elements().len(), to - from);
    }
    // Those of others come last, by due time.
    for (id, score, payload) in [(0xff, "2e14", "third"), (0xf0, "1e14", "second")] {
        let member = foreign::modern([id; 8], payload.as_bytes());
        foreign::write(&mut stage.redis, "q", score, &member, false);
    }
    assert_eq!(say(&mut client, "DQ.POLL q COUNT 2").texts(), ["m0", "m1"]);
    let address = stage.broker.address();
    let both: Vec<Vec<String>> = thread::scope(|scope| {
        let poll = || {
            let mut client = Client::connect(&address).unwrap();
            client.read_within(SOON).unwrap();
            let mut taken = Vec::new();
            loop {
                let some = say(&mut client, "DQ.POLL q COUNT 300").texts();
                if some.is_empty() {
                    return taken;
                }
                taken.extend(some);
            }
        };
        let polling = [scope.spawn(poll), scope.spawn(poll)];
        polling.map(|one| one.join().unwrap()).into()
    });
    let place = |payload: &String| match payload.strip_prefix('m') {
        Some(n) => n.parse().unwrap(),
        None => COUNT + usize::from(payload == "third"),
    };
    let mut all: Vec<usize> = Vec::new();
    for taken in both {
        let places: Vec<usize> = taken.iter().map(place).collect();
        assert!(places.is_sorted(), "{taken:?}");
        all.extend(places);
    }
    all.sort_unstable();
    assert_eq!(all, (2..COUNT + 2).collect::<Vec<_>>());
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
}

/// The first ones of a payload go, in the order of offering, though they are due last.
#[test]
fn removes_the_first_offered() {
    const COUNT: usize = 6_000;
    let mut stage = Stage::new(&[]);
    say(&mut stage.redis, "HSET delay_broker_queue:{q} name q order_list off");
    let mut client = stage.broker.client();
    let mut ids = Vec::new();
    let base = time_us(&mut stage.redis) / 1_000 + 3_600_000;
    for from in (0..COUNT).step_by(500) {
        let mut args = vec!["DQ.MOFFER".to_owned(), "q".to_owned()];
        for n in from..from + 500 {
            let due = base + (COUNT - n) as u64;
            args.extend(["AT".to_owned(), due.to_string(), "same".to_owned()]);
        }
        ids.extend(client.call(&args).unwrap().texts());
    }
    client.read_within(SOON).unwrap();
    let first = |client: &mut Client, left: &[String]| {
        let row = say(client, "DQ.RANGE q - + COUNT 1000");
        let rows = row.elements()[1].elements().to_vec();
        let id = |row: &Value| crate::stage::field_of(row, "id").unwrap().text();
        let found: Vec<String> = rows.iter().map(id).collect();
        let last_offered = left.iter().rev().take(1_000);
        assert!(found.iter().eq(last_offered), "others went");
        assert_eq!(say(client, "DQ.SIZE q").int() as usize, left.len());
    };
    assert_eq!(say(&mut client, "DQ.REMOVE q same"), Value::Int(1));
    first(&mut client, &ids[1..]);
    assert_eq!(say(&mut client, "DQ.REMOVE q same COUNT 4999"), Value::Int(4_999));
    first(&mut client, &ids[5_000..]);
    assert_eq!(say(&mut client, "DQ.CONTAINS q same"), Value::Array(vec![Value::Int(1)]));
    assert_eq!(say(&mut client, "DQ.REMOVE q same COUNT 1001"), Value::Int(1_000));
    assert_eq!(say(&mut client, "DQ.REMOVE q same COUNT 0"), Value::Int(0));
}

/// What Redisson lists all the same does not stay, and its own transfer delivers ours.
#[test]
fn beside_redisson() {
    let mut stage = Stage::new(&[]);
    say(&mut stage.redis, "HSET delay_broker_queue:{q} name q order_list off");
    let mut client = stage.broker.client();
    let due = time_us(&mut stage.redis) / 1_000 + 300;
    foreign::offer(&mut stage.redis, "q", &due.to_string(), [0xa1; 8], "theirs");
    assert_eq!(listed(&mut stage.redis), 1);
    take_due(&mut stage.redis, "q", "theirs", due);
    assert_eq!(listed(&mut stage.redis), 0);

    assert_eq!(say(&mut client, "DQ.PAUSE q"), Value::Simple("OK".into()));
    let id = offer(&mut client, &["q", "0", "ours"]);
    let k = keys("q");
    let now = due_of(&id).to_string();
    let transfer = ["EVAL", PUSH_TASK, "3", "q", &k.timeout, &k.list, &now];
    assert_eq!(call(&mut stage.redis, &transfer), Value::Int(1));
    assert_eq!(list(&mut stage.redis, "q"), ["ours"]);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
}
