//! Wrong passwords: how long the answer to one waits, so that each costs time, or a connection.
//!
//! Knows no password and no socket. Keeps: who says the right one never waits, whatever others at
//! its address do; what is kept is bounded in number and time; those who wait cannot take up all
//! connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// So many wrong ones of an address are answered at once: people mistype.
const FREE: u32 = 3;
/// How long the next one waits; it doubles with each, up to the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// An address that was right or silent for so long begins anew.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Addresses in mind; then the one that was silent for the longest time is forgotten.
const ADDRESSES_MAX: usize = 1_024;
/// Answers to one address that may wait at a time; then the connection is closed instead.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct Guesses(RefCell<HashMap<IpAddr, Failed>>);

#[derive(Debug)]
struct Failed {
    count: u32,
    last: Instant,
    /// One more than wait.
    waiting: Rc<()>,
}

/// How a wrong password is answered.
#[derive(Debug)]
pub enum Answer {
    At,
    /// After so long, and with this until then.
    After(Duration, Rc<()>),
    /// Now, and then the connection ends.
    Close,
}

impl Guesses {
    /// A wrong password came from an address with a port.
    pub fn failed(&self, from: &str, now: Instant) -> Answer {
        let mut all = self.0.borrow_mut();
        let address = network(from);
        if !all.contains_key(&address) && all.len() >= ADDRESSES_MAX {
            all.retain(|_, failed| now.saturating_duration_since(failed.last) < FORGOTTEN);
            let oldest = all.iter().min_by_key(|(_, failed)| failed.last);
            if let Some(oldest) = oldest.map(|(address, _)| *address)
                && all.len() >= ADDRESSES_MAX
            {
                all.remove(&oldest);
            }
        }
        let failed = all.entry(address).or_insert_with(|| Failed {
            count: 0,
            last: now,
            waiting: Rc::default(),
        });
        if now.saturating_duration_since(failed.last) >= FORGOTTEN {
            failed.count = 0;
        }
        failed.last = now;
        failed.count = failed.count.saturating_add(1);
        let Some(doubled) = failed.count.checked_sub(FREE + 1) else {
            return Answer::At;
        };
        if Rc::strong_count(&failed.waiting) > WAITING_MAX {
            return Answer::Close;
        }
        let wait = FIRST.saturating_mul(1 << doubled.min(16)).min(LONGEST);
        Answer::After(wait, Rc::clone(&failed.waiting))
    }
}

/// Who has one IPv6 address has the others of its network.
fn network(from: &str) -> IpAddr {
    let address = from.parse().map(|from: SocketAddr| from.ip().to_canonical());
    match address {
        Ok(IpAddr::V6(address)) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        Ok(address) => address,
        Err(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(answer: &Answer) -> Option<u128> {
        match answer {
            Answer::At => Some(0),
            Answer::After(wait, _) => Some(wait.as_millis()),
            Answer::Close => None,
        }
    }

    #[test]
    fn waits_grow_for_one_address_and_end() {
        let guesses = Guesses::default();
        let start = Instant::now();
        let failed =
            |from: &str, s: u64| wait(&guesses.failed(from, start + Duration::from_secs(s)));
        let waits: Vec<_> = (0..10).map(|n| failed(&format!("1.2.3.4:{n}"), 0)).collect();
        let wanted = [0, 0, 0, 100, 200, 400, 800, 1_600, 2_000, 2_000];
        assert_eq!(waits, wanted.map(Some));
        assert_eq!(failed("5.6.7.8:1", 0), Some(0));
        assert_eq!(failed("1.2.3.4:1", 30), Some(2_000));
        assert_eq!(failed("1.2.3.4:1", 91), Some(0));
        // Of IPv6 a network counts.
        let waits: Vec<_> = (1..=5).map(|n| failed(&format!("[2001:db8::{n}]:1"), 0)).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200].map(Some));
        assert_eq!(failed("[2001:db8:0:1::1]:1", 0), Some(0));
    }

    #[test]
    fn few_wait_at_a_time_and_few_are_kept() {
        let guesses = Guesses::default();
        let now = Instant::now();
        let mut waiting: Vec<Answer> =
            (0..3 + WAITING_MAX as u32).map(|_| guesses.failed("1.2.3.4:5", now)).collect();
        assert!(waiting.iter().all(|answer| wait(answer).is_some()));
        assert_eq!(wait(&guesses.failed("1.2.3.4:5", now)), None);
        waiting.pop();
        assert_eq!(wait(&guesses.failed("1.2.3.4:5", now)), Some(2_000));
        for n in 0..100_000_u32 {
            let from = SocketAddr::new(IpAddr::from(n.to_be_bytes()), 1).to_string();
            guesses.failed(&from, now + Duration::from_millis(n.into()));
        }
        assert!(guesses.0.borrow().len() <= ADDRESSES_MAX);
    }
}
