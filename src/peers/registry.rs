//! The connected clients: what CLIENT LIST shows of each connection, and the way to end one.
//!
//! Knows no socket. A connection registers itself, keeps its [`Client`], and is off the list when
//! its client leaves or its [`Registered`] is dropped. [`Client::kill`] sets a flag and wakes the
//! connection, which then closes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::resp::Protocol;

/// Maximum number of clients that have left, and are off the list, while a command of theirs is
/// under way. Further ones stay on the list until the command is answered, so the limits of the
/// list bound them too.
const LEFT_MAX: usize = 1_000;

/// All connections by id. Ids grow and are never used again.
#[derive(Clone, Debug, Default)]
pub struct Clients(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last_id: Cell<u64>,
    connected: RefCell<BTreeMap<u64, Rc<Client>>>,
    by_address: RefCell<HashMap<IpAddr, usize>>,
    left: Cell<usize>,
}

impl Clients {
    /// `now` is the moment of connecting.
    pub fn register(&self, peer: SocketAddr, laddr: String, now: Instant) -> Registered {
        let id = self.0.last_id.get() + 1;
        self.0.last_id.set(id);
        let client = Rc::new(Client::new(id, peer, laddr, now));
        self.0.connected.borrow_mut().insert(id, Rc::clone(&client));
        *self.0.by_address.borrow_mut().entry(peer.ip()).or_insert(0) += 1;
        Registered { clients: self.clone(), client, address: peer.ip(), has_left: false }
    }

    pub fn len(&self) -> usize {
        self.0.connected.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections of one address.
    pub fn of(&self, address: IpAddr) -> usize {
        self.0.by_address.borrow().get(&address).copied().unwrap_or(0)
    }

    /// Clients that have left while a command of theirs is under way.
    pub fn left(&self) -> usize {
        self.0.left.get()
    }

    /// The number of clients since the start.
    pub fn seen(&self) -> u64 {
        self.0.last_id.get()
    }

    /// The clients that are connected now, by id.
    pub fn list(&self) -> Vec<Rc<Client>> {
        self.0.connected.borrow().values().cloned().collect()
    }
}

/// A connection's own entry; leaves the list when dropped.
#[derive(Debug)]
pub struct Registered {
    clients: Clients,
    client: Rc<Client>,
    address: IpAddr,
    has_left: bool,
}

impl Registered {
    pub fn client(&self) -> Rc<Client> {
        Rc::clone(&self.client)
    }

    /// The client has left while a command of it is under way. It goes off the list and counts
    /// against no limit any more, unless too many clients have left in this way.
    pub fn leave(&mut self) {
        if !self.has_left && self.clients.left() < LEFT_MAX {
            self.has_left = true;
            self.clients.0.left.set(self.clients.left() + 1);
            self.take_off();
        }
    }

    fn take_off(&self) {
        self.clients.0.connected.borrow_mut().remove(&self.client.id);
        let mut by_address = self.clients.0.by_address.borrow_mut();
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.has_left {
            self.clients.0.left.set(self.clients.left() - 1);
        } else {
            self.take_off();
        }
    }
}

/// A connection as other connections may see it.
#[derive(Debug)]
pub struct Client {
    pub id: u64,
    pub addr: String,
    pub laddr: String,
    pub created: Instant,
    /// The last moment at which it sent something.
    pub active: Cell<Instant>,
    pub about: RefCell<About>,
    /// The number of its commands that are not answered yet.
    pub unanswered: Cell<usize>,
    killed: Cell<bool>,
    wake: Notify,
}

/// The words of a client about itself, and its last command.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The user that it is, unless that is `default`.
    pub user: Option<String>,
    pub name: Bytes,
    pub lib_name: Bytes,
    pub lib_ver: Bytes,
    pub protocol: Protocol,
    pub last_command: Option<&'static str>,
    /// Commands since MULTI, inside a transaction.
    pub queued: Option<usize>,
}

impl Client {
    fn new(id: u64, peer: SocketAddr, laddr: String, now: Instant) -> Self {
        Self {
            id,
            addr: peer.to_string(),
            laddr,
            created: now,
            active: Cell::new(now),
            about: RefCell::default(),
            unanswered: Cell::new(0),
            killed: Cell::new(false),
            wake: Notify::new(),
        }
    }

    /// One that is on no list, since no connection of it stays. `about`: its user, and a name that
    /// says what it came by.
    pub fn apart(peer: SocketAddr, about: About) -> Rc<Self> {
        let client = Self::new(0, peer, String::new(), Instant::now());
        client.about.replace(about);
        Rc::new(client)
    }

    /// Asks its connection to close. A connection that asks this of itself is answered first.
    pub fn kill(&self) {
        self.killed.set(true);
        self.wake.notify_one();
    }

    pub fn is_killed(&self) -> bool {
        self.killed.get()
    }

    /// Tells its connection that settings have changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until another connection kills this one, or its settings change. Safe to cancel: the
    /// next call sees a notification that this one missed.
    pub async fn woken(&self) {
        if !self.killed.get() {
            self.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_list_until_it_leaves_or_ends() {
        let clients = Clients::default();
        let now = Instant::now();
        let register = |from: &str| clients.register(from.parse().unwrap(), "b:2".into(), now);
        let (address, other) = ([1, 2, 3, 4].into(), [5, 6, 7, 8].into());
        let (first, mut second) = (register("1.2.3.4:1"), register("1.2.3.4:2"));
        let third = register("5.6.7.8:1");
        let seen = || {
            let ids = clients.list().iter().map(|client| client.id).collect::<Vec<_>>();
            (ids, clients.len(), clients.seen(), clients.of(address), clients.of(other))
        };
        assert_eq!((seen(), clients.left()), ((vec![1, 2, 3], 3, 3, 2, 1), 0));
        drop(first);
        assert_eq!((seen(), clients.left()), ((vec![2, 3], 2, 3, 1, 1), 0));
        second.leave();
        second.leave();
        assert_eq!((seen(), clients.left()), ((vec![3], 1, 3, 0, 1), 1));
        drop(second);
        assert_eq!((seen(), clients.left()), ((vec![3], 1, 3, 0, 1), 0));
        assert!(!third.client().is_killed());
        third.client().kill();
        assert!(third.client().is_killed());
        drop(third);
        assert_eq!((clients.len(), clients.0.by_address.borrow().len()), (0, 0));
    }

    #[test]
    fn beyond_the_bound_those_that_left_stay_on_the_list() {
        let clients = Clients::default();
        let from = "1.2.3.4:1".parse().unwrap();
        let register = |_| clients.register(from, String::new(), Instant::now());
        let mut all: Vec<_> = (0..LEFT_MAX + 5).map(register).collect();
        all.iter_mut().for_each(Registered::leave);
        assert_eq!((clients.len(), clients.left()), (5, LEFT_MAX));
        all.clear();
        assert_eq!((clients.len(), clients.left(), clients.of(from.ip())), (0, 0, 0));
    }
}
