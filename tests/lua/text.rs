//! Keyspaces, members and replies as short text, for tables that can be read.
//!
//! ```text
//! m1(a)     modern member, id 1 in 8 bytes, payload `a`      m[0102](a)   another id, in hex
//! l1(a)     legacy member, id 1                              #1           the 8 bytes of id 1
//! e1(a)     `a` in an envelope with id 1; more in it: e1,p9,t5,x5,l5,nname,hname:value(a)
//! f1,p9(a)  the same, as it stands among messages with a priority: behind the bytes of its id
//! i:#1      a field of `held`
//! #1#2      the bytes of both ids, one after the other       2/0/bad      in `tries`: `2 0 bad`
//! ''        nothing     $q  name of the queue     @list  key of that role     \x00  a byte
//!
//! timeout m1(a)=1000 m2(b)=2000; list m1(a) m2(b); record name=$q; names !string
//! ```
//!
//! A key stands by its role; `p.` before it means those of a second queue. `!string` is a key of
//! the wrong type. Replies are elements with spaces between, integers as `:1`.

use crate::support::keyspace::{Bytes, Keyspace, Stored};
use crate::support::resp::Value;
use delay_broker::domain::envelope::Envelope;

/// The names of one test: its queue and a second one.
pub struct Names {
    pub queue: String,
    /// The queue asked for is that with braces, which has the same keys.
    pub braced: bool,
}

const ROLES: [(&str, &str, &str); 21] = [
    ("timeout", "redisson_delay_queue_timeout:", "zset"),
    ("list", "redisson_delay_queue:", "list"),
    ("record", "delay_broker_queue:", "hash"),
    ("names", "delay_broker_names:", "hash"),
    ("ids", "delay_broker_names_ids:", "hash"),
    ("quarantine", "delay_broker_quarantine:", "zset"),
    ("call", "delay_broker_call:", "string"),
    ("node", "delay_broker_node:", "string"),
    ("leased", "delay_broker_leased:", "zset"),
    ("retry", "delay_broker_retry:", "zset"),
    ("dead", "delay_broker_dead:", "zset"),
    ("taken", "delay_broker_taken:", "hash"),
    ("tries", "delay_broker_tries:", "hash"),
    ("crons", "delay_broker_crons:", "zset"),
    ("cron", "delay_broker_cron:", "hash"),
    ("first", "delay_broker_first:", "zset"),
    ("held", "delay_broker_held:", "hash"),
    ("again", "delay_broker_again:", "stream"),
    ("registry", "delay_broker_queues:", "set"),
    ("all", "delay_broker_all:", "hash"),
    ("guard", "redisson_delay_queue_channel:", "string"),
];

impl Names {
    /// The key of a role, `p.` before it for the second queue.
    pub fn key(&self, role: &str) -> String {
        let (role, queue) = match role.strip_prefix("p.") {
            Some(role) => (role, self.queue.replace('q', "p")),
            None => (role, self.queue.clone()),
        };
        match ROLES.iter().find(|(name, ..)| *name == role) {
            // Of the group `g`.
            Some((_, prefix, "stream")) => format!("{prefix}{{{queue}}}:g"),
            Some((_, prefix, _)) => format!("{prefix}{{{queue}}}"),
            None if role == "destination" && self.braced => format!("{{{queue}}}"),
            None if role == "destination" => queue,
            None => panic!("no such role: {role}"),
        }
    }

    /// The bytes that a word stands for.
    pub fn bytes(&self, word: &str) -> Vec<u8> {
        if let Some((start, payload)) = word.strip_suffix(')').and_then(|w| w.split_once('(')) {
            let payload = match payload.starts_with('e') && payload.ends_with(')') {
                true => self.bytes(payload),
                false => unescape(payload),
            };
            let (kind, id) = start.split_at(1);
            if kind == "e" || kind == "f" {
                let (id, stored) = enveloped(id, &payload);
                let order = id.filter(|_| kind == "f").unwrap_or_default();
                return [&order[..if kind == "f" { 8 } else { 0 }], &stored].concat();
            }
            let id = match id.strip_prefix('[').and_then(|id| id.strip_suffix(']')) {
                Some(digits) => unhex(digits),
                None => id.parse::<u64>().unwrap().to_be_bytes().to_vec(),
            };
            return match kind {
                "m" => modern(&id, &payload),
                "l" => legacy(&id, &payload),
                _ => panic!("no such member: {word}"),
            };
        }
        if let Some((start, end)) = word.split_once("_@") {
            return [start, " ", &self.key(end)].concat().into_bytes();
        }
        if let Some(start) = word.strip_suffix("_{$q}") {
            return format!("{start} {{{}}}", self.queue).into_bytes();
        }
        if let Some(id) = word.strip_prefix("i:#") {
            return [b"i:", &id.parse::<u64>().unwrap().to_be_bytes()[..]].concat();
        }
        match word.split_at_checked(1) {
            Some(("#", ids)) => {
                ids.split('#').flat_map(|id| id.parse::<u64>().unwrap().to_be_bytes()).collect()
            }
            Some(("@", role)) => self.key(role).into_bytes(),
            _ if word == "$q" => self.queue.clone().into_bytes(),
            _ if word == "{$q}" => format!("{{{}}}", self.queue).into_bytes(),
            _ if word == "$p" => self.key("p.destination").into_bytes(),
            _ if word == "''" => Vec::new(),
            _ => unescape(word),
        }
    }

    /// The keyspace that a text describes.
    pub fn keyspace(&self, text: &str) -> Keyspace {
        let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| self.stored(line)).collect()
    }

    fn stored(&self, line: &str) -> (Bytes, Stored) {
        let mut words = line.split_whitespace();
        let role = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let of = |word: &str| Bytes(self.bytes(word));
        let pairs = || words.iter().map(|word| word.rsplit_once('=').unwrap());
        let kind = ROLES.iter().find(|(name, ..)| role.trim_start_matches("p.") == *name);
        let stored = match kind.map_or("list", |(.., kind)| *kind) {
            _ if words == ["!string"] => Stored::Text(Bytes(b"wrong".to_vec())),
            "zset" => {
                let mut all: Vec<_> = pairs().map(|(m, s)| (of(m), s.to_owned())).collect();
                let score = |(_, score): &(Bytes, String)| score.parse::<f64>().unwrap();
                all.sort_by(|a, b| score(a).total_cmp(&score(b)).then(a.0.cmp(&b.0)));
                Stored::Zset(all)
            }
            "hash" if role.ends_with("tries") => {
                let spaced = |(id, value): (&str, &str)| (of(id), of(&value.replace('/', "\\x20")));
                Stored::Hash(pairs().map(spaced).collect())
            }
            "hash" => Stored::Hash(pairs().map(|(f, v)| (of(f), of(v))).collect()),
            "list" => Stored::List(words.iter().map(|word| of(word)).collect()),
            "set" => Stored::Set(words.iter().map(|word| of(word)).collect()),
            _ => Stored::Text(of(words[0])),
        };
        (Bytes(self.key(role).into_bytes()), stored)
    }

    /// A reply as words.
    pub fn words(&self, reply: &[Value]) -> String {
        let word = |value: &Value| match value {
            Value::Int(number) => format!(":{number}"),
            Value::Bulk(bytes) => self.word(bytes),
            other => format!("{other:?}"),
        };
        reply.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// The text of a row as `words` would write it.
    pub fn normal(&self, words: &str) -> String {
        let word = |word: &str| match word.starts_with(':') {
            true => word.to_owned(),
            false => self.word(&self.bytes(word)),
        };
        words.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    }

    fn word(&self, bytes: &[u8]) -> String {
        if bytes.is_empty() {
            return "''".to_owned();
        }
        let known = |kind, id: &[u8], payload: &[u8]| match <[u8; 8]>::try_from(id) {
            Ok(id) => format!("{kind}{}({})", u64::from_be_bytes(id), payload.escape_ascii()),
            Err(_) => format!("{kind}[{}]({})", hex(id), payload.escape_ascii()),
        };
        let id_size = usize::from(bytes[0]);
        if let (Some(id), Some(payload)) = (bytes.get(1..1 + id_size), bytes.get(9 + id_size..))
            && modern(id, payload) == bytes
        {
            return known("m", id, payload);
        }
        if bytes.len() >= 16 && legacy(&bytes[..8], &bytes[16..]) == bytes {
            return known("l", &bytes[..8], &bytes[16..]);
        }
        bytes.escape_ascii().to_string().replace(' ', "_")
    }
}

/// Its id, and a payload in an envelope of what stands between the commas.
fn enveloped(words: &str, payload: &[u8]) -> (Option<[u8; 8]>, Vec<u8>) {
    let bytes = |text: &str| bytes::Bytes::from(unescape(text));
    let mut envelope = Envelope::default();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (kind, rest) = word.split_at(1);
        let number = || Some(rest.parse().unwrap());
        match kind {
            "p" => envelope.priority = number(),
            "t" => envelope.ttl_ms = number(),
            "x" => envelope.expires_ms = number(),
            "l" => envelope.limit = number(),
            "n" => envelope.name = Some(bytes(rest)),
            "h" => {
                let (name, value) = rest.split_once(':').unwrap();
                envelope.headers.push((bytes(name), bytes(value)));
            }
            _ => envelope.id = Some(word.parse::<u64>().unwrap().to_be_bytes()),
        }
    }
    let mut stored = Vec::new();
    envelope.pack(&mut stored);
    stored.extend_from_slice(payload);
    (envelope.id, stored)
}

/// A member in the modern format.
pub fn modern(id: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u64).to_le_bytes();
    [&[id.len() as u8], id, &size, payload].concat()
}

/// A member in the legacy format; its id has 8 bytes.
pub fn legacy(id: &[u8], payload: &[u8]) -> Vec<u8> {
    [id, &(payload.len() as u64).to_le_bytes(), payload].concat()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (byte, size) = match rest.get(..2) {
            Some("\\x") => (unhex(&rest[2..4])[0], 4),
            Some("\\r") => (b'\r', 2),
            Some("\\n") => (b'\n', 2),
            _ => (first as u8, 1),
        };
        bytes.push(byte);
        rest = &rest[size..];
    }
    bytes
}
