//! The pages about all queues: the overview, and the list.

use askama::Template;
use futures_util::{StreamExt, stream};
use hyper::{Response, StatusCode};

use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::resp::Reply;

use super::chart::Chart;
use super::find::as_pattern;
use super::page;
use super::pages::{Button, Frame, Reader, queue_path};
use super::show::{self, Moment, bytes, count, duration, number};

/// Queues that are read for one page; the page says if there are more.
const READ: &str = "1000";
/// Queues of the overview that are listed, and that what falls due is counted of: those with the
/// most pending messages.
const LISTED: usize = 12;
const COUNTED: usize = 20;
/// Of these, those that Redis is asked about at one time.
const AT_ONCE: usize = 4;
/// A head that is due for so long is worth a word.
const OVERDUE_MS: i64 = 2_000;

/// A queue in a list.
pub struct Row {
    pub name: String,
    pub path: String,
    pub pending: String,
    pub ready: String,
    pub next: Option<Moment>,
    /// What is to be said of it, and how bad that is: `ok`, `warn` or `bad`.
    pub state: String,
    pub class: &'static str,
    pub pause: Option<Button>,
    raw: Vec<u8>,
    figures: Figures,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    pending: i64,
    ready: i64,
    overdue_ms: i64,
    quarantined: i64,
    paused: bool,
    next: i64,
}

impl Figures {
    /// Less of it stands first where what needs attention does.
    fn calm(&self) -> impl Ord + use<> {
        use std::cmp::Reverse;
        let held = self.overdue_ms > OVERDUE_MS && !self.paused;
        (Reverse(self.quarantined > 0), Reverse(held), Reverse(self.paused), Reverse(self.ready))
    }
}

fn row(reader: &Reader<'_>, reply: &Reply) -> Row {
    let raw = bytes(reply, "queue").to_vec();
    let figures = Figures {
        pending: number(reply, "pending"),
        ready: number(reply, "ready"),
        overdue_ms: number(reply, "overdue_ms"),
        quarantined: number(reply, "quarantined"),
        paused: number(reply, "paused") == 1,
        next: show::field(reply, "next_due").and_then(show::whole).unwrap_or(i64::MAX),
    };
    let overdue = duration(figures.overdue_ms);
    let (class, state) = match figures {
        Figures { quarantined: 1.., .. } => {
            ("bad", format!("{} in quarantine", count(figures.quarantined)))
        }
        Figures { ready: ..=-1, .. } => ("bad", "the list is of another type".to_owned()),
        Figures { paused: true, overdue_ms: 1.., .. } => {
            ("warn", format!("paused, overdue {overdue}"))
        }
        Figures { paused: true, .. } => ("warn", "paused".to_owned()),
        Figures { overdue_ms: OVERDUE_MS.., .. } => ("bad", format!("overdue {overdue}")),
        Figures { ready: 1.., .. } => ("warn", "not consumed".to_owned()),
        _ => ("ok", "ok".to_owned()),
    };
    let (verb, command): (_, &[u8]) = match figures.paused {
        true => ("resume", b"DQ.RESUME"),
        false => ("pause", b"DQ.PAUSE"),
    };
    let label = if figures.paused { "Resume" } else { "Pause" };
    let action = queue_path(&raw, &format!("/{verb}"));
    Row {
        name: show::name(&raw),
        path: queue_path(&raw, ""),
        pending: count(figures.pending),
        ready: count(figures.ready.max(0)),
        next: Moment::of(reply, "next_due", reader.now),
        state,
        class,
        pause: reader.button(label, action, &[], &[command, &raw]),
        raw,
        figures,
    }
}

/// A page of the queues whose names match.
async fn read(
    reader: &Reader<'_>,
    pattern: &str,
    cursor: &str,
    most: &str,
) -> Result<(Option<String>, Vec<Row>), Problem> {
    let mut command: Vec<&[u8]> = vec![b"DQ.QUEUES", b"COUNT", most.as_bytes()];
    let part = as_pattern(pattern);
    if !pattern.is_empty() {
        command.extend([&b"MATCH"[..], part.as_bytes()]);
    }
    if !cursor.is_empty() {
        command.extend([&b"CURSOR"[..], cursor.as_bytes()]);
    }
    let reply = reader.ask(&command).await?;
    let (next, rows) = show::page(&reply);
    Ok((next, rows.iter().map(|reply| row(reader, reply)).collect()))
}

/// One of the figures at the head.
pub struct Figure {
    pub label: &'static str,
    pub value: String,
    pub class: &'static str,
    pub note: String,
    /// A queue that the note is about, and its page.
    pub link: (String, String),
}

impl Figure {
    pub fn new(label: &'static str, value: String, class: &'static str, note: String) -> Self {
        Self { label, value, class, note, link: Default::default() }
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    figures: Vec<Figure>,
    chart: Option<Chart>,
    counted: String,
    rows: Vec<Row>,
    known: String,
    pause: Option<Button>,
    resume: Option<Button>,
    paused_all: bool,
    findings: String,
}

/// The overview.
pub async fn overview(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let (more, mut rows) = read(reader, "", "", READ).await?;
    let info = match reader.may("INFO") {
        true => Some(super::lists::info(reader, &[b"broker", b"backing"]).await?),
        false => None,
    };
    let known = match &more {
        Some(_) => format!("the first {}; there are more", count(rows.len() as i64)),
        None => format!("{} in all", count(rows.len() as i64)),
    };
    let sum = |of: fn(&Figures) -> i64| rows.iter().map(|row| of(&row.figures)).sum::<i64>();
    let (pending, ready) = (sum(|row| row.pending), sum(|row| row.ready.max(0)));
    let quarantined = sum(|row| row.quarantined);
    // Nothing is known to be well where not all is read.
    let of_first = match &more {
        Some(_) => format!(", of the first {}", count(rows.len() as i64)),
        None => String::new(),
    };
    let well = if more.is_none() { "ok" } else { "" };
    let worst = rows.iter().max_by_key(|row| row.figures.overdue_ms);
    let worst = worst.filter(|row| row.figures.overdue_ms > 0);
    let overdue = match worst {
        Some(row) => {
            let late = row.figures.overdue_ms > OVERDUE_MS;
            let note = if row.figures.paused { " is paused" } else { "" };
            let class = if late { "warn" } else { "" };
            let value = duration(row.figures.overdue_ms);
            let link = (row.name.clone(), row.path.clone());
            Figure { link, ..Figure::new("Overdue", value, class, format!("{note}{of_first}")) }
        }
        None => {
            let note = format!("every head is in time{of_first}");
            Figure::new("Overdue", "0 s".to_owned(), well, note)
        }
    };
    let due = match reader.may("DQ.TIMELINE") {
        true => Some(falls_due(reader, &mut rows, more.is_none()).await),
        false => None,
    };
    let soon = due.as_ref().map(|due| {
        let soon = if due.is_whole { count(due.soon) } else { "\u{2013}".to_owned() };
        Figure::new("Due within a minute", soon, "", due.counted.clone())
    });
    let queues = if rows.len() == 1 { "queue" } else { "queues" };
    let mut figures = vec![
        Figure::new(
            "Pending",
            count(pending),
            "",
            match &more {
                Some(_) => format!("in {} {queues} and more", count(rows.len() as i64)),
                None => format!("in {} {queues}", count(rows.len() as i64)),
            },
        ),
        overdue,
        Figure::new(
            "Ready, not consumed",
            count(ready),
            if ready > 0 { "warn" } else { well },
            format!("in the lists of consumers{of_first}"),
        ),
        Figure::new(
            "In quarantine",
            count(quarantined),
            if quarantined > 0 { "bad" } else { well },
            format!("members that nobody can read{of_first}"),
        ),
    ];
    if let Some(soon) = soon {
        figures.insert(1, soon);
    }
    let (chart, counted) = due.map(|due| (due.chart, due.counted)).unzip();
    let of_info = |name: &str| info.as_ref().and_then(|info| info.get(name).cloned());
    if let Some(link) = of_info("redis_link") {
        let note = of_info("backing_version").unwrap_or_default();
        let class = if link == "up" { "ok" } else { "bad" };
        figures.push(Figure::new("Redis", link, class, note));
    }
    rows.sort_by_key(|row| (row.figures.calm(), std::cmp::Reverse(row.figures.pending)));
    rows.truncate(LISTED);
    let all = |label, path: &str, command: &'static str| {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        reader.button(label, path.to_owned(), &[], &words).filter(|_| reader.may(command))
    };
    let template = Overview {
        frame: reader.frame("Overview"),
        figures,
        chart,
        counted: counted.unwrap_or_default(),
        rows,
        known,
        pause: all("Pause all", "/ui/pause", "DQ.PAUSE ALL"),
        resume: all("Resume all", "/ui/resume", "DQ.RESUME ALL"),
        paused_all: of_info("paused_all").as_deref() == Some("1"),
        findings: of_info("audit_findings").unwrap_or_default().replace(',', ", "),
    };
    page(StatusCode::OK, &template)
}

/// What falls due within an hour.
struct Due {
    chart: Chart,
    /// Messages of the first minute.
    soon: i64,
    /// The queues that are counted.
    counted: String,
    /// Each of them could be.
    is_whole: bool,
}

/// Counts what falls due; `all`: the rows are those of all queues.
async fn falls_due(reader: &Reader<'_>, rows: &mut [Row], all: bool) -> Due {
    rows.sort_by_key(|row| std::cmp::Reverse(row.figures.pending));
    let full = rows.iter().filter(|row| row.figures.pending > 0);
    let counted = match full.clone().count() {
        0..=COUNTED if all => "all queues".to_owned(),
        many => format!("the {} queues with most pending messages", many.min(COUNTED)),
    };
    // Those that have nothing in this hour need not be asked.
    let hour = full.take(COUNTED).filter(|row| row.figures.next < reader.now + 3_600_000);
    let from = reader.now.to_string();
    let to = (reader.now + 3_600_000).to_string();
    let asked = hour.map(|row| {
        let command: [&[u8]; 5] =
            [b"DQ.TIMELINE", &row.raw, from.as_bytes(), to.as_bytes(), b"60000"];
        let command = command.map(<[u8]>::to_vec);
        async move {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            reader.ask(&words).await.ok()
        }
    });
    let mut minutes = vec![0_i64; 60];
    let replies: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    let mut failed = 0;
    for reply in replies {
        let Some(Reply::Map(steps)) = reply else {
            failed += 1;
            continue;
        };
        for (minute, (_, due)) in minutes.iter_mut().zip(&steps) {
            *minute += show::whole(due).unwrap_or(0);
        }
    }
    let soon = minutes.first().copied().unwrap_or(0);
    let total: i64 = minutes.iter().sum();
    let steps = minutes.into_iter().enumerate().map(|(minute, due)| {
        let start = show::instant(reader.now + minute as i64 * 60_000);
        let start = start.get(11..16).unwrap_or_default();
        (due, format!("{} due in the minute from {start} UTC", count(due)), String::new())
    });
    let title = format!("{} messages fall due within an hour, by minute", count(total));
    let columns = ["now", "+15 min", "+30 min", "+45 min", "+1 h"];
    let counted = match failed {
        0 => counted,
        failed => format!("{counted}; {failed} of them could not be counted"),
    };
    Due {
        chart: Chart::new(title, steps.collect(), &columns),
        soon,
        counted,
        is_whole: failed == 0,
    }
}

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    frame: Frame,
    rows: Vec<Row>,
    pattern: String,
    /// Name, its words, and whether the list is sorted by it.
    sorts: Vec<(&'static str, &'static str, bool)>,
    note: String,
    next: String,
    first: String,
}

const SORTS: [(&str, &str); 6] = [
    ("", "needs attention first"),
    ("name", "by name"),
    ("pending", "most pending first"),
    ("next", "next due first"),
    ("overdue", "longest overdue first"),
    ("ready", "most not consumed first"),
];

/// The list of queues.
pub async fn queues(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    use std::cmp::Reverse;
    let (pattern, sort, cursor) =
        (reader.given("match"), reader.given("sort"), reader.given("cursor"));
    let by_name = sort == "name";
    let most = if by_name { "100" } else { READ };
    let (next, mut rows) = read(reader, pattern, cursor, most).await?;
    match sort {
        "name" => rows.sort_by(|a, b| a.raw.cmp(&b.raw)),
        "pending" => rows.sort_by_key(|row| Reverse(row.figures.pending)),
        "next" => rows.sort_by_key(|row| row.figures.next),
        "overdue" => rows.sort_by_key(|row| Reverse(row.figures.overdue_ms)),
        "ready" => rows.sort_by_key(|row| Reverse(row.figures.ready)),
        _ => rows.sort_by_key(|row| (row.figures.calm(), Reverse(row.figures.pending))),
    }
    let shown = rows.len().min(200);
    let note = match (&next, rows.len() > shown) {
        _ if by_name => String::new(),
        (None, false) => format!("{} in all", count(shown as i64)),
        (None, true) => format!("{} of {}", shown, count(rows.len() as i64)),
        (Some(_), _) => format!(
            "{shown} of {} that were read; there are more: filter by name, or go on to the next",
            count(rows.len() as i64)
        ),
    };
    rows.truncate(shown);
    let template = Queues {
        frame: reader.frame("Queues"),
        rows,
        pattern: pattern.to_owned(),
        sorts: SORTS.iter().map(|(key, words)| (*key, *words, *key == sort)).collect(),
        note,
        next: next.map(|next| reader.with(&[("cursor", &next)])).unwrap_or_default(),
        first: if cursor.is_empty() { String::new() } else { reader.with(&[("cursor", "")]) },
    };
    page(StatusCode::OK, &template)
}
