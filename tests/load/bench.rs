//! The load tool: what the broker costs and how late it is, measured from outside.
//!
//! `cargo bench --bench load -- [--quick] [row ...]` starts a Redis and a broker of its own for
//! each row, prints a table and writes `load.json` into the target directory, or `load-quick.json`,
//! which keeps the rows of earlier runs of the same kind until they are run again. Where a row has
//! another side, the two are measured in turns: Redisson's own script, called directly on Redis, or
//! Redisson itself in a JVM. It knows neither the broker's code nor its metrics: only its ports,
//! Redis and the clock of this machine.
//! Keeps: a figure never fails a run, whatever it shows, but where `hostile` is far beyond its
//! bounds; a message that is early, lost or doubled does (exit code 1), and so does a row that
//! could not be measured.

#![allow(clippy::print_stdout, reason = "its table is what this program is for")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[path = "../support/mod.rs"]
#[allow(clippy::unwrap_used, clippy::panic, reason = "as the tests that it is written for")]
mod support;

#[path = "../interop/redisson/jvm.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "as the tests that it is written for, which need more of it"
)]
mod jvm;

mod charts;
mod connections;
mod crowd;
mod drain;
mod durability;
mod figures;
mod flushes;
mod foreign;
mod forwarder;
mod heads;
mod hostile;
mod idle;
mod lateness;
mod memory;
mod messages;
mod meter;
mod million;
mod normal;
mod offers;
mod plots;
mod producer;
mod redisson;
mod report;
mod servers;
mod sides;
mod storm;
mod streams;
mod svg;
mod takes;

use figures::{Finished, Row, Run};

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

/// Name, what is measured, who is measured beside the broker, and how.
type Entry = (&'static str, &'static str, &'static str, fn(Scale) -> Outcome<Row>);

const NOBODY: &str = "";
const DIRECT: &str = "Redisson's script by EVALSHA";
const REDISSON: &str = "Redisson 4.7.0";

#[rustfmt::skip]
const ROWS: [Entry; 38] = [
    ("offers-random", "offers, one queue, random delays, -c 50 -P 16", DIRECT, offers::random),
    ("offers-fixed", "offers, one queue, one delay, -c 50 -P 16", DIRECT, offers::fixed),
    ("offers-queues", "offers, 1,000 queues, random delays, -c 50 -P 16", DIRECT, offers::queues),
    ("offers-p1", "offers, one queue, random delays, -c 50 -P 1", DIRECT, offers::unpipelined),
    ("offers-8", "offers, one queue, random delays, -c 8 -P 1", DIRECT, offers::eight),
    ("offer-latency", "one client that waits for each reply, -c 1 -P 1", DIRECT, offers::latency),
    ("moffer", "DQ.MOFFER of 100, -c 50 -P 4; one by one: -P 16", DIRECT, offers::moffer),
    ("moffer-fixed", "the same, one delay", DIRECT, offers::moffer_fixed),
    ("lateness", "100 due a second, one queue, BLPOP", REDISSON, lateness::one_queue),
    ("lateness-queues", "1,000 due a second, 1,000 queues, BLPOP", REDISSON, lateness::many_queues),
    ("lateness-busy", "20,000 offered and due a second, one queue", REDISSON, lateness::busy),
    ("lateness-busy-off", "the same, order list off", NOBODY, lateness::busy_off),
    ("idle", "10,000 queues with one message each, due in an hour", NOBODY, idle::some),
    ("queues-100k", "100,000 such queues, known to an earlier broker", NOBODY, idle::many),
    ("storm", "a quiet queue beside lost wake-ups, lies, a million due", NOBODY, storm::run),
    ("connections", "offers beside 10,000 idle connections", "without them", connections::run),
    ("memory", "bytes of Redis for a pending message of 100 bytes", DIRECT, memory::listed),
    ("memory-off", "the same, order list off", DIRECT, memory::off),
    ("drain", "100,000 due in one millisecond", REDISSON, drain::at_once),
    ("drain-random", "100,000 due within a second, random order", REDISSON, drain::random),
    ("drain-random-off", "the same, order list off", NOBODY, drain::random_off),
    ("foreign-random", "100,000 of Redisson's clients, random; 1,000,000", NOBODY, foreign::random),
    ("drain-million", "1,000,000 due in one millisecond", NOBODY, drain::million),
    ("steady-million", "500 due a second of 1,000,000, random delays", NOBODY, million::steady),
    ("steady-million-off", "the same, order list off", NOBODY, million::steady_off),
    ("cancel-million", "DQ.CANCEL by id, 1,000,000 pending", NOBODY, million::cancel),
    ("cancel-million-off", "the same, order list off", NOBODY, million::cancel_off),
    ("remove-million", "DQ.REMOVE by payload, 1,000,000 pending", NOBODY, million::remove),
    ("head-16m", "beside heads of 16 MiB, Redis's time", "heads of 10 bytes", heads::run),
    ("take-ack", "50 clients that take and ack 16 at a time; 1", NOBODY, takes::throughput),
    ("take-one", "one client that takes and acks one message", NOBODY, takes::one),
    ("pick-up", "100 due a second, one taker that waits", "BLPOP", takes::pick_up),
    ("takers-10k", "10,000 takers that wait", NOBODY, takes::crowd),
    ("stream", "16 due every 2 ms, read and acknowledged by 16", NOBODY, streams::run),
    ("hostile", "normal clients beside hostile ones", "without them", hostile::run),
    ("flushes", "offers and lateness by appendfsync", NOBODY, flushes::run),
    ("durability", "kill -9 of Redis under offers: what is lost", NOBODY, durability::lost),
    ("kills", "broker and Redis killed again and again under load", NOBODY, durability::kills),
];

/// What was asked for.
struct Options {
    scale: Scale,
    names: Vec<String>,
    last: bool,
    markdown: bool,
    plots: Option<PathBuf>,
    docs: bool,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", usage());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n{}", usage());
            return ExitCode::from(2);
        }
    };
    match work(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Nothing where help was asked for.
fn options() -> Outcome<Option<Options>> {
    let mut options = Options {
        scale: Scale::Full,
        names: Vec::new(),
        last: false,
        markdown: false,
        plots: None,
        docs: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo adds it to what was typed.
            "--bench" => {}
            "--quick" => options.scale = Scale::Quick,
            "--last" => options.last = true,
            "--markdown" => options.markdown = true,
            "--docs" => options.docs = true,
            "--plots" => {
                let dir = args.next().ok_or("--plots needs a directory")?;
                options.plots = Some(dir.into());
            }
            "--help" | "-h" => return Ok(None),
            name if ROWS.iter().any(|row| row.0 == name) => options.names.push(arg),
            _ => return Err(format!("{arg} is no row and no option.").into()),
        }
    }
    Ok(Some(options))
}

/// Whether all rows were measured and no promise broken.
fn work(options: &Options) -> Outcome<bool> {
    let (run, good) =
        if options.last { (Run::last(options.scale)?, true) } else { measure(options)? };
    if options.markdown {
        println!("{}", report::page(&run).trim_end());
    }
    if let Some(dir) = &options.plots {
        draw(&run, dir)?;
    }
    if options.docs {
        write_docs(&run)?;
    }
    Ok(good)
}

/// The plots, and beside them what they were drawn from.
fn draw(run: &Run, dir: &Path) -> Outcome<()> {
    std::fs::create_dir_all(dir)?;
    for (file, svg) in plots::draw(run) {
        std::fs::write(dir.join(file), svg)?;
    }
    run.write(&dir.join("run.json"))?;
    println!("{}", dir.display());
    Ok(())
}

/// The table in its place, and the plots: of one run.
fn write_docs(run: &Run) -> Outcome<()> {
    if !run.counts() {
        return Err("figures of --quick or of a debug build are not for the docs".into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("docs/performance.md");
    let docs = std::fs::read_to_string(&path)?;
    let (before, rest) =
        docs.split_once(BEGIN).ok_or("docs/performance.md has no place for them")?;
    let (_, after) = rest.split_once(END).ok_or("docs/performance.md has no end of their place")?;
    let page = report::page(run);
    std::fs::write(&path, format!("{before}{BEGIN}\n\n{page}\n{END}{after}"))?;
    println!("{}", path.display());
    draw(run, &root.join("docs/plots"))
}

/// Around what is written into docs/performance.md.
const BEGIN: &str = "<!-- figures of `make bench ARGS=--docs` -->";
const END: &str = "<!-- end of figures -->";

fn measure(options: &Options) -> Outcome<(Run, bool)> {
    let names = &options.names;
    let chosen = |row: &&Entry| names.is_empty() || names.iter().any(|name| name == row.0);
    let mut run = Run::start(options.scale);
    report::start(options.scale);
    let (mut good, mut path) = (true, PathBuf::new());
    for (name, what, other, measure) in ROWS.iter().filter(chosen) {
        report::heading(name, what, other);
        let started = Instant::now();
        // What is shared with the tests panics where a test would fail.
        let (found, error) = match catch_unwind(|| measure(options.scale)) {
            Ok(Ok(found)) => (found, None),
            Ok(Err(error)) => (Row::default(), Some(error.to_string())),
            Err(_) => (Row::default(), Some("it panicked; see above".to_owned())),
        };
        good &= error.is_none() && found.faults.is_empty();
        let row = Finished {
            row: (*name).to_owned(),
            what: (*what).to_owned(),
            other: (*other).to_owned(),
            at_ms: messages::now_us() / 1000,
            commit: figures::commit(),
            redis: figures::redis(),
            seconds: started.elapsed().as_secs_f64(),
            error,
            found,
        };
        report::row(&row);
        path = run.add(row, &ROWS.map(|row| row.0))?;
    }
    println!("\n{}", path.display());
    Ok((run, good))
}

fn usage() -> String {
    let mut text = "cargo bench --bench load -- [option ...] [row ...]\nRows:\n".to_owned();
    for (name, what, other, _) in ROWS {
        let beside = if other.is_empty() { "" } else { "; beside it: " };
        text += &format!("  {name:<18} {what}{beside}{other}\n");
    }
    text += "Options:\n  \
        --quick       seconds instead of minutes, and figures that only show that it works\n  \
        --last        runs nothing: shows the last run, with --quick the last quick one\n  \
        --markdown    prints what docs/performance.md says of it\n  \
        --plots DIR   draws the plots of that page into DIR, as SVG, with their figures\n  \
        --docs        writes table and plots of that page in place, with day, commit, versions";
    text
}
