//! Webhooks, against a real HTTP server that looks at what it gets.

use crate::stage::{Stage, eventually, info, offer};
use crate::support::resp::Client;
use crate::support::tls::Authority;
use crate::taking::dead;
use crate::worker::{Worker, acked, patiently, waiting};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// One request, as it came.
#[derive(Clone, Debug)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Answers with the status, and the header, that the payload asks for: `429 Retry-After: 7`.
#[derive(Clone, Default)]
struct Server {
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Its port.
    fn start(&self, tls: Option<Arc<ServerConfig>>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, tls) = (server.clone(), tls.clone());
                std::thread::spawn(move || server.serve(stream.unwrap(), tls));
            }
        });
        port
    }

    fn serve(&self, stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Option<()> {
        match tls {
            Some(config) => {
                let session = ServerConnection::new(config).unwrap();
                self.exchange(BufReader::new(StreamOwned::new(session, stream)))
            }
            None => self.exchange(BufReader::new(stream)),
        }
    }

    /// Requests of one connection, until the client closes it.
    fn exchange<S: Read + Write>(&self, mut stream: BufReader<S>) -> Option<()> {
        loop {
            let mut line = || {
                let mut line = String::new();
                stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
                Some(line.trim_end().to_owned())
            };
            let first = line()?;
            let mut headers = Vec::new();
            while let Some((name, value)) = line()?.split_once(": ") {
                headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
            let mut request = Request { line: first, headers, body: Vec::new() };
            request.body = vec![0; request.header("content-length").parse().unwrap()];
            stream.read_exact(&mut request.body).ok()?;
            let asked = String::from_utf8_lossy(&request.body).into_owned();
            let asked = asked.lines().next().unwrap_or_default();
            self.seen.lock().unwrap().push(request);
            let (status, header) = asked.split_once(' ').unwrap_or((asked, "X-None: 0"));
            match status {
                // Until the client gives up.
                "slow" => return stream.read_exact(&mut [0]).ok(),
                "cut" => return None,
                "endless" => {
                    let head = "HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n";
                    stream.get_mut().write_all(head.as_bytes()).ok()?;
                    let chunk = [&b"10000\r\n"[..], &[b'x'; 0x10000], b"\r\n"].concat();
                    while stream.get_mut().write_all(&chunk).is_ok() {}
                    return None;
                }
                _ => {}
            }
            let response =
                format!("HTTP/1.1 {status} x\r\n{header}\r\nContent-Length: 2\r\n\r\nok");
            stream.get_mut().write_all(response.as_bytes()).ok()?;
            stream.get_mut().flush().ok()?;
        }
    }
}

fn posts(stage: &Stage, url: &str, flags: &[&str]) -> Worker {
    let broker = format!("redis://{}", stage.broker.address());
    Worker::start(&[&["q", "--broker", &broker, "--post", url], flags].concat(), &[])
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis() as i64
}

#[test]
fn each_status_means_something() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let server = Server::default();
    let url = format!("http://127.0.0.1:{}/hook", server.start(None));
    let mut worker = posts(&stage, &url, &[]);
    let done = ["200", "201", "202", "204", "299"];
    let died = ["400", "402", "405", "406", "409", "410", "411", "413", "415", "422", "451"];
    let wait = 3_600_000;
    let again = ["401", "403", "404", "408", "425", "429", "500", "501", "502", "503", "504"];
    let again = again.map(|status| (status.to_owned(), None, format!("HTTP {status}")));
    let later = [
        ("429 Retry-After: 3600", Some(wait), "HTTP 429"),
        ("503 Retry-After: 3600", Some(wait), "HTTP 503"),
        ("503 Retry-After: 999999999", Some(24 * wait), "HTTP 503"),
        ("503 Retry-After: Fri, 01 Jan 2100 00:00:00 GMT", Some(24 * wait), "HTTP 503"),
        ("500 Retry-After: 3600", None, "HTTP 500"),
        ("302 Location: /else", None, "HTTP 302: redirects are not followed"),
    ];
    let later = later.map(|(ask, wait, reason)| (ask.to_owned(), wait, reason.to_owned()));
    for status in done {
        offer(&mut client, &["q", "0", status]);
    }
    acked(&mut client, done.len() as i64);
    for status in died {
        offer(&mut client, &["q", "0", status]);
    }
    eventually("all of them are dead", || {
        (info(&mut client, "q", "dead").int() as usize == died.len()).then_some(())
    });
    for (payload, attempts, reason) in dead(&mut client) {
        assert_eq!((attempts, reason), (1, format!("HTTP {payload}")));
    }
    for (ask, delay, reason) in again.into_iter().chain(later) {
        let before = now_ms();
        offer(&mut client, &["q", "0", &ask]);
        let row = eventually(&ask, || {
            waiting(&mut client).into_iter().find(|row| row.2 == reason && row.1 > before)
        });
        let after = now_ms();
        match delay {
            // A second, since neither clock is the other.
            Some(delay) => {
                assert!((before + delay - 1_000..=after + delay + 1_000).contains(&row.1), "{ask}");
            }
            None => assert!(row.1 < after + 60_000, "{ask}: {row:?}"),
        }
        // So that it comes no more, and the next one is alone.
        stage_clear(&stage);
    }
    assert!(server.seen.lock().unwrap().iter().all(|request| request.line.contains("/hook")));
    assert_eq!(worker.stop(), 0);
}

/// Forgets what waits for a retry.
fn stage_clear(stage: &Stage) {
    let database = stage.url.rsplit('/').next().unwrap().parse().unwrap();
    let mut redis = crate::support::redis::shared().client(database);
    let ids = redis.call(&["ZRANGE", "delay_broker_retry:{q}", "0", "-1"]).unwrap();
    for id in ids.elements() {
        redis.ask(&[b"ZREM", b"delay_broker_retry:{q}", &id.bytes()]).unwrap();
        redis.ask(&[b"HDEL", b"delay_broker_taken:{q}", &id.bytes()]).unwrap();
        redis.ask(&[b"HDEL", b"delay_broker_tries:{q}", &id.bytes()]).unwrap();
    }
}

#[test]
fn the_receiver_can_check_what_it_gets() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let server = Server::default();
    let url = format!("http://127.0.0.1:{}/a?b=c", server.start(None));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hush\n").unwrap();
    let key = file.path().to_str().unwrap();
    let flags = ["--secret-file", key, "--header", "Authorization: Bearer 1"];
    let mut worker = posts(&stage, &url, &flags);
    let mut large = b"200\n".to_vec();
    large.resize(4 << 20, b'x');
    for payload in [&b"200"[..], &large] {
        client.call(&[b"DQ.OFFER", &b"q"[..], b"0", payload]).unwrap();
    }
    let seen = patiently("both came", || {
        let seen = server.seen.lock().unwrap().clone();
        (seen.len() >= 2).then_some(seen)
    });
    for request in seen.iter().take(2) {
        assert_eq!(request.line, "POST /a?b=c HTTP/1.1");
        assert_eq!(request.header("dq-queue"), "q");
        assert_eq!(request.header("dq-attempt"), "1");
        assert_eq!(request.header("dq-id").len(), 16);
        assert_eq!(request.header("authorization"), "Bearer 1");
        let signature = request.header("dq-signature").to_owned();
        let (time, code) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let code: Vec<u8> = (0..code.len() / 2)
            .map(|at| u8::from_str_radix(&code[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"hush");
        let signed = [time.as_bytes(), b".", &request.body].concat();
        ring::hmac::verify(&key, &signed, &code).unwrap();
        assert!((time.parse::<i64>().unwrap() - now_ms() / 1_000).abs() < 300);
    }
    assert_eq!(seen.iter().map(|request| request.body.len()).max(), Some(4 << 20));
    assert_eq!(worker.stop(), 0);
    assert!(!worker.log().contains("hush") && !worker.log().contains("Bearer"));
}

fn reason(client: &mut Client, payload: &str) -> String {
    let before = waiting(client).len();
    offer(client, &["q", "0", payload]);
    let rows = patiently(payload, || Some(waiting(client)).filter(|rows| rows.len() > before));
    rows.into_iter().max_by_key(|row| row.1).unwrap().2
}

#[test]
fn servers_that_answer_badly_or_not_at_all() {
    let server = Server::default();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let slow = format!("http://127.0.0.1:{}/", server.start(None));
    let rows = [
        (slow.clone(), "slow", "timeout"),
        (slow.clone(), "endless", "HTTP 500"),
        (slow, "cut", "connection closed"),
        (format!("http://{free}/"), "200", "Connection refused"),
        ("http://no-such-host.invalid/".to_owned(), "200", "dns error"),
    ];
    for (url, payload, part) in rows {
        let stage = Stage::new(&[]);
        let mut client = stage.broker.client();
        let mut worker = posts(&stage, &url, &["--timeout", "5s"]);
        let seen = reason(&mut client, payload);
        assert!(seen.contains(part), "{url} {payload}: {seen}");
        assert_eq!(worker.stop(), 0);
    }
}

fn certified(certificate: &Path, key: &Path) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let builder = ServerConfig::builder().with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

#[test]
fn https() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue();
    let server = Server::default();
    let config = certified(&identity.certificate(), &identity.key());
    let url = format!("https://localhost:{}/", server.start(Some(config)));
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let ca = authority.file();
    let mut worker = posts(&stage, &url, &["--ca", ca.to_str().unwrap()]);
    offer(&mut client, &["q", "0", "200"]);
    acked(&mut client, 1);
    assert_eq!(worker.stop(), 0);
    let ca = stranger.file();
    let mut worker = posts(&stage, &url, &["--ca", ca.to_str().unwrap()]);
    let seen = reason(&mut client, "200");
    assert!(seen.contains("invalid peer certificate"), "{seen}");
    assert_eq!(worker.stop(), 0);
    // No TLS is spoken there.
    let plain = format!("https://localhost:{}/", Server::default().start(None));
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut worker = posts(&stage, &plain, &["--timeout", "5s"]);
    let seen = reason(&mut client, "200");
    assert!(!seen.is_empty() && seen != "HTTP 200", "{seen}");
    assert_eq!(worker.stop(), 0);
}

/// The request is given up at the end of the grace time, and no attempt counts.
#[test]
fn a_stop_in_the_middle() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let server = Server::default();
    let url = format!("http://127.0.0.1:{}/", server.start(None));
    let mut worker = posts(&stage, &url, &["--grace", "100ms", "--timeout", "1h"]);
    offer(&mut client, &["q", "0", "slow"]);
    eventually("it is posted", || (!server.seen.lock().unwrap().is_empty()).then_some(()));
    assert_eq!(worker.stop(), 0);
    assert_eq!(crate::taking::take_one(&mut client, "q BLOCK 5s").attempt, 1);
}
