//! DQ.CONVERT: what is pending in the other format.

use crate::peer::{check, shared};

#[test]
fn convert() {
    let map = |converted: &str, left: &str| {
        format!("«*4|%2»\r\n$9\r\nconverted\r\n:{converted}\r\n$4\r\nleft\r\n:{left}\r\n")
    };
    check(&[
        ("*2\r\n$10\r\nDQ.CONVERT\r\n$5\r\n«q»\r\n", &map("0", "0")),
        (
            "DQ.MOFFER «q» AT 1999999999990 a AT 1999999999991 b\r\n",
            "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        ("DQ.OFFER «q» AT 1999999999992 '' NAME n\r\n", "$30\r\n«id»\r\n"),
        ("dq.convert «q» Legacy\r\n", &map("3", "0")),
        ("DQ.CONVERT «q» LEGACY\r\n", &map("0", "0")),
        ("DQ.GET «q» n\r\n", "«*10|%5»\r\n«lines»$6\r\nlegacy\r\n"),
        ("DQ.CONTAINS «q» a b ''\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n"),
        // The queue's new messages are modern all the while.
        ("DQ.OFFER «q» AT 1999999999993 c NAME m\r\n", "$30\r\n«id»\r\n"),
        ("DQ.GET «q» m\r\n", "«*10|%5»\r\n«lines»$6\r\nmodern\r\n"),
        ("DQ.CONVERT «q»\r\n", &map("3", "0")),
        ("DQ.GET «q» n\r\n", "«*10|%5»\r\n«lines»$6\r\nmodern\r\n"),
        ("DQ.POLL «q» COUNT 9\r\n", "*4\r\n$1\r\na\r\n$1\r\nb\r\n$0\r\n\r\n$1\r\nc\r\n"),
        (
            "DQ.CONVERT «q» old\r\n",
            "-ERR syntax error: unexpected argument 'old'; usage: DQ.CONVERT queue \
             [MODERN|LEGACY]\r\n",
        ),
        ("DQ.CONVERT\r\n", "-ERR wrong number of arguments for 'dq.convert' command; «text»\r\n"),
        ("DQ.CONVERT ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// The id that a client holds finds its message before and after.
#[test]
fn ids_stay() {
    let mut peer = shared().peer3();
    peer.sends("DQ.OFFER «q» 1h a\r\n");
    let id = peer.gets("$30\r\n«id»\r\n").remove(0);
    peer.sends(format!("DQ.CONVERT «q» LEGACY\r\nDQ.GET «q» {id}\r\n"));
    peer.gets(&format!("%2\r\n«lines»:0\r\n%5\r\n$2\r\nid\r\n$30\r\n{id}\r\n«lines»legacy\r\n"));
    peer.sends(format!("DQ.CONVERT «q»\r\nDQ.CANCEL «q» {id}\r\n"));
    peer.gets("%2\r\n«lines»:0\r\n:1\r\n");
}

/// What cannot be converted stays as it is, and is counted.
#[test]
fn what_is_left() {
    let mut peer = shared().peer();
    let mut backing = shared().backing();
    let key = format!("redisson_delay_queue_timeout:{{{}}}", peer.queue);
    let members: [&[u8]; 2] = [b"nobody can read this", b"\x02id\x01\0\0\0\0\0\0\0p"];
    for member in members {
        let zadd = [&b"ZADD"[..], key.as_bytes(), b"1999999999999", member];
        backing.call(&zadd).unwrap();
    }
    peer.sends("DQ.CONVERT «q» LEGACY\r\nDQ.CONVERT «q»\r\nDQ.CLEAR «q»\r\n");
    for left in [2, 1] {
        peer.gets(&format!("*4\r\n$9\r\nconverted\r\n:0\r\n$4\r\nleft\r\n:{left}\r\n"));
    }
    peer.gets(":2\r\n");
}
