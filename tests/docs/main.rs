//! README.md and the pages of docs are true as far as a test can see: commands, error codes,
//! settings, flags, keys, metrics, files, links, tests and make targets that they name are those of
//! the program.
//!
//! Knows no prose. Keeps: a command, a code or a key that is added to the program and not to the
//! docs fails here, and so does one that is only in the docs.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use delay_broker::audit;
use delay_broker::command::TABLE;
use delay_broker::command::examples::example;
use delay_broker::config::Config;
use delay_broker::domain::setting::{BACKOFF_MAX, BACKOFF_MIN, LEASE, LIMIT, SETTINGS};
use delay_broker::domain::snowflake::NODES;
use delay_broker::http::problem::CODES;
use delay_broker::http::routes::{ROUTES, Route};
use delay_broker::metrics;
use delay_broker::resp::RequestLimits;
use delay_broker::work;
use regex::Regex;

use crate::page::{docs, file, quoted, rows, same, section, source, sources};
use crate::shell::consoles;

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod page;
mod shell;
mod text;

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
        "WAIT",
        "WAITAOF",
    ];
    let options = [
        "LIST", "RESTORE", "DROP", "NAME", "AT", "AS", "COUNT", "CURSOR", "DECODE", "NX", "XX",
        "MODERN", "LEGACY", "ALL", "BLOCK", "LEASE", "ALSO", "FAIL", "SILENT", "FATAL", "DELAY",
        "REASON", "TIED", "RELEASE", "LEASED", "WAITING", "REQUEUE", "MATCH", "IFABSENT", "RESET",
        "DEFAULT", "SET", "PAUSE", "RESUME", "NEXT", "TZ", "OVERLAP", "ALLOW", "CATCHUP", "HEADER",
        "TTL", "PRIO", "LIMIT", "GROUP", "JUSTID", "FROM", "TO", "DRYRUN", "SYNC", "FSYNC",
        "REPLICAS", "NONE",
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

/// Limits that no setting changes, as the pages say them, are the constants of the source.
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
        ("| 16 |", of("src/domain/durability.rs", &["REPLICAS_MAX"])),
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
        ("| 2 |", of("src/http/api.rs", &["SEARCHES_MAX"])),
        ("| 30 s |", of("src/http/body.rs", &["TAKEN_WITHIN"])),
        ("| 20 s |", of("src/http/body.rs", &["WITHIN"])),
        ("| 1,000 and 12 h |", of("src/client/sessions.rs", &["SESSIONS_MAX", "LASTS"])),
        ("| 32 and 50 s |", of("src/http/console/live.rs", &["STREAMS_MAX", "STREAM_LASTS"])),
        ("| 4 |", of("src/http/console/jobs.rs", &["RUNNING_MAX"])),
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
