//! What pages show of a shell is typed, and compared with what comes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use delay_broker::command::TABLE;
use delay_broker::command::examples::PENDING;
use regex::Regex;

use crate::page::{file, quoted, rows};
use crate::support::broker::Broker;
use crate::support::redis::Redis;

/// A command of a block for people, and the reply that stands below it.
pub struct Typed {
    pub command: String,
    pub reply: String,
}

/// The commands of each ```console block of a text, block by block.
pub fn consoles(text: &str) -> Vec<Vec<Typed>> {
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
