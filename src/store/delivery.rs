//! What the scheduler asks of Redis: move what is due, read heads, claim a node number, prune, find
//! queues.

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::store::keys::{self, QueueKeys, REGISTRY};
use crate::store::offers::Configured;
use crate::store::redis::LinkError;
use crate::store::script::{CONFIGURE, FOUND, HEADS, NODE, PRUNE, STATS, TRANSFER};
use crate::store::{Store, StoreError, number, refused};

/// What a transfer did.
#[derive(Debug, Default)]
pub struct Transferred {
    /// Redis's TIME in the script, microseconds: lateness counts to it.
    pub now_us: u64,
    /// The score of the head now; empty if nothing is pending.
    pub next: String,
    /// Set while the queue is paused: until this moment in ms, or -1 until it is resumed.
    pub paused_until: Option<i64>,
    /// When a pause ended, ms: lateness counts from it. 0 if there was none.
    pub pause_ended_ms: u64,
    /// Members put aside because they could not be read.
    pub quarantined: u64,
    /// What taking the members off the order list cost, in elements that were passed: what more of
    /// them would have shared, and what each of them adds to. 0 where the list is in due order.
    pub passed_shared: u64,
    pub passed_each: u64,
    /// How long the script ran, microseconds; `None` where Redis's clock stands still meanwhile
    /// (7.2 and newer).
    pub took_us: Option<u64>,
    /// What was delivered: score as ms and how many had it.
    pub moved: Vec<(f64, u64)>,
}

/// What is in a queue, for lists and metrics. -1: the key holds another type.
#[derive(Debug, Clone)]
pub struct Stats {
    pub pending: i64,
    pub ready: i64,
    pub next_due: String,
    pub paused: bool,
}

/// What became of the settings of a queue.
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
    /// The score of its head; empty if nothing is pending, no number if the key holds no zset.
    pub head: String,
}

/// One page of SCAN.
pub struct Page {
    pub cursor: Bytes,
    pub found: Vec<Bytes>,
}

impl Store {
    /// Moves what is due to the destination: at most so many messages and about so many bytes.
    ///
    /// # Errors
    /// `BadQueue`, `WrongType`: cannot be delivered. Others: may have been applied, which the next
    /// call shows.
    pub async fn transfer(
        &self,
        k: &QueueKeys,
        messages_max: u64,
        bytes_max: u64,
    ) -> Result<Transferred, StoreError> {
        let keys = [
            k.destination.clone(),
            k.timeout.clone(),
            k.list.clone(),
            k.queue.clone(),
            k.names.clone(),
            k.ids.clone(),
            k.quarantine.clone(),
        ];
        let args = [
            k.destination.clone(),
            number(messages_max),
            number(bytes_max),
        ];
        let answer = self
            .transfers
            .eval(&TRANSFER, &keys, &args, self.limits.call_timeout)
            .await
            .map_err(broken)?;
        let mut answer = answer.served()?;
        let paused = answer.status == "PAUSED";
        let mut transferred = Transferred {
            now_us: answer.now_us,
            next: answer.text()?,
            ..Transferred::default()
        };
        let until = answer.text()?;
        transferred.paused_until = paused.then(|| until.parse().unwrap_or(-1));
        transferred.pause_ended_ms = answer.count()?;
        transferred.quarantined = answer.count()?;
        transferred.passed_shared = answer.count()?;
        transferred.passed_each = answer.count()?;
        let took_us = answer.count()?.saturating_sub(answer.now_us);
        transferred.took_us = Some(took_us).filter(|took_us| *took_us > 0);
        while !answer.is_empty() {
            let score = answer.text()?.parse().unwrap_or(f64::NEG_INFINITY);
            transferred.moved.push((score, answer.count()?));
        }
        Ok(transferred)
    }

    /// The head's score of each queue, empty where nothing is pending; at most 1,000 zsets.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn heads(&self, timeouts: &[Bytes]) -> Result<Vec<String>, StoreError> {
        let mut answer = self.read(&HEADS, timeouts, Vec::new()).await?;
        let mut heads = Vec::with_capacity(timeouts.len());
        while !answer.is_empty() {
            heads.push(answer.text()?);
        }
        Ok(heads)
    }

    /// The recorded name and the head of each of these queues, in their order; at most 500.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn found(&self, suffixes: Vec<Bytes>) -> Result<Vec<Found>, StoreError> {
        let mut keys = Vec::with_capacity(suffixes.len() * 2);
        for suffix in &suffixes {
            let k = QueueKeys::new(suffix);
            keys.extend([k.timeout, k.queue]);
        }
        let mut answer = self.read(&FOUND, &keys, Vec::new()).await?;
        let mut found = Vec::with_capacity(suffixes.len());
        for suffix in suffixes {
            let name = Some(answer.bytes()?).filter(|name| !name.is_empty());
            let head = answer.text()?;
            found.push(Found { suffix, name, head });
        }
        Ok(found)
    }

    /// Redis's time in ms, and the numbers of some queues.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn stats(&self, queues: &[Bytes]) -> Result<(u64, Vec<Stats>), StoreError> {
        let mut keys = Vec::with_capacity(queues.len() * 3);
        for queue in queues {
            let k = QueueKeys::new(queue);
            keys.extend([k.timeout, k.destination, k.queue]);
        }
        let mut answer = self.read(&STATS, &keys, Vec::new()).await?;
        let mut stats = Vec::with_capacity(queues.len());
        for _ in queues {
            stats.push(Stats {
                pending: answer.int()?,
                ready: answer.int()?,
                next_due: answer.text()?,
                paused: answer.int()? == 1,
            });
        }
        Ok((answer.now_us / 1_000, stats))
    }

    /// Claims a node number, or holds on to it: true if it is ours for `expiry_ms` from now.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn node(&self, node: u64, token: &str, expiry_ms: u64) -> Result<bool, StoreError> {
        let key = Bytes::from(format!("delay_broker_node:{node}"));
        let args = vec![Bytes::copy_from_slice(token.as_bytes()), number(expiry_ms)];
        Ok(self.read(&NODE, &[key], args).await?.int()? == 1)
    }

    /// Forgets a queue that is empty: true if it was.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn prune(&self, k: &QueueKeys) -> Result<bool, StoreError> {
        let registry = Bytes::from_static(REGISTRY.as_bytes());
        let keys = [k.timeout.clone(), k.list.clone(), k.queue.clone(), registry];
        Ok(self
            .read(&PRUNE, &keys, vec![k.destination.clone()])
            .await?
            .int()?
            == 1)
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
            "off" => self.listeners(queue).await?,
            _ => 0,
        };
        let args = vec![
            queue.clone(),
            Bytes::from_static(configured.format.as_bytes()),
            Bytes::from_static(configured.order_list.as_bytes()),
            number(listeners),
        ];
        let keys = [k.queue, k.timeout, k.list];
        let mut answer = self.read(&CONFIGURE, &keys, args).await?;
        Ok(match &answer.bytes()?[..] {
            b"PENDING" => Recorded::Pending,
            b"LISTENERS" => Recorded::Listeners,
            b"OTHERS" => Recorded::Others,
            _ => Recorded::All {
                dropped: answer.count()?,
            },
        })
    }

    /// Clients that listen on a queue's own channel, as Redisson's do: the brokers listen to a
    /// pattern. 0 where this user may not ask.
    async fn listeners(&self, queue: &[u8]) -> Result<i64, StoreError> {
        let args = vec![Bytes::from_static(b"NUMSUB"), keys::channel(queue)];
        match self.calls.command("PUBSUB", args).await {
            Ok(BytesFrame::Array { data, .. }) => Ok(match data.get(1) {
                Some(BytesFrame::Number { data, .. }) => *data,
                _ => 0,
            }),
            Ok(_) | Err(LinkError::Refused(_)) => Ok(0),
            Err(error) => Err(broken(error)),
        }
    }

    /// Notes queues in the registry.
    ///
    /// # Errors
    /// Redis cannot be reached; repeated by the caller, since the registry is a hint.
    pub async fn register(&self, queues: Vec<Bytes>) -> Result<(), StoreError> {
        let mut args = Vec::with_capacity(queues.len() + 1);
        args.push(Bytes::from_static(REGISTRY.as_bytes()));
        args.extend(queues);
        self.calls.command("SADD", args).await.map_err(broken)?;
        Ok(())
    }

    /// One page of all delayed queues of the database, as suffixes of their keys.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn scan(&self, cursor: Bytes, count: u64) -> Result<Page, StoreError> {
        let pattern = Bytes::from(format!("{}:*", keys::TIMEOUT));
        let args = vec![
            cursor,
            Bytes::from_static(b"MATCH"),
            pattern,
            Bytes::from_static(b"COUNT"),
            number(count),
            Bytes::from_static(b"TYPE"),
            Bytes::from_static(b"zset"),
        ];
        let mut page = page(self.calls.command("SCAN", args).await.map_err(broken)?)?;
        page.found = page
            .found
            .iter()
            .filter_map(|key| keys::suffix(keys::TIMEOUT, key).map(Bytes::copy_from_slice))
            .collect();
        Ok(page)
    }

    /// One page of the registry: queue names.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn registered(&self, cursor: Bytes, count: u64) -> Result<Page, StoreError> {
        let registry = Bytes::from_static(REGISTRY.as_bytes());
        let args = vec![
            registry,
            cursor,
            Bytes::from_static(b"COUNT"),
            number(count),
        ];
        page(self.calls.command("SSCAN", args).await.map_err(broken)?)
    }

    /// Publishes the heartbeat that proves the subscription.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn heartbeat(&self, channel: &str) -> Result<(), StoreError> {
        let args = vec![
            Bytes::copy_from_slice(channel.as_bytes()),
            Bytes::from_static(b"1"),
        ];
        self.calls.command("PUBLISH", args).await.map_err(broken)?;
        Ok(())
    }
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
    Ok(Page { cursor, found })
}

fn broken(error: LinkError) -> StoreError {
    match error {
        LinkError::NotSent(text) => StoreError::Unavailable(text),
        LinkError::Broken(text) => StoreError::Uncertain(text),
        LinkError::Refused(text) => refused(&text),
    }
}
