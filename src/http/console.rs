//! The console: pages for browsers, over the same gate and the same table of commands as the API.
//!
//! A page is made of the replies to a few commands of its reader ([`pages`]); a button is a form,
//! and each form is a row of the table of routes ([`actions`]). Nothing else is asked of the
//! broker. Keeps: GET changes nothing; a form comes from a page of this console, and is bounded; a
//! page has no script and no style of its own, so the browser runs none that somebody else put
//! into a name or a payload; all text is escaped where the templates are compiled.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use askama::Template;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderMap,
    HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, REFRESH, SET_COOKIE,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value};
use sha1::{Digest, Sha1};
use tracing::{debug, warn};

use crate::client::alone::{Login, Wants, Who};
use crate::client::sessions::{LASTS, Token};
use crate::command::TABLE;
use crate::resp::{Reply, Words};

use super::body::{Body, Unread};
use super::door::Settings;
use super::problem::{NOT_FOUND, Problem};
use super::{Asked, Came, Serving, api, body, json, words};

pub mod actions;
mod chart;
mod find;
mod form;
pub mod jobs;
mod lists;
pub mod live;
mod overview;
pub mod pages;
mod queue;
mod show;

use pages::Frame;

/// In front of all paths of the console.
pub const BASE: &str = "/ui";

const LOGIN: &str = "/ui/login";
const LIVE: &str = "/ui/live";
const LOGOUT: &str = "/ui/logout";

/// Only what this broker serves itself, and nothing that stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Bytes of the form that logs in.
const LOGIN_BYTES_MAX: usize = 16 * 1024;

/// A file that pages refer to, and the path under which it never changes.
struct Asset {
    path: String,
    kind: &'static str,
    bytes: &'static [u8],
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let files: [(&str, &str, &str, &[u8]); 3] = [
        ("app", "css", "text/css; charset=utf-8", include_bytes!("console/app.css")),
        ("app", "js", "text/javascript; charset=utf-8", include_bytes!("console/app.js")),
        ("icon", "svg", "image/svg+xml", include_bytes!("console/icon.svg")),
    ];
    files.map(|(name, ending, kind, bytes)| {
        let hash = hex::encode(Sha1::digest(bytes).get(..6).unwrap_or_default());
        Asset { path: format!("{BASE}/assets/{name}-{hash}.{ending}"), kind, bytes }
    })
});

/// Says if a path is one of the console.
pub fn is_path(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Says if somebody who asks for `/` sits at a browser.
pub fn is_browser(headers: &HeaderMap) -> bool {
    let accepted = headers.get("accept").and_then(|accept| accept.to_str().ok());
    accepted.is_some_and(|accept| accept.contains("text/html"))
}

/// Sends a browser to another page.
pub fn redirect(to: &str) -> Response<Body> {
    let mut response = html(StatusCode::SEE_OTHER, String::new());
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn html(status: StatusCode, text: String) -> Response<Body> {
    let mut response = json::response(status, "text/html; charset=utf-8", Bytes::from(text).into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Without any referrer browsers would send forms with the origin "null".
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
    response
}

fn page(status: StatusCode, template: &impl Template) -> Result<Response<Body>, Problem> {
    let text = template.render().map_err(|error| Problem::of(format!("INTERNAL {error}")))?;
    Ok(html(status, text))
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    heading: &'static str,
    /// Nothing was to be changed.
    looks: bool,
    code: String,
    detail: String,
    maybe: bool,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    wrong: String,
}

/// Answers a request to the console.
pub(super) async fn answer(
    request: Request<Incoming>,
    host: &Authority,
    settings: &Arc<Settings>,
    asked: &Rc<Asked>,
    came: &Came,
    serving: &Cell<Serving>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or(BASE, |target| target.as_str()).to_owned();
    let is_get = matches!(parts.method, Method::GET | Method::HEAD);
    let problem = match serve(parts, body, host, settings, asked, came, serving).await {
        Ok(response) => return response,
        Err(problem) => problem,
    };
    let (client, why) = (came.from, &problem.text);
    match problem.status {
        // Somebody who is to say a password first.
        StatusCode::UNAUTHORIZED if is_get => {
            let next: String = form_encoded(&target);
            return redirect(&format!("{LOGIN}?next={next}"));
        }
        StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE => {
            warn!(%client, why, "a request to the console was refused");
        }
        _ => debug!(%client, why, "a request to the console was wrong"),
    }
    let (status, maybe) = (problem.status, problem.may_be_applied());
    let (code, detail) = problem.text.split_once(' ').unwrap_or((&problem.text, ""));
    let (code, detail) = (code.to_owned(), detail.to_owned());
    let heading = if is_get { "Not shown" } else { "Not done" };
    let mut frame = Frame::bare(settings, heading);
    if is_get && let Ok(query) = words::query(target.split_once('?').map_or("", |(_, query)| query))
    {
        frame.done = pages::done_of(&query);
    }
    let template = ErrorPage { frame, heading, looks: is_get, code, detail, maybe };
    let mut response = page(status, &template).unwrap_or_else(Problem::response);
    if is_get && status == StatusCode::SERVICE_UNAVAILABLE {
        // It comes back by itself once Redis does.
        response.headers_mut().insert(REFRESH, HeaderValue::from_static("5"));
    }
    response
}

fn form_encoded(text: &str) -> String {
    show::segment(text.as_bytes())
}

async fn serve(
    parts: Parts,
    body: Incoming,
    host: &Authority,
    settings: &Arc<Settings>,
    asked: &Rc<Asked>,
    came: &Came,
    serving: &Cell<Serving>,
) -> Result<Response<Body>, Problem> {
    let Parts { uri, headers, method, .. } = parts;
    let method = if method == Method::HEAD { Method::GET } else { method };
    if !settings.ui.enabled {
        let text = format!("{NOT_FOUND} the console is switched off (ui.enabled)");
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    }
    // A link on another page may lead here: it shows, and changes nothing.
    let says = |name: &str, word: &str| headers.get(name).is_some_and(|given| given == word);
    let followed = method == Method::GET
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document");
    settings.admit_from(host, &method, &headers, came.loopback, followed)?;
    let path = uri.path();
    if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path && method == Method::GET) {
        let mut response =
            json::response(StatusCode::OK, asset.kind, Bytes::from_static(asset.bytes).into());
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
        return Ok(response);
    }
    let cookie = Cookie::new(host, settings, &headers);
    let who = cookie.token(&headers).map_or(Who::Nobody, Who::Session);
    let visit = Visit { asked: Rc::clone(asked), came: *came, who, settings: Arc::clone(settings) };
    let query = words::query(uri.query().unwrap_or_default()).map_err(Problem::bad)?;
    if method == Method::GET {
        if path == LOGIN {
            return page(StatusCode::OK, &login_page(settings, &query, String::new()));
        }
        if path == LIVE {
            let answer = live::answer(&Rc::new(visit), &query).await;
            if answer.is_ok() {
                serving.set(Serving::Live);
            }
            return answer;
        }
        // Who is not known makes room for others.
        visit.call(Wants::Entry, false).await?;
        serving.set(Serving::Api);
        return pages::answer(&visit, path, query).await;
    }
    if method != Method::POST {
        let text = "ERR the console has GET and POST only";
        let allow = Some("GET, POST".to_owned());
        return Err(Problem { allow, ..Problem::new(StatusCode::METHOD_NOT_ALLOWED, text) });
    }
    own_page(host, &headers)?;
    let given = visit.form(body, &headers, path == LOGIN).await?;
    // Now it waits for the broker, and before for its sender.
    serving.set(Serving::Api);
    match path {
        LOGIN => visit.log_in(given, &cookie).await,
        LOGOUT => {
            visit.leave().await?;
            let mut response = redirect(LOGIN);
            cookie.set(&mut response, "", 0);
            Ok(response)
        }
        path => match find::is_form(path) {
            Some(form) => form.answer(&visit, given).await,
            None => actions::answer(&visit, path, given).await,
        },
    }
}

/// A form is sent by a page of this console, and the browser says so.
fn own_page(host: &Authority, headers: &HeaderMap) -> Result<(), Problem> {
    let own = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host.as_str()))
        }
        (None, None) => false,
    };
    let text = "NOPERM a form must come from a page of this console, and its browser must say so \
                (Sec-Fetch-Site or Origin)";
    if own { Ok(()) } else { Err(Problem::new(StatusCode::FORBIDDEN, text)) }
}

fn login_page(settings: &Settings, query: &Map<String, Value>, wrong: String) -> LoginPage {
    let next = query.get("next").and_then(Value::as_str).unwrap_or_default();
    let frame = Frame::bare(settings, "Log in");
    LoginPage { frame, next: pages::own_path(next).to_owned(), wrong }
}

/// The cookie of a session. It is named after the port, since browsers tell no ports apart.
struct Cookie {
    name: String,
    secure: bool,
}

impl Cookie {
    fn new(host: &Authority, settings: &Settings, headers: &HeaderMap) -> Self {
        let port = host.port_u16().map(|port| format!("_{port}")).unwrap_or_default();
        // A proxy in front may have TLS where this port has none.
        let passed = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
        Self { name: format!("delay_broker{port}"), secure: settings.tls.is_some() || passed }
    }

    fn token(&self, headers: &HeaderMap) -> Option<Token> {
        let all = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut each = all.flat_map(|cookies| cookies.split(';'));
        // One of the same name that is none of ours may stand in front.
        each.find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            if name == self.name { hex::decode(value).ok()?.try_into().ok() } else { None }
        })
    }

    fn set(&self, response: &mut Response<Body>, value: &str, seconds: u64) {
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!(
            "{}={value}; Path={BASE}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
            self.name
        );
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
}

/// Somebody who looks at the console, and asks the broker through it.
pub struct Visit {
    asked: Rc<Asked>,
    came: Came,
    who: Who,
    settings: Arc<Settings>,
}

impl Visit {
    /// The same by the settings of now.
    fn now(&self) -> Self {
        let (asked, settings) = (Rc::clone(&self.asked), self.asked.settings.borrow().clone());
        Self { asked, came: self.came, who: self.who.clone(), settings }
    }

    async fn call(&self, wants: Wants, changes: bool) -> Result<Reply, Problem> {
        let done = api::call(&self.asked, &self.came, self.who.clone(), wants, changes).await?;
        match done.reply {
            Reply::Error(text) => Err(Problem::of(text)),
            reply => Ok(reply),
        }
    }

    /// The reply to a command that changes nothing.
    async fn ask(&self, command: &[&[u8]]) -> Result<Reply, Problem> {
        let mut words = Words::default();
        command.iter().for_each(|word| words.push(word));
        self.run(words, false).await
    }

    /// The reply to a command.
    async fn run(&self, words: Words, changes: bool) -> Result<Reply, Problem> {
        let name = words.request().get(0).unwrap_or_default();
        let spec = TABLE.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name));
        let _place = match spec {
            Some(spec) => self.asked.places.of(spec).await?,
            None => None,
        };
        self.call(Wants::Command(words), changes).await
    }

    /// Ends the session, and what goes on in it.
    async fn leave(&self) -> Result<(), Problem> {
        self.asked.jobs.leave(&self.who);
        self.call(Wants::Leave, false).await.map(drop)
    }

    /// The fields of a form.
    async fn form(
        &self,
        body: Incoming,
        headers: &HeaderMap,
        is_login: bool,
    ) -> Result<Map<String, Value>, Problem> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        let form = "application/x-www-form-urlencoded";
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case(form)) {
            let text = format!("ERR the body must be {form}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let max = if is_login { LOGIN_BYTES_MAX } else { self.settings.body_bytes_max };
        if !is_login {
            self.call(Wants::Entry, false).await?;
        }
        let bytes = body::read(body, max).await.map_err(|why| match why {
            Unread::TooBig => Problem::of(format!("TOOBIG the form has more than {max} bytes")),
            Unread::Broken => {
                Problem::new(StatusCode::REQUEST_TIMEOUT, "ERR the form did not come in time")
            }
        })?;
        form::read(&bytes).map_err(Problem::bad)
    }

    async fn log_in(
        &self,
        mut given: Map<String, Value>,
        cookie: &Cookie,
    ) -> Result<Response<Body>, Problem> {
        let mut text = |name: &str| form::take(&mut given, name).unwrap_or_default();
        let (user, password, next) = (text("user"), text("password"), text("next"));
        let login = Login { user: user.into_bytes(), password: password.into_bytes() };
        let who = Who::Login(login);
        let done = api::call(&self.asked, &self.came, who, Wants::Session, false).await?;
        match done.reply {
            Reply::Bulk(token) => {
                // Whoever logs in anew has one session, not two. One that stays ends by itself.
                let _ = self.leave().await;
                let next = pages::own_path(&next);
                let mut response = redirect(if next.is_empty() { "/ui/" } else { next });
                cookie.set(&mut response, &hex::encode(token), LASTS.as_secs());
                Ok(response)
            }
            Reply::Error(wrong) if wrong.starts_with("WRONGPASS") => {
                let wrong = "This name and password are not those of a user.".to_owned();
                let query = Map::from_iter([("next".to_owned(), Value::String(next))]);
                let template = login_page(&self.settings, &query, wrong);
                let mut response = page(StatusCode::UNAUTHORIZED, &template)?;
                if done.close {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok(response)
            }
            Reply::Error(text) => Err(Problem::of(text)),
            _ => Err(Problem::of("INTERNAL a session did not begin".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script and the style sheet are small, and refer to nobody else.
    #[test]
    fn assets_are_small_and_own() {
        let sum: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(sum < 30_000, "{sum}");
        for asset in ASSETS.iter() {
            let text = String::from_utf8_lossy(asset.bytes).replace("http://www.w3.org/", "");
            let others = ["http://", "https://", "@import", "eval(", "innerHTML"];
            assert!(!others.iter().any(|other| text.contains(other)), "{}", asset.path);
        }
        // No template switches escaping off, or has a style or a script of its own.
        for file in std::fs::read_dir("src/http/console").unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "html") {
                let text = std::fs::read_to_string(&path).unwrap();
                let wrong = ["|safe", "| safe", " style=", " onclick=", "<style", "javascript:"];
                assert!(!wrong.iter().any(|wrong| text.contains(wrong)), "{}", path.display());
            }
        }
    }

    #[test]
    fn forms_of_other_pages() {
        let host = Authority::from_static("a:1");
        let rows: [(&[(&str, &str)], bool); 8] = [
            (&[], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a:1")], false),
            (&[("origin", "http://a:1")], true),
            (&[("origin", "http://a:2")], false),
            (&[("origin", "null")], false),
        ];
        for (lines, wanted) in rows {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                let name = HeaderName::from_static(name);
                headers.insert(name, HeaderValue::from_static(value));
            }
            assert_eq!(own_page(&host, &headers).is_ok(), wanted, "{lines:?}");
        }
    }
}
