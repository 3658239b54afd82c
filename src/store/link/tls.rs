//! TLS to the backing Redis: whom to believe, and what to show.

use std::path::Path;
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use crate::config::RedisTls;
use crate::config::pem;

/// # Errors
/// A file that cannot be used, with the setting that names it.
pub(in crate::store) fn connector(tls: &RedisTls) -> Result<TlsConnector, String> {
    let roots = match &tls.ca {
        Some(path) => given(path).map_err(|why| format!("redis.tls_ca_file: {why}"))?,
        None => of_system()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &tls.client else {
        return Ok(TlsConnector::from(Arc::new(builder.with_no_client_auth())));
    };
    let chain = pem::certificates(certificate);
    let chain = chain.map_err(|why| format!("redis.tls_cert_file: {why}"))?;
    let key = pem::private_key(key).map_err(|why| format!("redis.tls_key_file: {why}"))?;
    let config = builder.with_client_auth_cert(chain, key);
    let config = config.map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            "redis.tls_key_file is not the key of redis.tls_cert_file".to_owned()
        }
        error => format!("redis.tls_cert_file with redis.tls_key_file cannot be used: {error}"),
    });
    Ok(TlsConnector::from(Arc::new(config?)))
}

fn given(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("{} holds no CA certificate: {error}", path.display()))?;
    }
    Ok(roots)
}

/// Roots of the system that cannot be read are passed over, as other programs do.
fn of_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no root certificates (package ca-certificates); \
                    redis.tls_ca_file can name others"
            .to_owned());
    }
    Ok(roots)
}
