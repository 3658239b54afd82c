//! Being a process: command line, start and stop, sockets, signals, reload, logs, systemd. Knows no
//! message.

pub mod cli;
mod hash;
pub mod listen;
pub mod logs;
pub mod ready;
pub mod reload;
pub mod serve;
pub mod shutdown;
pub mod systemd;
