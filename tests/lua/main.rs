//! The scripts, one by one, without a broker: keyspace -> call -> reply and whole keyspace.
//!
//! Each row runs in a database of its own. What holds for every script (guard, settling, wrong
//! types, headers) is checked for every row or in `every.rs`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod text;

mod change;
mod convert;
mod cron;
mod every;
mod heads;
mod held;
mod lease_model;
mod leases;
mod look;
mod moving_slot;
mod no_list;
mod offer;
mod quarantine;
mod redisson;
mod settle;
mod setup;
mod slots;
mod streams;
mod take;
mod take_out;
mod take_queue;
mod transfer;
mod wake;
