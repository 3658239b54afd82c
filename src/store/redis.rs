//! The links to the backing Redis: the only user of the client library.
//!
//! fred repeats commands silently by default, its buffer limit and unresponsive check do not work
//! under load, and a plain timeout around its futures lets commands run later. So here: one write
//! attempt, no buffer limit (the callers bound what they send), fred's own timeout, and a watchdog
//! that asks TIME once a second and forces a reconnection after two misses. A link never repeats a
//! call, but for NOSCRIPT, where nothing ran.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::{Client, SubscriberClient};
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, ServerConfig, TcpConfig, TlsConfig,
    UnresponsiveConfig,
};
use fred::types::{ClusterHash, CustomCommand, Value};
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;

use crate::clock::{Clock, Sampled, monotonic_us};
use crate::config::{Place, RedisTls, RedisUrl, Secret};
use crate::metrics::Metrics;
use crate::store::answer::Answer;
use crate::store::script::{ALL, Script};

mod tls;
mod why;

/// Where the backing Redis is, and as whom to go there.
#[derive(Clone)]
pub struct Backend(Config);

impl Backend {
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn given(url: &RedisUrl, tls: &RedisTls) -> Result<Self, String> {
        let server = match &url.place {
            Place::Tcp { host, port, .. } => ServerConfig::new_centralized(host, *port),
            Place::Unix { path } => ServerConfig::Unix { path: path.clone() },
        };
        let connector = url.tls().then(|| tls::connector(tls)).transpose()?;
        Ok(Self(Config {
            username: url.user.clone(),
            password: url.password.as_ref().map(Secret::expose).map(str::to_owned),
            database: Some(url.database).filter(|database| *database > 0),
            tls: connector.map(TlsConfig::from),
            ..at(server)
        }))
    }

    /// At the socket of a Redis without users.
    pub fn unix(path: PathBuf) -> Self {
        Self(at(ServerConfig::Unix { path }))
    }

    /// The ACL user, if one was named.
    pub fn user(&self) -> Option<&str> {
        self.0.username.as_deref()
    }
}

fn at(server: ServerConfig) -> Config {
    Config {
        server,
        // The daemon may start before its Redis.
        fail_fast: false,
        ..Config::default()
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// Surely not applied: the link is down, nothing was sent.
    NotSent(String),
    /// Sent, and no answer came: applied or not.
    Broken(String),
    /// Redis's own error reply.
    Refused(String),
}

/// The longest wait between two attempts to connect: delivery goes on within a second of the return
/// of Redis, and this is a part of it.
const RECONNECT_WAIT_MAX: Duration = Duration::from_millis(100);
/// So often a script that Redis does not have is loaded for one call.
const LOADS_MAX: usize = 3;
/// How often the watchdog asks for TIME, and how long it waits for an answer.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Misses in a row after which the connection is given up.
const WATCH_MISSES: u32 = 2;
/// A connection to a replica is given up at most this often.
const REPLICA_PAUSE: Duration = Duration::from_secs(1);
/// Publications that may wait in the client library before some are dropped (then all queues are
/// looked at).
const PUBLICATIONS_MAX: usize = 8192;

/// What all links of one broker share.
#[derive(Clone)]
pub struct LinkContext {
    pub backend: Backend,
    pub connect_timeout: Duration,
    pub call_timeout: Duration,
    pub clock: Rc<Clock>,
    pub metrics: Metrics,
    /// Told when a sample shows that Redis's clock stepped.
    pub stepped: Rc<Notify>,
    /// Why Redis cannot be reached, as last logged: the links fail together, and again and again.
    pub told: Rc<RefCell<String>>,
}

impl LinkContext {
    fn connection(&self) -> ConnectionConfig {
        ConnectionConfig {
            connection_timeout: self.connect_timeout,
            internal_command_timeout: self.connect_timeout,
            max_command_attempts: 1,
            // Otherwise the client library breaks the link on LOADING and READONLY, and an error
            // reply of Redis looks like a call whose outcome nobody knows.
            reconnect_errors: Vec::new(),
            auto_client_setname: false,
            tcp: TcpConfig {
                nodelay: Some(true),
                ..TcpConfig::default()
            },
            unresponsive: UnresponsiveConfig {
                max_timeout: Some(Duration::from_secs(5)),
                interval: Duration::from_secs(1),
            },
            ..ConnectionConfig::default()
        }
    }

    fn builder(&self) -> Builder {
        let mut builder = Builder::from_config(self.backend.0.clone());
        builder.set_connection_config(self.connection());
        // Refused at once or not answered at all: either way Redis is found within so long of its
        // return.
        let (first_ms, longest_ms) = (20, RECONNECT_WAIT_MAX.as_millis() as u32);
        builder.set_policy(ReconnectPolicy::new_exponential(0, first_ms, longest_ms, 2));
        builder.with_performance_config(|performance| {
            performance.broadcast_channel_capacity = PUBLICATIONS_MAX;
        });
        builder
    }
}

/// One connection for commands and scripts.
pub struct Link {
    pub name: &'static str,
    client: Client,
    context: LinkContext,
    up: Cell<bool>,
    /// How often it came up.
    connections: Cell<u64>,
    /// The last error of the connection.
    why_down: RefCell<String>,
    reconnecting: Rc<Cell<bool>>,
    /// Local time at which a connection to a replica was given up last.
    left_replica_at: Cell<u64>,
    came_up: Notify,
}

impl Link {
    /// Starts to connect and goes on trying for ever; does not wait.
    ///
    /// # Errors
    /// Settings that the client library refuses.
    pub fn start(name: &'static str, context: LinkContext) -> Result<Rc<Self>, String> {
        let client = context
            .builder()
            .build()
            .map_err(|error| error.to_string())?;
        let link = Rc::new(Self {
            name,
            client: client.clone(),
            context,
            up: Cell::new(false),
            connections: Cell::new(0),
            why_down: RefCell::default(),
            reconnecting: Rc::default(),
            left_replica_at: Cell::new(0),
            came_up: Notify::new(),
        });
        link.context.metrics.link_up(name, false);
        tokio::task::spawn_local(watch(Rc::downgrade(&link), client.clone()));
        tokio::task::spawn_local(ask_time(Rc::downgrade(&link)));
        client.connect();
        Ok(link)
    }

    pub fn is_up(&self) -> bool {
        self.up.get()
    }

    /// Why there is no connection, after a colon; nothing where that is not known.
    pub fn why_down(&self) -> String {
        match self.why_down.borrow().as_str() {
            why if why.is_empty() || self.is_up() => String::new(),
            why => format!(": {why}"),
        }
    }

    /// How often the link came up.
    pub fn connections(&self) -> u64 {
        self.connections.get()
    }

    /// Waits until the link came up more often than that.
    pub async fn connected_again(&self, connections: u64) {
        while self.connections() <= connections {
            self.came_up.notified().await;
        }
    }

    /// Waits until the link is up, at most so long.
    pub async fn wait_up(&self, at_most: Duration) -> bool {
        let came_up = self.came_up.notified();
        self.is_up() || tokio::time::timeout(at_most, came_up).await.is_ok()
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
        let values = || {
            let mut values: Vec<Value> = Vec::with_capacity(keys.len() + args.len() + 2);
            values.push(Value::String(script.sha().into()));
            values.push(Value::Integer(keys.len() as i64));
            let keys = keys.iter().map(Borrow::<Bytes>::borrow);
            let strings = keys.chain(args.iter().map(Borrow::borrow));
            values.extend(strings.cloned().map(Value::Bytes));
            values
        };
        let sent = monotonic_us();
        let mut reply = self.send("EVALSHA", values(), at_most).await;
        // Somebody may flush the scripts between the two calls again.
        for _ in 0..LOADS_MAX {
            match &reply {
                Err(LinkError::Refused(text)) if text.starts_with("NOSCRIPT") => {}
                _ => break,
            }
            let load = vec!["LOAD".into(), script.source.into()];
            self.send("SCRIPT", load, at_most).await?;
            reply = self.send("EVALSHA", values(), at_most).await;
        }
        let received = monotonic_us();
        let answer = Answer::new(reply?).map_err(|error| LinkError::Refused(error.to_string()))?;
        self.context
            .metrics
            .script(script.name, (received - sent) as f64 / 1e6);
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
        args: Vec<Bytes>,
    ) -> Result<BytesFrame, LinkError> {
        let args = args.into_iter().map(Value::Bytes).collect();
        self.send(name, args, self.context.call_timeout).await
    }

    async fn send(
        &self,
        name: &'static str,
        args: Vec<Value>,
        at_most: Duration,
    ) -> Result<BytesFrame, LinkError> {
        if !self.is_up() {
            return Err(LinkError::NotSent(format!(
                "the link '{}' is down{}",
                self.name,
                self.why_down()
            )));
        }
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let options = Options {
            max_attempts: Some(1),
            // The client library takes zero for no timeout.
            timeout: Some(at_most.max(Duration::from_millis(1))),
            ..Options::default()
        };
        let client = self.client.with_options(&options);
        // Boxed: each call holds this future, and most calls are moved before they are made.
        match Box::pin(client.custom_raw(command, args)).await {
            Ok(BytesFrame::SimpleError { data, .. }) => Err(self.refused(data.to_string())),
            Ok(BytesFrame::BlobError { data, .. }) => {
                Err(self.refused(String::from_utf8_lossy(&data).into_owned()))
            }
            Ok(frame) => Ok(frame),
            // There is no connection just now: not written, and with one attempt it never will be.
            Err(error) if error.details() == "Failed to route command." => {
                Err(LinkError::NotSent(error.to_string()))
            }
            Err(error) => Err(LinkError::Broken(error.to_string())),
        }
    }

    fn sample(&self, sent: u64, received: u64, redis_us: u64) {
        if self.context.clock.sample(sent, received, redis_us) == Sampled::Stepped {
            self.context.stepped.notify_one();
        }
    }

    /// Drops the connection and makes a new one: what is under way on it is lost. Does not wait for
    /// the new one, which may take until Redis is back.
    pub fn reconnect(&self, why: &str) {
        if self.reconnecting.replace(true) {
            return;
        }
        // What is sent from now on waits for the new connection.
        self.went_down(why);
        let (client, reconnecting) = (self.client.clone(), self.reconnecting.clone());
        tokio::task::spawn_local(async move {
            // An error only says that the client is stopping.
            let _ = client.force_reconnection().await;
            reconnecting.set(false);
        });
    }

    /// Redis's own error reply. A server that has become a replica may have a successor at the same
    /// address.
    fn refused(&self, text: String) -> LinkError {
        let now = monotonic_us();
        let since_us = now.saturating_sub(self.left_replica_at.get());
        if text.starts_with("READONLY") && since_us > REPLICA_PAUSE.as_micros() as u64 {
            self.left_replica_at.set(now);
            self.reconnect(&text);
        }
        LinkError::Refused(text)
    }

    /// Ends the link; waits a moment for what was sent.
    pub async fn quit(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.client.quit()).await;
    }

    fn came_up(&self) {
        self.context.told.borrow_mut().clear();
        if !self.up.replace(true) {
            self.context.metrics.link_up(self.name, true);
            tracing::info!(link = self.name, "connected to Redis");
        }
        self.connections.set(self.connections.get() + 1);
        self.came_up.notify_waiters();
    }

    fn went_down(&self, why: &str) {
        let mut told = self.context.told.borrow_mut();
        self.why_down.replace(why.to_owned());
        if self.up.replace(false) {
            self.context.metrics.link_up(self.name, false);
            tracing::warn!(link = self.name, why, "the link to Redis is down");
        } else if *told != why {
            tracing::warn!(why, "Redis cannot be reached");
        }
        why.clone_into(&mut told);
    }

    /// Loads what is missing: Redis 6 writes each load into its append-only file.
    async fn load_scripts(&self) {
        let timeout = self.context.call_timeout;
        let shas = ALL.iter().map(|script| script.sha().into());
        let ask = std::iter::once("EXISTS".into()).chain(shas).collect();
        let known = match self.send("SCRIPT", ask, timeout).await {
            Ok(BytesFrame::Array { data, .. }) => data,
            _ => Vec::new(),
        };
        for (place, script) in ALL.iter().enumerate() {
            let load = vec!["LOAD".into(), script.source.into()];
            if !matches!(known.get(place), Some(BytesFrame::Number { data: 1, .. }))
                && self.send("SCRIPT", load, timeout).await.is_err()
            {
                // NOSCRIPT loads it later; a broken link starts over.
                return;
            }
        }
    }
}

/// Keeps `up` true to the connection. Ends with the link.
///
/// Nothing is waited for between two events, so that they are seen in the order in which they
/// happen. Of two that wait here together the error goes first: a link taken for up comes to light
/// with the next call or TIME, one taken for down would stay so until the connection breaks.
async fn watch(link: std::rc::Weak<Link>, client: Client) {
    let mut connections = client.reconnect_rx();
    let mut errors = client.error_rx();
    let mut connected_before = false;
    loop {
        tokio::select! {
            biased;
            Ok((error, _)) = errors.recv() => {
                let Some(link) = link.upgrade() else { return };
                link.went_down(&why::words(&error.to_string()));
            }
            Ok(_) = connections.recv() => {
                let Some(link) = link.upgrade() else { return };
                if std::mem::replace(&mut connected_before, true) {
                    link.context.metrics.reconnected(link.name);
                }
                link.came_up();
                tokio::task::spawn_local(async move { link.load_scripts().await });
            }
            else => return,
        }
    }
}

/// Asks TIME once a second, and gives the connection up where nothing answers. Ends with the link.
async fn ask_time(link: std::rc::Weak<Link>) {
    let mut interval = tokio::time::interval(WATCH_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut misses = 0;
    loop {
        interval.tick().await;
        let Some(link) = link.upgrade() else { return };
        if !link.is_up() {
            misses = 0;
            continue;
        }
        let sent = monotonic_us();
        match link.send("TIME", Vec::new(), WATCH_INTERVAL).await {
            Ok(frame) => {
                misses = 0;
                if let Some(now_us) = Answer::time(&frame) {
                    link.sample(sent, monotonic_us(), now_us);
                }
            }
            // LOADING and BUSY are answers: the link works.
            Err(LinkError::Refused(_)) => misses = 0,
            Err(LinkError::NotSent(_) | LinkError::Broken(_)) => misses += 1,
        }
        if misses >= WATCH_MISSES {
            misses = 0;
            link.reconnect("TIME was not answered");
        }
    }
}

/// One connection that listens. Publications are hints: they may be lost.
pub struct Subscription {
    client: SubscriberClient,
    call_timeout: Duration,
    /// Redis's words where it refused the last attempt; `None` before the first one.
    refused: RefCell<Option<String>>,
    /// That has changed.
    tried: Notify,
}

/// What the subscription heard.
#[derive(Debug)]
pub enum Heard {
    /// The link is new, or was lost and is back: everything may have been missed.
    Subscribed,
    Published {
        channel: Bytes,
        message: Bytes,
    },
    /// Publications were dropped because nobody read them in time.
    Lagged,
}

impl Subscription {
    /// Starts to connect, and subscribes to a pattern and a channel at each connection.
    ///
    /// # Errors
    /// Settings that the client library refuses.
    pub fn start(context: &LinkContext) -> Result<Self, String> {
        let client = context
            .builder()
            .build_subscriber_client()
            .map_err(|error| error.to_string())?;
        client.connect();
        Ok(Self {
            client,
            call_timeout: context.call_timeout,
            refused: RefCell::default(),
            tried: Notify::new(),
        })
    }

    /// What is heard on the channel proves the connection, and so the pattern. (As patterns both
    /// were one command, but whoever may not know the channel's name before can only be given the
    /// right to SUBSCRIBE to it.)
    async fn subscribe(&self, pattern: &'static str, channel: &str) -> Result<(), String> {
        let mut answered = self
            .answered("PSUBSCRIBE", self.client.psubscribe(pattern))
            .await;
        if answered.is_ok() {
            answered = self
                .answered("SUBSCRIBE", self.client.subscribe(channel))
                .await;
        }
        let refused = answered
            .as_ref()
            .err()
            .filter(|words| words.contains("NOPERM"));
        let refused = Some(refused.cloned().unwrap_or_default());
        if self.refused.replace(refused.clone()) != refused {
            self.tried.notify_waiters();
        }
        answered
    }

    /// The client library does not wait for the answer to a subscription, and drops it. One that
    /// refuses stands in the place of the next command's: so a PING follows at once.
    async fn answered(
        &self,
        command: &str,
        sent: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), String> {
        let options = Options {
            max_attempts: Some(1),
            timeout: Some(self.call_timeout),
            ..Options::default()
        };
        let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
        let asking = self.client.with_options(&options);
        let asked = asking.custom_raw(ping, Vec::<Value>::new());
        let (sent, answer) = futures_util::future::join(sent, asked).await;
        let named = |words: &str| Err(format!("{command} {words}"));
        match (sent, answer) {
            (Err(error), _) | (_, Err(error)) => named(error.details()),
            (_, Ok(BytesFrame::SimpleError { data, .. })) => named(&data),
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Waits until what `refusal` says is something else.
    pub async fn refusal_changed(&self) {
        self.tried.notified().await;
    }

    /// Whether our user has no right to subscribe.
    pub fn is_refused(&self) -> bool {
        self.refused
            .borrow()
            .as_ref()
            .is_some_and(|words| !words.is_empty())
    }

    /// The command and Redis's words where it refuses to subscribe, empty where it does not; waits
    /// for the first attempt, at most so long.
    pub async fn refusal(&self, at_most: Duration) -> String {
        let tried = self.tried.notified();
        if self.refused.borrow().is_none() {
            let _ = tokio::time::timeout(at_most, tried).await;
        }
        self.refused.borrow().clone().unwrap_or_default()
    }

    /// Listens until the client library ends.
    pub async fn listen(&self, pattern: &'static str, channel: &str, heard: impl Fn(Heard)) {
        use tokio::sync::broadcast::error::RecvError;
        let mut connections = self.client.reconnect_rx();
        let mut messages = self.client.message_rx();
        loop {
            let event = tokio::select! {
                biased;
                connected = connections.recv() => match connected {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        match self.subscribe(pattern, channel).await {
                            Ok(()) => Heard::Subscribed,
                            // The heartbeat stays away, so it is tried again after a while.
                            Err(words) if words.contains("NOPERM") => continue,
                            Err(_) => {
                                self.reconnect().await;
                                continue;
                            }
                        }
                    }
                    Err(RecvError::Closed) => return,
                },
                message = messages.recv() => match message {
                    Ok(message) => Heard::Published {
                        channel: Bytes::copy_from_slice(message.channel.as_bytes()),
                        message: message.value.into_bytes().unwrap_or_default(),
                    },
                    Err(RecvError::Lagged(_)) => Heard::Lagged,
                    Err(RecvError::Closed) => return,
                },
            };
            heard(event);
        }
    }

    /// Drops the connection and makes a new one, which subscribes again.
    pub async fn reconnect(&self) {
        let _ = self.client.force_reconnection().await;
    }

    pub async fn quit(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.client.quit()).await;
    }
}
