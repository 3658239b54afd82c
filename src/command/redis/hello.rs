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
use crate::command::redis::auth::{authenticate, refused};
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
        match self.answer(session) {
            Ok(reply) => Run::Ready(reply),
            Err(error) => refused(session, broker, error),
        }
    }

    fn answer(self, session: &mut Session) -> Result<Reply, ArgError> {
        if let Some((username, password)) = self.auth {
            authenticate(session, username, password)?;
        }
        if !session.is_authenticated() {
            return Err(ArgError::new("NOAUTH", LOCKED));
        }
        if let Some(name) = self.name {
            session.caller.client.about.borrow_mut().name = name;
        }
        session.speak(self.protocol.unwrap_or(session.caller.protocol));
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
        let hello = |password: &'static [u8]| Hello {
            protocol: Some(Protocol::Resp3),
            auth: (!password.is_empty()).then_some((b"default", password)),
            name: Some(Bytes::from_static(b"me")),
        };
        let mut desk = LocalConnection::new(&[("server.password", "secret")]);
        let code = |answer: Result<Reply, ArgError>| answer.map(|_| ()).map_err(|e| e.to_string());
        let locked = code(hello(b"").answer(&mut desk.session)).unwrap_err();
        assert!(locked.starts_with("NOAUTH HELLO must be called with the client already"));
        let wrong = code(hello(b"guess").answer(&mut desk.session)).unwrap_err();
        assert!(wrong.starts_with("WRONGPASS "));
        assert_eq!(desk.session.caller.protocol, Protocol::Resp2);
        assert!(desk.session.caller.client.about.borrow().name.is_empty());

        assert_eq!(code(hello(b"secret").answer(&mut desk.session)), Ok(()));
        assert_eq!(desk.session.caller.protocol, Protocol::Resp3);
        assert_eq!(desk.session.caller.client.about.borrow().name, "me");
        assert!(desk.session.is_authenticated());
    }
}
