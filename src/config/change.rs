//! Two configurations side by side: what differs, and what of it needs no restart.
//!
//! Knows not how a setting is used; who uses one of [`RELOADED`] looks it up anew each time, or is
//! told by `server::run`.

use std::net::SocketAddr;

use super::{Config, ConfigError, ConfigErrors, Limits, Server, Tls};

/// What can change without a restart. The reference marks the same keys, as a test shows.
pub const RELOADED: &[&str] = &[
    "server.tls_cert_file",
    "server.tls_key_file",
    "server.tls_client_ca_file",
    "server.password",
    "server.clients_max",
    "server.clients_per_address_max",
    "server.idle_timeout_s",
    "server.output_bytes_max",
    "server.stall_timeout_s",
    "server.grace_s",
    "server.disabled_commands",
    "limits.payload_bytes_max",
    "limits.queue_name_bytes_max",
    "limits.message_name_bytes_max",
    "limits.queue_pattern",
    "limits.delay_max_ms",
    "limits.arguments_max",
    "limits.request_bytes_max",
    "limits.inline_bytes_max",
    "limits.moffer_messages_max",
    "limits.moffer_bytes_max",
    "log.level",
];

/// A setting that differs, its values as they may be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub key: String,
    pub from: toml::Value,
    pub to: toml::Value,
    pub reloaded: bool,
}

impl Config {
    /// What `other` says differently.
    pub fn changes(&self, other: &Self) -> Vec<Change> {
        // What is shown of these is the same for any two.
        let secret = |key: &str| match key {
            "server.password" => self.server.password != other.server.password,
            "redis.url" => self.redis.url != other.redis.url,
            _ => false,
        };
        let both = self.settings.iter().zip(&other.settings);
        both.filter(|((key, from), (_, to))| from != to || secret(key))
            .map(|((key, from), (_, to))| Change {
                key: key.clone(),
                from: from.clone(),
                to: to.clone(),
                reloaded: RELOADED.contains(&key.as_str()),
            })
            .collect()
    }

    /// This one, with what needs no restart as `other` says it.
    ///
    /// # Errors
    /// The listeners stay: where the password would be taken from one that others can reach.
    pub fn reloaded(&self, other: &Self) -> Result<Self, ConfigErrors> {
        let mut next = self.clone();
        let (server, limits) = (other.server.clone(), other.limits.clone());
        next.server = Server {
            listen: self.server.listen,
            protected_mode: self.server.protected_mode,
            tls: self.server.tls.clone().map(|own| match server.tls {
                Some(tls) => Tls {
                    listen: own.listen,
                    ..tls
                },
                None => own,
            }),
            ..server
        };
        next.limits = Limits {
            buffers_bytes_max: self.limits.buffers_bytes_max,
            reply_bytes_max: self.limits.reply_bytes_max,
            queues_max: self.limits.queues_max,
            ..limits
        };
        next.log.level.clone_from(&other.log.level);
        for (own, new) in next.settings.iter_mut().zip(&other.settings) {
            if RELOADED.contains(&own.0.as_str()) {
                own.1.clone_from(&new.1);
            }
        }
        let tls = next.server.tls.as_ref();
        let (tls, certified) = (
            tls.map(|tls| tls.listen),
            tls.is_some_and(|tls| tls.certified),
        );
        let error = |(key, address, rule): (&str, SocketAddr, String)| ConfigError {
            key: key.to_owned(),
            value: address.to_string(),
            origin: "before: another needs a restart".to_owned(),
            rule,
        };
        let open = next.server.unprotected(tls, certified);
        let errors: Vec<ConfigError> = open.into_iter().map(error).collect();
        if errors.is_empty() {
            Ok(next)
        } else {
            Err(ConfigErrors(errors))
        }
    }
}
