//! Where the backing Redis is, and as whom to go there.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio_rustls::TlsConnector;

use crate::config::{self, Place, RedisUrl, Secret, Site};
use crate::store::link::tls;

#[derive(Clone)]
pub struct Backend {
    pub(super) site: Site,
    pub(super) login: Login,
    /// Of the Sentinels, if there are any.
    pub(super) sentinels: Login,
    /// Where it is, for people; holds no secret.
    pub(super) place: String,
    /// Of nodes of a Cluster: where others than the nodes reach them.
    pub(super) addresses: HashMap<String, Place>,
}

/// How to go to a place: with TLS or without, and as whom.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) tls: Option<TlsConnector>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: u8,
}

/// The places of nodes by the addresses that they announce.
fn reached(addresses: &[(Place, Place)], tls: bool) -> HashMap<String, Place> {
    let place = |reached: &Place| match reached {
        Place::Tcp { host, port, .. } => Place::Tcp { host: host.clone(), port: *port, tls },
        Place::Unix { .. } => reached.clone(),
    };
    addresses.iter().map(|(announced, reached)| (announced.to_string(), place(reached))).collect()
}

impl Backend {
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn given(url: &RedisUrl, settings: &config::Redis) -> Result<Self, String> {
        let tls = url.tls().then(|| tls::connector(&settings.tls())).transpose()?;
        Ok(Self {
            site: url.site.clone(),
            login: Login {
                tls: tls.clone(),
                user: url.user.clone(),
                password: url.password.clone(),
                database: url.database,
            },
            sentinels: Login {
                tls,
                user: settings.sentinel_user.clone(),
                password: settings.sentinel_password.clone(),
                database: 0,
            },
            place: url.to_string(),
            addresses: reached(&settings.addresses, url.tls()),
        })
    }

    /// At the socket of a Redis without users; `place` is where others reach it.
    pub fn unix(path: PathBuf, place: String) -> Self {
        let site = Site::At(Place::Unix { path });
        let (login, sentinels, addresses) = Default::default();
        Self { site, login, sentinels, place, addresses }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// The ACL user, if one was named.
    pub fn user(&self) -> Option<&str> {
        self.login.user.as_deref()
    }
}
