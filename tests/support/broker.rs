//! The real program on ports of its own, as a user starts it: arguments and environment in, its
//! ready line out. It never serves longer than the test process lives. Knows no command.
//!
//! As in `redis.rs`, a shell waits on a pipe that only this process holds open, and kills the
//! broker when the pipe closes, however the test process ends. What the broker logs is kept in a
//! file and shown when a test fails.

use super::process;
pub use super::process::signal;
use super::resp::Client;
use super::wait::eventually;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_delay-broker");
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Kills by id, and only if that process still is the broker.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
[ "$(readlink "/proc/$1/exe")" = "$2" ] && kill -9 "$1"
rm -rf "$3"
"#;

/// A running broker. Dropping it kills it.
pub struct Broker {
    child: Child,
    watchdog: Child,
    dir: PathBuf,
    ready: String,
    said: Arc<Mutex<String>>,
}

/// Flags that a test does not give itself. The level of the log may also come from its file, which
/// a flag would be stronger than.
fn defaults(given: &[&str]) -> Vec<&'static str> {
    let any = "127.0.0.1:0";
    let flags = [("--listen", any), ("--http", any), ("--log", "warn")];
    let filed = |flag: &str| flag == "--log" && given.contains(&"--config");
    let absent = flags.into_iter().filter(|(flag, _)| !given.contains(flag) && !filed(flag));
    absent.flat_map(|(flag, value)| [flag, value]).collect()
}

impl Broker {
    /// Starts a broker on a backing Redis, and waits until it says that it serves. The settings are
    /// `("server.password", "secret")`, as in `config/default.toml`.
    pub fn spawn(redis_url: &str, settings: &[(&str, &str)]) -> Broker {
        Broker::with_args(&["--redis", redis_url], settings)
    }

    /// The same with other flags; without `--redis` it manages a Redis of its own.
    pub fn with_args(args: &[&str], settings: &[(&str, &str)]) -> Broker {
        let settings = settings.iter().map(|(key, value)| (variable(key), *value));
        let settings: Vec<(String, &str)> = settings.collect();
        let env = settings.iter().map(|(key, value)| (key.as_str(), *value));
        Broker::with_env(args, &env.collect::<Vec<_>>())
    }

    /// The same with a hard limit of open files.
    pub fn with_open_files(files: u32, redis_url: &str) -> Broker {
        let mut limited = Command::new("sh");
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        limited.args(["-c", &script, PROGRAM]);
        Broker::start(limited, PROGRAM.as_ref(), &["--redis", redis_url], &[], None)
    }

    /// The same with variables of the environment.
    pub fn with_env(args: &[&str], env: &[(&str, &str)]) -> Broker {
        Broker::start(Command::new(PROGRAM), PROGRAM.as_ref(), args, env, None)
    }

    /// Another version of the program.
    pub fn of_program(program: &Path, args: &[&str], settings: &[(&str, &str)]) -> Broker {
        let settings = settings.iter().map(|(key, value)| (variable(key), *value));
        let settings: Vec<(String, &str)> = settings.collect();
        let env: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        Broker::start(Command::new(program), program, args, &env, None)
    }

    /// One that logs into `stderr`.
    pub fn with_stderr(
        args: &[&str],
        settings: &[(&str, &str)],
        stderr: impl Into<Stdio>,
    ) -> Broker {
        let settings = settings.iter().map(|(key, value)| (variable(key), *value));
        let settings: Vec<(String, &str)> = settings.collect();
        let env = settings.iter().map(|(key, value)| (key.as_str(), *value));
        let program = Command::new(PROGRAM);
        let env = env.collect::<Vec<_>>();
        Broker::start(program, PROGRAM.as_ref(), args, &env, Some(stderr.into()))
    }

    /// `runs` is the program that `program` becomes.
    fn start(
        mut program: Command,
        runs: &Path,
        args: &[&str],
        env: &[(&str, &str)],
        stderr: Option<Stdio>,
    ) -> Broker {
        let dir = tempfile::Builder::new().prefix("broker-").tempdir().unwrap().keep();
        let log = File::create(dir.join("log")).unwrap();
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DELAY_BROKER_") {
                program.env_remove(name);
            }
        }
        let mut child = program
            .args(defaults(args))
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.unwrap_or(log.into()))
            .spawn()
            .unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
            .args([runs, &dir])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut broker =
            Broker { child, watchdog, dir, ready: String::new(), said: Arc::default() };
        let said = broker.said.clone();
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that the broker never writes to a closed pipe.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *said.lock().unwrap() += &format!("{line}\n");
                sender.send(line).ok();
            }
        });
        match receiver.recv_timeout(READY_WITHIN) {
            Ok(line) => broker.ready = line,
            Err(_) => panic!("the broker is not ready; its log:\n{}", broker.log()),
        }
        broker
    }

    /// The line that it printed: `delay-broker ready: RESP ..., HTTP ..., Redis ...`.
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// Where Redis clients connect.
    pub fn address(&self) -> String {
        self.after("RESP ")
    }

    /// Where they connect with TLS.
    pub fn tls_address(&self) -> String {
        self.after("TLS ")
    }

    /// All that it printed.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Where metrics and health are.
    pub fn http_address(&self) -> String {
        self.after("HTTP ")
    }

    fn after(&self, word: &str) -> String {
        let (_, rest) = self.ready.split_once(word).unwrap();
        rest.split([',', ' ']).next().unwrap().to_owned()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address()).unwrap()
    }

    /// One that waits long for replies.
    pub fn connect(&self) -> io::Result<Client> {
        Client::patient(self.address())
    }

    pub fn cpu_seconds(&self) -> io::Result<f64> {
        process::cpu_seconds(self.pid())
    }

    /// The port of `address`.
    pub fn port(&self) -> u16 {
        self.address().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, such as `TERM` or `STOP`.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self, at_most: Duration) -> ExitStatus {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running; its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Waits until the log says this; a thread writes it, beside whatever else shows.
    pub fn has_logged(&self, words: &str) {
        eventually(|| self.log(), |log| log.contains(words));
    }

    /// The file that it logs into.
    pub fn log_file(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Memory that it has in use, as the kernel counts it.
    pub fn resident_bytes(&self) -> u64 {
        process::memory(self.pid(), "VmRSS").unwrap()
    }

    /// The most that it ever had.
    pub fn peak_bytes(&self) -> u64 {
        process::memory(self.pid(), "VmHWM").unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the broker at {}:\n{}", self.ready, self.log());
        }
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().ok();
    }
}

/// `server.password` is DELAY_BROKER_SERVER__PASSWORD in the environment.
fn variable(key: &str) -> String {
    format!("DELAY_BROKER_{}", key.to_uppercase().replace('.', "__"))
}

/// Runs the program to its end with variables of its own; what it said on both outputs.
pub fn run(args: &[&str], variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let output = Command::new(PROGRAM)
        .args(args)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}
