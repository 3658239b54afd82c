//! What can become of Redis, row by row: what clients are told meanwhile and how soon, and that
//! everything goes on by itself within a second of the return.
//!
//! Each row has a server of its own. Before it, one message is pending for an hour, and one comes
//! due while the fault lasts; the safety scan is set far apart, so that it helps nobody.

use crate::foreign;
use crate::server::{Server, Stopped};
use crate::stage::{
    NO_SCAN, ON_TIME, SOON, call, due_of, eventually, list, offer, say, take_due, time_us,
};
use crate::support::broker::Broker;
use crate::support::proxy::Proxy;
use crate::support::resp::{Client, Value};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TIMEOUT_MS: &str = "500";
/// A call and its settlement, and what a busy machine needs.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500 + 500 + 3_000);
const DUE_AFTER_MS: &str = "2500";
/// How long a fault goes on after the message came due: waits are at their longest then.
const LASTS_ON_MS: u64 = 900;

struct Scene {
    server: Server,
    proxy: Proxy,
    stopped: Option<Stopped>,
    /// Connections whose reply nobody waits for.
    hogs: Vec<Client>,
}

impl Scene {
    fn say(&self, command: &str) -> Value {
        say(&mut self.server.client(), command)
    }

    fn hog(&mut self, script: &str) {
        let mut hog = self.server.client();
        hog.send(&["EVAL", script, "0"]).unwrap();
        self.hogs.push(hog);
        eventually("it is busy", || self.say("PING").text().starts_with("BUSY").then_some(()));
    }
}

struct Fault {
    name: &'static str,
    /// Of the server, beside those for an append-only file.
    args: &'static [&'static str],
    begin: fn(&mut Scene),
    end: fn(&mut Scene),
    /// The codes that may be answered; "" is a value.
    offer: &'static [&'static str],
    cancel: &'static [&'static str],
    size: &'static [&'static str],
    /// What is due is delivered all the same.
    delivers: bool,
}

const AWAY: &[&str] = &["UNAVAILABLE"];
const SILENT: &[&str] = &["UNAVAILABLE", "UNCERTAIN"];
const GOES_ON: &[&str] = &[""];
/// What is not pending needs no write to be cancelled.
const NOTHING_TO_DO: &[&str] = &["UNAVAILABLE", ""];

/// A row of a Redis that cannot be reached. What is sent in its last moment may be uncertain.
const GONE: Fault = Fault {
    name: "",
    args: &[],
    begin: |_| {},
    end: |scene| scene.server.start_again(),
    offer: SILENT,
    cancel: SILENT,
    size: AWAY,
    delivers: false,
};

/// A row of a Redis that says no: surely nothing was stored.
const REFUSED: Fault = Fault { offer: AWAY, cancel: AWAY, ..GONE };

/// Redis, or the way to it, is away.
const AWAY_ROWS: &[Fault] = &[
    Fault {
        name: "SHUTDOWN and start",
        begin: |scene| {
            scene.server.client().send(&["SHUTDOWN"]).unwrap();
            scene.server.kill();
        },
        ..GONE
    },
    Fault { name: "kill -9 and start", begin: |scene| scene.server.kill(), ..GONE },
    Fault {
        name: "SIGSTOP",
        begin: |scene| scene.stopped = Some(Stopped::new(scene.server.pid())),
        end: |scene| scene.stopped = None,
        ..GONE
    },
    Fault {
        name: "a network that is cut",
        begin: |scene| scene.proxy.hold_all(),
        end: |scene| scene.proxy.release(),
        ..GONE
    },
    Fault {
        name: "loading",
        begin: |scene| {
            // It answers after each 2 MB that it has read.
            let fill = "for i = 1, 4000 do redis.call('SET', 'k' .. i, string.rep('x', 4000)) end";
            scene.say("CONFIG SET rdbcompression no");
            call(&mut scene.server.client(), &["EVAL", fill, "0"]);
            // A millisecond for each key.
            scene.server.add_args(&["--key-load-delay", "1000"]);
            // The delay is for keys of a snapshot, which the file then begins with.
            scene.say("BGREWRITEAOF");
            eventually("rewritten", || {
                let info = scene.say("INFO persistence").text();
                (!info.contains("aof_last_rewrite_time_sec:-1")).then_some(())
            });
            scene.server.kill();
            scene.server.start_again();
            assert!(scene.say("GET x").text().starts_with("LOADING"));
        },
        end: |scene| {
            eventually("loaded", || {
                (!scene.say("GET x").text().starts_with("LOADING")).then_some(())
            });
        },
        ..GONE
    },
];

/// Redis answers, and refuses.
const REFUSING_ROWS: &[Fault] = &[
    Fault {
        name: "a replica",
        begin: |scene| drop(scene.say("REPLICAOF 127.0.0.1 1")),
        end: |scene| drop(scene.say("REPLICAOF NO ONE")),
        cancel: NOTHING_TO_DO,
        size: GOES_ON,
        ..REFUSED
    },
    Fault {
        name: "at maxmemory",
        begin: |scene| drop(scene.say("CONFIG SET maxmemory 1")),
        end: |scene| drop(scene.say("CONFIG SET maxmemory 0")),
        cancel: GOES_ON,
        size: GOES_ON,
        delivers: true,
        ..REFUSED
    },
    Fault {
        name: "another type at the list",
        begin: |scene| drop(scene.say("SET q text")),
        end: |scene| drop(scene.say("DEL q")),
        offer: &["WRONGTYPE"],
        cancel: GOES_ON,
        size: GOES_ON,
        ..REFUSED
    },
    Fault {
        name: "another type at the zset of another queue",
        begin: |scene| drop(scene.say("SET redisson_delay_queue_timeout:{other} text")),
        end: |scene| drop(scene.say("DEL redisson_delay_queue_timeout:{other}")),
        offer: GOES_ON,
        cancel: GOES_ON,
        size: GOES_ON,
        delivers: true,
        ..REFUSED
    },
    Fault {
        name: "busy, and it can be killed",
        args: &["--lua-time-limit", "100"],
        begin: |scene| scene.hog("while true do end"),
        end: |scene| drop(scene.say("SCRIPT KILL")),
        ..REFUSED
    },
    Fault {
        name: "busy, and it has written",
        args: &["--lua-time-limit", "100"],
        begin: |scene| scene.hog("redis.call('SET', 'written', '1') while true do end"),
        end: |scene| {
            assert!(scene.say("SCRIPT KILL").text().starts_with("UNKILLABLE"));
            scene.server.kill();
            scene.server.start_again();
        },
        ..REFUSED
    },
    Fault {
        name: "a snapshot that fails",
        begin: |scene| {
            call(&mut scene.server.client(), &["CONFIG", "SET", "save", "3600 1"]);
            std::fs::create_dir_all(scene.server.dir().join("dump.rdb/in the way")).unwrap();
            scene.say("BGSAVE");
            eventually("writes are refused", || {
                scene.say("SET k v").text().starts_with("MISCONF").then_some(())
            });
        },
        end: |scene| {
            std::fs::remove_dir_all(scene.server.dir().join("dump.rdb")).unwrap();
            scene.say("BGSAVE");
        },
        cancel: NOTHING_TO_DO,
        size: GOES_ON,
        ..REFUSED
    },
    Fault {
        name: "another password",
        begin: |scene| {
            let mut client = scene.server.client();
            say(&mut client, "CONFIG SET requirepass secret");
            say(&mut client, "AUTH secret");
            for kind in ["normal", "pubsub"] {
                say(&mut client, &format!("CLIENT KILL TYPE {kind} SKIPME yes"));
            }
            scene.hogs.push(client);
        },
        end: |scene| {
            call(&mut scene.hogs[0], &["CONFIG", "SET", "requirepass", ""]);
        },
        ..GONE
    },
];

#[test]
fn redis_goes_away_and_comes_back() {
    AWAY_ROWS.iter().for_each(check);
}

#[test]
fn redis_refuses_and_takes_again() {
    REFUSING_ROWS.iter().for_each(check);
}

fn check(fault: &Fault) {
    let name = fault.name;
    let args = [&["--appendonly", "yes", "--appendfsync", "always"], fault.args].concat();
    let server = Server::with(&args);
    let proxy = Proxy::start(server.address());
    let broker = Broker::spawn(
        &format!("redis://{}", proxy.address()),
        &[
            ("redis.call_timeout_ms", TIMEOUT_MS),
            ("redis.settle_timeout_ms", TIMEOUT_MS),
            ("redis.connect_timeout_ms", TIMEOUT_MS),
            NO_SCAN,
        ],
    );
    let mut scene = Scene { server, proxy, stopped: None, hogs: Vec::new() };
    let mut client = broker.client();
    offer(&mut client, &["q", "1h", "kept", "NAME", "kept"]);
    offer(&mut client, &["q", "1h", "stays"]);
    let due = due_of(&offer(&mut client, &["q", DUE_AFTER_MS, "due"]));

    (fault.begin)(&mut scene);
    let mut told = Vec::new();
    for round in 0..2 {
        told.extend(ask_all(fault, &broker, round));
    }
    let until = UNIX_EPOCH + Duration::from_millis(due + LASTS_ON_MS);
    eventually("the fault lasts on", || (SystemTime::now() > until).then_some(()));
    if fault.delivers {
        eventually("it is delivered while the fault lasts", || {
            (list(&mut scene.server.client(), "q") == ["due"]).then_some(())
        });
    }
    (fault.end)(&mut scene);
    let mut redis = eventually("Redis takes writes", || {
        let mut redis = Client::connect(scene.server.address()).ok()?;
        let reply = redis.call(&["SET", "a key", "of the test"]).ok()?;
        (reply == Value::Simple("OK".into())).then_some(redis)
    });

    let back = Instant::now();
    eventually("what came due meanwhile is delivered", || {
        (list(&mut redis, "q") == ["due"]).then_some(())
    });
    let took = back.elapsed();
    eprintln!("{name}: delivered {took:?} after the return");
    assert!(took < ON_TIME, "{name}: delivered {took:?} after the return");
    let id = eventually("offers are stored", || {
        match call(&mut client, &["DQ.OFFER", "q", "100", "after"]) {
            Value::Bulk(id) => Some(String::from_utf8(id).unwrap()),
            _ => None,
        }
    });
    let took = back.elapsed();
    assert!(took < ON_TIME, "{name}: offers again {took:?} after the return");
    assert_eq!(list(&mut redis, "q")[0], "due", "{name}");
    say(&mut redis, "LPOP q");
    take_due(&mut redis, "q", "after", due_of(&id));
    // A publication, or the look that follows a new subscription.
    let theirs = time_us(&mut redis) / 1_000 + 100;
    foreign::offer(&mut redis, "theirs", &theirs.to_string(), [7; 8], "heard");
    take_due(&mut redis, "theirs", "heard", theirs);
    account(fault, &mut client, &told);
}

/// One command and what was said to it.
type Told = (Vec<String>, Value);

/// An offer, a cancel and a question at the same time, each on a connection of its own.
fn ask_all(fault: &Fault, broker: &Broker, round: usize) -> Vec<Told> {
    let (payload, kept) = (format!("offer {round}"), ["kept", "nobody"][round]);
    let rows: [(&[&str], &[&str]); 3] = [
        (&["DQ.OFFER", "q", "1h", &payload], fault.offer),
        (&["DQ.CANCEL", "q", kept], fault.cancel),
        (&["DQ.SIZE", "q"], fault.size),
    ];
    let begun = Instant::now();
    let mut clients = rows.map(|(command, _)| {
        let mut client = broker.client();
        client.read_within(SOON).unwrap();
        client.send(command).unwrap();
        client
    });
    let mut told = Vec::new();
    for ((command, codes), client) in rows.iter().zip(&mut clients) {
        let reply = client.read().unwrap();
        let what = format!("{}, round {round}: {command:?}: {reply:?}", fault.name);
        assert!(begun.elapsed() < ANSWERED_WITHIN, "{what} {:?}", begun.elapsed());
        let text = reply.text();
        let code = match &reply {
            Value::Error(_) => text.split(' ').next().unwrap_or_default(),
            _ => "",
        };
        assert!(codes.contains(&code), "{what}");
        told.push((command.iter().map(|word| word.to_string()).collect(), reply));
    }
    told
}

/// What is pending at the end is what was said.
fn account(fault: &Fault, client: &mut Client, told: &[Told]) {
    let rows = call(client, &["DQ.PEEK", "q", "COUNT", "100"]);
    let pending: Vec<String> = rows
        .elements()
        .iter()
        .map(|row| crate::stage::field_of(row, "payload").unwrap().text())
        .collect();
    let count = |payload: &str| pending.iter().filter(|other| *other == payload).count();
    let name = fault.name;
    assert_eq!(count("stays"), 1, "{name}: {pending:?}");
    for (command, reply) in told {
        let (what, text) = (format!("{name}: {command:?}: {reply:?}: {pending:?}"), reply.text());
        let uncertain = text.starts_with("UNCERTAIN ");
        match command[0].as_str() {
            "DQ.OFFER" if !uncertain => {
                let stored = usize::from(matches!(reply, Value::Bulk(_)));
                assert_eq!(count(&command[3]), stored, "{what}");
            }
            "DQ.OFFER" => assert!(count(&command[3]) <= 1, "{what}"),
            "DQ.CANCEL" if command[2] == "kept" && !uncertain => {
                assert_eq!(count("kept"), usize::from(reply != &Value::Int(1)), "{what}");
            }
            _ => {}
        }
    }
}

/// With the settings as they are: nobody waits longer than docs/errors.md says.
#[test]
fn ten_seconds_of_silence() {
    let server = Server::start();
    let broker = Broker::spawn(&server.url(), &[]);
    let mut client = broker.client();
    client.read_within(Duration::from_secs(20)).unwrap();
    offer(&mut client, &["q", "2s", "due"]);
    let stopped = Stopped::new(server.pid());
    let end = Instant::now() + Duration::from_secs(10);
    let mut answers = 0;
    while Instant::now() < end {
        let begun = Instant::now();
        let reply = say(&mut client, "DQ.OFFER other 1h m").text();
        assert!(SILENT.iter().any(|code| reply.starts_with(code)), "{reply}");
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(6_500), "answered after {took:?}");
        answers += 1;
    }
    assert!(answers >= 2, "{answers}");
    drop(stopped);
    let back = Instant::now();
    let mut redis = server.client();
    eventually("delivered", || (list(&mut redis, "q") == ["due"]).then_some(()));
    let took = back.elapsed();
    assert!(took < ON_TIME, "delivered {took:?} after the return");
    assert!(matches!(say(&mut client, "DQ.OFFER other 1h m"), Value::Bulk(_)));
}

/// A Redis without its data is a new one: scripts, node numbers and names are not there.
#[test]
fn a_redis_that_comes_back_empty() {
    let mut server = Server::with(&["--appendonly", "no"]);
    let broker = Broker::spawn(&server.url(), &[NO_SCAN]);
    let mut client = broker.client();
    offer(&mut client, &["q", "1h", "forgotten", "NAME", "n"]);
    offer(&mut client, &["{p}", "1h", "of a name that is recorded"]);
    server.kill();
    server.start_again();
    let mut redis = server.client();
    for queue in ["q", "{p}"] {
        let id = offer(&mut client, &[queue, "100", "new", "NAME", "n"]);
        take_due(&mut redis, queue, "new", due_of(&id));
    }
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(0));
    // Two brokers must not share a number: it is claimed again.
    eventually("a node number is held", || {
        let nodes = say(&mut redis, "KEYS delay_broker_node:*");
        (nodes.elements().len() == 1).then_some(())
    });
}
