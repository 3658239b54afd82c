//! Why a connection failed, in one line that names the setting that most likely is wrong.

use crate::domain::text::one_line;

/// Parts of an error, and what to look at.
const HINTS: [(&str, &str); 17] = [
    ("WRONGPASS", "look at user and password in redis.url"),
    ("invalid password", "look at user and password in redis.url"),
    ("NOAUTH", "redis.url needs a password: redis://:password@host"),
    ("without any password configured", "redis.url has a password, and this Redis asks for none"),
    (
        "protected mode",
        "this Redis refuses whoever is not on its machine: give it a password, and redis.url too",
    ),
    ("DB index is out of range", "the database number in redis.url is above what this Redis has"),
    ("NOPERM", "the user of redis.url lacks a right; `delay-broker help redis` has the ACL line"),
    ("UnknownIssuer", "no known CA signed the certificate of Redis: redis.tls_ca_file"),
    ("BadSignature", "no known CA signed the certificate of Redis: redis.tls_ca_file"),
    ("NotValidForName", "the certificate of Redis is for another host than that of redis.url"),
    ("Expired", "a certificate has expired"),
    (
        "CertificateRequired",
        "Redis asks for a certificate: redis.tls_cert_file and redis.tls_key_file",
    ),
    ("UnknownCA", "Redis does not know the CA of redis.tls_cert_file"),
    ("InvalidContentType", "Redis does not speak TLS at this port: redis:// instead of rediss://"),
    ("has no address", "the host of redis.url is not found: is it written right, does DNS know it"),
    ("Connection refused", "nothing listens there: is Redis running, and are host and port right"),
    ("No such file or directory", "there is no socket at the path of redis.url"),
];

/// The same where a connection was made before, which says more.
const HINTS_LATER: [(&str, &str); 4] = [
    ("WRONGPASS", "user and password of redis.url were right before: were those of Redis changed"),
    ("NOAUTH", "none was asked for before: redis.url needs the password that Redis has now"),
    ("Connection refused", "nothing listens there any more: was Redis stopped"),
    ("No such file or directory", "the socket of redis.url is gone: was Redis stopped"),
];

/// The same of a Sentinel.
const HINTS_SENTINEL: [(&str, &str); 5] = [
    ("WRONGPASS", "look at redis.sentinel_user and redis.sentinel_password"),
    ("invalid password", "look at redis.sentinel_password"),
    ("NOAUTH", "this Sentinel has a password: redis.sentinel_password"),
    (
        "without any password configured",
        "redis.sentinel_password is set, and this Sentinel asks for none",
    ),
    (
        "NOPERM",
        "the user of the Sentinel lacks a right; `delay-broker help redis` has the ACL line",
    ),
];

/// Who is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Peer {
    /// A Redis that has not answered since the start.
    Unknown,
    /// A Redis that has.
    Known,
    Sentinel,
}

/// Of the words of an error.
const WORDS_BYTES_MAX: usize = 200;

/// One line, from the text of an error.
pub(in crate::store) fn words(error: &str, peer: Peer) -> String {
    // Some of Redis's own are pages.
    let text = one_line(error);
    let end = (0..=WORDS_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
    let text = match text.get(..end.unwrap_or(0)) {
        Some(cut) if cut.len() < text.len() => format!("{cut}..."),
        _ => text,
    };
    let first: &[(&str, &str)] = match peer {
        Peer::Unknown => &[],
        Peer::Known => &HINTS_LATER,
        Peer::Sentinel => &HINTS_SENTINEL,
    };
    match first.iter().chain(&HINTS).find(|(part, _)| error.contains(part)) {
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
            ("Connection refused", "Connection refused (nothing listens"),
            ("InvalidCertificate(UnknownIssuer)", "InvalidCertificate(UnknownIssuer) (no known CA"),
            ("WRONGPASS invalid username-password pair or user is disabled.",
             "WRONGPASS invalid username-password pair or user is disabled. \
              (look at user and password"),
            ("ERR DB index is out of range",
             "ERR DB index is out of range (the database number"),
            ("a\nb", "a\\nb"),
            ("DENIED Redis is running in protected mode",
             "DENIED Redis is running in protected mode (this Redis refuses"),
        ];
        for (error, start) in rows {
            assert!(words(error, Peer::Unknown).starts_with(start), "{error}");
        }
        let long = words(&"é".repeat(500), Peer::Unknown);
        assert_eq!(long, "é".repeat(WORDS_BYTES_MAX / 2) + "...");
        let refused = words(rows[0].0, Peer::Known);
        assert!(refused.contains("any more"), "{refused}");
        let locked = words("NOAUTH Authentication required.", Peer::Sentinel);
        assert!(locked.contains("redis.sentinel_password"), "{locked}");
    }
}
