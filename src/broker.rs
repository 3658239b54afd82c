//! The handle that commands get: what they may do, in terms of queues and messages. No RESP, no
//! socket.
//!
//! It owns the parts (store, offers, scheduler); `broker/start.rs` makes them. The methods of
//! one queue are in `broker/queue.rs`, those of all queues in `broker/queues.rs` and
//! `broker/pause_all.rs`; offers go to [`Offers`].

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::domain::durability::Durability;
use crate::domain::envelope::Carries;
use crate::domain::queue::{Due, NameMode};
use crate::metrics::Metrics;
use crate::peers::fairness::Turns;
use crate::peers::guesses::Guesses;
use crate::peers::memory::Memory;
use crate::peers::passwords::Passwords;
use crate::peers::registry::Clients;
use crate::scheduler::crons::Crons;
use crate::scheduler::host::Host;
use crate::scheduler::keeper::Keeper;
pub use crate::scheduler::takers::Unsent;
pub use crate::scheduler::tied::Tied;
use crate::store::Store;
pub use crate::store::StoreError;
pub use crate::store::batch::{Offered, Ticket};
pub use crate::store::convert::Converted;
pub use crate::store::leases::{Held, HeldMessage};
use crate::store::master::Master;
pub use crate::store::offers::FirstInLine;
use crate::store::offers::Offers;
pub use crate::store::settles::{SettleLine, Settlement};

mod activity;
mod audited;
mod configure;
mod consume;
mod crons;
mod cursor;
mod find;
mod node;
mod overview;
mod pause_all;
mod queue;
mod queues;
mod readings;
mod start;
mod streams;

use activity::Activity;
pub use activity::Effect;
use audited::Audited;
pub use consume::{Dead, TakeRequest, TakenMessages};
pub use crons::CronInfo;
pub use find::{Change, FoundPage, Search};
pub use overview::{Section, ServerInfo};
use pause_all::PausedAll;
pub use queue::{Found, Queue, QueueInfo};
pub use queues::QueueRow;
use queues::overdue_ms;

pub struct Broker {
    /// As in effect: SIGHUP changes some of it.
    config: RefCell<Rc<Config>>,
    pub metrics: Metrics,
    pub clients: Clients,
    /// The memory of the buffers of all connections.
    pub memory: Rc<Memory>,
    pub turns: Turns,
    /// Of those that search.
    searches: tokio::sync::Mutex<Option<tokio::time::Instant>>,
    pub started: Instant,
    /// The ports that clients connect to, once they are known: without and with TLS, 0 = none.
    pub ports: Cell<(u16, u16)>,
    /// As many clients as there may be: `server.clients_max`, or what the limit of open files
    /// leaves of it.
    pub clients_max: Cell<usize>,
    /// Commands that were run since the start.
    pub commands: Cell<u64>,
    pub audited: Audited,
    pub activity: Activity,
    pub guesses: Guesses,
    pub passwords: Rc<Passwords>,
    /// When what Redis holds of the queues was read, and whether it is being read for INFO.
    read_at: Cell<Option<Instant>>,
    reading: Cell<bool>,
    /// Where the backing Redis is, without secrets.
    redis_place: String,
    master: Rc<Master>,
    token: String,
    store: Rc<Store>,
    offers: Rc<Offers>,
    host: Rc<Host>,
    crons: Rc<Crons>,
    keeper: Rc<Keeper>,
    paused_all: PausedAll,
    /// No more work is to be sent here.
    stopping: Cell<bool>,
    /// Cancelled when a part failed that the broker cannot do without.
    pub failed: CancellationToken,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

/// For what is said at the end of the grace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub commands: usize,
    pub offers: usize,
    pub transfers: usize,
}

impl Broker {
    pub fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// Sets the settings that CONFIG GET and INFO show from now on; `client::listener`, which calls
    /// it, gives connections theirs.
    pub fn set_config(&self, config: Rc<Config>) {
        self.host.takers.set_places_max(config.limits.takers_max);
        self.passwords.keep(config.users.iter().map(|user| &user.password_hash));
        self.config.replace(config);
    }

    /// Where the backing Redis is, as clients may be told.
    pub fn redis_place(&self) -> &str {
        &self.redis_place
    }

    /// Says if commands can be served: Redis is reachable, a node number is claimed, and the audit
    /// found nothing that refuses. The scheduler runs as long as the process does.
    ///
    /// # Errors
    /// The reason for which they cannot.
    pub fn ready(&self) -> Result<(), String> {
        if self.stopping.get() {
            return Err("the broker is stopping".into());
        }
        if !self.store.is_up() {
            return Err(format!("Redis cannot be reached{}", self.store.why_down()));
        }
        if let Some(why) = self.offers.claim.closed() {
            return Err(why);
        }
        let refusal = self.audited.refusal();
        refusal.map_or(Ok(()), |why| Err(format!("the audit refuses this Redis: {why}")))
    }

    /// How well it is ready. A subscription that is not heard is no reason to send work elsewhere:
    /// own offers are timed all the same, and the scan finds those of others. Nor are Sentinels
    /// that cannot be asked, while the master serves.
    pub fn readiness(&self) -> Result<Cow<'static, str>, String> {
        self.ready()?;
        let deaf = self.master.watch().is_some_and(|watch| watch.reachable == 0);
        let primaries = self.store.primaries().filter(|(up, all)| up < all);
        let slots = self.store.slots_away().map_or(0, |(nobodys, _)| nobodys);
        Ok(match (primaries, self.store.listens()) {
            _ if deaf => {
                "ready, but no Sentinel can be asked: a failover would not be noticed".into()
            }
            (Some((up, all)), _) => format!(
                "ready, but {up} of {all} primaries of the Cluster can be reached{}",
                self.store.why_down()
            )
            .into(),
            _ if slots > 0 => {
                format!("ready, but {slots} slots of the Cluster are served by nobody").into()
            }
            (None, true) => "ready".into(),
            (None, false) => {
                "ready, but wake-ups are not heard: the scan finds what others offer".into()
            }
        })
    }

    /// True if the links to Redis are there.
    pub fn is_linked(&self) -> bool {
        self.store.is_up()
    }

    /// Waits for the links to Redis, at most so long.
    pub async fn linked(&self, at_most: Duration) {
        self.store.wait_up(at_most).await;
    }

    /// No more work is to be sent here. What clients have taken stays theirs: they settle it by
    /// another broker.
    pub fn begin_stop(&self) {
        self.stopping.set(true);
        self.host.takers.keep_tied();
    }

    /// Waits until it is ready, at most so long.
    pub async fn wait_ready(&self, at_most: Duration) -> Result<(), String> {
        let deadline = Instant::now() + at_most;
        self.store.wait_up(at_most).await;
        self.offers.claim.opened(deadline.saturating_duration_since(Instant::now())).await;
        self.ready()
    }

    /// Stops in order, senders before receivers. Connections have finished before.
    pub async fn stop(&self) {
        self.offers.drained().await;
        self.host.stop().await;
        for task in self.tasks.take() {
            task.abort();
        }
        self.store.quit().await;
    }

    /// The unfinished work: commands that are not answered yet, offers among them that wait for
    /// their batch, and transfers under way.
    pub fn unfinished(&self) -> Unfinished {
        let clients = self.clients.list();
        Unfinished {
            commands: clients.iter().map(|client| client.unanswered.get()).sum(),
            offers: self.offers.waiting(),
            transfers: self.host.schedule().in_flight(),
        }
    }

    // Offers.

    /// `payload`: as it is stored, in an envelope that carries such things.
    pub fn offer(&self, queue: &[u8], due: Due, payload: &[u8], carries: Carries) -> Ticket {
        self.offers.push(queue, due, payload, carries)
    }

    pub fn offer_named(
        &self,
        queue: &[u8],
        due: Due,
        payload: &[u8],
        name: (&[u8], NameMode),
        carries: Carries,
    ) -> Ticket {
        self.offers.push_named(queue, due, payload, name, carries)
    }

    pub fn moffer<'a>(
        &self,
        queue: &[u8],
        messages: impl Iterator<Item = (Due, &'a [u8])>,
        carries: Carries,
    ) -> Ticket {
        self.offers.push_all(queue, messages, carries)
    }

    /// Whether offers to a queue can be so durable, if it is known now.
    pub fn can_be(&self, queue: &[u8], what: Durability) -> Option<Result<(), StoreError>> {
        self.store.syncs(queue).map_or_else(|why| Some(Err(why)), |syncs| syncs.can(what))
    }

    /// Finds out whether offers to a queue can be so durable.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self, queue: &[u8], what: Durability) -> Result<(), StoreError> {
        self.store.syncs(queue)?.check(what).await
    }

    /// The open batch: connections push into it and flush it once after each read.
    pub fn offers(&self) -> &Rc<Offers> {
        &self.offers
    }
}
