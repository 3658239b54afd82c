//! The load tool: what the broker costs and how late it is, measured from outside.
//!
//! `cargo bench --bench load -- [--quick] [row ...]` starts a Redis and a broker of its own for
//! each row, prints a table and writes `load.json` into the target directory. It knows neither
//! the broker's code nor its metrics: only its ports, Redis and the clock of this machine.
//! Keeps: a figure never fails a run, whatever it shows, but where `hostile` is far beyond its
//! bounds; a message that is early, lost or doubled does (exit code 1), and so does a row that
//! could not be measured.

#![allow(clippy::print_stdout, reason = "its table is what this program is for")]

use std::process::ExitCode;
use std::time::Instant;

#[path = "../support/mod.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "as the tests that it is written for"
)]
mod support;

mod crowd;
mod drain;
mod durability;
mod hostile;
mod idle;
mod lateness;
mod messages;
mod offers;
mod report;
mod resp;
mod servers;

use report::{Finished, Report, Row};

/// Errors end a row, never the run, and are only ever shown.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much of everything: the figures that count, or a smoke test of seconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    Quick,
}

impl Scale {
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }
}

type Measure = fn(Scale) -> Outcome<Row>;

#[rustfmt::skip]
const ROWS: [(&str, &str, Measure); 14] = [
    ("offers-random", "offers, one queue, random delays, -c 50 -P 16", offers::random),
    ("offers-fixed", "offers, one queue, one delay, -c 50 -P 16", offers::fixed),
    ("offers-queues", "offers, 1,000 queues, random delays, -c 50 -P 16", offers::queues),
    ("offers-p1", "offers, one queue, random delays, -c 50 -P 1", offers::unpipelined),
    ("offer-latency", "one client that waits for each reply, -c 1 -P 1", offers::latency),
    ("lateness", "100 due a second, one queue, taken by BLPOP", lateness::one_queue),
    ("lateness-queues", "1,000 due a second over 1,000 queues, BLPOP", lateness::many_queues),
    ("idle", "10,000 queues with one message each, due in an hour", idle::run),
    ("drain", "100,000 due in one millisecond", drain::at_once),
    ("drain-random", "100,000 due within a second, in random order", drain::within_a_second),
    ("hostile", "normal clients with hostile ones (left), and without", hostile::run),
    ("flushes", "offers by appendfsync, -c 50 -P 16, and -c 1 -P 1", offers::flushes),
    ("durability", "kill -9 of Redis under offers: acknowledged, and lost", durability::lost),
    ("kills", "broker and Redis killed again and again under load", durability::kills),
];

fn main() -> ExitCode {
    let mut scale = Scale::Full;
    let mut names = Vec::new();
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            // Cargo adds it to what was typed.
            "--bench" => {}
            "--quick" => scale = Scale::Quick,
            "--help" | "-h" => {
                println!("{}", usage());
                return ExitCode::SUCCESS;
            }
            name if ROWS.iter().any(|row| row.0 == name) => names.push(arg),
            _ => {
                eprintln!("{arg} is no row and no option.\n{}", usage());
                return ExitCode::from(2);
            }
        }
    }
    let chosen =
        |row: &&(&str, &str, Measure)| names.is_empty() || names.iter().any(|name| name == row.0);

    let mut report = Report::start(scale);
    for (name, what, measure) in ROWS.iter().filter(chosen) {
        report.heading(name, what);
        let started = Instant::now();
        let result = measure(scale);
        report.add(Finished {
            name,
            what,
            seconds: started.elapsed().as_secs_f64(),
            result: result.map_err(|error| error.to_string()),
        });
    }
    match report.end() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("load.json: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = "cargo bench --bench load -- [--quick] [row ...]\nRows:\n".to_owned();
    for (name, what, _) in ROWS {
        text += &format!("  {name:<16} {what}\n");
    }
    text += "--quick: seconds instead of minutes, and figures that only show that it works";
    text
}
