//! How pages are linked and written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::page::{file, pages};

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

/// The first page is short.
#[test]
fn readme_is_one_page() {
    let text = file("README.md");
    assert!(text.len() <= 10 * 1024, "README.md has {} bytes", text.len());
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
