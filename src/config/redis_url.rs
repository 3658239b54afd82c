//! The URL of the backing Redis, taken apart once; shown without user and password.

use std::fmt;
use std::path::PathBuf;

use super::{HIDDEN, HIDDEN_RULE, Secret};

/// Where the backing Redis is, and as whom to go there.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub place: Place,
    /// `None`: the user `default`.
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub database: u8,
    /// The URL as it was given, but for user and password.
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tcp { host: String, port: u16, tls: bool },
    Unix { path: PathBuf },
}

const FORM: &str = "must be redis://[[user]:password@]host[:port][/database], \
                    rediss://... for TLS, or redis+unix://[[user]:password@]/path[?db=database]";
const PERCENT: &str = "must have two hexadecimal digits after each %, and UTF-8 behind them; \
                       a % itself is %25";

impl RedisUrl {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
        let (login, place_text) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        if login == Some(HIDDEN) {
            return Err(HIDDEN_RULE.to_owned());
        }
        let (scheme, (place, database)) = match scheme {
            "redis" | "rediss" => (scheme, tcp(place_text, scheme == "rediss")?),
            "redis+unix" | "unix" => ("redis+unix", unix(place_text)?),
            _ => return Err(FORM.to_owned()),
        };
        let (user, password) = match login.map(|login| login.split_once(':')) {
            None => (None, None),
            Some(Some((user, password))) if !password.is_empty() => {
                let user = Some(decoded(user)?).filter(|user| !user.is_empty());
                (user, Some(Secret(decoded(password)?)))
            }
            Some(_) => {
                let rule = "must have a password behind a colon before the @: \
                            redis://:password@host or redis://user:password@host";
                return Err(rule.to_owned());
            }
        };
        let hidden = if login.is_some() {
            format!("{HIDDEN}@")
        } else {
            String::new()
        };
        Ok(Self {
            place,
            user,
            password,
            database,
            shown: format!("{scheme}://{hidden}{place_text}"),
        })
    }

    pub fn tls(&self) -> bool {
        matches!(self.place, Place::Tcp { tls: true, .. })
    }
}

fn tcp(text: &str, tls: bool) -> Result<(Place, u8), String> {
    let (address, path) = text.split_once('/').unwrap_or((text, ""));
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (address, "6379"),
    };
    // An IPv6 address stands in brackets, which are not part of it.
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host).to_owned();
    let port = port.parse().ok().filter(|port| *port > 0).ok_or(FORM)?;
    if host.is_empty() {
        return Err(FORM.to_owned());
    }
    Ok((Place::Tcp { host, port, tls }, number(path)?))
}

fn unix(text: &str) -> Result<(Place, u8), String> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') || path.len() < 2 {
        return Err(FORM.to_owned());
    }
    let database = match query {
        "" => "",
        query => query.strip_prefix("db=").ok_or(FORM)?,
    };
    let path = decoded(path)?.into();
    Ok((Place::Unix { path }, number(database)?))
}

fn number(database: &str) -> Result<u8, String> {
    if database.is_empty() {
        return Ok(0);
    }
    let rule = || "must have a database number from 0 to 255 at its end, or none".to_owned();
    database.parse().map_err(|_| rule())
}

fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(PERCENT.to_owned());
        };
        bytes.push((high * 16 + low) as u8);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| PERCENT.to_owned())
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a URL; user, password, place, database; how it is shown.
    #[test]
    fn parts() {
        let tcp = |host: &str, port, tls| Place::Tcp {
            host: host.to_owned(),
            port,
            tls,
        };
        let unix = |path: &str| Place::Unix { path: path.into() };
        #[rustfmt::skip]
        let rows = [
            ("redis://h", "", "", tcp("h", 6379, false), 0, "redis://h"),
            ("rediss://h:1/5", "", "", tcp("h", 1, true), 5, "rediss://h:1/5"),
            ("redis://:p%40%3A%2f@h", "", "p@:/", tcp("h", 6379, false), 0, "redis://(hidden)@h"),
            ("redis://%C3%A9:a@b@h/9", "é", "a@b", tcp("h", 6379, false), 9,
             "redis://(hidden)@h/9"),
            ("redis://[::1]:7/1", "", "", tcp("::1", 7, false), 1, "redis://[::1]:7/1"),
            ("redis://[::1]", "", "", tcp("::1", 6379, false), 0, "redis://[::1]"),
            ("unix:///run/r.sock", "", "", unix("/run/r.sock"), 0, "redis+unix:///run/r.sock"),
            ("redis+unix://u:p@/a%20b?db=3", "u", "p", unix("/a b"), 3,
             "redis+unix://(hidden)@/a%20b?db=3"),
        ];
        for (url, user, password, place, database, shown) in rows {
            let parsed = RedisUrl::parse(url).unwrap();
            assert_eq!(parsed.user.as_deref().unwrap_or_default(), user, "{url}");
            let its = parsed.password.as_ref().map_or("", Secret::expose);
            assert_eq!(its, password, "{url}");
            assert_eq!(
                (&parsed.place, parsed.database),
                (&place, database),
                "{url}"
            );
            assert_eq!(parsed.to_string(), shown, "{url}");
        }
    }

    /// Each row: a URL, and a part of what it must be.
    #[test]
    fn mistakes() {
        for (url, rule) in [
            ("localhost", "must be redis://"),
            ("http://h", "must be redis://"),
            ("redis://", "must be redis://"),
            ("redis://h:0", "must be redis://"),
            ("redis+unix://", "must be redis://"),
            ("redis+unix:///", "must be redis://"),
            ("redis+unix:///p?x=1", "must be redis://"),
            ("redis://h/256", "from 0 to 255"),
            ("redis://h/0?x", "from 0 to 255"),
            ("redis://word@h", "a password behind a colon"),
            ("redis://user:@h", "a password behind a colon"),
            ("redis://:a%zz@h", "two hexadecimal digits"),
            ("redis://:a%4@h", "two hexadecimal digits"),
            ("redis://:%ff@h", "UTF-8"),
            ("redis://(hidden)@h", "stands in place of a secret"),
        ] {
            let error = RedisUrl::parse(url).unwrap_err();
            assert!(error.contains(rule), "{url}: {error}");
        }
    }
}
