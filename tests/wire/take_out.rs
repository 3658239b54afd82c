//! What takes pending messages out: DQ.CANCEL, DQ.REMOVE, DQ.POLL, DQ.CLEAR.

use crate::peer::{check, shared};

#[test]
fn cancel() {
    check(&[
        (
            "*3\r\n$9\r\nDQ.CANCEL\r\n$5\r\n«q»\r\n$1\r\nn\r\n",
            ":0\r\n",
        ),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h b NAME m\r\n", "$30\r\n«id»\r\n"),
        ("dq.cancel «q» n nobody m n 5-ff\r\n", ":2\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
        (
            "DQ.CANCEL «q»\r\n",
            "-ERR wrong number of arguments for 'dq.cancel' command; «text»\r\n",
        ),
        (
            "DQ.CANCEL '' n\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
        (
            "DQ.CANCEL «q» n ''\r\n",
            "-BADID message 2: message '' must not be empty\r\n",
        ),
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

#[test]
fn remove() {
    check(&[
        (
            "*3\r\n$9\r\nDQ.REMOVE\r\n$5\r\n«q»\r\n$1\r\na\r\n",
            ":0\r\n",
        ),
        (
            "DQ.MOFFER «q» 4h a 3h b 2h a 1h a 1h ''\r\n",
            "*5\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        // The first offered, not the first due.
        ("dq.remove «q» a\r\n", ":1\r\n"),
        (
            "DQ.RANGE «q» - + COUNT 1\r\n",
            "*2\r\n$«int»\r\n«text»\r\n*1\r\n«lines»$1\r\na\r\n«lines»modern\r\n",
        ),
        ("DQ.REMOVE «q» a COUNT 0\r\n", ":2\r\n"),
        ("DQ.REMOVE «q» '' count 5\r\n", ":1\r\n"),
        ("DQ.REMOVE «q» c\r\n", ":0\r\n"),
        ("DQ.POLL «q»\r\n", "*1\r\n$1\r\nb\r\n"),
        (
            "DQ.REMOVE «q» a COUNT -1\r\n",
            "-ERR COUNT '-1' must be a whole number\r\n",
        ),
        (
            "DQ.REMOVE «q» a COUNT\r\n",
            "-ERR syntax error: COUNT needs a value\r\n",
        ),
        (
            "DQ.REMOVE «q» a b\r\n",
            "-ERR syntax error: unexpected argument 'b'; «text»\r\n",
        ),
        (
            "DQ.REMOVE «q»\r\n",
            "-ERR wrong number of arguments for 'dq.remove' command; «text»\r\n",
        ),
        (
            "DQ.REMOVE '' a\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}

#[test]
fn poll() {
    check(&[
        ("*2\r\n$7\r\nDQ.POLL\r\n$5\r\n«q»\r\n", "*0\r\n"),
        (
            "DQ.MOFFER «q» 3h first 2h '' 1h third\r\n",
            "*3\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        ("dq.poll «q» count 2\r\n", "*2\r\n$5\r\nfirst\r\n$0\r\n\r\n"),
        ("DQ.POLL «q»\r\n", "*1\r\n$5\r\nthird\r\n"),
        (
            "DQ.POLL «q» COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.POLL «q» COUNT x\r\n",
            "-ERR COUNT 'x' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.POLL «q» 2\r\n",
            "-ERR syntax error: unexpected argument '2'; «text»\r\n",
        ),
        (
            "DQ.POLL\r\n",
            "-ERR wrong number of arguments for 'dq.poll' command; «text»\r\n",
        ),
        ("DQ.POLL ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

#[test]
fn clear() {
    check(&[
        ("*2\r\n$8\r\nDQ.CLEAR\r\n$5\r\n«q»\r\n", ":0\r\n"),
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        (
            "DQ.MOFFER «q» 1h a 2h b\r\n",
            "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("dq.clear «q»\r\n", ":3\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
        ("DQ.OFFER «q» 1h a NAME n NX\r\n", "$30\r\n«id»\r\n"),
        // A pause stays.
        (
            "DQ.INFO «q»\r\nECHO end\r\n",
            "«*44|%22»\r\n«lines»$6\r\npaused\r\n:1\r\n«lines»$3\r\nend\r\n",
        ),
        (
            "DQ.CLEAR\r\n",
            "-ERR wrong number of arguments for 'dq.clear' command; «text»\r\n",
        ),
        (
            "DQ.CLEAR «q» x\r\n",
            "-ERR wrong number of arguments for 'dq.clear' command; «text»\r\n",
        ),
        (
            "DQ.CLEAR ''\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}
