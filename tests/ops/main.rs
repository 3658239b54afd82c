//! What people run beside the broker fits it: the dashboard, the alerts, the unit of systemd.
//!
//! Knows no container: `tests/containers/run` tries those, by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../flow/stage.rs"]
#[allow(dead_code)] // Written for the tests of flow.
mod stage;
#[path = "../support/mod.rs"]
mod support;

mod agree;
mod promql;
mod queries;
mod systemd;
