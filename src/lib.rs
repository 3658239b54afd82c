//! Delay Broker.
pub mod clock;
pub mod queue;
pub mod resp;
pub mod scheduler;
