//! `delay-broker work`: runs a command for each message of a queue, or posts it to a URL.
//!
//! A process of its own and a plain client of the broker; nothing of the daemon runs in it. One
//! thread owns all: each [`worker::Worker`] takes on one connection and settles on another, and a
//! [`worker::Phase`] tells all of them to pause and to stop. [`outcome`], [`message`] and
//! [`settings`] are pure.
//!
//! Exit codes: 0 stopped as asked, 64 bad arguments, 69 the command cannot be run, 71 the system
//! refuses something, 76 the broker is too old, 77 the broker refuses the password or a right,
//! 128 + n ended at once by a second signal n.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use tokio::runtime::LocalOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{interval, timeout};
use tracing::{info, warn};

use crate::daemon::{listen, logs};
use crate::http::{self, HttpRequest};
use broker::{Brokers, Route};
use command::{Groups, TERM_WITHIN};
pub use counts::METRICS;
use settings::{Arguments, PASSWORD_VARIABLE, Settings};
use worker::{Phase, Worker};

mod broker;
mod command;
mod counts;
mod message;
mod outcome;
mod post;
mod settings;
mod settle;
mod tls;
mod worker;

/// Of sysexits.h.
const USAGE: u8 = 64;
const UNFIT: u8 = 69;
const SYSTEM: u8 = 71;
const TOO_OLD: u8 = 76;
const DENIED: u8 = 77;
/// A shell reports 128 + n for a program that signal n ended.
const ENDED_BY: i32 = 128;

/// The line on a terminal is written anew at most this often.
const SHOWN_EVERY: Duration = Duration::from_millis(250);
/// Time to settle what was given back at the end.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Why the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    code: u8,
    why: String,
}

impl End {
    fn system(why: impl std::fmt::Display) -> Self {
        Self { code: SYSTEM, why: why.to_string() }
    }
}

/// True if these arguments of the program are for [`main`].
pub fn asked(arguments: &[OsString]) -> bool {
    let word = |place: usize| arguments.get(place).and_then(|word| word.to_str());
    word(1) == Some("work") || (word(1) == Some("help") && word(2) == Some("work"))
}

/// Runs the program, whose arguments these are.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if arguments.get(1).is_some_and(|word| word == "help") {
        let _ = Arguments::command().print_long_help();
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse_from(arguments.into_iter().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let password = std::env::var(PASSWORD_VARIABLE).ok();
    let settings = match Settings::read(arguments, password) {
        Ok(settings) => settings,
        Err(why) => {
            eprintln!("delay-broker work: {why}");
            return ExitCode::from(USAGE);
        }
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) => {
            logs::say(move || eprintln!("delay-broker work: {}", end.why));
            ExitCode::from(end.code)
        }
    }
}

fn run(settings: Settings) -> Result<(), End> {
    let (_level, _logs) = logs::start(&settings.log).map_err(End::system)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(End::system)?;
    let ended = runtime.block_on(work(settings));
    // A pending lookup of a host name would hold up the end.
    runtime.shutdown_background();
    ended
}

async fn work(settings: Settings) -> Result<(), End> {
    let mut signals = Signals::new().map_err(End::system)?;
    let Settings { brokers, workers, tls, grace, http, .. } = settings;
    let brokers = Rc::new(Brokers { targets: brokers, tls });
    let (phase, now) = watch::channel(Phase::Running);
    let (ends, mut ended) = mpsc::channel(1);
    let groups = Groups::default();
    let new = |worker| Worker::new(worker, &brokers, &groups, now.clone(), ends.clone());
    let workers: Rc<[Rc<Worker>]> = workers.into_iter().map(new).collect();
    let _http = http.map(|address| serve_http(address, &workers)).transpose()?;
    for worker in workers.iter() {
        let (queue, concurrency) = (worker.name(), worker.settings.concurrency);
        info!(queue, concurrency, "started");
    }
    let taking = workers.iter().map(|worker| worker.clone().take(Route::new(&brokers)));
    let taking: Vec<_> = taking.map(spawn_local).collect();
    let progress = spawn_local(show_progress(workers.clone()));

    let end = loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::Stop(name) => {
                    info!("{name}: stopping; a second signal ends at once");
                    break None;
                }
                asked => pause(&phase, asked),
            },
            end = ended.recv() => break end,
        }
    };
    let _ = phase.send(Phase::Stopping);
    let idle = async {
        for taking in taking {
            let _ = taking.await;
        }
        for worker in workers.iter() {
            worker.idle().await;
        }
    };
    let stopped = async {
        tokio::pin!(idle);
        if timeout(grace, &mut idle).await.is_err() {
            warn!("the grace time is over: handlers are ended");
            let _ = phase.send(Phase::Ending);
            if timeout(TERM_WITHIN + SETTLE_WITHIN, idle).await.is_err() {
                warn!("some messages are not settled; they come again when their lease ends");
            }
        }
    };
    tokio::select! {
        () = stopped => {}
        (name, number) = signals.stop() => {
            warn!("{name} again: ending at once");
            groups.kill();
            logs::flush();
            std::process::exit(ENDED_BY + number);
        }
    }
    groups.kill();
    progress.abort();
    info!("stopped; {}", counts::line(rows(&workers)));
    end.map_or(Ok(()), Err)
}

fn pause(phase: &watch::Sender<Phase>, asked: Asked) {
    let paused = *phase.borrow() == Phase::Paused;
    let next = match asked {
        Asked::Toggle if !paused => Phase::Paused,
        _ => Phase::Running,
    };
    info!("{}", if next == Phase::Paused { "paused" } else { "running" });
    let _ = phase.send(next);
}

fn rows(workers: &[Rc<Worker>]) -> impl Iterator<Item = (&str, usize, &counts::Counts)> + Clone {
    let row = |worker: &Rc<Worker>| worker.settings.concurrency;
    workers.iter().map(move |worker| (worker.name(), row(worker), &worker.counts))
}

/// Where stderr is a terminal.
async fn show_progress(workers: Rc<[Rc<Worker>]>) {
    if !io::stderr().is_terminal() {
        return;
    }
    let mut shown = String::new();
    let mut ticks = interval(SHOWN_EVERY);
    loop {
        ticks.tick().await;
        let line = counts::line(rows(&workers));
        if line != shown {
            // The next line of the log begins where this one does.
            logs::show(&format!("\r\x1b[K{line}\r"));
            shown = line;
        }
    }
}

fn serve_http(address: SocketAddr, workers: &Rc<[Rc<Worker>]>) -> Result<http::HttpServer, End> {
    let listener = listen::bind(address, "HTTP", "--http").map_err(End::system)?;
    let (requests, mut asked) = mpsc::channel(http::REQUESTS_MAX);
    let server = http::start_apart(listener, requests).map_err(End::system)?;
    info!(address = ?server.address, "HTTP");
    let workers = workers.clone();
    spawn_local(async move {
        while let Some(request) = asked.recv().await {
            // The thread may have given up.
            match request {
                HttpRequest::Metrics(reply) => {
                    let text = counts::render(rows(&workers));
                    let _ = reply.send(Box::new(move || text));
                }
                HttpRequest::Ready(reply) => {
                    let _ = reply.send(ready(&workers).map(Into::into));
                }
                // It has no API.
                HttpRequest::Run(..) => {}
            }
        }
    });
    Ok(server)
}

/// Connected workers are ready.
fn ready(workers: &[Rc<Worker>]) -> Result<&'static str, String> {
    match workers.iter().find(|worker| !worker.counts.connected.get()) {
        None => Ok("ready"),
        Some(worker) => Err(format!("the worker of {} is paused or not connected", worker.name())),
    }
}

/// What a signal asks for.
enum Asked {
    Stop(&'static str),
    /// A pause, or its end.
    Toggle,
    Resume,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    toggle: Signal,
    resume: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            toggle: signal(SignalKind::user_defined1())?,
            resume: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.toggle.recv() => Asked::Toggle,
            _ = self.resume.recv() => Asked::Resume,
        }
    }

    /// The next signal that asks to stop.
    async fn stop(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        }
    }
}
