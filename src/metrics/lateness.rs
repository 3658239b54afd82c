//! How late the messages of one queue were: counts by size, without a sample kept.
//!
//! Knows no queue and no clock. Keeps two views of the same numbers, both added to at once: the
//! buckets that `/metrics` shows, and finer ones (eight to a power of two, so at most an eighth
//! too large) for the quantiles of DQ.INFO. The exporter's own histograms would hold one sample
//! for each message until the next scrape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::list::Spec;
use super::text::series;

/// Upper bounds of the exported buckets, in microseconds: from half a millisecond, below the target
/// of one, to ten minutes, an outage.
const BOUNDS_US: [u64; 16] = [
    500,
    1_000,
    2_000,
    3_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
];

/// Values below this have a fine bucket each; above, eight share a power of two.
const EXACT: u64 = 16;
/// Up to 2^44 us, half a year; more counts as that.
const FINE: usize = EXACT as usize + (44 - 4) * 8;

pub struct Lateness {
    exported: [AtomicU64; BOUNDS_US.len()],
    fine: [AtomicU64; FINE],
    count: AtomicU64,
    sum_us: AtomicU64,
    max_us: AtomicU64,
}

impl Lateness {
    pub fn new() -> Self {
        Self {
            exported: [const { AtomicU64::new(0) }; BOUNDS_US.len()],
            fine: [const { AtomicU64::new(0) }; FINE],
            count: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
        }
    }

    pub fn record(&self, us: u64, count: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        // Beyond the last bound only the count knows it, as `+Inf`.
        if let Some(bucket) = self.exported.get(bucket) {
            bucket.fetch_add(count, Relaxed);
        }
        if let Some(bucket) = self.fine.get(fine_bucket(us)) {
            bucket.fetch_add(count, Relaxed);
        }
        self.count.fetch_add(count, Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(count), Relaxed);
        self.max_us.fetch_max(us, Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub fn max_us(&self) -> u64 {
        self.max_us.load(Relaxed)
    }

    /// The value that `share` (0 to 1) of all do not exceed, rounded up to its fine bucket.
    pub fn quantile_us(&self, share: f64) -> u64 {
        let count = self.count.load(Relaxed);
        let wanted = ((count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, counted) in self.fine.iter().enumerate() {
            seen += counted.load(Relaxed);
            if seen >= wanted {
                return fine_bound_us(bucket).min(self.max_us());
            }
        }
        self.max_us()
    }

    /// The lines of one queue in Prometheus's text format.
    pub fn write(&self, spec: &Spec, queue: &str, out: &mut String) {
        let mut seen = 0;
        for (bound, counted) in BOUNDS_US.iter().zip(&self.exported) {
            seen += counted.load(Relaxed);
            let bound = seconds(*bound).to_string();
            series(spec, "_bucket", &[("queue", queue), ("le", &bound)], seen, out);
        }
        let count = self.count.load(Relaxed).max(seen);
        let sum = seconds(self.sum_us.load(Relaxed));
        series(spec, "_bucket", &[("queue", queue), ("le", "+Inf")], count, out);
        series(spec, "_sum", &[("queue", queue)], sum, out);
        series(spec, "_count", &[("queue", queue)], count, out);
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn fine_bucket(us: u64) -> usize {
    if us < EXACT {
        return us as usize;
    }
    let power = us.ilog2();
    let eighth = (us >> (power - 3)) & 7;
    let bucket = EXACT as usize + (power as usize - 4) * 8 + eighth as usize;
    bucket.min(FINE - 1)
}

/// The largest value of a fine bucket.
fn fine_bound_us(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT as usize) else {
        return bucket as u64;
    };
    let (power, eighth) = (above / 8 + 4, above as u64 % 8);
    ((9 + eighth) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::super::list::LATENESS;
    use super::*;

    #[test]
    fn every_value_lies_in_its_fine_bucket() {
        let mut us = 0_u64;
        while us < 1 << 44 {
            let bucket = fine_bucket(us);
            assert!(us <= fine_bound_us(bucket), "{us}");
            assert!(bucket == 0 || us > fine_bound_us(bucket - 1), "{us}");
            us += 1 + us / 7;
        }
        assert_eq!(fine_bucket(u64::MAX), FINE - 1);
    }

    /// Each row: values with their counts, then p50, p99, max.
    #[test]
    fn quantiles() {
        type Row = (&'static [(u64, u64)], [u64; 3]);
        #[rustfmt::skip]
        let rows: [Row; 5] = [
            (&[], [0, 0, 0]),
            (&[(0, 10)], [0, 0, 0]),
            (&[(700, 1)], [700, 700, 700]),
            (&[(300, 99), (9_000, 1)], [319, 319, 9_000]),
            (&[(300, 98), (9_000, 2)], [319, 9_000, 9_000]),
        ];
        for (values, expected) in rows {
            let lateness = Lateness::new();
            values.iter().for_each(|(us, count)| lateness.record(*us, *count));
            let seen = [lateness.quantile_us(0.5), lateness.quantile_us(0.99), lateness.max_us()];
            assert_eq!(seen, expected, "{values:?}");
        }
    }

    #[test]
    fn text_is_cumulative_and_bounds_are_inclusive() {
        let lateness = Lateness::new();
        for (us, count) in [(0, 1), (500, 2), (501, 3), (u64::MAX / 2, 1)] {
            lateness.record(us, count);
        }
        let mut text = String::new();
        lateness.write(&LATENESS, "q", &mut text);
        for line in [
            "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"0.0005\"} 3\n",
            "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"0.001\"} 6\n",
            "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"600\"} 6\n",
            "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"+Inf\"} 7\n",
            "delay_broker_lateness_seconds_count{queue=\"q\"} 7\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
