//! `COMMAND`, `COMMAND COUNT|LIST|INFO|DOCS|GETKEYS`: what clients ask to know the commands.
//!
//! redis-cli makes its hints from DOCS, cluster clients find keys by the rest. Everything comes
//! from the table; what this broker refuses is not listed. Errors: ERR.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::glob;
use crate::queue::Shown;
use crate::resp::Reply;

use super::args::{ArgError, Args, is};
use super::{Command, Group, Kind, MANY, Run, Session, Spec, TABLE, usage};

pub const SPEC: Spec = Spec {
    name: "COMMAND",
    usage: "[COUNT|LIST|INFO|DOCS|GETKEYS]",
    summary: "Describes the commands",
    args: 0..=MANY,
    kind: Kind::Local,
    group: Group::Server,
    flags: &["loading", "stale"],
    parse,
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
        return Err(ArgError::plain(format_args!(
            "unknown subcommand {word}. Try COMMAND HELP."
        )));
    }))
}

/// `FILTERBY MODULE|ACLCAT|PATTERN x`: there are no modules and no categories to choose by.
fn filter(args: &mut Args<'_, '_>) -> Result<Option<Bytes>, ArgError> {
    if args.left() == 0 {
        return Ok(None);
    }
    let pattern = args.takes("FILTERBY") && args.takes("PATTERN");
    match args.option() {
        Some(value) if pattern => Ok(Some(Bytes::copy_from_slice(value))),
        Some(_) | None => Err(ArgError::plain(
            "syntax error: only FILTERBY PATTERN is known",
        )),
    }
}

fn key(args: &mut Args<'_, '_>) -> Result<Introspect, ArgError> {
    let name = args.value()?;
    let Some(spec) = listed().find(|spec| is(name, spec.name)) else {
        return Err(ArgError::plain("Invalid command specified"));
    };
    let rest = args.rest();
    if !spec.args.contains(&rest.len()) {
        return Err(ArgError::plain(
            "Invalid number of arguments specified for command",
        ));
    }
    match rest.into_iter().next() {
        Some(queue) if spec.group == Group::Queue => Ok(Introspect::Key(queue)),
        Some(_) | None => Err(ArgError::plain("The command has no key arguments")),
    }
}

fn listed() -> impl Iterator<Item = &'static Spec> {
    TABLE
        .iter()
        .copied()
        .filter(|spec| spec.group != Group::Refused)
}

fn find(name: &[u8]) -> Option<&'static Spec> {
    listed().find(|spec| is(name, spec.name))
}

impl Introspect {
    pub fn run(self, _: &mut Session, _: &Rc<Broker>) -> Run {
        Run::Ready(self.answer())
    }

    fn answer(self) -> Reply {
        let name = |spec: &Spec| Reply::from(spec.name.to_ascii_lowercase());
        match self {
            Self::All => Reply::Array(listed().map(described).collect()),
            Self::Count => Reply::count(listed().count().try_into().unwrap_or(0)),
            Self::List(pattern) => {
                let pattern = pattern
                    .unwrap_or(Bytes::from_static(b"*"))
                    .to_ascii_lowercase();
                let fits = |spec: &&Spec| {
                    glob::matches(&pattern, spec.name.to_ascii_lowercase().as_bytes())
                };
                Reply::Array(listed().filter(fits).map(name).collect())
            }
            Self::Info(names) if names.is_empty() => Self::All.answer(),
            Self::Info(names) => {
                let info = |name: &Bytes| find(name).map_or(Reply::Null, described);
                Reply::Array(names.iter().map(info).collect())
            }
            Self::Docs(names) => {
                let asked =
                    |spec: &&Spec| names.is_empty() || names.iter().any(|name| is(name, spec.name));
                Reply::Map(
                    listed()
                        .filter(asked)
                        .map(|spec| (name(spec), docs(spec)))
                        .collect(),
                )
            }
            Self::Key(queue) => Reply::Array(vec![Reply::Bulk(queue)]),
        }
    }
}

/// The ten fields of a command in Redis 7.
fn described(spec: &Spec) -> Reply {
    let least = i64::try_from(*spec.args.start()).unwrap_or(0) + 1;
    let arity = if spec.args.start() == spec.args.end() {
        least
    } else {
        -least
    };
    let key = i64::from(spec.group == Group::Queue);
    let words = |words: &[&'static str]| {
        Reply::Array(
            words
                .iter()
                .map(|word| Reply::Simple((*word).into()))
                .collect(),
        )
    };
    let categories: &[&str] = match (spec.kind, spec.group) {
        (_, Group::Connection) => &["@connection", "@fast"],
        (Kind::Local, _) => &["@admin", "@slow"],
        _ if spec.flags.contains(&"write") => &["@write"],
        _ => &["@read"],
    };
    let keys = if key == 1 {
        vec![key_spec(spec)]
    } else {
        Vec::new()
    };
    Reply::Array(vec![
        spec.name.to_ascii_lowercase().into(),
        Reply::Integer(arity),
        words(spec.flags),
        Reply::Integer(key),
        Reply::Integer(key),
        Reply::Integer(key),
        words(categories),
        Reply::Array(Vec::new()),
        Reply::Array(keys),
        Reply::Array(Vec::new()),
    ])
}

/// The queue is the first argument and the only key.
fn key_spec(spec: &Spec) -> Reply {
    let access = if spec.flags.contains(&"write") {
        ["RW", "access"]
    } else {
        ["RO", "access"]
    };
    let access = access
        .iter()
        .map(|flag| Reply::Simple((*flag).into()))
        .collect();
    Reply::map([
        ("flags", Reply::Array(access)),
        (
            "begin_search",
            Reply::map([
                ("type", "index".into()),
                ("spec", Reply::map([("index", Reply::Integer(1))])),
            ]),
        ),
        (
            "find_keys",
            Reply::map([
                ("type", "range".into()),
                (
                    "spec",
                    Reply::map([
                        ("lastkey", Reply::Integer(0)),
                        ("keystep", Reply::Integer(1)),
                        ("limit", Reply::Integer(0)),
                    ]),
                ),
            ]),
        ),
    ])
}

fn docs(spec: &Spec) -> Reply {
    let group = match spec.group {
        Group::Queue => "delay-broker",
        Group::Connection => "connection",
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

    #[test]
    fn parse() {
        check(&[
            ("COMMAND", "All"),
            ("command count", "Count"),
            ("COMMAND LIST", "List(None)"),
            (
                "COMMAND LIST FILTERBY PATTERN dq.*",
                "List(Some(b\"dq.*\"))",
            ),
            ("COMMAND LIST FILTERBY MODULE x", "ERR syntax error"),
            ("COMMAND INFO a b", "Info([b\"a\", b\"b\"])"),
            ("COMMAND DOCS", "Docs([])"),
            ("COMMAND GETKEYS dq.offer q 5 p", "Key(b\"q\")"),
            (
                "COMMAND GETKEYS dq.offer q",
                "ERR Invalid number of arguments specified for command",
            ),
            ("COMMAND GETKEYS nope", "ERR Invalid command specified"),
            (
                "COMMAND GETKEYS ping x",
                "ERR The command has no key arguments",
            ),
            (
                "COMMAND GETKEYS",
                "ERR wrong number of arguments for 'command' command",
            ),
            (
                "COMMAND NOPE",
                "ERR unknown subcommand 'NOPE'. Try COMMAND HELP.",
            ),
            (
                "COMMAND COUNT x",
                "ERR syntax error: unexpected argument 'x'",
            ),
        ]);
    }

    #[test]
    fn entries() {
        let head = |name: &str| match described(find(name.as_bytes()).unwrap()) {
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
        ];
        for (name, wanted) in rows {
            assert_eq!(head(name), wanted, "{name}");
        }
        assert!(find(b"multi").is_none());
        let unknown = Introspect::Info(vec![Bytes::from_static(b"nope")]).answer();
        assert_eq!(unknown, Reply::Array(vec![Reply::Null]));
        let Reply::Map(all) = Introspect::Docs(vec![]).answer() else {
            panic!()
        };
        let Reply::Map(one) = Introspect::Docs(vec![Bytes::from_static(b"Dq.Get")]).answer() else {
            panic!()
        };
        assert_eq!((all.len(), one.len()), (listed().count(), 1));
    }
}
