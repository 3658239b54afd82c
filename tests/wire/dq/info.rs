//! `DQ.INFO`: shows the state of a queue, and what this broker did with it.

use crate::peer::{Place, check_on, shared};

#[test]
fn info() {
    // Its own broker: the metrics tell only the first hundred queues apart.
    let place = Place::spawn(&[]);
    check_on(
        &place,
        &[
            ("DQ.OFFER «q» AT 1999999999999 a NAME n\r\n", "$30\r\n«id»\r\n"),
            ("DQ.OFFER «q» AT 2000000000000 b\r\n", "$30\r\n«id»\r\n"),
            ("DQ.CANCEL «q» n\r\n", ":1\r\n"),
            (
                "*2\r\n$7\r\nDQ.INFO\r\n$5\r\n«q»\r\n",
                "«*78|%39»\r\n$5\r\nqueue\r\n$5\r\n«q»\r\n\
                 $5\r\nknown\r\n:1\r\n$7\r\npending\r\n:1\r\n$5\r\nready\r\n:0\r\n\
                 $8\r\nnext_due\r\n:2000000000000\r\n$17\r\noldest_overdue_ms\r\n:0\r\n\
                 $12\r\nheld_by_rate\r\n:0\r\n\
                 $6\r\nlisted\r\n:1\r\n$5\r\nnamed\r\n:0\r\n$11\r\nquarantined\r\n:0\r\n\
                 $6\r\npaused\r\n:0\r\n$12\r\npaused_until\r\n«$-1|_»\r\n\
                 $10\r\npaused_all\r\n:0\r\n$6\r\nlayout\r\n$8\r\nredisson\r\n\
                 $6\r\nformat\r\n$6\r\nmodern\r\n\
                 $6\r\nttl_ms\r\n«$-1|_»\r\n$7\r\ntrouble\r\n«$-1|_»\r\n\
                 $10\r\ncounted_as\r\n$5\r\n«q»\r\n$5\r\nsince\r\n:«ms»\r\n\
                 $7\r\noffered\r\n:2\r\n$9\r\ndelivered\r\n:0\r\n\
                 $9\r\ncancelled\r\n:1\r\n$7\r\nremoved\r\n:0\r\n\
                 $6\r\nleased\r\n:0\r\n$7\r\nwaiting\r\n:0\r\n$4\r\ndead\r\n:0\r\n\
                 $10\r\nlease_ends\r\n«$-1|_»\r\n$5\r\ncrons\r\n:0\r\n\
                 $12\r\nnext_cron_ms\r\n«$-1|_»\r\n$6\r\ntakers\r\n:0\r\n\
                 $5\r\ntaken\r\n:0\r\n$5\r\nacked\r\n:0\r\n$6\r\nnacked\r\n:0\r\n\
                 $6\r\nlapsed\r\n:0\r\n$4\r\ndied\r\n:0\r\n$7\r\nexpired\r\n:0\r\n\
                 $15\r\nlateness_p50_ms\r\n«$-1|_»\r\n\
                 $15\r\nlateness_p99_ms\r\n«$-1|_»\r\n\
                 $15\r\nlateness_max_ms\r\n«$-1|_»\r\n",
            ),
            ("DQ.PAUSE «q»\r\n", "+OK\r\n"),
            (
                "dq.info «q»\r\n",
                "«*78|%39»\r\n«lines»$6\r\npaused\r\n:1\r\n$12\r\npaused_until\r\n:-1\r\n\
                 «lines»lateness_max_ms\r\n«$-1|_»\r\n",
            ),
            ("DQ.PAUSE «q» 1h\r\n", "+OK\r\n"),
            (
                "DQ.INFO «q»\r\n",
                "«*78|%39»\r\n«lines»$6\r\npaused\r\n:1\r\n$12\r\npaused_until\r\n:«ms»\r\n\
                 «lines»lateness_max_ms\r\n«$-1|_»\r\n",
            ),
            // A name with a mistake has nothing, or nothing but a pause.
            (
                "DQ.INFO «q»x\r\n",
                "«*78|%39»\r\n$5\r\nqueue\r\n$6\r\n«q»x\r\n$5\r\nknown\r\n:0\r\n\
                 «lines»lateness_max_ms\r\n«$-1|_»\r\n",
            ),
            ("DQ.PAUSE «q»x 1h\r\n", "+OK\r\n"),
            (
                "DQ.INFO «q»x\r\n",
                "«*78|%39»\r\n$5\r\nqueue\r\n$6\r\n«q»x\r\n$5\r\nknown\r\n:0\r\n\
                 «lines»$6\r\npaused\r\n:1\r\n«lines»lateness_max_ms\r\n«$-1|_»\r\n",
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

/// Nothing is listed, and nothing of it is in Redis.
#[test]
fn info_without_order_list() {
    let mut peer = shared().peer();
    shared().drop_list(&peer.queue);
    peer.sends("DQ.OFFER «q» 1h a\r\nDQ.OFFER «q» 1h b NAME n\r\nDQ.INFO «q»\r\nECHO end\r\n");
    peer.gets("$30\r\n«id»\r\n$30\r\n«id»\r\n");
    peer.gets(
        "*78\r\n«lines»$7\r\npending\r\n:2\r\n«lines»$6\r\nlisted\r\n:0\r\n\
         «lines»$6\r\nlayout\r\n$4\r\nzset\r\n«lines»lateness_max_ms\r\n«lines»$3\r\nend\r\n",
    );
    let list = format!("redisson_delay_queue:{{{}}}", peer.queue);
    let exists = shared().backing().call(&["EXISTS", &list]).unwrap();
    assert_eq!(exists.int(), 0);
}
