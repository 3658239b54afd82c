//! The pages: one table, and the frame that they share.

use askama::Template;
use futures_util::future::LocalBoxFuture;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value};

use crate::client::alone::Wants;
use crate::domain::text::percent_decoded;
use crate::http::body::Body;
use crate::http::door::Settings;
use crate::http::problem::{NOT_FOUND, Problem};
use crate::http::words;
use crate::resp::Reply;

use super::show::{self, items, segment, whole};
use super::{ASSETS, BASE, Visit, find, jobs, lists, overview, page, queue, redirect};

/// A page, and how it is made.
pub struct Page {
    /// Behind [`BASE`]; `{queue}` and the like stand for bytes.
    pub path: &'static str,
    /// The commands without which there is nothing to see.
    pub needs: &'static [&'static str],
    make: Make,
}

type Make = for<'a> fn(&'a Reader<'a>) -> LocalBoxFuture<'a, Result<Response<Body>, Problem>>;

macro_rules! pages {
    ($($path:literal [$($needs:literal),*] $make:path;)*) => {
        pub static PAGES: &[Page] = &[$(Page {
            path: $path,
            needs: &[$($needs),*],
            make: |reader| Box::pin($make(reader)),
        }),*];
    };
}

pages! {
    "/" ["DQ.QUEUES"] overview::overview;
    "/queues" ["DQ.QUEUES"] overview::queues;
    "/queues/{queue}" ["DQ.INFO"] queue::queue;
    "/queues/{queue}/messages/{message}" ["DQ.GET"] queue::message;
    "/queues/{queue}/find" ["DQ.FIND"] find::find;
    "/jobs/{job}" [] jobs::job;
    "/queues/{queue}/taken" ["DQ.TAKEN"] lists::taken;
    "/queues/{queue}/waiting" ["DQ.TAKEN"] lists::waiting;
    "/queues/{queue}/dead" ["DQ.DEAD"] lists::dead;
    "/queues/{queue}/quarantine" ["DQ.QUARANTINE"] lists::quarantine;
    "/queues/{queue}/crons" ["DQ.CRON"] lists::crons;
    "/queues/{queue}/settings" ["DQ.SETUP"] lists::queue_settings;
    "/server" ["INFO"] lists::server;
    "/settings" ["CONFIG"] lists::settings;
}

/// The pages that are kept current in a browser with scripts, and their parameters.
const STAY: [(&str, &[&str]); 3] = [
    ("/", &[]),
    ("/queues", &["cursor", "match", "sort"]),
    ("/queues/{queue}", &["cursor", "from", "span", "to"]),
];

/// Path and query of a page that is kept current, the same for all ways to write them; none if it
/// is another one.
pub fn staying(page: &str) -> Option<String> {
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let rest = path.strip_prefix(BASE)?;
    let fits =
        |(path, known): &(&str, &'static [&str])| Some((words::fits(path, rest, decoded)?, *known));
    let (segments, known) = STAY.iter().find_map(fits)?;
    let path = match segments.first() {
        Some(queue) => queue_path(queue, ""),
        None => path.to_owned(),
    };
    let mut query = words::query(query).ok()?;
    query.retain(|name, _| known.contains(&name.as_str()));
    Some(with_query(&path, query.iter().map(text_of)))
}

fn text_of<'a>((name, value): (&'a String, &'a Value)) -> (&'a str, &'a str) {
    (name, value.as_str().unwrap_or_default())
}

/// A path with its parameters; what is empty is left out.
fn with_query<'a>(path: &str, all: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let all = all.filter(|(_, value)| !value.is_empty());
    let all: Vec<String> =
        all.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    if all.is_empty() { path.to_owned() } else { format!("{path}?{}", all.join("&")) }
}

/// The tabs at the head of each page: name, path, and what one needs.
const TABS: [(&str, &str, &str); 4] = [
    ("Overview", "/ui/", "DQ.QUEUES"),
    ("Queues", "/ui/queues", "DQ.QUEUES"),
    ("Broker & Redis", "/ui/server", "INFO"),
    ("Settings", "/ui/settings", "CONFIG"),
];

/// What all pages have.
pub struct Frame {
    pub title: String,
    pub tabs: Vec<(&'static str, &'static str, bool)>,
    pub label: String,
    pub user: String,
    pub logged_in: bool,
    pub read_only: bool,
    pub css: &'static str,
    pub js: &'static str,
    pub icon: &'static str,
    /// What a form has done.
    pub done: String,
    /// Redis's clock, Unix ms.
    pub now: i64,
    /// Path and query of a page that is kept current; empty for others.
    pub live: String,
    /// The browser asks again before long, as what is shown goes on.
    pub goes_on: bool,
}

impl Frame {
    /// Of a page that anybody may see.
    pub fn bare(settings: &Settings, title: &str) -> Self {
        let [css, js, icon] = ASSETS.each_ref().map(|asset| asset.path.as_str());
        Self {
            title: title.to_owned(),
            tabs: Vec::new(),
            label: settings.ui.label.clone().unwrap_or_default(),
            user: String::new(),
            logged_in: false,
            read_only: settings.ui.read_only,
            css,
            js,
            icon,
            done: String::new(),
            now: 0,
            live: String::new(),
            goes_on: false,
        }
    }
}

/// A button: a form, and the command that it runs.
#[derive(Debug, Clone)]
pub struct Button {
    pub label: &'static str,
    pub action: String,
    pub fields: Vec<(&'static str, String)>,
    pub command: String,
    pub danger: bool,
    /// What a script asks first.
    pub confirm: String,
}

/// Somebody who may see a page.
pub struct Reader<'a> {
    pub visit: &'a Visit,
    pub queue: Vec<u8>,
    pub message: Vec<u8>,
    pub query: Map<String, Value>,
    /// Path and query of the page itself.
    pub here: String,
    pub now: i64,
    /// The page is one that is kept current.
    stays: bool,
    user: String,
    may: Vec<Vec<u8>>,
}

impl Reader<'_> {
    pub async fn ask(&self, command: &[&[u8]]) -> Result<Reply, Problem> {
        self.visit.ask(command).await
    }

    /// Says if the user may run a command, as the gate names it.
    pub fn may(&self, command: &str) -> bool {
        self.may.iter().any(|known| known == command.as_bytes())
    }

    /// The same for one that changes something, which a console may be kept from.
    pub fn may_do(&self, command: &str) -> bool {
        !self.visit.settings.ui.read_only && self.may(command)
    }

    /// A parameter of the query; empty if it is not there.
    pub fn given(&self, name: &str) -> &str {
        given(&self.query, name)
    }

    pub fn frame(&self, title: &str) -> Frame {
        let here = self.here.split('?').next().unwrap_or_default();
        let is_here = |path: &str| match path {
            "/ui/" => here == path,
            path => here.starts_with(path),
        };
        let tabs = TABS.iter().filter(|(.., needs)| self.may(needs));
        Frame {
            tabs: tabs.map(|(name, path, _)| (*name, *path, is_here(path))).collect(),
            user: self.user.clone(),
            logged_in: matches!(self.visit.who, crate::client::alone::Who::Session(_)),
            done: done_of(&self.query),
            now: self.now,
            live: match self.stays {
                true => format!("/ui/live?page={}", segment(self.with(&[]).as_bytes())),
                false => String::new(),
            },
            ..Frame::bare(&self.visit.settings, title)
        }
    }

    /// The path of a page, or of a form, about the queue.
    pub fn of_queue(&self, rest: &str) -> String {
        queue_path(&self.queue, rest)
    }

    /// The page itself with other parameters; what is empty is left out.
    pub fn with(&self, other: &[(&str, &str)]) -> String {
        let path = self.here.split('?').next().unwrap_or_default();
        let kept = self.query.iter().filter(|(name, _)| {
            !["done", "n"].contains(&name.as_str())
                && other.iter().all(|(changed, _)| changed != name)
        });
        with_query(path, kept.map(text_of).chain(other.iter().copied()))
    }

    /// A button, if the user may use it. `command`: its words.
    pub fn button(
        &self,
        label: &'static str,
        action: String,
        fields: &[(&'static str, &str)],
        command: &[&[u8]],
    ) -> Option<Button> {
        let name = String::from_utf8_lossy(command.first().copied().unwrap_or_default());
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned()));
        self.may_do(&name).then(|| Button {
            label,
            action,
            fields: fields.chain([("back", self.with(&[]))]).collect(),
            command: show::command(command),
            danger: false,
            confirm: String::new(),
        })
    }
}

/// The same for one that cannot be undone.
pub fn danger(button: Option<Button>, confirm: &str) -> Option<Button> {
    button.map(|button| Button { danger: true, confirm: confirm.to_owned(), ..button })
}

/// The path of a page, or of a form, about a queue.
pub fn queue_path(queue: &[u8], rest: &str) -> String {
    format!("{BASE}/queues/{}{rest}", segment(queue))
}

fn encoded(text: &str) -> String {
    match text {
        "." | ".." => text.to_owned(),
        text => segment(text.as_bytes()),
    }
}

/// A path of the console; empty if it is another one.
pub fn own_path(path: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    if path.starts_with("/ui/") && path.bytes().all(plain) { path } else { "" }
}

/// The bytes of a segment of a path, as [`segment`] makes it.
pub fn decoded(given: &str) -> Option<Vec<u8>> {
    match given.strip_prefix("hex:") {
        Some(digits) => hex::decode(digits).ok(),
        None => percent_decoded(given),
    }
}

fn given<'a>(query: &'a Map<String, Value>, name: &str) -> &'a str {
    query.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What the form before a page has done, in a sentence.
pub fn done_of(query: &Map<String, Value>) -> String {
    done(given(query, "done"), given(query, "n"))
}

/// What a form has done, in a sentence. The words come by the address of a page, so only these are
/// known.
fn done(what: &str, count: &str) -> String {
    let count = count.parse::<i64>().unwrap_or(0);
    let of = |verb: &str, one: &str| {
        let many = if count == 1 { "" } else { "s" };
        format!("{verb} {} {one}{many}.", show::count(count))
    };
    match what {
        "uncertain" => "There was no answer in time. It may have been done all the same: look \
                        before you try again."
            .to_owned(),
        "offered" => "Stored a message.".to_owned(),
        "done" => "Done.".to_owned(),
        "rescheduled" => "The message has another due time.".to_owned(),
        "cancelled" => of("Cancelled", "message"),
        "fired" => of("Made due", "message"),
        "cleared" => of("Dropped", "message"),
        "requeued" => of("Brought back", "message"),
        "dropped" => of("Deleted", "message"),
        "restored" => of("Restored", "member"),
        "paused" | "resumed" | "deleted" | "set" => "Done.".to_owned(),
        _ => String::new(),
    }
}

/// Answers a request for a page.
pub async fn answer(
    visit: &Visit,
    path: &str,
    query: Map<String, Value>,
) -> Result<Response<Body>, Problem> {
    let rest = path.strip_prefix(BASE).unwrap_or_default();
    if rest.is_empty() {
        return Ok(redirect("/ui/"));
    }
    let fits = |page: &'static Page| Some((page, words::fits(page.path, rest, decoded)?));
    let Some((page, segments)) = PAGES.iter().find_map(fits) else {
        let rights = visit.call(Wants::Rights, false).await;
        return Err(rights.err().unwrap_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, format!("{NOT_FOUND} there is no such page"))
        }));
    };
    let rights = visit.call(Wants::Rights, false).await?;
    let now = match items(&visit.ask(&[b"TIME"]).await.unwrap_or(Reply::Null)) {
        [seconds, micros] => clock(seconds) * 1_000 + clock(micros) / 1_000,
        _ => 0,
    };
    let [Reply::Bulk(user), may] = items(&rights) else {
        return Err(Problem::of("INTERNAL the rights are not known".to_owned()));
    };
    let may = items(may).iter().filter_map(|name| match name {
        Reply::Bulk(name) => Some(name.to_vec()),
        _ => None,
    });
    let mut segments = segments.into_iter();
    let reader = Reader {
        visit,
        queue: segments.next().unwrap_or_default(),
        message: segments.next().unwrap_or_default(),
        query,
        here: path.to_owned(),
        now,
        stays: STAY.iter().any(|(path, _)| *path == page.path),
        user: String::from_utf8_lossy(user).into_owned(),
        may: may.collect(),
    };
    if let Some(lacks) = page.needs.iter().find(|needs| !reader.may(needs)) {
        return lacking(&reader, lacks);
    }
    (page.make)(&reader).await
}

fn clock(part: &Reply) -> i64 {
    match part {
        Reply::Bulk(digits) => std::str::from_utf8(digits).ok().and_then(|n| n.parse().ok()),
        other => whole(other),
    }
    .unwrap_or(0)
}

#[derive(Template)]
#[template(path = "lacking.html")]
struct Lacking<'a> {
    frame: Frame,
    command: &'a str,
}

/// The page of somebody who may not see it, with the tabs of those that he may see.
fn lacking(reader: &Reader<'_>, command: &str) -> Result<Response<Body>, Problem> {
    // There is nothing to keep current.
    let frame = Frame { live: String::new(), ..reader.frame("Not yours") };
    page(StatusCode::FORBIDDEN, &Lacking { frame, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    #[test]
    fn pages_need_commands() {
        for page in PAGES {
            for needs in page.needs {
                assert!(TABLE.iter().any(|spec| spec.name == *needs), "{needs}");
            }
        }
    }

    #[test]
    fn paths() {
        for name in [&b".."[..], b".", b"a/b", b"hex:2e", b"\xff\0", b"%2e"] {
            assert_eq!(decoded(&segment(name)).as_deref(), Some(name));
        }
        for (path, own) in [
            ("/ui/queues/a?x=1", true),
            ("/ui/", true),
            ("//evil", false),
            ("http://evil/ui/", false),
            ("/ui/\r\nx", false),
            ("/ui\\evil", false),
            ("", false),
        ] {
            assert_eq!(!own_path(path).is_empty(), own, "{path}");
        }
        for (page, same) in [
            ("/ui/", Some("/ui/")),
            ("/ui/?x=1", Some("/ui/")),
            ("/ui/queues?x=1&sort=name&match=a", Some("/ui/queues?match=a&sort=name")),
            ("/ui/queues/%61?span=day&key=k&done=set", Some("/ui/queues/a?span=day")),
            ("/ui/queues/a/find?match=x", None),
            ("/ui/queues/a/messages/b", None),
            ("/ui/live?page=%2Fui%2F", None),
            ("/ui", None),
            ("/metrics", None),
            ("", None),
        ] {
            assert_eq!(staying(page).as_deref(), same, "{page}");
        }
        assert_eq!(done("cancelled", "1"), "Cancelled 1 message.");
        assert_eq!(done("cancelled", "2000"), "Cancelled 2,000 messages.");
        assert_eq!(done("<script>", "x"), "");
    }
}
