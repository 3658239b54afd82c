//! `DQ.QUEUES`: pages through the known queues.

use crate::peer::{check, shared};

#[test]
fn queues() {
    check(&[
        ("DQ.QUEUES MATCH «q»\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.OFFER «q» AT 1999999999999 a\r\n", "$30\r\n«id»\r\n"),
        (
            "*5\r\n$9\r\nDQ.QUEUES\r\n$5\r\nMATCH\r\n$5\r\n«q»\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«*14|%7»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n$7\r\npending\r\n:1\r\n\
             $5\r\nready\r\n:0\r\n$8\r\nnext_due\r\n:1999999999999\r\n$10\r\noverdue_ms\r\n:0\r\n\
             $6\r\npaused\r\n:0\r\n$11\r\nquarantined\r\n:0\r\n",
        ),
        ("DQ.POLL «q»\r\n", "*1\r\n$1\r\na\r\n"),
        (
            "dq.queues count 5 match «q» cursor 0\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«*14|%7»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n$7\r\npending\r\n:0\r\n\
             $5\r\nready\r\n:0\r\n$8\r\nnext_due\r\n«$-1|_»\r\n$10\r\noverdue_ms\r\n:0\r\n\
             $6\r\npaused\r\n:0\r\n$11\r\nquarantined\r\n:0\r\n",
        ),
        ("DQ.QUEUES COUNT 0\r\n", "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n"),
        ("DQ.QUEUES MATCH\r\n", "-ERR syntax error: MATCH needs a value\r\n"),
        ("DQ.QUEUES «q»\r\n", "-ERR syntax error: unexpected argument '«q»'; usage: «text»\r\n"),
        (
            "DQ.QUEUES CURSOR x\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
        (
            "DQ.QUEUES CURSOR 77\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
    ]);
}

#[test]
fn pages_of_queues() {
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q»a 1h x\r\nDQ.OFFER «q»b 1h x\r\nDQ.OFFER «q»c 1h x\r\n");
    peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        peer.sends(format!("DQ.QUEUES MATCH «q»? COUNT 1 CURSOR {cursor}\r\n"));
        cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n").remove(1);
        let count = peer.gets("*«int»\r\n").remove(0);
        for _ in 0..count.parse().unwrap() {
            seen.extend(
                peer.gets(
                    "*14\r\n$5\r\nqueue\r\n$6\r\n«text»\r\n«lines»next_due\r\n:«ms»\r\n\
                     «lines»quarantined\r\n:0\r\n",
                )
                .into_iter()
                .take(1),
            );
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c"].map(|end| peer.queue.clone() + end));
}
