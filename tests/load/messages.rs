//! Messages of the rows about time: offered in pipelines, and compared with what arrived.
//!
//! Knows nothing of how they are taken. Keeps: a message's due time is the score in the id that
//! DQ.OFFER returned, so lateness is judged by what the broker promised and not by what was
//! asked; and the clock is that of this machine, which is also Redis's.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::resp::Connection;

/// Commands of one write: enough to keep the broker busy, far less than its limits.
const PIPELINE: usize = 500;

pub struct Message {
    pub queue: Vec<u8>,
    pub payload: Vec<u8>,
    /// What to ask for; after `offer`, what was promised.
    pub due_ms: u64,
}

impl Message {
    /// `number` makes the payload unlike all others; 64 bytes.
    pub fn new(queue: &str, number: usize, due_ms: u64) -> Self {
        Message {
            queue: queue.as_bytes().to_vec(),
            payload: format!("message-{number:08}-{:.<47}", "").into_bytes(),
            due_ms,
        }
    }
}

pub struct Receipt {
    pub payload: Vec<u8>,
    pub at_us: u64,
}

pub fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

pub fn offer(broker: &mut Connection, messages: &mut [Message]) -> Outcome<()> {
    for some in messages.chunks_mut(PIPELINE) {
        for message in some.iter() {
            let due = message.due_ms.to_string();
            let (queue, payload) = (&message.queue, &message.payload);
            broker.push(&[b"DQ.OFFER", queue, b"AT", due.as_bytes(), payload]);
        }
        broker.flush()?;
        for message in some {
            let id = String::from_utf8(broker.reply()?.text()?)?;
            let (score, _) = id.rsplit_once('-').ok_or("not a message id")?;
            message.due_ms = score.parse()?;
        }
    }
    Ok(())
}

/// Milliseconds from due to received, in rising order, and what broke a promise.
pub struct Judged {
    pub lateness_ms: Vec<f64>,
    pub early: usize,
    pub faults: Vec<String>,
}

pub fn judge(messages: &[Message], receipts: &[Receipt]) -> Judged {
    let mut expected: HashMap<&[u8], (u64, usize)> = messages
        .iter()
        .map(|message| (message.payload.as_slice(), (message.due_ms, 0)))
        .collect();
    let mut lateness_ms = Vec::new();
    let (mut unknown, mut faults) = (0, Vec::new());
    for receipt in receipts {
        match expected.get_mut(receipt.payload.as_slice()) {
            Some((due_ms, times)) => {
                *times += 1;
                let late_us = receipt.at_us as i64 - *due_ms as i64 * 1000;
                lateness_ms.push(late_us as f64 / 1000.0);
            }
            None => unknown += 1,
        }
    }
    lateness_ms.sort_by(f64::total_cmp);
    let early = lateness_ms.iter().filter(|late| **late < 0.0).count();
    let lost = expected.values().filter(|(_, times)| *times == 0).count();
    let doubled = expected.values().filter(|(_, times)| *times > 1).count();
    for (count, what) in [
        (early, "early"),
        (lost, "lost, or later than the tool waits"),
        (doubled, "delivered more than once"),
        (unknown, "never offered, yet received"),
    ] {
        if count > 0 {
            faults.push(format!("{count} of {} messages: {what}", messages.len()));
        }
    }
    Judged {
        lateness_ms,
        early,
        faults,
    }
}

/// Numbers in no order, the same in every run (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Random(20_161_114)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
