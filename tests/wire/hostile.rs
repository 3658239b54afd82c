//! Clients that mean harm, or might as well: the others are served meanwhile, memory is bounded,
//! and nothing stops the broker.

use crate::peer::{Peer, Place, shared};
use crate::support::broker::{Broker, signal};
use crate::support::redis::Redis;
use crate::support::wait::{WITHIN, all_the_time, eventually};
use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1024 * 1024;

/// Another client gets its answers at once.
fn others_are_served(place: &Place) {
    let mut other = place.peer();
    let asked = Instant::now();
    other.sends("DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\n");
    other.gets("$30\r\n«id»\r\n:1\r\n");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

/// Whether an offer is answered with an id.
fn is_stored(peer: &mut Peer) -> bool {
    peer.sends("DQ.OFFER «q» 1h a\r\n");
    let stored = peer.gets("«text»\r\n").remove(0) == "$30";
    if stored {
        peer.gets("«id»\r\n");
    }
    stored
}

/// Handed to a recursive decoder, this ends the process.
#[test]
fn nested_arrays() {
    let mut peer = shared().peer();
    peer.tries_to_send("*1\r\n".repeat(10_000));
    assert_eq!(peer.gets_until_end(), b"-ERR Protocol error: expected '$', got '*'\r\n");
    others_are_served(shared());
}

#[test]
fn half_a_command() {
    let halves = [
        "*",
        "*4",
        "*4\r",
        "*4\r\n",
        "*4\r\n$",
        "*4\r\n$8",
        "*4\r\n$8\r\nDQ.OF",
        "*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n",
        "*2\r\n$4\r\nPING\r\n$41943000\r\nx",
        "DQ.OFFER q",
        "\"",
    ];
    let waiting: Vec<Peer> = halves
        .iter()
        .map(|half| {
            let mut peer = shared().peer();
            peer.sends(half);
            peer
        })
        .collect();
    others_are_served(shared());
    // One that goes on is served, too.
    for (half, mut peer) in halves.iter().zip(waiting) {
        if *half == "*4\r\n$8\r\nDQ.OF" {
            peer.sends("FER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$1\r\na\r\n");
            peer.gets("$30\r\n«id»\r\n");
        } else {
            peer.leave();
        }
    }
}

/// A large request that is announced and not sent costs nothing, and ends after the stall timeout.
#[test]
fn announced_and_not_sent() {
    let place = Place::spawn(&[("server.stall_timeout_s", "1")]);
    let before = place.broker.resident_bytes();
    let mut peers: Vec<Peer> = (0..20).map(|_| place.peer()).collect();
    for peer in &mut peers {
        peer.sends("*2\r\n$4\r\nECHO\r\n$41000000\r\n");
        peer.sends("x".repeat(100_000));
    }
    others_are_served(&place);
    let used = place.broker.resident_bytes().saturating_sub(before);
    assert!(used < 32 * MIB, "{used} bytes for 2 MB");
    for peer in &mut peers {
        assert!(peer.gets_until_end().is_empty());
    }
}

/// Who asks nothing for too long has to go; who waits for an answer of ours does not.
#[test]
fn idle() {
    let redis = Redis::spawn(&[]);
    let settings = [("server.idle_timeout_s", "1"), ("redis.call_timeout_ms", "8000")];
    let broker = Broker::spawn(&redis.url(0), &settings);
    let pid = redis.pid();
    let mut silent = Peer::connect(&broker);
    signal(pid, "STOP");
    let mut waiting = Peer::connect(&broker);
    waiting.sends("DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\n");
    assert!(silent.gets_until_end().is_empty());
    signal(pid, "CONT");
    waiting.gets_end("$30\r\n«id»\r\n:1\r\n");
}

/// Replies that nobody reads are bounded, and their connection is cut off in the end.
#[test]
fn never_reads() {
    let place = Place::spawn(&[("server.stall_timeout_s", "1")]);
    let before = place.broker.resident_bytes();
    let mut greedy = place.peer();
    // A megabyte of COMMAND replies for each kilobyte asked.
    let asked = Instant::now();
    while greedy.tries_to_send("COMMAND\r\n".repeat(1_000)) && asked.elapsed() < WITHIN {
        let used = place.broker.resident_bytes().saturating_sub(before);
        assert!(used < 64 * MIB, "{used} bytes of replies");
        others_are_served(&place);
        if asked.elapsed() > Duration::from_millis(500) {
            break;
        }
    }
    others_are_served(&place);
    // It is gone when the timeout is over.
    let mut other = place.peer();
    let connected = || {
        other.sends("CLIENT LIST\r\n");
        other.gets("$«int»\r\n«lines»\n\r\n")[1].matches("id=").count()
    };
    eventually(connected, |connected| *connected == 1);
    greedy.leave();
}

/// A hundred clients ask for much with little, and read none of it: what another client notices of
/// them is about one turn of the loop, and never a turn of each of them in a row.
#[test]
fn a_hundred_that_never_read() {
    for asked in ["COMMAND\r\n", "COMMAND DOCS\r\n", "CLIENT LIST\r\n"] {
        let place = Place::spawn(&[("server.stall_timeout_s", "1")]);
        let mut other = place.peer();
        let mut greedy: Vec<Peer> = (0..100).map(|_| place.peer()).collect();
        for peer in &mut greedy {
            peer.tries_to_send(asked.repeat(3_000));
        }
        // The machine may stall now and then, the greedy are there all the time: so the median.
        let (begun, mut took) = (Instant::now(), Vec::new());
        while begun.elapsed() < Duration::from_millis(1_500) {
            let asked = Instant::now();
            other.sends("DQ.OFFER «q» 1h a\r\n");
            other.gets("$30\r\n«id»\r\n");
            took.push(asked.elapsed());
        }
        took.sort();
        let median = took[took.len() / 2];
        assert!(median < Duration::from_millis(50), "{median:?} beside {asked:?}");
        greedy.into_iter().for_each(Peer::leave);
    }
}

/// Who connects beyond what the limit of open files allows is refused, and what the broker needs
/// for itself it gets: a link to Redis that breaks is made again.
#[test]
fn more_clients_than_files() {
    let redis = Redis::spawn(&[]);
    let broker = Broker::with_open_files(80, &redis.url(0));
    let mut peer = Peer::connect(&broker);
    let mut backing = redis.client(0);
    let address = broker.address();
    let connect = |_| TcpStream::connect(&address).unwrap();
    let crowd: Vec<TcpStream> = (0..200).map(connect).collect();
    // Forty, with the one before them.
    for (number, mut stream) in crowd.iter().enumerate() {
        let mut said = [0; 64];
        if number >= 39 {
            stream.set_read_timeout(Some(WITHIN)).unwrap();
            let count = stream.read(&mut said).unwrap();
            assert_eq!(&said[..count], b"-ERR max number of clients reached\r\n");
        }
    }
    backing.call(&["CLIENT", "KILL", "SKIPME", "yes"]).unwrap();
    eventually(|| is_stored(&mut peer), |stored| *stored);
    TcpStream::connect(broker.http_address()).unwrap();
    peer.sends("CONFIG GET maxclients\r\n");
    peer.gets("*2\r\n$10\r\nmaxclients\r\n$2\r\n40\r\n");
    let log = broker.log();
    assert!(log.contains("server.clients_max = 10000 is lowered to 40: "), "{log}");
    assert!(!log.contains("accept"), "{log}");
}

/// Files run out all the same: who waits is accepted after the links to Redis are there, and the
/// log stays short.
#[test]
fn links_before_clients() {
    let redis = Redis::spawn(&[]);
    let broker = Broker::spawn(&redis.url(0), &[("redis.call_timeout_ms", "300")]);
    let mut backing = redis.client(0);
    let mut peer = Peer::connect(&broker);
    assert!(is_stored(&mut peer));
    let pid = broker.pid().to_string();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let limit = format!("--nofile={}", open + 5);
    let limited = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(limited.unwrap().success());
    let address = broker.address();
    let connect = |_| TcpStream::connect(&address).unwrap();
    let _crowd: Vec<TcpStream> = (0..100).map(connect).collect();
    let unaccepted = || broker.log().matches("accepted").count();
    eventually(unaccepted, |lines| *lines > 0);
    // The files of these links are taken by links again, though a hundred wait for them.
    backing.call(&["CLIENT", "KILL", "SKIPME", "yes"]).unwrap();
    eventually(|| is_stored(&mut peer), |stored| *stored);
    assert_eq!(unaccepted(), 1);
}

/// Replies that wait behind an offer which Redis does not answer count as replies, too.
#[test]
fn replies_behind_an_offer() {
    let redis = Redis::spawn(&[]);
    let broker = Broker::spawn(&redis.url(0), &[("redis.call_timeout_ms", "8000")]);
    let pid = redis.pid();
    let mut greedy = Peer::connect(&broker);
    let before = broker.resident_bytes();
    signal(pid, "STOP");
    let mut bytes = b"DQ.OFFER stopped 1h a\r\n".to_vec();
    let echo = ["*2\r\n$4\r\nECHO\r\n$1000000\r\n", &"x".repeat(1_000_000), "\r\n"].concat();
    (0..200).for_each(|_| bytes.extend(echo.as_bytes()));
    let sending = greedy.sends_beside(bytes);
    let used = || broker.resident_bytes().saturating_sub(before);
    all_the_time(Duration::from_millis(500), used, |used| *used < 32 * MIB);
    signal(pid, "CONT");
    greedy.gets("$30\r\n«id»\r\n");
    let reply = ["$1000000\r\n", &"x".repeat(1_000_000), "\r\n"].concat();
    (0..200).for_each(|_| greedy.gets_bytes(reply.as_bytes()));
    sending.join().unwrap();
}

/// A reply of more than `server.output_bytes_max` is not written, whoever made it.
#[test]
fn too_large_an_output() {
    let place = Place::spawn(&[("server.output_bytes_max", "65536")]);
    let mut peer = place.peer();
    let large = "x".repeat(3_000_000);
    peer.sends(format!("*2\r\n$4\r\nECHO\r\n$3000000\r\n{large}\r\n"));
    peer.gets("-ERR the reply has 3000012 bytes, more than server.output_bytes_max, 65536\r\n");
    peer.sends("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n");
    peer.sends(format!("$3000000\r\n{large}\r\n"));
    peer.gets("$30\r\n«id»\r\n");
    peer.sends("DQ.PEEK «q»\r\nDQ.SIZE «q»\r\n");
    peer.gets(
        "-TOOBIG the message «id» has 3000017 bytes, more than a reply may hold (65472): «text»\r\n\
         :1\r\n",
    );
    others_are_served(&place);
}

/// A poll takes no more than its reply may hold: what would not be written would be lost.
#[test]
fn a_poll_that_fits_its_output() {
    let place = Place::spawn(&[("server.output_bytes_max", "65536")]);
    for drop_list in [false, true] {
        let mut peer = place.peer();
        if drop_list {
            place.drop_list(&peer.queue);
        }
        for payload in ["x".repeat(1_000), String::new()] {
            peer.sends(format!("DQ.OFFER «q» 1h '{payload}'\r\n").repeat(300));
            peer.gets_ids(300);
        }
        let mut left = 600;
        while left > 0 {
            peer.sends("DQ.POLL «q» COUNT 1000\r\n");
            let count: usize = peer.gets("*«int»\r\n").remove(0).parse().unwrap();
            assert!((1..=left).contains(&count), "{count}");
            for _ in 0..count {
                peer.gets("$«int»\r\n«text»\r\n");
            }
            left -= count;
        }
        peer.sends("DQ.SIZE «q»\r\n");
        peer.gets(":0\r\n");
    }
}

/// Large replies that nobody takes are few, and make room for those of others.
#[test]
fn large_replies_that_are_not_read() {
    let place = Place::spawn(&[("redis.call_timeout_ms", "9000")]);
    let mut other = place.peer();
    for _ in 0..2 {
        other.sends("*4\r\n$8\r\nDQ.OFFER\r\n$3\r\nbig\r\n$2\r\n1h\r\n$16000000\r\n");
        other.sends("x".repeat(16_000_000) + "\r\n");
        other.gets("$30\r\n«id»\r\n");
    }
    let before = place.broker.resident_bytes();
    let mut deaf: Vec<Peer> = (0..12).map(|_| place.peer()).collect();
    for peer in &mut deaf {
        peer.sends("DQ.PEEK big\r\n".repeat(10));
    }
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_secs(2) {
        others_are_served(&place);
        let used = place.broker.resident_bytes().saturating_sub(before);
        assert!(used < 160 * MIB, "{used} bytes of replies");
    }
    other.sends("DQ.PEEK nothing\r\n");
    other.gets("*0\r\n");
    deaf.into_iter().for_each(Peer::leave);
}

/// While Redis does not answer, a full batch holds up offers and nothing else.
#[test]
fn only_offers_wait_for_a_batch() {
    let redis = Redis::spawn(&[]);
    let broker = Broker::spawn(&redis.url(0), &[("redis.call_timeout_ms", "9000")]);
    let pid = redis.pid();
    let mut flood = Peer::connect(&broker);
    let mut other = Peer::connect(&broker);
    signal(pid, "STOP");
    let sending = flood.sends_beside(b"DQ.OFFER flood 1h a\r\n".repeat(5_000));
    all_the_time(
        Duration::from_millis(500),
        || {
            other.sends("PING\r\n");
            other.gets("+PONG\r\n");
        },
        |()| true,
    );
    signal(pid, "CONT");
    flood.gets_ids(5_000);
    sending.join().unwrap();
}

/// A byte now and then is no progress where others wait for the memory.
#[test]
fn a_trickle_does_not_keep_scarce_memory() {
    let place = Place::spawn(&[("limits.buffers_bytes_max", "1048576")]);
    let mut stuck = place.peer();
    stuck.sends("*2\r\n$4\r\nECHO\r\n$30000000\r\n");
    // Cut off already if the machine stalls for so long that this is a trickle too.
    stuck.tries_to_send("x".repeat(2_000_000));
    eventually(|| stuck.tries_to_send("x"), |taken| !taken);
    stuck.leave();
    others_are_served(&place);
}

/// All together may hold so much; who holds little is served, and large ones one after the other.
#[test]
fn little_memory_for_many_large_requests() {
    let place = Place::spawn(&[("limits.buffers_bytes_max", "4194304")]);
    let before = place.broker.resident_bytes();
    let large = "x".repeat(16 * 1024 * 1024);
    let offer =
        ["*4\r\n$8\r\nDQ.OFFER\r\n$5\r\nlarge\r\n$2\r\n1h\r\n$16777217\r\n", &large, "x\r\n"];
    // One that stays in the middle of a large request makes room for the others.
    let mut stuck = place.peer();
    stuck.sends("*2\r\n$4\r\nECHO\r\n$30000000\r\n");
    // Before its end if the machine stalls, which makes room too.
    stuck.tries_to_send(&large[..6_000_000]);
    let mut peers: Vec<Peer> = (0..12).map(|_| place.peer()).collect();
    let sending: Vec<_> =
        peers.iter_mut().map(|peer| peer.sends_beside(offer.concat().into_bytes())).collect();
    while sending.iter().any(|sending| !sending.is_finished()) {
        others_are_served(&place);
        let used = place.broker.resident_bytes().saturating_sub(before);
        assert!(used < 100 * MIB, "{used} bytes for requests");
    }
    for (peer, sending) in peers.iter_mut().zip(sending) {
        peer.gets("-TOOBIG payload of 16777217 bytes is larger than 16777216 bytes\r\n");
        sending.join().unwrap();
    }
    assert!(stuck.gets_until_end().is_empty());
}

/// What a large request and its reply took is given back, also while the client stays.
#[test]
fn large_requests_leave_nothing_behind() {
    let place = Place::spawn(&[]);
    let before = place.broker.resident_bytes();
    let large = "x".repeat(16 * 1024 * 1024);
    let mut peers: Vec<Peer> = (0..8).map(|_| place.peer()).collect();
    for peer in &mut peers {
        let sending = peer.sends_beside(
            ["*2\r\n$4\r\nECHO\r\n$16777216\r\n", &large, "\r\n"].concat().into_bytes(),
        );
        peer.gets("$16777216\r\n");
        peer.gets_bytes(large.as_bytes());
        peer.gets("\r\n");
        sending.join().unwrap();
    }
    let used = place.broker.resident_bytes().saturating_sub(before);
    assert!(used < 128 * MIB, "{used} bytes for nothing");
}

/// Noise that looks like the protocol here and there: answered or closed, never INTERNAL.
#[test]
fn noise() {
    const WORDS: [&str; 24] = [
        "*1\r\n",
        "*2\r\n",
        "*3\r\n",
        "$4\r\n",
        "$0\r\n",
        "$-1\r\n",
        "\r\n",
        "\n",
        "\r",
        "\0",
        "\"",
        "'",
        " ",
        "PING",
        "DQ.SIZE",
        "DQ.OFFER noise 1h x",
        "DQ.POLL noise COUNT 1",
        "DQ.RANGE noise - + CURSOR 5-00",
        "HELLO 3",
        "CLIENT REPLY SKIP",
        "99999999999999999999",
        "-5",
        "q",
        "DQ.CANCEL noise 5-00 inf-ff 1e400-00 -0-",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..200 {
        let mut peer = shared().peer();
        let noise: String = (0..1 + random(40)).map(|_| WORDS[random(WORDS.len())]).collect();
        eprintln!("{}", noise.escape_debug());
        peer.tries_to_send(&noise);
        peer.sends_end();
        let answer = String::from_utf8_lossy(&peer.gets_until_end()).into_owned();
        assert!(!answer.contains("-INTERNAL"), "{answer}");
    }
    others_are_served(shared());
}

/// Announced within the limit or not, arguments in small pieces are read once each.
#[test]
fn many_arguments_in_small_pieces() {
    let mut peer = shared().peer();
    let mut taken = peer.tries_to_send("*50000\r\n");
    let asked = Instant::now();
    for _ in 0..100 {
        taken = taken && peer.tries_to_send("$10\r\n0123456789\r\n".repeat(500));
    }
    assert_eq!(
        peer.gets_until_end(),
        b"-ERR Protocol error: invalid multibulk length: more arguments than \
          limits.arguments_max, 2100\r\n"
    );
    // Where the limit allows so many, they are the messages of one command.
    let place =
        Place::spawn(&[("limits.arguments_max", "60000"), ("limits.moffer_messages_max", "29999")]);
    let mut peer = place.peer();
    peer.sends("*50000\r\n$9\r\nDQ.MOFFER\r\n$5\r\n«q»\r\n");
    for _ in 0..24_999 / 9 {
        peer.sends("$2\r\n1h\r\n$1\r\na\r\n".repeat(9));
    }
    peer.sends("$2\r\n1h\r\n$1\r\na\r\n".repeat(24_999 % 9));
    peer.gets("*24999\r\n");
    peer.gets_ids(24_999);
    others_are_served(&place);
    assert!(asked.elapsed() < WITHIN, "{:?}", asked.elapsed());
}

/// A lock-step client beside one that floods.
#[test]
fn a_flood_starves_nobody() {
    let place = Place::spawn(&[]);
    std::thread::scope(|scope| {
        let mut flood = place.peer();
        let flooding = scope.spawn(move || {
            for _ in 0..4 {
                flood.sends("DQ.OFFER «q» 1h a\r\n".repeat(5_000));
                flood.gets_ids(5_000);
            }
        });
        while !flooding.is_finished() {
            others_are_served(&place);
        }
    });
}

/// The rest of a connection that is reset in the middle of everything is nobody's trouble.
#[test]
fn leaves_in_the_middle() {
    for _ in 0..20 {
        let mut peer = shared().peer();
        peer.sends("DQ.OFFER «q» 1h a\r\n".repeat(100) + "DQ.SIZE «q»\r\nDQ.PEEK «q»\r\n*1\r\n$4");
        peer.leave();
    }
    others_are_served(shared());
}
