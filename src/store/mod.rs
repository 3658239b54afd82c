//! The backing Redis as the broker sees it: one typed method for each script, grouped by who calls
//! it.
//!
//! [`offers`] writes batches, [`delivery`] moves what is due, [`messages`] is what commands do to
//! pending messages, [`search`], [`first`] and [`convert`] the paged ones among them, [`facts`]
//! what the audit asks. [`lane`] makes a write's outcome certain, [`redis`] is the only user of
//! the client library, [`script`] lists the files of `lua/`.

pub mod answer;
pub mod convert;
pub mod delivery;
pub mod facts;
pub mod first;
pub mod keys;
pub mod lane;
pub mod member;
pub mod messages;
pub mod offers;
pub mod redis;
pub mod script;
pub mod search;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::queue::QueueName;
use crate::store::answer::Answer;
use crate::store::keys::QueueKeys;
use crate::store::lane::Lane;
use crate::store::offers::Configured;
use crate::store::redis::{Link, LinkContext, LinkError};
use crate::store::script::Script;

/// Why a call to the store failed, and whether it may have been applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// Not applied: the keys belong to another queue name.
    #[error("the keys of this queue belong to the queue '{}'", owner.escape_ascii())]
    BadQueue { owner: Vec<u8> },
    /// Not applied: a key of the queue holds another type. It is escaped, as it is logged too.
    #[error("a key of this queue holds another type: {key}")]
    WrongType { key: String },
    /// Not applied: the broker serves as many queues as it may.
    #[error(
        "limits.queues_max, {max}, queues are served already, and this one is not among them: \
         use one of those, or raise it"
    )]
    TooManyQueues { max: usize },
    /// Not applied: a cursor that no page gave.
    #[error("the cursor is not one that a page of this command gave; begin with 0")]
    BadCursor,
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
    // Redis 6 wraps a script's error: "ERR Error running script (call to f_..): @user_script:1: OOM
    // ...".
    let says = |word: &str| text.split([' ', '-', ':']).any(|part| part == word);
    if says("WRONGTYPE") {
        return StoreError::WrongType {
            key: text.to_owned(),
        };
    }
    // Rights that a script lacks stop it where it is, perhaps after a write: Redis 7.0 and 6.2,
    // newer ones.
    if text.contains("The user executing the script") || text.contains("ACL failure in script") {
        return StoreError::Uncertain(format!(
            "Redis stopped a script for want of a right, see the audit: {text}"
        ));
    }
    if REFUSALS.iter().any(|word| says(word)) {
        return StoreError::Unavailable(format!("Redis refused: {text}"));
    }
    StoreError::Internal(format!("Redis answered: {text}"))
}

/// Bounds of waiting, and how much may be asked for at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub call_timeout: Duration,
    pub settle_timeout: Duration,
    /// Bytes of payload in one reply.
    pub reply_bytes_max: usize,
}

/// Commands other than offers that may be under way at once: each has a lane of its own.
const CALL_LANES: usize = 32;

/// Names kept in mind as recorded; when so many are, they are forgotten and recorded again.
const RECORDED_MAX: usize = 4_096;

pub struct Store {
    pub clock: Rc<Clock>,
    limits: Limits,
    offers: Rc<Link>,
    calls: Rc<Link>,
    transfers: Rc<Link>,
    offer_lanes: [Lane; 2],
    free_lanes: RefCell<Vec<Lane>>,
    /// Names that are recorded because their keys alone would say another one.
    recorded: RefCell<HashSet<Bytes>>,
    permits: Semaphore,
}

impl Store {
    /// Starts the three links; does not wait for them.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn start(context: &LinkContext, limits: Limits, token: &str) -> Result<Rc<Self>, String> {
        let offers = Link::start("offers", context.clone())?;
        let calls = Link::start("calls", context.clone())?;
        let transfers = Link::start("transfers", context.clone())?;
        let lane = |link: &Rc<Link>, name: String| {
            Lane::new(
                link.clone(),
                &format!("{token}:{name}"),
                context.clock.clone(),
                limits,
            )
        };
        Ok(Rc::new(Self {
            clock: context.clock.clone(),
            limits,
            offer_lanes: [
                lane(&offers, "offer-0".into()),
                lane(&offers, "offer-1".into()),
            ],
            free_lanes: RefCell::new(
                (0..CALL_LANES)
                    .map(|n| lane(&calls, format!("call-{n}")))
                    .collect(),
            ),
            recorded: RefCell::default(),
            permits: Semaphore::new(CALL_LANES),
            offers,
            calls,
            transfers,
        }))
    }

    /// Whether Redis can be reached on every link.
    pub fn is_up(&self) -> bool {
        [&self.offers, &self.calls, &self.transfers]
            .iter()
            .all(|link| link.is_up())
    }

    /// Why Redis cannot be reached, after a colon, as far as it is known.
    pub fn why_down(&self) -> String {
        let links = [&self.offers, &self.calls, &self.transfers];
        let down = links.iter().find(|link| !link.is_up());
        down.map(|link| link.why_down()).unwrap_or_default()
    }

    /// Waits until Redis can be reached, at most so long.
    pub async fn wait_up(&self, at_most: Duration) -> bool {
        let all = async {
            for link in [&self.offers, &self.calls, &self.transfers] {
                link.wait_up(at_most).await;
            }
        };
        let _ = tokio::time::timeout(at_most, all).await;
        self.is_up()
    }

    /// Waits until Redis is reached anew; it may have lost everything meanwhile.
    pub async fn comes_up(&self) {
        self.transfers.comes_up().await;
    }

    /// The keys of a queue that a command names. The keys of `{x}` would be taken for those of `x`
    /// by whoever finds them: the first command that names it records the name.
    async fn keys(&self, queue: &QueueName) -> Result<QueueKeys, StoreError> {
        let k = QueueKeys::new(queue.as_bytes());
        let plain = keys::guess(&k.suffix()) == queue.as_bytes();
        if !plain && !self.recorded.borrow().contains(queue.as_bytes()) {
            self.configure(&k.destination, Configured::default())
                .await?;
            let mut recorded = self.recorded.borrow_mut();
            if recorded.len() >= RECORDED_MAX {
                recorded.clear();
            }
            recorded.insert(k.destination.clone());
        }
        Ok(k)
    }

    /// Runs a writing script on a lane of its own; waits for one if all are taken.
    async fn write(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let closed = || StoreError::Internal("no lane for a call is left".into());
        let permit = tokio::time::timeout(self.limits.call_timeout, self.permits.acquire());
        let Ok(permit) = permit.await else {
            let why =
                format!("{CALL_LANES} calls to Redis are under way and none came back in time");
            return Err(StoreError::Unavailable(why));
        };
        let _permit = permit.map_err(|_| closed())?;
        let lane = Taken {
            lane: Some(self.free_lanes.borrow_mut().pop().ok_or_else(closed)?),
            free: &self.free_lanes,
        };
        let Some(used) = &lane.lane else {
            return Err(closed());
        };
        used.call(script, keys, args).await?.served()
    }

    /// Runs a script that writes nothing; repeated until the deadline, since that harms nobody.
    async fn read(
        &self,
        script: &'static Script,
        keys: &[Bytes],
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let deadline = tokio::time::Instant::now() + self.limits.call_timeout;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            self.calls.wait_up(left).await;
            match self.calls.eval(script, keys, &args, left).await {
                Ok(answer) => return answer.served(),
                Err(LinkError::Refused(text)) => {
                    return Err(match refused(&text) {
                        // Nothing is written here.
                        StoreError::Uncertain(why) => StoreError::Unavailable(why),
                        error => error,
                    });
                }
                Err(LinkError::NotSent(text) | LinkError::Broken(text)) => {
                    if tokio::time::Instant::now() >= deadline {
                        return Err(StoreError::Unavailable(format!(
                            "Redis cannot be reached: {text}"
                        )));
                    }
                }
            }
        }
    }

    /// Redis's TIME in microseconds.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn time(&self) -> Result<u64, StoreError> {
        // STATS of nothing: a script's answer begins with TIME.
        Ok(self.read(&script::STATS, &[], Vec::new()).await?.now_us)
    }

    /// Ends the links, the last use of the store.
    pub async fn quit(&self) {
        // Side by side: each waits for a Redis that does not answer.
        let links = [&self.offers, &self.calls, &self.transfers];
        futures_util::future::join_all(links.map(|link| link.quit())).await;
    }
}

/// A lane in use; free again when dropped, also where the client has gone before its reply came.
struct Taken<'a> {
    lane: Option<Lane>,
    free: &'a RefCell<Vec<Lane>>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.free.borrow_mut().extend(self.lane.take());
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
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: ab",
                false,
            ),
            (
                "ERR Error running script (call to f_ab): @user_script:1: -OOM command not allowed",
                false,
            ),
            (
                "READONLY You can't write against a read only replica.",
                false,
            ),
            ("LOADING Redis is loading the dataset in memory", false),
            ("BUSY Redis is busy running a script.", false),
            ("ERR user_script:3: attempt to index a nil value", true),
        ] {
            assert_eq!(
                matches!(refused(text), StoreError::Internal(_)),
                applied,
                "{text}"
            );
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
