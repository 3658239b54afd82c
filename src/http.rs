//! `/metrics`, `/healthz`, `/readyz` and the [`api`] over HTTP, on a thread of their own.
//!
//! It passes a request to the broker's thread through a bounded channel and waits for the answer.
//! Keeps: for a scrape the broker's thread only reads its numbers, the text is made here, and so is
//! the JSON of replies; `/healthz` answers and no request waits longer than its bound even if that
//! thread hangs; clients cannot keep others out, since the oldest connection makes room, one that
//! has asked nothing before one that waits for an answer, and a probe last. Health is also answered
//! at a socket without a file ([`health`]), even if the port is off; nothing else is there.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::net::Listener;
use tracing::{info, warn};

use crate::client::alone::{Ask, Done, Wants};

mod api;
mod body;
pub mod console;
mod door;
pub mod health;
mod json;
mod openapi;
pub mod problem;
pub mod routes;
mod words;

use body::Body;
pub use door::Settings;
use problem::Problem;

/// A question to the broker's thread.
pub enum HttpRequest {
    /// All metrics.
    Metrics(oneshot::Sender<Render>),
    /// Asks if commands can be served: the answer says how, or why not.
    Ready(oneshot::Sender<Result<Cow<'static, str>, String>>),
    /// A command of somebody, or what else one may want.
    Run(Ask, oneshot::Sender<Done>),
}

/// Makes the text of all metrics, on this thread.
pub type Render = Box<dyn FnOnce() -> String + Send>;

/// Below the ten seconds after which Prometheus gives up.
const METRICS_WITHIN: Duration = Duration::from_secs(8);
/// Below the five seconds that probes commonly wait.
const READY_WITHIN: Duration = Duration::from_secs(3);
/// Time for a TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Time for a client to send the head of a request.
const HEADER_WITHIN: Duration = Duration::from_secs(10);
/// Time in which a client must take some of its response.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// A connection serves requests for this time; then it is closed behind a response,
const CONNECTION_WITHIN: Duration = Duration::from_secs(60);
/// which gets this time.
const LAST_WITHIN: Duration = Duration::from_secs(10);
/// Requests of one connection; it is closed behind the last.
const CONNECTION_REQUESTS_MAX: u32 = 100;
/// Scrapers and probes are few; one more ends the oldest.
const CONNECTIONS_MAX: usize = 64;
/// Bytes that a connection may send ahead, and that may wait to be written beside one response.
const BUFFER_BYTES_MAX: usize = 16 * 1024;
/// Requests that wait for the broker's thread; one more is answered 503. More than the API has at
/// one time, so that there is room for `/readyz`.
pub const REQUESTS_MAX: usize = 64;
/// Scrapes at one time; the others wait, and leave the channel to `/readyz`.
const SCRAPES_MAX: usize = 2;
/// Without a free file descriptor, `accept` fails at once, again and again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The time for which `/readyz` has said that the broker is ready, in ms.
const READY_FOR: HeaderName = HeaderName::from_static("x-ready-for-ms");

const INDEX: &str = "delay-broker\n\n/metrics  for Prometheus\n/healthz  the process lives\n\
                     /readyz   it can take work\n/ui/      the console, for browsers\n\
                     /api/v1   the same as commands; /api/v1/openapi.json lists it\n";
/// The broker's thread did not answer.
const LATE: &str = "the broker did not answer in time";
const LOST: &str = "the broker is stopping";

/// The settings of now.
pub type Current = watch::Receiver<Arc<Settings>>;

/// The running thread; it stops when this is dropped.
#[derive(Debug)]
pub struct HttpServer {
    /// `None`: health only, at the socket without a file.
    pub address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `listener`, and `delay-broker health` on this machine, until the returned value is
/// dropped.
pub fn start(
    listener: Option<TcpListener>,
    settings: Current,
    requests: mpsc::Sender<HttpRequest>,
) -> io::Result<HttpServer> {
    serve_on(listener, settings, true, requests)
}

/// Serves `listener` only, as a process does that is no broker.
pub fn start_apart(
    listener: TcpListener,
    requests: mpsc::Sender<HttpRequest>,
) -> io::Result<HttpServer> {
    serve_on(Some(listener), watch::channel(Settings::bare()).1, false, requests)
}

/// `is_broker`: health finds it, and it has the API.
fn serve_on(
    listener: Option<TcpListener>,
    settings: Current,
    is_broker: bool,
    requests: mpsc::Sender<HttpRequest>,
) -> io::Result<HttpServer> {
    let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (listener, local) = {
        let _inside = runtime.enter();
        let not_found =
            |error: &_| info!("`delay-broker health --running` will not find this broker: {error}");
        let listener = listener.map(tokio::net::TcpListener::from_std).transpose()?;
        let local = is_broker.then(|| health::listen().inspect_err(not_found).ok()).flatten();
        (listener, local)
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, async {
            let broker = Rc::new(Asked::new(settings, is_broker, requests));
            let loopback = address.is_some_and(|address| address.ip().is_loopback());
            let port = |from| Some(Came { from, loopback });
            tokio::select! {
                never = accept(listener, broker.clone(), port) => match never {},
                never = accept(local, broker, |_| None) => match never {},
                _ = stopped => {}
            }
        });
    })?;
    Ok(HttpServer { address, stop: Some(stop), thread: Some(thread) })
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How a request came, if by the port.
#[derive(Clone, Copy)]
struct Came {
    from: SocketAddr,
    /// The port is on loopback.
    loopback: bool,
}

/// `None`: nobody comes.
async fn accept<L: Listener<Io: Unpin + 'static>>(
    listener: Option<L>,
    broker: Rc<Asked>,
    came: impl Fn(L::Addr) -> Option<Came>,
) -> Infallible {
    let Some(mut listener) = listener else {
        return std::future::pending().await;
    };
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                connections.serve(stream, broker.clone(), came(from));
                // Those that are there have their turn between two that come.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                warn!("an HTTP connection was not accepted: {error}");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// What a connection waits for; the first makes room first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Serving {
    Nothing,
    /// A page that is kept current.
    Live,
    Api,
    Probe,
}

/// The connections of one listener, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<(AbortHandle, Rc<Cell<Serving>>)>);

impl Connections {
    fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        broker: Rc<Asked>,
        came: Option<Came>,
    ) {
        self.0.retain(|(connection, _)| !connection.is_finished());
        // Of several that are equal it is the oldest.
        let least = (0..self.0.len()).min_by_key(|place| self.0.get(*place).map(|(_, s)| s.get()));
        if self.0.len() >= CONNECTIONS_MAX
            && let Some((ended, serving)) = least.and_then(|place| self.0.remove(place))
        {
            ended.abort();
            if serving.get() == Serving::Api {
                warn!("an API request was broken off to make room for another connection");
            }
        }
        let serving = Rc::new(Cell::new(Serving::Nothing));
        let tls = broker.settings.borrow().tls.clone().filter(|_| came.is_some());
        let serves = serving.clone();
        let connection = tokio::task::spawn_local(async move {
            let Some(tls) = tls else {
                return serve(stream, broker, came, &serves).await;
            };
            // One that fails is a client without TLS, or without a certificate.
            let accepted = timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(tls).accept(stream)).await;
            if let Ok(Ok(stream)) = accepted {
                serve(stream, broker, came, &serves).await;
            }
        });
        self.0.push_back((connection.abort_handle(), serving));
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + 'static,
    broker: Rc<Asked>,
    came: Option<Came>,
    serving: &Cell<Serving>,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_WITHIN));
    let requests = Cell::new(0);
    let service = service_fn(|request: Request<Incoming>| {
        requests.set(requests.get() + 1);
        let last = requests.get() >= CONNECTION_REQUESTS_MAX;
        let broker = &broker;
        async move {
            let mut response = answer(request, broker, came, serving).await;
            if serving.get() != Serving::Live {
                serving.set(Serving::Nothing);
            }
            if last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::pin!(connection);
    // An error here is a client that breaks off, which needs no line.
    if timeout(CONNECTION_WITHIN, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_WITHIN, connection).await;
    }
}

/// The way from requests to the broker's thread.
struct Asked {
    settings: Current,
    /// The API is there.
    is_broker: bool,
    requests: mpsc::Sender<HttpRequest>,
    scrapes: Semaphore,
    places: api::Places,
    jobs: console::jobs::Jobs,
    live: console::live::Live,
    /// Since when every answer says that the broker is ready.
    ready_since: Cell<Option<Instant>>,
}

impl Asked {
    fn new(settings: Current, is_broker: bool, requests: mpsc::Sender<HttpRequest>) -> Self {
        Self {
            settings,
            is_broker,
            requests,
            scrapes: Semaphore::new(SCRAPES_MAX),
            places: api::Places::default(),
            jobs: console::jobs::Jobs::default(),
            live: console::live::Live::default(),
            ready_since: Cell::new(None),
        }
    }

    async fn ready(&self) -> Response<Body> {
        let answer = ask(&self.requests, HttpRequest::Ready, READY_WITHIN).await;
        match answer.unwrap_or_else(|why| Err(why.to_owned())) {
            Ok(how) => {
                let since = self.ready_since.get().unwrap_or_else(Instant::now);
                self.ready_since.set(Some(since));
                let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut response = text(StatusCode::OK, format!("{how}\n"));
                response.headers_mut().insert(READY_FOR, ms.into());
                response
            }
            Err(why) => {
                self.ready_since.set(None);
                text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
            }
        }
    }

    /// The metrics, if whoever asks may see them.
    async fn metrics_for(&self, headers: &HeaderMap, came: &Came) -> Response<Body> {
        let guarded = self.settings.borrow().metrics_auth;
        let let_in = async {
            let login = door::login(headers)?;
            api::let_in(self, came, login, Wants::Metrics).await
        };
        match if guarded { let_in.await } else { Ok(()) } {
            Ok(()) => self.metrics().await,
            Err(refused) => refused.response(),
        }
    }

    async fn metrics(&self) -> Response<Body> {
        let scrape = async {
            let _place = self.scrapes.acquire().await;
            ask(&self.requests, HttpRequest::Metrics, METRICS_WITHIN).await
        };
        let busy = Err("other scrapes are under way");
        match timeout(METRICS_WITHIN, scrape).await.unwrap_or(busy) {
            Ok(render) => {
                let mut response = text(StatusCode::OK, render());
                let version = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, version);
                response
            }
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("no metrics: {why}\n")),
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    broker: &Rc<Asked>,
    came: Option<Came>,
    serving: &Cell<Serving>,
) -> Response<Body> {
    let path = request.uri().path();
    if let Some(came) = came.filter(|_| broker.is_broker && api::is_path(path)) {
        let settings = Arc::clone(&broker.settings.borrow());
        return match door::host(request.uri(), request.headers()) {
            Ok(host) => {
                let answer = api::answer(request, &host, &settings, broker, &came, serving).await;
                answer.unwrap_or_else(|refused| api::refused(refused, &came))
            }
            Err(rule) => Problem::bad(rule).response(),
        };
    }
    if let Some(came) = came.filter(|_| broker.is_broker && console::is_path(path)) {
        let settings = Arc::clone(&broker.settings.borrow());
        return match door::host(request.uri(), request.headers()) {
            Ok(host) => console::answer(request, &host, &settings, broker, &came, serving).await,
            Err(rule) => text(StatusCode::BAD_REQUEST, format!("{rule}\n")),
        };
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    serving.set(Serving::Probe);
    match (path, came) {
        ("/healthz", _) => return text(StatusCode::OK, "ok\n"),
        ("/readyz", _) => return broker.ready().await,
        ("/metrics", Some(came)) => return broker.metrics_for(request.headers(), &came).await,
        _ => {}
    }
    // Probes come by an address, and say what they like.
    match door::host(request.uri(), request.headers()) {
        Err(rule) => text(StatusCode::BAD_REQUEST, format!("{rule}\n")),
        Ok(_) if path == "/" => match broker.is_broker && console::is_browser(request.headers()) {
            true => console::redirect("/ui/"),
            false => text(StatusCode::OK, INDEX),
        },
        Ok(_) => text(StatusCode::NOT_FOUND, INDEX),
    }
}

async fn ask<T>(
    requests: &mpsc::Sender<HttpRequest>,
    question: impl FnOnce(oneshot::Sender<T>) -> HttpRequest,
    within: Duration,
) -> Result<T, &'static str> {
    let (reply, answered) = oneshot::channel();
    requests.try_send(question(reply)).map_err(|refused| match refused {
        mpsc::error::TrySendError::Full(_) => "the broker is busy with other requests",
        mpsc::error::TrySendError::Closed(_) => "the broker has stopped",
    })?;
    match timeout(within, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(LOST),
        Err(_) => Err(LATE),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    json::response(status, "text/plain; charset=utf-8", Body::from(body.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::health::{Whom, health};
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    /// A server whose broker answers with `respond`.
    fn serve(respond: impl Fn(HttpRequest) + Send + 'static) -> HttpServer {
        let (requests, mut received) = mpsc::channel(REQUESTS_MAX);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            while let Some(request) = received.blocking_recv() {
                respond(request);
            }
        });
        start(Some(listener), watch::channel(Settings::bare()).1, requests).unwrap()
    }

    fn address(server: &HttpServer) -> SocketAddr {
        server.address.unwrap()
    }

    fn at_once(server: &HttpServer) -> Result<(), String> {
        health(Whom::At(address(server)), Duration::ZERO)
    }

    fn exchange(server: &HttpServer, request: &str) -> String {
        let mut stream = TcpStream::connect(address(server)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn get(server: &HttpServer, method: &str, path: &str) -> String {
        exchange(
            server,
            &format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        )
    }

    #[test]
    fn paths() {
        let server = serve(|request| match request {
            HttpRequest::Metrics(reply) => drop(reply.send(Box::new(|| "name 1\n".to_owned()))),
            HttpRequest::Ready(reply) => drop(reply.send(Err("Redis is away".to_owned()))),
            HttpRequest::Run(..) => {}
        });
        #[rustfmt::skip]
        let rows = [
            ("GET", "/healthz", "200", "ok\n"),
            ("GET", "/metrics", "200", "name 1\n"),
            ("GET", "/metrics?x=1", "200", "name 1\n"),
            ("GET", "/readyz", "503", "not ready: Redis is away\n"),
            ("GET", "/", "200", INDEX),
            ("GET", "/nothing", "404", INDEX),
            ("HEAD", "/healthz", "200", ""),
            ("POST", "/metrics", "405", "GET only\n"),
        ];
        for (method, path, status, body) in rows {
            let response = get(&server, method, path);
            let (head, seen) = response.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
            assert_eq!(seen, body, "{path}");
        }
        assert!(get(&server, "GET", "/metrics").contains("text/plain; version=0.0.4"));
        assert!(exchange(&server, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert_eq!(at_once(&server), Err("not ready: Redis is away".to_owned()));
    }

    #[test]
    fn a_broker_that_hangs() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let why = health(Whom::At(address), Duration::ZERO).unwrap_err();
        assert!(why.contains("does it hang?"), "{why}");
    }

    #[test]
    fn a_broker_that_is_gone() {
        let server = serve(drop);
        assert!(get(&server, "GET", "/metrics").contains("no metrics: the broker is stopping"));
        assert!(get(&server, "GET", "/healthz").ends_with("ok\n"));
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address(&server).port()));
        let stopping = Err("not ready: the broker is stopping".to_owned());
        assert_eq!(health(Whom::At(everywhere), Duration::ZERO), stopping);
        let address = address(&server);
        drop(server);
        let gone = health(Whom::At(address), Duration::ZERO).unwrap_err();
        assert!(gone.starts_with("no answer from 127.0.0.1:"), "{gone}");
    }

    /// Ready from the third question on; then steady.
    #[test]
    fn health_waits_until_it_is_ready() {
        let asked = std::sync::atomic::AtomicU32::new(0);
        let server = serve(move |request| match request {
            HttpRequest::Metrics(reply) => drop(reply),
            HttpRequest::Ready(reply) => {
                let before = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let answer =
                    if before < 3 { Err("not yet".to_owned()) } else { Ok("ready".into()) };
                drop(reply.send(answer));
            }
            HttpRequest::Run(..) => {}
        });
        assert_eq!(at_once(&server), Err("not ready: not yet".to_owned()));
        let whom = Whom::At(address(&server));
        let begun = Instant::now();
        assert_eq!(health(whom, Duration::from_secs(60)), Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(30), "as soon as it is ready");
        assert!(get(&server, "GET", "/readyz").ends_with("ready\n"));
        let ms = |response: String| -> u64 {
            let (_, rest) = response.split_once("x-ready-for-ms: ").unwrap();
            rest.split('\r').next().unwrap().parse().unwrap()
        };
        let first = ms(get(&server, "GET", "/readyz"));
        // Since the same moment.
        while ms(get(&server, "GET", "/readyz")) <= first {}
    }

    /// More than there are places for, each with more responses than the kernel takes, none of
    /// which is read.
    #[test]
    fn a_client_that_never_reads_holds_no_place() {
        let server = serve(|request| match request {
            HttpRequest::Metrics(reply) => drop(reply.send(Box::new(|| "x".repeat(1 << 20)))),
            HttpRequest::Ready(reply) => drop(reply.send(Ok("ready".into()))),
            HttpRequest::Run(..) => {}
        });
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50);
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX + 6 {
            let mut stream = TcpStream::connect(address(&server)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            held.push(stream);
            assert_eq!(at_once(&server), Ok(()), "beside {} of them", held.len());
        }
        assert!(get(&server, "GET", "/metrics").starts_with("HTTP/1.1 200 "));
        // The oldest made room.
        let mut oldest = held.remove(0);
        oldest.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut taken = Vec::new();
        let end = oldest.read_to_end(&mut taken);
        assert!(end.is_ok() || end.unwrap_err().kind() == io::ErrorKind::ConnectionReset);
        assert!(taken.len() < 50 << 20);
    }

    /// Connections that ask nothing make room first.
    #[test]
    fn a_crowd_breaks_no_probe_off() {
        let (held, asked) = std::sync::mpsc::channel();
        let server = serve(move |request| match request {
            HttpRequest::Metrics(reply) => drop(held.send(reply)),
            HttpRequest::Ready(reply) => drop(reply.send(Ok("ready".into()))),
            HttpRequest::Run(..) => {}
        });
        let mut probe = TcpStream::connect(address(&server)).unwrap();
        probe.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let reply: oneshot::Sender<Render> = asked.recv().unwrap();
        let crowd = (0..3 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address(&server)).unwrap());
        let crowd: Vec<_> = crowd.collect();
        // All of them were accepted before this one.
        assert_eq!(at_once(&server), Ok(()));
        assert!(reply.send(Box::new(|| "name 1\n".to_owned())).is_ok(), "it waits");
        let mut response = String::new();
        probe.read_to_string(&mut response).unwrap();
        assert!(response.ends_with("name 1\n"), "{response}");
        drop(crowd);
    }

    #[test]
    fn a_connection_serves_so_many_requests() {
        let server = serve(drop);
        let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        let responses = exchange(&server, &request.repeat(150));
        let served = responses.matches("HTTP/1.1 200 ").count();
        assert_eq!(served, CONNECTION_REQUESTS_MAX as usize);
        assert_eq!(responses.matches("connection: close").count(), 1);
    }
}
