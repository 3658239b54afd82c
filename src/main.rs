//! The program: arguments, settings, logs, listeners, then the broker until a signal; exit code.
//!
//! Knows the order of starting and stopping and nothing else. Keeps: what can fail at once
//! (settings, ports) fails before anything is started; its own Redis starts first and stops last.
//! Exit codes: 0 stopped as asked, 1 failed, 64 bad arguments or settings, 128 + n ended at once by
//! a second signal n.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use delay_broker::config::{Config, Layers};
use delay_broker::reload::Reload;
use delay_broker::server::Listeners;
use delay_broker::store::redis::Backend;
use delay_broker::{http, listen, logs, managed, server, shutdown, systemd};
use futures_util::FutureExt;
use tokio::runtime::LocalOptions;
use tokio::time::Instant;

mod args;

use args::{Args, Task};

/// EX_USAGE of sysexits.h.
const BAD_USAGE: u8 = 64;
/// What its own Redis gets to stop at least: a flush of its file, where clients took all of the
/// grace time.
const REDIS_STOPS_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(BAD_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let (task, hints) = (args.task.unwrap_or(Task::Serve), args.hints);
    let layers = args.layers();
    let done = match task {
        Task::Check => Config::load(layers).map(|config| check(&config)),
        Task::Health => Config::http_listen(layers).map(health),
        Task::Serve => Config::load(layers.clone()).map(|config| run(config, layers, hints)),
    };
    match done {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("delay-broker: {error}");
            ExitCode::FAILURE
        }
        Err(errors) => {
            eprintln!("delay-broker: {errors}");
            ExitCode::from(BAD_USAGE)
        }
    }
}

fn check(config: &Config) -> Result<(), String> {
    writeln!(io::stdout(), "{}", config.effective().trim_end()).map_err(|error| error.to_string())
}

fn health(listen: Option<SocketAddr>) -> Result<(), String> {
    let nowhere = || "http.listen is empty: there is nothing to ask".to_owned();
    http::health(listen.ok_or_else(nowhere)?)
}

fn run(config: Config, layers: Layers, hints: bool) -> Result<(), String> {
    let level = logs::start(&config.log);
    listen::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| error.to_string())?;
    let serving = async {
        let reload = Reload::new(layers, level).map_err(no_signals)?;
        serve(config, reload, hints).await
    };
    runtime.block_on(serving)
}

async fn serve(config: Config, reload: Reload, hints: bool) -> Result<(), String> {
    let stop = shutdown::requested()
        .map_err(no_signals)?
        .inspect(|()| systemd::notify("STOPPING=1"))
        .shared();
    let bind = |address: Option<SocketAddr>, purpose, flag| {
        let bound = address.map(|address| listen::bind(address, purpose, flag));
        bound.transpose()
    };
    let tls = config.server.tls.as_ref().map(|tls| tls.listen);
    let listeners = Listeners {
        plain: bind(config.server.listen, "Redis clients", "--listen")?,
        tls: bind(tls, "Redis clients with TLS", "--tls-listen")?,
        http: bind(config.http.listen, "HTTP", "--http")?,
    };
    let addresses = Addresses::of(&listeners).map_err(|error| error.to_string())?;
    if let Some(url) = config.redis.url.clone() {
        let backend = Backend::given(&url, &config.redis.tls)?;
        let ready = move || announce(&addresses, &url.to_string(), &format!("-u {url}"), hints);

        let served = server::run(config, listeners, backend, reload, ready, stop).await;
        return served.map(drop).map_err(|error| error.to_string());
    }
    let mut own = tokio::select! {
        own = managed::start(&config.managed) => own.map_err(|error| error.to_string())?,
        () = stop.clone() => return Ok(()),
    };
    let (port, data) = (own.port, own.data_dir_given.display().to_string());
    let place = format!("127.0.0.1:{port} (managed, data in {data})");
    let ready = move || announce(&addresses, &place, &format!("-p {port}"), hints);
    let backend = Backend::unix(own.socket.clone());
    let served = tokio::select! {
        served = server::run(config, listeners, backend, reload, ready, stop) => served,
        never = own.watch() => match never {},
    };
    let least = Instant::now() + REDIS_STOPS_WITHIN;
    let end = served.as_ref().map_or(least, |grace| least.max(*grace));
    let stopped = match tokio::time::timeout_at(end, own.stop()).await {
        Ok(stopped) => stopped.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the Redis in {data} did not stop within the grace time; it keeps running, \
             the next start adopts it"
        )),
    };
    served.map_err(|error| error.to_string()).and(stopped)
}

fn no_signals(error: io::Error) -> String {
    format!("no signals: {error}")
}

/// In use, as chosen where port 0 was asked for.
struct Addresses {
    plain: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    http: Option<SocketAddr>,
}

impl Addresses {
    fn of(listeners: &Listeners) -> io::Result<Self> {
        let address = |listener: &Option<TcpListener>| {
            let address = listener.as_ref().map(TcpListener::local_addr);
            address.transpose()
        };
        Ok(Self {
            plain: address(&listeners.plain)?,
            tls: address(&listeners.tls)?,
            http: address(&listeners.http)?,
        })
    }
}

/// One line on stdout with the addresses in use, for people and for scripts that wait for it.
fn announce(addresses: &Addresses, redis: &str, redis_cli_flags: &str, hints: bool) {
    let Addresses { plain, tls, http } = addresses;
    let shown = |address: &Option<SocketAddr>| {
        address.map_or_else(|| "none".to_owned(), |address| address.to_string())
    };
    let with_tls = tls.map_or_else(String::new, |tls| format!("TLS {tls}, "));
    let (resp, http) = (shown(plain), shown(http));
    let mut lines = format!("delay-broker ready: RESP {resp}, {with_tls}HTTP {http}, ");
    lines += &format!("Redis {redis}\n");
    let try_at = match (plain, tls) {
        (Some(plain), _) => Some(format!("-p {}", plain.port())),
        (None, tls) => tls.map(|tls| format!("--tls -p {}", tls.port())),
    };
    if let Some(flags) = try_at.filter(|_| hints) {
        lines += &format!(
            "Try in another shell, and stop with Ctrl-C here:\n  \
             redis-cli {flags} DQ.OFFER demo 5s hello\n  \
             redis-cli {redis_cli_flags} BLPOP demo 0\n",
        );
    }
    systemd::notify(&format!(
        "READY=1\nSTATUS={}",
        lines.lines().next().unwrap_or_default()
    ));
    // Nobody has to read it.
    let _ = io::stdout().write_all(lines.as_bytes());
}
