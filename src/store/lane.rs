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
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::store::answer::Answer;
use crate::store::redis::{Link, LinkError};
use crate::store::script::{SETTLE, Script};
use crate::store::{Limits, StoreError, number, refused};

pub struct Lane {
    link: Rc<Link>,
    key: Bytes,
    number: Cell<u64>,
    clock: Rc<Clock>,
    limits: Limits,
}

/// A settlement without an answer is tried again, on a new connection, after this part of its time.
const SETTLE_TRIES: u32 = 4;

enum Settled {
    Applied(Answer),
    NotApplied,
}

impl Lane {
    /// `name` is unique among all lanes of all brokers that ever shared this Redis in the last ten
    /// minutes.
    pub fn new(link: Rc<Link>, name: &str, clock: Rc<Clock>, limits: Limits) -> Self {
        let key = Bytes::from(format!("delay_broker_call:{name}"));
        Self {
            link,
            key,
            number: Cell::new(0),
            clock,
            limits,
        }
    }

    /// Calls a writing script with the lane's key before `keys`, and number and deadline before
    /// `args`.
    ///
    /// # Errors
    /// `Unavailable`: surely not applied. `Uncertain`: the link broke and could not be settled in
    /// time.
    pub async fn call(
        &self,
        script: &'static Script,
        keys: &[impl Borrow<Bytes>],
        args: &[Bytes],
    ) -> Result<Answer, StoreError> {
        let deadline = Instant::now() + self.limits.call_timeout;
        let all_keys: Vec<&Bytes> = std::iter::once(&self.key)
            .chain(keys.iter().map(Borrow::borrow))
            .collect();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.link.wait_up(left).await {
                let why = format!("Redis cannot be reached{}", self.link.why_down());
                return Err(StoreError::Unavailable(why));
            }
            self.number.set(self.number.get() + 1);
            let valid_until = self.clock.now_us() / 1_000 + left.as_millis() as u64 + 1;
            let guard = [number(self.number.get()), number(valid_until)];
            let full: Vec<&Bytes> = guard.iter().chain(args).collect();
            let (answer, why) = match self.link.eval(script, &all_keys, &full, left).await {
                Ok(answer) => (Some(answer), String::new()),
                Err(LinkError::Refused(text)) => return Err(refused(&text)),
                Err(LinkError::NotSent(text)) => (None, text),
                Err(LinkError::Broken(text)) => match self.settle().await {
                    Ok(Settled::Applied(answer)) => (Some(answer), String::new()),
                    Ok(Settled::NotApplied) => (None, text),
                    Err(settle) => {
                        return Err(StoreError::Uncertain(format!(
                            "the link to Redis broke after sending ({text}), and what became of \
                             the call was not found out in time ({settle}); it may be applied"
                        )));
                    }
                },
            };
            match answer {
                Some(answer) if answer.status == "LATE" || answer.status == "SETTLED" => {}
                Some(answer) => return Ok(answer),
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(StoreError::Unavailable(format!(
                    "Redis did not answer in time. {why}"
                )));
            }
        }
    }

    /// Finds out what became of the call under way, and makes sure that it stays so.
    async fn settle(&self) -> Result<Settled, String> {
        let deadline = Instant::now() + self.limits.settle_timeout;
        let mut last = String::from("Redis cannot be reached");
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || !self.link.wait_up(left).await {
                return Err(last);
            }
            // One try must not take all the time: the next one has another connection.
            let at_most = left.min(self.limits.settle_timeout / SETTLE_TRIES);
            let called = number(self.number.get());
            let asked = Instant::now();
            match self
                .link
                .eval(&SETTLE, &[&self.key], &[&called], at_most)
                .await
            {
                Ok(answer) if answer.status == "APPLIED" => return self.replayed(answer),
                Ok(answer) if answer.status == "NOT" => return Ok(Settled::NotApplied),
                Ok(_) => return Err("a later call of this lane was applied".into()),
                Err(LinkError::NotSent(text)) => last = text,
                Err(LinkError::Refused(text) | LinkError::Broken(text)) => {
                    last = text;
                    // A link that does not answer may be half-open: another connection can tell.
                    // One that broke is being made anew already.
                    if asked.elapsed() >= at_most {
                        self.link.reconnect("a settlement was not answered");
                    }
                }
            }
        }
    }

    /// The stored reply comes behind `APPLIED`, with its own TIME: due times count from it.
    fn replayed(&self, mut answer: Answer) -> Result<Settled, String> {
        answer.now_us = answer.count().map_err(|error| error.to_string())?;
        answer.status = answer.bytes().map_err(|error| error.to_string())?;
        Ok(Settled::Applied(answer))
    }
}
