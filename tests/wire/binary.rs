//! Any bytes: payloads, queue names and message names with NUL, CR LF and what is not text; of no
//! byte, and of 16 MiB.

use crate::peer::{Peer, Place, check, shared};
use crate::support::wait::eventually;

/// All 256 bytes, and what looks like the protocol.
fn any_bytes() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend(b"\r\n$-1\r\n*1\r\n+OK\r\n\0");
    bytes
}

fn send_parts(peer: &mut Peer, parts: &[&[u8]]) {
    peer.sends(format!("*{}\r\n", parts.len()));
    for part in parts {
        peer.sends(format!("${}\r\n", part.len()));
        peer.sends(part);
        peer.sends("\r\n");
    }
}

#[test]
fn payloads() {
    let mut backing = shared().backing();
    for payload in [Vec::new(), b"\0".to_vec(), b"\r\n".to_vec(), any_bytes()] {
        let mut peer = shared().peer3();
        let queue = peer.queue.clone().into_bytes();
        let size = payload.len();
        send_parts(&mut peer, &[b"DQ.OFFER", &queue, b"1h", &payload, b"NAME", b"n"]);
        peer.gets("$30\r\n«id»\r\n");
        send_parts(&mut peer, &[b"DQ.CONTAINS", &queue, &payload, b"other"]);
        peer.gets("*2\r\n:1\r\n:0\r\n");
        peer.sends("DQ.GET «q» n\r\n");
        peer.gets(&format!("%5\r\n«lines»payload\r\n${size}\r\n"));
        peer.gets_bytes(&payload);
        peer.gets("\r\n$6\r\nformat\r\n$6\r\nmodern\r\n");
        send_parts(&mut peer, &[b"DQ.REMOVE", &queue, &payload]);
        peer.gets(":1\r\n");
        send_parts(&mut peer, &[b"DQ.MOFFER", &queue, b"1h", &payload, b"0", &payload]);
        peer.gets("*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
        let list = || backing.call(&[b"LRANGE", &queue[..], b"0", b"-1"]).unwrap();
        let list = eventually(list, |list| !list.elements().is_empty());
        assert_eq!(list.elements()[0].bytes(), payload);
        peer.sends("DQ.POLL «q»\r\n");
        peer.gets(&format!("*1\r\n${size}\r\n"));
        peer.gets_bytes(&payload);
        peer.gets("\r\n");
    }
}

#[test]
fn queue_names_and_message_names() {
    let mut peer = shared().peer();
    let queue = [peer.queue.as_bytes(), &any_bytes()].concat();
    let name = any_bytes();
    send_parts(&mut peer, &[b"DQ.OFFER", &queue, b"1h", b"a", b"NAME", &name]);
    peer.gets("$30\r\n«id»\r\n");
    send_parts(&mut peer, &[b"DQ.GET", &queue, &name]);
    peer.gets(&format!("*10\r\n«lines»$4\r\nname\r\n${}\r\n", name.len()));
    peer.gets_bytes(&name);
    peer.gets(
        "\r\n$3\r\ndue\r\n:«ms»\r\n$7\r\npayload\r\n$1\r\na\r\n$6\r\nformat\r\n$6\r\nmodern\r\n",
    );
    send_parts(&mut peer, &[b"DQ.FIRE", &queue, &name]);
    peer.gets(":1\r\n");
    let mut backing = shared().backing();
    let list = || backing.call(&[b"LRANGE", &queue[..], b"0", b"-1"]).unwrap().texts();
    assert_eq!(eventually(list, |list| !list.is_empty()), ["a"]);
    send_parts(&mut peer, &[b"DQ.INFO", &queue]);
    peer.gets(&format!("*78\r\n$5\r\nqueue\r\n${}\r\n", queue.len()));
    peer.gets_bytes(&queue);
    peer.gets("\r\n«lines»lateness_max_ms\r\n$«int»\r\n«text»\r\n");
}

#[test]
fn the_largest_payload() {
    let mut payload = vec![b'x'; 16 * 1024 * 1024];
    payload[..4].copy_from_slice(b"\r\n\0$");
    let mut peer = shared().peer3();
    peer.sends("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$16777216\r\n");
    peer.sends(&payload);
    peer.sends("\r\nDQ.POLL «q»\r\n");
    peer.gets("$30\r\n«id»\r\n*1\r\n$16777216\r\n");
    peer.gets_bytes(&payload);
    peer.gets("\r\n");
    // One more byte is too much, and harms nothing that follows.
    payload.push(b'x');
    peer.sends("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$16777217\r\n");
    peer.sends(&payload);
    peer.sends("\r\nDQ.SIZE «q»\r\n");
    peer.gets("-TOOBIG payload of 16777217 bytes is larger than 16777216 bytes\r\n:0\r\n");
}

#[test]
fn more_than_one_command_may_hold() {
    let third = vec![b'x'; 11 * 1024 * 1024];
    let mut peer = shared().peer();
    peer.sends("*8\r\n$9\r\nDQ.MOFFER\r\n$5\r\n«q»\r\n");
    for _ in 0..3 {
        peer.sends("$2\r\n1h\r\n$11534336\r\n");
        peer.sends(&third);
        peer.sends("\r\n");
    }
    peer.sends("DQ.SIZE «q»\r\n");
    peer.gets(
        "-TOOBIG the payloads up to message 3 have 34603008 bytes, more than 33554432\r\n:0\r\n",
    );
}

/// A page of large messages ends early; what is left comes with the next.
#[test]
fn a_reply_has_an_end() {
    let large = vec![b'x'; 12 * 1024 * 1024];
    let place =
        Place::spawn(&[("limits.reply_bytes_max", "33554432"), ("redis.call_timeout_ms", "9000")]);
    let mut peer = place.peer();
    for _ in 0..3 {
        peer.sends("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$12582912\r\n");
        peer.sends(&large);
        peer.sends("\r\n");
    }
    peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    for (head, count) in [("*2\r\n", 2), ("*1\r\n", 1), ("*0\r\n", 0)] {
        peer.sends("DQ.POLL «q» COUNT 9\r\n");
        peer.gets(head);
        for _ in 0..count {
            peer.gets("$12582912\r\n");
            peer.gets_bytes(&large);
            peer.gets("\r\n");
        }
    }
}

#[test]
fn bytes_in_errors_are_escaped() {
    check(&[
        (
            "*2\r\n$7\r\nDQ.SIZE\r\n$22\r\nredisson_delay_queue\r\n\r\n",
            "-BADQUEUE queue 'redisson_delay_queue\\r\\n' begins with «text»\r\n",
        ),
        (
            "*3\r\n$7\r\nDQ.PEEK\r\n$5\r\n«q»\r\n$3\r\n\x00\n-\r\n",
            "-ERR syntax error: unexpected argument '\\x00\\n-'; «text»\r\n",
        ),
    ]);
}
