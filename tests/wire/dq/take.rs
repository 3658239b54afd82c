//! `DQ.TAKE`: takes delivered messages for a time.

use crate::peer::{Peer, Place, check, check_on, shared};
use crate::support::wait::eventually;

/// A message that is handed out for the first time, in an array.
pub fn first(payload: &str) -> String {
    handed_out(payload, 1, 1)
}

/// One message in an array, with the number of its delivery and that of its attempt.
pub fn handed_out(payload: &str, delivery: u32, attempt: u32) -> String {
    format!("*1\r\n«*12|%6»\r\n{}", fields(payload, delivery, attempt))
}

/// What is in the map of a message.
pub fn fields(payload: &str, delivery: u32, attempt: u32) -> String {
    let size = payload.len();
    format!(
        "$7\r\nreceipt\r\n$18\r\n«hex»:{delivery}\r\n$2\r\nid\r\n$16\r\n«hex»\r\n\
         $7\r\nattempt\r\n:{attempt}\r\n$5\r\nuntil\r\n:«ms»\r\n\
         $7\r\npayload\r\n${size}\r\n{payload}\r\n$7\r\nmessage\r\n$18\r\n0-«hex»\r\n"
    )
}

/// Puts a payload into the list of a peer's queue, as a delivery does, and takes it; gives its id.
pub fn take(place: &Place, peer: &mut Peer, payload: &str) -> String {
    push(place, &peer.queue, &[payload]);
    peer.sends("DQ.TAKE «q»\r\n");
    let [receipt, id, _, message] = peer.gets(&first(payload)).try_into().unwrap();
    assert_eq!((&receipt, &message), (&id, &id));
    id
}

pub fn push(place: &Place, queue: &str, payloads: &[&str]) {
    place.backing().call(&[&["RPUSH", queue], payloads].concat()).unwrap();
}

/// One of each protocol, with an order list and without.
pub fn peers(place: &Place) -> Vec<Peer> {
    let without = |peer: Peer| {
        place.drop_list(&peer.queue);
        peer
    };
    vec![place.peer(), place.peer3(), without(place.peer()), without(place.peer3())]
}

#[test]
fn take_what_is_there() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        push(shared(), &queue, &["a", "", "c\r\nc", "é", "e"]);
        peer.sends("*2\r\n$7\r\nDQ.TAKE\r\n$5\r\n«q»\r\n");
        peer.gets(&first("a"));
        peer.sends("dq.take «q» count 2 lease 1h block 0\r\n");
        let (empty, third) = (fields("", 1, 1), fields("c\r\nc", 1, 1));
        let parts = peer.gets(&format!("*2\r\n«*12|%6»\r\n{empty}«*12|%6»\r\n{third}"));
        assert_eq!((&parts[0], &parts[4]), (&parts[1], &parts[5]));
        assert_ne!(parts[0], parts[4], "ids");
        // All of one call have one end: now and an hour.
        assert_eq!(parts[2], parts[6]);
        let time = shared().backing().call(&["TIME"]).unwrap().texts();
        let left = parts[2].parse::<i64>().unwrap() - time[0].parse::<i64>().unwrap() * 1_000;
        assert!((3_580_000..=3_602_000).contains(&left), "{left} ms");
        peer.sends("DQ.TAKE «q» DECODE\r\n");
        let fields = fields("é", 1, 1);
        peer.gets(&format!("*1\r\n«*14|%7»\r\n{fields}$8\r\nencoding\r\n$6\r\nstring\r\n"));
        // The rest, and not more.
        peer.sends("DQ.TAKE «q» COUNT 1000\r\nDQ.TAKE «q»\r\n");
        peer.gets(&(first("e") + "«*-1|_»\r\n"));
    }
}

/// What is not text is shown as text by DECODE only.
#[test]
fn take_of_other_encodings() {
    for mut peer in peers(shared()) {
        peer.sends("DQ.OFFER «q» 0 abc AS kryo5\r\nDQ.TAKE «q» BLOCK 0 DECODE LEASE 100\r\n");
        peer.gets("$30\r\n«id»\r\n");
        let fields = fields("abc", 1, 1);
        peer.gets(&format!("*1\r\n«*14|%7»\r\n{fields}$8\r\nencoding\r\n$5\r\nkryo5\r\n"));
    }
}

/// Queues are asked from left to right, and a message says where it was.
#[test]
fn take_of_several_queues() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        let named = |payload: &str, queue: &str| {
            let fields = fields(payload, 1, 1);
            let size = queue.len();
            format!("*1\r\n«*14|%7»\r\n{fields}$5\r\nqueue\r\n${size}\r\n{queue}\r\n")
        };
        push(shared(), &format!("{queue}b"), &["b1", "b2"]);
        push(shared(), &queue, &["a1"]);
        for (payload, from) in [("a1", queue.clone()), ("b1", format!("{queue}b"))] {
            peer.sends("DQ.TAKE «q» COUNT 1 ALSO «q»c «q»b\r\n");
            peer.gets(&named(payload, &from));
        }
        peer.sends("DQ.TAKE «q» BLOCK 1m also «q»b\r\nDQ.TAKE «q» ALSO «q»b\r\n");
        peer.gets(&(named("b2", &format!("{queue}b")) + "«*-1|_»\r\n"));
    }
}

#[test]
fn take_of_nothing() {
    check(&[
        ("*2\r\n$7\r\nDQ.TAKE\r\n$5\r\n«q»\r\n", "«*-1|_»\r\n"),
        ("DQ.TAKE «q» COUNT 1000 LEASE 24h tied DECODE\r\n", "«*-1|_»\r\n"),
        ("DQ.TAKE «q» BLOCK 1\r\n", "«*-1|_»\r\n"),
        ("DQ.TAKE «q» BLOCK 20ms ALSO «q»b «q» «q»b\r\n", "«*-1|_»\r\n"),
        // What is pending is not there yet, and what is paused neither.
        (
            "DQ.OFFER «q» 1h a\r\nDQ.TAKE «q»\r\nDQ.PAUSE «q»\r\nDQ.TAKE «q»\r\n",
            "$30\r\n«id»\r\n«*-1|_»\r\n+OK\r\n«*-1|_»\r\n",
        ),
    ]);
}

#[test]
fn take_refused() {
    let usage =
        "usage: DQ.TAKE queue [COUNT n] [BLOCK d] [LEASE d] [TIED] [DECODE] [ALSO queue ...]";
    let wrong = format!("-ERR wrong number of arguments for 'dq.take' command; {usage}\r\n");
    let unexpected =
        |word: &str| format!("-ERR syntax error: unexpected argument '{word}'; {usage}\r\n");
    check(&[
        ("DQ.TAKE\r\n", &wrong),
        ("DQ.TAKE «q» ALSO\r\n", &wrong),
        ("DQ.TAKE ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.TAKE «q» ALSO «q»b ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.TAKE «q» WHAT\r\n", &unexpected("WHAT")),
        ("DQ.TAKE «q» COUNT 1 COUNT 1\r\n", &unexpected("COUNT")),
        ("DQ.TAKE «q» DECODE decode\r\n", &unexpected("decode")),
        ("DQ.TAKE «q» COUNT 0\r\n", "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n"),
        (
            "DQ.TAKE «q» COUNT 1001\r\n",
            "-ERR COUNT '1001' must be a whole number from 1 to 1000\r\n",
        ),
        ("DQ.TAKE «q» COUNT\r\n", "-ERR syntax error: COUNT needs a value\r\n"),
        ("DQ.TAKE «q» BLOCK -1\r\n", "-BADDELAY BLOCK '-1' must not be negative«text»\r\n"),
        (
            "DQ.TAKE «q» BLOCK 86400001\r\n",
            "-BADDELAY BLOCK '86400001' must be at most 86400000 ms\r\n",
        ),
        ("DQ.TAKE «q» BLOCK x\r\n", "-BADDELAY BLOCK 'x' must be «text»\r\n"),
        ("DQ.TAKE «q» LEASE 0\r\n", "-BADDELAY LEASE '0' must be at least 100 ms\r\n"),
        ("DQ.TAKE «q» LEASE 99\r\n", "-BADDELAY LEASE '99' must be at least 100 ms\r\n"),
        ("DQ.TAKE «q» LEASE -5s\r\n", "-BADDELAY LEASE '-5s' must not be negative«text»\r\n"),
        (
            "DQ.TAKE «q» LEASE 86400001\r\n",
            "-BADDELAY LEASE '86400001' must be at most 86400000 ms\r\n",
        ),
    ]);
}

/// The limits of the settings: of COUNT, of BLOCK, and of those who wait in all lines together.
#[test]
fn take_limits() {
    let place = Place::spawn(&[
        ("limits.take_count_max", "2"),
        ("limits.block_ms_max", "50"),
        ("limits.takers_max", "2"),
    ]);
    check_on(
        &place,
        &[
            ("DQ.TAKE «q» COUNT 2 BLOCK 50\r\n", "«*-1|_»\r\n"),
            ("DQ.TAKE «q» COUNT 3\r\n", "-ERR COUNT '3' must be a whole number from 1 to 2\r\n"),
            ("DQ.TAKE «q» BLOCK 51\r\n", "-BADDELAY BLOCK '51' must be at most 50 ms\r\n"),
            // Three places.
            (
                "DQ.TAKE «q» BLOCK 0 ALSO «q»b «q»c\r\n",
                "-TOOMANY the limit of 2 takers that wait (limits.takers_max) is reached: retry, \
                 or raise the limit\r\n",
            ),
            // It asks one after the other, and stands in one line at a time.
            ("DQ.TAKE «q» ALSO «q»b «q»c\r\n", "«*-1|_»\r\n"),
        ],
    );
    let mut waits = place.peer();
    waits.sends("DQ.TAKE «q» BLOCK 0 ALSO «q»b\r\n");
    let mut other = place.peer();
    let queue = waits.queue.clone();
    // It asks one queue, then the other, and then stands in both lines.
    one_waits(&mut other, &format!("{queue}b"));
    one_waits(&mut other, &queue);
    other.sends("DQ.TAKE «q» BLOCK 1\r\n");
    other.gets("-TOOMANY the limit of 2 takers «text»\r\n");
    push(&place, &queue, &["a"]);
    waits.gets("*1\r\n*14\r\n«lines»$5\r\nqueue\r\n$5\r\n«q»\r\n");
    other.sends("DQ.TAKE «q»\r\n");
    other.gets("*-1\r\n");
}

/// Until a taker stands in the line of a queue.
fn one_waits(other: &mut Peer, queue: &str) {
    let takers = || {
        other.sends(format!("DQ.INFO {queue}\r\nECHO end\r\n"));
        other.gets("*78\r\n«lines»$6\r\ntakers\r\n:«int»\r\n«lines»$3\r\nend\r\n").remove(1)
    };
    eventually(takers, |takers| takers == "1");
}

/// Commands behind one that waits come after it.
#[test]
fn what_is_behind_a_take_that_waits_keeps_its_order() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        peer.sends(
            "PING\r\nDQ.OFFER «q»x 1h a\r\nDQ.TAKE «q» BLOCK 0\r\nECHO b\r\n\
             DQ.OFFER «q»x 1h c\r\nDQ.SIZE «q»x\r\nDQ.TAKE «q» BLOCK 1\r\nECHO d\r\n",
        );
        peer.gets("+PONG\r\n$30\r\n«id»\r\n");
        let mut other = shared().peer();
        one_waits(&mut other, &queue);
        // What is behind it was not run: one is pending.
        other.sends(format!("DQ.SIZE {queue}x\r\n"));
        other.gets(":1\r\n");
        push(shared(), &queue, &["m"]);
        peer.gets(&first("m"));
        peer.gets("$1\r\nb\r\n$30\r\n«id»\r\n:2\r\n«*-1|_»\r\n$1\r\nd\r\n");
    }
}

/// A payload that no reply can hold is named, and those around it are taken once it is gone.
#[test]
fn take_of_a_payload_that_is_too_large() {
    let place = Place::spawn(&[
        ("limits.payload_bytes_max", "1048576"),
        ("limits.reply_bytes_max", "65536"),
    ]);
    let large = "x".repeat(2 << 20);
    for mut peer in peers(&place) {
        let queue = peer.queue.clone();
        push(&place, &queue, &["a", &large, "b"]);
        peer.sends("DQ.TAKE «q» COUNT 9\r\n");
        peer.gets(&first("a"));
        let wrong = "-TOOBIG the message at the head of the list has 2097152 bytes, more than a \
                     reply may hold (106«text»\r\n";
        peer.sends("DQ.TAKE «q» COUNT 9\r\nDQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&wrong.repeat(2));
        place.backing().call(&["LPOP", &queue]).unwrap();
        peer.sends("DQ.TAKE «q» COUNT 9\r\n");
        peer.gets(&first("b"));
        // A reply ends at its size in bytes.
        let half = "y".repeat(40_000);
        push(&place, &queue, &[&half, &half, "c"]);
        peer.sends("DQ.TAKE «q» COUNT 9\r\nDQ.TAKE «q» COUNT 9\r\n");
        peer.gets(&first(&half));
        let (second, third) = (fields(&half, 1, 1), fields("c", 1, 1));
        peer.gets(&format!("*2\r\n«*12|%6»\r\n{second}«*12|%6»\r\n{third}"));
    }
}

/// A queue whose list holds another type keeps nobody from the others.
#[test]
fn also_beside_a_spoiled_queue() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        shared().backing().call(&["SET", &queue, "x"]).unwrap();
        shared().backing().call(&["RPUSH", &format!("{queue}x"), "a"]).unwrap();
        peer.sends("DQ.TAKE «q» ALSO «q»x\r\nDQ.TAKE «q» ALSO «q»x\r\n");
        let row = "*1\r\n«*14|%7»\r\n«lines»payload\r\n$1\r\na\r\n«lines»«q»x\r\n";
        peer.gets(&format!("{row}-WRONGTYPE the key «q» «text»\r\n"));
    }
}
