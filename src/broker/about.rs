//! What may be asked about queues and about this broker.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::broker::Broker;
use crate::metrics::QueueSnapshot;
use crate::queue::QueueName;
use crate::scheduler::host::moment;
use crate::store::StoreError;

/// Queues that one call reads the numbers of.
const STATS_MAX: usize = 500;

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
    pub tcp_port: u16,
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
            for (name, stats) in some.iter().zip(self.store.stats(some).await?) {
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
        let head = moment(&state.next_due).filter(|due| *due <= now_ms);
        Ok(QueueInfo {
            pending: state.pending,
            ready: state.ready,
            oldest_overdue_ms: head.map_or(0, |due| now_ms - due),
            next_due: (!state.next_due.is_empty()).then_some(state.next_due),
            listed: state.listed,
            quarantined: state.quarantined,
            named: state.named,
            paused_until: state.paused_until,
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
            ("redis_link".to_owned(), up(self.store.is_up())),
        ];
        ServerInfo {
            run_id: self.token.clone(),
            tcp_port: self.tcp_port.get(),
            uptime_s: self.started.elapsed().as_secs(),
            ready: self.ready().is_ok(),
            used_memory_bytes: resident_bytes(),
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

    /// The metrics as text, with pending and ready of the first queues read now.
    pub async fn scrape(&self) -> String {
        let page = self.host.page(&Bytes::new(), STATS_MAX);
        let names: Vec<Bytes> = page.into_iter().map(|(_, name)| name).collect();
        if let Ok(stats) = self.store.stats(&names).await {
            // Queues that share a label are summed.
            let mut sums = BTreeMap::new();
            for (name, stats) in names.iter().zip(stats) {
                let metrics = self.metrics.queue(name);
                let sum = sums
                    .entry(metrics.label().to_owned())
                    .or_insert((metrics, 0, 0));
                sum.1 += stats.pending.max(0);
                sum.2 += stats.ready.max(0);
            }
            for (metrics, pending, ready) in sums.into_values() {
                metrics.set_pending(pending as f64);
                metrics.set_ready(ready as f64);
            }
        }
        self.metrics.render()
    }
}

/// Memory of this process, as the kernel counts it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
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
