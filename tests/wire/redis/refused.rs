//! Commands that a delay broker does not have: Cluster, Sentinel, watched keys, pub/sub, HTTP.

use crate::peer::{check, shared};

#[test]
fn what_it_is_not() {
    check(&[
        (
            "*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ),
        ("cluster slots\r\n", "-ERR This instance has cluster support disabled\r\n"),
        ("CLUSTER SHARDS\r\n", "-ERR This instance has cluster support disabled\r\n"),
        ("READONLY\r\n", "-ERR This instance has cluster support disabled\r\n"),
        ("SENTINEL MASTERS\r\n", "-ERR This instance is not a Sentinel\r\n"),
        ("sentinel get-master-addr-by-name x\r\n", "-ERR This instance is not a Sentinel\r\n"),
        ("WATCH a\r\n", "-ERR keys cannot be watched: «text»\r\n"),
        ("UNWATCH\r\n", "-ERR keys cannot be watched: «text»\r\n"),
        ("SUBSCRIBE a\r\n", "-ERR publish and subscribe are not supported; «text»\r\n"),
        ("PSUBSCRIBE a\r\n", "-ERR publish and subscribe are not supported; «text»\r\n"),
        ("UNSUBSCRIBE\r\n", "-ERR publish and subscribe are not supported; «text»\r\n"),
        (
            "*2\r\n$3\r\nGET\r\n$21\r\n__Booksleeve_TieBreak\r\n",
            "-ERR unknown command 'GET', with args beginning with: '__Booksleeve_TieBreak' ; this \
             is a delay broker, which has no keys: the lists of due messages are in its Redis, at \
             redis://«text». DQ.HELP lists the commands\r\n",
        ),
        (
            "BLPOP «q» 0\r\n",
            "-ERR unknown command 'BLPOP', «text»; this is a delay broker, «text»\r\n",
        ),
        // Redis's wording to the letter: clients read it.
        ("NOTHING\r\n", "-ERR unknown command 'NOTHING', with args beginning with: «text»\r\n"),
        (
            "nothing a 'b c'\r\n",
            "-ERR unknown command 'nothing', with args beginning with: 'a' 'b c' «text»\r\n",
        ),
        (
            "*2\r\n$9\r\nno\r\nthing\r\n$6\r\n\x00\r\n\x7fa\n\r\n",
            "-ERR unknown command 'no\\r\\nthing', with args beginning with: '\\x00\\r\\n\
             \\x7fa\\n' ; this is «text»\r\n",
        ),
        (
            "DQ.NOTHING «q»\r\n",
            "-ERR unknown command 'DQ.NOTHING', with args beginning with: '«q»' ; DQ.HELP lists \
             the commands\r\n",
        ),
        (
            "DQ.OFER «q» 1h a\r\n",
            "-ERR unknown command 'DQ.OFER', with args beginning with: '«q»' '1h' 'a' ; did you \
             mean DQ.OFFER?\r\n",
        ),
        (
            "dq.len «q»\r\n",
            "-ERR unknown command 'dq.len', with args beginning with: '«q»' ; did you mean \
             DQ.SIZE?\r\n",
        ),
        (
            "DQ.LIST\r\n",
            "-ERR unknown command 'DQ.LIST', with args beginning with: ; did you mean DQ.QUEUES \
             (of queues) or DQ.PEEK (of messages)?\r\n",
        ),
        ("OFFER «q» 1h a\r\n", "-ERR unknown command 'OFFER', «text»; did you mean DQ.OFFER?\r\n"),
        ("''\r\n", "-ERR unknown command '', with args beginning with: «text»\r\n"),
        ("*1\r\n$0\r\n\r\n", "-ERR unknown command '', with args beginning with: «text»\r\n"),
    ]);
}

/// A web page may make a browser send this; nothing of its body is run.
#[test]
fn http() {
    for (start, code) in [
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR"),
    ] {
        let mut peer = shared().peer();
        peer.sends(format!("{start}DQ.OFFER «q» 1h a\r\n"));
        let answer = String::from_utf8(peer.gets_until_end()).unwrap();
        assert!(answer.starts_with(code), "{answer}");
        let mut other = shared().peer();
        other.sends(format!("DQ.SIZE {}\r\n", peer.queue));
        other.gets(":0\r\n");
    }
}
