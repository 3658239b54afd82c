//! `AUTH [username] password`: authenticates the connection.
//!
//! Replies with OK. Errors: WRONGPASS; ERR where no password is set and none can be right. The only
//! user is `default`. The reply to a wrong password is delayed, and the delay grows with the number
//! of wrong passwords from the client's address.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use crate::broker::Broker;
use crate::peers::guesses::Answer;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::spec::OPEN;
use crate::command::{Command, Group, Run, Session, Spec};

pub const SPEC: Spec = Spec {
    name: "AUTH",
    usage: "[username] password",
    summary: "Authenticates the connection",
    args: 1..=2,
    flags: OPEN,
    ..Spec::local(Group::Connection, parse)
};

#[derive(PartialEq)]
pub struct Auth<'a> {
    username: Option<&'a [u8]>,
    password: &'a [u8],
}

impl fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.username.is_some() { "Auth with username" } else { "Auth" })
    }
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let first = args.value()?;
    Ok(Command::Auth(match args.option() {
        None => Auth { username: None, password: first },
        Some(password) => Auth { username: Some(first), password },
    }))
}

impl Auth<'_> {
    pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
        let answer = match self.username {
            None if !session.rules.access.has_password() => Err(ArgError::plain(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            )),
            username => authenticate(session, username.unwrap_or(b"default"), self.password),
        };
        match answer {
            Ok(()) => Run::Ready(Reply::Ok),
            Err(error) => refused(session, broker, error),
        }
    }
}

/// Also for HELLO.
pub fn authenticate(
    session: &mut Session,
    username: &[u8],
    password: &[u8],
) -> Result<(), ArgError> {
    session.caller.user = Some(session.rules.access.authenticate(username, password)?);
    Ok(())
}

/// The reply to a refusal; also for HELLO. A wrong password is logged, and its reply may be
/// delayed, which holds up this connection alone.
pub fn refused(session: &Session, broker: &Rc<Broker>, error: ArgError) -> Run {
    let wrong = error.code() == "WRONGPASS";
    let reply = Reply::from(error);
    if !wrong {
        return Run::Ready(reply);
    }
    let client = &session.caller.client.addr;
    broker.metrics.wrong_passwords.of([]).increment(1);
    tracing::warn!(client, "a client gave a wrong password");
    match broker.guesses.failed(client, Instant::now()) {
        Answer::Now => Run::Ready(reply),
        Answer::After(wait, place) => Run::Later(Box::pin(async move {
            tokio::time::sleep(wait).await;
            drop(place);
            reply
        })),
        Answer::Close => Run::Close(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |username, password| Ok(Command::Auth(Auth { username, password }));
        let username = Some(&b"default"[..]);
        check(&[("AUTH p", of(None, b"p")), ("auth default p", of(username, b"p"))]);
        let auth = Auth { username: Some(b"default"), password: b"hidden" };
        assert_eq!(format!("{auth:?}"), "Auth with username");
    }
}
