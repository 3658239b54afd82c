//! What Redis has and a delay broker has not: answered with an error that says what to do instead.
//!
//! CLUSTER and SENTINEL must be errors, or clients take the broker for what it is not. POST and
//! Host: are the first words of an HTTP request that a web page may have been made to send here:
//! the connection ends, before its body is read as commands.

use std::rc::Rc;

use crate::broker::Broker;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, MANY, Run, Session, Spec};

const fn spec(name: &'static str, parse: super::Parse) -> Spec {
    Spec {
        name,
        usage: "",
        summary: "",
        args: 0..=MANY,
        kind: Kind::Local,
        group: Group::Refused,
        flags: &[],
        parse,
    }
}

pub const CLUSTER: Spec = spec("CLUSTER", cluster);
pub const READONLY: Spec = spec("READONLY", cluster);
pub const READWRITE: Spec = spec("READWRITE", cluster);
pub const ASKING: Spec = spec("ASKING", cluster);
pub const SENTINEL: Spec = spec("SENTINEL", sentinel);
pub const MULTI: Spec = spec("MULTI", transaction);
pub const EXEC: Spec = spec("EXEC", transaction);
pub const DISCARD: Spec = spec("DISCARD", transaction);
pub const WATCH: Spec = spec("WATCH", transaction);
pub const UNWATCH: Spec = spec("UNWATCH", transaction);
pub const SUBSCRIBE: Spec = spec("SUBSCRIBE", subscription);
pub const UNSUBSCRIBE: Spec = spec("UNSUBSCRIBE", subscription);
pub const PSUBSCRIBE: Spec = spec("PSUBSCRIBE", subscription);
pub const PUNSUBSCRIBE: Spec = spec("PUNSUBSCRIBE", subscription);
pub const SSUBSCRIBE: Spec = spec("SSUBSCRIBE", subscription);
pub const SUNSUBSCRIBE: Spec = spec("SUNSUBSCRIBE", subscription);
pub const PUBLISH: Spec = spec("PUBLISH", subscription);
pub const SPUBLISH: Spec = spec("SPUBLISH", subscription);
pub const POST: Spec = spec("POST", http);
pub const HOST: Spec = spec("HOST:", http);

#[derive(Debug, PartialEq)]
pub enum Refused {
    Cluster,
    Sentinel,
    Transaction,
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

fn transaction<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    args.rest();
    Ok(Command::Refused(Refused::Transaction))
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
    pub fn run(self, _: &mut Session, _: &Rc<Broker>) -> Run {
        let reply = Reply::from(ArgError::plain(self.why()));
        match self {
            Self::Http => Run::Close(reply),
            Self::Cluster | Self::Sentinel | Self::Transaction | Self::Subscription => {
                Run::Ready(reply)
            }
        }
    }

    fn why(&self) -> &'static str {
        match self {
            Self::Cluster => "This instance has cluster support disabled",
            Self::Sentinel => "This instance is not a Sentinel",
            Self::Transaction => {
                "transactions are not supported; send a plain pipeline (in redis-py \
                 pipeline(transaction=False)), or DQ.MOFFER for all or none"
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
    use crate::command::tests::check;

    #[test]
    fn parse() {
        check(&[
            ("CLUSTER NODES", "Cluster"),
            ("cluster", "Cluster"),
            ("READONLY", "Cluster"),
            ("SENTINEL masters", "Sentinel"),
            ("MULTI", "Transaction"),
            ("WATCH a b", "Transaction"),
            ("SUBSCRIBE a", "Subscription"),
            ("POST / HTTP/1.1", "Http"),
            ("Host: here", "Http"),
        ]);
    }
}
