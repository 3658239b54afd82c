//! What every client sends to any Redis: PING, ECHO, TIME, QUIT, RESET, SELECT.
//!
//! `PING [message]`, `ECHO message` (byte for byte: clients use it as an end mark), `TIME` (Redis's
//! clock, so it needs Redis: UNAVAILABLE), `QUIT` (OK, then the connection ends), `RESET`,
//! `SELECT 0` (there is one database).

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, later};

const fn spec(name: &'static str, summary: &'static str) -> Spec {
    Spec {
        name,
        usage: "",
        summary,
        args: 0..=0,
        kind: Kind::Local,
        group: Group::Connection,
        flags: &["loading", "stale", "fast"],
        parse: quit,
    }
}

pub const PING: Spec = Spec {
    usage: "[message]",
    args: 0..=1,
    parse: ping,
    ..spec("PING", "Answers PONG, or the message")
};

pub const ECHO: Spec = Spec {
    usage: "message",
    args: 1..=1,
    parse: echo,
    ..spec("ECHO", "Answers the message")
};

pub const TIME: Spec = Spec {
    kind: Kind::Store,
    group: Group::Server,
    parse: time,
    ..spec(
        "TIME",
        "Tells the time of the backing Redis, which decides what is due",
    )
};

pub const QUIT: Spec = spec("QUIT", "Ends the connection");

pub const RESET: Spec = Spec {
    parse: reset,
    ..spec("RESET", "Makes the connection as new")
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
    Time,
    Quit,
    Reset,
    Select,
}

fn ping<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Ping(
        args.option().map(Bytes::copy_from_slice),
    )))
}

fn echo<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Echo(Bytes::copy_from_slice(
        args.value()?,
    ))))
}

fn time<'a>(_: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Time))
}

fn quit<'a>(_: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Quit))
}

fn reset<'a>(_: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Basic(Basic::Reset))
}

fn select<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let index = std::str::from_utf8(args.value()?)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    match index {
        Some(0) => Ok(Command::Basic(Basic::Select)),
        Some(_) => Err(ArgError::plain("DB index is out of range")),
        None => Err(ArgError::plain("value is not an integer or out of range")),
    }
}

impl Basic {
    pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
        match self {
            Self::Ping(None) => Run::Ready(Reply::Simple("PONG".into())),
            Self::Ping(Some(message)) | Self::Echo(message) => Run::Ready(Reply::Bulk(message)),
            Self::Time => later(
                broker,
                async |broker| broker.time().await,
                |(s, us)| Reply::Array(vec![s.to_string().into(), us.to_string().into()]),
            ),
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
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("ping", "Ping(None)"),
            ("PING x", "Ping(Some(b\"x\"))"),
            (
                "PING x y",
                "ERR wrong number of arguments for 'ping' command",
            ),
            ("ECHO \"a\\r\\n\"", "Echo(b\"a\\r\\n\")"),
            ("TIME", "Time"),
            ("QUIT", "Quit"),
            ("reset", "Reset"),
            ("SELECT 0", "Select"),
            ("SELECT 1", "ERR DB index is out of range"),
            ("SELECT -1", "ERR DB index is out of range"),
            ("SELECT x", "ERR value is not an integer or out of range"),
        ]);
    }
}
