//! `DQ.ACK`: settles messages that were taken as done.

use super::take::{peers, push, take};
use crate::peer::{Place, check, check_on, shared};

#[test]
fn ack() {
    for mut peer in peers(shared()) {
        let [a, b, c] = ["a", "b", "c"].map(|payload| take(shared(), &mut peer, payload));
        peer.sends(format!("*3\r\n$6\r\nDQ.ACK\r\n$5\r\n«q»\r\n$18\r\n{a}:1\r\n"));
        peer.gets(":1\r\n");
        // Once, however often it is said, and in any case of the digits.
        peer.sends(format!("DQ.ACK «q» {a}:1\r\ndq.ack «q» {} {b}:1 {c}:1\r\n", {
            b.to_uppercase() + ":1"
        }));
        peer.gets(":0\r\n:2\r\n");
        // Nothing is left of them.
        let left = format!("delay_broker_*{{{}}}", peer.queue);
        let left = shared().backing().call(&["KEYS", &left]).unwrap().texts();
        let record = format!("delay_broker_queue:{{{}}}", peer.queue);
        assert!(left.iter().all(|key| *key == record), "{left:?}");
    }
}

/// Receipts of another delivery, of another queue or of nothing settle nothing.
#[test]
fn ack_of_others() {
    for mut peer in peers(shared()) {
        let id = take(shared(), &mut peer, "a");
        let other = format!("{}other", peer.queue);
        push(shared(), &other, &["b"]);
        peer.sends(format!("DQ.ACK «q» {id}:2\r\nDQ.ACK {other} {id}:1\r\nDQ.ACK «q»x {id}:1\r\n"));
        peer.gets(":0\r\n:0\r\n:0\r\n");
        peer.sends(format!("DQ.ACK «q» {id}:1 ffffffffffffffff:1 0000000000000000:9\r\n"));
        peer.gets(":1\r\n");
    }
}

#[test]
fn ack_refused() {
    let wrong = "must be the receipt that DQ.TAKE gave, as 054ee59a82cd6000:1\r\n";
    let bad = |number: u32, receipt: &str| {
        format!("-BADID receipt {number}: receipt '{receipt}' {wrong}")
    };
    check(&[
        ("DQ.ACK «q» ffffffffffffffff:1\r\n", ":0\r\n"),
        ("DQ.ACK «q» ffffffffffffffff\r\n", &bad(1, "ffffffffffffffff")),
        ("DQ.ACK «q» ffffffffffffffff:\r\n", &bad(1, "ffffffffffffffff:")),
        ("DQ.ACK «q» ffffffffffffffff:0\r\n", &bad(1, "ffffffffffffffff:0")),
        ("DQ.ACK «q» ffffffffffffffff:-1\r\n", &bad(1, "ffffffffffffffff:-1")),
        ("DQ.ACK «q» fffffffffffffff:1\r\n", &bad(1, "fffffffffffffff:1")),
        ("DQ.ACK «q» fffffffffffffffg:1\r\n", &bad(1, "fffffffffffffffg:1")),
        ("DQ.ACK «q» ''\r\n", &bad(1, "")),
        ("DQ.ACK «q» ffffffffffffffff:1 x\r\n", &bad(2, "x")),
        (
            "DQ.ACK «q»\r\n",
            "-ERR wrong number of arguments for 'dq.ack' command; usage: DQ.ACK queue receipt \
             [receipt ...]\r\n",
        ),
        ("DQ.ACK '' ffffffffffffffff:1\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// One limit for all commands that take receipts.
#[test]
fn too_many_receipts() {
    let place = Place::spawn(&[("limits.receipts_max", "3")]);
    let receipts = " ffffffffffffffff:1".repeat(3);
    for command in ["DQ.ACK", "DQ.NACK", "DQ.EXTEND"] {
        check_on(
            &place,
            &[
                (&format!("{command} «q»{receipts}\r\n"), ":0\r\n"),
                (
                    &format!("{command} «q»{receipts} ffffffffffffffff:2\r\n"),
                    "-TOOMANY more receipts than 3 (limits.receipts_max) in one command\r\n",
                ),
            ],
        );
    }
    check(&[
        (&format!("DQ.ACK «q»{}\r\n", " ffffffffffffffff:1".repeat(1_000)), ":0\r\n"),
        (
            &format!("DQ.ACK «q»{}\r\n", " ffffffffffffffff:1".repeat(1_001)),
            "-TOOMANY more receipts than 1000 (limits.receipts_max) in one command\r\n",
        ),
    ]);
}
