//! Commands of Redis that a delay broker does not have: the error says what to do instead.
//!
//! CLUSTER and SENTINEL must be errors, or clients take the broker for what it is not. POST and
//! Host: are the first words of an HTTP request that a web page may have been made to send here:
//! the connection ends, with a password or without, before its body is read as commands.

use std::rc::Rc;

use crate::broker::Broker;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::spec::OPEN;
use crate::command::{Caller, Command, Flags, Group, Run, Spec};

const fn spec(name: &'static str, parse: crate::command::Parse) -> Spec {
    Spec { name, flags: Flags::NONE, ..Spec::local(Group::Refused, parse) }
}

pub const CLUSTER: Spec = spec("CLUSTER", cluster);
pub const READONLY: Spec = spec("READONLY", cluster);
pub const READWRITE: Spec = spec("READWRITE", cluster);
pub const ASKING: Spec = spec("ASKING", cluster);
pub const SENTINEL: Spec = spec("SENTINEL", sentinel);
pub const WATCH: Spec = spec("WATCH", watch);
pub const UNWATCH: Spec = spec("UNWATCH", watch);
pub const SUBSCRIBE: Spec = spec("SUBSCRIBE", subscription);
pub const UNSUBSCRIBE: Spec = spec("UNSUBSCRIBE", subscription);
pub const PSUBSCRIBE: Spec = spec("PSUBSCRIBE", subscription);
pub const PUNSUBSCRIBE: Spec = spec("PUNSUBSCRIBE", subscription);
pub const SSUBSCRIBE: Spec = spec("SSUBSCRIBE", subscription);
pub const SUNSUBSCRIBE: Spec = spec("SUNSUBSCRIBE", subscription);
pub const PUBLISH: Spec = spec("PUBLISH", subscription);
pub const SPUBLISH: Spec = spec("SPUBLISH", subscription);
pub const POST: Spec = Spec { flags: OPEN, ..spec("POST", http) };
pub const HOST: Spec = Spec { flags: OPEN, ..spec("HOST:", http) };

#[derive(Debug, PartialEq)]
pub enum Refused {
    Cluster,
    Sentinel,
    Watch,
    Subscription,
    Http,
}

fn cluster<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Cluster))
}

fn sentinel<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Sentinel))
}

fn watch<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Watch))
}

fn subscription<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Subscription))
}

fn http<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Http))
}

impl Refused {
    pub fn run(self, _: &Caller, _: &Rc<Broker>) -> Run {
        let reply = Reply::from(ArgError::plain(self.why()));
        match self {
            Self::Http => Run::Close(reply),
            Self::Cluster | Self::Sentinel | Self::Watch | Self::Subscription => Run::Ready(reply),
        }
    }

    fn why(&self) -> &'static str {
        match self {
            Self::Cluster => "This instance has cluster support disabled",
            Self::Sentinel => "This instance is not a Sentinel",
            Self::Watch => {
                "keys cannot be watched: there are none here; MULTI and EXEC work without WATCH, \
                 and NAME with NX or XX stores on a condition"
            }
            Self::Subscription => {
                "publish and subscribe are not supported; take due messages from their list in the \
                 backing Redis, with BLPOP"
            }
            Self::Http => "this port speaks the Redis protocol, not HTTP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |refused| Ok(Command::Refused(refused));
        check(&[
            ("cluster", of(Refused::Cluster)),
            ("SENTINEL masters", of(Refused::Sentinel)),
            ("WATCH a b", of(Refused::Watch)),
            ("SUBSCRIBE a", of(Refused::Subscription)),
            ("POST / HTTP/1.1", of(Refused::Http)),
            ("Host: here", of(Refused::Http)),
        ]);
    }
}
