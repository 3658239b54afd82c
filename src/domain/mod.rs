//! The words that everything speaks: queue, due time, id, encoding. Pure: no IO and no clock.

pub mod due;
pub mod encoding;
pub mod glob;
pub mod queue;
pub mod snowflake;
pub mod text;
