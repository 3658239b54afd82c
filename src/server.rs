//! Listen, accept, limit, and stop in order: connections first, then the broker behind them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::command::{Counts, Rules};
use crate::config::Config;
use crate::connection::{Connection, Limits, Terms};
use crate::http::{self, HttpRequest};
use crate::metrics::Refusal;
use crate::reload::Reload;
use crate::resp::RequestLimits;
use crate::store::redis::Backend;
use crate::tls::Acceptor;

/// How long the first connection to Redis may take before the broker says that it is ready without
/// it.
const READY_WAIT: Duration = Duration::from_secs(5);
/// How long the first audit may take.
const AUDIT_WAIT: Duration = Duration::from_secs(3);
/// Requests of the HTTP endpoints that may wait; more are answered with 503.
const HTTP_WAITING_MAX: usize = 16;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error("the address of the backing Redis cannot be used: {0}")]
    Backend(String),
    /// A line for each finding that refuses.
    #[error(
        "the audit refuses this Redis (redis.audit = \"warn\" would use it all the same):\n{0}"
    )]
    Audit(String),
    #[error("the listener cannot be used: {0}")]
    Listen(#[from] std::io::Error),
    #[error("the scheduler stopped; the log says why")]
    Scheduler,
}

/// Where clients connect.
pub struct Listeners {
    pub plain: Option<TcpListener>,
    pub tls: Option<TcpListener>,
    pub http: Option<TcpListener>,
}

/// Serves until `stop` is done, then drains within the grace time. To be run on a `LocalRuntime`.
///
/// Gives the end of the grace time: what is left of it is for what stops after this. `ready` is
/// called once clients are served; after [`READY_WAIT`] also if Redis is not there yet.
///
/// # Errors
/// What makes serving impossible from the start.
pub async fn run(
    config: Config,
    listeners: Listeners,
    backend: Backend,
    mut reload: Reload,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<Instant, ServeError> {
    let mut server = Server::new(&config);
    let plain = Listener::new(listeners.plain)?;
    let tls = Listener::new(listeners.tls)?;
    let broker = Broker::start(config, backend).map_err(ServeError::Backend)?;
    broker.ports.set((plain.port()?, tls.port()?));
    let (requests, asked) = mpsc::channel(HTTP_WAITING_MAX);
    // Held for as long as it is to answer.
    let _http = listeners
        .http
        .map(|listener| http::start(listener, requests))
        .transpose()?;
    let answering = tokio::task::spawn_local(answer_http(broker.clone(), asked));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut ready = Some(ready);
    let first = first_contact(broker.clone());
    tokio::pin!(stop, first);
    loop {
        let (accepted, with_tls) = tokio::select! {
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
                continue;
            }
            () = reload.asked() => {
                if let Some(config) = reload.read(&broker.config()) {
                    server.take_up(config, &broker);
                }
                continue;
            }
            // Who connects before waits: nothing is stored in a Redis that is refused.
            accepted = next(&plain, &tls), if ready.is_none() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let acceptor = server.acceptor.clone().filter(|_| with_tls);
                let client = (stream, peer.ip());
                server.serve(client, acceptor, &broker, &stopping, &mut connections);
                // Those that are there have their turn between two that come.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                // Out of descriptors, most likely: others must leave first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop((plain, tls));
    broker.stopping.set(true);
    let grace_s = broker.config().server.grace_s;
    tracing::info!(clients = connections.len(), grace_s, "stopping");
    stopping.cancel();
    let end = Instant::now() + Duration::from_secs(grace_s);
    let drained = async {
        while connections.join_next().await.is_some() {}
        broker.stop().await;
    };
    if tokio::time::timeout_at(end, drained).await.is_err() {
        let open = broker.unfinished();
        tracing::warn!(
            clients = connections.len(),
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

/// The next client of either, and whether it came with TLS. Neither port waits for the other to
/// fall silent.
async fn next(plain: &Listener, tls: &Listener) -> (io::Result<(TcpStream, SocketAddr)>, bool) {
    tokio::select! {
        accepted = plain.accept() => (accepted, false),
        accepted = tls.accept() => (accepted, true),
    }
}

/// A listener, or none: then nobody ever comes.
struct Listener(Option<tokio::net::TcpListener>);

impl Listener {
    fn new(listener: Option<TcpListener>) -> io::Result<Self> {
        let listener = listener.map(|listener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        });
        listener.transpose().map(Self)
    }

    fn port(&self) -> io::Result<u16> {
        let address = self.0.as_ref().map(tokio::net::TcpListener::local_addr);
        Ok(address.transpose()?.map_or(0, |address| address.port()))
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.0 {
            Some(listener) => listener.accept().await,
            None => std::future::pending().await,
        }
    }
}

/// Waits until Redis is there and audited, or refused by the audit, at most [`READY_WAIT`].
///
/// # Errors
/// What is missing.
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

struct Server {
    /// What connections go by.
    terms: Rc<RefCell<Rc<Terms>>>,
    acceptor: Option<Acceptor>,
    clients_max: usize,
    per_address_max: usize,
    by_address: Rc<RefCell<HashMap<IpAddr, usize>>>,
    counts: RefCell<Option<Rc<Counts>>>,
}

/// A place among the connections of one address; given back when dropped.
struct Place {
    address: IpAddr,
    by_address: Rc<RefCell<HashMap<IpAddr, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.by_address.borrow_mut();
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

impl Server {
    fn new(config: &Config) -> Self {
        Self {
            terms: Rc::new(RefCell::new(terms(config))),
            acceptor: acceptor(config),
            clients_max: config.server.clients_max,
            per_address_max: config.server.clients_per_address_max,
            by_address: Rc::default(),
            counts: RefCell::default(),
        }
    }

    /// Other settings from now on, for those who are connected too. Who is beyond a lower number of
    /// connections stays.
    fn take_up(&mut self, config: Config, broker: &Broker) {
        self.terms.replace(terms(&config));
        self.acceptor = acceptor(&config);
        self.clients_max = config.server.clients_max;
        self.per_address_max = config.server.clients_per_address_max;
        broker.set_config(Rc::new(config));
        for client in broker.clients.list() {
            client.wake();
        }
    }

    /// Starts a connection, or refuses it with Redis's words; before a handshake without words.
    fn serve(
        &self,
        (stream, address): (TcpStream, IpAddr),
        acceptor: Option<Acceptor>,
        broker: &Rc<Broker>,
        stopping: &CancellationToken,
        connections: &mut JoinSet<()>,
    ) {
        let count = self.by_address.borrow().get(&address).copied().unwrap_or(0);
        let refusal = if broker.clients.len() >= self.clients_max {
            let text = "-ERR max number of clients reached\r\n".to_owned();
            Some((Refusal::Clients, text))
        } else if count >= self.per_address_max {
            let text = format!(
                "-DENIED {address} has {count} connections, \
                 and server.clients_per_address_max is {}\r\n",
                self.per_address_max
            );
            Some((Refusal::Address, text))
        } else {
            None
        };
        if let Some((reason, text)) = refusal {
            broker.metrics.refused(reason);
            if acceptor.is_none() {
                connections.spawn_local(refuse(stream, text));
            }
            return;
        }
        let local = stream
            .local_addr()
            .map(|address| address.to_string())
            .unwrap_or_default();
        let peer = stream
            .peer_addr()
            .map(|address| address.to_string())
            .unwrap_or_default();
        // Replies are written once per read; waiting for more would only make them late.
        let _ = stream.set_nodelay(true);
        *self.by_address.borrow_mut().entry(address).or_insert(0) += 1;
        let counts = self
            .counts
            .borrow_mut()
            .get_or_insert_with(|| Rc::new(Counts::new(&broker.metrics)))
            .clone();
        let registered = broker
            .clients
            .register(peer, local, std::time::Instant::now());
        let client = registered.client();
        let place = Place {
            address,
            by_address: self.by_address.clone(),
        };
        let connection = Connection::new(
            broker.clone(),
            counts,
            self.terms.clone(),
            broker.memory.share(),
            registered,
        );
        let stopping = stopping.clone();
        connections.spawn_local(async move {
            let _place = place;
            let Some(acceptor) = acceptor else {
                return connection.run(stream, stopping).await;
            };
            let accepted = tokio::select! {
                accepted = acceptor.accept(stream) => accepted,
                () = stopping.cancelled() => return,
            };
            match accepted {
                // Boxed: the others would pay for its size.
                Ok(stream) => Box::pin(connection.run(stream, stopping)).await,
                Err(error) => {
                    let error = error.to_string();
                    tracing::debug!(client = client.addr, error, "the TLS handshake failed");
                }
            }
        });
    }
}

fn terms(config: &Config) -> Rc<Terms> {
    let (server, limits) = (&config.server, &config.limits);
    let seconds = Duration::from_secs;
    Rc::new(Terms {
        rules: Rules::new(config, false),
        limits: Limits {
            request: RequestLimits {
                args_max: limits.arguments_max,
                arg_bytes_max: limits.request_bytes_max,
                request_bytes_max: limits.request_bytes_max,
                inline_bytes_max: limits.inline_bytes_max,
            },
            output_bytes_max: server.output_bytes_max,
            stall_timeout: seconds(server.stall_timeout_s),
            idle_timeout: (server.idle_timeout_s > 0).then(|| seconds(server.idle_timeout_s)),
            reply_timeout: Duration::from_millis(config.redis.call_timeout_ms),
        },
    })
}

fn acceptor(config: &Config) -> Option<Acceptor> {
    config.server.tls.as_ref().map(|tls| tls.acceptor.clone())
}

async fn refuse(mut stream: TcpStream, refusal: String) {
    // Nobody has to read it.
    let _ =
        tokio::time::timeout(Duration::from_secs(1), stream.write_all(refusal.as_bytes())).await;
}

/// Answers what the HTTP thread asks.
async fn answer_http(broker: Rc<Broker>, mut asked: mpsc::Receiver<HttpRequest>) {
    while let Some(request) = asked.recv().await {
        // Who asked may have given up.
        match request {
            HttpRequest::Metrics(reply) => {
                // Beside the others: a Redis that does not answer must not hold up `/readyz`.
                let broker = broker.clone();
                tokio::task::spawn_local(async move {
                    let metrics = broker.scrape().await;
                    let _ = reply.send(Box::new(move || metrics.render()));
                });
            }
            HttpRequest::Ready(reply) => {
                let _ = reply.send(broker.readiness());
            }
        }
    }
}
