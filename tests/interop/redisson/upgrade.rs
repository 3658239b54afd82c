//! An upgrade over the change of the member format, with messages pending: 3.21.0 wrote them, and
//! the newest Redisson and the broker share the queue from then on.

use crate::handover::{each_once, jvms};
use crate::scene::{Scene, ask, done};
use crate::stage::{
    call, delivered, eventually, field_of, info, list, metric, offer, say, sorted, time_us,
};
use crate::support::resp::Value;
use std::thread;

const OLD: &str = "3.21.0";
const LIST: &str = "redisson_delay_queue:{q}";
const ZSET: &str = "redisson_delay_queue_timeout:{q}";

fn moved(scene: &Scene) -> f64 {
    let series = "delay_broker_messages_delivered_total{queue=\"q\"}";
    metric(scene.broker.as_ref().unwrap(), series)
}

/// The newest Redisson and the broker consume together what 3.21.0 left, and what both add.
pub fn shared(version: &'static str) -> String {
    const EACH: usize = 200;
    // Configured as nothing: the broker reads both forms and writes what the newest reads.
    let mut scene = Scene::new(version, &[]);
    let old = scene.jvm_of(OLD);
    done(&mut old.client(), "HOLD q");
    ask(&mut old.client(), &["OFFERMANY", "q", "200", "old", "2000", "4000"]);
    old.kill();
    let jvms = jvms(&scene, &[version]);
    let (mut offering, mut taking) = (jvms[0].client(), jvms[0].client());
    let reply = thread::scope(|scope| {
        scope.spawn(|| ask(&mut offering, &["OFFERMANY", "q", "200", "new", "0", "3000"]));
        ask(&mut taking, &["TAKEALL", "q", "6000"])
    });
    // Redisson may have come upon an old member first: then it has delivered a second time what
    // lay before that, and says so.
    let mut came: Vec<&[Value]> = reply.elements().chunks(2).collect();
    came.sort_by_key(|pair| pair[0].text());
    came.dedup_by_key(|pair| pair[0].text());
    let doubled = reply.elements().len() / 2 - came.len();
    assert!(doubled == 0 || jvms[0].log().contains("data string too short"));
    each_once(&[Value::Array(came.concat())], &[("old", EACH), ("new", EACH)]);
    assert!(moved(&scene) <= (2 * EACH) as f64);
    assert_eq!(call(&mut scene.redis, &["EXISTS", LIST, ZSET]), Value::Int(0));
    format!("{doubled} of 400 came twice, by Redisson")
}

/// Three members that the newest reads, due before one of 3.21.0: alone, it delivers the three
/// again and again, and never the fourth. The broker delivers each of the four once more, and so
/// ends it.
pub fn poison(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    let (old, jvm) = (scene.jvm_of(OLD), scene.warm_jvm());
    done(&mut old.client(), "OFFER q 6000 old");
    old.kill();
    let mut broker = scene.broker();
    for payload in ["1", "2", "3"] {
        offer(&mut broker, &["q", "3s", payload]);
    }
    let due = info(&mut broker, "q", "next_due").int() as u64 + 4_000;
    scene.stop_broker();
    eventually("all four are due", || (time_us(&mut scene.redis) > due * 1_000).then_some(()));
    done(&mut jvm.client(), "HOLD q");
    eventually("Redisson delivers them again", || {
        (call(&mut scene.redis, &["LLEN", "q"]).int() > 3).then_some(())
    });
    scene.broker = Some(scene.another_broker());
    eventually("nothing is pending", || {
        (call(&mut scene.redis, &["EXISTS", LIST, ZSET]) == Value::Int(0)).then_some(())
    });
    eventually("all are counted", || (moved(&scene) >= 4.0).then_some(()));
    assert_eq!(moved(&scene), 4.0);
    let came = list(&mut scene.redis, "q");
    let times = |payload: &str| came.iter().filter(|one| *one == payload).count();
    assert_eq!(times("old"), 1);
    let again = times("1") - 1;
    assert_eq!((times("2"), times("3")), (again + 1, again + 1));
    format!("by Redisson {again} times, by the broker once")
}

/// What the one wrote and the broker rewrote the other delivers, without the broker; both ways.
pub fn converted(version: &'static str) -> String {
    for (before, format, after) in [(OLD, "MODERN", version), (version, "LEGACY", OLD)] {
        let mut scene = Scene::new(version, &[]);
        let jvms = jvms(&scene, &[before, after]);
        let [offering, taking] = &jvms[..] else {
            panic!("two were started");
        };
        let offer = ["OFFERMANY", "q", "200", "old", "7000", "8000"];
        ask(&mut offering.client(), &offer);
        done(&mut offering.client(), "DESTROY q");
        let reply = ask(&mut scene.broker(), &["DQ.CONVERT", "q", format]);
        assert_eq!(field_of(&reply, "converted"), Some(Value::Int(200)));
        assert_eq!(field_of(&reply, "left"), Some(Value::Int(0)));
        assert_eq!(moved(&scene), 0.0, "too slow: some were due already");
        scene.stop_broker();
        done(&mut taking.client(), "HOLD q");
        let take_all = || ask(&mut taking.client(), &["TAKEALL", "q", "10000"]);
        let mut replies = vec![take_all()];
        if call(&mut scene.redis, &["EXISTS", ZSET]) == Value::Int(1) {
            // Redisson alone can lose its timer; another client finds what is overdue.
            let another = scene.jvm_of(after);
            done(&mut another.client(), "HOLD q");
            replies.push(take_all());
        }
        each_once(&replies, &[("old", 200)]);
        assert_eq!(call(&mut scene.redis, &["EXISTS", LIST, ZSET]), Value::Int(0));
    }
    "both ways".to_owned()
}

/// Redisson's own `retainAll` drops them from the list alone; all of them come, once.
pub fn retained(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    let jvm = scene.warm_jvm();
    let mut client = jvm.client();
    for payload in ["a", "b", "c"] {
        done(&mut client, &format!("OFFER q 6000 {payload}"));
    }
    assert_eq!(say(&mut client, "RETAINALL q a"), Value::Int(1));
    assert_eq!(say(&mut client, "SIZE q"), Value::Int(1));
    assert_eq!(info(&mut scene.broker(), "q", "pending"), Value::Int(3));
    jvm.kill();
    delivered(&mut scene.redis, "q", 3);
    eventually("all are moved", || (moved(&scene) == 3.0).then_some(()));
    assert_eq!(sorted(list(&mut scene.redis, "q")), ["a", "b", "c"]);
    assert_eq!(call(&mut scene.redis, &["EXISTS", LIST, ZSET]), Value::Int(0));
    "3 of 3 delivered once".to_owned()
}
