//! The caller of a command: the user with its rights, the door, and the client behind it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Tied;
use crate::domain::glob;
use crate::domain::password::PasswordHash;
use crate::peers::registry::Client;
use crate::resp::Protocol;

use super::spec::{Categories, Category};

/// The way that a command comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A connection that stays: it can have a name, a transaction, a protocol.
    Resp,
    /// One request, which stands for itself.
    Http,
}

#[derive(Clone, Debug)]
pub struct Caller {
    /// `None` before the password was given.
    pub user: Option<Rc<User>>,
    pub door: Door,
    /// Of the replies.
    pub protocol: Protocol,
    /// Its address, and the name that it gave itself.
    pub client: Rc<Client>,
    /// The leases that end with its connection, since it has asked for such.
    pub tied: OnceCell<Rc<Tied>>,
}

/// A user, and what it may do.
#[derive(Debug)]
pub struct User {
    pub name: String,
    /// `None`: the password is that of `server.password`, or there is none.
    pub password: Option<PasswordHash>,
    /// A command needs all of its categories.
    pub categories: Categories,
    /// Commands by name, upper case, that it may run or may not whatever their categories.
    pub commands: BTreeMap<&'static str, bool>,
    /// Patterns of the queues that it may name; `None` = all.
    pub queues: Option<Rc<[Bytes]>>,
}

impl User {
    /// One that may do everything.
    pub fn unlimited(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            password: None,
            categories: Categories::ALL,
            commands: BTreeMap::new(),
            queues: None,
        }
    }

    pub fn sees_payloads(&self) -> bool {
        self.categories.has(Category::Payload)
    }

    /// True if nothing is kept from it.
    pub fn is_unlimited(&self) -> bool {
        self.queues.is_none() && self.commands.is_empty() && self.categories == Categories::ALL
    }

    pub fn has_rights_of(&self, other: &Self) -> bool {
        self.categories == other.categories
            && self.commands == other.commands
            && self.queues == other.queues
    }

    pub fn may_name(&self, queue: &[u8]) -> bool {
        let all = self.queues.as_ref();
        all.is_none_or(|patterns| glob::any_matches(patterns, queue))
    }
}
