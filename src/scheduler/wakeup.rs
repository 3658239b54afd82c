//! Wake-ups: one pattern subscription for all queues of a node, and the heartbeat that proves it.
//!
//! A publication is a hint: the channel names a set of keys, the message a due time. One for a
//! queue that is not known is handed to discovery, since channels ignore databases and anyone can
//! publish. After each (re)subscription the head of every served queue is read once. A heartbeat
//! that is published to a channel of this broker must come back: silence means that the
//! subscription is dead, whatever the link says, so it is made anew.
//!
//! The nodes of a Cluster hand on publications, some of them tens of ms late: each node is listened
//! to for those of its own slots, and others tell of them where it is not heard.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::scheduler::discovery::Discovery;
use crate::scheduler::host::Host;
use crate::scheduler::schedule::Schedule;
use crate::store::Store;
use crate::store::keys;
use crate::store::node::Node;
use crate::store::redis::Heard;

const PATTERN: &str = "redisson_delay_queue_channel:*";
/// What can be taken since another broker settled it.
const WAKES: &str = "delay_broker_wake:*";
/// Heartbeats in a row that are not heard before the subscription is made anew: two seconds by
/// default.
const SILENT_BEATS_MAX: u32 = 4;
/// Between two looks at where the queues are, while slots move.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

pub struct Wakeup {
    pub host: Rc<Host>,
    pub discovery: Rc<Discovery>,
    pub store: Rc<Store>,
    /// The node that is listened to.
    pub node: Rc<Node>,
    /// The channel of our heartbeat, unique to this broker and, in a Cluster, to the node: the
    /// others hand on what it publishes.
    pub channel: String,
    /// What the keys of our own calls begin with.
    pub own_calls: String,
    pub heartbeat: Duration,
    pub heard_at: Cell<Instant>,
    pub metrics: Metrics,
    pub subscribed_before: Cell<bool>,
}

/// The link's name in the metrics.
pub use crate::store::redis::SUBSCRIPTION as LINK;

impl Wakeup {
    /// Listens for ever: run as a task of its own.
    pub async fn listen(self: Rc<Self>) {
        let me = self.clone();
        self.node
            .subscription
            .listen([PATTERN, WAKES], &self.channel, move |heard| me.on(heard))
            .await;
    }

    fn on(&self, heard: Heard) {
        match heard {
            Heard::Published { channel, message } => {
                if channel == self.channel {
                    self.heard_at.set(Instant::now());
                    self.set_live(true);
                } else if !self.store.is_told_by(&self.node, &channel) {
                    // Whoever owns the slot tells it first.
                } else if let Some(suffix) = keys::suffix(keys::CHANNEL, &channel) {
                    self.published(suffix, &message);
                } else if let Some(suffix) = keys::suffix(keys::WAKE, &channel) {
                    self.woken(suffix, &message);
                }
            }
            Heard::Subscribed => {
                self.heard_at.set(Instant::now());
                if self.subscribed_before.replace(true) {
                    self.metrics.reconnected(LINK);
                }
                tracing::info!("subscribed to wake-ups; looking at every queue");
                self.host.change(|schedule, _| schedule.mark_all());
                self.discovery.scan_now();
            }
            Heard::Lagged => {
                tracing::warn!(
                    "publications came faster than they were read; looking at every queue"
                );
                self.host.change(|schedule, _| schedule.mark_all());
            }
        }
    }

    fn set_live(&self, live: bool) {
        if self.node.listens.replace(live) != live {
            self.node.subscription.set_live(live);
        }
    }

    fn published(&self, suffix: &[u8], message: &[u8]) {
        // Redisson publishes decimal ms; anything else can only mean "look".
        let due = std::str::from_utf8(message).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        if !self.host.change(|schedule, now| schedule.published(suffix, due, now)) {
            self.discovery.heard_of(Bytes::copy_from_slice(suffix));
        }
    }

    /// What our own call made available is known already.
    fn woken(&self, suffix: &[u8], message: &[u8]) {
        let space = message.iter().position(|&byte| byte == b' ').unwrap_or(message.len());
        let (moment, call) = message.split_at(space);
        if !call.get(1..).is_some_and(|call| call.starts_with(self.own_calls.as_bytes())) {
            let moment = std::str::from_utf8(moment).ok().and_then(|text| text.parse().ok());
            self.host.takers.heard(suffix, moment.unwrap_or(0));
        }
    }

    /// Publishes the heartbeat and watches for its return, for ever: run as a task of its own.
    pub async fn beat(self: Rc<Self>) {
        let mut interval = tokio::time::interval(self.heartbeat);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            // While Redis is away nothing can be heard; the link brings the subscription back.
            if self.store.heartbeat(&self.node, &self.channel).await.is_err() {
                self.heard_at.set(Instant::now());
                self.set_live(false);
            } else if self.heard_at.get().elapsed() > self.heartbeat * SILENT_BEATS_MAX {
                if !self.node.subscription.is_refused() {
                    tracing::warn!("the subscription to wake-ups is silent; subscribing again");
                }
                self.set_live(false);
                self.heard_at.set(Instant::now());
                self.node.subscription.reconnect().await;
            }
        }
    }
}

/// What the wake-ups of all nodes have in common.
#[derive(Clone)]
pub struct Wakeups {
    pub host: Rc<Host>,
    pub discovery: Rc<Discovery>,
    pub store: Rc<Store>,
    pub token: String,
    pub heartbeat: Duration,
    pub metrics: Metrics,
}

impl Wakeups {
    /// Listens to each node, for ever: run as a task of its own.
    pub async fn listen(self) {
        let mut attended: Vec<(Rc<Node>, JoinSet<()>)> = Vec::new();
        loop {
            let nodes = self.store.nodes();
            attended.retain(|(node, _)| nodes.iter().any(|other| Rc::ptr_eq(node, other)));
            for node in nodes {
                if !attended.iter().any(|(other, _)| Rc::ptr_eq(&node, other)) {
                    let wakeup = Rc::new(self.of(node.clone()));
                    let mut tasks = JoinSet::new();
                    tasks.spawn_local(wakeup.clone().listen());
                    tasks.spawn_local(wakeup.beat());
                    attended.push((node, tasks));
                }
            }
            self.store.nodes_change().await;
        }
    }

    fn of(&self, node: Rc<Node>) -> Wakeup {
        let number = if node.number == 0 { String::new() } else { format!(":{}", node.number) };
        node.subscription.set_live(false);
        Wakeup {
            host: self.host.clone(),
            discovery: self.discovery.clone(),
            store: self.store.clone(),
            channel: format!("delay_broker_heartbeat:{}{number}", self.token),
            own_calls: format!("delay_broker_call:{}:", self.token),
            heartbeat: self.heartbeat,
            heard_at: Cell::new(Instant::now()),
            metrics: self.metrics.clone(),
            subscribed_before: Cell::new(false),
            node,
        }
    }

    /// Ends the waits of failed queues when Redis is back, for ever: run as a task of its own.
    pub async fn retry(self) {
        loop {
            self.store.comes_up().await;
            self.host.change(Schedule::redis_is_back);
        }
    }

    /// Lets the queues of slots that have moved go by the clock of their node, for ever: run as a
    /// task of its own.
    pub async fn follow(self) {
        let mut seen = 0;
        loop {
            // What changed during the pause counts, too.
            let version = self.store.nodes_version();
            if version == seen {
                self.store.nodes_change().await;
                continue;
            }
            seen = version;
            self.host.change(Schedule::follow);
            // Slots move by the hundred.
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }
}
