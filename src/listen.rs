//! Listening sockets, made before anything else is started, and room for many of them.
//!
//! Does not know what is served. Keeps: an error names the address, what it was for and the flag
//! that chooses another.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that wait for `accept`: a burst of as many as a large service has instances.
const BACKLOG: i32 = 1024;

/// A socket that listens, not yet in non-blocking mode.
pub fn bind(address: SocketAddr, purpose: &str, flag: &str) -> Result<TcpListener, String> {
    let listen = || -> io::Result<TcpListener> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        // A port is free again at once after a stop.
        socket.set_reuse_address(true)?;
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

/// Each client is an open file, and the usual soft limit of 1,024 is for programs that use
/// `select`.
pub fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn errors_name_address_and_flag() {
        let first = bind(([127, 0, 0, 1], 0).into(), "HTTP", "--http").unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address, "HTTP", "--http").unwrap_err();
        let port = address.port();
        let expected = format!("port {port} of 127.0.0.1, for HTTP, is taken; choose another");
        assert!(
            error.starts_with(&expected) && error.contains("--http"),
            "{error}"
        );
        // An address of the documentation, which is no machine's.
        let error = bind(([192, 0, 2, 1], 0).into(), "HTTP", "--http").unwrap_err();
        assert!(
            error.contains("192.0.2.1:0") && error.contains("--http"),
            "{error}"
        );
    }
}
