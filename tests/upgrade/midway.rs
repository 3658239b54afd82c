//! A broker that ends in the middle of what takes many calls leaves it to the other version.

use crate::Version::{self, Earlier, This};
use crate::foreign::{Keys, keys};
use crate::stage::{SOON, call, list, say, sorted, time_us};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::support::wait::{WITHIN, eventually};
use std::collections::BTreeSet;
use std::time::Instant;

const TRIES: usize = 20;

/// As many messages as Redisson's clients would write them, with ids in no order: every `step`th is
/// due, the others in an hour.
const LOAD: &str = "math.randomseed(7); for i = 1, tonumber(ARGV[1]) do \
    local id = struct.pack('>I4I4', math.random(0, 2147483646), i); \
    local value = struct.pack('Bc0Lc0', 8, id, #tostring(i), tostring(i)); \
    local due = i % tonumber(ARGV[2]) == 0 and ARGV[3] or ARGV[4]; \
    redis.call('zadd', KEYS[1], due, value); redis.call('rpush', KEYS[2], value) end";

struct Queue {
    redis: Redis,
    direct: Client,
    keys: Keys,
    due: usize,
    pending: usize,
}

impl Queue {
    fn new(messages: usize, step: usize) -> Queue {
        let redis = Redis::spawn(&[]);
        let mut direct = redis.client(0);
        let keys = keys("q");
        let now = time_us(&mut direct) / 1_000;
        let numbers = [messages as u64, step as u64, now, now + 3_600_000];
        let numbers = numbers.map(|number| number.to_string());
        let mut command = vec!["EVAL", LOAD, "2", &keys.timeout, &keys.list];
        command.extend(numbers.iter().map(String::as_str));
        assert_eq!(call(&mut direct, &command), Value::Null);
        let due = messages / step;
        Queue { redis, direct, keys, due, pending: messages - due }
    }

    /// One that a broker of this version had begun with when it was killed. On a busy machine it
    /// may end before it is seen there, so it is tried again.
    fn midway(shape: (usize, usize), version: Version, is: impl Fn(&mut Queue) -> bool) -> Queue {
        for _ in 0..TRIES {
            let mut queue = Queue::new(shape.0, shape.1);
            let mut broker = version.start(&queue.redis.url(0), &[]);
            let deadline = Instant::now() + WITHIN;
            while !is(&mut queue) && queue.delivered() < queue.due {
                assert!(Instant::now() < deadline, "{version:?} delivered {}", queue.delivered());
            }
            broker.signal("KILL");
            broker.wait(SOON);
            if is(&mut queue) {
                return queue;
            }
        }
        panic!("{version:?} was done before it was killed, {TRIES} times");
    }

    fn delivered(&mut self) -> usize {
        say(&mut self.direct, "LLEN q").int() as usize
    }

    /// The other version delivers what is due, each once, and the rest stays, listed.
    fn is_ended_by(&mut self, version: Version) {
        let broker = version.start(&self.redis.url(0), &[]);
        let mut client = broker.client();
        let mut before = None;
        while before != Some((self.due, self.pending as i64)) {
            let progress = || Some((self.delivered(), say(&mut client, "DQ.SIZE q").int()));
            before = eventually(progress, |now| *now != before);
        }
        let came = sorted(list(&mut self.direct, "q"));
        let once: BTreeSet<_> = came.iter().collect();
        assert_eq!((came.len(), once.len()), (self.due, self.due), "{version:?}");
        let pending = call(&mut self.direct, &["ZRANGE", &self.keys.timeout, "0", "-1"]);
        let listed = call(&mut self.direct, &["LRANGE", &self.keys.list, "0", "-1"]);
        let set = |reply: &Value| -> BTreeSet<Vec<u8>> {
            reply.elements().iter().map(Value::bytes).collect()
        };
        let (pending, listed) = (set(&pending), set(&listed));
        assert_eq!(pending.len(), self.pending, "{version:?}");
        assert!(pending.is_subset(&listed), "{version:?} lost entries of the list");
    }
}

/// All is due: the list goes at once, the messages follow in many transfers.
#[test]
fn half_of_a_queue_is_delivered() {
    for (first, second) in [(Earlier, This), (This, Earlier)] {
        let begun = |queue: &mut Queue| (1..20_000).contains(&queue.delivered());
        let mut queue = Queue::midway((20_000, 1), first, begun);
        queue.is_ended_by(second);
    }
}

/// One in fifteen of a long list is due: this version passes the list in parts, and notes how far
/// it came in fields that the earlier one does not know.
#[test]
fn a_pass_over_the_list_has_begun() {
    let mut queue = Queue::midway((60_000, 15), This, |queue| {
        say(&mut queue.direct, "HEXISTS delay_broker_queue:{q} unlisted_from") == Value::Int(1)
    });
    queue.is_ended_by(Earlier);
}
