//! Pages that stay current: a stream of events with the parts of a page that have changed.
//!
//! A page is made again once a second while somebody looks at it, by the same way as for a reader,
//! with his rights; all that look at the same page in one session share it. Keeps: at most
//! [`STREAMS_MAX`] streams; a stream ends after [`STREAM_LASTS`], and the browser comes again; with
//! nobody looking nothing is made.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{interval, timeout};

use crate::client::alone::{Wants, Who};
use crate::client::sessions::Token;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::words;

use super::{Visit, html, pages};

pub const STREAMS_MAX: usize = 32;
/// Below the time of a connection.
const STREAM_LASTS: Duration = Duration::from_secs(50);
const EVERY: Duration = Duration::from_secs(1);
/// Around a part of a page that is to stay current.
const BEGIN: &str = "<!--live-->";
const END: &str = "<!--/live-->";

/// Session and page.
type Looked = (Option<Token>, String);

pub struct Live {
    streams: Arc<Semaphore>,
    pages: RefCell<HashMap<Looked, watch::Receiver<Made>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self { streams: Arc::new(Semaphore::new(STREAMS_MAX)), pages: RefCell::default() }
    }
}

/// A page as it was made last.
#[derive(Clone, Default)]
struct Made {
    /// When that began.
    at: Option<Instant>,
    parts: Arc<Vec<String>>,
    now: i64,
    /// Why it could not be made: code and sentence.
    wrong: Option<(bool, String)>,
}

/// The stream of a page.
pub async fn answer(
    visit: &Rc<Visit>,
    query: &Map<String, Value>,
) -> Result<Response<Body>, Problem> {
    // Whoever is not let in is told so before a stream begins.
    visit.call(Wants::Entry, false).await?;
    let page = query.get("page").and_then(Value::as_str).unwrap_or_default();
    let page = pages::own_path(page);
    if page.is_empty() || page.starts_with("/ui/live") {
        return Err(Problem::bad("page must be a path of the console"));
    }
    let Ok(place) = Arc::clone(&visit.asked.live.streams).try_acquire_owned() else {
        let text = format!("UNAVAILABLE {STREAMS_MAX} other pages are kept current");
        return Err(Problem::of(text));
    };
    let mut made = subscribe(visit, page);
    let (send, receive) = mpsc::channel(2);
    tokio::task::spawn_local(async move {
        let _place = place;
        let begun = Instant::now();
        let ends = begun + STREAM_LASTS;
        let mut last: Arc<Vec<String>> = Arc::default();
        let mut first = "retry: 1000\n".to_owned();
        while Instant::now() < ends && made.changed().await.is_ok() {
            let now = made.borrow_and_update().clone();
            // Older than the page that the browser has.
            if now.at.is_none_or(|at| at < begun) {
                continue;
            }
            let mut text = std::mem::take(&mut first);
            match now.wrong {
                None => {
                    let changed = now.parts.iter().filter(|part| !last.contains(part));
                    changed.for_each(|part| text += &event("part", part));
                    last = now.parts;
                    text += &event("tick", &now.now.to_string());
                }
                Some((over, why)) => {
                    text += &event(if over { "over" } else { "wrong" }, &why);
                }
            }
            if send.send(Bytes::from(text)).await.is_err() {
                break;
            }
        }
    });
    let mut response = html(StatusCode::OK, String::new());
    *response.body_mut() = Body::stream(receive);
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

fn event(name: &str, data: &str) -> String {
    let data = data.replace('\r', "").replace('\n', "\ndata: ");
    format!("event: {name}\ndata: {data}\n\n")
}

/// The page of this session, which is made from now on if it was not before.
fn subscribe(visit: &Rc<Visit>, page: &str) -> watch::Receiver<Made> {
    let session = match &visit.who {
        Who::Session(token) => Some(*token),
        _ => None,
    };
    let key = (session, page.to_owned());
    let mut pages = visit.asked.live.pages.borrow_mut();
    if let Some(made) = pages.get(&key).filter(|made| made.has_changed().is_ok()) {
        return made.clone();
    }
    let (send, receive) = watch::channel(Made::default());
    pages.insert(key.clone(), receive.clone());
    let visit = Rc::clone(visit);
    tokio::task::spawn_local(async move {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // One is that of the map.
        while send.receiver_count() > 1 {
            ticks.tick().await;
            let at = Some(Instant::now());
            let made = timeout(EVERY * 10, make(&visit, &key.1)).await;
            let late =
                || Made { wrong: Some((false, "it took too long".into())), ..Made::default() };
            let made = Made { at, ..made.unwrap_or_else(|_| late()) };
            let over = matches!(made.wrong, Some((true, _)));
            send.send_replace(made);
            if over {
                break;
            }
        }
        visit.asked.live.pages.borrow_mut().remove(&key);
    });
    receive
}

async fn make(visit: &Visit, page: &str) -> Made {
    // A reload may have changed what the console shows.
    let visit = &visit.now();
    if !visit.settings.ui.enabled {
        return Made {
            wrong: Some((true, "the console is switched off".into())),
            ..Made::default()
        };
    }
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let answer = match words::query(query) {
        Ok(query) => pages::answer(visit, path, query).await,
        Err(wrong) => Err(Problem::bad(wrong)),
    };
    match answer {
        Ok(response) if response.status() == StatusCode::OK => {
            let text = String::from_utf8_lossy(response.body().bytes()).into_owned();
            Made { parts: Arc::new(parts(&text)), now: clock(&text), ..Made::default() }
        }
        Ok(_) => Made { wrong: Some((true, "not yours any more".into())), ..Made::default() },
        Err(problem) => {
            let over = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&problem.status);
            Made { wrong: Some((over, problem.text)), ..Made::default() }
        }
    }
}

/// The parts that are to stay current, without the words of times, which run in the browser.
fn parts(text: &str) -> Vec<String> {
    let each = text.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    each.map(|(part, _)| {
        let mut times = part.split("<time ");
        let mut still = times.next().unwrap_or_default().to_owned();
        for time in times {
            let (tag, rest) = time.split_once('>').unwrap_or((time, ""));
            let (_, rest) = rest.split_once("</time>").unwrap_or(("", rest));
            still += &format!("<time {tag}></time>{rest}");
        }
        still.trim().to_owned()
    })
    .collect()
}

fn clock(text: &str) -> i64 {
    let rest = text.split_once("data-now=\"").and_then(|(_, rest)| rest.split_once('"'));
    rest.and_then(|(now, _)| now.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_the_words_of_times() {
        let text = "<body data-now=\"5\"><!--live--> <p id=a><time x=\"1\">in 5 s</time> b</p>\n\
                    <!--/live--><i><!--live--><b></b><!--/live-->";
        assert_eq!(parts(text), ["<p id=a><time x=\"1\"></time> b</p>", "<b></b>"]);
        assert_eq!(clock(text), 5);
        assert_eq!(event("part", "a\r\nb"), "event: part\ndata: a\ndata: b\n\n");
    }
}
