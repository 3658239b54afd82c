//! A Redis that is given by URL: each way to reach it, each way to be refused, and what the audit
//! says of it.

use crate::stage::{call, delivered, eventually, get, metric, offer, say};
use crate::support::broker::{Broker, signal};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::support::wait::WITHIN;
use delay_broker::audit::rights::{BESIDE, PROBES, acl_line};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// With `@`, `:`, `/`, `%` and a letter of two bytes in it.
const PASSWORD: &str = "p@s:s/%wörd";
const ENCODED: &str = "p%40s%3as%2F%25w%C3%B6rd";

fn finding(broker: &Broker, word: &str) -> f64 {
    let series = format!("delay_broker_audit_finding{{finding=\"{word}\"}}");
    metric(broker, &series)
}

/// Offers, and waits for it in the list.
fn delivers(broker: &Broker, redis: &mut Client) {
    let mut client = broker.client();
    let before = call(redis, &["LLEN", "given"]).int();
    offer(&mut client, &["given", "0", "x"]);
    delivered(redis, "given", before as usize + 1);
}

/// Gives a user exactly what the audit asks for.
fn allow(redis: &mut Client, user: &str, more: &[&str]) {
    let line = acl_line(user);
    let words: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
    assert_eq!(call(redis, &words), Value::Simple("OK".to_owned()));
}

/// Starts a broker that ends by itself, and gives what it wrote.
fn refused(url: &str, settings: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
    let variable = |key: &str| {
        let name = key.to_uppercase().replace('.', "__");
        format!("DELAY_BROKER_{name}")
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .args(["--listen", "127.0.0.1:0", "--http", "", "--redis", url])
        .envs(settings.iter().map(|(key, value)| (variable(key), value)))
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"))
        .spawn()
        .unwrap();
    let deadline = Instant::now() + WITHIN;
    let status = crate::support::wait::eventually(
        || child.try_wait().unwrap(),
        |status| status.is_some() || Instant::now() > deadline - WITHIN / 10,
    );
    child.kill().ok();
    child.wait().unwrap();
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(!text("out").contains("ready"), "{}", text("err"));
    let code = status.and_then(|status| status.code());
    assert!(matches!(code, Some(1 | 64)), "{code:?}: {}", text("err"));
    text("err")
}

#[test]
fn socket_user_password_and_database() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(5);
    let password = format!(">{PASSWORD}");
    allow(&mut admin, "bröker", &[&password]);
    let login = format!("br%C3%B6ker:{ENCODED}");
    let socket = redis.socket().display().to_string();
    for url in [
        format!("redis+unix://{login}@{socket}?db=5"),
        format!("redis://{login}@{}/5", redis.address()),
    ] {
        let broker = Broker::spawn(&url, &[]);
        delivers(&broker, &mut admin);
        let shown = format!("{}{}", broker.ready_line(), broker.log());
        assert!(!shown.contains("rd@") && !shown.contains(ENCODED), "{shown}");
    }
    // The old form, for every user.
    call(&mut admin, &["CONFIG", "SET", "requirepass", PASSWORD]);
    let url = format!("redis://:{ENCODED}@{}/5", redis.address());
    delivers(&Broker::spawn(&url, &[]), &mut admin);
}

/// Each is one line in the log and in the answer, at once and without the secret.
#[test]
fn a_login_that_fails() {
    let redis = Redis::spawn(&["--databases", "16"]);
    let mut admin = redis.client(0);
    call(&mut admin, &["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "+@all"]);
    let address = redis.address();
    let cases = [
        (format!("redis://app:hunter3@{address}"), "WRONGPASS"),
        (format!("redis://nobody:hunter3@{address}"), "look at user and password"),
        (format!("redis://app:hunter2@{address}/200"), "the database number"),
        (
            format!("rediss://{address}"),
            "takes connections and says nothing (no TLS is spoken there",
        ),
        ("redis+unix:///nowhere/socket".to_owned(), "no socket at the path"),
        ("redis://no-such-host.invalid".to_owned(), "the host of redis.url is not found"),
        ("redis://127.0.0.1:1".to_owned(), "nothing listens there: is Redis running"),
    ];
    std::thread::scope(|scope| {
        for (url, part) in &cases {
            scope.spawn(move || {
                let broker = Broker::spawn(url, &[("redis.call_timeout_ms", "300")]);
                let mut client = broker.client();
                let answer = call(&mut client, &["DQ.OFFER", "q", "1h", "x"]).text();
                assert!(answer.starts_with("UNAVAILABLE Redis cannot be reached: "), "{answer}");
                assert!(answer.contains(part), "{answer}");
                let log = broker.log();
                let lines = log.lines().filter(|line| line.contains("Redis cannot be reached"));
                let lines: Vec<&str> = lines.filter(|line| !line.contains("serving")).collect();
                assert_eq!(lines.len(), 1, "{log}");
                assert!(lines[0].contains(part), "{log}");
                assert!(!format!("{log}{answer}").contains("hunter"), "{log}");
            });
        }
    });
    let bad = refused(&format!("redis://app:hunter%zz@{address}"), &[]);
    assert!(
        bad.contains("its password must have two hexadecimal digits") && !bad.contains("hunter"),
        "{bad}"
    );
}

/// The same silence has another cause once Redis has answered.
#[test]
fn a_redis_that_hangs() {
    let redis = Redis::spawn(&[]);
    let pid = redis.pid();
    signal(pid, "STOP");
    let settings = [("redis.connect_timeout_ms", "300")];
    let broker = Broker::spawn(&redis.url(0), &settings);
    let mut client = broker.client();
    let mut says = |part: &str| {
        eventually(part, || {
            let answer = call(&mut client, &["DQ.SIZE", "q"]);
            matches!(&answer, Value::Error(text) if text.contains(part)).then_some(())
        });
    };
    says("takes connections and says nothing (Redis hangs, or TLS is spoken there");
    signal(pid, "CONT");
    let ready = || (get(&broker, "/readyz").0 == 200).then_some(());
    eventually("it is ready", ready);
    delivers(&broker, &mut redis.client(0));
    signal(pid, "STOP");
    says("takes connections and says nothing (though it answered before: Redis hangs");
    signal(pid, "CONT");
    let ready = || (get(&broker, "/readyz").0 == 200).then_some(());
    eventually("it is ready", ready);
    delivers(&broker, &mut redis.client(0));
    let log = broker.log();
    assert!(log.contains("though it answered before"), "{log}");
}

/// Every command works for a user who has what the audit asks for, and nothing else was tried.
#[test]
fn the_acl_line_is_enough() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    allow(&mut admin, "app", &[">secret"]);
    let url = format!("redis://app:secret@{}", redis.address());
    let broker = Broker::spawn(&url, &[]);
    assert_eq!(finding(&broker, "acl"), 0.0, "{}", broker.log());
    assert_eq!(finding(&broker, "unknown"), 1.0, "{}", broker.log());
    let mut client = broker.client();
    for command in [
        "DQ.OFFER q 1h a NAME n",
        "DQ.OFFER q 1h b NAME n",
        "DQ.OFFER q 1h c NAME m",
        "DQ.OFFER q 1h c",
        "DQ.MOFFER q 1h d 1h e 1h f",
        "DQ.OFFER {q} 1h x",
        "DQ.SIZE q",
        "DQ.PEEK q",
        "DQ.RANGE q - +",
        "DQ.GET q n",
        "DQ.CONTAINS q a d",
        "DQ.RESCHEDULE q n 2h",
        "DQ.REMOVE q d",
        "DQ.CANCEL q m",
        "DQ.PAUSE q 1h",
        "DQ.RESUME q",
        "DQ.QUEUES",
        "DQ.INFO q",
        "DQ.QUARANTINE q LIST",
        "DQ.QUARANTINE q RESTORE",
        "DQ.QUARANTINE q DROP",
        "DQ.SETUP s destination stream groups g,h lease_ms 100",
        "DQ.OFFER s 0 x",
        "DQ.NACK s GROUP g 1-1",
        "DQ.TAKE q",
        "DQ.ACK q ffffffffffffffff:1",
        "DQ.NACK q ffffffffffffffff:1",
        "DQ.EXTEND q ffffffffffffffff:1",
        "DQ.TAKEN q",
        "DQ.DEAD q LIST",
        "DQ.DEAD q REQUEUE",
        "DQ.DEAD q DROP",
        "DQ.FIRE q n",
        "TIME",
    ] {
        let reply = say(&mut client, command);
        let owned = command.contains("{q}");
        assert_eq!(matches!(reply, Value::Error(_)), owned, "{command}: {reply:?}");
    }
    delivered(&mut admin, "q", 1);
    eventually("each connection has its name", || {
        let list = say(&mut admin, "CLIENT LIST").text();
        let links = ["offers", "calls", "transfers", "subscription", "plain"];
        let named = |link| list.contains(&format!(" name=delay-broker-{link} "));
        links.into_iter().all(named).then_some(())
    });
    assert_eq!(say(&mut client, "DQ.POLL q COUNT 1").elements().len(), 1);
    assert!(say(&mut client, "DQ.CLEAR q").int() > 0);
    // A poison member, and one of many to be taken out of a long list.
    call(&mut admin, &["ZADD", "redisson_delay_queue_timeout:{q}", "0", "bad"]);
    eventually("the bad member aside", || {
        let there = call(&mut admin, &["EXISTS", "delay_broker_quarantine:{q}"]);
        (there.int() == 1).then_some(())
    });
    delivers(&broker, &mut admin);
    let log = call(&mut admin, &["ACL", "LOG"]);
    for entry in log.elements() {
        let entry = entry.texts();
        assert!(entry.contains(&"config|get".to_owned()), "{entry:?}");
    }
}

/// Without the rights that scripts can do without everything works, and the audit names them.
#[test]
fn rights_that_scripts_can_do_without() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    allow(&mut admin, "app", &[">secret", "-memory|usage", "-zrank"]);
    let url = format!("redis://app:secret@{}", redis.address());
    let broker = Broker::spawn(&url, &[]);
    let mut client = broker.client();
    let large = "x".repeat(1 << 20);
    for delay in ["2h", "1h", "3h"] {
        call(&mut client, &["DQ.OFFER", "q", delay, &large]);
    }
    let info = call(&mut client, &["DQ.INFO", "q"]).texts();
    let due = info.iter().position(|field| field == "next_due").unwrap();
    let head =
        call(&mut admin, &["ZRANGE", "redisson_delay_queue_timeout:{q}", "0", "0", "WITHSCORES"]);
    assert_eq!(info[due + 1], head.texts()[1]);
    delivers(&broker, &mut admin);
    eventually("named", || {
        let log = broker.log();
        let line = log.lines().find(|line| line.contains(" lacks "))?;
        assert!(line.contains("lacks +memory|usage +zrank: "), "{line}");
        Some(())
    });
    assert_eq!(get(&broker, "/readyz").0, 200);
}

/// Each right that is taken away is named, with the line that brings it back.
#[test]
fn each_missing_right_is_named() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    allow(&mut admin, "app", &[">secret"]);
    let url = format!("redis://app:secret@{}", redis.address());
    let broker = Broker::spawn(&url, &[]);
    let commands = PROBES.iter().map(|probe| probe.command).chain(BESIDE);
    // Refused, these change nothing, and nobody can be asked for them without trying.
    let silent = ["+client|id", "+script|exists"];
    let mut commands: Vec<&str> = commands.filter(|right| !silent.contains(right)).collect();
    commands.dedup();
    let taken = commands.iter().map(|right| (right.replacen('+', "-", 1), format!(" {right}")));
    let places = [
        ("resetkeys ~delay_broker_*", " ~redisson_delay_queue*"),
        ("resetkeys ~redisson_delay_queue*", " ~delay_broker_*"),
        ("resetchannels &delay_broker_heartbeat:*", " &redisson_delay_queue_channel:*"),
        ("resetchannels &redisson_delay_queue_channel:*", " &delay_broker_heartbeat:*"),
        (
            "resetchannels &redisson_delay_queue_channel:* &delay_broker_heartbeat:*",
            " &delay_broker_wake:*",
        ),
    ];
    let places = places.map(|(rule, word)| (rule.to_owned(), word.to_owned()));
    for (rule, word) in taken.chain(places) {
        let more: Vec<&str> = rule.split(' ').collect();
        allow(&mut admin, "app", &more);
        say(&mut admin, "SCRIPT FLUSH");
        say(&mut admin, "CLIENT KILL USER app");
        eventually(&format!("{word} is missed after {rule}"), || {
            let log = broker.log();
            let named = |line: &&str| {
                let lacks = line.split_once(" lacks");
                let lacks = lacks.and_then(|(_, rest)| rest.split_once(": "));
                lacks.is_some_and(|(missing, _)| missing.contains(&word))
            };
            // One that is being written has no end yet.
            let whole = |line: &&str| line.ends_with('}');
            let line = log.lines().rev().filter(whole).find(named)?;
            assert!(line.contains(&acl_line("app")), "{line}");
            Some(())
        });
    }
    // What is only late does not make it unready.
    eventually("ready", || (get(&broker, "/readyz").0 == 200).then_some(()));
    // Without a right that comes late in a script nobody knows what was done.
    allow(&mut admin, "app", &["-hset"]);
    let mut client = broker.client();
    let answer = say(&mut client, "DQ.OFFER fresh 1h x").text();
    assert!(answer.starts_with("UNCERTAIN Redis stopped a script"), "{answer}");
    let answer = say(&mut client, "DQ.SIZE fresh");
    assert_eq!(answer, Value::Int(1));
    say(&mut admin, "CLIENT KILL USER app");
    eventually("not ready without HSET", || {
        let (status, body) = get(&broker, "/readyz");
        (status == 503 && body.contains("acl: the user 'app' lacks +hset")).then_some(())
    });
    allow(&mut admin, "app", &[]);
    say(&mut admin, "CLIENT KILL USER app");
    eventually("ready again", || (get(&broker, "/readyz").0 == 200).then_some(()));
    delivers(&broker, &mut admin);
}

/// What would surely lose messages is refused before anything is served, unless told otherwise.
#[test]
fn refused_at_start() {
    for (args, line) in [
        (
            &["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"][..],
            "eviction: maxmemory-policy is allkeys-lru",
        ),
        (&["--cluster-enabled", "yes"], "mode: this Redis is a node of a cluster"),
        (
            &["--replicaof", "127.0.0.1 1", "--replica-read-only", "no"],
            "role: this Redis is a writable replica",
        ),
    ] {
        let redis = Redis::spawn(args);
        let text = refused(&redis.url(0), &[]);
        assert!(text.lines().any(|seen| seen.starts_with(line)), "{text}");
        let (word, _) = line.split_once(':').unwrap();
        let broker = Broker::spawn(&redis.url(0), &[("redis.audit", "warn")]);
        assert_eq!(finding(&broker, word), 1.0);
        broker.has_logged(&line[word.len() + 2..]);
        let broker = Broker::spawn(&redis.url(0), &[("redis.audit", "off")]);
        assert_eq!(finding(&broker, word), 0.0);
        assert!(!broker.log().contains("audit"), "{}", broker.log());
    }
}

#[test]
fn warned_of() {
    for (args, word) in [
        (&[][..], "persistence"),
        (&["--save", "3600 1"], "persistence"),
        (&["--appendonly", "yes"], "fsync"),
        (&["--maxmemory-policy", "volatile-lru"], "eviction"),
        (&["--maxmemory-policy", "allkeys-lru"], "eviction"),
        (&["--maxmemory", "1mb"], "memory"),
        (&["--replicaof", "127.0.0.1 1"], "role"),
    ] {
        let redis = Redis::spawn(args);
        let broker = Broker::spawn(&redis.url(0), &[]);
        eventually(word, || (finding(&broker, word) == 1.0).then_some(()));
        let mut client = broker.client();
        let info = call(&mut client, &["INFO", "broker"]).text();
        let line = info.lines().find(|line| line.starts_with("audit_findings:"));
        assert!(line.unwrap().contains(word), "{info}");
    }
}

/// A Redis that goes bad while the broker serves: an error in the log, and not ready.
#[test]
fn bad_later() {
    let redis = Redis::spawn(&[]);
    let mut admin = redis.client(0);
    let broker = Broker::spawn(&redis.url(0), &[]);
    assert_eq!(get(&broker, "/readyz").0, 200);
    say(&mut admin, "CONFIG SET maxmemory 1gb");
    say(&mut admin, "CONFIG SET maxmemory-policy allkeys-lru");
    say(&mut admin, "CLIENT KILL TYPE normal");
    let refuses = || {
        let (status, body) = get(&broker, "/readyz");
        (status == 503 && body.contains("eviction: ")).then_some(())
    };
    eventually("not ready", refuses);
    assert_eq!(finding(&broker, "eviction"), 1.0);
    let said = |line: &str| line.contains("ERROR") && line.contains("allkeys-lru");
    eventually("and says why", || broker.log().lines().any(said).then_some(()));
    say(&mut admin, "CONFIG SET maxmemory-policy noeviction");
    say(&mut admin, "CLIENT KILL TYPE normal");
    eventually("ready again", || (get(&broker, "/readyz").0 == 200).then_some(()));
    assert_eq!(finding(&broker, "eviction"), 0.0);
}

#[test]
fn the_managed_redis_has_no_findings() {
    for (appendfsync, expected) in [("always", ""), ("everysec", "fsync")] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--data-dir", dir.path().to_str().unwrap(), "--managed-port", "0"];
        let mut broker = Broker::with_args(&args, &[("managed.appendfsync", appendfsync)]);
        let mut client = broker.client();
        let info = call(&mut client, &["INFO", "broker"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("audit_findings:"));
        // A machine busy with other things may take its time for a PING.
        let words = line.unwrap().split(',').filter(|word| *word != "latency");
        assert_eq!(words.collect::<String>(), expected, "{}", broker.log());
        broker.signal("TERM");
        broker.wait(WITHIN);
    }
}

/// A CA, a server's and a client's certificate of it, made anew.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let made = Certificates(tempfile::tempdir().unwrap());
        made.openssl("req -x509 -days 2 -subj /CN=ca -keyout ca.key -out ca.pem");
        for (name, more) in [
            ("server", "-addext subjectAltName=DNS:localhost,IP:127.0.0.1"),
            ("client", "-addext keyUsage=digitalSignature"),
        ] {
            made.openssl(&format!(
                "req -x509 -CA ca.pem -CAkey ca.key -days 2 -subj /CN={name} \
                 -addext basicConstraints=critical,CA:FALSE {more} \
                 -keyout {name}.key -out {name}.pem"
            ));
        }
        made
    }

    fn openssl(&self, words: &str) {
        let made = Command::new("openssl")
            .args(words.split_whitespace())
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .current_dir(self.0.path())
            .output()
            .expect("openssl makes the certificates of this test");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// A Redis with a TLS port, and that port.
fn with_tls(certificates: &Certificates, clients: &str) -> (Redis, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let (ca, cert, key) = ("ca.pem", "server.pem", "server.key");
    let redis = Redis::spawn(&[
        "--tls-port",
        &port.to_string(),
        "--tls-ca-cert-file",
        &certificates.path(ca),
        "--tls-cert-file",
        &certificates.path(cert),
        "--tls-key-file",
        &certificates.path(key),
        "--tls-auth-clients",
        clients,
    ]);
    (redis, port)
}

#[test]
fn tls_with_an_own_ca() {
    let certificates = Certificates::new();
    let (redis, port) = with_tls(&certificates, "no");
    let mut admin = redis.client(3);
    let ca = certificates.path("ca.pem");
    let settings = [("redis.tls_ca_file", ca.as_str())];
    for host in ["localhost", "127.0.0.1"] {
        let broker = Broker::spawn(&format!("rediss://{host}:{port}/3"), &settings);
        delivers(&broker, &mut admin);
        say(&mut admin, "CLIENT KILL TYPE normal");
        say(&mut admin, "CLIENT KILL TYPE pubsub");
        delivers(&broker, &mut admin);
        assert_eq!(finding(&broker, "acl"), 0.0);
    }
    // Another CA, and the roots of the system.
    let other = Certificates::new();
    let other = other.path("ca.pem");
    for settings in [&[("redis.tls_ca_file", other.as_str())][..], &[]] {
        if settings.is_empty() && !Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
            continue;
        }
        let broker = Broker::spawn(&format!("rediss://localhost:{port}"), settings);
        broker.has_logged("no known CA signed");
    }
}

#[test]
fn tls_with_a_client_certificate() {
    let certificates = Certificates::new();
    let (redis, port) = with_tls(&certificates, "yes");
    let mut admin = redis.client(0);
    let url = format!("rediss://localhost:{port}");
    let [ca, cert, key, wrong] =
        ["ca.pem", "client.pem", "client.key", "server.key"].map(|name| certificates.path(name));
    let settings = |key| {
        let files = [("tls_ca_file", &ca), ("tls_cert_file", &cert), ("tls_key_file", key)];
        files.map(|(name, path)| (format!("redis.{name}"), path.clone()))
    };
    fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
        settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
    let broker = Broker::spawn(&url, &borrowed(&settings(&key)));
    delivers(&broker, &mut admin);
    say(&mut admin, "CLIENT KILL TYPE normal");
    delivers(&broker, &mut admin);
    let broker = Broker::spawn(&url, &borrowed(&settings(&key)[..1]));
    broker.has_logged("Redis asks for a certificate");
    for (settings, part) in [
        (&settings(&wrong)[..], "redis.tls_key_file is not the key of redis.tls_cert_file"),
        (&settings(&key)[..2], "needs redis.tls_key_file as well"),
        (&settings(&cert)[..], "holds no private key"),
    ] {
        let text = refused(&url, &borrowed(settings));
        assert!(text.contains(part), "{text}");
    }
    let text = refused(&redis.url(0), &borrowed(&settings(&key)[..1]));
    assert!(text.contains("redis.tls_ca_file") && text.contains("TLS only"), "{text}");
    let secret = std::fs::read_to_string(&key).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!broker.log().contains(secret));
}
