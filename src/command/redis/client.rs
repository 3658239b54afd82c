//! `CLIENT ...`: what connections say about themselves, and see of one another.
//!
//! ID, INFO, GETNAME, SETNAME, SETINFO, LIST, KILL, REPLY, NO-EVICT, NO-TOUCH, and TRACKING where
//! it promises nothing. All else is an error; for MAINT_NOTIFICATIONS, CACHING and other TRACKING
//! it must be: OK would promise pushes.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;

use crate::broker::Broker;
use crate::config::DEFAULT;
use crate::domain::queue::Shown;
use crate::peers::registry;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, integer, is};
use crate::command::session::ReplyMode;
use crate::command::{Categories, Category, Command, Group, MANY, Run, Session, Spec};

/// Shows or ends the connections of others.
const ADMIN: Categories = Categories::of(&[Category::Admin]);

pub const SPEC: Spec = Spec {
    name: "CLIENT",
    usage: "<ID|INFO|GETNAME|SETNAME name|SETINFO <LIB-NAME|LIB-VER> value|LIST|\
            KILL [ID id] [ADDR addr] [LADDR addr] [SKIPME yes-or-no]|REPLY <ON|OFF|SKIP>|\
            NO-EVICT <ON|OFF>|NO-TOUCH <ON|OFF>|TRACKING <ON OPTIN|OFF>>",
    summary: "Names, lists and closes connections",
    args: 1..=MANY,
    words: &[("LIST", ADMIN), ("KILL", ADMIN)],
    ..Spec::local(Group::Connection, parse)
};

#[derive(Debug, PartialEq)]
pub enum Client {
    Id,
    Info,
    GetName,
    SetName(Bytes),
    LibName(Bytes),
    LibVer(Bytes),
    /// Those with these ids, or all.
    List(Option<Vec<u64>>),
    Kill(Filter),
    /// The form with an address only answers with OK, or with an error if there is none.
    KillOne(Bytes),
    Reply(ReplyMode),
    /// NO-EVICT, NO-TOUCH: there is nothing to evict or to touch. TRACKING ON OPTIN: what is read
    /// is tracked only after CACHING YES, which is refused.
    Accept,
}

/// Which connections CLIENT KILL means: all conditions must hold.
#[derive(Debug, PartialEq)]
pub struct Filter {
    id: Option<u64>,
    addr: Option<Bytes>,
    laddr: Option<Bytes>,
    user: Option<Bytes>,
    /// Normal clients are the only ones there are.
    normal: bool,
    skip_me: bool,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let raw = args.value()?;
    let word = raw.to_ascii_uppercase();
    // How many arguments follow; the other words look themselves.
    let count = match word.as_slice() {
        b"ID" | b"INFO" | b"GETNAME" => Some(0),
        b"SETNAME" | b"REPLY" | b"NO-EVICT" | b"NO-TOUCH" => Some(1),
        b"SETINFO" => Some(2),
        _ => None,
    };
    if count.is_some_and(|count| args.left() != count) {
        let name = raw.to_ascii_lowercase();
        let text =
            format_args!("wrong number of arguments for 'client|{}' command", name.escape_ascii());
        return Err(ArgError::plain(text));
    }
    Ok(Command::Client(match word.as_slice() {
        b"ID" => Client::Id,
        b"INFO" => Client::Info,
        b"GETNAME" => Client::GetName,
        b"SETNAME" => Client::SetName(name_argument(args.value()?)?),
        b"SETINFO" => set_info(args.value()?, args.value()?)?,
        b"LIST" => Client::List(list(args)?),
        b"KILL" if args.left() == 1 => Client::KillOne(Bytes::copy_from_slice(args.value()?)),
        b"KILL" => Client::Kill(filter(args)?),
        b"REPLY" => Client::Reply(reply_mode(args)?),
        b"NO-EVICT" | b"NO-TOUCH" => match args.takes("ON") || args.takes("OFF") {
            true => Client::Accept,
            false => return Err(ArgError::plain("syntax error")),
        },
        b"TRACKING" => {
            tracking(args)?;
            Client::Accept
        }
        _ => {
            let text = format_args!("unknown subcommand {}. Try CLIENT HELP.", Shown(raw));
            return Err(ArgError::plain(text));
        }
    }))
}

/// Names are shown in lines of `name=value`, so they may not break them.
pub fn name_argument(raw: &[u8]) -> Result<Bytes, ArgError> {
    printable(raw, "Client names")
}

/// They are kept with each client, and CLIENT LIST shows those of all.
const NAME_BYTES_MAX: usize = 1024;

fn printable(raw: &[u8], what: &str) -> Result<Bytes, ArgError> {
    if raw.len() > NAME_BYTES_MAX {
        let text = format_args!("{what} cannot have more than {NAME_BYTES_MAX} bytes.");
        return Err(ArgError::plain(text));
    }
    if raw.iter().all(u8::is_ascii_graphic) {
        return Ok(Bytes::copy_from_slice(raw));
    }
    let text = format_args!("{what} cannot contain spaces, newlines or special characters.");
    Err(ArgError::plain(text))
}

fn set_info(attribute: &[u8], value: &[u8]) -> Result<Client, ArgError> {
    if is(attribute, "LIB-NAME") {
        Ok(Client::LibName(printable(value, "lib-name")?))
    } else if is(attribute, "LIB-VER") {
        Ok(Client::LibVer(printable(value, "lib-ver")?))
    } else {
        Err(ArgError::plain(format_args!("Unrecognized option {}", Shown(attribute))))
    }
}

/// `ON OPTIN`, which rueidis sends when it connects, or `OFF`.
fn tracking(args: &mut Args<'_, '_>) -> Result<(), ArgError> {
    let promises_nothing = args.takes("OFF") || (args.takes("ON") && args.takes("OPTIN"));
    if promises_nothing && args.left() == 0 {
        return Ok(());
    }
    Err(ArgError::plain(
        "CLIENT TRACKING takes ON OPTIN or OFF here: nothing is pushed when messages change",
    ))
}

fn id(raw: &[u8]) -> Result<u64, ArgError> {
    let refused = || ArgError::plain(format_args!("Invalid client ID {}", Shown(raw)));
    integer(raw).ok_or_else(refused)
}

/// `[TYPE type] [ID id ...]`
fn list(args: &mut Args<'_, '_>) -> Result<Option<Vec<u64>>, ArgError> {
    let mut ids = None;
    while args.left() > 0 {
        if args.takes("ID") {
            let rest = std::iter::from_fn(|| args.option()).map(id);
            ids = Some(rest.collect::<Result<Vec<_>, _>>()?);
        } else if args.takes("TYPE") {
            if !normal(args.value_of("TYPE")?)? {
                ids = Some(Vec::new());
            }
        } else {
            return Err(ArgError::plain("syntax error"));
        }
    }
    Ok(ids)
}

fn normal(kind: &[u8]) -> Result<bool, ArgError> {
    let others = ["master", "slave", "replica", "pubsub"];
    if is(kind, "normal") || others.iter().any(|other| is(kind, other)) {
        return Ok(is(kind, "normal"));
    }
    Err(ArgError::plain(format_args!("Unknown client type {}", Shown(kind))))
}

fn filter(args: &mut Args<'_, '_>) -> Result<Filter, ArgError> {
    let mut filter =
        Filter { id: None, addr: None, laddr: None, user: None, normal: true, skip_me: true };
    if args.left() == 0 {
        return Err(ArgError::plain("wrong number of arguments for 'client|kill' command"));
    }
    while args.left() > 0 {
        let kept = |value: &[u8]| Some(Bytes::copy_from_slice(value));
        if args.takes("ID") {
            filter.id = Some(id(args.value_of("ID")?)?);
        } else if args.takes("ADDR") {
            filter.addr = kept(args.value_of("ADDR")?);
        } else if args.takes("LADDR") {
            filter.laddr = kept(args.value_of("LADDR")?);
        } else if args.takes("USER") {
            filter.user = kept(args.value_of("USER")?);
        } else if args.takes("TYPE") {
            filter.normal = normal(args.value_of("TYPE")?)?;
        } else if args.takes("SKIPME") {
            filter.skip_me = match args.value_of("SKIPME")? {
                yes if is(yes, "yes") => true,
                no if is(no, "no") => false,
                _ => return Err(ArgError::plain("syntax error")),
            };
        } else {
            return Err(ArgError::plain("syntax error"));
        }
    }
    Ok(filter)
}

fn reply_mode(args: &mut Args<'_, '_>) -> Result<ReplyMode, ArgError> {
    let modes = [("ON", ReplyMode::On), ("OFF", ReplyMode::Off), ("SKIP", ReplyMode::SkipNext)];
    let mode = modes.into_iter().find(|(word, _)| args.takes(word)).map(|(_, mode)| mode);
    mode.ok_or_else(|| ArgError::plain("syntax error"))
}

impl Client {
    pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
        self.answer(session, &broker.clients)
    }

    fn answer(self, session: &mut Session, clients: &registry::Clients) -> Run {
        let me = Rc::clone(&session.caller.client);
        Run::Ready(match self {
            Self::Id => Reply::count(me.id),
            Self::Info => (line(&me) + "\n").into(),
            Self::GetName => match me.about.borrow().name.clone() {
                name if name.is_empty() => Reply::Null,
                name => Reply::Bulk(name),
            },
            Self::SetName(name) => {
                me.about.borrow_mut().name = name;
                Reply::Ok
            }
            Self::LibName(name) => {
                me.about.borrow_mut().lib_name = name;
                Reply::Ok
            }
            Self::LibVer(version) => {
                me.about.borrow_mut().lib_ver = version;
                Reply::Ok
            }
            Self::List(ids) => {
                let mut listed = clients.list();
                listed.retain(|client| ids.as_ref().is_none_or(|ids| ids.contains(&client.id)));
                listed.iter().fold(String::new(), |text, client| text + &line(client) + "\n").into()
            }
            Self::Kill(filter) => {
                let mut killed = clients.list();
                killed.retain(|client| filter.means(client, &me));
                let count = Reply::count(killed.len().try_into().unwrap_or(u64::MAX));
                return end(&killed, &me, count);
            }
            Self::KillOne(addr) => {
                let found = clients.list().into_iter().find(|c| c.addr.as_bytes() == addr);
                let Some(found) = found else {
                    return Run::Ready(ArgError::plain("No such client").into());
                };
                return end(&[found], &me, Reply::Ok);
            }
            Self::Reply(mode) => {
                let skips_in_silence =
                    (session.reply, mode) == (ReplyMode::Off, ReplyMode::SkipNext);
                if !skips_in_silence {
                    session.reply = mode;
                }
                Reply::Ok
            }
            Self::Accept => Reply::Ok,
        })
    }
}

/// Ends all of them; one that ends itself is answered first.
fn end(killed: &[Rc<registry::Client>], me: &registry::Client, reply: Reply) -> Run {
    let others = || killed.iter().filter(|client| client.id != me.id);
    others().for_each(|client| client.kill());
    if others().count() == killed.len() { Run::Ready(reply) } else { Run::Close(reply) }
}

impl Filter {
    fn means(&self, client: &registry::Client, me: &registry::Client) -> bool {
        let is = |wanted: &Option<Bytes>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.as_ref() == value.as_bytes())
        };
        self.id.is_none_or(|id| id == client.id)
            && is(&self.addr, &client.addr)
            && is(&self.laddr, &client.laddr)
            && is(&self.user, user_of(&client.about.borrow()))
            && self.normal
            && !(self.skip_me && client.id == me.id)
    }
}

fn user_of(about: &registry::About) -> &str {
    about.user.as_deref().unwrap_or(DEFAULT)
}

/// One connection as Redis shows it, as far as there is something to show.
fn line(client: &registry::Client) -> String {
    let about = client.about.borrow();
    let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
    let seconds = |since: Instant| since.elapsed().as_secs();
    let mut line = format!("id={} addr={} laddr={}", client.id, client.addr, client.laddr);
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        " name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 multi={} cmd={} user={} \
         redir=-1 resp={} lib-name={} lib-ver={}",
        text(&about.name),
        seconds(client.created),
        seconds(client.active.get()),
        if about.queued.is_some() { 'x' } else { 'N' },
        about.queued.map_or(-1, |queued| queued as i64),
        about.last_command.unwrap_or("null").to_ascii_lowercase(),
        user_of(&about),
        about.protocol as u8,
        text(&about.lib_name),
        text(&about.lib_ver),
    );
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{LocalConnection, check, refused};

    #[test]
    fn names_are_bounded() {
        let (fits, long) = ("n".repeat(NAME_BYTES_MAX), "n".repeat(NAME_BYTES_MAX + 1));
        assert!(refused(&format!("CLIENT SETNAME {fits}")).starts_with("no error"));
        for (line, what) in [
            ("CLIENT SETNAME", "Client names"),
            ("HELLO 3 SETNAME", "Client names"),
            ("CLIENT SETINFO LIB-NAME", "lib-name"),
        ] {
            let wanted = format!("ERR {what} cannot have more than 1024 bytes.");
            assert_eq!(refused(&format!("{line} {long}")), wanted);
        }
    }

    #[test]
    fn parse() {
        let of = |client| Ok(Command::Client(client));
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let filter = Filter {
            id: Some(7),
            addr: None,
            laddr: None,
            user: None,
            normal: true,
            skip_me: false,
        };
        let tracking = "ERR CLIENT TRACKING takes ON OPTIN or OFF here";
        check(&[
            ("client id", of(Client::Id)),
            ("CLIENT SETNAME me", of(Client::SetName(bytes("me")))),
            ("CLIENT SETNAME ''", of(Client::SetName(bytes("")))),
            ("CLIENT SETINFO lib-name redis-py", of(Client::LibName(bytes("redis-py")))),
            ("CLIENT SETINFO LIB-VER 'a b'", Err("ERR lib-ver cannot contain spaces")),
            ("CLIENT LIST", of(Client::List(None))),
            ("CLIENT LIST ID 1 2", of(Client::List(Some(vec![1, 2])))),
            ("CLIENT LIST TYPE normal", of(Client::List(None))),
            ("CLIENT LIST TYPE pubsub", of(Client::List(Some(vec![])))),
            ("CLIENT LIST ID x", Err("ERR Invalid client ID 'x'")),
            ("CLIENT KILL 1.2.3.4:5", of(Client::KillOne(bytes("1.2.3.4:5")))),
            ("CLIENT KILL ID 7 SKIPME no", of(Client::Kill(filter))),
            ("CLIENT KILL ID 7 SKIPME", Err("ERR syntax error: SKIPME needs a value")),
            ("CLIENT REPLY skip", of(Client::Reply(ReplyMode::SkipNext))),
            ("CLIENT REPLY x", Err("ERR syntax error")),
            ("CLIENT NO-EVICT on", of(Client::Accept)),
            ("CLIENT NO-TOUCH x", Err("ERR syntax error")),
            ("CLIENT TRACKING on optin bcast", Err(tracking)),
            ("CLIENT TRACKING on optin", of(Client::Accept)),
            ("CLIENT TRACKING OFF", of(Client::Accept)),
        ]);
    }

    #[test]
    fn seen_and_ended() {
        let mut desk = LocalConnection::new(&[]);
        let clients = desk.clients.clone();
        let other =
            clients.register("1.2.3.4:6".parse().unwrap(), "5.6.7.8:9".into(), Instant::now());
        let mut run = |line: &str| {
            desk.parse(line, |command, session| match command.unwrap() {
                Command::Client(client) => match client.answer(session, &clients) {
                    Run::Ready(reply) => format!("{reply:?}"),
                    Run::Close(reply) => format!("close {reply:?}"),
                    _ => panic!("{line}"),
                },
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(run("CLIENT ID"), "Integer(1)");
        assert_eq!(run("CLIENT GETNAME"), "Null");
        assert_eq!(run("CLIENT SETNAME me"), "Ok");
        assert_eq!(run("CLIENT GETNAME"), "Bulk(b\"me\")");
        assert!(run("CLIENT INFO").contains("id=1 addr=1.2.3.4:5 laddr=5.6.7.8:9 name=me age="));
        assert_eq!(run("CLIENT LIST").matches("id=").count(), 2);
        assert_eq!(run("CLIENT LIST ID 2").matches("id=2 ").count(), 1);
        assert_eq!(run("CLIENT KILL ID 9"), "Integer(0)");
        assert_eq!(run("CLIENT KILL ID 1"), "Integer(0)");
        assert_eq!(run("CLIENT KILL ADDR 1.2.3.4:6"), "Integer(1)");
        assert!(other.client().is_killed());
        assert_eq!(run("CLIENT KILL ID 1 SKIPME no"), "close Integer(1)");
        assert!(run("CLIENT KILL 9.9.9.9:9").contains("ERR No such client"));
    }

    /// What is answered after each command, by Redis's rules for CLIENT REPLY.
    #[test]
    fn silence() {
        let mut desk = LocalConnection::new(&[]);
        let clients = desk.clients.clone();
        let mut answered = |line: &str| {
            desk.parse(line, |command, session| {
                let before = session.reply;
                if let Ok(Command::Client(client)) = command {
                    client.answer(session, &clients);
                }
                session.answers(before)
            })
        };
        let rows = [
            ("PING", true),
            ("CLIENT REPLY SKIP", false),
            ("PING", false),
            ("PING", true),
            ("CLIENT REPLY OFF", false),
            ("PING", false),
            ("CLIENT REPLY SKIP", false),
            ("PING", false),
            ("CLIENT REPLY ON", true),
            ("PING", true),
        ];
        for (line, wanted) in rows {
            assert_eq!(answered(line), wanted, "{line}");
        }
    }
}
