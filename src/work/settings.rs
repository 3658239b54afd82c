//! Arguments and the TOML file -> what to do, checked. A table of the file has the words of the
//! arguments, and the same checks hold for both.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use tokio_rustls::rustls::ClientConfig;

use super::tls;
use crate::config::{Config, Log, RedisUrl, Secret, pem};
use crate::domain::queue::Due;

/// So that the password need not stand where `ps` shows it.
pub const PASSWORD_VARIABLE: &str = "DELAY_BROKER_WORK_PASSWORD";
/// Of the file, and of a secret.
const FILE_BYTES_MAX: u64 = 1 << 20;
const CONCURRENCY_MAX: usize = 1_000;
const WORKERS_MAX: usize = 64;
/// As DQ.TAKE takes.
const QUEUES_MAX: usize = 64;
const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

/// Runs a command for each message of a queue, or posts it to a URL
///
/// The payload is on stdin of the command; DQ_ID, DQ_ATTEMPT, DQ_QUEUE and DQ_RECEIPT are in its
/// environment. Exit code 0 means done, 65 that the message is dead, and any other that it is
/// tried again later, with the last line of stderr as the reason.
#[derive(Parser, Default)]
#[command(
    name = "delay-broker work",
    version,
    after_help = "delay-broker work orders -- ./handle.sh\n\
    delay-broker work orders --post https://shop.example/hook --secret-file hook.key\n\
    delay-broker work --file workers.toml"
)]
pub struct Arguments {
    #[command(flatten)]
    worker: Table,
    #[command(flatten)]
    process: Process,
    /// Several workers, one for each [[worker]] of this TOML file
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "queue", "also", "concurrency", "lease", "timeout", "decode", "post", "secret_file",
        "header", "command",
    ])]
    file: Option<PathBuf>,
}

/// One worker, as arguments or as a `[[worker]]`.
#[derive(clap::Args, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Table {
    /// The queue to take from
    queue: Option<String>,
    /// Takes from this queue too, if those before it have nothing; may be repeated
    #[arg(long, value_name = "QUEUE")]
    also: Vec<String>,
    /// Messages that are handled at one time [default: 8]
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Time for which a message is taken; extended while its handler runs [default: 30s]
    #[arg(long, value_name = "TIME")]
    lease: Option<String>,
    /// Time after which a handler is ended [default: 10m; 30s with --post]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Payloads as text, as DECODE of DQ.TAKE gives them
    #[arg(long)]
    decode: bool,
    /// Posts each message to this URL instead of running a command
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    post: Option<String>,
    /// File with the secret that signs what is posted
    #[arg(long, value_name = "FILE", requires = "post")]
    secret_file: Option<PathBuf>,
    /// A header of what is posted, as 'Name: value'; may be repeated
    #[arg(long, value_name = "HEADER", requires = "post")]
    header: Vec<String>,
    /// The command and its arguments, behind --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What all workers of the process share, as arguments or at the top of the file.
#[derive(clap::Args, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Process {
    /// A broker, as redis://[[user:]password@]host[:port], or rediss:// for TLS; several, with
    /// commas between them or repeated, are used in turn when one fails
    /// [default: redis://127.0.0.1:7379]
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    broker: Vec<String>,
    /// File with the password of the broker; or the variable DELAY_BROKER_WORK_PASSWORD
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file of authorities to believe besides those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with a certificate to show to brokers and hosts that ask for one, with --key
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Time that handlers get to end after SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Where /metrics, /healthz, /readyz are answered [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<String>,
    /// error, warn, info, debug, trace or off [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    #[arg(skip)]
    worker: Vec<Table>,
}

/// All that the process is to do.
pub struct Settings {
    pub brokers: Vec<Target>,
    pub workers: Vec<Worker>,
    /// For `rediss` and `https`; absent if nothing of these is used.
    pub tls: Option<Arc<ClientConfig>>,
    pub grace: Duration,
    pub http: Option<SocketAddr>,
    pub log: Log,
}

/// A broker, and the password for it.
pub struct Target {
    pub url: RedisUrl,
    pub password: Option<Secret>,
}

/// One set of queues and its handler.
pub struct Worker {
    /// At least one; asked from left to right.
    pub queues: Vec<String>,
    pub handler: Handler,
    pub concurrency: usize,
    pub lease: Duration,
    pub timeout: Duration,
    pub decode: bool,
}

pub enum Handler {
    /// Program and arguments.
    Command(Vec<String>),
    Post(Hook),
}

/// A URL that messages are posted to.
pub struct Hook {
    pub url: Uri,
    pub headers: HeaderMap,
    pub secret: Option<Vec<u8>>,
}

impl Settings {
    /// `password` is that of the environment.
    ///
    /// # Errors
    /// What is wrong, and with which argument or key; no secret is shown.
    pub fn read(arguments: Arguments, password: Option<String>) -> Result<Self, String> {
        let Arguments { worker, process, file } = arguments;
        let (process, tables) = match &file {
            Some(path) => {
                let mut filed = parse(path)?;
                let tables = std::mem::take(&mut filed.worker);
                (process.over(filed), tables)
            }
            None => (process, vec![worker]),
        };
        if tables.is_empty() || tables.len() > WORKERS_MAX {
            return Err(format!("the file must have 1 to {WORKERS_MAX} tables [[worker]]"));
        }
        let mut workers = Vec::new();
        for (place, table) in tables.into_iter().enumerate() {
            let place =
                file.as_ref().map_or(String::new(), |_| format!("[[worker]] {}: ", place + 1));
            workers.push(table.check().map_err(|why| format!("{place}{why}"))?);
        }
        // Metrics and the log tell workers apart by their first queue.
        let names = workers.iter().filter_map(|worker| worker.queues.first());
        let mut seen = BTreeSet::new();
        if let Some(name) = names.into_iter().find(|name| !seen.insert(*name)) {
            return Err(format!("two workers take from {name:?} first; one can have more places"));
        }
        process.check(workers, password)
    }
}

fn parse(path: &Path) -> Result<Process, String> {
    let shown = path.display();
    let text = pem::read(path, FILE_BYTES_MAX).map_err(|why| format!("--file {shown} {why}"))?;
    let text = String::from_utf8(text).map_err(|_| format!("--file {shown} is not UTF-8"))?;
    toml::from_str(&text).map_err(|error| {
        // Without the line and its value, which may be a password.
        let message = match error.message().split_once(": string ") {
            Some((rule, rest)) => {
                let expected = rest.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
                format!("{rule}: a string, expected {expected}")
            }
            None => error.message().to_owned(),
        };
        let line = error
            .span()
            .map_or(0, |span| 1 + text.get(..span.start).unwrap_or_default().matches('\n').count());
        format!("--file {shown}, line {line}: {message}")
    })
}

impl Process {
    /// These, and those of `below` where these say nothing.
    fn over(self, below: Self) -> Self {
        Self {
            broker: if self.broker.is_empty() { below.broker } else { self.broker },
            password_file: self.password_file.or(below.password_file),
            ca: self.ca.or(below.ca),
            cert: self.cert.or(below.cert),
            key: self.key.or(below.key),
            grace: self.grace.or(below.grace),
            http: self.http.or(below.http),
            log: self.log.or(below.log),
            worker: self.worker,
        }
    }

    fn check(self, workers: Vec<Worker>, password: Option<String>) -> Result<Settings, String> {
        let password = match &self.password_file {
            Some(path) => Some(secret("--password-file", path)?),
            None => password.filter(|password| !password.is_empty()),
        };
        let urls = match &self.broker[..] {
            [] => vec!["redis://127.0.0.1:7379".to_owned()],
            urls => urls.to_vec(),
        };
        let mut brokers = Vec::new();
        for url in &urls {
            let url = RedisUrl::of_broker(url).map_err(|rule| format!("--broker {rule}"))?;
            let password = url.password.clone().or_else(|| password.clone().map(Secret::new));
            brokers.push(Target { url, password });
        }
        let https = |worker: &Worker| match &worker.handler {
            Handler::Post(hook) => hook.url.scheme_str() == Some("https"),
            Handler::Command(_) => false,
        };
        let encrypted = brokers.iter().any(|target| target.url.tls()) || workers.iter().any(https);
        if self.cert.is_some() != self.key.is_some() {
            return Err("--cert and --key are given together, or neither is".to_owned());
        }
        let identity = self.cert.as_deref().zip(self.key.as_deref());
        let tls = encrypted.then(|| tls::client(self.ca.as_deref(), identity)).transpose()?;
        let grace = duration("--grace", self.grace.as_deref(), 30 * SECOND, Duration::ZERO)?;
        let http = self.http.as_deref().filter(|text| !text.is_empty()).map(|text| {
            let text = text.replacen("localhost:", "127.0.0.1:", 1);
            text.parse().map_err(|_| "--http must be address:port, such as 127.0.0.1:7390")
        });
        let level = self.log.as_deref().unwrap_or("info");
        let log = Config::with(&[("log.level", level)])
            .map_err(|_| {
                format!("--log {level}: a level is error, warn, info, debug, trace or off")
            })?
            .log;
        Ok(Settings { brokers, workers, tls, grace, http: http.transpose()?, log })
    }
}

impl Table {
    fn check(self) -> Result<Worker, String> {
        let queue = self.queue.ok_or("no queue: name the one to take from")?;
        let queues: Vec<String> = std::iter::once(queue).chain(self.also).collect();
        if queues.len() > QUEUES_MAX {
            return Err(format!("--also: at most {QUEUES_MAX} queues in all"));
        }
        for (place, queue) in queues.iter().enumerate() {
            if queue.is_empty() || queue.contains('\0') {
                return Err("a queue must have a name, without NUL".to_owned());
            }
            if queues.iter().take(place).any(|other| other == queue) {
                return Err(format!("the queue {queue:?} is named twice"));
            }
        }
        let concurrency = self.concurrency.unwrap_or(8);
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            return Err(format!("--concurrency must be from 1 to {CONCURRENCY_MAX}"));
        }
        let longest = if self.post.is_some() { 30 * SECOND } else { 600 * SECOND };
        let lease = duration("--lease", self.lease.as_deref(), 30 * SECOND, SECOND)?;
        let timeout = duration("--timeout", self.timeout.as_deref(), longest, SECOND / 10)?;
        let handler = match self.post {
            Some(_) if !self.command.is_empty() => {
                return Err("either a command or --post, not both".to_owned());
            }
            Some(url) => Handler::Post(hook(&url, &self.header, self.secret_file.as_deref())?),
            None if self.secret_file.is_some() || !self.header.is_empty() => {
                return Err("--secret-file and --header are for --post".to_owned());
            }
            None if self.command.iter().any(|part| part.contains('\0')) => {
                return Err("the command has a NUL".to_owned());
            }
            None if self.command.first().is_none_or(String::is_empty) => {
                return Err("no handler: a command behind --, or --post URL".to_owned());
            }
            None => Handler::Command(self.command),
        };
        Ok(Worker { queues, handler, concurrency, lease, timeout, decode: self.decode })
    }
}

fn duration(
    name: &str,
    text: Option<&str>,
    usual: Duration,
    least: Duration,
) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(usual) };
    let ms = match Due::parse_delay(text.as_bytes(), DAY.as_millis() as u64) {
        Ok(Due::In(ms) | Due::At(ms)) => ms,
        Err(rule) => return Err(format!("{name} {text:?} {rule}")),
    };
    let time = Duration::from_millis(ms);
    if time < least {
        return Err(format!("{name} {text:?} must be at least {} ms", least.as_millis()));
    }
    Ok(time)
}

/// The content of a file, without the end of its line.
fn secret(name: &str, path: &Path) -> Result<String, String> {
    let wrong = |why: &str| format!("{name} {} {why}", path.display());
    let bytes = pem::read(path, FILE_BYTES_MAX).map_err(|why| wrong(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(wrong("is empty")),
        text => Ok(text.to_owned()),
    }
}

fn hook(url: &str, headers: &[String], key: Option<&Path>) -> Result<Hook, String> {
    let rule = "--post must be http://host/path or https://host/path";
    let url: Uri = url.parse().map_err(|_| rule)?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err(rule.to_owned());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let rule = "--post must hold no password; use --header 'Authorization: ...', in a --file";
        return Err(rule.to_owned());
    }
    let mut map = HeaderMap::new();
    for header in headers {
        let rule = "--header must be 'Name: value'";
        let (name, value) = header.split_once(':').ok_or(rule)?;
        let name: HeaderName = name.trim().parse().map_err(|_| rule)?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| rule)?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    let secret = key.map(|path| secret("--secret-file", path)).transpose()?;
    Ok(Hook { url, headers: map, secret: secret.map(String::into_bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Settings, String> {
        let words = [&["delay-broker work"], words].concat();
        let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        Settings::read(arguments, None)
    }

    fn wrong(words: &[&str]) -> String {
        read(words).map(drop).unwrap_err()
    }

    #[test]
    fn arguments() {
        let settings = read(&["orders", "--also", "mail", "--", "./handle.sh", "-x"]).unwrap();
        let [worker] = &settings.workers[..] else { panic!("one") };
        assert_eq!(worker.queues, ["orders", "mail"]);
        assert!(
            matches!(&worker.handler, Handler::Command(words) if words == &["./handle.sh", "-x"])
        );
        assert_eq!((worker.concurrency, worker.lease), (8, 30 * SECOND));
        assert_eq!((worker.timeout, settings.grace), (600 * SECOND, 30 * SECOND));
        assert_eq!(settings.brokers[0].url.to_string(), "redis://127.0.0.1:7379");
        let many = ["orders", "--broker", "redis://a,redis://b:1", "--broker", "redis://:p@c"];
        let settings = read(&[&many[..], &["--post", "http://x/y"]].concat()).unwrap();
        let shown: Vec<_> = settings.brokers.iter().map(|b| b.url.to_string()).collect();
        assert_eq!(shown, ["redis://a", "redis://b:1", "redis://(hidden)@c"]);
        assert_eq!(settings.workers[0].timeout, 30 * SECOND);
        assert!(settings.tls.is_none());
    }

    #[test]
    fn mistakes() {
        #[rustfmt::skip]
        let rows: [(&[&str], &str); 22] = [
            (&[], "no queue"),
            (&["q"], "no handler"),
            (&["", "--", "x"], "a queue must have a name"),
            (&["q", "--also", "q", "--", "x"], "named twice"),
            (&["q", "--", ""], "no handler"),
            (&["q", "--post", "http://h/", "--", "x"], "cannot be used with"),
            (&["q", "--secret-file", "x", "--", "x"], "--post"),
            (&["q", "--concurrency", "0", "--", "x"], "--concurrency must be from 1"),
            (&["q", "--concurrency", "1001", "--", "x"], "--concurrency must be from 1"),
            (&["q", "--lease", "10ms", "--", "x"], "--lease \"10ms\" must be at least 1000 ms"),
            (&["q", "--lease", "2 days", "--", "x"], "must have no blanks"),
            (&["q", "--timeout", "25h", "--", "x"], "must be at most 86400000 ms"),
            (&["q", "--grace", "soon", "--", "x"], "--grace \"soon\""),
            (&["q", "--broker", "localhost", "--", "x"], "--broker has no scheme"),
            (&["q", "--broker", "redis://h/3", "--", "x"], "a broker has none"),
            (&["q", "--broker", "unix:///s", "--", "x"], "listens at ports"),
            (&["q", "--password-file", "/nowhere", "--", "x"], "--password-file /nowhere cannot"),
            (&["q", "--http", "x", "--", "x"], "--http must be address:port"),
            (&["q", "--log", "loud", "--", "x"], "--log loud: a level is"),
            (&["q", "--post", "ftp://h/"], "--post must be http://"),
            (&["q", "--post", "http://u:hunter2@h/"], "must hold no password"),
            (&["q", "--post", "http://h/", "--header", "hunter2"], "--header must be"),
        ];
        for (words, part) in rows {
            let error = wrong(words);
            assert!(error.contains(part), "{words:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        for url in ["redis://:hun,ter2@h", "redis://:hunter2@", "redis://u:hunter2@h:x"] {
            let error = wrong(&["q", "--broker", url, "--", "x"]);
            assert!(!error.contains("hun") && !error.contains("ter2"), "{error}");
        }
    }

    fn filed(text: &str) -> Result<Settings, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(&["--file", file.path().to_str().unwrap(), "--grace", "1m"])
    }

    #[test]
    fn files() {
        let settings = filed(
            "broker = ['redis://a', 'redis://b']\ngrace = '5s'\nhttp = '127.0.0.1:0'\n\
             [[worker]]\nqueue = 'orders'\ncommand = ['./handle.sh', 'x']\nconcurrency = 2\n\
             [[worker]]\nqueue = 'mail'\nalso = ['post']\npost = 'http://h/'\nlease = '2m'\n\
             header = ['X-A: b']\n",
        )
        .unwrap();
        assert_eq!(settings.brokers.len(), 2);
        assert_eq!(settings.grace, 60 * SECOND, "an argument beats the file");
        let [orders, mail] = &settings.workers[..] else { panic!("two") };
        assert_eq!((orders.concurrency, mail.lease), (2, 120 * SECOND));
        assert_eq!(mail.queues, ["mail", "post"]);
        #[rustfmt::skip]
        let rows = [
            ("", "1 to 64 tables [[worker]]"),
            ("[[worker]]\nqueue = 'a'\n", "[[worker]] 1: no handler"),
            ("[[worker]]\nqueue = 'a'\ncommand = ['x']\n[[worker]]\ncommand = ['x']\n",
             "[[worker]] 2: no queue"),
            ("[[worker]]\nqueue = 'a'\ncomand = ['x']\n",
             "line 3: unknown field `comand`, expected one of `queue`, `also`"),
            ("brokers = ['redis://:hunter2@h']\n", "line 1: unknown field `brokers`, expected one"),
            ("broker = 'redis://:hunter2@h'\n", "line 1: invalid type"),
            ("[[worker]]\nqueue = 'a'\ncommand = ['x']\npost = 'http://h/'\n", "not both"),
            ("[[worker]]\nqueue = 'a'\ncommand = ['x']\nlease = '1ms'\n", "--lease \"1ms\""),
            ("[[worker]]\nqueue = \"a\\u0000b\"\ncommand = ['x']\n", "without NUL"),
            ("nonsense", "line 1"),
            ("cert = 'x'\n[[worker]]\nqueue = 'a'\ncommand = ['x']\n", "--cert and --key"),
            ("[[worker]]\nqueue = 'a'\ncommand = ['x']\n[[worker]]\nqueue = 'a'\ncommand = ['y']\n",
             "two workers take from \"a\" first"),
        ];
        for (text, part) in rows {
            let error = filed(text).map(drop).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        // The one in the docs.
        let docs = include_str!("../../docs/work.md");
        let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(toml::from_str::<Process>(example).unwrap().worker.len(), 2);
        let both = wrong(&["q", "--file", "x", "--", "y"]);
        assert!(both.contains("cannot be used with"), "{both}");
        let ignored = wrong(&["--file", "x", "--concurrency", "3"]);
        assert!(ignored.contains("cannot be used with"), "{ignored}");
    }
}
