//! TLS for clients: address and files -> what a handshake needs.
//!
//! Knows no connection. Keeps: files are read and matched while the settings are checked, before
//! anything is served by them; each error names its key; nothing shows a private key.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

use super::layers::Reader;
use super::{Server, pem};

const CERTIFICATE: &str = "server.tls_cert_file";
const KEY: &str = "server.tls_key_file";
const CLIENT_CA: &str = "server.tls_client_ca_file";

/// The files of the settings, read.
#[derive(Debug, Clone)]
pub struct Tls {
    pub listen: SocketAddr,
    pub handshake: Handshake,
}

/// The certificate for clients, and the one that they must show; cheap to clone.
#[derive(Clone)]
pub struct Handshake(pub Arc<ServerConfig>);

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// Reads the files, where something listens.
pub fn open(keys: &mut Reader, server: &Server) -> Option<Tls> {
    let listen = server.tls_listen?;
    let (certificate, key) = (server.tls_cert_file.as_ref(), server.tls_key_file.as_ref());
    for (setting, path) in [(CERTIFICATE, certificate), (KEY, key)] {
        if path.is_none() {
            keys.refuse(setting, "must be set, since server.tls_listen is");
        }
    }
    let client_ca = server.tls_client_ca_file.as_deref();
    match handshake(certificate?, key?, client_ca) {
        Ok(handshake) => Some(Tls { listen, handshake }),
        Err(errors) => {
            errors.into_iter().for_each(|(setting, rule)| keys.refuse(setting, rule));
            None
        }
    }
}

/// Reads the files and checks that they fit. With `client_ca` a client must have a certificate of
/// one of its authorities.
///
/// # Errors
/// All that is wrong, each with the setting that it belongs to.
fn handshake(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<Handshake, Vec<(&'static str, String)>> {
    let provider = Arc::new(ring::default_provider());
    let verifier = client_ca
        .map_or_else(|| Ok(Arc::new(NoClientAuth) as Verifier), |path| verifier(path, &provider));
    let (chain, key) = (pem::certificates(certificate), pem::private_key(key));
    let (chain, key, verifier) = match (chain, key, verifier) {
        (Ok(chain), Ok(key), Ok(verifier)) => (chain, key, verifier),
        (chain, key, verifier) => {
            let errors =
                [(CERTIFICATE, chain.err()), (KEY, key.err()), (CLIENT_CA, verifier.err())];
            let errors = errors.into_iter();
            return Err(errors.filter_map(|(key, error)| Some((key, error?))).collect());
        }
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let builder = builder.with_client_cert_verifier(verifier);
            builder.with_single_cert(chain, key)
        });
    config.map(|config| Handshake(Arc::new(config))).map_err(|error| {
        vec![match error {
            Error::InconsistentKeys(_) => {
                (KEY, "is not the key of the certificate in server.tls_cert_file".to_owned())
            }
            error @ Error::InvalidCertificate(_) => {
                (CERTIFICATE, format!("holds a certificate that cannot be used: {error}"))
            }
            // The text of other errors might quote the key.
            _ => (
                KEY,
                "holds a key that cannot be used: RSA, ECDSA (P-256, P-384) and Ed25519 can"
                    .to_owned(),
            ),
        }]
    })
}

type Verifier = Arc<dyn ClientCertVerifier>;

/// Accepts clients with a certificate of one of the file's authorities.
fn verifier(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Verifier, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(path)? {
        let unfit = |error| format!("holds a certificate that is not an authority's: {error}");
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
