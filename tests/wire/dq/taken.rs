//! `DQ.TAKEN`: pages through the messages that consumers have taken.

use super::take::{peers, push, take};
use crate::peer::{check, shared};

const ID: &str = "$2\r\nid\r\n$16\r\n«hex»\r\n";

#[test]
fn taken() {
    for mut peer in peers(shared()) {
        let none = "*2\r\n$1\r\n0\r\n*0\r\n";
        peer.sends("*2\r\n$8\r\nDQ.TAKEN\r\n$5\r\n«q»\r\nDQ.TAKEN «q» WAITING\r\n");
        peer.gets(&none.repeat(2));
        let [a, b] = ["a", "b"].map(|payload| take(shared(), &mut peer, payload));
        peer.sends(format!("DQ.NACK «q» {b}:1 DELAY 1h REASON why\r\ndq.taken «q» leased\r\n"));
        let leased = format!(
            "«*8|%4»\r\n{ID}$7\r\nattempt\r\n:1\r\n$5\r\nuntil\r\n:«ms»\r\n\
             $6\r\nreason\r\n«$-1|_»\r\n"
        );
        let parts = peer.gets(&format!(":1\r\n*2\r\n$1\r\n0\r\n*1\r\n{leased}"));
        assert_eq!(parts[0], a);
        peer.sends("DQ.TAKEN «q» waiting COUNT 5\r\n");
        let parts = peer.gets(&format!(
            "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n{ID}$7\r\nattempt\r\n:1\r\n\
             $4\r\nfrom\r\n:«ms»\r\n$6\r\nreason\r\n$3\r\nwhy\r\n"
        ));
        assert_eq!(parts[0], b);
        peer.sends(format!("DQ.ACK «q» {a}:1 {b}:1\r\nDQ.TAKEN «q»\r\nDQ.TAKEN «q» WAITING\r\n"));
        peer.gets(&(":2\r\n".to_owned() + &none.repeat(2)));
    }
}

/// The cursor of a page is where the next one begins, of this list and of no other.
#[test]
fn pages_of_taken() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        push(shared(), &queue, &["1", "2", "3", "4", "5"]);
        peer.sends("DQ.TAKE «q» COUNT 5\r\nECHO end\r\n");
        let taken = peer.gets("«lines»$3\r\nend\r\n").remove(0);
        let (mut cursor, mut ids) = ("0".to_owned(), Vec::new());
        for page in [2, 2, 1] {
            peer.sends(format!("DQ.TAKEN «q» COUNT 2 CURSOR {cursor}\r\nECHO end\r\n"));
            cursor = peer.gets("*2\r\n$«int»\r\n«text»\r\n").remove(1);
            peer.gets(&format!("*{page}\r\n"));
            for _ in 0..page {
                ids.push(peer.gets(&format!("«*8|%4»\r\n{ID}«lines»«$-1|_»\r\n")).remove(0));
            }
            peer.gets("$3\r\nend\r\n");
            if cursor != "0" {
                peer.sends(format!("DQ.TAKEN «q» WAITING CURSOR {cursor}\r\n"));
                peer.gets("-ERR invalid cursor: «text»\r\n");
                peer.sends(format!("DQ.DEAD «q» LIST CURSOR {cursor}\r\n"));
                peer.gets("-ERR invalid cursor: «text»\r\n");
            }
        }
        assert_eq!(cursor, "0");
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((all, ids.len()), (5, 5), "{ids:?}");
        assert!(ids.iter().all(|id| taken.contains(id.as_str())), "{ids:?}");
    }
}

/// What waits goes back to the list, those first that could be taken first; all, or so many.
#[test]
fn release() {
    for mut peer in peers(shared()) {
        let queue = peer.queue.clone();
        peer.sends("DQ.TAKEN «q» RELEASE\r\n");
        peer.gets(":0\r\n");
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|payload| take(shared(), &mut peer, payload));
        peer.sends(format!(
            "DQ.NACK «q» {a}:1 DELAY 3h\r\nDQ.NACK «q» {b}:1 DELAY 1h\r\n\
             DQ.NACK «q» {c}:1 DELAY 2h\r\nDQ.TAKEN «q» release count 1\r\n"
        ));
        peer.gets(":1\r\n:1\r\n:1\r\n:1\r\n");
        push(shared(), &queue, &["e"]);
        peer.sends("DQ.TAKEN «q» RELEASE COUNT 0\r\nDQ.TAKEN «q» RELEASE\r\n");
        peer.gets(":2\r\n:0\r\n");
        let list = shared().backing().call(&["LRANGE", &queue, "0", "-1"]).unwrap();
        assert_eq!(list.texts(), ["b", "e", "c", "a"]);
        // Their receipts count no more; what is leased stays so.
        peer.sends(format!("DQ.ACK «q» {a}:1 {b}:1 {c}:1\r\nDQ.ACK «q» {d}:1\r\n"));
        peer.gets(":0\r\n:1\r\n");
        let keys = shared().backing().call(&["KEYS", &format!("delay_broker_[dlrt]*{queue}*")]);
        assert_eq!(keys.unwrap().texts(), [""; 0]);
    }
}

#[test]
fn taken_refused() {
    let usage = "usage: DQ.TAKEN queue [[LEASED|WAITING] [COUNT n] [CURSOR c]|RELEASE \
                 [COUNT n]]";
    let unexpected =
        |word: &str| format!("-ERR syntax error: unexpected argument '{word}'; {usage}\r\n");
    let count = |count| format!("-ERR COUNT '{count}' must be a whole number from 1 to 1000\r\n");
    check(&[
        ("DQ.TAKEN «q» DEAD\r\n", &unexpected("DEAD")),
        ("DQ.TAKEN «q» LEASED WAITING\r\n", &unexpected("WAITING")),
        ("DQ.TAKEN «q» RELEASE CURSOR 0\r\n", &unexpected("CURSOR")),
        ("DQ.TAKEN «q» RELEASE COUNT x\r\n", "-ERR COUNT 'x' must be a whole number\r\n"),
        ("DQ.TAKEN «q» COUNT 0\r\n", &count("0")),
        ("DQ.TAKEN «q» WAITING COUNT 1001\r\n", &count("1001")),
        (
            "DQ.TAKEN «q» CURSOR x\r\n",
            "-ERR invalid cursor: use the one of the last reply, or start with 0\r\n",
        ),
        (
            "DQ.TAKEN\r\n",
            &format!("-ERR wrong number of arguments for 'dq.taken' command; {usage}\r\n"),
        ),
        ("DQ.TAKEN ''\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
