//! How a handler ended -> how its message is settled. Pure: tables in, no process and no socket.

use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

use crate::domain::lease::{NackMode, REASON_BYTES_MAX};

/// EX_DATAERR of sysexits.h: the message can never be handled.
const DATA: i32 = 65;
/// How shells say that a program cannot be run, or is not there.
const NO_PROGRAM: [i32; 2] = [126, 127];
/// Bounds of a wait that a server asks for.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(86_400);
/// The wait before a message is handed out again that this machine had no room for.
const NO_ROOM: Duration = Duration::from_secs(1);
/// Statuses of 4xx that may change without another message.
const PASSING: [u16; 6] = [401, 403, 404, 408, 425, 429];

/// What to say to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    Ack,
    Nack {
        mode: NackMode,
        /// `None`: the queue's own wait.
        delay: Option<Duration>,
        /// One line of at most [`REASON_BYTES_MAX`] bytes; empty = none.
        reason: String,
    },
}

/// How it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Acked,
    Failed,
    Fatal,
    /// Given back, without an attempt that counts.
    Silent,
    Timeout,
}

impl Label {
    pub const ALL: [(Self, &str); 5] = [
        (Self::Acked, "acked"),
        (Self::Failed, "failed"),
        (Self::Fatal, "fatal"),
        (Self::Silent, "silent"),
        (Self::Timeout, "timeout"),
    ];
}

/// The end of one handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub settle: Settle,
    pub label: Label,
    /// The handler can work for no message, if it did for none before: the worker ends, and says
    /// this.
    pub unfit: Option<String>,
}

impl Done {
    pub fn acked() -> Self {
        Self { settle: Settle::Ack, label: Label::Acked, unfit: None }
    }

    /// The attempt counts, and more may follow.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::nack(NackMode::Fail, Label::Failed, reason)
    }

    /// The message is dead.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Self::nack(NackMode::Fatal, Label::Fatal, reason)
    }

    pub fn timeout() -> Self {
        Self::nack(NackMode::Fail, Label::Timeout, "timeout")
    }

    /// Back to the queue as if it had not been taken.
    pub fn silent() -> Self {
        Self::nack(NackMode::Silent, Label::Silent, "")
    }

    fn nack(mode: NackMode, label: Label, reason: impl Into<String>) -> Self {
        Self {
            settle: Settle::Nack { mode, delay: None, reason: reason.into() },
            label,
            unfit: None,
        }
    }

    fn after(mut self, wait: Duration) -> Self {
        if let Settle::Nack { delay, .. } = &mut self.settle {
            *delay = Some(wait);
        }
        self
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// `last` is the last line that the command wrote to stderr.
pub fn of_exit(exit: Exit, last: &str) -> Done {
    let reason = |code| match last {
        "" => format!("exit code {code}"),
        last => last.to_owned(),
    };
    match exit {
        Exit::Code(0) => Done::acked(),
        Exit::Code(DATA) => Done::fatal(reason(DATA)),
        Exit::Code(code) if NO_PROGRAM.contains(&code) => {
            // The attempt counts, since another message may do without that program: a message that
            // stops the worker at each start must come to an end.
            let unfit = format!("the command ended with {code}: a program is missing; {last}");
            Done { unfit: Some(unfit), ..Done::failed(reason(code)) }
        }
        Exit::Code(code) => Done::failed(reason(code)),
        Exit::Signal(signal) => Done::failed(format!("signal {signal}")),
    }
}

/// The command could not be started. If it is not there or no program, no message can be handled;
/// if the machine has no room for a process, it may have some later.
pub fn of_spawn_error(error: &io::Error, program: &str) -> Done {
    const ENOEXEC: i32 = 8;
    let unfit = || format!("the command {program} cannot be started: {error}");
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory => Done { unfit: Some(unfit()), ..Done::silent() },
        _ if error.raw_os_error() == Some(ENOEXEC) => {
            Done { unfit: Some(unfit()), ..Done::silent() }
        }
        // The headers of this message are beyond what an environment may hold.
        ErrorKind::ArgumentListTooLong | ErrorKind::InvalidInput => Done::failed(unfit()),
        _ => Done::silent().after(NO_ROOM),
    }
}

/// `retry_after` is that header, as it came.
pub fn of_status(status: u16, retry_after: Option<&str>, now: SystemTime) -> Done {
    let reason = format!("HTTP {status}");
    match status {
        200..=299 => Done::acked(),
        300..=399 => Done::failed(format!("{reason}: redirects are not followed")),
        429 | 503 => match retry_after.and_then(|text| wait(text, now)) {
            Some(wait) => Done::failed(reason).after(wait),
            None => Done::failed(reason),
        },
        400..=499 if !PASSING.contains(&status) => Done::fatal(reason),
        _ => Done::failed(reason),
    }
}

/// Seconds, or a date of HTTP.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let wait = match text.parse() {
        Ok(seconds) if digits => Duration::from_secs(seconds),
        Err(_) if digits => RETRY_MAX,
        _ => {
            let date = httpdate::parse_http_date(text).ok()?;
            date.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.clamp(RETRY_MIN, RETRY_MAX))
}

/// Bytes of others as a reason: one line, nothing that a terminal would obey, and not too long.
pub fn reason(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let visible = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut line: String = text.trim().chars().map(visible).collect();
    let end = (0..=REASON_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(end.unwrap_or(0));
    line
}

/// The last line that is not blank, of bytes that come in pieces; keeps no more than it needs.
#[derive(Debug, Default)]
pub struct LastLine {
    current: Vec<u8>,
    last: Vec<u8>,
}

impl LastLine {
    /// `said` gets each line that is complete and not blank, cut as a reason is.
    pub fn push(&mut self, bytes: &[u8], mut said: impl FnMut(&[u8])) {
        let mut lines = bytes.split(|b| matches!(b, b'\n' | b'\r'));
        self.append(lines.next().unwrap_or_default());
        for line in lines {
            if self.end() {
                said(&self.last);
            }
            self.append(line);
        }
    }

    pub fn reason(mut self) -> String {
        self.end();
        reason(&self.last)
    }

    fn append(&mut self, part: &[u8]) {
        let room = REASON_BYTES_MAX.saturating_sub(self.current.len());
        self.current.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// True if there was a line.
    fn end(&mut self) -> bool {
        let is_line = !self.current.trim_ascii().is_empty();
        if is_line {
            std::mem::swap(&mut self.current, &mut self.last);
        }
        self.current.clear();
        is_line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfit(done: Done) -> bool {
        assert_eq!(Done { unfit: None, ..done.clone() }, Done::silent(), "nothing is burnt");
        done.unfit.is_some()
    }

    #[test]
    fn exits() {
        #[rustfmt::skip]
        let rows = [
            (Exit::Code(0), "noise", Done::acked()),
            (Exit::Code(65), "no such order", Done::fatal("no such order")),
            (Exit::Code(65), "", Done::fatal("exit code 65")),
            (Exit::Code(75), "later", Done::failed("later")),
            (Exit::Code(1), "", Done::failed("exit code 1")),
            (Exit::Code(255), "x", Done::failed("x")),
            (Exit::Signal(9), "noise", Done::failed("signal 9")),
        ];
        for (exit, last, done) in rows {
            assert_eq!(of_exit(exit, last), done, "{exit:?} {last}");
        }
        for (code, last) in [(126, ""), (127, "sh: x: not found")] {
            let done = of_exit(Exit::Code(code), last);
            assert!(done.unfit.is_some() && done.label == Label::Failed, "{done:?}");
        }
    }

    #[test]
    fn commands_that_do_not_start() {
        // ENOENT, EACCES, ENOEXEC, ENOTDIR.
        for number in [2, 13, 8, 20] {
            assert!(unfit(of_spawn_error(&io::Error::from_raw_os_error(number), "x")), "{number}");
        }
        // E2BIG.
        let long = of_spawn_error(&io::Error::from_raw_os_error(7), "x");
        assert_eq!((long.label, long.unfit), (Label::Failed, None));
        // EAGAIN, ENOMEM, EMFILE.
        for number in [11, 12, 24] {
            let done = of_spawn_error(&io::Error::from_raw_os_error(number), "x");
            assert_eq!(done, Done::silent().after(NO_ROOM), "{number}");
        }
    }

    #[test]
    fn statuses() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let fatal = [400, 402, 405, 406, 409, 410, 411, 413, 415, 418, 422, 451, 499];
        let failed = [401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504, 599, 600, 999, 100];
        for status in 200..300 {
            assert_eq!(of_status(status, Some("5"), now), Done::acked());
        }
        for status in 300..400 {
            assert_eq!(of_status(status, Some("5"), now).label, Label::Failed, "{status}");
        }
        for status in fatal {
            assert_eq!(of_status(status, Some("5"), now), Done::fatal(format!("HTTP {status}")));
        }
        for status in failed {
            assert_eq!(of_status(status, None, now), Done::failed(format!("HTTP {status}")));
        }
    }

    #[test]
    fn waits_that_servers_ask_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        #[rustfmt::skip]
        let rows = [
            ("5", Some(5)), (" 5 ", Some(5)), ("0", Some(1)), ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("", None), ("-1", None), ("+5", None), ("1.5", None), ("soon", None),
            // 2001-09-09T01:46:40Z is now.
            ("Sun, 09 Sep 2001 01:46:50 GMT", Some(10)),
            ("Sun, 09 Sep 2001 01:46:30 GMT", Some(1)),
            ("Mon, 09 Sep 2002 01:46:40 GMT", Some(86_400)),
            ("Sunday, 09-Sep-01 01:46:50 GMT", Some(10)),
        ];
        for (text, seconds) in rows {
            let wait = seconds.map(Duration::from_secs);
            for status in [429, 503] {
                let Settle::Nack { delay, .. } = of_status(status, Some(text), now).settle else {
                    panic!("{text}");
                };
                assert_eq!(delay, wait, "{text}");
            }
        }
        let other = of_status(500, Some("5"), now);
        assert_eq!(other, Done::failed("HTTP 500"), "only where it means something");
    }

    #[test]
    fn last_lines() {
        let long = "x".repeat(REASON_BYTES_MAX + 1);
        #[rustfmt::skip]
        let rows: [(&[&str], String); 9] = [
            (&[], String::new()),
            (&["a\nb\n"], "b".into()),
            (&["a\nb"], "b".into()),
            (&["a\r\n", "\r\n \n\n"], "a".into()),
            (&["one ", "line", "\nand an", "other"], "and another".into()),
            (&["10%\r20%\r"], "20%".into()),
            (&["\x1b[31mred\x1b[0m\t\0!\n"], "[31mred [0m  !".into()),
            (&[&long], "x".repeat(REASON_BYTES_MAX)),
            (&[&long, "y\n", "z"], "z".into()),
        ];
        for (pieces, line) in rows {
            let mut last = LastLine::default();
            pieces.iter().for_each(|piece| last.push(piece.as_bytes(), |_| ()));
            assert!(last.current.len() <= REASON_BYTES_MAX);
            assert_eq!(last.reason().trim(), line.trim(), "{pieces:?}");
        }
        let cut = reason("é".repeat(300).as_bytes());
        assert_eq!(cut, "é".repeat(REASON_BYTES_MAX / 2));
        // Each byte that is no UTF-8 becomes a character of three.
        assert!(reason(&[0xff; REASON_BYTES_MAX]).len() <= REASON_BYTES_MAX);
    }
}
