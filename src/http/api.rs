//! A request to the API: checked, made into the words of a command, and its reply into JSON.
//!
//! Everything here runs on the thread of HTTP; the broker's thread sees words and gives a reply.
//! Keeps: requests at one time, bytes of a body and large answers at one time are bounded; a caller
//! that has not said its password may send a small body only.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::client::alone::{Ask, Done, Login, Wants, Who};
use crate::command::{Category, Kind as CommandKind, Spec};
use crate::resp::{Reply, Words};

use super::body::{self, Body, Unread};
use super::door::{self, Settings};
use super::problem::{CONFLICT, NOT_FOUND, Problem};
use super::routes::{Answer, BASE, Route};
use super::{Asked, Came, HttpRequest, Serving, ask, json, openapi, words};

/// Requests that the broker's thread answers at one time; others wait.
const REQUESTS_MAX: usize = 32;
/// Requests for messages that the broker's thread answers at one time.
const SHOWN_MAX: usize = 4;
/// Large answers at one time; the place is kept until the client has taken all.
const LARGE_MAX: usize = 2;
/// Searches at one time: while one looks, the next one waits for its turn at the broker.
const SEARCHES_MAX: usize = 2;
/// Time that a request waits for a place of these.
const PLACE_WITHIN: Duration = Duration::from_secs(5);
/// Time for the broker to answer.
const WITHIN: Duration = Duration::from_secs(30);
/// An answer of fewer bytes needs no place.
const LARGE: usize = 64 * 1024;
/// Bytes of a body that are read before its sender has said its password.
const UNKNOWN_BYTES_MAX: usize = 16 * 1024;

/// The places of requests.
pub struct Places {
    all: Arc<Semaphore>,
    shown: Arc<Semaphore>,
    large: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            all: places(REQUESTS_MAX),
            shown: places(SHOWN_MAX),
            large: places(LARGE_MAX),
            searches: places(SEARCHES_MAX),
        }
    }
}

impl Places {
    /// Those that the requests of a route have apart from others.
    fn apart(&self, route: &Route) -> Option<&Arc<Semaphore>> {
        let shows = |spec: &Spec| spec.categories.has(Category::Payload);
        match route.answer {
            // Nothing else waits behind one that takes its time.
            Answer::Search(_) | Answer::Matched(_) => Some(&self.searches),
            _ if words::spec(route).is_some_and(shows) => Some(&self.shown),
            _ => None,
        }
    }

    /// A place of a command that the console runs, if it is one of those.
    pub async fn of(&self, spec: &Spec) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let shows = spec.categories.has(Category::Payload);
        let places = match spec.kind {
            CommandKind::Search => Some(&self.searches),
            _ if shows => Some(&self.shown),
            _ => None,
        };
        match places {
            Some(places) => place(places).await.map(Some),
            None => Ok(None),
        }
    }

    /// A place of a search, however long that takes.
    pub async fn search(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.searches).acquire_owned().await.ok()
    }
}

/// Says if a path is one of the API.
pub fn is_path(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The answer to a request that was refused, with a line of the log.
pub fn refused(refused: Problem, came: &Came) -> Response<Body> {
    let (client, why) = (came.from, &refused.text);
    // Mistakes are for whoever made them; who stays outside, or asks too much, is for people.
    match refused.status {
        StatusCode::FORBIDDEN
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::SERVICE_UNAVAILABLE => warn!(%client, why, "an API request was refused"),
        _ => debug!(%client, why, "an API request was wrong"),
    }
    refused.response()
}

/// Answers a request to the API.
///
/// # Errors
/// It is refused.
pub async fn answer(
    request: Request<Incoming>,
    host: &Authority,
    settings: &Settings,
    asked: &Asked,
    came: &Came,
    serving: &Cell<Serving>,
) -> Result<Response<Body>, Problem> {
    let (Parts { method, uri, headers, .. }, body) = request.into_parts();
    let method = if method == Method::HEAD { Method::GET } else { method };
    settings.admit(host, &method, &headers, came.loopback)?;
    if method == Method::GET && uri.path() == openapi::path() {
        let document = Body::from(openapi::DOCUMENT.clone());
        return Ok(json::response(StatusCode::OK, "application/json", document));
    }
    let (route, segments) = words::find(&method, uri.path()).map_err(missing)?;
    let login = || door::login(&headers);
    let has_body = !body.is_end_stream();
    let query = uri.query().unwrap_or_default();
    let given = if method == Method::GET {
        if has_body {
            return Err(Problem::bad("GET has no body"));
        }
        words::query(query).map_err(Problem::bad)?
    } else if query.is_empty() {
        let small = body.size_hint().upper().is_some_and(|most| most <= UNKNOWN_BYTES_MAX as u64);
        if !small {
            let_in(asked, came, login()?, Wants::Entry).await?;
        }
        read(body, &headers, has_body, settings.body_bytes_max).await?
    } else {
        return Err(Problem::bad(format_args!("{method} has its parameters in the body")));
    };
    let words = words::build(route, segments, given).map_err(Problem::bad)?;
    // Now it waits for the broker, and before for its sender.
    serving.set(Serving::Api);
    run(route, words, login()?, asked, came).await
}

/// No route fits. `methods`: those that there are for the path.
fn missing(methods: Vec<String>) -> Problem {
    if methods.is_empty() {
        let text = format!("{NOT_FOUND} no such path; {} lists all", openapi::path());
        return Problem::new(StatusCode::NOT_FOUND, text);
    }
    let allow = methods.join(", ");
    let text = format!("ERR the methods of this path are {allow}");
    Problem { allow: Some(allow), ..Problem::new(StatusCode::METHOD_NOT_ALLOWED, text) }
}

/// The parameters of a body; none has none.
async fn read(
    body: Incoming,
    headers: &HeaderMap,
    has_body: bool,
    max: usize,
) -> Result<Map<String, Value>, Problem> {
    // A form of another page cannot say this.
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if !kind.map_or(!has_body, |kind| kind.eq_ignore_ascii_case("application/json")) {
        let text = "ERR the body must be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let bytes = body::read(body, max).await.map_err(|why| match why {
        Unread::TooBig => {
            let text = format!("TOOBIG the body has more bytes than http.body_bytes_max, {max}");
            Problem::of(text)
        }
        Unread::Broken => {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "ERR the body did not come in time")
        }
    })?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(given)) => Ok(given),
        Ok(_) => Err(Problem::bad("the body must be an object")),
        Err(error) => Err(Problem::bad(format_args!("the body is no JSON: {error}"))),
    }
}

/// Asks the broker's thread whether a caller may have this.
pub async fn let_in(
    asked: &Asked,
    came: &Came,
    who: impl Into<Who>,
    wants: Wants,
) -> Result<(), Problem> {
    match call(asked, came, who.into(), wants, false).await?.reply {
        Reply::Error(text) => Err(Problem::of(text)),
        _ => Ok(()),
    }
}

pub async fn call(
    asked: &Asked,
    came: &Came,
    who: Who,
    wants: Wants,
    changes: bool,
) -> Result<Done, Problem> {
    // A scrape is not in line behind what others ask.
    let place = match &wants {
        Wants::Metrics => None,
        _ => Some(place(&asked.places.all).await?),
    };
    let from = came.from;
    let question = |reply| HttpRequest::Run(Ask { from, who, wants }, reply);
    let done = ask(&asked.requests, question, WITHIN).await;
    drop(place);
    let done = done.map_err(|why| {
        // It may have begun.
        unanswered(changes && [super::LATE, super::LOST].contains(&why), why)
    })?;
    tokio::time::sleep(done.wait).await;
    Ok(done)
}

fn unanswered(may_be_applied: bool, why: &str) -> Problem {
    let code = if may_be_applied { "UNCERTAIN" } else { "UNAVAILABLE" };
    Problem::of(format!("{code} {why}"))
}

async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let place = timeout(PLACE_WITHIN, Arc::clone(places).acquire_owned()).await;
    let busy = || Problem::of("UNAVAILABLE too many other requests are under way".to_owned());
    place.ok().and_then(Result::ok).ok_or_else(busy)
}

async fn run(
    route: &'static Route,
    words: Words,
    login: Option<Login>,
    asked: &Asked,
    came: &Came,
) -> Result<Response<Body>, Problem> {
    let kept = match asked.places.apart(route) {
        Some(places) => {
            // Who guesses passwords waits outside.
            let_in(asked, came, login.clone(), Wants::Entry).await?;
            Some(place(places).await?)
        }
        None => None,
    };
    let changes = route.method != Method::GET;
    let done = call(asked, came, login.into(), Wants::Command(words), changes).await?;
    let close = done.close;
    let mut large = None;
    let answer = if done.reply.payload_bytes() > LARGE {
        // Whoever holds these is slow, and closed before long.
        large = Arc::clone(&asked.places.large).acquire_owned().await.ok();
        // `/readyz` does not wait for this.
        let made = tokio::task::spawn_blocking(move || made(route.answer, done.reply));
        made.await.map_err(|_| unanswered(changes, super::LOST))?
    } else {
        made(route.answer, done.reply)
    };
    drop(kept);
    let mut response = match answer {
        Ok((status, bytes)) => {
            let body = Body::from(Bytes::from(bytes));
            let body = match large {
                Some(place) => body.holding(place),
                None => body,
            };
            json::response(status, "application/json", body)
        }
        Err(problem) => problem.response(),
    };
    if close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// The answer of a route, made of the reply to its command.
fn made(answer: Answer, reply: Reply) -> Result<(StatusCode, Vec<u8>), Problem> {
    let reply = match reply {
        Reply::Error(text) => return Err(Problem::of(text)),
        reply => reply,
    };
    let gone = || {
        let text = format!("{NOT_FOUND} there is no such message, or it is not pending any more");
        Problem::new(StatusCode::NOT_FOUND, text)
    };
    let mut out = Vec::new();
    let mut field = |name: &str, reply: &Reply| {
        out.extend_from_slice(if out.is_empty() { b"{\"" } else { b",\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        json::write(reply, &mut out);
    };
    let mut status = StatusCode::OK;
    match (answer, reply) {
        (Answer::Done, _) => return Ok((StatusCode::NO_CONTENT, out)),
        (Answer::Created, Reply::Null) => {
            let text = format!("{CONFLICT} nothing was stored, since `if` does not hold");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        (Answer::Id | Answer::Object(_), Reply::Null) => return Err(gone()),
        (Answer::One(_), Reply::Integer(0)) => return Err(gone()),
        (Answer::Created | Answer::Id, id) => {
            if answer == Answer::Created {
                status = StatusCode::CREATED;
            }
            field("id", &id);
        }
        (Answer::AllCreated, ids) => {
            status = StatusCode::CREATED;
            field("ids", &ids);
        }
        (Answer::Number(name) | Answer::One(name), number) => field(name, &number),
        (Answer::Object(_), map) => {
            json::write(&map, &mut out);
            return Ok((status, out));
        }
        (Answer::List(_), Reply::Array(items)) => field("items", &Reply::Array(items)),
        (Answer::List(_), _) => field("items", &Reply::Array(Vec::new())),
        (Answer::Page(_) | Answer::Search(_) | Answer::Matched(_), Reply::Array(page)) => {
            let mut page = page.into_iter();
            let cursor = page.next().filter(|cursor| *cursor != Reply::from("0"));
            field("cursor", &cursor.unwrap_or(Reply::Null));
            if !matches!(answer, Answer::Page(_)) {
                field("looked", &page.next().unwrap_or(Reply::Null));
            }
            let rest = if let Answer::Matched(name) = answer { name } else { "items" };
            field(rest, &page.next().unwrap_or(Reply::Null));
        }
        (Answer::Steps(_), Reply::Map(steps)) => {
            let step = |(from, pending)| Reply::map([("from", from), ("pending", pending)]);
            field("items", &Reply::Array(steps.into_iter().map(step).collect()));
        }
        (Answer::Page(_) | Answer::Search(_) | Answer::Matched(_) | Answer::Steps(_), other) => {
            field("items", &other)
        }
    }
    out.push(b'}');
    Ok((status, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: Answer, reply: Reply) -> (u16, String) {
        match made(answer, reply) {
            Ok((status, bytes)) => (status.as_u16(), String::from_utf8(bytes).unwrap()),
            Err(problem) => (problem.status.as_u16(), problem.text),
        }
    }

    /// A search keeps no place that anything else waits for.
    #[test]
    fn places() {
        let places = Places::default();
        let of = |end: &str| {
            let route = crate::http::routes::ROUTES.iter().find(|route| route.path.ends_with(end));
            places.apart(route.unwrap()).map(|places| places.available_permits())
        };
        let searches = Some(SEARCHES_MAX);
        for end in ["/find", "/matching/cancel", "/matching/fire", "/matching/reschedule"] {
            assert_eq!(of(end), searches, "{end}");
        }
        for end in ["/messages/{message}", "/take", "/messages"] {
            assert_eq!(of(end), Some(SHOWN_MAX), "{end}");
        }
        for end in ["/queues", "/timeline", "/cancel", "/pause"] {
            assert_eq!(of(end), None, "{end}");
        }
    }

    #[test]
    fn answers() {
        let map = || Reply::map([("id", "5-ab".into())]);
        let page =
            |cursor: &'static str| Reply::Array(vec![cursor.into(), Reply::Array(vec![map()])]);
        let nothing = || Reply::Encoded(crate::resp::Encoded::null_array());
        let gone = "NOTFOUND there is no such message, or it is not pending any more";
        let rows = [
            (Answer::Done, Reply::Ok, 204, ""),
            (Answer::Created, "5-ab".into(), 201, r#"{"id":"5-ab"}"#),
            (
                Answer::Created,
                Reply::Null,
                409,
                "CONFLICT nothing was stored, since `if` does not hold",
            ),
            (Answer::AllCreated, Reply::Array(vec!["5-ab".into()]), 201, r#"{"ids":["5-ab"]}"#),
            (Answer::Id, "6-ab".into(), 200, r#"{"id":"6-ab"}"#),
            (Answer::Id, Reply::Null, 404, gone),
            (Answer::Number("n"), Reply::Integer(0), 200, r#"{"n":0}"#),
            (Answer::Number("next"), Reply::Null, 200, r#"{"next":null}"#),
            (Answer::One("n"), Reply::Integer(1), 200, r#"{"n":1}"#),
            (Answer::One("n"), Reply::Integer(0), 404, gone),
            (Answer::Object("X"), map(), 200, r#"{"id":"5-ab"}"#),
            (Answer::Object("X"), Reply::Null, 404, gone),
            (Answer::List("X"), Reply::Array(vec![map()]), 200, r#"{"items":[{"id":"5-ab"}]}"#),
            (Answer::List("X"), nothing(), 200, r#"{"items":[]}"#),
            (Answer::Page("X"), page("0"), 200, r#"{"cursor":null,"items":[{"id":"5-ab"}]}"#),
            (Answer::Page("X"), page("7"), 200, r#"{"cursor":"7","items":[{"id":"5-ab"}]}"#),
            (
                Answer::Search("X"),
                Reply::Array(vec!["0".into(), Reply::Integer(7), Reply::Array(vec![map()])]),
                200,
                r#"{"cursor":null,"looked":7,"items":[{"id":"5-ab"}]}"#,
            ),
            (
                Answer::Matched("n"),
                Reply::Array(vec!["c".into(), Reply::Integer(7), Reply::Integer(2)]),
                200,
                r#"{"cursor":"c","looked":7,"n":2}"#,
            ),
            (
                Answer::Steps("X"),
                Reply::Map(vec![(Reply::Integer(5), Reply::Integer(2))]),
                200,
                r#"{"items":[{"from":5,"pending":2}]}"#,
            ),
            (Answer::Done, Reply::Error("BADID no".into()), 400, "BADID no"),
            (Answer::Done, Reply::Error("UNCERTAIN lost".into()), 504, "UNCERTAIN lost"),
            (Answer::Done, Reply::Error("STRANGE".into()), 500, "STRANGE"),
        ];
        for (answer, reply, status, text) in rows {
            assert_eq!(said(answer, reply), (status, text.to_owned()), "{answer:?}");
        }
    }
}
