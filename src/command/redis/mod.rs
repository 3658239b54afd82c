//! The commands of Redis that clients need besides: handshake, transactions, introspection.

pub mod acl;
pub mod auth;
pub mod basic;
pub mod client;
pub mod command;
pub mod config;
pub mod hello;
pub mod info;
pub mod multi;
pub mod refused;
pub mod time;
