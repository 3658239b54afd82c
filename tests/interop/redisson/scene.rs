//! A Redis with a broker and with JVMs of one version of Redisson, and the two sides that a
//! behaviour is tried from.
//!
//! Redisson up to 3.21.0 reads legacy members only, so the queues of a scene with such a version
//! are configured as legacy, as a user has to.

use crate::jvm::Jvm;
use crate::stage::{call, say};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Scene {
    pub version: &'static str,
    server: Redis,
    pub redis: Client,
    /// None once it was stopped.
    pub broker: Option<Broker>,
    args: Vec<String>,
    config: tempfile::TempDir,
}

impl Scene {
    pub fn new(version: &'static str, queues: &[&str]) -> Scene {
        let server = Redis::spawn(&[]);
        let config = tempfile::tempdir().unwrap();
        // A machine that stands still for seconds is no fault of a queue.
        let mut text = "redis.call_timeout_ms = 10000\n".to_owned();
        for queue in queues.iter().filter(|_| writes_legacy(version)) {
            writeln!(text, "[[queues]]\nname = {queue:?}\nformat = \"legacy\"").unwrap();
        }
        let file = config.path().join("broker.toml");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let args = ["--redis", &server.url(0), "--config", &file].map(str::to_owned);
        let mut scene = Scene {
            version,
            redis: server.client(0),
            server,
            broker: None,
            args: args.to_vec(),
            config,
        };
        scene.broker = Some(scene.another_broker());
        scene
    }

    pub fn another_broker(&self) -> Broker {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Broker::with_args(&args, &[])
    }

    /// With these settings instead.
    pub fn configured_broker(&self, settings: &str) -> Broker {
        let file = self.config.path().join("other.toml");
        std::fs::write(&file, settings).unwrap();
        let file = file.display().to_string();
        Broker::with_args(&["--redis", &self.server.url(0), "--config", &file], &[])
    }

    pub fn jvm(&self) -> Jvm {
        self.jvm_of(self.version)
    }

    /// Has loaded its classes: the first calls take a JVM half a second.
    pub fn warm_jvm(&self) -> Jvm {
        let jvm = self.jvm();
        warm(&jvm);
        jvm
    }

    pub fn jvm_of(&self, version: &str) -> Jvm {
        Jvm::start(version, self.redis_port())
    }

    pub fn redis_port(&self) -> u16 {
        let address = self.server.address();
        address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub fn client(&self) -> Client {
        self.server.client(0)
    }

    pub fn broker(&self) -> Client {
        self.broker.as_ref().unwrap().client()
    }

    pub fn stop_broker(&mut self) {
        self.broker = None;
    }
}

pub fn warm(jvm: &Jvm) {
    let mut client = jvm.client();
    done(&mut client, "OFFER warm 3600000 x");
    done(&mut client, "CLEAR warm");
    done(&mut client, "DESTROY warm");
}

/// 3.21.0 and older.
pub fn writes_legacy(version: &str) -> bool {
    numbers(version) < numbers("3.21.1")
}

pub fn since(version: &str, first: &str) -> bool {
    numbers(version) >= numbers(first)
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|n| n.parse().unwrap()).collect()
}

/// This machine's clock, which is Redis's too.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// A command whose answer is OK.
pub fn done(client: &mut Client, command: &str) {
    let reply = say(client, command);
    assert_eq!(reply.text(), "OK", "{command}");
}

/// A command of arguments, whose answer is no error.
pub fn ask(client: &mut Client, args: &[&str]) -> Value {
    let reply = call(client, args);
    assert!(!matches!(reply, Value::Error(_)), "{args:?}: {reply:?}");
    reply
}

/// Smallest, median, 99th percentile and largest of some latenesses, as text.
pub fn spread(mut all: Vec<f64>) -> String {
    if all.is_empty() {
        return "none in time".to_owned();
    }
    all.sort_by(f64::total_cmp);
    let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize];
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    format!("late by p50 {p50:.1} ms, p99 {p99:.1}, max {max:.1}")
}
