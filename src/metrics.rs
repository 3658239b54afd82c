//! The metrics of the broker, and the handles that count.
//!
//! Does not know where they are counted, nor how `/metrics` is served. [`list`] has all metrics.
//! Keeps: each broker has its own recorder (several run in one test process); the number of label
//! values is bounded, with `other` for the rest; DQ.INFO and `/metrics` read the same numbers.
//! Counting on the way of a message is one atomic addition; labels are looked up before, once.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

mod commands;
mod family;
mod lateness;
mod list;
pub mod process;
mod queue;
mod text;

pub use commands::{CommandMetrics, Outcome};
pub use list::{Kind, Recorded, Spec, TABLE};
pub use queue::{GroupReading, QueueMetrics, QueueSnapshot, Reading};

/// The share of queues that have no series of their own.
pub const OTHER: &str = "other";

/// Seconds; a local Redis answers in 0.1 ms, a call is given up after some seconds.
const SCRIPT_BUCKETS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Messages, up to the largest DQ.MOFFER by default.
const BATCH_BUCKETS: [f64; 11] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

const BUCKETS: [(&str, &[f64]); 2] = [
    ("delay_broker_script_seconds", &SCRIPT_BUCKETS),
    ("delay_broker_batch_messages", &BATCH_BUCKETS),
];

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($variant),* }

        impl $name {
            const WORDS: &[&'static str] = &[$($word),*];

            fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    };
}

words! {
    /// The reason why the broker looked at a queue.
    WakeCause {
        Publish "publish",
        Timer "timer",
        Scan "scan",
        Offer "offer",
        Subscribe "subscribe",
    }
}

words! {
    /// How a call of the safety scan went.
    ScanOutcome {
        Ok "ok",
        Slow "slow",
        Failed "failed",
    }
}

words! {
    /// Why a connection was closed at once.
    Refusal {
        Clients "clients_max",
        Address "clients_per_address_max",
    }
}

/// All metrics of one broker; clones count into the same.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    recorded: Arc<Recorded>,
    handle: PrometheusHandle,
    queues_max: usize,
    queues: Mutex<HashMap<Vec<u8>, Arc<QueueMetrics>>>,
    other: OnceLock<Arc<QueueMetrics>>,
    commands: Mutex<HashMap<&'static str, Arc<CommandMetrics>>>,
    /// Empty where it is always the same.
    master: Mutex<String>,
}

/// The metrics that are counted where something happens: `metrics.clients.of([])`.
impl Deref for Metrics {
    type Target = Recorded;

    fn deref(&self) -> &Recorded {
        &self.0.recorded
    }
}

impl Metrics {
    /// The first `queues_max` queues have series of their own.
    pub fn new(queues_max: usize) -> Self {
        let mut builder = PrometheusBuilder::new();
        for (name, buckets) in BUCKETS {
            let name = Matcher::Full(name.to_owned());
            builder = builder.set_buckets_for_metric(name, buckets).expect("there are buckets");
        }
        let recorder = Arc::new(builder.build_recorder());
        let recorded = Recorded::new(&recorder);
        recorded.build.of([env!("CARGO_PKG_VERSION")]).set(1.0);
        // Shown from the start, so that the first of each is an increase.
        WakeCause::WORDS.iter().for_each(|cause| drop(recorded.wakeups.of([cause])));
        ScanOutcome::WORDS.iter().for_each(|outcome| drop(recorded.scans.of([outcome])));
        Refusal::WORDS.iter().for_each(|reason| drop(recorded.refused.of([reason])));
        Self(Arc::new(Inner {
            recorded: Arc::new(recorded),
            handle: recorder.handle(),
            queues_max,
            queues: Mutex::default(),
            other: OnceLock::new(),
            commands: Mutex::default(),
            master: Mutex::default(),
        }))
    }

    /// All metrics in Prometheus's text format. With many queues it takes its time, so not for the
    /// thread that delivers.
    pub fn render(&self) -> String {
        let mut queues: Vec<_> = self.queues().values().cloned().collect();
        queues.extend(self.0.other.get().cloned());
        queues.sort_by(|a, b| a.label().cmp(b.label()));
        let mut text = self.0.handle.render();
        queue::write(&queues, &mut text);
        let master = self.0.master.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !master.is_empty() {
            text::head(&list::MASTER, &mut text);
            text::series(&list::MASTER, "", &[("address", &master)], 1, &mut text);
        }
        process::write(&mut text);
        text
    }

    /// Folds the samples of histograms together; to be called every few seconds, since without
    /// it and without scrapes they would gather for ever.
    pub fn upkeep(&self) {
        self.0.handle.run_upkeep();
    }

    /// The metrics of a queue; code that counts for it keeps them.
    pub fn queue(&self, name: &[u8]) -> Arc<QueueMetrics> {
        let mut queues = self.queues();
        if let Some(queue) = queues.get(name) {
            return queue.clone();
        }
        let label = queue::label_of(name);
        if queues.len() >= self.0.queues_max || label == OTHER {
            let other = || Arc::new(QueueMetrics::new(OTHER.to_owned()));
            return self.0.other.get_or_init(other).clone();
        }
        let queue = Arc::new(QueueMetrics::new(label));
        queues.insert(name.to_vec(), queue.clone());
        queue
    }

    /// The label of a queue and its numbers; a question, so it gives no series to a name.
    pub fn shown(&self, name: &[u8]) -> (String, QueueSnapshot) {
        let queues = self.queues();
        let label = queue::label_of(name);
        match queues.get(name) {
            Some(queue) => (label, queue.snapshot()),
            None if queues.len() >= self.0.queues_max || label == OTHER => {
                let other = self.0.other.get().map(|other| other.snapshot());
                (OTHER.to_owned(), other.unwrap_or_default())
            }
            None => (label, QueueSnapshot::default()),
        }
    }

    /// The queues that have series of their own.
    pub fn named_queues(&self) -> Vec<(Vec<u8>, Arc<QueueMetrics>)> {
        let queues = self.queues();
        queues.iter().map(|(name, queue)| (name.clone(), queue.clone())).collect()
    }

    /// The metrics that all other queues share, if there are any.
    pub fn other_queues(&self) -> Option<Arc<QueueMetrics>> {
        self.0.other.get().cloned()
    }

    /// A call stored this number of messages.
    pub fn batch(&self, messages: u64) {
        self.batch_messages.of([]).record(messages as f64);
    }

    /// A script was answered after this time.
    pub fn script(&self, name: &'static str, seconds: f64) {
        self.script_seconds.of([name]).record(seconds);
    }

    /// A link to Redis is connected, or not.
    pub fn link_up(&self, link: &'static str, up: bool) {
        self.link_up.of([link]).set(if up { 1.0 } else { 0.0 });
        // Shown from the start.
        self.reconnects.of([link]).increment(0);
    }

    /// A link to Redis was lost and is connected again.
    pub fn reconnected(&self, link: &'static str) {
        self.reconnects.of([link]).increment(1);
    }

    /// The Sentinels named this master.
    pub fn set_master(&self, address: &str) {
        let mut master = self.0.master.lock().unwrap_or_else(PoisonError::into_inner);
        address.clone_into(&mut master);
    }

    /// The audit has this finding, or not.
    pub fn audit_finding(&self, finding: &'static str, found: bool) {
        self.audit_finding.of([finding]).set(if found { 1.0 } else { 0.0 });
    }

    /// A connection was closed at once.
    pub fn refused(&self, reason: Refusal) {
        self.refused.of([reason.word()]).increment(1);
    }

    /// A queue was looked at because of this.
    pub fn wakeup(&self, cause: WakeCause) {
        self.wakeups.of([cause.word()]).increment(1);
    }

    /// The safety scan made a call.
    pub fn scanned(&self, outcome: ScanOutcome) {
        self.scans.of([outcome.word()]).increment(1);
    }

    /// The counters of a command, to be kept.
    pub fn command_counts(&self, name: &'static str) -> Arc<CommandMetrics> {
        let mut commands = self.0.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(CommandMetrics::new(self.0.recorded.clone(), name));
        commands.entry(name).or_insert_with(make).clone()
    }

    /// A command that is served is shown from the start, with 0, so that the first of each of these
    /// errors is an increase that Prometheus can see.
    pub fn served(&self, name: &'static str, codes: &[&str]) {
        let counts = self.command_counts(name);
        counts.count(Outcome::Ok, 0);
        codes.iter().for_each(|code| counts.count(Outcome::Error(code), 0));
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Arc<QueueMetrics>>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::list::{LATENESS, OFFERED, OVERDUE, PENDING, READY};
    use super::*;

    const COMMANDS: &str = "delay_broker_commands_total";
    const WAKEUPS: &str = "delay_broker_wakeups_total";

    fn assert_lines(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|seen| seen == *line), "{line} in\n{text}");
        }
    }

    #[test]
    fn names_follow_conventions_and_each_is_rendered() {
        let metrics = Metrics::new(10);
        let queue = metrics.queue(b"q");
        queue.read(Reading {
            pending: Some(1),
            ready: Some(2),
            overdue_ms: Some(3),
            paused: Some(0),
            quarantined: Some(4),
            due_minute: Some(0),
            due_hour: Some(1),
            leased: Some(5),
            waiting: Some(6),
            dead: Some(7),
            again_ms: Some(1_500),
        });
        // Two series for each group, up to a bound, and none of queues that share theirs.
        let group = |number: u64| GroupReading {
            name: format!("{number:02}").into(),
            pending: number,
            lag: (number != 3).then_some(1),
        };
        metrics.queue(b"stream").groups((0..20).map(group).collect());
        metrics.queue(OTHER.as_bytes()).groups(vec![group(1)]);
        metrics.script("offer", 0.001);
        metrics.link_up("offers", true);
        metrics.audit_finding("latency", true);
        metrics.set_master("h:1");
        metrics.command_counts("PING").count(Outcome::Ok, 1);
        metrics.batch(3);
        queue.lateness(0.001, 1);
        let text = metrics.render();
        let of_groups = |metric: &str| text.matches(&format!("\ndelay_broker_{metric}{{")).count();
        assert_eq!((of_groups("stream_group_pending"), of_groups("stream_group_lag")), (17, 16));
        let others = "stream_group_pending{queue=\"stream\",group=\"other\"} 70\n";
        assert!(text.contains(others), "{text}");
        let series = text.matches("{queue=\"q\"").count();
        let said = include_str!("../config/default.toml");
        assert!(said.contains(&format!("each costs {series} series")), "{series}");
        for (place, spec) in TABLE.iter().enumerate() {
            let Spec { name, kind, unit, help, .. } = spec;
            assert!(TABLE.iter().skip(place + 1).all(|other| other.name != *name), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), *unit == metrics::Unit::Seconds, "{name}");
            assert_eq!(base.ends_with("_bytes"), *unit == metrics::Unit::Bytes, "{name}");
            assert!(help.ends_with('.'), "{name}");
            let kind = format!("{kind:?}").to_lowercase();
            assert_lines(&text, &[&format!("# HELP {name} {help}")]);
            assert_lines(&text, &[&format!("# TYPE {name} {kind}")]);
            let series =
                [format!("\n{name} "), format!("\n{name}{{"), format!("\n{name}_bucket{{")];
            assert!(series.iter().any(|start| text.contains(start)), "{name} in\n{text}");
        }
    }

    #[test]
    fn snapshot_and_text_are_the_same_numbers() {
        let metrics = Metrics::new(10);
        let queue = metrics.queue(b"q");
        // Of nothing there is no lateness, not one of 0.
        assert_eq!(queue.snapshot(), QueueSnapshot::default());
        queue.offered(5);
        queue.delivered(4);
        queue.cancelled(3);
        queue.removed(2);
        queue.quarantined(1);
        queue.lateness(0.0009, 3);
        queue.lateness(-1.0, 1);
        let expected = QueueSnapshot {
            offered: 5,
            delivered: 4,
            cancelled: 3,
            removed: 2,
            quarantined: 1,
            lateness_p50_ms: Some(0.9),
            lateness_p99_ms: Some(0.9),
            lateness_max_ms: Some(0.9),
            ..QueueSnapshot::default()
        };
        assert_eq!(metrics.queue(b"q").snapshot(), expected);
        assert_lines(
            &metrics.render(),
            &[
                "delay_broker_messages_offered_total{queue=\"q\"} 5",
                "delay_broker_messages_delivered_total{queue=\"q\"} 4",
                "delay_broker_messages_cancelled_total{queue=\"q\"} 3",
                "delay_broker_messages_removed_total{queue=\"q\"} 2",
                "delay_broker_messages_quarantined_total{queue=\"q\"} 1",
                "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"0.0005\"} 1",
                "delay_broker_lateness_seconds_bucket{queue=\"q\",le=\"0.001\"} 4",
                "delay_broker_lateness_seconds_count{queue=\"q\"} 4",
            ],
        );
    }

    #[test]
    fn the_first_queues_have_series_and_the_rest_share() {
        let metrics = Metrics::new(2);
        let labels = ["a", "other", "b", "c", "d", "a"];
        let labels = labels.map(|name| metrics.queue(name.as_bytes()).label().to_owned());
        assert_eq!(labels, ["a", "other", "b", "other", "other", "a"]);
        metrics.queue(b"c").offered(1);
        metrics.queue(b"d").offered(1);
        assert_lines(
            &metrics.render(),
            &["delay_broker_messages_offered_total{queue=\"other\"} 2"],
        );
    }

    /// Each row: a queue name, its label, and the label as the text format quotes it.
    #[test]
    fn labels_of_any_name() {
        #[rustfmt::skip]
        let rows: [(&[u8], &str, &str); 6] = [
            (b"orders:{eu}", "orders:{eu}", "orders:{eu}"),
            ("größe".as_bytes(), "größe", "größe"),
            (b"a\"b", "a\"b", "a\\\"b"),
            (b"a\\b", "a\\x5cb", "a\\\\x5cb"),
            (b"a\nb\0", "a\\u{a}b\\u{0}", "a\\\\u{a}b\\\\u{0}"),
            (b"\xff\xfe", "\\xff\\xfe", "\\\\xff\\\\xfe"),
        ];
        let metrics = Metrics::new(100);
        for (name, label, quoted) in rows {
            let queue = metrics.queue(name);
            assert_eq!(queue.label(), label);
            queue.lateness(0.0, 1);
            let (offered, late) = (OFFERED.name, LATENESS.name);
            assert_lines(
                &metrics.render(),
                &[
                    &format!("{offered}{{queue=\"{quoted}\"}} 0"),
                    &format!("{late}_count{{queue=\"{quoted}\"}} 1"),
                ],
            );
        }
    }

    #[test]
    fn commands_by_outcome() {
        let metrics = Metrics::new(0);
        metrics.command_counts("DQ.OFFER").count(Outcome::Ok, 1);
        metrics.command_counts("DQ.OFFER").count(Outcome::Ok, 9);
        metrics.command_counts("DQ.OFFER").count(Outcome::Error("BADDELAY"), 1);
        metrics.command_counts("DQ.OFFER").count(Outcome::Error("NOVEL"), 1);
        metrics.wakeup(WakeCause::Timer);
        let (commands, wakeups) = (COMMANDS, WAKEUPS);
        assert_lines(
            &metrics.render(),
            &[
                &format!("{commands}{{command=\"DQ.OFFER\",outcome=\"ok\"}} 10"),
                &format!("{commands}{{command=\"DQ.OFFER\",outcome=\"BADDELAY\"}} 1"),
                &format!("{commands}{{command=\"DQ.OFFER\",outcome=\"other\"}} 1"),
                &format!("{wakeups}{{cause=\"timer\"}} 1"),
                &format!("{wakeups}{{cause=\"scan\"}} 0"),
            ],
        );
    }

    /// What cannot be read of Redis is absent, not as it was.
    #[test]
    fn readings_come_and_go() {
        let metrics = Metrics::new(10);
        let queue = metrics.queue(b"q");
        let series = |name: &str, number: &str| format!("{name}{{queue=\"q\"}} {number}");
        assert!(!metrics.render().contains(&series(PENDING.name, "")));
        queue.read(Reading { pending: Some(7), overdue_ms: Some(1_500), ..Reading::default() });
        let lines = [series(PENDING.name, "7"), series(OVERDUE.name, "1.5")];
        assert_lines(&metrics.render(), &lines.each_ref().map(String::as_str));
        assert!(!metrics.render().contains(&series(READY.name, "")));
        queue.read(Reading::default());
        assert!(!metrics.render().contains(&series(PENDING.name, "")));
    }

    /// A command that nobody sent has no series, but for those that are served.
    #[test]
    fn commands_are_shown_once_met() {
        let metrics = Metrics::new(0);
        metrics.command_counts("CLUSTER");
        metrics.served("DQ.SIZE", &["UNAVAILABLE"]);
        let series = |rest: &str| format!("{}{{command=\"{rest}", COMMANDS);
        let text = metrics.render();
        assert!(!text.contains(&series("CLUSTER")), "{text}");
        for outcome in ["ok", "UNAVAILABLE"] {
            let line = series(&format!("DQ.SIZE\",outcome=\"{outcome}\"}} 0"));
            assert_lines(&text, &[&line]);
        }
    }
}
