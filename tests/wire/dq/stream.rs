//! Commands about a queue whose destination is a stream, as clients see them.

use crate::peer::{check, shared};

const ELSEWHERE: &str = "-ERR the destination of this queue is a stream (DQ.SETUP): take with \
                         XREADGROUP GROUP group consumer STREAMS queue >, settle with XACK, both \
                         at Redis itself; give back with DQ.NACK queue GROUP group entry-id\r\n";

#[test]
fn stream() {
    let elsewhere = ELSEWHERE;
    check(&[
        ("DQ.SETUP «q» destination stream groups a,b:1\r\n", "+OK\r\n"),
        ("DQ.TAKE «q»\r\n", elsewhere),
        ("DQ.TAKE «q» BLOCK 0\r\n", elsewhere),
        ("DQ.ACK «q» ffffffffffffffff:1\r\n", elsewhere),
        ("DQ.EXTEND «q» ffffffffffffffff:1\r\n", elsewhere),
        ("DQ.NACK «q» ffffffffffffffff:1\r\n", elsewhere),
        ("DQ.NACK «q» GROUP a 1-0\r\n", ":0\r\n"),
        ("DQ.NACK «q» group b:1 1-0 2-0 SILENT DELAY 5s REASON x\r\n", ":0\r\n"),
        (
            "DQ.NACK «q» GROUP c 1-0\r\n",
            "-ERR the stream has no group of this name: see XINFO GROUPS, or make it by XGROUP \
             CREATE\r\n",
        ),
        (
            "DQ.NACK «q»x GROUP a 1-0\r\n",
            "-ERR GROUP is for queues whose destination is a stream (DQ.SETUP queue destination \
             stream)\r\n",
        ),
        (
            "DQ.NACK «q» GROUP a 1-0:1\r\n",
            "-BADID entry 1: '1-0:1' must be the id that XREADGROUP gave, as 1795345538590-0\r\n",
        ),
        ("DQ.NACK «q» GROUP\r\n", "-ERR «text»\r\n"),
        ("DQ.TAKEN «q» WAITING\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.DEAD «q» LIST\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.DEAD «q» REQUEUE ffffffffffffffff@a ffffffffffffffff@b:1\r\n", ":0\r\n"),
        ("DQ.CRON «q» SET n 'every 1h' x\r\n", ":«ms»\r\n"),
        (
            "DQ.SETUP «q» groups a/b\r\n",
            "-ERR groups 'a/b' must be up to 16 names of letters, digits and _.:-, each up to 64 \
             bytes, with commas between them\r\n",
        ),
        // Of a queue that is a list nothing is asked that concerns streams.
        ("DQ.SETUP «q»list RESET\r\n", "+OK\r\n"),
        ("DQ.SETUP «q» keeper maybe\r\n", "-ERR keeper 'maybe' must be one of on, off\r\n"),
    ]);
}

/// Entries are dead messages under their id and group, and can be dropped.
#[test]
fn dead_entries() {
    let mut backing = shared().backing();
    for mut peer in [shared().peer(), shared().peer3()] {
        let queue = peer.queue.clone();
        peer.sends("DQ.SETUP «q» destination stream groups g\r\n");
        peer.gets("+OK\r\n");
        let add = ["XADD", &queue, "*", "payload", "p\r\n", "id", "00000000000000ff"];
        backing.call(&add).unwrap();
        let read = ["XREADGROUP", "GROUP", "g", "c", "STREAMS", &queue, ">"];
        let found = backing.call(&read).unwrap();
        let entries = found.elements()[0].elements()[1].elements().to_vec();
        let id = entries[0].elements()[0].text();
        peer.sends(format!("DQ.NACK «q» GROUP g {id} FATAL REASON why\r\nDQ.DEAD «q» LIST\r\n"));
        peer.gets(
            ":1\r\n*2\r\n$1\r\n0\r\n*1\r\n«*10|%5»\r\n$2\r\nid\r\n$18\r\n00000000000000ff@g\r\n\
             $4\r\ndied\r\n:«ms»\r\n$8\r\nattempts\r\n:1\r\n$6\r\nreason\r\n$3\r\nwhy\r\n\
             $7\r\npayload\r\n$3\r\np\r\n\r\n",
        );
        peer.sends("DQ.DEAD «q» DROP 00000000000000ff\r\nDQ.DEAD «q» DROP 00000000000000ff@g\r\n");
        peer.gets(":0\r\n:1\r\n");
    }
}
