//! A data directory whose Redis does not outlive the test, whatever happens.

use super::broker::signal;
use super::wait::WITHIN;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PAUSE: Duration = Duration::from_millis(1);

pub struct DataDir(TempDir);

impl DataDir {
    pub fn new() -> DataDir {
        DataDir(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// As an argument.
    pub fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// The process that its Redis says it is.
    pub fn pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.path().join("redis.pid")).ok()?;
        text.trim().parse().ok()
    }

    /// Kills its Redis, if one runs, and waits until its port is free.
    pub fn kill(&self) {
        let Some(pid) = self.pid() else { return };
        let works_here = || {
            let dir = std::fs::read_link(format!("/proc/{pid}/cwd"));
            dir.is_ok_and(|dir| dir == self.path())
        };
        if !works_here() {
            return;
        }
        signal(pid, "KILL");
        let deadline = Instant::now() + WITHIN;
        while works_here() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        self.kill();
    }
}
