//! The backing Redis as the broker sees it: one typed method for each script, grouped by who calls
//! it.
//!
//! [`offers`] gathers offers in a [`batch`] of their node, [`offer`] writes it as long as the
//! [`claim`] of the node number lasts. [`leases`] has the calls of consumers, [`settles`] gathers
//! those that settle. [`sync`] waits for what replicas and the disk have. [`delivery`] moves
//! messages that are due, [`messages`] has the calls of commands about pending messages,
//! [`search`], [`first`] and [`convert`] the paged ones among them, [`facts`] the questions of the
//! audit. [`lane`] makes a write's outcome certain, [`order`] keeps the lanes of the offers in
//! order. [`node`] is one master, and [`router`] knows the node of a queue, as the [`slots`] of a
//! [`cluster`] say. [`master`] is the place of a node, as its URL or a [`sentinel`] says.
//! [`survey`] reads of many queues. [`link`] carries scripts and commands, [`redis`] the
//! subscription; [`script`] lists the files of `lua/`.

pub mod answer;
pub mod backend;
pub mod batch;
pub mod claim;
pub mod clock;
mod cluster;
pub mod convert;
pub mod crons;
pub mod cursor;
pub mod delivery;
pub mod facts;
pub mod first;
pub mod keys;
pub mod lane;
pub mod leases;
pub mod link;
pub mod master;
pub mod member;
pub mod messages;
pub mod node;
mod noted;
pub mod offer;
pub mod offers;
pub mod order;
pub mod push;
pub mod redis;
pub mod retries;
mod router;
pub mod script;
pub mod search;
mod sentinel;
pub mod settles;
pub mod slots;
pub mod streams;
mod survey;
pub mod sync;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;
use thiserror::Error;

use crate::config::Site;
use crate::domain::queue::{QueueName, Shown};
use crate::store::answer::Answer;
use crate::store::clock::Clock;
use crate::store::cluster::Cluster;
use crate::store::keys::QueueKeys;
use crate::store::lane::{Rest, Within};
use crate::store::link::{Link, LinkContext, LinkError};
use crate::store::node::Node;
use crate::store::offer::Part;
use crate::store::router::{Route, Router, Slot};
use crate::store::script::Script;
use crate::store::settles::Settles;
use crate::store::sync::Syncs;

/// Calls of clients do not wait for a node of a Cluster that is away for longer.
const AWAY_LONG: Duration = Duration::from_secs(1);

/// Why a call to the store failed, and whether it may have been applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// Not applied: the keys belong to another queue name.
    #[error("the keys of this queue belong to the queue {}", Shown(owner))]
    BadQueue { owner: Vec<u8> },
    /// Not applied: a key of the queue holds another type. It is escaped, as it is logged too.
    #[error("a key of this queue holds another type: {key}")]
    WrongType { key: String },
    /// Not applied: the broker serves as many queues as it may.
    #[error(
        "the limit of {max} queues (limits.queues_max) is reached, and this queue is not among \
         them: use one of those, or raise the limit"
    )]
    TooManyQueues { max: usize },
    /// Not applied: the queue holds as many messages as it may.
    #[error(
        "the queue holds {length} of {max} messages (max_length, DQ.SETUP), and {more} more do not \
         fit: let consumers take some, offer fewer at once, or raise the limit"
    )]
    QueueFull { length: u64, max: u64, more: u64 },
    /// Not applied: the destination of the queue does not have what messages carry.
    #[error(
        "{} a destination that has {}: DQ.SETUP queue destination take",
        if *priority { "PRIO needs" } else { "HEADER, TTL and LIMIT need" },
        if *priority { "priorities" } else { "them" }
    )]
    NotCarried { priority: bool },
    /// Not applied: as many takers wait as may.
    #[error(
        "the limit of {max} takers that wait (limits.takers_max) is reached: retry, or raise the \
         limit"
    )]
    TooManyTakers { max: usize },
    /// Not applied: the queue has as many schedules as it may.
    #[error("the queue has {max} schedules, and no queue may have more: delete one first")]
    TooManyCrons { max: usize },
    /// Not applied: the destination of a queue that holds messages would change.
    #[error(
        "the destination of a queue can be changed while it holds no message only, and {key} holds \
         some: let consumers take them, or drop them (DQ.CLEAR, DQ.DEAD); only from list to take \
         it can be changed at any time. A stream holds none when it has no entry, and none that a \
         group has not acknowledged"
    )]
    InUse { key: String },
    /// Not applied: consumers of this queue do not ask the broker.
    #[error(
        "the destination of this queue is a stream (DQ.SETUP): take with XREADGROUP GROUP group \
         consumer STREAMS queue >, settle with XACK, both at Redis itself; give back with DQ.NACK \
         queue GROUP group entry-id"
    )]
    IsStream,
    /// Not applied: what is in the list of this queue is for takers alone.
    #[error(
        "the destination of this queue is take, so only DQ.TAKE can have its messages: there are \
         no other consumers to give them back to"
    )]
    TakersAlone,
    /// Not applied: Redis tells nobody when its disk has something.
    #[error(
        "SYNC fsync needs a Redis that writes each change to disk before it answers (appendonly \
         yes, appendfsync always), or appendonly yes and Redis 7.2 or newer; nothing was stored"
    )]
    NoFsync,
    /// Not applied: the destination is none.
    #[error(
        "GROUP is for queues whose destination is a stream (DQ.SETUP queue destination stream)"
    )]
    NoStream,
    /// Not applied.
    #[error("the stream has no group of this name: see XINFO GROUPS, or make it by XGROUP CREATE")]
    NoGroup,
    /// Not applied: a cursor that no page gave.
    #[error("invalid cursor: use the one of the last reply, or start with 0")]
    BadCursor,
    /// Not applied: messages that share their due time and first bytes came or went at the cursor.
    #[error("the cursor is out of date, since messages at its position changed: start with 0")]
    LostCursor,
    /// Not applied: a message that no reply may hold.
    #[error(
        "the message {what} has {size} bytes, more than a reply may hold ({max}): read it from \
         Redis itself, or raise limits.reply_bytes_max and server.output_bytes_max"
    )]
    TooBig {
        /// Its id, or its score where nobody can read it.
        what: String,
        size: u64,
        max: u64,
    },
    /// Surely not applied.
    #[error("{0}")]
    Unavailable(String),
    /// Applied or not; it could not be settled.
    #[error("{0}")]
    Uncertain(String),
    /// A bug of ours; applied or not.
    #[error("{0}")]
    Internal(String),
}

/// Words in Redis's error replies that mean: refused before anything was written, and not our
/// fault.
const REFUSALS: [&str; 15] = [
    "NOSCRIPT",
    "OOM",
    "LOADING",
    "READONLY",
    "MISCONF",
    "BUSY",
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "NOREPLICAS",
    "TRYAGAIN",
    "MOVED",
    "ASK",
];

/// Sorts Redis's own error reply. Our scripts validate first and write last, so a refusal is one of
/// the whole.
pub fn refused(text: &str) -> StoreError {
    if says(text, "WRONGTYPE") {
        return StoreError::WrongType { key: text.to_owned() };
    }
    // Rights that a script lacks stop it where it is, perhaps after a write: Redis 7.0 and 6.2,
    // newer ones.
    if text.contains("The user executing the script") || text.contains("ACL failure in script") {
        return StoreError::Uncertain(format!(
            "Redis stopped a script for want of a right, see the audit: {text}"
        ));
    }
    if REFUSALS.iter().any(|word| says(text, word)) {
        return StoreError::Unavailable(format!("Redis refused: {}", own_words(text)));
    }
    StoreError::Internal(format!("Redis answered: {text}"))
}

/// What Redis says of the refusal itself, without what it says of our script: hash and line.
fn own_words(text: &str) -> &str {
    // Redis 6, as below; and where it says twice where: "...: @user_script: 27: -OOM ...".
    if text.contains("@user_script:")
        && let Some((_, words)) = text.rsplit_once(": -")
    {
        return words;
    }
    // "OOM ... > 'maxmemory'. script: <hash>, on @user_script:27."
    text.split_once(" script: ").map_or(text, |(words, _)| words)
}

/// True if an error reply has this code. Redis 6 wraps a script's error: "ERR Error running script
/// (call to f_..): @user_script:1: OOM ...".
fn says(text: &str, code: &str) -> bool {
    text.split([' ', '-', ':']).any(|part| part == code)
}

/// Bounds of waiting, and how much may be asked for at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub call_timeout: Duration,
    pub settle_timeout: Duration,
    /// Bytes of payload in one reply.
    pub reply_bytes_max: usize,
}

pub struct Store {
    router: Router,
    limits: Limits,
    settles: Settles,
}

impl Store {
    /// Starts the links; does not wait for them.
    pub fn start(context: &LinkContext, limits: Limits, token: &str) -> Rc<Self> {
        let router = match &context.backend.site {
            Site::Cluster { seeds } => {
                Router::Cluster(Cluster::start(context, limits, token, seeds.clone()))
            }
            Site::At(_) | Site::Named { .. } => Router::One {
                node: Rc::new(Node::start(context, limits, token, String::new())),
                part: Rc::new(Part::new(None, token, limits)),
            },
        };
        Rc::new(Self { router, limits, settles: Settles::default() })
    }

    /// The clock of a queue's node.
    pub fn clock(&self, queue: &QueueKeys) -> Rc<Clock> {
        let node = self.router.node(self.router.slot(&queue.timeout));
        node.map_or_else(|| self.clock_of_all(), |node| node.clock.clone())
    }

    /// The clock that ids and the pause of all queues go by.
    pub fn clock_of_all(&self) -> Rc<Clock> {
        match &self.router {
            Router::One { node, .. } => node.clock.clone(),
            Router::Cluster(cluster) => cluster.clock.clone(),
        }
    }

    /// The clocks that queues go by.
    pub fn clocks(&self) -> Vec<Rc<Clock>> {
        self.router.nodes().iter().map(|node| node.clock.clone()).collect()
    }

    /// The nodes, one where there is one Redis.
    pub fn nodes(&self) -> Vec<Rc<Node>> {
        self.router.nodes()
    }

    /// Waits until there are other nodes, one can be reached again, or slots are at another one.
    pub async fn nodes_change(&self) {
        match &self.router {
            Router::One { .. } => std::future::pending().await,
            Router::Cluster(cluster) => cluster.changed.notified().await,
        }
    }

    /// Counts what [`Store::nodes_change`] waits for.
    pub fn nodes_version(&self) -> u64 {
        match &self.router {
            Router::One { .. } => 0,
            Router::Cluster(cluster) => cluster.version.get(),
        }
    }

    /// How many primaries of a Cluster can be reached, and how many there are.
    pub fn primaries(&self) -> Option<(usize, usize)> {
        match &self.router {
            Router::One { .. } => None,
            Router::Cluster(cluster) => Some(cluster.reached()),
        }
    }

    /// How many slots of a Cluster are served by nobody, and how many are being moved.
    pub fn slots_away(&self) -> Option<(usize, usize)> {
        match &self.router {
            Router::One { .. } => None,
            Router::Cluster(cluster) => Some((cluster.orphans(), cluster.open_slots())),
        }
    }

    /// Whether a publication of a channel that this node told is to be believed: those of its own
    /// slots, since the others come late, and those of nodes that are not heard.
    pub fn is_told_by(&self, node: &Rc<Node>, channel: &[u8]) -> bool {
        match self.router.slot(channel) {
            None => true,
            slot => self
                .router
                .node(slot)
                .is_none_or(|owner| Rc::ptr_eq(&owner, node) || !owner.listens.get()),
        }
    }

    /// True if wake-ups are heard, of all nodes.
    pub fn listens(&self) -> bool {
        self.router.nodes().iter().all(|node| node.listens.get() || !node.is_up())
    }

    /// True if Redis can be reached on every link; of a Cluster, one of the primaries.
    pub fn is_up(&self) -> bool {
        match &self.router {
            Router::One { node, .. } => node.is_up(),
            Router::Cluster(cluster) => cluster.reached().0 > 0,
        }
    }

    /// Why Redis cannot be reached, after a colon, as far as it is known.
    pub fn why_down(&self) -> String {
        match &self.router {
            Router::One { node, .. } => node.why_down(),
            Router::Cluster(cluster) => cluster.why_down(),
        }
    }

    /// Waits until Redis can be reached, of a Cluster all primaries, at most so long.
    pub async fn wait_up(&self, at_most: Duration) -> bool {
        let cluster = match &self.router {
            Router::One { node, .. } => return node.wait_up(at_most).await,
            Router::Cluster(cluster) => cluster,
        };
        let all = async {
            loop {
                let changed = cluster.changed.notified();
                let (up, all) = cluster.reached();
                if all > 0 && up == all {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(at_most, all).await;
        self.is_up()
    }

    /// True if a transfer would be sent now.
    pub fn can_transfer(&self) -> bool {
        match &self.router {
            Router::One { node, .. } => node.transfers.is_up(),
            Router::Cluster(cluster) => cluster.any().is_some_and(|node| node.transfers.is_up()),
        }
    }

    /// Waits until Redis is reached anew; it may have lost everything meanwhile.
    pub async fn comes_up(&self) {
        match &self.router {
            Router::One { node, .. } => node.transfers.comes_up().await,
            Router::Cluster(cluster) => cluster.back.notified().await,
        }
    }

    fn slot_of(&self, keys: &[Bytes]) -> Slot {
        keys.first().and_then(|key| self.router.slot(key))
    }

    fn route(&self, slot: Slot) -> Route<'_> {
        self.router.route(slot, |node| &node.calls)
    }

    /// Who waits for the replicas and the disk of a queue's node.
    ///
    /// # Errors
    /// Nobody does on a Cluster.
    pub fn syncs(&self, queue: &[u8]) -> Result<&Rc<Syncs>, StoreError> {
        match &self.router {
            Router::One { node, .. } => Ok(&node.syncs),
            Router::Cluster(_) => {
                let queue = Shown(queue);
                Err(StoreError::Unavailable(format!(
                    "the queue {queue} is on a Cluster, where SYNC and durability are not served"
                )))
            }
        }
    }

    /// Refuses a call that may have a large reply at once where its node is away for longer than a
    /// moment: others, of nodes that can be reached, would wait for its permit. Never of one Redis.
    fn not_long_away(&self, queue: &QueueName) -> Result<(), StoreError> {
        let slot = self.router.slot(queue.as_bytes());
        let (Some(_), Some(node)) = (slot, self.router.node(slot)) else { return Ok(()) };
        if !node.calls.is_down_since(AWAY_LONG) {
            return Ok(());
        }
        let why = self.route(slot).link_now().err().unwrap_or_default();
        Err(StoreError::Unavailable(format!("Redis cannot be reached{why}")))
    }

    /// True if the node with the key of a number of a broker can be reached; always of one Redis.
    pub fn reaches_number(&self, number: u64) -> bool {
        let Some(slot) = self.router.slot(&delivery::number_key(number)) else { return true };
        self.router.node(Some(slot)).is_some_and(|node| node.calls.is_up())
    }

    async fn write(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        self.write_within(script, keys, args, None).await
    }

    /// The same, not after a moment.
    async fn write_within(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
        within: Option<&Within<'_>>,
    ) -> Result<Answer, StoreError> {
        self.write_at(self.slot_of(&keys), script, keys, args, within).await
    }

    async fn write_at(
        &self,
        slot: Slot,
        script: &'static Script,
        mut keys: Vec<Bytes>,
        args: Vec<Bytes>,
        within: Option<&Within<'_>>,
    ) -> Result<Answer, StoreError> {
        Router::keys_in(slot, &mut keys);
        let route = self.route(slot);
        let Some(node) = self.router.node(slot) else {
            let why = route.link_now().err().unwrap_or_default();
            return Err(StoreError::Unavailable(format!("Redis cannot be reached{why}")));
        };
        node.write(&route, script, keys, args, within).await
    }

    async fn read(
        &self,
        script: &'static Script,
        keys: &[Bytes],
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let slot = self.slot_of(keys);
        let route = self.route(slot);
        if slot.is_none() {
            return node::read(&route, self.limits, script, keys, args).await;
        }
        let mut keys = keys.to_vec();
        Router::keys_in(slot, &mut keys);
        node::read(&route, self.limits, script, &keys, args).await
    }

    /// One command whose first argument is its key. Not for what must not be lost.
    async fn command(&self, name: &'static str, args: &[Bytes]) -> Result<BytesFrame, LinkError> {
        let slot = self.slot_of(args);
        let route = self.route(slot);
        let deadline = tokio::time::Instant::now() + self.limits.call_timeout;
        let mut rest = Rest::default();
        loop {
            let (link, _): (Rc<Link>, _) = route
                .link_now()
                .map_err(|why| LinkError::NotSent(format!("the link 'calls' is down{why}")))?;
            let refused = match link.command(name, args).await {
                Err(LinkError::Refused(words)) if route.is_elsewhere(&words) => words,
                done => return done,
            };
            rest.take(deadline).await;
            if tokio::time::Instant::now() >= deadline {
                return Err(LinkError::Refused(refused));
            }
        }
    }

    /// Redis's TIME in microseconds.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn time(&self) -> Result<u64, StoreError> {
        // STATS of nothing: a script's answer begins with TIME.
        let Some(node) = self.router.node(None) else {
            let why = format!("Redis cannot be reached{}", self.why_down());
            return Err(StoreError::Unavailable(why));
        };
        let route = Route::To { link: &node.calls, clock: &node.clock };
        Ok(node::read(&route, self.limits, &script::STATS, &[], Vec::new()).await?.now_us)
    }

    /// Ends the links, the last use of the store.
    pub async fn quit(&self) {
        match &self.router {
            Router::One { node, .. } => node.quit().await,
            Router::Cluster(cluster) => cluster.quit().await,
        }
    }
}

/// An argument in decimal.
fn number(value: impl std::fmt::Display) -> Bytes {
    Bytes::from(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        for (text, applied) in [
            ("OOM command not allowed when used memory > 'maxmemory'. script: ab", false),
            (
                "ERR Error running script (call to f_ab): @user_script:1: -OOM command not allowed",
                false,
            ),
            ("READONLY You can't write against a read only replica.", false),
            ("LOADING Redis is loading the dataset in memory", false),
            ("BUSY Redis is busy running a script.", false),
            ("ERR user_script:3: attempt to index a nil value", true),
        ] {
            assert_eq!(matches!(refused(text), StoreError::Internal(_)), applied, "{text}");
        }
        let oom = "Redis refused: OOM command not allowed when used memory > 'maxmemory'.";
        for text in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "OOM command not allowed when used memory > 'maxmemory'. script: ab, on \
             @user_script:9.",
            "ERR Error running script (call to f_ab): @user_script:1: -OOM command not allowed \
             when used memory > 'maxmemory'.",
            "ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -OOM \
             command not allowed when used memory > 'maxmemory'.",
        ] {
            assert_eq!(refused(text), StoreError::Unavailable(oom.to_owned()), "{text}");
        }
        assert!(matches!(
            refused("ERR The user executing the script can't run this command or subcommand"),
            StoreError::Uncertain(_)
        ));
        assert!(matches!(
            refused("WRONGTYPE Operation against a key"),
            StoreError::WrongType { .. }
        ));
    }
}
