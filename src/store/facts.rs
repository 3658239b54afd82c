//! The facts of Redis for the audit: INFO, two settings, round trips, the rights of our user.
//!
//! Asks, and judges nothing: the audit brings the probes and reads the answers. Keeps: nothing
//! is written, each question is small, and a refusal that stays is an answer too. Round trips and
//! rights are those of the offers' link.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::domain::text::version_of;
use crate::store::Store;
use crate::store::clock::monotonic_us;
use crate::store::link::{Link, LinkError};
use crate::store::node::Node;
use crate::store::router::Router;
use crate::store::script::PROBE;

const PINGS: usize = 5;
const NO_ARGS: [Bytes; 0] = [];
/// How long the other link may take after the one whose connection is audited.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);
/// Between two of them, and before the first: a new connection is busy with its scripts.
const PING_PAUSE: Duration = Duration::from_millis(10);
/// How long the first attempt to subscribe may take.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);
/// Before it, Redis knows no scripts that write nothing, so probes might.
const PROBES_SINCE: (u32, u32) = (7, 0);

/// Fields by name, or Redis's words where it refused to tell.
pub type Fields = Result<HashMap<String, String>, String>;

/// The facts of a Redis.
#[derive(Debug)]
pub struct Facts {
    /// Of INFO.
    pub info: Fields,
    /// Of CONFIG GET: `appendfsync`, `save` and `cluster-require-full-coverage`, as far as they are
    /// known.
    pub config: Fields,
    /// Round trips of some PINGs, microseconds.
    pub round_trips_us: Vec<u64>,
    /// Sentinels watch it.
    pub watched: bool,
    /// Of a node of a Cluster: how many slots nobody serves.
    pub slots_away: Option<usize>,
    /// The command that subscribes and Redis's words where it was refused; empty where it was not.
    pub subscription: String,
    pub probes: Probed,
}

/// The outcome of calls that only ask whether our user may make them.
#[derive(Debug)]
pub enum Probed {
    /// Redis's words for each call, empty where it may be made.
    Each(Vec<String>),
    /// Redis refused the script that makes the calls.
    Refused(String),
    /// This Redis cannot be asked without writing.
    Unasked,
}

/// The fields of an INFO reply.
pub fn fields(info: &str) -> HashMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

impl Store {
    /// How often the links came up on which Redis is asked.
    pub fn connections(&self) -> u64 {
        self.router.nodes().iter().map(|node| node.offers.connections()).sum()
    }

    /// Waits for a connection after so many, or until what the subscription is told has changed.
    pub async fn facts_change(&self, connections: u64) {
        match &self.router {
            Router::One { node, .. } => tokio::select! {
                () = node.offers.connected_again(connections) => {}
                () = node.subscription.refusal_changed() => {}
            },
            Router::Cluster(_) => {
                while self.connections() <= connections {
                    self.comes_up().await;
                }
            }
        }
    }

    /// The facts of each node that can be reached, and its address where there are several.
    /// `probes`: calls with their keys, which a script asks for and does not make.
    ///
    /// # Errors
    /// Redis cannot be asked now: it is away, loads, or is busy.
    pub async fn facts(&self, probes: &[Bytes]) -> Result<Vec<(String, Facts)>, String> {
        let slots_away = self.slots_away();
        let (mut all, mut why) = (Vec::new(), "no node can be reached".to_owned());
        for node in self.router.nodes() {
            if slots_away.is_none() || node.is_up() {
                match self.facts_of(&node, probes).await {
                    Ok(mut facts) => {
                        facts.slots_away = slots_away.map(|(nobodys, _)| nobodys);
                        all.push((node.place.clone(), facts));
                    }
                    Err(words) => why = words,
                }
            }
        }
        if all.is_empty() { Err(why) } else { Ok(all) }
    }

    async fn facts_of(&self, node: &Node, probes: &[Bytes]) -> Result<Facts, String> {
        let Node { plain, offers, subscription, .. } = node;
        plain.wait_up(CONNECTED_WITHIN).await;
        let info = for_good(plain.command("INFO", &NO_ARGS).await)?;
        let info: Fields = info.map(|frame| fields(&text(&frame)));
        let field = |name: &str| info.as_ref().ok().and_then(|fields| fields.get(name));
        if field("loading").is_some_and(|loading| loading == "1") {
            return Err("Redis loads its data".to_owned());
        }
        let mut config: Fields = Ok(HashMap::new());
        for name in ["appendfsync", "save", "cluster-require-full-coverage"] {
            let args = [Bytes::from_static(b"GET"), Bytes::from(name)];
            match (for_good(plain.command("CONFIG", &args).await)?, &mut config) {
                (Ok(frame), Ok(known)) => {
                    if let Some(value) = second(&frame) {
                        known.insert(name.to_owned(), value);
                    }
                }
                (Err(words), _) => config = Err(words),
                (Ok(_), Err(_)) => {}
            }
        }
        let mut round_trips_us = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            tokio::time::sleep(PING_PAUSE).await;
            let sent = monotonic_us();
            let _ = for_good(offers.call(&[b"PING"], self.limits.call_timeout).await)?;
            round_trips_us.push(monotonic_us().saturating_sub(sent));
        }
        let version = field("redis_version").and_then(|text| version_of(text));
        let subscription = subscription.refusal(SUBSCRIBED_WITHIN).await;
        let probes = match version {
            Some(version) if version < PROBES_SINCE => Probed::Unasked,
            _ => self.probed(offers, probes).await?,
        };
        let watched = offers.can_move();
        let slots_away = None;
        Ok(Facts { info, config, round_trips_us, watched, slots_away, subscription, probes })
    }

    async fn probed(&self, offers: &Link, probes: &[Bytes]) -> Result<Probed, String> {
        let at_most = self.limits.call_timeout;
        match offers.eval(&PROBE, &NO_ARGS, probes, at_most).await {
            Ok(mut answer) => {
                let words = probes.iter().map(|_| answer.text());
                let words: Result<Vec<String>, _> = words.collect();
                words.map(Probed::Each).map_err(|error| error.to_string())
            }
            Err(LinkError::Refused(words)) if !passes(&words) => Ok(Probed::Refused(words)),
            Err(LinkError::Refused(why) | LinkError::NotSent(why) | LinkError::Broken(why)) => {
                Err(why)
            }
        }
    }
}

/// A refusal that will be over soon.
fn passes(words: &str) -> bool {
    ["LOADING", "BUSY"].iter().any(|word| words.starts_with(word))
}

/// An answer, or a refusal that stays.
fn for_good(reply: Result<BytesFrame, LinkError>) -> Result<Result<BytesFrame, String>, String> {
    match reply {
        Ok(frame) => Ok(Ok(frame)),
        Err(LinkError::Refused(words)) if !passes(&words) => Ok(Err(words)),
        Err(LinkError::Refused(why) | LinkError::NotSent(why) | LinkError::Broken(why)) => Err(why),
    }
}

fn text(frame: &BytesFrame) -> String {
    match frame {
        BytesFrame::BlobString { data, .. } | BytesFrame::VerbatimString { data, .. } => {
            String::from_utf8_lossy(data).into_owned()
        }
        _ => String::new(),
    }
}

/// The value of CONFIG GET's pair.
fn second(frame: &BytesFrame) -> Option<String> {
    match frame {
        BytesFrame::Array { data, .. } => data.get(1).map(text),
        _ => None,
    }
}
