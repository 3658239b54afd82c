//! `AUTH [username] password`: authenticates the connection.
//!
//! Replies with OK. Errors: WRONGPASS; ERR where no password is set and none can be right, and
//! where too many passwords are being verified. Without a username the user is `default`. What is
//! behind it on the connection waits until the password is verified. The reply to a wrong one is
//! delayed, and the delay grows with the number of wrong ones from the client's address for this
//! user.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use futures_util::FutureExt;

use crate::broker::Broker;
use crate::config::DEFAULT;
use crate::peers::guesses::Answer;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::spec::OPEN;
use crate::command::{Command, Group, Judged, Run, Session, Spec, Then, User};

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
        match self.username {
            None if !session.access.has_password() => Run::Ready(
                ArgError::plain(
                    "AUTH <password> called without any password configured for the default user. \
                     Are you sure your configuration is correct?",
                )
                .into(),
            ),
            username => {
                let username = username.unwrap_or(DEFAULT.as_bytes());
                let then = |_: &mut Session| Run::Ready(Reply::Ok);
                authenticate(session, broker, username, self.password, then)
            }
        }
    }
}

/// Lets the session be the user, and goes on with `then`; or refuses it. Also for HELLO.
pub fn authenticate(
    session: &mut Session,
    broker: &Rc<Broker>,
    username: &[u8],
    password: &[u8],
    then: impl FnOnce(&mut Session) -> Run + 'static,
) -> Run {
    let (hash, user) = match session.access.judge(username, password) {
        Judged::Right(user) => return enter(session, user, then),
        Judged::Wrong(user) => return wrong(session, broker, user.as_deref()),
        Judged::By(hash, user) => (hash, user),
    };
    match broker.passwords.known(&hash, password) {
        Some(true) => return enter(session, user, then),
        Some(false) => return wrong(session, broker, Some(&user)),
        None => {}
    }
    let from = &session.caller.client.addr;
    let Ok(outcome) = broker.passwords.verify(&hash, password, from) else {
        return busy();
    };
    let (broker, from) = (Rc::clone(broker), from.clone());
    Run::Verified(Box::pin(outcome.map(move |right| {
        // Now: a client that leaves before its answer does not come by it uncounted.
        let answer = (right == Some(false)).then(|| note_wrong(&from, &broker, Some(&user)));
        Box::new(move |session: &mut Session| {
            // There may be other users by now.
            let now = session.access.user(user.name.as_bytes()).cloned();
            let now = now.filter(|now| now.password.as_ref() == Some(&hash));
            match (right, answer, now) {
                (_, Some(answer), _) => refused(answer),
                (Some(true), _, Some(now)) => enter(session, now, then),
                (Some(_), ..) => wrong(session, &broker, Some(&user)),
                (None, ..) => busy(),
            }
        }) as Then
    })))
}

fn enter(session: &mut Session, user: Rc<User>, then: impl FnOnce(&mut Session) -> Run) -> Run {
    session.set_user(Some(user));
    then(session)
}

fn busy() -> Run {
    Run::Ready(ArgError::plain("busy verifying other passwords; try again").into())
}

/// The reply to a wrong password; it is logged. The reply may be delayed, which holds up this
/// connection alone.
fn wrong(session: &Session, broker: &Rc<Broker>, user: Option<&User>) -> Run {
    refused(note_wrong(&session.caller.client.addr, broker, user))
}

fn note_wrong(client: &str, broker: &Broker, user: Option<&User>) -> Answer {
    let user = user.map(|user| user.name.as_str());
    broker.metrics.wrong_passwords.of([]).increment(1);
    tracing::warn!(client, user, "a client gave a wrong password");
    broker.guesses.failed(client, user, Instant::now())
}

fn refused(answer: Answer) -> Run {
    let text = "invalid username-password pair or user is disabled.";
    let reply = Reply::from(ArgError::new("WRONGPASS", text));
    match answer {
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
