//! A lane makes the outcome of a write certain.
//!
//! Each lane has at most one call under way. A call carries a number that grows; its script refuses
//! a number that is not above the one stored in the lane's key, and stores its own beside its reply
//! as the last write. When the link breaks after sending, nobody knows whether the call was
//! applied, was not, or may still arrive (half-open links). To *settle* is one script
//! (`lua/settle.lua`) that says whether it was applied, with the reply that was lost, and otherwise
//! stores the number as void, so that the call can never be applied later. Only after "not applied"
//! is a call repeated. Each call also carries a moment of Redis's time after which its script
//! refuses.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::store::answer::Answer;
use crate::store::link::LinkError;
use crate::store::order::Place;
use crate::store::router::{Route, Slot};
use crate::store::script::{SETTLE, Script};
use crate::store::{Limits, StoreError, number, refused, slots};

pub struct Lane {
    name: String,
    /// The slot that all its calls are of; else each has a key in its own, where there are slots.
    slot: Slot,
    key: RefCell<Bytes>,
    /// How often somebody else's hand in the key made the lane take another one.
    spoiled: Cell<u64>,
    number: Cell<u64>,
    limits: Limits,
}

/// The bounds of a call beside its own deadline.
pub struct Within<'a> {
    /// Among calls that keep an order.
    pub place: Option<&'a Place<'a>>,
    /// Redis's time, in ms, after which it must not be applied.
    pub end_ms: u64,
}

/// The refusal of a call that Redis came to after the claim that it was sent with had ended.
pub(super) const PAST_END: &str =
    "this broker's claim of a node number for its ids ran out; it is made anew";

/// Keys that one call tries.
const KEYS_MAX: u32 = 4;
/// The longest rest between two attempts; there is none before the second.
const REST_MAX: Duration = Duration::from_millis(100);

/// A settlement without an answer is tried again, on a new connection, after this part of its time.
const SETTLE_TRIES: u32 = 4;

enum Settled {
    Applied(Answer),
    NotApplied,
}

impl Lane {
    /// `name` is unique among all lanes of all brokers that ever shared this Redis in the last ten
    /// minutes.
    pub fn new(name: &str, slot: Slot, limits: Limits) -> Self {
        Self {
            name: name.to_owned(),
            slot,
            key: RefCell::new(key(name, slot)),
            spoiled: Cell::new(0),
            number: Cell::new(0),
            limits,
        }
    }

    /// The key of a call: it moves with its slot, and so do the outcomes of calls.
    fn key(&self, slot: Slot) -> Bytes {
        match slot == self.slot {
            true => self.key.borrow().clone(),
            false => key(&self.current_name(), slot),
        }
    }

    fn current_name(&self) -> String {
        match self.spoiled.get() {
            0 => self.name.clone(),
            spoiled => format!("{}.{spoiled}", self.name),
        }
    }

    /// Calls a writing script with the lane's key before `keys`, and number and deadline before
    /// `args`.
    ///
    /// # Errors
    /// `Unavailable`: surely not applied. `Uncertain`: the link broke and could not be settled in
    /// time.
    /// `within`: in its place among other calls, and not after a moment.
    pub(super) async fn call_within(
        &self,
        route: &Route<'_>,
        script: &'static Script,
        keys: &[impl Borrow<Bytes>],
        args: &[Bytes],
        within: Option<&Within<'_>>,
    ) -> Result<Answer, StoreError> {
        let place = within.and_then(|within| within.place);
        if let Some(place) = place {
            place.begin();
            // The calls before it are bounded themselves.
            if let Ok((link, _)) = route.link_now() {
                place.turn(&link).await;
            }
        }
        let end_ms = within.map_or(u64::MAX, |within| within.end_ms);
        let deadline = Instant::now() + self.limits.call_timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        let (mut rest, mut keys_tried) = (Rest::default(), 1);
        loop {
            let key = self.key(route.slot());
            let all_keys: Vec<&Bytes> =
                std::iter::once(&key).chain(keys.iter().map(Borrow::borrow)).collect();
            let (link, clock) = route
                .link(left())
                .await
                .map_err(|why| StoreError::Unavailable(format!("Redis cannot be reached{why}")))?;
            if let Some(place) = place {
                let turn = tokio::time::timeout(left(), place.turn(&link)).await;
                if turn.is_err() {
                    let why = "offers that are to be stored before it are under way for too long";
                    return Err(StoreError::Unavailable(why.into()));
                }
                if place.is_overtaken() {
                    let why = "the link to Redis broke, and what was offered later is stored";
                    return Err(StoreError::Unavailable(why.into()));
                }
                place.sent(&link);
            }
            self.number.set(self.number.get() + 1);
            let (at_most, now_ms) = (left(), clock.now_us() / 1_000);
            let valid_ms = link.valid_for(at_most).as_millis() as u64;
            let valid_until = end_ms.min(now_ms + valid_ms + 1);
            let guard = [number(self.number.get()), number(valid_until)];
            let full: Vec<&Bytes> = guard.iter().chain(args).collect();
            let (answer, why) = match link.eval(script, &all_keys, &full, at_most).await {
                Ok(answer) => {
                    route.answered();
                    (Some(answer), String::new())
                }
                // Surely not applied.
                Err(LinkError::Refused(text)) if route.is_elsewhere(&text) => {
                    rest.shorten();
                    (None, text)
                }
                Err(LinkError::Refused(text)) => return Err(refused(&text)),
                Err(LinkError::NotSent(text)) => (None, text),
                Err(LinkError::Broken(text)) => {
                    match self.settle(route, &key, all_keys.last(), valid_until).await {
                        Ok(Settled::Applied(answer)) => (Some(answer), String::new()),
                        Ok(Settled::NotApplied) => (None, text),
                        Err(settle) => {
                            return Err(StoreError::Uncertain(format!(
                                "the link to Redis broke after sending ({text}), and what became \
                                 of the call was not found out in time ({settle}); it may be \
                                 applied"
                            )));
                        }
                    }
                }
            };
            let refusals = ["LATE", "SETTLED"];
            let is_applied = |answer: &Answer| !refusals.iter().any(|word| answer.status == word);
            if let Some(place) = place {
                match answer.as_ref().is_some_and(is_applied) {
                    true => place.applied(),
                    false => place.not_applied(),
                }
            }
            match answer {
                Some(answer) if answer.status == "LATE" && answer.now_us / 1_000 > end_ms => {
                    return Err(StoreError::Unavailable(PAST_END.into()));
                }
                Some(answer) if answer.status == "LATE" => {}
                // Not applied, and each number is sent once: it is not ours that stands there.
                Some(answer) if answer.status == "SETTLED" => {
                    self.spoil();
                    if keys_tried == KEYS_MAX {
                        return Err(StoreError::Unavailable(format!(
                            "somebody writes to the keys of this broker's calls, such as '{}'",
                            key.escape_ascii()
                        )));
                    }
                    keys_tried += 1;
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
            rest.take(deadline).await;
            if left() == Duration::ZERO {
                return Err(StoreError::Unavailable(format!(
                    "Redis did not answer in time. {why}"
                )));
            }
        }
    }

    /// Takes another key, since this one holds what no call of ours stored.
    fn spoil(&self) {
        self.spoiled.set(self.spoiled.get() + 1);
        let other = key(&self.current_name(), self.slot);
        let spoiled = self.key.replace(other.clone());
        tracing::warn!(
            key = %spoiled.escape_ascii(),
            instead = %other.escape_ascii(),
            "a key that only this broker's calls write was changed by somebody; another one is used"
        );
    }

    /// Finds out what became of the call under way, and makes sure that it stays so. `guard`: the
    /// call's, its last key; `valid_until` is the call's.
    async fn settle(
        &self,
        route: &Route<'_>,
        key: &Bytes,
        guard: Option<&&Bytes>,
        valid_until: u64,
    ) -> Result<Settled, String> {
        let deadline = Instant::now() + route.settle_within(self.limits.settle_timeout);
        let mut last = String::from("Redis cannot be reached");
        let keys: Vec<&Bytes> = std::iter::once(key).chain(guard.copied()).collect();
        let mut rest = Rest::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(last);
            }
            let Ok((link, _)) = route.link(left).await else { return Err(last) };
            // One try must not take all the time: the next one has another connection.
            let at_most = left.min(self.limits.settle_timeout / SETTLE_TRIES);
            let called = [number(self.number.get()), number(valid_until)];
            let asked = Instant::now();
            match link.eval(&SETTLE, &keys, &called.each_ref(), at_most).await {
                Ok(answer) if answer.status == "APPLIED" => return self.replayed(answer),
                Ok(answer) if answer.status == "NOT" => return Ok(Settled::NotApplied),
                Ok(_) => {
                    self.spoil();
                    let key = key.escape_ascii();
                    return Err(format!(
                        "the key '{key}' was changed by somebody, or expired as Redis's clock \
                         stepped ahead"
                    ));
                }
                Err(LinkError::NotSent(text)) => last = text,
                Err(LinkError::Refused(text)) if route.is_elsewhere(&text) => last = text,
                Err(LinkError::Refused(text) | LinkError::Broken(text)) => {
                    last = text;
                    // A link that does not answer may be half-open: another connection can tell.
                    // One that broke is being made anew already.
                    if asked.elapsed() >= at_most {
                        link.abandon("a settlement was not answered");
                    }
                }
            }
            rest.take(deadline).await;
        }
    }

    /// The stored reply comes behind `APPLIED`, with its own TIME: due times count from it.
    fn replayed(&self, mut answer: Answer) -> Result<Settled, String> {
        answer.now_us = answer.count().map_err(|error| error.to_string())?;
        answer.status = answer.bytes().map_err(|error| error.to_string())?;
        Ok(Settled::Applied(answer))
    }
}

fn key(name: &str, slot: Slot) -> Bytes {
    Bytes::from(match slot {
        None => format!("delay_broker_call:{name}"),
        Some(slot) => format!("delay_broker_call:{name}:{{{}}}", slots::tag(slot)),
    })
}

/// The longest while a slot of a Cluster moves: most do so in a few ms.
const REST_MOVING: Duration = Duration::from_millis(20);

/// Growing rests between attempts: what fails at once must not be asked without end.
#[derive(Default)]
pub(super) struct Rest(Duration);

impl Rest {
    /// The next one is as short as where a slot moves.
    pub(super) fn shorten(&mut self) {
        self.0 = self.0.min(REST_MOVING);
    }

    /// Rests, not beyond the deadline.
    pub(super) async fn take(&mut self, deadline: Instant) {
        if self.0 > Duration::ZERO {
            tokio::time::sleep_until(deadline.min(Instant::now() + self.0)).await;
        }
        self.0 = (2 * self.0).clamp(Duration::from_millis(1), REST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::store::clock::Clock;
    use crate::store::link::tests::{SOON, accept, with_link};
    use crate::store::script::CLEAR;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// The wait for a connection is a part of the time that a call has.
    #[tokio::test]
    async fn a_call_that_waited_is_valid_no_longer() {
        with_link(|link, listener| async move {
            let limits =
                Limits { call_timeout: SOON, settle_timeout: SOON, reply_bytes_max: 1 << 20 };
            let clock = Rc::new(Clock::default());
            let lane = Lane::new("test", None, limits);
            let route = Route::To { link: &link, clock: &clock };
            let end_ms = clock.now_us() / 1_000 + SOON.as_millis() as u64;
            let no_keys: [Bytes; 0] = [];
            let call = lane.call_within(&route, &CLEAR, &no_keys, &[], None);
            let redis = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let (mut redis, mut sent) = (accept(&listener).await, String::new());
                // EVALSHA, hash, number of keys, key, number, valid_until.
                while sent.lines().count() < 13 || !sent.ends_with('\n') {
                    sent.push(redis.read_u8().await.unwrap().into());
                }
                redis.write_all(b"*2\r\n:1\r\n+OK\r\n").await.unwrap();
                sent.lines().last().unwrap().parse::<u64>().unwrap()
            };
            let (answer, valid_until) = futures_util::future::join(call, redis).await;
            assert_eq!(answer.unwrap().status, "OK");
            assert!(valid_until < end_ms + 1_500, "{} ms too long", valid_until - end_ms);
        })
        .await;
    }
}
