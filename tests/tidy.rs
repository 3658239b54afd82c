//! House rules that no compiler checks: each file says what it is for, lines fit, layers hold.
//!
//! A rule is a line in `broken_rules`; a file that breaks one is named with its line. What the
//! compiler or clippy can check is in `Cargo.toml` instead.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

const COLUMNS_MAX: usize = 100;

/// Files that import nothing else of the crate, so that they can be read and tested alone.
const LEAVES: [&str; 7] = [
    "src/domain/",
    "src/metrics.rs",
    "src/metrics/",
    "src/resp/",
    "src/scheduler/run_queue.rs",
    "src/scheduler/waiting.rs",
    "src/scheduler/wheel.rs",
];

/// Files without clock, runtime and socket: (state, event, now) in, next out.
const PURE: [&str; 12] = [
    "src/domain/",
    "src/scheduler/admission.rs",
    "src/scheduler/ownership.rs",
    "src/scheduler/pace.rs",
    "src/scheduler/queue.rs",
    "src/scheduler/queue_loop.rs",
    "src/scheduler/run_queue.rs",
    "src/scheduler/schedule.rs",
    "src/scheduler/waiting.rs",
    "src/scheduler/wheel.rs",
    "src/work/message.rs",
    "src/work/outcome.rs",
];

fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|file| file.path()) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
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
        broken.push(format!("{name}:1: begins with {opening} and what the file is for"));
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
        if [concat!("TO", "DO"), concat!("FIX", "ME")].iter().any(|word| line.contains(word)) {
            refuse("is an issue or nothing");
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        let foreign = line.contains("use crate::")
            && !["use crate::resp", "use crate::domain"].iter().any(|room| line.contains(room));
        if within(&LEAVES) && foreign {
            refuse("imports nothing else of the crate");
        }
        let waits = ["tokio::", "std::time::Instant", "SystemTime::now"];
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
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
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
        ("src/a.rs", concat!("//! What for.\n// TO", "DO"), "an issue or nothing"),
        ("src/resp/reply.rs", "//! What for.\nuse crate::config::Config;", "imports nothing else"),
        ("src/resp/reply.rs", "//! What for.\nuse crate::resp::Protocol;", ""),
        ("src/scheduler/wheel.rs", "//! What for.\nuse tokio::time;", "no clock"),
        ("tests/flow/a.rs", concat!("//! What.\nthread::", "sleep(x);"), "not for a time"),
    ];
    for (name, text, rule) in rows {
        let broken = broken_rules(name, text).join("\n");
        assert_eq!(broken.is_empty(), rule.is_empty(), "{name}: {broken}");
        assert!(broken.contains(rule), "{name}: {broken}");
    }
}

/// The packages that the broker is built from, and the only places that name them (none = any).
const PACKAGES: [(&str, &[&str]); 10] = [
    ("tokio", &[]),
    ("redis_protocol", &["src/resp/", "src/store/", "src/work/"]),
    ("fred", &["src/store/redis.rs"]),
    ("clap", &["src/daemon/cli.rs", "src/work"]),
    ("croner", &["src/domain/cron"]),
    ("jiff", &["src/domain/cron"]),
    ("::config", &["src/config"]),
    ("tracing_subscriber", &["src/daemon/logs"]),
    ("metrics_exporter_prometheus", &["src/metrics"]),
    ("askama", &["src/http/console"]),
];

/// The most lines of code that `src` may have. It had 16,928 before there was a place for nodes,
/// for callers and for clients that wait, and 18,230 before consumers came in: six commands, leases
/// and retries in the store, takers in the scheduler. 560 are for Sentinels, 1,700 for the API of
/// HTTP, 1,600 for Clusters, 3,300 for the console.
const SRC_LINES_MAX: usize = 35_400;

/// Files of `src` with their lines of code: no blank lines, no lines that are only a comment, no
/// files and items that only tests are built with. A line is a line as rustfmt leaves it, so
/// cramming does not pay.
fn code() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = Vec::new();
    for path in files(&root.join("src"), &["rs"]) {
        if path.file_name().unwrap() != "tests.rs" {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            code.push((name, code_of(&fs::read_to_string(&path).unwrap())));
        }
    }
    code
}

fn code_of(text: &str) -> Vec<String> {
    let mut code = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed == "#[cfg(test)]" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let mut item = lines.by_ref().skip_while(|line| line.trim().starts_with("#["));
            let first = item.next().unwrap_or_default();
            if !first.ends_with([';', '}']) {
                let end = [format!("{indent}}}"), format!("{indent}}};")];
                item.find(|line| end.iter().any(|end| end == line));
            }
        } else if !trimmed.is_empty() && !trimmed.starts_with("//") {
            code.push(line.to_owned());
        }
    }
    code
}

#[test]
fn code_is_told_from_the_rest() {
    let text = [
        "//! What for.\n\nuse a;\n#[cfg(test)]\nuse b;",
        "fn f() {\n    // Why.\n    g(); // So.\n}",
        "#[cfg(test)]\n#[path = \"x.rs\"]\nmod x;",
        "    #[cfg(test)]\n    fn g() {\n    }\nfn h() {}",
        "#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n",
    ];
    let text = text.join("\n");
    assert_eq!(code_of(&text), ["use a;", "fn f() {", "    g(); // So.", "}", "fn h() {}"]);
}

#[test]
fn src_does_not_grow() {
    let lines: usize = code().iter().map(|(_, code)| code.len()).sum();
    eprintln!("src has {lines} lines of code, of {SRC_LINES_MAX}");
    assert!(lines <= SRC_LINES_MAX, "src has {lines} lines of code, more than {SRC_LINES_MAX}");
}

/// The room of a file: `src/store/keys.rs` and `src/store.rs` belong to `store`.
fn room(name: &str) -> &str {
    let inside = name.trim_start_matches("src/");
    inside.split(['/', '.']).next().unwrap()
}

/// What each room imports of the others.
fn arrows(code: &[(String, Vec<String>)]) -> BTreeMap<String, BTreeSet<String>> {
    let one = Regex::new(r"\bcrate::([a-z_]+)").unwrap();
    let many = Regex::new(r"\bcrate::\{([^}]*)\}").unwrap();
    let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
    for (name, code) in code.iter().filter(|(name, _)| room(name) != "main") {
        let code = code.join("\n");
        let groups = many.captures_iter(&code).flat_map(|found| {
            let parts = found.get(1).unwrap().as_str().split(',');
            parts.map(|part| part.trim().split("::").next().unwrap())
        });
        let rooms = one.captures_iter(&code).map(|found| found.get(1).unwrap().as_str());
        let others = rooms.chain(groups).filter(|other| !other.is_empty() && *other != room(name));
        let own = arrows.entry(room(name).to_owned()).or_default();
        own.extend(others.map(str::to_owned));
    }
    arrows.remove("lib");
    arrows
}

/// The picture in `src/lib.rs`: lines `room -> other, ^above`, from top to bottom.
fn picture(map: &str) -> Vec<(String, Vec<String>)> {
    let lines = map.lines().skip_while(|line| !line.contains("Arrows are imports"));
    let lines = lines.filter_map(|line| line.strip_prefix("//! ")?.split_once(" ->"));
    let line = |(room, others): (&str, &str)| {
        let others = others.split(',').map(|other| other.trim().to_owned());
        (room.trim().to_owned(), others.filter(|other| !other.is_empty()).collect())
    };
    lines.map(line).collect()
}

/// The picture shows what is imported, no more and no less, and says of each arrow whether it
/// points up, which a new one must not.
#[test]
fn rooms_import_as_the_picture_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let picture = picture(&fs::read_to_string(root.join("src/lib.rs")).unwrap());
    let place = |room: &str| picture.iter().position(|(known, _)| known == room);
    let drawn = |(room, others): (String, BTreeSet<String>)| {
        let own = place(&room);
        let arrow = |other: String| match place(&other) < own {
            true => format!("^{other}"),
            false => other,
        };
        let others: BTreeSet<String> = others.into_iter().map(arrow).collect();
        (room, others)
    };
    let seen: BTreeMap<_, _> = arrows(&code()).into_iter().map(drawn).collect();
    let shown =
        picture.iter().map(|(room, others)| (room.clone(), others.iter().cloned().collect()));
    let shown: BTreeMap<String, BTreeSet<String>> = shown.collect();
    for (room, others) in &seen {
        let shown = shown.get(room).unwrap_or_else(|| panic!("src/lib.rs does not show {room}"));
        assert_eq!(others, shown, "what {room} imports, and what src/lib.rs shows");
    }
    assert_eq!(seen.len(), shown.len(), "src/lib.rs shows a room that is not there");
}

#[test]
fn arrows_are_seen() {
    let files = [
        ("src/a.rs", "use crate::b::C;\nlet d = crate::d::e();"),
        ("src/a/x.rs", "use crate::a::Y;\nuse crate::{f, g::H};"),
        ("src/b/mod.rs", ""),
    ];
    let code = files.map(|(name, text)| (name.to_owned(), code_of(text)));
    let seen: Vec<_> = arrows(&code)["a"].iter().cloned().collect();
    assert_eq!(seen, ["b", "d", "f", "g"]);
    let map = "//! Arrows are imports\n//! a    -> b, ^c\n//! b ->\npub mod a;";
    let rows = [("a".to_owned(), vec!["b".to_owned(), "^c".to_owned()]), ("b".to_owned(), vec![])];
    assert_eq!(picture(map), rows);
}

/// Each of the packages is in use, and only where it belongs.
#[test]
fn packages_are_used_where_they_belong() {
    let code = code();
    for (package, places) in PACKAGES {
        let named = Regex::new(&format!("(^|[^a-z_:]){package}::")).unwrap();
        let users = code.iter().filter(|(_, code)| code.iter().any(|line| named.is_match(line)));
        let users: Vec<&String> = users.map(|(name, _)| name).collect();
        assert!(!users.is_empty(), "nothing uses {package}");
        let stray = |name: &&&String| !places.iter().any(|place| name.starts_with(place));
        let stray = users.iter().find(|name| !places.is_empty() && stray(name));
        assert_eq!(stray, None, "{package} belongs into {places:?}");
    }
}
