//! A worker as a process, which never outlives the test process, and a directory for the traces of
//! its handlers.

use crate::stage::{Stage, eventually};
use crate::support::process;
use crate::support::resp::{Client, Value};
use crate::support::wait::within;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delay-broker");
/// How long a worker may take to end, beside its grace time.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Kills by id, and only if that process still is the worker.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
[ "$(readlink "/proc/$1/exe")" = "$2" ] && kill -9 "$1"
"#;

pub struct Worker {
    child: Child,
    watchdog: Child,
    dir: TempDir,
}

impl Worker {
    /// Of queue `q` at the broker of the stage, with a script for `sh` as its command, which finds
    /// the directory of traces in `$DIR`.
    pub fn runs(stage: &Stage, flags: &[&str], script: &str) -> Worker {
        let broker = format!("redis://{}", stage.broker.address());
        let words = [&["q", "--broker", &broker], flags, &["--", "sh", "-c", script]].concat();
        Worker::start(&words, &[])
    }

    pub fn start(words: &[&str], env: &[(&str, &str)]) -> Worker {
        Worker::within(tempfile::tempdir().unwrap(), words, env)
    }

    /// The same with a directory that an earlier worker had.
    pub fn within(dir: TempDir, words: &[&str], env: &[(&str, &str)]) -> Worker {
        let log = File::options().create(true).append(true).open(dir.path().join("log")).unwrap();
        let child = Command::new(PROGRAM)
            .arg("work")
            .args(words)
            .env("DIR", dir.path())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string(), PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Worker { child, watchdog, dir }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// Its exit code, or 128 and the number of the signal that ended it.
    pub fn wait(&mut self) -> i32 {
        let ended = within(ENDS_WITHIN, || self.child.try_wait().unwrap(), Option::is_some);
        let status = ended.unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) -> i32 {
        self.signal("TERM");
        self.wait()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A trace; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn log(&self) -> String {
        self.read("log")
    }

    pub fn has_logged(&self, words: &str) {
        eventually(words, || self.log().contains(words).then_some(()));
    }

    /// The directory, for a worker that goes on; this one has to be dead.
    pub fn leave(mut self) -> TempDir {
        self.signal("KILL");
        self.wait();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// The most memory that it ever had.
    pub fn peak_bytes(&self) -> u64 {
        process::memory(self.pid(), "VmHWM").unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the worker:\n{}", self.log());
        }
        self.child.kill().ok();
        self.child.wait().ok();
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().ok();
    }
}

/// The messages of `q` that wait for a retry, as (attempt, from, reason).
pub fn waiting(client: &mut Client) -> Vec<(i64, i64, String)> {
    let reply = client.call(&["DQ.TAKEN", "q", "WAITING", "COUNT", "1000"]).unwrap();
    let row = |row: &Value| {
        let field = |name| crate::stage::field_of(row, name).unwrap();
        (field("attempt").int(), field("from").int(), field("reason").text())
    };
    reply.elements()[1].elements().iter().map(row).collect()
}

/// Until so many of `q` are acknowledged.
pub fn acked(client: &mut Client, count: i64) {
    eventually(&format!("{count} acknowledged"), || {
        (crate::stage::info(client, "q", "acked").int() >= count).then_some(())
    });
}

/// Asks for long: for many messages, or much work.
pub fn patiently<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    let ask = || {
        found = look();
        (what, found.is_some())
    };
    within(Duration::from_secs(90), ask, |(_, there)| *there);
    found.unwrap()
}
