//! Logs on stderr, as the settings say.
//!
//! Knows no event. The rest of the crate keeps to one line at each change of state and none per
//! message, since lines are written at once, by whoever has something to say.

use std::io::{self, IsTerminal};

use crate::config::{Log, LogFormat};

/// For the whole process, once: text for people, JSON for machines.
pub fn start(log: &Log) {
    // fred tells of each connection; its warnings are enough, unless less than that is wanted.
    let quiet = ["off", "error"].contains(&log.level.as_str());
    let fred = if quiet { "" } else { "fred=warn," };
    let filter = tracing_subscriber::EnvFilter::new(format!("{fred}{}", log.level));
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(terminal).init(),
        LogFormat::Auto if terminal => lines.with_ansi(true).init(),
        LogFormat::Auto | LogFormat::Json => {
            lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .init();
        }
    }
}
