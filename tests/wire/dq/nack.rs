//! `DQ.NACK`: gives messages that were taken back.

use super::take::{handed_out, peers, take};
use crate::peer::{Peer, check, shared};

/// A row of `DQ.TAKEN WAITING`, alone in its page.
fn waiting(attempt: u32, reason: &str) -> String {
    format!(
        "*2\r\n$1\r\n0\r\n*1\r\n«*8|%4»\r\n$2\r\nid\r\n$16\r\n«hex»\r\n\
         $7\r\nattempt\r\n:{attempt}\r\n$4\r\nfrom\r\n:«ms»\r\n$6\r\nreason\r\n{reason}\r\n"
    )
}

/// Milliseconds from now on until the only message that waits can be taken again.
fn waits_for(peer: &mut Peer, attempt: u32, reason: &str) -> i64 {
    peer.sends("DQ.TAKEN «q» WAITING\r\n");
    let from = peer.gets(&waiting(attempt, reason)).remove(1);
    let time = shared().backing().call(&["TIME"]).unwrap().texts();
    let now = time[0].parse::<i64>().unwrap() * 1_000 + time[1].parse::<i64>().unwrap() / 1_000;
    from.parse::<i64>().unwrap() - now
}

/// Each row leaves the message to the next one; the reason stays until another one is given.
#[test]
fn nack() {
    for mut peer in peers(shared()) {
        let id = take(shared(), &mut peer, "a");
        peer.sends(format!("*3\r\n$7\r\nDQ.NACK\r\n$5\r\n«q»\r\n$18\r\n{id}:1\r\n"));
        peer.gets(":1\r\n");
        // The backoff of a first attempt, less what chance takes off; a busy machine may be slow.
        let left = waits_for(&mut peer, 1, "«$-1|_»");
        assert!((500..=5_001).contains(&left), "{left} ms");
        // It counts until the message is handed out again, so the time can be moved.
        peer.sends(format!("dq.nack «q» {id}:1 fail delay 1h reason 'no é'\r\n"));
        peer.gets(":1\r\n");
        let left = waits_for(&mut peer, 1, "$5\r\nno é");
        assert!((3_580_000..=3_600_001).contains(&left), "{left} ms");
        peer.sends(format!("DQ.NACK «q» {id}:1 DELAY 0\r\nDQ.TAKE «q» BLOCK 0\r\n"));
        peer.gets(&(":1\r\n".to_owned() + &handed_out("a", 2, 2)));
        // Given back uncounted: the same attempt, another delivery.
        peer.sends(format!("DQ.NACK «q» {id}:2 SILENT\r\nDQ.TAKE «q» BLOCK 0\r\n"));
        peer.gets(&(":1\r\n".to_owned() + &handed_out("a", 3, 2)));
        peer.sends(format!("DQ.NACK «q» {id}:2 {id}:1\r\nDQ.NACK «q»x {id}:3\r\n"));
        peer.gets(":0\r\n:0\r\n");
        peer.sends(format!("DQ.NACK «q» {id}:3 REASON FATAL FATAL\r\nDQ.NACK «q» {id}:3\r\n"));
        peer.gets(":1\r\n:0\r\n");
        peer.sends(format!("DQ.DEAD «q» LIST\r\nDQ.ACK «q» {id}:3\r\nDQ.DEAD «q» LIST\r\n"));
        peer.gets(
            "*2\r\n$1\r\n0\r\n*1\r\n«*10|%5»\r\n$2\r\nid\r\n$16\r\n«hex»\r\n$4\r\ndied\r\n:«ms»\r\n\
             $8\r\nattempts\r\n:2\r\n$6\r\nreason\r\n$5\r\nFATAL\r\n$7\r\npayload\r\n$1\r\na\r\n\
             :1\r\n*2\r\n$1\r\n0\r\n*0\r\n",
        );
    }
}

#[test]
fn nack_refused() {
    let usage = "usage: DQ.NACK queue <receipt [receipt ...]|GROUP group entry-id [entry-id ...]> \
                 [FAIL|SILENT|FATAL] [DELAY d] [REASON text]";
    let receipt = "ffffffffffffffff:1";
    let unexpected =
        |word: &str| format!("-ERR syntax error: unexpected argument '{word}'; {usage}\r\n");
    let reason = "x".repeat(512);
    check(&[
        (&format!("DQ.NACK «q» {receipt}\r\n"), ":0\r\n"),
        (&format!("DQ.NACK «q» {receipt} {receipt} REASON {reason} DELAY 24h\r\n"), ":0\r\n"),
        (
            &format!("DQ.NACK «q» {receipt} REASON {reason}x\r\n"),
            "-TOOBIG REASON of 513 bytes is larger than 512 bytes\r\n",
        ),
        ("DQ.NACK «q» ffffffffffffffff\r\n", "-BADID receipt 1: receipt 'ffff«text»\r\n"),
        ("DQ.NACK «q» FAIL\r\n", "-BADID receipt 1: receipt 'FAIL' must be «text»\r\n"),
        (&format!("DQ.NACK «q» {receipt} WHAT\r\n"), "-BADID receipt 2: receipt 'WHAT' «text»\r\n"),
        (&format!("DQ.NACK «q» {receipt} FAIL SILENT\r\n"), &unexpected("SILENT")),
        (&format!("DQ.NACK «q» {receipt} FAIL fail\r\n"), &unexpected("fail")),
        (&format!("DQ.NACK «q» {receipt} DELAY 1 DELAY 1\r\n"), &unexpected("DELAY")),
        (&format!("DQ.NACK «q» {receipt} FAIL {receipt}\r\n"), &unexpected(receipt)),
        (
            &format!("DQ.NACK «q» {receipt} DELAY -1\r\n"),
            "-BADDELAY DELAY '-1' must not be negative«text»\r\n",
        ),
        (&format!("DQ.NACK «q» {receipt} DELAY 1000000d\r\n"), "-BADDELAY DELAY '100«text»\r\n"),
        (&format!("DQ.NACK «q» {receipt} DELAY\r\n"), "-ERR syntax error: DELAY needs a value\r\n"),
        (
            &format!("DQ.NACK «q» {receipt} REASON\r\n"),
            "-ERR syntax error: REASON needs a value\r\n",
        ),
        (
            "DQ.NACK «q»\r\n",
            &format!("-ERR wrong number of arguments for 'dq.nack' command; {usage}\r\n"),
        ),
        ("DQ.NACK '' ffffffffffffffff:1\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
    ]);
}
