//! What a worker refuses, and what brokers refuse a worker: passwords, TLS, versions, arguments,
//! files. And what it serves over HTTP.

use crate::stage::{Stage, eventually, offer};
use crate::support::broker::run;
use crate::support::redis;
use crate::support::tls::{Authority, Identity};
use crate::worker::{Worker, acked};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const PASSWORD: &str = "sesam-open";

#[test]
fn passwords() {
    let stage = Stage::new(&[("server.password", PASSWORD)]);
    let address = stage.broker.address();
    let url = format!("redis://{address}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{PASSWORD}\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let (inside, variable) =
        (format!("redis://:{PASSWORD}@{address}"), "DELAY_BROKER_WORK_PASSWORD");
    let right: [(&[&str], &str); 3] = [
        (&["--broker", &url, "--password-file", path], ""),
        (&["--broker", &url], PASSWORD),
        (&["--broker", &inside], ""),
    ];
    let mut client = stage.broker.client();
    client.call(&["AUTH", PASSWORD]).unwrap();
    for (number, (flags, given)) in (1..).zip(right) {
        let words = [&["q"], flags, &["--", "true"]].concat();
        let mut worker = Worker::start(&words, &[(variable, given)]);
        offer(&mut client, &["q", "0", "x"]);
        acked(&mut client, number);
        assert_eq!(worker.stop(), 0);
        assert!(!worker.log().contains(PASSWORD), "{}", worker.log());
    }
    for (given, word) in [("guessed-wrong", "WRONGPASS"), ("", "NOAUTH")] {
        let words = ["q", "--broker", &url, "--", "true"];
        let mut worker = Worker::start(&words, &[(variable, given)]);
        assert_eq!(worker.wait(), 77, "{}", worker.log());
        assert!(worker.log().contains(word), "{}", worker.log());
        assert!(given.is_empty() || !worker.log().contains(given), "{}", worker.log());
    }
}

#[test]
fn tls() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue();
    let settings = identity.settings();
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let stage = Stage::new(&settings);
    let mut client = stage.broker.client();
    let port = stage.broker.tls_address().rsplit_once(':').unwrap().1.to_owned();
    let url = format!("rediss://localhost:{port}");
    let ca = authority.file();
    let words = ["q", "--broker", &url, "--ca", ca.to_str().unwrap(), "--", "true"];
    let mut worker = Worker::start(&words, &[]);
    offer(&mut client, &["q", "0", "x"]);
    acked(&mut client, 1);
    assert_eq!(worker.stop(), 0);
    let ca = stranger.file();
    let words = ["q", "--broker", &url, "--ca", ca.to_str().unwrap(), "--", "true"];
    let mut worker = Worker::start(&words, &[]);
    worker.has_logged("invalid peer certificate");
    assert_eq!(worker.stop(), 0);
}

/// A broker that asks clients for a certificate.
#[test]
fn certificates_of_workers() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let identity = authority.issue();
    let mut settings = identity.settings();
    settings.push(("server.tls_client_ca_file", clients.file().to_str().unwrap().to_owned()));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let stage = Stage::new(&settings);
    let mut client = stage.broker.client();
    let port = stage.broker.tls_address().rsplit_once(':').unwrap().1.to_owned();
    let url = format!("rediss://localhost:{port}");
    let ca = authority.file();
    let words = ["q", "--broker", &url, "--ca", ca.to_str().unwrap()];
    let shows = |own: &Identity| {
        let (cert, key) = (own.certificate(), own.key());
        let shown = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
        Worker::start(&[&words[..], &shown, &["--", "true"]].concat(), &[])
    };
    let own = clients.issue();
    let mut worker = shows(&own);
    offer(&mut client, &["q", "0", "x"]);
    acked(&mut client, 1);
    assert_eq!(worker.stop(), 0);
    // Another authority's, and none.
    let without = Worker::start(&[&words[..], &["--", "true"]].concat(), &[]);
    for mut worker in [shows(&identity), without] {
        worker.has_logged("no take");
        assert!(worker.log().contains("alert"), "{}", worker.log());
        assert_eq!(worker.stop(), 0);
    }
}

/// A Redis is such a one.
#[test]
fn a_broker_without_leases() {
    let url = redis::shared().url(0).trim_end_matches("/0").to_owned();
    let mut worker = Worker::start(&["q", "--broker", &url, "--", "true"], &[]);
    assert_eq!(worker.wait(), 76);
    assert!(worker.log().contains("is too old: it has no DQ.TAKE"), "{}", worker.log());
    let mut worker = Worker::start(&["delay_broker_q", "--broker", &url, "--", "true"], &[]);
    assert_eq!(worker.wait(), 76);
    let stage = Stage::new(&[]);
    let mut worker = Worker::runs(&stage, &["--also", "delay_broker_q"], "true");
    assert_eq!(worker.wait(), 64, "{}", worker.log());
}

/// Nothing listens, and then nobody answers: it goes on trying, and can be stopped.
#[test]
fn a_broker_that_is_away() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls = format!("redis://{free},redis://{}", silent.local_addr().unwrap());
    let mut worker = Worker::start(&["q", "--broker", &urls, "--", "true"], &[]);
    worker.has_logged("Connection refused");
    worker.has_logged("the broker does not answer");
    assert_eq!(worker.stop(), 0);
}

#[test]
fn arguments_and_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, "[[worker]]\nqueue = 'a'\ncommand = ['x']\nconcurency = 3\n").unwrap();
    let rows: [(&[&str], &str); 6] = [
        (&["work"], "no queue: name the one to take from"),
        (&["work", "q"], "no handler: a command behind --, or --post URL"),
        (&["work", "q", "--nothing", "--", "x"], "--nothing"),
        (&["work", "q", "--http", "127.0.0.1:x", "--", "x"], "--http must be address:port"),
        (&["work", "--file", path], "line 4: unknown field `concurency`, expected one of"),
        (&["--log", "info", "work"], "flags of `work` stand behind that word"),
    ];
    for (words, part) in rows {
        let (status, said) = run(words, &[]);
        assert_eq!(status.code(), Some(64), "{said}");
        assert!(said.contains(part), "{said}");
    }
    for words in [["help", "work"], ["work", "--help"]] {
        let (status, said) = run(&words, &[]);
        assert!(status.success() && said.contains("--password-file"), "{said}");
    }
}

#[test]
fn a_file_of_workers_and_their_metrics() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "broker = ['redis://{}']\nhttp = 'localhost:{port}'\n\
         [[worker]]\nqueue = 'q'\nalso = ['more']\ncommand = ['true']\nconcurrency = 3\n\
         [[worker]]\nqueue = 'mail'\ncommand = ['sh', '-c', 'exit 65']\n",
        stage.broker.address()
    );
    std::fs::write(file.path(), text).unwrap();
    let mut worker = Worker::start(&["--file", file.path().to_str().unwrap()], &[]);
    for queue in ["q", "more", "mail"] {
        offer(&mut client, &[queue, "0", "x"]);
    }
    let get = |path: &str| {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    for line in [
        "delay_broker_work_handled_total{queue=\"q\",outcome=\"acked\"} 2",
        "delay_broker_work_handled_total{queue=\"mail\",outcome=\"fatal\"} 1",
        "delay_broker_work_concurrency{queue=\"q\"} 3",
        "delay_broker_work_active{queue=\"q\"} 0",
        "delay_broker_work_connected{queue=\"mail\"} 1",
        "delay_broker_work_handler_seconds_count{queue=\"mail\"} 1",
    ] {
        eventually(line, || get("/metrics").lines().any(|seen| seen == line).then_some(()));
    }
    assert!(get("/readyz").ends_with("ready\n"));
    assert!(get("/healthz").ends_with("ok\n"));
    worker.signal("USR1");
    eventually("a pause shows", || get("/readyz").contains("paused").then_some(()));
    // The broker is the only one that `health --running` finds by its process.
    let pid = format!("--running={}", worker.pid());
    assert!(!run(&["health", &pid], &[]).0.success());
    assert_eq!(worker.stop(), 0);
}
