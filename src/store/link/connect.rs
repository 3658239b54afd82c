//! Makes a connection of a link: find, connect, encrypt, log in. Each step has a clock of its own,
//! so that an error says which one failed, and which setting most likely is wrong.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use redis_protocol::resp3::types::BytesFrame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::why::{Peer, words};
use crate::config::Place;
use crate::resp::peer::{Reader, encode};
use crate::store::backend::Login;

/// Bytes of one reply: as `limits.reply_bytes_max` may be, and what stands around the payloads.
pub(super) const REPLY_BYTES_MAX: usize = (1 << 30) + (64 << 20);
/// Where a Redis that answered before says nothing.
const HANGS: &str =
    "though it answered before: Redis hangs (stopped, swapped out, or in a long command)";

pub(in crate::store) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// How to connect.
pub(in crate::store) struct Connect<'a> {
    pub(in crate::store) at: &'a Place,
    pub(in crate::store) login: &'a Login,
    /// As CLIENT LIST shows the connection.
    pub(in crate::store) name: &'a str,
    pub(in crate::store) peer: Peer,
    /// No step takes longer.
    pub(in crate::store) within: Duration,
    /// Asked at the end of the login.
    pub(in crate::store) questions: &'a [&'a [&'a str]],
    /// Bytes of one reply.
    pub(in crate::store) reply_bytes_max: usize,
}

/// A connection that is logged in.
pub(in crate::store) struct Connected {
    pub(in crate::store) stream: Box<dyn Stream>,
    pub(in crate::store) reader: Reader,
    /// To the questions, in their order.
    pub(in crate::store) answers: Vec<BytesFrame>,
}

impl Connect<'_> {
    /// # Errors
    /// The step that failed, in one line that says where to look.
    pub(in crate::store) async fn connect(&self) -> Result<Connected, String> {
        let (address, mut stream): (String, Box<dyn Stream>) = match self.at {
            Place::Unix { path } => match timeout(self.within, UnixStream::connect(path)).await {
                Ok(stream) => ("the socket".into(), Box::new(stream.map_err(|e| self.failed(&e))?)),
                Err(_) => return Err("the socket takes no connection (Redis hangs)".into()),
            },
            Place::Tcp { host, port, .. } => {
                let (address, stream) = self.dial(host, *port).await?;
                let stream = match self.login.tls {
                    Some(_) => self.encrypt(host, address, stream).await?,
                    None => Box::new(stream),
                };
                (address.to_string(), stream)
            }
        };
        let mut reader = Reader::new(self.reply_bytes_max);
        let logged_in = self.log_in(&mut stream, &mut reader);
        match timeout(self.within, logged_in).await {
            Ok(Ok(answers)) => Ok(Connected { stream, reader, answers }),
            Ok(Err(why)) => Err(words(&why, self.peer)),
            Err(_) => {
                let hangs = match self.at {
                    _ if self.peer == Peer::Sentinel => {
                        "it hangs, or TLS is spoken there or is not, or it is no Sentinel"
                    }
                    Place::Unix { .. } => "Redis hangs, or something else listens there",
                    Place::Tcp { .. } if self.login.tls.is_some() => "Redis hangs",
                    Place::Tcp { .. } => {
                        "Redis hangs, or TLS is spoken there (rediss:// instead of redis://), or \
                         it is no Redis"
                    }
                };
                Err(self.silent(&address, hangs))
            }
        }
    }

    async fn dial(&self, host: &str, port: u16) -> Result<(SocketAddr, TcpStream), String> {
        // One text whatever DNS says, or says nothing: the log holds it once.
        let mut why = words(&format!("the name '{host}' has no address"), self.peer);
        let found: Vec<SocketAddr> = match timeout(self.within, lookup_host((host, port))).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(_)) | Err(_) => return Err(why),
        };
        let each = self.within / found.len().max(1) as u32;
        for address in found {
            why = match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true).map_err(|error| self.failed(&error))?;
                    return Ok((address, stream));
                }
                Ok(Err(error)) => self.failed(&error),
                Err(_) if self.peer == Peer::Known => format!(
                    "{address} takes no connection any more (is the host or the network down)"
                ),
                Err(_) => {
                    format!("{address} takes no connection (a firewall, or no such host)")
                }
            };
        }
        Err(why)
    }

    async fn encrypt(
        &self,
        host: &str,
        address: SocketAddr,
        stream: TcpStream,
    ) -> Result<Box<dyn Stream>, String> {
        let server = ServerName::try_from(host.to_owned());
        let server = server.map_err(|_| format!("'{host}' is no host name for TLS"))?;
        let Some(connector) = &self.login.tls else { return Ok(Box::new(stream)) };
        match timeout(self.within, connector.connect(server, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => {
                let why = "no TLS is spoken there (redis:// instead of rediss://), or Redis hangs";
                Err(self.silent(&address.to_string(), why))
            }
        }
    }

    /// All in one write. HELLO gives the connection its name without a right to CLIENT; a server
    /// that does not know it gives none.
    async fn log_in(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        reader: &mut Reader,
    ) -> Result<Vec<BytesFrame>, String> {
        let Login { user, password, database, .. } = self.login;
        let number = database.to_string();
        let mut commands: Vec<Vec<&str>> = Vec::new();
        if let Some(password) = password {
            let login = user.as_deref().into_iter().chain([password.expose()]);
            commands.push(std::iter::once("AUTH").chain(login).collect());
        }
        commands.push(vec!["HELLO", "2", "SETNAME", self.name]);
        if *database > 0 {
            commands.push(vec!["SELECT", &number]);
        }
        // Refused while Redis cannot serve: it loads, or a script runs for too long.
        commands.push(vec!["PING"]);
        commands.extend(self.questions.iter().map(|question| question.to_vec()));
        let mut out = BytesMut::new();
        for command in &commands {
            encode(&mut out, command.iter().map(|part| part.as_bytes()));
        }
        // The last words of Redis before it closed the connection say why.
        let written = stream.write_all(&out).await;
        stream.flush().await.ok();
        let mut answers = Vec::with_capacity(self.questions.len());
        let questions_from = commands.len() - self.questions.len();
        for (number, command) in commands.iter().enumerate() {
            let Some(reply) = next(stream, reader).await? else {
                written.map_err(|error| cause(&error))?;
                return Err("Redis closed the connection".to_owned());
            };
            if number >= questions_from {
                answers.push(reply);
                continue;
            }
            let BytesFrame::SimpleError { data, .. } = reply else { continue };
            // A user without the right to PING is answered all the same.
            let passes = match command.first() {
                Some(&"HELLO") => data.starts_with("ERR") || data.starts_with("NOPERM"),
                Some(&"PING") => data.starts_with("NOPERM"),
                _ => false,
            };
            if !passes {
                return Err(data.to_string());
            }
        }
        Ok(answers)
    }

    fn failed(&self, error: &io::Error) -> String {
        words(&cause(error), self.peer)
    }

    fn silent(&self, address: &str, hangs: &str) -> String {
        let hangs = if self.peer == Peer::Known { HANGS } else { hangs };
        format!("{address} takes connections and says nothing ({hangs})")
    }
}

/// The next reply; `None` where the other side closed the connection.
pub(in crate::store) async fn next(
    stream: &mut (impl AsyncRead + Unpin),
    reader: &mut Reader,
) -> Result<Option<BytesFrame>, String> {
    loop {
        if let Some(reply) = reader.reply()? {
            return Ok(Some(reply));
        }
        if stream.read_buf(reader.room()).await.map_err(|error| cause(&error))? == 0 {
            return Ok(None);
        }
    }
}

/// The words of an error of the system, without its number; of TLS, the names of its kinds.
pub(in crate::store) fn cause(error: &io::Error) -> String {
    if let Some(inner) = error.get_ref().filter(|_| error.kind() == io::ErrorKind::InvalidData) {
        return format!("{inner:?}");
    }
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    const WITHIN: Duration = Duration::from_millis(300);

    const NO_LOGIN: Login = Login { tls: None, user: None, password: None, database: 0 };

    fn to<'a>(at: &'a Place, login: &'a Login, within: Duration) -> Connect<'a> {
        let (peer, reply_bytes_max) = (Peer::Unknown, 1 << 20);
        Connect { at, login, name: "test", peer, within, questions: &[], reply_bytes_max }
    }

    async fn tried(host: &str, port: u16, tls: bool, before: bool) -> String {
        let at = Place::Tcp { host: host.to_owned(), port, tls };
        let connector = tls.then(|| {
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            let config = config.with_safe_default_protocol_versions().unwrap();
            let config = config.with_root_certificates(RootCertStore::empty());
            TlsConnector::from(Arc::new(config.with_no_client_auth()))
        });
        let login = Login { tls: connector, ..NO_LOGIN };
        let peer = if before { Peer::Known } else { Peer::Unknown };
        let connect = Connect { peer, ..to(&at, &login, WITHIN) };
        connect.connect().await.map(drop).unwrap_err()
    }

    /// A server that says this to each client, and takes what the client says.
    async fn server(says: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                client.write_all(says.as_bytes()).await.unwrap();
                if says.is_empty() {
                    std::mem::forget(client);
                } else {
                    let _ = client.read(&mut [0; 1024]).await;
                }
            }
        });
        port
    }

    #[tokio::test]
    async fn what_does_not_answer() {
        let silent = server("").await;
        let localhost = "127.0.0.1";
        let found = tried(localhost, silent, false, false).await;
        assert!(found.contains("says nothing (Redis hangs, or TLS"), "{found}");
        let found = tried(localhost, silent, false, true).await;
        assert!(found.contains("though it answered before"), "{found}");
        let found = tried(localhost, silent, true, false).await;
        assert!(found.contains("no TLS is spoken there"), "{found}");
        // The kernel keeps one connection that nobody accepts, and drops those behind it.
        let full =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        full.bind(&any.into()).unwrap();
        full.listen(0).unwrap();
        let port = full.local_addr().unwrap().as_socket().unwrap().port();
        let mut kept = Vec::new();
        while let Ok(Ok(stream)) = timeout(WITHIN, TcpStream::connect((localhost, port))).await {
            kept.push(stream);
        }
        let found = tried(localhost, port, false, false).await;
        assert!(found.contains("takes no connection (a firewall"), "{found}");
        let found = tried(localhost, port, false, true).await;
        assert!(found.contains("takes no connection any more"), "{found}");
        drop(full);
        let found = tried(localhost, port, false, false).await;
        assert!(found.starts_with("Connection refused (nothing listens there:"), "{found}");
        let found = tried("no-such-host.invalid", port, false, false).await;
        assert!(found.contains("the host of redis.url is not found"), "{found}");
    }

    #[tokio::test]
    async fn what_is_answered() {
        for (says, part) in [
            ("-DENIED Redis is running in protected mode\r\n", "this Redis refuses"),
            ("-NOAUTH HELLO must be called\r\n", "redis.url needs a password"),
            // HELLO is not known there, and PING is refused.
            ("-ERR unknown command\r\n-LOADING the dataset\r\n", "LOADING the dataset"),
            ("-ERR unknown command\r\n", "Redis closed the connection"),
            ("SSH-2.0-OpenSSH_9.6\r\n", "a reply of Redis begins with 'S'"),
        ] {
            let port = server(says).await;
            let found = tried("127.0.0.1", port, false, false).await;
            assert!(found.contains(part), "{says:?}: {found}");
        }
        // Neither a name nor the right to PING is needed.
        let port = server("-ERR unknown command\r\n-NOPERM no\r\n").await;
        let at = Place::Tcp { host: "127.0.0.1".into(), port, tls: false };
        assert!(to(&at, &NO_LOGIN, 30 * WITHIN).connect().await.is_ok());
    }
}
