//! A client that means well, and what it notices: a steady pace, and a wait for each reply.
//!
//! A call that could not be sent in time, because the one before was not answered, counts as sent
//! then: a stall is not one slow answer among many.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::Outcome;
use crate::messages::now_us;
use crate::support::resp::Client;

pub const QUEUE: &str = "normal";
/// Of calls.
pub const PACE: Duration = Duration::from_millis(2);

/// What it sends, again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Offer,
    Ping,
}

/// Milliseconds of each call of `depth` commands, in rising order, and how many offers were
/// acknowledged.
pub fn run(
    mut broker: Client,
    depth: usize,
    call: Call,
    over: &AtomicBool,
) -> Outcome<(Vec<f64>, usize)> {
    let pace_us = PACE.as_micros() as u64;
    let (mut times, mut acknowledged, mut next_us) = (Vec::new(), 0, now_us());
    let offer: [&[u8]; 4] = [b"DQ.OFFER", QUEUE.as_bytes(), b"1h", b"an order like any other"];
    while !over.load(Relaxed) {
        thread::sleep(Duration::from_micros(next_us.saturating_sub(now_us())));
        // A sleep ends a little late: that is not the broker's fault.
        let mut from_us = now_us();
        for _ in 0..depth {
            match call {
                Call::Ping => broker.push(&[b"PING"]),
                Call::Offer => broker.push(&offer),
            }
        }
        broker.flush()?;
        for _ in 0..depth {
            broker.answer()?;
            acknowledged += usize::from(call == Call::Offer);
        }
        let answered_us = now_us();
        while from_us <= answered_us {
            times.push((answered_us - from_us) as f64 / 1000.0);
            from_us += pace_us;
        }
        next_us = from_us;
    }
    times.sort_by(f64::total_cmp);
    Ok((times, acknowledged))
}
