//! The line that shows the progress, where stderr is a terminal.

use crate::stage::{Stage, eventually, offer};
use crate::support::process::signal;
use crate::support::wait::within;
use crate::worker::{acked, waiting};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The worker ends with its terminal, and that with its owner, however the test ends.
struct Terminal(std::process::Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_terminal_shows_the_progress() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let dir = tempfile::tempdir().unwrap();
    let command = format!(
        "echo $$ > '{dir}/pid'; exec '{program}' work q --broker redis://{broker} -- \
         sh -c '[ \"$(cat)\" = good ]'",
        dir = dir.path().display(),
        program = env!("CARGO_BIN_EXE_delay-broker"),
        broker = stage.broker.address(),
    );
    // It makes a terminal, and notes what is shown there.
    let shown = dir.path().join("shown");
    let terminal = Command::new("script")
        .args(["-q", "-e", "-f", "-c", &command, shown.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut terminal = Terminal(terminal);
    let shows = |words: &str| {
        let read = || String::from_utf8_lossy(&std::fs::read(&shown).unwrap_or_default()).into();
        eventually(words, || Some(read()).filter(|text: &String| text.contains(words)))
    };
    let none = "\r\x1b[Kq: 0 of 8 active, 0 done, 0 failed, 0 dead, 0 timed out, 0 given back\r";
    shows(none);
    offer(&mut client, &["q", "0", "good"]);
    offer(&mut client, &["q", "0", "bad"]);
    acked(&mut client, 1);
    eventually("the other one failed", || (waiting(&mut client).len() == 1).then_some(()));
    let text = shows(&none.replace("0 done, 0 failed", "1 done, 1 failed"));
    // A line of the log takes the place of what is shown.
    let log = text.lines().find(|line| line.contains("exit code 1")).unwrap();
    let log = log.trim_end().rsplit('\r').next().unwrap();
    assert!(log.contains("WARN") && !log.contains("active"), "{log:?}");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    signal(pid.trim().parse().unwrap(), "TERM");
    let wait = || terminal.0.try_wait().unwrap();
    let ended = within(Duration::from_secs(30), wait, Option::is_some);
    assert_eq!(ended.unwrap().code(), Some(0));
}
