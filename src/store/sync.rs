//! Waits until what was stored is on replicas, or on the disk: `SYNC` of offers.
//!
//! A connection of its own, made on first use, carries `SET` and `WAIT`. WAIT goes by the offset of
//! replication at the last command of its own connection: since Redis 7.2 at the last that wrote,
//! and answers at once where there is none. So each round writes a key of its own, and the offset
//! is that of all that was answered before it on any connection: the round serves everybody who
//! waits by then, and no offer waits behind a WAIT.
//!
//! A server that took over has not what the one before it lost, and would vouch for it all the
//! same. So a round counts only for what was stored while the connection of the offers and this one
//! were those of which it was seen that they lead to one server, and only if both still are there
//! when it ends.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout};

use crate::domain::durability::Durability;
use crate::store::link::{Link, LinkContext, LinkError};
use crate::store::{Limits, StoreError, refused};

/// How long one WAIT lasts at most: others have their turn behind it, and the watchdog of the link
/// has its answer.
const WAIT_MS: u64 = 100;
/// What is known of the server is asked again after this.
const FRESH: Duration = Duration::from_secs(1);

/// The connections of both links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    offers: u64,
    own: u64,
}

/// The server at the other end of both, and what it can do.
#[derive(Clone, Debug)]
struct Known {
    seen: Seen,
    asked: Instant,
    replicas: u64,
    /// It writes an append-only file; it has WAITAOF; it flushes before it answers.
    file: bool,
    waits_for_file: bool,
    flushes_always: bool,
    /// Why it refuses WAIT, and WAITAOF, if it does.
    refusals: [Option<String>; 2],
}

struct Waiter {
    what: Durability,
    seen: Seen,
    until: Instant,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

pub struct Syncs {
    context: LinkContext,
    offers: Rc<Link>,
    limits: Limits,
    /// Written in each round.
    key: String,
    link: OnceCell<Rc<Link>>,
    known: RefCell<Option<Known>>,
    asking: Mutex<()>,
    line: RefCell<VecDeque<Waiter>>,
    at_work: Cell<bool>,
}

impl Syncs {
    /// `offers`: the link whose calls are waited for; `token`: of this broker.
    pub fn new(context: &LinkContext, offers: &Rc<Link>, limits: Limits, token: &str) -> Rc<Self> {
        Rc::new(Self {
            key: format!("delay_broker_call:{token}:sync"),
            context: context.clone(),
            offers: offers.clone(),
            limits,
            link: OnceCell::new(),
            known: RefCell::default(),
            asking: Mutex::default(),
            line: RefCell::default(),
            at_work: Cell::new(false),
        })
    }

    fn link(&self) -> &Rc<Link> {
        self.link.get_or_init(|| Link::start("sync", self.context.clone()))
    }

    /// The connections of now, if both are there.
    fn connections(&self) -> Option<Seen> {
        let own = self.link.get().filter(|link| link.is_up() && self.offers.is_up())?;
        Some(Seen { offers: self.offers.connections(), own: own.connections() })
    }

    /// The connections of now, if they lead to one server.
    pub fn seen(&self) -> Option<Seen> {
        let known = self.known.borrow().as_ref().map(|known| known.seen);
        known.filter(|seen| self.connections() == Some(*seen))
    }

    /// Whether the server can do it, if that is known now.
    pub fn can(&self, what: Durability) -> Option<Result<(), StoreError>> {
        let seen = self.seen()?;
        let known = self.known.borrow();
        let known = known.as_ref().filter(|known| known.asked.elapsed() < FRESH)?;
        (known.seen == seen).then(|| known.can(what))
    }

    /// Finds out whether the server can do it; nothing was stored for it yet.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self, what: Durability) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable("Redis did not answer in time".to_owned());
        let asked = async {
            let _asking = self.asking.lock().await;
            if let Some(known) = self.can(what) {
                return known;
            }
            self.ask().await.map_err(|why| {
                StoreError::Unavailable(format!("SYNC {what} cannot be had now: {why}"))
            })?;
            let lost = "the connection to Redis was made anew";
            self.can(what).unwrap_or_else(|| Err(StoreError::Unavailable(lost.into())))
        };
        timeout(self.limits.call_timeout, asked).await.map_err(|_| late())?
    }

    /// Learns what is at the other end of the connections of now.
    async fn ask(&self) -> Result<(), String> {
        let link = self.link();
        for link in [link, &self.offers] {
            if !link.wait_up(self.limits.call_timeout).await {
                return Err(format!("Redis cannot be reached{}", link.why_down()));
            }
        }
        let seen = self.connections().ok_or("Redis cannot be reached")?;
        let info = info(link).await?;
        let of = |key: &str| field(&info, key).unwrap_or_default();
        if of("role") != "master" {
            return Err(format!("this Redis is no master (role:{})", of("role")));
        }
        let before = self.known.borrow().clone().filter(|known| known.seen == seen);
        if before.is_none()
            && field(&self::info(&self.offers).await?, "run_id") != Some(of("run_id"))
        {
            return Err("the connections lead to different servers".to_owned());
        }
        let online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
        let (file, waits_for_file) = (of("aof_enabled") == "1", has_waitaof(of("redis_version")));
        let flushes_always = file && !waits_for_file && self.flushes_always().await?;
        let refusals = match before {
            Some(known) => known.refusals,
            None => [
                self.refusal(&[b"WAIT", b"0", b"1"]).await?,
                match waits_for_file {
                    true => self.refusal(&[b"WAITAOF", b"0", b"0", b"1"]).await?,
                    false => None,
                },
            ],
        };
        self.known.replace(Some(Known {
            seen,
            asked: Instant::now(),
            replicas: info.lines().filter(online).count() as u64,
            file,
            waits_for_file,
            flushes_always,
            refusals,
        }));
        Ok(())
    }

    /// Why Redis refuses a command, if it does.
    async fn refusal(&self, parts: &[&[u8]]) -> Result<Option<String>, String> {
        match self.link().call(parts, self.limits.call_timeout).await {
            Ok(_) => Ok(None),
            Err(LinkError::Refused(text)) => Ok(Some(text)),
            Err(error) => Err(said(error)),
        }
    }

    async fn flushes_always(&self) -> Result<bool, String> {
        let args = ["GET", "appendfsync"].map(|word| Bytes::from_static(word.as_bytes()));
        let reply = self.link().command("CONFIG", &args).await.map_err(said)?;
        Ok(texts(&reply).last().is_some_and(|value| value == "always"))
    }

    /// Waits until what was stored is so durable. `seen`: the connections when it was sent.
    ///
    /// # Errors
    /// `Uncertain`: it is stored at the master, and that is all that is known.
    pub async fn confirm(
        self: &Rc<Self>,
        what: Durability,
        seen: Option<Seen>,
    ) -> Result<(), StoreError> {
        let Some(seen) = seen else {
            self.context.metrics.unsynced.of([]).increment(1);
            return Err(uncertain(what, "the connection that asks for it was not there"));
        };
        let (answer, answered) = oneshot::channel();
        let until = Instant::now() + self.limits.call_timeout;
        self.line.borrow_mut().push_back(Waiter { what, seen, until, answer });
        if !self.at_work.replace(true) {
            tokio::task::spawn_local(self.clone().rounds());
        }
        answered.await.unwrap_or_else(|_| Err(uncertain(what, "the broker stops")))
    }

    /// Rounds until nobody waits.
    async fn rounds(self: Rc<Self>) {
        loop {
            let Some(what) = self.line.borrow().front().map(|first| first.what) else {
                return self.at_work.set(false);
            };
            let mut mine = Vec::new();
            let of_all = self.line.take();
            for one in of_all {
                match one.what == what {
                    true => mine.push(one),
                    false => self.line.borrow_mut().push_back(one),
                }
            }
            let reached = self.round(what).await;
            let seen = self.seen();
            for one in mine {
                let outcome = match &reached {
                    _ if seen != Some(one.seen) => {
                        Err(uncertain(what, "the connection to Redis was made anew meanwhile"))
                    }
                    Ok(reached) if *reached >= wanted(what) => Ok(()),
                    Ok(_) if Instant::now() < one.until => {
                        self.line.borrow_mut().push_back(one);
                        continue;
                    }
                    Ok(reached) => {
                        let ms = self.limits.call_timeout.as_millis();
                        let of = match what {
                            Durability::Fsync => "the disk has not confirmed".to_owned(),
                            Durability::Replicas(n) => {
                                format!("{reached} of {n} replicas confirmed")
                            }
                        };
                        Err(uncertain(what, &format!("{of} within {ms} ms")))
                    }
                    Err(why) => Err(uncertain(what, why)),
                };
                if outcome.is_err() {
                    self.context.metrics.unsynced.of([]).increment(1);
                }
                // Whoever has gone needs no answer.
                let _ = one.answer.send(outcome);
            }
            let asked = self.known.borrow().as_ref().map(|known| known.asked);
            if asked.is_some_and(|asked| asked.elapsed() > FRESH / 2) {
                // Or else the next offer asks.
                let _ = timeout(self.limits.call_timeout, self.ask()).await;
            }
        }
    }

    /// One round: how many have all that was stored before it.
    async fn round(&self, what: Durability) -> Result<u64, String> {
        self.context.metrics.sync_rounds.of([]).increment(1);
        let waits = self.known.borrow().as_ref().is_some_and(|known| known.waits_for_file);
        let (number, ms) = (wanted(what).to_string(), WAIT_MS.to_string());
        let wait: &[&[u8]] = match what {
            Durability::Replicas(_) => &[b"WAIT", number.as_bytes(), ms.as_bytes()],
            Durability::Fsync if waits => &[b"WAITAOF", b"1", b"0", ms.as_bytes()],
            // It was flushed before it was answered, unless that was changed meanwhile.
            Durability::Fsync => {
                return match self.flushes_always().await? {
                    true => Ok(1),
                    false => Err("appendfsync is not always any more".to_owned()),
                };
            }
        };
        let at_most = self.limits.call_timeout + Duration::from_millis(WAIT_MS);
        let link = self.link();
        // It expires as the keys of calls do. Both are sent in this order.
        let set: &[&[u8]] = &[b"SET", self.key.as_bytes(), b"1", b"EX", b"600"];
        let (written, reached) = join(link.call(set, at_most), link.call(wait, at_most)).await;
        written.map_err(said)?;
        match reached.map_err(said)? {
            BytesFrame::Number { data, .. } => Ok(data.max(0) as u64),
            BytesFrame::Array { data, .. } => match data.first() {
                Some(BytesFrame::Number { data, .. }) => Ok((*data).max(0) as u64),
                _ => Err("Redis answered something else".to_owned()),
            },
            _ => Err("Redis answered something else".to_owned()),
        }
    }

    /// Ends the link, if there is one.
    pub async fn quit(&self) {
        if let Some(link) = self.link.get() {
            link.quit().await;
        }
    }
}

impl Known {
    fn can(&self, what: Durability) -> Result<(), StoreError> {
        let [wait, waitaof] = &self.refusals;
        let refusal = if matches!(what, Durability::Replicas(_)) { wait } else { waitaof };
        if let Some(text) = refusal {
            let why = format!("SYNC {what} cannot be had: Redis refused: {text}");
            return Err(StoreError::Unavailable(why));
        }
        match what {
            Durability::Replicas(wanted) if self.replicas < u64::from(wanted) => {
                let has = self.replicas;
                Err(StoreError::Unavailable(format!(
                    "SYNC {what} needs {wanted} connected replicas, and Redis has {has}; nothing \
                     was stored"
                )))
            }
            Durability::Fsync if !(self.file && (self.waits_for_file || self.flushes_always)) => {
                Err(StoreError::NoFsync)
            }
            _ => Ok(()),
        }
    }
}

fn wanted(what: Durability) -> u64 {
    match what {
        Durability::Fsync => 1,
        Durability::Replicas(number) => number.into(),
    }
}

fn uncertain(what: Durability, why: &str) -> StoreError {
    StoreError::Uncertain(format!("stored, but SYNC {what} is not confirmed: {why}"))
}

fn said(error: LinkError) -> String {
    match error {
        LinkError::NotSent(text) | LinkError::Broken(text) => text,
        LinkError::Refused(text) => refused(&text).to_string(),
    }
}

async fn info(link: &Link) -> Result<String, String> {
    let none: [Bytes; 0] = [];
    let reply = link.command("INFO", &none).await.map_err(said)?;
    Ok(texts(&reply).into_iter().next().unwrap_or_default())
}

fn field<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim_end)
}

/// The texts of a reply, whatever it has them in.
fn texts(frame: &BytesFrame) -> Vec<String> {
    let text = |bytes: &[u8]| vec![String::from_utf8_lossy(bytes).into_owned()];
    match frame {
        BytesFrame::BlobString { data, .. } | BytesFrame::SimpleString { data, .. } => text(data),
        BytesFrame::VerbatimString { data, .. } => text(data),
        BytesFrame::Array { data, .. } => data.iter().flat_map(texts).collect(),
        BytesFrame::Map { data, .. } => {
            data.iter().flat_map(|(key, value)| [texts(key), texts(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

/// WAITAOF came with 7.2.
fn has_waitaof(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (7, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let rows = [("6.2.0", false), ("7.0.15", false), ("7.2.4", true), ("8.0.1", true)];
        for (version, has) in rows.into_iter().chain([("", false), ("7", false), ("10.0", true)]) {
            assert_eq!(has_waitaof(version), has, "{version}");
        }
    }

    #[test]
    fn what_a_server_can_do() {
        let known = |replicas, file, waits_for_file, flushes_always| Known {
            seen: Seen { offers: 1, own: 1 },
            asked: Instant::now(),
            replicas,
            file,
            waits_for_file,
            flushes_always,
            refusals: [None, None],
        };
        let one = Durability::Replicas(1);
        let rows = [
            (known(0, true, true, true), one, "needs 1 connected replicas, and Redis has 0"),
            (known(1, false, false, false), one, ""),
            (known(1, false, false, false), Durability::Replicas(2), "and Redis has 1"),
            (known(9, false, true, false), Durability::Fsync, "appendonly yes"),
            (known(9, true, false, false), Durability::Fsync, "appendfsync always"),
            (known(0, true, true, false), Durability::Fsync, ""),
            (known(0, true, false, true), Durability::Fsync, ""),
            (
                Known { refusals: [Some("NOPERM x".into()), None], ..known(1, true, true, true) },
                one,
                "Redis refused: NOPERM x",
            ),
            (
                Known { refusals: [Some("NOPERM x".into()), None], ..known(1, true, true, true) },
                Durability::Fsync,
                "",
            ),
        ];
        for (known, what, wanted) in rows {
            let said = known.can(what).map_or_else(|error| error.to_string(), |()| String::new());
            assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{said}");
        }
    }
}
