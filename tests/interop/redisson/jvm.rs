//! A JVM with one version of Redisson, running the program in `java`: Maven's and the compiler's
//! part, done once for each version, and the process.
//!
//! It is spoken to with the client of the other tests, and ends when its value does, or when this
//! process does, since its stdin closes.

use crate::support::faketime;
use crate::support::resp::Client;
use crate::support::wait;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// Three of them run at a time. Starting fast matters more here than running fast.
const STARTS_FAST: &[&str] = &["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/// As a program would run that is measured: but for the heap all is Java's own choice.
const RUNS_FAST: &[&str] = &["-Xmx1g"];
const SOURCES: [&str; 2] = ["Program.java", "Actions.java"];

pub struct Jvm {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Jvm {
    pub fn start(version: &str, redis_port: u16) -> Jvm {
        Jvm::spawn(version, &[redis_port.to_string()], STARTS_FAST, None)
    }

    /// One to be measured, with so many connections for subscriptions: each serves five queues.
    pub fn to_measure(version: &str, redis_port: u16, subscriptions: usize) -> Jvm {
        let arguments = [redis_port.to_string(), subscriptions.to_string()];
        Jvm::spawn(version, &arguments, RUNS_FAST, None)
    }

    /// With a clock that is ahead by so much, in the notation of faketime: `+3600s`, `-3600s`.
    pub fn with_clock(version: &str, redis_port: u16, ahead: &str) -> Jvm {
        Jvm::spawn(version, &[redis_port.to_string()], STARTS_FAST, Some(ahead))
    }

    /// `arguments` are those of `Program.java`.
    fn spawn(version: &str, arguments: &[String], options: &[&str], ahead: Option<&str>) -> Jvm {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let home = prepared(version);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = made().join(format!("redisson-{number}.log"));
        let mut command = Command::new("java");
        if let Some(ahead) = ahead {
            let library = faketime::library().expect("there is no libfaketime: install faketime");
            command.env("LD_PRELOAD", library).env("FAKETIME", ahead);
            // Timers go by the monotonic clock, which is nobody's to set.
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            // Waits of threads go by that clock, too; without this some never end.
            command.env("FAKETIME_FORCE_MONOTONIC_FIX", "0");
        }
        let mut child = command
            .args(options)
            .arg("-cp")
            .arg(format!("{0}/classes:{0}/jars/*", home.display()))
            .arg("Program")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("java: {error}"));
        let stdout = child.stdout.take().unwrap();
        let port = 0;
        let mut jvm = Jvm { child, port, log };
        let port = ready(stdout);
        jvm.port = port.unwrap_or_else(|| panic!("Redisson {version} does not start"));
        jvm
    }

    pub fn client(&self) -> Client {
        let mut client = Client::connect(("127.0.0.1", self.port)).unwrap();
        // The first call of Redisson loads hundreds of classes, and a take waits.
        client.read_within(3 * wait::WITHIN).unwrap();
        client
    }

    /// What Redisson has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// As a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let last = log.lines().rev().take(20).collect::<Vec<_>>();
            eprintln!("the log of Redisson ends, newest first:\n{}", last.join("\n"));
        }
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_file(&self.log).ok();
    }
}

/// What is downloaded and compiled, beside the clients of other languages.
pub fn made() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/interop")
}

/// The port that it listens on, once it does.
fn ready(stdout: ChildStdout) -> Option<u16> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines();
        lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let line = receiver.recv_timeout(READY_WITHIN).ok()?;
    line.strip_prefix("ready ")?.parse().ok()
}

/// The directory with the jars of one version and the program compiled against them.
fn prepared(version: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/redisson");
    let home = made().join("redisson").join(version);
    let pom = here.join("pom.xml");
    once(&home.join("jars"), &[&pom], |jars| {
        let mut maven = Command::new(here.join("../../support/again"));
        maven
            .arg("mvn")
            .args(["--quiet", "--batch-mode", "--file"])
            .arg(&pom)
            .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
            .arg(format!("-Dredisson.version={version}"))
            .arg(format!("-DoutputDirectory={}", jars.display()));
        run(maven);
    });
    let sources = SOURCES.map(|name| here.join("java").join(name));
    let [program, actions] = &sources;
    once(&home.join("classes"), &[&pom, program, actions], |classes| {
        let mut compiler = Command::new("javac");
        compiler
            .args(["-encoding", "UTF-8", "-cp"])
            .arg(home.join("jars/*"))
            .arg("-d")
            .arg(classes)
            .args(&sources);
        run(compiler);
    });
    home
}

/// To its end; what it says matters only if it fails.
fn run(mut command: Command) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{program}:\n{said}");
}

/// Makes a directory, unless it was made of the same files.
fn once(dir: &Path, of: &[&PathBuf], make: impl FnOnce(&Path)) {
    let text: String = of.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let stamp = dir.with_extension("made-of");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == text) {
        return;
    }
    fs::remove_dir_all(dir).ok();
    fs::create_dir_all(dir).unwrap();
    make(dir);
    fs::write(stamp, text).unwrap();
}
