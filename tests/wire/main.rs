//! The protocol as clients meet it: bytes typed by hand out, bytes in, to the real program on a
//! real Redis.
//!
//! Each table is the documentation of its command. It is run step by step in RESP2 and in RESP3,
//! then in one write, then in pieces of a few bytes (`peer.rs`), each time on a queue of its own;
//! so tests share one broker and run beside one another. What needs other settings or a Redis that
//! fails starts its own.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../support/mod.rs"]
mod support;

mod peer;
mod proxy;

mod dq;
mod redis;

mod alone;
mod api;
mod api_hostile;
mod binary;
mod console;
mod encoding;
mod framing;
mod gate;
mod hostile;
mod limits;
mod order;
mod queue_names;
mod reply_size;
mod secrets;
mod tls;
mod unavailable;
mod uncertain;
mod users;
mod wrong_type;
