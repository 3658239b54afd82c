//! Serving: sockets first, then Redis, the broker and its clients; stopped in the opposite order.
//!
//! Knows the order of starting and stopping and nothing else. Keeps: a wrong setting or a taken
//! port is reported before anything is started; the broker's own Redis starts first and stops last.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use thiserror::Error;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::client::alone::Alone;
use crate::client::listener::Server;
use crate::config::{Config, Layers, Site};
use crate::daemon::ready::{addresses, announce};
use crate::daemon::reload::Reload;
use crate::daemon::{listen, logs, shutdown, systemd};
use crate::http::{self, HttpRequest};
use crate::managed;
use crate::store::backend::Backend;

/// Time for the first connection to Redis; then the broker says that it is ready without Redis.
const READY_WAIT: Duration = Duration::from_secs(5);
/// Time for the first audit.
const AUDIT_WAIT: Duration = Duration::from_secs(3);
/// The least time that the broker's own Redis gets to stop, enough for a flush of its file, if
/// clients used up the grace time.
const REDIS_STOPS_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Error)]
pub enum ServeError {
    #[error("the address of the backing Redis cannot be used: {0}")]
    Backend(String),
    /// A line for each finding that refuses.
    #[error("the audit refuses this Redis (redis.audit = \"warn\" would use it anyway):\n{0}")]
    Audit(String),
    #[error("the listener cannot be used: {0}")]
    Listen(#[from] io::Error),
    #[error("the scheduler stopped; the log says why")]
    Scheduler,
}

/// Where clients and probes connect.
pub struct Listeners {
    pub plain: Option<TcpListener>,
    pub tls: Option<TcpListener>,
    pub http: Option<TcpListener>,
}

/// Serves until a signal asks to stop. `hints`: prints two commands to try once it serves.
///
/// # Errors
/// Why it could not start, or not stop as it should, as a sentence.
pub fn run(config: Config, layers: Layers, hints: bool) -> Result<(), String> {
    let (level, _logs) = logs::start(&config.log).map_err(|error| error.to_string())?;
    listen::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| error.to_string())?;
    let serving = async {
        let reload = Reload::new(layers, level).map_err(no_signals)?;
        serve(config, reload, hints).await
    };
    let served = runtime.block_on(serving);
    // A pending lookup of a host name would hold up the end.
    runtime.shutdown_background();
    served
}

fn no_signals(error: io::Error) -> String {
    format!("signals cannot be handled: {error}")
}

/// With the Redis of `redis.url`, or with one of the broker's own.
async fn serve(config: Config, reload: Reload, hints: bool) -> Result<(), String> {
    let stop = shutdown::requested()
        .map_err(no_signals)?
        .inspect(|()| systemd::notify("STOPPING=1"))
        .shared();
    let listeners = bind(&config)?;
    let addresses = addresses(&listeners).map_err(|error| error.to_string())?;
    if let Some(url) = config.redis.url.clone() {
        let backend = Backend::given(&url, &config.redis)?;
        let flags = match &url.site {
            Site::At(_) => format!("-u {url}"),
            // redis-cli knows no Sentinels.
            Site::Named { .. } => "-h MASTER -p PORT".to_owned(),
            Site::Cluster { .. } => "-c -h NODE -p PORT".to_owned(),
        };
        let ready = move || announce(addresses, &url.to_string(), &flags, hints);
        let served = broker(config, listeners, backend, reload, ready, stop).await;
        return served.map(drop).map_err(|error| error.to_string());
    }
    let mut own = tokio::select! {
        own = managed::start(&config.managed) => own.map_err(|error| error.to_string())?,
        () = stop.clone() => return Ok(()),
    };
    let (port, data) = (own.port, own.data_dir_given.display().to_string());
    let place = format!("127.0.0.1:{port} (managed, data in {data})");
    let ready = move || announce(addresses, &place, &format!("-p {port}"), hints);
    let backend = Backend::unix(own.socket.clone(), format!("127.0.0.1:{port}"));
    let served = tokio::select! {
        served = broker(config, listeners, backend, reload, ready, stop) => served,
        never = own.watch() => match never {},
    };
    let least = Instant::now() + REDIS_STOPS_WITHIN;
    let end = served.as_ref().map_or(least, |grace| least.max(*grace));
    let stopped = match tokio::time::timeout_at(end, own.stop()).await {
        Ok(stopped) => stopped.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the Redis in {data} did not stop within the grace time; it keeps running, and the \
             next start adopts it"
        )),
    };
    served.map_err(|error| error.to_string()).and(stopped)
}

fn bind(config: &Config) -> Result<Listeners, String> {
    let bind = |address: Option<SocketAddr>, purpose, flag| {
        let bound = address.map(|address| listen::bind(address, purpose, flag));
        bound.transpose()
    };
    Ok(Listeners {
        plain: bind(config.server.listen, "Redis clients", "--listen")?,
        tls: bind(config.server.tls_listen, "Redis clients with TLS", "--tls-listen")?,
        http: bind(config.http.listen, "HTTP", "--http")?,
    })
}

/// Serves until `stop` is done, then drains within the grace time. To be run on a `LocalRuntime`.
///
/// Returns the end of the grace time; the broker's own Redis stops in the rest of it. `ready` is
/// called once clients are served; after [`READY_WAIT`] even if Redis is not there yet.
async fn broker(
    config: Config,
    listeners: Listeners,
    backend: Backend,
    mut reload: Reload,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<Instant, ServeError> {
    let clients_max = listen::clients_max(config.server.clients_max);
    let mut server = Server::new(listeners.plain, listeners.tls, &config, clients_max)?;
    let (http_settings, for_http) = watch::channel(http::Settings::new(&config));
    let broker = Broker::start(config, backend).map_err(ServeError::Backend)?;
    server.shown_by(&broker)?;
    let (requests, asked) = mpsc::channel(http::REQUESTS_MAX);
    // It answers until this is dropped.
    let _http = http::start(listeners.http, for_http, requests)?;
    let alone = server.alone(&broker);
    let answering = tokio::task::spawn_local(answer_http(alone.clone(), asked));
    let mut ready = Some(ready);
    let first = first_contact(broker.clone());
    tokio::pin!(stop, first);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = broker.failed.cancelled() => return Err(ServeError::Scheduler),
            waited = &mut first, if ready.is_some() => {
                if let Some(refusal) = broker.audited.refusal() {
                    return Err(ServeError::Audit(refusal));
                }
                broker.audited.serves();
                if let Err(missing) = waited {
                    tracing::warn!(missing, "serving without Redis until it comes");
                }
                if let Some(ready) = ready.take() {
                    ready();
                }
            }
            () = reload.asked() => {
                if let Some(config) = reload.read(&broker.config()) {
                    let clients_max = listen::clients_max(config.server.clients_max);
                    http_settings.send_replace(http::Settings::new(&config));
                    server.take_up(config, clients_max, &broker);
                }
            }
            // Earlier clients wait, so that nothing is stored in a Redis that the audit refuses.
            () = server.accept(&broker), if ready.is_none() => {}
        }
    }
    broker.begin_stop();
    let grace_s = broker.config().server.grace_s;
    tracing::info!(clients = server.connected(), grace_s, "stopping");
    let end = Instant::now() + Duration::from_secs(grace_s);
    let drained = async {
        futures_util::future::join(server.drain(), alone.drain()).await;
        broker.stop().await;
    };
    if tokio::time::timeout_at(end, drained).await.is_err() {
        let open = broker.unfinished();
        tracing::warn!(
            clients = server.connected(),
            commands = open.commands,
            offers_waiting = open.offers,
            transfers = open.transfers,
            "the grace time ended before everything was answered"
        );
    }
    answering.abort();
    tracing::info!("stopped");
    Ok(end)
}

/// Waits until Redis is there and audited, or refused by the audit, at most [`READY_WAIT`].
///
/// # Errors
/// The part that is missing, as a sentence.
async fn first_contact(broker: Rc<Broker>) -> Result<(), String> {
    let ready = async {
        let waited = broker.wait_ready(READY_WAIT).await;
        if waited.is_ok() {
            broker.audited.first(AUDIT_WAIT).await;
        }
        waited
    };
    // A Redis that is refused may never be ready.
    let refused = async {
        broker.audited.first(READY_WAIT).await;
        if broker.audited.refusal().is_none() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        waited = ready => waited,
        () = refused => Ok(()),
    }
}

/// Answers the questions of the HTTP thread.
async fn answer_http(alone: Rc<Alone>, mut asked: mpsc::Receiver<HttpRequest>) {
    while let Some(request) = asked.recv().await {
        // The HTTP thread may have given up.
        match request {
            HttpRequest::Metrics(reply) => {
                // In a task: a Redis that does not answer must not hold up `/readyz`.
                let broker = alone.broker.clone();
                tokio::task::spawn_local(async move {
                    let metrics = broker.scrape().await;
                    let _ = reply.send(Box::new(move || metrics.render()));
                });
            }
            HttpRequest::Ready(reply) => {
                let _ = reply.send(alone.broker.readiness());
            }
            HttpRequest::Run(ask, reply) => alone.begin(ask, reply),
        }
    }
}
