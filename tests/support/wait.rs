//! Waiting for what a test expects, never for a time: asks again until the answer is right, and
//! gives up at a deadline. Knows nothing of what is asked.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Asks again until the answer is right, and gives it.
pub fn eventually<T: Debug>(ask: impl FnMut() -> T, right: impl Fn(&T) -> bool) -> T {
    within(WITHIN, ask, right)
}

/// The same with another deadline.
pub fn within<T: Debug>(
    limit: Duration,
    mut ask: impl FnMut() -> T,
    right: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        // Taken before: an answer may be old when it comes.
        let over = Instant::now() >= deadline;
        let answer = ask();
        if right(&answer) {
            return answer;
        }
        assert!(!over, "still {answer:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Asks again and again for so long; the answer has to be right each time.
pub fn all_the_time<T: Debug>(
    during: Duration,
    mut ask: impl FnMut() -> T,
    right: impl Fn(&T) -> bool,
) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        let answer = ask();
        assert!(right(&answer), "{answer:?}");
        std::thread::sleep(PAUSE);
    }
}
