//! `COMMAND`, `COMMAND COUNT|LIST|INFO|DOCS|GETKEYS`: descriptions of the commands.
//!
//! redis-cli makes its hints from DOCS, cluster clients find keys by the rest. Everything comes
//! from the table; commands that this broker refuses, and those that the user may not run, are not
//! listed. Errors: ERR.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::glob;
use crate::domain::queue::Shown;
use crate::resp::{Encoded, Reply};

use crate::command::args::{ArgError, Args, is};
use crate::command::{Caller, Command, Flag, Group, Kind, Run, Spec, TABLE, User, usage};

pub const SPEC: Spec = Spec {
    name: "COMMAND",
    usage: "[COUNT|LIST|INFO|DOCS|GETKEYS]",
    summary: "Describes the commands",
    ..Spec::local(Group::Server, parse)
};

#[derive(Debug, PartialEq)]
pub enum Introspect {
    All,
    Count,
    /// Names that match.
    List(Option<Bytes>),
    Info(Vec<Bytes>),
    Docs(Vec<Bytes>),
    /// The key of a command that has one.
    Key(Bytes),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Introspect(if args.left() == 0 {
        Introspect::All
    } else if args.takes("COUNT") {
        Introspect::Count
    } else if args.takes("LIST") {
        Introspect::List(filter(args)?)
    } else if args.takes("INFO") {
        Introspect::Info(args.rest())
    } else if args.takes("DOCS") {
        Introspect::Docs(args.rest())
    } else if args.takes("GETKEYS") {
        key(args)?
    } else {
        let word = Shown(args.value()?);
        return Err(ArgError::plain(format_args!("unknown subcommand {word}. Try COMMAND HELP.")));
    }))
}

/// `FILTERBY MODULE|ACLCAT|PATTERN x`: there are no modules and no categories to choose by.
fn filter(args: &mut Args<'_, '_>) -> Result<Option<Bytes>, ArgError> {
    if args.left() == 0 {
        return Ok(None);
    }
    let pattern = args.takes("FILTERBY") && args.takes("PATTERN");
    match args.option() {
        Some(value) if pattern => Ok(Some(args.pattern(value)?)),
        Some(_) | None => Err(ArgError::plain("syntax error: only FILTERBY PATTERN is known")),
    }
}

fn key(args: &mut Args<'_, '_>) -> Result<Introspect, ArgError> {
    let name = args.value()?;
    let spec = listed(None)
        .find(|spec| is(name, spec.name))
        .ok_or_else(|| ArgError::plain("Invalid command specified"))?;
    let rest = args.rest();
    if !spec.args.contains(&rest.len()) {
        return Err(ArgError::plain("Invalid number of arguments specified for command"));
    }
    match rest.into_iter().next() {
        Some(queue) if spec.group == Group::Queue => Ok(Introspect::Key(queue)),
        Some(_) | None => Err(ArgError::plain("The command has no key arguments")),
    }
}

/// Large, and always the same: made once.
static ALL: OnceLock<Arc<Encoded>> = OnceLock::new();
static DOCS: OnceLock<Arc<Encoded>> = OnceLock::new();

fn encoded_once(place: &OnceLock<Arc<Encoded>>, make: impl FnOnce() -> Reply) -> Reply {
    Reply::Encoded(Arc::clone(place.get_or_init(|| Encoded::new(&make()))))
}

/// Those that the user may run; of no user all.
fn listed(user: Option<&User>) -> impl Iterator<Item = &'static Spec> {
    let there = TABLE.iter().copied().filter(|spec| spec.group != Group::Refused);
    there.filter(move |spec| user.is_none_or(|user| user.may(spec)))
}

impl Introspect {
    pub fn run(self, caller: &Caller, _: &Rc<Broker>) -> Run {
        Run::Ready(self.answer(caller.user.as_deref().filter(|user| !user.is_unlimited())))
    }

    /// `user`: if there is something that it may not do.
    fn answer(self, user: Option<&User>) -> Reply {
        let listed = || listed(user);
        let name = |spec: &Spec| Reply::from(spec.name.to_ascii_lowercase());
        match self {
            Self::All => {
                let all = || Reply::Array(listed().map(described).collect());
                if user.is_none() { encoded_once(&ALL, all) } else { all() }
            }
            Self::Count => Reply::count(listed().count().try_into().unwrap_or(0)),
            Self::List(pattern) => {
                let pattern = pattern.unwrap_or(Bytes::from_static(b"*")).to_ascii_lowercase();
                let fits = |spec: &&Spec| {
                    glob::matches(&pattern, spec.name.to_ascii_lowercase().as_bytes())
                };
                Reply::Array(listed().filter(fits).map(name).collect())
            }
            Self::Info(names) if names.is_empty() => Self::All.answer(user),
            Self::Info(names) => {
                let find = |name: &Bytes| listed().find(|spec| is(name, spec.name));
                let info = |name: &Bytes| find(name).map_or(Reply::Null, described);
                Reply::Array(names.iter().map(info).collect())
            }
            Self::Docs(names) if names.is_empty() => {
                let all = || Reply::Map(listed().map(|spec| (name(spec), docs(spec))).collect());
                if user.is_none() { encoded_once(&DOCS, all) } else { all() }
            }
            Self::Docs(names) => {
                let asked = |spec: &&Spec| names.iter().any(|name| is(name, spec.name));
                Reply::Map(listed().filter(asked).map(|spec| (name(spec), docs(spec))).collect())
            }
            Self::Key(queue) => Reply::Array(vec![Reply::Bulk(queue)]),
        }
    }
}

/// The ten fields of a command in Redis 7.
fn described(spec: &Spec) -> Reply {
    let least = i64::try_from(*spec.args.start()).unwrap_or(0) + 1;
    let arity = if spec.args.start() == spec.args.end() { least } else { -least };
    let key = i64::from(spec.group == Group::Queue);
    let words = |words: &mut dyn Iterator<Item = &'static str>| {
        Reply::Array(words.map(|word| Reply::Simple(word.into())).collect())
    };
    // As Redis has them, beside those that rights are given by.
    let of_redis: &[&str] = match (spec.kind, spec.group) {
        (_, Group::Connection) => &["@connection", "@fast"],
        (Kind::Offer, Group::Transactions) => &["@slow", "@transaction"],
        (_, Group::Transactions) => &["@fast", "@transaction"],
        _ => &[],
    };
    let mut categories = of_redis.iter().copied().chain(spec.categories.words());
    let keys = if key == 1 { vec![key_spec(spec)] } else { Vec::new() };
    Reply::Array(vec![
        spec.name.to_ascii_lowercase().into(),
        Reply::Integer(arity),
        words(&mut spec.flags.words()),
        Reply::Integer(key),
        Reply::Integer(key),
        Reply::Integer(key),
        words(&mut categories),
        Reply::Array(Vec::new()),
        Reply::Array(keys),
        Reply::Array(Vec::new()),
    ])
}

/// The queue is the first argument and the only key.
fn key_spec(spec: &Spec) -> Reply {
    let access = if spec.flags.has(Flag::Write) { ["RW", "access"] } else { ["RO", "access"] };
    let access = access.iter().map(|flag| Reply::Simple((*flag).into())).collect();
    let first = Reply::map([("index", Reply::Integer(1))]);
    let alone = Reply::map([
        ("lastkey", Reply::Integer(0)),
        ("keystep", Reply::Integer(1)),
        ("limit", Reply::Integer(0)),
    ]);
    Reply::map([
        ("flags", Reply::Array(access)),
        ("begin_search", Reply::map([("type", "index".into()), ("spec", first)])),
        ("find_keys", Reply::map([("type", "range".into()), ("spec", alone)])),
    ])
}

fn docs(spec: &Spec) -> Reply {
    let group = match spec.group {
        Group::Queue => "delay-broker",
        Group::Connection => "connection",
        Group::Transactions => "transactions",
        Group::Server | Group::Refused => "server",
    };
    Reply::map([
        ("summary", spec.summary.into()),
        ("since", "0.1.0".into()),
        ("group", group.into()),
        ("arguments", usage::arguments(spec.usage)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;
    use crate::resp::Protocol;
    use bytes::BytesMut;

    #[test]
    fn parse() {
        let of = |introspect| Ok(Command::Introspect(introspect));
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        check(&[
            ("COMMAND", of(Introspect::All)),
            ("command count", of(Introspect::Count)),
            ("COMMAND LIST", of(Introspect::List(None))),
            ("COMMAND LIST FILTERBY PATTERN dq.*", of(Introspect::List(Some(bytes("dq.*"))))),
            ("COMMAND LIST FILTERBY MODULE x", Err("ERR syntax error")),
            ("COMMAND INFO a b", of(Introspect::Info(vec![bytes("a"), bytes("b")]))),
            ("COMMAND DOCS", of(Introspect::Docs(vec![]))),
            ("COMMAND GETKEYS dq.offer q 5 p", of(Introspect::Key(bytes("q")))),
            ("COMMAND GETKEYS", Err("ERR wrong number of arguments for 'command' command")),
        ]);
    }

    #[test]
    fn entries() {
        let find = |name: &str| listed(None).find(|spec| is(name.as_bytes(), spec.name));
        let head = |name: &str| match described(find(name).unwrap()) {
            Reply::Array(fields) => {
                assert_eq!(fields.len(), 10);
                format!("{:?} {:?}", fields[1], fields[3])
            }
            other => panic!("{other:?}"),
        };
        let rows = [
            ("dq.offer", "Integer(-4) Integer(1)"),
            ("DQ.SIZE", "Integer(2) Integer(1)"),
            ("dq.queues", "Integer(-1) Integer(0)"),
            ("ping", "Integer(-1) Integer(0)"),
            ("multi", "Integer(1) Integer(0)"),
        ];
        for (name, wanted) in rows {
            assert_eq!(head(name), wanted, "{name}");
        }
        assert!(find("watch").is_none());
        let unknown = Introspect::Info(vec![Bytes::from_static(b"nope")]).answer(None);
        assert_eq!(unknown, Reply::Array(vec![Reply::Null]));
        let Reply::Map(one) = Introspect::Docs(vec![Bytes::from_static(b"Dq.Get")]).answer(None)
        else {
            panic!()
        };
        assert_eq!(one.len(), 1);
        // Two arrays in RESP2.
        for (asked, wanted) in [
            (Introspect::All, listed(None).count()),
            (Introspect::Docs(vec![]), 2 * listed(None).count()),
        ] {
            let mut bytes = BytesMut::new();
            asked.answer(None).encode(Protocol::Resp2, &mut bytes);
            let head = format!("*{wanted}\r\n");
            assert!(bytes.starts_with(head.as_bytes()) && bytes.len() > 5_000);
        }
    }
}
