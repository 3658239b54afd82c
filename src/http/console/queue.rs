//! The pages about one queue, and about one of its messages.

use askama::Template;
use hyper::{Response, StatusCode};

use crate::http::body::Body;
use crate::http::problem::{NOT_FOUND, Problem};
use crate::resp::Reply;

use super::chart::{Chart, Step};
use super::overview::Figure;
use super::pages::{Button, Frame, Reader, danger};
use super::show::{
    self, Moment, bytes, count, duration, field, milliseconds, number, segment, text,
};
use super::{lists, page};

/// Messages on one page.
const COUNT: &[u8] = b"25";

/// The spans of what falls due: name, words, whole and step in ms, labels below.
const SPANS: [(&str, &str, i64, i64, &[&str]); 4] = [
    ("hour", "next hour", 3_600_000, 60_000, &["now", "+15 min", "+30 min", "+45 min", "+1 h"]),
    ("day", "next day", 86_400_000, 1_440_000, &["now", "+6 h", "+12 h", "+18 h", "+1 d"]),
    ("week", "next week", 604_800_000, 10_080_000, &["now", "+2 d", "+4 d", "+5 d", "+7 d"]),
    ("month", "next 30 days", 2_592_000_000, 43_200_000, &["now", "+10 d", "+20 d", "+30 d"]),
];

/// A pending message in a list.
pub struct Line {
    /// Empty where it has none, and nothing can be done to it here.
    pub id: String,
    pub short: String,
    pub name: String,
    pub due: Option<Moment>,
    pub payload: String,
    pub encoding: String,
    pub path: String,
    pub buttons: Vec<Button>,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    name: String,
    whole_name: String,
    chips: Vec<(String, &'static str)>,
    figures: Vec<Figure>,
    links: Vec<(&'static str, String, String)>,
    facts: Vec<(&'static str, String)>,
    chart: Option<Chart>,
    spans: Vec<(&'static str, String, bool)>,
    lines: Vec<Line>,
    lines_hidden: bool,
    filter: String,
    all: String,
    next: String,
    first: String,
    selected: Vec<Button>,
    offer: Option<Button>,
    pause: Option<Button>,
    resume: Option<Button>,
    clear: Option<Button>,
}

/// A queue.
pub async fn queue(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let raw: &[u8] = &reader.queue;
    // The way of a form that looks for a message by its id or name.
    let wanted = reader.given("key");
    if !wanted.is_empty() {
        return Ok(super::redirect(
            &reader.of_queue(&format!("/messages/{}", segment(wanted.as_bytes()))),
        ));
    }
    let info = reader.ask(&[b"DQ.INFO", raw]).await?;
    let (chart, spans) = falls_due(reader).await?;
    let (from, to, cursor) = (reader.given("from"), reader.given("to"), reader.given("cursor"));
    let may_list = reader.may("DQ.RANGE");
    let (next, lines) = match may_list {
        true => lines(reader, from, to, cursor).await?,
        false => (None, Vec::new()),
    };
    let paused = number(&info, "paused") == 1;
    let of = |label, path: &str, fields: &[_], command: &[&[u8]]| {
        reader.button(label, reader.of_queue(path), fields, command)
    };
    let clear = of("Clear\u{2026}", "/clear", &[], &[b"DQ.CLEAR", raw]);
    let selected = [
        of("Fire selected", "/fire", &[], &[b"DQ.FIRE", raw]),
        danger(
            of("Cancel selected", "/cancel", &[], &[b"DQ.CANCEL", raw]),
            "Cancel what is selected?",
        ),
    ];
    let filter = match (from, to) {
        ("", "") => String::new(),
        (from, to) => format!("due from {} to {}", as_time(from), as_time(to)),
    };
    let template = QueuePage {
        frame: reader.frame(&show::name(raw)),
        name: show::name(raw),
        whole_name: show::line(raw),
        chips: chips(&info, reader.now),
        figures: figures(&info, reader.now),
        links: links(reader, &info),
        facts: facts(&info),
        chart,
        spans,
        lines,
        lines_hidden: !may_list,
        all: reader.with(&[("from", ""), ("to", ""), ("cursor", "")]),
        filter,
        next: next.map(|next| reader.with(&[("cursor", &next)])).unwrap_or_default(),
        first: if cursor.is_empty() { String::new() } else { reader.with(&[("cursor", "")]) },
        selected: selected.into_iter().flatten().collect(),
        offer: of("Offer", "/messages", &[], &[b"DQ.OFFER", raw]),
        pause: of("Pause", "/pause", &[], &[b"DQ.PAUSE", raw]).filter(|_| !paused),
        resume: of("Resume", "/resume", &[], &[b"DQ.RESUME", raw]).filter(|_| paused),
        clear: danger(clear, ""),
    };
    page(StatusCode::OK, &template)
}

fn as_time(text: &str) -> String {
    match text.parse() {
        Ok(ms) => show::instant(ms),
        Err(_) if text.is_empty() => "\u{2026}".to_owned(),
        Err(_) => text.to_owned(),
    }
}

/// What falls due when, and the spans to choose from.
async fn falls_due(
    reader: &Reader<'_>,
) -> Result<(Option<Chart>, Vec<(&'static str, String, bool)>), Problem> {
    let chosen = SPANS.iter().find(|(name, ..)| *name == reader.given("span"));
    let Some((chosen, words, whole, step, labels)) = chosen.or(SPANS.first()) else {
        return Ok((None, Vec::new()));
    };
    if !reader.may("DQ.TIMELINE") {
        return Ok((None, Vec::new()));
    }
    let (from, to) = (reader.now.to_string(), (reader.now + whole).to_string());
    let width = step.to_string();
    let command: [&[u8]; 5] =
        [b"DQ.TIMELINE", &reader.queue, from.as_bytes(), to.as_bytes(), width.as_bytes()];
    let reply = reader.ask(&command).await?;
    let Reply::Map(steps) = &reply else { return Ok((None, Vec::new())) };
    let each = steps.iter().map(|(start, due)| -> Step {
        let start = show::whole(start).unwrap_or(0);
        let due = show::whole(due).unwrap_or(0);
        let title =
            format!("{} due within {} from {}", count(due), duration(*step), show::instant(start));
        let (from, to) = (start.to_string(), (start + step - 1).to_string());
        let link = reader.with(&[("from", &from), ("to", &to), ("cursor", "")]);
        (due, title, if reader.may("DQ.RANGE") { link } else { String::new() })
    });
    let each: Vec<Step> = each.collect();
    let total: i64 = each.iter().map(|(due, ..)| due).sum();
    let title = format!("{} messages fall due in the {words}", count(total));
    let spans = SPANS.iter().map(|(name, words, ..)| {
        (*words, reader.with(&[("span", name), ("cursor", "")]), name == chosen)
    });
    Ok((Some(Chart::new(title, each, labels)), spans.collect()))
}

async fn lines(
    reader: &Reader<'_>,
    from: &str,
    to: &str,
    cursor: &str,
) -> Result<(Option<String>, Vec<Line>), Problem> {
    let from = if from.is_empty() { "-" } else { from };
    let to = if to.is_empty() { "+" } else { to };
    let mut command: Vec<&[u8]> = vec![
        b"DQ.RANGE",
        &reader.queue,
        from.as_bytes(),
        to.as_bytes(),
        b"COUNT",
        COUNT,
        b"DECODE",
    ];
    if !cursor.is_empty() {
        command.extend([&b"CURSOR"[..], cursor.as_bytes()]);
    }
    let reply = reader.ask(&command).await?;
    let (next, rows) = show::page(&reply);
    Ok((next, rows.iter().map(|row| line(reader, row)).collect()))
}

/// A message as a line of a list.
pub fn line(reader: &Reader<'_>, reply: &Reply) -> Line {
    let id = text(reply, "id");
    let path = reader.of_queue(&format!("/messages/{}", segment(id.as_bytes())));
    let of = |label, verb: &str, command: &[u8]| {
        let words: [&[u8]; 3] = [command, &reader.queue, id.as_bytes()];
        let action = reader.of_queue(&format!("/{verb}"));
        reader.button(label, action, &[("messages", &id)], &words)
    };
    let buttons = match id.is_empty() {
        true => Vec::new(),
        false => {
            let cancel = danger(of("Cancel", "cancel", b"DQ.CANCEL"), "Cancel this message?");
            [of("Fire", "fire", b"DQ.FIRE"), cancel].into_iter().flatten().collect()
        }
    };
    let short = match id.char_indices().nth(13) {
        Some((end, _)) => format!("{}\u{2026}", id.get(..end).unwrap_or_default()),
        None => id.clone(),
    };
    Line {
        short,
        name: show::name(bytes(reply, "name")),
        due: Moment::of(reply, "due", reader.now),
        payload: show::payload_line(bytes(reply, "payload")),
        encoding: text(reply, "encoding"),
        path: if id.is_empty() { String::new() } else { path },
        id,
        buttons,
    }
}

/// What is said beside the name.
fn chips(info: &Reply, now: i64) -> Vec<(String, &'static str)> {
    let mut chips = vec![(text(info, "layout"), ""), (text(info, "format"), "")];
    if number(info, "known") == 0 {
        chips = vec![("there is nothing of this queue".to_owned(), "warn")];
    }
    if number(info, "paused_all") == 1 {
        chips.push(("all queues are paused".to_owned(), "warn"));
    } else if number(info, "paused") == 1 {
        chips.push((paused(info, now), "warn"));
    }
    let quarantined = number(info, "quarantined");
    if quarantined > 0 {
        chips.push((format!("{} in quarantine", count(quarantined)), "bad"));
    }
    let takers = number(info, "takers");
    if takers > 0 {
        chips.push((format!("{} wait in DQ.TAKE", count(takers)), "ok"));
    }
    let trouble = text(info, "trouble");
    if !trouble.is_empty() {
        chips.push((trouble, "bad"));
    }
    chips.retain(|(words, _)| !words.is_empty());
    chips
}

fn paused(info: &Reply, now: i64) -> String {
    match number(info, "paused_until") {
        until if until > 0 => format!("paused, goes on {}", Moment::at(until, now).words),
        _ => "paused until it is resumed".to_owned(),
    }
}

fn figures(info: &Reply, now: i64) -> Vec<Figure> {
    let next = Moment::of(info, "next_due", now);
    let overdue = number(info, "oldest_overdue_ms");
    let (due, note) = match &next {
        Some(next) => (next.words.clone(), format!("{} UTC", next.clock)),
        None => ("nothing".to_owned(), "no message is pending".to_owned()),
    };
    let ready = number(info, "ready");
    let late = milliseconds(info, "lateness_p99_ms");
    let most = milliseconds(info, "lateness_max_ms").map(|most| format!("at most {most}"));
    let done = format!(
        "offered \u{b7} {} delivered \u{b7} {} cancelled",
        count(number(info, "delivered")),
        count(number(info, "cancelled"))
    );
    vec![
        Figure::new(
            "Pending",
            count(number(info, "pending")),
            "",
            format!("{} with a name", count(number(info, "named"))),
        ),
        Figure::new("Next due", due, if overdue > 2_000 { "warn" } else { "" }, note),
        Figure::new(
            "Ready in the list",
            count(ready.max(0)),
            if ready > 0 { "warn" } else { "ok" },
            if ready < 0 { "the key holds another type" } else { "waits for consumers" }.to_owned(),
        ),
        Figure::new(
            "Lateness, 99 of 100",
            late.unwrap_or_else(|| "\u{2013}".to_owned()),
            "",
            most.unwrap_or_else(|| "nothing was delivered since the start".to_owned()),
        ),
        Figure::new("Since the start", count(number(info, "offered")), "", done),
    ]
}

/// The other pages about the queue, each with the figure that it is about.
fn links(reader: &Reader<'_>, info: &Reply) -> Vec<(&'static str, String, String)> {
    let rows = [
        ("Find", "/find", "", "DQ.FIND"),
        ("Taken", "/taken", "leased", "DQ.TAKEN"),
        ("Wait for a retry", "/waiting", "waiting", "DQ.TAKEN"),
        ("Dead", "/dead", "dead", "DQ.DEAD"),
        ("Quarantine", "/quarantine", "quarantined", "DQ.QUARANTINE"),
        ("Schedules", "/crons", "crons", "DQ.CRON"),
        ("Settings", "/settings", "", "DQ.SETUP"),
    ];
    let may = rows.into_iter().filter(|(.., needs)| reader.may(needs));
    let link = |(label, path, figure, _): (_, &str, &str, _)| {
        let figure = if figure.is_empty() { String::new() } else { count(number(info, figure)) };
        (label, reader.of_queue(path), figure)
    };
    may.map(link).collect()
}

fn facts(info: &Reply) -> Vec<(&'static str, String)> {
    let rows = [
        ("Taken", "taken"),
        ("Acknowledged", "acked"),
        ("Given back", "nacked"),
        ("Leases that ran out", "lapsed"),
        ("Died", "died"),
        ("Expired", "expired"),
        ("Removed", "removed"),
        ("Held by the rate", "held_by_rate"),
    ];
    let rows = rows.into_iter().map(|(label, name)| (label, number(info, name)));
    rows.filter(|(_, n)| *n > 0).map(|(label, n)| (label, count(n))).collect()
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: Frame,
    queue: String,
    queue_path: String,
    id: String,
    name: String,
    due: Option<Moment>,
    offered: Option<Moment>,
    facts: Vec<(String, String)>,
    encoding: String,
    size: String,
    decoded: Option<String>,
    hex: String,
    buttons: Vec<Button>,
    reschedule: Option<Button>,
}

/// A pending message.
pub async fn message(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let (queue, key): (&[u8], &[u8]) = (&reader.queue, &reader.message);
    let raw = reader.ask(&[b"DQ.GET", queue, key]).await?;
    let payload = bytes(&raw, "payload");
    let (is_gone, size, hex) =
        (matches!(raw, Reply::Null), show::size(payload.len()), show::payload_hex(payload));
    // Two large payloads are not held at one time.
    drop(raw);
    let reply = match is_gone {
        true => Reply::Null,
        false => reader.ask(&[b"DQ.GET", queue, key, b"DECODE"]).await?,
    };
    if matches!(reply, Reply::Null) {
        let text = format!("{NOT_FOUND} there is no such message, or it is not pending any more");
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    }
    let id = text(&reply, "id");
    let path = |verb: &str| reader.of_queue(verb);
    let back = reader.of_queue("");
    // It is gone from here afterwards.
    let of = |label, action: String, fields: &[_], command: &[u8]| {
        let button = reader.button(label, action, fields, &[command, queue, id.as_bytes()]);
        button.map(|mut button| {
            button.fields.retain(|(name, _)| *name != "back");
            button.fields.push(("back", back.clone()));
            button
        })
    };
    let fire = of("Fire now", path("/fire"), &[("messages", &id)], b"DQ.FIRE");
    let cancel = of("Cancel", path("/cancel"), &[("messages", &id)], b"DQ.CANCEL");
    let at = path(&format!("/messages/{}/reschedule", segment(id.as_bytes())));
    let number_of = |label: &str, name: &str| {
        let value = field(&reply, name).and_then(show::whole)?;
        Some((label.to_owned(), count(value)))
    };
    let ttl = field(&reply, "ttl").and_then(show::whole);
    let mut facts: Vec<(String, String)> = [
        ttl.map(|ttl| ("Worth something for".to_owned(), duration(ttl))),
        number_of("Priority", "priority"),
        number_of("Attempts that count", "limit"),
        number_of("Attempt", "attempt"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(Reply::Map(headers)) = field(&reply, "headers") {
        let shown = |bytes: &Reply| match bytes {
            Reply::Bulk(bytes) => show::payload_line(bytes),
            _ => String::new(),
        };
        let lines = headers.iter().take(100);
        facts.extend(lines.map(|(name, value)| (format!("Header {}", shown(name)), shown(value))));
    }
    for name in ["format", "reason"] {
        let value = text(&reply, name);
        if !value.is_empty() {
            let label = if name == "format" { "Stored as" } else { "Reason" };
            facts.push((label.to_owned(), value));
        }
    }
    let template = MessagePage {
        frame: reader.frame(&format!("Message in {}", show::name(queue))),
        queue: show::name(queue),
        queue_path: back.clone(),
        name: show::name(bytes(&reply, "name")),
        due: Moment::of(&reply, "due", reader.now),
        offered: lists::offered_at(&id).map(|ms| Moment::at(ms, reader.now)),
        facts,
        encoding: text(&reply, "encoding"),
        size,
        decoded: show::payload_text(bytes(&reply, "payload")),
        hex,
        buttons: [fire, danger(cancel, "Cancel this message?")].into_iter().flatten().collect(),
        reschedule: of("Reschedule", at, &[], b"DQ.RESCHEDULE"),
        id,
    };
    page(StatusCode::OK, &template)
}
