//! README.md is true as far as a test can see: commands, error codes, settings, flags, keys,
//! metrics, files, tests and make targets that it names are those of the program.
//!
//! Knows no prose. Keeps: a command, a code or a key that is added to the program and not to the
//! README fails here, and so does one that is only in the README.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use delay_broker::audit;
use delay_broker::command::{Group, TABLE};
use delay_broker::config::Config;
use delay_broker::metrics;
use regex::Regex;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn readme() -> String {
    file("README.md")
}

/// What stands under a heading, up to the next one of the same or a higher level.
fn section(heading: &str) -> String {
    let readme = readme();
    let rest = readme
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("README.md has no {heading}"))
        .1;
    let end = Regex::new(r"(?m)^#{1,2} ").unwrap().find(rest);
    rest[..end.map_or(rest.len(), |end| end.start())].to_owned()
}

/// The rows of the first table of a section, its cells as they are shown.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let section = section(heading);
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

fn same(what: &str, readme: &BTreeSet<String>, program: &BTreeSet<String>) {
    let unsaid: Vec<_> = missing(program, readme).collect();
    let untrue: Vec<_> = missing(readme, program).collect();
    assert!(unsaid.is_empty(), "README.md lacks the {what} {unsaid:?}");
    assert!(untrue.is_empty(), "README.md has the {what} {untrue:?}");
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

#[test]
fn every_command_has_a_row_with_its_usage() {
    let shown = rows("## Commands").into_iter();
    let shown = shown.map(|cells| cells[0].trim_matches('`').to_owned());
    let ours = TABLE
        .iter()
        .filter(|spec| spec.group == Group::Queue || spec.name.starts_with("DQ."));
    same(
        "commands",
        &shown.collect(),
        &ours.map(|spec| spec.full_usage()).collect(),
    );
}

/// Other commands that it names are answered, too; those of Redis that it only tells of are few.
#[test]
fn commands_in_the_text_exist() {
    let of_redis = [
        "BLPOP", "BLMOVE", "KEYS", "SCAN", "EVALSHA", "DEL", "UNLINK", "ACL", "SLOWLOG",
    ];
    let options = [
        "LIST", "RESTORE", "DROP", "NAME", "AT", "AS", "COUNT", "CURSOR", "DECODE", "NX", "XX",
        "MODERN", "LEGACY",
    ];
    let word = Regex::new(r"^[A-Z][A-Z.]+( |$)").unwrap();
    let codes = codes();
    for span in quoted(&readme()).iter().filter(|span| word.is_match(span)) {
        let name = span.split(' ').next().unwrap();
        let known = TABLE.iter().any(|spec| spec.name == name)
            || codes.contains(name)
            || of_redis.contains(&name)
            || options.contains(&name);
        assert!(known, "README.md names {span}");
    }
}

/// The list of the codes that answers are counted by, in the source.
fn list_of_codes() -> String {
    let metrics = file("src/metrics.rs");
    let list = metrics.split_once("const CODES").unwrap().1;
    list.split_once("];").unwrap().0.to_owned()
}

fn codes() -> BTreeSet<String> {
    let code = Regex::new("\"([A-Z]+)\"").unwrap();
    let list = list_of_codes();
    code.captures_iter(&list).map(|c| c[1].to_owned()).collect()
}

#[test]
fn every_error_code_has_a_row() {
    let shown: BTreeSet<String> = rows("## Errors")
        .into_iter()
        .map(|cells| cells[0].trim_matches('`').to_owned())
        .collect();
    same("error codes", &shown, &codes());
    // Somebody answers them, not only counts them.
    let source = source().replace(&list_of_codes(), "");
    for code in &shown {
        let made = Regex::new(&format!("\"-?{code}[ \"]")).unwrap();
        assert!(made.is_match(&source), "nothing in src answers {code}");
    }
    for cells in rows("## Commands") {
        for code in quoted(&cells[2]).iter().filter(|code| !code.contains('.')) {
            assert!(shown.contains(code), "{} can answer {code}", cells[0]);
        }
    }
}

/// Every word that a finding of the audit can have, and the rights as the program prints them.
#[test]
fn audit_words_and_rights_are_those_of_the_program() {
    let table = rows("## Warnings of the audit").into_iter();
    let shown = table.map(|cells| cells[0].trim_matches('`').to_owned());
    let ours = audit::WORDS.map(str::to_owned);
    same("words of the audit", &shown.collect(), &ours.into());
    let line = audit::rights::acl_line("broker");
    assert!(
        readme().lines().any(|seen| seen == line),
        "README.md lacks {line}"
    );
}

/// `section.key`, wherever it stands, and DELAY_BROKER_SECTION__KEY.
#[test]
fn settings_exist() {
    let settings = Config::with(&[]).unwrap().settings;
    let keys: BTreeSet<String> = settings.into_iter().map(|(key, _)| key).collect();
    let sections: BTreeSet<&str> = keys
        .iter()
        .filter_map(|key| key.split('.').next())
        .collect();
    let form = Regex::new(r"^([a-z]+)\.[a-z_]+$").unwrap();
    let mut seen = 0;
    for span in quoted(&readme()) {
        let is_setting = form
            .captures(&span)
            .is_some_and(|c| sections.contains(&c[1]));
        // A file beside the data has a name of this form, too.
        if is_setting && span != "redis.log" {
            assert!(keys.contains(&span), "README.md names the setting {span}");
            seen += 1;
        }
    }
    assert!(seen > 10, "README.md names {seen} settings");
    let variable = Regex::new(r"DELAY_BROKER_([A-Z_]+?)__([A-Z_]+)").unwrap();
    for found in variable.captures_iter(&readme()) {
        let key = format!("{}.{}", &found[1], &found[2]).to_ascii_lowercase();
        let known = keys.contains(&key) || key == "section.key";
        assert!(known, "README.md names the variable {}", &found[0]);
    }
}

/// The limits are those of the defaults.
#[test]
fn limits_are_the_defaults() {
    let limits = rows("## Limits");
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
                _ => 1,
            }
    };
    let amount = Regex::new(r"(\d[\d,]*)(?: (KiB|MiB|days))?").unwrap();
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

#[test]
fn flags_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flag = Regex::new(r"^(--[a-z-]+)( |$)").unwrap();
    let readme = quoted(&readme());
    let shown: BTreeSet<String> = readme
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
        let rows = rows(heading).into_iter();
        rows.map(|cells| cells[0].clone()).collect()
    };
    let versions = listed(r#""(\d+\.\d+\.\d+)","#);
    same(
        "versions of Redisson",
        &first("## With Redisson"),
        &versions,
    );
    let scenarios = listed(r#"\("([^"]+)", \w+::\w+\)"#);
    same("scenarios", &first("### What was run"), &scenarios);
}

/// Keys as they begin, and metrics.
#[test]
fn keys_and_metrics_exist() {
    let prefix = |key: &str| key.split(':').next().unwrap().to_owned();
    let metrics: BTreeSet<&str> = metrics::TABLE.iter().map(|spec| spec.name).collect();
    let shown: BTreeSet<String> = rows("## Data in Redis")
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

    for span in quoted(&readme()) {
        if span.starts_with("delay_broker_") && span != "delay_broker_" {
            let known = metrics.contains(span.as_str()) || shown.contains(&prefix(&span));
            assert!(known, "README.md names the metric or key {span}");
        }
    }
}

#[test]
fn every_metric_has_a_row() {
    let ours = metrics::TABLE.iter().map(|spec| {
        let labels: Vec<String> = spec
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let kind = format!("{:?}", spec.kind).to_lowercase();
        format!("`{}` {kind} {} {}", spec.name, labels.join(" "), spec.help)
    });
    let shown = rows("### Metrics").into_iter().map(|cells| cells.join(" "));
    same("metrics", &shown.collect(), &ours.collect());
}

#[test]
fn files_tests_and_make_targets_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = readme();
    let path = Regex::new(r"^(?:src|lua|tests|config|\.ci)(?:/[\w./-]+)?$").unwrap();
    let top = ["Dockerfile", "docker-compose.yml"];
    for span in quoted(&readme) {
        if path.is_match(&span) || top.contains(&span.as_str()) {
            assert!(root.join(&span).exists(), "README.md names the file {span}");
        }
    }
    let makefile = file("Makefile");
    let make = Regex::new(r"(?m)(?:`|^\$ )make ([a-z]+)").unwrap();
    for found in make.captures_iter(&readme) {
        let target = Regex::new(&format!("(?m)^{}:", &found[1])).unwrap();
        assert!(target.is_match(&makefile), "README.md names {}", &found[0]);
    }
    let test = Regex::new("--test ([a-z]+)").unwrap();
    for found in test.captures_iter(&readme) {
        let (file, dir) = (
            format!("tests/{}.rs", &found[1]),
            format!("tests/{}/main.rs", &found[1]),
        );
        let known = root.join(file).exists() || root.join(dir).exists();
        assert!(known, "README.md names {}", &found[0]);
    }
    let bench = file("tests/load/bench.rs");
    for cells in rows("## Performance") {
        let row = cells[0].replace('`', "\"");
        assert!(
            bench.contains(&row),
            "README.md has figures of {}",
            cells[0]
        );
    }
    for link in Regex::new(r"\]\(#([a-z-]+)\)")
        .unwrap()
        .captures_iter(&readme)
    {
        let heading = |line: &str| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            text.replace(',', "").replace(' ', "-")
        };
        let mut headings = readme.lines().filter(|line| line.starts_with('#'));
        assert!(
            headings.any(|line| heading(line) == link[1]),
            "{}",
            &link[0]
        );
    }
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
    assert_eq!(rows("## Clients"), run.collect::<Vec<_>>());
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
        "java" => (
            "java/pom.xml",
            format!(r"<artifactId>{name}</artifactId>\s*<version>(.*)<"),
        ),
        "rust" => (
            "rust/Cargo.lock",
            format!("name = \"{name}\"\nversion = \"(.*)\""),
        ),
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
        assert_eq!(
            name, client,
            "the section of a client, in the order of clients.txt"
        );
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
