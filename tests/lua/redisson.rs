//! redisson
