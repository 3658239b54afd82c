//! The whole of a database, by key and type: what a test compares, so that a key too many fails it
//! as well as a key too few. Knows no key by name.

use super::resp::{Client, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Bytes that print as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// What a key holds. The scores of a zset are text as Redis writes them.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    Text(Bytes),
    List(Vec<Bytes>),
    Set(BTreeSet<Bytes>),
    Hash(BTreeMap<Bytes, Bytes>),
    Zset(Vec<(Bytes, String)>),
    Other(String),
}

pub type Keyspace = BTreeMap<Bytes, Stored>;

/// Reads every key of the client's database.
pub fn dump(client: &mut Client) -> Keyspace {
    let keys = client.call(&["KEYS", "*"]).unwrap();
    keys.elements().iter().map(|key| (bytes(key), read(client, &key.bytes()))).collect()
}

fn read(client: &mut Client, key: &[u8]) -> Stored {
    let mut call = |args: &[&str]| {
        let mut all: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        all.insert(1, key);
        client.call(&all).unwrap()
    };
    match call(&["TYPE"]).text().as_str() {
        "string" => Stored::Text(bytes(&call(&["GET"]))),
        "list" => Stored::List(call(&["LRANGE", "0", "-1"]).elements().iter().map(bytes).collect()),
        "set" => Stored::Set(call(&["SMEMBERS"]).elements().iter().map(bytes).collect()),
        "hash" => Stored::Hash(pairs(&call(&["HGETALL"])).collect()),
        "zset" => Stored::Zset(
            pairs(&call(&["ZRANGE", "0", "-1", "WITHSCORES"]))
                .map(|(member, score)| (member, String::from_utf8(score.0).unwrap()))
                .collect(),
        ),
        other => Stored::Other(other.to_owned()),
    }
}

fn pairs(reply: &Value) -> impl Iterator<Item = (Bytes, Bytes)> {
    reply.elements().chunks(2).map(|pair| (bytes(&pair[0]), bytes(&pair[1])))
}

fn bytes(value: &Value) -> Bytes {
    Bytes(value.bytes())
}
