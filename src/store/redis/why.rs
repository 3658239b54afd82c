//! Why a connection failed, in one line that says what to look at.
//!
//! The client library shows errors of the system and of TLS as Rust prints values; here are the
//! words in them, and the setting that most likely is wrong.

use crate::audit::one_line;

/// Parts of an error, and what to look at.
const HINTS: [(&str, &str); 16] = [
    ("WRONGPASS", "look at user and password in redis.url"),
    ("invalid password", "look at user and password in redis.url"),
    (
        "NOAUTH",
        "redis.url needs a password: redis://:password@host",
    ),
    (
        "without any password configured",
        "redis.url has a password, and this Redis asks for none",
    ),
    (
        "DB index is out of range",
        "the database number in redis.url is above what this Redis has",
    ),
    (
        "NOPERM",
        "the user of redis.url lacks a right; the README has the ACL line",
    ),
    (
        "UnknownIssuer",
        "no known CA signed the certificate of Redis: redis.tls_ca_file",
    ),
    (
        "BadSignature",
        "no known CA signed the certificate of Redis: redis.tls_ca_file",
    ),
    (
        "NotValidForName",
        "the certificate of Redis is for another host than that of redis.url",
    ),
    ("Expired", "a certificate has expired"),
    (
        "CertificateRequired",
        "Redis asks for a certificate: redis.tls_cert_file and redis.tls_key_file",
    ),
    (
        "UnknownCA",
        "Redis does not know the CA of redis.tls_cert_file",
    ),
    (
        "InvalidContentType",
        "Redis does not speak TLS at this port: redis:// instead of rediss://",
    ),
    (
        "Request timed out",
        "no answer in redis.connect_timeout_ms: a firewall, or rediss:// where no TLS is spoken",
    ),
    (
        "Connection refused",
        "nothing listens there: is Redis running, and are host and port right",
    ),
    (
        "No such file or directory",
        "there is no socket at the path of redis.url",
    ),
];

/// One line, from the text of an error of the client library.
pub(super) fn words(error: &str) -> String {
    let mut text = error;
    // `Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }`
    if let Some((_, message)) = error.split_once("message: \"")
        && let Some((message, _)) = message.split_once('"')
    {
        text = message;
    // `Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }`
    } else if let Some((_, cause)) = error.split_once(", error: ") {
        text = cause.strip_suffix(" }").unwrap_or(cause);
    }
    let text = one_line(text);
    match HINTS.iter().find(|(part, _)| error.contains(part)) {
        Some((_, hint)) => format!("{text} ({hint})"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        #[rustfmt::skip]
        let rows = [
            ("IO Error: Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
             "Connection refused (nothing listens"),
            ("IO Error: Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }",
             "InvalidCertificate(UnknownIssuer) (no known CA"),
            ("Authentication Error: WRONGPASS invalid username-password pair or user is disabled.",
             "Authentication Error: WRONGPASS invalid username-password pair or user is disabled. \
              (look at user and password"),
            ("Unknown Error: ERR DB index is out of range",
             "Unknown Error: ERR DB index is out of range (the database number"),
            ("Timeout Error: Request timed out.", "Timeout Error: Request timed out. (no answer"),
            ("a\nb", "a\\nb"),
        ];
        for (error, start) in rows {
            assert!(words(error).starts_with(start), "{}", words(error));
        }
    }
}
