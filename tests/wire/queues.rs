//! What is about queues: DQ.QUEUES, DQ.INFO, DQ.QUARANTINE, DQ.HELP; and two names for one set of
//! keys.

use crate::peer::{Place, check, check_on, shared};
use crate::support::wait::eventually;

#[test]
fn queues() {
    check(&[
        ("DQ.QUEUES MATCH «q»\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.OFFER «q» AT 1999999999999 a\r\n", "$30\r\n«id»\r\n"),
        (
            "*5\r\n$9\r\nDQ.QUEUES\r\n$5\r\nMATCH\r\n$5\r\n«q»\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n$7\r\npending\r\n:1\r\n\
             $5\r\nready\r\n:0\r\n$8\r\nnext_due\r\n:1999999999999\r\n",
        ),
        ("DQ.POLL «q»\r\n", "*1\r\n$1\r\na\r\n"),
        (
            "dq.queues count 5 match «q» cursor 0\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n$7\r\npending\r\n:0\r\n\
             $5\r\nready\r\n:0\r\n$8\r\nnext_due\r\n«$-1|_»\r\n",
        ),
        (
            "DQ.QUEUES COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.QUEUES MATCH\r\n",
            "-ERR syntax error: MATCH needs a value\r\n",
        ),
        (
            "DQ.QUEUES «q»\r\n",
            "-ERR syntax error: unexpected argument '«q»'; usage: «text»\r\n",
        ),
        (
            "DQ.QUEUES CURSOR x\r\n",
            "-ERR the cursor is not one that a page of this command gave; begin with 0\r\n",
        ),
    ]);
}

#[test]
fn pages_of_queues() {
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q»a 1h x\r\nDQ.OFFER «q»b 1h x\r\nDQ.OFFER «q»c 1h x\r\n");
    peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        peer.sends(format!("DQ.QUEUES MATCH «q»? COUNT 1 CURSOR {cursor}\r\n"));
        cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n").remove(1);
        let count = peer.gets("*«int»\r\n").remove(0);
        for _ in 0..count.parse().unwrap() {
            seen.extend(
                peer.gets("*8\r\n$5\r\nqueue\r\n$6\r\n«text»\r\n«lines»next_due\r\n:«ms»\r\n")
                    .into_iter()
                    .take(1),
            );
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c"].map(|end| peer.queue.clone() + end));
}

#[test]
fn info() {
    // Its own broker: the metrics tell only the first hundred queues apart.
    let place = Place::spawn(&[]);
    check_on(
        &place,
        &[
            (
                "DQ.OFFER «q» AT 1999999999999 a NAME n\r\n",
                "$30\r\n«id»\r\n",
            ),
            ("DQ.OFFER «q» AT 2000000000000 b\r\n", "$30\r\n«id»\r\n"),
            ("DQ.CANCEL «q» n\r\n", ":1\r\n"),
            (
                "*2\r\n$7\r\nDQ.INFO\r\n$5\r\n«q»\r\n",
                "«*44|%22»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n\
                 $7\r\npending\r\n:1\r\n$5\r\nready\r\n:0\r\n\
                 $8\r\nnext_due\r\n:2000000000000\r\n$17\r\noldest_overdue_ms\r\n:0\r\n\
                 $6\r\nlisted\r\n:1\r\n$5\r\nnamed\r\n:0\r\n$11\r\nquarantined\r\n:0\r\n\
                 $6\r\npaused\r\n:0\r\n$12\r\npaused_until\r\n«$-1|_»\r\n\
                 $6\r\nlayout\r\n$8\r\nredisson\r\n$6\r\nformat\r\n$6\r\nmodern\r\n\
                 $6\r\nttl_ms\r\n«$-1|_»\r\n\
                 $10\r\ncounted_as\r\n$5\r\n«q»\r\n$5\r\nsince\r\n:«ms»\r\n\
                 $7\r\noffered\r\n:2\r\n$9\r\ndelivered\r\n:0\r\n\
                 $9\r\ncancelled\r\n:1\r\n$7\r\nremoved\r\n:0\r\n\
                 $15\r\nlateness_p50_ms\r\n«$1\r\n0|,0»\r\n\
                 $15\r\nlateness_p99_ms\r\n«$1\r\n0|,0»\r\n\
                 $15\r\nlateness_max_ms\r\n«$1\r\n0|,0»\r\n",
            ),
            ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
            (
                "dq.info «q»\r\n",
                "«*44|%22»\r\n«lines»$6\r\npaused\r\n:1\r\n$12\r\npaused_until\r\n:-1\r\n\
                 «lines»lateness_max_ms\r\n«$1\r\n0|,0»\r\n",
            ),
            ("DQ.PAUSE «q» 1h\r\n", "+OK\r\n"),
            (
                "DQ.INFO «q»\r\n",
                "«*44|%22»\r\n«lines»$6\r\npaused\r\n:1\r\n$12\r\npaused_until\r\n:«ms»\r\n\
                 «lines»lateness_max_ms\r\n«$1\r\n0|,0»\r\n",
            ),
            (
                "DQ.INFO\r\n",
                "-ERR wrong number of arguments for 'dq.info' command; usage: DQ.INFO queue\r\n",
            ),
            (
                "DQ.INFO «q» x\r\n",
                "-ERR wrong number of arguments for 'dq.info' command; «text»\r\n",
            ),
            ("DQ.INFO ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ],
    );
}

/// An unreadable member is put aside when it is due; what is around it is delivered.
/// Nothing is listed, and nothing of it is in Redis.
#[test]
fn info_without_order_list() {
    let mut peer = shared().peer();
    shared().drop_list(&peer.queue);
    peer.sends("DQ.OFFER «q» 1h a\r\nDQ.OFFER «q» 1h b NAME n\r\nDQ.INFO «q»\r\n");
    peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n");
    peer.gets(
        "*44\r\n«lines»$7\r\npending\r\n:2\r\n«lines»$6\r\nlisted\r\n:0\r\n\
         «lines»$6\r\nlayout\r\n$4\r\nzset\r\n«lines»lateness_max_ms\r\n$«int»\r\n«text»\r\n",
    );
    let list = format!("redisson_delay_queue:{{{}}}", peer.queue);
    let exists = shared().backing().call(&["EXISTS", &list]).unwrap();
    assert_eq!(exists.int(), 0);
}

#[test]
fn quarantine() {
    for mut peer in [shared().peer(), shared().peer3()] {
        let queue = peer.queue.clone();
        let mut backing = shared().backing();
        let key = format!("redisson_delay_queue_timeout:{{{queue}}}");
        backing.call(&["ZADD", &key, "1000", "bad"]).unwrap();
        peer.sends(
            "*3\r\n$13\r\nDQ.QUARANTINE\r\n$5\r\n«q»\r\n$4\r\nLIST\r\nDQ.OFFER «q» 0 good\r\n",
        );
        peer.gets("*0\r\n$30\r\n«id»\r\n");
        let list = || {
            backing
                .call(&["LRANGE", &queue, "0", "-1"])
                .unwrap()
                .texts()
        };
        assert_eq!(eventually(list, |list| !list.is_empty()), ["good"]);
        peer.sends("dq.quarantine «q» list count 1\r\n");
        peer.gets("*1\r\n«*4|%2»\r\n$3\r\ndue\r\n:1000\r\n$6\r\nmember\r\n$3\r\nbad\r\n");
        peer.sends(
            "DQ.QUARANTINE «q» DROP other\r\nDQ.QUARANTINE «q» DROP bad\r\nDQ.QUARANTINE «q» \
             LIST\r\n",
        );
        peer.gets(":0\r\n:1\r\n*0\r\n");
        // Back to pending: a member of the far future, so that it stays there.
        let key = format!("delay_broker_quarantine:{{{queue}}}");
        backing
            .call(&["ZADD", &key, "1999999999999", "one", "2000000000000", "two"])
            .unwrap();
        peer.sends("DQ.QUARANTINE «q» RESTORE one\r\nDQ.SIZE «q»\r\nDQ.PEEK «q»\r\n");
        peer.gets(
            ":1\r\n:1\r\n*1\r\n«*10|%5»\r\n$2\r\nid\r\n«$-1|_»\r\n$4\r\nname\r\n«$-1|_»\r\n\
             $3\r\ndue\r\n:1999999999999\r\n$7\r\npayload\r\n$3\r\none\r\n$6\r\nformat\r\n\
             $10\r\nunreadable\r\n",
        );
        peer.sends("DQ.QUARANTINE «q» RESTORE\r\nDQ.QUARANTINE «q» DROP\r\nDQ.SIZE «q»\r\n");
        peer.gets(":1\r\n:0\r\n:2\r\n");
    }
}

#[test]
fn quarantine_refused() {
    check(&[
        (
            "DQ.QUARANTINE «q» WHAT\r\n",
            "-ERR unknown subcommand 'WHAT'; LIST, RESTORE or DROP is expected\r\n",
        ),
        (
            "DQ.QUARANTINE «q» LIST COUNT 0\r\n",
            "-ERR COUNT '0' must be a whole number from 1 to 1000\r\n",
        ),
        (
            "DQ.QUARANTINE «q» LIST x\r\n",
            "-ERR syntax error: unexpected argument 'x'; «text»\r\n",
        ),
        (
            "DQ.QUARANTINE «q»\r\n",
            "-ERR wrong number of arguments for 'dq.quarantine' command; «text»\r\n",
        ),
        (
            "DQ.QUARANTINE '' LIST\r\n",
            "-BADQUEUE queue '' must not be empty\r\n",
        ),
    ]);
}

#[test]
fn help() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("*1\r\n$7\r\nDQ.HELP\r\ndq.help x\r\n");
        let lines: usize = peer.gets("*«int»\r\n").remove(0).parse().unwrap();
        let lines: Vec<String> = (0..lines).flat_map(|_| peer.gets("+«text»\r\n")).collect();
        assert!(lines.contains(&"DQ.SIZE queue".to_owned()), "{lines:?}");
        peer.gets("-ERR wrong number of arguments for 'dq.help' command; usage: DQ.HELP\r\n");
    }
}

/// The queues `x` and `{x}` have one set of keys and two destinations: who comes first owns it.
#[test]
fn two_names() {
    for (first, second) in [("«q»", "{«q»}"), ("{«q»}", "«q»")] {
        let mut peer = shared().peer();
        peer.sends(format!("DQ.OFFER {first} 1h a\r\n"));
        peer.gets("$30\r\n«id»\r\n");
        let owner = first.replace("«q»", &peer.queue);
        for command in [
            "DQ.OFFER @ 1h b",
            "DQ.OFFER @ 1h b NAME n",
            "DQ.MOFFER @ 1h b 1h c",
            "DQ.CANCEL @ n",
            "DQ.RESCHEDULE @ n 1h",
            "DQ.REMOVE @ a",
            "DQ.FIRE @ n",
            "DQ.GET @ n",
            "DQ.SIZE @",
            "DQ.PEEK @",
            "DQ.RANGE @ - +",
            "DQ.CONTAINS @ a",
            "DQ.POLL @",
            "DQ.CLEAR @",
            "DQ.CONVERT @",
            "DQ.PAUSE @",
            "DQ.RESUME @",
            "DQ.QUARANTINE @ LIST",
            "DQ.QUARANTINE @ RESTORE",
            "DQ.QUARANTINE @ DROP",
            "DQ.INFO @",
        ] {
            eprintln!("{command}");
            peer.sends(command.replace('@', second) + "\r\n");
            peer.gets(&format!(
                "-BADQUEUE the keys of this queue already belong to the queue '{owner}'\r\n"
            ));
        }
        peer.sends(format!("DQ.SIZE {first}\r\n"));
        peer.gets(":1\r\n");
    }
}

/// A bad name in a batch harms no other offer of it.
#[test]
fn two_names_in_one_batch() {
    let mut peer = shared().peer3();
    peer.sends("DQ.OFFER «q» 1h a\r\n");
    peer.gets("$30\r\n«id»\r\n");
    peer.sends(
        "DQ.OFFER «q» 1h b\r\nDQ.OFFER {«q»} 1h c\r\nDQ.OFFER «q»x 1h d\r\nDQ.SIZE «q»\r\nDQ.SIZE \
         «q»x\r\n",
    );
    peer.gets("$30\r\n«id»\r\n-BADQUEUE «text»\r\n$30\r\n«id»\r\n:2\r\n:1\r\n");
}
