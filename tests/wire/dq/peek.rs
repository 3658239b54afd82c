//! `DQ.PEEK`: shows the next pending messages by due time.

use crate::peer::{check, shared};

#[test]
fn peek() {
    check(&[
        ("*2\r\n$7\r\nDQ.PEEK\r\n$5\r\n«q»\r\n", "*0\r\n"),
        ("DQ.OFFER «q» AT 1999999999999 late\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» AT 1999999999998 early NAME e\r\n", "$30\r\n«id»\r\n"),
        (
            "dq.peek «q» count 2\r\n",
            "*2\r\n\
             «*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999998-«hex»\r\n$4\r\nname\r\n$1\r\ne\r\n\
             $3\r\ndue\r\n:1999999999998\r\n$7\r\npayload\r\n$5\r\nearly\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n\
             «*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999999-«hex»\r\n$4\r\nname\r\n«$-1|_»\r\n\
             $3\r\ndue\r\n:1999999999999\r\n$7\r\npayload\r\n$4\r\nlate\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n",
        ),
        ("DQ.PEEK «q» COUNT 1\r\n", "*1\r\n«lines»$5\r\nearly\r\n$6\r\nformat\r\n$6\r\nmodern\r\n"),
        ("DQ.PEEK «q» COUNT 0\r\n", "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n"),
        (
            "DQ.PEEK «q» COUNT 1001\r\n",
            "-ERR COUNT '1001' must be a whole number from 1 to 1000\r\n",
        ),
        ("DQ.PEEK «q» COUNT -1\r\n", "-ERR COUNT '-1' must be a whole number from 1 to 1000\r\n"),
        ("DQ.PEEK «q» COUNT\r\n", "-ERR syntax error: COUNT needs a value\r\n"),
        (
            "DQ.PEEK «q» 5\r\n",
            "-ERR syntax error: unexpected argument '5'; usage: DQ.PEEK queue \
             [COUNT n] [DECODE]\r\n",
        ),
        ("DQ.PEEK\r\n", "-ERR wrong number of arguments for 'dq.peek' command; «text»\r\n"),
        ("DQ.PEEK ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// Without COUNT a page has ten messages.
#[test]
fn ten_by_default() {
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q» 1h a\r\n".repeat(11));
    for _ in 0..11 {
        peer.gets("$30\r\n«id»\r\n");
    }
    peer.sends("DQ.PEEK «q»\r\nDQ.RANGE «q» - +\r\n");
    for head in ["*10\r\n", "*2\r\n$«int»\r\n«text»\r\n*10\r\n"] {
        peer.gets(head);
        for _ in 0..10 {
            peer.gets("*10\r\n$2\r\nid\r\n«lines»$6\r\nmodern\r\n");
        }
    }
}
