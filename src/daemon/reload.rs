//! SIGHUP: the settings are read again, and changes that need no restart take effect at once.
//!
//! Does not know how a setting is used; `serve` hands the new ones on. Keeps: a configuration with
//! an error changes nothing; each change is one line in the log, secrets hidden.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::config::{Config, ConfigErrors, Layers, shown};
use crate::daemon::logs::Level;

/// The sources of the settings, and the signal to read them again.
pub struct Reload {
    layers: Layers,
    level: Level,
    hangups: Signal,
}

impl Reload {
    /// From now on SIGHUP no longer ends the process. Needs a tokio runtime.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn new(layers: Layers, level: Level) -> io::Result<Self> {
        let hangups = signal(SignalKind::hangup())?;
        Ok(Self { layers, level, hangups })
    }

    /// Waits for the next SIGHUP. Safe to cancel: a signal that arrives meanwhile stays pending.
    pub async fn asked(&mut self) {
        if self.hangups.recv().await.is_none() {
            std::future::pending().await
        }
    }

    /// The settings in effect from now on; `None` if any is wrong. Logs each change or error.
    pub fn read(&self, current: &Config) -> Option<Config> {
        let read = Config::load(self.layers.clone());
        let both = read.and_then(|wanted| Ok((current.reloaded(&wanted)?, wanted)));
        let (next, wanted) = match both {
            Ok(both) => both,
            Err(ConfigErrors(errors)) => {
                for wrong in errors {
                    error!("SIGHUP: {wrong}; the settings stay as they are");
                }
                return None;
            }
        };
        let changes = current.changes(&wanted);
        for change in &changes {
            let (key, old, new) = (&change.key, shown(&change.from), shown(&change.to));
            if change.reloaded {
                info!(key, old, new, "applied");
            } else {
                warn!(key, old, new, "needs a restart; the old value stays");
            }
        }
        let tls = next.tls.is_some() && wanted.tls.is_some();
        let applied = changes.iter().filter(|change| change.reloaded).count();
        let waiting = changes.len() - applied;
        info!(applied, waiting, certificates_read = tls, "SIGHUP: settings read again");
        // Last, so that a lower level still shows its own change.
        if next.log.level != current.log.level {
            self.level.set(&next.log.level);
        }
        Some(next)
    }
}
