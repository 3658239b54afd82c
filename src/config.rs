//! The settings: read from their layers and checked once, before anything starts.
//!
//! Does not know how a setting is used, and no other module checks one again. [`settings`] is the
//! list of all, [`kinds`] has the rules for one value, [`layers`] the sources of values; this file
//! has the rules about several settings together. `config/default.toml` is the only source of
//! defaults. Field names are the keys, units included, so one search finds file, check and use.
//! Secrets show nothing in `Debug`, in errors and in what `check` prints.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;

mod change;
mod kinds;
mod layers;
mod log_level;
pub mod pem;
mod queues;
mod redis_url;
mod settings;
mod tls;
mod users;

pub use change::Change;
use kinds::{address, flag};
pub use layers::{ConfigError, ConfigErrors, DEFAULTS, Layers};
use layers::{HIDDEN, Reader};
use queues::check_queues;
pub use queues::{MemberFormat, Queue};
pub use redis_url::{Place, RedisUrl, Site};
pub use settings::{
    AppendFsync, Audit, Config, Http, Limits, Log, LogFormat, Managed, Metrics, Offers, Redis,
    SETTINGS, Scheduler, Server, Setting, Ui,
};
pub use tls::{Handshake, Tls};
use users::check_users;
pub use users::{DEFAULT, User};

const HIDDEN_RULE: &str = "stands in place of a secret where settings are shown; set the secret";

/// PEM files for `rediss://`, each of which could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// `None`: the roots of the system.
    pub ca: Option<PathBuf>,
    /// Certificate and key to show to Redis.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The value of a setting for people: text without quotes.
pub fn shown(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Config {
    /// The defaults with `settings` over them, as flags are: for tests and measurements.
    pub fn with(settings: &[(&'static str, &str)]) -> Result<Self, ConfigErrors> {
        let flags = settings.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Self::load(Layers { flags, ..Layers::default() })
    }

    /// Merges the layers and checks every setting; all errors at once.
    pub fn load(layers: Layers) -> Result<Self, ConfigErrors> {
        let known_command = layers.known_command;
        let mut keys = Reader::new(layers)?;
        let mut config = Self::read(&mut keys);
        config.check_server(&mut keys, known_command);
        config.check_limits(&mut keys);
        config.check_redis(&mut keys);
        config.check_ports(&mut keys);
        check_queues(&mut keys, &config.queues, &config.limits, config.on_cluster());
        check_users(&mut keys, &config.users, known_command);
        config.tls = tls::open(&mut keys, &config.server);
        (config.settings, config.secrets) = keys.finish()?;
        // The text of tables may differ although they are the same.
        let hashes: Vec<&[u8]> = config.users.iter().map(|u| u.password_hash.as_bytes()).collect();
        let hashes = String::from_utf8_lossy(&hashes.concat()).into_owned();
        config.secrets.insert("users".to_owned(), Secret(hashes));
        Ok(config)
    }

    /// Where a running broker answers HTTP, `None` for nowhere. No other setting is checked:
    /// a health check of a container may not have the broker's file.
    pub fn http_listen(layers: Layers) -> Result<Option<SocketAddr>, ConfigErrors> {
        let mut keys = Reader::new(layers)?;
        let listen = keys.read("http.listen", &address());
        if keys.read("http.tls", &flag()) {
            keys.refuse("http.tls", "is on, and health asks without TLS; use --running instead");
        }
        keys.pass_over_the_rest();
        keys.finish().map(|_| listen)
    }

    /// The settings in effect as a file that says the same, except for the secrets: one that holds
    /// a secret is a comment, so that nobody takes the words in its place for the secret itself.
    pub fn effective(&self) -> String {
        let mut file = String::new();
        let mut current = "";
        for (setting, value) in &self.settings {
            let (section, key) = setting.split_once('.').unwrap_or(("", setting));
            if section != current {
                file.push_str(&format!("\n[{section}]\n"));
                current = section;
            }
            let secret = self.secrets.contains_key(setting);
            if secret && value.to_string().contains(HIDDEN) {
                file.push_str("# A secret: set it again, here or in the environment.\n# ");
            }
            file.push_str(&format!("{key} = {value}\n"));
        }
        file
    }

    fn check_server(&self, keys: &mut Reader, known_command: Option<fn(&str) -> bool>) {
        let disabled = &self.server.disabled_commands;
        // Categories are known, too.
        let is_command = |known: fn(&str) -> bool, name: &str| known(name) && !name.contains('@');
        let unknown =
            known_command.and_then(|known| disabled.iter().find(|name| !is_command(known, name)));
        if let Some(unknown) = unknown {
            let rule = format!("must be names of commands; {unknown:?} is not one");
            keys.refuse("server.disabled_commands", rule);
        }
        if self.server.listen.is_none() && self.server.tls_listen.is_none() {
            let rule = "may be empty only where server.tls_listen says where clients connect";
            keys.refuse("server.listen", rule);
        }
        if self.http.tls && self.server.tls_listen.is_none() {
            let rule = "needs the certificate of server.tls_listen, which is empty";
            keys.refuse("http.tls", rule);
        }
        for (key, _, rule) in self.unprotected() {
            keys.refuse(key, rule);
        }
    }

    /// Listeners that others could use without authentication, with the rule that they break.
    fn unprotected(&self) -> Vec<(&'static str, SocketAddr, String)> {
        let server = &self.server;
        if !server.protected_mode || self.has_password() {
            return Vec::new();
        }
        let uncertified = server.tls_listen.filter(|_| server.tls_client_ca_file.is_none());
        let listeners = [
            ("server.listen", server.listen, "server.password or [[users]]"),
            ("server.tls_listen", uncertified, "a password or server.tls_client_ca_file"),
        ];
        let rule = |wants| {
            format!(
                "an address that others can reach needs {wants}; server.protected_mode = false \
                 allows it without"
            )
        };
        let open = |listen: &SocketAddr| !listen.ip().is_loopback();
        let named = listeners.into_iter();
        named
            .filter_map(|(key, listen, wants)| Some((key, listen.filter(open)?, rule(wants))))
            .collect()
    }

    fn check_limits(&self, keys: &mut Reader) {
        let limits = &self.limits;
        // Name of the command, queue, and two for each message.
        if limits.arguments_max < 2 * limits.moffer_messages_max + 2 {
            let rule = "must be at least 2 * limits.moffer_messages_max + 2, or no DQ.MOFFER can \
                        be that large";
            keys.refuse("limits.arguments_max", rule);
        }
        // The names, the headers, the delay and the framing of one offer.
        let around = 2 * limits.queue_name_bytes_max
            + limits.message_name_bytes_max
            + 2 * limits.headers_bytes_max
            + 4096;
        let largest = limits.payload_bytes_max.max(limits.moffer_bytes_max);
        if limits.request_bytes_max < largest.saturating_add(around) {
            let rule = "must exceed limits.payload_bytes_max and limits.moffer_bytes_max by the \
                        names, the headers and 4 KiB, or no command can be that large";
            keys.refuse("limits.request_bytes_max", rule);
        }
        if self.scheduler.retry_max_ms < self.scheduler.retry_min_ms {
            let rule = "must not be less than scheduler.retry_min_ms";
            keys.refuse("scheduler.retry_max_ms", rule);
        }
    }

    /// The backing Redis is a Cluster.
    pub fn on_cluster(&self) -> bool {
        self.redis.url.as_ref().is_some_and(RedisUrl::is_cluster)
    }

    fn check_redis(&self, keys: &mut Reader) {
        let Redis { url, tls_ca_file: ca, tls_cert_file: cert, tls_key_file: key, .. } =
            &self.redis;
        let Redis { sentinel_user: user, sentinel_password: password, .. } = &self.redis;
        if !url.as_ref().is_some_and(RedisUrl::has_sentinels) {
            let given = [
                ("redis.sentinel_user", user.is_some()),
                ("redis.sentinel_password", password.is_some()),
            ];
            for (name, _) in given.into_iter().filter(|(_, given)| *given) {
                let rule = "is for Sentinels only, and redis.url does not begin with \
                            redis-sentinel:// or rediss-sentinel://";
                keys.refuse(name, rule);
            }
        } else if user.is_some() && password.is_none() {
            keys.refuse("redis.sentinel_user", "needs redis.sentinel_password as well");
        }
        if !self.redis.addresses.is_empty() && !self.on_cluster() {
            let rule = "is for a Cluster only, and redis.url does not begin with redis-cluster:// \
                        or rediss-cluster://";
            keys.refuse("redis.addresses", rule);
        }
        let tls = url.as_ref().is_some_and(RedisUrl::tls);
        let files = [
            ("redis.tls_ca_file", ca, None),
            ("redis.tls_cert_file", cert, Some(("redis.tls_key_file", key))),
            ("redis.tls_key_file", key, Some(("redis.tls_cert_file", cert))),
        ];
        for (name, _, partner) in files.into_iter().filter(|(_, path, _)| path.is_some()) {
            if !tls {
                let rule = "is for TLS only, and redis.url does not begin with rediss://, \
                            rediss-sentinel:// or rediss-cluster://";
                keys.refuse(name, rule);
            } else if let Some((other, None)) = partner {
                keys.refuse(name, format!("needs {other} as well"));
            }
        }
    }

    /// Each of our own listeners needs a port of its own (0 is always free).
    fn check_ports(&self, keys: &mut Reader) {
        let port = |listen: Option<SocketAddr>| listen.map_or(0, |listen| listen.port());
        let own_redis = if self.redis.url.is_none() { self.managed.port } else { 0 };
        let ports = [
            ("server.listen", port(self.server.listen)),
            ("server.tls_listen", port(self.server.tls_listen)),
            ("http.listen", port(self.http.listen)),
            ("managed.port", own_redis),
        ];
        for (at, (key, port)) in ports.iter().enumerate().filter(|(_, (_, port))| *port != 0) {
            if let Some((other, _)) = ports.iter().take(at).find(|(_, earlier)| earlier == port) {
                keys.refuse(key, format!("must not be the port of {other}"));
            }
        }
    }
}

impl Config {
    /// True if there is a password to be said: of `default`, or of a user.
    pub fn has_password(&self) -> bool {
        self.server.password.is_some() || !self.users.is_empty()
    }

    /// For the handshakes of HTTP, if it has TLS.
    pub fn http_tls(&self) -> Option<Arc<ServerConfig>> {
        let tls = self.tls.as_ref().filter(|_| self.http.tls);
        tls.map(|tls| Arc::clone(&tls.handshake.0))
    }
}

impl Redis {
    /// The files for TLS to Redis, if the URL asks for it.
    pub fn tls(&self) -> RedisTls {
        let client = self.tls_cert_file.clone().zip(self.tls_key_file.clone());
        RedisTls { ca: self.tls_ca_file.clone(), client }
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
