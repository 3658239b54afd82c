//! The pages that are one table each: of a queue, its taken, waiting, dead and quarantined
//! messages, its schedules and settings; of the broker, its state and its settings.

use std::collections::BTreeMap;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::{Response, StatusCode};

use crate::client::alone::Wants;
use crate::domain::snowflake;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::resp::Reply;

use super::page;
use super::pages::{Button, Frame, Reader, danger};
use super::show::{self, Moment, bytes, count, items, number, segment, text};

/// Rows of one page.
const COUNT: &[u8] = b"50";

/// A cell of a table.
#[derive(Default)]
pub struct Cell {
    pub text: String,
    pub link: String,
    pub moment: Option<Moment>,
    /// Of the style sheet: `n` for figures, `code`, `ok`, `warn`, `bad`.
    pub class: &'static str,
}

impl Cell {
    fn of(class: &'static str, text: String) -> Self {
        Self { text, class, ..Self::default() }
    }

    fn plain(text: String) -> Self {
        Self::of("", text)
    }

    fn code(text: String) -> Self {
        Self::of("code", text)
    }

    fn count(reply: &Reply, name: &str) -> Self {
        Self::of("n", count(number(reply, name)))
    }

    fn time(reply: &Reply, name: &str, now: i64) -> Self {
        Self { moment: Moment::of(reply, name, now), ..Self::default() }
    }
}

pub struct Line {
    pub cells: Vec<Cell>,
    pub buttons: Vec<Button>,
}

/// A form of some fields: label, name, value, hint, and whether it has to be filled in.
pub struct Form {
    pub title: &'static str,
    pub button: Button,
    pub fields: Vec<(&'static str, &'static str, &'static str, bool)>,
}

pub struct Table {
    pub title: &'static str,
    pub note: &'static str,
    pub columns: Vec<&'static str>,
    pub lines: Vec<Line>,
    pub empty: &'static str,
    pub next: String,
}

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage {
    frame: Frame,
    heading: String,
    /// The queue, and its page.
    queue: (String, String),
    buttons: Vec<Button>,
    forms: Vec<Form>,
    tables: Vec<Table>,
}

/// A page about the queue.
fn of_queue(
    reader: &Reader<'_>,
    heading: &str,
    buttons: Vec<Button>,
    forms: Vec<Form>,
    table: Table,
) -> Result<Response<Body>, Problem> {
    let name = show::name(&reader.queue);
    let template = ListPage {
        frame: reader.frame(&format!("{heading} \u{b7} {name}")),
        heading: heading.to_owned(),
        queue: (name, reader.of_queue("")),
        buttons,
        forms,
        tables: vec![table],
    };
    page(StatusCode::OK, &template)
}

/// A page of rows.
async fn rows(reader: &Reader<'_>, command: &[&[u8]]) -> Result<(String, Vec<Reply>), Problem> {
    let mut command = command.to_vec();
    command.extend([b"COUNT", COUNT]);
    let cursor = reader.given("cursor");
    if !cursor.is_empty() {
        command.extend([&b"CURSOR"[..], cursor.as_bytes()]);
    }
    let reply = reader.ask(&command).await?;
    let (next, rows) = show::page(&reply);
    let next = next.map(|next| reader.with(&[("cursor", &next)])).unwrap_or_default();
    Ok((next, rows.to_vec()))
}

pub async fn taken(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    held(reader, b"LEASED", "until", "Taken").await
}

pub async fn waiting(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    held(reader, b"WAITING", "from", "Wait for a retry").await
}

async fn held(
    reader: &Reader<'_>,
    which: &[u8],
    moment: &'static str,
    title: &'static str,
) -> Result<Response<Body>, Problem> {
    let (next, rows) = rows(reader, &[b"DQ.TAKEN", &reader.queue, which]).await?;
    let line = |reply: &Reply| Line {
        cells: vec![
            Cell::code(text(reply, "id")),
            Cell::count(reply, "attempt"),
            Cell::time(reply, moment, reader.now),
            Cell::code(text(reply, "reason")),
        ],
        buttons: Vec::new(),
    };
    let leased = which == b"LEASED";
    let table = Table {
        title: "",
        note: match leased {
            true => "Consumers have these until their leases end, unless they settle them before.",
            false => "These failed, and can be taken again later.",
        },
        columns: vec![
            "Id",
            "Attempt",
            if leased { "Lease ends" } else { "Can be taken" },
            "Reason",
        ],
        lines: rows.iter().map(line).collect(),
        empty: "There are none.",
        next,
    };
    of_queue(reader, title, Vec::new(), Vec::new(), table)
}

pub async fn dead(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let (next, rows) = rows(reader, &[b"DQ.DEAD", &reader.queue, b"LIST"]).await?;
    let line = |reply: &Reply| {
        let id = text(reply, "id");
        let of = |label, verb: &str, word: &[u8]| {
            let words: [&[u8]; 4] = [b"DQ.DEAD", &reader.queue, word, id.as_bytes()];
            let action = reader.of_queue(&format!("/dead/{verb}"));
            reader.button(label, action, &[("ids", &id)], &words)
        };
        let drop = danger(of("Drop", "drop", b"DROP"), "Delete this message?");
        Line {
            cells: vec![
                Cell::code(show::payload_line(bytes(reply, "payload"))),
                Cell::code(text(reply, "reason")),
                Cell::count(reply, "attempts"),
                Cell::time(reply, "died", reader.now),
                Cell::code(id.clone()),
            ],
            buttons: [of("Requeue", "requeue", b"REQUEUE"), drop].into_iter().flatten().collect(),
        }
    };
    let table = Table {
        title: "",
        note: "Messages whose attempts are used up. One that is requeued has all of them again.",
        columns: vec!["Payload", "Reason", "Attempts", "Died", "Id"],
        lines: rows.iter().map(line).collect(),
        empty: "No message is dead.",
        next,
    };
    of_queue(reader, "Dead", Vec::new(), Vec::new(), table)
}

pub async fn quarantine(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let command: [&[u8]; 5] = [b"DQ.QUARANTINE", &reader.queue, b"LIST", b"COUNT", COUNT];
    let reply = reader.ask(&command).await?;
    let line = |reply: &Reply| {
        let member = bytes(reply, "member");
        let field = STANDARD.encode(member);
        let of = |label, verb: &str, word: &[u8]| {
            let words: [&[u8]; 4] = [b"DQ.QUARANTINE", &reader.queue, word, member];
            let action = reader.of_queue(&format!("/quarantine/{verb}"));
            reader.button(label, action, &[("members_base64", &field)], &words)
        };
        let drop = danger(of("Drop", "drop", b"DROP"), "Delete this member?");
        Line {
            cells: vec![
                Cell::code(show::payload_line(member)),
                Cell::of("n", show::size(member.len())),
                Cell::time(reply, "due", reader.now),
            ],
            buttons: [of("Restore", "restore", b"RESTORE"), drop].into_iter().flatten().collect(),
        }
    };
    let table = Table {
        title: "",
        note: "Members that nobody of ours wrote, or that somebody damaged: the broker cannot read \
               them, and put them aside so that the rest of the queue goes on.",
        columns: vec!["Member", "Size", "Due"],
        lines: items(&reply).iter().map(line).collect(),
        empty: "Nothing is in quarantine.",
        next: String::new(),
    };
    of_queue(reader, "Quarantine", Vec::new(), Vec::new(), table)
}

pub async fn crons(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let queue: &[u8] = &reader.queue;
    let (next, rows) = rows(reader, &[b"DQ.CRON", queue, b"LIST"]).await?;
    let line = |reply: &Reply| {
        let name = bytes(reply, "name");
        let paused = number(reply, "paused") == 1;
        let of = |label, verb: &str, word: &[u8]| {
            let words: [&[u8]; 4] = [b"DQ.CRON", queue, word, name];
            let action = reader.of_queue(&format!("/crons/{}/{verb}", segment(name)));
            reader.button(label, action, &[], &words)
        };
        let turn = match paused {
            true => of("Resume", "resume", b"RESUME"),
            false => of("Pause", "pause", b"PAUSE"),
        };
        let delete = danger(of("Delete", "delete", b"DEL"), "Forget this schedule?");
        let next = match paused {
            true => Cell::of("warn", "paused".to_owned()),
            false => Cell::time(reply, "next", reader.now),
        };
        Line {
            cells: vec![
                Cell::code(show::name(name)),
                Cell::code(text(reply, "expression")),
                Cell::plain(text(reply, "tz")),
                next,
                Cell::plain(text(reply, "overlap")),
                Cell::of("n", show::size(usize::try_from(number(reply, "bytes")).unwrap_or(0))),
            ],
            buttons: [turn, delete].into_iter().flatten().collect(),
        }
    };
    let table = Table {
        title: "",
        note: "Each offers its payload again and again.",
        columns: vec!["Name", "Expression", "Time zone", "Next", "Overlap", "Payload"],
        lines: rows.iter().map(line).collect(),
        empty: "The queue has no schedule.",
        next,
    };
    let words: [&[u8]; 6] = [b"DQ.CRON", queue, b"SET", b"NAME", b"EXPRESSION", b"PAYLOAD"];
    let button = reader.button("Set", reader.of_queue("/crons"), &[], &words);
    let form = button.map(|button| Form {
        title: "Set a schedule",
        button,
        fields: vec![
            ("Name", "cron", "nightly", true),
            ("Expression", "expression", "0 3 * * * or every 15m", true),
            ("Payload", "payload", "", false),
            ("Time zone", "tz", "Europe/Berlin", false),
        ],
    });
    of_queue(reader, "Schedules", Vec::new(), form.into_iter().collect(), table)
}

pub async fn queue_settings(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let queue: &[u8] = &reader.queue;
    let reply = reader.ask(&[b"DQ.SETUP", queue]).await?;
    let line = |reply: &Reply| {
        let name = text(reply, "setting");
        let origin = text(reply, "origin");
        let words: [&[u8]; 4] = [b"DQ.SETUP", queue, name.as_bytes(), b"DEFAULT"];
        let action = reader.of_queue("/settings");
        let unset = reader.button("Unset", action, &[("setting", &name)], &words);
        Line {
            cells: vec![
                Cell::code(name.clone()),
                Cell::code(value(show::field(reply, "value"))),
                Cell::plain(origin.clone()),
            ],
            buttons: unset.filter(|_| origin == "setup").into_iter().collect(),
        }
    };
    let table = Table {
        title: "",
        note: "All brokers go by these. A queue goes by default, by what was set for it, or by \
               [[queues]] in the file of a broker.",
        columns: vec!["Setting", "Value", "From"],
        lines: items(&reply).iter().map(line).collect(),
        empty: "There are none.",
        next: String::new(),
    };
    let words: [&[u8]; 4] = [b"DQ.SETUP", queue, b"SETTING", b"VALUE"];
    let button = reader.button("Set", reader.of_queue("/settings"), &[], &words);
    let form = button.map(|button| Form {
        title: "Change a setting",
        button,
        fields: vec![("Setting", "setting", "limit", true), ("Value", "value", "5", true)],
    });
    of_queue(reader, "Settings", Vec::new(), form.into_iter().collect(), table)
}

fn value(reply: Option<&Reply>) -> String {
    match reply {
        Some(Reply::Bulk(bytes)) => show::line(bytes),
        Some(Reply::Integer(n)) => n.to_string(),
        Some(Reply::Double(n)) => n.to_string(),
        Some(Reply::Simple(text)) => (*text).to_string(),
        _ => String::new(),
    }
}

/// Fields of INFO.
pub async fn info(
    reader: &Reader<'_>,
    sections: &[&[u8]],
) -> Result<BTreeMap<String, String>, Problem> {
    let command: Vec<&[u8]> = [&b"INFO"[..]].into_iter().chain(sections.iter().copied()).collect();
    let Reply::Bulk(text) = reader.ask(&command).await? else { return Ok(BTreeMap::new()) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The sections of INFO that are shown, and what they are about.
const SECTIONS: [(&str, &str); 6] = [
    ("Broker", "This broker."),
    ("Backing", "The Redis behind it."),
    ("Server", "The process."),
    ("Clients", "Clients of the Redis protocol."),
    ("Memory", "What the process holds."),
    (
        "Messages",
        "Of all queues, since this broker started; and what Redis held a few seconds ago.",
    ),
];

pub async fn server(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let findings = reader.visit.call(Wants::Findings, false).await?;
    let lines = items(&findings).iter().filter_map(|finding| {
        let [Reply::Bulk(word), Reply::Bulk(text)] = items(finding) else { return None };
        let cells = vec![Cell::of("warn", show::line(word)), Cell::of("wide", show::line(text))];
        Some(Line { cells, buttons: Vec::new() })
    });
    let mut tables = vec![Table {
        title: "Findings of the audit",
        note: "Redis is looked at after each connection and each minute.",
        columns: vec!["Finding", "What it is about, and what to do"],
        lines: lines.collect(),
        empty: "The audit found nothing to complain of.",
        next: String::new(),
    }];
    for (title, note) in SECTIONS {
        let fields = info(reader, &[title.as_bytes()]).await?;
        let line = |(name, value): (String, String)| {
            let class = match (name.as_str(), value.as_str()) {
                ("redis_link", "down") | ("ready", "0") => "bad",
                ("audit_findings", found) if !found.is_empty() => "warn",
                ("paused_all", "1") => "warn",
                _ => "code",
            };
            let name = Cell::plain(name.replace('_', " "));
            Line { cells: vec![name, Cell::of(class, value)], buttons: Vec::new() }
        };
        let lines = fields.into_iter().map(line).collect();
        let columns = vec!["Field", "Value"];
        tables.push(Table { title, note, columns, lines, empty: "Nothing.", next: String::new() });
    }
    let template = ListPage {
        frame: reader.frame("Broker & Redis"),
        heading: "Broker & Redis".to_owned(),
        queue: Default::default(),
        buttons: Vec::new(),
        forms: Vec::new(),
        tables,
    };
    page(StatusCode::OK, &template)
}

pub async fn settings(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let reply = reader.ask(&[b"CONFIG", b"GET", b"*.*"]).await?;
    let fields = match &reply {
        Reply::Map(fields) => fields.as_slice(),
        _ => &[],
    };
    let mut lines: Vec<Line> = Vec::new();
    for (key, value) in fields {
        let (Reply::Bulk(key), Reply::Bulk(value)) = (key, value) else { continue };
        lines.push(Line {
            cells: vec![Cell::code(show::line(key)), Cell::code(show::line(value))],
            buttons: Vec::new(),
        });
    }
    let table = Table {
        title: "",
        note: "As they are in effect on this broker. They are read at start and at SIGHUP; secrets \
               are hidden.",
        columns: vec!["Setting", "Value"],
        lines,
        empty: "There are none.",
        next: String::new(),
    };
    let template = ListPage {
        frame: reader.frame("Settings"),
        heading: "Settings".to_owned(),
        queue: Default::default(),
        buttons: Vec::new(),
        forms: Vec::new(),
        tables: vec![table],
    };
    page(StatusCode::OK, &template)
}

/// The moment at which a message with this id was offered, if a broker made the id.
pub fn offered_at(id: &str) -> Option<i64> {
    let (_, digits) = id.split_once('-').filter(|(_, digits)| digits.len() == 16)?;
    let id = u64::from_str_radix(digits, 16).ok()?;
    i64::try_from(snowflake::made_at(id)).ok()
}
