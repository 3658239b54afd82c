//! `HELLO [protover [AUTH username password] [SETNAME clientname]]`: the handshake.
//!
//! Replies with a map (server, version, proto, id, mode, role, modules) in the protocol it chose.
//! All or nothing: an error leaves protocol, name and password as they were.
//! Errors: NOPROTO, NOAUTH, WRONGPASS, ERR.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::queue::Shown;
use crate::resp::{Protocol, Reply};

use crate::command::args::{ArgError, Args};
use crate::command::redis::auth::authenticate;
use crate::command::redis::client::name_argument;
use crate::command::spec::OPEN;
use crate::command::{Command, Group, REDIS_VERSION, Run, Session, Spec};

pub const SPEC: Spec = Spec {
    name: "HELLO",
    usage: "[protover [AUTH username password] [SETNAME clientname]]",
    summary: "Handshakes with the broker, and selects the protocol version",
    flags: OPEN,
    ..Spec::local(Group::Connection, parse)
};

const LOCKED: &str = "HELLO must be called with the client already authenticated, otherwise the \
    HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
    RESP protocol version at the same time";

#[derive(PartialEq)]
pub struct Hello<'a> {
    protocol: Option<Protocol>,
    auth: Option<(&'a [u8], &'a [u8])>,
    name: Option<Bytes>,
}

impl fmt::Debug for Hello<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auth = if self.auth.is_some() { " with password" } else { "" };
        write!(f, "Hello {:?}{auth} {:?}", self.protocol, self.name)
    }
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let protocol = args.option().map(version).transpose()?;
    let (mut auth, mut name) = (None, None);
    while args.left() > 0 {
        if args.left() > 2 && args.takes("AUTH") {
            auth = Some((args.value()?, args.value()?));
        } else if args.left() > 1 && args.takes("SETNAME") {
            name = Some(name_argument(args.value()?)?);
        } else {
            let option = Shown(args.value()?);
            let text = format_args!("Syntax error in HELLO option {option}");
            return Err(ArgError::plain(text));
        }
    }
    Ok(Command::Hello(Hello { protocol, auth, name }))
}

fn version(raw: &[u8]) -> Result<Protocol, ArgError> {
    match std::str::from_utf8(raw).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err(ArgError::new("NOPROTO", "unsupported protocol version")),
        None => Err(ArgError::plain("Protocol version is not an integer or out of range")),
    }
}

impl Hello<'_> {
    pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
        let Self { protocol, auth, name } = self;
        let then = move |session: &mut Session| match greet(session, protocol, name) {
            Ok(reply) => Run::Ready(reply),
            Err(error) => Run::Ready(error.into()),
        };
        match auth {
            Some((username, password)) => authenticate(session, broker, username, password, then),
            None => then(session),
        }
    }
}

fn greet(
    session: &mut Session,
    protocol: Option<Protocol>,
    name: Option<Bytes>,
) -> Result<Reply, ArgError> {
    if !session.is_authenticated() {
        return Err(ArgError::new("NOAUTH", LOCKED));
    }
    if let Some(name) = name {
        session.caller.client.about.borrow_mut().name = name;
    }
    session.speak(protocol.unwrap_or(session.caller.protocol));
    Ok(Reply::map([
        ("server", "redis".into()),
        ("version", REDIS_VERSION.into()),
        ("proto", Reply::Integer(session.caller.protocol as i64)),
        ("id", Reply::count(session.caller.client.id)),
        ("mode", "standalone".into()),
        ("role", "master".into()),
        ("modules", Reply::Array(Vec::new())),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{LocalConnection, check};

    #[test]
    fn parse() {
        let of = |protocol, auth, name: Option<&'static str>| {
            let name = name.map(|name| Bytes::from_static(name.as_bytes()));
            Ok(Command::Hello(Hello { protocol, auth, name }))
        };
        let auth = Some((&b"u"[..], &b"p"[..]));
        let three = Some(Protocol::Resp3);
        check(&[
            ("HELLO", of(None, None, None)),
            ("hello 3", of(three, None, None)),
            ("HELLO 2 SETNAME me AUTH u p", of(Some(Protocol::Resp2), auth, Some("me"))),
            ("HELLO 3 auth u p setname me", of(three, auth, Some("me"))),
        ]);
    }

    #[test]
    fn all_or_nothing() {
        let mut desk = LocalConnection::new(&[("server.password", "secret")]);
        let hello = |session: &mut Session| {
            let name = Some(Bytes::from_static(b"me"));
            let answer = greet(session, Some(Protocol::Resp3), name).map(drop);
            let name = session.caller.client.about.borrow().name.clone();
            (answer.map_err(|error| error.to_string()), session.caller.protocol, name)
        };
        let (locked, protocol, name) = hello(&mut desk.session);
        assert!(locked.unwrap_err().starts_with("NOAUTH HELLO must be called with the client"));
        assert_eq!((protocol, name), (Protocol::Resp2, Bytes::new()));
        desk.session.set_user(desk.session.access.user(b"default").cloned());
        let greeted = (Ok(()), Protocol::Resp3, Bytes::from_static(b"me"));
        assert_eq!(hello(&mut desk.session), greeted);
    }
}
