//! `AUTH [username] password`: says the password.
//!
//! Replies with OK. Errors: WRONGPASS; ERR where no password is set and none can be right. The only
//! user is `default`. The comparison takes as long for a wrong password as for the right one.

use std::fmt;
use std::hint::black_box;
use std::rc::Rc;

use crate::broker::Broker;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec};

pub const SPEC: Spec = Spec {
    name: "AUTH",
    usage: "[username] password",
    summary: "Says the password",
    args: 1..=2,
    kind: Kind::Local,
    group: Group::Connection,
    flags: &[
        "noscript",
        "loading",
        "stale",
        "fast",
        "no_auth",
        "allow_busy",
    ],
    parse,
};

#[derive(PartialEq)]
pub struct Auth<'a> {
    username: Option<&'a [u8]>,
    password: &'a [u8],
}

impl fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.username.is_some() {
            "Auth with username"
        } else {
            "Auth"
        })
    }
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let first = args.value()?;
    Ok(Command::Auth(match args.option() {
        None => Auth {
            username: None,
            password: first,
        },
        Some(password) => Auth {
            username: Some(first),
            password,
        },
    }))
}

impl Auth<'_> {
    pub fn run(self, session: &mut Session, _: &Rc<Broker>) -> Run {
        let answer = match self.username {
            None if session.rules.password.is_none() => Err(ArgError::plain(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            )),
            username => authenticate(session, username.unwrap_or(b"default"), self.password),
        };
        Run::Ready(answer.map_or_else(Reply::from, |()| Reply::Ok))
    }
}

/// Also what HELLO does. As in Redis, without a password set the user `default` may say any.
pub fn authenticate(
    session: &mut Session,
    username: &[u8],
    password: &[u8],
) -> Result<(), ArgError> {
    let right = session
        .rules
        .password
        .as_ref()
        .is_none_or(|set| same(set.expose().as_bytes(), password));
    if !right || username != b"default" {
        return Err(ArgError::new(
            "WRONGPASS",
            "invalid username-password pair or user is disabled.",
        ));
    }
    session.authenticated = true;
    Ok(())
}

/// Takes a time that depends on the length of `given` only.
fn same(set: &[u8], given: &[u8]) -> bool {
    let mut differs = u8::from(set.len() != given.len());
    let mut repeated = set.iter().cycle();
    for byte in given {
        differs |= byte ^ repeated.next().unwrap_or(&0);
        differs = black_box(differs);
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{Desk, check};

    #[test]
    fn parse() {
        check(&[
            ("AUTH p", "Auth"),
            ("auth default p", "Auth with username"),
            ("AUTH", "ERR wrong number of arguments for 'auth' command"),
            (
                "AUTH a b c",
                "ERR wrong number of arguments for 'auth' command",
            ),
        ]);
    }

    #[test]
    fn passwords() {
        let wrong = Err("WRONGPASS invalid username-password pair or user is disabled.".to_owned());
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
            let mut desk = Desk::new(&[("server.password", set)]);
            let got = authenticate(&mut desk.session, username.as_bytes(), password.as_bytes());
            let wanted = if *right { Ok(()) } else { wrong.clone() };
            assert_eq!(
                got.map_err(|e| e.to_string()),
                wanted,
                "{set} {username} {password}"
            );
            assert_eq!(desk.session.authenticated, *right || set.is_empty());
        }
    }
}
