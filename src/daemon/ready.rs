//! The one line on stdout that says where the broker answers, for people and for scripts that wait
//! for it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};

use crate::daemon::serve::Listeners;
use crate::daemon::systemd;

/// In use, as chosen where port 0 was asked for: for clients, for clients with TLS, for HTTP.
pub type Addresses = [Option<SocketAddr>; 3];

pub fn addresses(listeners: &Listeners) -> io::Result<Addresses> {
    let Listeners { plain, tls, http } = listeners;
    let address =
        |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
    Ok([address(plain)?, address(tls)?, address(http)?])
}

/// Says where the broker answers, also to systemd; with `hints` also two commands to try.
pub fn announce(addresses: Addresses, redis: &str, redis_cli_flags: &str, hints: bool) {
    let [plain, tls, http] = addresses;
    let shown = |address: Option<SocketAddr>| {
        address.map_or_else(|| "none".to_owned(), |address| address.to_string())
    };
    let with_tls = tls.map_or_else(String::new, |tls| format!("TLS {tls}, "));
    let (resp, http) = (shown(plain), shown(http));
    let mut lines = format!("delay-broker ready: RESP {resp}, {with_tls}HTTP {http}, ");
    lines += &format!("Redis {redis}\n");
    let try_at = match (plain, tls) {
        (Some(plain), _) => Some(format!("-p {}", plain.port())),
        (None, tls) => tls.map(|tls| format!("--tls -p {}", tls.port())),
    };
    if let Some(flags) = try_at.filter(|_| hints) {
        lines += &format!(
            "Try in another shell, and stop with Ctrl-C here:\n  \
             redis-cli {flags} DQ.OFFER demo 5s hello\n  \
             redis-cli {redis_cli_flags} BLPOP demo 0\n",
        );
    }
    systemd::notify(&format!("READY=1\nSTATUS={}", lines.lines().next().unwrap_or_default()));
    // In a thread, since nobody may read stdout.
    let write = move || drop(io::stdout().write_all(lines.as_bytes()));
    let _ = std::thread::Builder::new().spawn(write);
}
