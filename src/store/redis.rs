//! The part that the client library carries: the subscription, and commands without a key, which
//! may be repeated or lost.
//!
//! fred repeats commands silently by default, its buffer limit and unresponsive check do not work
//! under load, and a plain timeout around its futures lets commands run later. So here: one write
//! attempt, no buffer limit (the callers bound what they send), fred's own timeout, and after two
//! commands in a row that time out another connection.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::{Client, SubscriberClient};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, ServerConfig, TcpConfig, TlsConfig,
    TlsConnector, UnresponsiveConfig,
};
use fred::types::{ClusterHash, CustomCommand, Value};
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::config::{Place, Secret};
use crate::metrics::Metrics;
use crate::store::link::{
    LinkContext, LinkError, RECONNECT_WAIT_MAX, RECONNECT_WAIT_MIN, client_name,
};

/// Publications that may wait in the client library before some are dropped (then all queues are
/// looked at).
const PUBLICATIONS_MAX: usize = 8192;
/// Commands in a row without an answer after which the connection is given up.
const MISSES_MAX: u32 = 2;
const QUIT_WITHIN: Duration = Duration::from_secs(1);

impl LinkContext {
    fn config(&self) -> Config {
        let backend = &self.backend;
        let server = match &backend.at {
            Place::Tcp { host, port, .. } => ServerConfig::new_centralized(host, *port),
            Place::Unix { path } => ServerConfig::Unix { path: path.clone() },
        };
        let tls = backend.tls.clone().map(|tls| TlsConfig::from(TlsConnector::from(tls)));
        Config {
            server,
            username: backend.user.clone(),
            password: backend.password.as_ref().map(Secret::expose).map(str::to_owned),
            database: Some(backend.database).filter(|database| *database > 0),
            tls,
            // The daemon may start before its Redis.
            fail_fast: false,
            ..Config::default()
        }
    }

    fn connection(&self) -> ConnectionConfig {
        ConnectionConfig {
            connection_timeout: self.connect_timeout,
            internal_command_timeout: self.connect_timeout,
            max_command_attempts: 1,
            // Otherwise the client library breaks the link on LOADING and READONLY.
            reconnect_errors: Vec::new(),
            auto_client_setname: false,
            tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
            unresponsive: UnresponsiveConfig {
                max_timeout: Some(Duration::from_secs(5)),
                interval: Duration::from_secs(1),
            },
            ..ConnectionConfig::default()
        }
    }

    fn builder(&self) -> Builder {
        let mut builder = Builder::from_config(self.config());
        builder.set_connection_config(self.connection());
        let [first, longest] =
            [RECONNECT_WAIT_MIN, RECONNECT_WAIT_MAX].map(|wait| wait.as_millis() as u32);
        builder.set_policy(ReconnectPolicy::new_exponential(0, first, longest, 2));
        builder.with_performance_config(|performance| {
            performance.broadcast_channel_capacity = PUBLICATIONS_MAX;
        });
        builder
    }
}

/// One connection for commands without a key.
pub struct Plain {
    client: Client,
    call_timeout: Duration,
    misses: Cell<u32>,
}

/// The names of the two links in the metrics, and of their connections.
const PLAIN: &str = "plain";
pub const SUBSCRIPTION: &str = "subscription";
/// What a refusal of the second pattern begins with.
pub const WAKES: &str = "WAKES";

impl Plain {
    /// Starts to connect and goes on trying for ever; does not wait.
    ///
    /// # Errors
    /// Settings that the client library refuses.
    pub fn start(context: &LinkContext) -> Result<Self, String> {
        let client = context.builder().build().map_err(|error| error.to_string())?;
        context.metrics.link_up(PLAIN, false);
        tokio::task::spawn_local(watch(
            client.clone(),
            context.metrics.clone(),
            context.call_timeout,
        ));
        client.connect();
        Ok(Self { client, call_timeout: context.call_timeout, misses: Cell::new(0) })
    }

    /// Waits until there is a connection, at most so long.
    pub async fn wait_up(&self, at_most: Duration) {
        if !self.client.is_connected() {
            let _ = timeout(at_most, self.client.wait_for_connect()).await;
        }
    }

    /// Sends one command. Not for anything that writes and must not be lost.
    pub async fn command(
        &self,
        name: &'static str,
        args: Vec<Bytes>,
    ) -> Result<BytesFrame, LinkError> {
        if !self.client.is_connected() {
            return Err(LinkError::NotSent(format!("the link '{PLAIN}' is down")));
        }
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let client = self.client.with_options(&options(self.call_timeout));
        let args: Vec<Value> = args.into_iter().map(Value::Bytes).collect();
        // Boxed: the library's future is large.
        let reply = Box::pin(client.custom_raw(command, args)).await;
        let missed = matches!(&reply, Err(error) if *error.kind() == ErrorKind::Timeout);
        self.misses.set(if missed { self.misses.get() + 1 } else { 0 });
        if self.misses.get() >= MISSES_MAX {
            self.misses.set(0);
            let client = self.client.clone();
            // An error only says that the client is stopping.
            tokio::task::spawn_local(async move { drop(client.force_reconnection().await) });
        }
        match reply {
            Ok(BytesFrame::SimpleError { data, .. }) => Err(LinkError::Refused(data.to_string())),
            Ok(frame) => Ok(frame),
            Err(error) => Err(LinkError::Broken(error.to_string())),
        }
    }

    pub async fn quit(&self) {
        let _ = timeout(QUIT_WITHIN, self.client.quit()).await;
    }
}

/// Keeps the metrics of the link true and names its connections, until the client library ends.
async fn watch(client: Client, metrics: Metrics, call_timeout: Duration) {
    let (mut connections, mut errors) = (client.reconnect_rx(), client.error_rx());
    let mut connected_before = false;
    loop {
        // Of two that wait here together the error happened first.
        tokio::select! {
            biased;
            Ok(_) = errors.recv() => metrics.link_up(PLAIN, false),
            Ok(_) = connections.recv() => {
                metrics.link_up(PLAIN, true);
                if std::mem::replace(&mut connected_before, true) {
                    metrics.reconnected(PLAIN);
                }
                name_connection(&client.with_options(&options(call_timeout)), PLAIN).await;
            }
            else => return,
        }
    }
}

/// HELLO names a connection for a user without the right to CLIENT, too.
async fn name_connection<C: ClientLike>(client: &C, link: &str) {
    let hello = CustomCommand::new_static("HELLO", ClusterHash::Random, false);
    let args = ["2".to_owned(), "SETNAME".to_owned(), client_name(link)].map(Value::from);
    // The name is for people: a server that does not know HELLO gives none.
    let _ = Box::pin(client.custom_raw(hello, args.to_vec())).await;
}

fn options(at_most: Duration) -> Options {
    Options { max_attempts: Some(1), timeout: Some(at_most), ..Options::default() }
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

/// News of the subscription.
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
    /// Starts to connect, and subscribes to patterns and a channel at each connection.
    ///
    /// # Errors
    /// Settings that the client library refuses.
    pub fn start(context: &LinkContext) -> Result<Self, String> {
        let client =
            context.builder().build_subscriber_client().map_err(|error| error.to_string())?;
        client.connect();
        Ok(Self {
            client,
            call_timeout: context.call_timeout,
            refused: RefCell::default(),
            tried: Notify::new(),
        })
    }

    /// Messages on the channel prove the connection, and so the pattern. (As patterns both would be
    /// one command; but an ACL that cannot name the channel can only give the right to SUBSCRIBE to
    /// it.)
    async fn subscribe(&self, patterns: [&'static str; 2], channel: &str) -> Result<(), String> {
        let [pattern, wakes] = patterns;
        let named = self.client.with_options(&options(self.call_timeout));
        name_connection(&named, SUBSCRIPTION).await;
        let mut answered = self.answered("PSUBSCRIBE", self.client.psubscribe(pattern)).await;
        if answered.is_ok() {
            answered = self.answered("SUBSCRIBE", self.client.subscribe(channel)).await;
        }
        let no_right = |words: &&String| words.contains("NOPERM");
        let mut refused = answered.as_ref().err().filter(no_right).cloned();
        if answered.is_ok() {
            // Without this right takers hear of some messages later.
            match self.answered(WAKES, self.client.psubscribe(wakes)).await {
                Err(words) if no_right(&&words) => refused = Some(words),
                others => answered = others,
            }
        }
        let refused = Some(refused.unwrap_or_default());
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
        let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
        let asking = self.client.with_options(&options(self.call_timeout));
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

    /// True if our user has no right to subscribe.
    pub fn is_refused(&self) -> bool {
        self.refused.borrow().as_ref().is_some_and(|words| !words.is_empty())
    }

    /// The command and Redis's words where it refuses to subscribe, empty where it does not; waits
    /// for the first attempt, at most so long.
    pub async fn refusal(&self, at_most: Duration) -> String {
        let tried = self.tried.notified();
        if self.refused.borrow().is_none() {
            let _ = timeout(at_most, tried).await;
        }
        self.refused.borrow().clone().unwrap_or_default()
    }

    /// Listens until the client library ends.
    pub async fn listen(&self, patterns: [&'static str; 2], channel: &str, heard: impl Fn(Heard)) {
        use tokio::sync::broadcast::error::RecvError;
        let mut connections = self.client.reconnect_rx();
        let mut messages = self.client.message_rx();
        loop {
            let event = tokio::select! {
                biased;
                connected = connections.recv() => match connected {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        match self.subscribe(patterns, channel).await {
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
        let _ = timeout(QUIT_WITHIN, self.client.quit()).await;
    }
}
