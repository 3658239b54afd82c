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
use futures_util::future::LocalBoxFuture;

use crate::broker::Broker;
use crate::config::DEFAULT;
use crate::peers::guesses::Answer;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::spec::OPEN;
use crate::command::{Access, Command, Group, Judged, Run, Session, Spec, Then, User};

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
    let from = &session.caller.client.addr;
    match judge(&session.access, broker, username, password, from) {
        Judging::Done(verdict) => conclude(verdict, session, then),
        Judging::UnderWay(verdict) => {
            let broker = Rc::clone(broker);
            Run::Verified(Box::pin(verdict.map(move |verdict| {
                Box::new(move |session: &mut Session| {
                    let from = &session.caller.client.addr;
                    let verdict = verdict.still(&session.access, &broker, from);
                    conclude(verdict, session, then)
                }) as Then
            })))
        }
    }
}

/// What a name and a password are worth.
pub enum Verdict {
    Right(Rc<User>),
    /// It is logged and counted; the answer may have to wait.
    Wrong(Answer),
    /// Too many passwords are being verified.
    Busy,
}

pub enum Judging {
    Done(Verdict),
    /// A hash is being computed. Then [`Verdict::still`] is to be asked.
    UnderWay(LocalBoxFuture<'static, Verdict>),
}

/// Judges them for a client with this address and port, through whichever door it came.
pub fn judge(
    access: &Access,
    broker: &Rc<Broker>,
    username: &[u8],
    password: &[u8],
    from: &str,
) -> Judging {
    let wrong = |user: Option<&User>| Judging::Done(Verdict::Wrong(note_wrong(from, broker, user)));
    let (hash, user) = match access.judge(username, password) {
        Judged::Right(user) => return Judging::Done(Verdict::Right(user)),
        Judged::Wrong(user) => return wrong(user.as_deref()),
        Judged::By(hash, user) => (hash, user),
    };
    match broker.passwords.known(&hash, password) {
        Some(true) => return Judging::Done(Verdict::Right(user)),
        Some(false) => return wrong(Some(&user)),
        None => {}
    }
    let Ok(outcome) = broker.passwords.verify(&hash, password, from) else {
        return Judging::Done(Verdict::Busy);
    };
    let (broker, from) = (Rc::clone(broker), from.to_owned());
    // Counted here: a client that leaves before its answer does not come by it uncounted.
    Judging::UnderWay(Box::pin(outcome.map(move |right| match right {
        Some(true) => Verdict::Right(user),
        Some(false) => Verdict::Wrong(note_wrong(&from, &broker, Some(&user))),
        None => Verdict::Busy,
    })))
}

impl Verdict {
    /// The same by the users of now, who may be others than those before the verification.
    pub fn still(self, access: &Access, broker: &Broker, from: &str) -> Self {
        let Self::Right(user) = self else { return self };
        let now = access.user(user.name.as_bytes()).cloned();
        match now.filter(|now| now.password == user.password) {
            Some(now) => Self::Right(now),
            None => Self::Wrong(note_wrong(from, broker, Some(&user))),
        }
    }
}

/// The reply to a wrong password may be delayed, which holds up this connection alone.
fn conclude(
    verdict: Verdict,
    session: &mut Session,
    then: impl FnOnce(&mut Session) -> Run,
) -> Run {
    match verdict {
        Verdict::Right(user) => {
            session.set_user(Some(user));
            then(session)
        }
        Verdict::Wrong(answer) => refused(answer),
        Verdict::Busy => Run::Ready(ArgError::plain(BUSY).into()),
    }
}

/// Said where too many passwords are being verified.
pub const BUSY: &str = "busy verifying other passwords; try again";

/// The reply to a wrong password.
pub fn wrong_password() -> Reply {
    let text = "invalid username-password pair or user is disabled.";
    ArgError::new("WRONGPASS", text).into()
}

fn note_wrong(client: &str, broker: &Broker, user: Option<&User>) -> Answer {
    let user = user.map(|user| user.name.as_str());
    broker.metrics.wrong_passwords.of([]).increment(1);
    tracing::warn!(client, user, "a client gave a wrong password");
    broker.guesses.failed(client, user, Instant::now())
}

fn refused(answer: Answer) -> Run {
    let reply = wrong_password();
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
