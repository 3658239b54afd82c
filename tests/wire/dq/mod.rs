//! The commands of the broker: a module for each, named as its file in `src/command/dq`.

mod cancel;
mod clear;
mod contains;
mod convert;
mod fire;
mod get;
mod help;
mod info;
mod moffer;
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
