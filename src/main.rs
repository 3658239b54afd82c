//! The program: arguments, settings, logs, listeners, then the broker until a signal; exit code.
//!
//! Knows the order of starting and stopping and nothing else. Keeps: what can fail at once
//! (settings, ports) fails before anything is started; its own Redis starts first and stops last.
//! Exit codes: 0 stopped as asked, 1 failed, 64 bad arguments or settings.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use clap::Parser;
use delay_broker::config::Config;
use delay_broker::store::redis::Backend;
use delay_broker::{http, listen, logs, managed, server, shutdown};
use futures_util::FutureExt;

mod args;

use args::{Args, Task};

/// EX_USAGE of sysexits.h.
const BAD_USAGE: u8 = 64;

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
    let config = match Config::load(args.layers()) {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("delay-broker: {errors}");
            return ExitCode::from(BAD_USAGE);
        }
    };
    let done = match (task, config.http.listen) {
        (Task::Check, _) => {
            writeln!(io::stdout(), "{}", config.effective().trim_end()).map_err(|e| e.to_string())
        }
        (Task::Health, Some(address)) => http::health(address),
        (Task::Health, None) => Err("http.listen is empty: there is nothing to ask".to_owned()),
        (Task::Serve, _) => {
            logs::start(&config.log);
            listen::raise_open_files();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let local = tokio::task::LocalSet::new();
            let serving = runtime.map_err(|error| error.to_string());
            serving.and_then(|runtime| local.block_on(&runtime, serve(config, hints)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delay-broker: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(config: Config, hints: bool) -> Result<(), String> {
    let stop = shutdown::requested()
        .map_err(|error| format!("no signals: {error}"))?
        .shared();
    let resp = listen::bind(config.server.listen, "Redis clients", "--listen")?;
    let bind_http = |address| listen::bind(address, "HTTP", "--http");
    let http = config.http.listen.map(bind_http).transpose()?;
    let addresses = addresses(&resp, http.as_ref()).map_err(|error| error.to_string())?;
    if let Some(url) = config.redis.url.clone() {
        let backend = Backend::Url(url.expose().to_owned());
        let ready = move || announce(addresses, &url.to_string(), &format!("-u {url}"), hints);

        let served = server::run(config, resp, http, backend, ready, stop).await;
        return served.map_err(|error| error.to_string());
    }
    let mut own = tokio::select! {
        own = managed::start(&config.managed) => own.map_err(|error| error.to_string())?,
        () = stop.clone() => return Ok(()),
    };
    let (port, data) = (own.port, own.data_dir_given.display().to_string());
    let place = format!("127.0.0.1:{port} (managed, data in {data})");
    let ready = move || announce(addresses, &place, &format!("-p {port}"), hints);
    let backend = Backend::Unix {
        path: own.socket.clone(),
    };
    let served = tokio::select! {
        served = server::run(config, resp, http, backend, ready, stop) => served,
        never = own.watch() => match never {},
    };
    let stopped = own.stop().await.map_err(|error| error.to_string());
    served.map_err(|error| error.to_string()).and(stopped)
}

/// Of RESP and of HTTP, as chosen where port 0 was asked for.
type Addresses = (SocketAddr, Option<SocketAddr>);

fn addresses(resp: &TcpListener, http: Option<&TcpListener>) -> io::Result<Addresses> {
    Ok((
        resp.local_addr()?,
        http.map(TcpListener::local_addr).transpose()?,
    ))
}

/// One line on stdout with the addresses in use, for people and for scripts that wait for it.
fn announce((resp, http): Addresses, redis: &str, redis_cli_flags: &str, hints: bool) {
    let http = http.map_or_else(|| "none".to_owned(), |http| http.to_string());
    let mut lines = format!("delay-broker ready: RESP {resp}, HTTP {http}, Redis {redis}\n");
    if hints {
        lines += &format!(
            "Try in another shell, and stop with Ctrl-C here:\n  \
             redis-cli -p {} DQ.OFFER demo 5s hello\n  redis-cli {redis_cli_flags} BLPOP demo 0\n",
            resp.port(),
        );
    }
    // Nobody has to read it.
    let _ = io::stdout().write_all(lines.as_bytes());
}
