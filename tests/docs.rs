//! README.md and the pages of docs are true as far as a test can see: commands, error codes,
//! settings, flags, keys, metrics, files, links, tests and make targets that they name are those of
//! the program.
//!
//! Knows no prose. Keeps: a command, a code or a key that is added to the program and not to the
//! docs fails here, and so does one that is only in the docs.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use delay_broker::audit;
use delay_broker::command::TABLE;
use delay_broker::command::examples::{PENDING, example};
use delay_broker::config::Config;
use delay_broker::domain::setting::{BACKOFF_MAX, BACKOFF_MIN, LEASE, LIMIT, SETTINGS};
use delay_broker::domain::snowflake::NODES;
use delay_broker::http::problem::CODES;
use delay_broker::http::routes::{ROUTES, Route};
use delay_broker::metrics;
use delay_broker::resp::RequestLimits;
use delay_broker::work;
use regex::Regex;

use support::broker::Broker;
use support::redis::Redis;

#[path = "support/mod.rs"]
mod support;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// README.md and each page of docs, by its path.
fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = sources(&root.join("docs"), "md").into_iter();
    let found = found.map(|path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
    let mut pages: Vec<String> = found.chain(["README.md".to_owned()]).collect();
    pages.sort();
    pages
}

/// The text of all pages.
fn docs() -> String {
    pages().iter().map(|page| file(page) + "\n").collect()
}

/// The text below a heading of a page, up to the next one of the same or a higher level.
fn section(page: &str, heading: &str) -> String {
    let text = format!("\n{}", file(page));
    let rest = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("{page} has no {heading}"))
        .1;
    let level = heading.split(' ').next().unwrap().len();
    let end = Regex::new(&format!("(?m)^#{{1,{level}}} ")).unwrap().find(rest);
    rest[..end.map_or(rest.len(), |end| end.start())].to_owned()
}

/// The rows of the first table of a section, its cells as they are shown.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let section = section(page, heading);
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    let table = table.take_while(|line| line.starts_with('|')).skip(2);
    // A bar inside a cell is written `\|`.
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_matches('|').replace("\\|", "\0");
        let cells = line.split('|').map(|cell| cell.trim().replace('\0', "|"));
        cells.collect()
    };
    table.map(cells).collect()
}

/// What stands between backticks on one line, of a text without its code blocks.
fn quoted(text: &str) -> BTreeSet<String> {
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let text = blocks.replace_all(text, "");
    let spans = Regex::new(r"`([^`\n]+)`").unwrap();
    let span = |found: regex::Captures<'_>| found[1].replace("\\|", "|");
    spans.captures_iter(&text).map(span).collect()
}

fn missing<'a>(
    wanted: &'a BTreeSet<String>,
    there: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'a String> {
    wanted.difference(there)
}

fn same(what: &str, docs: &BTreeSet<String>, program: &BTreeSet<String>) {
    let unsaid: Vec<_> = missing(program, docs).collect();
    let untrue: Vec<_> = missing(docs, program).collect();
    assert!(unsaid.is_empty(), "the docs lack the {what} {unsaid:?}");
    assert!(untrue.is_empty(), "the docs have the {what} {untrue:?}");
}

fn sources(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()) {
        if path.is_dir() {
            found.extend(sources(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found
}

/// All of `src` but its tests, as one text.
fn source() -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut text = String::new();
    for path in sources(&dir, "rs") {
        if !path.ends_with("tests.rs") {
            let file = fs::read_to_string(path).unwrap();
            text += file.split("\n#[cfg(test)]").next().unwrap();
        }
    }
    text
}

/// Other commands that it names are answered, too; those of Redis that it only tells of are few.
#[test]
fn commands_in_the_text_exist() {
    let of_redis = [
        "BLPOP",
        "BLMOVE",
        "LRANGE",
        "LREM",
        "KEYS",
        "SCAN",
        "EVALSHA",
        "DEL",
        "UNLINK",
        "ACL",
        "SLOWLOG",
        "XREADGROUP",
        "XACK",
        "XGROUP",
        "XCLAIM",
        "XAUTOCLAIM",
        "XINFO",
        "SENTINEL",
    ];
    let options = [
        "LIST", "RESTORE", "DROP", "NAME", "AT", "AS", "COUNT", "CURSOR", "DECODE", "NX", "XX",
        "MODERN", "LEGACY", "ALL", "BLOCK", "LEASE", "ALSO", "FAIL", "SILENT", "FATAL", "DELAY",
        "REASON", "TIED", "RELEASE", "LEASED", "WAITING", "REQUEUE", "MATCH", "IFABSENT", "RESET",
        "DEFAULT", "SET", "PAUSE", "RESUME", "NEXT", "TZ", "OVERLAP", "ALLOW", "CATCHUP", "HEADER",
        "TTL", "PRIO", "LIMIT", "GROUP", "JUSTID", "FROM", "TO", "DRYRUN",
    ];
    let of_http = ["GET", "PUT", "DELETE"];
    let word = Regex::new(r"^[A-Z][A-Z.]+( |$)").unwrap();
    let codes = codes();
    for span in quoted(&docs()).iter().filter(|span| word.is_match(span)) {
        let name = span.split(' ').next().unwrap();
        let known = TABLE.iter().any(|spec| spec.name == name)
            || codes.contains(name)
            || of_redis.contains(&name)
            || of_http.contains(&name)
            || options.contains(&name);
        assert!(known, "the docs name {span}");
    }
}

/// The list of the codes that answers are counted by, in the source.
fn list_of_codes() -> String {
    let metrics = file("src/metrics/commands.rs");
    let list = metrics.split_once("const CODES").unwrap().1;
    list.split_once("];").unwrap().0.to_owned()
}

fn codes() -> BTreeSet<String> {
    let code = Regex::new("\"([A-Z]+)\"").unwrap();
    let list = list_of_codes();
    code.captures_iter(&list).map(|c| c[1].to_owned()).collect()
}

#[test]
fn every_error_code_has_a_section() {
    let page = "docs/errors.md";
    let codes = codes();
    let heading = Regex::new("(?m)^## ([A-Z]+)$").unwrap();
    let text = file(page);
    let shown: BTreeSet<String> =
        heading.captures_iter(&text).map(|found| found[1].to_owned()).collect();
    same("error codes", &shown, &codes);
    // Something answers them, not only counts them.
    let source = source().replace(&list_of_codes(), "");
    let form =
        Regex::new(r"(?s)^\n\*\*When:\*\* .+\n\*\*Applied:\*\* (no|maybe)\.\n.*\*\*Do:\*\* ");
    let form = form.unwrap();
    for code in &shown {
        let made = Regex::new(&format!("\"-?{code}[ \"]")).unwrap();
        assert!(made.is_match(&source), "nothing in src answers {code}");
        assert!(form.is_match(&section(page, &format!("## {code}"))), "{page}: {code}");
    }
}

/// Every word that a finding of the audit can have, and the rights as the program prints them.
#[test]
fn audit_words_and_rights_are_those_of_the_program() {
    let runbook = file("docs/operate/runbook.md");
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("### Audit: "));
    let shown = headings.map(str::to_owned);
    let ours = audit::WORDS.map(str::to_owned);
    same("words of the audit", &shown.collect(), &ours.into());
    let line = audit::rights::acl_line("broker");
    assert!(docs().lines().any(|seen| seen == line), "the docs lack {line}");
}

/// `section.key`, wherever it stands, and DELAY_BROKER_SECTION__KEY.
#[test]
fn settings_exist() {
    let settings = Config::with(&[]).unwrap().settings;
    let keys: BTreeSet<String> = settings.into_iter().map(|(key, _)| key).collect();
    let sections: BTreeSet<&str> = keys.iter().filter_map(|key| key.split('.').next()).collect();
    let form = Regex::new(r"^([a-z]+)\.[a-z_]+$").unwrap();
    let mut seen = 0;
    for span in quoted(&docs()) {
        let is_setting = form.captures(&span).is_some_and(|c| sections.contains(&c[1]));
        // A file beside the data has a name of this form, too.
        if is_setting && span != "redis.log" {
            assert!(keys.contains(&span), "the docs name the setting {span}");
            seen += 1;
        }
    }
    assert!(seen > 10, "the docs name {seen} settings");
    let variable = Regex::new(r"DELAY_BROKER_([A-Z_]+?)__([A-Z_]+)").unwrap();
    for found in variable.captures_iter(&docs()) {
        let key = format!("{}.{}", &found[1], &found[2]).to_ascii_lowercase();
        let known = keys.contains(&key) || key == "section.key";
        assert!(known, "the docs name the variable {}", &found[0]);
    }
}

/// The limits are those of the defaults.
#[test]
fn limits_are_the_defaults() {
    let limits = rows("docs/limits.md", "# Limits");
    let settings = Config::with(&[]).unwrap().settings;
    let value = |key: &str| {
        let mut found = settings.iter().filter(|(known, _)| known == key);
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {key}"));
        u64::try_from(value.as_integer().unwrap()).unwrap()
    };
    let shown = |number: &str, unit: Option<&str>| {
        let number: u64 = number.replace(',', "").parse().unwrap();
        number
            * match unit {
                Some("KiB") => 1 << 10,
                Some("MiB") => 1 << 20,
                Some("days") => 86_400_000,
                Some("h") => 3_600_000,
                _ => 1,
            }
    };
    let amount = Regex::new(r"(\d[\d,]*)(?: (KiB|MiB|days|h\b))?").unwrap();
    let mut seen = 0;
    for cells in limits.iter().filter(|cells| cells[2] != "fixed") {
        let amounts: Vec<u64> = amount
            .captures_iter(&cells[1])
            .map(|found| shown(&found[1], found.get(2).map(|unit| unit.as_str())))
            .collect();
        for key in quoted(&cells[2]) {
            let value = value(&key);
            assert!(amounts.contains(&value), "{key} is {value}: {cells:?}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} limits");
}

/// A number of the source, in bytes, ms or pieces: `16 * 1024`, `Duration::from_secs(10)`.
fn constant(path: &str, name: &str) -> u64 {
    let text = file(path);
    let form = Regex::new(&format!(r"const {name}: \w+ = (?:Duration::from_(\w+)\()?([\d_* ]+)"));
    let found = form.unwrap().captures(&text);
    let found = found.unwrap_or_else(|| panic!("{path} has no {name}"));
    let factors = found[2].split('*').map(|factor| factor.trim().replace('_', ""));
    let product: u64 = factors.map(|factor| factor.parse::<u64>().unwrap()).product();
    product * if found.get(1).is_some_and(|unit| unit.as_str() == "secs") { 1_000 } else { 1 }
}

/// Limits that no setting changes, as the pages say them, are the constants of the source.
/// The page of DQ.SETUP has each setting with its default.
#[test]
fn settings_of_queues_are_the_table() {
    let page = file("docs/commands.md");
    for setting in SETTINGS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.name)));
        let shown = row.unwrap_or_else(|| panic!("no row of {}", setting.name)).replace(',', "");
        let default = setting.default();
        let shown_default =
            setting.shown(&default).map(|none| if none.is_empty() { "none".into() } else { none });
        let default = shown_default.unwrap_or_else(|| default.to_string());
        let default = format!("| {default} |");
        assert!(shown.contains(&default), "{}: not {default}: {shown}", setting.name);
    }
}

#[test]
fn fixed_limits_are_the_constants() {
    let page = "docs/limits.md";
    let before = RequestLimits::UNAUTHENTICATED;
    let before = [before.args_max as u64, before.arg_bytes_max as u64];
    let of = |path: &str, names: &[&str]| -> Vec<u64> {
        names.iter().map(|name| constant(path, name)).collect()
    };
    let cron = |names: &[&str]| of("src/domain/cron.rs", names);
    let http =
        of("src/http.rs", &["CONNECTIONS_MAX", "CONNECTION_REQUESTS_MAX", "CONNECTION_WITHIN"]);
    let many = http[0];
    let rows = [
        ("| 1,000 and 100,000 |", of("src/scheduler/tied.rs", &["LEASES_MAX", "ALL_LEASES_MAX"])),
        (
            "| 16,384, 1 MiB of replies |",
            of("src/client/connection.rs", &["PENDING_MAX", "OUTPUT_HIGH"]),
        ),
        (
            "| 1 KiB and 64 KiB |",
            vec![
                constant("src/command/bulk.rs", "PATTERN_MAX"),
                constant("src/broker/find.rs", "SEEN_MAX"),
            ],
        ),
        ("| 10,000 and 100 ms |", of("src/broker/find.rs", &["LOOKED_MAX", "GOES_ON_FOR"])),
        ("| 200 |", of("src/command/dq/timeline.rs", &["STEPS_MAX"])),
        ("| 4 |", of("src/peers/memory.rs", &["PERMITS_MAX"])),
        ("| 8 |", of("src/scheduler/takers.rs", &["CALLS_MAX"])),
        (
            "| 30 s; with `LEASE` 100 ms to 24 h |",
            vec![LEASE.default, *LEASE.allowed.start(), *LEASE.allowed.end()],
        ),
        (
            "| 16, with waits of 5 s to 1 h |",
            vec![LIMIT.default, BACKOFF_MIN.default, BACKOFF_MAX.default],
        ),
        ("| 512 bytes |", of("src/domain/lease.rs", &["REASON_BYTES_MAX"])),
        ("| 1,000 |", cron(&["CRONS_MAX"])),
        ("| 256 bytes |", cron(&["EXPRESSION_BYTES_MAX"])),
        ("| 1 s to 8,760 h |", cron(&["EVERY_MS_MIN", "EVERY_MS_MAX"])),
        ("| 1; with `CATCHUP` 0 to 100 |", [vec![1, 0], cron(&["CATCHUP_MAX"])].concat()),
        ("| 10 arguments, 16 KiB each |", before.to_vec()),
        ("| 10 s |", of("src/client/tls.rs", &["HANDSHAKE_WITHIN"])),
        ("| 32 and 256 |", of("src/peers/passwords.rs", &["OF_ADDRESS_MAX", "WAITING_MAX"])),
        ("| 2 s |", of("src/peers/guesses.rs", &["LONGEST"])),
        ("| 64, of 100 requests and 60 s |", http),
        ("| 32 |", of("src/http/api.rs", &["REQUESTS_MAX"])),
        ("| 4; 2 |", of("src/http/api.rs", &["SHOWN_MAX", "LARGE_MAX"])),
        ("| 30 s |", of("src/http/body.rs", &["TAKEN_WITHIN"])),
        ("| 20 s |", of("src/http/body.rs", &["WITHIN"])),
        ("| 1,024 |", vec![NODES]),
    ];
    let text = [
        ("keeps 128 (half", of("src/daemon/listen.rs", &["FILES_KEPT"])),
        ("has 64 connections", vec![many]),
        ("more than 16 KiB has", of("src/peers/memory.rs", &["SMALL"])),
        ("to move 256 KiB within", of("src/client/deadline.rs", &["PROGRESS_WHEN_SCARCE"])),
        ("more than 64 KiB is held back", of("src/client/call.rs", &["LARGE_REPLY"])),
        ("250 ms at most", of("src/client/call.rs", &["REST_MAX"])),
        ("the next after 100 ms", of("src/peers/guesses.rs", &["FIRST"])),
        ("At most 16 of an address wait", of("src/peers/guesses.rs", &["WAITING_MAX"])),
    ];
    let amount = Regex::new(r"(\d[\d,]*)(?: (KiB|MiB|ms|s|h)\b)?").unwrap();
    for (said, program) in rows.iter().chain(&text) {
        let shown: Vec<u64> = amount
            .captures_iter(said)
            .map(|found| {
                let number: u64 = found[1].replace(',', "").parse().unwrap();
                number
                    * match found.get(2).map(|unit| unit.as_str()) {
                        Some("KiB") => 1 << 10,
                        Some("MiB") => 1 << 20,
                        Some("s") => 1_000,
                        Some("h") => 3_600_000,
                        _ => 1,
                    }
            })
            .collect();
        assert_eq!(shown, *program, "{page}: {said}");
        assert!(file(page).contains(said), "{page} lacks {said}");
    }
    let table = self::rows(page, "# Limits").into_iter();
    let fixed = table
        .filter(|cells| cells[2].starts_with("fixed"))
        .map(|cells| format!("| {} |", cells[1]));
    assert_eq!(fixed.collect::<Vec<_>>(), rows.map(|(said, _)| said), "{page}: fixed limits");
}

#[test]
fn flags_exist() {
    let help = |args: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_delay-broker")).args(args).output();
        String::from_utf8(program.unwrap().stdout).unwrap()
    };
    // Those of `serve` are flags of all tasks.
    let help = help(&["--help"]) + &help(&["health", "--help"]) + &help(&["work", "--help"]);
    let flag = Regex::new(r"^(--[a-z-]+)( |$)").unwrap();
    let docs = quoted(&docs());
    let shown: BTreeSet<String> = docs
        .iter()
        .filter_map(|span| Some(flag.captures(span)?[1].to_owned()))
        .filter(|flag| flag != "--help")
        .collect();
    let option = Regex::new(r"(?m)^ +(?:-\w, )?(--[a-z-]+)").unwrap();
    let ours: BTreeSet<String> = option
        .captures_iter(&help)
        .map(|found| found[1].to_owned())
        .filter(|flag| !["--help", "--version"].contains(&flag.as_str()))
        .collect();
    same("flags", &shown, &ours);
}

/// The versions and scenarios that `make redisson` runs, as its source lists them.
#[test]
fn what_was_run_with_redisson_is_run() {
    let driver = file("tests/interop/redisson/main.rs");
    let listed = |pattern: &str| {
        let found = Regex::new(pattern).unwrap();
        let found = found.captures_iter(&driver);
        found.map(|found| found[1].to_owned()).collect()
    };
    let first = |heading| -> BTreeSet<String> {
        let rows = rows("docs/redisson.md", heading).into_iter();
        rows.map(|cells| cells[0].clone()).collect()
    };
    let versions = listed(r#""(\d+\.\d+\.\d+)"[,\]]"#);
    same("versions of Redisson", &first("# With Redisson"), &versions);
    let scenarios = listed(r#"\("([^"]+)", \w+::\w+\)"#);
    same("scenarios", &first("## What was run"), &scenarios);
}

/// Keys as they begin, and metrics.
#[test]
fn keys_and_metrics_exist() {
    let prefix = |key: &str| key.split(':').next().unwrap().to_owned();
    let metrics = metrics::TABLE.iter().map(|spec| spec.name);
    let metrics: BTreeSet<&str> =
        metrics.chain(work::METRICS.iter().map(|(name, ..)| *name)).collect();
    let shown: BTreeSet<String> = rows("docs/internals/data-in-redis.md", "# Data in Redis")
        .into_iter()
        .map(|cells| prefix(cells[0].trim_matches('`')))
        .filter(|key| key != "q")
        .collect();
    let key = Regex::new(r#""((?:redisson_delay|delay_broker)_[a-z_]+)[":]"#).unwrap();
    let source = source();
    let ours: BTreeSet<String> = key
        .captures_iter(&source)
        .map(|found| found[1].to_owned())
        // Prefixes of names that are refused, and of what INFO shows.
        .filter(|key| !["delay_broker_", "delay_broker_version"].contains(&key.as_str()))
        .filter(|key| !metrics.contains(key.as_str()))
        .collect();
    same("keys", &shown, &ours);

    for span in quoted(&docs()) {
        if span.starts_with("delay_broker_") && span != "delay_broker_" {
            let known = metrics.contains(span.as_str()) || shown.contains(&prefix(&span));
            assert!(known, "the docs name the metric or key {span}");
        }
    }
}

#[test]
fn every_metric_has_a_row() {
    let ours = metrics::TABLE.iter().map(|spec| {
        let labels: Vec<String> = spec.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", spec.kind).to_lowercase();
        format!("`{}` {kind} {} {}", spec.name, labels.join(" "), spec.help)
    });
    let shown =
        rows("docs/operate/monitoring.md", "## Metrics").into_iter().map(|cells| cells.join(" "));
    same("metrics", &shown.collect(), &ours.collect());
}

#[test]
fn files_tests_and_make_targets_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = docs() + &file("CONTRIBUTING.md");
    let path = Regex::new(r"^(?:src|lua|tests|config|docs|\.ci)(?:/[\w./-]+)?$").unwrap();
    let top = ["Dockerfile", "docker-compose.yml"];
    for span in quoted(&docs) {
        // The example of CONTRIBUTING.md is not there.
        let is_file = path.is_match(&span) && !span.contains("/quarantined.");
        if is_file || top.contains(&span.as_str()) {
            assert!(root.join(&span).exists(), "the docs name the file {span}");
        }
    }
    let makefile = file("Makefile");
    let make = Regex::new(r"(?m)(?:`|^\$ )make ([a-z]+)").unwrap();
    for found in make.captures_iter(&docs) {
        let target = Regex::new(&format!("(?m)^{}:", &found[1])).unwrap();
        assert!(target.is_match(&makefile), "the docs name {}", &found[0]);
    }
    let test = Regex::new("--test ([a-z]+)").unwrap();
    for found in test.captures_iter(&docs) {
        let (file, dir) =
            (format!("tests/{}.rs", &found[1]), format!("tests/{}/main.rs", &found[1]));
        let known = root.join(file).exists() || root.join(dir).exists();
        assert!(known, "the docs name {}", &found[0]);
    }
    let bench = file("tests/load/bench.rs");
    for cells in rows("docs/performance.md", "# Performance") {
        let row = cells[0].replace('`', "\"");
        assert!(bench.contains(&row), "docs/performance.md has figures of {}", cells[0]);
    }
}

/// The rooms of the program, in the order of lib.rs.
#[test]
fn every_room_has_a_row() {
    let library = file("src/lib.rs");
    let module = Regex::new(r"(?m)^pub mod (\w+);").unwrap();
    let ours: Vec<String> = module.captures_iter(&library).map(|c| c[1].to_owned()).collect();
    let rows = rows("docs/internals/reading-the-code.md", "## Rooms").into_iter();
    let shown: Vec<String> = rows.map(|cells| cells[0].trim_matches('`').to_owned()).collect();
    assert_eq!(shown, ours);
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Each link to a file of this repository, and each anchor of one.
#[test]
fn links_and_anchors_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let link = Regex::new(r"\]\(([^)#]*)(?:#([^)]+))?\)").unwrap();
    let mut seen = 0;
    let more = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/interop/README.md"];
    for page in pages().iter().map(String::as_str).chain(more) {
        let here = root.join(page);
        let text = file(page);
        for found in link.captures_iter(&blocks.replace_all(&text, "")) {
            let to = &found[1];
            if to.contains("://") {
                continue;
            }
            let target = match to {
                "" => here.clone(),
                to => here.parent().unwrap().join(to),
            };
            assert!(target.exists(), "{page} links to {}", &found[0]);
            if let Some(wanted) = found.get(2) {
                let text = fs::read_to_string(&target).unwrap();
                let text = blocks.replace_all(&text, "");
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let known = headings.any(|heading| anchor(heading) == wanted.as_str());
                assert!(known, "{page} links to {}", &found[0]);
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} links");
}

/// The clients of tests/interop: those that are run, at the versions that are pinned there.
#[test]
fn clients_are_those_that_are_run() {
    let table = file("tests/interop/clients.txt");
    let rows_run = table.lines().filter(|line| !line.starts_with('#'));
    let run = rows_run.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let listed = |words: &str| words.split_whitespace().collect::<Vec<_>>().join(", ");
        let left_out = cells[3].split_whitespace().map(|step| format!("`{step}`"));
        let left_out = left_out.collect::<Vec<_>>().join(", ");
        let version = pinned_version(cells[1]);
        vec![cells[0].to_owned(), version, listed(cells[2]), left_out]
    });
    assert_eq!(rows("docs/clients.md", "## What was run"), run.collect::<Vec<_>>());
}

/// Of LANGUAGE:NAME, in the manifest of that language.
fn pinned_version(package: &str) -> String {
    let (language, name) = package.split_once(':').unwrap();
    let name = regex::escape(name);
    let (manifest, form) = match language {
        "debian" => return package.split_once('=').unwrap().1.to_owned(),
        "python" => ("python/requirements.txt", format!("(?m)^{name}==(.*)$")),
        "node" => ("node/package.json", format!("\"{name}\": \"(.*)\"")),
        "c" => ("c/requirements.txt", format!("(?m)^# {name} ([^,]*),")),
        "go" => ("go/go.mod", format!("(?m)^\t{name} v(.*)$")),
        "java" => ("java/pom.xml", format!(r"<artifactId>{name}</artifactId>\s*<version>(.*)<")),
        "rust" => ("rust/Cargo.lock", format!("name = \"{name}\"\nversion = \"(.*)\"")),
        _ => panic!("clients.txt has the language {language}"),
    };
    let text = file(&format!("tests/interop/{manifest}"));
    let found = Regex::new(&form).unwrap().captures(&text);
    found.unwrap_or_else(|| panic!("{manifest} has no {name}"))[1].to_owned()
}

/// Each client has its lines in tests/interop/README.md, and its program has them in that order.
#[test]
fn lines_for_each_client_are_those_of_its_program() {
    let table = file("tests/interop/clients.txt");
    let clients = table.lines().filter(|line| !line.starts_with('#'));
    let clients = clients.map(|line| line.split('|').next().unwrap().trim());
    let page = file("tests/interop/README.md");
    let mut sections = page.split("\n## ").skip(1).map(|section| {
        let (name, text) = section.split_once('\n').unwrap();
        (name, text)
    });
    let link = Regex::new(r"\]\(([^)]+)\)").unwrap();
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    for client in clients {
        let (name, text) = sections.next().unwrap_or_default();
        assert_eq!(name, client, "the section of a client, in the order of clients.txt");
        let link = link.captures(text).unwrap();
        let program = dense(&file(&format!("tests/interop/{}", &link[1])));
        let block = text.split("```").nth(1).unwrap();
        let mut from = 0;
        for line in block.lines().skip(1) {
            let found = program[from..].find(&dense(line));
            from += found.unwrap_or_else(|| panic!("{}: {line}", &link[1]));
        }
    }
    assert_eq!(sections.next(), None);
}

/// A command of a block for people, and the reply that stands below it.
struct Typed {
    command: String,
    reply: String,
}

/// The commands of each ```console block of a text, block by block.
fn consoles(text: &str) -> Vec<Vec<Typed>> {
    let blocks = Regex::new(r"(?ms)^ *```console\n(.*?)^ *```").unwrap();
    let typed = |block: &str| -> Vec<Typed> {
        let block = format!("\n{block}");
        let commands = block.split("\n$ ").skip(1).map(|typed| {
            let (command, reply) = typed.split_once('\n').unwrap_or((typed, ""));
            Typed { command: command.to_owned(), reply: reply.trim_end().to_owned() }
        });
        commands.collect()
    };
    blocks.captures_iter(text).map(|found| typed(&found[1])).collect()
}

/// An id of a message, of one that was taken, as in a receipt, or of an entry of a stream.
const ID: &str = r"\b(?:(?:[0-9]{13}-)?[0-9a-f]{16}|[0-9]{13}-0)\b";

/// A reply as a pattern: ids and times may differ, and a line `...` stands for any lines.
fn pattern(reply: &str) -> Regex {
    let lines: Vec<String> = reply.lines().map(regex::escape).collect();
    let text = lines.join("\n").replace(r"\.\.\.", "(?s:.*)");
    // As `escape` leaves it.
    let id = Regex::new(&ID.replace("}-", r"}\\-")).unwrap();
    let text = id.replace_all(&text, |found: &regex::Captures<'_>| match found[0].len() {
        _ if found[0].ends_with("-0") => "([0-9]{13}-[0-9])",
        16 => "([0-9a-f]{16})",
        _ => "([0-9]{13}-[0-9a-f]{16})",
    });
    let time = Regex::new(r"\b[0-9]{13}\b").unwrap();
    Regex::new(&format!("^{}$", time.replace_all(&text, "[0-9]{13}"))).unwrap()
}

/// A broker with its Redis, and a shell in which their usual ports reach them.
struct Shell {
    broker: Broker,
    redis: Redis,
    bin: tempfile::TempDir,
    /// Each id of a page, and the one that came in its place.
    ids: BTreeMap<String, String>,
}

impl Shell {
    fn start() -> Shell {
        let redis = Redis::spawn(&[]);
        let broker = Broker::spawn(&redis.url(0), &[]);
        Shell::around(broker, redis)
    }

    fn around(broker: Broker, redis: Redis) -> Shell {
        let bin = tempfile::tempdir().unwrap();
        // As on a terminal, where replies are quoted.
        let script = "#!/usr/bin/env bash\n\
            for word; do\n\
              shift\n\
              case $word in 7379) word=$BROKER;; 7381) word=$BACKING;; esac\n\
              set -- \"$@\" \"$word\"\n\
            done\n\
            PATH=${PATH#*:} exec redis-cli --no-raw \"$@\"\n";
        let path = bin.path().join("redis-cli");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let script = "#!/usr/bin/env bash\n\
            PATH=${PATH#*:} exec curl \"${@//:7380\\//:$HTTP/}\"\n";
        let path = bin.path().join("curl");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let program = env!("CARGO_BIN_EXE_delay-broker");
        std::os::unix::fs::symlink(program, bin.path().join("delay-broker")).unwrap();
        Shell { broker, redis, bin, ids: BTreeMap::new() }
    }

    /// Types a command, with the ids that came in place of those that the page shows.
    fn types(&self, command: &str) -> String {
        let known = |text: String, (shown, came): (&String, &String)| text.replace(shown, came);
        let command = self.ids.iter().fold(command.to_owned(), known);
        let port = |address: String| address.rsplit(':').next().unwrap().to_owned();
        let path = format!("{}:{}", self.bin.path().display(), std::env::var("PATH").unwrap());
        let done = Command::new("bash")
            .args(["-c", &command])
            .env("PATH", path)
            .env("BROKER", port(self.broker.address()))
            .env("BACKING", port(self.redis.address()))
            .env("HTTP", port(self.broker.http_address()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Types it and compares the reply; ids of the page stand for those that came from then on.
    fn checks(&mut self, page: &str, typed: &Typed) {
        let came = self.types(&typed.command);
        let found = pattern(&typed.reply).captures(&came);
        let found = found.unwrap_or_else(|| {
            panic!("{page}: {}\n{}\nis said, and it is\n{came}", typed.command, typed.reply)
        });
        let id = Regex::new(ID).unwrap();
        let shown = id.find_iter(&typed.reply).map(|id| id.as_str().to_owned());
        for (shown, came) in shown.zip(found.iter().skip(1).flatten()) {
            let came = came.as_str().to_owned();
            let known = self.ids.entry(shown).or_insert_with(|| came.clone());
            assert_eq!(*known, came, "{page}: {}", typed.command);
        }
    }
}

/// What a page shows of a shell is what the shell shows, in the order of the page.
#[test]
fn sessions_are_true() {
    let pages = ["quickstart", "consume", "schedules", "streams", "errors", "encodings", "api"];
    let pages = pages.map(|page| format!("docs/{page}.md"));
    for page in pages.iter().map(String::as_str).chain(["README.md"]) {
        let mut shell = Shell::start();
        for typed in consoles(&file(page)).iter().flatten() {
            // It builds, starts or tests what runs here already.
            if !typed.command.starts_with("make ") {
                shell.checks(page, typed);
            }
        }
    }
}

/// The page about the API has each route, and the status of each code; the codes are those of
/// commands, and the API says of each the same as the page about errors.
#[test]
fn routes_and_statuses_are_those_of_the_program() {
    let page = "docs/api.md";
    let route = |route: &Route| {
        let parameters: Vec<String> = route.parameters().map(|name| format!("`{name}`")).collect();
        let (method, path, command) = (&route.method, route.path, route.command);
        format!("`{method} {path}` | `{command}` | {}", parameters.join(" "))
    };
    let shown = rows(page, "## Routes").into_iter().map(|cells| cells.join(" | "));
    same("routes", &shown.collect(), &ROUTES.iter().map(route).collect());
    let statuses = CODES.iter().map(|(code, status, _)| format!("`{code}` {}", status.as_u16()));
    let shown = rows(page, "## Errors").into_iter();
    let shown = shown.flat_map(|cells| {
        let codes = quoted(&cells[1]).into_iter().filter(|code| code.to_uppercase() == *code);
        codes.map(|code| format!("`{code}` {}", cells[0])).collect::<Vec<_>>()
    });
    same("statuses", &shown.collect(), &statuses.collect());
    let known: BTreeSet<String> = CODES.iter().map(|(code, ..)| (*code).to_owned()).collect();
    same("codes of the API", &known, &codes());
    for (code, _, maybe) in CODES {
        let applied = if maybe { "**Applied:** maybe." } else { "**Applied:** no." };
        assert!(section("docs/errors.md", &format!("## {code}")).contains(applied), "{code}");
    }
}

/// The page about users: its tables are given to the broker that is asked, and its categories are
/// those of the commands.
#[test]
fn users_may_do_as_the_page_says() {
    let page = "docs/operate/users.md";
    let text = file(page);
    let tables = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("broker.toml");
    fs::write(&config, format!("{tables}[server]\npassword = \"of-default\"\n")).unwrap();
    let redis = Redis::spawn(&[]);
    let args = ["--redis", &redis.url(0), "--config", config.to_str().unwrap()];
    let broker = Broker::with_args(&args, &[]);
    let mut shell = Shell::around(broker, redis);
    for typed in consoles(&text).iter().flatten() {
        shell.checks(page, typed);
    }
    let shown = rows(page, "## Categories").into_iter();
    let shown: BTreeMap<String, BTreeSet<String>> =
        shown.map(|cells| (cells[0].trim_matches('`').to_owned(), quoted(&cells[1]))).collect();
    let mut ours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for spec in TABLE {
        for word in spec.categories.words() {
            ours.entry(word.to_owned()).or_default().insert(spec.name.to_owned());
        }
        for (first, categories) in spec.words {
            for word in categories.words() {
                let command = format!("{} {first}", spec.name);
                ours.entry(word.to_owned()).or_default().insert(command);
            }
        }
        for (form, categories) in spec.forms {
            for word in categories.words() {
                ours.entry(word.to_owned()).or_default().insert((*form).to_owned());
            }
        }
    }
    assert_eq!(shown, ours);
}

/// Each example of docs/commands.md, with one pending message as that page says; or with one that
/// is delivered, taken or dead, by the first commands of the block that says so.
#[test]
fn examples_of_commands_are_true() {
    let page = "docs/commands.md";
    let text = file(page);
    let consumer = [
        ("DQ.TAKE", 1),
        ("DQ.ACK", 2),
        ("DQ.NACK", 2),
        ("DQ.EXTEND", 2),
        ("DQ.TAKEN", 2),
        ("DQ.DEAD", 3),
    ];
    let blocks = consoles(text.split("\n## ").next().unwrap());
    let [pending, before] = &blocks[..] else { panic!("{page} begins with two blocks") };
    assert_eq!(pending[0].command, format!("redis-cli -p 7379 {PENDING}"), "{page}");
    let left = ["leased", "retry", "dead", "taken", "tries"];
    let left = left.map(|key| format!("'delay_broker_{key}:{{orders}}'")).join(" ");
    let mut shell = Shell::start();
    for section in text.split("\n## ") {
        let command = section.lines().next().unwrap();
        let steps = consumer.iter().find(|(name, _)| *name == command).map_or(0, |row| row.1);
        for block in consoles(section) {
            for command in ["DQ.CLEAR orders", "DQ.RESUME orders", "DQ.RESUME ALL"] {
                shell.types(&format!("redis-cli -p 7379 {command}"));
            }
            shell.types(&format!("redis-cli -p 7381 DEL orders {left}"));
            shell.types(&format!("redis-cli -p 7379 {PENDING}"));
            shell.ids.clear();
            for typed in before[..steps].iter().chain(&block) {
                shell.checks(page, typed);
            }
        }
    }
}

/// Each command has a section: usage, the example of DQ.HELP, the errors that its source names,
/// and what it costs.
#[test]
fn every_command_has_a_section() {
    let page = "docs/commands.md";
    let own = || TABLE.iter().filter(|spec| spec.name.starts_with("DQ."));
    for spec in own() {
        let section = section(page, &format!("## {}", spec.name));
        let usage = format!("\n```text\n{}\n```\n", spec.full_usage());
        assert!(section.contains(&usage), "{page}: {} lacks its usage", spec.name);
        let (call, _) = example(spec.name).unwrap_or_default();
        let call = format!("redis-cli -p 7379 {call}");
        let shown = consoles(&section).into_iter().flatten().find(|typed| typed.command == call);
        assert!(shown.is_some(), "{page}: {} lacks {call}", spec.name);
        let line = |mark: &str| {
            let found = section.lines().find_map(|line| line.strip_prefix(mark));
            found.unwrap_or_else(|| panic!("{page}: {} lacks {mark}", spec.name)).to_owned()
        };
        assert!(!line("**Cost:** ").is_empty());
        let shown: BTreeSet<String> = quoted(&line("**Errors:** "));
        same(&format!("errors of {}", spec.name), &shown, &errors_in_source(spec.name));
    }
    let shown = Regex::new("(?m)^## (DQ[.][A-Z]+)$").unwrap();
    let text = file(page);
    let shown = shown.captures_iter(&text).map(|found| found[1].to_owned());
    let ours = || own().map(|spec| spec.name.to_owned()).collect();
    same("sections of commands", &shown.collect(), &ours());
    let listed = rows("README.md", "## Commands").into_iter();
    let listed = listed.flat_map(|cells| quoted(&cells[0]));
    same("commands", &listed.collect(), &ours());
}

/// The codes that the header of a command's file lists under "Errors"; ERR is for all commands.
fn errors_in_source(command: &str) -> BTreeSet<String> {
    let name = command.trim_start_matches("DQ.").to_lowercase();
    let text = file(&format!("src/command/dq/{name}.rs"));
    let header: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let header = header.join("");
    let (_, listed) = header.split_once("Errors: ").unwrap();
    let listed = listed.split(" Way: ").next().unwrap();
    let word = Regex::new(r"\b[A-Z]{3,}\b").unwrap();
    let known = codes();
    let listed = word.find_iter(listed).map(|word| word.as_str().to_owned());
    listed.filter(|word| word != "ERR" && known.contains(word)).collect()
}

/// The first page is short.
#[test]
fn readme_is_one_page() {
    let text = file("README.md");
    assert!(text.len() <= 10 * 1024, "README.md has {} bytes", text.len());
}

/// The lines for four clients are those of their tested programs, in that order.
#[test]
fn lines_of_four_languages_are_tested() {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let programs = [
        ("python", "python/redis_py.py"),
        ("js", "node/ioredis.js"),
        ("go", "go/go-redis/main.go"),
        ("java", "java/JedisClient.java"),
    ];
    for (page, (language, program)) in
        ["README.md", "docs/clients.md"].iter().flat_map(|page| programs.map(|p| (page, p)))
    {
        let (text, program) = (file(page), dense(&file(&format!("tests/interop/{program}"))));
        let (_, block) = text.split_once(&format!("```{language}\n")).unwrap();
        let mut from = 0;
        for line in block.split("```").next().unwrap().lines() {
            let found = program[from..].find(&dense(line));
            from += found.unwrap_or_else(|| panic!("{page}: the {language} program lacks {line}"));
        }
    }
}

/// The listener that is shown stands so in its tested program.
#[test]
fn the_listener_is_tested() {
    let text = section("docs/listeners.md", "## The one for Python");
    let program = file("tests/interop/python/listener.py");
    let block = text.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let (imports, class) = block.split_once("\n\n\n").unwrap();
    assert!(program.contains(class), "the program has another listener");
    for line in imports.lines() {
        assert!(program.contains(&format!("{line}\n")), "{line}");
    }
}

/// `delay-broker help errors` and its like are pages of docs, for people who have no docs.
#[test]
fn the_program_brings_pages_along() {
    let help = |topic: &str| {
        let program = env!("CARGO_BIN_EXE_delay-broker");
        let done = Command::new(program).args(["help", topic]).output().unwrap();
        (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    let pages = ["commands", "errors", "encodings", "limits", "operate/redis", "operate/runbook"];
    let (_, program) = help("help");
    for page in pages {
        let topic = page.rsplit('/').next().unwrap();
        assert!(program.contains(topic), "{program}");
        assert_eq!(help(topic), (Some(0), file(&format!("docs/{page}.md"))));
    }
    assert!(help("health").1.contains("--running"));
    let unknown = "delay-broker: no help on 'nothing'; `delay-broker help` lists the topics\n";
    assert_eq!(help("nothing"), (Some(64), unknown.to_owned()));
}

/// Each page can be reached from README.md.
#[test]
fn every_page_is_linked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let link = Regex::new(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)").unwrap();
    let (mut seen, mut next) = (BTreeSet::new(), vec![root.join("README.md")]);
    while let Some(page) = next.pop() {
        let page = page.canonicalize().unwrap();
        if seen.insert(page.clone()) {
            let text = fs::read_to_string(&page).unwrap();
            let links = link.captures_iter(&text);
            next.extend(links.map(|found| page.parent().unwrap().join(&found[1])));
        }
    }
    for page in pages() {
        assert!(seen.contains(&root.join(&page).canonicalize().unwrap()), "nothing links {page}");
    }
}

/// A sentence names its subject: it does not begin with What, Who or Whether, unless it asks.
#[test]
fn sentences_name_their_subject() {
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let bare = Regex::new(
        r"(?m)(?:^(?:- |\d+\. )?|[.:!?] )(\**(?:What|Who|Whatever|Whoever|Whether) [^.!?\n]*.)",
    )
    .unwrap();
    let more = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/interop/README.md"];
    for page in pages().iter().map(String::as_str).chain(more) {
        let text = file(page);
        for found in bare.captures_iter(&blocks.replace_all(&text, "")) {
            assert!(found[1].ends_with('?'), "{page}: {}", &found[1]);
        }
    }
}

/// The tests that CONTRIBUTING.md says to fail exist: those in brackets.
#[test]
fn tests_that_hold_a_step_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = sources(&root.join("src"), "rs").into_iter();
    let files = files.chain(sources(&root.join("tests"), "rs"));
    let code: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let brackets = Regex::new(r"\[([^\]]*`[^\]]*)\]").unwrap();
    let text = file("CONTRIBUTING.md");
    let mut seen = 0;
    for found in brackets.captures_iter(&text) {
        for span in quoted(&found[1]).iter().filter(|span| !span.starts_with("--")) {
            let name = span.rsplit("::").next().unwrap();
            assert!(code.contains(&format!("fn {name}()")), "CONTRIBUTING.md names {span}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} tests");
}
