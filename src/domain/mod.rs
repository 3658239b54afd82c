//! The words that everything speaks: queue, due time, score, id, encoding. Pure: no IO, no clock.

pub mod cron;
pub mod due;
pub mod durability;
pub mod encoding;
pub mod envelope;
pub mod glob;
pub mod lease;
pub mod password;
pub mod queue;
pub mod score;
pub mod setting;
pub mod setup;
pub mod snowflake;
pub mod text;
