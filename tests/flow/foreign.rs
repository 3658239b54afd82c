//! Another program that shares queues with the broker: writes members as Redisson does, listens to
//! what is published. Knows nothing of the broker.

use crate::support::resp::{Client, Value};

/// Redisson's own offer: pack, zset, order list, and the score is published if it is the head now.
pub const OFFER: &str = "local value = struct.pack('Bc0Lc0', string.len(ARGV[2]), ARGV[2], \
    string.len(ARGV[3]), ARGV[3]); \
    redis.call('zadd', KEYS[2], ARGV[1], value); \
    redis.call('rpush', KEYS[3], value); \
    local v = redis.call('zrange', KEYS[2], 0, 0); \
    if v[1] == value then redis.call('publish', KEYS[4], ARGV[1]); end; \
    return value;";

/// The keys of a queue whose name has no `{`.
pub struct Keys {
    pub queue: String,
    pub timeout: String,
    pub list: String,
    pub channel: String,
}

pub fn keys(queue: &str) -> Keys {
    let name = |prefix: &str| match queue.contains('{') {
        true => format!("{prefix}:{queue}"),
        false => format!("{prefix}:{{{queue}}}"),
    };
    Keys {
        queue: queue.to_owned(),
        timeout: name("redisson_delay_queue_timeout"),
        list: name("redisson_delay_queue"),
        channel: name("redisson_delay_queue_channel"),
    }
}

/// As Redisson since 3.21.1 packs it.
pub fn modern(id: [u8; 8], payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u64).to_le_bytes();
    [&[8][..], &id, &size, payload].concat()
}

/// As Redisson before 3.21.1 packed it.
pub fn legacy(id: [u8; 8], payload: &[u8]) -> Vec<u8> {
    modern(id, payload).split_off(1)
}

/// Offers by Redisson's script.
pub fn offer(redis: &mut Client, queue: &str, score: &str, id: [u8; 8], payload: &str) {
    let Keys { queue, timeout, list, channel } = keys(queue);
    let args: [&[u8]; 10] = [
        b"EVAL",
        OFFER.as_bytes(),
        b"4",
        queue.as_bytes(),
        timeout.as_bytes(),
        list.as_bytes(),
        channel.as_bytes(),
        score.as_bytes(),
        &id,
        payload.as_bytes(),
    ];
    let reply = redis.call(&args).unwrap();
    assert_eq!(reply.bytes(), modern(id, payload.as_bytes()), "{reply:?}");
}

/// Writes a member as it is, without a publication: to zset and, if asked for, to the order list.
pub fn write(redis: &mut Client, queue: &str, score: &str, member: &[u8], listed: bool) {
    let Keys { timeout, list, .. } = keys(queue);
    let reply = redis.call(&[b"ZADD", timeout.as_bytes(), score.as_bytes(), member]).unwrap();
    assert_eq!(reply, Value::Int(1));
    if listed {
        redis.call(&[b"RPUSH", list.as_bytes(), member]).unwrap();
    }
}

/// Who listens to one queue's channel.
pub struct Listener {
    listening: Client,
    talking: Client,
    channel: String,
}

impl Listener {
    pub fn new(mut listening: Client, talking: Client, queue: &str) -> Listener {
        let channel = keys(queue).channel;
        listening.call(&["SUBSCRIBE", &channel]).unwrap();
        Listener { listening, talking, channel }
    }

    /// What was published since the last call: a message of our own marks the end.
    pub fn heard(&mut self) -> Vec<String> {
        self.talking.call(&["PUBLISH", &self.channel, "end"]).unwrap();
        let mut heard = Vec::new();
        loop {
            let message = self.listening.read().unwrap().texts();
            assert_eq!(message[..2], ["message", &self.channel]);
            match message[2].as_str() {
                "end" => return heard,
                text => heard.push(text.to_owned()),
            }
        }
    }
}
