//! The gate: whether a caller may run a command. Every request passes it once, before its
//! arguments are read, whichever door it came through.
//!
//! In this order: the password, whether there is such a command, `server.disabled_commands` (above
//! all users), the door, the user's commands and categories, the queue that is named.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::config::{self, Config, DEFAULT, Secret};
use crate::domain::password::PasswordHash;
use crate::resp::Request;

use super::caller::{Caller, Door, User};
use super::failure::Failure;
use super::spec::{Categories, Category, Flag, Form, Group, Spec};
use super::{TABLE, unknown};

/// A right of its own, which no other brings along.
const PAYLOAD: Categories = Categories::of(&[Category::Payload]);

/// The users and what none of them may do; made from the configuration.
#[derive(Debug)]
pub struct Access {
    /// By name. Among them is `default`, unless it has no password and others have one.
    users: BTreeMap<String, Rc<User>>,
    /// Of `default`.
    password: Option<Secret>,
    /// By place in the table of commands.
    disabled: Vec<bool>,
}

/// A password that a caller gave, as far as it can be judged at once.
#[derive(Debug)]
pub enum Judged {
    Right(Rc<User>),
    /// The user, if there is one of that name.
    Wrong(Option<Rc<User>>),
    /// It is to be verified against this hash.
    By(PasswordHash, Rc<User>),
}

impl Access {
    pub fn new(config: &Config) -> Self {
        let server = &config.server;
        let mut users: Vec<User> = config.users.iter().map(user).collect();
        if users.is_empty() || server.password.is_some() {
            users.push(User::unlimited(DEFAULT));
        }
        let disabled =
            |name: &str| server.disabled_commands.iter().any(|d| d.eq_ignore_ascii_case(name));
        Self {
            users: users.into_iter().map(|user| (user.name.clone(), Rc::new(user))).collect(),
            password: server.password.clone(),
            disabled: TABLE.iter().map(|spec| disabled(spec.name)).collect(),
        }
    }

    /// The user of a caller that has said no password.
    pub fn without_password(&self) -> Option<Rc<User>> {
        self.users.get(DEFAULT).filter(|_| self.password.is_none()).cloned()
    }

    /// All, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|user| &**user)
    }

    pub fn user(&self, name: &[u8]) -> Option<&Rc<User>> {
        std::str::from_utf8(name).ok().and_then(|name| self.users.get(name))
    }

    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The password of the user, if it is that of `server.password`.
    pub fn password_of(&self, user: &User) -> Option<&Secret> {
        self.password.as_ref().filter(|_| user.name == DEFAULT)
    }

    /// What the user may run, as the console asks: commands, words of theirs that name all queues,
    /// and forms that need more.
    pub fn given(&self, user: &User) -> Vec<&'static str> {
        let enabled = TABLE.iter().zip(&self.disabled).filter(|(_, disabled)| !**disabled);
        let mut given = Vec::new();
        for (spec, _) in enabled.filter(|(spec, _)| user.may(spec)) {
            given.push(spec.name);
            let forms = spec.forms.iter().filter(|form| user.may_use_form(spec, form).is_ok());
            given.extend(forms.map(|(form, _)| *form));
            let mut words = spec.words.iter();
            if words.any(|(word, _)| user.may_run(spec, Some(word.as_bytes())).is_ok()) {
                given.push(match spec.name {
                    "DQ.PAUSE" => "DQ.PAUSE ALL",
                    "DQ.RESUME" => "DQ.RESUME ALL",
                    other => other,
                });
            }
        }
        given
    }

    /// Judges what a caller says of itself. As in Redis, where nothing is set the user `default`
    /// may say any password.
    pub fn judge(&self, username: &[u8], password: &[u8]) -> Judged {
        let Some(user) = self.user(username) else {
            return Judged::Wrong(None);
        };
        if let Some(hash) = &user.password {
            return Judged::By(hash.clone(), Rc::clone(user));
        }
        let set = self.password.as_ref();
        // Digests have one length: the time tells nothing of the password's.
        let digest = |text: &[u8]| Sha1::digest(text);
        let right =
            set.is_none_or(|set| digest(set.expose().as_bytes()).ct_eq(&digest(password)).into());
        if right { Judged::Right(Rc::clone(user)) } else { Judged::Wrong(Some(Rc::clone(user))) }
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

/// A user as the configuration has it. A command by its name counts more than its categories;
/// among words of one kind the last counts.
fn user(given: &config::User) -> User {
    let (mut categories, mut commands) = (Categories::NONE, BTreeMap::new());
    for word in &given.commands {
        let (may, name) = (word.starts_with('+'), word.get(1..).unwrap_or_default());
        let named = if name == "@ALL" { Some(Categories::ALL) } else { Categories::of_word(name) };
        if let Some(set) = named {
            categories = if may { categories.and(set) } else { categories.without(set) };
        } else if let Some(spec) = TABLE.iter().find(|spec| spec.name == name) {
            commands.insert(spec.name, may);
        }
    }
    categories = categories.without(PAYLOAD);
    let all = given.queues.iter().any(|pattern| pattern == "*");
    let patterns = given.queues.iter().map(|pattern| Bytes::from(pattern.clone()));
    User {
        name: given.name.clone(),
        password: Some(given.password_hash.clone()),
        categories: if given.payloads { categories.and(PAYLOAD) } else { categories },
        commands,
        queues: (!all).then(|| patterns.collect()),
    }
}

/// True if the configuration may name it, in upper case: a command, or a category as `@READ`.
pub fn is_known(name: &str) -> bool {
    name == "@ALL"
        || Categories::of_word(name).is_some()
        || TABLE.iter().any(|spec| spec.name == name)
}

impl User {
    /// True if it may run the command, on a queue that it may name.
    pub fn may(&self, spec: &'static Spec) -> bool {
        self.may_use(spec, spec.categories, spec.name).is_ok()
    }

    /// True if it may run this form of the command.
    pub(super) fn may_use_form(&self, spec: &Spec, form: &'static Form) -> Result<(), Failure> {
        let (command, more) = *form;
        self.may_use(spec, spec.categories.and(more), command)
    }

    /// Says if it may run INFO.
    ///
    /// # Errors
    /// The right that it lacks.
    pub fn may_see_broker(&self) -> Result<(), Failure> {
        let spec = &super::redis::info::SPEC;
        self.may_use(spec, spec.categories, spec.name)
    }

    /// Says if it may see what names all queues, as the metrics do: it may run INFO, and may name
    /// every queue.
    ///
    /// # Errors
    /// The right that it lacks.
    pub fn may_see_all(&self) -> Result<(), Failure> {
        self.may_see_broker()?;
        match self.queues {
            None => Ok(()),
            Some(_) => Err(Failure::NoQueue { user: self.name.clone(), queue: b"*".to_vec() }),
        }
    }

    /// `command`: as an error names it.
    fn may_use(
        &self,
        spec: &Spec,
        needs: Categories,
        command: &'static str,
    ) -> Result<(), Failure> {
        let by_name = self.commands.get(spec.name).copied();
        let besides = needs.without(PAYLOAD);
        if !by_name.unwrap_or_else(|| self.categories.covers(besides)) {
            return Err(Failure::NoCommand { user: self.name.clone(), command });
        }
        // A right to the command by its name is none to payloads.
        if needs.has(Category::Payload) && !self.sees_payloads() {
            return Err(Failure::NoPayloads { user: self.name.clone(), command });
        }
        Ok(())
    }

    /// `first`: the first argument.
    fn may_run(&self, spec: &'static Spec, first: Option<&[u8]>) -> Result<(), Failure> {
        let (needs, all_queues) = spec.needs(first);
        self.may_use(spec, needs, spec.name)?;
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
            match session.access.admit(request, found, &session.caller) {
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
            let access = &connection.session.access;
            let got = access.judge(username.as_bytes(), password.as_bytes());
            assert_eq!(matches!(got, Judged::Right(_)), *right, "{set} {username} {password}");
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

    /// A user with some rights.
    #[test]
    fn rights() {
        let mut connection = LocalConnection::new(&[]);
        let user = || User {
            categories: LIMITED,
            queues: Some([Bytes::from_static(b"orders.*")].into()),
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
                ("DQ.PEEK orders.a", &format!("{payloads}peek' shows")),
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
