//! `DQ.RANGE`: pages through the pending messages by due time.

use crate::peer::{check, shared};

#[test]
fn range() {
    check(&[
        ("*4\r\n$8\r\nDQ.RANGE\r\n$5\r\n«q»\r\n$1\r\n-\r\n$1\r\n+\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
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
        ("DQ.RANGE «q» + -\r\n", "-BADTIME from '+inf' must not be later than to '-inf'\r\n"),
        ("DQ.RANGE «q» 0 -1\r\n", "-BADTIME from '0' must not be later than to '-1'\r\n"),
        ("DQ.RANGE «q» 7 7\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
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
        ("DQ.RANGE «q» - + CURSOR\r\n", "-ERR syntax error: CURSOR needs a value\r\n"),
        (
            "DQ.RANGE «q» - + CURSOR nonsense\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
        ("DQ.RANGE «q» soon +\r\n", "-BADTIME from 'soon' must be Unix milliseconds, «text»\r\n"),
        ("DQ.RANGE «q» - later\r\n", "-BADTIME to 'later' must be Unix milliseconds, «text»\r\n"),
        (
            "DQ.RANGE «q» 1893484800 +\r\n",
            "-BADTIME from '1893484800' is 1970-01-22T21:58:04.8Z when it is «text»: are these \
             seconds? «text»\r\n",
        ),
        ("DQ.RANGE «q»x 0 1893484800.0\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.RANGE «q» '' +\r\n", "-BADTIME from '' must not be empty\r\n"),
        ("DQ.RANGE «q» -\r\n", "-ERR wrong number of arguments for 'dq.range' command; «text»\r\n"),
        ("DQ.RANGE '' - +\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}

/// Pages follow one another without gap and without a message twice, also where all share one due
/// time.
#[test]
fn pages() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("DQ.OFFER «q» AT 1999999999999 a\r\n".repeat(25));
        let mut offered: Vec<String> =
            (0..25).map(|_| peer.gets("$30\r\n«id»\r\n").remove(0)).collect();
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

/// A cursor is good for its own command and queue only; a message id is none.
#[test]
fn wrong_cursors() {
    let wrong = "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n";
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q» AT 1999999999999 a\r\nDQ.OFFER «q» AT 1999999999999 b\r\n");
    let id = peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n").remove(0);
    peer.sends("DQ.RANGE «q» - + COUNT 1\r\n");
    let cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n*1\r\n«lines»modern\r\n").remove(1);
    let changed = cursor.replacen('1', "2", 1);
    for other in ["77", "1", "1999999999999-", &id, &changed, &cursor[1..]] {
        peer.sends(format!("DQ.RANGE «q» - + CURSOR {other}\r\n"));
        peer.gets(wrong);
    }
    peer.sends(format!("DQ.RANGE «q»other - + CURSOR {cursor}\r\nDQ.QUEUES CURSOR {cursor}\r\n"));
    peer.gets(&wrong.repeat(2));
    peer.sends(format!("DQ.RANGE «q» - + CURSOR {cursor}\r\n"));
    peer.gets("*2\r\n$1\r\n0\r\n*1\r\n«lines»$1\r\nb\r\n«lines»modern\r\n");
}

/// Members that nobody can read, of one due time and with the same first 2,000 bytes: each is shown
/// once, page by page.
#[test]
fn members_alike() {
    let mut peer = shared().peer();
    let key = format!("redisson_delay_queue_timeout:{{{}}}", peer.queue);
    let mut backing = shared().backing();
    for start in [70, 2_000] {
        for n in 0..10 {
            let member = format!("{}{n}", "z".repeat(start));
            backing.call(&["ZADD", &key, "1e20", &member]).unwrap();
        }
    }
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        peer.sends(format!(
            "*8\r\n$8\r\nDQ.RANGE\r\n$5\r\n«q»\r\n$1\r\n-\r\n$1\r\n+\r\n$5\r\nCOUNT\r\n$1\r\n3\r\n\
             $6\r\nCURSOR\r\n${}\r\n{cursor}\r\n",
            cursor.len()
        ));
        cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n").remove(1);
        let count = peer.gets("*«int»\r\n").remove(0);
        for _ in 0..count.parse().unwrap() {
            let row =
                peer.gets("*10\r\n«lines»payload\r\n$«int»\r\n«text»\r\n«lines»unreadable\r\n");
            seen.extend(row.into_iter().filter(|word| word.starts_with('z')));
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 20);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 20);
}
