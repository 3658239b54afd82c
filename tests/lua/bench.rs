//! One test's place: a database, a queue, a connection; runs scripts and compares keyspaces.

use crate::support::keyspace::{Bytes, Keyspace, Stored, dump};
use crate::support::redis::{Redis, shared};
use crate::support::resp::{Client, Value};
use crate::text::Names;
use delay_broker::store::keys::Key;
use delay_broker::store::script::{ALL, Script};
use std::sync::LazyLock;

/// Each script with the roles of its KEYS as words, but the guard. The first key `call` says that
/// it is numbered: then a number and `valid_until` go before its arguments. `...`: KEYS vary.
pub static SCRIPTS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let roles = |script: &Script| {
        let keys = script.keys.iter().filter(|key| **key != Key::Guard);
        let keys = keys.filter(|key| script.each.is_empty() || **key == Key::Call).map(role);
        let rest = (!script.each.is_empty()).then(|| "...".to_owned());
        keys.chain(rest).collect::<Vec<_>>().join(" ")
    };
    ALL.iter().map(|script| (script.name, roles(script))).collect()
});

/// A key's name in headers and keyspaces.
pub fn role(key: &Key) -> String {
    format!("{key:?}").to_lowercase()
}

pub fn script(name: &str) -> &'static Script {
    ALL.iter().find(|known| known.name == name).unwrap()
}

/// Beyond any time that a test sees.
pub const FOREVER_MS: &str = "9000000000000000";

/// The text of a script with its parts, as the broker loads it.
pub fn source(script: &str) -> &'static str {
    self::script(script).source()
}

/// The text of one file of `lua/`, without its ending.
pub fn file_text(file: &str) -> String {
    let path = format!("{}/lua/{file}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Put in front of a script, counts the bytes of all that it reads.
const COUNTED: &str = "local real, redis = redis, setmetatable({}, { __index = redis })
    local function size(reply)
      if type(reply) == 'string' then return #reply end
      local sum = 0
      if type(reply) == 'table' then for i = 1, #reply do sum = sum + size(reply[i]) end end
      return sum
    end
    local function counted(call)
      return function(...)
        local reply = call(...)
        real.call('INCRBY', 'bytes read', size(reply))
        return reply
      end
    end
    redis.call, redis.pcall = counted(real.call), counted(real.pcall)\n";

pub struct Bench {
    pub client: Client,
    pub names: Names,
    pub number: u64,
    pub now_us: i64,
    counts: bool,
}

impl Bench {
    pub fn new(given: &str) -> Bench {
        Bench::on(shared(), given)
    }

    pub fn on(redis: &Redis, given: &str) -> Bench {
        let database = redis.fresh_database();
        // Channels are not divided by database, so the name is.
        let names = Names { queue: format!("q{database}"), braced: false };
        let client = redis.client(database);
        let mut bench = Bench { client, names, number: 1, now_us: 0, counts: false };
        bench.give(given);
        bench
    }

    /// Adds these keys.
    pub fn give(&mut self, given: &str) {
        let given = self.names.keyspace(given);
        given.iter().for_each(|(key, stored)| self.write(key, stored));
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
                    all.iter().flat_map(|(field, value)| [field.0.clone(), value.0.clone()]),
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

    pub fn reply(&mut self, call: &str, valid_until_ms: &str) -> Value {
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
                let (mut count, mut packed) = (0, Vec::new());
                for group in words.split(|word| *word == "/") {
                    keys.extend(self.group(group, &mut count, &mut packed));
                }
                let mut groups = Vec::new();
                pack_array(&mut groups, count);
                groups.extend(packed);
                args.push(groups);
            }
            // Of each queue the keys, and behind a `|` what is known of it.
            "heads" | "found" | "stats" | "ready" | "cron_heads" | "stream_heads" => {
                let mut parts = words.split(|word| *word == "|");
                let role = |word: &&str| self.names.key(word).into_bytes();
                keys.extend(parts.next().unwrap_or_default().iter().map(role));
                let known = parts.next().unwrap_or_default();
                args.extend(known.iter().map(|word| self.names.bytes(word)));
            }
            "settle" | "node" | "pause_all" => {
                args.extend(words.iter().map(|word| self.names.bytes(word)));
                if script == "settle" {
                    args.push(valid_until_ms.into());
                }
            }
            _ => {
                args.push(self.names.key("destination").into_bytes());
                if script == "transfer" {
                    args.push(valid_until_ms.into());
                }
                args.extend(words.iter().map(|word| self.names.bytes(word)));
            }
        }
        if self::script(script).keys.contains(&Key::Guard) {
            keys.push(self.names.key("guard").into_bytes());
        }
        self.eval(script, &keys, &args)
    }

    /// How many bytes a call reads from Redis; its number is a new one each time.
    pub fn bytes_read(&mut self, call: &str) -> u64 {
        (self.counts, self.number) = (true, self.number + 1);
        let reply = self.run(call);
        self.counts = false;
        assert!(!reply.contains("Error"), "{call}: {reply:.300}");
        let read = self.client.call(&["GETDEL", "bytes read"]).unwrap().text();
        read.parse().unwrap()
    }

    pub fn eval(&mut self, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Value {
        let counted = if self.counts { COUNTED } else { "" };
        let start = [
            "EVAL".into(),
            [counted, source(script)].concat().into_bytes(),
            keys.len().to_string().into(),
        ];
        self.client.call(&[&start[..], keys, args].concat()).unwrap()
    }

    /// Keys of one group of an offer; its values go behind those packed before: `q -1000:m1(a)
    /// 5:m2(b) name=n mode=NX format=legacy order_list=off carries=PRIO`. `each` sends delays as an
    /// array even if all are equal.
    fn group(&self, words: &[&str], count: &mut usize, packed: &mut Vec<u8>) -> Vec<Vec<u8>> {
        let option = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let messages: Vec<(i64, Vec<u8>)> = words[1..]
            .iter()
            .filter_map(|word| word.split_once(':'))
            .map(|(delay, member)| (delay.parse().unwrap(), self.names.bytes(member)))
            .collect();
        let name = option("name=");
        let prefix = if words[0] == "p" { "p." } else { "" };
        let mut roles = vec!["destination", "timeout", "list", "record"];
        roles.extend(name.iter().flat_map(|_| ["names", "ids", "held"]));
        let carries = option("carries=");
        roles.extend((carries == Some("PRIO")).then_some("first"));
        let configured = [option("format="), option("order_list=")];
        if name.is_some() || carries.is_some() || configured != [None, None] {
            let count = if carries.is_some() { 6 } else { 3 };
            pack_array(packed, if name.is_some() { count.max(5) } else { count });
            pack_int(packed, messages.len() as i64);
            for word in configured {
                pack_text(packed, word.unwrap_or("").as_bytes());
            }
            if name.is_some() || carries.is_some() {
                pack_text(packed, &name.map(|name| self.names.bytes(name)).unwrap_or_default());
                pack_text(packed, option("mode=").unwrap_or("").as_bytes());
            }
            if let Some(carries) = carries {
                pack_text(packed, carries.as_bytes());
            }
        } else {
            pack_int(packed, messages.len() as i64);
        }
        let delays = messages.iter().map(|(delay, _)| *delay);
        if words.contains(&"each") || delays.clone().any(|delay| delay != messages[0].0) {
            pack_array(packed, messages.len());
            delays.for_each(|delay| pack_int(packed, delay));
        } else {
            pack_int(packed, messages[0].0);
        }
        let members = messages.iter().map(|(_, member)| member);
        members.for_each(|member| pack_text(packed, member));
        let key = |role: &&str| self.names.key(&format!("{prefix}{role}")).into_bytes();
        *count += 2 + messages.len();
        roles.iter().map(key).collect()
    }

    /// The whole keyspace but for the call key.
    pub fn keyspace(&mut self) -> Keyspace {
        let mut keyspace = dump(&mut self.client);
        keyspace.remove(&Bytes(self.names.key("call").into_bytes()));
        keyspace
    }

    /// Compares the whole keyspace but for the call key, with the times of the last call.
    pub fn then(&mut self, expected: &str, what: &str) {
        let expected = self.names.keyspace(&self.timed(expected));
        assert_eq!(self.keyspace(), expected, "keyspace of: {what}");
    }

    /// Runs a script and compares its reply.
    pub fn returns(&mut self, call: &str, expected: &str) {
        let reply = self.run(call);
        let expected = self.names.normal(&self.timed(expected));
        assert_eq!(reply, expected, "reply of: {call}");
        self.number += 1;
    }

    /// A text with the times that the last call made: `floor+5` is 5 ms later than that call, whose
    /// own ms is rounded down for it, `ceil+5` the same and rounded up.
    pub fn timed(&self, text: &str) -> String {
        static TIMES: LazyLock<regex::Regex> =
            LazyLock::new(|| regex::Regex::new(r"\b(floor|ceil)\+(\d+)").unwrap());
        let moment = |found: &regex::Captures| {
            let more_us = if &found[1] == "ceil" { 999 } else { 0 };
            ((self.now_us + more_us) / 1000 + found[2].parse::<i64>().unwrap()).to_string()
        };
        TIMES.replace_all(text, moment).into_owned()
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
        let (returns, then) = (bench.timed(returns), &bench.timed(then));
        assert_eq!(reply, bench.names.normal(&returns), "reply of: {what}");
        bench.then(then, what);
        if guarded {
            // A page of a search that took nothing is not stored: to repeat it harms nothing.
            let nothing = call.starts_with("remove_") && reply.starts_with("OK :0 ");
            if nothing || reply == "NOLIST" && call.starts_with("remove_") || reply == "LOST" {
                assert_eq!(bench.run(call), reply, "twice: {what}");
                continue;
            }
            let is_take = call.starts_with("take ") && !reply.starts_with("BADQUEUE");
            let mut taken: Vec<&str> = reply.split(' ').skip(5).collect();
            // Behind the messages: how many have expired, and how many dead ones were dropped.
            taken.truncate(taken.len() / 4 * 4);
            if is_take && (!reply.starts_with("OK ") || taken.is_empty()) {
                assert_eq!(bench.run("settle 1"), "NOT", "nothing taken, not stored: {what}");
                continue;
            }
            assert_eq!(bench.run(call), "SETTLED", "twice: {what}");
            bench.then(then, what);
            let stored = if call.starts_with("poll") && reply.starts_with("OK") {
                "APPLIED".to_owned()
            } else if is_take && reply.starts_with("OK") {
                let receipts = taken.chunks_exact(4).flat_map(|message| &message[..2]);
                receipts.fold("APPLIED".to_owned(), |all, word| format!("{all} {word}"))
            } else {
                reply
            };
            assert_eq!(bench.run("settle 1"), format!("APPLIED {stored}"), "settled: {what}");
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
