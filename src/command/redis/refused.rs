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

pub const CLUSTER: Spec = spec("CLUSTER", |args| Refused::Cluster.told(args));
pub const READONLY: Spec = spec("READONLY", |args| Refused::Cluster.told(args));
pub const READWRITE: Spec = spec("READWRITE", |args| Refused::Cluster.told(args));
pub const ASKING: Spec = spec("ASKING", |args| Refused::Cluster.told(args));
pub const SENTINEL: Spec = spec("SENTINEL", |args| Refused::Sentinel.told(args));
pub const WATCH: Spec = spec("WATCH", |args| Refused::Watch.told(args));
pub const UNWATCH: Spec = spec("UNWATCH", |args| Refused::Watch.told(args));
pub const SUBSCRIBE: Spec = spec("SUBSCRIBE", |args| Refused::Subscription.told(args));
pub const UNSUBSCRIBE: Spec = spec("UNSUBSCRIBE", |args| Refused::Subscription.told(args));
pub const PSUBSCRIBE: Spec = spec("PSUBSCRIBE", |args| Refused::Subscription.told(args));
pub const PUNSUBSCRIBE: Spec = spec("PUNSUBSCRIBE", |args| Refused::Subscription.told(args));
pub const SSUBSCRIBE: Spec = spec("SSUBSCRIBE", |args| Refused::Subscription.told(args));
pub const SUNSUBSCRIBE: Spec = spec("SUNSUBSCRIBE", |args| Refused::Subscription.told(args));
pub const PUBLISH: Spec = spec("PUBLISH", |args| Refused::Subscription.told(args));
pub const SPUBLISH: Spec = spec("SPUBLISH", |args| Refused::Subscription.told(args));
pub const POST: Spec = Spec { flags: OPEN, ..spec("POST", |args| Refused::Http.told(args)) };
pub const HOST: Spec = Spec { flags: OPEN, ..spec("HOST:", |args| Refused::Http.told(args)) };

#[derive(Debug, PartialEq)]
pub enum Refused {
    Cluster,
    Sentinel,
    Watch,
    Subscription,
    Http,
}

impl Refused {
    /// Whatever the arguments are.
    fn told<'a>(self, args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
        args.rest();
        Ok(Command::Refused(self))
    }

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
