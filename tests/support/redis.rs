//! A redis-server of this test process alone: spawned in its own directory, without persistence,
//! with many databases so that each test has an empty one and may compare the whole keyspace.
//!
//! It dies with the test process however that ends, also where nothing is dropped (a static, an
//! abort): a shell waits on a pipe that only this process holds open, and kills the server when
//! the pipe closes. Knows nothing of the broker.

use super::resp::Client;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const DATABASES: u32 = 4096;
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The signals of a terminal go to the whole group: the shell must outlive them to clean up.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
dir=$1; shift
"$(command -v redis-server || command -v valkey-server)" "$@" > "$dir/log" 2>&1 &
cat > /dev/null
kill -9 $! 2> /dev/null
wait $! 2> /dev/null
rm -rf "$dir"
"#;

/// A running server. Dropping it kills it and removes its directory.
pub struct Redis {
    watchdog: Child,
    dir: PathBuf,
    port: u16,
    databases_used: AtomicU32,
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
        let dir = tempfile::Builder::new()
            .prefix("redis-")
            .tempdir()
            .unwrap()
            .keep();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", dir.to_str().unwrap()])
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--unixsocket", dir.join("socket").to_str().unwrap()])
            .args([
                "--dir",
                dir.to_str().unwrap(),
                "--databases",
                &DATABASES.to_string(),
            ])
            .args(["--save", "", "--appendonly", "no"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Redis {
            watchdog,
            dir,
            port,
            databases_used: AtomicU32::new(0),
        };
        redis.is_ready().then_some(redis)
    }

    /// Ready is when the server that answers at the port works in our directory.
    fn is_ready(&self) -> bool {
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            let dir = Client::connect(self.address())
                .and_then(|mut client| client.call(&["CONFIG", "GET", "dir"]));
            match dir {
                Ok(reply) => return reply.texts().get(1) == Some(&self.dir.display().to_string()),
                Err(_) if self.port_was_taken() => return false,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    fn port_was_taken(&self) -> bool {
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
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
        self.dir.join("socket")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A database that nobody else has used.
    pub fn fresh_database(&self) -> u32 {
        let database = self.databases_used.fetch_add(1, Ordering::Relaxed);
        assert!(
            database < DATABASES,
            "all databases of this server are used"
        );
        database
    }

    /// A connection to one database.
    pub fn client(&self, database: u32) -> Client {
        let mut client = Client::connect(self.address()).unwrap();
        client.call(&["SELECT", &database.to_string()]).unwrap();
        client
    }

    /// The process id of the server itself, for tests that stop it with a signal.
    pub fn pid(&self) -> u32 {
        let info = self.client(0).call(&["INFO", "server"]).unwrap().text();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"))
            .unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().ok();
    }
}
