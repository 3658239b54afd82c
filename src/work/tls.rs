//! TLS to brokers and to the hosts of webhooks: whom to believe, and what to show.

use std::path::Path;
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::pem;

/// The roots of the system, and those of `ca`; `identity` is certificate and key.
///
/// # Errors
/// A file that cannot be used, with its argument.
pub fn client(
    ca: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(load_native_certs().certs);
    if let Some(path) = ca {
        let wrong = |why: String| format!("--ca {} {why}", path.display());
        for certificate in pem::certificates(path).map_err(wrong)? {
            let added = roots.add(certificate);
            added.map_err(|error| wrong(format!("holds no CA certificate: {error}")))?;
        }
    }
    if roots.is_empty() {
        return Err("the system has no root certificates (package ca-certificates); --ca FILE \
                    names others"
            .to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let chain = pem::certificates(certificate);
            let chain = chain.map_err(|why| format!("--cert {} {why}", certificate.display()))?;
            let of_key = pem::private_key(key);
            let of_key = of_key.map_err(|why| format!("--key {} {why}", key.display()))?;
            builder
                .with_client_auth_cert(chain, of_key)
                .map_err(|error| format!("--cert with --key cannot be used: {error}"))?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}
