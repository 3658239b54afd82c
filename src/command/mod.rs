//! Every command: one list, from which come the table of specs, the enum and the one match.
//!
//! A command sees no socket and no Redis: arguments in, a [`Run`] out. `parse` does no IO, `run`
//! sees no bytes. What is the same for all (name, password, number of arguments, leftovers, CLIENT
//! REPLY) is decided here, once. Adding a command: its file, its `mod` line, its line in the list.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::broker::{Broker, Ticket};
use crate::queue::Shown;
use crate::resp::{Reply, Request};
use crate::store::StoreError;

pub mod answer;
pub mod args;
mod auth;
mod basic;
mod cancel;
mod clear;
mod client;
mod config;
mod contains;
mod convert;
mod fire;
mod get;
mod hello;
mod help;
mod introspect;
mod message;
mod moffer;
mod offer;
mod pause;
mod peek;
mod poll;
mod quarantine;
mod queue_info;
mod queues;
mod range;
mod refused;
mod remove;
mod reschedule;
mod resume;
mod server_info;
pub mod session;
mod size;
mod usage;

pub use answer::{Counts, answer};
pub use args::{ArgError, Args, Rules};
pub use session::Session;

/// The Redis whose behaviour clients may count on, as HELLO and INFO say it.
const REDIS_VERSION: &str = "7.4.0";

/// For `Spec::args` of commands that take any number.
const MANY: usize = usize::MAX;

/// What is known about a command before it runs.
pub struct Spec {
    /// Upper case.
    pub name: &'static str,
    /// What comes after the name; `usage.rs` says the grammar.
    pub usage: &'static str,
    pub summary: &'static str,
    /// How many arguments after the name.
    pub args: RangeInclusive<usize>,
    pub kind: Kind,
    pub group: Group,
    /// As COMMAND lists them.
    pub flags: &'static [&'static str],
    pub parse: Parse,
}

/// Reads the arguments; that none is left over is checked for all.
pub type Parse = for<'a> fn(&mut Args<'a, '_>) -> Result<Command<'a>, ArgError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answered at once, from what the broker knows.
    Local,
    /// Packed into a batch, answered together with others.
    Offer,
    /// Runs when all before it are answered.
    Store,
    /// The same, and its reply holds messages: it may be as large as `limits.reply_bytes_max`.
    Messages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The queue is the first argument.
    Queue,
    /// About the broker or all queues.
    Server,
    Connection,
    /// What Redis has and this broker has not: answered with an error, not listed.
    Refused,
}

impl Spec {
    pub fn full_usage(&self) -> String {
        format!("{} {}", self.name, self.usage)
            .trim_end()
            .to_owned()
    }

    /// Redis's wording; then how it should have been, where Redis's documentation does not help.
    pub fn arity_error(&self) -> ArgError {
        let name = self.name.to_ascii_lowercase();
        let wrong = format!("wrong number of arguments for '{name}' command");
        match name.starts_with("dq.") {
            true => ArgError::plain(format_args!("{wrong}; usage: {}", self.full_usage())),
            false => ArgError::plain(wrong),
        }
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! commands {
    ($($variant:ident($type:ty): $($spec:path),+;)*) => {
        /// All commands; the busiest first, because names are looked up from the front.
        pub static TABLE: &[&Spec] = &[$($(&$spec),+),*];

        /// A command with its arguments, checked.
        pub enum Command<'a> {
            $($variant($type)),*
        }

        impl<'a> Command<'a> {
            pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
                match self {
                    $(Self::$variant(command) => command.run(session, broker)),*
                }
            }
        }

        impl fmt::Debug for Command<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(command) => command.fmt(f)),*
                }
            }
        }
    };
}

commands! {
    Offer(offer::Offer<'a>): offer::SPEC;
    Moffer(moffer::Moffer<'a>): moffer::SPEC;
    Cancel(cancel::Cancel): cancel::SPEC;
    Reschedule(reschedule::Reschedule): reschedule::SPEC;
    Remove(remove::Remove): remove::SPEC;
    Fire(fire::Fire): fire::SPEC;
    Get(get::Get): get::SPEC;
    Size(size::Size): size::SPEC;
    Peek(peek::Peek): peek::SPEC;
    Range(range::Range): range::SPEC;
    Contains(contains::Contains): contains::SPEC;
    Poll(poll::Poll): poll::SPEC;
    Clear(clear::Clear): clear::SPEC;
    Convert(convert::Convert): convert::SPEC;
    Pause(pause::Pause): pause::SPEC;
    Resume(resume::Resume): resume::SPEC;
    Quarantine(quarantine::Quarantine): quarantine::SPEC;
    Queues(queues::Queues): queues::SPEC;
    QueueInfo(queue_info::QueueInfo): queue_info::SPEC;
    Help(help::Help): help::SPEC;
    Basic(basic::Basic): basic::PING, basic::ECHO, basic::TIME, basic::QUIT, basic::RESET,
        basic::SELECT;
    Hello(hello::Hello<'a>): hello::SPEC;
    Auth(auth::Auth<'a>): auth::SPEC;
    Client(client::Client): client::SPEC;
    Introspect(introspect::Introspect): introspect::SPEC;
    Config(config::Config): config::SPEC;
    ServerInfo(server_info::ServerInfo): server_info::SPEC;
    Refused(refused::Refused): refused::CLUSTER, refused::READONLY, refused::READWRITE,
        refused::ASKING, refused::SENTINEL, refused::MULTI, refused::EXEC, refused::DISCARD,
        refused::WATCH, refused::UNWATCH, refused::SUBSCRIBE, refused::UNSUBSCRIBE,
        refused::PSUBSCRIBE, refused::PUNSUBSCRIBE, refused::SSUBSCRIBE, refused::SUNSUBSCRIBE,
        refused::PUBLISH, refused::SPUBLISH, refused::POST, refused::HOST;
}

/// How a command goes on.
pub enum Run {
    Ready(Reply),
    /// In a batch; the ticket knows when it is stored.
    Offered(Ticket, Form),
    /// To be started when everything before it is answered, and awaited before what comes after.
    Later(LocalBoxFuture<'static, Reply>),
    /// Answered, and then the connection ends.
    Close(Reply),
}

/// What becomes of a ticket's message ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    One,
    Many,
    /// The client wants no reply.
    Silent,
}

/// The place in [`TABLE`] of a command that was asked for; `None` = unknown.
pub type Place = Option<usize>;

/// Runs one request. The reply is to be written in `session.protocol` as it is afterwards.
pub fn run(request: Request<'_>, session: &mut Session, broker: &Rc<Broker>) -> (Place, Run) {
    let found = lookup(request.get(0).unwrap_or_default());
    let before = session.reply;
    let rules = Rc::clone(&session.rules);
    let run = match parse(request, found, session.authenticated, &rules) {
        Ok(command) => command.run(session, broker),
        Err(error) => Run::Ready(error.into()),
    };
    if let Some((_, spec)) = found {
        session.client.about.borrow_mut().last_command = spec.name;
    }
    let run = if session.answers(before) {
        run
    } else {
        run.silenced()
    };
    (found.map(|(place, _)| place), run)
}

/// Whether it would go into a batch.
pub fn is_offer(request: Request<'_>) -> bool {
    let found = lookup(request.get(0).unwrap_or_default());
    found.is_some_and(|(_, spec)| spec.kind == Kind::Offer)
}

/// Whether the reply may be as large as `limits.reply_bytes_max`.
pub fn has_large_reply(place: Place) -> bool {
    let spec = place.and_then(|place| TABLE.get(place));
    spec.is_some_and(|spec| spec.kind == Kind::Messages)
}

fn lookup(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut specs = TABLE.iter().enumerate();
    specs
        .find(|(_, spec)| args::is(name, spec.name))
        .map(|(place, spec)| (place, *spec))
}

fn parse<'a>(
    request: Request<'a>,
    found: Option<(usize, &'static Spec)>,
    authenticated: bool,
    rules: &Rules,
) -> Result<Command<'a>, Failure> {
    let open = |spec: &Spec| matches!(spec.name, "HELLO" | "AUTH" | "QUIT" | "RESET");
    if !authenticated && !found.is_some_and(|(_, spec)| open(spec)) {
        return Err(Failure::NoAuth);
    }
    let Some((place, spec)) = found else {
        return Err(unknown(request).into());
    };
    if rules.disabled.get(place) == Some(&true) {
        return Err(Failure::Disabled(spec.name));
    }
    if !spec.args.contains(&(request.len().saturating_sub(1))) {
        return Err(spec.arity_error().into());
    }
    let mut args = Args::new(request, spec, rules);
    let command = (spec.parse)(&mut args)?;
    args.finish()?;
    Ok(command)
}

/// Redis's wording to the letter: clients parse it to find out what a server has.
fn unknown(request: Request<'_>) -> ArgError {
    const SHOWN_MAX: usize = 128;
    let plain = |raw: &[u8], max: usize| {
        let cut = raw.get(..max).unwrap_or(raw);
        // Printable characters as they are; the rest would break the line or not be text.
        cut.iter().fold(String::new(), |text, &b| match b {
            b' '..=b'~' => text + char::from(b).encode_utf8(&mut [0; 4]),
            _ => text + &b.escape_ascii().to_string(),
        })
    };
    let mut shown = String::new();
    for value in request.iter().skip(1) {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        shown += &format!("'{}' ", plain(value, SHOWN_MAX - shown.len()));
    }
    let name = plain(request.get(0).unwrap_or_default(), SHOWN_MAX);
    ArgError::plain(format_args!(
        "unknown command '{name}', with args beginning with: {shown}"
    ))
}

impl Run {
    fn silenced(self) -> Self {
        match self {
            Self::Ready(_) => Self::Ready(Reply::Nothing),
            Self::Offered(ticket, _) => Self::Offered(ticket, Form::Silent),
            Self::Later(reply) => Self::Later(Box::pin(async move {
                reply.await;
                Reply::Nothing
            })),
            Self::Close(_) => Self::Close(Reply::Nothing),
        }
    }
}

/// A call to the store whose result becomes the reply.
fn later<T: 'static>(
    broker: &Rc<Broker>,
    call: impl AsyncFnOnce(&Broker) -> Result<T, StoreError> + 'static,
    reply: impl FnOnce(T) -> Reply + 'static,
) -> Run {
    let broker = Rc::clone(broker);
    Run::Later(Box::pin(async move {
        match call(&broker).await {
            Ok(value) => reply(value),
            Err(error) => Failure::from(error).into(),
        }
    }))
}

/// Everything that can be wrong with a command.
#[derive(Debug)]
pub enum Failure {
    Arg(ArgError),
    Store(StoreError),
    NoAuth,
    Disabled(&'static str),
}

impl From<ArgError> for Failure {
    fn from(error: ArgError) -> Self {
        Self::Arg(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ArgError> for Reply {
    fn from(error: ArgError) -> Self {
        Failure::from(error).into()
    }
}

/// The one place where errors become replies: first word = code, then a sentence.
impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Reply::Error(match failure {
            Failure::Arg(error) => error.to_string(),
            Failure::NoAuth => "NOAUTH Authentication required.".to_owned(),
            Failure::Disabled(name) => {
                let name = name.to_ascii_lowercase();
                format!("NOPERM the command '{name}' is disabled in this broker's configuration")
            }
            Failure::Store(StoreError::BadQueue { owner }) => {
                let owner = Shown(&owner);
                format!("BADQUEUE the keys of this queue already belong to the queue {owner}")
            }
            Failure::Store(StoreError::WrongType { key }) => {
                format!(
                    "WRONGTYPE the key {key} holds a value of another type; nothing was changed"
                )
            }
            Failure::Store(error @ StoreError::BadCursor) => format!("ERR {error}"),
            Failure::Store(error @ StoreError::TooManyQueues { .. }) => format!("TOOMANY {error}"),
            Failure::Store(StoreError::Unavailable(why)) => format!("UNAVAILABLE {why}"),
            Failure::Store(StoreError::Uncertain(why)) => format!("UNCERTAIN {why}"),
            Failure::Store(StoreError::Internal(why)) => format!("INTERNAL {why}"),
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
