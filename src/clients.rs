//! Who is connected: what CLIENT LIST shows of each connection, and the way to end one.
//!
//! Knows no socket. A connection registers itself, keeps its [`Client`], and is gone from here when
//! its [`Registered`] is dropped; whoever wants it closed sets its flag and wakes it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::resp::Protocol;

/// All connections by id. Ids grow and are never used again.
#[derive(Clone, Debug, Default)]
pub struct Clients(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last_id: Cell<u64>,
    connected: RefCell<BTreeMap<u64, Rc<Client>>>,
}

impl Clients {
    /// `now` is the moment of connecting.
    pub fn register(&self, addr: String, laddr: String, now: Instant) -> Registered {
        let id = self.0.last_id.get() + 1;
        self.0.last_id.set(id);
        let client = Rc::new(Client {
            id,
            addr,
            laddr,
            created: now,
            active: Cell::new(now),
            about: RefCell::default(),
            owed: Cell::new(0),
            killed: Cell::new(false),
            wake: Notify::new(),
        });
        self.0.connected.borrow_mut().insert(id, Rc::clone(&client));
        Registered {
            clients: self.clone(),
            client,
        }
    }

    pub fn len(&self) -> usize {
        self.0.connected.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there have been since the start.
    pub fn seen(&self) -> u64 {
        self.0.last_id.get()
    }

    /// Those connected now, by id.
    pub fn list(&self) -> Vec<Rc<Client>> {
        self.0.connected.borrow().values().cloned().collect()
    }
}

/// A connection's own entry; leaves the list when dropped.
#[derive(Debug)]
pub struct Registered {
    clients: Clients,
    client: Rc<Client>,
}

impl Registered {
    pub fn client(&self) -> Rc<Client> {
        Rc::clone(&self.client)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.clients
            .0
            .connected
            .borrow_mut()
            .remove(&self.client.id);
    }
}

/// One connection as others may see it.
#[derive(Debug)]
pub struct Client {
    pub id: u64,
    pub addr: String,
    pub laddr: String,
    pub created: Instant,
    /// When it last sent something.
    pub active: Cell<Instant>,
    pub about: RefCell<About>,
    /// Its commands that are not answered yet.
    pub owed: Cell<usize>,
    killed: Cell<bool>,
    wake: Notify,
}

/// What a client said about itself, and did last.
#[derive(Clone, Debug)]
pub struct About {
    pub name: Bytes,
    pub lib_name: Bytes,
    pub lib_ver: Bytes,
    pub protocol: Protocol,
    pub last_command: &'static str,
}

impl Default for About {
    fn default() -> Self {
        Self {
            name: Bytes::new(),
            lib_name: Bytes::new(),
            lib_ver: Bytes::new(),
            protocol: Protocol::Resp2,
            last_command: "NULL",
        }
    }
}

impl Client {
    /// Asks its connection to close; one that asks this of itself is answered first.
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

    /// Waits until somebody wants the connection closed, or it to look at its settings. Safe to
    /// cancel: what was not seen yet is seen with the next call.
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
    fn in_the_list_while_registered() {
        let clients = Clients::default();
        let now = Instant::now();
        let first = clients.register("a:1".into(), "b:2".into(), now);
        let second = clients.register("a:2".into(), "b:2".into(), now);
        let ids = || {
            clients
                .list()
                .iter()
                .map(|client| client.id)
                .collect::<Vec<_>>()
        };
        assert_eq!((ids(), clients.len(), clients.seen()), (vec![1, 2], 2, 2));
        drop(first);
        assert_eq!((ids(), clients.len(), clients.seen()), (vec![2], 1, 2));
        assert!(!second.client().is_killed());
        second.client().kill();
        assert!(second.client().is_killed());
    }
}
