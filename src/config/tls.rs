//! The settings of TLS for clients: where, and the files, which are read while they are checked.
//!
//! Does not know what a handshake is. A file that cannot be used is an error of its key.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::tls::{Acceptor, TlsError};

use super::layers::Reader;
use super::{parse_listen, parse_path, show_listen, show_path};

/// The files of the settings, read.
#[derive(Debug, Clone)]
pub struct Tls {
    pub listen: SocketAddr,
    pub acceptor: Acceptor,
    /// Clients need a certificate.
    pub certified: bool,
}

/// What is set about TLS, its files not read yet.
pub struct TlsKeys {
    pub listen: Option<SocketAddr>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
}

impl TlsKeys {
    pub fn read(keys: &mut Reader) -> Self {
        Self {
            listen: keys.read("server.tls_listen", parse_listen, show_listen),
            certificate: keys.read("server.tls_cert_file", parse_path, show_path),
            key: keys.read("server.tls_key_file", parse_path, show_path),
            client_ca: keys.read("server.tls_client_ca_file", parse_path, show_path),
        }
    }

    /// Reads the files, where something listens.
    pub fn open(self, keys: &mut Reader) -> Option<Tls> {
        let listen = self.listen?;
        let both = [
            ("server.tls_cert_file", &self.certificate),
            ("server.tls_key_file", &self.key),
        ];
        for (key, _) in both.into_iter().filter(|(_, path)| path.is_none()) {
            keys.refuse(key, "\"\"", "must be set, as server.tls_listen is");
        }
        let (certificate, key) = (self.certificate?, self.key?);
        let acceptor = Acceptor::read(&certificate, &key, self.client_ca.as_deref());
        let errors = match acceptor {
            Ok(acceptor) => {
                return Some(Tls {
                    listen,
                    acceptor,
                    certified: self.client_ca.is_some(),
                });
            }
            Err(errors) => errors,
        };
        for error in errors {
            let (setting, path, rule) = match error {
                TlsError::Certificate(rule) => ("server.tls_cert_file", Some(&certificate), rule),
                TlsError::Key(rule) => ("server.tls_key_file", Some(&key), rule),
                TlsError::ClientCa(rule) => {
                    ("server.tls_client_ca_file", self.client_ca.as_ref(), rule)
                }
            };
            let path = path.cloned().unwrap_or_default();
            keys.refuse(setting, format!("{path:?}"), rule);
        }
        None
    }
}
