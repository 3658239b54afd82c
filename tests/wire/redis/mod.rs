//! The commands of Redis: a module for each, named as its file in `src/command/redis`.

mod auth;
mod basic;
mod client;
mod command;
mod config;
mod hello;
mod info;
mod multi;
mod refused;
