//! Delay Broker.
pub mod clients;
pub mod clock;
pub mod command;
pub mod glob;
pub mod queue;
pub mod resp;
pub mod scheduler;
