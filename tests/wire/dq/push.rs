//! `DQ.PUSH`: messages that are due at once.

use super::take::{first, peers};
use crate::peer::{check, shared};

#[test]
fn push() {
    check(&[
        ("*3\r\n$7\r\nDQ.PUSH\r\n$5\r\n«q»\r\n$4\r\na\r\nb\r\n", ":1\r\n"),
        ("DQ.PUSH «q» c AS\r\n", ":2\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
        ("DQ.SETUP «q» destination stream\r\n", "-ERR the destination of a queue «text»\r\n"),
    ]);
    for mut peer in peers(shared()) {
        peer.sends("DQ.PUSH «q» a b\r\nDQ.TAKE «q»\r\nDQ.TAKE «q»\r\n");
        peer.gets(&format!(":2\r\n{}{}", first("a"), first("b")));
        // Takers have the ids that the push gave.
        peer.sends("DQ.SETUP «q» destination take\r\nDQ.PUSH «q» c d\r\nDQ.TAKE «q» COUNT 2\r\n");
        peer.gets("+OK\r\n*2\r\n");
        let ids = peer.gets_ids(2);
        let hex = |id: &String| id.rsplit_once('-').unwrap().1.to_owned();
        let row = |id: &String, payload: &str| {
            format!(
                "«*12|%6»\r\n$7\r\nreceipt\r\n$18\r\n{0}:1\r\n$2\r\nid\r\n$16\r\n{0}\r\n\
                 $7\r\nattempt\r\n:1\r\n$5\r\nuntil\r\n:«ms»\r\n\
                 $7\r\npayload\r\n$1\r\n{payload}\r\n$7\r\nmessage\r\n$18\r\n0-{0}\r\n",
                hex(id)
            )
        };
        peer.gets(&format!("*2\r\n{}{}", row(&ids[0], "c"), row(&ids[1], "d")));
        // One that waits gets it at once, and a paused queue keeps it.
        peer.sends("DQ.PAUSE «q»\r\nDQ.PUSH «q» e\r\nDQ.SIZE «q»\r\nDQ.RESUME «q»\r\n");
        peer.gets("+OK\r\n*1\r\n$30\r\n«id»\r\n:1\r\n+OK\r\n");
        peer.sends("DQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&first("e"));
    }
}

#[test]
fn refused() {
    check(&[
        ("DQ.PUSH «q»\r\n", "-ERR wrong number of arguments for 'dq.push' command; «text»\r\n"),
        ("DQ.PUSH '' a\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.PUSH «q» a AS x\r\n", "-ERR encoding 'x' must be one of «text»\r\n"),
        ("DQ.PUSH «q» 1 x AS json\r\n", "-ERR message 2: payload 'x' is not JSON«text»\r\n"),
        ("DQ.SETUP «q» max_length 2\r\n", "+OK\r\n"),
        ("DQ.PUSH «q» a b c\r\n", "-TOOMANY the queue holds 0 of 2 messages «text»\r\n"),
        ("DQ.PUSH «q» a b\r\n", ":2\r\n"),
        ("DQ.PUSH «q» c\r\n", "-TOOMANY the queue holds 2 of 2 messages «text»\r\n"),
        ("DQ.SETUP «q»s destination stream\r\n", "+OK\r\n"),
        ("DQ.PUSH «q»s c\r\n", ":1\r\n"),
        ("MULTI\r\nDQ.PUSH «q» c\r\nDISCARD\r\n", "+OK\r\n-ERR Command not «text»\r\n+OK\r\n"),
    ]);
}
