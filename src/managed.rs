//! The Redis that the broker starts and looks after when it was given none.
//!
//! ```text
//! start: lock the directory -> a Redis runs there? adopt it : start one -> wait until it answers
//! watch: it ended -> adopt or start again, with growing waits
//! stop:  SHUTDOWN -> wait for the process -> its result
//! ```
//!
//! Knows no queue and no DQ command. Keeps: at most one broker and one Redis per data directory; a
//! broker that dies leaves its Redis running, for the next one to adopt, so nothing ties their
//! lives together (no parent-death signal, and a process group of its own, so that Ctrl-C reaches
//! only the broker).

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use crate::domain::text;
use crate::{audit, config};

mod ask;

use ask::{ANSWER_MAX, Answer, ask, setting};

const SOCKET: &str = "redis.sock";
const LOG: &str = "redis.log";
const PID: &str = "redis.pid";
const LOCK: &str = "broker.lock";

/// `sun_path` has 108 bytes, the last of them a NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Redis opens its socket before it reads its files: half a minute without any answer is a fault.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Loading reads about 100 MB a second: an hour is enough for any memory.
const LOADED_WITHIN: Duration = Duration::from_secs(3600);
/// Enough for a flush of the file, and for the 10 s that Redis grants its replicas.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// The last question before SHUTDOWN, which must go out within the time that is left for the stop
/// even if this one gets no answer.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at something that takes milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A Redis that a killed broker left behind has opened its socket by then, or is gone.
const PORT_FREE_WITHIN: Duration = Duration::from_secs(1);
const RESTART_WAIT_MIN: Duration = Duration::from_millis(100);
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);
/// After a run of this length the waits begin with the shortest again.
const STEADY_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    #[error(
        "the data directory {path} cannot be used: {error}; {}choose another with --data-dir or \
         DELAY_BROKER_MANAGED__DATA_DIR, or give a running Redis with --redis URL",
        what_helps(path, error)
    )]
    DataDir { path: PathBuf, error: io::Error },
    #[error(
        "another delay-broker (process {pid}) uses the data directory {path}; \
         stop it, or choose another with --data-dir or DELAY_BROKER_MANAGED__DATA_DIR"
    )]
    InUse { path: PathBuf, pid: String },
    #[error(
        "no redis-server and no valkey-server in PATH: install one (Debian, Ubuntu: \
         apt-get install redis-server; Fedora: dnf install valkey; macOS: brew install redis), \
         name its path in DELAY_BROKER_MANAGED__PROGRAM, or give a running Redis with --redis URL"
    )]
    NoProgram,
    #[error("{program} cannot be started: {error}")]
    Program { program: PathBuf, error: io::Error },
    #[error("{program} is version {version}; the broker needs Redis 6.2 or newer, or Valkey")]
    TooOld { program: PathBuf, version: String },
    #[error(
        "port {port} of 127.0.0.1, meant for the broker's own Redis, is taken; choose another with \
         --managed-port or DELAY_BROKER_MANAGED__PORT (0 = any free one)"
    )]
    PortTaken { port: u16 },
    #[error("{program} ended at once ({status}); its log {log} ends with:\n{tail}")]
    Ended { program: PathBuf, status: ExitStatus, log: PathBuf, tail: String },
    #[error("the Redis in {path} (process {pid}) runs but has no socket; stop it")]
    NoSocket { path: PathBuf, pid: i32 },
    #[error("the Redis in {path} does not get ready: {answer}; see its log {log}")]
    NotReady { path: PathBuf, answer: String, log: PathBuf },
    #[error(
        "the Redis in {path} did not stop: {answer}; it keeps running, the next start adopts it"
    )]
    NotStopped { path: PathBuf, answer: String },
    #[error(
        "the Redis in {path} could not write its append-only file (is the disk full?), and has \
         stopped: the last of what was acknowledged may be lost; see its log {log}"
    )]
    NotSaved { path: PathBuf, log: PathBuf },
    #[error("the Redis in {path} stopped with {status}; see its log {log}")]
    StoppedBadly { path: PathBuf, status: ExitStatus, log: PathBuf },
}

/// Names the owner of a directory that this process may not use, and how to get access.
fn what_helps(path: &Path, error: &io::Error) -> String {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let there = path.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
    match (error.kind(), there) {
        (io::ErrorKind::PermissionDenied, Some((path, metadata))) => format!(
            "{path} belongs to user {owner} (mode {mode:o}), and this process is user {user}: \
             'chown {user} {path}', or in a container mount a volume there (docker run -v \
             NAME:{path}) or, to keep nothing, --tmpfs {path}:uid={user},gid={group},mode=700; or ",
            path = path.display(),
            owner = metadata.uid(),
            mode = metadata.mode() & 0o7777,
        ),
        (io::ErrorKind::ReadOnlyFilesystem, Some((path, _))) => format!(
            "mount something there that can be written (docker run -v NAME:{}); or ",
            path.display(),
        ),
        _ => String::new(),
    }
}

/// A Redis of the broker's own, ready to be used. Dropping this leaves it running.
#[derive(Debug)]
pub struct Managed {
    /// Where the broker connects.
    pub socket: PathBuf,
    /// Loopback port for consumers.
    pub port: u16,
    /// It was already running.
    pub adopted: bool,
    /// Absolute.
    pub data_dir: PathBuf,
    /// As the setting has it, for messages.
    pub data_dir_given: PathBuf,
    settings: config::Managed,
    /// `None` if adopted.
    child: Option<Child>,
    /// Before the next start, if it ends soon.
    restart_wait: Duration,
    /// Held until the end: the lock, and the directory through which a long socket path goes.
    _lock: File,
    _dir: File,
}

/// Starts or adopts the Redis of a data directory, and waits until it is ready.
pub async fn start(settings: &config::Managed) -> Result<Managed, ManagedError> {
    let data_dir_given = settings.data_dir.clone();
    let unusable = |error| ManagedError::DataDir { path: data_dir_given.clone(), error };
    // Only this user reads payloads.
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&data_dir_given).map_err(unusable)?;
    let data_dir = data_dir_given.canonicalize().map_err(unusable)?;
    let lock = lock(&data_dir, unusable)?;
    let dir = File::open(&data_dir).map_err(unusable)?;
    let mut managed = Managed {
        socket: socket_path(&data_dir, &dir),
        port: settings.port,
        adopted: false,
        data_dir,
        data_dir_given,
        settings: settings.clone(),
        child: None,
        restart_wait: RESTART_WAIT_MIN,
        _lock: lock,
        _dir: dir,
    };
    managed.adopt_or_spawn().await?;
    Ok(managed)
}

impl Managed {
    /// Starts Redis again whenever it ends. Never returns; may be dropped at any time, since a
    /// Redis that is not ready yet gets a signal to end then.
    pub async fn watch(&mut self) -> Infallible {
        loop {
            self.revive_once().await;
        }
    }

    async fn revive_once(&mut self) {
        let since = Instant::now();
        let how = self.ended().await;
        if since.elapsed() >= STEADY_AFTER {
            self.restart_wait = RESTART_WAIT_MIN;
        }
        let (data_dir, log) = (self.data_dir.display(), tail(&self.data_dir.join(LOG)));
        error!(%data_dir, "the managed Redis ended ({how}) and is started again; its log:\n{log}");
        let down = Instant::now();
        loop {
            sleep(self.restart_wait).await;
            self.restart_wait = (self.restart_wait * 2).min(RESTART_WAIT_MAX);
            match self.adopt_or_spawn().await {
                Ok(()) => break,
                Err(error) => error!("the managed Redis cannot be started: {error}"),
            }
        }
        let down_ms = u64::try_from(down.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(down_ms, port = self.port, "the managed Redis is back");
    }

    /// Stops Redis.
    ///
    /// # Errors
    /// It did not stop, or may have lost the last of what was acknowledged.
    pub async fn stop(mut self) -> Result<(), ManagedError> {
        let path = self.data_dir.clone();
        let asked_at = Instant::now();
        let pid = self.pid();
        // Its exit status is 0 even if its last write failed.
        let persistence = ask(&self.socket, "INFO persistence", LAST_ANSWER_MAX).await;
        let unsaved = matches!(persistence, Ok(Answer::Text(text))
            if text.contains("aof_last_write_status:err"));
        loop {
            // NOSAVE is about the snapshot, which is off; the append-only file is flushed.
            let answer = ask(&self.socket, "SHUTDOWN NOSAVE", STOPPED_WITHIN).await;
            let answer = match answer {
                Ok(Answer::Closed) => break,
                Ok(Answer::Text(text) | Answer::Refused(text)) => text,
                Err(error) if gone(&error) => break,
                Err(error) => error.to_string(),
            };
            // It refuses while it loads, or writes its first append-only file.
            if asked_at.elapsed() > STOPPED_WITHIN {
                return Err(ManagedError::NotStopped { path, answer });
            }
            sleep(LOOK_EVERY).await;
        }
        let not_stopped =
            || ManagedError::NotStopped { path: path.clone(), answer: "still running".to_owned() };
        if let Some(mut child) = self.child.take() {
            let waited = timeout(STOPPED_WITHIN, child.wait()).await.map_err(|_| not_stopped())?;
            if let Ok(status) = waited
                && !status.success()
            {
                let log = path.join(LOG);
                return Err(ManagedError::StoppedBadly { path, status, log });
            }
        } else if let Some(pid) = pid {
            while self.runs(pid) {
                if asked_at.elapsed() > STOPPED_WITHIN {
                    return Err(not_stopped());
                }
                sleep(LOOK_EVERY).await;
            }
        }
        if unsaved {
            let log = path.join(LOG);
            return Err(ManagedError::NotSaved { path, log });
        }
        info!(data_dir = %path.display(), "the managed Redis has stopped, everything on disk");
        Ok(())
    }

    fn runs(&self, pid: i32) -> bool {
        runs_in(pid, &self.data_dir, self.settings.program.as_deref())
    }

    async fn adopt_or_spawn(&mut self) -> Result<(), ManagedError> {
        self.child = None;
        let begun = Instant::now();
        loop {
            self.adopted = self.somebody_listens().await?;
            if self.adopted {
                // A dying Redis may have accepted a connection, and be gone now.
                if self.wait_ready(None).await? {
                    break;
                }
                continue;
            }
            // A Redis that starts or dies may hold the port without a socket.
            if self.port == 0 || port_is_free(self.port) {
                break;
            }
            if begun.elapsed() > PORT_FREE_WITHIN {
                return Err(ManagedError::PortTaken { port: self.port });
            }
            sleep(LOOK_EVERY).await;
        }
        if self.adopted {
            self.agree().await;
        } else {
            let program = find_program(self.settings.program.as_deref())?;
            check_version(&program).await?;
            if self.port == 0 {
                self.port = free_port()?;
            }
            let mut starting = Starting { child: Some(self.spawn(&program)?), program };
            self.wait_ready(Some(&mut starting)).await?;
            self.child = starting.child.take();
        }
        let pid = self.pid();
        let (port, adopted, data_dir) = (self.port, self.adopted, self.data_dir.display());
        info!(port, pid, adopted, %data_dir, "the managed Redis is ready");
        Ok(())
    }

    /// True if a Redis answers at the socket. Waits for a Redis that is ending, since two on the
    /// same files would destroy them.
    async fn somebody_listens(&self) -> Result<bool, ManagedError> {
        let begun = Instant::now();
        loop {
            if !matches!(ask(&self.socket, "PING", ANSWER_MAX).await, Err(error) if gone(&error)) {
                return Ok(true);
            }
            match self.pid() {
                Some(pid) if self.runs(pid) => {
                    if begun.elapsed() > STOPPED_WITHIN {
                        return Err(ManagedError::NoSocket { path: self.data_dir.clone(), pid });
                    }
                }
                _ => return Ok(false),
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn spawn(&self, program: &Path) -> Result<Child, ManagedError> {
        let cannot = |error| ManagedError::Program { program: program.to_owned(), error };
        // Redis reports wrong arguments before it opens its log.
        let log = OpenOptions::new().create(true).append(true).open(self.data_dir.join(LOG));
        let log = log.map_err(cannot)?;
        let settings = [
            ("--dir", self.data_dir.as_os_str().to_owned()),
            // Relative to the directory, and so never too long.
            ("--unixsocket", SOCKET.into()),
            ("--unixsocketperm", "700".into()),
            ("--port", self.port.to_string().into()),
            ("--appendonly", "yes".into()),
            ("--appendfsync", self.settings.appendfsync.word().into()),
            // The append-only file has everything; snapshots would only cost memory and time.
            ("--save", "".into()),
            ("--maxmemory-policy", "noeviction".into()),
            ("--pidfile", self.data_dir.join(PID).into_os_string()),
            ("--logfile", LOG.into()),
            ("--daemonize", "no".into()),
        ];
        Command::new(program)
            // Three arguments: Redis 6 reads two addresses in one argument as one address.
            .args(["--bind", "127.0.0.1", "-::1"])
            .args(settings.into_iter().flat_map(|(key, value)| [OsString::from(key), value]))
            .current_dir(&self.data_dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(cannot)?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(cannot)
    }

    /// False if Redis is gone, which only an adopted one can be.
    async fn wait_ready(&self, mut starting: Option<&mut Starting>) -> Result<bool, ManagedError> {
        let begun = Instant::now();
        let mut told_loading = false;
        loop {
            let (answer, longest) = match ask(&self.socket, "PING", ANSWER_MAX).await {
                Ok(Answer::Text(text)) if text == "PONG" => return Ok(true),
                Ok(Answer::Refused(text)) if text.starts_with("LOADING") => {
                    if !told_loading {
                        info!("the managed Redis is loading its data");
                        told_loading = true;
                    }
                    (text, LOADED_WITHIN)
                }
                Ok(Answer::Text(text) | Answer::Refused(text)) => (text, ANSWER_WITHIN),
                Ok(Answer::Closed) => ("it closes connections".to_owned(), ANSWER_WITHIN),
                Err(error) if starting.is_none() && gone(&error) => return Ok(false),
                Err(error) => (error.to_string(), ANSWER_WITHIN),
            };
            if let Some(starting) = starting.as_deref_mut() {
                starting.check_alive(&self.data_dir)?;
            }
            if begun.elapsed() > longest {
                let (path, log) = (self.data_dir.clone(), self.data_dir.join(LOG));
                return Err(ManagedError::NotReady { path, answer, log });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Applies the settings to an adopted Redis, as far as they can change while it runs.
    async fn agree(&mut self) {
        let wanted = [
            ("appendonly", "yes"),
            ("appendfsync", self.settings.appendfsync.word()),
            ("maxmemory-policy", "noeviction"),
        ];
        for (name, wanted) in wanted {
            let current = setting(&self.socket, name).await.unwrap_or_default();
            if current == wanted {
                continue;
            }
            match ask(&self.socket, &format!("CONFIG SET {name} {wanted}"), ANSWER_MAX).await {
                Ok(Answer::Text(_)) => {
                    info!("the adopted Redis had {name} {current}; now it has {wanted}");
                }
                refused => {
                    warn!("the adopted Redis has {name} {current}, not {wanted}: {refused:?}");
                }
            }
        }
        let port = setting(&self.socket, "port").await.and_then(|port| port.parse().ok());
        let port = port.unwrap_or(self.port);
        if self.settings.port != 0 && port != self.settings.port {
            let wanted = self.settings.port;
            warn!("the adopted Redis has port {port}, not {wanted}, until its next start");
        }
        self.port = port;
    }

    /// Waits until the process has ended, and returns its status for the log.
    async fn ended(&mut self) -> String {
        if let Some(child) = &mut self.child {
            return match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
        }
        loop {
            // A connection that is never used ends with the process (or with a CLIENT KILL).
            if let Ok(mut stream) = tokio::net::UnixStream::connect(&self.socket).await {
                let mut nothing = [0];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut nothing).await;
            }
            if matches!(ask(&self.socket, "PING", ANSWER_MAX).await, Err(error) if gone(&error)) {
                return "the adopted process is gone".to_owned();
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn pid(&self) -> Option<i32> {
        std::fs::read_to_string(self.data_dir.join(PID)).ok()?.trim().parse().ok()
    }
}

/// A child that is not ready yet. It gets a signal to end if its starter stops waiting: SIGTERM,
/// which lets it save, since links of the broker may have written to it already.
struct Starting {
    child: Option<Child>,
    program: PathBuf,
}

impl Starting {
    fn check_alive(&mut self, data_dir: &Path) -> Result<(), ManagedError> {
        match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Err(ManagedError::Ended {
                program: self.program.clone(),
                status,
                log: data_dir.join(LOG),
                tail: tail(&data_dir.join(LOG)),
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let pid = self.child.as_ref().and_then(Child::id).and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Locks the data directory for this process; the kernel unlocks it when the process ends.
fn lock(
    data_dir: &Path,
    unusable: impl Fn(io::Error) -> ManagedError,
) -> Result<File, ManagedError> {
    let mut options = OpenOptions::new();
    let path = data_dir.join(LOCK);
    let lock = options.read(true).write(true).create(true).truncate(false).open(path);
    let mut lock = lock.map_err(&unusable)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let pid = pid.trim().to_owned();
            return Err(ManagedError::InUse { path: data_dir.to_owned(), pid });
        }
        Err(error) => return Err(unusable(error.into())),
    }
    let write_pid = lock.set_len(0).and_then(|()| lock.rewind());
    write_pid.and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(unusable)?;
    Ok(lock)
}

/// The socket's path, or a short way to it through the open directory.
fn socket_path(data_dir: &Path, dir: &File) -> PathBuf {
    let path = data_dir.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        path
    } else {
        PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(SOCKET)
    }
}

/// No process listens at the socket: it does not exist, or a dead process left it.
fn gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// True if the process lives, works in this directory and has the name of a server (of `program`,
/// if that is set). Its number alone proves nothing: another process may have it by now, and may
/// work there too.
fn runs_in(pid: i32, data_dir: &Path, program: Option<&Path>) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let set = program.and_then(Path::file_name).unwrap_or_default();
    let set = set.to_string_lossy();
    // The kernel keeps 15 bytes of a name.
    let is_set = !set.is_empty() && set.starts_with(name.trim_end());
    let is_server = is_set || ["redis", "valkey"].iter().any(|part| name.contains(part));
    let works_in = std::fs::read_link(format!("/proc/{pid}/cwd"));
    is_server && works_in.is_ok_and(|cwd| cwd == data_dir)
}

fn port_is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn free_port() -> Result<u16, ManagedError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = bound.and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.map_err(|_| ManagedError::PortTaken { port: 0 })
}

fn find_program(named: Option<&Path>) -> Result<PathBuf, ManagedError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps some servers where the PATH of ordinary users does not look.
    let more = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).chain(more).collect();
    let names = match named {
        Some(named) => vec![named],
        None => vec![Path::new("redis-server"), Path::new("valkey-server")],
    };
    for name in names {
        if name.components().count() > 1 {
            return name
                .canonicalize()
                .map_err(|error| ManagedError::Program { program: name.to_owned(), error });
        }
        if let Some(found) = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file()) {
            return Ok(found);
        }
    }
    Err(ManagedError::NoProgram)
}

async fn check_version(program: &Path) -> Result<(), ManagedError> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().await;
    let output = output
        .map_err(|error| ManagedError::Program { program: program.to_owned(), error })?
        .stdout;
    let text = String::from_utf8_lossy(&output);
    if version_of(&text).is_some_and(|version| version >= audit::VERSION_MIN) {
        return Ok(());
    }
    let version = text.trim().to_owned();
    Err(ManagedError::TooOld { program: program.to_owned(), version })
}

/// From `Redis server v=7.0.15 sha=...`; Valkey counts on from 7.2.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace();
    text::version_of(words.find_map(|word| word.strip_prefix("v="))?)
}

/// The last lines of a file that may be long, since nobody rotates it.
fn tail(path: &Path) -> String {
    const BYTES_MAX: u64 = 4096;
    let end = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(length.saturating_sub(BYTES_MAX)))?;
        let mut end = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut end)?;
        Ok(end)
    };
    let text = end().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
#[path = "managed/tests.rs"]
mod tests;
