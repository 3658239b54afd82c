//! A clock that a test sets, for one program: libfaketime, of Debian's package `faketime`.

use super::wait::WITHIN;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// None where it is not installed.
pub fn library() -> Option<PathBuf> {
    let homes = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut all = homes.map(|home| home.path().join("faketime/libfaketimeMT.so.1"));
    all.find(|library| library.exists())
}

/// As far ahead of this machine's clock as was said last.
pub struct Clock {
    library: PathBuf,
    dir: TempDir,
}

impl Clock {
    /// None where the server does not run with it, as Valkey 8.0, which dies when it starts; and
    /// where there is no libfaketime, which is a failure with CI set.
    pub fn new() -> Option<Clock> {
        let library = library();
        if library.is_none() {
            assert!(std::env::var_os("CI").is_none(), "there is no libfaketime: install faketime");
        }
        let clock = Clock { library: library?, dir: tempfile::tempdir().unwrap() };
        clock.set(0);
        clock.is_borne().then_some(clock)
    }

    fn is_borne(&self) -> bool {
        let script = "exec $(command -v redis-server || command -v valkey-server) --version";
        let mut server = Command::new("sh")
            .args(["-c", script])
            .envs(self.env())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + WITHIN;
        while Instant::now() < end {
            if let Some(status) = server.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill().unwrap();
        server.wait().unwrap();
        false
    }

    /// Of a `redis-server` or `valkey-server`, wherever it is started from.
    pub fn env(&self) -> Vec<(String, String)> {
        let env = [
            // Redis's jemalloc asks for the time before libfaketime is ready, and malloc of libc
            // does not.
            ("LD_PRELOAD", format!("{} libc.so.6", self.library.display())),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_ONLY_CMDS", "redis-server,valkey-server".to_owned()),
            // Timers go by the monotonic clock, which is nobody's to set.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        env.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// From the program's next look at its clock on.
    pub fn set(&self, ahead_s: i64) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, format!("{ahead_s:+}")).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("ahead")
    }
}

/// A program that was killed leaves its part of the shared memory behind.
impl Drop for Clock {
    fn drop(&mut self) {
        for left in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = left.file_name().to_string_lossy().into_owned();
            let pid = name.split_once("faketime_").and_then(|(_, rest)| rest.split_once('_'));
            if pid.is_some_and(|(_, pid)| !Path::new("/proc").join(pid).exists()) {
                std::fs::remove_file(left.path()).ok();
            }
        }
    }
}
