//! Messages of the rows about time, and what arrived compared with them.
//!
//! Knows nothing of how they are offered and taken. Keeps: every message is accounted for; the
//! clock is that of this machine, which is also Redis's.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Outcome;

pub const HOUR_MS: u64 = 3_600_000;
/// All due times.
pub const EVER: Range<u64> = 0..u64::MAX;

pub struct Message {
    pub queue: Vec<u8>,
    pub payload: Vec<u8>,
    /// What to ask for; once it is offered, what was promised.
    pub due_ms: u64,
    /// As the broker said.
    pub id: Vec<u8>,
}

impl Message {
    /// `number` makes the payload unlike all others; 64 bytes.
    pub fn new(queue: &str, number: usize, due_ms: u64) -> Self {
        Message {
            queue: queue.as_bytes().to_vec(),
            payload: format!("message-{number:08}-{:.<47}", "").into_bytes(),
            due_ms,
            id: Vec::new(),
        }
    }

    /// The id that the broker gave it, `<score>-<hex>`.
    pub fn promised(&mut self, id: Vec<u8>) -> Outcome<()> {
        let text = str::from_utf8(&id)?;
        let (score, _) = text.rsplit_once('-').ok_or("not a message id")?;
        self.due_ms = score.parse()?;
        self.id = id;
        Ok(())
    }
}

/// So many of one queue, due in these milliseconds in no order.
pub fn spread(queue: &str, total: usize, due_ms: Range<u64>) -> Vec<Message> {
    let mut random = Random::new();
    let span = due_ms.end.saturating_sub(due_ms.start).max(1);
    (0..total)
        .map(|number| Message::new(queue, number, due_ms.start + random.below(span)))
        .collect()
}

pub struct Receipt {
    pub payload: Vec<u8>,
    pub at_us: u64,
}

pub fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// What came of messages.
pub struct Judged {
    /// From due to received, in rising order.
    pub lateness_ms: Vec<f64>,
    pub early: usize,
    /// Or later than the tool waits.
    pub lost: usize,
    pub doubled: usize,
    unknown: usize,
    total: usize,
}

/// Lateness and loss are of those `due_ms`: others may have been taken or not.
pub fn judge(messages: &[Message], receipts: &[Receipt], due_ms: Range<u64>) -> Judged {
    let mut expected: HashMap<&[u8], (u64, usize)> =
        messages.iter().map(|message| (message.payload.as_slice(), (message.due_ms, 0))).collect();
    let mut lateness_ms = Vec::new();
    let (mut early, mut unknown) = (0, 0);
    for receipt in receipts {
        match expected.get_mut(receipt.payload.as_slice()) {
            Some((due, times)) => {
                *times += 1;
                let late_us = receipt.at_us as i64 - *due as i64 * 1000;
                early += usize::from(late_us < 0);
                if due_ms.contains(due) {
                    lateness_ms.push(late_us as f64 / 1000.0);
                }
            }
            None => unknown += 1,
        }
    }
    lateness_ms.sort_by(f64::total_cmp);
    let is_lost = |(due, times): &&(u64, usize)| *times == 0 && due_ms.contains(due);
    Judged {
        lateness_ms,
        early,
        lost: expected.values().filter(is_lost).count(),
        doubled: expected.values().filter(|(_, times)| *times > 1).count(),
        unknown,
        total: messages.len(),
    }
}

impl Judged {
    /// What broke a promise.
    pub fn faults(&self) -> Vec<String> {
        let counts = [
            (self.early, "early"),
            (self.lost, "lost, or later than the tool waits"),
            (self.doubled, "delivered more than once"),
            (self.unknown, "never offered, yet received"),
        ];
        let broken = counts.iter().filter(|(count, _)| *count > 0);
        broken.map(|(count, what)| format!("{count} of {} messages: {what}", self.total)).collect()
    }
}

/// Numbers in no order, the same in every run (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Random(20_161_114)
    }

    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }
}
