//! Listen, accept, limit, and stop in order: connections first, then the broker behind them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::command::{Counts, Rules};
use crate::config::Config;
use crate::connection::{Connection, Limits};
use crate::http::{self, HttpRequest};
use crate::memory::Memory;
use crate::resp::RequestLimits;
use crate::store::redis::Backend;

/// How long the first connection to Redis may take before the broker says that it is ready without
/// it.
const READY_WAIT: Duration = Duration::from_secs(5);
/// Requests of the HTTP endpoints that may wait; more are answered with 503.
const HTTP_WAITING_MAX: usize = 16;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error("the address of the backing Redis cannot be used: {0}")]
    Backend(String),
    #[error("the listener cannot be used: {0}")]
    Listen(#[from] std::io::Error),
    #[error("the scheduler stopped; the log says why")]
    Scheduler,
}

/// Serves until `stop` is done, then drains within the grace time. To be run inside a `LocalSet`.
///
/// `ready` is called once clients are served; after [`READY_WAIT`] also if Redis is not there yet.
///
/// # Errors
/// What makes serving impossible from the start.
pub async fn run(
    config: Config,
    listener: TcpListener,
    http: Option<TcpListener>,
    backend: Backend,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let server = Server::new(&config);
    let grace = Duration::from_secs(config.server.grace_s);
    let broker = Broker::start(config, backend).map_err(ServeError::Backend)?;
    listener.set_nonblocking(true)?;
    broker.tcp_port.set(listener.local_addr()?.port());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (requests, asked) = mpsc::channel(HTTP_WAITING_MAX);
    // Held for as long as it is to answer.
    let _http = http
        .map(|listener| http::start(listener, requests))
        .transpose()?;
    let answering = tokio::task::spawn_local(answer_http(broker.clone(), asked));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut ready = Some(ready);
    let first = broker.clone();
    let first = async move { first.wait_ready(READY_WAIT).await };
    tokio::pin!(stop, first);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = broker.failed.cancelled() => return Err(ServeError::Scheduler),
            waited = &mut first, if ready.is_some() => {
                if let Err(missing) = waited {
                    tracing::warn!(missing, "serving without Redis until it comes");
                }
                if let Some(ready) = ready.take() {
                    ready();
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    server.serve(stream, peer.ip(), &broker, &stopping, &mut connections);
                }
                Err(error) => {
                    // Out of descriptors, most likely: others must leave first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    tracing::info!(
        clients = connections.len(),
        grace_s = grace.as_secs(),
        "stopping"
    );
    stopping.cancel();
    let drained = async {
        while connections.join_next().await.is_some() {}
        broker.stop().await;
    };
    if tokio::time::timeout(grace, drained).await.is_err() {
        tracing::warn!(
            clients = connections.len(),
            offers_waiting = broker.waiting(),
            "the grace time ended before everything was answered"
        );
    }
    answering.abort();
    tracing::info!("stopped");
    Ok(())
}

struct Server {
    limits: Limits,
    rules: Rc<Rules>,
    memory: Rc<Memory>,
    clients_max: usize,
    per_address_max: usize,
    by_address: Rc<RefCell<HashMap<IpAddr, usize>>>,
    counts: RefCell<Option<Rc<Counts>>>,
}

/// A place among the connections of one address; given back when dropped.
struct Place {
    address: IpAddr,
    by_address: Rc<RefCell<HashMap<IpAddr, usize>>>,
    broker: Rc<Broker>,
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
        // The connection's own entry is dropped right after.
        self.broker
            .metrics
            .clients(self.broker.clients.len().saturating_sub(1));
    }
}

impl Server {
    fn new(config: &Config) -> Self {
        let limits = &config.limits;
        let seconds = Duration::from_secs;
        Self {
            limits: Limits {
                request: RequestLimits {
                    args_max: limits.arguments_max,
                    arg_bytes_max: limits.request_bytes_max,
                    request_bytes_max: limits.request_bytes_max,
                    inline_bytes_max: limits.inline_bytes_max,
                },
                output_bytes_max: config.server.output_bytes_max,
                stall_timeout: seconds(config.server.stall_timeout_s),
                idle_timeout: (config.server.idle_timeout_s > 0)
                    .then(|| seconds(config.server.idle_timeout_s)),
            },
            rules: Rules::new(config, false),
            memory: Memory::new(limits.buffers_bytes_max),
            clients_max: config.server.clients_max,
            per_address_max: config.server.clients_per_address_max,
            by_address: Rc::default(),
            counts: RefCell::default(),
        }
    }

    /// Starts a connection, or refuses it with Redis's words.
    fn serve(
        &self,
        stream: TcpStream,
        address: IpAddr,
        broker: &Rc<Broker>,
        stopping: &CancellationToken,
        connections: &mut JoinSet<()>,
    ) {
        let count = self.by_address.borrow().get(&address).copied().unwrap_or(0);
        let refusal = if broker.clients.len() >= self.clients_max {
            Some("-ERR max number of clients reached\r\n".to_owned())
        } else if count >= self.per_address_max {
            Some(format!(
                "-DENIED {address} has {count} connections, \
                 and server.clients_per_address_max is {}\r\n",
                self.per_address_max
            ))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            connections.spawn_local(refuse(stream, refusal));
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
        broker.metrics.clients(broker.clients.len());
        let place = Place {
            address,
            by_address: self.by_address.clone(),
            broker: broker.clone(),
        };
        let connection = Connection::new(
            broker.clone(),
            counts,
            self.rules.clone(),
            self.limits,
            self.memory.share(),
            registered,
        );
        let stopping = stopping.clone();
        connections.spawn_local(async move {
            let _place = place;
            connection.run(stream, stopping).await;
        });
    }
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
                let _ = reply.send(broker.scrape().await);
            }
            HttpRequest::Ready(reply) => {
                let _ = reply.send(broker.ready());
            }
        }
    }
}
