//! The figures of docs/performance.md: table and plots are those of one run, kept in `run.json`
//! beside the plots. Brings in the parts of the load tool that write them.

#![allow(dead_code, clippy::print_stdout, reason = "the load tool uses the rest")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

#[path = "load/charts.rs"]
mod charts;
#[path = "load/figures.rs"]
mod figures;
#[path = "load/plots.rs"]
mod plots;
#[path = "load/report.rs"]
mod report;
#[path = "load/svg.rs"]
mod svg;

/// As in the load tool.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    Quick,
}

#[test]
fn table_and_plots_are_of_one_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plots = root.join("docs/plots");
    let run = figures::Run::read(&plots.join("run.json")).unwrap();
    assert!(run.counts(), "figures of a smoke test");
    let docs = std::fs::read_to_string(root.join("docs/performance.md")).unwrap();
    let begin = "<!-- figures of `make bench ARGS=--docs` -->\n\n";
    let (_, rest) = docs.split_once(begin).unwrap();
    let (page, _) = rest.split_once("\n<!-- end of figures -->").unwrap();
    assert!(
        page == report::page(&run),
        "docs/performance.md has other figures:\n{}",
        report::page(&run)
    );
    for (file, svg) in plots::draw(&run) {
        let drawn = std::fs::read_to_string(plots.join(file)).unwrap();
        assert!(drawn == svg, "{file} has other figures than the table");
        assert!(docs.contains(&format!("plots/{file}")), "{file} is not shown");
    }
}

/// Rows of several runs are seen to be that.
#[test]
fn what_is_mixed_is_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut run = figures::Run::read(&root.join("docs/plots/run.json")).unwrap();
    run.machine = "2 cores of X, Linux 6".to_owned();
    for row in &mut run.rows {
        row.at_ms = 1_795_261_231_508;
        row.commit = "abc1234".to_owned();
        row.redis = "7.0.15".to_owned();
    }
    let said = |run: &figures::Run| report::page(run).lines().next().unwrap().to_owned();
    let whole = "Measured on 2 cores of X, Linux 6, on 2026-11-21 at commit abc1234 with Redis \
                 7.0.15";
    assert_eq!(said(&run), format!("{whole}."));
    let row = run.rows.iter_mut().find(|row| row.row == "drain").unwrap();
    row.commit = "def5678+".to_owned();
    let mixed = "; `drain` on 2026-11-21 at commit def5678+ with Redis 7.0.15.";
    assert_eq!(said(&run), format!("{whole}{mixed}"));
}
