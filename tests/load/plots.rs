//! The plots of docs/performance.md, from what `load.json` has: what is in which.
//!
//! Keeps: a figure that was not measured is left out; a plot without any is not drawn; a figure is
//! the one of the table.

use crate::charts::{Bars, Curves, Entry, Panel, Spacing};
use crate::figures::{Finished, Measure, Run};
use crate::report::shown;

/// A plot with bars: file, title, spacing, unit, the other side, and row, figure and label of each.
struct Plot {
    file: &'static str,
    title: &'static str,
    spacing: Spacing,
    unit: &'static str,
    other: &'static str,
    entries: &'static [(&'static str, &'static str, &'static str)],
}

const SCRIPT: &str = "Redisson's script, called directly on Redis";
const REDISSON: &str = "Redisson 4.7.0";

const BARS: [Plot; 5] = [
    Plot {
        file: "offers.svg",
        title: "Offers a second",
        spacing: Spacing::Linear,
        unit: "",
        other: SCRIPT,
        entries: &[
            ("offers-random", "offers/s", "random delays, -P 16"),
            ("offers-fixed", "offers/s", "one delay, -P 16"),
            ("offers-queues", "offers/s", "1,000 queues, -P 16"),
            ("offers-p1", "offers/s", "random delays, -P 1"),
            ("moffer", "offers/s", "DQ.MOFFER of 100, -P 4"),
            ("moffer-fixed", "offers/s", "the same, one delay"),
        ],
    },
    Plot {
        file: "drain.svg",
        title: "100,000 due messages: seconds until the last is in its list",
        spacing: Spacing::Log(0.01),
        unit: " s",
        other: REDISSON,
        entries: &[
            ("drain", AFTER, "due in one millisecond"),
            ("drain-random", AFTER, "due within a second"),
            ("drain-random-off", AFTER, "the same, order list off"),
        ],
    },
    Plot {
        file: "others.svg",
        title: "What others notice meanwhile: PING of Redis, p99 in ms",
        spacing: Spacing::Log(0.1),
        unit: " ms",
        other: REDISSON,
        entries: &[
            ("drain", "PING p99 ms", "due in one millisecond"),
            ("drain-random", "PING p99 ms", "due within a second"),
            ("drain-random-off", "PING p99 ms", "the same, order list off"),
        ],
    },
    Plot {
        file: "million.svg",
        title: "A million pending messages: p99 in ms",
        spacing: Spacing::Log(0.1),
        unit: " ms",
        other: "",
        entries: &[
            ("steady-million", "p99 ms", "lateness, 500 due a second"),
            ("steady-million-off", "p99 ms", "the same, order list off"),
            ("cancel-million", "p99 ms", "DQ.CANCEL by id"),
            ("cancel-million-off", "p99 ms", "the same, order list off"),
        ],
    },
    Plot {
        file: "memory.svg",
        title: "Redis memory for a pending message of 100 bytes",
        spacing: Spacing::Linear,
        unit: " B",
        other: SCRIPT,
        entries: &[
            ("memory", "bytes a message", "all of Redisson's layout"),
            ("memory-off", "bytes a message", "order list off"),
        ],
    },
];

const AFTER: &str = "s after the last is due";

const LATENESS: [(&str, &str); 2] = [
    ("lateness", "100 due a second, one queue"),
    ("lateness-queues", "1,000 due a second, 1,000 queues"),
];

/// Each plot with the name of its file.
pub fn draw(run: &Run) -> Vec<(&'static str, String)> {
    let mut drawn = Vec::new();
    for plot in &BARS {
        let entries: Vec<Entry> =
            plot.entries.iter().filter_map(|entry| self::entry(run, entry)).collect();
        if entries.is_empty() {
            continue;
        }
        let bars = Bars {
            title: plot.title,
            spacing: plot.spacing,
            unit: plot.unit,
            other: plot.other,
            entries,
        };
        drawn.push((plot.file, bars.svg()));
    }
    let panels: Vec<Panel> = LATENESS
        .iter()
        .filter_map(|(row, label)| {
            let found = run.rows.iter().find(|found| found.row == *row)?;
            let curve = found.found.curves.first()?;
            let figures = [side(found, |m| m.broker), side(found, |m| m.other)];
            Some(Panel { label, curve, figures })
        })
        .collect();
    if panels.is_empty() {
        return drawn;
    }
    let curves = Curves {
        title: "Lateness: part of the messages that came within so many ms",
        other: REDISSON,
        panels,
    };
    drawn.push(("lateness.svg", curves.svg()));
    drawn
}

/// `p50 0.5, p99 1.1, max 5 ms`, as the table has them: medians of rounds. (The curve is of all
/// rounds together.)
fn side(row: &Finished, of: impl Fn(&Measure) -> Option<f64>) -> String {
    let figure = |measure: &Measure| {
        let name = measure.name.trim().strip_suffix(" ms")?;
        Some(format!("{name} {}", shown(of(measure)?)))
    };
    let figures: Vec<String> = row.found.measures.iter().filter_map(figure).collect();
    format!("{} ms", figures.join(", "))
}

fn entry(run: &Run, (row, measure, label): &(&str, &str, &'static str)) -> Option<Entry> {
    let found = run.measure(row, measure)?;
    Some(Entry { label, broker: found.broker?, other: found.other, aim: aim(found) })
}

/// What a target's text means: `<= 0.25`, `>= 300,000`, or `>= 1.9 x` of the other side.
fn aim(measure: &Measure) -> Option<f64> {
    let text = measure.target.trim_start_matches(['<', '>', '=', ' ']);
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    match text.strip_suffix(" x") {
        Some(times) => Some(number(times)? * measure.other?),
        None => number(text),
    }
}
