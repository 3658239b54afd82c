//! House rules that no compiler checks: each file says what it is for, lines fit, layers hold.
//!
//! A rule is a line in `broken_rules`; a file that breaks one is named with its line. What the
//! compiler or clippy can check is in `Cargo.toml` instead.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;

/// Files that import nothing else of the crate, so that they can be read and tested alone.
const LEAVES: [&str; 7] = [
    "src/queue.rs",
    "src/encoding.rs",
    "src/encoding/",
    "src/metrics.rs",
    "src/metrics/",
    "src/resp/",
    "src/scheduler/wheel.rs",
];

/// Files without clock, runtime and socket: (state, event, now) in, next out.
const PURE: [&str; 5] = [
    "src/encoding.rs",
    "src/encoding/",
    "src/scheduler/wheel.rs",
    "src/scheduler/queue_loop.rs",
    "src/queue.rs",
];

/// The only files that know the Redis client of the crate.
const REDIS_CLIENT: &str = "src/store/redis";

fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path())
    {
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if endings.contains(&ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn broken_rules(name: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let opening = if name.ends_with(".lua") { "--" } else { "//!" };
    if !text.starts_with(opening) {
        broken.push(format!(
            "{name}:1: begins with {opening} and what the file is for"
        ));
    }
    let within = |places: &[&str]| {
        let fits =
            |place: &&str| name == *place || (place.ends_with('/') && name.starts_with(*place));
        places.iter().any(fits)
    };
    for (number, line) in text.lines().enumerate() {
        let mut refuse = |rule: &str| broken.push(format!("{name}:{}: {rule}", number + 1));
        if line.chars().count() > COLUMNS_MAX {
            refuse("is longer than 100 columns");
        }
        // Written apart, so that this file keeps its own rules.
        if [concat!("TO", "DO"), concat!("FIX", "ME")]
            .iter()
            .any(|word| line.contains(word))
        {
            refuse("is an issue or nothing");
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        if line.contains("fred::") && !name.starts_with(REDIS_CLIENT) && !name.starts_with("tests/")
        {
            refuse("the Redis client stays behind src/store/redis.rs");
        }
        if within(&LEAVES) && line.contains("use crate::") && !line.contains("use crate::resp") {
            refuse("imports nothing else of the crate");
        }
        let waits = ["tokio::", "std::time::Instant", "SystemTime"];
        if within(&PURE) && waits.iter().any(|word| line.contains(word)) {
            refuse("has no clock and no runtime");
        }
        let sleeps = [concat!("thread::", "sleep("), concat!("time::", "sleep(")];
        let polls = name.starts_with("tests/support/") || name.starts_with("tests/load/");
        if name.starts_with("tests/") && !polls && sleeps.iter().any(|word| line.contains(word)) {
            refuse("a test waits for something, with tests/support, not for a time");
        }
    }
    broken
}

#[test]
fn house_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut broken = Vec::new();
    for dir in ["src", "lua", "tests"] {
        for path in files(&root.join(dir), &["rs", "lua"]) {
            let text = fs::read_to_string(&path).unwrap();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            broken.extend(broken_rules(&name, &text));
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// Each row: a file, its text, and the rule it breaks ("" = none).
#[test]
fn rules_are_seen() {
    let long = format!("//! {}", "x".repeat(COLUMNS_MAX));
    let rows = [
        ("src/a.rs", "//! What for.\nuse crate::b;", ""),
        ("src/a.rs", "use crate::b;", "begins with //!"),
        ("lua/a.lua", "local a = 1", "begins with --"),
        ("src/a.rs", &long, "longer than 100 columns"),
        (
            "src/a.rs",
            concat!("//! What for.\n// TO", "DO"),
            "an issue or nothing",
        ),
        (
            "src/a.rs",
            "//! What for.\nuse fred::prelude::*;",
            "stays behind",
        ),
        (
            "src/store/redis.rs",
            "//! What for.\nuse fred::prelude::*;",
            "",
        ),
        (
            "src/resp/reply.rs",
            "//! What for.\nuse crate::config::Config;",
            "imports nothing else",
        ),
        (
            "src/resp/reply.rs",
            "//! What for.\nuse crate::resp::Protocol;",
            "",
        ),
        (
            "src/scheduler/wheel.rs",
            "//! What for.\nuse tokio::time;",
            "no clock",
        ),
        (
            "tests/flow/a.rs",
            concat!("//! What.\nthread::", "sleep(x);"),
            "not for a time",
        ),
    ];
    for (name, text, rule) in rows {
        let broken = broken_rules(name, text).join("\n");
        assert_eq!(broken.is_empty(), rule.is_empty(), "{name}: {broken}");
        assert!(broken.contains(rule), "{name}: {broken}");
    }
}
