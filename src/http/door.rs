//! Whom the API lets in: by the Host that a request names, by the page that it was sent from, and
//! by the name and the password that it says. Pure.
//!
//! Without a password anybody who reaches the port could do everything, also a page in the browser
//! of somebody who sits at this machine. So the API is there only where a password or a user is
//! set, or where the port is on loopback and the request names this machine: a name that a stranger
//! lets point here is refused. What a browser sends for a page of another origin is refused always.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode, Uri};
use tokio_rustls::rustls::ServerConfig;

use crate::client::alone::Login;
use crate::config::{Config, Ui};

use super::problem::Problem;

const CLOSED: &str = "NOPERM the console and the API are closed: set server.password or [[users]] \
    to open them; without them they are open on loopback only, to requests that no proxy has \
    passed on and whose Host is localhost, an address of loopback, or in http.hosts";

/// What a proxy adds: it may bring anybody here, and put a Host of its own in place of theirs.
const PASSED_ON: [&str; 5] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The settings of this side; SIGHUP makes others.
pub struct Settings {
    /// For the handshakes of now; none: connections come without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// A password or a user is set.
    has_password: bool,
    /// Names of this machine, in upper case.
    hosts: Vec<String>,
    pub metrics_auth: bool,
    pub body_bytes_max: usize,
    pub ui: Ui,
}

impl Settings {
    pub fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            tls: config.http_tls(),
            has_password: config.has_password(),
            hosts: config.http.hosts.clone(),
            metrics_auth: config.http.metrics_auth,
            body_bytes_max: config.http.body_bytes_max,
            ui: config.ui.clone(),
        })
    }

    /// Of a process that has no API.
    pub fn bare() -> Arc<Self> {
        Arc::new(Self {
            tls: None,
            has_password: false,
            hosts: Vec::new(),
            metrics_auth: false,
            body_bytes_max: 0,
            ui: Ui { enabled: false, read_only: true, label: None },
        })
    }

    /// Whether a request for the API comes in. `loopback`: the port is on loopback.
    ///
    /// # Errors
    /// The answer to it, if not.
    pub fn admit(
        &self,
        host: &Authority,
        method: &Method,
        headers: &HeaderMap,
        loopback: bool,
    ) -> Result<(), Problem> {
        self.admit_from(host, method, headers, loopback, false)
    }

    /// The same. `anywhere`: it may be sent for any page.
    pub fn admit_from(
        &self,
        host: &Authority,
        method: &Method,
        headers: &HeaderMap,
        loopback: bool,
        anywhere: bool,
    ) -> Result<(), Problem> {
        let passed_on = PASSED_ON.iter().any(|name| headers.contains_key(*name));
        let is_here = loopback && !passed_on && self.is_here(host.host());
        let is_open = self.has_password || is_here;
        if !is_open {
            return Err(Problem::new(StatusCode::FORBIDDEN, CLOSED));
        }
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let same_site = match site {
            None | Some(b"same-origin") => true,
            // Somebody has typed the address.
            Some(b"none") => method == Method::GET,
            Some(_) => false,
        };
        let same_origin = headers.get_all(ORIGIN).iter().all(|origin| {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host.as_str()))
        });
        if anywhere || (same_site && same_origin) {
            return Ok(());
        }
        let text = "NOPERM a browser sent this for a page of another origin";
        Err(Problem::new(StatusCode::FORBIDDEN, text))
    }

    fn is_here(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse();
        address.is_ok_and(|address: IpAddr| address.is_loopback())
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// The one host that a request names.
///
/// # Errors
/// The rule that it breaks.
pub fn host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("a request needs one Host");
    };
    let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let named = named.filter(|host| !host.as_str().contains('@') && !host.host().is_empty());
    let named = named.ok_or("the Host of the request is not a name or address")?;
    match uri.authority() {
        Some(other) if *other != named => Err("the request names two hosts"),
        _ => Ok(named),
    }
}

/// The name and the password that a request says, if it says any.
///
/// # Errors
/// They cannot be read.
pub fn login(headers: &HeaderMap) -> Result<Option<Login>, Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let login = || {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        if !["Basic", "Bearer"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
            return None;
        }
        let mut user = STANDARD.decode(token.trim()).ok()?;
        let colon = user.iter().position(|byte| *byte == b':')?;
        let password = user.split_off(colon + 1);
        user.pop();
        Some(Login { user, password })
    };
    let login = login().filter(|_| given.next().is_none()).ok_or_else(|| {
        let text = "WRONGPASS Authorization must be Basic or Bearer, and then user:password in \
                    base64";
        Problem::new(StatusCode::UNAUTHORIZED, text)
    })?;
    Ok(Some(login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let name = hyper::header::HeaderName::try_from(name).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn settings(has_password: bool) -> Settings {
        let hosts = vec!["CONSOLE.EXAMPLE".to_owned()];
        let bare = Arc::into_inner(Settings::bare()).unwrap();
        Settings { has_password, hosts, ..bare }
    }

    /// Host, password or none, port on loopback; whether it comes in.
    #[test]
    fn hosts() {
        #[rustfmt::skip]
        let rows = [
            ("localhost", false, true, true),
            ("LOCALHOST:7380", false, true, true),
            ("127.0.0.1:7380", false, true, true),
            ("127.9.9.9", false, true, true),
            ("[::1]:7380", false, true, true),
            ("[::1]", false, true, true),
            ("console.example", false, true, true),
            ("Console.Example:7380", false, true, true),
            ("console.example", false, false, false),
            ("localhost", false, false, false),
            ("evil.example", false, true, false),
            ("localhost.evil.example", false, true, false),
            ("127.0.0.1.evil.example", false, true, false),
            ("10.0.0.1", false, true, false),
            ("evil.example", true, true, true),
            ("10.0.0.1:7380", true, false, true),
        ];
        for (name, has_password, loopback, wanted) in rows {
            let headers = headers(&[&format!("host: {name}")]);
            let host = host(&Uri::from_static("/"), &headers).unwrap();
            let admitted = settings(has_password).admit(&host, &Method::POST, &headers, loopback);
            assert_eq!(admitted.is_ok(), wanted, "{name} {has_password} {loopback}");
        }
    }

    #[test]
    fn one_host_is_named() {
        let rows: [(&[&str], &str, bool); 9] = [
            (&["host: a"], "/", true),
            (&["host: a:1"], "http://a:1/", true),
            (&["host: a"], "http://b/", false),
            (&[], "/", false),
            (&[], "http://a/", false),
            (&["host: a", "host: a"], "/", false),
            (&["host: "], "/", false),
            (&["host: x@a"], "/", false),
            (&["host: a b"], "/", false),
        ];
        for (lines, uri, wanted) in rows {
            let host = host(&uri.parse().unwrap(), &headers(lines));
            assert_eq!(host.is_ok(), wanted, "{lines:?} {uri}: {host:?}");
        }
    }

    /// What browsers say of the page that a request was made for.
    #[test]
    fn origins() {
        let rows: [(&[&str], Method, bool); 12] = [
            (&[], Method::POST, true),
            (&["sec-fetch-site: same-origin"], Method::POST, true),
            (&["sec-fetch-site: same-origin", "origin: http://a:1"], Method::POST, true),
            (&["sec-fetch-site: none"], Method::GET, true),
            (&["sec-fetch-site: none"], Method::POST, false),
            (&["sec-fetch-site: same-site"], Method::POST, false),
            (&["sec-fetch-site: cross-site"], Method::GET, false),
            (&["origin: https://A:1"], Method::POST, true),
            (&["origin: http://b:1"], Method::POST, false),
            (&["origin: http://a"], Method::POST, false),
            (&["origin: null"], Method::POST, false),
            (&["origin: http://a:1", "origin: http://b"], Method::GET, false),
        ];
        for (lines, method, wanted) in rows {
            for has_password in [true, false] {
                let mut settings = settings(has_password);
                settings.hosts.push("A".to_owned());
                let host = Authority::from_static("a:1");
                let admitted = settings.admit(&host, &method, &headers(lines), true);
                assert_eq!(admitted.is_ok(), wanted, "{lines:?} {method}");
            }
        }
    }

    #[test]
    fn names_and_passwords() {
        let of = |text: &str| STANDARD.encode(text);
        let (ann, empty, colons) = (of("ann:right"), of(":"), of(":a:b"));
        let rows = [
            (format!("Basic {ann}"), Some(("ann", "right"))),
            (format!("bearer {ann}"), Some(("ann", "right"))),
            (format!("Basic  {empty} "), Some(("", ""))),
            (format!("Basic {colons}"), Some(("", "a:b"))),
            (format!("Digest {ann}"), None),
            (format!("Basic {}", of("ann")), None),
            ("Basic !".to_owned(), None),
            ("Basic".to_owned(), None),
            (String::new(), None),
        ];
        for (value, wanted) in rows {
            let read = login(&headers(&[&format!("authorization: {value}")]));
            let read = read.ok().flatten().map(|login| (login.user, login.password));
            let wanted =
                wanted.map(|(user, password): (&str, &str)| (user.into(), password.into()));
            assert_eq!(read, wanted, "{value}");
        }
        assert!(login(&headers(&[])).unwrap().is_none());
        let twice = format!("authorization: Basic {ann}");
        assert!(login(&headers(&[&twice, &twice])).is_err());
    }
}
