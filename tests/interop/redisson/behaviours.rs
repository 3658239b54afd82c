//! What Redisson's own tests of RDelayedQueue asked for, until they were deleted in 4.4.0, with a
//! broker beside it: each behaviour with Redisson on both sides, with the broker as the one who
//! offers, and, where it has such a command, with the broker as the one who looks and changes.
//!
//! Redisson's tests wait for seconds and look whether nothing came. Here a later message is
//! offered, and must be the first to come.

use crate::scene::{Scene, since};
use crate::side::{Queue, Side};
use std::thread;

/// A second of Redisson's tests. It is longer here, since so many of them run at once.
const SECOND: u64 = 1_500;

const BOTH_ROLES: [(Side, Side); 3] = [
    (Side::Redisson, Side::Redisson),
    (Side::Broker, Side::Redisson),
    (Side::Redisson, Side::Broker),
];
/// The broker has no such command.
const OF_REDISSON: &[(Side, Side)] = BOTH_ROLES.split_at(2).0;

type Behaviour = fn(&mut Queue);
type Row = (&'static str, &'static [(Side, Side)], Behaviour);

const ALL: [Row; 16] = [
    ("destroy", OF_REDISSON, destroy),
    ("remove", &BOTH_ROLES, remove),
    ("remove all", &BOTH_ROLES, remove_all),
    ("remove all, some missing", &BOTH_ROLES, remove_all_some),
    ("remove one of three", &BOTH_ROLES, remove_one),
    ("retain all", OF_REDISSON, retain_all),
    ("read all", &BOTH_ROLES, read_all),
    ("contains all", &BOTH_ROLES, contains_all),
    ("contains", &BOTH_ROLES, contains),
    ("peek", OF_REDISSON, peek),
    ("poll last", OF_REDISSON, poll_last),
    ("order", &BOTH_ROLES, order),
    ("poll limited", &BOTH_ROLES, poll_limited),
    ("poll", &BOTH_ROLES, poll),
    ("delivery", &BOTH_ROLES, delivery),
    ("size and clear", &BOTH_ROLES, size_and_clear),
];

pub fn all(version: &'static str) -> String {
    let rows = ALL.iter().flat_map(|(name, roles, run)| {
        let row = move |sides: &(Side, Side)| (format!("{name}, {sides:?}"), *sides, *run);
        roles.iter().map(row)
    });
    let rows: Vec<_> = rows
        .filter(|(name, (_, doer), _)| {
            // Before 3.33.0 Redisson's own `containsAll` is wrong.
            let broken = name.starts_with("contains all") && !since(version, "3.33.0");
            !(broken && *doer == Side::Redisson)
        })
        .collect();
    let names: Vec<&str> = rows.iter().map(|(name, ..)| name.as_str()).collect();
    let scene = Scene::new(version, &names);
    let jvm = scene.warm_jvm();
    thread::scope(|scope| {
        for (name, sides, run) in &rows {
            let mut queue = Queue::new(&scene, jvm.client(), name, *sides);
            let named = thread::Builder::new().name(name.clone());
            named.spawn_scoped(scope, move || run(&mut queue)).unwrap();
        }
    });
    format!("{} behaviours", rows.len())
}

/// The one intended difference: without the broker nothing would come.
fn destroy(queue: &mut Queue) {
    queue.redisson("HOLD", &[]);
    queue.offer("1", 2 * SECOND);
    queue.redisson("DESTROY", &[]);
    queue.redisson("HOLD", &[]);
    queue.redisson("DESTROY", &[]);
    queue.delivers("1");
}

fn remove(queue: &mut Queue) {
    queue.offer("1", 3 * SECOND);
    queue.offer("2", 7 * SECOND);
    assert!(queue.contains("1"));
    assert!(queue.remove("1"));
    assert!(!queue.contains("1"));
    queue.delivers("2");
}

fn remove_all(queue: &mut Queue) {
    queue.offer("1", 3 * SECOND);
    queue.offer("2", 7 * SECOND);
    assert!(queue.remove_all(&["1", "2"]));
    assert!(!queue.contains("1"));
    assert!(!queue.contains("2"));
    nothing_before(queue, 8 * SECOND);
}

/// What would be due before this has been taken out.
fn nothing_before(queue: &mut Queue, delay_ms: u64) {
    queue.offer("end", delay_ms);
    queue.delivers("end");
    let name = queue.name.clone();
    assert!(queue.list(&name).is_empty());
}

/// Longest delay first, so that the orders of offering and of delivery differ.
fn three(queue: &mut Queue) {
    queue.offer("3", 50 * SECOND);
    queue.offer("1", 40 * SECOND);
    queue.offer("2", 30 * SECOND);
}

fn remove_all_some(queue: &mut Queue) {
    three(queue);
    assert!(queue.remove_all(&["1", "2"]));
    queue.holds(&["3"]);
    assert!(queue.remove_all(&["3", "4"]));
    queue.holds(&[]);
}

fn remove_one(queue: &mut Queue) {
    three(queue);
    assert!(!queue.remove("4"));
    assert!(queue.remove("3"));
    queue.holds(&["1", "2"]);
}

/// Redisson's own test does not wait, and so does not see that 3 is delivered all the same.
fn retain_all(queue: &mut Queue) {
    queue.offer("3", 5 * SECOND);
    queue.offer("1", 4 * SECOND);
    queue.offer("2", 3 * SECOND);
    assert_eq!(queue.redisson("RETAINALL", &["1", "2", "3"]).int(), 0);
    assert_eq!(queue.redisson("RETAINALL", &["3", "1", "2", "8"]).int(), 0);
    queue.holds(&["3", "1", "2"]);
    assert_eq!(queue.redisson("RETAINALL", &["1", "2"]).int(), 1);
    queue.holds(&["1", "2"]);
    for payload in ["2", "1", "3"] {
        queue.delivers(payload);
    }
}

fn read_all(queue: &mut Queue) {
    three(queue);
    queue.holds(&["3", "1", "2"]);
}

fn contains_all(queue: &mut Queue) {
    three(queue);
    assert!(queue.contains_all(&["1", "2"]));
    assert!(!queue.contains_all(&["1", "2", "4"]));
    assert!(queue.contains_all(&["1", "1"]));
    assert!(queue.contains_all(&["1", "2", "1"]));
}

fn contains(queue: &mut Queue) {
    three(queue);
    assert!(queue.contains("1"));
    assert!(!queue.contains("4"));
}

fn peek(queue: &mut Queue) {
    three(queue);
    assert_eq!(queue.redisson("PEEK", &[]).text(), "3");
}

fn poll_last(queue: &mut Queue) {
    three(queue);
    // Both lists in one slot, as Redisson asks for on a cluster.
    let other = format!("other {{{}}}", queue.name);
    queue.push(&other, &["6", "5", "4"]);
    let moved = queue.redisson("POLLLAST", &[&other]);
    assert_eq!(moved.text(), "2");
    assert_eq!(queue.list(&other), ["2", "6", "5", "4"]);
    queue.holds(&["3", "1"]);
}

fn order(queue: &mut Queue) {
    for payload in ["1", "4", "3", "2"] {
        queue.offer(payload, payload.parse::<u64>().unwrap() * 10 * SECOND);
    }
    queue.holds(&["1", "4", "3", "2"]);
    for payload in ["1", "4", "3", "2"] {
        assert_eq!(queue.poll(1), [payload]);
    }
    let name = queue.name.clone();
    assert!(queue.list(&name).is_empty());
}

fn poll_limited(queue: &mut Queue) {
    for payload in ["1", "2", "3", "4"] {
        queue.offer(payload, 3 * SECOND);
    }
    assert_eq!(queue.poll(3), ["1", "2", "3"]);
    assert_eq!(queue.poll(2), ["4"]);
    assert!(queue.poll(2).is_empty());
    nothing_before(queue, 4 * SECOND);
}

fn poll(queue: &mut Queue) {
    for (n, payload) in ["1", "2", "3", "4"].iter().enumerate() {
        queue.offer(payload, (5 - n as u64) * SECOND);
    }
    for payload in ["1", "2", "3", "4"] {
        assert_eq!(queue.poll(1), [payload]);
    }
    nothing_before(queue, 6 * SECOND);
}

/// Duplicates are allowed, and the right copy goes.
fn delivery(queue: &mut Queue) {
    // So that all five are stored, and looked at, before the first is due.
    const LEAD: u64 = 2 * SECOND;
    for (payload, seconds) in [("1", 1), ("2", 5), ("4", 4), ("2", 2), ("3", 3)] {
        queue.offer(payload, LEAD + seconds * SECOND);
    }
    let coming = queue.coming();
    let payloads: Vec<&str> = coming.iter().map(|(payload, _)| payload.as_str()).collect();
    assert_eq!(payloads, ["1", "2", "3", "4", "2"]);
    let left: [&[&str]; 5] = [&["2", "4", "2", "3"], &["2", "4", "3"], &["2", "4"], &["2"], &[]];
    for (taken, (payload, due)) in coming.into_iter().enumerate() {
        queue.delivers_at(&payload, due);
        // On a slow machine the next one may have come meanwhile.
        queue.holds_one_of(&left[taken..]);
    }
}

fn size_and_clear(queue: &mut Queue) {
    three(queue);
    queue.offer("2", 2 * SECOND);
    assert_eq!(queue.size(), 4);
    queue.clear();
    assert_eq!(queue.size(), 0);
    nothing_before(queue, 3 * SECOND);
}
