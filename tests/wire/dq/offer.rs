//! `DQ.OFFER`: stores a message; what it refuses, and the limits of offers.

use crate::peer::{Place, check, check_on, shared};
use crate::support::wait::eventually;
use std::sync::OnceLock;

#[test]
fn a_delay_and_a_payload() {
    check(&[
        ("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$5\r\nhello\r\n", "$30\r\n«id»\r\n"),
        ("*4\r\n$8\r\ndq.offer\r\n$5\r\n«q»\r\n$7\r\n3600000\r\n$0\r\n\r\n", "$30\r\n«id»\r\n"),
        ("Dq.OfFeR «q» 1h30m hello\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 7d 'a payload'\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 86400000ms \"\\x00\\r\\n\"\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 0000000000000000000000003600000 leading\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 2h AT\r\n", "$30\r\n«id»\r\n"),
        ("DQ.SIZE «q»\r\n", ":7\r\n"),
    ]);
}

/// The words of SYNC, in both protocols. The Redis behind has neither replicas nor a file.
#[test]
fn sync() {
    let none = "-UNAVAILABLE SYNC replicas 2 needs 2 connected replicas, and Redis has 0; nothing \
                was stored\r\n";
    check(&[
        ("DQ.OFFER «q» 1h p SYNC none\r\n", "$30\r\n«id»\r\n"),
        (
            "*7\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$1\r\np\r\n$4\r\nsync\r\n\
             $8\r\nreplicas\r\n$1\r\n2\r\n",
            none,
        ),
        ("DQ.OFFER «q» 1h p SYNC 'REPLICAS 2' NAME n\r\n", none),
        ("DQ.MOFFER «q» SYNC replicas 2 1h p 1h q\r\n", none),
        ("DQ.OFFER «q» 1h p SYNC FSYNC\r\n", "-ERR SYNC fsync needs a Redis that «text»\r\n"),
        ("DQ.MOFFER «q» SYNC fsync 1h p\r\n", "-ERR SYNC fsync needs a Redis that «text»\r\n"),
        ("DQ.OFFER «q» 1h p SYNC\r\n", "-ERR syntax error: SYNC needs a value\r\n"),
        ("DQ.OFFER «q» 1h p SYNC disk\r\n", "-ERR SYNC 'disk' must be fsync, none, «text»\r\n"),
        (
            "DQ.OFFER «q» 1h p SYNC replicas 0\r\n",
            "-ERR SYNC 'replicas' needs a whole number from 1 to 16 behind it\r\n",
        ),
        ("DQ.OFFER «q» 1h p SYNC none SYNC none\r\n", "-ERR syntax error: unexpected «text»\r\n"),
        ("DQ.SIZE «q»\r\n", ":1\r\n"),
    ]);
}

#[test]
fn a_moment() {
    check(&[
        ("DQ.OFFER «q» AT 1999999999999 a\r\n", "$30\r\n1999999999999-«hex»\r\n"),
        (
            "*5\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\nat\r\n$20\r\n2033-05-18T03:33:20Z\r\n\
             $1\r\nb\r\n",
            "$30\r\n2000000000000-«hex»\r\n",
        ),
        // Half an hour behind Greenwich; rounded up to a millisecond.
        ("DQ.OFFER «q» AT 2033-05-18T03:03:20.0001-00:30 c\r\n", "$30\r\n2000000000001-«hex»\r\n"),
        ("DQ.SIZE «q»\r\n", ":3\r\n"),
    ]);
}

/// What lies in the past is due now: the list has it at once.
#[test]
fn a_moment_in_the_past() {
    for moment in [
        "1969-12-31T23:59:59Z",
        "1971-01-01T00:00:00Z",
        "100000000000",
        "2001-09-09T01:46:40Z",
        "1000000000000",
    ] {
        let mut peer = shared().peer();
        peer.sends(format!("DQ.OFFER «q» AT {moment} {moment}\r\n"));
        peer.gets("$30\r\n«id»\r\n");
        let mut backing = shared().backing();
        let list = || backing.call(&["LRANGE", &peer.queue, "0", "-1"]).unwrap().texts();
        assert_eq!(eventually(list, |list| !list.is_empty()), [moment]);
        peer.sends("DQ.SIZE «q»\r\n");
        peer.gets(":0\r\n");
    }
}

#[test]
fn names() {
    check(&[
        ("DQ.OFFER «q» 1h first NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h again NAME n NX\r\n", "«$-1|_»\r\n"),
        ("DQ.OFFER «q» 1h other NAME m XX\r\n", "«$-1|_»\r\n"),
        ("DQ.OFFER «q» 1h second XX name n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h third NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h other name NX nX\r\n", "$30\r\n«id»\r\n"),
        (
            "DQ.PEEK «q» COUNT 1\r\n",
            "*1\r\n«lines»\r\n$5\r\nthird\r\n$6\r\nformat\r\n$6\r\nmodern\r\n",
        ),
        ("DQ.SIZE «q»\r\n", ":2\r\n"),
        ("DQ.CANCEL «q» n\r\n", ":1\r\n"),
        // Free again.
        ("DQ.OFFER «q» 1h fourth NAME n NX\r\n", "$30\r\n«id»\r\n"),
        (
            "*6\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$1\r\nx\r\n$4\r\nNAME\r\n\
             $3\r\n\r\n\x00\r\n",
            "$30\r\n«id»\r\n",
        ),
        ("DQ.CANCEL «q» \"\\r\\n\\x00\"\r\n", ":1\r\n"),
    ]);
}

#[test]
fn refused() {
    check(&[
        (
            "DQ.OFFER\r\n",
            "-ERR wrong number of arguments for 'dq.offer' command; usage: «text»\r\n",
        ),
        (
            "DQ.OFFER «q» 1h\r\n",
            "-ERR wrong number of arguments for 'dq.offer' command; «text»\r\n",
        ),
        (
            "DQ.OFFER «q» AT 1999999999999\r\n",
            "-ERR wrong number of arguments for 'dq.offer' command; «text»\r\n",
        ),
        (
            "DQ.OFFER «q» 1h a b\r\n",
            "-ERR syntax error: unexpected argument 'b'; usage: «text»\r\n",
        ),
        ("DQ.OFFER «q» 1h a NAME\r\n", "-ERR syntax error: NAME needs a value\r\n"),
        ("DQ.OFFER «q» 1h a NX\r\n", "-ERR syntax error: NX and XX need NAME\r\n"),
        (
            "DQ.OFFER «q» 1h a NAME n NX XX\r\n",
            "-ERR syntax error: unexpected argument 'XX'; usage: «text»\r\n",
        ),
        ("DQ.OFFER '' 1h a\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        (
            "DQ.OFFER redisson_delay_queue_x 1h a\r\n",
            "-BADQUEUE queue 'redisson_delay_queue_x' begins with a prefix of the broker's own \
             keys (redisson_delay_queue, delay_broker_)\r\n",
        ),
        (
            "DQ.OFFER delay_broker_x 1h a\r\n",
            "-BADQUEUE queue 'delay_broker_x' begins with «text»\r\n",
        ),
        (
            "DQ.OFFER «q» -5 a\r\n",
            "-BADDELAY delay '-5' must not be negative (a moment in the past is given as AT \
             time)\r\n",
        ),
        ("DQ.OFFER «q» 1.5s a\r\n", "-BADDELAY delay '1.5s' must be a whole number «text»\r\n"),
        ("DQ.OFFER «q» 0.5 a\r\n", "-BADDELAY delay '0.5' must be a whole number «text»\r\n"),
        ("DQ.OFFER «q» '' a\r\n", "-BADDELAY delay '' must not be empty\r\n"),
        (
            "DQ.OFFER «q» soon a\r\n",
            "-BADDELAY delay 'soon' must be whole milliseconds, «text»\r\n",
        ),
        ("DQ.OFFER «q» +5 a\r\n", "-BADDELAY delay '+5' must be whole milliseconds, «text»\r\n"),
        (
            "DQ.OFFER «q» 1e3 a\r\n",
            "-BADDELAY delay '1e3' has the unit 'e', which there is not; «text»\r\n",
        ),
        ("DQ.OFFER «q» '5 m' a\r\n", "-BADDELAY delay '5 m' must have no blanks, as in 1h30m\r\n"),
        (
            "DQ.OFFER «q» PT5S a\r\n",
            "-BADDELAY delay 'PT5S' is an ISO 8601 duration, and these are not read; write 5s, \
             15m, 1h30m\r\n",
        ),
        (
            "DQ.OFFER «q» 1month a\r\n",
            "-BADDELAY delay '1month' has the unit 'month', but months and years have no one \
             length; minutes are m, days d\r\n",
        ),
        (
            "DQ.OFFER «q» 1h30 a\r\n",
            "-BADDELAY delay '1h30' has a number without its unit behind one that has a unit, as \
             1h30; write 1h30m\r\n",
        ),
        (
            "DQ.OFFER «q» 2030-01-31T08:00:00Z a\r\n",
            "-BADDELAY delay '2030-01-31T08:00:00Z' is a moment, and no delay; a moment is given \
             as AT time\r\n",
        ),
        (
            "DQ.OFFER «q» 1m1h a\r\n",
            "-BADDELAY delay '1m1h' must have its units from large «text»\r\n",
        ),
        (
            "DQ.OFFER «q» 315360000001 a\r\n",
            "-BADDELAY delay '315360000001' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.OFFER «q» 18446744073709551616 a\r\n",
            "-BADDELAY delay '18446744073709551616' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.OFFER «q» 99999999999999999999999d a\r\n",
            "-BADDELAY delay '99999999999999999999999d' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.OFFER «q» 213503982335d a\r\n",
            "-BADDELAY delay '213503982335d' must be at most 315360000000 ms\r\n",
        ),
        (
            "DQ.OFFER «q» AT soon a\r\n",
            "-BADTIME time 'soon' must be Unix milliseconds, or RFC 3339 as in \
             2030-01-31T08:00:00Z\r\n",
        ),
        ("DQ.OFFER «q» AT '' a\r\n", "-BADTIME time '' must not be empty\r\n"),
        ("DQ.OFFER «q» AT 1.5 a\r\n", "-BADTIME time '1.5' must be whole milliseconds; «text»\r\n"),
        (
            "DQ.OFFER «q» AT 2030-02-30T00:00:00Z a\r\n",
            "-BADTIME time '2030-02-30T00:00:00Z' has a day that there is not: day 30 does not \
             exist in month 2 of 2030\r\n",
        ),
        (
            "DQ.OFFER «q» AT 2030-01-31T08:00:00 a\r\n",
            "-BADTIME time '2030-01-31T08:00:00' has no zone: add Z, or an offset such as \
             +02:00\r\n",
        ),
        (
            "DQ.OFFER «q» AT 1893484800 a\r\n",
            "-BADTIME time '1893484800' is 1970-01-22T21:58:04.8Z when it is read as \
             milliseconds: are these seconds? In milliseconds they are 1893484800000, which is \
             2030-01-01T08:00:00Z\r\n",
        ),
        (
            "DQ.OFFER «q» AT 1970-01-22T21:58:04.8Z a\r\n",
            "-BADTIME time '1970-01-22T21:58:04.8Z' is 1970-01-22T21:58:04.8Z when it is «text»: \
             are these seconds? «text»\r\n",
        ),
        (
            "DQ.OFFER «q» AT 0 a\r\n",
            "-BADTIME time '0' is «text»: are these seconds? For now write a delay of 0\r\n",
        ),
        (
            "DQ.OFFER «q» AT 1000000000000000 a\r\n",
            "-BADTIME time '1000000000000000' must be below 1000000000000000 (Unix \
             milliseconds); are these micro- or nanoseconds?\r\n",
        ),
        (
            "DQ.OFFER «q» AT 99999999999999999999999 a\r\n",
            "-BADTIME time '99999999999999999999999' must be below «text»\r\n",
        ),
        ("DQ.OFFER «q» 1h a NAME ''\r\n", "-BADID name '' must not be empty\r\n"),
        (
            "DQ.OFFER «q» 1h a NAME 1795228205123-01a2b3c4d5e6f708\r\n",
            "-BADID name '1795228205123-01a2b3c4d5e6f708' reads as a message id, so it cannot be \
             a name\r\n",
        ),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
    ]);
}

#[test]
fn a_line_break_in_an_argument_does_not_break_the_error() {
    check(&[(
        "*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$9\r\n-1\r\n+OK\r\n\r\n$1\r\na\r\n",
        "-BADDELAY delay '-1\\r\\n+OK\\r\\n' must not be negative «text»\r\n",
    )]);
}

/// A broker with small limits.
fn strict() -> &'static Place {
    static STRICT: OnceLock<Place> = OnceLock::new();
    STRICT.get_or_init(|| {
        Place::spawn(&[
            ("limits.payload_bytes_max", "16"),
            ("limits.moffer_messages_max", "3"),
            ("limits.moffer_bytes_max", "24"),
            ("limits.queue_name_bytes_max", "12"),
            ("limits.message_name_bytes_max", "4"),
            ("limits.queue_pattern", "^q"),
            ("limits.delay_max_ms", "86400000"),
        ])
    })
}

#[test]
fn limits() {
    check_on(
        strict(),
        &[
            ("DQ.OFFER «q» 24h 1234567890123456\r\n", "$30\r\n«id»\r\n"),
            (
                "DQ.OFFER «q» 1h 12345678901234567\r\n",
                "-TOOBIG payload of 17 bytes is larger than 16 bytes\r\n",
            ),
            (
                "DQ.MOFFER «q» 1h a 1h 12345678901234567\r\n",
                "-TOOBIG message 2: payload of 17 bytes is larger than 16 bytes\r\n",
            ),
            (
                "DQ.MOFFER «q» 1h 1234567890123456 1h 123456789\r\n",
                "-TOOBIG the payloads up to message 2 have 25 bytes, more than 24\r\n",
            ),
            (
                "DQ.MOFFER «q» 1h a 1h b 1h c 1h d\r\n",
                "-TOOMANY more than 3 messages in one command\r\n",
            ),
            (
                "DQ.OFFER «q» 86400001 a\r\n",
                "-BADDELAY delay '86400001' must be at most 86400000 ms\r\n",
            ),
            ("DQ.OFFER «q»6789012 1h a NAME 1234\r\n", "$30\r\n«id»\r\n"),
            (
                "DQ.OFFER «q»67890123 1h a\r\n",
                "-BADQUEUE queue '«q»67890123' is longer than 12 bytes\r\n",
            ),
            (
                "DQ.OFFER other 1h a\r\n",
                "-BADQUEUE queue 'other' does not match the configured pattern of queue names\r\n",
            ),
            ("DQ.OFFER «q» 1h a NAME 12345\r\n", "-BADID name '12345' is longer than 4 bytes\r\n"),
            ("DQ.CANCEL «q» 12345\r\n", "-BADID message '12345' is longer than 4 bytes\r\n"),
            ("DQ.SIZE «q»\r\n", ":1\r\n"),
        ],
    );
}
