//! Names of queues in all commands: two names for one set of keys, and names with a mistake.

use crate::peer::{Place, shared};

/// Every command that names a queue, which is `@`.
const COMMANDS: [&str; 47] = [
    "DQ.OFFER @ 1h b",
    "DQ.OFFER @ 1h b NAME n",
    "DQ.MOFFER @ 1h b 1h c",
    "DQ.PUSH @ b c",
    "DQ.CANCEL @ n",
    "DQ.RESCHEDULE @ n 1h",
    "DQ.REMOVE @ a",
    "DQ.FIRE @ n",
    "DQ.GET @ n",
    "DQ.SIZE @",
    "DQ.PEEK @",
    "DQ.RANGE @ - +",
    "DQ.TIMELINE @ 0 1h 1m",
    "DQ.FIND @",
    "DQ.CANCEL @ MATCH x",
    "DQ.FIRE @ MATCH x",
    "DQ.RESCHEDULE @ MATCH x 1h",
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
    "DQ.SETUP @",
    "DQ.SETUP @ limit 5",
    "DQ.TAKE @",
    "DQ.ACK @ ffffffffffffffff:1",
    "DQ.NACK @ ffffffffffffffff:1",
    "DQ.EXTEND @ ffffffffffffffff:1",
    "DQ.TAKEN @",
    "DQ.TAKEN @ RELEASE",
    "DQ.CANCEL @ 0-ffffffffffffffff",
    "DQ.RESCHEDULE @ 0-ffffffffffffffff 1h",
    "DQ.FIRE @ 0-ffffffffffffffff",
    "DQ.GET @ 0-ffffffffffffffff",
    "DQ.DEAD @ LIST",
    "DQ.DEAD @ REQUEUE",
    "DQ.DEAD @ DROP",
    "DQ.CRON @ SET n 'every 1d' p",
    "DQ.CRON @ DEL n",
    "DQ.CRON @ PAUSE n",
    "DQ.CRON @ RESUME n",
    "DQ.CRON @ LIST",
];

/// What only another program offered belongs to the name without braces. No command to the other
/// one reads, takes or claims it.
#[test]
fn names_with_braces_take_nothing_over() {
    let mut peer = shared().peer();
    let mut backing = shared().backing();
    let queue = peer.queue.clone();
    let key = |prefix: &str| format!("{prefix}:{{{queue}}}");
    let (timeout, list) = (key("redisson_delay_queue_timeout"), key("redisson_delay_queue"));
    let mut theirs: Vec<&[u8]> = vec![b"ZADD", timeout.as_bytes(), b"1999999999999"];
    let member = b"\x08idididid\x01\0\0\0\0\0\0\0a";
    theirs.push(member);
    backing.call(&theirs).unwrap();
    backing.call(&[&b"RPUSH"[..], list.as_bytes(), &member[..]]).unwrap();
    for command in COMMANDS {
        peer.sends(command.replace('@', "{«q»}") + "\r\n");
        peer.gets(match command {
            // They are about nothing but the quarantine, and there is none.
            "DQ.QUARANTINE @ LIST" => "*0\r\n",
            "DQ.QUARANTINE @ DROP" => ":0\r\n",
            _ => "-BADQUEUE the keys of this queue already belong to the queue '«q»'\r\n",
        });
    }
    let record = key("delay_broker_queue");
    assert_eq!(backing.call(&["EXISTS", &record]).unwrap().int(), 0);
    peer.sends("DQ.POLL «q»\r\nDQ.SIZE «q»\r\n");
    peer.gets("*1\r\n$1\r\na\r\n:0\r\n");
}

/// Of an empty queue whose name has braces everything may be asked, and that records nothing: the
/// other name may be used after it.
#[test]
fn questions_record_nothing() {
    let mut peer = shared().peer();
    let mut backing = shared().backing();
    let claims = |command: &str| ["OFFER", "MOFFER", "PUSH", "PAUSE"].contains(&&command[3..]);
    for command in COMMANDS {
        let claims = claims(command.split(' ').next().unwrap());
        if claims || command.contains(" SET ") || command == "DQ.SETUP @ limit 5" {
            continue;
        }
        eprintln!("{command}");
        peer.sends(command.replace('@', "{«q»}") + "\r\nECHO end\r\n");
        let before = peer.gets("«lines»$3\r\nend\r\n").remove(0);
        assert!(!before.contains("BADQUEUE"), "{command}: {before}");
        let keys = backing.call(&["KEYS", &format!("*{}*", peer.queue)]);
        assert_eq!(keys.unwrap().texts(), [""; 0], "{command}");
    }
    peer.sends("DQ.OFFER «q» 1h a\r\nDQ.SIZE {«q»}\r\n");
    peer.gets("$30\r\n«id»\r\n-BADQUEUE «text»\r\n");
}

/// The queues `x` and `{x}` have one set of keys and two destinations: who comes first owns it.
#[test]
fn two_names() {
    for (first, second) in [("«q»", "{«q»}"), ("{«q»}", "«q»")] {
        let mut peer = shared().peer();
        peer.sends(format!("DQ.OFFER {first} 1h a\r\n"));
        peer.gets("$30\r\n«id»\r\n");
        let owner = first.replace("«q»", &peer.queue);
        for command in COMMANDS {
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

/// Who asks for a name with a mistake, or finds nothing there, takes no series of the metrics from
/// the queues that come.
#[test]
fn questions_take_no_series() {
    let place = Place::spawn(&[("metrics.queues_max", "1")]);
    let mut peer = place.peer();
    peer.sends(
        "DQ.SIZE a\r\nDQ.CANCEL c n\r\nDQ.REMOVE d x\r\nDQ.CLEAR e\r\nDQ.POLL f\r\n\
         DQ.FIRE g n\r\nDQ.PAUSE h\r\nDQ.ACK i ffffffffffffffff:1\r\n\
         DQ.NACK j ffffffffffffffff:1\r\nDQ.DEAD k REQUEUE\r\nDQ.TAKE l\r\n\
         DQ.INFO b\r\nECHO end\r\n",
    );
    peer.gets(":0\r\n:0\r\n:0\r\n:0\r\n*0\r\n:0\r\n+OK\r\n:0\r\n:0\r\n:0\r\n*-1\r\n");
    peer.gets("*78\r\n«lines»$3\r\nend\r\n");
    peer.sends("DQ.OFFER «q» 1h a\r\nDQ.INFO «q»\r\nECHO end\r\n");
    peer.gets("$30\r\n«id»\r\n*78\r\n«lines»$10\r\ncounted_as\r\n$5\r\n«q»\r\n«lines»end\r\n");
}
