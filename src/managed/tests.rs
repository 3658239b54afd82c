//! A real Redis in a directory of its own: started, left, adopted, lost, stopped, refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

/// Far beyond what any step takes, near enough to end a test that hangs.
const DEADLINE: Duration = Duration::from_secs(30);

fn settings(dir: &Path) -> config::Managed {
    let dir = dir.to_str().unwrap();
    let settings = [("managed.data_dir", dir), ("managed.port", "0")];
    config::Config::with(&settings).unwrap().managed
}

async fn text(managed: &Managed, question: &str) -> String {
    match ask(&managed.socket, question, DEADLINE).await.unwrap() {
        Answer::Text(text) => text,
        other => panic!("{question}: {other:?}"),
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.unwrap() });
}

/// A broker that dies leaves its Redis; the next start adopts it, with its data and its port,
/// and brings its settings in line; a stop ends the process.
#[test]
fn started_left_adopted_stopped() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let first = start(&settings(dir.path())).await.unwrap();
        assert!(!first.adopted);
        assert_eq!(text(&first, "SET key value").await, "OK");
        for (name, value) in [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
            ("save", ""),
        ] {
            assert_eq!(setting(&first.socket, name).await.as_deref(), Some(value), "{name}");
        }
        assert!(!port_is_free(first.port));
        let (pid, port) = (first.pid().unwrap(), first.port);
        text(&first, "CONFIG SET appendfsync everysec").await;
        drop(first);

        let second = start(&settings(dir.path())).await.unwrap();
        assert!(second.adopted);
        assert_eq!((second.pid(), second.port), (Some(pid), port));
        assert_eq!(setting(&second.socket, "appendfsync").await.as_deref(), Some("always"));
        second.stop().await.unwrap();
        assert!(port_is_free(port));

        let third = start(&settings(dir.path())).await.unwrap();
        assert!(!third.adopted);
        assert_eq!(text(&third, "GET key").await, "value");
        third.stop().await.unwrap();
    });
}

/// Killed while watched, as a child and as an adopted one: back at the same port with its data.
#[test]
fn restarted_when_it_dies() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let mut managed = start(&settings(dir.path())).await.unwrap();
        assert_eq!(text(&managed, "SET key value").await, "OK");
        let port = managed.port;
        for adopted in [false, true] {
            if adopted {
                drop(managed);
                managed = start(&settings(dir.path())).await.unwrap();
            }
            assert_eq!(managed.adopted, adopted);
            let pid = managed.pid().unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            managed.revive_once().await;
            assert_eq!(text(&managed, "GET key").await, "value");
            assert_eq!(setting(&managed.socket, "port").await, Some(port.to_string()));
            assert_ne!(managed.pid(), Some(pid));
        }
        managed.stop().await.unwrap();
    });
}

/// Killed while it waits for the disk, it takes connections until it is gone: nobody to adopt.
#[test]
fn one_that_is_dying_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let dying = std::os::unix::net::UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    let dies = std::thread::spawn(move || drop(dying.accept()));
    run(async {
        let begun = Instant::now();
        let managed = start(&settings(dir.path())).await.unwrap();
        assert!(!managed.adopted);
        assert!(begun.elapsed() < ANSWER_WITHIN / 2);
        managed.stop().await.unwrap();
    });
    dies.join().unwrap();
}

/// After a crash its number may be that of a shell that somebody opened in the directory.
#[test]
fn another_process_with_its_number_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut other =
        std::process::Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
    std::fs::write(dir.path().join(PID), other.id().to_string()).unwrap();
    run(async {
        let managed = start(&settings(dir.path())).await.unwrap();
        assert!(!managed.adopted);
        managed.stop().await.unwrap();
    });
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Dropped in the middle of a restart: what was started ends, and the next start has its way.
#[test]
fn a_watch_given_up_leaves_nothing_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let mut managed = start(&settings(dir.path())).await.unwrap();
        let pid = managed.pid().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        let socket = managed.socket.clone();
        let answers = async {
            while ask(&socket, "PING", ANSWER_MAX).await.is_err()
                || std::fs::read_to_string(dir.path().join(PID))
                    .is_ok_and(|seen| seen.trim() == pid.to_string())
            {
                sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            never = managed.watch() => match never {},
            () = answers => {}
        }
        managed.stop().await.unwrap();
        start(&settings(dir.path())).await.unwrap().stop().await.unwrap();
    });
}

#[test]
fn refusals() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut wrong = settings(dir.path());
        wrong.port = port;
        let error = start(&wrong).await.unwrap_err().to_string();
        assert!(error.contains(&format!("port {port}")) && error.contains("--managed-port"));

        let mut wrong = settings(dir.path());
        wrong.program = Some("no-such-server".into());
        let error = start(&wrong).await.unwrap_err().to_string();
        assert!(error.contains("apt-get install redis-server"), "{error}");

        // Files that no version can read: its log says why it ended.
        let broken = tempfile::tempdir().unwrap();
        std::fs::create_dir(broken.path().join("appendonlydir")).unwrap();
        for file in ["appendonlydir/appendonly.aof.manifest", "appendonly.aof"] {
            std::fs::write(broken.path().join(file), "garbage\n").unwrap();
        }
        let error = start(&settings(broken.path())).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 1") && error.contains("AOF"), "{error}");

        wrong.data_dir = "/proc/none".into();
        let error = start(&wrong).await.unwrap_err().to_string();
        assert!(error.contains("/proc/none") && error.contains("--data-dir"), "{error}");

        let first = start(&settings(dir.path())).await.unwrap();
        let error = start(&settings(dir.path())).await.unwrap_err().to_string();
        let pid = std::process::id();
        assert!(error.contains(&format!("another delay-broker (process {pid})")), "{error}");
        first.stop().await.unwrap();
    });
}

/// The kernel takes 107 bytes of path.
#[test]
fn a_long_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("d".repeat(120));
    run(async {
        let managed = start(&settings(&long)).await.unwrap();
        assert!(managed.socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        managed.stop().await.unwrap();
    });
}

#[test]
fn versions() {
    #[rustfmt::skip]
    let rows = [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", Some((7, 0))),
        ("Valkey server v=8.1.0 sha=00000000:0", Some((8, 1))),
        ("Redis server v=6.0.16 sha=00000000:0", Some((6, 0))),
        ("Redis server version 2.4.5", None),
        ("", None),
    ];
    for (text, version) in rows {
        assert_eq!(version_of(text), version, "{text}");
    }
}

#[test]
fn a_directory_without_rights_names_its_owner_and_what_helps() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let owner = path.metadata().unwrap().uid();
    let denied = |path: &Path, kind: io::ErrorKind| {
        let (path, error) = (path.to_owned(), kind.into());
        ManagedError::DataDir { path, error }.to_string()
    };
    let said = denied(&path.join("not/there"), io::ErrorKind::PermissionDenied);
    let shown = path.display();
    let parts = [
        format!("{shown} belongs to user {owner} (mode 700), and this process is user {owner}"),
        format!("docker run -v NAME:{shown}"),
        format!("--tmpfs {shown}:uid={owner},gid="),
    ];
    for part in parts {
        assert!(said.contains(&part), "{said}");
    }
    let said = denied(&path, io::ErrorKind::ReadOnlyFilesystem);
    assert!(said.contains(&format!("(docker run -v NAME:{shown})")), "{said}");
    let said = denied(&path, io::ErrorKind::NotADirectory);
    assert!(!said.contains("docker") && said.contains("--data-dir"), "{said}");
}

#[test]
fn of_a_long_log_the_end_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let lines: Vec<String> = (0..10_000).map(|n| format!("line {n}")).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let last: Vec<String> = (9_995..10_000).map(|n| format!("  line {n}")).collect();
    assert_eq!(tail(&path), last.join("\n"));
    std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
    assert_eq!(tail(&path).len(), 2 + 4096);
}
