//! The unit of systemd: systemd has nothing to say against it, and the broker tells it when it is
//! ready and when it stops.

use crate::stage::SOON;
use crate::support::broker::Broker;
use crate::support::redis;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/delay-broker.service");
const PROGRAM: &str = "/usr/local/bin/delay-broker";
/// Of ten, the worst; what is left is that the broker uses the network and starts its Redis.
const EXPOSURE_MAX: f64 = 1.5;

#[test]
fn systemd_finds_no_fault() {
    let unit = fs::read_to_string(UNIT).unwrap();
    assert!(unit.contains(PROGRAM));
    // The program of this test stands for the one that is installed.
    let unit = unit.replace(PROGRAM, env!("CARGO_BIN_EXE_delay-broker"));
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("delay-broker.service");
    fs::write(&copy, unit).unwrap();
    let analyze = |args: &[&str], file: &Path| {
        let output = Command::new("systemd-analyze").args(args).arg(file).output();
        let Ok(output) = output else {
            eprintln!("not checked: there is no systemd-analyze here");
            return None;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complaints) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{said}{complaints}");
        Some((said, complaints))
    };
    if let Some((_, complaints)) = analyze(&["verify"], &copy) {
        assert_eq!(complaints, "");
    }
    let offline = ["security", "--offline=yes", "--no-pager"];
    if let Some((said, _)) = analyze(&offline, &copy) {
        let (_, level) = said.split_once("delay-broker.service: ").unwrap();
        let level: f64 = level.split(' ').next().unwrap().parse().unwrap();
        assert!(level <= EXPOSURE_MAX, "{said}");
    }
}

/// Once by a path, once by a name without a file, as systemd may give either.
#[test]
fn it_says_when_it_is_ready_and_when_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify").display().to_string();
    let name = format!("delay-broker-test-{}", std::process::id());
    let nameless = SocketAddr::from_abstract_name(&name).unwrap();
    for (socket, listener) in [
        (path.clone(), UnixDatagram::bind(&path).unwrap()),
        (format!("@{name}"), UnixDatagram::bind_addr(&nameless).unwrap()),
    ] {
        listener.set_read_timeout(Some(SOON)).unwrap();
        let heard = || {
            let mut bytes = [0; 1024];
            let length = listener.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        let url = redis::shared().url(redis::shared().fresh_database());
        let mut broker = Broker::with_env(&["--redis", &url], &[("NOTIFY_SOCKET", &socket)]);
        assert_eq!(heard(), format!("READY=1\nSTATUS={}", broker.ready_line()));
        broker.signal("TERM");
        assert_eq!(heard(), "STOPPING=1");
        assert!(broker.wait(SOON).success());
    }
}
