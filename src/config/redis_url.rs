//! The URL of the backing Redis, taken apart once; shown without user and password.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::domain::text::percent_decoded;

use super::{HIDDEN, HIDDEN_RULE, Secret};

/// Where the backing Redis is, and the user to log in as.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub site: Site,
    /// `None`: the user `default`.
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub database: u8,
    /// The URL as it was given, but for user and password.
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    At(Place),
    /// Wherever the Sentinels say that the master of this name is.
    Named {
        name: String,
        sentinels: Vec<Place>,
    },
    /// The Cluster that one of these is a node of.
    Cluster {
        seeds: Vec<Place>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tcp { host: String, port: u16, tls: bool },
    Unix { path: PathBuf },
}

const FORM: &str = "redis://[[user]:password@]host[:port][/database], \
                    rediss://... for TLS, redis+unix://[[user]:password@]/path[?db=database], \
                    redis-sentinel://[[user]:password@]host[:port],host[:port]/name[/database], \
                    or redis-cluster://[[user]:password@]host[:port],host[:port]";
const SENTINEL_PORT: &str = "26379";
/// A task and two connections for each Sentinel.
const PLACES_MAX: usize = 16;
const PERCENT: &str =
    "must have two hexadecimal digits after each %, and be UTF-8 once decoded; a % itself is %25";
/// Where a password may stand in the place of something else, nothing of it is shown.
const NO_HOST: &str = "if that is a password, @ and the host are missing after it";

impl RedisUrl {
    /// The error says which part is wrong, and shows none that can hold the password.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        Self::at_port(url, "6379")
    }

    /// The URL of a broker, which has another port, no databases and no socket in the file system.
    ///
    /// # Errors
    /// The part that is wrong; nothing that can be a password is shown.
    pub fn of_broker(url: &str) -> Result<Self, String> {
        let url = Self::at_port(url, "7379")?;
        match url.site {
            Site::At(Place::Tcp { .. }) if url.database == 0 => Ok(url),
            Site::At(Place::Tcp { .. }) => Err("has a database, and a broker has none".to_owned()),
            Site::At(Place::Unix { .. }) | Site::Named { .. } | Site::Cluster { .. } => {
                Err("must begin with redis:// or rediss://: a broker listens at ports".to_owned())
            }
        }
    }

    fn at_port(url: &str, port: &str) -> Result<Self, String> {
        let no_scheme = || format!("has no scheme: it must be {FORM}");
        let (scheme, rest) = url.split_once("://").ok_or_else(no_scheme)?;
        let (login, place_text) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        if login == Some(HIDDEN) {
            return Err(HIDDEN_RULE.to_owned());
        }
        let (scheme, (site, database)) = match scheme {
            "redis" | "rediss" => (scheme, tcp(place_text, port, scheme == "rediss")?),
            "redis+unix" | "unix" => ("redis+unix", unix(place_text)?),
            "redis-sentinel" | "rediss-sentinel" => {
                (scheme, sentinels(place_text, scheme == "rediss-sentinel")?)
            }
            "redis-cluster" | "rediss-cluster" => {
                (scheme, cluster(place_text, scheme == "rediss-cluster")?)
            }
            other => {
                let letter = |letter: char| letter.is_ascii_alphabetic() || "+-.".contains(letter);
                let shown = other.len() <= 20 && other.chars().all(letter);
                let shown = if shown { other } else { HIDDEN };
                return Err(format!("its scheme {shown:?} is not one of: {FORM}"));
            }
        };
        let (user, password) = match login.map(|login| login.split_once(':')) {
            None => (None, None),
            Some(Some((_, ""))) => {
                let rule = "its password is empty: there must be one between the colon and the @";
                return Err(rule.to_owned());
            }
            Some(Some((user, password))) => {
                let user = decoded("user", user)?;
                let password = Secret(decoded("password", password)?);
                (Some(user).filter(|user| !user.is_empty()), Some(password))
            }
            Some(None) => {
                let rule = "has a user but no password, which must stand between a colon and \
                            the @: redis://:password@host or redis://user:password@host";
                return Err(rule.to_owned());
            }
        };
        let hidden = if login.is_some() { format!("{HIDDEN}@") } else { String::new() };
        Ok(Self {
            site,
            user,
            password,
            database,
            shown: format!("{scheme}://{hidden}{place_text}"),
        })
    }

    pub fn tls(&self) -> bool {
        let encrypted = |place: &Place| matches!(place, Place::Tcp { tls: true, .. });
        match &self.site {
            Site::At(place) => encrypted(place),
            Site::Named { sentinels: places, .. } | Site::Cluster { seeds: places } => {
                places.iter().all(encrypted)
            }
        }
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.site, Site::Cluster { .. })
    }

    pub fn has_sentinels(&self) -> bool {
        matches!(self.site, Site::Named { .. })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

fn tcp(text: &str, usual_port: &str, tls: bool) -> Result<(Site, u8), String> {
    let (address, path) = text.split_once('/').unwrap_or((text, ""));
    Ok((Site::At(at(address, usual_port, tls)?), number(path)?))
}

fn sentinels(text: &str, tls: bool) -> Result<(Site, u8), String> {
    let (addresses, path) = text.split_once('/').unwrap_or((text, ""));
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    let sentinels = several(addresses, "Sentinel", SENTINEL_PORT, tls)?;
    if name.is_empty() {
        let rule = "has no name of the master, which must stand behind the hosts, as in `sentinel \
                    monitor name ...`: redis-sentinel://host:26379,host:26379/name";
        return Err(rule.to_owned());
    }
    Ok((Site::Named { name: decoded("name", name)?, sentinels }, number(database)?))
}

fn cluster(text: &str, tls: bool) -> Result<(Site, u8), String> {
    let (addresses, path) = text.split_once('/').unwrap_or((text, ""));
    if !path.is_empty() {
        let rule = "has something behind the hosts, and a Cluster has no databases: \
                    redis-cluster://host:6379,host:6379";
        return Err(rule.to_owned());
    }
    Ok((Site::Cluster { seeds: several(addresses, "node", "6379", tls)? }, 0))
}

/// Addresses with commas between, each once.
fn several(addresses: &str, what: &str, port: &str, tls: bool) -> Result<Vec<Place>, String> {
    let mut places = Vec::new();
    for address in addresses.split(',') {
        let place = at(address, port, tls)?;
        if places.contains(&place) {
            return Err(format!("names one {what} twice"));
        }
        places.push(place);
    }
    let count = places.len();
    if count > PLACES_MAX {
        return Err(format!("names {count} {what}s, and at most {PLACES_MAX} are asked"));
    }
    Ok(places)
}

pub(super) fn at(address: &str, usual_port: &str, tls: bool) -> Result<Place, String> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (address, usual_port),
    };
    // An IPv6 address stands in brackets, which are not part of it.
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let of_name = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
    let host = match inner {
        _ if host.is_empty() => {
            return Err(format!("has no host; it must be {FORM}"));
        }
        Some(inner) if inner.parse::<Ipv6Addr>().is_ok() || scoped(inner) => inner,
        Some(_) => return Err("its host in brackets is not an IPv6 address".to_owned()),
        None if host.parse::<Ipv6Addr>().is_ok() || address.parse::<Ipv6Addr>().is_ok() => {
            let rule = "its host is an IPv6 address, which must stand in brackets: redis://[::1]";
            return Err(rule.to_owned());
        }
        None if host.chars().all(of_name) => host,
        None => {
            let rule = "its host has a character that hosts cannot have";
            return Err(format!("{rule}; {NO_HOST}"));
        }
    };
    let host = host.to_owned();
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        format!("its port, after the host and a colon, is not a number from 1 to 65535; {NO_HOST}")
    })?;
    Ok(Place::Tcp { host, port, tls })
}

/// With the interface that a link-local address needs.
fn scoped(address: &str) -> bool {
    let parts = address.split_once('%');
    parts.is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

fn unix(text: &str) -> Result<(Site, u8), String> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') || path.len() < 2 {
        let rule = "its path must be that of a socket, from the root: redis+unix:///run/redis.sock";
        return Err(rule.to_owned());
    }
    let database = match query {
        "" => "",
        query => {
            query.strip_prefix("db=").ok_or("its query must be ?db= and the database, or none")?
        }
    };
    let path = decoded("path", path)?.into();
    Ok((Site::At(Place::Unix { path }), number(database)?))
}

fn number(database: &str) -> Result<u8, String> {
    if database.is_empty() {
        return Ok(0);
    }
    let rule = || format!("its database must be a number from 0 to 255, or none; {NO_HOST}");
    database.parse().map_err(|_| rule())
}

fn decoded(part: &str, text: &str) -> Result<String, String> {
    let bytes = percent_decoded(text);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| format!("its {part} {PERCENT}"))
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
        let unix = |path: &str| Site::At(Place::Unix { path: path.into() });
        let at = |host: &str, port, tls| Place::Tcp { host: host.to_owned(), port, tls };
        let tcp = |host: &str, port, tls| Site::At(at(host, port, tls));
        let named = |name: &str, sentinels| Site::Named { name: name.to_owned(), sentinels };
        #[rustfmt::skip]
        let rows = [
            ("redis://h", "", "", tcp("h", 6379, false), 0, "redis://h"),
            ("rediss://h:1/5", "", "", tcp("h", 1, true), 5, "rediss://h:1/5"),
            ("redis://:p%40%3A%2f@h", "", "p@:/", tcp("h", 6379, false), 0, "redis://(hidden)@h"),
            ("redis://%C3%A9:a@b@h/9", "é", "a@b", tcp("h", 6379, false), 9,
             "redis://(hidden)@h/9"),
            ("redis://[::1]:7/1", "", "", tcp("::1", 7, false), 1, "redis://[::1]:7/1"),
            ("redis://[::1]", "", "", tcp("::1", 6379, false), 0, "redis://[::1]"),
            ("redis://my_redis-1.x.", "", "", tcp("my_redis-1.x.", 6379, false), 0,
             "redis://my_redis-1.x."),
            ("redis://[fe80::1%eth0]:7", "", "", tcp("fe80::1%eth0", 7, false), 0,
             "redis://[fe80::1%eth0]:7"),
            ("unix:///run/r.sock", "", "", unix("/run/r.sock"), 0, "redis+unix:///run/r.sock"),
            ("redis+unix://u:p@/a%20b?db=3", "u", "p", unix("/a b"), 3,
             "redis+unix://(hidden)@/a%20b?db=3"),
            ("redis-sentinel://h/m", "", "", named("m", vec![at("h", 26379, false)]), 0,
             "redis-sentinel://h/m"),
            ("rediss-sentinel://u:p@h:1,[::1]:2,g/m%2f/3", "u", "p",
             named("m/", vec![at("h", 1, true), at("::1", 2, true), at("g", 26379, true)]), 3,
             "rediss-sentinel://(hidden)@h:1,[::1]:2,g/m%2f/3"),
        ];
        for (url, user, password, site, database, shown) in rows {
            let parsed = RedisUrl::parse(url).unwrap();
            assert_eq!(parsed.user.as_deref().unwrap_or_default(), user, "{url}");
            let its = parsed.password.as_ref().map_or("", Secret::expose);
            assert_eq!(its, password, "{url}");
            assert_eq!((&parsed.site, parsed.database), (&site, database), "{url}");
            assert_eq!(parsed.to_string(), shown, "{url}");
            assert_eq!(parsed.tls(), url.starts_with("rediss"), "{url}");
        }
    }

    #[test]
    fn clusters() {
        for (url, tls, shown) in [
            ("redis-cluster://a,b:7", false, "redis-cluster://a,b:7"),
            ("rediss-cluster://u:p@a,b:7/", true, "rediss-cluster://(hidden)@a,b:7/"),
        ] {
            let parsed = RedisUrl::parse(url).unwrap();
            let seeds = [("a", 6379), ("b", 7)].map(|(host, port)| {
                let host = host.to_owned();
                Place::Tcp { host, port, tls }
            });
            assert_eq!(parsed.site, Site::Cluster { seeds: seeds.to_vec() }, "{url}");
            assert_eq!((parsed.tls(), parsed.is_cluster()), (tls, true), "{url}");
            assert_eq!(parsed.to_string(), shown);
        }
        let many: Vec<String> = (0..=PLACES_MAX).map(|n| format!("h{n}")).collect();
        let error = RedisUrl::parse(&format!("redis-cluster://{}", many.join(","))).unwrap_err();
        assert!(error.contains("names 17 nodes"), "{error}");
    }

    #[test]
    fn of_brokers() {
        let port = |url: &str| RedisUrl::of_broker(url).map(|url| url.site);
        let at = |port, tls| Ok(Site::At(Place::Tcp { host: "h".to_owned(), port, tls }));
        assert_eq!(port("redis://h"), at(7379, false));
        assert_eq!(port("rediss://h:1/0"), at(1, true));
        assert!(port("redis://h/1").unwrap_err().contains("a broker has none"));
        assert!(port("unix:///s").unwrap_err().contains("listens at ports"));
        assert!(port("redis-sentinel://h/m").unwrap_err().contains("listens at ports"));
        assert!(port("redis-cluster://h").unwrap_err().contains("listens at ports"));
    }

    /// Each row: a URL, and a part of what is wrong with it.
    #[test]
    fn mistakes() {
        #[rustfmt::skip]
        let rows = [
            ("localhost", "has no scheme: it must be redis://"),
            ("redis:hunter2@h", "has no scheme"),
            ("http://h", "its scheme \"http\" is not one of: redis://"),
            ("hunter2!://h", "its scheme \"(hidden)\""),
            ("redis://", "has no host"),
            ("redis-cluster://", "has no host"),
            ("redis-cluster://a,", "has no host"),
            ("redis-cluster://a,b:6379,a:6379", "names one node twice"),
            ("redis-cluster://a,b/0", "a Cluster has no databases"),
            ("redis-cluster://a,b/name", "a Cluster has no databases"),
            ("redis-cluster://a,redis://b", "host"),
            ("rediss-clusters://a", "is not one of: redis://"),
            ("redis://:6379", "has no host"),
            ("redis://u:hunter2@", "has no host"),
            ("redis://::1", "must stand in brackets"),
            ("redis://::1:6379", "must stand in brackets"),
            ("redis://[x]:6379", "is not an IPv6 address"),
            ("redis://h o", "its host has a character"),
            ("redis://u:hunter2:h", "its host has a character"),
            ("redis://h:0", "its port"),
            ("redis://h:65536", "its port"),
            ("redis://h:x", "its port"),
            ("redis://h:", "its port"),
            ("redis://user:hunter2", "@ and the host are missing"),
            ("redis://user:p/hunter2", "its port"),
            ("redis+unix://", "its path must be that of a socket"),
            ("redis+unix:///", "its path"),
            ("redis+unix://run/redis.sock", "its path"),
            ("redis+unix:///p?x=1", "its query must be ?db="),
            ("redis+unix:///a%zz", "its path must have two hexadecimal digits"),
            ("redis+unix:///p?db=x", "its database must be a number from 0 to 255"),
            ("redis://h/256", "its database must be a number from 0 to 255"),
            ("redis://h/hunter2", "its database"),
            ("redis://h/0?x", "its database"),
            ("redis://hunter2@h", "has a user but no password"),
            ("redis://user:@h", "its password is empty"),
            ("redis://:hunter2%zz@h", "its password must have two hexadecimal digits"),
            ("redis://:hunter2%4@h", "its password must have two hexadecimal digits"),
            ("redis://a%zz:hunter2@h", "its user must have two hexadecimal digits"),
            ("redis://:%ff@h", "UTF-8"),
            ("redis://(hidden)@h", "stands in place of a secret"),
            ("redis-sentinel://h:1,g:2", "has no name of the master"),
            ("redis-sentinel://h:1/", "has no name of the master"),
            ("redis-sentinel://h:1//3", "has no name of the master"),
            ("redis-sentinel:///m", "has no host"),
            ("redis-sentinel://h,,g/m", "has no host"),
            ("redis-sentinel://h:1,g:x/m", "its port"),
            ("redis-sentinel://h,h:26379/m", "names one Sentinel twice"),
            ("redis-sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/m", "names 17 Sentinels"),
            ("redis-sentinel://h/m%zz", "its name must have two hexadecimal digits"),
            ("redis-sentinel://h/m/x", "its database"),
            ("redis-sentinel://user:hunter2", "its port"),
        ];
        for (url, rule) in rows {
            let error = RedisUrl::parse(url).unwrap_err();
            assert!(error.contains(rule), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }
}
