//! Passwords of users, verified apart from the broker's thread.
//!
//! A hash takes many milliseconds and MiB on purpose. So at most two are under way, each on a
//! thread of its own with a low priority; few wait, and fewer for one address. The password that
//! was right is remembered, as an HMAC under a key that only this process has: whatever comes next
//! for the same hash is compared with it, right or wrong, and costs a microsecond.
//!
//! Knows no user and no reply. Keeps: the same password for the same hash is verified once, however
//! many ask at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use futures_util::future::{FutureExt, LocalBoxFuture, Shared};
use ring::{hmac, rand};
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, oneshot};

use crate::domain::password::PasswordHash;

use super::guesses::network;

/// Hashes that are computed at a time.
const AT_ONCE: usize = 2;
/// Verifications under way, those that wait among them: a few seconds of work. And those of one
/// address, behind which many clients may be.
const WAITING_MAX: usize = 256;
const OF_ADDRESS_MAX: usize = 32;
/// The priority of their threads: the broker's own comes first.
const NICE: i32 = 10;

/// Whether the password is right; none where nobody can say.
pub type Outcome = Shared<LocalBoxFuture<'static, Option<bool>>>;
type Tag = [u8; 32];

/// Too many wait already.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

pub struct Passwords {
    key: hmac::Key,
    /// The tag of the password that each hash is of, as far as it was seen.
    right: RefCell<HashMap<PasswordHash, Tag>>,
    under_way: RefCell<HashMap<Tag, (IpAddr, Outcome)>>,
    places: Rc<Semaphore>,
}

impl Passwords {
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> Result<Rc<Self>, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new());
        Ok(Rc::new(Self {
            key: key.map_err(|_| "the system gives no random bytes".to_owned())?,
            right: RefCell::default(),
            under_way: RefCell::default(),
            places: Rc::new(Semaphore::new(AT_ONCE)),
        }))
    }

    /// Whether this is the password, if that is known without a verification.
    pub fn known(&self, hash: &PasswordHash, password: &[u8]) -> Option<bool> {
        let right = self.right.borrow().get(hash).copied()?;
        Some(self.tag(hash, password).ct_eq(&right).into())
    }

    /// Verifies it. `from`: the client's address with its port.
    ///
    /// # Errors
    /// Too many wait.
    pub fn verify(
        self: &Rc<Self>,
        hash: &PasswordHash,
        password: &[u8],
        from: &str,
    ) -> Result<Outcome, Busy> {
        let (tag, address) = (self.tag(hash, password), network(from));
        let mut under_way = self.under_way.borrow_mut();
        if let Some((_, outcome)) = under_way.get(&tag) {
            return Ok(outcome.clone());
        }
        let of_address = under_way.values().filter(|(from, _)| *from == address).count();
        if under_way.len() >= WAITING_MAX || of_address >= OF_ADDRESS_MAX {
            return Err(Busy);
        }
        let passwords = Rc::clone(self);
        let (hash, password) = (hash.clone(), password.to_vec());
        // A task of its own: the client that asked may leave.
        let task = tokio::task::spawn_local(async move {
            let outcome = passwords.verified(&hash, password).await;
            if outcome == Some(true) {
                passwords.right.borrow_mut().insert(hash, tag);
            }
            passwords.under_way.borrow_mut().remove(&tag);
            outcome
        });
        let outcome = task.map(|done| done.ok().flatten()).boxed_local().shared();
        under_way.insert(tag, (address, outcome.clone()));
        Ok(outcome)
    }

    async fn verified(&self, hash: &PasswordHash, password: Vec<u8>) -> Option<bool> {
        let _place = self.places.acquire().await.ok()?;
        // The right one may have come meanwhile.
        if let Some(known) = self.known(hash, &password) {
            return Some(known);
        }
        let (tell, told) = oneshot::channel();
        let hash = hash.clone();
        let thread = std::thread::Builder::new().name("password".to_owned()).spawn(move || {
            // On Linux this is about the calling thread alone.
            let _ = rustix::process::setpriority_process(None, NICE);
            let _ = tell.send(hash.is_of(&password));
        });
        thread.ok()?;
        told.await.ok()
    }

    /// Forgets the passwords of all other hashes.
    pub fn keep<'a>(&self, hashes: impl Iterator<Item = &'a PasswordHash>) {
        let mut right = self.right.borrow_mut();
        let kept = hashes.filter_map(|hash| right.remove_entry(hash)).collect();
        *right = kept;
    }

    fn tag(&self, hash: &PasswordHash, password: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(hash.as_bytes());
        // No hash has this byte.
        context.update(b"\0");
        context.update(password);
        let mut tag = Tag::default();
        tag.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `right`; its verification takes microseconds.
    const CHEAP: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRyaWdo$H5HWU9wN/c5Tb0k6ta0eUQ";

    fn with(test: impl AsyncFnOnce(Rc<Passwords>, PasswordHash)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let hash = PasswordHash::parse(CHEAP).unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, test(Passwords::new().unwrap(), hash));
    }

    #[test]
    fn what_was_right_is_remembered_until_its_hash_is_gone() {
        with(async |passwords, hash| {
            let verify = async |password: &[u8]| {
                passwords.verify(&hash, password, "1.2.3.4:5").unwrap().await
            };
            assert_eq!(passwords.known(&hash, b"right"), None);
            assert_eq!(verify(b"wrong").await, Some(false));
            assert_eq!(passwords.known(&hash, b"wrong"), None, "nothing is known yet");
            assert_eq!(verify(b"right").await, Some(true));
            assert_eq!(passwords.known(&hash, b"right"), Some(true));
            assert_eq!(passwords.known(&hash, b"wrong"), Some(false));
            passwords.keep([&hash].into_iter());
            assert_eq!(passwords.known(&hash, b"right"), Some(true));
            passwords.keep(std::iter::empty());
            assert_eq!(passwords.known(&hash, b"right"), None);
            assert!(passwords.under_way.borrow().is_empty());
        });
    }

    #[test]
    fn few_wait_and_the_same_one_waits_once() {
        with(async |passwords, hash| {
            let ask = |n: usize, from: String| {
                passwords.verify(&hash, format!("guess {n}").as_bytes(), &from)
            };
            let of_one: Vec<_> =
                (0..OF_ADDRESS_MAX).map(|n| ask(n, "1.1.1.1:1".to_owned()).unwrap()).collect();
            assert_eq!(ask(99, "1.1.1.1:2".to_owned()).err(), Some(Busy));
            assert!(ask(0, "1.1.1.1:3".to_owned()).is_ok(), "it is under way already");
            // Another address is not locked out by that one.
            let right = passwords.verify(&hash, b"right", "2.2.2.2:1").unwrap();
            let others: Vec<_> = (0..WAITING_MAX - OF_ADDRESS_MAX - 1)
                .map(|n| ask(100 + n, format!("3.3.3.{}:1", n % 250)).unwrap())
                .collect();
            assert_eq!(ask(999, "4.4.4.4:1".to_owned()).err(), Some(Busy));
            assert_eq!(right.await, Some(true));
            for outcome in of_one.into_iter().chain(others) {
                assert_eq!(outcome.await, Some(false));
            }
            assert!(passwords.under_way.borrow().is_empty());
        });
    }
}
