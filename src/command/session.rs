//! What a connection remembers between commands: who it is, how it wants its replies.
//!
//! Knows no socket. What others may see of it lives in [`Client`], the rest here.

use std::rc::Rc;

use crate::clients::Client;
use crate::resp::Protocol;

use super::args::Rules;

/// Whether replies are sent (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    On,
    Off,
    /// The reply of the next command is left out, and that of the command which asked for it.
    SkipNext,
}

#[derive(Debug)]
pub struct Session {
    pub client: Rc<Client>,
    pub rules: Rc<Rules>,
    /// Read after each command: HELLO's own reply is in the protocol that it chose.
    pub protocol: Protocol,
    pub authenticated: bool,
    pub reply: ReplyMode,
}

impl Session {
    pub fn new(client: Rc<Client>, rules: Rc<Rules>) -> Self {
        let authenticated = rules.password.is_none();
        Self {
            client,
            rules,
            protocol: Protocol::Resp2,
            authenticated,
            reply: ReplyMode::On,
        }
    }

    /// Other rules from now on. As in Redis, who is in stays in; where no password is asked for any
    /// more, everybody is.
    pub fn set_rules(&mut self, rules: Rc<Rules>) {
        self.authenticated |= rules.password.is_none();
        self.rules = rules;
    }

    /// As RESET leaves it: a new connection, but for what the client said about its library.
    pub fn reset(&mut self) {
        self.authenticated = self.rules.password.is_none();
        self.reply = ReplyMode::On;
        self.client.about.borrow_mut().name.clear();
        self.speak(Protocol::Resp2);
    }

    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.about.borrow_mut().protocol = protocol;
    }

    /// Whether the reply of a command is sent that met `before` and left `self.reply`.
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
