//! Stopping and starting: everything that was read is answered, and a port that is taken is named.

use crate::managed::{is_gone, managed, managed_with};
use crate::server::{Server, Stopped};
use crate::stage::{SOON, Stage, call, eventually, say};
use crate::support::broker::Broker;
use crate::support::data_dir::DataDir;
use crate::support::resp::{Client, Value, encode};
use crate::support::tls::{Authority, TlsClient};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn what_was_read_is_answered_before_the_end() {
    for round in 0..3 {
        let mut stage = Stage::new(&[]);
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3)
                .map(|who| {
                    let client = stage.broker.client();
                    scope.spawn(move || offer_until_the_end(client, who))
                })
                .collect();
            eventually("offers are stored", || {
                (call(&mut stage.redis, &["EXISTS", "redisson_delay_queue:{q}"]).int() == 1)
                    .then_some(())
            });
            stage.broker.signal("TERM");
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(stage.broker.wait(SOON).success(), "round {round}");
        let stored = call(&mut stage.redis, &["ZCARD", "redisson_delay_queue_timeout:{q}"]).int();
        let answered: u64 = counts.iter().sum();
        assert_eq!(answered, stored as u64, "round {round}: ids given and messages stored");
        assert!(answered > 0 && answered < 300_000, "round {round}: {answered}");
    }
}

/// Sends as many offers as the broker takes, and counts the ids until the connection ends.
fn offer_until_the_end(mut client: Client, who: usize) -> u64 {
    let mut sending = client.stream().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for n in 0..100 {
            let mut commands = Vec::new();
            for m in 0..1_000 {
                let payload = format!("{who}-{n}-{m}");
                commands.extend(encode(&["DQ.OFFER", "q", "1h", &payload]));
            }
            // The broker is gone: nothing more can be sent.
            if std::io::Write::write_all(&mut sending, &commands).is_err() {
                return;
            }
        }
    });
    let mut ids = 0;
    loop {
        match client.read() {
            Ok(Value::Bulk(_)) => ids += 1,
            // A request that was refused was not stored.
            Ok(Value::Error(text)) if text.starts_with("UNAVAILABLE ") => {}
            Ok(other) => panic!("{other:?}"),
            Err(_) => break,
        }
    }
    client.stream().shutdown(std::net::Shutdown::Both).ok();
    writer.join().unwrap();
    ids
}

/// A client that takes its replies late: they wait in the kernel's buffers on both sides, behind
/// requests that nobody reads any more.
#[test]
fn replies_reach_a_client_that_is_slow_to_take_them() {
    let mut stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let mut sending = client.stream().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let command = encode(&["DQ.OFFER", "q", "1h", "m"]);
        // Fails at the end of the connection at the latest.
        while std::io::Write::write_all(&mut sending, &command.repeat(100)).is_ok() {}
    });
    let stored = |stage: &mut Stage| {
        call(&mut stage.redis, &["ZCARD", "redisson_delay_queue_timeout:{q}"]).int()
    };
    // Until the replies are too many to be taken, and so nothing more is read.
    let (mut before, mut since) = (0, Instant::now());
    let mut goes_on = || {
        let now = stored(&mut stage);
        if now != std::mem::replace(&mut before, now) {
            since = Instant::now();
            return Some(true);
        }
        (now > 10_000 && since.elapsed() > Duration::from_millis(300)).then_some(false)
    };
    while eventually("more is stored, or nothing for a while", &mut goes_on) {}
    stage.broker.signal("TERM");
    eventually("no new clients", || {
        std::net::TcpStream::connect(stage.broker.address()).is_err().then_some(())
    });
    let mut ids = 0;
    while let Ok(reply) = client.read() {
        assert!(matches!(reply, Value::Bulk(_)), "{reply:?}");
        ids += 1;
    }
    client.stream().shutdown(std::net::Shutdown::Both).ok();
    writer.join().unwrap();
    assert!(stage.broker.wait(SOON).success());
    assert_eq!(ids, stored(&mut stage), "ids given and messages stored");
}

#[test]
fn a_client_that_has_said_everything_still_hears_the_answers() {
    let stage = Stage::new(&[]);
    for (n, commands) in ["DQ.OFFER q 1h m", "DQ.OFFER q 1h m\r\nDQ.SIZE q"].into_iter().enumerate()
    {
        let mut client = stage.broker.client();
        client.send_bytes(format!("{commands}\r\n").as_bytes()).unwrap();
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        assert!(matches!(client.read().unwrap(), Value::Bulk(_)));
        let rest = client.read_to_end().unwrap();
        assert_eq!(rest.escape_ascii().to_string(), ["", r":2\r\n"][n]);
    }
}

/// Runs the program to its end, which must be a failure; what it says on stderr.
pub fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .args(["--log", "error"])
        .args(args)
        .args(if args.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
        .args(if args.contains(&"--http") { &[][..] } else { &["--http", "127.0.0.1:0"] })
        .output()
        .unwrap();
    assert!(!output.status.success(), "{args:?} did not fail");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag_that_chooses_another() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, port) =
        (taken.local_addr().unwrap().to_string(), taken.local_addr().unwrap().port());
    let port = port.to_string();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let redis = "redis://127.0.0.1:1";
    for (args, flag) in [
        (&["--redis", redis, "--listen", &address][..], "--listen"),
        (&["--redis", redis, "--http", &address], "--http"),
        (&["--data-dir", dir, "--managed-port", &port], "--managed-port"),
    ] {
        let said = run(args);
        assert!(said.contains(&port) && said.contains(flag) && said.contains("taken"), "{said}");
    }
}

/// A Redis that does not answer, and a client whose command is under way.
fn held_up(server: &Server, broker: &Broker, command: &str) -> (Stopped, Client) {
    assert_eq!(say(&mut broker.client(), "DQ.SIZE q").int(), 0);
    let stopped = Stopped::new(server.pid());
    let mut client = broker.client();
    client.send(&command.split(' ').collect::<Vec<_>>()).unwrap();
    let name = command.split(' ').next().unwrap().to_lowercase();
    let mut watching = broker.client();
    eventually("the command is under way", || {
        let list = say(&mut watching, "CLIENT LIST").text();
        list.contains(&format!("cmd={name}")).then_some(())
    });
    (stopped, client)
}

#[test]
fn idle_clients_are_closed_while_commands_under_way_are_answered() {
    let server = Server::start();
    let authority = Authority::new();
    let identity = authority.issue();
    let settings = identity.settings();
    let mut settings: Vec<_> = settings.iter().map(|(key, v)| (*key, v.as_str())).collect();
    settings.push(("redis.call_timeout_ms", "9000"));
    let mut broker = Broker::spawn(&server.url(), &settings);
    let mut idle = broker.client();
    assert_eq!(say(&mut idle, "PING").text(), "PONG");
    // One that never ends its handshake is idle too.
    let mut silent = TcpStream::connect(broker.tls_address()).unwrap();
    let mut encrypted = TlsClient::connect(&broker.tls_address(), &authority, None).unwrap();
    assert_eq!(encrypted.say("PING").unwrap(), "+PONG");
    let (stopped, mut client) = held_up(&server, &broker, "DQ.OFFER q 1h held");
    broker.signal("TERM");
    assert_eq!(idle.read_to_end().unwrap(), b"");
    silent.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert!(encrypted.line().is_err());
    for address in [broker.address(), broker.tls_address()] {
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
    drop(stopped);
    assert_eq!(client.read().unwrap().bytes().len(), 30);
    assert_eq!(client.read_to_end().unwrap(), b"");
    assert!(broker.wait(SOON).success());
    let log = broker.log();
    assert!(!log.contains("grace time"), "everybody was answered: {log}");
}

#[test]
fn a_redis_that_hangs_holds_the_stop_up_for_the_grace_time_only() {
    let server = Server::start();
    let settings = [("redis.call_timeout_ms", "60000"), ("server.grace_s", "1")];
    let mut broker = Broker::spawn(&server.url(), &settings);
    let (_stopped, mut client) = held_up(&server, &broker, "DQ.OFFER q 1h held");
    let since = Instant::now();
    broker.signal("TERM");
    assert!(broker.wait(SOON).success());
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(6), "{took:?}");
    assert!(client.read().is_err());
    let log = broker.log();
    let said = r#""clients":1,"commands":1,"offers_waiting":0,"transfers":0"#;
    assert!(log.contains("the grace time ended") && log.contains(said), "{log}");
}

/// Its own Redis too: it is left for the next start.
#[test]
fn its_own_redis_that_hangs_is_left_behind_at_the_end_of_the_grace_time() {
    let dir = DataDir::new();
    let (mut broker, mut redis) = managed_with(&dir, &[("server.grace_s", "3")]);
    assert_eq!(say(&mut redis, "PING").text(), "PONG");
    let redis_pid = dir.pid().unwrap();
    let stopped = Stopped::new(redis_pid);
    let since = Instant::now();
    broker.signal("TERM");
    assert_eq!(broker.wait(SOON).code(), Some(1));
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    assert!(broker.log().contains("it keeps running"), "{}", broker.log());
    drop(stopped);
    // What it was told it does now.
    eventually("it has stopped", || is_gone(redis_pid).then_some(()));
}

#[test]
fn a_second_signal_ends_it_at_once_and_leaves_its_redis_to_the_next() {
    let dir = DataDir::new();
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let (mut broker, mut redis) = managed_with(&dir, &[("server.grace_s", "600")]);
        assert_eq!(say(&mut redis, "PING").text(), "PONG");
        let redis_pid = dir.pid().unwrap();
        let mut client = broker.client();
        let before = say(&mut client, "DQ.SIZE q").int();
        assert_eq!(say(&mut client, "DQ.OFFER q 1h kept").bytes().len(), 30);
        // Nobody answers this one, so the stop would take its time.
        let stopped = Stopped::new(redis_pid);
        client.send(&["DQ.SIZE", "q"]).unwrap();
        eventually("the command is under way", || {
            let list = say(&mut broker.client(), "CLIENT LIST").text();
            list.contains("cmd=dq.size").then_some(())
        });
        broker.signal(signal);
        eventually("it stops", || TcpStream::connect(broker.address()).is_err().then_some(()));
        broker.signal(signal);
        assert_eq!(broker.wait(SOON).code(), Some(code));
        drop(stopped);
        assert!(!is_gone(redis_pid), "{signal}");
        let (mut next, _) = managed(&dir);
        assert_eq!(dir.pid(), Some(redis_pid), "it is adopted");
        assert_eq!(say(&mut next.client(), "DQ.SIZE q").int(), before + 1);
        next.signal("TERM");
        assert!(next.wait(SOON).success());
    }
}

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// The end of what it sends, as of a program that exits.
    Close,
    /// A reset, as of a program that is killed with replies unread.
    Reset,
}

#[test]
fn a_client_that_leaves_while_its_command_is_under_way_is_gone_at_once() {
    let server = Server::start();
    // Far beyond the deadline of this test.
    let broker = Broker::spawn(&server.url(), &[("redis.call_timeout_ms", "60000")]);
    let mut watching = broker.client();
    for command in ["DQ.SIZE q", "DQ.CLEAR q", "DQ.OFFER q 1h m", "DQ.PEEK q"] {
        for leave in [Leave::Close, Leave::Reset] {
            eventually("Redis answers", || {
                say(&mut watching, "DQ.SIZE q").text().parse::<u8>().ok()
            });
            let _stopped = Stopped::new(server.pid());
            let mut client = broker.client();
            let port = format!(":{} ", client.stream().local_addr().unwrap().port());
            client.send(&command.split(' ').collect::<Vec<_>>()).unwrap();
            // What is behind it in the pipeline changes nothing.
            client.send(&["PING"]).unwrap();
            let mut clients = |shown: bool| {
                let list = say(&mut watching, "CLIENT LIST").text();
                let info = say(&mut watching, "INFO clients").text();
                let of_it = |line: &&str| line.contains(&port);
                let line = list.lines().find(of_it).map(|line| !line.contains("cmd=NULL"));
                let counted = if shown { 2 } else { 1 };
                let counts = info.contains(&format!("connected_clients:{counted}\r\n"));
                (line == shown.then_some(true) && counts).then_some(())
            };
            eventually("the command is under way", || clients(true));
            if let Leave::Reset = leave {
                let socket = socket2::SockRef::from(client.stream());
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(client);
            let since = Instant::now();
            eventually("it is gone", || clients(false));
            assert!(since.elapsed() < Duration::from_secs(5), "{command}, {leave:?}");
        }
    }
}
