//! Sentinels of this test process, and a master with a replica that they watch.
//!
//! They are real, started from the installed redis-server, and die with the test process as the
//! servers of `redis.rs` do.

use super::process::{self, Stopped};
use super::redis::{Redis, WATCHDOG, free_port};
use super::resp::{Client, Value};
use super::wait::within;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The name of every master here.
pub const NAME: &str = "orders";
/// Sentinels that see the machine stand still do nothing for 30 s.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Sentinel {
    watchdog: Option<Child>,
    dir: PathBuf,
    port: u16,
    pid: u32,
}

impl Sentinel {
    /// One that watches what `settings` say: lines of its file, ` @ ` for the name of the master.
    pub fn spawn(settings: &[String]) -> Sentinel {
        // Another process may take the free port before it does: then the next one.
        let tried = || Sentinel::try_spawn(settings);
        std::iter::repeat_with(tried).take(10).flatten().next().expect("no Sentinel came up")
    }

    /// One that watches a Redis, and finds it down after half a second.
    pub fn of(redis: &Redis, quorum: u32) -> Sentinel {
        Sentinel::spawn(&watching(redis, quorum))
    }

    fn try_spawn(settings: &[String]) -> Option<Sentinel> {
        // It waits for the disk at each change of its file.
        let memory = Path::new("/dev/shm");
        let parent = if memory.exists() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("sentinel-").tempdir_in(parent).unwrap().keep();
        let port = free_port();
        let settings: Vec<String> = settings
            .iter()
            .map(|line| format!("{}\n", line.replace(" @ ", &format!(" {NAME} "))))
            .collect();
        let file = dir.join("sentinel.conf");
        let first = format!("port {port}\nbind 127.0.0.1\ndir {}\n", dir.display());
        std::fs::write(&file, first + &settings.concat()).unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", dir.to_str().unwrap()])
            .args([file.to_str().unwrap(), "--sentinel"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut sentinel = Sentinel { watchdog: Some(watchdog), dir, port, pid: 0 };
        sentinel.pid = sentinel.ready_pid()?;
        Some(sentinel)
    }

    fn ready_pid(&self) -> Option<u32> {
        let ask = || {
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            let pid = log.lines().find_map(|line| {
                let (_, rest) = line.split_once(" pid=")?;
                rest.split(',').next()?.parse::<u32>().ok()
            });
            let refused = log.contains("Failed listening");
            (pid.filter(|_| log.contains("Sentinel ID is")), refused, log)
        };
        within(PATIENCE, ask, |(pid, refused, _)| pid.is_some() || *refused).0
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address()).unwrap()
    }

    /// A field of its word about the master.
    pub fn says(&self, field: &str) -> String {
        let about = self.client().call(&["SENTINEL", "MASTER", NAME]).unwrap().texts();
        let found = about.chunks(2).find(|pair| pair[0] == field);
        found.map(|pair| pair[1].clone()).unwrap_or_default()
    }

    pub fn stop(&self) -> Stopped {
        Stopped::new(self.pid)
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            watchdog.wait().ok();
        }
    }
}

/// Lines of the file of a Sentinel.
pub fn watching(redis: &Redis, quorum: u32) -> Vec<String> {
    vec![
        format!("sentinel monitor @ 127.0.0.1 {} {quorum}", redis.port()),
        "sentinel down-after-milliseconds @ 500".to_owned(),
        "sentinel failover-timeout @ 4000".to_owned(),
    ]
}

/// The URL of a broker behind these.
pub fn url(sentinels: &[&Sentinel]) -> String {
    let addresses: Vec<String> = sentinels.iter().map(|sentinel| sentinel.address()).collect();
    format!("redis-sentinel://{}/{NAME}", addresses.join(","))
}

/// Two servers, of which one is the master, under three Sentinels.
pub struct Watched {
    pub servers: [Redis; 2],
    pub sentinels: [Sentinel; 3],
}

impl Watched {
    /// With these arguments for both servers.
    pub fn start(args: &[&str]) -> Watched {
        let args = [&["--repl-diskless-sync-delay", "0"], args].concat();
        let master = Redis::spawn(&args);
        let port = master.port().to_string();
        let replica = Redis::spawn(&[&args[..], &["--replicaof", "127.0.0.1", &port]].concat());
        let sentinels = [(); 3].map(|()| Sentinel::of(&master, 2));
        for sentinel in &sentinels {
            // Every two and ten seconds otherwise (since Redis 7.0; older ones are slower here).
            for (period, ms) in [("PUBLISH-PERIOD", "1500"), ("INFO-PERIOD", "200")] {
                sentinel.client().call(&["SENTINEL", "DEBUG", period, ms]).unwrap();
            }
        }
        let watched = Watched { servers: [master, replica], sentinels };
        watched.settled();
        watched
    }

    /// Waits until all know each other, and the replica follows.
    pub fn settled(&self) {
        let ask = || {
            let fields = ["flags", "num-slaves", "num-other-sentinels"];
            let said = self.sentinels.each_ref().map(|one| fields.map(|field| one.says(field)));
            let info = self.servers[self.master()].client(0).call(&["INFO", "replication"]);
            (said, info.unwrap().text())
        };
        within(PATIENCE, ask, |(said, info)| {
            said.iter().all(|said| *said == ["master", "1", "2"]) && info.contains("state=online")
        });
    }

    /// Which of the two the Sentinels name.
    pub fn master(&self) -> usize {
        let port = self.sentinels[0].says("port");
        self.servers.iter().position(|redis| redis.port().to_string() == port).unwrap()
    }

    pub fn url(&self) -> String {
        url(&self.sentinels.each_ref())
    }

    /// Whether all Sentinels name this one now.
    pub fn all_name(&self, server: usize) -> bool {
        let port = self.servers[server].port().to_string();
        self.sentinels.iter().all(|sentinel| sentinel.says("port") == port)
    }

    /// Waits until this server says that it is a replica. Sentinels end its connections then.
    pub fn becomes_replica(&self, server: usize) {
        let address = self.servers[server].address();
        let role = || Client::connect(&address).and_then(|mut client| client.call(&["ROLE"]));
        let is_replica = |role: &io::Result<Value>| {
            role.as_ref().is_ok_and(|role| role.elements()[0].text() == "slave")
        };
        within(PATIENCE, role, is_replica).unwrap();
    }

    /// Hears the Sentinels name another master.
    pub fn switches(&self) -> Client {
        let mut news = self.sentinels[0].client();
        news.read_within(PATIENCE).unwrap();
        news.call(&["SUBSCRIBE", "+switch-master"]).unwrap();
        news
    }
}

/// The next switch that a client of [`Watched::switches`] hears.
pub fn switched(news: &mut Client) -> Vec<String> {
    loop {
        let heard: Value = news.read().unwrap();
        if heard.texts().first().is_some_and(|kind| kind == "message") {
            return heard.texts();
        }
    }
}

/// As a crash.
pub fn kill(pid: u32) {
    process::signal(pid, "KILL");
}
