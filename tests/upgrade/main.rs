//! An earlier version and this one on the same Redis: after each other, there and back, and both at
//! once. Whatever is handed over is delivered once, not early, and nothing else is.
//!
//! The earlier program is `$EARLIER`, which `tests/upgrade/build` makes. What is asserted of it is
//! what docs/operate/upgrade.md says of it. Each test has a Redis of its own.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code)]
#[path = "../flow/foreign.rs"]
mod foreign;
#[allow(dead_code)]
#[path = "../flow/stage.rs"]
mod stage;

mod differences;
mod hand_over;
mod ledger;
mod midway;
mod rolling;

use crate::support::broker::Broker;
use std::path::PathBuf;

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Earlier,
    This,
}
use Version::{Earlier, This};

impl Version {
    pub fn program(self) -> PathBuf {
        match self {
            Earlier => {
                let path = std::env::var_os("EARLIER");
                path.expect("EARLIER=$(tests/upgrade/build)").into()
            }
            This => env!("CARGO_BIN_EXE_delay-broker").into(),
        }
    }

    /// Serves on this Redis.
    pub fn start(self, redis_url: &str, settings: &[(&str, &str)]) -> Broker {
        Broker::of_program(&self.program(), &["--redis", redis_url], settings)
    }

    /// The same with a file of settings.
    pub fn start_with_file(self, redis_url: &str, file: &str) -> Broker {
        Broker::of_program(&self.program(), &["--redis", redis_url, "--config", file], &[])
    }
}
