//! Logs on stderr, as the settings say.
//!
//! Knows no event. The rest of the crate keeps to one line at each change of state and none per
//! message. Keeps: a thread that logs never waits for a reader of stderr ([`writer`]); lines that
//! repeat are summed up ([`sums`]). Names of others are shown by [`crate::domain::queue::Cut`].

use std::io::{self, IsTerminal, Write};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::config::{Log, LogFormat};
use sums::{Limit, Sums};
use writer::Writer;

mod sums;
mod writer;

/// Time to write the last lines when the process ends.
const LAST_WITHIN: Duration = Duration::from_secs(1);

/// One for the process, since the hook for panics and the exit need them too.
static WRITER: OnceLock<Writer> = OnceLock::new();
static SUMS: OnceLock<Sums> = OnceLock::new();

/// Changes what is logged while the process runs.
pub struct Level(reload::Handle<EnvFilter, Registry>);

impl Level {
    /// `level` is checked, as in the settings.
    pub fn set(&self, level: &str) {
        if self.0.reload(EnvFilter::new(level)).is_err() {
            tracing::error!(level, "the level of the log could not be changed");
        }
    }
}

/// Flushes when dropped, so that the log has the reason why the process ended.
#[must_use]
pub struct Started;

impl Drop for Started {
    fn drop(&mut self) {
        flush();
    }
}

/// For the whole process, once: text for people, JSON for machines.
///
/// # Errors
/// The kernel gives no thread.
pub fn start(log: &Log) -> io::Result<(Level, Started)> {
    let sums = SUMS.get_or_init(Sums::default);
    let idle = || {
        let due = sums.due(Instant::now(), false);
        due.iter().for_each(sums::Sum::log);
    };
    let lost = |lines| tracing::error!(lines, "lines of the log were lost: stderr was not read");
    let writer = Writer::start(io::stderr(), lost, idle)?;
    let writer = WRITER.get_or_init(|| writer);
    let terminal = io::stderr().is_terminal();
    let (filter, level) = reload::Layer::new(EnvFilter::new(&log.level));
    let lines = fmt::layer().with_writer(|| writer.clone());
    let json = match log.format {
        LogFormat::Auto => !terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let lines = if json {
        let lines = lines.json().flatten_event(true);
        lines.with_current_span(false).with_span_list(false).boxed()
    } else {
        lines.with_ansi(terminal).boxed()
    };
    tracing_subscriber::registry().with(filter).with(lines).with(Limit(sums)).init();
    // Rust's own hook writes to stderr, and waits for its reader.
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}\n{}", std::backtrace::Backtrace::capture());
    }));
    Ok((Level(level), Started))
}

/// Text on its way to stderr among the lines, as the progress on a terminal is. Does not wait.
pub fn show(text: &str) {
    if let Some(mut writer) = WRITER.get().cloned() {
        // It takes the text or loses it.
        let _ = writer.write(text.as_bytes());
    }
}

/// Waits until all lines are written, a second at most. To be called before the process ends.
pub fn flush() {
    if let (Some(writer), Some(sums)) = (WRITER.get(), SUMS.get()) {
        let due = sums.due(Instant::now(), true);
        due.iter().for_each(sums::Sum::log);
        writer.flush(LAST_WITHIN);
    }
}

/// Writes to an output with `write`, and waits for its reader a second at most.
pub fn say(write: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let said = thread::Builder::new().spawn(move || {
        write();
        // The receiver is gone after the second.
        let _ = done.send(());
    });
    if said.is_ok() {
        let _ = is_done.recv_timeout(LAST_WITHIN);
    }
}
