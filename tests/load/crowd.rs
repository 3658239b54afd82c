//! Clients that mean harm, or might as well: each kind goes on until it is told to stop.
//!
//! Knows nothing of what is measured beside them. Keeps: no socket blocks; a client that was cut
//! off comes back, so that there are as many of them at the end as at the beginning.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

const SECOND: Duration = Duration::from_secs(1);
/// A pause where no socket takes or gives anything.
const PAUSE: Duration = Duration::from_micros(200);
const PIECE: usize = 64 * 1024;

/// Where to, how many, and how it goes.
pub struct Target<'a> {
    pub port: u16,
    pub clients: usize,
    /// Kinds of clients that are all there.
    pub ready: &'a AtomicUsize,
    pub stop: &'a AtomicBool,
}

impl Target<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    fn is_ready(&self) {
        self.ready.fetch_add(1, Relaxed);
    }

    fn open(&self) -> Outcome<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    fn sleep(&self, until: Instant) {
        while self.goes_on() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// Each of the clients sends `first`, then `again` once a second, and never reads.
pub fn never_read(
    target: &Target<'_>,
    first: impl Fn(usize) -> Vec<u8>,
    again: &[u8],
) -> Outcome<()> {
    let mut clients: Vec<Option<TcpStream>> = (0..target.clients).map(|_| None).collect();
    let mut round = Instant::now();
    while target.goes_on() {
        for (number, client) in clients.iter_mut().enumerate() {
            if !target.goes_on() {
                return Ok(());
            }
            match client {
                Some(stream) => {
                    if !again.is_empty() && !send(stream, again) {
                        *client = None;
                    }
                }
                None => {
                    let mut stream = target.open()?;
                    send(&mut stream, &first(number));
                    *client = Some(stream);
                }
            }
        }
        target.is_ready();
        round += SECOND;
        target.sleep(round);
    }
    Ok(())
}

/// As much as the socket takes; false where it is broken.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    // What is not taken is not sent again: such a client only has to send something.
    !stream.write_all(bytes).is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}

/// Each of the clients sends `chunk` again and again, as fast as it is taken, and reads replies.
pub fn flood(target: &Target<'_>, chunk: &[u8]) -> Outcome<()> {
    let mut clients = Vec::new();
    for _ in 0..target.clients {
        clients.push((target.open()?, 0));
    }
    target.is_ready();
    let mut replies = vec![0; PIECE];
    while target.goes_on() {
        let mut moved = false;
        for (stream, sent) in &mut clients {
            let rest = chunk.get(*sent..).unwrap_or_default();
            let wrote = stream.write(rest.get(..PIECE).unwrap_or(rest));
            let read = stream.read(&mut replies);
            if let Ok(bytes) = wrote {
                *sent = (*sent + bytes) % chunk.len();
            }
            if [&wrote, &read].into_iter().any(broken) || matches!(read, Ok(0)) {
                (*stream, *sent) = (target.open()?, 0);
            }
            moved |= wrote.is_ok() || read.is_ok();
        }
        if !moved {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn broken(result: &std::io::Result<usize>) -> bool {
    matches!(result, Err(error) if error.kind() != ErrorKind::WouldBlock)
}

/// `clients` connections a second that come, send `first` and go.
pub fn come_and_go(target: &Target<'_>, first: &[u8]) -> Outcome<()> {
    target.is_ready();
    let (started, mut opened) = (Instant::now(), 0);
    while target.goes_on() {
        let due = started.elapsed().as_secs_f64() * target.clients as f64;
        if f64::from(opened) >= due {
            thread::sleep(PAUSE);
            continue;
        }
        let mut stream = target.open()?;
        if !first.is_empty() {
            send(&mut stream, first);
        }
        opened += 1;
    }
    Ok(())
}
