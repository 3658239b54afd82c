//! `DQ.CONTAINS`: says which payloads are pending.

use crate::peer::check;

#[test]
fn contains() {
    check(&[
        ("*3\r\n$11\r\nDQ.CONTAINS\r\n$5\r\n«q»\r\n$1\r\na\r\n", "*1\r\n:0\r\n"),
        ("DQ.OFFER «q» 1h a\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h ''\r\n", "$30\r\n«id»\r\n"),
        ("dq.contains «q» b a '' a\r\n", "*4\r\n:0\r\n:1\r\n:1\r\n:1\r\n"),
        (
            "DQ.CONTAINS «q»\r\n",
            "-ERR wrong number of arguments for 'dq.contains' command; «text»\r\n",
        ),
        ("DQ.CONTAINS '' a\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
