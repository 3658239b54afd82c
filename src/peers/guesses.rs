//! Wrong passwords: the delay of the answer to each, so that a guess costs time, or a connection.
//!
//! They are counted for each address and user; those for users that there are not, together. Knows
//! no password and no socket. Invariants: a client with the right password never waits, whatever
//! other clients at its address do; the addresses and users in memory are bounded in number and
//! time; delayed answers cannot take up all connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The first wrong passwords of an address for a user are answered at once, because people mistype.
const FREE: u32 = 3;
/// The delay of the next answer; it doubles with each further one, up to the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// They are forgotten when there was no other for this time.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Maximum number of addresses in memory; a further one replaces the one whose last wrong password
/// is the oldest.
const ADDRESSES_MAX: usize = 1_024;
/// Maximum number of users of an address that are told apart; further ones count as one.
const USERS_MAX: usize = 16;
/// Maximum number of delayed answers to one address at a time; beyond it the connection is closed.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct Guesses(RefCell<HashMap<IpAddr, Failed>>);

/// The wrong passwords of an address.
#[derive(Debug)]
struct Failed {
    /// How many for each user, and when the last one came. `None`: for all others.
    users: HashMap<Option<String>, (u32, Instant)>,
    last: Instant,
    /// Shared with each delayed answer: there is one reference more than there are such answers.
    waiting: Rc<()>,
}

/// The way in which a wrong password is answered.
#[derive(Debug)]
pub enum Answer {
    /// At once.
    Now,
    /// After this time, while the answer keeps the second value.
    After(Duration, Rc<()>),
    /// At once, and then the connection ends.
    Close,
}

impl Guesses {
    /// Counts a wrong password. `from`: the client's address with its port; `user`: if there is
    /// such a user.
    pub fn failed(&self, from: &str, user: Option<&str>, now: Instant) -> Answer {
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
            users: HashMap::new(),
            last: now,
            waiting: Rc::default(),
        });
        failed.last = now;
        failed.users.retain(|_, (_, last)| now.saturating_duration_since(*last) < FORGOTTEN);
        let full = failed.users.len() >= USERS_MAX;
        let own = user.map(str::to_owned);
        let user = own.filter(|name| !full || failed.users.contains_key(&Some(name.clone())));
        let (count, last) = failed.users.entry(user).or_insert((0, now));
        (*count, *last) = (count.saturating_add(1), now);
        let Some(doubled) = count.checked_sub(FREE + 1) else {
            return Answer::Now;
        };
        if Rc::strong_count(&failed.waiting) > WAITING_MAX {
            return Answer::Close;
        }
        let wait = FIRST.saturating_mul(1 << doubled.min(16)).min(LONGEST);
        Answer::After(wait, Rc::clone(&failed.waiting))
    }
}

/// The address by which a client is counted, of one with its port. A client with one IPv6 address
/// has all others of its network of 64 bits, so they count as one.
pub(super) fn network(from: &str) -> IpAddr {
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
            Answer::Now => Some(0),
            Answer::After(wait, _) => Some(wait.as_millis()),
            Answer::Close => None,
        }
    }

    #[test]
    fn waits_grow_for_one_address_and_end() {
        let guesses = Guesses::default();
        let start = Instant::now();
        let failed =
            |from: &str, s: u64| wait(&guesses.failed(from, None, start + Duration::from_secs(s)));
        let waits: Vec<_> = (0..10).map(|n| failed(&format!("1.2.3.4:{n}"), 0)).collect();
        let wanted = [0, 0, 0, 100, 200, 400, 800, 1_600, 2_000, 2_000];
        assert_eq!(waits, wanted.map(Some));
        assert_eq!(failed("5.6.7.8:1", 0), Some(0));
        assert_eq!(failed("1.2.3.4:1", 30), Some(2_000));
        assert_eq!(failed("1.2.3.4:1", 91), Some(0));
        // An IPv6 network counts as one address.
        let waits: Vec<_> = (1..=5).map(|n| failed(&format!("[2001:db8::{n}]:1"), 0)).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200].map(Some));
        assert_eq!(failed("[2001:db8:0:1::1]:1", 0), Some(0));
    }

    #[test]
    fn each_user_of_an_address_is_counted() {
        let guesses = Guesses::default();
        let now = Instant::now();
        let failed = |user: Option<&str>| wait(&guesses.failed("1.2.3.4:5", user, now));
        let waits: Vec<_> = (0..5).map(|_| failed(Some("ann"))).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200].map(Some));
        assert_eq!(failed(Some("bob")), Some(0));
        assert_eq!(failed(None), Some(0));
        // Those beyond the bound count as one, and not anew.
        let others: Vec<_> = (0..40).map(|n| failed(Some(&format!("user {n}")))).collect();
        assert_eq!(others.iter().filter(|wait| **wait == Some(0)).count(), USERS_MAX - 3 + 2);
        assert_eq!(failed(Some("ann")), Some(400));
        assert_eq!(failed(Some("user 0")), Some(0));
    }

    #[test]
    fn few_wait_at_a_time_and_few_are_kept() {
        let guesses = Guesses::default();
        let now = Instant::now();
        let mut waiting: Vec<Answer> =
            (0..3 + WAITING_MAX as u32).map(|_| guesses.failed("1.2.3.4:5", None, now)).collect();
        assert!(waiting.iter().all(|answer| wait(answer).is_some()));
        assert_eq!(wait(&guesses.failed("1.2.3.4:5", None, now)), None);
        waiting.pop();
        assert_eq!(wait(&guesses.failed("1.2.3.4:5", None, now)), Some(2_000));
        for n in 0..100_000_u32 {
            let from = SocketAddr::new(IpAddr::from(n.to_be_bytes()), 1).to_string();
            guesses.failed(&from, None, now + Duration::from_millis(n.into()));
        }
        assert!(guesses.0.borrow().len() <= ADDRESSES_MAX);
    }
}
