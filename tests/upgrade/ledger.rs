//! What was promised of each message, and what came of it.
//!
//! A consumer takes what is delivered all the while, with Redis's clock in the moment of taking.

use crate::stage::due_of;
use crate::support::redis::Redis;
use crate::support::resp::{Client, encode};
use crate::support::wait::eventually;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Queue and payload; no two messages have both the same.
type Which = (String, String);

pub struct Ledger {
    /// When each is due at the earliest, Unix ms. What was taken back is not here.
    wanted: Mutex<BTreeMap<Which, u64>>,
    /// When each came, by Redis's clock, us.
    came: Arc<Mutex<Vec<(Which, u64)>>>,
    done: Arc<AtomicBool>,
    consumer: Option<JoinHandle<()>>,
}

impl Ledger {
    /// Takes what comes to these queues from now on.
    pub fn new(redis: &Redis, queues: &[&str]) -> Ledger {
        let (came, done) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(false)));
        let mut taking = vec!["BLPOP"];
        taking.extend(queues);
        taking.push("1");
        let mut bytes = encode(&taking);
        bytes.extend(encode(&["TIME"]));
        let (mut client, into, until) = (redis.client(0), came.clone(), done.clone());
        let consumer = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                take(&mut client, &bytes, &into);
            }
        });
        Ledger { wanted: Mutex::default(), came, done, consumer: Some(consumer) }
    }

    /// The message will come, not before the time in its id.
    pub fn promise(&self, queue: &str, payload: &str, id: &str) {
        let which = (queue.to_owned(), payload.to_owned());
        self.wanted.lock().unwrap().insert(which, due_of(id));
    }

    /// It is due from now on.
    pub fn promise_now(&self, queue: &str, payload: &str) {
        let which = (queue.to_owned(), payload.to_owned());
        self.wanted.lock().unwrap().insert(which, 0);
    }

    /// It was taken back and must not come.
    pub fn take_back(&self, queue: &str, payload: &str) {
        let which = (queue.to_owned(), payload.to_owned());
        assert!(self.wanted.lock().unwrap().remove(&which).is_some(), "{which:?}");
    }

    /// How many came to a queue so far.
    pub fn came_to(&self, queue: &str) -> usize {
        self.came.lock().unwrap().iter().filter(|((name, _), _)| name == queue).count()
    }

    /// Waits until all has come that was promised, and nothing is pending; then that each came once
    /// and not early, and nothing else.
    pub fn settle(&mut self, redis: &mut Client) {
        let wanted = self.wanted.lock().unwrap().clone();
        let came = self.came.clone();
        let left = || wanted.len().saturating_sub(came.lock().unwrap().len());
        eventually(left, |left| *left == 0);
        let pending = || redis.call(&["KEYS", "redisson_delay_queue*"]).unwrap().texts();
        eventually(pending, Vec::is_empty);
        self.stop();
        let mut came = self.came.lock().unwrap().clone();
        came.sort();
        for ((queue, payload), at_us) in &came {
            let Some(due_ms) = wanted.get(&(queue.clone(), payload.clone())) else {
                panic!("{payload} came to {queue}, and was taken back or never offered");
            };
            let due_us = due_ms * 1_000;
            assert!(*at_us >= due_us, "{payload} of {queue}: due {due_us} us, came at {at_us}");
        }
        let twice = came.windows(2).find(|pair| pair[0].0 == pair[1].0);
        assert_eq!(twice, None, "came twice");
        assert_eq!(came.len(), wanted.len(), "lost");
    }

    fn stop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(consumer) = self.consumer.take() {
            assert!(consumer.join().is_ok() || std::thread::panicking(), "the consumer failed");
        }
    }
}

/// One BLPOP, and TIME behind it.
fn take(client: &mut Client, bytes: &[u8], into: &Mutex<Vec<(Which, u64)>>) {
    client.send_bytes(bytes).unwrap();
    let popped = client.read().unwrap().texts();
    let time = client.read().unwrap().texts();
    if let [queue, payload] = &popped[..] {
        let number = |at: usize| time[at].parse::<u64>().unwrap();
        let at_us = number(0) * 1_000_000 + number(1);
        into.lock().unwrap().push(((queue.clone(), payload.clone()), at_us));
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.stop();
    }
}
