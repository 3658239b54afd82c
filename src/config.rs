//! The settings: every key with its type and rule, checked once, before anything starts.
//!
//! Does not know who uses a setting, and no other module checks one again. `config/default.toml`
//! is the only source of defaults; a test holds the two to the same keys. Field names are the
//! keys, units included, so one search finds file, check and use. Secrets show nothing in
//! `Debug`, in errors and in `settings`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ::config::{Value, ValueKind};
use regex::bytes::Regex;

mod layers;

pub use layers::{ConfigError, ConfigErrors, DEFAULTS, Layers};
use layers::{HIDDEN, Reader, names, one_of, text};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
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
    pub listen: SocketAddr,
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
    pub call_timeout_ms: u64,
    pub settle_timeout_ms: u64,
    pub connect_timeout_ms: u64,
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

/// A queue that needs something else than the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    pub format: MemberFormat,
}

/// How members are written; both are always read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberFormat {
    Modern,
    Legacy,
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

/// The URL of one Redis; shown without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// With the password in it: for the connection only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn parse(url: &str) -> Result<Self, String> {
        const FORM: &str = "must be redis://[[user:]password@]host[:port][/database], \
                            rediss://... for TLS, or redis+unix:///path";
        let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
        let (_, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        let fits = match scheme {
            "redis+unix" | "unix" => !path.is_empty(),
            "redis" | "rediss" => {
                let (name, port) = match host.rsplit_once(':') {
                    Some((name, port)) if !port.ends_with(']') => (name, port),
                    _ => (host, "6379"),
                };
                let port_fits = port.parse::<u16>().is_ok_and(|port| port > 0);
                let database_fits = path.is_empty() || path.parse::<u16>().is_ok();
                !name.is_empty() && port_fits && database_fits
            }
            _ => false,
        };
        let scheme = if scheme == "unix" {
            "redis+unix"
        } else {
            scheme
        };
        if fits {
            Ok(Self(format!("{scheme}://{rest}")))
        } else {
            Err(FORM.to_owned())
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", &self.0));
        match rest.rsplit_once('@') {
            Some((_, place)) => write!(f, "{scheme}://{HIDDEN}@{place}"),
            None => f.write_str(&self.0),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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

    /// The settings in effect as a file that says the same, but for the secrets.
    pub fn effective(&self) -> String {
        let mut file = String::new();
        let mut current = "";
        for (setting, value) in &self.settings {
            let (section, key) = setting.split_once('.').unwrap_or(("", setting));
            if section != current {
                file.push_str(&format!("\n[{section}]\n"));
                current = section;
            }
            file.push_str(&format!("{key} = {value}\n"));
        }
        file
    }
}

impl Server {
    fn read(keys: &mut Reader) -> Self {
        let parse = |value: &Value| parse_listen(value)?.ok_or_else(|| LISTEN_RULE.to_owned());
        let server = Self {
            listen: keys.read("server.listen", parse, |listen| show_listen(&Some(*listen))),
            password: keys.read_secret("server.password", parse_password, |password| {
                if password.is_some() {
                    HIDDEN.to_owned()
                } else {
                    String::new()
                }
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
        let open = !server.listen.ip().is_loopback();
        if open && server.protected_mode && server.password.is_none() {
            keys.refuse(
                "server.listen",
                server.listen,
                "an address that others can reach needs server.password; \
                 server.protected_mode = false allows it without",
            );
        }
        server
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
        Self {
            url: keys.read_secret("redis.url", parse, |url: &Option<RedisUrl>| {
                url.as_ref().map_or_else(String::new, RedisUrl::to_string)
            }),
            call_timeout_ms: keys.whole("redis.call_timeout_ms", 10..=DAY_MS),
            settle_timeout_ms: keys.whole("redis.settle_timeout_ms", 10..=DAY_MS),
            connect_timeout_ms: keys.whole("redis.connect_timeout_ms", 10..=DAY_MS),
        }
    }
}

impl Managed {
    fn read(keys: &mut Reader) -> Self {
        let parse_dir = |value: &Value| match text(value)?.as_str() {
            "" => Err("must be a directory".to_owned()),
            path => Ok(PathBuf::from(path)),
        };
        let show_path = |path: &PathBuf| toml::Value::String(path.display().to_string());
        let fsync = [
            ("always", AppendFsync::Always),
            ("everysec", AppendFsync::EverySec),
            ("no", AppendFsync::No),
        ];
        let port = keys.whole("managed.port", 0..=65_535);
        Self {
            data_dir: keys.read("managed.data_dir", parse_dir, show_path),
            port: u16::try_from(port).unwrap_or_default(),
            appendfsync: keys.choice("managed.appendfsync", &fsync),
            program: keys.read(
                "managed.program",
                |value| {
                    Ok(Some(text(value)?)
                        .filter(|path| !path.is_empty())
                        .map(PathBuf::from))
                },
                |program| show_path(&program.clone().unwrap_or_default()),
            ),
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

impl Queue {
    const FORMATS: [(&str, MemberFormat); 2] = [
        ("modern", MemberFormat::Modern),
        ("legacy", MemberFormat::Legacy),
    ];

    fn shown(&self) -> toml::Value {
        let format = if self.format == MemberFormat::Legacy {
            "legacy"
        } else {
            "modern"
        };
        let keys = [("name", self.name.as_str()), ("format", format)];
        let pairs = keys.map(|(key, text)| (key.to_owned(), toml::Value::String(text.to_owned())));
        toml::Value::Table(pairs.into_iter().collect())
    }
}

fn parse_queues(value: &Value) -> Result<Vec<Queue>, String> {
    const RULE: &str = "must be tables with name and format, and can be set in a file only";
    let ValueKind::Array(tables) = &value.kind else {
        return Err(RULE.to_owned());
    };
    let mut queues: Vec<Queue> = Vec::new();
    for table in tables {
        let ValueKind::Table(keys) = &table.kind else {
            return Err(RULE.to_owned());
        };
        if let Some(unknown) = keys
            .keys()
            .find(|key| !["name", "format"].contains(&key.as_str()))
        {
            return Err(format!(
                "{unknown} is not a setting of a queue; name and format are"
            ));
        }
        let name = keys.get("name").map(text).transpose()?.unwrap_or_default();
        if name.is_empty() {
            return Err("each table needs a name".to_owned());
        }
        if queues.iter().any(|queue| queue.name == name) {
            return Err(format!("{name:?} is named twice"));
        }
        let format = keys
            .get("format")
            .map(|value| one_of(&Queue::FORMATS, value));
        let format = format
            .transpose()
            .map_err(|rule| format!("the format of {name:?} {rule}"))?;
        queues.push(Queue {
            name,
            format: format.unwrap_or(MemberFormat::Modern),
        });
    }
    Ok(queues)
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

fn parse_password(value: &Value) -> Result<Option<Secret>, String> {
    let password = text(value)?;
    Ok(if password.is_empty() {
        None
    } else {
        Some(Secret(password))
    })
}

fn parse_commands(value: &Value) -> Result<Vec<String>, String> {
    Ok(names(value)?
        .iter()
        .map(|name| name.to_uppercase())
        .collect())
}

fn parse_pattern(value: &Value) -> Result<Option<Regex>, String> {
    let pattern = text(value)?;
    if pattern.is_empty() {
        return Ok(None);
    }
    let error = |error: regex::Error| format!("must be a regular expression: {error}");
    Regex::new(&pattern).map(Some).map_err(error)
}

/// Each of our own listeners needs a port of its own (0 is always free).
fn check_ports(keys: &mut Reader, server: &Server, redis: &Redis, managed: &Managed, http: &Http) {
    let rule = |other: &str| format!("must not be the port of {other}");
    if let Some(listen) = http.listen
        && listen.port() != 0
        && listen.port() == server.listen.port()
    {
        keys.refuse("http.listen", listen, rule("server.listen"));
    }
    if redis.url.is_none() && managed.port != 0 {
        if managed.port == server.listen.port() {
            keys.refuse("managed.port", managed.port, rule("server.listen"));
        } else if http
            .listen
            .is_some_and(|listen| listen.port() == managed.port)
        {
            keys.refuse("managed.port", managed.port, rule("http.listen"));
        }
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
