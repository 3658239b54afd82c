//! Commands by name and outcome.

use std::sync::{Arc, OnceLock};

use metrics::Counter;

use super::{OTHER, Recorded};

/// Codes of error replies; any other is counted as `other`.
const CODES: [&str; 18] = [
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
    "EXECABORT",
    "INTERNAL",
    OTHER,
];

/// How a command was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    Ok,
    /// The first word of the error.
    Error(&'a str),
}

/// The counters of one command.
pub struct CommandMetrics {
    name: &'static str,
    /// Made when first met, as the errors are: all of all commands would be hundreds of series.
    ok: OnceLock<Counter>,
    errors: [OnceLock<Counter>; CODES.len()],
    recorded: Arc<Recorded>,
}

impl CommandMetrics {
    pub(super) fn new(recorded: Arc<Recorded>, name: &'static str) -> Self {
        let errors = [const { OnceLock::new() }; CODES.len()];
        Self { name, ok: OnceLock::new(), errors, recorded }
    }

    /// This number of commands had this outcome.
    pub fn count(&self, outcome: Outcome<'_>, commands: u64) {
        let (made, code) = match outcome {
            Outcome::Ok => (&self.ok, "ok"),
            Outcome::Error(code) => {
                let mut errors = self.errors.iter().zip(CODES);
                let found = errors.find(|(_, known)| [code, OTHER].contains(known));
                let Some(found) = found else { return };
                found
            }
        };
        made.get_or_init(|| self.recorded.commands.of([self.name, code])).increment(commands);
    }
}
