//! Two configurations side by side: the differences, and those among them that need no restart.
//!
//! Does not know how a setting is used: code that uses a reloadable one looks it up each time, or
//! gets the new one.

use super::{Config, ConfigError, ConfigErrors, SETTINGS, Tls};

/// A setting that differs, its values as they may be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub key: String,
    pub from: toml::Value,
    pub to: toml::Value,
    pub reloaded: bool,
}

/// True if SIGHUP takes up a new value.
fn reloads(key: &str) -> bool {
    key == "users" || SETTINGS.iter().any(|setting| setting.key == key && setting.reloads)
}

impl Config {
    /// The settings that differ in `other`.
    pub fn changes(&self, other: &Self) -> Vec<Change> {
        // The same is shown of any two secrets.
        let secret = |key: &str| self.secrets.get(key) != other.secrets.get(key);
        let both = self.settings.iter().zip(&other.settings);
        both.filter(|((key, from), (_, to))| from != to || secret(key))
            .map(|((key, from), (_, to))| Change {
                key: key.clone(),
                from: from.clone(),
                to: to.clone(),
                reloaded: self.takes_up(other, key),
            })
            .collect()
    }

    /// True if this setting of `other` needs no restart. The files of TLS belong to its listener:
    /// if that comes or goes with a restart, they do so, too.
    fn takes_up(&self, other: &Self, key: &str) -> bool {
        let listens = self.tls.is_some() == other.tls.is_some();
        reloads(key) && (listens || !key.starts_with("server.tls_"))
    }

    /// This one, with the settings of `other` that need no restart.
    ///
    /// # Errors
    /// The listeners stay: where the password would be taken from one that others can reach.
    pub fn reloaded(&self, other: &Self) -> Result<Self, ConfigErrors> {
        let mut next = self.sections_reloaded(other);
        match (&self.tls, &other.tls) {
            (Some(own), Some(tls)) => next.tls = Some(Tls { listen: own.listen, ..tls.clone() }),
            (None, None) => {}
            _ => {
                let (server, own) = (&mut next.server, &self.server);
                server.tls_cert_file.clone_from(&own.tls_cert_file);
                server.tls_key_file.clone_from(&own.tls_key_file);
                server.tls_client_ca_file.clone_from(&own.tls_client_ca_file);
            }
        }
        for (own, new) in next.settings.iter_mut().zip(&other.settings) {
            if self.takes_up(other, &own.0) {
                own.1.clone_from(&new.1);
            }
        }
        let secrets = other.secrets.iter().filter(|(key, _)| self.takes_up(other, key));
        next.secrets.extend(secrets.map(|(key, secret)| (key.clone(), secret.clone())));
        let open = next.unprotected().into_iter();
        let errors = open.map(|(key, address, rule)| ConfigError {
            key: key.to_owned(),
            value: address.to_string(),
            origin: "before: another needs a restart".to_owned(),
            rule,
        });
        let errors: Vec<ConfigError> = errors.collect();
        if errors.is_empty() { Ok(next) } else { Err(ConfigErrors(errors)) }
    }
}
