//! The counters of commands, by command and outcome.

use std::sync::Arc;

use crate::metrics::{CommandMetrics, Metrics, Outcome};
use crate::resp::Reply;

use super::{CommandIndex, Group, Kind, TABLE};

/// The name under which commands that do not exist are counted.
const UNKNOWN: &str = "unknown";
/// The error codes of calls to Redis, which alerts are about.
const TROUBLES: [&str; 3] = ["UNAVAILABLE", "UNCERTAIN", "INTERNAL"];

/// Counters by a command's index in the table, so that counting looks nothing up.
pub struct Counts {
    known: Vec<Arc<CommandMetrics>>,
    unknown: Arc<CommandMetrics>,
}

impl Counts {
    pub fn new(metrics: &Metrics) -> Self {
        for spec in TABLE.iter().filter(|spec| spec.group != Group::Refused) {
            let calls = spec.kind != Kind::Local;
            metrics.served(spec.name, if calls { &TROUBLES } else { &[] });
        }
        Self {
            known: TABLE.iter().map(|spec| metrics.command_counts(spec.name)).collect(),
            unknown: metrics.command_counts(UNKNOWN),
        }
    }

    /// A command was answered with this.
    pub fn count(&self, index: CommandIndex, reply: &Reply) {
        self.add(index, code(reply));
    }

    /// An offer was answered, with an error of this code or well.
    pub fn offered(&self, index: CommandIndex, code: Option<String>) {
        self.add(index, code.as_deref());
    }

    fn add(&self, index: CommandIndex, code: Option<&str>) {
        let known = index.and_then(|index| self.known.get(index));
        known.unwrap_or(&self.unknown).count(code.map_or(Outcome::Ok, Outcome::Error), 1);
    }
}

/// The first word of an error.
pub(super) fn code(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Error(text) => text.split(' ').next(),
        _ => None,
    }
}
