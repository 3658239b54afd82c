//! One master: its links, lanes and clock, its subscription, and how a script gets to it.
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
use crate::store::batch::Load;
use crate::store::clock::Clock;
use crate::store::lane::{Lane, Rest, Within};
use crate::store::link::{Link, LinkContext, LinkError, PLAIN};
use crate::store::redis::Subscription;
use crate::store::router::{Pulse, Route};
use crate::store::script::Script;
use crate::store::sync::Syncs;
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
    /// Commands without a key, which may be repeated or lost.
    pub(super) plain: Rc<Link>,
    /// For offers that wait for replicas or the disk.
    pub(super) syncs: Rc<Syncs>,
    pub subscription: Subscription,
    /// The last heartbeat of the subscription came back.
    pub listens: Cell<bool>,
    /// Where it is, for people; empty where there is one Redis.
    pub place: String,
    /// Among the nodes of a Cluster; 0: there is one Redis.
    pub number: u64,
    /// Transfers under way.
    pub(super) pulse: Pulse,
    /// Offers that wait or are under way, and those calls.
    pub(super) load: Rc<Load>,
    pub(super) offering: Pulse,
    free_lanes: RefCell<Vec<Lane>>,
    permits: Semaphore,
    survey: Survey,
}

impl Node {
    /// Starts the links; does not wait for them.
    pub fn start(context: &LinkContext, limits: Limits, token: &str, place: String) -> Self {
        let lane = |number| {
            // A slot that moves is called by lanes of both nodes.
            let node = match context.number {
                0 => String::new(),
                number => format!("{number}-"),
            };
            Lane::new(&format!("{token}:call-{node}{number}"), None, limits)
        };
        let offers = Link::start("offers", context.clone());
        Self {
            clock: context.clock.clone(),
            limits,
            free_lanes: RefCell::new((0..CALL_LANES).map(lane).collect()),
            permits: Semaphore::new(CALL_LANES),
            survey: Survey::default(),
            syncs: Syncs::new(context, &offers, limits, token),
            offers,
            calls: Link::start("calls", context.clone()),
            transfers: Link::start("transfers", context.clone()),
            plain: Link::start(PLAIN, context.clone()),
            subscription: Subscription::start(context),
            listens: Cell::new(false),
            place,
            number: context.number,
            pulse: Pulse::default(),
            load: Rc::default(),
            offering: Pulse::default(),
        }
    }

    /// True if Redis can be reached on every link.
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

    /// Runs a writing script on a lane of its own; waits for one if all are taken. Not after a
    /// moment, where one is given.
    pub(super) async fn write(
        &self,
        route: &Route<'_>,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
        within: Option<&Within<'_>>,
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
        used.call_within(route, script, &keys, &args, within).await?.served()
    }

    /// Runs a script that reads of many queues. One at a time, and never again where no answer
    /// came: whoever asks does so again and again, and on a Redis that is behind they would pile
    /// up.
    pub(super) async fn survey(
        &self,
        asker: Asker,
        script: &'static Script,
        keys: &[Bytes],
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let deadline = tokio::time::Instant::now() + self.limits.call_timeout;
        let _turn = self.survey_turn(asker).await?;
        let left = || deadline.saturating_duration_since(tokio::time::Instant::now());
        self.calls.wait_up(left()).await;
        // Answers come in order: behind this one Redis has done what was given up on.
        if self.survey.in_doubt.get() {
            match self.calls.call(&[b"PING"], self.limits.call_timeout).await {
                Ok(_) | Err(LinkError::Refused(_)) => self.survey.in_doubt.set(false),
                Err(error) => return Err(unanswered(error)),
            }
        }
        let at_most = left().max(SURVEY_LEAST);
        let asked = self.calls.eval(script, keys, &args, at_most);
        self.survey.answered(asked).await.map_err(unanswered)?.served()
    }

    /// A turn among those who read of many queues of this node.
    ///
    /// # Errors
    /// It is behind with such reads.
    pub(super) async fn survey_turn(&self, asker: Asker) -> Result<Turn<'_>, StoreError> {
        let turn = tokio::time::timeout(self.limits.call_timeout, self.survey.turn(asker)).await;
        turn.map_err(|_| {
            let why = "Redis is behind with reads of this broker; no more are sent";
            StoreError::Unavailable(why.into())
        })
    }

    /// Ends the links, the last use of the store.
    pub async fn quit(&self) {
        // Side by side: each waits for a Redis that does not answer.
        let links = [&self.offers, &self.calls, &self.transfers, &self.plain];
        let links = futures_util::future::join_all(links.map(|link| link.quit()));
        let others = futures_util::future::join(self.subscription.quit(), self.syncs.quit());
        futures_util::future::join(links, others).await;
    }
}

/// Runs a script that writes nothing; repeated until the deadline, since that harms nobody.
pub(super) async fn read(
    route: &Route<'_>,
    limits: Limits,
    script: &'static Script,
    keys: &[Bytes],
    args: Vec<Bytes>,
) -> Result<Answer, StoreError> {
    let deadline = tokio::time::Instant::now() + limits.call_timeout;
    let left = || deadline.saturating_duration_since(tokio::time::Instant::now());
    let mut rest = Rest::default();
    loop {
        let error = match route.link(left()).await {
            Ok((link, _)) => match link.eval(script, keys, &args, left()).await {
                Ok(answer) => return answer.served(),
                Err(LinkError::Refused(words)) if !route.is_elsewhere(&words) => {
                    return Err(unanswered(LinkError::Refused(words)));
                }
                Err(error) => error,
            },
            Err(why) => LinkError::NotSent(format!("the link 'calls' is down{why}")),
        };
        rest.take(deadline).await;
        if left() == Duration::ZERO {
            return Err(unanswered(error));
        }
    }
}

/// Why a call that writes nothing has no answer.
pub(super) fn unanswered(error: LinkError) -> StoreError {
    match error {
        LinkError::NotSent(text) | LinkError::Broken(text) => {
            StoreError::Unavailable(format!("Redis cannot be reached: {text}"))
        }
        LinkError::Refused(text) => match refused(&text) {
            StoreError::Uncertain(why) => StoreError::Unavailable(why),
            error => error,
        },
    }
}

/// The broker reads of many queues to find messages that are due, a client to see the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Broker,
    Client,
}

/// The turns of those who read of many queues.
struct Survey {
    free: Semaphore,
    /// One of the clients waits for its turn, the others behind it: however many they are, the
    /// broker's own reads are next.
    client: Semaphore,
    /// No other begins before.
    rest_until: Cell<tokio::time::Instant>,
    /// The last one has no answer; Redis may still have it before it.
    in_doubt: Cell<bool>,
}

impl Default for Survey {
    fn default() -> Self {
        Self {
            free: Semaphore::new(1),
            client: Semaphore::new(1),
            rest_until: Cell::new(tokio::time::Instant::now()),
            in_doubt: Cell::new(false),
        }
    }
}

type Turn<'a> = [Option<SemaphorePermit<'a>>; 2];

impl Survey {
    async fn turn(&self, asker: Asker) -> Turn<'_> {
        let client = match asker {
            Asker::Client => self.client.acquire().await.ok(),
            Asker::Broker => None,
        };
        let turn = self.free.acquire().await.ok();
        tokio::time::sleep_until(self.rest_until.get()).await;
        [client, turn]
    }

    /// One is in doubt until its answer comes, also where whoever asked has gone by then. The next
    /// one waits as long as it took.
    async fn answered<T>(
        &self,
        asked: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, LinkError> {
        let sent = tokio::time::Instant::now();
        self.in_doubt.set(true);
        let answer = asked.await;
        self.in_doubt.set(matches!(answer, Err(LinkError::Broken(_))));
        let rest = sent.elapsed().min(SURVEY_REST_MAX);
        self.rest_until.set(tokio::time::Instant::now() + rest);
        answer
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn the_broker_goes_before_clients_that_wait() {
        let survey = Survey::default();
        let first = survey.turn(Asker::Client).await;
        let mut clients = [(); 9].map(|()| Box::pin(survey.turn(Asker::Client)));
        assert!(clients.iter_mut().all(|client| client.now_or_never().is_none()));
        let mut broker = Box::pin(survey.turn(Asker::Broker));
        assert!((&mut broker).now_or_never().is_none());
        drop(first);
        assert!(clients.iter_mut().all(|client| client.now_or_never().is_none()));
        drop(broker.now_or_never().expect("it is the broker's turn"));
        assert!((&mut clients[0]).now_or_never().is_some(), "then a client's");
    }

    /// A client may leave before the answer: Redis has the call all the same.
    #[tokio::test]
    async fn a_survey_is_in_doubt_until_it_is_answered() {
        let survey = Survey::default();
        for (answer, in_doubt) in [
            (None, true),
            (Some(Ok(())), false),
            (Some(Err(LinkError::Broken(String::new()))), true),
            (Some(Err(LinkError::Refused(String::new()))), false),
            (Some(Err(LinkError::NotSent(String::new()))), false),
        ] {
            let shown = format!("{answer:?}");
            match answer {
                None => drop(survey.answered(pending::<Result<(), _>>()).now_or_never()),
                Some(answer) => drop(survey.answered(ready(answer)).await),
            }
            assert_eq!(survey.in_doubt.get(), in_doubt, "{shown}");
        }
    }
}
