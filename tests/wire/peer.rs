//! One end of a raw connection, and tables of what goes over it. Encodes and decodes nothing: the
//! bytes stand in the tests.
//!
//! In what is sent and in what is expected `«q»` is the queue of this run, five bytes long. In what
//! is expected `«a|b»` is a in RESP2 and b in RESP3, and these stand for what differs each time:
//! `«id»` a message id, `«hex»` its 16 digits, `«ms»` a Unix time in milliseconds, `«int»` an
//! integer, `«text»` the rest of a line, `«lines»` anything.

use crate::support::broker::Broker;
use crate::support::wait::WITHIN;
use crate::support::{redis, resp};
use regex::bytes::Regex;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A broker, and where it keeps its messages.
pub struct Place {
    pub broker: Broker,
    pub database: u32,
}

impl Place {
    /// On the Redis of this process, with settings of its own.
    pub fn spawn(settings: &[(&str, &str)]) -> Place {
        let database = redis::shared().fresh_database();
        let broker = Broker::spawn(&redis::shared().url(database), settings);
        Place { broker, database }
    }

    /// A client of the backing Redis, in the broker's database.
    pub fn backing(&self) -> resp::Client {
        redis::shared().client(self.database)
    }

    pub fn peer(&self) -> Peer {
        Peer::connect(&self.broker)
    }

    /// Records that a queue keeps no order list.
    pub fn drop_list(&self, queue: &str) {
        let key = format!("delay_broker_queue:{{{queue}}}");
        let record = ["HSET", &key, "name", queue, "order_list", "off"];
        self.backing().call(&record).unwrap();
    }

    /// A peer that speaks RESP3.
    pub fn peer3(&self) -> Peer {
        let mut peer = self.peer();
        peer.speak3();
        peer
    }
}

/// The broker that most tests share, with default settings, but that it leaves a busy machine time.
pub fn shared() -> &'static Place {
    static SHARED: OnceLock<Place> = OnceLock::new();
    SHARED.get_or_init(|| Place::spawn(&[("redis.call_timeout_ms", "9000")]))
}

/// A queue that no other test uses, five bytes long.
pub fn fresh_queue() -> String {
    static USED: AtomicU32 = AtomicU32::new(0);
    format!("q{:04}", USED.fetch_add(1, Ordering::Relaxed))
}

/// A connection. When it is dropped, it must still be there, with nothing left to read.
pub struct Peer {
    stream: TcpStream,
    got: Vec<u8>,
    pub queue: String,
    resp3: bool,
    /// The test is done with it in another way.
    done: bool,
    log: PathBuf,
}

impl Peer {
    pub fn connect(broker: &Broker) -> Peer {
        let stream = TcpStream::connect(broker.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(WITHIN)).unwrap();
        let log = broker.log_file();
        Peer { stream, got: Vec::new(), queue: fresh_queue(), resp3: false, done: false, log }
    }

    fn speak3(&mut self) {
        self.sends("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        self.gets("%7\r\n«lines»modules\r\n*0\r\n");
        self.resp3 = true;
    }

    /// Writes bytes as they are, but for `«q»`.
    pub fn sends(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = replace(bytes.as_ref(), "«q»", &self.queue);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Writes from a thread, for more than both sides can hold.
    pub fn sends_beside(&mut self, bytes: Vec<u8>) -> JoinHandle<()> {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || stream.write_all(&bytes).unwrap())
    }

    /// The same where the other side may close before it took all of it.
    pub fn tries_beside(&mut self, bytes: Vec<u8>) -> JoinHandle<()> {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || drop(stream.write_all(&bytes)))
    }

    /// As they are, and whether the other side took all of it before it closed.
    pub fn tries_to_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Reads exactly this, and gives the parts that differ each time.
    pub fn gets(&mut self, expected: &str) -> Vec<String> {
        let pattern = self.pattern(expected);
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(found) = pattern.captures(&self.got) {
                let part =
                    |part: regex::bytes::Match| String::from_utf8_lossy(part.as_bytes()).into();
                let parts = found.iter().skip(1).flatten().map(part).collect();
                let length = found.get(0).unwrap().len();
                self.got.drain(..length);
                return parts;
            }
            if let Err(end) = self.read_some(deadline) {
                let got = shown(&self.got);
                panic!("expected {}\n     got {got}\n         then {end}", expected.escape_debug());
            }
        }
    }

    /// Reads exactly these bytes.
    pub fn gets_bytes(&mut self, expected: &[u8]) {
        while self.got.len() < expected.len() {
            if let Err(end) = self.read_some(Instant::now() + WITHIN) {
                panic!("expected {} bytes, got {}, then {end}", expected.len(), self.got.len());
            }
        }
        let rest = self.got.split_off(expected.len());
        if self.got != expected {
            let at = expected.iter().zip(&self.got).position(|(a, b)| a != b).unwrap();
            let end = expected.len().min(at + 80);
            panic!("at {at}: {} is not {}", shown(&self.got[at..end]), shown(&expected[at..end]));
        }
        self.got = rest;
    }

    /// Reads so many message ids; what `gets` does, but faster.
    pub fn gets_ids(&mut self, count: usize) -> Vec<String> {
        const SIZE: usize = "$30\r\n\r\n".len() + 30;
        while self.got.len() < count * SIZE {
            if let Err(end) = self.read_some(Instant::now() + WITHIN) {
                panic!("of {count} ids got {}, then {end}", shown(&self.got));
            }
        }
        let rest = self.got.split_off(count * SIZE);
        let all = std::mem::replace(&mut self.got, rest);
        let id = Regex::new("^[$]30\r\n([0-9]{13}-[0-9a-f]{16})\r\n$").unwrap();
        let text = |reply| match id.captures(reply) {
            Some(found) => String::from_utf8_lossy(&found[1]).into_owned(),
            None => panic!("not an id: {}", shown(reply)),
        };
        all.chunks(SIZE).map(text).collect()
    }

    /// Reads until the other side closes, and gives what came before that.
    pub fn gets_until_end(&mut self) -> Vec<u8> {
        self.done = true;
        let deadline = Instant::now() + WITHIN;
        loop {
            match self.read_some(deadline) {
                Ok(()) => {}
                Err(End::Closed) => return std::mem::take(&mut self.got),
                Err(End::Silent) => panic!("not closed after {}", shown(&self.got)),
            }
        }
    }

    /// Reads this and then the end of the connection.
    pub fn gets_end(&mut self, expected: &str) {
        self.gets(expected);
        assert_eq!(shown(&self.gets_until_end()), "", "before the end");
    }

    /// Says that nothing more will come, as `nc` does at the end of its input.
    pub fn sends_end(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Leaves, whatever is still to come.
    pub fn leave(mut self) {
        self.done = true;
    }

    fn read_some(&mut self, deadline: Instant) -> Result<(), End> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(End::Silent);
        }
        self.stream.set_read_timeout(Some(left)).unwrap();
        let mut some = [0; 64 * 1024];
        match self.stream.read(&mut some) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.got.extend(&some[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(End::Closed),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(End::Silent),
        }
    }

    fn pattern(&self, expected: &str) -> Regex {
        let mut pattern = String::from("^(?s-u)");
        let mut rest = expected;
        while let Some((literal, tail)) = rest.split_once('«') {
            let (word, tail) = tail.split_once('»').unwrap();
            pattern += &regex::escape(literal);
            pattern += &match word {
                "q" => regex::escape(&self.queue),
                "id" => "([0-9]{13}-[0-9a-f]{16})".to_owned(),
                "hex" => "([0-9a-f]{16})".to_owned(),
                "ms" => "([0-9]{13})".to_owned(),
                "int" => "([0-9]+)".to_owned(),
                "text" => "([^\r\n]*)".to_owned(),
                "lines" => "(.*?)".to_owned(),
                word => {
                    let (resp2, resp3) = word.split_once('|').unwrap();
                    regex::escape(if self.resp3 { resp3 } else { resp2 })
                }
            };
            rest = tail;
        }
        Regex::new(&(pattern + &regex::escape(rest))).unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let from = log.len().saturating_sub(4_000);
            eprintln!("the broker's log: {}", String::from_utf8_lossy(&log.as_bytes()[from..]));
        } else if !self.done {
            self.sends("PING\r\n");
            self.gets("+PONG\r\n");
            assert_eq!(shown(&self.got), "", "nobody asked for it");
        }
    }
}

#[derive(Debug)]
enum End {
    Closed,
    Silent,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            End::Closed => "the end",
            End::Silent => "nothing more",
        })
    }
}

/// What is sent, and what comes back.
pub type Row<'a> = (&'a str, &'a str);

/// Runs a table on the shared broker, with an order list and without: nobody notices.
pub fn check(rows: &[Row]) {
    let place = shared();
    check_on(place, rows);
    check_peers(rows, |resp3| {
        let peer = if resp3 { place.peer3() } else { place.peer() };
        place.drop_list(&peer.queue);
        peer
    });
}

/// Runs a table in every way that clients send.
pub fn check_on(place: &Place, rows: &[Row]) {
    check_peers(rows, |resp3| if resp3 { place.peer3() } else { place.peer() });
}

fn check_peers(rows: &[Row], new_peer: impl Fn(bool) -> Peer) {
    for resp3 in [false, true] {
        let mut peer = new_peer(resp3);
        for (number, (sent, expected)) in rows.iter().enumerate() {
            told(&format!(
                "row {number} of {}, RESP3 {resp3}: {}",
                peer.queue,
                sent.escape_debug()
            ));
            peer.sends(sent);
            peer.gets(expected);
        }
    }
    let all: String = rows.iter().map(|(sent, _)| *sent).collect();
    for pieces in [false, true] {
        let mut peer = new_peer(!pieces);
        if pieces {
            let all = all.replace("«q»", &peer.queue).into_bytes();
            let mut sizes = [1, 2, 3, 5, 8, 13, 21].into_iter().cycle();
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                let (piece, tail) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                peer.sends(piece);
                rest = tail;
            }
        } else {
            peer.sends(&all);
        }
        for (number, (sent, expected)) in rows.iter().enumerate() {
            let way = if pieces { "in pieces" } else { "in one write" };
            told(&format!("row {number} of {}, {way}: {}", peer.queue, sent.escape_debug()));
            peer.gets(expected);
        }
    }
}

/// Where a failing test was; shown with its output.
fn told(what: &str) {
    eprintln!("{what}");
}

pub fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

pub fn shown(bytes: &[u8]) -> String {
    const MAX: usize = 2_000;
    let cut = &bytes[..bytes.len().min(MAX)];
    let more = if cut.len() < bytes.len() { "..." } else { "" };
    format!("{}{more}", cut.escape_ascii())
}

fn replace(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    // Large binary payloads never hold it; looking for its first byte is quick.
    while let Some(at) = rest.iter().position(|&b| b == from.as_bytes()[0]) {
        out.extend(&rest[..at]);
        rest = &rest[at..];
        if let Some(tail) = rest.strip_prefix(from.as_bytes()) {
            out.extend(to.as_bytes());
            rest = tail;
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out.extend(rest);
    out
}
