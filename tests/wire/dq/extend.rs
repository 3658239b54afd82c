//! `DQ.EXTEND`: leases messages that were taken for longer.

use super::take::{peers, take};
use crate::peer::{Peer, check, shared};

/// The end of the only lease.
fn until(peer: &mut Peer) -> i64 {
    peer.sends("DQ.TAKEN «q»\r\n");
    let row = "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n«lines»$5\r\nuntil\r\n:«ms»\r\n«lines»";
    let until = peer.gets(&format!("{row}reason\r\n«$-1|_»\r\n")).remove(1);
    until.parse().unwrap()
}

/// Counted from now on, longer or shorter, and not added.
#[test]
fn extend() {
    for mut peer in peers(shared()) {
        let id = take(shared(), &mut peer, "a");
        let first = until(&mut peer);
        peer.sends(format!(
            "*5\r\n$9\r\nDQ.EXTEND\r\n$5\r\n«q»\r\n$18\r\n{id}:1\r\n$5\r\nLEASE\r\n$2\r\n1h\r\n"
        ));
        peer.gets(":1\r\n");
        let second = until(&mut peer);
        assert!((3_569_000..3_600_000).contains(&(second - first)), "{first} {second}");
        // Without LEASE it is that of a take; the same receipt twice is one message.
        peer.sends(format!("dq.extend «q» {id}:1 {id}:1\r\n"));
        peer.gets(":1\r\n");
        let third = until(&mut peer);
        assert!((0..20_000).contains(&(third - first)), "{first} {third}");
        peer.sends(format!(
            "DQ.EXTEND «q» {id}:2 ffffffffffffffff:1\r\nDQ.EXTEND «q»x {id}:1\r\n\
             DQ.ACK «q» {id}:1\r\nDQ.EXTEND «q» {id}:1\r\n"
        ));
        peer.gets(":0\r\n:0\r\n:1\r\n:0\r\n");
    }
}

/// What waits for a retry is not leased again, nor what is dead.
#[test]
fn extend_of_what_was_given_back() {
    for mut peer in peers(shared()) {
        let id = take(shared(), &mut peer, "a");
        peer.sends(format!(
            "DQ.NACK «q» {id}:1 DELAY 1h\r\nDQ.EXTEND «q» {id}:1 lease 24h\r\n\
             DQ.NACK «q» {id}:1 FATAL\r\nDQ.EXTEND «q» {id}:1\r\n"
        ));
        peer.gets(":1\r\n:0\r\n:1\r\n:0\r\n");
    }
}

#[test]
fn extend_refused() {
    let usage = "usage: DQ.EXTEND queue receipt [receipt ...] [LEASE d]";
    let receipt = "ffffffffffffffff:1";
    check(&[
        (&format!("DQ.EXTEND «q» {receipt}\r\n"), ":0\r\n"),
        (
            &format!("DQ.EXTEND «q» {receipt} LEASE 99\r\n"),
            "-BADDELAY LEASE '99' must be at least 100 ms\r\n",
        ),
        (
            &format!("DQ.EXTEND «q» {receipt} LEASE -1\r\n"),
            "-BADDELAY LEASE '-1' must not be negative«text»\r\n",
        ),
        (&format!("DQ.EXTEND «q» {receipt} LEASE 25h\r\n"), "-BADDELAY LEASE '25h' «text»\r\n"),
        (
            &format!("DQ.EXTEND «q» {receipt} LEASE\r\n"),
            "-ERR syntax error: LEASE needs a value\r\n",
        ),
        (
            &format!("DQ.EXTEND «q» {receipt} LEASE 1m x\r\n"),
            &format!("-ERR syntax error: unexpected argument 'x'; {usage}\r\n"),
        ),
        (&format!("DQ.EXTEND «q» {receipt} x\r\n"), "-BADID receipt 2: receipt 'x' «text»\r\n"),
        ("DQ.EXTEND «q» LEASE 1m\r\n", "-BADID receipt 1: receipt 'LEASE' must be «text»\r\n"),
        (
            "DQ.EXTEND «q»\r\n",
            &format!("-ERR wrong number of arguments for 'dq.extend' command; {usage}\r\n"),
        ),
        ("DQ.EXTEND '' ffffffffffffffff:1\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
