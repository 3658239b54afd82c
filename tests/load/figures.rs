//! What rows found, and the file that keeps it: `load.json` in the target directory, of quick runs
//! `load-quick.json`, so that these cost no figures.
//!
//! Knows no row. Keeps: a figure is the median of its rounds, a ratio is that of two medians,
//! and the rounds themselves are in the file.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

use crate::{Outcome, Scale};

/// What a row found, and what broke a promise of the broker.
#[derive(Default, Serialize, Deserialize)]
pub struct Row {
    pub measures: Vec<Measure>,
    pub curves: Vec<Curve>,
    pub faults: Vec<String>,
    /// Why something is missing that fails nothing.
    pub notes: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub struct Finished {
    pub row: String,
    pub what: String,
    /// Who was measured beside the broker; empty where nobody was.
    pub other: String,
    /// When it ended, Unix ms; 0 where that was not kept.
    pub at_ms: u64,
    /// Of the source, with a `+` where it was changed since.
    #[serde(default)]
    pub commit: String,
    /// Version of the Redis behind.
    #[serde(default)]
    pub redis: String,
    pub seconds: f64,
    /// Why it could not be measured.
    pub error: Option<String>,
    #[serde(flatten)]
    pub found: Row,
}

/// One line of the table; the unit is part of the name.
#[derive(Serialize, Deserialize)]
pub struct Measure {
    pub name: String,
    pub broker: Option<f64>,
    pub other: Option<f64>,
    pub ratio: Option<f64>,
    /// What is aimed at; shown, never judged.
    pub target: String,
    broker_rounds: Vec<Option<f64>>,
    other_rounds: Vec<Option<f64>>,
}

impl Measure {
    /// A value for each round, of the broker and of the other side.
    pub fn both(
        name: impl Into<String>,
        broker: impl Iterator<Item = f64>,
        other: impl Iterator<Item = f64>,
    ) -> Self {
        let (broker, other): (Vec<f64>, Vec<f64>) = (broker.collect(), other.collect());
        let (ours, theirs) = (median(&broker), median(&other));
        let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
        Measure {
            name: name.into(),
            broker: ours,
            other: theirs,
            ratio: ratio.filter(|ratio| ratio.is_finite()),
            target: String::new(),
            broker_rounds: broker.into_iter().map(finite).collect(),
            other_rounds: other.into_iter().map(finite).collect(),
        }
    }

    pub fn broker(name: impl Into<String>, broker: impl Iterator<Item = f64>) -> Self {
        Measure::both(name, broker, std::iter::empty())
    }

    pub fn one(name: impl Into<String>, broker: f64) -> Self {
        Measure::broker(name, std::iter::once(broker))
    }

    pub fn target(self, target: &str) -> Self {
        let target = target.to_owned();
        Measure { target, ..self }
    }
}

/// How values of many messages are spread: what part of them is at most so much.
#[derive(Serialize, Deserialize)]
pub struct Curve {
    /// Part of all, from 0 to 1.
    pub parts: Vec<f64>,
    pub broker: Vec<Option<f64>>,
    pub other: Vec<Option<f64>>,
}

impl Curve {
    /// Of all values of each side, in any order.
    pub fn of(mut broker: Vec<f64>, mut other: Vec<f64>) -> Self {
        let parts: Vec<f64> = (1..100)
            .map(|part| f64::from(part) / 100.0)
            .chain([0.995, 0.998, 0.999, 1.0])
            .collect();
        let spread = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let at = |part: &f64| finite(percentile(values, *part));
            parts.iter().map(at).collect()
        };
        let (broker, other) = (spread(&mut broker), spread(&mut other));
        Curve { parts, broker, other }
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
    finite((sorted.get(low)? + sorted.get(high)?) / 2.0)
}

/// JSON has no other numbers.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// Rows of one kind of run on one machine.
#[derive(Serialize, Deserialize)]
pub struct Run {
    quick: bool,
    debug_build: bool,
    cpus: usize,
    /// Processor and kernel.
    #[serde(default)]
    pub machine: String,
    pub rows: Vec<Finished>,
}

impl Run {
    /// With the rows that the last run of the same kind has left.
    pub fn start(scale: Scale) -> Self {
        let run = Run {
            quick: scale == Scale::Quick,
            debug_build: cfg!(debug_assertions),
            cpus: available_parallelism().map_or(0, usize::from),
            machine: machine(),
            rows: Vec::new(),
        };
        let kind = |run: &Run| (run.quick, run.debug_build, run.cpus, run.machine.clone());
        // A file of another form, or none, is no loss.
        let last = Run::last(scale).ok().filter(|last| kind(last) == kind(&run));
        last.unwrap_or(run)
    }

    pub fn last(scale: Scale) -> Outcome<Self> {
        Run::read(&path(scale == Scale::Quick)?)
    }

    pub fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}; run some rows first", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    pub fn write(&self, path: &Path) -> Outcome<()> {
        Ok(std::fs::write(path, serde_json::to_string_pretty(&self)? + "\n")?)
    }

    /// Whether its figures mean something.
    pub fn counts(&self) -> bool {
        !self.quick && !self.debug_build
    }

    /// Takes a row in place of an earlier one, and writes the file, with rows in this order: so
    /// that a run that is ended early leaves what it found.
    pub fn add(&mut self, row: Finished, order: &[&str]) -> Outcome<PathBuf> {
        let place = |row: &Finished| order.iter().position(|name| *name == row.row);
        self.rows.retain(|earlier| earlier.row != row.row && place(earlier).is_some());
        self.rows.push(row);
        self.rows.sort_by_key(place);
        let path = path(self.quick)?;
        self.write(&path)?;
        Ok(path)
    }

    /// The figure of a row, by their names.
    pub fn measure(&self, row: &str, measure: &str) -> Option<&Measure> {
        let row = self.rows.iter().find(|found| found.row == row)?;
        let mut measures = row.found.measures.iter();
        measures.find(|found| found.name == measure)
    }
}

/// The first line that a program prints, or of a file.
fn line_of(text: Option<Vec<u8>>) -> String {
    let text = text.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn printed(program: &str, args: &[&str]) -> Option<Vec<u8>> {
    let output = std::process::Command::new(program).args(args).output();
    output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
}

/// What measures and what is measured: processor, cores and kernel.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or("an unknown processor").trim_start_matches(['\t', ':', ' ']);
    let cores = available_parallelism().map_or(0, usize::from);
    let kernel = line_of(std::fs::read("/proc/sys/kernel/osrelease").ok());
    format!("{cores} cores of {model}, Linux {kernel}")
}

/// Of the source as it is.
pub fn commit() -> String {
    let commit = line_of(printed("git", &["rev-parse", "--short", "HEAD"]));
    let changed = printed("git", &["status", "--porcelain", "-uno"]);
    let changed = changed.is_some_and(|changed| !changed.is_empty());
    if changed { commit + "+" } else { commit }
}

/// Of the redis-server in PATH, or the valkey-server.
pub fn redis() -> String {
    let servers = ["redis-server", "valkey-server"].into_iter();
    let said = servers.filter_map(|server| printed(server, &["--version"])).next();
    let said = line_of(said);
    let version = said.split(' ').find_map(|word| word.strip_prefix("v="));
    version.unwrap_or_default().to_owned()
}

/// Cargo names only a directory inside the target directory.
fn path(quick: bool) -> Outcome<PathBuf> {
    let inside = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = if quick { "load-quick.json" } else { "load.json" };
    Ok(inside.parent().ok_or("no target directory")?.join(file))
}
