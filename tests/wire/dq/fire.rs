//! `DQ.FIRE`: makes pending messages due now.

use crate::peer::check;

#[test]
fn fire() {
    check(&[
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h b NAME m\r\n", "$30\r\n«id»\r\n"),
        ("*3\r\n$7\r\nDQ.FIRE\r\n$5\r\n«q»\r\n$1\r\nn\r\n", ":1\r\n"),
        ("dq.fire «q» n m nobody 5-ff\r\n", ":2\r\n"),
        ("DQ.SIZE «q»\r\n", ":2\r\n"),
        ("DQ.FIRE «q»\r\n", "-ERR wrong number of arguments for 'dq.fire' command; «text»\r\n"),
        ("DQ.FIRE '' n\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.FIRE «q» ''\r\n", "-BADID message '' must not be empty\r\n"),
    ]);
}

/// Each counts once, however far apart it is named: the store is asked of 100 at a time.
#[test]
fn fire_counts_a_message_once() {
    let nobody = " nobody".repeat(150);
    let twice = |one: &str, other: &str| format!("DQ.FIRE «q» {one}{nobody}{nobody} {other}\r\n");
    check(&[
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        (&twice("n", "n"), ":1\r\n"),
        (&twice("n", "n"), ":1\r\n"),
        ("DQ.OFFER «q» AT 9000000000000 b NAME m\r\n", "$30\r\n«id»\r\n"),
        (&twice("m", "m"), ":1\r\n"),
    ]);
}
