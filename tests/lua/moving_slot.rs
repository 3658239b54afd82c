//! A slot that a cluster moves: each script is refused whole, before its first write.

use crate::bench::{Bench, FOREVER_MS};
use crate::every::CALLS;
use crate::support::keyspace::dump;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::support::wait::eventually;
use delay_broker::store::keys::Key;
use delay_broker::store::script::ALL;

/// All keys of a queue, so that no key of a script but its guard is missing.
const GIVEN: &str = "timeout m1(a)=5 bad=6; list m1(a) bad; record name=$q paused_until=1000
                     names n=5-0000000000000001; ids 0000000000000001=n; quarantine x=1
                     destination a; all paused_until=1000; registry $q; call 0
                     leased #1=5; retry #2=5; dead #3=5; taken #1=a #2=b #3=c; tries #2=2/0/
                     first f1,p9(a)=5; held n:n=#1 i:#1=n";

fn cluster(client: &mut Client, words: &str) -> Value {
    let args: Vec<&str> = ["CLUSTER"].into_iter().chain(words.split(' ')).collect();
    client.call(&args).unwrap()
}

/// The second node once the first knows it and serves the slot.
fn second_node(first: &mut Client, slot: &str) -> (Redis, String) {
    let second = Redis::spawn(&CLUSTERED);
    let id = cluster(&mut second.client(0), "MYID").text();
    let address = second.address().replace(':', " ");
    cluster(first, &format!("ADDSLOTS {slot}"));
    cluster(first, &format!("MEET {address}"));
    eventually(
        || {
            let known = cluster(first, &format!("SETSLOT {slot} MIGRATING {id}"));
            (known, cluster(first, "INFO").text())
        },
        |(known, state)| *known == Value::Simple("OK".into()) && state.contains("cluster_state:ok"),
    );
    (second, id)
}

const CLUSTERED: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];

#[test]
fn refuses_every_script_whole() {
    let first = Redis::spawn(&CLUSTERED);
    let mut bench = Bench::on(&first, "");
    let slot = cluster(&mut bench.client, &format!("KEYSLOT {}", bench.names.key("timeout")));
    let slot = slot.int().to_string();
    let (_second, id) = second_node(&mut bench.client, &slot);
    let mut refused = 0;
    for (script, call) in ALL.iter().zip(CALLS) {
        // Of many queues one is enough.
        let call = call.split(" / ").next().unwrap();
        // Before Redis 7.0 one missing key is enough for ASK.
        for (given, refusals) in [(GIVEN, &["TRYAGAIN", "ASK"][..]), ("", &["ASK"])] {
            cluster(&mut bench.client, &format!("SETSLOT {slot} STABLE"));
            bench.redis("FLUSHALL");
            bench.give(given);
            let before = dump(&mut bench.client);
            cluster(&mut bench.client, &format!("SETSLOT {slot} MIGRATING {id}"));
            if script.keys.last() == Some(&Key::Guard) {
                let reply = bench.reply(call, FOREVER_MS);
                let words = reply.text();
                let is_refused = refusals.iter().any(|refusal| words.starts_with(refusal));
                assert!(is_refused, "{}: {reply:?}", script.name);
                assert!(dump(&mut bench.client) == before, "{}: wrote", script.name);
                refused += 1;
            }
        }
    }
    assert!(refused > 60, "{refused}");
    // This is what the guard is for: messages that are gone, or that come again.
    let transfer = ALL.iter().find(|script| script.name == "transfer").unwrap();
    cluster(&mut bench.client, &format!("SETSLOT {slot} STABLE"));
    bench.give(GIVEN);
    let before = dump(&mut bench.client);
    cluster(&mut bench.client, &format!("SETSLOT {slot} MIGRATING {id}"));
    let keys = transfer.keys.iter().filter(|key| **key != Key::Guard);
    let keys: Vec<Vec<u8>> =
        keys.map(|key| bench.names.key(&crate::bench::role(key)).into_bytes()).collect();
    let queue = bench.names.queue.clone().into_bytes();
    let args = [queue, FOREVER_MS.into(), b"9".to_vec(), b"1000".to_vec()];
    let reply = bench.eval("transfer", &keys, &args);
    assert!(reply.text().contains("non local key"), "{reply:?}");
    assert!(dump(&mut bench.client) != before, "a script without a guard was stopped in time");
}
