//! `DQ.PAUSE`: keeps due messages back, of one queue or of all.

use crate::peer::{Place, check, check_on};

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
        ("DQ.PAUSE «q» 0\r\n", "-BADDELAY duration '0' must be at least 1 ms\r\n"),
        ("DQ.PAUSE «q» -1\r\n", "-BADDELAY duration '-1' must not be negative «text»\r\n"),
        (
            "DQ.PAUSE «q» 999999999999d\r\n",
            "-BADDELAY duration '999999999999d' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.PAUSE «q» AT 5\r\n",
            "-ERR wrong number of arguments for 'dq.pause' command; «text»\r\n",
        ),
        ("DQ.PAUSE\r\n", "-ERR wrong number of arguments for 'dq.pause' command; «text»\r\n"),
        ("DQ.PAUSE ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.RESUME\r\n", "-ERR wrong number of arguments for 'dq.resume' command; «text»\r\n"),
        ("DQ.RESUME ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// The word for all queues, in any case; a broker of its own, since it stops those of others.
#[test]
fn pause_of_all() {
    let place = Place::spawn(&[]);
    let paused = |until: &str| {
        let field = |end: &str| format!("«lines»paused_until\r\n{until}\r\n{end}");
        field("$10\r\npaused_all\r\n:1\r\n«lines»lateness_max_ms\r\n«$-1|_»\r\n")
    };
    let rows = [
        ("*2\r\n$8\r\nDQ.PAUSE\r\n$3\r\nALL\r\n", "+OK\r\n".to_owned()),
        (
            "INFO broker\r\n",
            "$«int»\r\n«lines»paused_all:1\r\n«lines»redis_link:up\r\n\r\n".to_owned(),
        ),
        ("DQ.OFFER «q» 0 a\r\n", "$30\r\n«id»\r\n".to_owned()),
        ("DQ.INFO «q»\r\n", paused(":-1")),
        ("dq.pause all 1h\r\n", "+OK\r\n".to_owned()),
        ("DQ.INFO «q»\r\n", paused(":«ms»")),
        // The queue's own pause is another one, and the later one counts.
        ("DQ.PAUSE «q»\r\n", "+OK\r\n".to_owned()),
        ("DQ.INFO «q»\r\n", paused(":-1")),
        ("DQ.RESUME «q»\r\n", "+OK\r\n".to_owned()),
        ("DQ.SIZE «q»\r\n", ":1\r\n".to_owned()),
        (
            "DQ.QUEUES MATCH «q»\r\n",
            "«lines»$6\r\npaused\r\n:1\r\n$11\r\nquarantined\r\n:0\r\n".to_owned(),
        ),
        ("DQ.CLEAR «q»\r\n", ":1\r\n".to_owned()),
        ("*2\r\n$9\r\nDQ.RESUME\r\n$3\r\nAll\r\n", "+OK\r\n".to_owned()),
        (
            "INFO broker\r\n",
            "$«int»\r\n«lines»paused_all:0\r\n«lines»redis_link:up\r\n\r\n".to_owned(),
        ),
        ("DQ.RESUME ALL\r\n", "+OK\r\n".to_owned()),
        ("DQ.PAUSE ALL 0\r\n", "-BADDELAY duration '0' must be at least 1 ms\r\n".to_owned()),
        (
            "DQ.RESUME ALL ALL\r\n",
            "-ERR wrong number of arguments for 'dq.resume' command; usage: DQ.RESUME \
             <queue|ALL>\r\n"
                .to_owned(),
        ),
    ];
    let rows: Vec<(&str, &str)> = rows.iter().map(|(sent, came)| (*sent, &came[..])).collect();
    check_on(&place, &rows);
}
