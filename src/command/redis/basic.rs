//! Commands that every client sends to any Redis: PING, ECHO, QUIT, RESET, SELECT.
//!
//! `PING [message]`, `ECHO message` (byte for byte: clients use it as an end mark), `QUIT`
//! (OK, then the connection ends), `RESET`, `SELECT 0` (there is one database).

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::spec::OPEN;
use crate::command::{Command, Flag, Flags, Group, Parse, Run, Session, Spec};

const fn spec(name: &'static str, summary: &'static str) -> Spec {
    let flags = Flags::of(&[Flag::Loading, Flag::Stale, Flag::Fast]);
    let quit: Parse = |_| Ok(Command::Basic(Basic::Quit));
    Spec { name, summary, args: 0..=0, flags, ..Spec::local(Group::Connection, quit) }
}

pub const PING: Spec = Spec {
    usage: "[message]",
    args: 0..=1,
    parse: |args| Ok(Command::Basic(Basic::Ping(args.option().map(Bytes::copy_from_slice)))),
    ..spec("PING", "Returns PONG, or the message")
};

pub const ECHO: Spec =
    Spec { usage: "message", args: 1..=1, parse: echo, ..spec("ECHO", "Returns the message") };

pub const QUIT: Spec = Spec { flags: OPEN, ..spec("QUIT", "Closes the connection") };

pub const RESET: Spec = Spec {
    flags: OPEN,
    parse: |_| Ok(Command::Basic(Basic::Reset)),
    ..spec("RESET", "Resets the connection to its initial state")
};

pub const SELECT: Spec = Spec {
    usage: "index",
    args: 1..=1,
    parse: select,
    ..spec("SELECT", "Accepts 0, the only database")
};

#[derive(Debug, PartialEq)]
pub enum Basic {
    Ping(Option<Bytes>),
    Echo(Bytes),
    Quit,
    Reset,
    Select,
}

fn echo<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Echo(Bytes::copy_from_slice(args.value()?))))
}

fn select<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let index = std::str::from_utf8(args.value()?).ok().and_then(|text| text.parse::<i64>().ok());
    match index {
        Some(0) => Ok(Command::Basic(Basic::Select)),
        Some(_) => Err(ArgError::plain("DB index is out of range")),
        None => Err(ArgError::plain("value is not an integer or out of range")),
    }
}

impl Basic {
    pub fn run(self, session: &mut Session, _: &Rc<Broker>) -> Run {
        match self {
            Self::Ping(None) => Run::Ready(Reply::Simple("PONG".into())),
            Self::Ping(Some(message)) | Self::Echo(message) => Run::Ready(Reply::Bulk(message)),
            Self::Quit => Run::Close(Reply::Ok),
            Self::Reset => {
                session.reset();
                Run::Ready(Reply::Simple("RESET".into()))
            }
            Self::Select => Run::Ready(Reply::Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |basic| Ok(Command::Basic(basic));
        check(&[
            ("ping", of(Basic::Ping(None))),
            ("PING x", of(Basic::Ping(Some(Bytes::from_static(b"x"))))),
            ("ECHO \"a\\r\\n\"", of(Basic::Echo(Bytes::from_static(b"a\r\n")))),
            ("QUIT", of(Basic::Quit)),
            ("reset", of(Basic::Reset)),
            ("SELECT 0", of(Basic::Select)),
        ]);
    }
}
