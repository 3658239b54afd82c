//! The way of a due message: wake-up -> timer -> transfer -> script -> Redis.
//!
//! [`host`] owns the schedule, and asks Redis to move what is due. [`wakeup`] listens to
//! publications, [`discovery`] finds queues, [`safety_scan`] reads their heads, [`registry`] notes
//! and prunes them, [`timer`] fires at the earliest moment. The decisions are pure: the
//! [`schedule`] with the [`queue_loop`] of each [`queue`], the [`wheel`] of their timers, the
//! [`run_queue`] of those that wait for a transfer, the [`pace`] of calls, and the lines of
//! the [`takers`] that are [`waiting`] for messages. The schedule asks [`ownership`] which
//! queues are this broker's, and [`admission`] what may be offered to. Beside all that, [`crons`]
//! offers occurrences of schedules, and the [`keeper`] looks after streams.

pub mod admission;
pub mod crons;
pub mod discovery;
pub mod host;
pub mod keeper;
pub mod ownership;
pub mod pace;
pub mod queue;
pub mod queue_loop;
pub mod registry;
pub mod run_queue;
pub mod safety_scan;
pub mod schedule;
pub mod takers;
pub mod tied;
pub mod timer;
pub mod waiting;
pub mod wakeup;
pub mod wheel;
