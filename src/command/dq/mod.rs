//! The commands of the broker: a file for each `DQ.` command, by its name.

pub mod ack;
pub mod cancel;
pub mod clear;
pub mod contains;
pub mod convert;
pub mod dead;
pub mod extend;
pub mod fire;
pub mod get;
pub mod help;
pub mod info;
pub mod moffer;
pub mod nack;
pub mod offer;
pub mod pause;
pub mod peek;
pub mod poll;
pub mod quarantine;
pub mod queues;
pub mod range;
pub mod remove;
pub mod reschedule;
pub mod resume;
pub mod size;
pub mod take;
pub mod taken;
