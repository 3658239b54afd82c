//! What rows found, for people: a table while they run, and one in Markdown for the docs.
//!
//! Knows no row. Keeps: what was not measured is empty, never 0.

use crate::Scale;
use crate::figures::{Finished, Measure, Run};

/// Rows whose figures docs/performance.md tells in other ways.
const APART: [&str; 1] = ["hostile"];

pub fn start(scale: Scale) {
    if cfg!(debug_assertions) {
        println!("A debug build: it shows that the rows work, its figures mean nothing.\n");
    }
    if scale == Scale::Quick {
        println!("--quick: it shows that the rows work, its figures mean little.\n");
    }
    println!("{}", line(["", "broker", "other", "ratio", "target"]));
}

pub fn heading(name: &str, what: &str, other: &str) {
    println!("\n{name}: {}", described(what, other));
}

/// With the name of the other side, where there is one.
pub fn described(what: &str, other: &str) -> String {
    let between = if other.is_empty() { "" } else { "; other: " };
    format!("{what}{between}{other}")
}

pub fn row(row: &Finished) {
    if let Some(error) = &row.error {
        println!("  NOT MEASURED: {error}");
    }
    for measure in &row.found.measures {
        let [broker, other] = [measure.broker, measure.other].map(|value| figure(value, shown));
        let ratio = figure(measure.ratio, ratio);
        println!("{}", line([&measure.name, &broker, &other, &ratio, &measure.target]));
    }
    for note in &row.found.notes {
        println!("  {note}");
    }
    for fault in &row.found.faults {
        println!("  FAULT: {fault}");
    }
}

/// The text of docs/performance.md between two comments: when and where it was measured, and the
/// table.
pub fn page(run: &Run) -> String {
    format!("{}\n\n{}", circumstances(run), table(run))
}

/// Day, commit and versions of most rows, and of the others by name.
fn circumstances(run: &Run) -> String {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for row in run.rows.iter().filter(|row| is_shown(row)) {
        let day = match row.at_ms {
            0 => "on a day that was not kept".to_owned(),
            ms => format!("on {}", day(ms)),
        };
        let commit = match row.commit.as_str() {
            "" => String::new(),
            commit => format!(" at commit {commit}"),
        };
        let redis = match row.redis.as_str() {
            "" => String::new(),
            redis => format!(" with Redis {redis}"),
        };
        let kind = format!("{day}{commit}{redis}");
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, rows)) => rows.push(&row.row),
            None => kinds.push((kind, vec![&row.row])),
        }
    }
    // The first of equals.
    kinds.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let machine = match run.machine.as_str() {
        "" => "a machine that was not kept",
        machine => machine,
    };
    let mut text = format!("Measured on {machine}");
    for (place, (kind, rows)) in kinds.iter().enumerate() {
        if place == 0 {
            text += &format!(", {kind}");
        } else {
            let rows: Vec<String> = rows.iter().map(|row| format!("`{row}`")).collect();
            text += &format!("; {} {kind}", rows.join(", "));
        }
    }
    text + "."
}

/// Of the calendar, from Unix ms.
fn day(ms: u64) -> String {
    let moment = time::OffsetDateTime::from_unix_timestamp((ms / 1000) as i64);
    moment.map_or_else(|_| String::new(), |moment| moment.date().to_string())
}

fn aimed(measure: &&Measure) -> bool {
    !measure.target.is_empty() && measure.broker.is_some()
}

fn is_shown(row: &Finished) -> bool {
    row.found.measures.iter().any(|measure| aimed(&measure)) && !APART.contains(&row.row.as_str())
}

/// What was aimed at: a line for each row, in each cell a line for each figure.
pub fn table(run: &Run) -> String {
    let mut table = "| Row | What | Figure | Broker | Other | Ratio | Aim |\n".to_owned();
    table += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for row in run.rows.iter().filter(|row| is_shown(row)) {
        let measures: Vec<&Measure> = row.found.measures.iter().filter(aimed).collect();
        let cell = |text: &dyn Fn(&Measure) -> String| {
            let lines: Vec<String> = measures.iter().map(|measure| text(measure)).collect();
            lines.join("<br>").trim_end_matches("<br>").to_owned()
        };
        table += &format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            row.row,
            described(&row.what, &row.other),
            cell(&|measure| measure.name.trim().to_owned()),
            cell(&|measure| figure(measure.broker, grouped)),
            cell(&|measure| figure(measure.other, grouped)),
            cell(&|measure| figure(measure.ratio, ratio)),
            cell(&|measure| measure.target.clone()),
        );
    }
    table
}

fn figure(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map(text).unwrap_or_default()
}

fn line([name, broker, other, ratio, target]: [&str; 5]) -> String {
    format!("  {name:<28} {broker:>10} {other:>10} {ratio:>7}  {target}").trim_end().to_owned()
}

pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// Three digits that count, or all before the point.
pub fn shown(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if value.fract() == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The same, with commas between thousands.
pub fn grouped(value: f64) -> String {
    let text = shown(value);
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if !part.is_empty() || whole.len() < 4 {
        return text;
    }
    // Large figures are no more exact than this.
    let rounded = match whole.len() {
        5.. => (value / 100.0).round() * 100.0,
        _ => value,
    };
    let mut grouped = String::new();
    let digits = format!("{rounded:.0}");
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
