//! `DQ.REMOVE`: takes pending messages out, by payload.

use crate::peer::check;

#[test]
fn remove() {
    check(&[
        ("*3\r\n$9\r\nDQ.REMOVE\r\n$5\r\n«q»\r\n$1\r\na\r\n", ":0\r\n"),
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
        ("DQ.REMOVE «q» a COUNT -1\r\n", "-ERR COUNT '-1' must be a whole number\r\n"),
        ("DQ.REMOVE «q» a COUNT\r\n", "-ERR syntax error: COUNT needs a value\r\n"),
        ("DQ.REMOVE «q» a b\r\n", "-ERR syntax error: unexpected argument 'b'; «text»\r\n"),
        ("DQ.REMOVE «q»\r\n", "-ERR wrong number of arguments for 'dq.remove' command; «text»\r\n"),
        ("DQ.REMOVE '' a\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
