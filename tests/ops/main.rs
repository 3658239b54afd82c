//! What people run beside the broker fits it: the dashboard, the alerts, the unit of systemd,
//! whoever reads its log, or does not.
//!
//! Knows no container: `tests/containers/run` tries those, by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../flow/stage.rs"]
#[allow(dead_code)] // Written for the tests of flow.
mod stage;
#[path = "../support/mod.rs"]
mod support;

mod agree;
mod backup;
mod health;
mod logs;
mod promql;
mod queries;
mod systemd;
