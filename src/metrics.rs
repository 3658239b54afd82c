//! What the broker measures: one table of every metric, and the handles that count.
//!
//! Does not know who counts, nor how `/metrics` is served. Keeps: each broker has its own
//! recorder (several run in one test process); the number of label values is bounded, with
//! `other` for the rest; DQ.INFO and `/metrics` read the same numbers. Counting on the way of a
//! message is one atomic addition; labels are looked up before, once.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use metrics_exporter_prometheus::{PrometheusHandle, PrometheusRecorder};

mod lateness;
pub mod process;
mod queue;

pub use queue::{QueueMetrics, QueueSnapshot, Reading};

/// One metric as users see it.
#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

macro_rules! metrics_table {
    ($($id:ident: $kind:ident $unit:ident $name:literal [$($label:literal)*] $help:literal;)*) => {
        $(const $id: Spec = Spec {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        };)*
        /// Every metric that `/metrics` can show.
        pub const TABLE: &[Spec] = &[$($id),*];
    };
}

metrics_table! {
    OFFERED: Counter Count "delay_broker_messages_offered_total" ["queue"]
        "Messages stored by this broker.";
    DELIVERED: Counter Count "delay_broker_messages_delivered_total" ["queue"]
        "Due messages that this broker moved to their list.";
    CANCELLED: Counter Count "delay_broker_messages_cancelled_total" ["queue"]
        "Messages taken out by DQ.CANCEL.";
    REMOVED: Counter Count "delay_broker_messages_removed_total" ["queue"]
        "Messages taken out by payload, by polling or by clearing.";
    QUARANTINED: Counter Count "delay_broker_messages_quarantined_total" ["queue"]
        "Members that could not be read and were put aside at their delivery.";
    LATENESS: Histogram Seconds "delay_broker_lateness_seconds" ["queue"]
        "Redis's time at delivery minus the due time, of what this broker delivered.";
    PENDING: Gauge Count "delay_broker_queue_pending" ["queue"]
        "Messages that were offered and not delivered, read from Redis at the scrape.";
    READY: Gauge Count "delay_broker_queue_ready" ["queue"]
        "Delivered messages that no consumer has taken, read from Redis at the scrape.";
    OVERDUE: Gauge Seconds "delay_broker_queue_oldest_overdue_seconds" ["queue"]
        "How long the head of the queue has been due, 0 if it is not; of other the longest.";
    PAUSED: Gauge Count "delay_broker_queue_paused" ["queue"]
        "1 while the queue is paused, else 0; of other the number of them.";
    READINESS: Gauge Count "delay_broker_ready" []
        "1 while commands can be served, as /readyz says, else 0.";
    KNOWN_QUEUES: Gauge Count "delay_broker_known_queues" []
        "Queues that this broker looks after.";
    OFFERS_WAITING: Gauge Count "delay_broker_offers_waiting" []
        "Offers that wait for the next call to Redis.";
    BATCH_MESSAGES: Histogram Count "delay_broker_batch_messages" []
        "Messages stored by one call to Redis.";
    SCRIPT_SECONDS: Histogram Seconds "delay_broker_script_seconds" ["script"]
        "Time from sending a script to Redis until its reply.";
    LINK_UP: Gauge Count "delay_broker_redis_link_up" ["link"]
        "1 while this link to Redis is connected, else 0.";
    RECONNECTS: Counter Count "delay_broker_redis_reconnects_total" ["link"]
        "Times that this link to Redis was connected again.";
    AUDIT_FINDING: Gauge Count "delay_broker_audit_finding" ["finding"]
        "1 for each finding of the last audit of Redis, 0 for each other one.";
    CLIENTS: Gauge Count "delay_broker_clients" []
        "Connected clients.";
    CONNECTIONS: Counter Count "delay_broker_connections_total" []
        "Connections of clients that were accepted.";
    REFUSED: Counter Count "delay_broker_connections_refused_total" ["reason"]
        "Connections that were closed at once: too many in all, or from one address.";
    BUFFERS: Gauge Bytes "delay_broker_buffers_bytes" []
        "What the buffers of all connections hold.";
    BUFFERS_MAX: Gauge Bytes "delay_broker_buffers_max_bytes" []
        "What they may hold: limits.buffers_bytes_max.";
    COMMANDS: Counter Count "delay_broker_commands_total" ["command" "outcome"]
        "Commands answered, by name and ok or the code of the error.";
    WAKEUPS: Counter Count "delay_broker_wakeups_total" ["cause"]
        "Queues looked at, by what caused it.";
    BUILD: Gauge Count "delay_broker_build_info" ["version"]
        "Always 1; the version is its label.";
    PROCESS_CPU: Counter Seconds "process_cpu_seconds_total" []
        "Time of processors that this process has used.";
    PROCESS_MEMORY: Gauge Bytes "process_resident_memory_bytes" []
        "Memory of this process.";
    PROCESS_FDS: Gauge Count "process_open_fds" []
        "Open files and sockets.";
    PROCESS_FDS_MAX: Gauge Count "process_max_fds" []
        "Files and sockets that may be open.";
    PROCESS_START: Gauge Seconds "process_start_time_seconds" []
        "When this process started, Unix time.";
}
/// The share of queues that have no series of their own.
pub const OTHER: &str = "other";

/// In the order of [`Metrics::holds`].
const HELD: [&Spec; 6] = [
    &READINESS,
    &CLIENTS,
    &KNOWN_QUEUES,
    &OFFERS_WAITING,
    &BUFFERS,
    &BUFFERS_MAX,
];

/// Codes of error replies; any other is counted as `other`.
const CODES: [&str; 17] = [
    "ERR",
    "BADQUEUE",
    "BADDELAY",
    "BADTIME",
    "BADID",
    "TOOBIG",
    "TOOMANY",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "NOPROTO",
    "DENIED",
    "WRONGTYPE",
    "UNAVAILABLE",
    "UNCERTAIN",
    "INTERNAL",
    OTHER,
];

/// Seconds; a local Redis answers in 0.1 ms, a call is given up after some seconds.
const SCRIPT_BUCKETS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05, 0.1, 0.5, 1.0, 5.0,
];
/// Messages, up to the largest DQ.MOFFER by default.
const BATCH_BUCKETS: [f64; 11] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
];

/// What made the broker look at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeCause {
    Publish,
    Timer,
    Scan,
    Offer,
    Subscribe,
}

impl WakeCause {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Publish, "publish"),
        (Self::Timer, "timer"),
        (Self::Scan, "scan"),
        (Self::Offer, "offer"),
        (Self::Subscribe, "subscribe"),
    ];
}

/// Why a connection was closed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Clients,
    Address,
}

impl Refusal {
    const ALL: [(Self, &'static str); 2] = [
        (Self::Clients, "clients_max"),
        (Self::Address, "clients_per_address_max"),
    ];
}

/// What the broker holds at the moment of a scrape.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holds {
    pub ready: bool,
    pub clients: usize,
    /// Since the start.
    pub connections: u64,
    pub known_queues: usize,
    pub offers_waiting: usize,
    pub buffers_bytes: usize,
    pub buffers_max_bytes: usize,
}

/// How a command was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    Ok,
    /// The first word of the error.
    Error(&'a str),
}

/// All metrics of one broker; clones count into the same.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    queues_max: usize,
    queues: Mutex<HashMap<Vec<u8>, Arc<QueueMetrics>>>,
    other: OnceLock<Arc<QueueMetrics>>,
    commands: Handles<Arc<CommandMetrics>>,
    scripts: Handles<Histogram>,
    links: Handles<(Gauge, Counter)>,
    findings: Handles<Gauge>,
    wakeups: Vec<(WakeCause, Counter)>,
    refused: Vec<(Refusal, Counter)>,
    batch_messages: Histogram,
    holds: [Gauge; HELD.len()],
    connections: Counter,
}

impl Metrics {
    /// The first `queues_max` queues have series of their own.
    pub fn new(queues_max: usize) -> Self {
        const NOT_EMPTY: &str = "there are buckets";
        let full = |spec: &Spec| Matcher::Full(spec.name.to_owned());
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(full(&SCRIPT_SECONDS), &SCRIPT_BUCKETS)
            .expect(NOT_EMPTY)
            .set_buckets_for_metric(full(&BATCH_MESSAGES), &BATCH_BUCKETS)
            .expect(NOT_EMPTY);
        let recorder = Arc::new(builder.build_recorder());
        for Spec {
            name,
            kind,
            unit,
            help,
            ..
        } in TABLE
        {
            let (name, unit) = (KeyName::from(*name), Some(*unit));
            match kind {
                Kind::Counter => recorder.describe_counter(name, unit, (*help).into()),
                Kind::Gauge => recorder.describe_gauge(name, unit, (*help).into()),
                Kind::Histogram => recorder.describe_histogram(name, unit, (*help).into()),
            }
        }
        let cause =
            |(cause, label): (WakeCause, _)| (cause, counter(&recorder, &WAKEUPS, &[label]));
        let refusal =
            |(reason, label): (Refusal, _)| (reason, counter(&recorder, &REFUSED, &[label]));
        gauge(&recorder, &BUILD, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        Self(Arc::new(Inner {
            queues_max,
            queues: Mutex::default(),
            other: OnceLock::new(),
            commands: Handles::default(),
            scripts: Handles::default(),
            links: Handles::default(),
            findings: Handles::default(),
            wakeups: WakeCause::ALL.map(cause).into(),
            refused: Refusal::ALL.map(refusal).into(),
            batch_messages: histogram(&recorder, &BATCH_MESSAGES, &[]),
            holds: HELD.map(|spec| gauge(&recorder, spec, &[])),
            connections: counter(&recorder, &CONNECTIONS, &[]),
            handle: recorder.handle(),
            recorder,
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
        process::write(&mut text);
        text
    }

    /// Folds the samples of histograms together; to be called every few seconds, since without
    /// it and without scrapes they would gather for ever.
    pub fn upkeep(&self) {
        self.0.handle.run_upkeep();
    }

    /// The metrics of a queue, to be kept by whoever counts for it.
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

    /// The queues that have series of their own.
    pub fn named_queues(&self) -> Vec<(Vec<u8>, Arc<QueueMetrics>)> {
        let queues = self.queues();
        queues
            .iter()
            .map(|(name, queue)| (name.clone(), queue.clone()))
            .collect()
    }

    /// What all other queues share, if there are any.
    pub fn other_queues(&self) -> Option<Arc<QueueMetrics>> {
        self.0.other.get().cloned()
    }

    /// A call stored so many messages.
    pub fn batch(&self, messages: u64) {
        self.0.batch_messages.record(messages as f64);
    }

    /// A script was answered after so long.
    pub fn script(&self, name: &'static str, seconds: f64) {
        let recorder = &self.0.recorder;
        let script = self
            .0
            .scripts
            .named(name, || histogram(recorder, &SCRIPT_SECONDS, &[name]));
        script.record(seconds);
    }

    /// A link to Redis is connected, or not.
    pub fn link_up(&self, link: &'static str, up: bool) {
        self.link(link).0.set(if up { 1.0 } else { 0.0 });
    }

    /// A link to Redis was lost and is connected again.
    pub fn reconnected(&self, link: &'static str) {
        self.link(link).1.increment(1);
    }

    /// The audit has this finding, or not.
    pub fn audit_finding(&self, finding: &'static str, found: bool) {
        let make = || gauge(&self.0.recorder, &AUDIT_FINDING, &[finding]);
        let shown = self.0.findings.named(finding, make);
        shown.set(if found { 1.0 } else { 0.0 });
    }

    /// What the broker holds now.
    pub fn holds(&self, now: Holds) {
        let numbers = [
            usize::from(now.ready),
            now.clients,
            now.known_queues,
            now.offers_waiting,
            now.buffers_bytes,
            now.buffers_max_bytes,
        ];
        for (gauge, number) in self.0.holds.iter().zip(numbers) {
            gauge.set(number as f64);
        }
        self.0.connections.absolute(now.connections);
    }

    /// A connection was closed at once.
    pub fn refused(&self, reason: Refusal) {
        if let Some((_, counter)) = self.0.refused.iter().find(|(known, _)| *known == reason) {
            counter.increment(1);
        }
    }

    /// A command was answered. Whoever answers many keeps `command_counts` instead.
    pub fn command(&self, name: &'static str, outcome: Outcome<'_>) {
        self.command_counts(name).count(outcome, 1);
    }

    /// The counters of a command, to be kept.
    pub fn command_counts(&self, name: &'static str) -> Arc<CommandMetrics> {
        self.0.commands.named(name, || {
            Arc::new(CommandMetrics::new(self.0.recorder.clone(), name))
        })
    }

    /// A command that is served is shown from the start, with 0, so that the first of each of these
    /// errors is an increase that Prometheus can see.
    pub fn served(&self, name: &'static str, codes: &[&str]) {
        let counts = self.command_counts(name);
        counts.count(Outcome::Ok, 0);
        codes
            .iter()
            .for_each(|code| counts.count(Outcome::Error(code), 0));
    }

    /// A queue was looked at because of this.
    pub fn wakeup(&self, cause: WakeCause) {
        if let Some((_, counter)) = self.0.wakeups.iter().find(|(known, _)| *known == cause) {
            counter.increment(1);
        }
    }

    fn link(&self, link: &'static str) -> (Gauge, Counter) {
        let recorder = &self.0.recorder;
        let make = || {
            (
                gauge(recorder, &LINK_UP, &[link]),
                counter(recorder, &RECONNECTS, &[link]),
            )
        };
        self.0.links.named(link, make)
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Arc<QueueMetrics>>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handles by a name of the program, few enough to look through.
struct Handles<T>(RwLock<Vec<(&'static str, T)>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> Handles<T> {
    fn named(&self, name: &'static str, make: impl FnOnce() -> T) -> T {
        let found = |handles: &[(&'static str, T)]| {
            handles
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, handle)| handle.clone())
        };
        let known = found(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        known.unwrap_or_else(|| {
            let mut handles = self.0.write().unwrap_or_else(PoisonError::into_inner);
            found(&handles).unwrap_or_else(|| {
                let handle = make();
                handles.push((name, handle.clone()));
                handle
            })
        })
    }
}

/// The counters of one command.
pub struct CommandMetrics {
    name: &'static str,
    /// Made when first met, as the errors are: all of all commands would be hundreds of series.
    ok: OnceLock<Counter>,
    errors: [OnceLock<Counter>; CODES.len()],
    recorder: Arc<PrometheusRecorder>,
}

impl CommandMetrics {
    fn new(recorder: Arc<PrometheusRecorder>, name: &'static str) -> Self {
        Self {
            name,
            ok: OnceLock::new(),
            errors: [const { OnceLock::new() }; CODES.len()],
            recorder,
        }
    }

    /// So many were answered like this.
    pub fn count(&self, outcome: Outcome<'_>, commands: u64) {
        match outcome {
            Outcome::Ok => {
                let make = || counter(&self.recorder, &COMMANDS, &[self.name, "ok"]);
                self.ok.get_or_init(make).increment(commands);
            }
            Outcome::Error(code) => {
                let place = CODES.iter().position(|known| *known == code);
                let place = place.unwrap_or(CODES.len() - 1);
                if let (Some(made), Some(code)) = (self.errors.get(place), CODES.get(place)) {
                    let make = || counter(&self.recorder, &COMMANDS, &[self.name, code]);
                    made.get_or_init(make).increment(commands);
                }
            }
        }
    }
}

/// What goes before the series of a metric in Prometheus's text format.
fn head(spec: &Spec, out: &mut String) {
    let Spec {
        name, help, kind, ..
    } = spec;
    let kind = format!("{kind:?}").to_lowercase();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn key(spec: &Spec, values: &[&str]) -> Key {
    let labels = spec.labels.iter().zip(values);
    let labels: Vec<Label> = labels
        .map(|(label, value)| Label::new(*label, (*value).to_owned()))
        .collect();
    Key::from_parts(spec.name, labels)
}

/// Levels and targets are for recorders that filter; this one does not.
const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

fn counter(recorder: &PrometheusRecorder, spec: &Spec, values: &[&str]) -> Counter {
    recorder.register_counter(&key(spec, values), &METADATA)
}

fn gauge(recorder: &PrometheusRecorder, spec: &Spec, values: &[&str]) -> Gauge {
    recorder.register_gauge(&key(spec, values), &METADATA)
}

fn histogram(recorder: &PrometheusRecorder, spec: &Spec, values: &[&str]) -> Histogram {
    recorder.register_histogram(&key(spec, values), &METADATA)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        });
        metrics.script("offer", 0.001);
        metrics.link_up("offers", true);
        metrics.audit_finding("latency", true);
        metrics.command("PING", Outcome::Ok);
        metrics.batch(3);
        queue.lateness(0.001, 1);
        let text = metrics.render();
        for (place, spec) in TABLE.iter().enumerate() {
            let Spec {
                name,
                kind,
                unit,
                help,
                ..
            } = spec;
            assert!(
                TABLE
                    .iter()
                    .skip(place + 1)
                    .all(|other| other.name != *name),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
            assert_eq!(base.ends_with("_bytes"), *unit == Unit::Bytes, "{name}");
            assert!(help.ends_with('.'), "{name}");
            let kind = format!("{kind:?}").to_lowercase();
            assert_lines(&text, &[&format!("# HELP {name} {help}")]);
            assert_lines(&text, &[&format!("# TYPE {name} {kind}")]);
            let series = [
                format!("\n{name} "),
                format!("\n{name}{{"),
                format!("\n{name}_bucket{{"),
            ];
            assert!(
                series.iter().any(|start| text.contains(start)),
                "{name} in\n{text}"
            );
        }
    }

    #[test]
    fn snapshot_and_text_are_the_same_numbers() {
        let metrics = Metrics::new(10);
        let queue = metrics.queue(b"q");
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
            lateness_p50_ms: 0.9,
            lateness_p99_ms: 0.9,
            lateness_max_ms: 0.9,
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
        metrics.command("DQ.OFFER", Outcome::Ok);
        metrics.command_counts("DQ.OFFER").count(Outcome::Ok, 9);
        metrics.command("DQ.OFFER", Outcome::Error("BADDELAY"));
        metrics.command("DQ.OFFER", Outcome::Error("NOVEL"));
        metrics.wakeup(WakeCause::Timer);
        let (commands, wakeups) = (COMMANDS.name, WAKEUPS.name);
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
        queue.read(Reading {
            pending: Some(7),
            overdue_ms: Some(1_500),
            ..Reading::default()
        });
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
        let series = |rest: &str| format!("{}{{command=\"{rest}", COMMANDS.name);
        let text = metrics.render();
        assert!(!text.contains(&series("CLUSTER")), "{text}");
        for outcome in ["ok", "UNAVAILABLE"] {
            let line = series(&format!("DQ.SIZE\",outcome=\"{outcome}\"}} 0"));
            assert_lines(&text, &[&line]);
        }
    }
}
