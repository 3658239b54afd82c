//! The clients that pages name, and their lines: those of the programs of tests/interop.

use std::collections::BTreeSet;

use regex::Regex;

use crate::page::{file, rows, same, section};

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
