//! `DQ.FIND`: searches the pending messages by payload; and DQ.CANCEL, DQ.FIRE and DQ.RESCHEDULE of
//! all that match.

use crate::peer::{check, shared};

fn ids(count: usize) -> String {
    format!("*{count}\r\n{}", "$30\r\n«id»\r\n".repeat(count))
}

#[test]
fn find() {
    let row = |due: u64, name: &str, payload: &str| {
        format!(
            "«*10|%5»\r\n$2\r\nid\r\n$30\r\n{due}-«hex»\r\n$4\r\nname\r\n{name}\r\n$3\r\ndue\r\n\
             :{due}\r\n$7\r\npayload\r\n${}\r\n{payload}\r\n$6\r\nformat\r\n$6\r\nmodern\r\n",
            payload.len()
        )
    };
    let none = "«$-1|_»";
    let (one, two, three) = (
        row(1_999_999_999_997, "$1\r\nn", "order 41"),
        row(1_999_999_999_998, none, "order 42"),
        row(1_999_999_999_999, none, "bill 42"),
    );
    let found = |looked: u64, rows: &[&String]| {
        let rows: Vec<&str> = rows.iter().map(|row| row.as_str()).collect();
        format!("*3\r\n$1\r\n0\r\n:{looked}\r\n*{}\r\n{}", rows.len(), rows.concat())
    };
    check(&[
        ("*2\r\n$7\r\nDQ.FIND\r\n$5\r\n«q»\r\n", &found(0, &[])),
        ("DQ.OFFER «q» AT 1999999999997 'order 41' NAME n\r\n", "$30\r\n«id»\r\n"),
        (
            "DQ.MOFFER «q» AT 1999999999998 'order 42' AT 1999999999999 'bill 42'\r\n",
            "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        ("dq.find «q»\r\n", &found(3, &[&one, &two, &three])),
        ("DQ.FIND «q» match *42\r\n", &found(3, &[&two, &three])),
        ("DQ.FIND «q» MATCH order?4[12]\r\n", &found(3, &[&one, &two])),
        ("DQ.FIND «q» MATCH order\r\n", &found(3, &[])),
        ("DQ.FIND «q» MATCH ''\r\n", &found(3, &[])),
        ("DQ.FIND «q» FROM 1999999999998\r\n", &found(2, &[&two, &three])),
        ("DQ.FIND «q» TO 2033-05-18T03:33:19.997Z MATCH *\r\n", &found(1, &[&one])),
        // The end of a page is found where no other message matches.
        ("DQ.FIND «q» MATCH bill* COUNT 1 CURSOR 0\r\n", &found(3, &[&three])),
        ("DQ.FIND «q» COUNT 1\r\n", &format!("*3\r\n$«int»\r\n«text»\r\n:1\r\n*1\r\n{one}")),
        (
            "DQ.FIND «q» FROM + TO -\r\n",
            "-BADTIME from '+inf' must not be later than to '-inf'\r\n",
        ),
        ("DQ.FIND «q» FROM soon\r\n", "-BADTIME FROM 'soon' must be Unix milliseconds, «text»\r\n"),
        ("DQ.FIND «q» COUNT 0\r\n", "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n"),
        ("DQ.FIND «q» DRYRUN\r\n", "-ERR syntax error: unexpected argument 'DRYRUN'; «text»\r\n"),
        ("DQ.FIND «q» MATCH\r\n", "-ERR syntax error: MATCH needs a value\r\n"),
        (
            &format!("DQ.FIND «q» MATCH {}\r\n", "*".repeat(1_025)),
            "-ERR pattern «text» is too long: one of payloads may have 1024 bytes\r\n",
        ),
        (
            "DQ.FIND «q» CURSOR nonsense\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
        ("DQ.FIND\r\n", "-ERR wrong number of arguments for 'dq.find' command; «text»\r\n"),
        ("DQ.FIND ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// A payload is compared as it is shown: with DECODE the text in it, else its bytes.
#[test]
fn as_it_is_shown() {
    let all = "*1\r\n«lines»modern\r\n";
    check(&[
        ("DQ.OFFER «q» 1h 'order 42' AS kryo5\r\n", "$30\r\n«id»\r\n"),
        ("DQ.FIND «q» MATCH *42\r\n", "*3\r\n$1\r\n0\r\n:1\r\n*0\r\n"),
        ("DQ.FIND «q» MATCH *4?\r\n", &format!("*3\r\n$1\r\n0\r\n:1\r\n{all}")),
        (
            "DQ.FIND «q» MATCH *42 DECODE\r\n",
            "*3\r\n$1\r\n0\r\n:1\r\n*1\r\n«*12|%6»\r\n«lines»$7\r\npayload\r\n$8\r\norder 42\r\n\
             «lines»$8\r\nencoding\r\n$5\r\nkryo5\r\n",
        ),
        ("DQ.CANCEL «q» MATCH *42\r\n", "*3\r\n$1\r\n0\r\n:1\r\n:0\r\n"),
        ("DQ.CANCEL «q» MATCH *42 DECODE\r\n", "*3\r\n$1\r\n0\r\n:1\r\n:1\r\n"),
    ]);
}

#[test]
fn cancel_what_matches() {
    let reply = |looked: u64, count: u64| format!("*3\r\n$1\r\n0\r\n:{looked}\r\n:{count}\r\n");
    check(&[
        ("DQ.CANCEL «q» MATCH *\r\n", &reply(0, 0)),
        ("DQ.MOFFER «q» 1h a1 2h a2 3h b1 4h b2\r\n", &ids(4)),
        ("DQ.CANCEL «q» MATCH a* DRYRUN\r\n", &reply(4, 2)),
        ("DQ.SIZE «q»\r\n", ":4\r\n"),
        ("dq.cancel «q» match a*\r\n", &reply(4, 2)),
        ("DQ.CONTAINS «q» a1 a2 b1 b2\r\n", "*4\r\n:0\r\n:0\r\n:1\r\n:1\r\n"),
        ("DQ.CANCEL «q» MATCH * COUNT 1\r\n", "*3\r\n$«int»\r\n«text»\r\n:1\r\n:1\r\n"),
        ("DQ.CANCEL «q» MATCH * FROM + TO +\r\n", &reply(0, 0)),
        // Alone it is the name of a message; further behind too.
        ("DQ.OFFER «q» 5h c NAME MATCH\r\n", "$30\r\n«id»\r\n"),
        ("DQ.CANCEL «q» nobody MATCH *\r\n", ":1\r\n"),
        ("DQ.OFFER «q» 5h c NAME MATCH\r\n", "$30\r\n«id»\r\n"),
        ("DQ.CANCEL «q» MATCH\r\n", ":1\r\n"),
        ("DQ.SIZE «q»\r\n", ":1\r\n"),
        ("DQ.CANCEL «q» MATCH * x\r\n", "-ERR syntax error: unexpected argument 'x'; «text»\r\n"),
        (
            "DQ.CANCEL «q» MATCH * FROM + TO -\r\n",
            "-BADTIME from '+inf' must not be later than to '-inf'\r\n",
        ),
        ("DQ.CANCEL «q» MATCH * DRYRUN DRYRUN\r\n", "-ERR syntax error: unexpected «text»\r\n"),
        // Here the word is the pattern, and this is no dry run.
        ("DQ.CANCEL «q» MATCH DRYRUN\r\n", &reply(1, 0)),
        ("DQ.CANCEL «q» MATCH * COUNT 1001\r\n", "-ERR COUNT '1001' must be «text»\r\n"),
    ]);
}

#[test]
fn fire_what_matches() {
    let reply = |looked: u64, count: u64| format!("*3\r\n$1\r\n0\r\n:{looked}\r\n:{count}\r\n");
    check(&[
        ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
        ("DQ.MOFFER «q» 2h a2 3h b1 AT 9000000000000 a3\r\n", &ids(3)),
        // What is due already is left as it is.
        ("DQ.FIRE «q» MATCH a? DRYRUN\r\n", &reply(3, 2)),
        ("DQ.FIRE «q» MATCH a?\r\n", &reply(3, 2)),
        ("DQ.FIRE «q» MATCH a?\r\n", &reply(3, 0)),
        ("DQ.FIND «q» FROM 9000000000000\r\n", "*3\r\n$1\r\n0\r\n:0\r\n*0\r\n"),
        ("DQ.FIRE «q» MATCH\r\n", ":0\r\n"),
    ]);
}

/// All get the same due time, whichever it was before, and their names and ids go with them.
#[test]
fn reschedule_what_matches() {
    let reply = |looked: u64, count: u64| format!("*3\r\n$1\r\n0\r\n:{looked}\r\n:{count}\r\n");
    check(&[
        ("DQ.OFFER «q» 1h a1 NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.MOFFER «q» 2h a2 3h b1 AT 9000000000000 a3\r\n", &ids(3)),
        ("DQ.RESCHEDULE «q» MATCH a? AT 9000000000000 DRYRUN\r\n", &reply(4, 2)),
        ("DQ.RESCHEDULE «q» MATCH a? AT 8000000000000 FROM 9000000000000\r\n", &reply(1, 1)),
        ("DQ.RESCHEDULE «q» MATCH a? AT 9000000000000\r\n", &reply(4, 3)),
        ("DQ.RESCHEDULE «q» MATCH a? AT 9000000000000\r\n", &reply(4, 0)),
        (
            "DQ.TIMELINE «q» 9000000000000 9000000000001 1\r\n",
            "«*2|%1»\r\n:9000000000000\r\n:3\r\n",
        ),
        (
            "DQ.GET «q» n\r\n",
            "«*10|%5»\r\n$2\r\nid\r\n$30\r\n9000000000000-«hex»\r\n«lines»modern\r\n",
        ),
        // A message of that name.
        ("DQ.OFFER «q» 5h c NAME MATCH\r\n", "$30\r\n«id»\r\n"),
        ("DQ.RESCHEDULE «q» MATCH AT 9000000000009\r\n", "$30\r\n9000000000009-«hex»\r\n"),
        ("DQ.RESCHEDULE «q» MATCH 1h\r\n", "$30\r\n«id»\r\n"),
        ("DQ.RESCHEDULE «q» MATCH [A]T 1h\r\n", "«lines»:0\r\n"),
        ("DQ.RESCHEDULE «q» MATCH a? x\r\n", "-BADDELAY delay 'x' must be whole «text»\r\n"),
        (
            "DQ.RESCHEDULE «q» n 1h DRYRUN\r\n",
            "-ERR syntax error: unexpected argument 'DRYRUN'; «text»\r\n",
        ),
    ]);
}

/// A cursor is good for its own command and queue only.
#[test]
fn wrong_cursors() {
    let wrong = "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n";
    let mut peer = shared().peer();
    peer.sends("DQ.MOFFER «q» 1h a 2h b 3h c 4h d\r\nDQ.FIND «q» COUNT 1\r\n");
    peer.gets(&ids(4));
    let found = peer.gets("*3\r\n$«int»\r\n«text»\r\n:1\r\n*1\r\n«lines»modern\r\n").remove(1);
    peer.sends("DQ.CANCEL «q» MATCH * COUNT 1 DRYRUN\r\n");
    let cancel = peer.gets("*3\r\n$«int»\r\n«text»\r\n:1\r\n:1\r\n").remove(1);
    peer.sends(format!(
        "DQ.RANGE «q» - + CURSOR {found}\r\nDQ.FIND «q»x CURSOR {found}\r\n\
         DQ.CANCEL «q» MATCH * CURSOR {found}\r\nDQ.FIRE «q» MATCH * CURSOR {cancel}\r\n\
         DQ.FIND «q» CURSOR {cancel}\r\nDQ.CANCEL «q» MATCH * CURSOR {}\r\n",
        cancel.replacen(';', "7;", 1)
    ));
    peer.gets(&wrong.repeat(6));
    // That of a dry run is one of the command.
    peer.sends(format!("DQ.CANCEL «q» MATCH * CURSOR {cancel}\r\n"));
    peer.gets("*3\r\n$1\r\n0\r\n:3\r\n:3\r\n");
}
