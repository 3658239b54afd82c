//! The audit of the backing Redis: when it is done, and what follows from its findings.
//!
//! It runs after each new connection, and now and then, since settings of a Redis can change while
//! it runs. A finding is told when it is new and when it is gone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::audit::rights::PROBES;
use crate::audit::{Finding, Severity, WORDS, findings};
use crate::broker::Broker;
use crate::config;
use crate::domain::text::one_line;
use crate::store::facts::Facts;

/// One audit takes a few round trips; beyond this it is given up and begun anew.
const AUDIT_WITHIN: Duration = Duration::from_secs(5);
const AUDIT_EVERY: Duration = Duration::from_secs(60);
/// After an audit that could not be done.
const AUDIT_AGAIN: Duration = Duration::from_secs(1);
/// Where there was no audit, or it may not ask.
const UNKNOWN: &str = "unknown";

/// The findings of the last audit.
pub struct Audited {
    mode: config::Audit,
    /// `None` before the first one.
    last: RefCell<Option<Vec<Finding>>>,
    /// Version and role of Redis.
    seen: RefCell<(String, String)>,
    done: Notify,
    serving: Cell<bool>,
}

impl Audited {
    pub(super) fn new(mode: config::Audit) -> Self {
        Self {
            mode,
            last: RefCell::default(),
            seen: RefCell::new((UNKNOWN.into(), UNKNOWN.into())),
            done: Notify::new(),
            serving: Cell::new(false),
        }
    }

    /// Waits for the first audit, at most so long.
    pub async fn first(&self, at_most: Duration) {
        let done = self.done.notified();
        if self.mode != config::Audit::Off && self.last.borrow().is_none() {
            let _ = tokio::time::timeout(at_most, done).await;
        }
    }

    /// From now on clients are served: what refuses is an error in the log.
    pub fn serves(&self) {
        self.serving.set(true);
    }

    /// Why this Redis must not be used, a line for each finding; `None` if it may be.
    pub fn refusal(&self) -> Option<String> {
        let last = self.last.borrow();
        let lines = last.iter().flatten().filter(|finding| self.refuses(finding));
        let lines: Vec<String> =
            lines.map(|finding| format!("{}: {}", finding.word, finding.text)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The words of the last audit's findings, with commas between.
    pub fn words(&self) -> String {
        let last = self.last.borrow();
        let words: Vec<&str> = last.iter().flatten().map(|finding| finding.word).collect();
        words.join(",")
    }

    /// The last audit's findings: word and sentence, which says what to do.
    pub fn sentences(&self) -> Vec<(&'static str, String)> {
        let last = self.last.borrow();
        last.iter().flatten().map(|finding| (finding.word, finding.text.clone())).collect()
    }

    /// Version and role of Redis, as the last audit found them.
    pub fn seen(&self) -> (String, String) {
        self.seen.borrow().clone()
    }

    fn saw(&self, facts: &Facts) {
        let field = |name: &str| facts.info.as_ref().ok()?.get(name).map(|text| one_line(text));
        let version = match field("valkey_version") {
            Some(valkey) => Some(format!("Valkey {valkey}")),
            None => field("redis_version").map(|redis| format!("Redis {redis}")),
        };
        let unknown = || UNKNOWN.to_owned();
        let role = field("role").unwrap_or_else(unknown);
        self.seen.replace((version.unwrap_or_else(unknown), role));
    }

    fn refuses(&self, finding: &Finding) -> bool {
        self.mode == config::Audit::Refuse && finding.severity == Severity::Refuse
    }

    fn found(&self, found: Vec<Finding>) {
        let before = self.last.take().unwrap_or_default();
        // Figures differ each time.
        let varies = |finding: &Finding| ["latency", "memory"].contains(&finding.word);
        let same = |a: &Finding, b: &Finding| a == b || (a.word == b.word && varies(a));
        for finding in &found {
            let Finding { word, text, .. } = finding;
            if before.iter().any(|other| same(other, finding)) {
                continue;
            }
            if !self.refuses(finding) {
                tracing::warn!(finding = word, "the audit of Redis: {text}");
            } else if self.serving.get() {
                tracing::error!(finding = word, "the audit of Redis: {text}");
            }
        }
        for finding in &before {
            if found.iter().all(|other| other.word != finding.word) {
                tracing::info!(finding = finding.word, "the audit of Redis no longer finds this");
            }
        }
        self.last.replace(Some(found));
        self.done.notify_waiters();
    }
}

/// Findings of a node say which one it is.
fn of_node(node: &str, mut found: Vec<Finding>) -> Vec<Finding> {
    if !node.is_empty() {
        found.iter_mut().for_each(|finding| finding.text = format!("{node}: {}", finding.text));
    }
    found
}

/// Audits for ever: run as a task of its own.
pub(super) async fn audit(broker: Rc<Broker>, user: Option<String>) {
    let show = |found: &[Finding]| {
        for word in WORDS {
            let is_found = found.iter().any(|finding| finding.word == word);
            broker.metrics.audit_finding(word, is_found);
        }
    };
    show(&[]);
    if broker.audited.mode == config::Audit::Off {
        return;
    }
    let probes: Vec<Bytes> = PROBES.iter().map(|probe| probe.words().into()).collect();
    loop {
        let connections = broker.store.connections();
        let facts = broker.store.facts(&probes);
        let pause = match tokio::time::timeout(AUDIT_WITHIN, facts).await {
            Ok(Ok(facts)) => {
                if let Some((_, facts)) = facts.first() {
                    broker.audited.saw(facts);
                }
                let found: Vec<Finding> = facts
                    .iter()
                    .flat_map(|(node, facts)| of_node(node, findings(facts, user.as_deref())))
                    .collect();
                show(&found);
                broker.audited.found(found);
                AUDIT_EVERY
            }
            Ok(Err(_)) | Err(_) => AUDIT_AGAIN,
        };
        tokio::select! {
            () = broker.store.facts_change(connections) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
