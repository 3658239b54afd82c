//! The script link: one connection that carries script calls and every command with a key.
//!
//! ```text
//! caller -> Link -> Pipe (encodes; a queue of waiting calls) -> one write a turn -> Redis
//! caller <-------- oldest waiting call <- Reader (bounds) <-------- large reads <-
//! ```
//!
//! A link repeats nothing, but for NOSCRIPT, where nothing ran, and follows no redirection. Where
//! the connection ends, what is under way fails at once, and the link connects again by itself:
//! [`connect`] says why that fails. TIME is asked once a second; two misses end the connection.
//! It knows no lane and no queue.

mod connect;
mod pipe;
pub(super) mod tls;
mod why;

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use crate::store::answer::Answer;
use crate::store::backend::Backend;
use crate::store::clock::{Clock, Sampled, monotonic_us};
use crate::store::master::Master;
use crate::store::says;
use crate::store::script::{ALL, Script};
use connect::REPLY_BYTES_MAX;
pub(super) use connect::{Connect, Connected, cause, next};
use pipe::Pipe;
pub(super) use why::{Peer, words};

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// Surely not applied: nothing was sent.
    NotSent(String),
    /// Sent, and no answer came: applied or not.
    Broken(String),
    /// Redis's own error reply.
    Refused(String),
}

/// The waits between two attempts to connect: delivery goes on within a second of the return of
/// Redis, and the longest is a part of it.
pub(super) const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(20);
pub(super) const RECONNECT_WAIT_MAX: Duration = Duration::from_millis(100);
/// A connection that ended sooner is no progress: the waits go on growing.
const LASTED: Duration = Duration::from_secs(1);
/// The link that carries no scripts.
pub(super) const PLAIN: &str = "plain";
/// Maximum times a missing script is loaded for one call.
const LOADS_MAX: usize = 3;
/// How often the watchdog asks for TIME, and how long it waits for an answer.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Misses in a row after which the connection is given up.
const WATCH_MISSES: u32 = 2;
/// A connection to a replica is given up at most this often.
const REPLICA_PAUSE: Duration = Duration::from_secs(1);
/// How long the end waits for the answers that are under way.
const QUIT_WITHIN: Duration = Duration::from_secs(1);

/// The things that all links of one broker share.
#[derive(Clone)]
pub struct LinkContext {
    pub backend: Backend,
    pub master: Rc<Master>,
    pub connect_timeout: Duration,
    pub call_timeout: Duration,
    pub clock: Rc<Clock>,
    pub metrics: Metrics,
    /// Beside it one that is fed by all nodes of a Cluster.
    pub clock_of_all: Option<Rc<Clock>>,
    /// Told when a sample shows that Redis's clock stepped.
    pub stepped: Rc<Notify>,
    /// Why Redis cannot be reached, as last logged: the links fail together, and again and again.
    pub told: Rc<RefCell<String>>,
    /// Redis has answered since the start, on any link.
    pub answered: Rc<Cell<bool>>,
    /// Of the node, among those of a Cluster; 0: there is one Redis.
    pub number: u64,
    /// Links that are down, of any node: name and number.
    pub down: Rc<RefCell<BTreeSet<(&'static str, u64)>>>,
}

impl LinkContext {
    /// A link of this node is up or not; shown are those of all nodes as one.
    pub fn link_up(&self, name: &'static str, up: bool) {
        let mut down = self.down.borrow_mut();
        match up {
            true => down.remove(&(name, self.number)),
            false => down.insert((name, self.number)),
        };
        self.metrics.link_up(name, !down.iter().any(|(other, _)| *other == name));
    }
}

pub struct Link {
    pub name: &'static str,
    context: LinkContext,
    /// `None` while it is down.
    pipe: RefCell<Option<Rc<Pipe>>>,
    /// How often it came up.
    connections: Cell<u64>,
    /// The last error of the connection.
    why_down: RefCell<String>,
    /// Local time at which a connection to a replica was given up last.
    left_replica_at: Cell<u64>,
    came_up: Notify,
    /// While it is down.
    down_since: Cell<Option<Instant>>,
    tasks: RefCell<Vec<AbortHandle>>,
}

/// The name of a link's connections, as CLIENT LIST of Redis shows them.
pub(super) fn client_name(link: &str) -> String {
    format!("delay-broker-{link}")
}

impl Link {
    /// Starts to connect and goes on trying until [`Link::quit`]; does not wait.
    pub fn start(name: &'static str, context: LinkContext) -> Rc<Self> {
        let link = Rc::new(Self {
            name,
            context,
            pipe: RefCell::default(),
            connections: Cell::new(0),
            why_down: RefCell::default(),
            left_replica_at: Cell::new(0),
            came_up: Notify::new(),
            down_since: Cell::new(Some(Instant::now())),
            tasks: RefCell::default(),
        });
        link.context.link_up(name, false);
        let tasks = [
            tokio::task::spawn_local(run(link.clone())),
            tokio::task::spawn_local(watch(link.clone(), WATCH_INTERVAL)),
        ];
        link.tasks.borrow_mut().extend(tasks.map(|task| task.abort_handle()));
        if link.context.master.can_move() {
            let task = tokio::task::spawn_local(follow(link.clone()));
            link.tasks.borrow_mut().push(task.abort_handle());
        }
        link
    }

    /// True if Sentinels say where its Redis is.
    pub fn can_move(&self) -> bool {
        self.context.master.can_move()
    }

    /// How long a call of so long may be valid for Redis.
    pub fn valid_for(&self, at_most: Duration) -> Duration {
        self.context.master.valid_for(at_most)
    }

    /// How long the outcome of an interrupted call is looked for.
    pub fn settle_within(&self, at_least: Duration) -> Duration {
        self.context.master.settle_within(at_least)
    }

    pub fn is_up(&self) -> bool {
        self.pipe.borrow().is_some()
    }

    /// True if it is down for so long.
    pub fn is_down_since(&self, long: Duration) -> bool {
        self.down_since.get().is_some_and(|since| since.elapsed() >= long)
    }

    /// Why there is no connection, after a colon; nothing where that is not known.
    pub fn why_down(&self) -> String {
        match self.why_down.borrow().as_str() {
            why if why.is_empty() || self.is_up() => String::new(),
            why => format!(": {why}"),
        }
    }

    /// How often the link came up: the number of its connection.
    pub fn connections(&self) -> u64 {
        self.connections.get()
    }

    /// Its connection, among those of all links of a kind.
    pub fn connection(&self) -> u64 {
        self.context.number << 32 | self.connections.get()
    }

    /// Waits until the link came up more often than that.
    pub async fn connected_again(&self, connections: u64) {
        while self.connections() <= connections {
            self.came_up.notified().await;
        }
    }

    /// Waits until it is sure where to send what writes, for a moment.
    pub async fn caught_up(&self) {
        self.context.master.caught_up().await;
    }

    /// Waits until the link is up, at most so long.
    pub async fn wait_up(&self, at_most: Duration) -> bool {
        self.caught_up().await;
        let came_up = self.came_up.notified();
        self.is_up() || timeout(at_most, came_up).await.is_ok()
    }

    /// Waits until the link comes up the next time.
    pub async fn comes_up(&self) {
        self.came_up.notified().await;
    }

    /// Runs a script by its hash, at most so long; loads it where Redis does not have it.
    pub async fn eval(
        &self,
        script: &'static Script,
        keys: &[impl Borrow<Bytes>],
        args: &[impl Borrow<Bytes>],
        at_most: Duration,
    ) -> Result<Answer, LinkError> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(keys.len() + args.len() + 3);
        let count = keys.len().to_string();
        parts.extend([b"EVALSHA", script.sha().as_bytes(), count.as_bytes()]);
        parts.extend(keys.iter().map(|key| &key.borrow()[..]));
        parts.extend(args.iter().map(|arg| &arg.borrow()[..]));
        let deadline = Instant::now() + at_most;
        let left = || deadline.saturating_duration_since(Instant::now());
        let sent = monotonic_us();
        let mut reply = self.call(&parts, at_most).await;
        // Somebody may flush the scripts between the two calls again.
        for _ in 0..LOADS_MAX {
            match &reply {
                Err(LinkError::Refused(text)) if text.starts_with("NOSCRIPT") => {}
                _ => break,
            }
            self.load(script, left()).await?;
            reply = self.call(&parts, left()).await;
        }
        let received = monotonic_us();
        let answer = Answer::new(reply?).map_err(|error| LinkError::Refused(error.to_string()))?;
        self.context.metrics.script(script.name, (received - sent) as f64 / 1e6);
        // 0: the time was refused.
        if answer.now_us > 0 {
            self.sample(sent, received, answer.now_us);
        }
        Ok(answer)
    }

    /// Sends one command. Not for anything that writes and must not be lost.
    pub async fn command(
        &self,
        name: &'static str,
        args: &[impl Borrow<Bytes>],
    ) -> Result<BytesFrame, LinkError> {
        let args = args.iter().map(|arg| &arg.borrow()[..]);
        let parts: Vec<&[u8]> = std::iter::once(name.as_bytes()).chain(args).collect();
        self.call(&parts, self.context.call_timeout).await
    }

    /// One call, at most so long. Given up on, it runs all the same.
    pub async fn call(&self, parts: &[&[u8]], at_most: Duration) -> Result<BytesFrame, LinkError> {
        let down = || {
            let why = self.why_down();
            LinkError::NotSent(format!("the link '{}' is down{why}", self.name))
        };
        let pipe = self.pipe.borrow().clone().ok_or_else(down)?;
        let reply = pipe.call(parts.iter().copied())?;
        match timeout(at_most, reply).await {
            Ok(Ok(Err(LinkError::Refused(text)))) => {
                self.refused(&text);
                Err(LinkError::Refused(text))
            }
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(LinkError::Broken("the link ended".into())),
            Err(_) => {
                let ms = at_most.as_millis();
                Err(LinkError::Broken(format!("Redis did not answer in {ms} ms")))
            }
        }
    }

    fn sample(&self, sent: u64, received: u64, redis_us: u64) {
        if let Some(clock) = &self.context.clock_of_all {
            clock.sample(sent, received, redis_us);
        }
        if self.context.clock.sample(sent, received, redis_us) == Sampled::Stepped {
            self.context.stepped.notify_one();
        }
    }

    /// Ends the connection: what is under way on it fails at once. Another one is made.
    pub fn abandon(&self, why: &str) {
        let pipe = self.pipe.borrow().clone();
        if let Some(pipe) = pipe {
            self.went_down(why);
            pipe.abandon(why);
        }
    }

    /// Redis refused something in these words, also where a script hands them on. A server that has
    /// become a replica may have a successor at the same address.
    pub fn refused(&self, text: &str) {
        let now = monotonic_us();
        let since_us = now.saturating_sub(self.left_replica_at.get());
        if says(text, "READONLY") && since_us > REPLICA_PAUSE.as_micros() as u64 {
            self.left_replica_at.set(now);
            self.abandon(text);
        }
    }

    /// Ends the link; waits a moment for what was sent.
    pub async fn quit(&self) {
        if self.is_up() {
            // Answers come in order: behind this one all are there.
            let _ = self.call(&[b"PING"], QUIT_WITHIN).await;
        }
        self.tasks.take().iter().for_each(AbortHandle::abort);
        if let Some(pipe) = self.pipe.take() {
            pipe.abandon("the broker stops");
        }
        // Of a node that has left a Cluster nothing is shown.
        if self.context.number > 0 {
            self.context.link_up(self.name, true);
        }
    }

    async fn dial(&self) -> Result<Connected, String> {
        let LinkContext { backend, master, connect_timeout, answered, .. } = &self.context;
        let (at, name) = (&master.first_place().await?, &client_name(self.name));
        let peer = if answered.get() { Peer::Known } else { Peer::Unknown };
        let (within, questions, reply_bytes_max) =
            (*connect_timeout, master.questions(), REPLY_BYTES_MAX);
        let connect =
            Connect { at, login: &backend.login, name, peer, within, questions, reply_bytes_max };
        let connected = connect.connect().await?;
        master.admits(&connected.answers, within).await?;
        Ok(connected)
    }

    fn came_up(&self) -> Rc<Pipe> {
        let pipe = Rc::new(Pipe::default());
        self.context.told.borrow_mut().clear();
        self.context.answered.set(true);
        self.pipe.replace(Some(pipe.clone()));
        self.down_since.set(None);
        self.context.link_up(self.name, true);
        tracing::info!(link = self.name, "connected to Redis");
        if self.connections.replace(self.connections.get() + 1) > 0 {
            self.context.metrics.reconnected(self.name);
        }
        self.came_up.notify_waiters();
        pipe
    }

    fn went_down(&self, why: &str) {
        let mut told = self.context.told.borrow_mut();
        self.why_down.replace(why.to_owned());
        if self.pipe.take().is_some() {
            self.down_since.set(Some(Instant::now()));
            self.context.link_up(self.name, false);
            tracing::warn!(link = self.name, why, "the link to Redis is down");
        } else if *told != why {
            tracing::warn!(why, "Redis cannot be reached");
        }
        why.clone_into(&mut told);
    }

    /// Loads what is missing: Redis 6 writes each load into its append-only file.
    async fn load_scripts(&self) {
        let timeout = self.context.call_timeout;
        let shas = ALL.iter().map(|script| script.sha().as_bytes());
        let ask: Vec<&[u8]> = [&b"SCRIPT"[..], b"EXISTS"].into_iter().chain(shas).collect();
        let known = match self.call(&ask, timeout).await {
            Ok(BytesFrame::Array { data, .. }) => data,
            _ => Vec::new(),
        };
        for (place, script) in ALL.iter().enumerate() {
            if !matches!(known.get(place), Some(BytesFrame::Number { data: 1, .. }))
                && self.load(script, timeout).await.is_err()
            {
                // NOSCRIPT loads it later; a broken link starts over.
                return;
            }
        }
    }

    async fn load(&self, script: &Script, at_most: Duration) -> Result<(), LinkError> {
        self.call(&[b"SCRIPT", b"LOAD", script.source().as_bytes()], at_most).await.map(drop)
    }
}

/// Connects, serves the connection until it ends, and connects again, until the link quits.
async fn run(link: Rc<Link>) {
    let mut wait = RECONNECT_WAIT_MIN;
    let master = link.context.master.clone();
    loop {
        let named = master.named();
        let dialed = tokio::select! {
            biased;
            () = master.named_beyond(named) => continue,
            dialed = link.dial() => dialed,
        };
        match dialed {
            Ok(Connected { stream, reader, .. }) => {
                let (pipe, begun) = (link.came_up(), Instant::now());
                if link.name != PLAIN {
                    let loading = link.clone();
                    tokio::task::spawn_local(async move { loading.load_scripts().await });
                }
                let why = pipe.drive(stream, reader).await;
                // Not where it was abandoned: that was said then.
                if link.is_up() {
                    link.went_down(&words(&why, Peer::Known));
                }
                if begun.elapsed() >= LASTED {
                    wait = RECONNECT_WAIT_MIN;
                }
            }
            Err(why) => link.went_down(&why),
        }
        if timeout(wait, master.named_beyond(named)).await.is_ok() {
            wait = RECONNECT_WAIT_MIN;
        }
        wait = (2 * wait).min(RECONNECT_WAIT_MAX);
    }
}

/// Leaves a master as soon as another one is named.
async fn follow(link: Rc<Link>) {
    let master = &link.context.master;
    loop {
        master.named_beyond(master.named()).await;
        link.abandon("the Sentinels name another master");
    }
}

/// Asks TIME once in an interval until the link quits, and gives up a connection that does not
/// answer.
async fn watch(link: Rc<Link>, every: Duration) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut misses = 0;
    loop {
        interval.tick().await;
        let pipe = link.pipe.borrow().clone();
        let Some(pipe) = pipe else {
            misses = 0;
            continue;
        };
        let signs_of_life = pipe.signs_of_life();
        let sent = monotonic_us();
        let answer = link.call(&[b"TIME"], every).await;
        if let Ok(frame) = &answer
            && let Some(now_us) = Answer::time(frame)
        {
            link.sample(sent, monotonic_us(), now_us);
        }
        // LOADING and BUSY are answers, and so is a part of a large reply that is before TIME's; a
        // large call before TIME takes its time, too.
        let missed = matches!(answer, Err(LinkError::NotSent(_) | LinkError::Broken(_)))
            && pipe.signs_of_life() == signs_of_life;
        misses = if missed { misses + 1 } else { 0 };
        if misses >= WATCH_MISSES {
            misses = 0;
            link.abandon("TIME was not answered");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::Place;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    pub(in crate::store) const SOON: Duration = Duration::from_secs(10);
    /// Of the watchdog.
    const EVERY: Duration = Duration::from_millis(200);

    /// Takes the next connection of a link, answers its handshake, and says that it knows all
    /// scripts.
    pub(in crate::store) async fn accept(listener: &TcpListener) -> TcpStream {
        let (mut redis, _) = listener.accept().await.unwrap();
        takes(&mut redis, "PING").await;
        redis.write_all(b"+OK\r\n+PONG\r\n").await.unwrap();
        takes(&mut redis, ALL.last().unwrap().sha()).await;
        let known = format!("*{}\r\n{}", ALL.len(), ":1\r\n".repeat(ALL.len()));
        redis.write_all(known.as_bytes()).await.unwrap();
        redis
    }

    /// Reads until a command with this word has come.
    async fn takes(redis: &mut TcpStream, word: &str) {
        let mut taken = Vec::new();
        while !String::from_utf8_lossy(&taken).ends_with(&format!("{word}\r\n")) {
            assert_ne!(redis.read_buf(&mut taken).await.unwrap(), 0, "{word} did not come");
        }
    }

    pub(in crate::store) async fn with_link<T: Future<Output = ()>>(
        test: impl FnOnce(Rc<Link>, TcpListener) -> T,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = Place::Tcp { host: "127.0.0.1".into(), port, tls: false };
        let context = LinkContext {
            backend: Backend::unix("".into(), String::new()),
            master: Rc::new(Master::fixed(at)),
            connect_timeout: SOON,
            call_timeout: SOON,
            clock: Rc::default(),
            metrics: Metrics::new(1),
            stepped: Rc::default(),
            told: Rc::default(),
            answered: Rc::default(),
            clock_of_all: None,
            number: 0,
            down: Rc::default(),
        };
        let local = tokio::task::LocalSet::new();
        let scene = async {
            let link = Link::start("test", context);
            // Nothing but the test's calls: no TIME once a second.
            link.tasks.borrow().last().unwrap().abort();
            test(link, listener).await;
        };
        local.run_until(scene).await;
    }

    #[tokio::test]
    async fn a_late_reply_is_nobodys() {
        with_link(|link, listener| async move {
            let down = link.call(&[b"GET", b"a"], SOON).await.unwrap_err();
            assert_eq!(down, LinkError::NotSent("the link 'test' is down".into()));
            let mut redis = accept(&listener).await;
            assert!(link.wait_up(SOON).await);
            let late = link.call(&[b"GET", b"a"], Duration::from_millis(10)).await.unwrap_err();
            assert_eq!(late, LinkError::Broken("Redis did not answer in 10 ms".into()));
            let next = link.call(&[b"GET", b"b"], SOON);
            let answers = async {
                takes(&mut redis, "b").await;
                redis.write_all(b"$1\r\nA\r\n$1\r\nB\r\n").await.unwrap();
            };
            let (next, ()) = futures_util::future::join(next, answers).await;
            let data = Bytes::from_static(b"B");
            assert_eq!(next.unwrap(), BytesFrame::BlobString { data, attributes: None });
        })
        .await;
    }

    /// The epoch counts connections; a replica is left once, and then borne with for a while.
    #[tokio::test]
    async fn it_connects_again_by_itself() {
        with_link(|link, listener| async move {
            let redis = accept(&listener).await;
            link.connected_again(0).await;
            drop(redis);
            let mut redis = accept(&listener).await;
            link.connected_again(1).await;
            let [first, second] = [(); 2].map(|()| link.call(&[b"SET", b"k", b"v"], SOON));
            let answers = async {
                takes(&mut redis, "v").await;
                redis.write_all(b"-ERR in a script: -READONLY replica\r\n").await.unwrap();
            };
            let (first, second, ()) = futures_util::future::join3(first, second, answers).await;
            let text = "ERR in a script: -READONLY replica".to_owned();
            assert_eq!(first.unwrap_err(), LinkError::Refused(text.clone()));
            assert_eq!(second.unwrap_err(), LinkError::Broken(text));
            let mut redis = accept(&listener).await;
            link.connected_again(2).await;
            let again = link.call(&[b"SET", b"k", b"v"], SOON);
            let answers = async {
                takes(&mut redis, "v").await;
                redis.write_all(b"-READONLY replica\r\n").await.unwrap();
            };
            let (again, ()) = futures_util::future::join(again, answers).await;
            assert_eq!(again.unwrap_err(), LinkError::Refused("READONLY replica".into()));
            assert_eq!(link.connections(), 3);
            assert!(link.is_up());
        })
        .await;
    }

    /// Only where two TIMEs in a row bring nothing at all.
    #[tokio::test]
    async fn a_connection_that_does_not_answer_is_given_up() {
        with_link(|link, listener| async move {
            let mut redis = accept(&listener).await;
            link.connected_again(0).await;
            let watching = tokio::task::spawn_local(watch(link.clone(), EVERY));
            for answer in ["*2\r\n$1\r\n1\r\n$1\r\n0\r\n", "-LOADING it\r\n", "+a part", "\r\n"] {
                takes(&mut redis, "TIME").await;
                redis.write_all(answer.as_bytes()).await.unwrap();
            }
            takes(&mut redis, "TIME").await;
            assert!(link.is_up());
            takes(&mut redis, "TIME").await;
            accept(&listener).await;
            watching.abort();
            assert_eq!(link.why_down(), "");
            assert_eq!(*link.why_down.borrow(), "TIME was not answered");
        })
        .await;
    }

    /// TIME waits behind a call that takes many intervals to be sent.
    #[tokio::test]
    async fn a_connection_that_takes_a_large_call_is_kept() {
        with_link(|link, listener| async move {
            let mut redis = accept(&listener).await;
            link.connected_again(0).await;
            let watching = tokio::task::spawn_local(watch(link.clone(), EVERY));
            let large = vec![b'x'; 48 << 20];
            let parts = [&b"SET"[..], b"k", &large];
            let call = link.call(&parts, 6 * SOON);
            let slowly = async {
                let (mut piece, mut left) = (vec![0; 1 << 20], large.len());
                let mut pause = tokio::time::interval(EVERY / 5);
                while left > large.len() / 2 {
                    pause.tick().await;
                    left -= redis.read_exact(&mut piece).await.unwrap();
                }
                while left > 0 {
                    left = left.saturating_sub(redis.read(&mut piece).await.unwrap());
                }
                redis.write_all(b"+OK\r\n").await.unwrap();
            };
            let (call, ()) = futures_util::future::join(call, slowly).await;
            assert!(call.is_ok(), "{call:?}");
            watching.abort();
        })
        .await;
    }
}
