//! Listening sockets, made before anything else is started, and open files for clients.
//!
//! Does not know what is served. Keeps: an error names the address, its purpose and the flag that
//! chooses another.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Connections that wait for `accept`: a burst of as many as a large service has instances.
const BACKLOG: i32 = 1024;

/// A socket that listens, in non-blocking mode.
pub fn bind(address: SocketAddr, purpose: &str, flag: &str) -> Result<TcpListener, String> {
    let listen = || -> io::Result<TcpListener> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        // A port is free again at once after a stop.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    listen().map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {} of {}, for {purpose}, is taken; choose another with {flag} ADDR:PORT",
            address.port(),
            address.ip()
        ),
        _ => format!("cannot listen on {address} for {purpose} ({flag}): {error}"),
    })
}

/// Files kept for links to Redis, HTTP, timers and certificates.
const FILES_KEPT: u64 = 128;

/// Each client is an open file, and the usual soft limit of 1,024 is for programs that use
/// `select`.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The number of clients that are allowed and fit; a log line says if these are fewer than wanted.
pub fn clients_max(wanted: usize) -> usize {
    let (most, files) = clients_that_fit(wanted);
    if let Some(files) = files {
        tracing::warn!(
            clients_max = most,
            "server.clients_max = {wanted} is lowered to {most}: this process may open {files} \
             files, some of which are kept for Redis and HTTP; raise its limit (LimitNOFILE, \
             ulimit -n)"
        );
    }
    most
}

/// The most clients that fit, and the number of files that this process may open if those are
/// fewer than wanted.
fn clients_that_fit(wanted: usize) -> (usize, Option<u64>) {
    let Some(files) = getrlimit(Resource::Nofile).current else {
        return (wanted, None);
    };
    match fitting(files) {
        most if most < wanted => (most, Some(files)),
        _ => (wanted, None),
    }
}

/// The clients that fit into this number of files; half of them, if they are few.
fn fitting(files: u64) -> usize {
    let most = files - FILES_KEPT.min(files / 2);
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_for_clients() {
        let rows = [(0, 0), (1, 1), (20, 10), (256, 128), (300, 172), (20_000, 19_872)];
        for (files, clients) in rows {
            assert_eq!(fitting(files), clients, "{files}");
        }
        assert_eq!(clients_that_fit(1), (1, None));
        let (most, files) = clients_that_fit(usize::MAX);
        assert_eq!(most, files.map_or(usize::MAX, fitting));
    }

    #[test]
    fn errors_name_address_and_flag() {
        let first = bind(([127, 0, 0, 1], 0).into(), "HTTP", "--http").unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address, "HTTP", "--http").unwrap_err();
        let port = address.port();
        let expected = format!("port {port} of 127.0.0.1, for HTTP, is taken; choose another");
        assert!(error.starts_with(&expected) && error.contains("--http"), "{error}");
        // An address for documentation, which no machine has.
        let error = bind(([192, 0, 2, 1], 0).into(), "HTTP", "--http").unwrap_err();
        assert!(error.contains("192.0.2.1:0") && error.contains("--http"), "{error}");
    }
}
