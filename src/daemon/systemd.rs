//! Tells systemd when the program is ready and when it stops, for units of `Type=notify`.
//!
//! One datagram to the socket that systemd names in the environment; nothing if it names none.
//! Does not know the parts that start or stop.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends lines such as `READY=1`. A failure is only logged, since systemd's own timeout reports it
/// too.
pub fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(path.as_bytes(), state) {
        tracing::warn!(%error, "systemd could not be notified: {}", state.escape_debug());
    }
}

fn send(path: &[u8], state: &str) -> io::Result<()> {
    let address = match path.split_first() {
        // The form for sockets that have no file.
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
