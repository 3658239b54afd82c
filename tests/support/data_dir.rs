//! A data directory whose Redis does not outlive the test, whatever happens.

use super::broker::signal;
use std::path::Path;
use tempfile::TempDir;

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

    /// Kills its Redis, if one runs.
    pub fn kill(&self) {
        let Some(pid) = self.pid() else { return };
        let works_here = std::fs::read_link(format!("/proc/{pid}/cwd"));
        if works_here.is_ok_and(|dir| dir == self.path()) {
            signal(pid, "KILL");
        }
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        self.kill();
    }
}
