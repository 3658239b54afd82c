//! The command line: flags and subcommands of the program, as a layer of settings.
//!
//! Knows no default and no rule: a flag that was not given is absent, so that the layers below
//! show through, and `config` checks the rest.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use delay_broker::config::Layers;

/// Takes messages with a delay from any Redis client (DQ.OFFER queue 30m payload) and appends
/// each to the Redis list of that name when it is due.
#[derive(Parser)]
#[command(
    version,
    after_help = "Every setting can also come from a file (--config) or the \
    environment (DELAY_BROKER_SECTION__KEY); `delay-broker check` prints those in effect."
)]
pub struct Args {
    #[command(subcommand)]
    pub task: Option<Task>,
    /// File of settings, in TOML; config/default.toml names them all
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where Redis clients connect; port 0 picks a free one, "" = nowhere (with --tls-listen)
    /// [default: 127.0.0.1:7379]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Where Redis clients connect with TLS [default: nowhere]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    tls_listen: Option<String>,
    /// Where /metrics, /healthz, /readyz are answered; "" = nowhere [default: 127.0.0.1:7380]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    http: Option<String>,
    /// The backing Redis, as redis://[[user:]password@]host:port[/database] or
    /// redis+unix:///path [default: one of the broker's own]
    #[arg(long, global = true, value_name = "URL")]
    redis: Option<String>,
    /// Where the broker's own Redis keeps its files [default: ./data]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// Loopback port of the broker's own Redis, for consumers; 0 picks a free one [default: 7381]
    #[arg(long, global = true, value_name = "PORT")]
    managed_port: Option<String>,
    /// error, warn, info, debug, trace or off [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,
    /// Prints two lines to try once it serves
    #[arg(long)]
    pub hints: bool,
}

#[derive(Subcommand, Clone, Copy)]
pub enum Task {
    /// Serves until SIGTERM or SIGINT; what happens without a subcommand
    Serve,
    /// Checks the settings and prints those in effect, secrets hidden
    Check,
    /// Asks a running broker whether it is ready (exit code 0), for container health checks
    Health,
}

impl Args {
    pub fn layers(self) -> Layers {
        let flags = [
            ("server.listen", self.listen),
            ("server.tls_listen", self.tls_listen),
            ("http.listen", self.http),
            ("redis.url", self.redis),
            ("managed.data_dir", self.data_dir),
            ("managed.port", self.managed_port),
            ("log.level", self.log),
        ];
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        Layers {
            file: self.config,
            environment: std::env::vars_os()
                .map(|(name, value)| (lossy(name), lossy(value)))
                .collect(),
            flags: flags
                .into_iter()
                .filter_map(|(key, flag)| Some((key, flag?)))
                .collect(),
        }
    }
}
