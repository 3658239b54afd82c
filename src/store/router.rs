//! Which node a queue is on: queue -> slot -> node. Nothing outside the store knows more.
//!
//! One Redis is one node, which holds every slot. Of a [`cluster`](super::cluster) each call asks
//! anew, at each attempt: a slot may have moved meanwhile.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use crate::store::clock::Clock;
use crate::store::cluster::Cluster;
use crate::store::keys::{ALL, REGISTRY};
use crate::store::link::Link;
use crate::store::node::Node;
use crate::store::offer::Part;
use crate::store::{says, slots};

pub enum Router {
    /// One Redis, and its part of the offers: all.
    One {
        node: Rc<Node>,
        part: Rc<Part>,
    },
    Cluster(Rc<Cluster>),
}

/// The place of a queue: the slot of its keys, `None` where there is one Redis.
pub type Slot = Option<u16>;

/// The kind of a link of a node.
pub(super) type Kind = fn(&Node) -> &Rc<Link>;

/// The way of a call: to one link, or to that of whichever node serves its slot by then.
pub(super) enum Route<'a> {
    To { link: &'a Rc<Link>, clock: &'a Rc<Clock> },
    Slot { cluster: &'a Rc<Cluster>, slot: u16, kind: Kind },
}

impl Router {
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        matches!(self, Self::Cluster(_)).then(|| slots::slot(key))
    }

    /// The node that holds a slot now; `None` where nobody is known to.
    pub(super) fn node(&self, slot: Slot) -> Option<Rc<Node>> {
        match (self, slot) {
            (Self::One { node, .. }, _) => Some(node.clone()),
            (Self::Cluster(cluster), Some(slot)) => cluster.owner(slot),
            (Self::Cluster(cluster), None) => cluster.any(),
        }
    }

    pub(super) fn nodes(&self) -> Vec<Rc<Node>> {
        match self {
            Self::One { node, .. } => vec![node.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    pub(super) fn parts(&self) -> Vec<Rc<Part>> {
        match self {
            Self::One { part, .. } => vec![part.clone()],
            Self::Cluster(cluster) => cluster.parts(),
        }
    }

    pub(super) fn route<'a>(&'a self, slot: Slot, kind: Kind) -> Route<'a> {
        match self {
            Self::One { node, .. } => Route::To { link: kind(node), clock: &node.clock },
            Self::Cluster(cluster) => Route::Slot { cluster, slot: slot.unwrap_or(0), kind },
        }
    }

    /// The keys of a call as this Redis has them. Those that all queues of a Redis share are there
    /// once for each slot of a Cluster, or a script could not have them.
    pub(super) fn keys_in(slot: Slot, keys: &mut [Bytes]) {
        let Some(slot) = slot else { return };
        for key in keys.iter_mut().filter(|key| *key == ALL || *key == REGISTRY) {
            let name = String::from_utf8_lossy(key);
            *key = Bytes::from(format!("{name}:{{{}}}", slots::tag(slot)));
        }
    }
}

impl Route<'_> {
    pub(super) fn slot(&self) -> Slot {
        match self {
            Self::To { .. } => None,
            Self::Slot { slot, .. } => Some(*slot),
        }
    }

    /// The link that the call is to take now, once it is up; and the clock of its node.
    ///
    /// # Errors
    /// Nothing was sent: why there is no connection, after a colon, as far as is known.
    pub(super) async fn link(&self, at_most: Duration) -> Result<(Rc<Link>, Rc<Clock>), String> {
        let (cluster, slot, kind) = match self {
            Self::To { link, clock } => {
                return match link.wait_up(at_most).await {
                    true => Ok(((*link).clone(), (*clock).clone())),
                    false => Err(link.why_down()),
                };
            }
            Self::Slot { cluster, slot, kind } => (cluster, *slot, kind),
        };
        let deadline = Instant::now() + at_most;
        loop {
            let changed = cluster.changed.notified();
            let node = cluster.owner(slot);
            if let Some(node) = &node
                && kind(node).is_up()
            {
                return Ok((kind(node).clone(), node.clock.clone()));
            }
            cluster.ask();
            let waited = match &node {
                Some(node) => {
                    let link = kind(node);
                    let comes = async {
                        tokio::select! {
                            () = link.comes_up() => {}
                            () = changed => {}
                        }
                    };
                    timeout_at(deadline, comes).await
                }
                None => timeout_at(deadline, changed).await,
            };
            if waited.is_err() {
                return Err(cluster.why_not(slot, node.as_deref(), *kind));
            }
        }
    }

    /// The same, where it is up now.
    pub(super) fn link_now(&self) -> Result<(Rc<Link>, Rc<Clock>), String> {
        match self {
            Self::To { link, clock } => Ok(((*link).clone(), (*clock).clone())),
            Self::Slot { cluster, slot, kind } => match cluster.owner(*slot) {
                Some(node) if kind(&node).is_up() => Ok((kind(&node).clone(), node.clock.clone())),
                node => {
                    cluster.ask();
                    Err(cluster.why_not(*slot, node.as_deref(), *kind))
                }
            },
        }
    }

    /// How long the outcome of an interrupted call is looked for.
    pub(super) fn settle_within(&self, at_least: Duration) -> Duration {
        match self {
            Self::To { link, .. } => link.settle_within(at_least),
            Self::Slot { cluster, .. } => cluster.times.settle_within(at_least),
        }
    }

    /// Redis refused a call in these words, before anything was written. True where the same call
    /// is to be made again: the slot moves or has moved, or the Cluster chooses another node for
    /// it.
    pub(super) fn is_elsewhere(&self, words: &str) -> bool {
        match self {
            Self::To { .. } => false,
            Self::Slot { cluster, slot, .. } => cluster.is_elsewhere(*slot, words),
        }
    }

    /// A call of this slot was answered.
    pub(super) fn answered(&self) {
        if let Self::Slot { cluster, slot, .. } = self {
            cluster.answered(*slot);
        }
    }
}

/// Words of a node of a Cluster that say: refused before anything was written, and not for good.
/// ASK is not followed: a script whose guard is not there is refused at both nodes.
const ELSEWHERE: [&str; 7] =
    ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"];
/// Of them, those of a slot that is being moved.
const OPEN: [&str; 2] = ["ASK", "TRYAGAIN"];

pub(super) fn is_elsewhere(words: &str) -> bool {
    ELSEWHERE.iter().any(|word| says(words, word))
}

pub(super) fn is_open(words: &str) -> bool {
    OPEN.iter().any(|word| says(words, word))
}

/// Calls under way to a node, and when it last answered one: whoever hangs is not waited for by
/// those who do not need it.
#[derive(Default)]
pub(super) struct Pulse {
    under_way: Cell<usize>,
    since: Cell<Option<Instant>>,
}

/// Without an answer for so long, a node with calls under way hangs.
const HANGS_AFTER: Duration = Duration::from_millis(250);

impl Pulse {
    /// Counts a call as under way while `call` is.
    pub(super) async fn of<T>(&self, call: impl Future<Output = T>) -> T {
        if self.under_way.get() == 0 {
            self.since.set(Some(Instant::now()));
        }
        self.under_way.set(self.under_way.get() + 1);
        let _beat = Beat(self);
        call.await
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    pub(super) fn hangs(&self) -> bool {
        let long_ago = |since: Instant| since.elapsed() > HANGS_AFTER;
        self.under_way.get() > 0 && self.since.get().is_some_and(long_ago)
    }
}

struct Beat<'a>(&'a Pulse);

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get().saturating_sub(1));
        self.0.since.set(Some(Instant::now()));
    }
}
