//! Search by payload, and the same done to all that is found: a dry run first, then the change.

use askama::Template;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value};

use crate::http::body::Body;
use crate::http::problem::{NOT_FOUND, Problem};
use crate::http::words::fits;

use super::form::take;
use super::jobs::{self, Job};
use super::pages::{Frame, Reader, decoded};
use super::queue::{Line, line};
use super::show::{self, count, items, whole};
use super::{BASE, Visit, actions, page, redirect};

/// Messages on one page, and searches that one request makes until it has found some.
const COUNT: &[u8] = b"25";
const PAGES_MAX: usize = 10;
/// Bytes of what is searched for, where a run keeps it.
const MATCH_BYTES_MAX: usize = 1_024;

#[derive(Template)]
#[template(path = "find.html")]
struct FindPage {
    frame: Frame,
    name: String,
    queue_path: String,
    here: String,
    pattern: String,
    from: String,
    to: String,
    searched: bool,
    looked: String,
    lines: Vec<Line>,
    next: String,
    /// What may be done to all that match: verb, label and command.
    changes: Vec<(&'static str, &'static str, String)>,
    bulk: String,
}

/// A pattern as people type it: one that has stars, else a part of what is looked for, in which
/// every letter stands for itself.
pub fn as_pattern(text: &str) -> String {
    if text.contains('*') {
        return text.to_owned();
    }
    let mut pattern = "*".to_owned();
    for letter in text.chars() {
        if ['?', '[', '\\'].contains(&letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "*"
}

/// The words of a search behind the queue.
fn search(given: impl Fn(&str) -> String) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    for (option, name) in [("FROM", "from"), ("TO", "to")] {
        let value = given(name);
        if !value.is_empty() {
            words.extend([option.into(), actions::utc(value).into_bytes()]);
        }
    }
    words.push(b"DECODE".to_vec());
    words
}

/// The page that searches a queue.
pub async fn find(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    let queue: &[u8] = &reader.queue;
    let typed = reader.given("match");
    let pattern = as_pattern(typed);
    let mut cursor = reader.given("cursor").to_owned();
    let (mut looked, mut lines) = (0, Vec::new());
    if typed.is_empty() {
        // Whoever may not search here is told so now.
        reader.ask(&[b"DQ.FIND", queue, b"TO", b"0", b"COUNT", b"1"]).await?;
    }
    for _ in 0..PAGES_MAX {
        if typed.is_empty() {
            break;
        }
        let mut words: Vec<Vec<u8>> =
            vec![b"DQ.FIND".to_vec(), queue.to_vec(), b"MATCH".to_vec(), pattern.clone().into()];
        words.extend(search(|name| reader.given(name).to_owned()));
        words.extend([b"COUNT".to_vec(), COUNT.to_vec()]);
        if !cursor.is_empty() {
            words.extend([b"CURSOR".to_vec(), cursor.clone().into()]);
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = reader.ask(&words).await?;
        let (next, found) = show::page(&reply);
        looked += items(&reply).get(1).and_then(whole).unwrap_or(0);
        lines.extend(found.iter().map(|found| line(reader, found)));
        cursor = next.unwrap_or_default();
        if cursor.is_empty() || !lines.is_empty() {
            break;
        }
    }
    let change = |(verb, label, command): &(&'static str, &'static str, &'static str)| {
        let form = format!("{command} MATCH");
        let words: [&[u8]; 4] = [command.as_bytes(), queue, b"MATCH", pattern.as_bytes()];
        reader.may_do(&form).then(|| (*verb, *label, show::command(&words)))
    };
    let template = FindPage {
        frame: reader.frame(&format!("Find \u{b7} {}", show::name(queue))),
        name: show::name(queue),
        queue_path: reader.of_queue(""),
        here: reader.of_queue("/find"),
        pattern: typed.to_owned(),
        from: reader.given("from").to_owned(),
        to: reader.given("to").to_owned(),
        searched: !typed.is_empty(),
        looked: count(looked),
        next: match cursor.as_str() {
            "" => String::new(),
            cursor => reader.with(&[("cursor", cursor)]),
        },
        changes: CHANGES.iter().filter_map(change).filter(|_| !lines.is_empty()).collect(),
        lines,
        bulk: reader.of_queue("/bulk"),
    };
    page(StatusCode::OK, &template)
}

/// What is done to all that match: the verb of the form, its label, and the command.
pub const CHANGES: [(&str, &str, &str); 3] = [
    ("cancel", "Cancel all that match", "DQ.CANCEL"),
    ("fire", "Fire all that match", "DQ.FIRE"),
    ("reschedule", "Reschedule all that match", "DQ.RESCHEDULE"),
];

/// A form about many messages.
pub enum Form {
    /// A dry run of the queue.
    Begin(Vec<u8>),
    /// What a dry run has counted, in earnest.
    Run(String),
    Stop(String),
}

/// The form that is sent to a path, if it is one of these.
pub fn is_form(path: &str) -> Option<Form> {
    let rest = path.strip_prefix(BASE)?;
    let one = |wanted| fits(wanted, rest, decoded).and_then(|mut found| found.pop());
    let text = |bytes| String::from_utf8(bytes).ok();
    if let Some(queue) = one("/queues/{queue}/bulk") {
        return Some(Form::Begin(queue));
    }
    match (one("/jobs/{job}/run"), one("/jobs/{job}/stop")) {
        (Some(id), _) => text(id).map(Form::Run),
        (_, Some(id)) => text(id).map(Form::Stop),
        _ => None,
    }
}

impl Form {
    pub async fn answer(
        self,
        visit: &Visit,
        given: Map<String, Value>,
    ) -> Result<Response<Body>, Problem> {
        // What goes on may always be stopped.
        if visit.settings.ui.read_only && !matches!(self, Self::Stop(_)) {
            let text = "NOPERM the console is for looking only (ui.read_only)";
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        }
        let known = |id: &str| {
            let text = format!("{NOT_FOUND} there is no such run; perhaps it was long ago");
            let job = visit.asked.jobs.get(id, &visit.who);
            job.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, text))
        };
        let job = match self {
            Self::Begin(queue) => begin(visit, queue, given).await?,
            Self::Run(id) => jobs::in_earnest(visit, &known(&id)?).await?,
            Self::Stop(id) => {
                let job = known(&id)?;
                job.stop();
                job.id.clone()
            }
        };
        Ok(redirect(&format!("{BASE}/jobs/{job}")))
    }
}

async fn begin(
    visit: &Visit,
    queue: Vec<u8>,
    mut given: Map<String, Value>,
) -> Result<String, Problem> {
    let verb = take(&mut given, "change").unwrap_or_default();
    let Some((verb, _, command)) = CHANGES.iter().find(|(known, ..)| *known == verb) else {
        return Err(Problem::bad("change must be cancel, fire or reschedule"));
    };
    let typed = take(&mut given, "match").unwrap_or_default();
    if typed.is_empty() {
        return Err(Problem::bad("match is missing"));
    }
    if typed.len() > MATCH_BYTES_MAX {
        let text = format!("match has {} bytes, more than {MATCH_BYTES_MAX}", typed.len());
        return Err(Problem::bad(text));
    }
    let mut words = vec![
        command.as_bytes().to_vec(),
        queue.clone(),
        b"MATCH".to_vec(),
        as_pattern(&typed).into_bytes(),
    ];
    if *verb == "reschedule" {
        let delay = take(&mut given, "delay").unwrap_or_default();
        if !delay.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Problem::bad("delay must be milliseconds, or a number with a unit, as 1h"));
        }
        words.push(delay.into_bytes());
    }
    let text = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    words.extend(search(text));
    jobs::start(visit, Job::dry(&visit.who, queue, verb, words)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (typed, pattern) in
            [("42", "*42*"), ("a*b", "a*b"), ("\\*", "\\*"), ("a?[0]\\", "*a\\?\\[0]\\\\*")]
        {
            assert_eq!(as_pattern(typed), pattern);
        }
        let words = search(|name| match name {
            "from" => "2026-01-31T08:00".to_owned(),
            _ => String::new(),
        });
        assert_eq!(words, [&b"FROM"[..], b"2026-01-31T08:00:00Z", b"DECODE"]);
    }

    #[test]
    fn paths() {
        assert!(matches!(is_form("/ui/queues/a%2Fb/bulk"), Some(Form::Begin(q)) if q == b"a/b"));
        assert!(matches!(is_form("/ui/jobs/x/run"), Some(Form::Run(id)) if id == "x"));
        assert!(is_form("/ui/jobs/x").is_none() && is_form("/ui/jobs/%ff/run").is_none());
    }
}
