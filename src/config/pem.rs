//! PEM files -> certificates and keys.
//!
//! Does not know their purpose. Keeps: an error is a plain sentence without a byte of the file.

use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A chain of certificates, or a few of authorities, is a few KiB; a key is less.
const BYTES_MAX: u64 = 1 << 20;

/// All certificates of a file, in their order; at least one.
///
/// # Errors
/// The fault of the file, as a sentence without its name.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all =
        CertificateDer::pem_slice_iter(&read(path, BYTES_MAX)?).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned()),
        Err(error) => Err(wrong(&error)),
    }
}

/// The first private key of a file, in PKCS#8, PKCS#1 or SEC1.
///
/// # Errors
/// The fault of the file, as a sentence without its name.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(path, BYTES_MAX)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        Error::NoItemsFound if text.windows(9).any(|word| word == b"ENCRYPTED") => {
            "holds a key that is encrypted; the broker reads keys without a passphrase".to_owned()
        }
        Error::NoItemsFound => "holds no private key (-----BEGIN PRIVATE KEY-----)".to_owned(),
        error => wrong(&error),
    })
}

/// All of a file that is there and not too large.
///
/// # Errors
/// The fault of the file, as a sentence without its name.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let about = std::fs::metadata(path).map_err(cannot)?;
    // A pipe would hold up the start, or the broker at a reload.
    if !about.is_file() {
        return Err("is not a file".to_owned());
    }
    if about.len() > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    std::fs::read(path).map_err(cannot)
}

/// The errors of the parser quote the file; a key must not be shown.
fn wrong(error: &Error) -> String {
    match error {
        Error::MissingSectionEnd { .. } => "is cut off: the END line is missing",
        Error::IllegalSectionStart { .. } => "has a BEGIN line that is not one",
        Error::Base64Decode(_) => "is not PEM: the text between BEGIN and END is not base64",
        _ => "is not PEM",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn errors(text: &str) -> [String; 2] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let certificates = certificates(file.path()).map(drop).err();
        let key = private_key(file.path()).map(drop).err();
        [certificates, key].map(Option::unwrap_or_default)
    }

    #[test]
    fn what_is_wrong_is_said_without_what_is_in_it() {
        #[rustfmt::skip]
        let rows = [
            ("", "holds no certificate", "holds no private key"),
            ("hunter2", "holds no certificate", "holds no private key"),
            ("-----BEGIN CERTIFICATE-----\nhunter2\n", "is cut off", "is cut off"),
            ("-----BEGIN PRIVATE KEY-----\n!hunter2\n-----END PRIVATE KEY-----\n",
             "is not base64", "is not base64"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\naGk=\n-----END ENCRYPTED PRIVATE KEY-----\n",
             "holds no certificate", "without a passphrase"),
            ("-----BEGIN PRIVATE KEY-----\naGk=\n-----END PRIVATE KEY-----\n",
             "holds no certificate", ""),
            ("-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n",
             "", "holds no private key"),
        ];
        for (text, certificate, key) in rows {
            for (error, wanted) in errors(text).into_iter().zip([certificate, key]) {
                assert_eq!(error.is_empty(), wanted.is_empty(), "{text}: {error}");
                assert!(error.contains(wanted), "{text}: {error}");
                assert!(!error.contains("hunter2"), "{error}");
            }
        }
        let nowhere = certificates(Path::new("/nowhere/a.pem")).unwrap_err();
        assert!(nowhere.starts_with("cannot be read: No such file"), "{nowhere}");
        assert_eq!(private_key(Path::new("/")).unwrap_err(), "is not a file");
    }
}
