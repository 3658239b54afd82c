//! A key of the queue that holds something else: WRONGTYPE, which names it, and nothing is changed.

use crate::peer::shared;

/// The keys, and whether a command looks at them: an `x` in the table below.
const KEYS: [&str; 14] = [
    "@",
    "redisson_delay_queue_timeout:{@}",
    "redisson_delay_queue:{@}",
    "delay_broker_queue:{@}",
    "delay_broker_names:{@}",
    "delay_broker_ids:{@}",
    "delay_broker_quarantine:{@}",
    "delay_broker_leased:{@}",
    "delay_broker_retry:{@}",
    "delay_broker_dead:{@}",
    "delay_broker_taken:{@}",
    "delay_broker_tries:{@}",
    "delay_broker_crons:{@}",
    "delay_broker_cron:{@}",
];

const COMMANDS: [(&str, &str); 46] = [
    ("DQ.OFFER «q» 1h b\r\n", "xxxx.........."),
    ("DQ.OFFER «q» 1h b NAME n\r\n", "xxxxxx........"),
    ("DQ.MOFFER «q» 1h b 1h c\r\n", "xxxx.........."),
    ("DQ.PUSH «q» b c\r\n", "xxxx.........."),
    ("DQ.REMOVE «q» nothing\r\n", ".xxxxx........"),
    ("DQ.CANCEL «q» nobody\r\n", ".xxxxx........"),
    ("DQ.RESCHEDULE «q» nobody 1h\r\n", ".xxxxx........"),
    ("DQ.FIRE «q» nobody\r\n", ".xxxxx........"),
    ("DQ.GET «q» nobody\r\n", ".x.xxx........"),
    ("DQ.SIZE «q»\r\n", ".x.x.........."),
    ("DQ.PEEK «q»\r\n", ".x.x.x........"),
    ("DQ.RANGE «q» - +\r\n", ".x.x.x........"),
    ("DQ.FIND «q»\r\n", ".x.x.x........"),
    ("DQ.TIMELINE «q» 0 1h 1m\r\n", ".x.x.........."),
    ("DQ.CANCEL «q» MATCH *\r\n", ".x.x.x........"),
    ("DQ.FIRE «q» MATCH * DRYRUN\r\n", ".x.x.x........"),
    ("DQ.CONTAINS «q» nothing\r\n", ".x.x.........."),
    ("DQ.POLL «q»\r\n", ".xxxxxx......."),
    ("DQ.CLEAR «q»\r\n", ".xxxxx........"),
    ("DQ.CONVERT «q»\r\n", ".xxx.........."),
    ("DQ.PAUSE «q»\r\n", ".x.x.........."),
    ("DQ.RESUME «q»\r\n", ".x.x.........."),
    ("DQ.QUARANTINE «q» LIST\r\n", "...x..x......."),
    ("DQ.QUARANTINE «q» RESTORE\r\n", ".xxx..x......."),
    ("DQ.QUARANTINE «q» DROP\r\n", "...x..x......."),
    ("DQ.INFO «q»\r\n", ".xxx.........."),
    ("DQ.TAKE «q»\r\n", "xx.x...xxxxx.."),
    ("DQ.ACK «q» ffffffffffffffff:1\r\n", ".x.x...xxxxx.."),
    ("DQ.NACK «q» ffffffffffffffff:1\r\n", ".x.x...xxxxx.."),
    ("DQ.EXTEND «q» ffffffffffffffff:1\r\n", ".x.x...xxxxx.."),
    ("DQ.TAKEN «q»\r\n", ".x.x...xxxxx.."),
    ("DQ.TAKEN «q» RELEASE\r\n", "xx.x...xxxxx.."),
    ("DQ.CANCEL «q» 0-ffffffffffffffff\r\n", ".xxxxx.xxxxx.."),
    ("DQ.RESCHEDULE «q» 0-ffffffffffffffff 1h\r\n", ".xxxxx.xxxxx.."),
    ("DQ.FIRE «q» 0-ffffffffffffffff\r\n", ".xxxxx.xxxxx.."),
    ("DQ.GET «q» 0-ffffffffffffffff\r\n", ".x.xxx.xxxxx.."),
    ("DQ.DEAD «q» LIST\r\n", ".x.x...xxxxx.."),
    ("DQ.DEAD «q» REQUEUE\r\n", ".x.x...xxxxx.."),
    ("DQ.DEAD «q» DROP\r\n", ".x.x...xxxxx.."),
    ("DQ.CRON «q» SET n @daily p\r\n", "xx.x........xx"),
    ("DQ.CRON «q» DEL n\r\n", ".x.x........xx"),
    ("DQ.CRON «q» PAUSE n\r\n", ".x.x........xx"),
    ("DQ.CRON «q» RESUME n\r\n", ".x.x........xx"),
    ("DQ.CRON «q» LIST\r\n", ".x.x........xx"),
    ("DQ.SETUP «q»\r\n", ".xxx.........."),
    ("DQ.SETUP «q» limit 5\r\n", ".x.x......x..."),
];

/// With an order list and without.
#[test]
fn each_key() {
    for drop_list in [false, true] {
        check_keys(drop_list);
    }
}

fn check_keys(drop_list: bool) {
    let mut backing = shared().backing();
    for (place, key) in KEYS.iter().enumerate() {
        for (command, looks) in COMMANDS {
            let mut peer = shared().peer();
            let record = format!("delay_broker_queue:{{{}}}", peer.queue);
            let mut there = Vec::new();
            if drop_list && place != 3 {
                shared().drop_list(&peer.queue);
                there.push(record);
            }
            let key = key.replace('@', &peer.queue);
            eprintln!("{key}: {}", command.escape_debug());
            // Neither list, nor hash, nor zset.
            backing.call(&["SET", &key, "something else"]).unwrap();
            peer.sends(command);
            if looks.as_bytes()[place] == b'x' {
                peer.gets(&format!(
                    "-WRONGTYPE the key {key} holds a value of another type; nothing was \
                     changed\r\n"
                ));
                let all = backing.call(&["KEYS", &format!("*{}*", peer.queue)]).unwrap();
                there.push(key.clone());
                there.sort();
                assert_eq!(crate::peer::sorted(all.texts()), there);
            } else {
                peer.sends("ECHO end\r\n");
                let answer = peer.gets("«lines»$3\r\nend\r\n").remove(0);
                assert!(!answer.starts_with('-'), "{answer}");
            }
            // It is a queue like any other when the key is gone.
            backing.call(&["DEL", &key]).unwrap();
            peer.sends("DQ.OFFER «q» 1h good NAME new\r\nDQ.CONTAINS «q» good\r\n");
            peer.gets("$30\r\n«id»\r\n*1\r\n:1\r\n");
        }
    }
}

/// One bad queue never fails another's offers of the same batch.
#[test]
fn beside_good_queues() {
    let mut backing = shared().backing();
    for key in KEYS.iter().take(4) {
        for mut peer in [shared().peer(), shared().peer3()] {
            let key = key.replace('@', &format!("{}bad", peer.queue));
            backing.call(&["SET", &key, "something else"]).unwrap();
            peer.sends(
                "DQ.OFFER «q»one 1h a\r\nDQ.OFFER «q»bad 1h b\r\nDQ.OFFER «q»two 1h c NAME n\r\n\
                 DQ.MOFFER «q»bad 1h d 1h e\r\nDQ.OFFER «q»one 1h f\r\n\
                 DQ.OFFER «q»bad 1h g NAME m\r\n\
                 DQ.SIZE «q»one\r\nDQ.SIZE «q»two\r\nDQ.CONTAINS «q»one a f\r\n",
            );
            let wrong =
                "-WRONGTYPE the key «text» holds a value of another type; nothing was changed\r\n";
            peer.gets(&format!(
                "$30\r\n«id»\r\n{wrong}$30\r\n«id»\r\n{wrong}$30\r\n«id»\r\n{wrong}"
            ));
            peer.gets(":2\r\n:1\r\n*2\r\n:1\r\n:1\r\n");
        }
    }
}
