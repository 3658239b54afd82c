//! Pages, their sections and tables, and the source, as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

pub fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// README.md and each page of docs, by its path.
pub fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = sources(&root.join("docs"), "md").into_iter();
    let found = found.map(|path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
    let mut pages: Vec<String> = found.chain(["README.md".to_owned()]).collect();
    pages.sort();
    pages
}

/// The text of all pages.
pub fn docs() -> String {
    pages().iter().map(|page| file(page) + "\n").collect()
}

/// The text below a heading of a page, up to the next one of the same or a higher level.
pub fn section(page: &str, heading: &str) -> String {
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
pub fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
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
pub fn quoted(text: &str) -> BTreeSet<String> {
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let text = blocks.replace_all(text, "");
    let spans = Regex::new(r"`([^`\n]+)`").unwrap();
    let span = |found: regex::Captures<'_>| found[1].replace("\\|", "|");
    spans.captures_iter(&text).map(span).collect()
}

/// They are the same words.
pub fn same(what: &str, docs: &BTreeSet<String>, program: &BTreeSet<String>) {
    let unsaid: Vec<_> = program.difference(docs).collect();
    let untrue: Vec<_> = docs.difference(program).collect();
    assert!(unsaid.is_empty(), "the docs lack the {what} {unsaid:?}");
    assert!(untrue.is_empty(), "the docs have the {what} {untrue:?}");
}

pub fn sources(dir: &Path, ending: &str) -> Vec<PathBuf> {
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
pub fn source() -> String {
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
