//! `/metrics`, `/healthz` and `/readyz` over HTTP, on a thread of their own.
//!
//! Knows neither metrics nor queues: it passes a request to the broker's thread through a bounded
//! channel and waits for the answer. Keeps: scrapes cost the broker's thread no more than reading
//! what it holds, the text is made here; whatever that thread does, `/healthz` says that the
//! process lives, and no request waits longer than its bound.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// What the broker's thread is asked.
pub enum HttpRequest {
    /// All metrics.
    Metrics(oneshot::Sender<Render>),
    /// Whether work can be taken, and how; if not, why.
    Ready(oneshot::Sender<Result<&'static str, String>>),
}

/// Makes the text of all metrics, on this thread.
pub type Render = Box<dyn FnOnce() -> String + Send>;

/// Below the ten seconds after which Prometheus gives up.
const METRICS_WITHIN: Duration = Duration::from_secs(8);
/// Below the five seconds that probes commonly wait.
const READY_WITHIN: Duration = Duration::from_secs(3);
/// A client that opens a connection and says nothing.
const HEADER_WITHIN: Duration = Duration::from_secs(10);
/// Scrapers and probes are few; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Requests that wait for the broker's thread; one more is answered 503.
pub const REQUESTS_MAX: usize = 16;
/// Without a free file descriptor, `accept` fails at once, again and again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const INDEX: &str = "delay-broker\n\n/metrics  for Prometheus\n/healthz  the process lives\n\
                     /readyz   it can take work\n";

/// The running thread; it stops when this is dropped.
#[derive(Debug)]
pub struct HttpServer {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `listener` until the returned value is dropped.
pub fn start(listener: TcpListener, requests: mpsc::Sender<HttpRequest>) -> io::Result<HttpServer> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener, requests) => {}
                    _ = stopped => {}
                }
            });
        })?;
    Ok(HttpServer {
        address,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, requests: mpsc::Sender<HttpRequest>) {
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = room.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!("an HTTP connection was not accepted: {error}");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let requests = requests.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let requests = requests.clone();
                async move { Ok::<_, Infallible>(answer(&request, &requests).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_WITHIN)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn answer(
    request: &Request<Incoming>,
    requests: &mpsc::Sender<HttpRequest>,
) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/" => text(StatusCode::OK, INDEX),
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match ask(requests, HttpRequest::Ready, READY_WITHIN).await {
            Ok(Ok(how)) => text(StatusCode::OK, format!("{how}\n")),
            Ok(Err(why)) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready: {why}\n"),
            ),
            Err(why) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready: {why}\n"),
            ),
        },
        "/metrics" => match ask(requests, HttpRequest::Metrics, METRICS_WITHIN).await {
            Ok(render) => {
                let mut response = text(StatusCode::OK, render());
                let version = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, version);
                response
            }
            Err(why) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no metrics: {why}\n"),
            ),
        },
        _ => text(StatusCode::NOT_FOUND, INDEX),
    }
}

async fn ask<T>(
    requests: &mpsc::Sender<HttpRequest>,
    question: impl FnOnce(oneshot::Sender<T>) -> HttpRequest,
    within: Duration,
) -> Result<T, &'static str> {
    let (reply, answered) = oneshot::channel();
    requests
        .try_send(question(reply))
        .map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => "the broker is busy with other requests",
            mpsc::error::TrySendError::Closed(_) => "the broker is stopping",
        })?;
    match timeout(within, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("the broker is stopping"),
        Err(_) => Err("the broker did not answer in time"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Asks a running broker for `/readyz`, as `delay-broker health` does for containers.
pub fn health(listen: SocketAddr) -> Result<(), String> {
    // What listens everywhere also listens here.
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    let exchange = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, READY_WITHIN)?;
        // A little longer than the broker takes to say that it is not ready.
        stream.set_read_timeout(Some(READY_WITHIN + Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(READY_WITHIN))?;
        let request =
            format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.take(64 * 1024).read_to_string(&mut response)?;
        Ok(response)
    };
    let response = exchange().map_err(|error| format!("no answer from {address}: {error}"))?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    if head.starts_with("HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(body.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// A server whose broker answers with `respond`.
    fn serve(respond: impl Fn(HttpRequest) + Send + 'static) -> HttpServer {
        let (requests, mut received) = mpsc::channel(REQUESTS_MAX);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        std::thread::spawn(move || {
            while let Some(request) = received.blocking_recv() {
                respond(request);
            }
        });
        start(listener, requests).unwrap()
    }

    fn exchange(server: &HttpServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
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
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{path}: {head}"
            );
            assert_eq!(seen, body, "{path}");
        }
        assert!(get(&server, "GET", "/metrics").contains("text/plain; version=0.0.4"));
        assert!(exchange(&server, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert_eq!(
            health(server.address),
            Err("not ready: Redis is away".to_owned())
        );
    }

    #[test]
    fn a_broker_that_is_gone() {
        let server = serve(drop);
        assert!(get(&server, "GET", "/metrics").contains("no metrics: the broker is stopping"));
        assert!(get(&server, "GET", "/healthz").ends_with("ok\n"));
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, server.address.port()));
        assert_eq!(
            health(everywhere),
            Err("not ready: the broker is stopping".to_owned())
        );
        let address = server.address;
        drop(server);
        assert!(
            health(address)
                .unwrap_err()
                .starts_with("no answer from 127.0.0.1:")
        );
    }

    #[test]
    fn ready() {
        let server = serve(|request| match request {
            HttpRequest::Metrics(reply) => drop(reply),
            HttpRequest::Ready(reply) => drop(reply.send(Ok("ready"))),
        });
        assert!(get(&server, "GET", "/readyz").ends_with("ready\n"));
        assert_eq!(health(server.address), Ok(()));
    }
}
