//! Every command: one list, from which come the table of specs, the enum and the one match.
//!
//! A command sees no socket and no Redis: arguments in, a [`Run`] out. `parse` does no IO, `run`
//! sees no bytes. Rules for all commands (who may, number of arguments, leftovers, CLIENT REPLY)
//! are decided here and in [`gate`], once. Adding a command: its file, its `mod` line, its line in
//! the list.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, Effect, SettleLine, StoreError, Ticket, Unsent};
use crate::peers::memory::Large;
use crate::resp::{Reply, Request};

pub mod args;
mod bulk;
pub mod caller;
mod carried;
mod counts;
pub mod dq;
pub mod examples;
mod failure;
mod gate;
mod offer_reply;
pub mod redis;
pub mod session;
mod show;
mod spec;
mod sync;
mod unknown;
mod usage;

pub use args::{ArgError, Args, Rules};
pub use caller::{Caller, Door, User};
pub use counts::Counts;
pub use failure::Failure;
pub use gate::{Access, Judged, is_known};
pub use offer_reply::{answer, answer_all, answer_alone};
pub use redis::multi::Executed;
pub use session::Session;
pub use spec::{Categories, Category, Flag, Flags, Group, Kind, MANY, Parse, Spec};

/// The Redis whose behaviour clients may count on, as HELLO and INFO say it.
const REDIS_VERSION: &str = "7.4.0";

/// `any`: any door may run it; `connection`: it needs one that stays, and changes it.
macro_rules! commands {
    ($($needs:ident $variant:ident($type:ty): $($spec:path),+;)*) => {
        /// All commands; the busiest first, because names are looked up from the front.
        pub static TABLE: &[&Spec] = &[$($(&$spec),+),*];

        /// A command with its arguments, checked.
        #[derive(Debug, PartialEq)]
        pub enum Command<'a> {
            $($variant($type)),*
        }

        impl<'a> Command<'a> {
            /// Runs a command that came by a connection.
            fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
                match self {
                    $(Self::$variant(command) => commands!(@run $needs command, session, broker)),*
                }
            }

            /// Runs a command that came through any door.
            fn run_alone(self, caller: &Caller, broker: &Rc<Broker>) -> Option<Run> {
                match self {
                    $(Self::$variant(_run) => commands!(@alone $needs _run, caller, broker)),*
                }
            }
        }
    };
    (@run any $command:ident, $session:ident, $broker:ident) => {
        $command.run(&$session.caller, $broker)
    };
    (@run connection $command:ident, $session:ident, $broker:ident) => {
        $command.run($session, $broker)
    };
    (@alone any $command:ident, $caller:ident, $broker:ident) => {
        Some($command.run($caller, $broker))
    };
    (@alone connection $command:ident, $caller:ident, $broker:ident) => { None };
}

commands! {
    any Offer(dq::offer::Offer<'a>): dq::offer::SPEC;
    any Moffer(dq::moffer::Moffer<'a>): dq::moffer::SPEC;
    any Push(dq::push::Push): dq::push::SPEC;
    any Take(dq::take::Take): dq::take::SPEC;
    any Ack(dq::ack::Ack): dq::ack::SPEC;
    any Nack(dq::nack::Nack): dq::nack::SPEC;
    any Extend(dq::extend::Extend): dq::extend::SPEC;
    any Cancel(dq::cancel::Cancel): dq::cancel::SPEC;
    any Reschedule(dq::reschedule::Reschedule): dq::reschedule::SPEC;
    any Remove(dq::remove::Remove): dq::remove::SPEC;
    any Fire(dq::fire::Fire): dq::fire::SPEC;
    any Get(dq::get::Get): dq::get::SPEC;
    any Size(dq::size::Size): dq::size::SPEC;
    any Peek(dq::peek::Peek): dq::peek::SPEC;
    any Range(dq::range::Range): dq::range::SPEC;
    any Find(dq::find::Find): dq::find::SPEC;
    any Timeline(dq::timeline::Timeline): dq::timeline::SPEC;
    any Contains(dq::contains::Contains): dq::contains::SPEC;
    any Poll(dq::poll::Poll): dq::poll::SPEC;
    any Clear(dq::clear::Clear): dq::clear::SPEC;
    any Convert(dq::convert::Convert): dq::convert::SPEC;
    any Pause(dq::pause::Pause): dq::pause::SPEC;
    any Resume(dq::resume::Resume): dq::resume::SPEC;
    any Setup(dq::setup::Setup): dq::setup::SPEC;
    any Taken(dq::taken::Taken): dq::taken::SPEC;
    any Dead(dq::dead::Dead): dq::dead::SPEC;
    any Cron(dq::cron::Cron): dq::cron::SPEC;
    any Quarantine(dq::quarantine::Quarantine): dq::quarantine::SPEC;
    any Queues(dq::queues::Queues): dq::queues::SPEC;
    any QueueInfo(dq::info::QueueInfo): dq::info::SPEC;
    connection Multi(redis::multi::Multi): redis::multi::MULTI, redis::multi::EXEC,
        redis::multi::DISCARD;
    any Help(dq::help::Help): dq::help::SPEC;
    connection Basic(redis::basic::Basic): redis::basic::PING,
        redis::basic::ECHO, redis::basic::QUIT, redis::basic::RESET, redis::basic::SELECT;
    connection Hello(redis::hello::Hello<'a>): redis::hello::SPEC;
    connection Auth(redis::auth::Auth<'a>): redis::auth::SPEC;
    connection Client(redis::client::Client): redis::client::SPEC;
    any Time(redis::time::Time): redis::time::SPEC;
    any Introspect(redis::command::Introspect): redis::command::SPEC;
    any Config(redis::config::Config): redis::config::SPEC;
    connection Acl(redis::acl::Acl): redis::acl::SPEC;
    any ServerInfo(redis::info::ServerInfo): redis::info::SPEC;
    any Refused(redis::refused::Refused): redis::refused::CLUSTER, redis::refused::READONLY,
        redis::refused::READWRITE, redis::refused::ASKING, redis::refused::SENTINEL,
        redis::refused::WATCH, redis::refused::UNWATCH, redis::refused::SUBSCRIBE,
        redis::refused::UNSUBSCRIBE, redis::refused::PSUBSCRIBE, redis::refused::PUNSUBSCRIBE,
        redis::refused::SSUBSCRIBE, redis::refused::SUNSUBSCRIBE, redis::refused::PUBLISH,
        redis::refused::SPUBLISH, redis::refused::POST, redis::refused::HOST;
}

/// How a command goes on.
pub enum Run {
    Ready(Reply),
    /// In a batch; the ticket knows when it is stored.
    Offered(Ticket, ReplyForm),
    /// Several commands, the offers among them in one batch.
    Executed(Executed),
    /// To be started when everything before it is answered, and awaited before what comes after.
    Later(LocalBoxFuture<'static, Reply>),
    /// The same, but settlements of one line that follow one another share calls of the store: they
    /// are started together, and count in their order.
    Settled(SettleLine, LocalBoxFuture<'static, Reply>),
    /// The same as `Later`, but it may wait for something, as BLPOP does, until it has waited long
    /// enough: the client wants nothing more, or the broker stops.
    Parked(LocalBoxFuture<'static, Handed>, CancellationToken),
    /// A password is verified; then the session goes on as that says, and only then what comes
    /// after.
    Verified(LocalBoxFuture<'static, Then>),
    /// Answered, and then the connection ends.
    Close(Reply),
}

/// The rest of a command, for the session that it came by.
pub type Then = Box<dyn FnOnce(&mut Session) -> Run>;

/// A reply, and the messages in it, which go back if none of its bytes was sent.
pub type Handed = (Reply, Option<Unsent>);

/// How the message ids of a ticket are replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    One,
    Many,
    /// The client wants no reply.
    Nothing,
}

/// Where a command that was asked for stands in [`TABLE`]; `None` = there is none.
pub type CommandIndex = Option<usize>;

/// Runs one request of a caller that has no connection: the door of HTTP.
pub fn run_alone(
    request: Request<'_>,
    caller: &Caller,
    rules: &Rules,
    broker: &Rc<Broker>,
) -> (CommandIndex, Run) {
    let found = lookup(request.get(0).unwrap_or_default());
    let checked = check(request, found, caller, rules, &rules.access).and_then(|command| {
        let needs = Failure::NeedsConnection(found.map_or("", |(_, spec)| spec.name));
        command.run_alone(caller, broker).ok_or(needs)
    });
    let refused = |failure| Run::Ready(explained(failure, request, broker).into());
    (found.map(|(index, _)| index), checked.unwrap_or_else(refused))
}

impl Session {
    /// Runs one request. The reply is to be written in the session's protocol as it is afterwards.
    pub fn run(&mut self, request: Request<'_>, broker: &Rc<Broker>) -> (CommandIndex, Run) {
        let found = lookup(request.get(0).unwrap_or_default());
        let before = self.reply;
        let rules = Rc::clone(&self.rules);
        let (index, spec) = (found.map(|(index, _)| index), found.map(|(_, spec)| spec));
        let run = match check(request, found, &self.caller, &rules, &self.access) {
            Ok(command) if self.transaction.is_some() => {
                redis::multi::inside(command, index, self, broker)
            }
            Ok(command) => command.run(self, broker),
            Err(failure) => {
                let reply = explained(failure, request, broker).into();
                Run::Ready(redis::multi::refused(spec, reply, self))
            }
        };
        if let Some(spec) = spec {
            self.caller.client.about.borrow_mut().last_command = Some(spec.name);
        }
        let run = if self.answers(before) { run } else { run.silenced() };
        (index, run)
    }

    /// True if the request would go into a batch now. Inside a transaction only EXEC does.
    pub fn is_offer(&self, request: Request<'_>) -> bool {
        let Some(spec) = offers(request) else {
            return false;
        };
        let is_exec = spec.group == Group::Transactions;
        match &self.transaction {
            Some(transaction) => is_exec && transaction.stores(),
            None => !is_exec,
        }
    }

    /// True if the request would settle messages now.
    pub fn is_settlement(&self, request: Request<'_>) -> bool {
        let found = lookup(request.get(0).unwrap_or_default());
        self.transaction.is_none() && found.is_some_and(|(_, spec)| spec.kind == Kind::Settle)
    }
}

/// The command of a request, if it goes into a batch.
pub fn offers(request: Request<'_>) -> Option<&'static Spec> {
    let found = lookup(request.get(0).unwrap_or_default());
    found.map(|(_, spec)| spec).filter(|spec| spec.kind == Kind::Offer)
}

/// Whether the reply may be as large as `limits.reply_bytes_max`, and of which kind it is then.
pub fn large_reply(index: CommandIndex) -> Option<Large> {
    match TABLE.get(index?)?.kind {
        Kind::Messages => Some(Large::Messages),
        Kind::Search => Some(Large::Search),
        Kind::Local | Kind::Offer | Kind::Store | Kind::Settle => None,
    }
}

fn lookup(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut specs = TABLE.iter().enumerate();
    specs.find(|(_, spec)| args::is(name, spec.name)).map(|(index, spec)| (index, *spec))
}

/// The command of a request, if its caller may run it and its arguments fit.
fn check<'a>(
    request: Request<'a>,
    found: Option<(usize, &'static Spec)>,
    caller: &Caller,
    rules: &Rules,
    access: &Access,
) -> Result<Command<'a>, Failure> {
    let spec = access.admit(request, found, caller)?;
    if !spec.args.contains(&(request.len().saturating_sub(1))) {
        return Err(spec.arity_error().into());
    }
    let mut args = Args::new(request, spec, rules);
    let command = (spec.parse)(&mut args)?;
    args.finish()?;
    if let (Some(form), Some(user)) = (args.form(), &caller.user) {
        user.may_use_form(spec, form)?;
    }
    Ok(command)
}

/// Adds advice to Redis's words about an unknown command.
fn explained(failure: Failure, request: Request<'_>, broker: &Broker) -> Failure {
    match failure {
        Failure::Unknown(words) => {
            let name = request.get(0).unwrap_or_default();
            Failure::Unknown(words + &unknown::advice(name, broker.redis_place()))
        }
        failure => failure,
    }
}

impl Run {
    fn silenced(self) -> Self {
        match self {
            Self::Ready(_) => Self::Ready(Reply::Nothing),
            Self::Offered(ticket, _) => Self::Offered(ticket, ReplyForm::Nothing),
            Self::Executed(executed) => Self::Executed(Executed { silent: true, ..executed }),
            Self::Later(reply) => Self::Later(unheard(reply)),
            Self::Settled(line, reply) => Self::Settled(line, unheard(reply)),
            // What it takes goes back.
            Self::Parked(handed, enough) => {
                Self::Parked(Box::pin(handed.map(|_| (Reply::Nothing, None))), enough)
            }
            Self::Verified(then) => Self::Verified(Box::pin(then.map(|then| {
                let silenced = |session: &mut Session| then(session).silenced();
                Box::new(silenced) as Then
            }))),
            Self::Close(_) => Self::Close(Reply::Nothing),
        }
    }
}

fn unheard(reply: LocalBoxFuture<'static, Reply>) -> LocalBoxFuture<'static, Reply> {
    Box::pin(reply.map(|_| Reply::Nothing))
}

/// A call to the store whose result becomes the reply.
fn later<T: 'static>(
    broker: &Rc<Broker>,
    call: impl AsyncFnOnce(&Broker) -> Result<T, StoreError> + 'static,
    reply: impl FnOnce(T) -> Reply + 'static,
) -> Run {
    Run::Later(called(broker, call, reply))
}

/// The same for receipts of messages.
fn settled(
    line: SettleLine,
    broker: &Rc<Broker>,
    call: impl AsyncFnOnce(&Broker) -> Result<u64, StoreError> + 'static,
) -> Run {
    Run::Settled(line, called(broker, call, Reply::count))
}

fn called<T: 'static>(
    broker: &Rc<Broker>,
    call: impl AsyncFnOnce(&Broker) -> Result<T, StoreError> + 'static,
    reply: impl FnOnce(T) -> Reply + 'static,
) -> LocalBoxFuture<'static, Reply> {
    let broker = Rc::clone(broker);
    Box::pin(async move {
        match call(&broker).await {
            Ok(value) => reply(value),
            Err(error) => Failure::from(error).into(),
        }
    })
}

/// The same for a command that an operator may ask about later: a line of the log names the client.
/// `effect` is none if nothing was done.
fn logged<T: 'static>(
    caller: &Caller,
    broker: &Rc<Broker>,
    (command, queue): (&'static str, Bytes),
    call: impl AsyncFnOnce(&Broker) -> Result<T, StoreError> + 'static,
    effect: fn(&T) -> Option<Effect>,
    reply: impl FnOnce(T) -> Reply + 'static,
) -> Run {
    let client = Rc::clone(&caller.client);
    let logged = async move |broker: &Broker| {
        let done = call(broker).await;
        let did = match &done {
            Ok(done) => effect(done).map(Some),
            Err(StoreError::Uncertain(_)) => Some(None),
            Err(_) => None,
        };
        if let Some(effect) = did {
            broker.activity.record(command, &queue, &client, effect);
        }
        done
    };
    later(broker, logged, reply)
}

#[cfg(test)]
pub(super) mod tests;
