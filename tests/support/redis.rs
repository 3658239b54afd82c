//! A redis-server of this test process alone: spawned in its own directory, without persistence,
//! with many databases so that each test has an empty one and may compare the whole keyspace.
//!
//! It dies with the test process however that ends, also where nothing is dropped (a static, an
//! abort): a shell waits on a pipe that only this process holds open, and kills the server when
//! the pipe closes. Knows nothing of the broker.

use super::process;
use super::resp::Client;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const DATABASES: u32 = 4096;
/// The bus of a cluster listens 10,000 above the port.
const PORT_MAX: u16 = u16::MAX - 10_000;
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The signals of a terminal go to the whole group: the shell must outlive them to clean up.
pub(super) const WATCHDOG: &str = r#"
trap '' INT TERM HUP
dir=$1; shift
"$(command -v redis-server || command -v valkey-server)" "$@" > "$dir/log" 2>&1 &
cat > /dev/null
kill -9 $! 2> /dev/null
wait $! 2> /dev/null
[ -e "$dir/keep" ] || rm -rf "$dir"
"#;
/// Its files outlive the server.
const KEEP: &str = "keep";

/// A running server. Dropping it kills it and removes its directory.
pub struct Redis {
    /// None after `kill`.
    watchdog: Option<Child>,
    dir: PathBuf,
    port: u16,
    pid: u32,
    args: Vec<String>,
    databases_used: AtomicU32,
}

pub(super) fn free_port() -> u16 {
    let any = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(any).find(|port| *port <= PORT_MAX).unwrap()
}

/// The server that all tests of this process share.
pub fn shared() -> &'static Redis {
    static SHARED: OnceLock<Redis> = OnceLock::new();
    SHARED.get_or_init(|| Redis::spawn(&[]))
}

impl Redis {
    /// Spawns a server with further arguments, and waits until it answers.
    pub fn spawn(args: &[&str]) -> Redis {
        // Another process may take the free port before the server does: then the next one.
        for _ in 0..10 {
            if let Some(redis) = Redis::try_spawn(args) {
                return redis;
            }
        }
        panic!("no redis-server came up");
    }

    fn try_spawn(args: &[&str]) -> Option<Redis> {
        let mut redis = Redis {
            watchdog: None,
            dir: tempfile::Builder::new().prefix("redis-").tempdir().unwrap().keep(),
            port: free_port(),
            pid: 0,
            args: args.iter().map(|arg| arg.to_string()).collect(),
            databases_used: AtomicU32::new(0),
        };
        redis.try_start().then_some(redis)
    }

    fn try_start(&mut self) -> bool {
        let dir = &self.dir;
        std::fs::remove_file(dir.join(KEEP)).ok();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", dir.to_str().unwrap()])
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--unixsocket", dir.join("socket").to_str().unwrap()])
            .args(["--dir", dir.to_str().unwrap(), "--databases", &DATABASES.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.watchdog = Some(watchdog);
        let pid = self.ready_pid();
        self.pid = pid.unwrap_or(0);
        pid.is_some()
    }

    /// Kills it as a crash does: nothing is written any more, and its files stay.
    pub fn kill(&mut self) {
        std::fs::write(self.dir.join(KEEP), "").unwrap();
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            watchdog.wait().ok();
        }
    }

    /// Starts it again on the files that it left, at the same port.
    pub fn start_again(&mut self) {
        self.kill();
        assert!(self.try_start(), "redis-server did not come up again");
    }

    /// The process of the server, once the one that answers at the port works in our directory and
    /// has read its files.
    fn ready_pid(&self) -> Option<u32> {
        let dir = self.dir().display().to_string();
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            let ask = |command: &[&str]| Client::connect(self.address())?.call(command);
            match ask(&["CONFIG", "GET", "dir"]) {
                Ok(reply) if reply.texts().get(1) != Some(&dir) => return None,
                Ok(_) => {
                    let info = ask(&["INFO"]).map(|info| info.text()).unwrap_or_default();
                    if info.contains("\nloading:0\r") {
                        let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
                        return line?.trim().parse().ok();
                    }
                }
                Err(_) if self.port_was_taken() => return None,
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn port_was_taken(&self) -> bool {
        let log = std::fs::read_to_string(self.dir().join("log")).unwrap_or_default();
        log.contains("Failed listening") || log.contains("Could not create server TCP")
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// URL of one database, as settings take it.
    pub fn url(&self, database: u32) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    pub fn socket(&self) -> PathBuf {
        self.dir().join("socket")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A database that nobody else has used.
    pub fn fresh_database(&self) -> u32 {
        let database = self.databases_used.fetch_add(1, Ordering::Relaxed);
        assert!(database < DATABASES, "all databases of this server are used");
        database
    }

    /// A connection to one database.
    pub fn client(&self, database: u32) -> Client {
        let mut client = Client::connect(self.address()).unwrap();
        client.call(&["SELECT", &database.to_string()]).unwrap();
        client
    }

    /// One that waits long for replies.
    pub fn connect(&self) -> io::Result<Client> {
        Client::patient(self.address())
    }

    pub fn cpu_seconds(&self) -> io::Result<f64> {
        process::cpu_seconds(self.pid)
    }

    /// The process id of the server itself, for tests that stop it with a signal.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // One that was killed has left its files.
        match self.watchdog {
            Some(_) => self.end(),
            None => drop(std::fs::remove_dir_all(&self.dir)),
        }
    }
}
