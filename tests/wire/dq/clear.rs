//! `DQ.CLEAR`: drops all pending messages.

use crate::peer::check;

#[test]
fn clear() {
    check(&[
        ("*2\r\n$8\r\nDQ.CLEAR\r\n$5\r\n«q»\r\n", ":0\r\n"),
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        ("DQ.MOFFER «q» 1h a 2h b\r\n", "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("dq.clear «q»\r\n", ":3\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
        ("DQ.OFFER «q» 1h a NAME n NX\r\n", "$30\r\n«id»\r\n"),
        // A pause stays.
        (
            "DQ.INFO «q»\r\nECHO end\r\n",
            "«*78|%39»\r\n«lines»$6\r\npaused\r\n:1\r\n«lines»$3\r\nend\r\n",
        ),
        ("DQ.CLEAR\r\n", "-ERR wrong number of arguments for 'dq.clear' command; «text»\r\n"),
        ("DQ.CLEAR «q» x\r\n", "-ERR wrong number of arguments for 'dq.clear' command; «text»\r\n"),
        ("DQ.CLEAR ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
