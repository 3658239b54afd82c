//! Clients that connect: accepted, limited, served, and waited for at the end.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::client::alone::Alone;
use crate::client::connection::{Connection, CurrentSettings};
use crate::client::settings::Settings;
use crate::client::tls;
use crate::command::Counts;
use crate::config::{Config, Handshake};
use crate::metrics::Refusal;
use crate::peers::registry::Clients;

/// Clients that have left while a command of theirs is under way are not counted against the limit
/// of connections, but beyond it there are no more than this: their sockets may be open.
const LEFT_MORE: usize = 64;
/// The pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// After that, new links to Redis come before clients for this time.
const SHORT_OF_FILES: Duration = Duration::from_secs(10);
const LINKS_FIRST: Duration = Duration::from_secs(1);
/// The least time between two log lines about it.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// The next client of either listener; true if it came with TLS. Clients of one port do not wait
/// for those of the other to pause.
async fn next(plain: &Listener, tls: &Listener) -> (io::Result<(TcpStream, SocketAddr)>, bool) {
    tokio::select! {
        accepted = plain.accept() => (accepted, false),
        accepted = tls.accept() => (accepted, true),
    }
}

/// Connections that could not be accepted.
#[derive(Default)]
struct Unaccepted {
    last: Option<Instant>,
    logged: Option<Instant>,
    since_logged: u64,
}

impl Unaccepted {
    fn lately(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now - last < SHORT_OF_FILES)
    }

    /// Counts one; how many are to be logged now.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.last = Some(now);
        self.since_logged += 1;
        let silent = self.logged.is_some_and(|logged| now - logged < LOG_AGAIN);
        (!silent).then(|| {
            self.logged = self.last;
            std::mem::take(&mut self.since_logged)
        })
    }
}

/// A listener, or none, to which no client ever comes.
struct Listener(Option<tokio::net::TcpListener>);

impl Listener {
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

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
struct Admission {
    clients_max: usize,
    per_address_max: usize,
}

impl Admission {
    fn new(config: &Config, clients_max: usize) -> Self {
        Self { clients_max, per_address_max: config.server.clients_per_address_max }
    }

    /// The refusal of one more connection of this address, in Redis's words.
    fn refusal(self, clients: &Clients, address: IpAddr) -> Option<(Refusal, String)> {
        let (connected, of_it) = (clients.len(), clients.of(address));
        if connected.max((connected + clients.left()).saturating_sub(LEFT_MORE)) >= self.clients_max
        {
            return Some((Refusal::Clients, "-ERR max number of clients reached\r\n".to_owned()));
        }
        (of_it >= self.per_address_max).then(|| {
            let text = format!(
                "-DENIED {address} has {of_it} connections, and server.clients_per_address_max is \
                 {}\r\n",
                self.per_address_max
            );
            (Refusal::Address, text)
        })
    }
}

/// Listens, and serves all that connect.
pub struct Server {
    settings: CurrentSettings,
    handshake: Option<Handshake>,
    admission: Admission,
    counts: Option<Rc<Counts>>,
    plain: Listener,
    tls: Listener,
    unaccepted: Unaccepted,
    connections: JoinSet<()>,
    stopping: CancellationToken,
}

impl Server {
    /// # Errors
    /// A listener that cannot be used.
    pub fn new(
        plain: Option<TcpListener>,
        tls: Option<TcpListener>,
        config: &Config,
        clients_max: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            settings: Rc::new(RefCell::new(Settings::new(config))),
            handshake: handshake(config),
            admission: Admission::new(config, clients_max),
            counts: None,
            plain: Listener(plain.map(tokio::net::TcpListener::from_std).transpose()?),
            tls: Listener(tls.map(tokio::net::TcpListener::from_std).transpose()?),
            unaccepted: Unaccepted::default(),
            connections: JoinSet::new(),
            stopping: CancellationToken::new(),
        })
    }

    /// Tells the broker what INFO shows of this.
    ///
    /// # Errors
    /// A listener that cannot be used.
    pub fn shown_by(&self, broker: &Broker) -> io::Result<()> {
        broker.ports.set((self.plain.port()?, self.tls.port()?));
        broker.clients_max.set(self.admission.clients_max);
        Ok(())
    }

    /// For callers that have no connection here, by the same settings.
    pub fn alone(&self, broker: &Rc<Broker>) -> Rc<Alone> {
        Alone::new(broker, self.settings.clone())
    }

    pub fn connected(&self) -> usize {
        self.connections.len()
    }

    /// Waits for the next client and serves it, or for the end of one. Safe to cancel: no client is
    /// lost.
    pub async fn accept(&mut self, broker: &Rc<Broker>) {
        let links_first = self.unaccepted.lately(Instant::now()) && !broker.is_linked();
        let (accepted, with_tls) = tokio::select! {
            biased;
            accepted = next(&self.plain, &self.tls), if !links_first => accepted,
            () = broker.linked(LINKS_FIRST), if links_first => return,
            Some(_) = self.connections.join_next(), if !self.connections.is_empty() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let handshake = self.handshake.clone().filter(|_| with_tls);
                self.serve((stream, peer), handshake, broker);
                // Those that are there have their turn between two that come.
                tokio::task::yield_now().await;
            }
            // Out of files, most likely: others must leave first.
            Err(error) => {
                if let Some(times) = self.unaccepted.count(Instant::now()) {
                    tracing::warn!(%error, times, "clients cannot be accepted; trying again");
                }
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }

    /// Accepts no more clients, and waits until all that are connected have their replies.
    pub async fn drain(&mut self) {
        (self.plain, self.tls) = (Listener(None), Listener(None));
        self.stopping.cancel();
        while self.connections.join_next().await.is_some() {}
    }

    /// Other settings from now on, also for clients that are connected. A lower number of
    /// connections disconnects no one.
    pub fn take_up(&mut self, config: Config, clients_max: usize, broker: &Broker) {
        self.settings.replace(Settings::new(&config));
        self.handshake = handshake(&config);
        self.admission = Admission::new(&config, clients_max);
        broker.clients_max.set(clients_max);
        broker.set_config(Rc::new(config));
        for client in broker.clients.list() {
            client.wake();
        }
    }

    /// Starts a connection, or refuses it with Redis's words; before a handshake without words.
    fn serve(
        &mut self,
        (stream, peer): (TcpStream, SocketAddr),
        handshake: Option<Handshake>,
        broker: &Rc<Broker>,
    ) {
        if let Some((reason, text)) = self.admission.refusal(&broker.clients, peer.ip()) {
            broker.metrics.refused(reason);
            if handshake.is_none() {
                self.connections.spawn_local(refuse(stream, text));
            }
            return;
        }
        let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
        // Replies are written once per read; waiting for more would only make them late.
        let _ = stream.set_nodelay(true);
        let counts =
            self.counts.get_or_insert_with(|| Rc::new(Counts::new(&broker.metrics))).clone();
        let registered = broker.clients.register(peer, local, std::time::Instant::now());
        let client = registered.client();
        let connection = Connection::new(
            broker.clone(),
            counts,
            self.settings.clone(),
            broker.memory.share(),
            registered,
        );
        let stopping = self.stopping.clone();
        self.connections.spawn_local(async move {
            let Some(handshake) = handshake else {
                return connection.run(stream, stopping).await;
            };
            let accepted = tokio::select! {
                accepted = tls::accept(handshake, stream) => accepted,
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

fn handshake(config: &Config) -> Option<Handshake> {
    config.tls.as_ref().map(|tls| tls.handshake.clone())
}

async fn refuse(mut stream: TcpStream, refusal: String) {
    // Nobody has to read it.
    let _ =
        tokio::time::timeout(Duration::from_secs(1), stream.write_all(refusal.as_bytes())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission() {
        let admission = Admission { clients_max: 3, per_address_max: 2 };
        let clients = Clients::default();
        let register = |from: &str| {
            let from = format!("{from}:1").parse().unwrap();
            clients.register(from, String::new(), Instant::now())
        };
        let refused = |from: &str| {
            let refusal = admission.refusal(&clients, from.parse().unwrap());
            refusal.map_or(String::new(), |(_, text)| text)
        };
        let full = "-ERR max number of clients reached\r\n";
        let first = register("1.1.1.1");
        assert_eq!(refused("1.1.1.1"), "");
        let second = register("1.1.1.1");
        let denied =
            "-DENIED 1.1.1.1 has 2 connections, and server.clients_per_address_max is 2\r\n";
        assert_eq!((refused("1.1.1.1").as_str(), refused("2.2.2.2").as_str()), (denied, ""));
        let mut third = register("2.2.2.2");
        assert_eq!((refused("1.1.1.1").as_str(), refused("3.3.3.3").as_str()), (full, full));
        third.leave();
        assert_eq!(refused("3.3.3.3"), "", "clients that left do not count");
        let mut left: Vec<_> = (0..LEFT_MORE).map(|_| register("4.4.4.4")).collect();
        left.iter_mut().for_each(|one| one.leave());
        assert_eq!(refused("3.3.3.3"), full, "but for their sockets");
        drop(left);
        drop((first, second));
        assert_eq!(refused("1.1.1.1"), "");
    }

    /// Seconds at which one could not be accepted, and how many are logged then.
    #[test]
    fn what_cannot_be_accepted_is_logged_once_in_a_while() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut unaccepted = Unaccepted::default();
        assert!(!unaccepted.lately(at(0)));
        for (s, logged) in [(0, Some(1)), (1, None), (59, None), (60, Some(3)), (119, None)] {
            assert_eq!(unaccepted.count(at(s)), logged, "after {s} s");
        }
        assert!(unaccepted.lately(at(128)) && !unaccepted.lately(at(129)));
    }
}
