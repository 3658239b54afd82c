//! The state of a connection between commands: its caller, the form of replies, its transaction.
//!
//! Knows no socket. The part that other connections may see lives in [`Client`].

use std::cell::OnceCell;
use std::rc::Rc;

use crate::config::DEFAULT;
use crate::peers::registry::Client;
use crate::resp::Protocol;

use super::args::Rules;
use super::caller::{Caller, Door, User};
use super::gate::Access;
use super::redis::multi::Transaction;

/// The replies that are sent (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    On,
    Off,
    /// The reply of the next command is left out, and that of the command that asked for it.
    SkipNext,
}

#[derive(Debug)]
pub struct Session {
    /// Its protocol is read after each command: HELLO's own reply is in the one that it chose.
    pub caller: Caller,
    pub rules: Rc<Rules>,
    /// Those of `rules`, or newer ones: rights do not wait for the end of a command that was begun.
    pub access: Rc<Access>,
    pub reply: ReplyMode,
    /// Since MULTI.
    pub transaction: Option<Box<Transaction>>,
}

/// The effect of other rights on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Its user may do the same as before.
    All,
    /// Its user may do something else from now on.
    User,
    /// Its user is gone.
    Nothing,
}

impl Session {
    pub fn new(client: Rc<Client>, rules: Rc<Rules>) -> Self {
        let caller = Caller {
            user: rules.access.without_password(),
            door: Door::Resp,
            protocol: Protocol::Resp2,
            client,
            tied: OnceCell::new(),
        };
        let access = Rc::clone(&rules.access);
        Self { caller, rules, access, reply: ReplyMode::On, transaction: None }
    }

    /// True if the client has said the password, or needs none.
    pub fn is_authenticated(&self) -> bool {
        self.caller.user.is_some()
    }

    pub fn set_user(&mut self, user: Option<Rc<User>>) {
        let name = user.as_ref().map(|user| user.name.as_str()).filter(|name| *name != DEFAULT);
        self.caller.client.about.borrow_mut().user = name.map(str::to_owned);
        self.caller.user = user;
    }

    /// Other users and rights from now on. As in Redis, clients stay authenticated as long as there
    /// is a user of that name; where no password is needed any more, all clients are.
    pub fn set_access(&mut self, access: &Rc<Access>) -> Kept {
        self.access = Rc::clone(access);
        let Some(user) = &self.caller.user else {
            self.set_user(access.without_password());
            return Kept::All;
        };
        let Some(now) = access.user(user.name.as_bytes()) else {
            return Kept::Nothing;
        };
        let kept = if now.has_rights_of(user) { Kept::All } else { Kept::User };
        self.caller.user = Some(Rc::clone(now));
        // What was queued was checked against the rights before.
        if let Some(transaction) = self.transaction.as_mut().filter(|_| kept == Kept::User) {
            transaction.fail();
        }
        kept
    }

    /// As RESET leaves it: a new connection, but for what the client said about its library.
    pub fn reset(&mut self) {
        self.caller.tied.take();
        self.set_user(self.access.without_password());
        self.reply = ReplyMode::On;
        self.set_transaction(None);
        self.caller.client.about.borrow_mut().name.clear();
        self.speak(Protocol::Resp2);
    }

    pub fn set_transaction(&mut self, transaction: Option<Box<Transaction>>) {
        self.caller.client.about.borrow_mut().queued =
            transaction.as_ref().map(|begun| begun.commands());
        self.transaction = transaction;
    }

    /// The bytes that it holds for the client.
    pub fn held(&self) -> usize {
        self.transaction.as_ref().map_or(0, |queued| queued.held())
    }

    pub fn speak(&mut self, protocol: Protocol) {
        self.caller.protocol = protocol;
        self.caller.client.about.borrow_mut().protocol = protocol;
    }

    /// True if the reply of a command is sent that met the mode `before` and left `self.reply`.
    pub(super) fn answers(&mut self, before: ReplyMode) -> bool {
        match (before, self.reply) {
            (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
                self.reply = ReplyMode::On;
                false
            }
            (_, ReplyMode::On) => true,
            (_, ReplyMode::Off | ReplyMode::SkipNext) => false,
        }
    }
}
