//! Pages that stay current: a stream of events with the parts of a page that have changed.
//!
//! A page is made again once a second while somebody looks at it, by the same way as for a reader,
//! with his rights; all that look at the same page in one session share it. Keeps: at most
//! [`STREAMS_MAX`] streams, few of them of one session or user; a stream ends after
//! [`STREAM_LASTS`], and the browser comes again; with nobody looking nothing is made; a page that
//! takes its time comes less often, and few are made at one time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::client::alone::{Wants, Who};
use crate::client::sessions::Token;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::words;
use crate::resp::Reply;

use super::show::items;
use super::{Visit, html, pages};

pub const STREAMS_MAX: usize = 32;
/// Of one session: a browser has six connections to a broker, and needs some for pages.
const OF_SESSION_MAX: usize = 4;
/// Of one user, so that others have some.
const OF_USER_MAX: usize = 8;
/// Below the time of a connection.
const STREAM_LASTS: Duration = Duration::from_secs(50);
const EVERY: Duration = Duration::from_secs(1);
/// Pages that are made at one time.
const TURNS: usize = 2;
/// Of the time that a page takes to be made: the time until it is made again, at least, and the
/// most that this can be.
const RESTS: u32 = 4;
const RESTS_MAX: Duration = Duration::from_secs(15);
/// Around a part of a page that is to stay current.
const BEGIN: &str = "<!--live-->";
const END: &str = "<!--/live-->";

/// Session and page.
type Looked = (Option<Token>, String);

/// Session and user of a stream.
type Owner = (Option<Token>, Vec<u8>);

pub struct Live {
    /// Those that are open.
    streams: RefCell<Vec<Weak<Owner>>>,
    pages: RefCell<HashMap<Looked, watch::Receiver<Made>>>,
    turns: Semaphore,
}

impl Default for Live {
    fn default() -> Self {
        let turns = Semaphore::new(TURNS);
        Self { streams: RefCell::default(), pages: RefCell::default(), turns }
    }
}

impl Live {
    /// The place of a stream, as long as that is held.
    fn place(&self, session: Option<Token>, user: &[u8]) -> Result<Rc<Owner>, Problem> {
        let mut streams = self.streams.borrow_mut();
        streams.retain(|stream| stream.strong_count() > 0);
        let open = || streams.iter().filter_map(Weak::upgrade);
        let of_user = open().filter(|owner| owner.1 == user).count();
        let of_session = open().filter(|owner| session.is_some() && owner.0 == session).count();
        let bounds = [
            (of_session, OF_SESSION_MAX, "of this session"),
            (of_user, OF_USER_MAX, "of this user"),
            (streams.len(), STREAMS_MAX, "of all users"),
        ];
        if let Some((_, most, whose)) = bounds.into_iter().find(|(open, most, _)| open >= most) {
            let text = format!("UNAVAILABLE {most} pages {whose} are kept current already");
            return Err(Problem::of(text));
        }
        let owner = Rc::new((session, user.to_vec()));
        streams.push(Rc::downgrade(&owner));
        Ok(owner)
    }
}

/// A page as it was made last.
#[derive(Clone, Default)]
struct Made {
    /// When that began.
    at: Option<Instant>,
    parts: Arc<Vec<String>>,
    now: i64,
    /// The time until the next, about, in whole seconds.
    next: u64,
    /// Why it could not be made: code and sentence.
    wrong: Option<(bool, String)>,
}

/// The stream of a page.
pub async fn answer(
    visit: &Rc<Visit>,
    query: &Map<String, Value>,
) -> Result<Response<Body>, Problem> {
    // Whoever is not let in is told so before a stream begins.
    let rights = visit.call(Wants::Rights, false).await?;
    let [Reply::Bulk(user), ..] = items(&rights) else {
        return Err(Problem::of("INTERNAL the user is not known".to_owned()));
    };
    let page = query.get("page").and_then(Value::as_str).unwrap_or_default();
    let Some(page) = pages::staying(page) else {
        return Err(Problem::bad("page must be a page of the console that is kept current"));
    };
    let session = match &visit.who {
        Who::Session(token) => Some(*token),
        _ => None,
    };
    let place = visit.asked.live.place(session, user)?;
    let mut made = subscribe(visit, (session, page));
    let (send, receive) = mpsc::channel(2);
    tokio::task::spawn_local(async move {
        let _place = place;
        let begun = Instant::now();
        let ends = begun + STREAM_LASTS;
        let mut last: Arc<Vec<String>> = Arc::default();
        let mut first = "retry: 1000\n".to_owned();
        let mut told = EVERY.as_secs();
        loop {
            let now = made.borrow_and_update().clone();
            let mut text = std::mem::take(&mut first);
            if now.next > told {
                text += &event("next", &now.next.to_string());
                told = now.next;
            }
            match now.wrong {
                // Older than the page that the browser has.
                _ if now.at.is_none_or(|at| at < begun) => {}
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
            if !text.is_empty() && send.send(Bytes::from(text)).await.is_err() {
                break;
            }
            // Whoever has left holds no place until there is news.
            let more = tokio::select! {
                more = made.changed() => more.is_ok(),
                () = send.closed() => false,
            };
            if !more || Instant::now() >= ends {
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
fn subscribe(visit: &Rc<Visit>, key: Looked) -> watch::Receiver<Made> {
    let mut pages = visit.asked.live.pages.borrow_mut();
    if let Some(made) = pages.get(&key).filter(|made| made.has_changed().is_ok()) {
        return made.clone();
    }
    let (send, receive) = watch::channel(Made::default());
    pages.insert(key.clone(), receive.clone());
    let visit = Rc::clone(visit);
    tokio::task::spawn_local(async move {
        // One is that of the map.
        while send.receiver_count() > 1 {
            let asked = Instant::now();
            let turn = visit.asked.live.turns.acquire().await;
            let begun = Instant::now();
            let made = timeout(EVERY * 10, make(&visit, &key.1)).await;
            let late =
                || Made { wrong: Some((false, "it took too long".into())), ..Made::default() };
            let rest = begun.elapsed().saturating_mul(RESTS).min(RESTS_MAX);
            let next = (asked.elapsed() + rest.max(EVERY)).as_secs();
            let made = Made { at: Some(begun), next, ..made.unwrap_or_else(|_| late()) };
            let over = matches!(made.wrong, Some((true, _)));
            send.send_replace(made);
            if over {
                break;
            }
            // All pages together leave the broker most of its time, however many there are.
            let turns = rest.min(EVERY);
            sleep(turns).await;
            drop(turn);
            sleep(rest.max(EVERY) - turns).await;
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
