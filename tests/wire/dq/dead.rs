//! `DQ.DEAD`: lists, brings back or drops messages whose attempts are used up.

use super::take::{handed_out, peers, push, take};
use crate::peer::{Peer, check, shared};

const NONE: &str = "*2\r\n$1\r\n0\r\n*0\r\n";

/// Takes a message that dies at once.
fn dies(peer: &mut Peer, payload: &str, reason: &str) -> String {
    let id = take(shared(), peer, payload);
    let reason = if reason.is_empty() { String::new() } else { format!("REASON {reason}") };
    peer.sends(format!("DQ.NACK «q» {id}:1 FATAL {reason}\r\n"));
    peer.gets(":1\r\n");
    id
}

fn row(id: &str, reason: &str, payload: &str) -> String {
    let size = payload.len();
    format!(
        "«*10|%5»\r\n$2\r\nid\r\n$16\r\n{id}\r\n$4\r\ndied\r\n:«ms»\r\n$8\r\nattempts\r\n:1\r\n\
         $6\r\nreason\r\n{reason}\r\n$7\r\npayload\r\n${size}\r\n{payload}\r\n"
    )
}

#[test]
fn dead() {
    for mut peer in peers(shared()) {
        peer.sends("*3\r\n$7\r\nDQ.DEAD\r\n$5\r\n«q»\r\n$4\r\nLIST\r\nDQ.DEAD «q» REQUEUE\r\n");
        peer.sends("DQ.DEAD «q» DROP\r\n");
        peer.gets(&(NONE.to_owned() + ":0\r\n:0\r\n"));
        let a = dies(&mut peer, "one", "");
        let b = dies(&mut peer, "", "bad-input");
        let rows = [row(&a, "«$-1|_»", "one"), row(&b, "$9\r\nbad-input", "")];
        peer.sends("dq.dead «q» list\r\n");
        // Two of one millisecond have no order.
        let found = peer.gets("*2\r\n$1\r\n0\r\n*2\r\n«*10|%5»\r\n$2\r\nid\r\n$16\r\n«hex»\r\n");
        let second = if found[0] == a { &rows[1] } else { &rows[0] };
        peer.gets(&format!("«lines»{second}"));
        peer.sends("DQ.DEAD «q» LIST MATCH bad*\r\n");
        peer.gets(&format!("*2\r\n$1\r\n0\r\n*1\r\n{}", rows[1]));
        peer.sends("DQ.DEAD «q» LIST MATCH good*\r\n");
        peer.gets(NONE);
        // By id, by pattern, and both.
        peer.sends(format!(
            "DQ.DEAD «q» DROP ffffffffffffffff\r\nDQ.DEAD «q» DROP {a} MATCH bad*\r\n\
             DQ.DEAD «q» REQUEUE MATCH bad* {b}\r\nDQ.TAKE «q» BLOCK 0\r\n"
        ));
        // It has all its attempts again.
        peer.gets(&(":0\r\n:0\r\n:1\r\n".to_owned() + &handed_out("", 2, 1)));
        peer.sends(format!("dq.dead «q» requeue {a} {a} delay 1h\r\nDQ.TAKEN «q» WAITING\r\n"));
        let [id, ..] = &peer.gets(
            ":1\r\n*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n$2\r\nid\r\n$16\r\n«hex»\r\n\
             $7\r\nattempt\r\n:0\r\n$4\r\nfrom\r\n:«ms»\r\n$6\r\nreason\r\n«$-1|_»\r\n",
        )[..] else {
            panic!("no id");
        };
        assert_eq!(*id, a);
        peer.sends("DQ.DEAD «q» LIST\r\n");
        peer.gets(NONE);
        dies(&mut peer, "two", "x");
        dies(&mut peer, "three", "y");
        peer.sends("DQ.DEAD «q» DROP MATCH x\r\nDQ.DEAD «q» drop\r\nDQ.DEAD «q» LIST\r\n");
        peer.gets(&(":1\r\n:1\r\n".to_owned() + NONE));
    }
}

/// Without ids and pattern a thousand at a time.
#[test]
fn a_thousand_at_a_time() {
    let mut peer = shared().peer();
    let queue = peer.queue.clone();
    let payloads: Vec<String> = (0..1_500).map(|n| n.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    push(shared(), &queue, &payloads);
    for count in [1_000, 500] {
        peer.sends("DQ.TAKE «q» COUNT 1000\r\n");
        peer.gets(&format!("*{count}\r\n"));
        let row = "*12\r\n$7\r\nreceipt\r\n$18\r\n«text»\r\n«lines»message\r\n$«int»\r\n«text»\r\n";
        let receipts = (0..count).map(|_| peer.gets(row).remove(0));
        let receipts: Vec<String> = receipts.collect();
        peer.sends(format!("DQ.NACK «q» {} FATAL REASON some\r\n", receipts.join(" ")));
        peer.gets(&format!(":{count}\r\n"));
    }
    peer.sends(
        "DQ.DEAD «q» REQUEUE DELAY 1h MATCH s?me\r\nDQ.DEAD «q» DROP\r\nDQ.DEAD «q» DROP\r\n",
    );
    peer.gets(":1000\r\n:500\r\n:0\r\n");
}

#[test]
fn dead_refused() {
    let usage = "usage: DQ.DEAD queue <LIST [COUNT n] [CURSOR c] [MATCH pattern]|REQUEUE [id ...] \
                 [MATCH pattern] [DELAY d]|DROP [id ...] [MATCH pattern]>";
    let id = |id| {
        format!(
            "-BADID id '{id}' must be the id that DQ.DEAD LIST shows, 16 hexadecimal digits, and \
             of a stream @group behind them\r\n"
        )
    };
    check(&[
        (
            "DQ.DEAD «q» WHAT\r\n",
            "-ERR unknown subcommand 'WHAT'; LIST, REQUEUE or DROP is expected\r\n",
        ),
        (
            "DQ.DEAD «q» LIST x\r\n",
            &format!("-ERR syntax error: unexpected argument 'x'; {usage}\r\n"),
        ),
        (
            "DQ.DEAD «q» LIST COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.DEAD «q» LIST CURSOR x\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
        ("DQ.DEAD «q» DROP x\r\n", &id("x")),
        ("DQ.DEAD «q» DROP ffffffffffffffff:1\r\n", &id("ffffffffffffffff:1")),
        ("DQ.DEAD «q» DROP DELAY 1\r\n", &id("DELAY")),
        ("DQ.DEAD «q» REQUEUE ''\r\n", &id("")),
        ("DQ.DEAD «q» REQUEUE DELAY -1\r\n", "-BADDELAY DELAY '-1' must not be negative«text»\r\n"),
        ("DQ.DEAD «q» REQUEUE MATCH\r\n", "-ERR syntax error: MATCH needs a value\r\n"),
        (
            "DQ.DEAD «q»\r\n",
            &format!("-ERR wrong number of arguments for 'dq.dead' command; {usage}\r\n"),
        ),
        ("DQ.DEAD '' LIST\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
