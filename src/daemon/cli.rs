//! The command line: flags as a layer of settings, the subcommands, and the exit code.
//!
//! Knows no default and no rule: a flag that was not given is absent, so that the layers below
//! show through, and `config` checks the rest. Exit codes: 0 stopped as asked, 1 failed, 64 bad
//! arguments or settings, 128 + n ended at once by a second signal n.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use crate::command::examples::PAGE;
use crate::command::is_known;
use crate::config::{Config, ConfigErrors, Layers};
use crate::daemon::hash::hash;
use crate::daemon::{logs, serve};
use crate::http::health::{Whom, health};

/// EX_USAGE of sysexits.h.
const BAD_USAGE: u8 = 64;

/// Takes messages with a delay from any Redis client (DQ.OFFER queue 30m payload) and appends
/// each to the Redis list of that name when it is due.
#[derive(Parser)]
#[command(
    name = "delay-broker",
    version,
    disable_help_subcommand = true,
    after_help = "Every setting can also come from a file (--config) or the \
    environment (DELAY_BROKER_SECTION__KEY); `delay-broker check` prints those in effect."
)]
struct Args {
    #[command(subcommand)]
    task: Option<Task>,
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
    /// error, warn, info, debug, trace or off; "info,scheduler=debug" for a module besides
    /// [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,
    /// Prints two commands to try once the broker serves
    #[arg(long)]
    hints: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Serves until SIGTERM or SIGINT; so does the program without a subcommand
    Serve,
    /// Checks the settings and prints those in effect, secrets hidden
    Check,
    /// Asks a running broker if it is ready (exit code 0), for the health checks of containers
    ///
    /// The address is http.listen, from the flags and the environment of this call.
    Health {
        /// Asks the broker that runs on this machine, or in this container, however it was
        /// configured; PID says which, if several run
        #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
        running: Option<Option<u32>>,
        /// Waits at most this long for the broker to become ready; one that has been ready for a
        /// while is asked again only at the end of that time
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        wait: u16,
    },
    /// Makes the hash of a password, for a user: asks for it, or reads the first line of the input
    Hash,
    /// Runs a command for each message of a queue, or posts it to a URL: `help work`
    Work,
    /// Shows this help, that of a subcommand, or a page: commands, errors, encodings, limits,
    /// redis, runbook
    Help { topic: Option<String> },
}

/// Pages of docs that the program brings along, for people who have no docs.
const PAGES: [(&str, &str); 6] = [
    ("commands", PAGE),
    ("errors", include_str!("../../docs/errors.md")),
    ("encodings", include_str!("../../docs/encodings.md")),
    ("limits", include_str!("../../docs/limits.md")),
    ("redis", include_str!("../../docs/operate/redis.md")),
    ("runbook", include_str!("../../docs/operate/runbook.md")),
];

/// Runs the program.
pub fn main() -> ExitCode {
    let mut args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(BAD_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let (task, hints) = (args.task.take().unwrap_or(Task::Serve), args.hints);
    let layers = args.layers();
    let done = match task {
        Task::Check => Config::load(layers).map(|config| print(config.effective().trim_end())),
        Task::Health { running, wait } => {
            whom(layers, running).map(|whom| health(whom?, Duration::from_secs(wait.into())))
        }
        Task::Hash => Ok(hash().and_then(|hash| print(&hash))),
        Task::Help { topic } => match help(topic.as_deref()) {
            Ok(page) => Ok(print(page.trim_end())),
            Err(unknown) => return bad_usage(unknown),
        },
        // `main` has it done elsewhere, unless flags stand before the word.
        Task::Work => return bad_usage("flags of `work` stand behind that word"),
        Task::Serve => Config::load(layers.clone()).map(|config| serve::run(config, layers, hints)),
    };
    match done {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            logs::say(move || eprintln!("delay-broker: {error}"));
            ExitCode::FAILURE
        }
        Err(errors) => bad_usage(errors),
    }
}

fn bad_usage(error: impl Display) -> ExitCode {
    eprintln!("delay-broker: {error}");
    ExitCode::from(BAD_USAGE)
}

/// A page, or the help of a subcommand; that of the program for no topic.
///
/// # Errors
/// There is no such topic, as a sentence.
fn help(topic: Option<&str>) -> Result<String, String> {
    if let Some((_, page)) = PAGES.iter().find(|(name, _)| Some(*name) == topic) {
        return Ok((*page).to_owned());
    }
    let mut program = Args::command();
    // So that the usage of a subcommand begins with the name of the program.
    program.build();
    let task = match topic {
        Some(topic) => program
            .find_subcommand_mut(topic)
            .ok_or_else(|| format!("no help on '{topic}'; `delay-broker help` lists the topics"))?,
        None => &mut program,
    };
    Ok(task.render_long_help().to_string())
}

fn print(text: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{text}").map_err(|error| error.to_string())
}

/// The broker whose health is asked for.
fn whom(
    layers: Layers,
    running: Option<Option<u32>>,
) -> Result<Result<Whom, String>, ConfigErrors> {
    let nowhere = "http.listen is empty, so nothing answers there; use --running instead";
    match running {
        Some(Some(pid)) => Ok(Ok(Whom::Process(pid))),
        Some(None) => Ok(Ok(Whom::Running)),
        None => Config::http_listen(layers)
            .map(|listen| listen.map(Whom::At).ok_or_else(|| nowhere.to_owned())),
    }
}

impl Args {
    fn layers(self) -> Layers {
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
            flags: flags.into_iter().filter_map(|(key, flag)| Some((key, flag?))).collect(),
            known_command: Some(is_known),
        }
    }
}
