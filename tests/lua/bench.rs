//! One test's place: a database, a queue, a connection; runs scripts and compares keyspaces.

use crate::support::keyspace::{Bytes, Keyspace, Stored, dump};
use crate::support::redis::{Redis, shared};
use crate::support::resp::{Client, Value};
use crate::text::Names;
use delay_broker::store::script::ALL;

/// A script and the roles of its KEYS. The first key `call` says that it is guarded:
/// then a number and `valid_until` go before its arguments. `...` says that KEYS vary.
pub const SCRIPTS: [(&str, &str); 29] = [
    ("offer", "call ..."),
    (
        "transfer",
        "destination timeout list queue names ids quarantine",
    ),
    ("heads", "..."),
    ("found", "..."),
    ("match_listed", "timeout list queue"),
    ("match_pending", "timeout queue"),
    ("remove", "call timeout list queue names ids"),
    ("cancel", "call timeout list queue names ids"),
    ("reschedule", "call timeout list queue names ids"),
    ("fire", "call timeout list queue names ids"),
    ("get", "timeout queue names ids"),
    ("range", "timeout queue ids"),
    ("poll", "call timeout list queue names ids quarantine"),
    ("first", "timeout queue"),
    ("take", "call timeout queue names ids"),
    ("clear", "call timeout list queue names ids"),
    ("pause", "call queue"),
    ("resume", "call queue"),
    ("quarantine_list", "quarantine queue"),
    ("quarantine_restore", "call timeout list queue quarantine"),
    ("quarantine_drop", "call queue quarantine"),
    ("info", "destination timeout list queue names quarantine"),
    ("stats", "..."),
    ("settle", "call"),
    ("node", "node"),
    ("prune", "timeout list queue registry"),
    ("configure", "queue timeout list"),
    ("convert_listed", "call timeout list queue"),
    ("convert_pending", "call timeout list queue"),
];

/// Beyond any time that a test sees.
pub const FOREVER_MS: &str = "9000000000000000";

/// The text of a script with its parts, as the broker loads it.
pub fn source(script: &str) -> &'static str {
    ALL.iter()
        .find(|known| known.name == script)
        .unwrap()
        .source
}

/// The text of one file of `lua/`, without its ending.
pub fn file_text(file: &str) -> String {
    let path = format!("{}/lua/{file}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub struct Bench {
    pub client: Client,
    pub names: Names,
    pub number: u64,
    pub now_us: i64,
}

impl Bench {
    pub fn new(given: &str) -> Bench {
        Bench::on(shared(), given)
    }

    pub fn on(redis: &Redis, given: &str) -> Bench {
        let database = redis.fresh_database();
        // Channels are not divided by database, so the name is.
        let names = Names {
            queue: format!("q{database}"),
        };
        let client = redis.client(database);
        let mut bench = Bench {
            client,
            names,
            number: 1,
            now_us: 0,
        };
        let given = bench.names.keyspace(given);
        given
            .iter()
            .for_each(|(key, stored)| bench.write(key, stored));
        bench
    }

    fn write(&mut self, key: &Bytes, stored: &Stored) {
        let mut args: Vec<Vec<u8>> = vec![Vec::new(), key.0.clone()];
        let command = match stored {
            Stored::Text(text) => {
                args.push(text.0.clone());
                "SET"
            }
            Stored::List(all) => {
                args.extend(all.iter().map(|one| one.0.clone()));
                "RPUSH"
            }
            Stored::Set(all) => {
                args.extend(all.iter().map(|one| one.0.clone()));
                "SADD"
            }
            Stored::Hash(all) => {
                args.extend(
                    all.iter()
                        .flat_map(|(field, value)| [field.0.clone(), value.0.clone()]),
                );
                "HSET"
            }
            Stored::Zset(all) => {
                let pair =
                    |(member, score): &(Bytes, String)| [score.clone().into(), member.0.clone()];
                args.extend(all.iter().flat_map(pair));
                "ZADD"
            }
            Stored::Other(kind) => panic!("no way to write a {kind}"),
        };
        args[0] = command.into();
        let reply = self.client.call(&args).unwrap();
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    }

    /// Runs a script with its own keys; the words after its name are its arguments, after number,
    /// `valid_until` and queue. Gives the reply without the time.
    pub fn run(&mut self, call: &str) -> String {
        self.run_until(call, FOREVER_MS)
    }

    pub fn run_until(&mut self, call: &str, valid_until_ms: &str) -> String {
        let reply = self.reply(call, valid_until_ms);
        match reply.elements() {
            // The reply of another call, with the time of that call.
            [Value::Int(now_us), status, Value::Int(then_us), rest @ ..]
                if status.text() == "APPLIED" && call.starts_with("settle") =>
            {
                assert!(*then_us > 1_000_000_000_000_000 && then_us <= now_us);
                self.now_us = *now_us;
                format!("APPLIED {}", self.names.words(rest))
            }
            [Value::Int(now_us), head @ ..] if call.starts_with("transfer") && head.len() > 7 => {
                let Value::Int(end_us) = head[7] else {
                    panic!("{reply:?}");
                };
                assert!(end_us >= *now_us);
                self.now_us = *now_us;
                self.names.words(&[&head[..7], &head[8..]].concat())
            }
            [Value::Int(now_us), rest @ ..] => {
                self.now_us = *now_us;
                self.names.words(rest)
            }
            _ => format!("{reply:?}"),
        }
    }

    fn reply(&mut self, call: &str, valid_until_ms: &str) -> Value {
        let (script, words) = call.split_once(' ').unwrap_or((call, ""));
        let (_, roles) = SCRIPTS.iter().find(|(name, _)| *name == script).unwrap();
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut args: Vec<Vec<u8>> = Vec::new();
        for role in roles.split_whitespace().filter(|role| *role != "...") {
            keys.push(self.names.key(role).into_bytes());
        }
        if guarded(script) {
            args.extend([self.number.to_string().into_bytes(), valid_until_ms.into()]);
        }
        match script {
            "offer" => {
                for group in words.split(|word| *word == "/") {
                    let (its_keys, packed) = self.group(group);
                    keys.extend(its_keys);
                    args.push(packed);
                }
            }
            "heads" | "found" | "stats" => {
                keys.extend(words.iter().map(|w| self.names.key(w).into_bytes()))
            }
            "settle" | "node" => args.extend(words.iter().map(|word| self.names.bytes(word))),
            _ => {
                args.push(self.names.queue.clone().into_bytes());
                args.extend(words.iter().map(|word| self.names.bytes(word)));
            }
        }
        self.eval(script, &keys, &args)
    }

    pub fn eval(&mut self, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Value {
        let start = [
            "EVAL".into(),
            source(script).as_bytes().to_vec(),
            keys.len().to_string().into(),
        ];
        self.client
            .call(&[&start[..], keys, args].concat())
            .unwrap()
    }

    /// Keys and packed argument of one group of an offer: `q -1000:m1(a) 5:m2(b) name=n mode=NX
    /// format=legacy order_list=off`. `each` sends delays as an array even if all are equal.
    fn group(&self, words: &[&str]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let option = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let messages: Vec<(i64, Vec<u8>)> = words[1..]
            .iter()
            .filter_map(|word| word.split_once(':'))
            .map(|(delay, member)| (delay.parse().unwrap(), self.names.bytes(member)))
            .collect();
        let name = option("name=");
        let prefix = if words[0] == "p" { "p." } else { "" };
        let mut roles = vec!["destination", "timeout", "list", "queue"];
        roles.extend(name.iter().flat_map(|_| ["names", "ids"]));
        let key = |role: &&str| self.names.key(&format!("{prefix}{role}")).into_bytes();
        let keys = roles.iter().map(key).collect();

        let mut packed = vec![0x90 | if name.is_some() { 6 } else { 4 }];
        pack_text(
            &mut packed,
            self.names.key(&format!("{prefix}destination")).as_bytes(),
        );
        match (option("format="), option("order_list=")) {
            (None, None) => pack_text(&mut packed, b""),
            (format, order_list) => {
                pack_array(&mut packed, 2);
                pack_text(&mut packed, format.unwrap_or("modern").as_bytes());
                pack_text(&mut packed, order_list.unwrap_or("").as_bytes());
            }
        }
        if words.contains(&"each") || messages.iter().any(|(delay, _)| *delay != messages[0].0) {
            pack_array(&mut packed, messages.len());
            messages
                .iter()
                .for_each(|(delay, _)| pack_int(&mut packed, *delay));
        } else {
            pack_int(&mut packed, messages[0].0);
        }
        pack_array(&mut packed, messages.len());
        messages
            .iter()
            .for_each(|(_, member)| pack_text(&mut packed, member));
        if let Some(name) = name {
            pack_text(&mut packed, &self.names.bytes(name));
            pack_text(&mut packed, option("mode=").unwrap_or("").as_bytes());
        }
        (keys, packed)
    }

    /// The whole keyspace but for the call key.
    pub fn keyspace(&mut self) -> Keyspace {
        let mut keyspace = dump(&mut self.client);
        keyspace.remove(&Bytes(self.names.key("call").into_bytes()));
        keyspace
    }

    /// Compares the whole keyspace but for the call key.
    pub fn then(&mut self, expected: &str, what: &str) {
        let expected = self.names.keyspace(expected);
        assert_eq!(self.keyspace(), expected, "keyspace of: {what}");
    }

    /// Runs a script and compares its reply.
    pub fn returns(&mut self, call: &str, expected: &str) {
        let reply = self.run(call);
        assert_eq!(reply, self.names.normal(expected), "reply of: {call}");
        self.number += 1;
    }

    pub fn redis(&mut self, words: &str) -> Value {
        let word = |word: &str| self.names.bytes(word);
        let args: Vec<Vec<u8>> = words.split_whitespace().map(word).collect();
        self.client.call(&args).unwrap()
    }
}

/// Whether a script takes the number of the call.
pub fn guarded(script: &str) -> bool {
    let (_, roles) = SCRIPTS.iter().find(|(name, _)| *name == script).unwrap();
    roles.starts_with("call") && script != "settle"
}

/// One row: what is there, the call, its reply without the time, and what is there then.
pub type Row<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

/// Runs rows. Of a guarded script each also shows that it does nothing when it is late or called
/// twice, and that it can be settled.
pub fn check(rows: &[Row]) {
    for (what, given, call, returns, then) in rows {
        let mut bench = Bench::new(given);
        let guarded = guarded(call.split_whitespace().next().unwrap());
        if guarded {
            assert_eq!(bench.run_until(call, "1"), "LATE", "late: {what}");
            bench.then(given, what);
        }
        let reply = bench.run(call);
        assert_eq!(reply, bench.names.normal(returns), "reply of: {what}");
        bench.then(then, what);
        if guarded {
            assert_eq!(bench.run(call), "SETTLED", "twice: {what}");
            bench.then(then, what);
            let stored = if ["poll", "take"].contains(&&call[..4]) && reply.starts_with("OK") {
                "APPLIED".to_owned()
            } else {
                reply
            };
            assert_eq!(
                bench.run("settle 1"),
                format!("APPLIED {stored}"),
                "settled: {what}"
            );
        }
    }
}

fn pack_text(packed: &mut Vec<u8>, text: &[u8]) {
    packed.push(0xdb);
    packed.extend((text.len() as u32).to_be_bytes());
    packed.extend(text);
}

fn pack_int(packed: &mut Vec<u8>, number: i64) {
    packed.push(0xd3);
    packed.extend(number.to_be_bytes());
}

fn pack_array(packed: &mut Vec<u8>, size: usize) {
    packed.push(0xdd);
    packed.extend((size as u32).to_be_bytes());
}
