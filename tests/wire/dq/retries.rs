//! `DQ.GET`, `DQ.CANCEL`, `DQ.FIRE` and `DQ.RESCHEDULE` of messages that wait for a retry, which
//! are named by `message` of `DQ.TAKE`.

use super::take::{handed_out, peers, take};
use crate::peer::{Peer, check, shared};

/// Takes a payload and gives it back for an hour; its id.
fn waits(peer: &mut Peer, payload: &str) -> String {
    let id = take(shared(), peer, payload);
    peer.sends(format!("DQ.NACK «q» {id}:1 DELAY 1h REASON no\r\n"));
    peer.gets(":1\r\n");
    id
}

#[test]
fn each_command() {
    for mut peer in peers(shared()) {
        let id = waits(&mut peer, "é");
        let map = |fields: usize, more: &str| {
            format!(
                "«*{}|%{fields}»\r\n$2\r\nid\r\n$18\r\n0-{id}\r\n$4\r\nname\r\n«$-1|_»\r\n\
                 $3\r\ndue\r\n:«ms»\r\n$7\r\npayload\r\n$2\r\né\r\n$6\r\nformat\r\n«$-1|_»\r\n\
                 {more}$7\r\nattempt\r\n:1\r\n$6\r\nreason\r\n$2\r\nno\r\n",
                2 * fields
            )
        };
        peer.sends(format!("DQ.GET «q» 0-{id}\r\nDQ.GET «q» 0-{} decode\r\n", id.to_uppercase()));
        peer.gets(&map(7, ""));
        peer.gets(&map(8, "$8\r\nencoding\r\n$6\r\nstring\r\n"));
        // Its id stays; its time is that of DQ.TAKEN.
        peer.sends(format!("DQ.RESCHEDULE «q» 0-{id} AT 1999999999999\r\n"));
        peer.gets(&format!("$18\r\n0-{id}\r\n"));
        peer.sends("DQ.TAKEN «q» WAITING\r\n");
        peer.gets(
            "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n«lines»from\r\n:1999999999999\r\n«lines»no\r\n",
        );
        // Not yet, then now; the attempt before counts.
        peer.sends(format!("DQ.TAKE «q»\r\nDQ.FIRE «q» 0-{id} 0-{id} 5-{id} n\r\nDQ.TAKE «q»\r\n"));
        peer.gets(&format!("«*-1|_»\r\n:1\r\n{}", handed_out("é", 2, 2)));
        // Somebody has it.
        peer.sends(format!(
            "DQ.GET «q» 0-{id}\r\nDQ.FIRE «q» 0-{id}\r\nDQ.RESCHEDULE «q» 0-{id} 5\r\n\
             DQ.CANCEL «q» 0-{id}\r\nDQ.NACK «q» {id}:2 DELAY 1h\r\n"
        ));
        peer.gets("«$-1|_»\r\n:0\r\n«$-1|_»\r\n:0\r\n:1\r\n");
        // Gone, and its receipt with it.
        peer.sends(format!(
            "DQ.CANCEL «q» 0-{id} 0-{id} 5-{id}\r\nDQ.CANCEL «q» 0-{id}\r\n\
             DQ.ACK «q» {id}:2\r\nDQ.GET «q» 0-{id}\r\nDQ.TAKEN «q» WAITING\r\n"
        ));
        peer.gets(":1\r\n:0\r\n:0\r\n«$-1|_»\r\n*2\r\n$1\r\n0\r\n*0\r\n");
    }
}

/// Some wait, some are pending, and some are neither.
#[test]
fn among_others() {
    for mut peer in peers(shared()) {
        let mut ids: Vec<String> = Vec::new();
        for payload in ["a", "b"] {
            ids.push(waits(&mut peer, payload));
        }
        let [a, b] = ids.try_into().unwrap();
        peer.sends("DQ.OFFER «q» 1h c NAME n\r\n");
        let pending = peer.gets("$30\r\n«id»\r\n").remove(0);
        peer.sends(format!("DQ.FIRE «q» 0-{a} 0-0000000000000000\r\n"));
        peer.gets(":1\r\n");
        peer.sends(format!("DQ.CANCEL «q» {pending} 0-{b} n 0-{a} 0-{a}ff 0-\r\nDQ.SIZE «q»\r\n"));
        peer.gets(":3\r\n:0\r\n");
    }
}

/// A message of another program that is pending with the score 0 is found as before.
#[test]
fn pending_with_the_score_0() {
    for mut peer in [shared().peer(), shared().peer3()] {
        let queue = peer.queue.clone();
        let timeout = format!("redisson_delay_queue_timeout:{{{queue}}}");
        let member = b"\x08idididid\x01\0\0\0\0\0\0\0a";
        shared().backing().call(&[b"ZADD", timeout.as_bytes(), b"0", member]).unwrap();
        peer.sends("DQ.PAUSE «q»\r\nDQ.GET «q» 0-6964696469646964\r\n");
        peer.gets("+OK\r\n«*10|%5»\r\n$2\r\nid\r\n$18\r\n0-6964696469646964\r\n«lines»modern\r\n");
        peer.sends("DQ.RESCHEDULE «q» 0-6964696469646964 1h\r\n");
        let id = peer.gets("$30\r\n«id»\r\n").remove(0);
        peer.sends(format!("DQ.CANCEL «q» {id}\r\n"));
        peer.gets(":1\r\n");
    }
}

#[test]
fn what_does_not_wait() {
    check(&[
        ("DQ.GET «q» 0-ffffffffffffffff\r\n", "«$-1|_»\r\n"),
        ("DQ.CANCEL «q» 0-ffffffffffffffff\r\n", ":0\r\n"),
        ("DQ.FIRE «q» 0-ffffffffffffffff\r\n", ":0\r\n"),
        ("DQ.RESCHEDULE «q» 0-ffffffffffffffff 1h\r\n", "«$-1|_»\r\n"),
        ("DQ.RESCHEDULE «q» 0-ffffffffffffffff x\r\n", "-BADDELAY delay 'x' «text»\r\n"),
    ]);
}
