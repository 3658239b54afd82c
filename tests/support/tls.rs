//! Certificates made for one test, and a client that speaks TLS: one typed line out, one line in.
//!
//! Knows no command. The keys are new each time and lie in a directory that goes with its owner.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const READ_WITHIN: Duration = Duration::from_secs(15);

/// Who signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
}

/// Files that a test may write anew.
pub struct Identity(TempDir);

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        std::fs::write(dir.path().join("ca.pem"), pem).unwrap();
        let issuer = Issuer::new(params, key);
        Authority { issuer, dir }
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A certificate for localhost, as of a server or a client.
    pub fn issue(&self) -> Identity {
        let identity = Identity(tempfile::tempdir().unwrap());
        self.renew(&identity);
        identity
    }

    /// Another certificate, with another key, in the same files.
    pub fn renew(&self, identity: &Identity) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(identity.certificate(), certificate.pem()).unwrap();
        std::fs::write(identity.key(), key.serialize_pem()).unwrap();
    }
}

impl Identity {
    pub fn certificate(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    /// As it goes over the wire.
    pub fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_file(self.certificate()).unwrap().to_vec()
    }

    /// Of a broker that shows it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        vec![
            ("server.tls_listen", "127.0.0.1:0".to_owned()),
            ("server.tls_cert_file", text(self.certificate())),
            ("server.tls_key_file", text(self.key())),
        ]
    }
}

/// One connection.
pub struct TlsClient {
    reader: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl TlsClient {
    /// Done with its side of the handshake; the server may still refuse.
    pub fn connect(
        address: &str,
        authority: &Authority,
        identity: Option<&Identity>,
    ) -> io::Result<TlsClient> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from_pem_file(identity.certificate()).unwrap()];
                let key = PrivateKeyDer::from_pem_file(identity.key()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_WITHIN))?;
        stream.set_write_timeout(Some(READ_WITHIN))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        let reader = BufReader::new(StreamOwned::new(session, stream));
        Ok(TlsClient { reader })
    }

    /// The certificate that the server showed.
    pub fn shown(&self) -> Vec<u8> {
        self.reader.get_ref().conn.peer_certificates().unwrap()[0].to_vec()
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.reader.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// One line, without its end.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A typed command, and the first line of its reply.
    pub fn say(&mut self, command: &str) -> io::Result<String> {
        self.send(format!("{command}\r\n").as_bytes())?;
        self.line()
    }
}
