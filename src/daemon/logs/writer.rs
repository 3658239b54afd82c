//! Lines on their way to stderr: a bounded buffer, and a thread of its own that writes them.
//!
//! Knows no event and no format. Keeps: a thread that logs never waits, even if nobody reads
//! stderr; lines without room are lost and counted, and a line says how many once there is room.
//! (`tracing-appender` has such a thread, but bounds lines and not bytes, and reports no loss.)

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics::process::LOG_LINES_LOST;

/// Bytes that may wait: about a thousand lines.
const BYTES_MAX: usize = 256 * 1024;
/// Memory of a line beside its bytes.
const LINE_COSTS: usize = 64;
/// Pause before the next try if stderr does not block and is full.
const WRITE_AGAIN: Duration = Duration::from_millis(20);

/// Takes lines; clones feed the same thread.
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// A line has come.
    filled: Condvar,
    /// All lines are written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// The line that is being written counts until it is.
    bytes: usize,
    /// Lost lines that no log line has reported yet.
    lost: u64,
}

impl Writer {
    /// A thread that writes to `sink`. It calls `lost` with the number of lines that found no room,
    /// and `idle` each second; both may log.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn start(
        sink: impl Write + Send + 'static,
        lost: impl Fn(u64) + Send + 'static,
        idle: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let writer = Self(Arc::new(Shared {
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }));
        let thread = thread::Builder::new().name("log".to_owned());
        let shared = writer.0.clone();
        thread.spawn(move || shared.write_all(sink, &lost, &idle))?;
        Ok(writer)
    }

    /// Waits until all lines are written, for `at_most`.
    pub fn flush(&self, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut state = self.0.state();
        while state.bytes > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.emptied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Write for Writer {
    /// Takes one line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        let costs = line.len() + LINE_COSTS;
        if state.bytes + costs > BYTES_MAX {
            state.lost += 1;
            LOG_LINES_LOST.fetch_add(1, Ordering::Relaxed);
        } else {
            state.bytes += costs;
            state.lines.push_back(line.to_vec());
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs for ever: nothing waits for this thread at the end of the process.
    fn write_all(&self, mut sink: impl Write, lost: &impl Fn(u64), idle: &impl Fn()) {
        const IDLE_EVERY: Duration = Duration::from_secs(1);
        let mut idle_at = Instant::now() + IDLE_EVERY;
        loop {
            let left = idle_at.saturating_duration_since(Instant::now());
            let next = {
                let waited = self
                    .filled
                    .wait_timeout_while(self.state(), left, |state| state.lines.is_empty());
                let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                state.lines.pop_front()
            };
            if let Some(line) = next {
                let written = write_line(&mut sink, &line).is_ok();
                let mut state = self.state();
                state.bytes = state.bytes.saturating_sub(line.len() + LINE_COSTS);
                if state.bytes == 0 {
                    self.emptied.notify_all();
                }
                // Only with room to spare, so that a flood brings one report and not many.
                let said = if written && state.bytes < BYTES_MAX / 2 {
                    std::mem::take(&mut state.lost)
                } else {
                    0
                };
                drop(state);
                if said > 0 {
                    lost(said);
                }
                if !written {
                    LOG_LINES_LOST.fetch_add(1, Ordering::Relaxed);
                }
            }
            if Instant::now() >= idle_at {
                idle();
                idle_at = Instant::now() + IDLE_EVERY;
            }
        }
    }
}

/// Like `write_all`, but also for a stderr that another process made non-blocking.
fn write_line(sink: &mut impl Write, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match sink.write(line) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => line = line.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(WRITE_AGAIN),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Takes a line whenever the test says so, and no sooner.
    struct Gate {
        open: mpsc::Receiver<()>,
        written: mpsc::Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.open.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            let text = String::from_utf8_lossy(line).into_owned();
            self.written.send(text).map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logging_never_waits_and_lost_lines_are_reported() {
        const LINES: usize = 5_000;
        const SOON: Duration = Duration::from_secs(10);
        let (open, opened) = mpsc::channel();
        let (written, lines) = mpsc::channel();
        let gate = Gate { open: opened, written };
        let (tell, told) = mpsc::channel();
        let lost = move |lines| tell.send(lines).unwrap();
        let mut writer = Writer::start(gate, lost, || ()).unwrap();
        let before = LOG_LINES_LOST.load(Ordering::Relaxed);
        for n in 0..LINES {
            // 5 MB, of which a little has room.
            let line = format!("{n:01000}");
            writer.write_all(line.as_bytes()).unwrap();
        }
        let kept = BYTES_MAX / (1_000 + LINE_COSTS);
        let lost = (LINES - kept) as u64;
        assert_eq!(LOG_LINES_LOST.load(Ordering::Relaxed) - before, lost);
        let since = Instant::now();
        writer.flush(Duration::from_millis(50));
        assert!(since.elapsed() < SOON, "bounded, though nobody reads");
        // Somebody reads again: the oldest lines, in order, and how many are missing.
        for n in 0..kept {
            open.send(()).unwrap();
            assert_eq!(lines.recv_timeout(SOON).unwrap(), format!("{n:01000}"));
        }
        assert_eq!(told.recv_timeout(SOON), Ok(lost));
        writer.write_all(b"later").unwrap();
        open.send(()).unwrap();
        writer.flush(SOON);
        assert_eq!(lines.try_recv().unwrap(), "later");
        assert!(told.try_recv().is_err(), "it is said once");
    }
}
