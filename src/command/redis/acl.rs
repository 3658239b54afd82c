//! `ACL WHOAMI|LIST|GETUSER username|CAT [category]`: the users and their rights, to look at.
//!
//! WHOAMI replies with the name of the user; LIST with a line for each, as Redis writes them, and
//! GETUSER with a map (nil if there is no such user): neither shows a hash. CAT replies with the
//! categories, or with the commands of one. Errors: ERR. Users are set in the configuration, so
//! SETUSER and the rest are errors.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::config::DEFAULT;
use crate::domain::queue::Shown;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::{
    Access, Caller, Categories, Category, Command, Flag, Flags, Group, Run, Session, Spec, TABLE,
    User,
};

/// Shows what others may do.
const ADMIN: Categories = Categories::of(&[Category::Admin]);

pub const SPEC: Spec = Spec {
    name: "ACL",
    usage: "<WHOAMI|LIST|GETUSER username|CAT [category]>",
    summary: "Shows the users and their rights",
    args: 1..=2,
    flags: Flags::of(&[Flag::NoScript, Flag::Loading, Flag::Stale]),
    words: &[("LIST", ADMIN), ("GETUSER", ADMIN)],
    ..Spec::local(Group::Connection, parse)
};

#[derive(Debug, PartialEq)]
pub enum Acl {
    WhoAmI,
    List,
    GetUser(Bytes),
    Cat(Option<Categories>),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let word = args.value()?;
    let fits = |count: usize| args.left() == count;
    Ok(Command::Acl(if is(word, "WHOAMI") && fits(0) {
        Acl::WhoAmI
    } else if is(word, "LIST") && fits(0) {
        Acl::List
    } else if is(word, "GETUSER") && fits(1) {
        Acl::GetUser(Bytes::copy_from_slice(args.value()?))
    } else if is(word, "CAT") {
        Acl::Cat(args.option().map(category).transpose()?)
    } else {
        let known = ["WHOAMI", "LIST", "GETUSER"].iter().any(|known| is(word, known));
        let of_redis = ["SETUSER", "DELUSER", "LOAD", "SAVE"].iter().any(|known| is(word, known));
        let shown = Shown(word);
        return Err(match (known, of_redis) {
            (true, _) => {
                let name = word.to_ascii_lowercase();
                let name = name.escape_ascii();
                ArgError::plain(format_args!("wrong number of arguments for 'acl|{name}' command"))
            }
            (_, true) => ArgError::plain(format_args!(
                "ACL {shown} is not supported: users are tables of the configuration, which is \
                 read at start and at SIGHUP"
            )),
            (_, false) => {
                let text = "there are WHOAMI, LIST, GETUSER and CAT";
                ArgError::plain(format_args!("unknown subcommand {shown}; {text}"))
            }
        });
    }))
}

fn category(raw: &[u8]) -> Result<Categories, ArgError> {
    let word = std::str::from_utf8(raw).ok();
    let found = word.and_then(|word| Categories::of_word(&format!("@{word}")));
    let shown = Shown(raw);
    found.ok_or_else(|| ArgError::plain(format_args!("Unknown category {shown}")))
}

impl Acl {
    pub fn run(self, session: &mut Session, _: &Rc<Broker>) -> Run {
        Run::Ready(self.answer(&session.access, &session.caller))
    }

    fn answer(self, access: &Access, caller: &Caller) -> Reply {
        let bare = |word: &'static str| Reply::from(word.trim_start_matches('@'));
        match self {
            Self::WhoAmI => caller.user.as_ref().map_or(Reply::Null, |u| u.name.clone().into()),
            Self::List => Reply::Array(access.users().map(|u| line(u, access).into()).collect()),
            Self::GetUser(name) => {
                access.user(&name).map_or(Reply::Null, |user| about(user, access))
            }
            Self::Cat(None) => Reply::Array(Categories::ALL.words().map(bare).collect()),
            Self::Cat(Some(category)) => {
                let of_it = TABLE.iter().filter(|spec| spec.categories.covers(category));
                Reply::Array(of_it.map(|spec| spec.name.to_ascii_lowercase().into()).collect())
            }
        }
    }
}

/// True if any password is right.
fn is_open(user: &User, access: &Access) -> bool {
    user.name == DEFAULT && !access.has_password()
}

fn line(user: &User, access: &Access) -> String {
    let password = if is_open(user, access) { "nopass" } else { "#(hidden)" };
    let parts = [password.to_owned(), patterns(user), rights(user)];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.fold(format!("user {} on", user.name), |line, part| line + " " + &part)
}

fn about(user: &User, access: &Access) -> Reply {
    let open = is_open(user, access);
    let flags: &[&'static str] = if open { &["on", "nopass"] } else { &["on"] };
    let passwords = if open { Vec::new() } else { vec!["(hidden)".into()] };
    Reply::map([
        ("flags", Reply::Array(flags.iter().map(|flag| (*flag).into()).collect())),
        ("passwords", Reply::Array(passwords)),
        ("commands", rights(user).into()),
        ("keys", patterns(user).into()),
        ("channels", "".into()),
        ("selectors", Reply::Array(Vec::new())),
    ])
}

/// The queues, as Redis writes keys.
fn patterns(user: &User) -> String {
    let Some(patterns) = &user.queues else {
        return "~*".to_owned();
    };
    let shown = |pattern: &Bytes| format!("~{}", pattern.escape_ascii());
    patterns.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn rights(user: &User) -> String {
    if user.is_unlimited() {
        return "+@all".to_owned();
    }
    let categories = user.categories.words().map(|word| format!(" +{word}"));
    let commands = user.commands.iter().map(|(name, may)| {
        let sign = if *may { '+' } else { '-' };
        format!(" {sign}{}", name.to_ascii_lowercase())
    });
    "-@all".to_owned() + &categories.chain(commands).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |acl| Ok(Command::Acl(acl));
        check(&[
            ("acl whoami", of(Acl::WhoAmI)),
            ("ACL LIST", of(Acl::List)),
            ("ACL GETUSER ann", of(Acl::GetUser(Bytes::from_static(b"ann")))),
            ("ACL CAT", of(Acl::Cat(None))),
            ("ACL CAT Admin", of(Acl::Cat(Some(ADMIN)))),
            ("ACL CAT keyspace", Err("ERR Unknown category 'keyspace'")),
            ("ACL WHOAMI x", Err("ERR wrong number of arguments for 'acl|whoami' command")),
            ("ACL GETUSER", Err("ERR wrong number of arguments for 'acl|getuser' command")),
            ("ACL SETUSER ann", Err("ERR ACL 'SETUSER' is not supported: users are tables")),
            ("ACL NONE", Err("ERR unknown subcommand 'NONE'; there are WHOAMI, LIST,")),
        ]);
    }
}
