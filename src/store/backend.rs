//! Where the backing Redis is, and as whom to go there.

use std::path::PathBuf;

use tokio_rustls::TlsConnector;

use crate::config::{Place, RedisTls, RedisUrl, Secret};
use crate::store::link::tls;

#[derive(Clone)]
pub struct Backend {
    pub(super) at: Place,
    pub(super) tls: Option<TlsConnector>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: u8,
    /// Where it is, for people; holds no secret.
    pub(super) place: String,
}

impl Backend {
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn given(url: &RedisUrl, tls: &RedisTls) -> Result<Self, String> {
        Ok(Self {
            at: url.place.clone(),
            tls: url.tls().then(|| tls::connector(tls)).transpose()?,
            user: url.user.clone(),
            password: url.password.clone(),
            database: url.database,
            place: url.to_string(),
        })
    }

    /// At the socket of a Redis without users; `place` is where others reach it.
    pub fn unix(path: PathBuf, place: String) -> Self {
        let at = Place::Unix { path };
        Self { at, tls: None, user: None, password: None, database: 0, place }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// The ACL user, if one was named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}
