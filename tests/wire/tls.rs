//! TLS for clients: what goes over it, who is refused, and that nobody waits for a handshake but
//! its own client.

use crate::peer::{Peer, Place};
use crate::support::broker::run;
use crate::support::redis;
use crate::support::resp::Client;
use crate::support::tls::{Authority, Identity, TlsClient};
use crate::support::wait::eventually;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the broker waits for a handshake, and a busy machine.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// A broker that shows `identity`, and listens without TLS too unless told otherwise.
fn place(identity: &Identity, more: &[(&str, &str)]) -> Place {
    let own = identity.settings();
    let own = own.iter().map(|(key, value)| (*key, value.as_str()));
    let all: Vec<_> = own.chain(more.iter().copied()).collect();
    Place::spawn(&all)
}

#[test]
fn commands_and_large_replies() {
    let authority = Authority::new();
    let place = place(&authority.issue(), &[]);
    let mut client = TlsClient::connect(&place.broker.tls_address(), &authority, None).unwrap();
    assert_eq!(client.say("PING").unwrap(), "+PONG");
    assert_eq!(client.say("DQ.OFFER q 1h payload").unwrap(), "$30");
    client.line().unwrap();
    assert_eq!(client.say("DQ.SIZE q").unwrap(), ":1");
    // More than TLS and the kernel hold at once: the rest has to be sent without another request.
    let large = vec![b'x'; 12 << 20];
    let mut sent = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", large.len()).into_bytes();
    sent.extend(&large);
    sent.extend(b"\r\n");
    for _ in 0..2 {
        client.send(&sent).unwrap();
        assert_eq!(client.line().unwrap(), format!("${}", large.len()));
        assert!(client.bytes(large.len()).unwrap() == large);
        assert_eq!(client.bytes(2).unwrap(), b"\r\n");
    }
    // Replies that are asked for in one go come in order.
    client.send("ECHO a\r\n".repeat(10_000).as_bytes()).unwrap();
    assert_eq!(client.bytes(70_000).unwrap(), "$1\r\na\r\n".repeat(10_000).as_bytes());
    client.send(b"QUIT\r\n").unwrap();
    assert_eq!(client.line().unwrap(), "+OK");
    // The end is said, so that nobody can cut replies off unseen.
    assert_eq!(client.line().unwrap_err().to_string(), "unexpected end of file");
    assert_eq!(place.broker.client().call(&["DQ.SIZE", "q"]).unwrap().int(), 1);
}

#[test]
fn with_tls_only() {
    let authority = Authority::new();
    let identity = authority.issue();
    let url = redis::shared().url(redis::shared().fresh_database());
    let settings = identity.settings();
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let args = ["--redis", &url, "--listen", ""];
    let broker = crate::support::broker::Broker::with_args(&args, &settings);
    let ready = broker.ready_line();
    assert!(ready.starts_with("delay-broker ready: RESP none, TLS 127.0.0.1:"), "{ready}");
    let address = broker.tls_address();
    let port = address.rsplit_once(':').unwrap().1;
    let mut client = TlsClient::connect(&address, &authority, None).unwrap();
    client.send(b"INFO server\r\n").unwrap();
    let shown = format!("tcp_port:{port}");
    while client.line().unwrap() != shown {}
    while !client.line().unwrap().starts_with("uptime_in_days") {}
    client.line().unwrap();
    for (name, value) in [("port", "0"), ("tls-port", port)] {
        assert_eq!(client.say(&format!("CONFIG GET {name}")).unwrap(), "*2");
        let lines: Vec<String> = (0..4).map(|_| client.line().unwrap()).collect();
        assert_eq!((lines[1].as_str(), lines[3].as_str()), (name, value));
    }
}

/// The same files serve HTTP, and are renewed with the others; who does not speak TLS there, or
/// nothing, keeps nobody out.
#[test]
fn http_with_tls() {
    let authority = Authority::new();
    let identity = authority.issue();
    let place = place(&identity, &[("http.tls", "true")]);
    let address = place.broker.http_address();
    let get = |path: &str| {
        let mut client = TlsClient::connect(&address, &authority, None).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        (client.line().unwrap(), client.shown())
    };
    let _silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let plain = answer_to(&address, request.as_bytes());
    assert!(!plain.starts_with(b"HTTP"), "{}", plain.escape_ascii());
    for path in ["/metrics", "/readyz"] {
        assert_eq!(get(path), ("HTTP/1.1 200 OK".to_owned(), identity.der()), "{path}");
    }
    authority.renew(&identity);
    place.broker.signal("HUP");
    eventually(|| get("/healthz").1, |shown| *shown == identity.der());
    // The check that needs no setting goes on; the other one says why it does not.
    let running = format!("--running={}", place.broker.pid());
    assert!(run(&["health", &running], &[]).0.success());
    let (status, said) = run(&["health"], &[("DELAY_BROKER_HTTP__TLS", "true")]);
    assert!(status.code() == Some(64) && said.contains("use --running instead"), "{said}");
    let (status, said) = run(&["check"], &[("DELAY_BROKER_HTTP__TLS", "true")]);
    let wanted = "http.tls = true: needs the certificate of server.tls_listen";
    assert!(status.code() == Some(64) && said.contains(wanted), "{said}");
}

#[test]
fn redis_cli() {
    let help = Command::new("redis-cli").arg("--help").output();
    let has_tls = help.is_ok_and(|help| {
        String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("--tls")
    });
    if !has_tls {
        return;
    }
    let authority = Authority::new();
    let identity = authority.issue();
    let authorities = authority.file();
    let authorities = authorities.to_str().unwrap();
    let place = place(&identity, &[("server.tls_client_ca_file", authorities)]);
    let address = place.broker.tls_address();
    let cli = |more: &[&Path]| {
        let port = address.rsplit_once(':').unwrap().1;
        let output = Command::new("redis-cli")
            .args(["-p", port, "--tls", "--cacert", authorities])
            .args(more)
            .args(["DQ.OFFER", "q", "1h", "x"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let own = ["--cert".as_ref(), &*identity.certificate(), "--key".as_ref(), &*identity.key()];
    let id = cli(&own);
    assert!(id.len() == 31 && id.contains('-'), "{id}");
    let refused = cli(&[]);
    assert!(refused.contains("rror"), "{refused}");
}

#[test]
fn clients_without_the_right_certificate_are_refused() {
    let authority = Authority::new();
    let identity = authority.issue();
    let others = Authority::new();
    let clients = Authority::new();
    let authorities = clients.file();
    let place = place(&identity, &[("server.tls_client_ca_file", authorities.to_str().unwrap())]);
    let address = place.broker.tls_address();
    let connect = |identity: Option<&Identity>| TlsClient::connect(&address, &authority, identity);
    let ping = |identity: Option<&Identity>| connect(identity)?.say("PING");
    assert_eq!(ping(Some(&clients.issue())).unwrap(), "+PONG");
    // The reason is an alert of TLS.
    let error = ping(None).unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    let error = ping(Some(&others.issue())).unwrap_err().to_string();
    assert!(error.contains("alert"), "{error}");
    // The broker's own authority is none of theirs.
    assert!(ping(Some(&identity)).is_err());
    assert_eq!(ping(Some(&clients.issue())).unwrap(), "+PONG");
    assert_eq!(place.broker.client().call(&["PING"]).unwrap().text(), "PONG");
}

/// Bytes that are no handshake, and what comes back.
fn answer_to(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANDSHAKE_WITHIN)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // It may be reset, since not all was read.
    stream.read_to_end(&mut answer).ok();
    answer
}

#[test]
fn plain_bytes_on_the_port_with_tls_harm_nobody() {
    let authority = Authority::new();
    let url = redis::shared().url(redis::shared().fresh_database());
    let identity = authority.issue();
    let settings = identity.settings();
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let args = ["--redis", &url, "--log", "debug"];
    let broker = crate::support::broker::Broker::with_args(&args, &settings);
    let address = broker.tls_address();
    let mut client = TlsClient::connect(&address, &authority, None).unwrap();
    let zeros = vec![0; 100_000];
    let attempts: [&[u8]; 4] =
        [b"PING\r\n", b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", &zeros];
    for bytes in attempts {
        let answer = answer_to(&address, bytes);
        assert!(!answer.starts_with(b"+") && !answer.starts_with(b"-"), "{answer:?}");
    }
    // Half a handshake, and away.
    let mut half = TcpStream::connect(&address).unwrap();
    half.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    half.shutdown(Shutdown::Both).unwrap();
    assert_eq!(client.say("PING").unwrap(), "+PONG");
    let lines = || broker.log().matches("the TLS handshake failed").count();
    let all = attempts.len() + 1;
    assert_eq!(eventually(lines, |&lines| lines >= all), all);
    eventually(
        || broker.client().call(&["INFO", "clients"]).unwrap().text(),
        |text| text.contains("connected_clients:2\r\n"),
    );
}

#[test]
fn tls_on_the_port_without_is_told_so() {
    let authority = Authority::new();
    let place = place(&authority.issue(), &[]);
    let address = place.broker.address();
    assert!(TlsClient::connect(&address, &authority, None).is_err());
    let mut peer = Peer::connect(&place.broker);
    peer.sends([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
    peer.gets_end(
        "-ERR Protocol error: this is TLS, and this port is without \
         (server.tls_listen is with)\r\n",
    );
}

/// They take a place each, for ten seconds; nobody else waits for them.
#[test]
fn silent_handshakes_hold_up_nobody_and_end() {
    let authority = Authority::new();
    let place = place(&authority.issue(), &[("server.clients_max", "103")]);
    let address = place.broker.tls_address();
    let since = Instant::now();
    let mut silent: Vec<TcpStream> = (0..100)
        .map(|n| {
            let mut stream = TcpStream::connect(&address).unwrap();
            if n % 2 == 1 {
                stream.write_all(b"\x16\x03\x01").unwrap();
            }
            stream
        })
        .collect();
    let connected = |place: &Place| {
        let mut client = place.broker.client();
        client.call(&["INFO", "clients"]).unwrap().text()
    };
    eventually(|| connected(&place), |text| text.contains("connected_clients:101\r\n"));
    let mut client = TlsClient::connect(&address, &authority, None).unwrap();
    assert_eq!(client.say("PING").unwrap(), "+PONG");
    let (mut one, mut two): (Client, Client) = (place.broker.client(), place.broker.client());
    assert_eq!(one.call(&["PING"]).unwrap().text(), "PONG");
    // With these all places are taken: one more is told so, or just closed before a handshake.
    let full = two.call(&["PING"]).unwrap().text();
    assert_eq!(full, "PONG");
    let refused = place.broker.client().read().unwrap().text();
    assert_eq!(refused, "ERR max number of clients reached");
    assert!(TlsClient::connect(&address, &authority, None).is_err());
    assert!(since.elapsed() < HANDSHAKE_WITHIN, "{:?}", since.elapsed());
    for stream in &mut silent {
        stream.set_read_timeout(Some(HANDSHAKE_WITHIN * 2)).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    }
    assert!(since.elapsed() >= HANDSHAKE_WITHIN, "{:?}", since.elapsed());
    assert_eq!(client.say("PING").unwrap(), "+PONG");
}
