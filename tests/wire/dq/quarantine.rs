//! `DQ.QUARANTINE`: shows, restores or drops members that cannot be read.

use crate::peer::{check, shared};
use crate::support::wait::eventually;

/// An unreadable member is put aside when it is due; messages around it are delivered.
#[test]
fn quarantine() {
    for mut peer in [shared().peer(), shared().peer3()] {
        let queue = peer.queue.clone();
        let mut backing = shared().backing();
        let key = format!("redisson_delay_queue_timeout:{{{queue}}}");
        peer.sends("*3\r\n$13\r\nDQ.QUARANTINE\r\n$5\r\n«q»\r\n$4\r\nLIST\r\n");
        peer.gets("*0\r\n");
        backing.call(&["ZADD", &key, "1000", "bad"]).unwrap();
        peer.sends("DQ.OFFER «q» 0 good\r\n");
        peer.gets("$30\r\n«id»\r\n");
        let list = || backing.call(&["LRANGE", &queue, "0", "-1"]).unwrap().texts();
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
        backing.call(&["ZADD", &key, "1999999999999", "one", "2000000000000", "two"]).unwrap();
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
        ("DQ.QUARANTINE «q» LIST x\r\n", "-ERR syntax error: unexpected argument 'x'; «text»\r\n"),
        (
            "DQ.QUARANTINE «q»\r\n",
            "-ERR wrong number of arguments for 'dq.quarantine' command; «text»\r\n",
        ),
        ("DQ.QUARANTINE '' LIST\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
