//! The processes under test: a redis-server and a broker, and what they cost the machine.
//!
//! Knows how to start, watch and end them, nothing of what is sent to them. Keeps: no fixed
//! port, no file outside a directory of its own, and none of them outlives its value, also when
//! a row fails.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Outcome;
use crate::resp::Connection;

const START_DEADLINE: Duration = Duration::from_secs(20);
/// Another program may take a port between the moment it was found free and its use.
const PORT_ATTEMPTS: usize = 5;
/// What /proc counts time in, on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A child that ends with its value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn cpu_seconds(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(") ").ok_or("no stat")?;
        let ticks: Vec<f64> = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }

    /// `field`: `VmRSS:` is what it holds now, `VmHWM:` the most that it ever did.
    fn mib(&self, field: &str) -> Outcome<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.ok_or("no such field")?.parse::<f64>()? / 1024.0)
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        let pid = Pid::from_child(&self.0);
        Ok(kill_process(pid, signal)?)
    }
}

/// No append-only file, so that rows measure neither disk nor fork.
pub const NO_FILE: &[&str] = &["--appendonly", "no"];

/// Redis's Unix socket, in its directory.
const SOCKET: &str = "redis.sock";

pub struct Redis {
    process: Process,
    pub port: u16,
    dir: TempDir,
    args: Vec<String>,
}

impl Redis {
    pub fn start() -> Outcome<Self> {
        Redis::with(NO_FILE)
    }

    pub fn with(args: &[&str]) -> Outcome<Self> {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        let dir = tempfile::tempdir()?;
        let (process, port) = Redis::spawn(&args, dir.path())?;
        Ok(Redis {
            process,
            port,
            dir,
            args,
        })
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// As a crash of the process.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.process.0.kill();
        let _ = self.process.0.wait();
    }

    /// On the files that it left, at another port.
    pub fn start_again(&mut self) -> Outcome<()> {
        (self.process, self.port) = Redis::spawn(&self.args, self.dir.path())?;
        Ok(())
    }

    /// Its process and port, once it has read its files.
    fn spawn(args: &[String], dir: &Path) -> Outcome<(Process, u16)> {
        for _ in 0..PORT_ATTEMPTS {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let child = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--unixsocket", SOCKET, "--dir"])
                .arg(dir)
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| format!("redis-server: {error}"))?;
            let mut process = Process(child);
            let deadline = Instant::now() + START_DEADLINE;
            while process.0.try_wait()?.is_none() && Instant::now() < deadline {
                let ping = Connection::open(port).and_then(|mut redis| redis.call(&[b"PING"]));
                // Another's Redis could answer on that port; ours has then ended.
                if ping.is_ok() && process.0.try_wait()?.is_none() {
                    return Ok((process, port));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Err("redis-server did not come up".into())
    }

    pub fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.port)
    }

    pub fn cpu_seconds(&self) -> Outcome<f64> {
        self.process.cpu_seconds()
    }

    /// From now on it does not answer, and its connections stay.
    pub fn stop(&self) -> Outcome<()> {
        self.process.signal(Signal::STOP)
    }

    pub fn go_on(&self) -> Outcome<()> {
        self.process.signal(Signal::CONT)
    }
}

pub struct Broker {
    process: Process,
    pub port: u16,
    _dir: TempDir,
}

impl Broker {
    /// `settings` are of the environment's form: `LIMITS__DELAY_MAX_MS`, value.
    pub fn start(redis: &Redis, settings: &[(&str, &str)]) -> Outcome<Self> {
        Broker::with_file(redis, settings, "")
    }

    /// `file`: what stands in its configuration file.
    pub fn with_file(redis: &Redis, settings: &[(&str, &str)], file: &str) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("broker.toml");
        std::fs::write(&path, file)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_delay-broker"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DELAY_BROKER_") {
                command.env_remove(name);
            }
        }
        // Beside its Redis the broker takes the shorter way, as under `make run`; clients use TCP.
        let url = format!("redis+unix://{}", redis.dir.path().join(SOCKET).display());
        let child = command
            .args(["--listen", "127.0.0.1:0", "--http", "", "--log", "error"])
            .args(["--redis", &url, "--config"])
            .arg(&path)
            .envs(
                settings
                    .iter()
                    .map(|(key, value)| (format!("DELAY_BROKER_{key}"), value)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("delay-broker: {error}"))?;
        let mut process = Process(child);

        let stdout = process.0.stdout.take().ok_or("no stdout")?;
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // Nobody waits any more after the deadline.
            let _ = ready.send(read.map(|_| line));
        });
        let line = is_ready
            .recv_timeout(START_DEADLINE)
            .map_err(|_| "delay-broker did not become ready")??;
        if line.is_empty() {
            return Err("delay-broker ended at its start; see its lines above".into());
        }
        let port = line
            .strip_prefix("delay-broker ready: RESP 127.0.0.1:")
            .and_then(|rest| rest.split(',').next()?.parse().ok())
            .ok_or_else(|| format!("delay-broker said: {line:?}"))?;
        Ok(Broker {
            process,
            port,
            _dir: dir,
        })
    }

    pub fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.port)
    }

    pub fn cpu_seconds(&self) -> Outcome<f64> {
        self.process.cpu_seconds()
    }

    pub fn rss_mib(&self) -> Outcome<f64> {
        self.process.mib("VmRSS:")
    }

    pub fn rss_peak_mib(&self) -> Outcome<f64> {
        self.process.mib("VmHWM:")
    }
}

/// Redis's own account of which calls took long.
pub struct SlowLog;

impl SlowLog {
    /// From now on, of calls of a tenth of a millisecond and more.
    pub fn start(redis: &mut Connection) -> Outcome<Self> {
        redis.call(&[b"CONFIG", b"SET", b"slowlog-max-len", b"100000"])?;
        redis.call(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"100"])?;
        redis.call(&[b"SLOWLOG", b"RESET"])?;
        Ok(SlowLog)
    }

    /// Of the commands with these names, in lower case; 0 where none took so long.
    pub fn longest_ms(
        &self,
        redis: &mut Connection,
        counts: impl Fn(&str) -> bool,
    ) -> Outcome<f64> {
        let mut longest_us = 0;
        let log = redis.call(&[b"SLOWLOG", b"GET", b"100000"])?;
        for record in log.array()? {
            let mut fields = record.array()?.into_iter().skip(2);
            let us = fields.next().ok_or("no duration")?.int()?;
            let args = fields.next().ok_or("no arguments")?.array()?;
            let name = args.into_iter().next().ok_or("no command")?.text()?;
            if counts(&String::from_utf8_lossy(&name).to_lowercase()) {
                longest_us = longest_us.max(us);
            }
        }
        Ok(longest_us as f64 / 1000.0)
    }
}

/// The number of a field of INFO, of Redis or the broker.
pub fn info(server: &mut Connection, section: &str, field: &str) -> Outcome<f64> {
    let info = server.call(&[b"INFO", section.as_bytes()])?.text()?;
    let info = String::from_utf8(info)?;
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == field);
    let (_, value) = found.ok_or_else(|| format!("INFO has no {field}"))?;
    Ok(value.trim().parse()?)
}

/// Thousands of sockets are more than many shells allow: as many as the system does.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is missing then is seen when sockets are opened.
    let _ = setrlimit(Resource::Nofile, limit);
    limit.maximum.unwrap_or(u64::MAX)
}
