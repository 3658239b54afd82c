//! A Redisson client whose clock is wrong by an hour: what holds with a broker, and what does not.
//!
//! Its offers are due by its own clock, and its transfer task delivers by it, as Redisson has it.
//! What others offer is delivered on time as long as no client with a fast clock has called
//! `getDelayedQueue`: consumers need `RBlockingQueue` alone.

use crate::jvm::Jvm;
use crate::scene::{Scene, ask, done, now_ms, warm};
use crate::stage::{due_of, eventually, info, list, offer, take, take_due, time_us};
use crate::support::resp::Client;

const HOUR_MS: i64 = 3_600_000;
/// What a busy machine may take between two looks at a clock.
const ABOUT_MS: i64 = 10_000;

/// What one clock shows ahead of another is about this.
fn is_about(ahead_ms: i64, wanted_ms: i64) {
    assert!((ahead_ms - wanted_ms).abs() < ABOUT_MS, "{ahead_ms} ms ahead");
}

fn with_clock(scene: &Scene, ahead: &str, ahead_ms: i64) -> Jvm {
    let jvm = Jvm::with_clock(scene.version, scene.redis_port(), ahead);
    warm(&jvm);
    is_about(ask(&mut jvm.client(), &["TIME"]).int() - now_ms(), ahead_ms);
    jvm
}

fn next_due(broker: &mut Client, queue: &str) -> i64 {
    info(broker, queue, "next_due").int()
}

pub fn ahead(version: &'static str) -> String {
    let mut scene = Scene::new(version, &["its", "held", "taken"]);
    let jvm = with_clock(&scene, "+3600s", HOUR_MS);
    let (mut redisson, mut broker) = (jvm.client(), scene.broker());
    // What it offers comes an hour later than it meant.
    done(&mut redisson, "OFFER its 1000 x");
    is_about(next_due(&mut broker, "its") - now_ms(), HOUR_MS + 1_000);
    // What it holds it delivers up to an hour early.
    offer(&mut broker, &["held", "30m", "x"]);
    done(&mut redisson, "HOLD held");
    assert_eq!(take(&mut scene.redis, "held").0, b"x");
    offer(&mut broker, &["held", "30m", "y"]);
    assert_eq!(take(&mut scene.redis, "held").0, b"y");
    // What it only takes comes neither early nor late.
    let due = due_of(&offer(&mut broker, &["taken", "1s", "x"])) as i64;
    let taken = ask(&mut redisson, &["TAKE", "taken"]);
    assert_eq!(taken.elements()[0].text(), "x");
    let late = now_ms() - due;
    assert!((0..5_000).contains(&late), "late by {late} ms");
    "early where it holds the queue, on time where it only takes".to_owned()
}

pub fn behind(version: &'static str) -> String {
    let mut scene = Scene::new(version, &["its", "held", "alone"]);
    let jvm = with_clock(&scene, "-3600s", -HOUR_MS);
    let (mut redisson, mut broker) = (jvm.client(), scene.broker());
    // What it offers for half an hour is overdue, and comes at once.
    done(&mut redisson, "OFFER its 1800000 x");
    assert_eq!(take(&mut scene.redis, "its").0, b"x");
    // What others offer comes on time: its task is late, and so the broker is first.
    done(&mut redisson, "HOLD held");
    for payload in ["1", "2", "3"] {
        let due = due_of(&offer(&mut broker, &["held", "300", payload]));
        take_due(&mut scene.redis, "held", payload, due);
    }
    // Without the broker it would come an hour late.
    let due = due_of(&offer(&mut broker, &["alone", "1s", "x"]));
    scene.stop_broker();
    done(&mut redisson, "HOLD alone");
    eventually("it is overdue", || {
        (time_us(&mut scene.redis) > (due + 1_000) * 1_000).then_some(())
    });
    assert!(list(&mut scene.redis, "alone").is_empty());
    "on time; without the broker an hour late".to_owned()
}
