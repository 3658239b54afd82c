//! Failovers: a broker under load, a master with a replica, and three real Sentinels that replace
//! the one by the other.
//!
//! A target of its own, which `make sentinel` and CI run: Sentinels measure time, so that tests
//! beside them would make them replace a master that lives. Each test has its servers, and one runs
//! at a time. A Sentinel that sees the machine stand still waits for 30 s: so do these tests.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code)]
#[path = "../flow/stage.rs"]
mod stage;

mod failover;
mod load;
