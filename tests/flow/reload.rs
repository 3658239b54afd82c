//! SIGHUP: the file is read again. What needs no restart is in effect at once, for those who are
//! connected too; the rest is named; a file that is wrong changes nothing.

use crate::stage::{SOON, eventually, say};
use crate::support::broker::Broker;
use crate::support::redis;
use crate::support::resp::{Client, Value};
use crate::support::tls::{Authority, TlsClient};
use crate::support::users::{PASSWORD, user};
use std::path::PathBuf;
use tempfile::TempDir;

/// A broker with a file of settings that a test may write anew.
struct Filed {
    broker: Broker,
    dir: TempDir,
}

impl Filed {
    fn start(text: &str) -> Filed {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("broker.toml");
        std::fs::write(&file, text).unwrap();
        let url = redis::shared().url(redis::shared().fresh_database());
        let args = ["--redis", &url, "--config", file.to_str().unwrap()];
        let broker = Broker::with_args(&args, &[]);
        // It comes by itself some time after the start, and is no answer to a reload.
        eventually("the audit is over", || broker.log().contains("the audit of").then_some(()));
        Filed { broker, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("broker.toml")
    }

    /// Writes the file, sends SIGHUP, and waits until the broker says that it has read it, well or
    /// not; the lines that it logged meanwhile.
    fn reload(&self, text: &str) -> String {
        std::fs::write(self.file(), text).unwrap();
        let before = self.broker.log().len();
        self.broker.signal("HUP");
        let done = ["SIGHUP: settings read again", "the settings stay as they are"];
        eventually("the settings are read", || {
            let log = self.broker.log().split_off(before);
            let ended = log.ends_with('\n') && done.iter().any(|end| log.contains(end));
            ended.then_some(log)
        })
    }
}

#[test]
fn what_needs_no_restart_is_in_effect_at_once() {
    let filed = Filed::start("[server]\npassword = \"old-4711\"\n");
    let broker = &filed.broker;
    let mut old = broker.client();
    assert_eq!(say(&mut old, "AUTH old-4711"), Value::Simple("OK".to_owned()));
    let mut outside = broker.client();
    let log = filed.reload(
        "[server]\npassword = \"new-4712\"\nclients_per_address_max = 3\n\
         disabled_commands = [\"dq.clear\"]\n[limits]\npayload_bytes_max = 5\n",
    );
    let applied = log.lines().filter(|line| line.contains(r#""message":"applied""#)).count();
    assert_eq!(applied, 4, "{log}");
    for part in [
        r#""key":"server.password","old":"(hidden)","new":"(hidden)""#,
        r#""key":"server.clients_per_address_max","old":"10000","new":"3""#,
        r#""key":"limits.payload_bytes_max","old":"16777216","new":"5""#,
        r#""applied":4,"waiting":0"#,
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(!log.contains("4711") && !log.contains("4712"), "{log}");
    // Who is in stays in, with the new rules.
    let reply = say(&mut old, "DQ.OFFER q 1h 123456").text();
    assert!(reply.starts_with("TOOBIG "), "{reply}");
    let reply = say(&mut old, "DQ.CLEAR q").text();
    assert!(reply.starts_with("NOPERM "), "{reply}");
    let shown = say(&mut old, "CONFIG GET limits.payload_bytes_max").texts();
    assert_eq!(shown, ["limits.payload_bytes_max", "5"]);
    // Who was not has to say the new password.
    let reply = say(&mut outside, "AUTH old-4711").text();
    assert!(reply.starts_with("WRONGPASS "), "{reply}");
    assert_eq!(say(&mut outside, "AUTH new-4712").text(), "OK");
    let _third = broker.client();
    let reply = eventually("the fourth is one too many", || broker.client().read().ok());
    assert!(reply.text().starts_with("DENIED "), "{reply:?}");
    // And back: what is not in the file any more has its default.
    let log = filed.reload("");
    assert!(log.contains(r#""key":"server.password","old":"(hidden)","new":"""#), "{log}");
    assert_eq!(say(&mut broker.client(), "DQ.OFFER q 1h 123456").bytes().len(), 30);
    assert!(filed.reload("").contains(r#""applied":0,"waiting":0"#));
}

fn log_in(broker: &Broker, name: &str) -> Client {
    let mut client = broker.client();
    assert_eq!(say(&mut client, &format!("AUTH {name} {PASSWORD}")).text(), "OK", "{name}");
    client
}

/// Who is connected may do from then on as the file says; a user who is gone is disconnected, also
/// in the middle of a command and of a wait.
#[test]
fn users_come_and_go_and_change() {
    let rights = "commands = ['+@write', '+@read']\nqueues = ['a.*']\npayloads = true";
    let less = "commands = ['+@read']\nqueues = ['a.*', 'b']";
    let both = user("ann", rights) + &user("bob", rights);
    let filed = Filed::start(&both);
    let broker = &filed.broker;
    let (mut ann, mut queues, mut waits) =
        (log_in(broker, "ann"), log_in(broker, "ann"), log_in(broker, "ann"));
    let (mut bob, mut half, mut parked) =
        (log_in(broker, "bob"), log_in(broker, "bob"), log_in(broker, "bob"));
    let mut outside = broker.client();
    assert_eq!(say(&mut ann, "DQ.OFFER a.1 1h p").bytes().len(), 30);
    assert_eq!(say(&mut queues, "MULTI").text(), "OK");
    assert_eq!(say(&mut queues, "DQ.OFFER a.1 1h p").text(), "QUEUED");
    waits.send(&["DQ.TAKE", "a.2", "BLOCK", "0"]).unwrap();
    parked.send(&["DQ.TAKE", "a.2", "BLOCK", "0"]).unwrap();
    eventually("both wait", || {
        let info = say(&mut ann, "DQ.INFO a.2");
        let takers = info.elements().chunks(2).find(|pair| pair[0].text() == "takers");
        (takers.unwrap()[1].int() == 2).then_some(())
    });
    // A command that is begun, and goes on afterwards.
    half.send_bytes(b"*3\r\n$8\r\nDQ.OFF").unwrap();
    let log = filed.reload(&user("ann", less));
    assert!(log.contains(r#""applied":1,"waiting":0"#) && !log.contains("argon2"), "{log}");
    for gone in [&mut bob, &mut half, &mut parked] {
        assert_eq!(gone.read_to_end().unwrap(), b"", "its user is gone");
    }
    let refused = say(&mut ann, "DQ.OFFER a.1 1h p").text();
    assert!(refused.starts_with("NOPERM User ann has no permissions to run"), "{refused}");
    assert_eq!(say(&mut ann, "DQ.SIZE b").int(), 0);
    assert_eq!(waits.read().unwrap(), Value::Null, "it waited for what it may not take any more");
    assert!(say(&mut queues, "EXEC").text().starts_with("EXECABORT "));
    assert_eq!(say(&mut queues, "DQ.SIZE a.1").int(), 1);
    let unknown = say(&mut outside, &format!("AUTH bob {PASSWORD}")).text();
    assert!(unknown.starts_with("WRONGPASS "), "{unknown}");
    // One that always has begun a command is judged by the rights of now all the same.
    let mut busy = log_in(broker, "ann");
    busy.send_bytes(b"*2\r\n$7\r\nDQ.SIZE\r\n$3\r\na.").unwrap();
    filed.reload(&user("ann", "commands = ['+@read']\nqueues = ['b']"));
    busy.send_bytes(b"1\r\n").unwrap();
    let refused = busy.read().unwrap().text();
    assert!(refused.contains("no permissions to access the queue 'a.1'"), "{refused}");
    // Without users all may do all again; with them, nobody is `default` any more.
    filed.reload("");
    let mut all = broker.client();
    assert_eq!(say(&mut all, "DQ.SIZE a.1").int(), 1);
    assert_eq!(ann.read_to_end().unwrap(), b"");
    filed.reload(&both);
    assert_eq!(all.read_to_end().unwrap(), b"");
    assert!(say(&mut broker.client(), "DQ.SIZE a.1").text().starts_with("NOAUTH "));
    // A wrong table changes nothing.
    let mut bob = log_in(broker, "bob");
    let log = filed.reload(&user("ann", "commands = ['+@raed']"));
    assert!(log.contains(r#"users[0].commands of \"ann\" = \"+@RAED\": names neither"#), "{log}");
    assert_eq!(say(&mut bob, "DQ.SIZE a.1").int(), 1);
}

#[test]
fn an_idle_time_holds_for_those_who_are_idle_already() {
    let filed = Filed::start("");
    let mut idle = filed.broker.client();
    assert_eq!(say(&mut idle, "PING").text(), "PONG");
    filed.reload("[server]\nidle_timeout_s = 1\n");
    assert_eq!(idle.read_to_end().unwrap(), b"");
}

#[test]
fn the_level_of_the_log_changes() {
    let filed = Filed::start("[log]\nlevel = \"info\"\n");
    let log = filed.reload("[log]\nlevel = \"error\"\n");
    assert!(log.contains(r#""key":"log.level","old":"info","new":"error""#), "{log}");
    std::fs::write(filed.file(), "[log]\nlevel = \"debug\"\n").unwrap();
    let before = filed.broker.log().len();
    filed.broker.signal("HUP");
    let level = || say(&mut filed.broker.client(), "CONFIG GET log.level").texts();
    eventually("the level is another", || (level()[1] == "debug").then_some(()));
    assert_eq!(filed.broker.log().len(), before, "{}", filed.broker.log());
    let log = filed.reload("[log]\nlevel = \"info\"\n");
    assert!(log.contains(r#""old":"debug","new":"info""#), "{log}");
}

#[test]
fn what_needs_a_restart_is_named_and_stays() {
    let filed = Filed::start("");
    let log = filed.reload(
        "[redis]\nurl = \"redis://u:4711@localhost\"\n[managed]\nport = 1234\n\
         [scheduler]\ntransfer_ms_max = 3\n[server]\ngrace_s = 3\n",
    );
    let warned: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
    // The URL is a flag here, which is stronger than the file.
    assert_eq!(warned.len(), 2, "{log}");
    assert!(warned[0].contains(r#""key":"managed.port","old":"7381","new":"1234""#), "{log}");
    assert!(warned[1].contains("scheduler.transfer_ms_max"), "{log}");
    assert!(log.contains(r#""applied":1,"waiting":2"#), "{log}");
    let mut client = filed.broker.client();
    let shown = say(&mut client, "CONFIG GET scheduler.transfer_ms_max").texts();
    assert_eq!(shown[1], "2");
    assert_eq!(say(&mut client, "CONFIG GET server.grace_s").texts()[1], "3");
}

#[test]
fn a_wrong_file_changes_nothing_and_says_all_that_is_wrong() {
    let filed = Filed::start("[server]\nclients_max = 50\n");
    let mut client = filed.broker.client();
    filed.reload(
        "[server]\nclients_max = 60\ngrace_s = -1\npasword = \"x-4711\"\n\
         [limits]\nqueues_max = 0\n",
    );
    // Each mistake is a line of its own, and the first of them ends the wait of `reload`.
    for key in ["server.grace_s = -1", "limits.queues_max = 0", "server.pasword"] {
        eventually("all that is wrong is said", || {
            filed.broker.log().contains(&format!("SIGHUP: {key}")).then_some(())
        });
    }
    assert!(!filed.broker.log().contains("4711"), "{}", filed.broker.log());
    std::fs::remove_file(filed.file()).unwrap();
    filed.broker.signal("HUP");
    eventually("it misses the file", || {
        filed.broker.log().contains("cannot be read").then_some(())
    });
    assert_eq!(say(&mut client, "CONFIG GET server.clients_max").texts()[1], "50");
}

/// New connections get the new certificate; the others go on.
#[test]
fn a_renewed_certificate_needs_no_restart() {
    let authority = Authority::new();
    let identity = authority.issue();
    let settings = |port: &str| {
        let [_, certificate, key] = &identity.settings()[..] else {
            panic!("three settings");
        };
        format!(
            "[server]\ntls_listen = \"127.0.0.1:{port}\"\ntls_cert_file = {:?}\n\
             tls_key_file = {:?}\n",
            certificate.1, key.1
        )
    };
    let filed = Filed::start(&settings("0"));
    let address = filed.broker.tls_address();
    let connect = || TlsClient::connect(&address, &authority, None).unwrap();
    let mut old = connect();
    let first = identity.der();
    assert_eq!(old.shown(), first);
    authority.renew(&identity);
    assert!(filed.reload(&settings("0")).contains(r#""certificates_read":true"#));
    assert_eq!(connect().shown(), identity.der());
    assert_ne!(identity.der(), first);
    assert_eq!(old.say("PING").unwrap(), "+PONG");
    // A certificate whose key was not put beside it yet is not taken up.
    let other = authority.issue();
    let renewed = identity.der();
    std::fs::copy(other.certificate(), identity.certificate()).unwrap();
    let log = filed.reload(&settings("0"));
    assert!(log.contains("is not the key of the certificate"), "{log}");
    assert_eq!(connect().shown(), renewed);
    // The address stays; clients need a certificate from now on.
    std::fs::copy(other.key(), identity.key()).unwrap();
    let authorities = format!("tls_client_ca_file = {:?}\n", authority.file());
    let log = filed.reload(&(settings("1") + &authorities));
    assert!(log.contains(r#""key":"server.tls_listen""#), "{log}");
    let mut client = TlsClient::connect(&address, &authority, Some(&other)).unwrap();
    assert_eq!(client.shown(), other.der());
    assert_eq!(client.say("PING").unwrap(), "+PONG");
    let without = TlsClient::connect(&address, &authority, None);
    assert!(without.and_then(|mut client| client.say("PING")).is_err());
    assert_eq!(old.say("PING").unwrap(), "+PONG");
}

#[test]
fn a_hangup_while_it_stops_does_no_harm() {
    let filed = Filed::start("");
    let mut broker = filed.broker;
    broker.signal("HUP");
    broker.signal("TERM");
    broker.signal("HUP");
    assert!(broker.wait(SOON).success());
}

/// A limit that shrinks does not cut off who is in the middle of a command.
#[test]
fn a_command_that_was_begun_is_read_by_the_limits_it_began_with() {
    let filed = Filed::start("");
    let mut client = filed.broker.client();
    client.send_bytes(b"*2\r\n$4\r\nECHO\r\n").unwrap();
    assert_eq!(say(&mut filed.broker.client(), "PING").text(), "PONG");
    let small = "payload_bytes_max = 1024\nmoffer_bytes_max = 1024\nrequest_bytes_max = 65536\n";
    let log = filed.reload(&format!("[limits]\n{small}"));
    assert!(log.contains(r#""applied":3,"waiting":0"#), "{log}");
    let large = "x".repeat(100_000);
    client.send_bytes(format!("$100000\r\n{large}\r\n").as_bytes()).unwrap();
    assert_eq!(client.read().unwrap().text(), large);
    let refused = client.call(&["ECHO", &large]).unwrap().text();
    let rule = "more bytes than limits.request_bytes_max, 65536";
    assert_eq!(refused, format!("ERR Protocol error: invalid bulk length: {rule}"));
}
