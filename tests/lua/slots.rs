//! Slots of a Cluster as Redis itself counts them, and the keys of each script in one of them.

use crate::support::random::Random;
use crate::support::redis::Redis;
use delay_broker::store::keys::{Key, QueueKeys};
use delay_broker::store::script::ALL;
use delay_broker::store::slots::{slot, tag};

const NAMES: usize = 10_000;
const BATCH: usize = 500;

#[test]
fn slots_are_those_of_redis() {
    let redis = Redis::spawn(&["--cluster-enabled", "yes"]);
    let mut client = redis.client(0);
    let mut random = Random::new(16_384);
    let letters = b"{}{}ab:\0\xff";
    let names: Vec<Vec<u8>> = (0..NAMES)
        .map(|_| {
            let length = 1 + random.below(12);
            (0..length).map(|_| letters[random.below(letters.len() as u64) as usize]).collect()
        })
        .collect();
    for names in names.chunks(BATCH) {
        for name in names {
            client.push(&[b"CLUSTER", b"KEYSLOT", name]);
        }
        client.flush().unwrap();
        for name in names {
            let wanted = client.read().unwrap().int();
            assert_eq!(i64::from(slot(name)), wanted, "{}", name.escape_ascii());
        }
    }
}

/// Each script's own keys, whichever way the name of the queue is written. Those that a Redis has
/// once are there for each slot, and the call's is made for it.
#[test]
fn all_keys_of_a_script_share_a_slot() {
    let elsewhere = [Key::All, Key::Registry];
    for queue in ["q", "{q}", "a{b}c", "{q}}", "x{a}y{b}"] {
        let keys = QueueKeys::new(queue.as_bytes());
        let wanted = slot(&keys.timeout);
        let mut checked = 0;
        for script in ALL {
            let of = keys.of_group(script, b"group}{");
            let of = of
                .iter()
                .zip(script.keys.iter().filter(|key| !matches!(key, Key::Call | Key::Node)));
            for (name, key) in of.filter(|(_, key)| !elsewhere.contains(key)) {
                assert_eq!(slot(name), wanted, "{queue} {} {key:?}", script.name);
                checked += 1;
            }
            for name in keys.each_of(script) {
                assert_eq!(slot(name), wanted, "{queue} {}", script.name);
                checked += 1;
            }
        }
        assert!(checked > 200, "{checked}");
        assert_eq!(
            slot(format!("delay_broker_call:t:call-1:{{{}}}", tag(wanted)).as_bytes()),
            wanted
        );
    }
}
