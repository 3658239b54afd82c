//! `delay-broker health`: asks a running broker if it is ready, for the health checks of
//! containers.
//!
//! The broker is found by its address, or by a Unix socket without a file that every broker
//! listens at (`@delay-broker-health/` with its process and the namespace of that): so a check
//! needs no setting of the broker, and nothing is written. Every user of the machine can ask there,
//! as at a port of loopback. Keeps: every step has a deadline.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as unix;
use std::time::{Duration, Instant};

use super::{READY_FOR, READY_WITHIN};

/// A broker that has been ready for this time is asked less often.
const SETTLED: Duration = Duration::from_secs(10);
/// Time between two questions to a broker that is not ready.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// In front of the namespace of processes, and the number of the process in it.
const PREFIX: &str = "delay-broker-health/";

/// The broker that is asked.
#[derive(Debug, Clone, Copy)]
pub enum Whom {
    /// Over TCP.
    At(SocketAddr),
    /// The only one that runs beside this process.
    Running,
    /// The one with this process id.
    Process(u32),
}

/// Asks until the broker is ready, for `wait` at most. One that has been ready for a while is asked
/// again at the end of that time, so that a check that is repeated at once costs little.
///
/// # Errors
/// Why it is not ready, or cannot be asked.
pub fn health(whom: Whom, wait: Duration) -> Result<(), String> {
    let end = Instant::now() + wait;
    loop {
        let answer = ask(whom);
        let left = end.saturating_duration_since(Instant::now());
        match answer {
            Ok(ready_for) if ready_for < SETTLED || left.is_zero() => return Ok(()),
            Ok(_) => std::thread::sleep(left),
            Err(why) if left.is_zero() => return Err(why),
            Err(_) => std::thread::sleep(left.min(ASK_AGAIN)),
        }
    }
}

/// The time for which the broker has been ready.
fn ask(whom: Whom) -> Result<Duration, String> {
    let (place, response) = match whom {
        Whom::At(listen) => {
            // A broker that listens on all addresses also listens on loopback.
            let ip = match listen.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            let address = SocketAddr::new(ip, listen.port());
            let stream = TcpStream::connect_timeout(&address, READY_WITHIN);
            let response = stream.and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                stream.set_write_timeout(Some(READY_WITHIN))?;
                exchange(stream)
            });
            (address.to_string(), response)
        }
        Whom::Running | Whom::Process(_) => {
            let address = unix::SocketAddr::from_abstract_name(find(whom)?);
            let response = address.and_then(|address| {
                let stream = unix::UnixStream::connect_addr(&address)?;
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                stream.set_write_timeout(Some(READY_WITHIN))?;
                exchange(stream)
            });
            ("the broker that runs here".to_owned(), response)
        }
    };
    judge(&response.map_err(|error| format!("no answer from {place}: {}", why(error)))?)
}

/// A socket's deadline that passed reads "Resource temporarily unavailable", which misleads.
fn why(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "nothing came in time; does it hang?".to_owned()
        }
        _ => error.to_string(),
    }
}

/// A little longer than the broker's own bound for this answer.
const ANSWER_WITHIN: Duration = READY_WITHIN.saturating_add(Duration::from_secs(1));

fn exchange(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.take(64 * 1024).read_to_string(&mut response)?;
    Ok(response)
}

fn judge(response: &str) -> Result<Duration, String> {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(body.trim().to_owned());
    }
    let ms = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case(READY_FOR.as_str()).then_some(value)
    });
    let ms = ms.and_then(|ms| ms.parse().ok()).unwrap_or(0);
    Ok(Duration::from_millis(ms))
}

/// The socket at which the broker of this process listens.
pub(super) fn listen() -> io::Result<tokio::net::UnixListener> {
    let name = format!("{}{}", beside()?, std::process::id());
    let address = unix::SocketAddr::from_abstract_name(name)?;
    let listener = unix::UnixListener::bind_addr(&address)?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// The beginning of the names of all brokers that see the same processes: two containers with
/// processes of their own may share a network, and so these names.
fn beside() -> io::Result<String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(format!("{PREFIX}{}/", namespace.display()))
}

/// The name of the socket.
fn find(whom: Whom) -> Result<String, String> {
    let beside = beside().map_err(|error| format!("/proc cannot be read: {error}"))?;
    if let Whom::Process(pid) = whom {
        return Ok(format!("{beside}{pid}"));
    }
    let sockets = std::fs::read_to_string("/proc/net/unix");
    let sockets = sockets.map_err(|error| format!("/proc/net/unix cannot be read: {error}"))?;
    // A socket that listens has a line, and so has each of its connections.
    let names = sockets.lines().filter_map(|line| {
        let (_, name) = line.split_once(" @")?;
        name.starts_with(&beside).then(|| name.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    match &names[..] {
        [] => Err("no broker runs here".to_owned()),
        [one] => Ok(one.clone()),
        many => {
            let pids: Vec<&str> = many.iter().filter_map(|name| name.rsplit('/').next()).collect();
            let pids = pids.join(", ");
            Err(format!("several brokers run here: --running=PID says which of {pids}, or --http"))
        }
    }
}
