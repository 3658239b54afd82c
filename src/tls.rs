//! TLS for clients: certificate files -> what accepts handshakes.
//!
//! Knows no RESP and no listener. Keeps: files are read and matched here, before anything is
//! served by them; nothing shows a key; a handshake takes a bounded time.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::pem;

/// A client that opens a connection and does not finish the handshake. Ten times a bad line's.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// What clients are shown and asked for in the handshake; cheap to clone.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

/// Which file is wrong, and how, as a sentence without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsError {
    Certificate(String),
    Key(String),
    ClientCa(String),
}

impl Acceptor {
    /// Reads the files and sees whether they fit. With `client_ca` a client must have a
    /// certificate of one of its authorities.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn read(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, Vec<TlsError>> {
        let provider = Arc::new(ring::default_provider());
        let verifier = client_ca.map_or_else(
            || Ok(Arc::new(NoClientAuth) as Verifier),
            |path| verifier(path, &provider),
        );
        let (chain, key) = (pem::certificates(certificate), pem::private_key(key));
        let (chain, key, verifier) = match (chain, key, verifier) {
            (Ok(chain), Ok(key), Ok(verifier)) => (chain, key, verifier),
            (chain, key, verifier) => {
                let chain = chain.err().map(TlsError::Certificate);
                let key = key.err().map(TlsError::Key);
                let verifier = verifier.err().map(TlsError::ClientCa);
                return Err([chain, key, verifier].into_iter().flatten().collect());
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                let builder = builder.with_client_cert_verifier(verifier);
                builder.with_single_cert(chain, key)
            });
        match config {
            Ok(config) => Ok(Self(TlsAcceptor::from(Arc::new(config)))),
            Err(Error::InconsistentKeys(_)) => Err(vec![TlsError::Key(
                "is not the key of the certificate in server.tls_cert_file".to_owned(),
            )]),
            Err(error @ Error::InvalidCertificate(_)) => {
                let text = format!("holds a certificate that cannot be used: {error}");
                Err(vec![TlsError::Certificate(text)])
            }
            // What the text of the others quotes nobody promises.
            Err(_) => Err(vec![TlsError::Key(
                "holds a key that cannot be used: RSA, ECDSA (P-256, P-384) and Ed25519 can"
                    .to_owned(),
            )]),
        }
    }

    /// The handshake, within its time.
    ///
    /// # Errors
    /// Why there is no connection: the client's certificate, its bytes, its silence.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match tokio::time::timeout(HANDSHAKE_WITHIN, self.0.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("not finished within {} s", HANDSHAKE_WITHIN.as_secs()),
            )),
        }
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

type Verifier = Arc<dyn ClientCertVerifier>;

/// Who a client's certificate must come from.
fn verifier(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Verifier, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(path)? {
        let unfit = |error| format!("holds a certificate that is no authority's: {error}");
        roots.add(certificate).map_err(unfit)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map(|verifier| verifier as Verifier)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use tempfile::TempDir;

    /// A certificate that is its own authority, and its key.
    pub struct Files(TempDir);

    impl Files {
        pub fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
            std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
            Self(dir)
        }

        /// On any port, with these files.
        pub fn settings(&self) -> [(&'static str, String); 3] {
            let file = |name: &str| self.0.path().join(name).to_str().unwrap().to_owned();
            [
                ("server.tls_listen", "127.0.0.1:0".to_owned()),
                ("server.tls_cert_file", file("cert.pem")),
                ("server.tls_key_file", file("key.pem")),
            ]
        }
    }
}
