//! The gate: whether a caller may run a command. Every request passes it once, before its
//! arguments are read, whichever door it came through.
//!
//! In this order: the password, whether there is such a command, `server.disabled_commands` (above
//! all users), the door, the user's commands and categories, the queue that is named.

use std::rc::Rc;

use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::config::{Secret, Server};
use crate::resp::Request;

use super::args::ArgError;
use super::caller::{Caller, Door, User};
use super::failure::Failure;
use super::spec::{Category, Flag, Group, Spec};
use super::{TABLE, unknown};

/// The users and what none of them may do; made from the configuration.
#[derive(Debug)]
pub struct Access {
    /// The one that has the password.
    default: Rc<User>,
    password: Option<Secret>,
    /// By place in the table of commands.
    disabled: Vec<bool>,
}

impl Access {
    pub fn new(server: &Server) -> Self {
        let disabled =
            |name: &str| server.disabled_commands.iter().any(|d| d.eq_ignore_ascii_case(name));
        Self {
            default: Rc::new(User::unlimited("default")),
            password: server.password.clone(),
            disabled: TABLE.iter().map(|spec| disabled(spec.name)).collect(),
        }
    }

    /// The user of a caller that has said no password.
    pub fn without_password(&self) -> Option<Rc<User>> {
        self.password.is_none().then(|| Rc::clone(&self.default))
    }

    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The user with this name and password. As in Redis, without a password set the user `default`
    /// may say any.
    pub fn authenticate(&self, username: &[u8], password: &[u8]) -> Result<Rc<User>, ArgError> {
        let set = self.password.as_ref();
        // Digests have one length: the time tells nothing of the password's.
        let digest = |text: &[u8]| Sha1::digest(text);
        let right =
            set.is_none_or(|set| digest(set.expose().as_bytes()).ct_eq(&digest(password)).into());
        if right && username == self.default.name.as_bytes() {
            return Ok(Rc::clone(&self.default));
        }
        Err(ArgError::new("WRONGPASS", "invalid username-password pair or user is disabled."))
    }

    /// The command of a request, if its caller may run it.
    pub(super) fn admit(
        &self,
        request: Request<'_>,
        found: Option<(usize, &'static Spec)>,
        caller: &Caller,
    ) -> Result<&'static Spec, Failure> {
        let open = found.is_some_and(|(_, spec)| spec.flags.has(Flag::NoAuth));
        if caller.user.is_none() && !open {
            return Err(Failure::NoAuth);
        }
        let Some((place, spec)) = found else {
            return Err(Failure::Unknown(unknown::words(request)));
        };
        if self.disabled.get(place) == Some(&true) {
            return Err(Failure::Disabled(spec.name));
        }
        let of_connection = matches!(spec.group, Group::Connection | Group::Transactions);
        if caller.door != Door::Resp && of_connection {
            return Err(Failure::NeedsConnection(spec.name));
        }
        if let Some(user) = &caller.user {
            user.may_run(spec, request.get(1))?;
        }
        Ok(spec)
    }
}

impl User {
    /// `first`: the first argument.
    fn may_run(&self, spec: &'static Spec, first: Option<&[u8]>) -> Result<(), Failure> {
        let (needs, all_queues) = spec.needs(first);
        let by_name = self.commands.get(spec.name).copied();
        if !by_name.unwrap_or_else(|| self.categories.covers(needs)) {
            return Err(Failure::NoCommand { user: self.name.clone(), command: spec.name });
        }
        // A right to the command by its name is none to payloads.
        if needs.has(Category::Payload) && !self.sees_payloads() {
            return Err(Failure::NoPayloads { user: self.name.clone(), command: spec.name });
        }
        let Some(queue) = first.filter(|_| spec.group == Group::Queue) else {
            return Ok(());
        };
        let may = if all_queues { self.queues.is_none() } else { self.may_name(queue) };
        match may {
            true => Ok(()),
            false => Err(Failure::NoQueue { user: self.name.clone(), queue: queue.to_vec() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::command::tests::{LocalConnection, read};
    use crate::command::{Categories, lookup};

    const LIMITED: Categories = Categories::of(&[Category::Read, Category::Write]);

    /// What the gate says of a line: nothing, or the error.
    fn says(connection: &LocalConnection, line: &str) -> String {
        let session = &connection.session;
        read(line, |request| {
            let found = lookup(request.get(0).unwrap_or_default());
            match session.rules.access.admit(request, found, &session.caller) {
                Ok(_) => String::new(),
                Err(failure) => failure.to_string(),
            }
        })
    }

    fn check(connection: &LocalConnection, rows: &[(&str, &str)]) {
        for (line, wanted) in rows {
            let said = says(connection, line);
            assert!(
                said.starts_with(wanted) && said.is_empty() == wanted.is_empty(),
                "{line}: {said}"
            );
        }
    }

    #[test]
    fn passwords() {
        let rows: &[(&str, &str, &str, bool)] = &[
            ("secret", "default", "secret", true),
            ("secret", "default", "Secret", false),
            ("secret", "default", "secretsecret", false),
            ("secret", "default", "", false),
            ("secret", "default", "secre", false),
            ("secret", "someone", "secret", false),
            ("", "default", "anything", true),
            ("", "someone", "anything", false),
        ];
        for (set, username, password, right) in rows {
            let connection = LocalConnection::new(&[("server.password", set)]);
            let access = &connection.session.rules.access;
            let got = access.authenticate(username.as_bytes(), password.as_bytes());
            assert_eq!(got.is_ok(), *right, "{set} {username} {password}");
        }
    }

    #[test]
    fn before_the_password_and_switched_off() {
        let settings =
            [("server.password", "secret"), ("server.disabled_commands", "DQ.CLEAR,HELLO")];
        let mut connection = LocalConnection::new(&settings);
        check(
            &connection,
            &[
                ("DQ.SIZE q", "NOAUTH "),
                ("nope", "NOAUTH "),
                ("AUTH x", ""),
                ("quit", ""),
                ("RESET", ""),
                ("POST / HTTP/1.1", ""),
                ("Host: here", ""),
                ("HELLO 3", "NOPERM the command 'hello' is disabled"),
            ],
        );
        connection.session.caller.user = Some(Rc::new(User::unlimited("default")));
        check(
            &connection,
            &[
                ("DQ.SIZE q", ""),
                ("nope", "ERR unknown command 'nope'"),
                ("dq.clear q", "NOPERM the command 'dq.clear' is disabled"),
            ],
        );
    }

    /// A user with some rights: there is none such yet, but the gate holds them.
    #[test]
    fn rights() {
        let mut connection = LocalConnection::new(&[]);
        let user = || User {
            categories: LIMITED,
            queues: Some(vec![Bytes::from_static(b"orders.*")]),
            ..User::unlimited("ann")
        };
        connection.session.caller.user = Some(Rc::new(User {
            commands: [("DQ.CANCEL", false), ("DQ.PAUSE", true), ("DQ.GET", true)].into(),
            ..user()
        }));
        let refused = "NOPERM User ann has no permissions to run the";
        let queue = "NOPERM User ann has no permissions to access the queue";
        let payloads = "NOPERM User ann has no permissions to see payloads, which 'dq.";
        check(
            &connection,
            &[
                ("DQ.OFFER orders.a 5 p", ""),
                ("DQ.OFFER other 5 p", &format!("{queue} 'other'")),
                ("DQ.SIZE orders.a", ""),
                ("DQ.SIZE", ""),
                ("PING", ""),
                ("DQ.CLEAR orders.a", &format!("{refused} 'dq.clear'")),
                ("DQ.CANCEL orders.a n", &format!("{refused} 'dq.cancel'")),
                ("DQ.PAUSE orders.a", ""),
                ("DQ.PAUSE all", &format!("{queue} 'all'")),
                ("DQ.RESUME orders.a", &format!("{refused} 'dq.resume'")),
                ("DQ.PEEK orders.a", &format!("{refused} 'dq.peek'")),
                ("DQ.GET orders.a n", &format!("{payloads}get' shows")),
                ("CONFIG GET *", &format!("{refused} 'config'")),
                ("CLIENT LIST", &format!("{refused} 'client'")),
                ("CLIENT ID", ""),
            ],
        );
        let categories = LIMITED.and(Categories::of(&[Category::Admin]));
        connection.session.caller.user = Some(Rc::new(User { categories, ..user() }));
        check(
            &connection,
            &[
                ("DQ.PAUSE orders.a", ""),
                ("DQ.PAUSE ALL", &format!("{refused} 'dq.pause'")),
                ("CLIENT LIST", ""),
            ],
        );
    }

    /// Commands that change the connection need one that stays.
    #[test]
    fn doors() {
        let mut connection = LocalConnection::new(&[]);
        connection.session.caller.door = Door::Http;
        check(
            &connection,
            &[
                ("DQ.OFFER q 5 p", ""),
                ("DQ.HELP", ""),
                ("MULTI", "ERR the command 'multi' needs a connection of the Redis protocol"),
                ("CLIENT REPLY OFF", "ERR the command 'client' needs a connection"),
                ("AUTH x", "ERR the command 'auth' needs a connection"),
            ],
        );
    }
}
