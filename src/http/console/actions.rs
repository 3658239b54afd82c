//! The forms of pages: rows of the table of routes, and the few that only the console has.

use hyper::{Method, Response, StatusCode};
use serde_json::{Map, Value};
use tracing::warn;

use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::routes::{Answer, FORMS, ROUTES, Route};
use crate::http::words;
use crate::resp::Reply;

use super::form::take;
use super::pages::{decoded, own_path};
use super::{BASE, Visit, redirect, show};

/// Those of the API that pages have buttons for; a command that hands messages out is none.
const OF_THE_API: [&str; 17] = [
    "/queues/{queue}/messages",
    "/queues/{queue}/messages/{message}/fire",
    "/queues/{queue}/messages/{message}/reschedule",
    "/queues/{queue}/cancel",
    "/queues/{queue}/fire",
    "/queues/{queue}/clear",
    "/queues/{queue}/pause",
    "/queues/{queue}/resume",
    "/pause",
    "/resume",
    "/queues/{queue}/dead/requeue",
    "/queues/{queue}/dead/drop",
    "/queues/{queue}/quarantine/restore",
    "/queues/{queue}/quarantine/drop",
    "/queues/{queue}/crons/{cron}/pause",
    "/queues/{queue}/crons/{cron}/resume",
    "/queues/{queue}/settings",
];

/// Every form.
pub fn all() -> impl Iterator<Item = &'static Route> {
    let posts = ROUTES.iter().filter(|route| route.method == Method::POST);
    posts.filter(|route| OF_THE_API.contains(&route.path)).chain(FORMS)
}

/// Does what a form asks, and sends the browser back to the page.
pub async fn answer(
    visit: &Visit,
    path: &str,
    mut given: Map<String, Value>,
) -> Result<Response<Body>, Problem> {
    let rest = path.strip_prefix(BASE).unwrap_or_default();
    let (route, segments) = words::find_in(all(), &Method::POST, rest, decoded).map_err(|_| {
        let text = "ERR no form is sent to this path";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
    })?;
    if visit.settings.ui.read_only {
        let text = "NOPERM the console is for looking only (ui.read_only)";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    let back = take(&mut given, "back").unwrap_or_default();
    let typed = take(&mut given, "confirm").unwrap_or_default();
    let queue = segments.first().cloned().unwrap_or_default();
    if route.command == "DQ.CLEAR" && !confirms(&typed, &show::line(&queue)) {
        let text = "ERR the name that was typed is not that of the queue; nothing was dropped";
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    moment(&mut given);
    if route.path.ends_with("/settings") {
        setting(&mut given);
    }
    let lists = ["messages", "ids", "members"];
    let chooses = route.words.iter().find(|word| lists.contains(&word.name));
    if let Some(word) = chooses.filter(|word| !given.contains_key(word.name)) {
        // Without any, some commands would take all that there are.
        return Err(Problem::bad(format_args!("no {} are selected", word.name)));
    }
    let command = words::build(route, segments, given).map_err(Problem::bad)?;
    let reply = match visit.run(command, true).await {
        // The way back asks nothing again, where the answer to the form would do so.
        Err(problem) if problem.status == StatusCode::GATEWAY_TIMEOUT => {
            warn!(why = problem.text, "it is not known whether a form of the console was done");
            return Ok(came_back(&back, "uncertain", 0));
        }
        reply => reply?,
    };
    let (done, count) = match (route.answer, reply) {
        (Answer::Created, Reply::Null) => {
            return Err(Problem::of("ERR nothing was stored: the name is in use".to_owned()));
        }
        (Answer::Id, Reply::Null) => {
            return Err(Problem::of("ERR the message is not pending any more".to_owned()));
        }
        (Answer::Created, _) => ("offered", 0),
        (Answer::Id, _) => ("rescheduled", 0),
        (Answer::Number(verb) | Answer::One(verb), reply) => {
            (verb, show::whole(&reply).unwrap_or(0))
        }
        _ => ("done", 0),
    };
    Ok(came_back(&back, done, count))
}

/// The way back to the page of the form, which says what was done.
fn came_back(back: &str, done: &str, count: i64) -> Response<Body> {
    let back = match own_path(back) {
        "" => "/ui/",
        back => back,
    };
    let mark = if back.contains('?') { '&' } else { '?' };
    redirect(&format!("{back}{mark}done={done}&n={count}"))
}

/// Whether the name of a queue is typed as a page shows it; it may have white space of its own.
fn confirms(typed: &str, shown: &str) -> bool {
    !typed.is_empty() && (typed == shown || typed.trim() == shown)
}

/// A time as a browser's field gives it, which has no zone, and is one of UTC here. Others stay.
pub fn utc(given: String) -> String {
    let zone = given.split_once('T').map(|(_, clock)| clock.contains(['Z', 'z', '+', '-']));
    match zone {
        Some(false) if given.len() == "2026-01-31T08:00".len() => given + ":00Z",
        Some(false) => given + "Z",
        _ => given,
    }
}

/// A time that a browser's field gives, which is one of UTC here.
fn moment(given: &mut Map<String, Value>) {
    if let Some(at) = take(given, "at_utc") {
        given.insert("at".to_owned(), Value::String(utc(at)));
    }
}

/// A setting by its name and value; without a value it is unset.
fn setting(given: &mut Map<String, Value>) {
    if let Some(name) = take(given, "setting") {
        let value = take(given, "value").map_or(Value::Null, Value::String);
        given.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_route() {
        assert_eq!(all().count(), OF_THE_API.len() + FORMS.len());
    }

    #[test]
    fn names_are_typed() {
        for (typed, shown, wanted) in [
            ("q", "q", true),
            (" q ", "q", true),
            (" q", " q", true),
            ("q", " q", false),
            ("", "q", false),
            ("", "", false),
            ("", "  ", false),
            ("  ", "  ", true),
        ] {
            assert_eq!(confirms(typed, shown), wanted, "{typed:?} {shown:?}");
        }
    }

    #[test]
    fn times_are_those_of_utc() {
        for (given, wanted) in [
            ("2026-01-31T08:00", "2026-01-31T08:00:00Z"),
            ("2026-01-31T08:00:05", "2026-01-31T08:00:05Z"),
            ("2026-01-31T08:00:05.25", "2026-01-31T08:00:05.25Z"),
            ("2026-01-31T08:00:05+01:00", "2026-01-31T08:00:05+01:00"),
            ("2026-01-31T08:00:05Z", "2026-01-31T08:00:05Z"),
            ("1795331479812", "1795331479812"),
        ] {
            let mut form = Map::from_iter([("at_utc".to_owned(), Value::from(given))]);
            moment(&mut form);
            assert_eq!(form["at"], wanted);
        }
    }
}
