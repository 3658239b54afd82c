//! Delay Broker: a daemon that speaks RESP and delivers delayed messages into Redis lists, on time.
//!
//! Two ways cross the program, and meet in [`store`] and nowhere else:
//!
//! ```text
//! a command:   socket -> request -> command -> batch -> script -> Redis
//!              client     resp      command    store::offers       lua/
//!
//! a due item:  wake-up -> timer -> transfer -> script -> Redis
//!              scheduler::wakeup   host        store     lua/transfer.lua
//!                         schedule (wheel, queue_loop, run_queue)
//! ```
//!
//! What stays true:
//!
//! 1. `resp` knows no command and no socket: bytes in, `Request` out; `Reply` in, bytes out.
//! 2. A command knows no socket and no Redis: arguments in, `Reply` out.
//! 3. Only `store` talks to Redis; only `lua/` decides what a change of state is.
//! 4. Redis's TIME, read inside the scripts, decides what is due. The broker's clock only says how
//!    long to wait. Nothing of ours is delivered early.
//! 5. A wake-up is a hint. Lost, late or doubled it costs time, never a message.
//! 6. A write whose outcome is unknown is settled, never blindly repeated (`store::lane`).
//! 7. One thread owns all of this; each piece of mutable state has one owner on it.
//!
//! Words: *queue* (a name, and the list that due payloads are appended to), *message* (payload, due
//! time, id, perhaps a name), *member* (a message as packed into zset and list), *score* (its due
//! time there, Unix ms), *order list* (the members again, as offered; a queue can do without),
//! *offer*, *remove* (by payload), *cancel* (by id or name), *transfer* (due members to the
//! destination list), *head* (the member with the least score), *hint* (somebody says when a queue
//! has something due), *ticket* (a claim on a batch's outcome), *lane* (one writing call at a time,
//! with a number), *quarantine* (members that cannot be read), *take* (a delivered message, for a
//! time), *lease* (that time), *receipt* (settles what was taken: id and how often it was handed
//! out), *attempt* (a time that it was handed out and that counts), *lapse* (a lease runs out),
//! *dead* (no attempt is left), *taker* (a client that takes, or waits for it).
//!
//! Arrows are imports, and all of them point down:
//!
//! ```text
//! work      -> daemon, http, resp, config, domain
//! daemon    -> client, command, http, managed, broker, store, config, metrics, domain
//! http      -> client, command, resp, config, domain
//! client    -> command, broker, peers, resp, config, metrics
//! command   -> broker, peers, resp, config, metrics, domain
//! broker    -> scheduler, audit, store, peers, config, metrics, domain
//! scheduler -> store, metrics, domain
//! managed   -> audit, config, domain
//! audit     -> store, domain
//! store     -> resp, config, metrics, domain
//! peers     -> resp, domain
//! resp      ->
//! config    -> domain
//! metrics   ->
//! domain    ->
//! ```
//!
//! The modules stand in this order.

// A test may stop at what it did not expect; its tables are as wide as they must be.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, clippy::type_complexity))]

pub mod work;

pub mod daemon;

pub mod http;

pub mod client;

pub mod command;

pub mod broker;

pub mod scheduler;

pub mod managed;

pub mod audit;

pub mod store;

pub mod peers;

pub mod resp;

pub mod config;

pub mod metrics;

pub mod domain;
