//! The TLS handshake of a client.
//!
//! Knows no file: `config` reads them. Keeps: a handshake takes a bounded time.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Handshake;

/// A client that opens a connection and does not finish the handshake. Ten times a bad line's.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The handshake, within its time.
///
/// # Errors
/// Why there is no connection: the client's certificate, its bytes, its silence.
pub async fn accept(handshake: Handshake, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let accepted = TlsAcceptor::from(handshake.0).accept(stream);
    let late = |_| {
        let text = format!("not finished within {} s", HANDSHAKE_WITHIN.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    tokio::time::timeout(HANDSHAKE_WITHIN, accepted).await.map_err(late)?
}
