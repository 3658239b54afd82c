//! `DQ.GET`: shows a pending message, and the due times that a reply can hold.

use crate::peer::{check, shared};

#[test]
fn get() {
    check(&[
        ("DQ.OFFER «q» AT 1999999999999 hello NAME n\r\n", "$30\r\n1999999999999-«hex»\r\n"),
        (
            "*3\r\n$6\r\nDQ.GET\r\n$5\r\n«q»\r\n$1\r\nn\r\n",
            "«*10|%5»\r\n$2\r\nid\r\n$30\r\n1999999999999-«hex»\r\n$4\r\nname\r\n$1\r\nn\r\n\
             $3\r\ndue\r\n:1999999999999\r\n$7\r\npayload\r\n$5\r\nhello\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n",
        ),
        ("dq.get «q» nobody\r\n", "«$-1|_»\r\n"),
        ("DQ.GET «q» 1999999999999-0000000000000000\r\n", "«$-1|_»\r\n"),
        ("DQ.GET «q» 1999999999999-\r\n", "«$-1|_»\r\n"),
        ("DQ.GET «q» inf-00\r\n", "«$-1|_»\r\n"),
        (
            "DQ.GET «q»\r\n",
            "-ERR wrong number of arguments for 'dq.get' command; usage: DQ.GET queue message \
             [DECODE]\r\n",
        ),
        ("DQ.GET «q» n more\r\n", "-ERR syntax error: unexpected argument 'more'; «text»\r\n"),
        ("DQ.GET '' n\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.GET «q» ''\r\n", "-BADID message '' must not be empty\r\n"),
    ]);
}

/// An id that a reply gave finds its message, whatever it is asked for.
#[test]
fn get_by_id() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("DQ.OFFER «q» 1h hello\r\n");
        let id = peer.gets("$30\r\n«id»\r\n").remove(0);
        peer.sends(format!("*3\r\n$6\r\nDQ.GET\r\n$5\r\n«q»\r\n$30\r\n{id}\r\n"));
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

/// Due times of as many digits as there are, whose replies end where they should.
#[test]
fn the_latest_due_times() {
    for due in ["999999999999997", "999999999999998", "999999999999999"] {
        let message = format!(
            "«*10|%5»\r\n$2\r\nid\r\n$32\r\n{due}-«hex»\r\n$4\r\nname\r\n$1\r\nn\r\n$3\r\ndue\r\n\
             :{due}\r\n$7\r\npayload\r\n$1\r\nx\r\n$6\r\nformat\r\n$6\r\nmodern\r\n"
        );
        let (one, page) = (format!("*1\r\n{message}"), "*2\r\n$1\r\n0\r\n");
        check(&[
            (&format!("DQ.OFFER «q» AT {due} x NAME n\r\n"), &format!("$32\r\n{due}-«hex»\r\n")),
            ("DQ.GET «q» n\r\n", &message),
            ("DQ.PEEK «q»\r\n", &one),
            ("DQ.RANGE «q» - +\r\n", &format!("{page}{one}")),
        ]);
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
            backing.call(&[b"ZADD", key.as_bytes(), score.as_bytes(), member]).unwrap();
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
