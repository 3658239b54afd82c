//! Lines that repeat: the first of a kind are logged, the others summed up in one line now and
//! then.
//!
//! A kind is a place in the source, so every log line is bounded without code of its own. Knows no
//! cause of repetition, such as links that flap or names that others wrote. Lines below INFO are
//! let through: an operator who sets that level wants all of them.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of a kind that are logged even if they come at once, as at a restart of Redis with all
/// links, or at a reload that changes everything.
const AT_ONCE: u32 = 50;
/// Beyond these one line is logged in this time.
const THEN_EVERY: Duration = Duration::from_secs(1);
/// Lines that were left out are summed up once none has come for this time,
const QUIET: Duration = Duration::from_secs(1);
/// or at the latest after this time.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// The sum shows the last line up to this length.
const SHOWN_BYTES_MAX: usize = 256;

/// Decides for each line whether it is logged.
#[derive(Default)]
pub struct Sums(Mutex<HashMap<Identifier, Kind>>);

struct Kind {
    level: Level,
    /// When the lines that were let through would be used up at one line in [`THEN_EVERY`].
    used_up: Instant,
    /// Lines left out that no sum has counted yet, since when, the last one and its time.
    left_out: u64,
    since: Instant,
    last: String,
    last_at: Instant,
}

/// Lines of one kind that were left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Sum {
    pub level: Level,
    pub lines: u64,
    /// The last of them.
    pub last: String,
}

impl Sum {
    /// At the level of its lines.
    pub fn log(&self) {
        let Self { level, lines, last } = self;
        match *level {
            Level::ERROR => tracing::error!(lines, last, "more lines of this kind were left out"),
            Level::WARN => tracing::warn!(lines, last, "more lines of this kind were left out"),
            _ => tracing::info!(lines, last, "more lines of this kind were left out"),
        }
    }
}

impl Sums {
    /// The sums that are due, in the order of their last lines; `end`: all of them, at once.
    pub fn due(&self, now: Instant, end: bool) -> Vec<Sum> {
        let mut due = Vec::new();
        for kind in self.kinds().values_mut() {
            let quiet = now.saturating_duration_since(kind.last_at) >= QUIET;
            let long = now.saturating_duration_since(kind.since) >= SAY_EVERY;
            if kind.left_out > 0 && (quiet || long || end) {
                let sum = Sum {
                    level: kind.level,
                    lines: std::mem::take(&mut kind.left_out),
                    last: std::mem::take(&mut kind.last),
                };
                due.push((kind.last_at, sum));
            }
        }
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, sum)| sum).collect()
    }

    /// True if this line is logged now; else it is counted.
    fn admits(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == module_path!() {
            return true;
        }
        let mut kinds = self.kinds();
        let kind = kinds.entry(metadata.callsite()).or_insert_with(|| Kind {
            level: *metadata.level(),
            used_up: now,
            left_out: 0,
            since: now,
            last: String::new(),
            last_at: now,
        });
        let used_up = kind.used_up.max(now);
        if used_up.duration_since(now) <= THEN_EVERY * (AT_ONCE - 1) {
            kind.used_up = used_up + THEN_EVERY;
            return true;
        }
        if kind.left_out == 0 {
            kind.since = now;
        }
        kind.left_out += 1;
        kind.last_at = now;
        let mut text = Text::default();
        event.record(&mut text);
        kind.last = text.shown();
        false
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<Identifier, Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The layer in front of the writer.
pub struct Limit(pub &'static Sums);

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        self.0.admits(event, Instant::now())
    }
}

/// An event in one line, for people.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn shown(self) -> String {
        let mut line = self.message + &self.fields;
        if line.len() > SHOWN_BYTES_MAX {
            let end = (0..=SHOWN_BYTES_MAX).rev();
            let end = end.into_iter().find(|at| line.is_char_boundary(*at));
            line.truncate(end.unwrap_or(0));
            line.push_str("...");
        }
        line
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Neither can fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::prelude::*;

    /// Logs with `sums` in front; how many lines came through.
    fn logged(sums: &'static Sums, log: impl FnOnce()) -> usize {
        #[derive(Clone, Default)]
        struct Count(std::sync::Arc<std::sync::atomic::AtomicUsize>);
        impl<S: Subscriber> Layer<S> for Count {
            fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = Count::default();
        let subscriber = tracing_subscriber::registry().with(count.clone());
        tracing::subscriber::with_default(subscriber.with(Limit(sums)), log);
        count.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[test]
    fn a_kind_that_repeats_is_summed_up_and_others_are_not() {
        let sums: &'static Sums = Box::leak(Box::default());
        let begun = Instant::now();
        let lines = logged(sums, || {
            for n in 0..1_000 {
                tracing::warn!(link = "offers", n, "the link is {}", "down");
                tracing::debug!("all of these");
            }
            tracing::info!("another kind");
        });
        // One more for each second that this took.
        let more = begun.elapsed().as_secs() as usize + 1;
        let expected = AT_ONCE as usize + 1_000 + 1;
        assert!((expected..=expected + more).contains(&lines), "{lines}");
        assert_eq!(sums.due(begun, false), [], "more may follow");
        let [sum] = &sums.due(Instant::now() + QUIET, false)[..] else {
            panic!("one kind");
        };
        assert_eq!(sum.lines as usize, 1_000 + 1_000 + 1 - lines);
        assert_eq!(sum.last, "the link is down link=offers n=999");
        assert_eq!(sum.level, Level::WARN);
        assert_eq!(logged(sums, || sum.log()), 1);
        assert_eq!(sums.due(Instant::now() + SAY_EVERY, true), [], "said once");
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let long = Text { message: "é".repeat(SHOWN_BYTES_MAX), fields: " a=1".to_owned() };
        assert_eq!(long.shown(), "é".repeat(SHOWN_BYTES_MAX / 2) + "...");
    }
}
