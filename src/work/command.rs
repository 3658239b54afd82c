//! Runs the command for one message: payload on stdin, facts in the environment, the last line of
//! stderr as the reason.
//!
//! Stdin is a file in memory and not a pipe: the payload is whole even if the worker is killed
//! while the command reads, and a command that does not read holds nobody up. Stdout is that of the
//! worker, so nothing of it passes through here. Of stderr no more than a line is kept. Each
//! command leads a process group of its own, so that its children end with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::message::Message;
use super::outcome::{self, Done, Exit, LastLine};
use super::settings::PASSWORD_VARIABLE;

/// Time between TERM and KILL.
pub const TERM_WITHIN: Duration = Duration::from_secs(5);
/// Time to read the end of stderr, if a process that the command left behind holds it open.
const LAST_WITHIN: Duration = Duration::from_millis(200);
/// Bytes of one read of stderr.
const READ_BYTES: usize = 16 << 10;
/// Lines of one command that are logged.
const LINES_MAX: u32 = 1_000;

/// The process groups that run.
#[derive(Clone, Default)]
pub struct Groups(Rc<RefCell<BTreeSet<i32>>>);

impl Groups {
    /// Ends all of them at once.
    pub fn kill(&self) {
        for id in self.0.borrow().iter() {
            signal(*id, Signal::KILL);
        }
    }

    fn enter(&self, id: i32) -> Entered {
        self.0.borrow_mut().insert(id);
        Entered(self.clone(), id)
    }
}

struct Entered(Groups, i32);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.borrow_mut().remove(&self.1);
    }
}

/// A group that is gone needs no signal.
fn signal(id: i32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id) {
        let _ = kill_process_group(id, signal);
    }
}

/// Why a command has to end before its time.
enum Cut {
    Timeout,
    Stop,
}

/// Runs `words` for `longest`, or until `stop`.
pub async fn handle(
    words: &[String],
    message: &Message,
    longest: Duration,
    groups: &Groups,
    stop: impl Future<Output = ()>,
) -> Done {
    let (program, arguments) = match words.split_first() {
        Some((program, arguments)) => (program.as_str(), arguments),
        None => ("", Default::default()),
    };
    let started = stdin(&message.payload)
        .and_then(|stdin| command(program, arguments, message).stdin(stdin).spawn());
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return outcome::of_spawn_error(&error, program),
    };
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let _entered = groups.enter(id);
    let stderr = child.stderr.take();
    let mut last = LastLine::default();
    let (status, cut) = {
        let mut reading = pin!(read(stderr, &mut last, message));
        let mut end = pin!(async {
            let cut = tokio::select! {
                status = child.wait() => return (status, None),
                () = sleep(longest) => Cut::Timeout,
                () = stop => Cut::Stop,
            };
            (terminate(&mut child, id).await, Some(cut))
        });
        tokio::select! {
            () = &mut reading => end.await,
            ended = &mut end => {
                let _ = timeout(LAST_WITHIN, reading).await;
                ended
            }
        }
    };
    match (cut, status) {
        (Some(Cut::Timeout), _) => Done::timeout(),
        (Some(Cut::Stop), _) => Done::silent(),
        (None, Ok(status)) => outcome::of_exit(exit(status), &last.reason()),
        (None, Err(error)) => Done::failed(format!("the command was lost: {error}")),
    }
}

fn command(program: &str, arguments: &[String], message: &Message) -> Command {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_remove(PASSWORD_VARIABLE)
        .env("DQ_ID", text(&message.id))
        .env("DQ_RECEIPT", text(&message.receipt))
        .env("DQ_ATTEMPT", message.attempt.to_string())
        .env("DQ_QUEUE", text(&message.queue))
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for (name, value) in &message.headers {
        // No variable can hold a NUL.
        if !value.contains(&0) {
            command.env(variable(name), text(value));
        }
    }
    command
}

/// `X-Trace id` is DQ_HEADER_X_TRACE_ID.
fn variable(header: &[u8]) -> String {
    let letter = |b: &u8| if b.is_ascii_alphanumeric() { b.to_ascii_uppercase() } else { b'_' };
    let name: Vec<u8> = header.iter().map(letter).collect();
    format!("DQ_HEADER_{}", String::from_utf8_lossy(&name))
}

/// The payload, from its beginning.
fn stdin(payload: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("payload", MemfdFlags::CLOEXEC)?);
    file.write_all(payload)?;
    file.rewind()?;
    Ok(file)
}

async fn read(stderr: Option<ChildStderr>, last: &mut LastLine, message: &Message) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = vec![0; READ_BYTES];
    let mut lines = 0;
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        last.push(buffer.get(..count).unwrap_or_default(), |line| {
            lines += 1;
            if lines <= LINES_MAX {
                debug!(id = message.id(), "stderr: {}", outcome::reason(line));
            }
        });
    }
}

/// TERM to all of the group, and KILL to those that do not end.
async fn terminate(child: &mut Child, id: i32) -> io::Result<ExitStatus> {
    signal(id, Signal::TERM);
    let ended = timeout(TERM_WITHIN, child.wait()).await;
    signal(id, Signal::KILL);
    match ended {
        Ok(status) => status,
        Err(_) => child.wait().await,
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_variables() {
        let rows = [
            ("trace", "DQ_HEADER_TRACE"),
            ("X-Trace id", "DQ_HEADER_X_TRACE_ID"),
            ("a=b\0\u{e9}", "DQ_HEADER_A_B___"),
            ("", "DQ_HEADER_"),
        ];
        for (header, name) in rows {
            assert_eq!(variable(header.as_bytes()), name, "{header}");
        }
    }
}
