//! `DQ.CANCEL`: takes pending messages out, by id or name.

use crate::peer::{check, shared};

#[test]
fn cancel() {
    check(&[
        ("*3\r\n$9\r\nDQ.CANCEL\r\n$5\r\n«q»\r\n$1\r\nn\r\n", ":0\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h b NAME m\r\n", "$30\r\n«id»\r\n"),
        ("dq.cancel «q» n nobody m n 5-ff\r\n", ":2\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
        ("DQ.CANCEL «q»\r\n", "-ERR wrong number of arguments for 'dq.cancel' command; «text»\r\n"),
        ("DQ.CANCEL '' n\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.CANCEL «q» n ''\r\n", "-BADID message 2: message '' must not be empty\r\n"),
    ]);
}

#[test]
fn cancel_by_id() {
    let mut peer = shared().peer();
    peer.sends("DQ.MOFFER «q» 1h a 1h b 1h c\r\n");
    let ids = peer.gets("*3\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    peer.sends(format!(
        "*5\r\n$9\r\nDQ.CANCEL\r\n$5\r\n«q»\r\n$30\r\n{}\r\n$30\r\n{}\r\n$30\r\n{}\r\n",
        ids[2], ids[0], ids[0]
    ));
    peer.gets(":2\r\n");
    // The right digits at another due time are another message.
    let (_, hex) = ids[1].split_once('-').unwrap();
    peer.sends(format!(
        "DQ.CANCEL «q» 1999999999999-{hex} {} {}\r\n",
        &ids[1][..14],
        &ids[1][..28]
    ));
    peer.gets(":0\r\n");
    peer.sends("DQ.POLL «q»\r\n");
    peer.gets("*1\r\n$1\r\nb\r\n");
}
