//! Many messages, many deliverers: three JVMs of three versions and two brokers on one queue.

use crate::handover::{each_once, jvms, offer_many};
use crate::jvm::Jvm;
use crate::scene::{Scene, ask, done, spread};
use crate::stage::{call, metric};
use crate::support::resp::Value;
use std::thread;
use std::time::Duration;

/// All of one member format: the queue is theirs together.
const JVMS: [&str; 3] = ["4.7.0", "3.45.0", "3.21.1"];
const BY_A_JVM: usize = 5_000;
const BY_THE_BROKERS: usize = 5_000;
const LONGEST_MS: u64 = 10_000;
/// Connections of each JVM that take.
const TAKERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(90);

pub fn messages(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    let other = scene.another_broker();
    let jvms = jvms(&scene, &JVMS);
    let replies: Vec<Value> = thread::scope(|scope| {
        for (jvm, version) in jvms.iter().zip(JVMS) {
            let command = ["OFFERMANY", "q", "5000", version, "0", "10000"];
            scope.spawn(move || ask(&mut jvm.client(), &command));
        }
        scope.spawn(|| offer_many(&scene, BY_THE_BROKERS, LONGEST_MS));
        let taking = |jvm| {
            scope.spawn(move || {
                let mut client = Jvm::client(jvm);
                client.read_within(PATIENCE).unwrap();
                done(&mut client, "HOLD q");
                ask(&mut client, &["TAKEALL", "q", "5000"])
            })
        };
        let all: Vec<_> = [&jvms; TAKERS].into_iter().flatten().map(taking).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let offered = JVMS.map(|version| (version, BY_A_JVM));
    let offered = [&offered[..], &[("broker", BY_THE_BROKERS)]].concat();
    let late = each_once(&replies, &offered);
    assert_eq!(late.iter().find(|late| **late < 0.0), None, "early");
    let series = "delay_broker_messages_delivered_total{queue=\"q\"}";
    let brokers = [scene.broker.as_ref().unwrap(), &other];
    let moved = brokers.map(|broker| metric(broker, series));
    for key in ["redisson_delay_queue:{q}", "redisson_delay_queue_timeout:{q}", "q"] {
        assert_eq!(call(&mut scene.redis, &["EXISTS", key]), Value::Int(0), "{key}");
    }
    let [one, two] = moved;
    format!("{}; the brokers moved {one} and {two} of 20000", spread(late))
}
