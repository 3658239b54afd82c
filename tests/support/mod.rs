//! What several test targets share; not a target itself. Brought in with `#[path]`.

#![allow(dead_code)] // Each target uses a part.

pub mod broker;
pub mod cluster;
pub mod data_dir;
pub mod faketime;
pub mod http;
pub mod keyspace;
pub mod kills;
pub mod process;
pub mod proxy;
pub mod random;
pub mod redis;
pub mod resp;
pub mod sentinel;
pub mod tls;
pub mod users;
pub mod wait;
