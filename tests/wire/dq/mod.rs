//! The commands of the broker: a module for each, named as its file in `src/command/dq`.

mod ack;
mod cancel;
mod clear;
mod contains;
mod convert;
mod dead;
mod extend;
mod fire;
mod get;
mod help;
mod info;
mod moffer;
mod nack;
mod offer;
mod pause;
mod peek;
mod poll;
mod quarantine;
mod queues;
mod range;
mod remove;
mod reschedule;
mod resume;
mod size;
mod take;
mod taken;
