//! `DQ.MOFFER`: stores several messages of one queue at once.

use crate::peer::{check, shared};

#[test]
fn many_at_once() {
    check(&[
        (
            "*6\r\n$9\r\nDQ.MOFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$1\r\na\r\n$2\r\n2h\r\n$1\r\nb\r\n",
            "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        (
            "dq.moffer «q» AT 1999999999999 c 1h '' at 2033-05-18T03:33:20Z at\r\n",
            "*3\r\n$30\r\n1999999999999-«hex»\r\n$30\r\n«id»\r\n$30\r\n2000000000000-«hex»\r\n",
        ),
        ("DQ.MOFFER «q» 1h one\r\n", "*1\r\n$30\r\n«id»\r\n"),
        ("DQ.SIZE «q»\r\n", ":6\r\n"),
        // None of it is stored where one is wrong.
        (
            "DQ.MOFFER «q» 1h a -1 b\r\n",
            "-BADDELAY message 2: delay '-1' must not be negative «text»\r\n",
        ),
        ("DQ.MOFFER «q» 1h a AT x b\r\n", "-BADTIME message 2: time 'x' must be Unix «text»\r\n"),
        (
            "DQ.MOFFER «q» 1h a 2h\r\n",
            "-ERR message 2: wrong number of arguments for 'dq.moffer' «text»\r\n",
        ),
        (
            "DQ.MOFFER «q» 1h\r\n",
            "-ERR wrong number of arguments for 'dq.moffer' command; «text»\r\n",
        ),
        ("DQ.MOFFER '' 1h a\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.SIZE «q»\r\n", ":6\r\n"),
    ]);
}

#[test]
fn a_thousand_at_once() {
    let mut peer = shared().peer();
    peer.sends("*2002\r\n$9\r\nDQ.MOFFER\r\n$5\r\n«q»\r\n");
    peer.sends("$2\r\n1h\r\n$3\r\nabc\r\n".repeat(1_000));
    peer.gets("*1000\r\n");
    for _ in 0..1_000 {
        peer.gets("$30\r\n«id»\r\n");
    }
    peer.sends("*2004\r\n$9\r\nDQ.MOFFER\r\n$5\r\n«q»\r\n");
    peer.sends("$2\r\n1h\r\n$3\r\nabc\r\n".repeat(1_001));
    peer.gets("-TOOMANY more than 1000 messages in one command\r\n");
    peer.sends("DQ.SIZE «q»\r\n");
    peer.gets(":1000\r\n");
}
