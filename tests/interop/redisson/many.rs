//! More queues in one Redisson client than its default settings can serve: 50 connections for
//! subscriptions, of 5 each. For one more queue `getDelayedQueue` fails, after seconds.

use crate::handover::{BROKER_ON_TIME_MS, lateness_ms, on_time};
use crate::scene::{Scene, ask};
use crate::stage::{call, eventually, time_us};
use crate::support::resp::{Client, encode};
use std::thread;
use std::time::Duration;

const QUEUES: usize = 1_000;
const SERVED: i64 = 250;
const DELAY_MS: u64 = 8_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn names() -> Vec<String> {
    (0..QUEUES).map(|n| format!("many:{n}")).collect()
}

/// A command of words, and all the names.
fn of_all(before: &str, after: &[&str]) -> Vec<String> {
    let after = after.iter().map(ToString::to_string);
    let all = [before.to_owned()].into_iter().chain(names()).chain(after);
    all.collect()
}

/// The client offers one message to each, as a helper that destroys the queue after each use, and
/// then tries to hold them all.
fn offered(redisson: &mut Client) {
    redisson.read_within(PATIENCE).unwrap();
    let mut commands = Vec::new();
    let (least, longest) = (DELAY_MS.to_string(), (DELAY_MS + 1).to_string());
    for name in names() {
        commands.extend(encode(&["OFFERMANY", &name, "1", "x", &least, &longest]));
        commands.extend(encode(&["DESTROY", &name]));
    }
    redisson.send_bytes(&commands).unwrap();
    for _ in names() {
        assert_eq!(redisson.read().unwrap().text(), "1");
        assert_eq!(redisson.read().unwrap().text(), "OK");
    }
    let hold = of_all("HOLDALL", &[]);
    assert_eq!(redisson.call(&hold).unwrap().text(), "OK");
}

pub fn queues(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    let jvm = scene.warm_jvm();
    let mut redisson = jvm.client();
    let blpop = of_all("BLPOP", &["20"]);
    let blpop: Vec<&str> = blpop.iter().map(String::as_str).collect();
    scene.redis.read_within(PATIENCE).unwrap();
    let redis = &mut scene.redis;
    let late = thread::scope(|scope| {
        scope.spawn(|| offered(&mut redisson));
        let taken = names().into_iter().map(|_| {
            let popped = ask(redis, &blpop);
            let at_ms = time_us(redis) as f64 / 1_000.0;
            lateness_ms(&popped.elements()[1].text(), at_ms)
        });
        taken.collect()
    });
    on_time(late, BROKER_ON_TIME_MS)
}

/// The same without a broker: what was not served waits for ever.
pub fn alone(version: &'static str) -> String {
    let mut scene = Scene::new(version, &[]);
    scene.stop_broker();
    let jvm = scene.warm_jvm();
    offered(&mut jvm.client());
    let end_us = time_us(&mut scene.redis) + (DELAY_MS + 1_500) * 1_000;
    eventually("all are overdue", || (time_us(&mut scene.redis) > end_us).then_some(()));
    let exists = of_all("EXISTS", &[]);
    let exists: Vec<&str> = exists.iter().map(String::as_str).collect();
    let served = call(&mut scene.redis, &exists).int();
    assert!((1..=SERVED).contains(&served), "{served} served");
    eventually("it says why", || {
        jvm.log().contains("subscriptionConnectionPoolSize").then_some(())
    });
    format!("{served} of {QUEUES} delivered")
}
