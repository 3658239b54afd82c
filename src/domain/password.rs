//! Hashes of passwords, as a configuration has them: Argon2id in the PHC format,
//! `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.
//!
//! A hash is checked once, when it is read: one whose verification would take too long or too much
//! memory is refused. Nothing here shows one.

use std::fmt;

use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier};

/// KiB that a verification may take, and KiB that it may fill in all its passes.
const MEMORY_MAX: u64 = 256 * 1024;
const FILLED_MAX: u64 = 1024 * 1024;
/// A hash with the longest salt is shorter.
const BYTES_MAX: usize = 512;

/// The hash of a password, which can be verified against.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// # Errors
    /// The rule that it breaks: "must be ...".
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "must be an Argon2id hash, as `delay-broker hash` prints it";
        if text.len() > BYTES_MAX {
            return Err(RULE);
        }
        let phc = Phc::new(text).map_err(|_| RULE)?;
        let id = Algorithm::new(phc.algorithm);
        let params = Params::try_from(&phc).map_err(|_| RULE)?;
        if id != Ok(Algorithm::Argon2id) || phc.salt.is_none() || phc.hash.is_none() {
            return Err(RULE);
        }
        let (memory, passes) = (u64::from(params.m_cost()), u64::from(params.t_cost()));
        if memory > MEMORY_MAX || memory.saturating_mul(passes) > FILLED_MAX {
            return Err("must not ask for more than 256 MiB (m), or 1 GiB in all passes (m * t)");
        }
        Ok(Self(text.to_owned()))
    }

    /// The hash of a password under a salt of its own, with the parameters that OWASP names first
    /// for Argon2id: 19 MiB, two passes.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn of(password: &[u8]) -> Result<String, String> {
        let hash = Argon2::default().hash_password(password);
        hash.map(|hash| hash.to_string()).map_err(|error| error.to_string())
    }

    /// True if it is the hash of this password. Takes its time, milliseconds to seconds.
    pub fn is_of(&self, password: &[u8]) -> bool {
        let hash = Phc::new(&self.0);
        hash.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
    }

    /// To mix into what is made of it; not to be shown.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_and_verified() {
        let made = PasswordHash::of(b"a long one").unwrap();
        assert!(made.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{made}");
        assert_ne!(PasswordHash::of(b"a long one").unwrap(), made, "each has a salt of its own");
        let hash = PasswordHash::parse(&made).unwrap();
        assert!(hash.is_of(b"a long one"));
        assert!(!hash.is_of(b"a long on") && !hash.is_of(b""));
        assert_eq!(format!("{hash:?}"), "PasswordHash");
    }

    #[test]
    fn hashes_that_are_refused() {
        let salted = |params: &str| format!("{params}$c2FsdHNhbHQ$AQIDBAUGBwgJCgsMDQ4PEA");
        let rows = [
            (salted("$argon2id$v=19$m=8,t=1,p=1"), ""),
            (salted("$argon2id$v=19$m=262144,t=4,p=1"), ""),
            (salted("$argon2id$v=19$m=262145,t=1,p=1"), "must not ask for more than 256 MiB"),
            (salted("$argon2id$v=19$m=19456,t=60,p=1"), "must not ask for more than"),
            (salted("$argon2i$v=19$m=8,t=1,p=1"), "must be an Argon2id hash"),
            (salted("$argon2id$v=19$m=8,t=0,p=1"), "must be an Argon2id hash"),
            ("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ".to_owned(), "must be an Argon2id hash"),
            ("secret".to_owned(), "must be an Argon2id hash"),
            (String::new(), "must be an Argon2id hash"),
            ("$".repeat(1_000), "must be an Argon2id hash"),
        ];
        for (text, wanted) in rows {
            let said = PasswordHash::parse(&text).err().unwrap_or_default();
            assert!(said.starts_with(wanted) && said.is_empty() == wanted.is_empty(), "{text}");
        }
    }
}
