//! A redis-server that a test can kill, stop and start again at the same port with the same files.
//!
//! Keeps: it dies with the test process, as those of `support/redis.rs` do: a shell waits on a pipe
//! that only this process holds open.

use crate::stage::eventually;
pub use crate::support::process::Stopped;
use crate::support::resp::Client;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const WATCHDOG: &str = r#"
trap '' INT TERM HUP
dir=$1; shift
"$(command -v redis-server || command -v valkey-server)" "$@" > "$dir/log" 2>&1 &
cat > /dev/null
kill -9 $! 2> /dev/null
wait $! 2> /dev/null
"#;

pub struct Server {
    dir: TempDir,
    port: u16,
    args: Vec<String>,
    env: Vec<(String, String)>,
    running: Option<Child>,
}

impl Server {
    /// Keeps what it acknowledged, also when it is killed.
    pub fn start() -> Server {
        Server::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// With these arguments, now and whenever it is started again.
    pub fn with(args: &[&str]) -> Server {
        Server::with_env(args, &[])
    }

    /// With these variables of the environment, too.
    pub fn with_env(args: &[&str], env: &[(String, String)]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Server {
            dir: tempfile::tempdir().unwrap(),
            port,
            args: args.iter().map(|arg| arg.to_string()).collect(),
            env: env.to_vec(),
            running: None,
        };
        server.start_again();
        server
    }

    pub fn start_again(&mut self) {
        let dir = self.dir.path().to_str().unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", dir, "--dir", dir, "--save", ""])
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.running = Some(watchdog.unwrap());
        eventually("redis-server answers", || {
            let reply =
                Client::connect(self.address()).ok()?.call(&["CONFIG", "GET", "dir"]).ok()?;
            (reply.texts().get(1)? == dir).then_some(())
        });
    }

    /// What it is started with from now on.
    pub fn add_args(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|arg| arg.to_string()));
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// As a crash: nothing is written any more.
    pub fn kill(&mut self) {
        if let Some(mut watchdog) = self.running.take() {
            drop(watchdog.stdin.take());
            watchdog.wait().unwrap();
        }
    }

    /// A signal by name to the server itself; it has to run.
    pub fn pid(&self) -> u32 {
        let info = self.client().call(&["INFO", "server"]).unwrap().text();
        let line = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
        line.trim().parse().unwrap()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
