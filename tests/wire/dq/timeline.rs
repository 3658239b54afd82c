//! `DQ.TIMELINE`: counts the pending messages by due time.

use crate::peer::{check, shared};

#[test]
fn timeline() {
    check(&[
        (
            "*5\r\n$11\r\nDQ.TIMELINE\r\n$5\r\n«q»\r\n$13\r\n1999999999990\r\n$13\r\n\
             2000000000000\r\n$1\r\n5\r\n",
            "«*4|%2»\r\n:1999999999990\r\n:0\r\n:1999999999995\r\n:0\r\n",
        ),
        (
            "DQ.MOFFER «q» AT 1999999999994 a AT 1999999999995 b AT 1999999999999 c \
             AT 2000000000000 d\r\n",
            "*4\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        (
            "dq.timeline «q» 2033-05-18T03:33:19.990Z 2000000000000 5ms\r\n",
            "«*4|%2»\r\n:1999999999990\r\n:1\r\n:1999999999995\r\n:2\r\n",
        ),
        (
            "DQ.TIMELINE «q» 1999999999990 2000000000001 10\r\n",
            "«*4|%2»\r\n:1999999999990\r\n:3\r\n:2000000000000\r\n:1\r\n",
        ),
        // Also what is overdue; one step may be longer than all.
        (
            "DQ.TIMELINE «q» 100000000000 3000000000000 1w\r\n",
            "-ERR a step of 604800000 ms divides this time into 4795 steps, more than 200\r\n",
        ),
        ("DQ.TIMELINE «q» 1900000000000 2100000000000 500w\r\n", "«lines»:4\r\n"),
        ("DQ.TIMELINE «q» 0 1h 1h\r\n", "«*2|%1»\r\n:«ms»\r\n:0\r\n"),
        (
            "DQ.TIMELINE «q» 0 201 1\r\n",
            "-ERR a step of 1 ms divides this time into 201 steps, more than 200\r\n",
        ),
        (
            "DQ.TIMELINE «q» 2000000000000 1999999999999 5\r\n",
            "-BADTIME from '2000000000000' must be earlier than to '1999999999999'\r\n",
        ),
        (
            "DQ.TIMELINE «q» 2000000000000 2000000000000 5\r\n",
            "-BADTIME from '2000000000000' must be earlier than to '2000000000000'\r\n",
        ),
        ("DQ.TIMELINE «q» 1h 0 5\r\n", "-BADTIME from '«int»' must be earlier than to «text»\r\n"),
        ("DQ.TIMELINE «q» 0 1h 0\r\n", "-BADDELAY step '0' must be at least 1 ms\r\n"),
        ("DQ.TIMELINE «q» 0 1h soon\r\n", "-BADDELAY step 'soon' must be whole «text»\r\n"),
        ("DQ.TIMELINE «q» - + 1h\r\n", "-BADTIME from '-' must be Unix milliseconds, «text»\r\n"),
        ("DQ.TIMELINE «q» 0 1893484800 1h\r\n", "-BADTIME to '1893484800' is 1970-«text»\r\n"),
        (
            "DQ.TIMELINE «q» 0 1h\r\n",
            "-ERR wrong number of arguments for 'dq.timeline' command; usage: DQ.TIMELINE queue \
             from to step\r\n",
        ),
        ("DQ.TIMELINE '' 0 1h 1m\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// Two hundred steps have every message once, though Redis is asked for some at a time.
#[test]
fn all_steps() {
    let mut peer = shared().peer();
    for step in 0..200 {
        let at = 1_999_999_000_000_u64 + step * 1_000;
        peer.sends(format!("DQ.MOFFER «q» AT {at} a AT {} b\r\n", at + 999));
    }
    peer.gets(&"*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n".repeat(200));
    peer.sends("DQ.TIMELINE «q» 1999999000000 1999999200000 1s\r\n");
    let row = |step: u64| format!(":{}\r\n:2\r\n", 1_999_999_000_000 + step * 1_000);
    peer.gets(&format!("*400\r\n{}", (0..200).map(row).collect::<String>()));
}
