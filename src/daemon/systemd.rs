//! Tells systemd how far the program is, for units of `Type=notify`.
//!
//! One datagram to the socket that systemd names in the environment; nothing where it names none.
//! Does not know what is started or stopped.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Lines as `READY=1`. A failure is logged and no more: systemd's own timeout will say it too.
pub fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(path.as_bytes(), state) {
        tracing::warn!(%error, "systemd could not be told: {}", state.escape_debug());
    }
}

fn send(path: &[u8], state: &str) -> io::Result<()> {
    let address = match path.split_first() {
        // As it is written for sockets that have no file.
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
