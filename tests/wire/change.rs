//! What changes when something is due: DQ.RESCHEDULE, DQ.FIRE, DQ.PAUSE, DQ.RESUME.

use crate::peer::{check, shared};
use crate::support::wait::eventually;

#[test]
fn reschedule() {
    check(&[
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        (
            "*5\r\n$13\r\nDQ.RESCHEDULE\r\n$5\r\n«q»\r\n$1\r\nn\r\n$2\r\nAT\r\n$13\r\n\
             1999999999999\r\n",
            "$30\r\n1999999999999-«hex»\r\n",
        ),
        (
            "DQ.GET «q» n\r\n",
            "«*10|%5»\r\n«lines»:1999999999999\r\n«lines»modern\r\n",
        ),
        ("dq.reschedule «q» n 2h\r\n", "$30\r\n«id»\r\n"),
        (
            "DQ.RESCHEDULE «q» n at 2033-05-18T03:33:20Z\r\n",
            "$30\r\n2000000000000-«hex»\r\n",
        ),
        ("DQ.RESCHEDULE «q» nobody 1h\r\n", "«$-1|_»\r\n"),
        ("DQ.RESCHEDULE «q» 5-ff 1h\r\n", "«$-1|_»\r\n"),
        ("DQ.SIZE «q»\r\n", ":1\r\n"),
        (
            "DQ.RESCHEDULE «q» n -1\r\n",
            "-BADDELAY delay '-1' must not be negative «text»\r\n",
        ),
        (
            "DQ.RESCHEDULE «q» n AT x\r\n",
            "-BADTIME time 'x' must be Unix milliseconds, «text»\r\n",
        ),
        (
            "DQ.RESCHEDULE «q» '' 1h\r\n",
            "-BADID message '' must not be empty\r\n",
        ),
        (
            "DQ.RESCHEDULE '' n 1h\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
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
    peer.sends(format!(
        "DQ.RESCHEDULE «q» 1999999999999-{hex} AT 2000000000000\r\n"
    ));
    peer.gets(&format!("$30\r\n2000000000000-{hex}\r\n"));
    peer.sends(format!(
        "DQ.CANCEL «q» 1999999999999-{hex}\r\nDQ.CANCEL «q» 2000000000000-{hex}\r\n"
    ));
    peer.gets(":0\r\n:1\r\n");
}

#[test]
fn fire() {
    check(&[
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h b NAME m\r\n", "$30\r\n«id»\r\n"),
        ("*3\r\n$7\r\nDQ.FIRE\r\n$5\r\n«q»\r\n$1\r\nn\r\n", ":1\r\n"),
        ("dq.fire «q» n m nobody 5-ff\r\n", ":2\r\n"),
        ("DQ.SIZE «q»\r\n", ":2\r\n"),
        (
            "DQ.FIRE «q»\r\n",
            "-ERR wrong number of arguments for 'dq.fire' command; «text»\r\n",
        ),
        (
            "DQ.FIRE '' n\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
        (
            "DQ.FIRE «q» ''\r\n",
            "-BADID message '' must not be empty\r\n",
        ),
    ]);
}

#[test]
fn fired_and_resumed() {
    let mut peer = shared().peer();
    let mut backing = shared().backing();
    let queue = peer.queue.clone();
    let mut list = || {
        backing
            .call(&["LRANGE", &queue, "0", "-1"])
            .unwrap()
            .texts()
    };
    peer.sends("DQ.OFFER «q» 1h a NAME n\r\nDQ.FIRE «q» n\r\n");
    peer.gets("$30\r\n«id»\r\n:1\r\n");
    assert_eq!(eventually(&mut list, |list| !list.is_empty()), ["a"]);
    peer.sends("DQ.PAUSE «q»\r\nDQ.OFFER «q» 0 b\r\nDQ.SIZE «q»\r\nDQ.RESUME «q»\r\n");
    peer.gets("+OK\r\n$30\r\n«id»\r\n:1\r\n+OK\r\n");
    assert_eq!(eventually(&mut list, |list| list.len() > 1), ["a", "b"]);
    // With a duration it ends by itself.
    peer.sends("DQ.PAUSE «q» 50\r\nDQ.OFFER «q» 0 c\r\n");
    peer.gets("+OK\r\n$30\r\n«id»\r\n");
    assert_eq!(
        eventually(&mut list, |list| list.len() > 2),
        ["a", "b", "c"]
    );
}

#[test]
fn pause_and_resume() {
    check(&[
        ("*2\r\n$8\r\nDQ.PAUSE\r\n$5\r\n«q»\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 0 a\r\n", "$30\r\n«id»\r\n"),
        ("DQ.SIZE «q»\r\n", ":1\r\n"),
        ("dq.pause «q» 1h\r\n", "+OK\r\n"),
        ("DQ.POLL «q»\r\n", "*1\r\n$1\r\na\r\n"),
        ("*2\r\n$9\r\nDQ.RESUME\r\n$5\r\n«q»\r\n", "+OK\r\n"),
        ("dq.resume «q»\r\n", "+OK\r\n"),
        (
            "DQ.PAUSE «q» 0\r\n",
            "-BADDELAY duration '0' must be at least 1 ms\r\n",
        ),
        (
            "DQ.PAUSE «q» -1\r\n",
            "-BADDELAY duration '-1' must not be negative «text»\r\n",
        ),
        (
            "DQ.PAUSE «q» 999999999999d\r\n",
            "-BADDELAY duration '999999999999d' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.PAUSE «q» AT 5\r\n",
            "-ERR wrong number of arguments for 'dq.pause' command; «text»\r\n",
        ),
        (
            "DQ.PAUSE\r\n",
            "-ERR wrong number of arguments for 'dq.pause' command; «text»\r\n",
        ),
        (
            "DQ.PAUSE ''\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
        (
            "DQ.RESUME\r\n",
            "-ERR wrong number of arguments for 'dq.resume' command; «text»\r\n",
        ),
        (
            "DQ.RESUME ''\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}
