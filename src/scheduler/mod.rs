//! The way of a due message: wake-up -> timer -> transfer -> script -> Redis.
//!
//! [`queue_loop`] decides for one queue, [`served`] keeps what belongs to it, [`wheel`] knows when
//! to wake which, [`host`] waits for all of them and asks Redis, [`wakeup`] listens to
//! publications, [`discovery`] finds queues and scans their heads.

pub mod discovery;
pub mod host;
pub mod queue_loop;
pub mod served;
pub mod wakeup;
pub mod wheel;
