//! `delay-broker work` as people start it: the real program between a real broker and real commands
//! or a real HTTP server. A handler leaves its traces in files, and what became of a message is
//! asked of the broker. Nothing waits for a time.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../flow/stage.rs"]
#[allow(dead_code)] // Tests of `flow` use all of it.
mod stage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../flow/taking.rs"]
#[allow(dead_code)] // Tests of `flow` use all of it.
mod taking;

mod worker;

mod command;
mod faults;
mod post;
mod progress;
mod refusals;
mod signals;
