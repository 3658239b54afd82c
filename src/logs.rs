//! Logs on stderr, as the settings say.
//!
//! Knows no event. The rest of the crate keeps to one line at each change of state and none per
//! message, since lines are written at once, by whoever has something to say.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Changes what is logged while the process runs.
pub struct Level(Box<dyn Fn(EnvFilter) -> bool>);

impl Level {
    /// `level` is checked, as in the settings.
    pub fn set(&self, level: &str) {
        if !(self.0)(filter(level)) {
            tracing::error!(level, "the level of the log could not be changed");
        }
    }
}

/// For the whole process, once: text for people, JSON for machines.
pub fn start(log: &Log) -> Level {
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(&log.level))
        .with_writer(io::stderr);
    let json = match log.format {
        LogFormat::Auto => !terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    if json {
        let lines = lines.json().flatten_event(true);
        let lines = lines.with_current_span(false).with_span_list(false);
        // The type of the handle is that of all before it.
        let lines = lines.with_filter_reloading();
        let handle = lines.reload_handle();
        lines.init();
        Level(Box::new(move |filter| handle.reload(filter).is_ok()))
    } else {
        let lines = lines.with_ansi(terminal).with_filter_reloading();
        let handle = lines.reload_handle();
        lines.init();
        Level(Box::new(move |filter| handle.reload(filter).is_ok()))
    }
}

fn filter(level: &str) -> EnvFilter {
    // fred tells of each connection; its warnings are enough, unless less than that is wanted.
    let quiet = ["off", "error"].contains(&level);
    let fred = if quiet { "" } else { "fred=warn," };
    EnvFilter::new(format!("{fred}{level}"))
}
