//! Delay Broker.
pub mod clock;
pub mod scheduler;
