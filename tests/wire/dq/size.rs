//! `DQ.SIZE`: counts the pending messages.

use crate::peer::check;

#[test]
fn size() {
    check(&[
        ("*2\r\n$7\r\nDQ.SIZE\r\n$5\r\n«q»\r\n", ":0\r\n"),
        ("DQ.OFFER «q» 1h a\r\n", "$30\r\n«id»\r\n"),
        ("dq.size «q»\r\n", ":1\r\n"),
        (
            "DQ.SIZE\r\n",
            "-ERR wrong number of arguments for 'dq.size' command; usage: DQ.SIZE queue\r\n",
        ),
        ("DQ.SIZE «q» «q»\r\n", "-ERR wrong number of arguments for 'dq.size' command; «text»\r\n"),
        ("DQ.SIZE ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
