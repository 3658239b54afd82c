//! Real Redisson, in the versions below, on the same keys as the broker: `make interop` runs it,
//! `cargo test --test redisson -- 4.7.0` a part (words that the names of scenarios contain).
//!
//! Each scenario has a redis-server, brokers and JVMs of its own, ends them, and answers with what
//! it measured. All of that goes into target/interop/redisson.json. Scenarios run one after
//! another, so that what they measure is their own; inside one much runs side by side.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../../support/mod.rs"]
mod support;

#[allow(dead_code)] // A part is of use here.
#[path = "../../flow/stage.rs"]
mod stage;

mod behaviours;
mod clocks;
mod codecs;
mod consumers;
mod handover;
#[allow(dead_code)] // The load tool has a part of its own.
mod jvm;
mod many;
mod mixed;
mod no_list;
mod scene;
mod side;
mod upgrade;

use std::fmt::Write;
use std::panic::catch_unwind;
use std::time::Instant;

/// Newest first. 3.21.0 is the last that writes legacy members, 3.21.1 the first of modern ones.
pub const VERSIONS: [&str; 8] =
    ["4.7.0", "3.52.0", "3.45.0", "3.38.1", "3.21.1", "3.21.0", "3.16.8", "3.10.7"];

/// What it does with one version of Redisson; answers what it measured.
type Scenario = fn(&'static str) -> String;

/// Run with every version.
const EACH: [(&str, Scenario); 7] = [
    ("behaviours", behaviours::all),
    ("delivered without a JVM", handover::delivered_without_a_jvm),
    ("delivered by Redisson", handover::delivered_by_redisson),
    ("delivered by whoever is first", handover::delivered_by_both),
    ("clock an hour ahead", clocks::ahead),
    ("clock an hour behind", clocks::behind),
    ("payloads for its codecs", codecs::read),
];

/// Run once, with the newest and with others that the scenario names.
const ONCE: [(&str, Scenario); 11] = [
    ("upgrade with messages pending", upgrade::shared),
    ("members that the newest cannot read", upgrade::poison),
    ("pending members converted", upgrade::converted),
    ("what retainAll leaves", upgrade::retained),
    ("a queue without order list", no_list::beside),
    ("1,000 queues of one client", many::queues),
    ("1,000 queues without a broker", many::alone),
    ("20,000 messages, 3 JVMs, 2 brokers", mixed::messages),
    ("20,000 messages, take beside DQ.TAKE", consumers::both),
    ("methods of Redisson while messages are leased", consumers::methods),
    ("a queue for takers alone", consumers::takers_alone),
];

struct Result {
    version: &'static str,
    name: &'static str,
    measured: Option<String>,
    seconds: f64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |version: &str, name: &str| {
        let full = format!("Redisson {version} {name}");
        words.iter().all(|word| full.contains(word.as_str()))
    };
    let each = VERSIONS.iter().flat_map(|version| EACH.map(|(name, run)| (*version, name, run)));
    let once = ONCE.map(|(name, run)| (VERSIONS[0], name, run));
    let mut results = Vec::new();
    for (version, name, run) in each.chain(once) {
        if wanted(version, name) {
            let start = Instant::now();
            let measured = catch_unwind(|| run(version)).ok();
            let seconds = start.elapsed().as_secs_f64();
            let (how, what) = match &measured {
                Some(measured) => ("ok", measured.as_str()),
                None => ("FAILED", ""),
            };
            println!("{how} Redisson {version}: {name} ({seconds:.1} s) {what}");
            results.push(Result { version, name, measured, seconds });
        }
    }
    write_down(&results);
    let failed = results.iter().filter(|r| r.measured.is_none()).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    std::process::exit(i32::from(failed > 0 || results.is_empty()));
}

fn write_down(results: &[Result]) {
    let mut rows = String::new();
    for result in results {
        let measured = result.measured.as_deref();
        let row = (result.version, result.name, measured, result.seconds);
        let (version, name, measured, seconds) = row;
        let comma = if rows.is_empty() { "" } else { ",\n" };
        write!(
            rows,
            "{comma}  {{\"redisson\": {version:?}, \"scenario\": {name:?}, \
             \"ok\": {}, \"measured\": {:?}, \"seconds\": {seconds:.1}}}",
            measured.is_some(),
            measured.unwrap_or_default(),
        )
        .unwrap();
    }
    std::fs::create_dir_all(jvm::made()).unwrap();
    std::fs::write(jvm::made().join("redisson.json"), format!("[\n{rows}\n]\n")).unwrap();
}
