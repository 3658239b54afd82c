//! One connection to a broker, and which broker the next one goes to.
//!
//! Speaks RESP2 with the reader of `resp`, which bounds what comes: `fred` repeats calls on its
//! own, hides in which broker a call went, and cannot half close a connection, which a take needs
//! ([`Connection::end`]). Knows no queue. Keeps: each step has a bound in time; no error shows a
//! password.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp3::types::BytesFrame;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::settings::Target;
use crate::config::{Place, Site};
use crate::resp::peer::{Reader, encode};

/// Time for connecting, for the handshake, and for an answer that waits for nothing.
pub const WITHIN: Duration = Duration::from_secs(5);
/// Bytes of one reply: the largest payload that a broker can be set to take, and what is around.
const REPLY_BYTES_MAX: usize = (512 << 20) + (1 << 20);
/// Waits between tries grow from the first to the second.
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// Why there is no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The connection broke, or there is none.
    Lost(String),
    /// The error reply.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(why) | Self::Refused(why)) = self;
        f.write_str(why)
    }
}

/// What an error reply means for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The same may go well later, or elsewhere.
    Again,
    /// Password or rights are missing.
    Denied,
    /// There is no such command.
    TooOld,
    /// The same will never go well.
    Wrong,
}

/// By its first word, as docs/errors.md has them.
pub fn meaning(error: &str) -> Meaning {
    match error.split(' ').next().unwrap_or_default() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Meaning::Denied,
        "ERR" if error.starts_with("ERR unknown command") => Meaning::TooOld,
        "ERR" if error.starts_with("ERR max number of clients") => Meaning::Again,
        "ERR" | "BADQUEUE" | "BADDELAY" | "BADID" => Meaning::Wrong,
        // Somebody may mend what is in Redis.
        _ => Meaning::Again,
    }
}

/// All brokers, in the order in which they were named.
pub struct Brokers {
    pub targets: Vec<Target>,
    pub tls: Option<Arc<ClientConfig>>,
}

/// The way of one connection: it stays at a broker until that fails, and then goes to the next.
pub struct Route {
    brokers: Rc<Brokers>,
    at: usize,
    failures: u32,
}

impl Route {
    pub fn new(brokers: &Rc<Brokers>) -> Self {
        Self { brokers: brokers.clone(), at: 0, failures: 0 }
    }

    /// The broker that is used now, without its password.
    pub fn place(&self) -> String {
        self.target().map_or_else(String::new, |target| target.url.to_string())
    }

    fn target(&self) -> Option<&Target> {
        self.brokers.targets.get(self.at)
    }

    /// # Errors
    /// The step that failed, or the broker's refusal of the password.
    pub async fn connect(&self) -> Result<Connection, Trouble> {
        let lost = || Trouble::Lost("there is no broker".to_owned());
        let target = self.target().ok_or_else(lost)?;
        Connection::open(target, self.brokers.tls.as_ref()).await
    }

    pub fn went_well(&mut self) {
        self.failures = 0;
    }

    /// Goes on to the next broker, and says how long to wait before it is tried.
    pub fn failed(&mut self) -> Duration {
        let brokers = self.brokers.targets.len().max(1);
        self.at = (self.at + 1) % brokers;
        let wait = again(self.failures, brokers as u32, chance());
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

/// The wait after so many failures in a row before this one: none as long as there are brokers
/// that were not tried, then growing ones, of which `chance` (0 to 1) takes off up to a half.
fn again(failures: u32, brokers: u32, chance: f64) -> Duration {
    if !failures.saturating_add(1).is_multiple_of(brokers) {
        return Duration::ZERO;
    }
    let rounds = (failures / brokers).min(16);
    let whole = AGAIN_MIN.saturating_mul(1 << rounds).min(AGAIN_MAX);
    whole.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

fn chance() -> f64 {
    let mut byte = [0];
    // Without chance the waits are whole.
    let _ = getrandom(&mut byte, GetRandomFlags::empty());
    f64::from(byte[0]) / 255.0
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Logged in.
pub struct Connection {
    stream: Box<dyn Stream>,
    reader: Reader,
}

impl Connection {
    async fn open(target: &Target, tls: Option<&Arc<ClientConfig>>) -> Result<Self, Trouble> {
        let lost = |step: &str, why: &dyn fmt::Display| {
            Trouble::Lost(format!("{}: {step}: {why}", target.url))
        };
        let Site::At(Place::Tcp { host, port, tls: encrypted }) = &target.url.site else {
            return Err(lost("connect", &"no port"));
        };
        let stream = match timeout(WITHIN, TcpStream::connect((host.as_str(), *port))).await {
            Ok(stream) => stream.map_err(|error| lost("connect", &error))?,
            Err(_) => return Err(lost("connect", &"it takes no connection")),
        };
        stream.set_nodelay(true).map_err(|error| lost("connect", &error))?;
        let stream: Box<dyn Stream> = match tls.filter(|_| *encrypted) {
            Some(config) => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| lost("TLS", &"the host is no name for TLS"))?;
                let handshake = TlsConnector::from(config.clone()).connect(name, stream);
                match timeout(WITHIN, handshake).await {
                    Ok(stream) => Box::new(stream.map_err(|error| lost("TLS", &error))?),
                    Err(_) => return Err(lost("TLS", &"no TLS is spoken there")),
                }
            }
            None => Box::new(stream),
        };
        let mut connection = Self { stream, reader: Reader::new(REPLY_BYTES_MAX) };
        connection.log_in(target).await.map_err(|trouble| match trouble {
            Trouble::Lost(why) => lost("login", &why),
            refused => refused,
        })?;
        Ok(connection)
    }

    async fn log_in(&mut self, target: &Target) -> Result<(), Trouble> {
        if let Some(password) = &target.password {
            let user = target.url.user.as_deref().into_iter();
            let words = ["AUTH"].into_iter().chain(user).chain([password.expose()]);
            self.call(
                &words.map(|word| Bytes::copy_from_slice(word.as_bytes())).collect::<Vec<_>>(),
            )
            .await?;
        }
        let hello = ["HELLO", "2", "SETNAME", "delay-broker-work"];
        self.call(&hello.map(|word| Bytes::from_static(word.as_bytes()))).await.map(drop)
    }

    async fn call(&mut self, command: &[Bytes]) -> Result<BytesFrame, Trouble> {
        self.send([command], WITHIN).await?;
        self.reply(WITHIN).await
    }

    /// Writes commands in one go.
    ///
    /// # Errors
    /// [`Trouble::Lost`]: the connection is of no use any more.
    pub async fn send<'a>(
        &mut self,
        commands: impl IntoIterator<Item = &'a [Bytes]>,
        within: Duration,
    ) -> Result<(), Trouble> {
        let mut out = BytesMut::new();
        for command in commands {
            encode(&mut out, command.iter().map(Bytes::as_ref));
        }
        let write = async {
            self.stream.write_all(&out).await?;
            self.stream.flush().await
        };
        match timeout(within, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Trouble::Lost(error.to_string())),
            Err(_) => Err(Trouble::Lost("the broker takes no command".to_owned())),
        }
    }

    /// The next reply. Can be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The connection broke or nothing came in time ([`Trouble::Lost`]), or an error reply.
    pub async fn reply(&mut self, within: Duration) -> Result<BytesFrame, Trouble> {
        match timeout(within, self.read()).await {
            Ok(Ok(Some(BytesFrame::SimpleError { data, .. }))) => {
                Err(Trouble::Refused(data.to_string()))
            }
            Ok(Ok(Some(frame))) => Ok(frame),
            Ok(Ok(None)) => Err(Trouble::Lost("the broker closed the connection".to_owned())),
            Ok(Err(why)) => Err(Trouble::Lost(why)),
            Err(_) => Err(Trouble::Lost("the broker does not answer".to_owned())),
        }
    }

    async fn read(&mut self) -> Result<Option<BytesFrame>, String> {
        loop {
            if let Some(frame) = self.reader.reply()? {
                return Ok(Some(frame));
            }
            let read = self.stream.read_buf(self.reader.room()).await;
            if read.map_err(|error| error.to_string())? == 0 {
                return Ok(None);
            }
        }
    }

    /// Ends the command that waits, by closing one half: the broker takes the waiting taker out of
    /// its line. The reply that was under way before, if there is one.
    pub async fn end(mut self, within: Duration) -> Option<BytesFrame> {
        let last = async {
            self.stream.shutdown().await.ok()?;
            self.read().await.ok().flatten()
        };
        timeout(within, last).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_replies() {
        let rows = [
            ("UNAVAILABLE Redis is away", Meaning::Again),
            ("UNCERTAIN the link broke", Meaning::Again),
            ("LOADING Redis is loading", Meaning::Again),
            ("TOOMANY takers", Meaning::Again),
            ("TOOBIG a payload", Meaning::Again),
            ("WRONGTYPE the key", Meaning::Again),
            ("DENIED too many", Meaning::Again),
            ("INTERNAL bug", Meaning::Again),
            ("ERR max number of clients reached", Meaning::Again),
            ("NOAUTH Authentication required.", Meaning::Denied),
            ("WRONGPASS invalid", Meaning::Denied),
            ("NOPERM the command", Meaning::Denied),
            ("ERR unknown command 'DQ.TAKE'", Meaning::TooOld),
            ("ERR syntax error", Meaning::Wrong),
            ("BADQUEUE queue ''", Meaning::Wrong),
            ("", Meaning::Again),
        ];
        for (error, meant) in rows {
            assert_eq!(meaning(error), meant, "{error}");
        }
    }

    /// Each row: failures before, brokers, the longest wait in ms.
    #[test]
    fn waits_grow_once_all_brokers_have_failed() {
        #[rustfmt::skip]
        let rows = [
            (0, 1, 100), (1, 1, 200), (5, 1, 3_200), (6, 1, 5_000), (u32::MAX - 1, 1, 5_000),
            (0, 3, 0), (1, 3, 0), (2, 3, 100), (3, 3, 0), (5, 3, 200),
        ];
        for (failures, brokers, ms) in rows {
            let whole = Duration::from_millis(ms);
            assert_eq!(again(failures, brokers, 0.0), whole, "{failures} of {brokers}");
            assert_eq!(again(failures, brokers, 1.0), whole / 2, "{failures} of {brokers}");
        }
    }
}
