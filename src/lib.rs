//! Delay Broker.
