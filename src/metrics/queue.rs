//! The metrics of one queue: the counts of this broker, and the numbers of Redis at the last look.
//!
//! Written without the recorder, so that a number that could not be read is absent from a scrape,
//! instead of being that of an earlier one.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::OTHER;
use super::lateness::Lateness;
use super::list::{
    ACKED, AGAIN, CANCELLED, CRON_MISSED, CRON_OFFERED, CRON_SKIPPED, DEAD, DEAD_DROPPED,
    DELIVERED, DIED, DUE_HOUR, DUE_MINUTE, EXPIRED, GROUP_LAG, GROUP_PENDING, IN_QUARANTINE,
    LAPSED, LATENESS, LEASED, NACKED, OFFERED, OVERDUE, PAUSED, PENDING, QUARANTINED, READY,
    REMOVED, REQUEUED, STALE, Spec, TAKEN, WAITING,
};
use super::text::{head, series};

/// In the order of [`Reading::numbers`].
const READ: [&Spec; 11] = [
    &PENDING,
    &READY,
    &OVERDUE,
    &PAUSED,
    &IN_QUARANTINE,
    &DUE_MINUTE,
    &DUE_HOUR,
    &LEASED,
    &WAITING,
    &DEAD,
    &AGAIN,
];

/// The metrics of one queue, or of all that share `other`.
pub struct QueueMetrics {
    label: String,
    counts: Counts,
    lateness: Lateness,
    reading: Mutex<Reading>,
    groups: Mutex<Vec<GroupReading>>,
}

/// The groups of a stream that have series of their own.
const GROUPS_MAX: usize = 16;

/// A group of a stream, as it was found last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReading {
    pub name: Bytes,
    pub pending: u64,
    /// `None` where Redis cannot tell.
    pub lag: Option<u64>,
}

/// The numbers of Redis; `None` for one that was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    pub pending: Option<u64>,
    pub ready: Option<u64>,
    pub overdue_ms: Option<u64>,
    pub paused: Option<u64>,
    pub quarantined: Option<u64>,
    pub due_minute: Option<u64>,
    pub due_hour: Option<u64>,
    pub leased: Option<u64>,
    pub waiting: Option<u64>,
    pub dead: Option<u64>,
    /// How long a message could have been taken again.
    pub again_ms: Option<u64>,
}

impl Reading {
    fn numbers(self) -> [Option<f64>; READ.len()] {
        let number = |number: u64| number as f64;
        [
            self.pending.map(number),
            self.ready.map(number),
            self.overdue_ms.map(|ms| number(ms) / 1e3),
            self.paused.map(number),
            self.quarantined.map(number),
            self.due_minute.map(number),
            self.due_hour.map(number),
            self.leased.map(number),
            self.waiting.map(number),
            self.dead.map(number),
            self.again_ms.map(|ms| number(ms) / 1e3),
        ]
    }
}

/// What is counted of a queue: a method for each, and its metric.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident: $spec:ident;)*) => {
        /// In the order of [`QueueMetrics::counted`].
        const COUNTED: [&Spec; [$(stringify!($name)),*].len()] = [$(&$spec),*];

        #[derive(Default)]
        struct Counts {
            $($name: AtomicU64),*
        }

        /// The same numbers as `/metrics`, since the start of the broker.
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct QueueSnapshot {
            $(pub $name: u64,)*
            /// None where nothing was delivered.
            pub lateness_p50_ms: Option<f64>,
            pub lateness_p99_ms: Option<f64>,
            pub lateness_max_ms: Option<f64>,
        }

        impl QueueMetrics {
            $(
                $(#[$doc])*
                pub fn $name(&self, count: u64) {
                    self.counts.$name.fetch_add(count, Relaxed);
                }
            )*

            /// In the order of their metrics.
            pub fn counted(&self) -> [u64; COUNTED.len()] {
                [$(self.counts.$name.load(Relaxed)),*]
            }

            pub fn snapshot(&self) -> QueueSnapshot {
                let any = self.lateness.count() > 0;
                let ms = |us: u64| any.then_some(us as f64 / 1e3);
                QueueSnapshot {
                    $($name: self.counts.$name.load(Relaxed),)*
                    lateness_p50_ms: ms(self.lateness.quantile_us(0.5)),
                    lateness_p99_ms: ms(self.lateness.quantile_us(0.99)),
                    lateness_max_ms: ms(self.lateness.max_us()),
                }
            }
        }
    };
}

counted! {
    offered: OFFERED;
    delivered: DELIVERED;
    cancelled: CANCELLED;
    removed: REMOVED;
    quarantined: QUARANTINED;
    /// Messages were handed out to takers.
    taken: TAKEN;
    acked: ACKED;
    nacked: NACKED;
    /// Leases ran out.
    lapsed: LAPSED;
    /// No attempt is left.
    died: DIED;
    /// Dead messages were brought back.
    requeued: REQUEUED;
    /// Receipts settled nothing.
    stale: STALE;
    /// Occurrences of schedules were offered.
    cron_offered: CRON_OFFERED;
    /// Occurrences were left out, since the one before was still pending.
    cron_skipped: CRON_SKIPPED;
    /// Nobody was there to offer occurrences at their moment, and they are passed over.
    cron_missed: CRON_MISSED;
    /// Dead messages were dropped by the settings of the queue.
    dead_dropped: DEAD_DROPPED;
    /// Messages expired before a taker had them.
    expired: EXPIRED;
}

impl QueueMetrics {
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            counts: Counts::default(),
            lateness: Lateness::new(),
            reading: Mutex::default(),
            groups: Mutex::default(),
        }
    }

    /// The name as `/metrics` shows it, or `other`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Messages were delivered this long after they were due (less than 0 counts as 0).
    pub fn lateness(&self, seconds: f64, messages: u64) {
        // The conversion saturates: negative and not-a-number give 0.
        self.lateness.record((seconds * 1e6).round() as u64, messages);
    }

    /// Keeps the numbers that were read from Redis now.
    pub fn read(&self, reading: Reading) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }

    /// Keeps what the groups of its stream were found to be; of the first of them by name, and the
    /// sum of the others.
    pub fn groups(&self, mut groups: Vec<GroupReading>) {
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let others = groups.split_off(groups.len().min(GROUPS_MAX));
        if !others.is_empty() {
            let (pending, lags) = (others.iter().map(|one| one.pending), others.iter());
            let lag = lags.filter_map(|one| one.lag).reduce(|a, b| a + b);
            let name = Bytes::from_static(OTHER.as_bytes());
            groups.push(GroupReading { name, pending: pending.sum(), lag });
        }
        // Several queues share `other`: their groups are not told apart.
        if self.label != OTHER {
            *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = groups;
        }
    }

    /// The numbers that were read last.
    pub fn reading(&self) -> Reading {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All series of all queues in Prometheus's text format.
pub(super) fn write(queues: &[Arc<QueueMetrics>], out: &mut String) {
    let counts: Vec<_> = queues.iter().map(|queue| queue.counted()).collect();
    for (place, spec) in COUNTED.into_iter().enumerate() {
        head(spec, out);
        for (queue, counts) in queues.iter().zip(&counts) {
            if let Some(count) = counts.get(place) {
                series(spec, "", &[("queue", &queue.label)], count, out);
            }
        }
    }
    head(&LATENESS, out);
    for queue in queues {
        queue.lateness.write(&LATENESS, &queue.label, out);
    }
    for spec in [&GROUP_PENDING, &GROUP_LAG] {
        head(spec, out);
        for queue in queues {
            for group in queue.groups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let is_lag = std::ptr::eq(spec, &GROUP_LAG);
                let number = if is_lag { group.lag } else { Some(group.pending) };
                if let Some(number) = number {
                    let name = label_of(&group.name);
                    series(spec, "", &[("queue", &queue.label), ("group", &name)], number, out);
                }
            }
        }
    }
    let readings: Vec<_> = queues.iter().map(|queue| queue.reading().numbers()).collect();
    for (place, spec) in READ.into_iter().enumerate() {
        head(spec, out);
        for (queue, numbers) in queues.iter().zip(&readings) {
            if let Some(Some(number)) = numbers.get(place) {
                series(spec, "", &[("queue", &queue.label)], number, out);
            }
        }
    }
}

/// A queue name as text: unprintable characters and the backslash become `\xNN` or `\u{...}`, so
/// that two names never have one label.
pub(super) fn label_of(name: &[u8]) -> String {
    let mut label = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => label.push_str("\\x5c"),
                _ if letter.is_control() => {
                    let _ = write!(label, "\\u{{{:x}}}", u32::from(letter));
                }
                _ => label.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(label, "\\x{byte:02x}");
        }
    }
    label
}
