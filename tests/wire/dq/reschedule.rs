//! `DQ.RESCHEDULE`: gives a pending message another due time.

use crate::peer::{check, shared};

#[test]
fn reschedule() {
    check(&[
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        (
            "*5\r\n$13\r\nDQ.RESCHEDULE\r\n$5\r\n«q»\r\n$1\r\nn\r\n$2\r\nAT\r\n$13\r\n\
             1999999999999\r\n",
            "$30\r\n1999999999999-«hex»\r\n",
        ),
        ("DQ.GET «q» n\r\n", "«*10|%5»\r\n«lines»:1999999999999\r\n«lines»modern\r\n"),
        ("dq.reschedule «q» n 2h\r\n", "$30\r\n«id»\r\n"),
        ("DQ.RESCHEDULE «q» n at 2033-05-18T03:33:20Z\r\n", "$30\r\n2000000000000-«hex»\r\n"),
        ("DQ.RESCHEDULE «q» nobody 1h\r\n", "«$-1|_»\r\n"),
        ("DQ.RESCHEDULE «q» 5-ff 1h\r\n", "«$-1|_»\r\n"),
        ("DQ.SIZE «q»\r\n", ":1\r\n"),
        ("DQ.RESCHEDULE «q» n -1\r\n", "-BADDELAY delay '-1' must not be negative «text»\r\n"),
        ("DQ.RESCHEDULE «q» n AT x\r\n", "-BADTIME time 'x' must be Unix milliseconds, «text»\r\n"),
        (
            "DQ.RESCHEDULE «q» n AT 1893484800\r\n",
            "-BADTIME time '1893484800' is «text»: are these seconds? «text»\r\n",
        ),
        ("DQ.RESCHEDULE «q» '' 1h\r\n", "-BADID message '' must not be empty\r\n"),
        ("DQ.RESCHEDULE '' n 1h\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        (
            "DQ.RESCHEDULE «q» n\r\n",
            "-ERR wrong number of arguments for 'dq.reschedule' command; «text»\r\n",
        ),
        (
            "DQ.RESCHEDULE «q» n AT\r\n",
            "-ERR wrong number of arguments for 'dq.reschedule' command; «text»\r\n",
        ),
        (
            "DQ.RESCHEDULE «q» n 1h 2h\r\n",
            "-ERR syntax error: unexpected argument '2h'; «text»\r\n",
        ),
    ]);
}

/// The id changes with the due time, and only the new one finds the message.
#[test]
fn rescheduled_by_id() {
    let mut peer = shared().peer3();
    peer.sends("DQ.OFFER «q» AT 1999999999999 a\r\n");
    let hex = peer.gets("$30\r\n1999999999999-«hex»\r\n").remove(0);
    peer.sends(format!("DQ.RESCHEDULE «q» 1999999999999-{hex} AT 2000000000000\r\n"));
    peer.gets(&format!("$30\r\n2000000000000-{hex}\r\n"));
    peer.sends(format!(
        "DQ.CANCEL «q» 1999999999999-{hex}\r\nDQ.CANCEL «q» 2000000000000-{hex}\r\n"
    ));
    peer.gets(":0\r\n:1\r\n");
}
