//! The contents of the queues in Redis, as `/metrics` and INFO show them: read at a scrape.

use std::time::Instant;

use bytes::Bytes;

use crate::broker::{Broker, overdue_ms};
use crate::metrics::{Metrics, OTHER, Reading};
use crate::store::delivery::Stats;

/// With more queues than this that share a series, their messages are not summed at a scrape.
const OTHERS_MAX: usize = 1_000;

impl Broker {
    /// The metrics with everything that is read at the scrape; rendering them is for another
    /// thread.
    pub async fn scrape(&self) -> Metrics {
        let metrics = &self.metrics;
        let (buffers, buffers_max) = self.memory.used_and_limit();
        for (gauge, number) in [
            (&metrics.readiness, usize::from(self.ready().is_ok())),
            (&metrics.paused_all, usize::from(self.all_are_paused())),
            (&metrics.clients, self.clients.len()),
            (&metrics.known_queues, self.host.schedule().served()),
            (&metrics.offers_waiting, self.offers.waiting()),
            (&metrics.takers, self.host.takers.len()),
            (&metrics.buffers, buffers),
            (&metrics.buffers_max, buffers_max),
        ] {
            gauge.of([]).set(number as f64);
        }
        metrics.connections.of([]).absolute(self.clients.seen());
        self.read_queues().await;
        self.read_at.set(Some(Instant::now()));
        self.metrics.clone()
    }

    /// Reads what Redis holds of the queues that have series of their own; of the others the sums,
    /// if they are few.
    pub(super) async fn read_queues(&self) {
        let named = self.metrics.named_queues();
        let names: Vec<Bytes> =
            named.iter().map(|(name, _)| Bytes::copy_from_slice(name)).collect();
        let readings = self.readings(&names).await.unwrap_or_default();
        for (place, (_, metrics)) in named.iter().enumerate() {
            metrics.read(readings.get(place).copied().unwrap_or_default());
        }
        let Some(others) = self.metrics.other_queues() else {
            return;
        };
        let mut sum = Reading::default();
        if self.host.schedule().served() <= named.len() + OTHERS_MAX {
            let page = self.host.schedule().page(&Bytes::new(), usize::MAX);
            let shares = |name: &Bytes| self.metrics.queue(name).label() == OTHER;
            let names: Vec<Bytes> = page.into_iter().map(|(_, name)| name).filter(shares).collect();
            let readings = self.readings(&names).await;
            let all = |number: fn(&Reading) -> Option<u64>| {
                let readings = readings.as_ref()?;
                Some(readings.iter().filter_map(number).sum())
            };
            sum.pending = all(|reading| reading.pending);
            sum.ready = all(|reading| reading.ready);
            sum.paused = all(|reading| reading.paused);
            sum.quarantined = all(|reading| reading.quarantined);
            sum.due_minute = all(|reading| reading.due_minute);
            sum.due_hour = all(|reading| reading.due_hour);
            sum.leased = all(|reading| reading.leased);
            sum.waiting = all(|reading| reading.waiting);
            sum.dead = all(|reading| reading.dead);
            let again = readings.as_ref().map(|all| all.iter().filter_map(|one| one.again_ms));
            sum.again_ms = again.map(|each| each.max().unwrap_or(0));
        }
        // However many they are: the safety scan has seen them all.
        sum.overdue_ms = self.store.is_up().then(|| self.host.others_overdue_ms.get());
        others.read(sum);
    }

    /// In the order of the names; none if Redis cannot be asked.
    async fn readings(&self, names: &[Bytes]) -> Option<Vec<Reading>> {
        // Not even waited for: the scrape has more to tell.
        if !self.store.is_up() {
            return None;
        }
        let stats = self.store.stats(&self.with_heads(names)).await.ok()?;
        let reading = |stats: Stats| Reading {
            pending: u64::try_from(stats.pending).ok(),
            ready: u64::try_from(stats.ready).ok(),
            overdue_ms: Some(overdue_ms(stats.next_due, stats.now_ms)),
            paused: Some(stats.paused.into()),
            quarantined: u64::try_from(stats.quarantined).ok(),
            due_minute: u64::try_from(stats.due_minute).ok(),
            due_hour: u64::try_from(stats.due_hour).ok(),
            leased: u64::try_from(stats.leased).ok(),
            waiting: u64::try_from(stats.waiting).ok(),
            dead: u64::try_from(stats.dead).ok(),
            again_ms: Some(overdue_ms(stats.again, stats.now_ms)),
        };
        Some(stats.into_iter().map(reading).collect())
    }
}
