//! A consumer that notes when each message came: plain BLPOP on Redis.
//!
//! So what is measured includes Redis's own wake-up of a blocked client, and the meter's thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::Outcome;
use crate::messages::{Receipt, now_us};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

/// Comes back now and then to see whether all is over, in seconds.
const WAIT: &[u8] = b"0.5";

pub struct Meter<'a> {
    pub queues: &'a [String],
    /// BLPOP of many keys costs Redis for each of them, every time; more connections cost threads.
    pub connections: usize,
    /// What else is there is taken with the message that ended the wait: for a busy queue.
    pub many: bool,
    /// When so many came, all is over.
    pub total: usize,
}

/// How far it is.
struct Progress {
    received: AtomicUsize,
    end_us: AtomicU64,
}

/// A note where a row ends before all came.
pub fn late_ones(count: usize) -> String {
    format!("{count} had not come when it ended: lateness is that of the others")
}

impl Meter<'_> {
    /// Takes while `offering` runs, and after that until the time that it gives, Unix us.
    pub fn run(
        &self,
        redis: &Redis,
        offering: impl FnOnce() -> Outcome<u64>,
    ) -> Outcome<Vec<Receipt>> {
        let progress = Progress { received: AtomicUsize::new(0), end_us: AtomicU64::new(u64::MAX) };
        let each = self.queues.len().div_ceil(self.connections);
        thread::scope(|scope| {
            let mut meters = Vec::new();
            for keys in self.queues.chunks(each) {
                let (connection, progress) = (redis.connect()?, &progress);
                meters.push(scope.spawn(move || self.take(connection, keys, progress)));
            }
            let end_us = offering();
            // An error lets the meters go.
            let until_us = end_us.as_ref().copied().unwrap_or_default();
            progress.end_us.store(until_us, Relaxed);
            let mut receipts = Vec::new();
            for meter in meters {
                receipts.extend(meter.join().map_err(|_| "the meter failed")??);
            }
            end_us.map(|_| receipts)
        })
    }

    fn take(
        &self,
        mut redis: Client,
        keys: &[String],
        progress: &Progress,
    ) -> Outcome<Vec<Receipt>> {
        let mut args: Vec<&[u8]> = vec![b"BLPOP"];
        args.extend(keys.iter().map(String::as_bytes));
        args.push(WAIT);
        let mut receipts = Vec::new();
        while progress.received.load(Relaxed) < self.total
            && now_us() < progress.end_us.load(Relaxed)
        {
            let before = receipts.len();
            redis.push(&args);
            if self.many {
                for key in keys {
                    redis.push(&[b"LPOP", key.as_bytes(), b"1000"]);
                }
            }
            redis.flush()?;
            if let Value::Array(key_and_payload) = redis.answer()? {
                let payload = key_and_payload.into_iter().nth(1).ok_or("BLPOP")?.into_bytes()?;
                let at_us = now_us();
                receipts.push(Receipt { payload, at_us });
            }
            for _ in keys.iter().filter(|_| self.many) {
                if let Value::Array(payloads) = redis.answer()? {
                    let at_us = now_us();
                    for payload in payloads {
                        let payload = payload.into_bytes()?;
                        receipts.push(Receipt { payload, at_us });
                    }
                }
            }
            progress.received.fetch_add(receipts.len() - before, Relaxed);
        }
        Ok(receipts)
    }
}
