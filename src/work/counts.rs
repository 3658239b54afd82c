//! What a worker counts: one owner, read by the progress line, the summary and `/metrics`.

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use super::outcome::Label;

/// Seconds, from a quick command to the longest timeout that is usual.
const BUCKETS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0];

/// Name, kind and meaning of each metric, as docs/work.md has them.
pub const METRICS: [(&str, &str, &str); 8] = [
    ("delay_broker_work_handled_total", "counter", "Messages whose handler ended, by outcome."),
    ("delay_broker_work_stale_total", "counter", "Answers 0: somebody else has the message."),
    ("delay_broker_work_unsettled_total", "counter", "Messages that no broker took back in time."),
    ("delay_broker_work_extends_total", "counter", "Leases that were extended."),
    ("delay_broker_work_active", "gauge", "Messages that are being handled."),
    ("delay_broker_work_concurrency", "gauge", "Messages that may be handled at one time."),
    ("delay_broker_work_connected", "gauge", "1 if the worker can take messages."),
    ("delay_broker_work_handler_seconds", "histogram", "Time that handlers took."),
];

/// Of one worker.
#[derive(Default)]
pub struct Counts {
    /// In the order of [`Label::ALL`].
    handled: [Cell<u64>; Label::ALL.len()],
    pub stale: Cell<u64>,
    /// Messages that could not be settled until their lease had ended.
    pub unsettled: Cell<u64>,
    pub extends: Cell<u64>,
    pub active: Cell<u64>,
    pub connected: Cell<bool>,
    /// Each up to its bound and above the one before; the last has no bound.
    buckets: [Cell<u64>; BUCKETS.len() + 1],
    seconds: Cell<f64>,
}

/// One more.
pub fn add(cell: &Cell<u64>, number: u64) {
    cell.set(cell.get().saturating_add(number));
}

impl Counts {
    pub fn handled(&self, label: Label, took: Duration) {
        if let Some(place) = Label::ALL.iter().position(|(known, _)| *known == label) {
            self.handled.get(place).into_iter().for_each(|cell| add(cell, 1));
        }
        let seconds = took.as_secs_f64();
        let place = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        self.buckets.get(place).into_iter().for_each(|cell| add(cell, 1));
        self.seconds.set(self.seconds.get() + seconds);
    }

    pub fn of(&self, label: Label) -> u64 {
        let found = Label::ALL.iter().zip(&self.handled).find(|((known, _), _)| *known == label);
        found.map_or(0, |(_, cell)| cell.get())
    }
}

/// All metrics in Prometheus's text format, of workers with their first queue and concurrency.
pub fn render<'a>(workers: impl Iterator<Item = (&'a str, usize, &'a Counts)> + Clone) -> String {
    let mut out = String::new();
    for (name, kind, help) in METRICS {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (queue, concurrency, counts) in workers.clone() {
            let queue = label(queue);
            let mut line = |suffix: &str, labels: &str, number: f64| {
                let _ = writeln!(out, "{name}{suffix}{{queue=\"{queue}\"{labels}}} {number}");
            };
            let whole = |cell: &Cell<u64>| cell.get() as f64;
            match name.split_once("_work_").map_or(name, |(_, rest)| rest) {
                "handled_total" => {
                    for (label, word) in Label::ALL {
                        line("", &format!(",outcome=\"{word}\""), counts.of(label) as f64);
                    }
                }
                "stale_total" => line("", "", whole(&counts.stale)),
                "unsettled_total" => line("", "", whole(&counts.unsettled)),
                "extends_total" => line("", "", whole(&counts.extends)),
                "active" => line("", "", whole(&counts.active)),
                "concurrency" => line("", "", concurrency as f64),
                "connected" => line("", "", f64::from(u8::from(counts.connected.get()))),
                _ => {
                    let mut sum = 0.0;
                    let bounds = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
                    for (bound, cell) in bounds.zip(&counts.buckets) {
                        sum += whole(cell);
                        line("_bucket", &format!(",le=\"{bound}\""), sum);
                    }
                    line("_sum", "", counts.seconds.get());
                    line("_count", "", sum);
                }
            }
        }
    }
    out
}

/// One line for people.
pub fn line<'a>(workers: impl Iterator<Item = (&'a str, usize, &'a Counts)>) -> String {
    let parts = workers.map(|(queue, concurrency, counts)| {
        let of = |label| counts.of(label);
        format!(
            "{}: {} of {concurrency} active, {} done, {} failed, {} dead, {} timed out, {} given \
             back",
            queue.escape_debug(),
            counts.active.get(),
            of(Label::Acked),
            of(Label::Failed),
            of(Label::Fatal),
            of(Label::Timeout),
            of(Label::Silent)
        )
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// A value of a label, as Prometheus reads it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let counts = Counts::default();
        counts.handled(Label::Acked, Duration::from_millis(5));
        counts.handled(Label::Acked, Duration::from_secs(700));
        counts.handled(Label::Timeout, Duration::from_secs(2));
        add(&counts.stale, 2);
        counts.connected.set(true);
        let text = render([("a\"b", 3, &counts)].into_iter());
        for line in [
            "delay_broker_work_handled_total{queue=\"a\\\"b\",outcome=\"acked\"} 2",
            "delay_broker_work_handled_total{queue=\"a\\\"b\",outcome=\"fatal\"} 0",
            "delay_broker_work_stale_total{queue=\"a\\\"b\"} 2",
            "delay_broker_work_connected{queue=\"a\\\"b\"} 1",
            "delay_broker_work_concurrency{queue=\"a\\\"b\"} 3",
            "delay_broker_work_handler_seconds_bucket{queue=\"a\\\"b\",le=\"0.005\"} 1",
            "delay_broker_work_handler_seconds_bucket{queue=\"a\\\"b\",le=\"2.5\"} 2",
            "delay_broker_work_handler_seconds_bucket{queue=\"a\\\"b\",le=\"600\"} 2",
            "delay_broker_work_handler_seconds_bucket{queue=\"a\\\"b\",le=\"+Inf\"} 3",
            "delay_broker_work_handler_seconds_count{queue=\"a\\\"b\"} 3",
            "delay_broker_work_handler_seconds_sum{queue=\"a\\\"b\"} 702.005",
        ] {
            assert!(text.lines().any(|seen| seen == line), "{line} in\n{text}");
        }
        let docs = include_str!("../../docs/work.md");
        for (name, _, _) in METRICS {
            assert!(text.contains(&format!("# TYPE {name} ")));
            assert!(docs.contains(&format!("`{name}`")), "docs/work.md lacks {name}");
        }
        let shown = line([("q", 3, &counts)].into_iter());
        assert_eq!(shown, "q: 0 of 3 active, 2 done, 0 failed, 0 dead, 1 timed out, 0 given back");
    }
}
