//! A Redis Cluster as the broker knows it: its primaries, who serves which slot, and the task that
//! keeps that true.
//!
//! ```text
//! CLUSTER NODES of each primary, every 10 s -> the map of slots -> links to each primary
//! MOVED, a broken link, CLUSTERDOWN --------> the same, soon
//! ```
//!
//! What a node says of itself is believed by the highest epoch; MOVED goes before, since it is
//! newer. A wrong entry of the map costs one more MOVED, and never a message: a node that does not
//! serve a slot refuses its calls. Calls of one slot that is being moved wait, others do not.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::Place;
use crate::store::Limits;
use crate::store::batch::Load;
use crate::store::clock::Clock;
use crate::store::link::{Connect, Link, LinkContext, LinkError, Peer, client_name};
use crate::store::master::{Master, Times};
use crate::store::node::Node;
use crate::store::offer::Part;
use crate::store::router::{Kind, is_elsewhere, is_open};
use crate::store::says;
use crate::store::slots::{self, Member, SLOTS};

/// How often the nodes are asked without a reason, and at most with one.
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// How often others are asked while primaries answer and leave slots to nobody.
const ASK_OTHERS_EVERY: Duration = Duration::from_secs(1);
/// How long one may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A node that serves no slot any more is left after this time.
const GONE_AFTER: Duration = Duration::from_secs(30);
/// Bytes of an answer: a line of 200 bytes for each node, and its slots.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// Nodes that are asked beside those that serve slots.
const OTHERS_MAX: usize = 16;
/// A slot that is being moved for longer makes the log say so.
const OPEN_LONG: Duration = Duration::from_secs(10);
/// Refused so long ago, it is not being moved any more.
const OPEN_AGO: Duration = Duration::from_secs(2);
/// Slots of which is noted that they are being moved.
const OPEN_MAX: usize = 1_000;

pub struct Cluster {
    /// Of which each node has its own.
    context: LinkContext,
    limits: Limits,
    token: String,
    seeds: Vec<Place>,
    /// Nodes that know the others, beside those that serve slots: replicas.
    others: RefCell<Vec<Place>>,
    others_asked: Cell<Option<Instant>>,
    nodes: RefCell<Vec<Served>>,
    owners: RefCell<Vec<Option<Rc<Node>>>>,
    /// Counts the nodes that were made.
    made: Cell<u64>,
    /// Nodes, owners, or whether a node can be reached.
    pub(super) changed: Notify,
    /// Counts those changes.
    pub(super) version: Cell<u64>,
    /// A node can be reached again.
    pub(super) back: Notify,
    asked: Notify,
    /// Why nothing is known of it.
    why: RefCell<String>,
    pub(super) times: Times,
    /// Samples of all nodes: for what is no queue's.
    pub(super) clock: Rc<Clock>,
    open: RefCell<HashMap<u16, OpenSlot>>,
    parts: RefCell<BTreeMap<u16, Rc<Part>>>,
    /// Offers that wait for somebody who serves their slot.
    pub(super) load: Rc<Load>,
    /// Parts that have something to send, and no call under way.
    pub(super) ready: RefCell<Vec<Rc<Part>>>,
}

struct Served {
    node: Rc<Node>,
    /// The task that tells when it can be reached again.
    tells: AbortHandle,
    place: Place,
    /// It serves no slot since then.
    without: Option<Instant>,
}

/// A slot that is being moved.
struct OpenSlot {
    since: Instant,
    last: Instant,
    told: bool,
}

impl Cluster {
    /// Begins to learn it; does not wait.
    pub(super) fn start(
        context: &LinkContext,
        limits: Limits,
        token: &str,
        seeds: Vec<Place>,
    ) -> Rc<Self> {
        let cluster = Rc::new(Self {
            clock: context.clock.clone(),
            context: context.clone(),
            limits,
            token: token.to_owned(),
            seeds,
            others: RefCell::default(),
            others_asked: Cell::new(None),
            nodes: RefCell::default(),
            owners: RefCell::new(vec![None; usize::from(SLOTS)]),
            made: Cell::new(0),
            changed: Notify::new(),
            version: Cell::new(0),
            back: Notify::new(),
            asked: Notify::new(),
            why: RefCell::new("no node of the Cluster has answered yet".to_owned()),
            times: Times::default(),
            open: RefCell::default(),
            parts: RefCell::default(),
            load: Rc::default(),
            ready: RefCell::default(),
        });
        tokio::task::spawn_local(watch(cluster.clone()));
        cluster
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Rc<Node>> {
        self.owners.borrow().get(usize::from(slot)).cloned().flatten()
    }

    /// One that can be reached, if any can.
    pub(super) fn any(&self) -> Option<Rc<Node>> {
        let nodes = self.nodes.borrow();
        let up = nodes.iter().find(|served| served.without.is_none() && served.node.is_up());
        up.or(nodes.first()).map(|served| served.node.clone())
    }

    /// Those that serve slots, and those that did a moment ago.
    pub(super) fn nodes(&self) -> Vec<Rc<Node>> {
        self.nodes.borrow().iter().map(|served| served.node.clone()).collect()
    }

    /// Those that serve slots; how many of them can be reached, and how many there are.
    pub(super) fn reached(&self) -> (usize, usize) {
        let nodes = self.nodes.borrow();
        let serving = nodes.iter().filter(|served| served.without.is_none());
        let up = serving.clone().filter(|served| served.node.is_up());
        (up.count(), serving.count())
    }

    /// How many slots nobody serves.
    pub(super) fn orphans(&self) -> usize {
        self.owners.borrow().iter().filter(|owner| owner.is_none()).count()
    }

    /// How many slots are being moved, by the last refusals.
    pub(super) fn open_slots(&self) -> usize {
        let open = self.open.borrow();
        open.values().filter(|slot| slot.last.elapsed() < OPEN_AGO).count()
    }

    /// Why the Cluster cannot be used at all, or why one of its nodes cannot be reached.
    pub(super) fn why_down(&self) -> String {
        let nodes = self.nodes.borrow();
        let down = nodes.iter().find(|served| !served.node.is_up());
        match down {
            Some(served) => format!(": {}{}", served.place, served.node.why_down()),
            None if nodes.iter().all(|served| served.without.is_some()) => {
                format!(": {}", self.why.borrow())
            }
            None => String::new(),
        }
    }

    /// Why nothing can be sent for a slot, after a colon.
    pub(super) fn why_not(&self, slot: u16, node: Option<&Node>, kind: Kind) -> String {
        match node {
            None if self.nodes.borrow().is_empty() => format!(": {}", self.why.borrow()),
            None => format!(": slot {slot} of the Cluster is served by nobody"),
            Some(node) => {
                let why = kind(node).why_down();
                format!(": slot {slot} of the Cluster is at {}{why}", node.place)
            }
        }
    }

    fn change(&self) {
        self.version.set(self.version.get() + 1);
        self.changed.notify_waiters();
    }

    /// The nodes are to be asked soon.
    pub(super) fn ask(&self) {
        self.asked.notify_one();
    }

    /// See [`Route::is_elsewhere`](super::router::Route::is_elsewhere).
    pub(super) fn is_elsewhere(self: &Rc<Self>, slot: u16, words: &str) -> bool {
        if !is_elsewhere(words) {
            return false;
        }
        if let Some((moved, host, port)) = slots::moved(words) {
            if let Some(place) = self.place(host, None, port, self.place_of(slot).as_ref()) {
                let node = self.node(&place);
                self.set_owner(moved, &node);
            }
            self.answered(moved);
        } else if is_open(words) {
            self.is_open(slot);
            return true;
        }
        self.ask();
        true
    }

    fn place_of(&self, slot: u16) -> Option<Place> {
        let (node, nodes) = (self.owner(slot)?, self.nodes.borrow());
        let served = nodes.iter().find(|served| Rc::ptr_eq(&served.node, &node))?;
        Some(served.place.clone())
    }

    /// The slot is not being moved, as far as a call has shown.
    pub(super) fn answered(&self, slot: u16) {
        if self.open.borrow().is_empty() {
            return;
        }
        let Some(open) = self.open.borrow_mut().remove(&slot) else { return };
        if open.told {
            tracing::info!(slot, "a slot of the Cluster is served again");
        }
        // Its queues may wait for long by then.
        if open.since.elapsed() > ASK_PAUSE {
            self.back.notify_waiters();
        }
    }

    fn is_open(&self, slot: u16) {
        let (mut all, now) = (self.open.borrow_mut(), Instant::now());
        if all.len() >= OPEN_MAX {
            all.retain(|_, open| open.last.elapsed() < OPEN_AGO);
        }
        if all.len() >= OPEN_MAX {
            return;
        }
        let open = all.entry(slot).or_insert(OpenSlot { since: now, last: now, told: false });
        if open.last.elapsed() > OPEN_AGO && !open.told {
            open.since = now;
        }
        open.last = now;
        if open.since.elapsed() > OPEN_LONG && !std::mem::replace(&mut open.told, true) {
            tracing::warn!(
                slot,
                "a slot of the Cluster is being moved for long, and its queues are not served: is \
                 a reshard stuck? CLUSTER SETSLOT {slot} STABLE ends it"
            );
        }
    }

    /// A place as nodes name it, which may be one that this host reaches by another address.
    /// `from`: the node that named it.
    fn place(
        &self,
        host: &str,
        name: Option<&str>,
        port: u16,
        from: Option<&Place>,
    ) -> Option<Place> {
        let tls = self.context.backend.login.tls.is_some();
        let named = |host: &str| Place::Tcp { host: host.to_owned(), port, tls };
        let host = match (host, from) {
            // As the node that was asked is reached.
            ("" | "?", Some(Place::Tcp { host, .. })) => host.as_str(),
            ("" | "?", _) => return None,
            (host, _) => host,
        };
        // A certificate is for a name.
        let host = name.filter(|_| tls).unwrap_or(host);
        let place = named(host);
        let told = self.context.backend.addresses.get(&place.to_string());
        Some(told.cloned().unwrap_or(place))
    }

    /// The node at a place; made where there is none.
    fn node(self: &Rc<Self>, place: &Place) -> Rc<Node> {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(served) = nodes.iter_mut().find(|served| served.place == *place) {
            served.without = None;
            return served.node.clone();
        }
        self.made.set(self.made.get() + 1);
        let context = LinkContext {
            master: Rc::new(Master::of_cluster(place.clone(), self.times.clone())),
            clock: Rc::default(),
            clock_of_all: Some(self.clock.clone()),
            told: Rc::default(),
            answered: Rc::default(),
            number: self.made.get(),
            ..self.context.clone()
        };
        tracing::info!(node = %place, "a primary of the Cluster");
        let node = Rc::new(Node::start(&context, self.limits, &self.token, place.to_string()));
        let telling = tokio::task::spawn_local(tell_up(self.clone(), node.clone()));
        let (tells, place, without) = (telling.abort_handle(), place.clone(), None);
        nodes.push(Served { node: node.clone(), tells, place, without });
        drop(nodes);
        self.change();
        node
    }

    fn set_owner(&self, slot: u16, node: &Rc<Node>) {
        let mut owners = self.owners.borrow_mut();
        if let Some(owner) = owners.get_mut(usize::from(slot))
            && !owner.as_ref().is_some_and(|owner| Rc::ptr_eq(owner, node))
        {
            *owner = Some(node.clone());
            drop(owners);
            self.change();
        }
    }

    /// The part of the offers of a slot.
    pub(super) fn part(&self, slot: u16) -> Rc<Part> {
        let mut parts = self.parts.borrow_mut();
        let new = || Rc::new(Part::new(Some(slot), &self.token, self.limits));
        parts.entry(slot).or_insert_with(new).clone()
    }

    pub(super) fn parts(&self) -> Vec<Rc<Part>> {
        self.parts.borrow().values().cloned().collect()
    }

    /// What nodes said, each with where it was asked: replicas, and who serves each slot.
    fn believed(&self, said: &[(Place, Vec<Member>)]) -> (Vec<Place>, Vec<Option<Place>>) {
        let mut others = Vec::new();
        let mut claims = Vec::new();
        for (asked, members) in said {
            for member in members {
                let (host, name) = (&member.host[..], member.name.as_deref());
                let Some(at) = self.place(host, name, member.port, Some(asked)) else { continue };
                if !member.primary && !others.contains(&at) && others.len() < OTHERS_MAX {
                    others.push(at.clone());
                }
                claims.push((at, member.clone()));
            }
        }
        (others, slots::owners(claims))
    }

    fn learn(self: &Rc<Self>, others: Vec<Place>, owners: Vec<Option<Place>>) {
        if owners.iter().all(Option::is_none) {
            self.why.replace("no node of the Cluster serves a slot".to_owned());
        } else {
            self.others.replace(others);
        }
        let mut by_place: Vec<(Place, Rc<Node>)> = Vec::new();
        for (slot, owner) in owners.into_iter().enumerate() {
            let node = owner.map(|place| {
                if let Some((_, node)) = by_place.iter().find(|(other, _)| *other == place) {
                    return node.clone();
                }
                let node = self.node(&place);
                by_place.push((place, node.clone()));
                node
            });
            match (node, u16::try_from(slot)) {
                (Some(node), Ok(slot)) => self.set_owner(slot, &node),
                (None, Ok(_)) => {
                    if let Some(owner) = self.owners.borrow_mut().get_mut(slot) {
                        *owner = None;
                    }
                }
                _ => {}
            }
        }
        self.leave_those_without();
    }

    fn leave_those_without(&self) {
        let serves = |node: &Rc<Node>| {
            self.owners.borrow().iter().flatten().any(|owner| Rc::ptr_eq(owner, node))
        };
        let mut left = Vec::new();
        self.nodes.borrow_mut().retain_mut(|served| {
            if serves(&served.node) {
                served.without = None;
                return true;
            }
            let since = *served.without.get_or_insert_with(Instant::now);
            let stays = since.elapsed() < GONE_AFTER;
            if !stays {
                served.tells.abort();
                left.push(served.node.clone());
            }
            stays
        });
        for node in left {
            tracing::info!(node = %node.place, "it serves no slot of the Cluster any more: left");
            self.change();
            tokio::task::spawn_local(async move { node.quit().await });
        }
    }

    /// Asks the primaries; and others where none of them answers, none is known, or they leave
    /// slots to nobody, as those do that were taken out of the Cluster.
    async fn look(self: &Rc<Self>) {
        let nodes: Vec<(Place, Rc<Node>)> = {
            let nodes = self.nodes.borrow();
            nodes.iter().map(|served| (served.place.clone(), served.node.clone())).collect()
        };
        let asked = nodes
            .iter()
            .map(|(place, node)| async { (place.clone(), ask_link(&node.plain).await) });
        let mut said = Vec::new();
        for (place, answer) in join_all(asked).await {
            said.extend(answer.ok().map(|members| (place, members)));
        }
        let (mut others, mut owners) = self.believed(&said);
        let is_time = self.others_asked.get().is_none_or(|at| at.elapsed() >= ASK_OTHERS_EVERY);
        if said.is_empty() || (is_time && owners.iter().any(Option::is_none)) {
            self.others_asked.set(Some(Instant::now()));
            let mut more: Vec<Place> = self.others.borrow().clone();
            let seeds = self.seeds.iter().filter(|seed| !more.contains(seed)).cloned();
            more.extend(seeds.collect::<Vec<_>>());
            more.retain(|place| said.iter().all(|(asked, _)| asked != place));
            let asked = more.into_iter().map(|place| async {
                let answer = self.ask_at(&place).await;
                (place, answer)
            });
            let mut whys = Vec::new();
            for (place, answer) in join_all(asked).await {
                match answer {
                    Ok(members) => said.push((place, members)),
                    Err(why) => whys.push(format!("{place}: {why}")),
                }
            }
            if said.is_empty() {
                self.tell(whys.join("; "));
                return;
            }
            (others, owners) = self.believed(&said);
        }
        self.learn(others, owners);
        self.learn_times().await;
    }

    fn tell(&self, why: String) {
        if !why.is_empty() && *self.why.borrow() != why {
            tracing::warn!(why, "no node of the Cluster answers");
            self.why.replace(why);
        }
    }

    async fn ask_at(&self, at: &Place) -> Result<Vec<Member>, String> {
        let LinkContext { backend, connect_timeout, .. } = &self.context;
        let connect = Connect {
            at,
            login: &backend.login,
            name: &client_name("cluster"),
            peer: Peer::Unknown,
            within: (*connect_timeout).min(ANSWER_WITHIN),
            questions: &[&["CLUSTER", "NODES"]],
            reply_bytes_max: REPLY_BYTES_MAX,
        };
        let connected = connect.connect().await?;
        members(connected.answers.first())
    }

    /// How long a primary may be silent before the others replace it.
    async fn learn_times(&self) {
        let Some(node) = self.any() else { return };
        let args = [b"GET".as_slice(), b"cluster-node-timeout"].map(Bytes::from_static);
        let asked = timeout(ANSWER_WITHIN, node.plain.command("CONFIG", &args)).await;
        if let Ok(Ok(BytesFrame::Array { data, .. })) = asked
            && let Some(BytesFrame::BlobString { data, .. }) = data.get(1)
            && let Some(ms) = std::str::from_utf8(data).ok().and_then(|text| text.parse().ok())
        {
            self.times.learn(Duration::from_millis(ms));
        }
    }

    pub(super) async fn quit(&self) {
        let nodes = self.nodes();
        join_all(nodes.iter().map(|node| node.quit())).await;
    }
}

async fn ask_link(link: &Link) -> Result<Vec<Member>, String> {
    let asked = link.call(&[b"CLUSTER", b"NODES"], ANSWER_WITHIN).await;
    match asked {
        Ok(frame) => members(Some(&frame)),
        Err(LinkError::NotSent(why) | LinkError::Broken(why) | LinkError::Refused(why)) => Err(why),
    }
}

fn members(answer: Option<&BytesFrame>) -> Result<Vec<Member>, String> {
    match answer {
        Some(BytesFrame::BlobString { data, .. } | BytesFrame::VerbatimString { data, .. }) => {
            // A link takes larger answers than this question has.
            if data.len() > REPLY_BYTES_MAX {
                return Err(format!("CLUSTER NODES has more than {REPLY_BYTES_MAX} bytes"));
            }
            let members = slots::members(&String::from_utf8_lossy(data));
            if members.is_empty() {
                Err("CLUSTER NODES names none".to_owned())
            } else {
                Ok(members)
            }
        }
        Some(BytesFrame::SimpleError { data, .. }) if data.contains("cluster support disabled") => {
            Err("this Redis is no node of a Cluster: use redis:// for it".to_owned())
        }
        Some(BytesFrame::SimpleError { data, .. }) if says(data, "NOPERM") => {
            Err(format!("the user of redis.url lacks the right to CLUSTER NODES: {data}"))
        }
        Some(BytesFrame::SimpleError { data, .. }) => Err(data.to_string()),
        _ => Err("CLUSTER NODES is answered in another shape".to_owned()),
    }
}

/// Tells when a node can be reached again, for ever: run as a task of its own.
async fn tell_up(cluster: Rc<Cluster>, node: Rc<Node>) {
    loop {
        node.transfers.comes_up().await;
        node.wait_up(ANSWER_WITHIN).await;
        cluster.change();
        cluster.back.notify_waiters();
    }
}

/// Keeps the map true for ever: run as a task of its own.
async fn watch(cluster: Rc<Cluster>) {
    loop {
        let begun = Instant::now();
        cluster.look().await;
        let (up, all) = cluster.reached();
        let whole = all > 0 && up == all && cluster.orphans() == 0;
        sleep_until(begun + ASK_PAUSE).await;
        if whole {
            tokio::select! {
                () = cluster.asked.notified() => {}
                () = sleep_until(begun + ASK_EVERY) => {}
            }
        }
    }
}
