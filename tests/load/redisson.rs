//! Redisson itself, in a JVM: it delivers what its own script offered.
//!
//! Where it cannot be had (no Java, no Maven, nothing to download from) a row goes without it and
//! says why. Keeps: it is warm, and subscribed to all its queues, before anything is measured.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::jvm::Jvm;
use crate::producer::keys;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

const VERSION: &str = "4.7.0";
const NEEDED: [&str; 3] = ["java", "javac", "mvn"];
/// Queues that one of its connections is subscribed for.
const QUEUES_A_CONNECTION: usize = 5;
/// Redisson's own setting, besides.
const CONNECTIONS: usize = 50;
/// Messages that make it load and compile what a delivery needs.
const WARM: &str = "2000";
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends with its value.
pub struct Redisson {
    _jvm: Jvm,
    /// Holds the queues.
    _client: Client,
}

impl Redisson {
    pub fn start(redis: &Redis, queues: &[String]) -> Outcome<Self> {
        for program in NEEDED {
            let mut version = Command::new(program);
            let version = version.arg("-version").stdin(Stdio::null());
            let found = version.stdout(Stdio::null()).stderr(Stdio::null()).status();
            found.map_err(|_| format!("it needs java, javac and mvn, and {program} is missing"))?;
        }
        let connections = CONNECTIONS + queues.len() / QUEUES_A_CONNECTION;
        // Written for tests, which panic.
        let started = catch_unwind(|| {
            let jvm = Jvm::to_measure(VERSION, redis.port(), connections);
            let client = jvm.client();
            (jvm, client)
        });
        let (jvm, mut client) = started.map_err(said)?;
        let mut redis = redis.connect()?;
        warm(&mut client, &mut redis)?;
        for queue in queues {
            ask(&mut client, &["HOLD", queue])?;
        }
        subscribed(&mut redis, queues)?;
        Ok(Redisson { _jvm: jvm, _client: client })
    }
}

/// Of a panic.
fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it does not start").trim().to_owned()
}

fn ask(client: &mut Client, args: &[&str]) -> Outcome<()> {
    let asked = catch_unwind(AssertUnwindSafe(|| client.call(args))).map_err(said)?;
    match asked? {
        Value::Error(error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn warm(client: &mut Client, redis: &mut Client) -> Outcome<()> {
    ask(client, &["OFFERMANY", "warm", WARM, "warm", "1", "1000"])?;
    let all: u64 = WARM.parse()?;
    until("delivers", || Ok(redis.ask(&[b"LLEN", b"warm"])?.number()? >= all))?;
    ask(client, &["DESTROY", "warm"])?;
    redis.ask(&[b"DEL", b"warm"])?;
    Ok(())
}

fn subscribed(redis: &mut Client, queues: &[String]) -> Outcome<()> {
    let channels: Vec<String> = queues.iter().map(|queue| channel(queue)).collect();
    let mut args: Vec<&[u8]> = vec![b"PUBSUB", b"NUMSUB"];
    args.extend(channels.iter().map(String::as_bytes));
    until("is subscribed to all queues", || {
        // Names and numbers in turn.
        let reply = redis.ask(&args)?.into_array()?;
        let mut subscribers = 0;
        for number in reply.into_iter().skip(1).step_by(2) {
            subscribers += number.number()?.min(1) as usize;
        }
        Ok(subscribers == channels.len())
    })
}

fn channel(queue: &str) -> String {
    let [.., channel] = keys(queue);
    channel
}

fn until(what: &str, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(format!("after {PATIENCE:?} it is not so that it {what}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
