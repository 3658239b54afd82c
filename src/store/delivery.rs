//! The calls of the scheduler: move messages that are due, read heads, claim a node number, prune,
//! find queues.

use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::domain::queue::{MessageId, Score};
use crate::store::answer::Answer;
use crate::store::keys::{self, ALL, ID_TIME, QueueKeys, REGISTRY};
use crate::store::link::LinkError;
use crate::store::node::{Asker, Node};
use crate::store::offer::Configured;
use crate::store::router::Router;
use crate::store::script::{CONFIGURE, FOUND, HEADS, NODE, PRUNE, STATS, TRANSFER};
use crate::store::survey::Asked;
use crate::store::{Store, StoreError, number, refused, says};

/// Attempts of a transfer whose slot moves, and the pause between the first two.
const MOVES_MAX: u32 = 8;
const OPEN_PAUSE: Duration = Duration::from_millis(4);
/// Transfers to a node of a Cluster that does not answer: others have the rest.
const TRANSFERS_IN_DOUBT_MAX: usize = 8;
/// Queues that one call reads the numbers of: a millisecond of Redis.
const STATS_MAX: usize = 500;
/// The only member of the zset [`ID_TIME`].
const LATEST: &[u8] = b"latest";
/// One pattern for `redisson_delay_queue_timeout:` and `delay_broker_crons:`, and for few other
/// keys.
const TIMEOUTS_AND_CRONS: &[u8] = b"[rd]e[dl]*[tn][s:]*";

/// The outcome of a transfer.
#[derive(Debug, Default)]
pub struct Transferred {
    /// Redis's TIME in the script, microseconds: lateness counts to it.
    pub now_us: u64,
    /// The score of the head now; `None` if nothing is pending.
    pub next: Option<Score>,
    /// Set while the queue is paused: until this moment in ms, or -1 until it is resumed.
    pub paused_until: Option<i64>,
    /// When a pause ended, ms: lateness counts from it. 0 if there was none.
    pub pause_ended_ms: u64,
    /// Members put aside because they could not be read.
    pub quarantined: u64,
    /// Messages that had expired before they could be delivered.
    pub expired: u64,
    /// It was a part of the work on a long order list, and is to be called again whatever is due.
    pub again: bool,
    /// The cost of the order list, in elements that were passed, and how many of them more messages
    /// would have shared. 0 where the list is in due order.
    pub passed: u64,
    pub passed_shared: u64,
    /// How long the script ran, microseconds; `None` where Redis's clock stands still meanwhile
    /// (7.2 and newer).
    pub took_us: Option<u64>,
    /// The delivered messages: score and how many had it.
    pub moved: Vec<(Score, u64)>,
    /// Those of them that carry the flag which the queue's record names.
    pub flagged: Vec<MessageId>,
}

/// The content of a queue, for lists and metrics. -1: the key holds another type.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Redis's time of this answer.
    pub now_ms: u64,
    pub pending: i64,
    pub ready: i64,
    /// The score of the head; `None` if nothing is pending.
    pub next_due: Option<Score>,
    /// By itself, or with all queues.
    pub paused: bool,
    pub quarantined: i64,
    /// Due within a minute, and within an hour.
    pub due_minute: i64,
    pub due_hour: i64,
    /// Messages that consumers have taken, that wait for a retry, and that are dead.
    pub leased: i64,
    pub waiting: i64,
    pub dead: i64,
    /// When the first of them can be taken again; `None` if there is none.
    pub again: Option<Score>,
}

impl Stats {
    /// Of a queue whose node cannot be reached.
    const UNKNOWN: Self = Self {
        now_ms: 0,
        pending: -1,
        ready: -1,
        next_due: None,
        paused: false,
        quarantined: -1,
        due_minute: -1,
        due_hour: -1,
        leased: -1,
        waiting: -1,
        dead: -1,
        again: None,
    };
}

/// The outcome of recording the settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// They are recorded. `dropped`: entries of an order list that is kept no more.
    All { dropped: u64 },
    /// All but the order list: none is kept, and what is pending would not be in one.
    Pending,
    /// All but the order list: clients of Redisson listen on the queue's channel.
    Listeners,
    /// All but the order list: it has members of others.
    Others,
}

/// A queue that was just found.
pub struct Found {
    pub suffix: Bytes,
    /// As recorded in Redis, if it is.
    pub name: Option<Bytes>,
    /// The score of its head; `None` also if it was not looked for, as it is not due yet.
    pub head: Option<Score>,
    /// Nothing is pending.
    pub is_empty: bool,
    /// The key holds no zset.
    pub is_wrong_type: bool,
}

/// One page of SCAN.
pub struct Page {
    pub cursor: Bytes,
    pub found: Vec<Bytes>,
    /// Of queues with schedules.
    pub crons: Vec<Bytes>,
}

impl Store {
    /// Moves what is due to the destination: at most so many messages and about so many bytes.
    ///
    /// # Errors
    /// `BadQueue`, `WrongType`: cannot be delivered. `Unavailable`: not applied, and never will be.
    /// Others: may have been applied until their deadline, which the next call shows.
    pub async fn transfer(
        &self,
        k: &QueueKeys,
        messages_max: u64,
        bytes_max: u64,
    ) -> Result<Transferred, StoreError> {
        let slot = self.router.slot(&k.timeout);
        let mut keys = k.of(&TRANSFER);
        Router::keys_in(slot, &mut keys);
        let route = self.router.route(slot, |node| &node.transfers);
        let node = slot.and_then(|_| self.router.node(slot));
        if node.as_ref().is_some_and(|node| {
            node.pulse.hangs() && node.pulse.under_way() >= TRANSFERS_IN_DOUBT_MAX
        }) {
            let why = "the node of this queue does not answer";
            return Err(StoreError::Unavailable(why.into()));
        }
        let mut attempts = 0;
        let answered = loop {
            let (link, clock) = route
                .link_now()
                .map_err(|why| StoreError::Unavailable(format!("Redis cannot be reached{why}")))?;
            let at_most = self.limits.call_timeout;
            link.caught_up().await;
            let valid_ms = link.valid_for(at_most).as_millis() as u64;
            let until = number(clock.now_us() / 1_000 + valid_ms + 1);
            let args = [k.name.clone(), until, number(messages_max), number(bytes_max)];
            let call = link.eval(&TRANSFER, &keys, &args, at_most);
            let answered = match &node {
                None => call.await,
                Some(node) => node.pulse.of(call).await,
            };
            attempts += 1;
            match answered {
                // Once more where the slot has moved; the queue waits a moment for all else.
                Err(LinkError::Refused(words))
                    if route.is_elsewhere(&words) && attempts < MOVES_MAX =>
                {
                    if !says(&words, "MOVED") {
                        tokio::time::sleep(OPEN_PAUSE * attempts).await;
                    }
                }
                answered => break answered,
            }
        };
        let mut answer = answered.map_err(broken)?.served()?;
        route.answered();
        if answer.status == "LATE" {
            let why = "Redis came to a transfer after its deadline, and did not run it";
            return Err(StoreError::Unavailable(why.into()));
        }
        let paused = answer.status == "PAUSED";
        let mut transferred = Transferred {
            now_us: answer.now_us,
            again: answer.status == "AGAIN",
            next: answer.score_if_any()?,
            ..Transferred::default()
        };
        let until = answer.text()?;
        transferred.paused_until = paused.then(|| until.parse().unwrap_or(-1));
        transferred.pause_ended_ms = answer.count()?;
        transferred.quarantined = answer.count()?;
        transferred.passed_shared = answer.count()?;
        transferred.passed = answer.count()?;
        let took_us = answer.count()?.saturating_sub(answer.now_us);
        transferred.took_us = Some(took_us).filter(|took_us| *took_us > 0);
        while !answer.is_empty() {
            let Some(score) = answer.score_if_any()? else {
                transferred.expired = answer.count()?;
                continue;
            };
            let flagged = answer.is_text();
            if flagged {
                transferred.flagged.push(MessageId { score, id: answer.bytes()?.to_vec() });
            }
            let count = if flagged { 1 } else { answer.count()? };
            transferred.moved.push((score, count));
        }
        Ok(transferred)
    }

    /// When the head of each zset is due, Unix ms: the moment that is `known` where none is due
    /// before it; `None` where nothing is pending or the key holds no zset. At most 1,000; of the
    /// first ones only, where finding scores took long.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind.
    pub async fn heads(
        &self,
        timeouts: &[Bytes],
        known: &[Option<u64>],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let until = |known: &Option<u64>| match known {
            // It may have any score up to 0.
            Some(0) => Bytes::from_static(b"(-inf"),
            known => moment_or_none(known.map(|ms| ms - 1)),
        };
        let args: Vec<Bytes> = known.iter().map(until).collect();
        let (asker, script, fields) = (Asker::Broker, &HEADS, 1);
        let asked = Asked { asker, script, once: &[], each: timeouts, args: &args, fields };
        // Those of a node that cannot be reached stay as they are known.
        let mut heads = known.to_vec();
        let read = |place: usize, answer: Option<&mut Answer>| {
            if let (Some(answer), Some(known)) = (answer, heads.get_mut(place)) {
                let head = answer.bytes()?;
                // WRONGTYPE is no score.
                if head != "=" {
                    *known = Score::parse(&head).map(Score::moment);
                }
            }
            Ok(())
        };
        let told = self.survey(asked, read).await?;
        heads.truncate(told);
        Ok(heads)
    }

    /// The recorded name and the head of each of these queues, in their order; at most 500.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn found(&self, suffixes: Vec<Bytes>) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::with_capacity(suffixes.len());
        let mut left = &suffixes[..];
        while !left.is_empty() {
            let mut keys = Vec::with_capacity(left.len() * 2);
            for suffix in left {
                keys.extend(QueueKeys::new(suffix).each_of(&FOUND).cloned());
            }
            let (asker, script, fields) = (Asker::Broker, &FOUND, 2);
            let asked = Asked { asker, script, once: &[], each: &keys, args: &[], fields };
            let read = |place: usize, answer: Option<&mut Answer>| {
                // The scan of a node that is back finds them.
                let (Some(answer), Some(suffix)) = (answer, left.get(place)) else {
                    return Ok(());
                };
                let name = Some(answer.bytes()?).filter(|name| !name.is_empty());
                let (suffix, head) = (suffix.clone(), answer.bytes()?);
                let (is_empty, is_wrong_type) = (head.is_empty(), head == "WRONGTYPE");
                let head = Score::parse(&head);
                found.push(Found { suffix, name, head, is_empty, is_wrong_type });
                Ok(())
            };
            let told = told_some(self.survey(asked, read).await?)?;
            left = left.get(told..).unwrap_or_default();
        }
        Ok(found)
    }

    /// The numbers of some queues, in their order; of each is told when its head is due as far as
    /// is known.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind.
    pub async fn stats(&self, queues: &[(Bytes, Option<u64>)]) -> Result<Vec<Stats>, StoreError> {
        let mut stats = Vec::with_capacity(queues.len());
        while let Some(left) = queues.get(stats.len()..).filter(|left| !left.is_empty()) {
            let left = left.get(..STATS_MAX).unwrap_or(left);
            let mut keys = Vec::with_capacity(left.len() * STATS.each.len());
            for (queue, _) in left {
                keys.extend(QueueKeys::new(queue).each_of(&STATS).cloned());
            }
            let known = left.iter().map(|(_, known)| moment_or_none(*known));
            let (known, once): (Vec<Bytes>, _) = (known.collect(), &[ALL].map(Bytes::from));
            let (asker, script, fields) = (Asker::Client, &STATS, 11);
            let asked = Asked { asker, script, once, each: &keys, args: &known, fields };
            let mut page: Vec<Option<Stats>> = vec![None; left.len()];
            let read = |place: usize, answer: Option<&mut Answer>| {
                let (Some(answer), Some(stats)) = (answer, page.get_mut(place)) else {
                    return Ok(());
                };
                *stats = Some(Stats {
                    now_ms: answer.now_us / 1_000,
                    pending: answer.int()?,
                    ready: answer.int()?,
                    next_due: answer.score_if_any()?,
                    paused: answer.int()? == 1,
                    quarantined: answer.int()?,
                    due_minute: answer.int()?,
                    due_hour: answer.int()?,
                    leased: answer.int()?,
                    waiting: answer.int()?,
                    dead: answer.int()?,
                    again: answer.score_if_any()?,
                });
                Ok(())
            };
            let told = told_some(self.survey(asked, read).await?)?;
            stats.extend(page.into_iter().take(told).map(|stats| stats.unwrap_or(Stats::UNKNOWN)));
        }
        Ok(stats)
    }

    /// Until when all queues are paused, ms; -1: until they are resumed; 0 or the past: they are
    /// not.
    ///
    /// # Errors
    /// `WrongType`; Redis cannot be reached.
    pub async fn all_paused_until(&self) -> Result<i64, StoreError> {
        let mut args = [ALL.as_bytes(), b"paused_until"].map(Bytes::from_static);
        // Those of all slots are the same, unless somebody is about to change them.
        Router::keys_in(self.router.slot(ALL.as_bytes()), &mut args);
        Ok(match self.command("HGET", &args).await {
            Ok(BytesFrame::BlobString { data, .. }) => {
                std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
            }
            Ok(_) => 0,
            Err(error) => return Err(broken(error)),
        })
    }

    /// Claims a node number, or holds on to it. Redis's time, in ms, from which on it is ours for
    /// `expiry_ms`; nothing if it is another broker's.
    ///
    /// # Errors
    /// Redis cannot be reached; `WrongType`.
    pub async fn node(
        &self,
        node: u64,
        token: &str,
        expiry_ms: u64,
    ) -> Result<Option<u64>, StoreError> {
        let args = vec![Bytes::copy_from_slice(token.as_bytes()), number(expiry_ms)];
        let mut answer = self.read(&NODE, &[number_key(node)], args).await?;
        Ok((answer.int()? == 1).then_some(answer.now_us / 1_000))
    }

    /// The latest time, Unix ms, that ids of any broker were noted to have; 0 if none was.
    ///
    /// # Errors
    /// Redis cannot be reached; `WrongType`.
    pub async fn noted_id_time(&self) -> Result<u64, StoreError> {
        let args = [ID_TIME.as_bytes(), LATEST].map(Bytes::from_static);
        let noted = match self.command("ZSCORE", &args).await {
            Err(LinkError::Refused(text)) if text.starts_with("WRONGTYPE") => {
                let key = ID_TIME.to_owned();
                return Err(StoreError::WrongType { key });
            }
            noted => noted.map_err(broken)?,
        };
        Ok(match noted {
            BytesFrame::BlobString { data, .. } => {
                let ms = Score::parse(&data).and_then(Score::whole_ms);
                ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0)
            }
            BytesFrame::Double { data, .. } if data >= 0.0 => data as u64,
            _ => 0,
        })
    }

    /// Notes it, unless a later one is.
    ///
    /// # Errors
    /// Redis cannot be reached, or refuses; repeated by the caller, since it is a hint.
    pub async fn note_id_time(&self, ms: u64) -> Result<(), StoreError> {
        let args = [
            Bytes::from_static(ID_TIME.as_bytes()),
            Bytes::from_static(b"GT"),
            number(ms),
            Bytes::from_static(LATEST),
        ];
        self.command("ZADD", &args).await.map_err(broken)?;
        Ok(())
    }

    /// Forgets a queue that is empty: true if it was.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn prune(&self, k: &QueueKeys) -> Result<bool, StoreError> {
        let pruned = self.read(&PRUNE, &k.of(&PRUNE), vec![k.name.clone()]).await?.int()? == 1;
        if pruned && matches!(self.router, Router::Cluster(_)) {
            // The script cannot reach the one of a Cluster.
            self.note(REGISTRY, &[], std::slice::from_ref(&k.name)).await?;
        }
        Ok(pruned)
    }

    /// Records a queue's name, and what is configured of it.
    ///
    /// # Errors
    /// `BadQueue` if its keys belong to another name, `WrongType`.
    pub async fn configure(
        &self,
        queue: &Bytes,
        configured: Configured,
    ) -> Result<Recorded, StoreError> {
        let k = QueueKeys::new(queue);
        let listeners = match configured.order_list {
            "off" => self.listeners(k.channel.clone()).await?,
            _ => 0,
        };
        let args = vec![
            queue.clone(),
            Bytes::from_static(configured.format.as_bytes()),
            Bytes::from_static(configured.order_list.as_bytes()),
            number(listeners),
        ];
        let mut answer = self.read(&CONFIGURE, &k.of(&CONFIGURE), args).await?;
        Ok(match &answer.bytes()?[..] {
            b"PENDING" => Recorded::Pending,
            b"LISTENERS" => Recorded::Listeners,
            b"OTHERS" => Recorded::Others,
            _ => Recorded::All { dropped: answer.count()? },
        })
    }

    /// Clients that listen on a queue's own channel, as Redisson's do: the brokers listen to a
    /// pattern. 0 where this user may not ask.
    async fn listeners(&self, channel: Bytes) -> Result<i64, StoreError> {
        let args = [Bytes::from_static(b"NUMSUB"), channel];
        let mut listeners = 0;
        // Each node of a Cluster counts its own.
        for node in self.router.nodes() {
            match node.plain.command("PUBSUB", &args).await {
                Ok(BytesFrame::Array { data, .. }) => {
                    if let Some(BytesFrame::Number { data, .. }) = data.get(1) {
                        listeners += data;
                    }
                }
                Ok(_) | Err(LinkError::Refused(_)) => {}
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(listeners)
    }

    /// Notes queues in the registry.
    ///
    /// # Errors
    /// Redis cannot be reached; repeated by the caller, since the registry is a hint.
    pub async fn register(&self, queues: Vec<Bytes>) -> Result<(), StoreError> {
        let mut args = Vec::with_capacity(queues.len() + 1);
        args.push(Bytes::from_static(REGISTRY.as_bytes()));
        args.extend(queues);
        self.command("SADD", &args).await.map_err(broken)?;
        Ok(())
    }

    /// One page of all delayed queues of the database, and of those with schedules, as suffixes of
    /// their keys. They may hold another type: to let SCAN look at the type of each would double
    /// what it takes.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn scan(&self, cursor: Bytes, count: u64) -> Result<Page, StoreError> {
        let start = Bytes::from_static(b"0");
        let nodes = self.router.nodes();
        // Of a Cluster node by node: the number of one, a space, and its cursor.
        let text = String::from_utf8_lossy(&cursor);
        let (number, own) = text.split_once(' ').unwrap_or(("0", &text));
        let number = number.parse().unwrap_or(0);
        let left = || nodes.iter().filter(|node| node.number >= number);
        let Some(node) = left().min_by_key(|node| node.number) else {
            return Ok(Page { cursor: start, found: Vec::new(), crons: Vec::new() });
        };
        let after = left().filter(|other| other.number > node.number).map(|other| other.number);
        let next = after.min().map(|number| Bytes::from(format!("{number} 0")));
        let own = Bytes::copy_from_slice(if node.number == number { own } else { "0" }.as_bytes());
        let mut page = match self.scan_node(node, own, count).await {
            // Another one may be reached; that one is looked through when it is back.
            Err(_) if next.is_some() => {
                Page { cursor: start.clone(), found: Vec::new(), crons: Vec::new() }
            }
            page => page?,
        };
        match next {
            _ if node.number == 0 => {}
            Some(next) if page.cursor == start => page.cursor = next,
            _ if page.cursor == start => {}
            _ => {
                let cursor = String::from_utf8_lossy(&page.cursor);
                page.cursor = Bytes::from(format!("{} {cursor}", node.number));
            }
        }
        Ok(page)
    }

    async fn scan_node(&self, node: &Node, cursor: Bytes, count: u64) -> Result<Page, StoreError> {
        let args = [
            cursor,
            Bytes::from_static(b"MATCH"),
            Bytes::from_static(TIMEOUTS_AND_CRONS),
            Bytes::from_static(b"COUNT"),
            number(count),
        ];
        let mut page = page(node.plain.command("SCAN", &args).await.map_err(broken)?)?;
        let of = |prefix| {
            let keys = page.found.iter();
            keys.filter_map(|key| keys::suffix(prefix, key).map(Bytes::copy_from_slice)).collect()
        };
        (page.found, page.crons) = (of(keys::TIMEOUT), of(keys::CRONS));
        Ok(page)
    }

    /// How many names the registry has, if Redis says so.
    pub async fn registry_size(&self) -> Option<i64> {
        let registry = Bytes::from_static(REGISTRY.as_bytes());
        match self.command("SCARD", &[registry]).await {
            Ok(BytesFrame::Number { data, .. }) => Some(data),
            _ => None,
        }
    }

    /// One page of the registry: queue names.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn registered(&self, cursor: Bytes, count: u64) -> Result<Page, StoreError> {
        self.names_of(REGISTRY, cursor, count).await
    }

    /// One page of the names in a set.
    pub(super) async fn names_of(
        &self,
        registry: &'static str,
        cursor: Bytes,
        count: u64,
    ) -> Result<Page, StoreError> {
        let registry = Bytes::from_static(registry.as_bytes());
        let args = [registry, cursor, Bytes::from_static(b"COUNT"), number(count)];
        page(self.command("SSCAN", &args).await.map_err(broken)?)
    }

    /// Publishes the heartbeat that proves the subscription of a node.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn heartbeat(&self, node: &Node, channel: &str) -> Result<(), StoreError> {
        let args = [Bytes::copy_from_slice(channel.as_bytes()), Bytes::from_static(b"1")];
        node.plain.command("PUBLISH", &args).await.map_err(broken)?;
        Ok(())
    }
}

/// An argument: a moment, or nothing.
pub(super) fn moment_or_none(ms: Option<u64>) -> Bytes {
    ms.map(number).unwrap_or_default()
}

/// Else asking for what is left would never end.
pub(super) fn some_of(answer: &Answer) -> Result<(), StoreError> {
    let none = || StoreError::Internal("a script told nothing of any queue".into());
    if answer.is_empty() { Err(none()) } else { Ok(()) }
}

/// The same of how many it told of.
pub(super) fn told_some(told: usize) -> Result<usize, StoreError> {
    let none = || StoreError::Internal("a script told nothing of any queue".into());
    if told == 0 { Err(none()) } else { Ok(told) }
}

fn page(frame: BytesFrame) -> Result<Page, StoreError> {
    let shape = || StoreError::Internal("a scan answered in another shape".into());
    let BytesFrame::Array { data, .. } = frame else {
        return Err(shape());
    };
    let mut parts = data.into_iter();
    let (
        Some(BytesFrame::BlobString { data: cursor, .. }),
        Some(BytesFrame::Array { data: found, .. }),
    ) = (parts.next(), parts.next())
    else {
        return Err(shape());
    };
    let found = found
        .into_iter()
        .filter_map(|frame| match frame {
            BytesFrame::BlobString { data, .. } => Some(data),
            _ => None,
        })
        .collect();
    Ok(Page { cursor, found, crons: Vec::new() })
}

/// The key by which a broker holds a node number.
pub(super) fn number_key(node: u64) -> Bytes {
    Bytes::from(format!("delay_broker_node:{node}"))
}

pub(super) fn broken(error: LinkError) -> StoreError {
    match error {
        LinkError::NotSent(text) => StoreError::Unavailable(text),
        LinkError::Broken(text) => StoreError::Uncertain(text),
        LinkError::Refused(text) => refused(&text),
    }
}
