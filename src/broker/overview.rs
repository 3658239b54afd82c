//! The sections of INFO beyond the fields of Redis: totals, the backing Redis, and the queues that
//! hold most.
//!
//! INFO is answered from what the broker knows, since clients ask it while Redis is away. Readings
//! of Redis are renewed when they are older than [`FRESH`], and waited for only for [`WAIT`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::domain::queue::Cut;
use crate::metrics::{QueueMetrics, Reading, process};
use crate::store::StoreError;

/// Readings of queues are not older than this, where Redis can be asked.
const FRESH: Duration = Duration::from_secs(5);
/// The time that INFO waits for newer ones.
const WAIT: Duration = Duration::from_millis(250);
/// Queues that are shown.
const SHOWN_MAX: usize = 10;

/// A title, and name and value of each field.
pub type Section = (&'static str, Vec<(String, String)>);

/// The state of the broker that INFO shows.
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
    /// Clients that wait for messages.
    pub takers: usize,
    pub connections_received: u64,
}

impl Broker {
    /// About this broker, from what it knows.
    pub fn server_info(&self) -> ServerInfo {
        ServerInfo {
            run_id: self.token.clone(),
            plain_port: self.ports.get().0,
            tls_port: self.ports.get().1,
            uptime_s: self.started.elapsed().as_secs(),
            ready: self.ready().is_ok(),
            used_memory_bytes: process::resident_bytes(),
            commands_processed: self.commands.get(),
            takers: self.host.takers.len(),
            connections_received: self.clients.seen(),
        }
    }

    /// Redis's clock: seconds and microseconds.
    pub async fn time(&self) -> Result<(u64, u64), StoreError> {
        let now_us = self.store.time().await?;
        Ok((now_us / 1_000_000, now_us % 1_000_000))
    }

    /// A wait for newer readings of the queues, if they are old and can be had. They come from one
    /// reading at a time, however many ask.
    pub fn newer_readings(self: &Rc<Self>) -> Option<impl Future<Output = ()> + use<>> {
        let fresh = self.read_at.get().is_some_and(|at| at.elapsed() < FRESH);
        if fresh || !self.store.is_up() || self.reading.replace(true) {
            return None;
        }
        let broker = Rc::clone(self);
        // Goes on where it is not waited for any longer.
        let read = tokio::task::spawn_local(async move {
            broker.read_queues().await;
            broker.read_at.set(Some(Instant::now()));
            broker.reading.set(false);
        });
        Some(async move {
            let _ = tokio::time::timeout(WAIT, read).await;
        })
    }

    /// `shows`: whether the queue of this name may be named.
    pub fn overview(&self, shows: impl Fn(&[u8]) -> bool) -> Vec<Section> {
        let named = self.metrics.named_queues();
        let others = self.metrics.other_queues();
        let all = named.iter().map(|(_, queue)| queue).chain(&others);
        let all: Vec<&QueueMetrics> = all.map(|queue| &**queue).collect();
        let up = if self.store.is_up() { "up" } else { "down" };
        let (ready, why) = match self.readiness() {
            Ok(how) => (1, how.into_owned()),
            Err(why) => (0, why),
        };
        let why = why.replace(['\r', '\n'], "; ");
        let (version, role) = self.audited.seen();
        let mut backing = vec![
            ("backing_address", self.redis_place.clone()),
            ("backing_version", version),
            ("backing_role", role),
        ];
        if let Some((reachable, nodes)) = self.store.primaries() {
            let (nobodys, open) = self.store.slots_away().unwrap_or_default();
            backing.extend([
                ("backing_primaries", nodes.to_string()),
                ("backing_primaries_reachable", reachable.to_string()),
                ("backing_slots_unserved", nobodys.to_string()),
                ("backing_slots_moving", open.to_string()),
            ]);
        }
        if let Some(watch) = self.master.watch() {
            backing.extend([
                ("backing_master_name", Cut(watch.name.as_bytes()).to_string()),
                ("backing_master", watch.master),
                ("backing_epoch", watch.epoch.to_string()),
                ("backing_failovers", watch.failovers.to_string()),
                ("backing_sentinels", watch.sentinels.to_string()),
                ("backing_sentinels_reachable", watch.reachable.to_string()),
            ]);
        }
        let may_name = named.iter().filter(|(name, _)| shows(name));
        let mut queues: Vec<_> = may_name.map(|(name, queue)| (name, queue.reading())).collect();
        let pending = |reading: &Reading| reading.pending.unwrap_or(0);
        queues.sort_by_key(|(_, reading)| std::cmp::Reverse(pending(reading)));
        let mut shown = vec![("queues_known", self.host.schedule().served().to_string())];
        let shown_queues = queues.iter().take(SHOWN_MAX).map(|(name, reading)| {
            let number =
                |number: Option<u64>| number.map_or(-1, |n| i64::try_from(n).unwrap_or(-1));
            format!(
                "pending={},ready={},overdue_ms={},paused={},name={}",
                number(reading.pending),
                number(reading.ready),
                number(reading.overdue_ms),
                number(reading.paused),
                Cut(name)
            )
        });
        shown.extend(shown_queues.map(|queue| ("queue", queue)));
        vec![
            section(
                "Broker",
                vec![
                    ("delay_broker_version", env!("CARGO_PKG_VERSION").to_owned()),
                    ("ready", ready.to_string()),
                    ("ready_why", why),
                    ("offers_waiting", self.offers.waiting().to_string()),
                    ("paused_all", u8::from(self.all_are_paused()).to_string()),
                    ("audit_findings", self.audited.words()),
                    ("redis_link", up.to_owned()),
                ],
            ),
            section("Backing", backing),
            section("Messages", self.totals(&all)),
            numbered(section("Queues", shown)),
        ]
    }

    /// Since the start; and what Redis held at the last reading, of the queues that it was read of.
    fn totals(&self, all: &[&QueueMetrics]) -> Vec<(&'static str, String)> {
        let names = ["offered", "delivered", "cancelled", "removed", "quarantined"];
        let mut counts = [0_u64; 5];
        let (mut pending, mut ready) = (0, 0);
        for queue in all {
            for (sum, count) in counts.iter_mut().zip(queue.counted()) {
                *sum = sum.saturating_add(count);
            }
            let reading = queue.reading();
            pending += reading.pending.unwrap_or(0);
            ready += reading.ready.unwrap_or(0);
        }
        let mut totals: Vec<(&str, String)> =
            names.into_iter().zip(counts.map(|count| count.to_string())).collect();
        let age = self.read_at.get().map(|at| at.elapsed().as_secs());
        totals.extend([
            ("pending_known", pending.to_string()),
            ("ready_known", ready.to_string()),
            ("known_seconds_ago", age.map_or_else(|| "-1".to_owned(), |age| age.to_string())),
        ]);
        totals
    }
}

fn section(title: &'static str, fields: Vec<(&str, String)>) -> Section {
    let fields = fields.into_iter();
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    (title, fields.collect())
}

/// `queue` becomes `queue1`, `queue2` and so on, as Redis's `db0`: a name stands once.
fn numbered((title, mut fields): Section) -> Section {
    let queues = fields.iter_mut().filter(|(name, _)| name == "queue");
    for (place, (name, _)) in queues.enumerate() {
        *name = format!("queue{}", place + 1);
    }
    (title, fields)
}
