//! A queue without order list: refused while Redisson uses it; and what Redisson sees and does on
//! such a queue all the same.

use crate::scene::{Scene, done};
use crate::stage::{call, delivered, due_of, eventually, info, offer, say, time_us};
use crate::support::broker::Broker;
use crate::support::resp::Value;

const OFF: &str = "[[queues]]\nname = \"q\"\norder_list = false\n";
const LIST: &str = "redisson_delay_queue:{q}";

fn logged(broker: &Broker, words: &str) {
    eventually(words, || broker.log().contains(words).then_some(()));
}

pub fn beside(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    scene.stop_broker();
    let jvm = scene.warm_jvm();
    let mut redisson = jvm.client();
    done(&mut redisson, "HOLD q");
    let broker = scene.configured_broker(OFF);
    logged(&broker, "clients of Redisson listen");
    drop(broker);
    // One random id in fifty looks like one of the broker's.
    for _ in 0..5 {
        done(&mut redisson, "OFFER q 3600000 theirs");
    }
    jvm.kill();
    let broker = scene.configured_broker(OFF);
    logged(&broker, "members that Redisson wrote");
    assert_eq!(say(&mut broker.client(), "DQ.CLEAR q"), Value::Int(5));
    drop(broker);
    scene.broker = Some(scene.configured_broker(OFF));
    let mut client = scene.broker();
    eventually("no order list", || {
        (info(&mut client, "q", "layout").text() == "zset").then_some(())
    });

    let jvm = scene.warm_jvm();
    let mut redisson = jvm.client();
    offer(&mut client, &["q", "1h", "ours"]);
    let nothing = Value::Array(Vec::new());
    for command in ["SIZE q", "CONTAINS q ours", "REMOVE q ours"] {
        assert_eq!(say(&mut redisson, command), Value::Int(0), "{command}");
    }
    assert_eq!(say(&mut redisson, "READALL q"), nothing);
    assert_eq!(say(&mut redisson, "POLL q"), Value::Null);
    assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(1));
    // What it offers comes, whoever is first, and is not listed for ever.
    done(&mut redisson, "OFFER q 300 theirs");
    assert_eq!(delivered(&mut scene.redis, "q", 1), ["theirs"]);
    eventually("nothing is listed", || {
        (call(&mut scene.redis, &["LLEN", LIST]) == Value::Int(0)).then_some(())
    });
    jvm.kill();

    // Without a broker Redisson delivers what is due when it starts.
    let due = due_of(&offer(&mut client, &["q", "500", "by Redisson"]));
    scene.stop_broker();
    eventually("it is due", || (time_us(&mut scene.redis) / 1_000 > due).then_some(()));
    let jvm = scene.jvm();
    done(&mut jvm.client(), "HOLD q");
    assert_eq!(delivered(&mut scene.redis, "q", 2), ["theirs", "by Redisson"]);
    "refused twice; then both deliver".to_owned()
}
