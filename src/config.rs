//! The settings: every key with its type and rule, checked once, before anything starts.
//!
//! Does not know who uses a setting, and no other module checks one again. `config/default.toml`
//! is the only source of defaults; a test holds the two to the same keys. Field names are the
//! keys, units included, so one search finds file, check and use. Secrets show nothing in
//! `Debug`, in errors and in `settings`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ::config::Value;
use regex::bytes::Regex;

mod change;
mod layers;
mod queues;
mod redis_url;
mod tls;

pub use change::{Change, RELOADED};
pub use layers::{ConfigError, ConfigErrors, DEFAULTS, Layers};
use layers::{HIDDEN, Reader, names, text};
pub use queues::{MemberFormat, Queue};
use queues::{check_queues, parse_queues};
pub use redis_url::{Place, RedisUrl};
pub use tls::Tls;
use tls::TlsKeys;

use crate::pem;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// Settings that hold a secret, or can.
const SECRETS: [&str; 2] = ["server.password", "redis.url"];
/// Milliseconds of a day: the bound of waits, where more is a mistake in the unit.
const DAY_MS: u64 = 86_400_000;

/// Everything that was set, checked.
#[derive(Debug, Clone)]
pub struct Config {
    pub server: Server,
    pub limits: Limits,
    pub redis: Redis,
    pub managed: Managed,
    pub http: Http,
    pub log: Log,
    pub offers: Offers,
    pub scheduler: Scheduler,
    pub metrics: Metrics,
    pub queues: Vec<Queue>,
    /// Every key (`section.key`) with its value in effect; secrets hidden.
    pub settings: Vec<(String, toml::Value)>,
}

#[derive(Debug, Clone)]
pub struct Server {
    /// `None`: nowhere; then `tls` is there.
    pub listen: Option<SocketAddr>,
    pub tls: Option<Tls>,
    pub password: Option<Secret>,
    pub protected_mode: bool,
    pub clients_max: usize,
    pub clients_per_address_max: usize,
    /// 0 = never.
    pub idle_timeout_s: u64,
    pub output_bytes_max: usize,
    pub stall_timeout_s: u64,
    pub grace_s: u64,
    /// In upper case.
    pub disabled_commands: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Limits {
    pub payload_bytes_max: usize,
    pub queue_name_bytes_max: usize,
    pub message_name_bytes_max: usize,
    pub queue_pattern: Option<Regex>,
    pub delay_max_ms: u64,
    pub arguments_max: usize,
    pub request_bytes_max: usize,
    pub inline_bytes_max: usize,
    pub buffers_bytes_max: usize,
    pub moffer_messages_max: usize,
    pub moffer_bytes_max: usize,
    pub reply_bytes_max: usize,
    pub queues_max: usize,
}

#[derive(Debug, Clone)]
pub struct Redis {
    /// `None`: a managed one.
    pub url: Option<RedisUrl>,
    pub tls: RedisTls,
    pub audit: Audit,
    pub call_timeout_ms: u64,
    pub settle_timeout_ms: u64,
    pub connect_timeout_ms: u64,
}

/// PEM files for `rediss://`, each of which could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// `None`: the roots of the system.
    pub ca: Option<PathBuf>,
    /// Certificate and key to show to Redis.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// What a finding of the audit may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    Refuse,
    Warn,
    Off,
}

#[derive(Debug, Clone)]
pub struct Managed {
    pub data_dir: PathBuf,
    /// 0 = a free one.
    pub port: u16,
    pub appendfsync: AppendFsync,
    /// `None`: redis-server or valkey-server, as PATH has them.
    pub program: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    Always,
    EverySec,
    No,
}

#[derive(Debug, Clone)]
pub struct Http {
    /// `None`: nowhere.
    pub listen: Option<SocketAddr>,
}

#[derive(Debug, Clone)]
pub struct Log {
    /// A filter of tracing-subscriber, checked.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub struct Offers {
    pub batch_messages_max: usize,
    pub batch_bytes_max: usize,
    pub second_call_from: usize,
}

#[derive(Debug, Clone)]
pub struct Scheduler {
    pub transfers_in_flight_max: usize,
    pub transfer_messages_max: usize,
    pub transfer_ms_max: u64,
    pub scan_interval_ms: u64,
    pub heartbeat_ms: u64,
    pub retry_min_ms: u64,
    pub retry_max_ms: u64,
}

#[derive(Debug, Clone)]
pub struct Metrics {
    pub queues_max: usize,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Config {
    /// The defaults with `settings` over them, as flags are: for tests and measurements.
    pub fn with(settings: &[(&'static str, &str)]) -> Result<Self, ConfigErrors> {
        let flags = settings
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect();
        Self::load(Layers {
            flags,
            ..Layers::default()
        })
    }

    /// Merges the layers and checks every setting; all errors at once.
    pub fn load(layers: Layers) -> Result<Self, ConfigErrors> {
        let mut keys = Reader::new(layers)?;
        let queues = keys.read("queues", parse_queues, |queues| {
            toml::Value::Array(queues.iter().map(Queue::shown).collect())
        });
        let server = Server::read(&mut keys);
        let limits = Limits::read(&mut keys);
        let redis = Redis::read(&mut keys);
        let managed = Managed::read(&mut keys);
        let http = Http {
            listen: keys.read("http.listen", parse_listen, show_listen),
        };
        let log = Log::read(&mut keys);
        let offers = Offers {
            batch_messages_max: keys.size("offers.batch_messages_max", 1..=10_000),
            batch_bytes_max: keys.size("offers.batch_bytes_max", KIB..=64 * MIB),
            second_call_from: keys.size("offers.second_call_from", 1..=10_000),
        };
        let scheduler = Scheduler::read(&mut keys);
        let metrics = Metrics {
            queues_max: keys.size("metrics.queues_max", 0..=100_000),
        };
        check_ports(&mut keys, &server, &redis, &managed, &http);
        check_queues(&mut keys, &queues, &limits);
        let settings = keys.finish()?;
        Ok(Self {
            server,
            limits,
            redis,
            managed,
            http,
            log,
            offers,
            scheduler,
            metrics,
            queues,
            settings,
        })
    }

    /// Where a running broker answers HTTP, `None` for nowhere. No other setting is checked: who
    /// asks for a broker's health, as a container does, need not know the file that it was given.
    pub fn http_listen(layers: Layers) -> Result<Option<SocketAddr>, ConfigErrors> {
        let mut keys = Reader::new(layers)?;
        let listen = keys.read("http.listen", parse_listen, show_listen);
        keys.pass_over_the_rest();
        keys.finish().map(|_| listen)
    }

    /// The settings in effect as a file that says the same, but for the secrets: what holds one is
    /// a comment, so that nobody takes the words in its place for the secret itself.
    pub fn effective(&self) -> String {
        let mut file = String::new();
        let mut current = "";
        for (setting, value) in &self.settings {
            let (section, key) = setting.split_once('.').unwrap_or(("", setting));
            if section != current {
                file.push_str(&format!("\n[{section}]\n"));
                current = section;
            }
            let hidden = SECRETS.contains(&setting.as_str()) && holds_hidden(value);
            if hidden {
                file.push_str("# A secret: set it again, here or in the environment.\n# ");
            }
            file.push_str(&format!("{key} = {value}\n"));
        }
        file
    }
}

impl Server {
    fn read(keys: &mut Reader) -> Self {
        let listen = keys.read("server.listen", parse_listen, show_listen);
        let tls = TlsKeys::read(keys);
        let (tls_listen, certified) = (tls.listen, tls.client_ca.is_some());
        let server = Self {
            listen,
            tls: tls.open(keys),
            password: keys.read_secret("server.password", parse_password, |password| {
                let hidden = password.as_ref().map_or("", |_| HIDDEN);
                hidden.to_owned()
            }),
            protected_mode: keys.flag("server.protected_mode"),
            clients_max: keys.size("server.clients_max", 1..=1_000_000),
            clients_per_address_max: keys.size("server.clients_per_address_max", 1..=1_000_000),
            idle_timeout_s: keys.whole("server.idle_timeout_s", 0..=DAY_MS),
            output_bytes_max: keys.size("server.output_bytes_max", 64 * KIB..=16 * GIB),
            stall_timeout_s: keys.whole("server.stall_timeout_s", 1..=86_400),
            grace_s: keys.whole("server.grace_s", 0..=3_600),
            disabled_commands: keys.read("server.disabled_commands", parse_commands, |commands| {
                let strings = commands.iter().cloned().map(toml::Value::String);
                toml::Value::Array(strings.collect())
            }),
        };
        if listen.is_none() && tls_listen.is_none() {
            let rule = "may be empty only where server.tls_listen says where clients connect";
            keys.refuse("server.listen", "\"\"", rule);
        }
        for (key, address, rule) in server.unprotected(tls_listen, certified) {
            keys.refuse(key, address, rule);
        }
        server
    }

    /// Listeners that others could use without saying who they are, with the rule they break.
    fn unprotected(
        &self,
        tls: Option<SocketAddr>,
        certified: bool,
    ) -> Vec<(&'static str, SocketAddr, String)> {
        let listeners = [
            ("server.listen", self.listen, "server.password"),
            (
                "server.tls_listen",
                tls.filter(|_| !certified),
                "server.password or server.tls_client_ca_file",
            ),
        ];
        let open = |listen: Option<SocketAddr>| listen.filter(|at| !at.ip().is_loopback());
        let rule = |wants| {
            format!(
                "an address that others can reach needs {wants}; \
                 server.protected_mode = false allows it without"
            )
        };
        if !self.protected_mode || self.password.is_some() {
            return Vec::new();
        }
        let named = listeners.into_iter();
        named
            .filter_map(|(key, listen, wants)| Some((key, open(listen)?, rule(wants))))
            .collect()
    }
}

impl Limits {
    fn read(keys: &mut Reader) -> Self {
        let limits = Self {
            payload_bytes_max: keys.size("limits.payload_bytes_max", 1..=512 * MIB),
            queue_name_bytes_max: keys.size("limits.queue_name_bytes_max", 1..=64 * KIB),
            message_name_bytes_max: keys.size("limits.message_name_bytes_max", 1..=64 * KIB),
            queue_pattern: keys.read("limits.queue_pattern", parse_pattern, |pattern| {
                let pattern = pattern.as_ref().map_or("", Regex::as_str);
                toml::Value::String(pattern.to_owned())
            }),
            // Scores stay below 10^15 (the year 33658), where doubles are exact to spare.
            delay_max_ms: keys.whole("limits.delay_max_ms", 1..=900_000_000_000_000),
            arguments_max: keys.size("limits.arguments_max", 16..=1_000_000),
            request_bytes_max: keys.size("limits.request_bytes_max", 64 * KIB..=4 * GIB),
            inline_bytes_max: keys.size("limits.inline_bytes_max", KIB..=MIB),
            buffers_bytes_max: keys.size("limits.buffers_bytes_max", MIB..=64 * GIB),
            moffer_messages_max: keys.size("limits.moffer_messages_max", 1..=100_000),
            moffer_bytes_max: keys.size("limits.moffer_bytes_max", 1..=GIB),
            reply_bytes_max: keys.size("limits.reply_bytes_max", 64 * KIB..=GIB),
            queues_max: keys.size("limits.queues_max", 1..=10_000_000),
        };
        // Name of the command, queue, and two for each message.
        if limits.arguments_max < 2 * limits.moffer_messages_max + 2 {
            keys.refuse(
                "limits.arguments_max",
                limits.arguments_max,
                "must be at least 2 * limits.moffer_messages_max + 2, or no DQ.MOFFER reaches that",
            );
        }
        // The names, the delay and the framing of one offer.
        let around = 2 * limits.queue_name_bytes_max + limits.message_name_bytes_max + 4096;
        let largest = limits.payload_bytes_max.max(limits.moffer_bytes_max);
        if limits.request_bytes_max < largest.saturating_add(around) {
            keys.refuse(
                "limits.request_bytes_max",
                limits.request_bytes_max,
                "must exceed limits.payload_bytes_max and limits.moffer_bytes_max by the names and \
                 4 KiB, or no command reaches those",
            );
        }
        limits
    }
}

impl Redis {
    fn read(keys: &mut Reader) -> Self {
        let parse = |value: &Value| match text(value)?.as_str() {
            "" => Ok(None),
            url => RedisUrl::parse(url).map(Some),
        };
        let url = keys.read_secret("redis.url", parse, |url: &Option<RedisUrl>| {
            url.as_ref().map_or_else(String::new, RedisUrl::to_string)
        });
        let tls = RedisTls::read(keys, url.as_ref().is_some_and(RedisUrl::tls));
        let audit = [
            ("refuse", Audit::Refuse),
            ("warn", Audit::Warn),
            ("off", Audit::Off),
        ];
        Self {
            url,
            tls,
            audit: keys.choice("redis.audit", &audit),
            call_timeout_ms: keys.whole("redis.call_timeout_ms", 10..=DAY_MS),
            settle_timeout_ms: keys.whole("redis.settle_timeout_ms", 10..=DAY_MS),
            connect_timeout_ms: keys.whole("redis.connect_timeout_ms", 10..=DAY_MS),
        }
    }
}

impl RedisTls {
    fn read(keys: &mut Reader, tls: bool) -> Self {
        let certificates = |path: &Path| pem::certificates(path).map(drop);
        let ca = file(keys, "redis.tls_ca_file", certificates);
        let cert = file(keys, "redis.tls_cert_file", certificates);
        let key = file(keys, "redis.tls_key_file", |path| {
            pem::private_key(path).map(drop)
        });
        let named = [
            ("redis.tls_ca_file", &ca, None),
            (
                "redis.tls_cert_file",
                &cert,
                Some(("redis.tls_key_file", &key)),
            ),
            (
                "redis.tls_key_file",
                &key,
                Some(("redis.tls_cert_file", &cert)),
            ),
        ];
        for (name, path, partner) in named {
            let Some(path) = path else { continue };
            if !tls {
                let rule = "is for TLS only, and redis.url does not begin with rediss://";
                keys.refuse(name, path.display(), rule);
            } else if let Some((other, None)) = partner {
                let rule = format!("needs {other} beside it");
                keys.refuse(name, path.display(), rule);
            }
        }
        Self {
            ca,
            client: cert.zip(key),
        }
    }
}

/// The path of a file that the broker reads; empty = none.
fn file(
    keys: &mut Reader,
    key: &str,
    readable: impl Fn(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    let parse = |value: &Value| match text(value)?.as_str() {
        "" => Ok(None),
        path => readable(Path::new(path)).map(|()| Some(PathBuf::from(path))),
    };
    keys.read(key, parse, |path| {
        let path = path.clone().unwrap_or_default();
        toml::Value::String(path.display().to_string())
    })
}

impl Managed {
    fn read(keys: &mut Reader) -> Self {
        let parse_dir = |value: &Value| match text(value)?.as_str() {
            "" => Err("must be a directory".to_owned()),
            path => Ok(PathBuf::from(path)),
        };
        let fsync = [
            ("always", AppendFsync::Always),
            ("everysec", AppendFsync::EverySec),
            ("no", AppendFsync::No),
        ];
        let port = keys.whole("managed.port", 0..=65_535);
        Self {
            data_dir: keys.read("managed.data_dir", parse_dir, |path| {
                show_path(&Some(path.clone()))
            }),
            port: u16::try_from(port).unwrap_or_default(),
            appendfsync: keys.choice("managed.appendfsync", &fsync),
            program: keys.read("managed.program", parse_path, show_path),
        }
    }
}

impl AppendFsync {
    /// As Redis writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySec => "everysec",
            Self::No => "no",
        }
    }
}

impl Log {
    fn read(keys: &mut Reader) -> Self {
        let parse = |value: &Value| {
            let level = text(value)?;
            let filter = tracing_subscriber::EnvFilter::builder().parse(&level);
            filter
                .map(|_| level)
                .map_err(|error| format!("must be a level or a filter: {error}"))
        };
        let formats = [
            ("auto", LogFormat::Auto),
            ("text", LogFormat::Text),
            ("json", LogFormat::Json),
        ];
        Self {
            level: keys.read("log.level", parse, |level| {
                toml::Value::String(level.clone())
            }),
            format: keys.choice("log.format", &formats),
        }
    }
}

impl Scheduler {
    fn read(keys: &mut Reader) -> Self {
        let scheduler = Self {
            transfers_in_flight_max: keys.size("scheduler.transfers_in_flight_max", 1..=1_000),
            // 7,000 is below the 8,000 values that Lua's unpack can return.
            transfer_messages_max: keys.size("scheduler.transfer_messages_max", 1..=7_000),
            transfer_ms_max: keys.whole("scheduler.transfer_ms_max", 1..=1_000),
            scan_interval_ms: keys.whole("scheduler.scan_interval_ms", 10..=DAY_MS),
            heartbeat_ms: keys.whole("scheduler.heartbeat_ms", 10..=60_000),
            retry_min_ms: keys.whole("scheduler.retry_min_ms", 1..=60_000),
            retry_max_ms: keys.whole("scheduler.retry_max_ms", 1..=DAY_MS),
        };
        if scheduler.retry_max_ms < scheduler.retry_min_ms {
            let rule = "must not be less than scheduler.retry_min_ms";
            keys.refuse("scheduler.retry_max_ms", scheduler.retry_max_ms, rule);
        }
        scheduler
    }
}

const HIDDEN_RULE: &str = "is what stands in place of a secret where it is shown; set the secret";

fn holds_hidden(value: &toml::Value) -> bool {
    value.as_str().is_some_and(|text| text.contains(HIDDEN))
}

const LISTEN_RULE: &str = "must be address:port, such as 127.0.0.1:7379 or [::1]:7379";

fn parse_listen(value: &Value) -> Result<Option<SocketAddr>, String> {
    let listen = text(value)?;
    if listen.is_empty() {
        return Ok(None);
    }
    let local = listen
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local
        .or_else(|| listen.parse().ok())
        .map(Some)
        .ok_or_else(|| LISTEN_RULE.to_owned())
}

fn show_listen(listen: &Option<SocketAddr>) -> toml::Value {
    toml::Value::String(listen.map_or_else(String::new, |listen| listen.to_string()))
}

/// Empty = none.
fn parse_path(value: &Value) -> Result<Option<PathBuf>, String> {
    let path = text(value)?;
    Ok((!path.is_empty()).then(|| PathBuf::from(path)))
}

fn show_path(path: &Option<PathBuf>) -> toml::Value {
    let path = path.as_deref().unwrap_or(Path::new(""));
    toml::Value::String(path.display().to_string())
}

fn parse_password(value: &Value) -> Result<Option<Secret>, String> {
    let password = text(value)?;
    if password == HIDDEN {
        return Err(HIDDEN_RULE.to_owned());
    }
    Ok((!password.is_empty()).then_some(Secret(password)))
}

fn parse_commands(value: &Value) -> Result<Vec<String>, String> {
    let names = names(value)?;
    let upper: Vec<String> = names.iter().map(|name| name.to_uppercase()).collect();
    let known = |name: &str| crate::command::TABLE.iter().any(|spec| spec.name == name);
    match upper.iter().find(|name| !known(name)) {
        Some(unknown) => Err(format!("must be names of commands; {unknown:?} is none")),
        None => Ok(upper),
    }
}

fn parse_pattern(value: &Value) -> Result<Option<Regex>, String> {
    let pattern = text(value)?;
    if pattern.is_empty() {
        return Ok(None);
    }
    let error = |error: regex::Error| {
        // The lines before the last repeat the pattern, with a mark below.
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        format!("must be a regular expression: {last}")
    };
    Regex::new(&pattern).map(Some).map_err(error)
}

/// Each of our own listeners needs a port of its own (0 is always free).
fn check_ports(keys: &mut Reader, server: &Server, redis: &Redis, managed: &Managed, http: &Http) {
    let port = |listen: Option<SocketAddr>| listen.map_or(0, |listen| listen.port());
    let shown = |listen: Option<SocketAddr>| listen.map_or_else(String::new, |l| l.to_string());
    let tls = server.tls.as_ref().map(|tls| tls.listen);
    let own_redis = if redis.url.is_none() { managed.port } else { 0 };
    let ports = [
        ("server.listen", shown(server.listen), port(server.listen)),
        ("server.tls_listen", shown(tls), port(tls)),
        ("http.listen", shown(http.listen), port(http.listen)),
        ("managed.port", own_redis.to_string(), own_redis),
    ];
    for (at, (key, value, port)) in ports.iter().enumerate().filter(|(_, row)| row.2 != 0) {
        let same = ports.iter().take(at).find(|row| row.2 == *port);
        if let Some((other, ..)) = same {
            keys.refuse(key, value, format!("must not be the port of {other}"));
        }
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
