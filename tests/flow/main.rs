//! What only time and several processes show: the real program between clients and a real Redis.
//!
//! Nothing here waits for a fixed time: a test polls for what must come, with a deadline, or blocks
//! on a list. "On time" leaves a second to a machine that is busy with other things; where a
//! wake-up by publication is meant, the safety scan is set far apart, so that it cannot help.
//! Every message that a test takes is checked against Redis's clock: never early. A test that
//! kills, stops or flushes a Redis has one of its own; the others share a server, each with its
//! own database and queue names (channels know no databases).

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod foreign;
mod server;
#[allow(dead_code)] // Tests of `ops` use it too.
mod stage;

mod commands;
mod convert;
mod cron;
mod due;
mod facts;
mod faults;
mod find;
mod given;
mod heads;
mod kills;
mod layout;
mod lease_checker;
mod lease_faults;
mod lease_judge;
mod leases;
mod managed;
mod model;
mod no_list;
mod pause;
mod release;
mod reload;
mod restart;
mod scheduler;
mod search;
mod sentinel;
mod settle;
mod settling;
mod setup;
mod share;
mod stop;
mod streams;
mod sync;
mod take_queue;
mod takers;
mod taking;
mod tied;
mod wakeups;
mod who;
mod woken;
#[allow(dead_code)] // Written for the tests of `work`, which need more of it.
#[path = "../work/worker.rs"]
mod worker;
