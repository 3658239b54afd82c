//! What shows pending messages: DQ.GET, DQ.SIZE, DQ.PEEK, DQ.RANGE, DQ.CONTAINS.

use crate::peer::{check, shared};

#[test]
fn get() {
    check(&[
        (
            "DQ.OFFER «q» AT 1999999999999 hello NAME n\r\n",
            "$30\r\n1999999999999-«hex»\r\n",
        ),
        (
            "*3\r\n$6\r\nDQ.GET\r\n$5\r\n«q»\r\n$1\r\nn\r\n",
            "«*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999999-«hex»\r\n$4\r\nname\r\n$1\r\nn\r\n\
             $3\r\ndue\r\n:1999999999999\r\n$7\r\npayload\r\n$5\r\nhello\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n",
        ),
        ("dq.get «q» nobody\r\n", "«$-1|_»\r\n"),
        (
            "DQ.GET «q» 1999999999999-0000000000000000\r\n",
            "«$-1|_»\r\n",
        ),
        ("DQ.GET «q» 1999999999999-\r\n", "«$-1|_»\r\n"),
        ("DQ.GET «q» inf-00\r\n", "«$-1|_»\r\n"),
        (
            "DQ.GET «q»\r\n",
            "-ERR wrong number of arguments for 'dq.get' command; usage: DQ.GET queue message \
             [DECODE]\r\n",
        ),
        (
            "DQ.GET «q» n more\r\n",
            "-ERR syntax error: unexpected argument 'more'; «text»\r\n",
        ),
        (
            "DQ.GET '' n\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
        (
            "DQ.GET «q» ''\r\n",
            "-BADID message '' must not be empty\r\n",
        ),
    ]);
}

/// An id that a reply gave finds its message, whatever it is asked for.
#[test]
fn get_by_id() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("DQ.OFFER «q» 1h hello\r\n");
        let id = peer.gets("$30\r\n«id»\r\n").remove(0);
        peer.sends(format!(
            "*3\r\n$6\r\nDQ.GET\r\n$5\r\n«q»\r\n$30\r\n{id}\r\n"
        ));
        let due = id.split('-').next().unwrap();
        peer.gets(&format!(
            "«*10|%5»\r\n$2\r\nid\r\n$30\r\n{id}\r\n$4\r\nname\r\n«$-1|_»\r\n$3\r\ndue\r\n\
             :{due}\r\n$7\r\npayload\r\n$5\r\nhello\r\n$6\r\nformat\r\n$6\r\nmodern\r\n"
        ));
        // The digits of an id may be of either case.
        peer.sends(format!("DQ.GET «q» {}\r\n", id.to_uppercase()));
        peer.gets("«*10|%5»\r\n«lines»$6\r\nmodern\r\n");
    }
}

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
        (
            "DQ.SIZE «q» «q»\r\n",
            "-ERR wrong number of arguments for 'dq.size' command; «text»\r\n",
        ),
        ("DQ.SIZE ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

#[test]
fn peek() {
    check(&[
        ("*2\r\n$7\r\nDQ.PEEK\r\n$5\r\n«q»\r\n", "*0\r\n"),
        ("DQ.OFFER «q» AT 1999999999999 late\r\n", "$30\r\n«id»\r\n"),
        (
            "DQ.OFFER «q» AT 1999999999998 early NAME e\r\n",
            "$30\r\n«id»\r\n",
        ),
        (
            "dq.peek «q» count 2\r\n",
            "*2\r\n\
             «*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999998-«hex»\r\n$4\r\nname\r\n$1\r\ne\r\n\
             $3\r\ndue\r\n:1999999999998\r\n$7\r\npayload\r\n$5\r\nearly\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n\
             «*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999999-«hex»\r\n$4\r\nname\r\n«$-1|_»\r\n\
             $3\r\ndue\r\n:1999999999999\r\n$7\r\npayload\r\n$4\r\nlate\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n",
        ),
        (
            "DQ.PEEK «q» COUNT 1\r\n",
            "*1\r\n«lines»$5\r\nearly\r\n$6\r\nformat\r\n$6\r\nmodern\r\n",
        ),
        (
            "DQ.PEEK «q» COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.PEEK «q» COUNT 1001\r\n",
            "-ERR COUNT '1001' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.PEEK «q» COUNT -1\r\n",
            "-ERR COUNT '-1' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.PEEK «q» COUNT\r\n",
            "-ERR syntax error: COUNT needs a value\r\n",
        ),
        (
            "DQ.PEEK «q» 5\r\n",
            "-ERR syntax error: unexpected argument '5'; usage: DQ.PEEK queue \
             [COUNT n] [DECODE]\r\n",
        ),
        (
            "DQ.PEEK\r\n",
            "-ERR wrong number of arguments for 'dq.peek' command; «text»\r\n",
        ),
        ("DQ.PEEK ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// Without COUNT a page has ten messages.
#[test]
fn ten_by_default() {
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q» 1h a\r\n".repeat(11));
    for _ in 0..11 {
        peer.gets("$30\r\n«id»\r\n");
    }
    peer.sends("DQ.PEEK «q»\r\nDQ.RANGE «q» - +\r\n");
    for head in ["*10\r\n", "*2\r\n$«int»\r\n«text»\r\n*10\r\n"] {
        peer.gets(head);
        for _ in 0..10 {
            peer.gets("*10\r\n$2\r\nid\r\n«lines»$6\r\nmodern\r\n");
        }
    }
}

#[test]
fn range() {
    check(&[
        (
            "*4\r\n$8\r\nDQ.RANGE\r\n$5\r\n«q»\r\n$1\r\n-\r\n$1\r\n+\r\n",
            "*2\r\n$1\r\n0\r\n*0\r\n",
        ),
        (
            "DQ.MOFFER «q» AT 1999999999997 a AT 1999999999998 b AT 2000000000000 c\r\n",
            "*3\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        (
            "dq.range «q» 1999999999998 2033-05-18T03:33:19.999Z\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999998-«hex»\r\n\
             $4\r\nname\r\n«$-1|_»\r\n$3\r\ndue\r\n:1999999999998\r\n$7\r\npayload\r\n$1\r\nb\r\n\
             $6\r\nformat\r\n$6\r\nmodern\r\n",
        ),
        (
            "DQ.RANGE «q» 2000000000000 +\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«lines»$1\r\nc\r\n«lines»modern\r\n",
        ),
        ("DQ.RANGE «q» + -\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.RANGE «q» -5 5.5\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        (
            "DQ.RANGE «q» - + COUNT 1 CURSOR 0\r\n",
            "*2\r\n$«int»\r\n«text»\r\n*1\r\n«lines»modern\r\n",
        ),
        (
            "DQ.RANGE «q» - + COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.RANGE «q» - + COUNT 1 COUNT 2\r\n",
            "-ERR syntax error: unexpected argument 'COUNT'; «text»\r\n",
        ),
        (
            "DQ.RANGE «q» - + CURSOR\r\n",
            "-ERR syntax error: CURSOR needs a value\r\n",
        ),
        (
            "DQ.RANGE «q» - + CURSOR nonsense\r\n",
            "-ERR the cursor is not one that a page of this command gave; begin with 0\r\n",
        ),
        (
            "DQ.RANGE «q» soon +\r\n",
            "-BADTIME from 'soon' must be Unix milliseconds, «text»\r\n",
        ),
        (
            "DQ.RANGE «q» - later\r\n",
            "-BADTIME to 'later' must be Unix milliseconds, «text»\r\n",
        ),
        (
            "DQ.RANGE «q» '' +\r\n",
            "-BADTIME from '' must not be empty\r\n",
        ),
        (
            "DQ.RANGE «q» -\r\n",
            "-ERR wrong number of arguments for 'dq.range' command; «text»\r\n",
        ),
        (
            "DQ.RANGE '' - +\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}

/// Pages follow one another without gap and without a message twice, also where all share one due
/// time.
#[test]
fn pages() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("DQ.OFFER «q» AT 1999999999999 a\r\n".repeat(25));
        let mut offered: Vec<String> = (0..25)
            .map(|_| peer.gets("$30\r\n«id»\r\n").remove(0))
            .collect();
        let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
        for expected in [10, 10, 5] {
            let size = cursor.len();
            peer.sends(format!(
                "*8\r\n$8\r\nDQ.RANGE\r\n$5\r\n«q»\r\n$1\r\n-\r\n$1\r\n+\r\n$5\r\nCOUNT\r\n\
                 $2\r\n10\r\n$6\r\nCURSOR\r\n${size}\r\n{cursor}\r\n"
            ));
            cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n").remove(1);
            peer.gets(&format!("*{expected}\r\n"));
            for _ in 0..expected {
                let id =
                    peer.gets("«*10|%5»\r\n$2\r\nid\r\n$30\r\n«id»\r\n«lines»$6\r\nmodern\r\n");
                seen.push(id[0].clone());
            }
        }
        assert_eq!(cursor, "0");
        offered.sort();
        assert_eq!(seen, offered);
    }
}

/// Due times of other programs may have fractions, or be beyond what is a moment.
#[test]
fn due_times_of_others() {
    for (score, id, due2, due3) in [
        (
            "4102444800000.5",
            "4102444800000.5-3132333435363738",
            "$15\r\n4102444800000.5",
            ",4102444800000.5",
        ),
        (
            "1e20",
            "1e+20-3132333435363738",
            "$21\r\n100000000000000000000",
            ",100000000000000000000",
        ),
        ("inf", "inf-3132333435363738", "$3\r\ninf", ",inf"),
    ] {
        for (mut peer, due) in [(shared().peer(), due2), (shared().peer3(), due3)] {
            let member = b"\x0812345678\x05\0\0\0\0\0\0\0hello";
            let key = format!("redisson_delay_queue_timeout:{{{}}}", peer.queue);
            let mut backing = shared().backing();
            backing
                .call(&[b"ZADD", key.as_bytes(), score.as_bytes(), member])
                .unwrap();
            peer.sends(format!("DQ.PEEK «q»\r\nDQ.GET «q» {id}\r\n"));
            for head in ["*1\r\n", ""] {
                peer.gets(&format!(
                    "{head}«*10|%5»\r\n$2\r\nid\r\n${}\r\n{id}\r\n$4\r\nname\r\n«$-1|_»\r\n$3\r\n\
                     due\r\n{due}\r\n\
                     $7\r\npayload\r\n$5\r\nhello\r\n$6\r\nformat\r\n$6\r\nmodern\r\n",
                    id.len()
                ));
            }
        }
    }
}

#[test]
fn contains() {
    check(&[
        (
            "*3\r\n$11\r\nDQ.CONTAINS\r\n$5\r\n«q»\r\n$1\r\na\r\n",
            "*1\r\n:0\r\n",
        ),
        ("DQ.OFFER «q» 1h a\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h ''\r\n", "$30\r\n«id»\r\n"),
        (
            "dq.contains «q» b a '' a\r\n",
            "*4\r\n:0\r\n:1\r\n:1\r\n:1\r\n",
        ),
        (
            "DQ.CONTAINS «q»\r\n",
            "-ERR wrong number of arguments for 'dq.contains' command; «text»\r\n",
        ),
        (
            "DQ.CONTAINS '' a\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}
