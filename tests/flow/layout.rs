//! The layout, byte for byte: what another program wrote is delivered, what the broker writes
//! another program reads; what is published and what is not; members that nobody can read.

use crate::foreign::{self, Listener, keys, legacy, modern, write};
use crate::stage::{
    SOON, Stage, bytes_of, call, delivered, due_of, eventually, field_of, info, list, metric,
    offer, say, take_due, time_us,
};
use crate::support::broker::Broker;
use crate::support::keyspace::{Bytes, Stored, dump};
use crate::support::resp::{Client, Value};

/// The members of the published trace: the 8 bytes before length and payload.
const TRACE: [([u8; 8], u64); 5] = [
    (*b":\xdf\x0eO\x8c\xa7\xd4C", 407),
    (*b"e\xfd\xfe?j?\xdbC", 422),
    (*b"\x80J\x01j\x11\xee\xda\xc3", 424),
    (*b"v\xb5\xd0r\xb48\xd4\xc3", 427),
    (*b"\xe7\x07\x8b\xee\x09-\x94C", 429),
];

fn trace_payload(n: usize) -> Vec<u8> {
    format!("\x04>\nfffffffff{}", n + 1).into_bytes()
}

/// The keys of the database but those of the broker alone.
fn shared_keys(redis: &mut Client) -> Vec<String> {
    let keys = dump(redis).into_keys().map(|Bytes(key)| String::from_utf8(key).unwrap());
    keys.filter(|key| !key.starts_with("delay_broker_")).collect()
}

#[test]
fn the_trace_of_a_redisson_client_is_delivered() {
    let mut stage = Stage::new(&[]);
    let queue = "trace_queue1";
    let base = time_us(&mut stage.redis) / 1_000;
    for (n, (id, ms)) in TRACE.into_iter().enumerate() {
        let member = legacy(id, &trace_payload(n));
        assert_eq!(member[8..16], *b"\r\0\0\0\0\0\0\0");
        write(&mut stage.redis, queue, &(base + ms).to_string(), &member, true);
        if n == 0 {
            call(&mut stage.redis, &["PUBLISH", &keys(queue).channel, &(base + ms).to_string()]);
        }
    }
    for (n, (_, ms)) in TRACE.into_iter().enumerate() {
        let payload = String::from_utf8(trace_payload(n)).unwrap();
        take_due(&mut stage.redis, queue, &payload, base + ms);
    }
    assert_eq!(shared_keys(&mut stage.redis), [""; 0]);
}

#[test]
fn offers_are_written_as_redisson_writes_them() {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&config, "[[queues]]\nname = \"dest_queue1\"\nformat = \"legacy\"\n").unwrap();
    let mut stage = Stage::new(&[]);
    stage.broker = Broker::with_args(
        &["--redis", &stage.url, "--config", config.path().to_str().unwrap()],
        &[],
    );
    let mut client = stage.broker.client();
    let other = |stage: &Stage| Client::connect(stage.url[8..].split('/').next().unwrap()).unwrap();
    for (queue, is_legacy) in [("dest_queue1", true), ("dest_queue2", false)] {
        let mut listener = Listener::new(other(&stage), other(&stage), queue);
        let before = time_us(&mut stage.redis) / 1_000;
        let mut wanted = Vec::new();
        for n in 0..5 {
            let args: [&[u8]; 4] = [b"DQ.OFFER", queue.as_bytes(), b"13s", &trace_payload(n)];
            let id = client.call(&args).unwrap().text();
            let bytes: [u8; 8] = bytes_of(&id).try_into().unwrap();
            let pack = if is_legacy { legacy } else { modern };
            wanted.push((Bytes(pack(bytes, &trace_payload(n))), due_of(&id).to_string()));
        }
        let after = time_us(&mut stage.redis).div_ceil(1_000);
        let due: Vec<u64> = wanted.iter().map(|(_, due)| due.parse().unwrap()).collect();
        assert!(due[0] >= before + 13_000 && due[4] <= after + 13_000, "{before} {due:?} {after}");
        assert_eq!(listener.heard(), [wanted[0].1.clone()], "only the first was the head");

        let stored = dump(&mut stage.redis);
        let at = |key: &str| stored.get(&Bytes(key.as_bytes().to_vec())).cloned();
        let names = keys(queue);
        let members: Vec<Bytes> = wanted.iter().map(|(member, _)| member.clone()).collect();
        assert_eq!(at(&names.list), Some(Stored::List(members)));
        assert_eq!(at(&names.timeout), Some(Stored::Zset(wanted)));
        assert_eq!(at(queue), None);
    }
    let names = [keys("dest_queue1"), keys("dest_queue2")];
    let all = names.iter().flat_map(|keys| [keys.list.clone(), keys.timeout.clone()]).collect();
    assert_eq!(shared_keys(&mut stage.redis), crate::stage::sorted(all));
}

/// Each row: a command, with `$` for the base time, and what is published by it.
const PUBLISH_RULE: &[(&str, Option<u64>)] = &[
    ("DQ.OFFER publish AT $1000 first", Some(1_000)),
    ("DQ.OFFER publish AT $2000 later", None),
    ("DQ.OFFER publish AT $500 earlier NAME c", Some(500)),
    ("DQ.OFFER publish AT $500 equal-but-behind NAME d", None),
    ("DQ.RESCHEDULE publish c AT $3000", None),
    ("DQ.RESCHEDULE publish d AT $400", Some(400)),
    ("DQ.RESCHEDULE publish nobody AT $100", None),
    ("DQ.OFFER publish AT $300 named NAME n", Some(300)),
    ("DQ.OFFER publish AT $600 replaced NAME n", None),
    ("DQ.OFFER publish AT $200 replaced NAME n", Some(200)),
    ("DQ.OFFER publish AT $100 forbidden NAME n NX", None),
    ("DQ.CANCEL publish n", None),
    ("DQ.MOFFER publish 1d a 2d b", None),
    ("DQ.REMOVE publish first", None),
    ("DQ.PAUSE publish", None),
    ("DQ.RESUME publish", None),
];

#[test]
fn a_new_head_is_published_and_nothing_else() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let address = stage.url[8..].split('/').next().unwrap().to_owned();
    let connect = || Client::connect(&address).unwrap();
    let mut listener = Listener::new(connect(), connect(), "publish");
    let base = time_us(&mut stage.redis) / 1_000 + 3_600_000;
    for (command, published) in PUBLISH_RULE {
        let words: Vec<String> = command
            .split(' ')
            .map(|word| match word.strip_prefix('$') {
                Some(ms) => (base + ms.parse::<u64>().unwrap()).to_string(),
                None => word.to_owned(),
            })
            .collect();
        let reply = client.call(&words).unwrap();
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
        let wanted: Vec<String> = published.iter().map(|ms| (base + ms).to_string()).collect();
        assert_eq!(listener.heard(), wanted, "{command}");
    }
    // DQ.FIRE publishes the time that it made up, and the message comes.
    let before = time_us(&mut stage.redis) / 1_000;
    assert_eq!(say(&mut client, "DQ.FIRE publish c"), Value::Int(1));
    let heard = listener.heard();
    let fired: u64 = heard[0].parse().unwrap();
    assert!(heard.len() == 1 && fired >= before, "{heard:?}");
    take_due(&mut stage.redis, "publish", "earlier", fired);
    assert_eq!(listener.heard(), [""; 0], "a delivery publishes nothing");
}

#[test]
fn names_with_braces_have_the_keys_of_redisson() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for (queue, suffix) in [("plain", "{plain}"), ("x{a}y", "x{a}y"), ("{b}", "{b}"), ("c{", "c{")]
    {
        offer(&mut client, &[queue, "1h", "later"]);
        for prefix in ["redisson_delay_queue_timeout", "redisson_delay_queue"] {
            let key = format!("{prefix}:{suffix}");
            assert_eq!(call(&mut stage.redis, &["EXISTS", &key]), Value::Int(1), "{key}");
        }
        let id = offer(&mut client, &[queue, "50", "soon"]);
        take_due(&mut stage.redis, queue, "soon", due_of(&id));
    }
    // Two queues with one set of keys: the second is refused, and told of the first.
    for (second, first) in [("{plain}", "plain"), ("b", "{b}")] {
        for command in ["DQ.OFFER $ 0 m", "DQ.CLEAR $", "DQ.SIZE $", "DQ.REMOVE $ m", "DQ.POLL $"] {
            let reply = say(&mut client, &command.replace('$', second)).text();
            assert!(reply.starts_with("BADQUEUE ") && reply.contains(first), "{command}: {reply}");
        }
        assert_eq!(call(&mut client, &["DQ.SIZE", first]), Value::Int(1));
    }
    // A crash later the recorded name counts, and not the guess that `{b}` means the queue `b`.
    let id = offer(&mut client, &["{b}", "5s", "after the crash"]);
    stage.replace_broker(&[]);
    take_due(&mut stage.redis, "{b}", "after the crash", due_of(&id));
}

#[test]
fn a_member_that_cannot_be_read_harms_nobody() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let queue = "poisoned";
    let due = (time_us(&mut stage.redis) / 1_000 + 400).to_string();
    let mut wanted = Vec::new();
    for n in 0..9_u8 {
        let payload = format!("message-{n}");
        let member = match n % 3 {
            0 => modern([n, 1, 1, 1, 1, 1, 1, 1], payload.as_bytes()),
            // First byte 8: a legacy member that could be taken for a modern one.
            1 => legacy([8, n, 0, 0, 0, 0, 0, 0], payload.as_bytes()),
            _ => {
                write(&mut stage.redis, queue, &due, &[n, b'p', b'o', b'i', b's'], true);
                continue;
            }
        };
        write(&mut stage.redis, queue, &due, &member, true);
        wanted.push(payload);
    }
    call(&mut stage.redis, &["PUBLISH", &keys(queue).channel, &due]);
    let came = delivered(&mut stage.redis, queue, 6);
    assert_eq!(crate::stage::sorted(came), wanted);
    let quarantined = "delay_broker_messages_quarantined_total{queue=\"poisoned\"}";
    eventually("it is counted and said", || {
        let counted = metric(&stage.broker, quarantined) == 3.0;
        let log = stage.broker.log();
        (counted && log.contains("quarantine") && log.contains(queue)).then_some(())
    });
    assert_eq!(shared_keys(&mut stage.redis), [queue]);

    let rows = say(&mut client, "DQ.QUARANTINE poisoned LIST");
    let members: Vec<Vec<u8>> =
        rows.elements().iter().map(|row| field_of(row, "member").unwrap().bytes()).collect();
    assert_eq!(members, [b"\x02pois", b"\x05pois", b"\x08pois"]);
    assert_eq!(field_of(&rows.elements()[0], "due").unwrap().text(), due);
    // Restored it is pending again, due and still unreadable: back to quarantine.
    assert_eq!(say(&mut client, "DQ.QUARANTINE poisoned RESTORE \x02pois"), Value::Int(1));
    eventually("it is put aside again", || {
        (metric(&stage.broker, quarantined) == 4.0).then_some(())
    });
    assert_eq!(say(&mut client, "DQ.QUARANTINE poisoned DROP \x05pois"), Value::Int(1));
    assert_eq!(say(&mut client, "DQ.QUARANTINE poisoned DROP"), Value::Int(2));
    assert_eq!(say(&mut client, "DQ.QUARANTINE poisoned LIST"), Value::Array(Vec::new()));
    assert_eq!(list(&mut stage.redis, queue).len(), 6, "nothing came twice");
    // One that a reader understands by now goes its way.
    let id = [1; 8];
    let quarantine = foreign::keys(queue)
        .timeout
        .replace("redisson_delay_queue_timeout", "delay_broker_quarantine");
    let member = modern(id, b"readable");
    stage.redis.call(&[b"ZADD", quarantine.as_bytes(), b"5", &member[..]]).unwrap();
    assert_eq!(say(&mut client, "DQ.QUARANTINE poisoned RESTORE"), Value::Int(1));
    assert_eq!(delivered(&mut stage.redis, queue, 7)[6], "readable");
}

/// Nobody can know that Redisson's queue is called `{y}` when all that names it is a question; who
/// pauses it has said so.
#[test]
fn a_name_that_was_paused_goes_before_a_guess_and_one_that_was_asked_for_does_not() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let commands = ["SIZE", "PEEK", "INFO", "RESUME", "QUARANTINE LIST", "PAUSE"];
    for (n, command) in commands.into_iter().enumerate() {
        let queue = format!("{{y{n}}}");
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let command = format!("DQ.{name} {queue} {rest}");
        let reply = say(&mut client, command.trim_end());
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
        let due = time_us(&mut stage.redis) / 1_000 + 300;
        foreign::offer(&mut stage.redis, &queue, &due.to_string(), [1; 8], "m");
        if name == "PAUSE" {
            say(&mut client, &format!("DQ.RESUME {queue}"));
            take_due(&mut stage.redis, &queue, "m", due);
        } else {
            take_due(&mut stage.redis, &format!("y{n}"), "m", due);
        }
    }
}

/// A configured name with braces is recorded again where Redis lost it, before what others offer
/// goes to the list of the other name for good.
#[test]
fn a_configured_name_is_recorded_again() {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&config, "[[queues]]\nname = \"{kept}\"\n").unwrap();
    let mut stage = Stage::new(&[]);
    stage.broker = Broker::with_args(
        &["--redis", &stage.url, "--config", config.path().to_str().unwrap()],
        &[],
    );
    let record = |stage: &mut Stage| say(&mut stage.redis, "HGET delay_broker_queue:{kept} name");
    eventually("it is recorded", || (record(&mut stage).text() == "{kept}").then_some(()));
    call(&mut stage.redis, &["FLUSHDB"]);
    eventually("it is recorded again", || (record(&mut stage).text() == "{kept}").then_some(()));
    let due = time_us(&mut stage.redis) / 1_000 + 300;
    foreign::offer(&mut stage.redis, "{kept}", &due.to_string(), [1; 8], "m");
    take_due(&mut stage.redis, "{kept}", "m", due);
}

/// The line of docs/internals/data-in-redis.md that gives a name back: what is pending goes to the
/// list of the other name.
#[test]
fn keys_are_given_to_the_other_name() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    offer(&mut client, &["given", "1h", "first"]);
    let id = offer(&mut client, &["given", "1500", "second"]);
    say(&mut stage.redis, "HSET delay_broker_queue:{given} name {given}");
    let reply = say(&mut client, "DQ.SIZE given").text();
    assert!(reply.starts_with("BADQUEUE ") && reply.contains("'{given}'"), "{reply}");
    assert_eq!(say(&mut client, "DQ.SIZE {given}"), Value::Int(2));
    take_due(&mut stage.redis, "{given}", "second", due_of(&id));
    stage.broker.has_logged("Redis has recorded another name for the keys of a queue");
}

#[test]
fn keys_that_two_names_claim_are_not_delivered() {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&config, "[[queues]]\nname = \"{both}\"\n").unwrap();
    let mut stage = Stage::new(&[]);
    offer(&mut stage.broker.client(), &["both", "3s", "m"]);
    stage.broker.signal("KILL");
    stage.broker.wait(SOON);
    stage.broker = Broker::with_args(
        &["--redis", &stage.url, "--config", config.path().to_str().unwrap()],
        &[],
    );
    let mut client = stage.broker.client();
    eventually("it is overdue", || {
        (crate::stage::info(&mut client, "both", "oldest_overdue_ms").int() > 400).then_some(())
    });
    for queue in ["both", "{both}"] {
        assert_eq!(call(&mut stage.redis, &["EXISTS", queue]), Value::Int(0), "{queue}");
    }
    let reply = say(&mut client, "DQ.OFFER {both} 0 m").text();
    assert!(reply.starts_with("BADQUEUE ") && reply.contains("both"), "{reply}");
    stage.broker.has_logged("claim");
    // Without the second claim it goes its way.
    stage.replace_broker(&[]);
    assert_eq!(delivered(&mut stage.redis, "both", 1), ["m"]);
}

/// What Redisson's clients took leaves no names behind, and no entry of the order list, once the
/// queue is forgotten.
#[test]
fn a_forgotten_queue_leaves_nothing_behind() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    for n in 0..5 {
        offer(&mut client, &["taken", "1h", "m", "NAME", &n.to_string()]);
    }
    let keys = keys("taken");
    // As `poll` and `clear` of Redisson, but one entry stays.
    call(&mut stage.redis, &["DEL", &keys.timeout]);
    call(&mut stage.redis, &["LTRIM", &keys.list, "0", "0"]);
    eventually("it is forgotten", || {
        let left = call(&mut stage.redis, &["KEYS", "*{taken}"]).texts();
        let known = say(&mut client, "DQ.QUEUES MATCH taken").elements()[1].clone();
        (left.is_empty() && known.elements().is_empty()).then_some(())
    });
}

/// What somebody spoils of the broker's own keys of a queue stops no delivery, or its offers are
/// refused; DQ.INFO names it, and once it is gone all goes on.
#[test]
fn spoiled_keys_of_a_queue() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let key = |role: &str| format!("delay_broker_{role}:{{spoiled}}");
    let spoils = [
        vec!["HSET".into(), key("queue"), "paused_until".into(), "soon".into()],
        vec!["SET".into(), key("names"), "x".into()],
        vec!["SET".into(), key("ids"), "x".into()],
        vec!["SET".into(), key("quarantine"), "x".into()],
    ];
    for (n, spoil) in spoils.iter().enumerate() {
        let words: Vec<&str> = spoil.iter().map(String::as_str).collect();
        call(&mut stage.redis, &words);
        let trouble = info(&mut client, "spoiled", "trouble").text();
        assert!(trouble.contains(&spoil[1]), "{spoil:?}: {trouble}");
        let id = offer(&mut client, &["spoiled", "30", &n.to_string()]);
        take_due(&mut stage.redis, "spoiled", &n.to_string(), due_of(&id));
    }
    // A member for the quarantine: what is acknowledged would not be delivered.
    let timeout = keys("spoiled").timeout;
    call(&mut stage.redis, &["ZADD", &timeout, "5", "bad"]);
    let refused = eventually("offers are refused", || {
        let reply = say(&mut client, "DQ.OFFER spoiled 1h m");
        matches!(reply, Value::Error(_)).then(|| reply.text())
    });
    assert!(refused.starts_with("WRONGTYPE ") && refused.contains(&key("quarantine")), "{refused}");
    call(&mut stage.redis, &["DEL", &key("quarantine")]);
    let id = eventually("it goes on", || match say(&mut client, "DQ.OFFER spoiled 100 again") {
        Value::Bulk(id) => Some(String::from_utf8(id).unwrap()),
        _ => None,
    });
    take_due(&mut stage.redis, "spoiled", "again", due_of(&id));
}
