//! The links to the backing Redis: the only user of the client library.
//!
//! fred repeats commands silently by default, its buffer limit and unresponsive check do not work
//! under load, and a plain timeout around its futures lets commands run later. So here: one write
//! attempt, no buffer limit (the callers bound what they send), fred's own timeout, and a watchdog
//! that asks TIME once a second and forces a reconnection after two misses. A link never repeats a
//! call, but for NOSCRIPT, where nothing ran.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::WithOptions;
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, ServerConfig, TcpConfig, UnresponsiveConfig,
};
use fred::types::{ClusterHash, CustomCommand, Value};
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;

use crate::clock::{Clock, Sampled, monotonic_us};
use crate::metrics::Metrics;
use crate::store::answer::Answer;
use crate::store::script::{ALL, Script};

/// Where the backing Redis is.
#[derive(Clone, Debug)]
pub enum Backend {
    Url(String),
    Unix { path: std::path::PathBuf },
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

/// How often the watchdog asks for TIME.
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
}

impl LinkContext {
    fn config(&self) -> Result<Config, String> {
        let mut config = match &self.backend {
            Backend::Url(url) => {
                Config::from_url(url).map_err(|error| error.details().to_owned())?
            }
            Backend::Unix { path } => Config {
                server: ServerConfig::Unix { path: path.clone() },
                ..Config::default()
            },
        };
        // The daemon may start before its Redis.
        config.fail_fast = false;
        Ok(config)
    }

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

    fn builder(&self) -> Result<Builder, String> {
        let mut builder = Builder::from_config(self.config()?);
        builder.set_connection_config(self.connection());
        builder.set_policy(ReconnectPolicy::new_exponential(0, 20, 1_000, 2));
        builder.with_performance_config(|performance| {
            performance.broadcast_channel_capacity = PUBLICATIONS_MAX;
        });
        Ok(builder)
    }
}

/// One connection for commands and scripts.
pub struct Link {
    pub name: &'static str,
    client: WithOptions<Client>,
    context: LinkContext,
    up: Cell<bool>,
    reconnecting: Rc<Cell<bool>>,
    /// Local time at which a connection to a replica was given up last.
    left_replica_at: Cell<u64>,
    came_up: Notify,
}

impl Link {
    /// Starts to connect and goes on trying for ever; does not wait.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn start(name: &'static str, context: LinkContext) -> Result<Rc<Self>, String> {
        let client = context
            .builder()?
            .build()
            .map_err(|error| error.to_string())?;
        let options = Options {
            max_attempts: Some(1),
            timeout: Some(context.call_timeout),
            ..Options::default()
        };
        let link = Rc::new(Self {
            name,
            client: client.with_options(&options),
            context,
            up: Cell::new(false),
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

    /// Waits until the link is up, at most so long.
    pub async fn wait_up(&self, at_most: Duration) -> bool {
        let came_up = self.came_up.notified();
        self.is_up() || tokio::time::timeout(at_most, came_up).await.is_ok()
    }

    /// Runs a script by its hash; loads it where Redis does not have it.
    pub async fn eval(
        &self,
        script: &'static Script,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<Answer, LinkError> {
        let values = || {
            let mut values: Vec<Value> = Vec::with_capacity(keys.len() + args.len() + 2);
            values.push(Value::String(script.sha().into()));
            values.push(Value::Integer(keys.len() as i64));
            values.extend(keys.iter().chain(args).cloned().map(Value::Bytes));
            values
        };
        let sent = monotonic_us();
        let reply = match self.send("EVALSHA", values()).await {
            Err(LinkError::Refused(text)) if text.starts_with("NOSCRIPT") => {
                self.send("SCRIPT", vec!["LOAD".into(), script.source.into()])
                    .await?;
                self.send("EVALSHA", values()).await
            }
            reply => reply,
        };
        let received = monotonic_us();
        let answer = Answer::new(reply?).map_err(|error| LinkError::Refused(error.to_string()))?;
        self.context
            .metrics
            .script(script.name, (received - sent) as f64 / 1e6);
        self.sample(sent, received, answer.now_us);
        Ok(answer)
    }

    /// Sends one command. Not for anything that writes and must not be lost.
    pub async fn command(
        &self,
        name: &'static str,
        args: Vec<Bytes>,
    ) -> Result<BytesFrame, LinkError> {
        self.send(name, args.into_iter().map(Value::Bytes).collect())
            .await
    }

    async fn send(&self, name: &'static str, args: Vec<Value>) -> Result<BytesFrame, LinkError> {
        if !self.is_up() {
            return Err(LinkError::NotSent(format!(
                "the link '{}' to Redis is down",
                self.name
            )));
        }
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        match self.client.custom_raw(command, args).await {
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
    pub fn reconnect(&self) {
        if self.reconnecting.replace(true) {
            return;
        }
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
            self.reconnect();
        }
        LinkError::Refused(text)
    }

    /// Ends the link; waits a moment for what was sent.
    pub async fn quit(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.client.quit()).await;
    }

    fn set_up(&self, up: bool, why: &str) {
        if self.up.replace(up) == up {
            return;
        }
        self.context.metrics.link_up(self.name, up);
        if up {
            tracing::info!(link = self.name, "connected to Redis");
            self.came_up.notify_waiters();
        } else {
            tracing::warn!(link = self.name, why, "the link to Redis is down");
        }
    }

    async fn load_scripts(&self) {
        for script in ALL {
            if self
                .send("SCRIPT", vec!["LOAD".into(), script.source.into()])
                .await
                .is_err()
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
                link.set_up(false, &error.to_string());
            }
            Ok(_) = connections.recv() => {
                let Some(link) = link.upgrade() else { return };
                if std::mem::replace(&mut connected_before, true) {
                    link.context.metrics.reconnected(link.name);
                }
                link.set_up(true, "");
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
        match link.send("TIME", Vec::new()).await {
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
            link.set_up(false, "TIME was not answered");
            link.reconnect();
        }
    }
}

/// One connection that listens. Publications are hints: they may be lost.
pub struct Subscription {
    client: SubscriberClient,
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
    /// A URL that cannot be read.
    pub fn start(context: &LinkContext) -> Result<Self, String> {
        let client = context
            .builder()?
            .build_subscriber_client()
            .map_err(|error| error.to_string())?;
        client.connect();
        Ok(Self { client })
    }

    /// Listens until the client library ends. `channel` holds no `*`, `?`, `[` or
    /// `\\`.
    pub async fn listen(&self, pattern: &'static str, channel: &str, heard: impl Fn(Heard)) {
        use tokio::sync::broadcast::error::RecvError;
        let mut connections = self.client.reconnect_rx();
        let mut messages = self.client.message_rx();
        loop {
            let event = tokio::select! {
                biased;
                connected = connections.recv() => match connected {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        // One command: what is heard on the channel proves the pattern too.
                        let both = vec![pattern, channel];
                        if self.client.psubscribe(both).await.is_err() {
                            self.reconnect().await;
                            continue;
                        }
                        Heard::Subscribed
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
