//! One worker: takes as many messages as it has free places, hands each to the handler, keeps its
//! lease, settles it.
//!
//! ```text
//! take (a connection) -> a task for each message -> settle (another connection)
//!                        handler | extend at a third of the lease
//! ```
//!
//! Keeps: what comes after the stop, or in a pause, goes back without an attempt that counts; a
//! place is free again once its message is settled, so nothing waits here but messages in work.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, info, warn};

use super::broker::{Brokers, Connection, Meaning, Route, Trouble, WITHIN, meaning};
use super::command::{self, Groups};
use super::counts::{Counts, add};
use super::message::{Message, messages};
use super::outcome::{Done, Label, Settle};
use super::post::Poster;
use super::settings::{self, Handler};
use super::settle::Settler;
use super::{DENIED, End, TOO_OLD, UNFIT, USAGE};

/// How long a take waits for messages; then it asks again, with the places that are free now.
const BLOCK: Duration = Duration::from_secs(5);
/// Messages of one take.
const TAKE_MAX: usize = 100;
/// Time for a reply that was under way when the take was ended.
const LAST_WITHIN: Duration = Duration::from_secs(2);
/// The least time in which a settlement is repeated, however short the lease.
const SETTLE_LEAST: Duration = Duration::from_secs(10);

/// What the whole process does, in this order but for pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Phase {
    Running,
    Paused,
    /// No more takes; handlers go on.
    Stopping,
    /// The grace time is over: handlers end.
    Ending,
}

pub struct Worker {
    pub settings: settings::Worker,
    pub counts: Counts,
    places: Arc<Semaphore>,
    settler: Settler,
    poster: Option<Poster>,
    groups: Groups,
    phase: watch::Receiver<Phase>,
    /// A handler has ended, and not for want of a program.
    works: Cell<bool>,
    /// Why the process has to end.
    ends: mpsc::Sender<End>,
}

impl Worker {
    pub fn new(
        settings: settings::Worker,
        brokers: &Rc<Brokers>,
        groups: &Groups,
        phase: watch::Receiver<Phase>,
        ends: mpsc::Sender<End>,
    ) -> Rc<Self> {
        let poster = match settings.handler {
            Handler::Post(_) => Poster::new(brokers.tls.as_ref(), settings.concurrency),
            Handler::Command(_) => None,
        };
        Rc::new(Self {
            places: Arc::new(Semaphore::new(settings.concurrency)),
            settler: Settler::start(brokers),
            counts: Counts::default(),
            works: Cell::new(false),
            groups: groups.clone(),
            settings,
            poster,
            phase,
            ends,
        })
    }

    /// The first queue, by which people know the worker.
    pub fn name(&self) -> &str {
        self.settings.queues.first().map_or("", String::as_str)
    }

    /// Done once no message is in work.
    pub async fn idle(&self) {
        let all = u32::try_from(self.settings.concurrency).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    /// Takes until the stop.
    pub async fn take(self: Rc<Self>, mut route: Route) {
        let mut connection: Option<Connection> = None;
        // The broker has answered a take, so it is no mistake of those who started the worker.
        let mut served = false;
        while self.reached(Phase::Running).await {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            let free = 1 + self.places.available_permits().min(TAKE_MAX - 1);
            let taken = tokio::select! {
                biased;
                () = self.left_running() => None,
                taken = self.take_once(&route, &mut connection, free) => Some(taken),
            };
            match taken {
                None => {
                    self.counts.connected.set(false);
                    if let Some(connection) = connection.take()
                        && let Some(reply) = connection.end(LAST_WITHIN).await
                    {
                        let taken = messages(reply, self.name()).unwrap_or_default();
                        self.begin(taken, place);
                    }
                }
                Some(Ok(taken)) => {
                    route.went_well();
                    served = true;
                    self.begin(taken, place);
                }
                Some(Err(trouble)) => {
                    drop(place);
                    connection = None;
                    self.counts.connected.set(false);
                    if let Some(end) = end_of(&trouble, &route.place()).filter(|_| !served) {
                        return self.end(end);
                    }
                    warn!(broker = route.place(), queue = self.name(), "no take: {trouble}");
                    let wait = route.failed();
                    tokio::select! {
                        () = self.left_running() => {}
                        () = sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// Waits in a pause. False once the process stops.
    async fn reached(&self, wanted: Phase) -> bool {
        let mut phase = self.phase.clone();
        let now = phase.wait_for(|now| *now == wanted || *now >= Phase::Stopping).await;
        now.is_ok_and(|now| *now == wanted)
    }

    async fn left_running(&self) {
        let _ = self.phase.clone().wait_for(|now| *now != Phase::Running).await;
    }

    /// One DQ.TAKE. The reply may still be under way where this is dropped.
    async fn take_once(
        &self,
        route: &Route,
        connection: &mut Option<Connection>,
        free: usize,
    ) -> Result<Vec<Message>, Trouble> {
        let connection = match connection {
            Some(connection) => connection,
            None => {
                let connected = connection.insert(route.connect().await?);
                info!(broker = route.place(), queue = self.name(), "connected");
                self.counts.connected.set(true);
                connected
            }
        };
        connection.send([&self.take_command(free)[..]], WITHIN).await?;
        let reply = connection.reply(BLOCK + WITHIN).await?;
        messages(reply, self.name()).map_err(Trouble::Lost)
    }

    fn take_command(&self, free: usize) -> Vec<Bytes> {
        let settings = &self.settings;
        let ms = |time: Duration| time.as_millis().to_string();
        let mut words = vec![b("DQ.TAKE"), b(self.name())];
        words.extend([b("COUNT"), b(&free.to_string()), b("BLOCK"), b(&ms(BLOCK))]);
        words.extend([b("LEASE"), b(&ms(settings.lease))]);
        words.extend(settings.decode.then(|| b("DECODE")));
        if let [_, also @ ..] = &settings.queues[..]
            && !also.is_empty()
        {
            words.push(b("ALSO"));
            words.extend(also.iter().map(|queue| b(queue)));
        }
        words
    }

    /// A task for each message; the first has the place that was free before.
    fn begin(self: &Rc<Self>, taken: Vec<Message>, place: OwnedSemaphorePermit) {
        let at = Instant::now();
        let mut first = Some(place);
        for message in taken {
            // There are as many as were free; nobody else takes any.
            let place = first.take().or_else(|| self.places.clone().try_acquire_owned().ok());
            spawn_local(self.clone().serve(message, at, place));
        }
    }

    async fn serve(
        self: Rc<Self>,
        message: Message,
        taken: Instant,
        _place: Option<OwnedSemaphorePermit>,
    ) {
        let begun = Instant::now();
        let mut until = taken + self.settings.lease;
        // Apart, so that the lock of the phase is not held.
        let phase = *self.phase.borrow();
        let done = match phase {
            Phase::Running => {
                add(&self.counts.active, 1);
                let done = tokio::select! {
                    done = self.handle(&message) => done,
                    never = self.extend(&message, taken, &mut until) => match never {},
                };
                self.counts.active.set(self.counts.active.get().saturating_sub(1));
                done
            }
            _ => Done::silent(),
        };
        self.counts.handled(done.label, begun.elapsed());
        self.say(&message, &done, begun.elapsed());
        // One that has worked misses something for this message only.
        if done.unfit.is_none() {
            self.works.set(true);
        }
        if let Some(why) = done.unfit.as_ref().filter(|_| !self.works.get()) {
            self.end(End { code: UNFIT, why: why.clone() });
        }
        let until = until.max(Instant::now() + SETTLE_LEAST);
        match self.settler.call(settlement(&message, &done.settle), until).await {
            Ok(0) => self.stale(&message),
            Ok(_) => {}
            Err(why) => {
                add(&self.counts.unsettled, 1);
                error!(
                    id = message.id(),
                    "not settled, so the message comes again when its lease ends: {why}"
                );
            }
        }
    }

    async fn handle(&self, message: &Message) -> Done {
        let longest = self.settings.timeout;
        let stop = async {
            let _ = self.phase.clone().wait_for(|now| *now == Phase::Ending).await;
        };
        match (&self.settings.handler, &self.poster) {
            (Handler::Command(words), _) => {
                command::handle(words, message, longest, &self.groups, stop).await
            }
            (Handler::Post(hook), Some(poster)) => {
                poster.handle(hook, message, longest, stop).await
            }
            (Handler::Post(_), None) => Done::silent(),
        }
    }

    /// Extends at a third of the lease, as long as the broker still knows the receipt.
    async fn extend(
        &self,
        message: &Message,
        taken: Instant,
        until: &mut Instant,
    ) -> std::convert::Infallible {
        let lease = self.settings.lease;
        let mut at = extends_at(taken, lease);
        loop {
            sleep_until(at).await;
            let asked = Instant::now();
            let words = [b("DQ.EXTEND"), message.queue.clone(), message.receipt.clone()];
            let words = words.into_iter().chain([b("LEASE"), b(&lease.as_millis().to_string())]);
            match self.settler.call(words.collect(), *until).await {
                Ok(0) => {
                    self.stale(message);
                    return std::future::pending().await;
                }
                Ok(_) => {
                    add(&self.counts.extends, 1);
                    *until = asked + lease;
                    at = extends_at(asked, lease);
                }
                Err(why) => {
                    warn!(id = message.id(), "the lease was not extended: {why}");
                    // Late, but not lost as long as nobody else took it.
                    let now = Instant::now();
                    *until = now + lease;
                    at = extends_at(now, lease);
                }
            }
        }
    }

    fn stale(&self, message: &Message) {
        add(&self.counts.stale, 1);
        warn!(
            queue = %crate::domain::text::Cut(&message.queue),
            id = message.id(),
            "the broker answers 0: the message was handed out again, or is settled"
        );
    }

    fn say(&self, message: &Message, done: &Done, took: Duration) {
        let (id, attempt) = (message.id(), message.attempt);
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let queue = crate::domain::text::Cut(&message.queue);
        match (&done.settle, done.label) {
            (Settle::Nack { reason, .. }, Label::Failed | Label::Timeout) => {
                warn!(%queue, id, attempt, ms, reason, "failed");
            }
            (Settle::Nack { reason, .. }, Label::Fatal) => {
                warn!(%queue, id, attempt, ms, reason, "failed, and is dead");
            }
            (Settle::Nack { .. }, _) => info!(%queue, id, attempt, ms, "given back"),
            (Settle::Ack, _) => debug!(%queue, id, attempt, ms, "done"),
        }
    }

    fn end(&self, end: End) {
        // One reason is enough.
        let _ = self.ends.try_send(end);
    }
}

/// The broker's refusal of the first take, as the end of the process; `None`: it may go well later.
fn end_of(trouble: &Trouble, place: &str) -> Option<End> {
    let Trouble::Refused(why) = trouble else { return None };
    let (code, why) = match meaning(why) {
        Meaning::Again => return None,
        Meaning::Denied => (DENIED, format!("the broker {place} refuses the worker: {why}")),
        Meaning::TooOld => {
            (TOO_OLD, format!("the broker {place} is too old: it has no DQ.TAKE ({why})"))
        }
        Meaning::Wrong => (USAGE, format!("the broker {place} refuses the take: {why}")),
    };
    Some(End { code, why })
}

/// When a lease that was given at this moment is extended: early enough for two more tries.
fn extends_at(given: Instant, lease: Duration) -> Instant {
    given + lease / 3
}

fn settlement(message: &Message, settle: &Settle) -> Vec<Bytes> {
    let of = |command| vec![b(command), message.queue.clone(), message.receipt.clone()];
    match settle {
        Settle::Ack => of("DQ.ACK"),
        Settle::Nack { mode, delay, reason } => {
            let mut words = of("DQ.NACK");
            words.push(b(mode.word()));
            if let Some(delay) = delay {
                words.extend([b("DELAY"), b(&delay.as_millis().to_string())]);
            }
            if !reason.is_empty() {
                words.extend([b("REASON"), b(reason)]);
            }
            words
        }
    }
}

fn b(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::lease::NackMode;

    #[test]
    fn settlements() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let message = Message {
            queue: bytes("q"),
            receipt: bytes("ab:1"),
            id: bytes("ab"),
            attempt: 1,
            payload: Bytes::new(),
            headers: Vec::new(),
        };
        let nack = |mode, delay: Option<u64>, reason: &str| Settle::Nack {
            mode,
            delay: delay.map(Duration::from_secs),
            reason: reason.to_owned(),
        };
        #[rustfmt::skip]
        let rows = [
            (Settle::Ack, "DQ.ACK q ab:1"),
            (nack(NackMode::Fail, None, "x y"), "DQ.NACK q ab:1 FAIL REASON x y"),
            (nack(NackMode::Silent, None, ""), "DQ.NACK q ab:1 SILENT"),
            (nack(NackMode::Fatal, None, "z"), "DQ.NACK q ab:1 FATAL REASON z"),
            (nack(NackMode::Fail, Some(5), "z"), "DQ.NACK q ab:1 FAIL DELAY 5000 REASON z"),
        ];
        for (settle, words) in rows {
            let seen = settlement(&message, &settle);
            assert_eq!(seen.join(&b' '), words.as_bytes(), "{settle:?}");
        }
    }

    #[test]
    fn refusals_at_the_start() {
        let end = |why: &str| end_of(&Trouble::Refused(why.to_owned()), "redis://b");
        assert_eq!(end("UNAVAILABLE Redis is away"), None);
        assert_eq!(end_of(&Trouble::Lost("reset".to_owned()), "redis://b"), None);
        assert_eq!(end("WRONGPASS no").unwrap().code, DENIED);
        let old = end("ERR unknown command 'DQ.TAKE'").unwrap();
        assert!(old.code == TOO_OLD && old.why.contains("too old"), "{}", old.why);
        assert_eq!(end("BADQUEUE no").unwrap().code, USAGE);
    }

    #[test]
    fn leases_are_extended_at_a_third() {
        let now = Instant::now();
        for (lease, at) in [(30_000, 10_000), (1_000, 333), (86_400_000, 28_800_000)] {
            let at_ms = (extends_at(now, Duration::from_millis(lease)) - now).as_millis();
            assert_eq!(at_ms, at);
        }
    }
}
