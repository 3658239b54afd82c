//! A broker on a real Redis Cluster: slots that move, primaries that die or stand still.
//!
//! A target of its own, which `make cluster` and CI run: nodes measure time, so that tests beside
//! them would make them replace a primary that lives. Each test has its servers, and one runs at a
//! time.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code)]
#[path = "../flow/stage.rs"]
mod stage;

mod commands;
mod faults;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
