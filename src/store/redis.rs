//! The part that the client library carries: the subscription.
//!
//! fred repeats commands silently by default, and a plain timeout around its futures lets commands
//! run later. So here: one write attempt, and fred's own timeout. It knows one server, so where
//! another master is named it begins anew.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::SubscriberClient;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, ServerConfig, TcpConfig, TlsConfig,
    TlsConnector, UnresponsiveConfig,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, Value};
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::config::{Place, Secret};
use crate::store::link::{LinkContext, RECONNECT_WAIT_MAX, RECONNECT_WAIT_MIN, client_name};

/// Publications that may wait in the client library before some are dropped (then all queues are
/// looked at).
const PUBLICATIONS_MAX: usize = 8192;
const QUIT_WITHIN: Duration = Duration::from_secs(1);

impl LinkContext {
    fn config(&self, at: &Place) -> Config {
        let server = match at {
            Place::Tcp { host, port, .. } => ServerConfig::new_centralized(host, *port),
            Place::Unix { path } => ServerConfig::Unix { path: path.clone() },
        };
        let login = &self.backend.login;
        let tls = login.tls.clone().map(|tls| TlsConfig::from(TlsConnector::from(tls)));
        Config {
            server,
            username: login.user.clone(),
            password: login.password.as_ref().map(Secret::expose).map(str::to_owned),
            database: Some(login.database).filter(|database| *database > 0),
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

    fn builder(&self, at: &Place) -> Builder {
        let mut builder = Builder::from_config(self.config(at));
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

/// The name of the link in the metrics, and of its connections.
pub const SUBSCRIPTION: &str = "subscription";
/// What a refusal of the second pattern begins with.
pub const WAKES: &str = "WAKES";

/// HELLO names a connection for a user without the right to CLIENT, too.
async fn name_connection(client: &impl ClientLike) {
    let hello = CustomCommand::new_static("HELLO", ClusterHash::Random, false);
    let args = ["2".to_owned(), "SETNAME".to_owned(), client_name(SUBSCRIPTION)].map(Value::from);
    // The name is for people: a server that does not know HELLO gives none.
    let _ = Box::pin(client.custom_raw(hello, args.to_vec())).await;
}

/// One connection that listens. Publications are hints: they may be lost.
pub struct Subscription {
    context: LinkContext,
    /// At the master that was named last; `None` before the first.
    at: RefCell<Option<(SubscriberClient, ConnectHandle)>>,
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
    /// Starts to connect, where it is known already to whom.
    pub fn start(context: &LinkContext) -> Self {
        let (context, at) = (context.clone(), RefCell::default());
        let subscription = Self { context, at, refused: RefCell::default(), tried: Notify::new() };
        if let Ok(place) = subscription.context.master.place() {
            subscription.connect(&place);
        }
        subscription
    }

    /// It is heard or not.
    pub fn set_live(&self, live: bool) {
        self.context.link_up(SUBSCRIPTION, live);
    }

    fn connect(&self, place: &Place) {
        match self.context.builder(place).build_subscriber_client() {
            Ok(client) => {
                let connecting = client.connect();
                if let Some((_, left)) = self.at.replace(Some((client, connecting))) {
                    // Its connection ends with it.
                    left.abort();
                }
            }
            // Settings that the client library refuses.
            Err(error) => tracing::error!(%error, "wake-ups cannot be heard"),
        }
    }

    fn client(&self) -> Option<SubscriberClient> {
        self.at.borrow().as_ref().map(|(client, _)| client.clone())
    }

    fn options(&self) -> Options {
        let timeout = Some(self.context.call_timeout);
        Options { max_attempts: Some(1), timeout, ..Options::default() }
    }

    /// Messages on the channel prove the connection, and so the pattern. (As patterns both would be
    /// one command; but an ACL that cannot name the channel can only give the right to SUBSCRIBE to
    /// it.)
    async fn subscribe(
        &self,
        client: &SubscriberClient,
        patterns: [&'static str; 2],
        channel: &str,
    ) -> Result<(), String> {
        let [pattern, wakes] = patterns;
        name_connection(&client.with_options(&self.options())).await;
        let mut answered = self.answered(client, "PSUBSCRIBE", client.psubscribe(pattern)).await;
        if answered.is_ok() {
            answered = self.answered(client, "SUBSCRIBE", client.subscribe(channel)).await;
        }
        let no_right = |words: &&String| words.contains("NOPERM");
        let mut refused = answered.as_ref().err().filter(no_right).cloned();
        if answered.is_ok() {
            // Without this right takers hear of some messages later.
            match self.answered(client, WAKES, client.psubscribe(wakes)).await {
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
        client: &SubscriberClient,
        command: &str,
        sent: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), String> {
        let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
        let asking = client.with_options(&self.options());
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

    /// Listens until the client library ends; subscribes to patterns and a channel at each
    /// connection.
    pub async fn listen(&self, patterns: [&'static str; 2], channel: &str, heard: impl Fn(Heard)) {
        let master = &self.context.master;
        loop {
            let named = master.named();
            let listening = async {
                match self.client() {
                    Some(client) => self.hear(&client, patterns, channel, &heard).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = listening => return,
                () = master.named_beyond(named) => {}
            }
            match master.place() {
                Ok(place) => self.connect(&place),
                Err(why) => tracing::error!(why, "wake-ups of the master cannot be heard"),
            }
        }
    }

    async fn hear(
        &self,
        client: &SubscriberClient,
        patterns: [&'static str; 2],
        channel: &str,
        heard: &impl Fn(Heard),
    ) {
        use tokio::sync::broadcast::error::RecvError;
        let mut connections = client.reconnect_rx();
        let mut messages = client.message_rx();
        loop {
            let event = tokio::select! {
                biased;
                connected = connections.recv() => match connected {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        match self.subscribe(client, patterns, channel).await {
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
        if let Some(client) = self.client() {
            let _ = client.force_reconnection().await;
        }
    }

    pub async fn quit(&self) {
        if let Some(client) = self.client() {
            let _ = timeout(QUIT_WITHIN, client.quit()).await;
        }
        // As of the other links.
        if self.context.number > 0 {
            self.set_live(true);
        }
    }
}
