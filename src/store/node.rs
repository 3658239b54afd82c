//! One master: its links, lanes and clock, and how a script gets to it.
//!
//! Offers, transfers and all other calls have a link each, so that none waits behind another's
//! replies. Writes go by lanes, which make their outcome certain; reads are repeated; what reads of
//! many queues waits its turn.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::store::answer::Answer;
use crate::store::clock::Clock;
use crate::store::lane::{Lane, Rest};
use crate::store::link::{Link, LinkContext, LinkError};
use crate::store::redis::Plain;
use crate::store::script::Script;
use crate::store::{Limits, StoreError, refused};

/// Commands other than offers that may be under way at once: each has a lane of its own.
const CALL_LANES: usize = 32;

/// After a read of many queues none follows for as long as it took, but not longer than this.
const SURVEY_REST_MAX: Duration = Duration::from_secs(1);
/// One that waited long for its turn has so long at least.
const SURVEY_LEAST: Duration = Duration::from_millis(500);

pub struct Node {
    pub clock: Rc<Clock>,
    pub(super) limits: Limits,
    pub(super) offers: Rc<Link>,
    pub(super) calls: Rc<Link>,
    pub(super) transfers: Rc<Link>,
    pub(super) plain: Plain,
    pub(super) offer_lanes: [Lane; 2],
    free_lanes: RefCell<Vec<Lane>>,
    permits: Semaphore,
    survey: Survey,
}

impl Node {
    /// Starts the links; does not wait for them.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn start(context: &LinkContext, limits: Limits, token: &str) -> Result<Self, String> {
        let offers = Link::start("offers", context.clone());
        let calls = Link::start("calls", context.clone());
        let transfers = Link::start("transfers", context.clone());
        let lane = |link: &Rc<Link>, name: String| {
            Lane::new(link.clone(), &format!("{token}:{name}"), context.clock.clone(), limits)
        };
        Ok(Self {
            clock: context.clock.clone(),
            limits,
            offer_lanes: [lane(&offers, "offer-0".into()), lane(&offers, "offer-1".into())],
            free_lanes: RefCell::new(
                (0..CALL_LANES).map(|n| lane(&calls, format!("call-{n}"))).collect(),
            ),
            permits: Semaphore::new(CALL_LANES),
            survey: Survey::default(),
            offers,
            calls,
            transfers,
            plain: Plain::start(context)?,
        })
    }

    /// Whether Redis can be reached on every link.
    pub fn is_up(&self) -> bool {
        [&self.offers, &self.calls, &self.transfers].iter().all(|link| link.is_up())
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

    /// Runs a writing script on a lane of its own; waits for one if all are taken.
    pub(super) async fn write(
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
        used.call(script, &keys, &args).await?.served()
    }

    /// Runs a script that writes nothing; repeated until the deadline, since that harms nobody.
    pub(super) async fn read(
        &self,
        script: &'static Script,
        keys: &[Bytes],
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let deadline = tokio::time::Instant::now() + self.limits.call_timeout;
        let mut rest = Rest::default();
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
            rest.take(deadline).await;
        }
    }

    /// Runs a script that reads of many queues, for the broker itself or for all. One at a time,
    /// and never again where no answer came: whoever asks does so again and again, and on a Redis
    /// that is behind they would pile up.
    pub(super) async fn survey(
        &self,
        script: &'static Script,
        keys: &[Bytes],
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let deadline = tokio::time::Instant::now() + self.limits.call_timeout;
        let unavailable = |why: String| StoreError::Unavailable(why);
        let turn = tokio::time::timeout_at(deadline, self.survey.turn()).await;
        let _turn = turn.map_err(|_| {
            unavailable("Redis is behind with reads of this broker; no more are sent".into())
        })?;
        let left = || deadline.saturating_duration_since(tokio::time::Instant::now());
        self.calls.wait_up(left()).await;
        // Answers come in order: behind this one Redis has done what was given up on.
        if self.survey.in_doubt.get() {
            if let Err(LinkError::NotSent(text) | LinkError::Broken(text)) =
                self.calls.call(&[b"PING"], self.limits.call_timeout).await
            {
                return Err(unavailable(format!("Redis cannot be reached: {text}")));
            }
            self.survey.in_doubt.set(false);
        }
        let sent = tokio::time::Instant::now();
        let at_most = left().max(SURVEY_LEAST);
        let reply = self.calls.eval(script, keys, &args, at_most).await;
        self.survey.rests(sent.elapsed());
        match reply {
            Ok(answer) => answer.served(),
            Err(LinkError::Refused(text)) => Err(match refused(&text) {
                // Nothing is written here.
                StoreError::Uncertain(why) => StoreError::Unavailable(why),
                error => error,
            }),
            Err(LinkError::NotSent(text)) => {
                Err(unavailable(format!("Redis cannot be reached: {text}")))
            }
            Err(LinkError::Broken(text)) => {
                self.survey.in_doubt.set(true);
                Err(unavailable(format!("Redis cannot be reached: {text}")))
            }
        }
    }

    /// Ends the links, the last use of the store.
    pub async fn quit(&self) {
        // Side by side: each waits for a Redis that does not answer.
        let links = [&self.offers, &self.calls, &self.transfers];
        let quit = futures_util::future::join_all(links.map(|link| link.quit()));
        futures_util::future::join(quit, self.plain.quit()).await;
    }
}

/// Whose turn it is to read of many queues.
struct Survey {
    free: Semaphore,
    /// No other begins before.
    rest_until: Cell<tokio::time::Instant>,
    /// The last one was given up on; Redis may still have it before it.
    in_doubt: Cell<bool>,
}

impl Default for Survey {
    fn default() -> Self {
        Self {
            free: Semaphore::new(1),
            rest_until: Cell::new(tokio::time::Instant::now()),
            in_doubt: Cell::new(false),
        }
    }
}

impl Survey {
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let turn = self.free.acquire().await.ok();
        tokio::time::sleep_until(self.rest_until.get()).await;
        turn
    }

    /// One took so long; the next waits in proportion.
    fn rests(&self, took: Duration) {
        let rest = took.min(SURVEY_REST_MAX);
        self.rest_until.set(tokio::time::Instant::now() + rest);
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
