//! A bare forwarder: what passes the bytes of a client on to Redis and back, in one thread.
//!
//! It is the floor for whoever stands between a client and Redis: two hops and nothing else. It
//! goes to Redis as the broker does, by the Unix socket.

use std::net::TcpListener;
use std::path::Path;

use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::Outcome;

/// Ends with its value.
pub struct Forwarder {
    pub port: u16,
    ended: CancellationToken,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Forwarder {
    pub fn start(socket: &Path) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (port, ended) = (listener.local_addr()?.port(), CancellationToken::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (socket, end) = (socket.to_owned(), ended.clone());
        std::thread::spawn(move || {
            runtime.block_on(end.run_until_cancelled(async move {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                loop {
                    let (mut client, _) = listener.accept().await?;
                    client.set_nodelay(true)?;
                    let mut redis = UnixStream::connect(&socket).await?;
                    tokio::spawn(async move { copy_bidirectional(&mut client, &mut redis).await });
                }
                #[expect(unreachable_code, reason = "it names the type of the errors above")]
                std::io::Result::Ok(())
            }))
        });
        Ok(Forwarder { port, ended })
    }
}
