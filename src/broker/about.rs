//! What may be asked about queues and about this broker.

use bytes::Bytes;

use crate::broker::Broker;
use crate::metrics::{Holds, Metrics, OTHER, QueueSnapshot, Reading, process};
use crate::queue::QueueName;
use crate::scheduler::served::moment;
use crate::store::StoreError;

/// Queues that one call reads the numbers of.
const STATS_MAX: usize = 500;
/// With more queues than this that share a series, their messages are not summed at a scrape.
const OTHERS_MAX: usize = 1_000;

/// A row of DQ.QUEUES.
#[derive(Clone, Debug, Default)]
pub struct QueueRow {
    pub name: Bytes,
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    pub next_due: Option<String>,
}

/// What DQ.INFO shows: Redis's state now, and this broker's counts since its start.
#[derive(Clone, Debug, Default)]
pub struct QueueInfo {
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    pub next_due: Option<String>,
    /// How long the head has been due, if it is.
    pub oldest_overdue_ms: u64,
    pub listed: u64,
    pub quarantined: u64,
    pub named: u64,
    /// Unix ms, -1 = until resumed.
    pub paused_until: Option<i64>,
    pub layout: String,
    pub format: String,
    pub ttl_ms: Option<u64>,
    /// Unix ms of the broker's start.
    pub since: u64,
    /// The metrics' label that the counts are of: the queue's name, or `other`.
    pub label: String,
    pub counts: QueueSnapshot,
}

/// What INFO shows of the broker.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    pub run_id: String,
    /// Where clients connect without TLS, 0 = nowhere.
    pub plain_port: u16,
    /// Where they connect with it, 0 = nowhere.
    pub tls_port: u16,
    pub uptime_s: u64,
    /// The backing Redis can be reached.
    pub ready: bool,
    pub used_memory_bytes: u64,
    pub commands_processed: u64,
    pub connections_received: u64,
    /// Sections of our own: title, then name and value of each field.
    pub sections: Vec<(&'static str, Vec<(String, String)>)>,
}

impl Broker {
    /// A page of the queues that this broker knows, in the order of their keys; `0` is the first
    /// and last cursor.
    pub async fn queues(
        &self,
        pattern: Option<Bytes>,
        cursor: Bytes,
        count: usize,
    ) -> Result<(Bytes, Vec<QueueRow>), StoreError> {
        let mut after = if cursor == "0" {
            Bytes::new()
        } else {
            unhex(&cursor)?
        };
        let mut names = Vec::new();
        let mut next = Bytes::from_static(b"0");
        // Bounded by one step through the queues that are known.
        loop {
            let page = self.host.page(&after, STATS_MAX);
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            let wanted = page.into_iter().filter(|(_, name)| {
                pattern
                    .as_ref()
                    .is_none_or(|pattern| crate::glob::matches(pattern, name))
            });
            names.extend(wanted);
            if names.len() > count {
                names.truncate(count);
                next = names.last().map_or(next, |(suffix, _)| hex(suffix));
                break;
            }
        }
        let names: Vec<Bytes> = names.into_iter().map(|(_, name)| name).collect();
        let mut rows = Vec::with_capacity(names.len());
        for some in names.chunks(STATS_MAX) {
            for (name, stats) in some.iter().zip(self.store.stats(some).await?.1) {
                rows.push(QueueRow {
                    name: name.clone(),
                    pending: u64::try_from(stats.pending).unwrap_or(0),
                    ready: stats.ready,
                    next_due: (!stats.next_due.is_empty()).then_some(stats.next_due),
                });
            }
        }
        Ok((next, rows))
    }

    pub async fn info(&self, queue: &QueueName) -> Result<QueueInfo, StoreError> {
        let state = self.store.info(queue).await?;
        let metrics = self.metrics.queue(queue.as_bytes());
        let now_ms = state.now_us / 1_000;
        Ok(QueueInfo {
            pending: state.pending,
            ready: state.ready,
            oldest_overdue_ms: overdue_ms(&state.next_due, now_ms),
            next_due: (!state.next_due.is_empty()).then_some(state.next_due),
            listed: state.listed,
            quarantined: state.quarantined,
            named: state.named,
            paused_until: state.paused_until,
            layout: state.layout,
            format: state.format,
            ttl_ms: state.ttl_ms,
            since: now_ms.saturating_sub(self.started.elapsed().as_millis() as u64),
            label: metrics.label().to_owned(),
            counts: metrics.snapshot(),
        })
    }

    /// About this broker, from what it knows.
    pub fn server_info(&self) -> ServerInfo {
        let up = |up: bool| if up { "up" } else { "down" }.to_owned();
        let broker = vec![
            (
                "delay_broker_version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
            ("queues_known".to_owned(), self.host.len().to_string()),
            (
                "offers_waiting".to_owned(),
                self.offers.waiting().to_string(),
            ),
            ("audit_findings".to_owned(), self.audited.words()),
            ("redis_link".to_owned(), up(self.store.is_up())),
        ];
        ServerInfo {
            run_id: self.token.clone(),
            plain_port: self.ports.get().0,
            tls_port: self.ports.get().1,
            uptime_s: self.started.elapsed().as_secs(),
            ready: self.ready().is_ok(),
            used_memory_bytes: process::resident_bytes(),
            commands_processed: self.commands.get(),
            connections_received: self.clients.seen(),
            sections: vec![("Broker", broker)],
        }
    }

    /// Redis's clock: seconds and microseconds.
    pub async fn time(&self) -> Result<(u64, u64), StoreError> {
        let now_us = self.store.time().await?;
        Ok((now_us / 1_000_000, now_us % 1_000_000))
    }

    /// How many queues are served.
    pub fn queues_known(&self) -> usize {
        self.host.len()
    }

    /// The metrics with everything that is read at the scrape; rendering them is for another
    /// thread.
    pub async fn scrape(&self) -> Metrics {
        let (buffers_bytes, buffers_max_bytes) = self.memory.used_and_limit();
        self.metrics.holds(Holds {
            ready: self.ready().is_ok(),
            clients: self.clients.len(),
            connections: self.clients.seen(),
            known_queues: self.host.len(),
            offers_waiting: self.offers.waiting(),
            buffers_bytes,
            buffers_max_bytes,
        });
        self.read_queues().await;
        self.metrics.clone()
    }

    /// Reads what Redis holds of the queues that have series of their own; of the others the sums,
    /// if they are few.
    async fn read_queues(&self) {
        let named = self.metrics.named_queues();
        let names: Vec<Bytes> = named
            .iter()
            .map(|(name, _)| Bytes::copy_from_slice(name))
            .collect();
        let readings = self.readings(&names).await.unwrap_or_default();
        for (place, (_, metrics)) in named.iter().enumerate() {
            metrics.read(readings.get(place).copied().unwrap_or_default());
        }
        let Some(others) = self.metrics.other_queues() else {
            return;
        };
        let mut sum = Reading::default();
        if self.host.len() <= named.len() + OTHERS_MAX {
            let page = self.host.page(&Bytes::new(), self.host.len());
            let shares = |name: &Bytes| self.metrics.queue(name).label() == OTHER;
            let names: Vec<Bytes> = page
                .into_iter()
                .map(|(_, name)| name)
                .filter(shares)
                .collect();
            let readings = self.readings(&names).await;
            let all = |number: fn(&Reading) -> Option<u64>| {
                let readings = readings.as_ref()?;
                Some(readings.iter().filter_map(number).sum())
            };
            sum.pending = all(|reading| reading.pending);
            sum.ready = all(|reading| reading.ready);
            sum.paused = all(|reading| reading.paused);
        }
        // However many they are: the safety scan has seen them all.
        sum.overdue_ms = self.store.is_up().then(|| self.host.others_overdue_ms());
        others.read(sum);
    }

    /// In the order of the names; none if Redis cannot be asked.
    async fn readings(&self, names: &[Bytes]) -> Option<Vec<Reading>> {
        // Not even waited for: the scrape has more to tell.
        if !self.store.is_up() {
            return None;
        }
        let mut readings = Vec::with_capacity(names.len());
        for some in names.chunks(STATS_MAX) {
            let (now_ms, stats) = self.store.stats(some).await.ok()?;
            readings.extend(stats.into_iter().map(|stats| Reading {
                pending: u64::try_from(stats.pending).ok(),
                ready: u64::try_from(stats.ready).ok(),
                overdue_ms: Some(overdue_ms(&stats.next_due, now_ms)),
                paused: Some(stats.paused.into()),
            }));
        }
        Some(readings)
    }
}

/// How long a head is due. One before all times is due at once, and has waited for nobody knows
/// how long: 0.
fn overdue_ms(next_due: &str, now_ms: u64) -> u64 {
    let due = moment(next_due).filter(|due| *due > 0);
    due.map_or(0, |due| now_ms.saturating_sub(due))
}

fn hex(bytes: &[u8]) -> Bytes {
    Bytes::from(
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
    )
}

fn unhex(text: &[u8]) -> Result<Bytes, StoreError> {
    let text = std::str::from_utf8(text).map_err(|_| StoreError::BadCursor)?;
    if text.len() % 2 != 0 || text.is_empty() {
        return Err(StoreError::BadCursor);
    }
    (0..text.len())
        .step_by(2)
        .map(|at| {
            text.get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
        .ok_or(StoreError::BadCursor)
}
