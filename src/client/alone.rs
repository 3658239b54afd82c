//! Callers without a connection that stays: the requests of HTTP, on the broker's thread.
//!
//! Each request says who it is, and is one command. It passes the same gate as a command of a
//! connection, with the same verification of passwords, the same counters and the same turn at
//! Redis. Knows no HTTP. Keeps: a command that was begun is run to its end, also if nobody waits
//! for the reply any more; messages that were taken for nobody go back.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::broker::Broker;
use crate::client::call;
use crate::client::connection::CurrentSettings;
use crate::client::sessions::{Sessions, Token};
use crate::client::settings::Settings;
use crate::command::redis::auth::{BUSY, Judging, Verdict, judge, wrong_password};
use crate::command::{self, Caller, Counts, Door, Run, User};
use crate::config::DEFAULT;
use crate::peers::guesses;
use crate::peers::registry::{About, Client};
use crate::resp::{Protocol, Reply, Words};

/// The name that lines of the log show for its clients.
const NAME: &[u8] = b"http";
/// Commands under way, those among them whose callers have left.
const UNDER_WAY_MAX: usize = 256;

/// A request, and who makes it.
pub struct Ask {
    pub from: SocketAddr,
    pub who: Who,
    pub wants: Wants,
}

/// How a caller says who it is.
#[derive(Clone)]
pub enum Who {
    Nobody,
    Login(Login),
    /// By the token of a session.
    Session(Token),
}

impl From<Option<Login>> for Who {
    fn from(login: Option<Login>) -> Self {
        login.map_or(Self::Nobody, Self::Login)
    }
}

/// Name and password of a user. No name: `default`.
#[derive(Clone)]
pub struct Login {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

pub enum Wants {
    /// To be let in.
    Entry,
    /// To see the metrics, which name all queues.
    Metrics,
    /// A session: its token.
    Session,
    /// The end of its session.
    Leave,
    /// To know its name, and what it may run.
    Rights,
    /// What the audit of Redis found, for who may run INFO.
    Findings,
    Command(Words),
}

/// The reply to a request.
pub struct Done {
    pub reply: Reply,
    /// The caller is to wait so long for it, since its password was wrong.
    pub wait: Duration,
    /// The connection ends behind it.
    pub close: bool,
}

impl From<Reply> for Done {
    fn from(reply: Reply) -> Self {
        Self { reply, wait: Duration::ZERO, close: false }
    }
}

/// The broker, to callers of this kind.
pub struct Alone {
    pub broker: Rc<Broker>,
    counts: Counts,
    settings: CurrentSettings,
    sessions: Sessions,
    under_way: RefCell<JoinSet<()>>,
    stopping: Cell<bool>,
}

impl Alone {
    pub fn new(broker: &Rc<Broker>, settings: CurrentSettings) -> Rc<Self> {
        Rc::new(Self {
            broker: Rc::clone(broker),
            counts: Counts::new(&broker.metrics),
            settings,
            sessions: Sessions::default(),
            under_way: RefCell::default(),
            stopping: Cell::new(false),
        })
    }

    /// Begins to answer a request.
    pub fn begin(self: &Rc<Self>, ask: Ask, reply: oneshot::Sender<Done>) {
        let mut under_way = self.under_way.borrow_mut();
        while under_way.try_join_next().is_some() {}
        let refused = match under_way.len() {
            _ if self.stopping.get() => "the broker is stopping",
            0..UNDER_WAY_MAX => {
                let alone = Rc::clone(self);
                under_way.spawn_local(async move { alone.answer(ask, reply).await });
                return;
            }
            _ => "too many requests of callers that have left are under way",
        };
        drop(reply.send(Reply::Error(format!("UNAVAILABLE {refused}")).into()));
    }

    /// Takes no more requests, and waits until those that were begun are answered.
    pub async fn drain(&self) {
        self.stopping.set(true);
        let mut under_way = self.under_way.take();
        while under_way.join_next().await.is_some() {}
    }

    async fn answer(&self, ask: Ask, mut reply: oneshot::Sender<Done>) {
        let Ask { from, who, wants } = ask;
        if let (Wants::Leave, Who::Session(token)) = (&wants, &who) {
            self.sessions.end(token);
        }
        let user = match self.user(from, who).await {
            Ok(user) => user,
            Err(refused) => return drop(reply.send(refused)),
        };
        let settings = self.settings.borrow().clone();
        let done = match (wants, user) {
            (Wants::Command(words), user) => {
                return self.run(words, user, from, &settings, &mut reply).await.tell(reply);
            }
            (Wants::Leave, _) => Ok(Reply::Ok),
            (_, None) => Err(command::Failure::NoAuth),
            (Wants::Entry, Some(_)) => Ok(Reply::Ok),
            (Wants::Session, Some(user)) => Ok(self.session(user)),
            (Wants::Rights, Some(user)) => Ok(self.rights(&user)),
            (Wants::Findings, Some(user)) => user.may_see_broker().map(|()| self.findings()),
            (Wants::Metrics, Some(user)) => user.may_see_all().map(|()| Reply::Ok),
        };
        drop(reply.send(done.unwrap_or_else(Reply::from).into()));
    }

    /// The user that a caller is; none where it has to say a password, and did not.
    async fn user(&self, from: SocketAddr, who: Who) -> Result<Option<Rc<User>>, Done> {
        let access = || Rc::clone(&self.settings.borrow().rules.access);
        let Login { user, password } = match who {
            Who::Login(login) => login,
            Who::Nobody => return Ok(access().without_password()),
            Who::Session(token) => {
                let user = self.sessions.user(&access(), &token);
                return Ok(user.or_else(|| access().without_password()));
            }
        };
        let name = if user.is_empty() { DEFAULT.as_bytes() } else { &user };
        let from = from.to_string();
        let verdict = match judge(&access(), &self.broker, name, &password, &from) {
            Judging::Done(verdict) => verdict,
            Judging::UnderWay(verdict) => verdict.await.still(&access(), &self.broker, &from),
        };
        let answer = match verdict {
            Verdict::Right(user) => return Ok(Some(user)),
            Verdict::Busy => return Err(Reply::Error(format!("UNAVAILABLE {BUSY}")).into()),
            Verdict::Wrong(answer) => answer,
        };
        let mut done = Done::from(wrong_password());
        match answer {
            guesses::Answer::Now => {}
            guesses::Answer::Close => done.close = true,
            guesses::Answer::After(wait, place) => {
                done.wait = wait;
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(wait).await;
                    drop(place);
                });
            }
        }
        Err(done)
    }

    fn session(&self, user: Rc<User>) -> Reply {
        let access = Rc::clone(&self.settings.borrow().rules.access);
        match self.sessions.begin(&access, user) {
            Some(token) => Reply::Bulk(Bytes::copy_from_slice(&token)),
            None => Reply::Error("UNAVAILABLE this machine gives no random numbers".to_owned()),
        }
    }

    /// Word and sentence of each.
    fn findings(&self) -> Reply {
        let each = self.broker.audited.sentences().into_iter();
        let each = each.map(|(word, text)| Reply::Array(vec![word.into(), text.into()]));
        Reply::Array(each.collect())
    }

    /// The name, and the names of what it may run.
    fn rights(&self, user: &User) -> Reply {
        let given = self.settings.borrow().rules.access.given(user);
        let given = given.into_iter().map(Reply::from).collect();
        Reply::Array(vec![user.name.clone().into(), Reply::Array(given)])
    }

    async fn run(
        &self,
        words: Words,
        user: Option<Rc<User>>,
        from: SocketAddr,
        settings: &Settings,
        waiting: &mut oneshot::Sender<Done>,
    ) -> Outcome {
        let (broker, request) = (&self.broker, words.request());
        let most = settings.request.args_max;
        if request.len() > most {
            let text = format!("TOOMANY more arguments than {most} (limits.arguments_max)");
            return Outcome::from(Reply::Error(text));
        }
        let name = user.as_ref().map(|user| user.name.clone()).filter(|name| name != DEFAULT);
        let about = About { user: name, name: Bytes::from_static(NAME), ..About::default() };
        let caller = Caller {
            user,
            door: Door::Http,
            protocol: Protocol::Resp3,
            client: Client::apart(from, about),
            tied: OnceCell::new(),
        };
        let first = match command::offers(request) {
            Some(_) => Rc::clone(broker.offers()).room(None).await,
            None => None,
        };
        // Nobody would know that it was done.
        if waiting.is_closed() {
            return Outcome::from(Reply::Nothing);
        }
        let (index, run) = command::run_alone(request, &caller, &settings.rules, broker);
        drop(first);
        broker.commands.set(broker.commands.get() + 1);
        let mut unsent = None;
        let reply = match run {
            Run::Ready(reply) | Run::Close(reply) => reply,
            Run::Offered(ticket, form) => {
                broker.offers().flush();
                command::answer_alone(&ticket, form).await
            }
            Run::Later(reply) | Run::Settled(_, reply) => {
                let (memory, at_most) = (Rc::clone(&broker.memory), settings.reply_timeout);
                // The permit ends here: the thread of HTTP has a bound of its own for replies.
                call::with_permit(reply, index, memory, at_most).await.reply
            }
            Run::Parked(mut handed, enough) => {
                let (reply, taken) = tokio::select! {
                    handed = &mut handed => handed,
                    () = waiting.closed() => {
                        enough.cancel();
                        handed.await
                    }
                };
                unsent = taken;
                reply
            }
            // The gate lets no command through that needs a session.
            Run::Executed(_) | Run::Verified(_) => {
                Reply::Error("INTERNAL the command needs a connection".to_owned())
            }
        };
        self.counts.count(index, &reply);
        Outcome { reply, unsent }
    }
}

struct Outcome {
    reply: Reply,
    unsent: Option<crate::broker::Unsent>,
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self { reply, unsent: None }
    }
}

impl Outcome {
    /// Messages of which nobody hears go back.
    fn tell(self, waiting: oneshot::Sender<Done>) {
        let Self { reply, unsent } = self;
        if waiting.send(reply.into()).is_ok()
            && let Some(unsent) = unsent
        {
            unsent.sent();
        }
    }
}
