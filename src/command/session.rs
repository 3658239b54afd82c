//! The state of a connection between commands: its caller, the form of replies, its transaction.
//!
//! Knows no socket. The part that other connections may see lives in [`Client`].

use std::rc::Rc;

use crate::peers::registry::Client;
use crate::resp::Protocol;

use super::args::Rules;
use super::caller::{Caller, Door};
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
    pub reply: ReplyMode,
    /// Since MULTI.
    pub transaction: Option<Box<Transaction>>,
}

impl Session {
    pub fn new(client: Rc<Client>, rules: Rc<Rules>) -> Self {
        let caller = Caller {
            user: rules.access.without_password(),
            door: Door::Resp,
            protocol: Protocol::Resp2,
            client,
        };
        Self { caller, rules, reply: ReplyMode::On, transaction: None }
    }

    /// True if the client has said the password, or needs none.
    pub fn is_authenticated(&self) -> bool {
        self.caller.user.is_some()
    }

    /// Other rules from now on. As in Redis, authenticated clients stay so; where no password is
    /// set any more, all clients are.
    pub fn set_rules(&mut self, rules: Rc<Rules>) {
        self.caller.user = self.caller.user.take().or_else(|| rules.access.without_password());
        self.rules = rules;
    }

    /// As RESET leaves it: a new connection, but for what the client said about its library.
    pub fn reset(&mut self) {
        self.caller.user = self.rules.access.without_password();
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
