//! What rows found: as a table while they run, and as JSON for other programs at the end.
//!
//! Knows no row. Keeps: a figure is the median of its rounds, a ratio is that of two medians,
//! and the rounds themselves are in the JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use crate::{Outcome, Scale};

/// What a row found, and what broke a promise of the broker.
pub struct Row {
    pub measures: Vec<Measure>,
    pub faults: Vec<String>,
}

pub struct Finished {
    pub name: &'static str,
    pub what: &'static str,
    pub seconds: f64,
    pub result: Result<Row, String>,
}

/// One line of the table; the unit is part of the name.
pub struct Measure {
    name: String,
    broker: Vec<f64>,
    direct: Vec<f64>,
    target: &'static str,
}

impl Measure {
    /// A value for each round, through the broker and directly.
    pub fn both(
        name: impl Into<String>,
        broker: impl Iterator<Item = f64>,
        direct: impl Iterator<Item = f64>,
    ) -> Self {
        Measure {
            name: name.into(),
            broker: broker.collect(),
            direct: direct.collect(),
            target: "",
        }
    }

    pub fn broker(name: impl Into<String>, broker: impl Iterator<Item = f64>) -> Self {
        Measure::both(name, broker, std::iter::empty())
    }

    pub fn one(name: impl Into<String>, broker: f64) -> Self {
        Measure::broker(name, std::iter::once(broker))
    }

    /// What is aimed at; shown, never judged.
    pub fn target(self, target: &'static str) -> Self {
        Measure { target, ..self }
    }

    fn ratio(&self) -> Option<f64> {
        Some(median(&self.broker)? / median(&self.direct)?)
    }
}

/// The nearest rank; `values` in rising order.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let rank = (values.len() as f64 * part).ceil() as usize;
    let value = values.get(rank.saturating_sub(1));
    value.copied().unwrap_or(f64::NAN)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted.get(low)? + sorted.get(high)?) / 2.0)
}

pub struct Report {
    scale: Scale,
    rows: Vec<Finished>,
}

impl Report {
    pub fn start(scale: Scale) -> Self {
        if cfg!(debug_assertions) {
            println!("A debug build: it shows that the rows work, its figures mean nothing.\n");
        }
        if scale == Scale::Quick {
            println!("--quick: it shows that the rows work, its figures mean little.\n");
        }
        let header = ["", "broker", "direct", "ratio", "target"];
        println!("{}", line(header));
        let rows = Vec::new();
        Report { scale, rows }
    }

    pub fn heading(&self, name: &str, what: &str) {
        println!("\n{name}: {what}");
    }

    pub fn add(&mut self, row: Finished) {
        match &row.result {
            Ok(found) => {
                for measure in &found.measures {
                    let figure = |values| median(values).map(shown).unwrap_or_default();
                    let ratio = measure.ratio().map(|ratio| format!("{ratio:.2}"));
                    println!(
                        "{}",
                        line([
                            &measure.name,
                            &figure(&measure.broker),
                            &figure(&measure.direct),
                            &ratio.unwrap_or_default(),
                            measure.target,
                        ])
                    );
                }
                for fault in &found.faults {
                    println!("  FAULT: {fault}");
                }
            }
            Err(error) => println!("  NOT MEASURED: {error}"),
        }
        self.rows.push(row);
    }

    /// Writes the JSON; whether all rows were measured and no promise broken.
    pub fn end(self) -> Outcome<bool> {
        let path = target_dir()?.join("load.json");
        std::fs::write(&path, self.json())?;
        println!("\n{}", path.display());
        let good = |row: &Finished| matches!(&row.result, Ok(found) if found.faults.is_empty());
        Ok(self.rows.iter().all(good))
    }

    fn json(&self) -> String {
        let cpus = available_parallelism().map_or(0, usize::from);
        let mut rows = Vec::new();
        for row in &self.rows {
            let (measures, faults, error) = match &row.result {
                Ok(found) => (&found.measures[..], &found.faults[..], None),
                Err(error) => (&[][..], &[][..], Some(error)),
            };
            let measures = measures.iter().map(|measure| {
                let median_of = |values: &[f64]| number(median(values));
                format!(
                    "{{\"name\":{},\"broker\":{},\"direct\":{},\"ratio\":{},\"target\":{},\
                     \"broker_rounds\":{},\"direct_rounds\":{}}}",
                    text(measure.name.trim()),
                    median_of(&measure.broker),
                    median_of(&measure.direct),
                    number(measure.ratio()),
                    text(measure.target),
                    list(measure.broker.iter().map(|value| number(Some(*value)))),
                    list(measure.direct.iter().map(|value| number(Some(*value)))),
                )
            });
            rows.push(format!(
                "\n{{\"row\":{},\"what\":{},\"seconds\":{:.1},\"error\":{},\"faults\":{},\
                 \"measures\":{}}}",
                text(row.name),
                text(row.what),
                row.seconds,
                error.map_or("null".to_owned(), |error| text(error)),
                list(faults.iter().map(|fault| text(fault))),
                list(measures.map(|measure| format!("\n  {measure}"))),
            ));
        }
        format!(
            "{{\"quick\":{},\"debug_build\":{},\"cpus\":{cpus},\"rows\":{}}}\n",
            self.scale == Scale::Quick,
            cfg!(debug_assertions),
            list(rows.into_iter()),
        )
    }
}

/// Cargo names only a directory inside it.
fn target_dir() -> Outcome<PathBuf> {
    let inside = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Ok(inside.parent().ok_or("no target directory")?.to_path_buf())
}

fn line([name, broker, direct, ratio, target]: [&str; 5]) -> String {
    format!("  {name:<24} {broker:>10} {direct:>10} {ratio:>7}  {target}")
        .trim_end()
        .to_owned()
}

/// Three digits that count, or all before the point.
fn shown(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if value.fract() == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value}"),
        _ => "null".to_owned(),
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

fn text(value: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Nothing fails when a String is written to.
            c if c < ' ' => drop(write!(quoted, "\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
