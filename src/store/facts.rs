//! What the audit is told of Redis: INFO, two settings, round trips, the rights of our user.
//!
//! Asks and judges nothing; `crate::audit` does. Keeps: nothing is written, each question is small,
//! and one that Redis refuses for good is an answer too. It asks on the link of the offers, where
//! the least is under way before a reply.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::audit::rights::{PROBES, Rights, lacked_by_call, lacked_by_subscription};
use crate::audit::{self, Facts, Fields, version_of};
use crate::clock::monotonic_us;
use crate::store::Store;
use crate::store::redis::{LinkError, Subscription};
use crate::store::script::PROBE;

const PINGS: usize = 5;
/// Between two of them, and before the first: a new connection is busy with its scripts.
const PING_PAUSE: Duration = Duration::from_millis(10);
/// How long the first attempt to subscribe may take.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);
/// Before it, Redis knows no scripts that write nothing, so probes might.
const PROBES_SINCE: (u32, u32) = (7, 0);

impl Store {
    /// How often the link came up on which Redis is asked.
    pub fn connections(&self) -> u64 {
        self.offers.connections()
    }

    /// Waits for a connection after so many.
    pub async fn connected_again(&self, connections: u64) {
        self.offers.connected_again(connections).await;
    }

    /// # Errors
    /// Redis cannot be asked now: it is away, loads, or is busy.
    pub async fn facts(
        &self,
        subscription: &Subscription,
        user: Option<&str>,
    ) -> Result<Facts, String> {
        let info = for_good(self.offers.command("INFO", Vec::new()).await)?;
        let info: Fields = info.map(|frame| audit::fields(&text(&frame)));
        let field = |name: &str| info.as_ref().ok().and_then(|fields| fields.get(name));
        if field("loading").is_some_and(|loading| loading == "1") {
            return Err("Redis loads its data".to_owned());
        }
        let mut config: Fields = Ok(HashMap::new());
        for name in ["appendfsync", "save"] {
            let args = vec![Bytes::from_static(b"GET"), Bytes::from(name)];
            match (
                for_good(self.offers.command("CONFIG", args).await)?,
                &mut config,
            ) {
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
            let _ = for_good(self.offers.command("PING", Vec::new()).await)?;
            round_trips_us.push(monotonic_us().saturating_sub(sent));
        }
        let version = field("redis_version").and_then(|text| version_of(text));
        let rights = self.rights(subscription, user, version).await?;
        Ok(Facts {
            info,
            config,
            round_trips_us,
            rights,
            user: user.map(str::to_owned),
        })
    }

    async fn rights(
        &self,
        subscription: &Subscription,
        user: Option<&str>,
        version: Option<(u32, u32)>,
    ) -> Result<Rights, String> {
        let refusal = subscription.refusal(SUBSCRIBED_WITHIN).await;
        let mut missing: Vec<&'static str> = lacked_by_subscription(&refusal).into_iter().collect();
        let unknown = |why: &str| {
            // Without a user of its own a connection has all rights, but for rare exceptions.
            if user.is_some() {
                Rights::Unknown(why.to_owned())
            } else {
                Rights::Missing(Vec::new())
            }
        };
        if version.is_some_and(|version| version < PROBES_SINCE) {
            return Ok(if missing.is_empty() {
                unknown("Redis before 7.0 cannot be asked without writing")
            } else {
                Rights::Missing(missing)
            });
        }
        let calls: Vec<Bytes> = PROBES.iter().map(|probe| probe.words().into()).collect();
        let at_most = self.limits.call_timeout;
        let no_keys: [Bytes; 0] = [];
        match self.offers.eval(&PROBE, &no_keys, &calls, at_most).await {
            Ok(mut answer) => {
                for probe in PROBES {
                    let error = answer.text().map_err(|error| error.to_string())?;
                    missing.extend(probe.lacks(&error));
                }
            }
            Err(LinkError::Refused(words)) if passes(&words) => return Err(words),
            Err(LinkError::Refused(words)) => match lacked_by_call(&words) {
                Some(right) => missing.push(right),
                None => return Ok(unknown(&words)),
            },
            Err(LinkError::NotSent(why) | LinkError::Broken(why)) => return Err(why),
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(Rights::Missing(missing))
    }
}

/// A refusal that will be over soon.
fn passes(words: &str) -> bool {
    ["LOADING", "BUSY"]
        .iter()
        .any(|word| words.starts_with(word))
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
