//! `DQ.POLL`: takes pending messages in offer order.

use crate::peer::check;

#[test]
fn poll() {
    check(&[
        ("*2\r\n$7\r\nDQ.POLL\r\n$5\r\n«q»\r\n", "*0\r\n"),
        (
            "DQ.MOFFER «q» 3h first 2h '' 1h third\r\n",
            "*3\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        // One, as LPOP: a look at a queue takes no more.
        ("DQ.POLL «q»\r\n", "*1\r\n$5\r\nfirst\r\n"),
        ("dq.poll «q» count 9\r\n", "*2\r\n$0\r\n\r\n$5\r\nthird\r\n"),
        ("DQ.POLL «q» COUNT 0\r\n", "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n"),
        ("DQ.POLL «q» COUNT x\r\n", "-ERR COUNT 'x' must be a whole number from 1 to 1000\r\n"),
        ("DQ.POLL «q» 2\r\n", "-ERR syntax error: unexpected argument '2'; «text»\r\n"),
        ("DQ.POLL\r\n", "-ERR wrong number of arguments for 'dq.poll' command; «text»\r\n"),
        ("DQ.POLL ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
