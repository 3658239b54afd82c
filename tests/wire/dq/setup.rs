//! `DQ.SETUP`: the settings of a queue.

use super::take::{peers, take};
use crate::peer::{check, shared};

/// The lines of a reply that shows settings, from `limit` on.
fn shown(limit: (u64, &str), lease: (u64, &str)) -> String {
    let rows = [
        ("lease_ms", lease),
        ("limit", limit),
        ("backoff_min_ms", (5_000, "default")),
        ("backoff_max_ms", (3_600_000, "default")),
        ("jitter", (20, "default")),
        ("in_flight_max", (0, "default")),
        ("dead_max", (0, "default")),
        ("dead_keep_ms", (0, "default")),
        ("max_length", (0, "default")),
        ("rate", (0, "default")),
        ("burst", (0, "default")),
    ];
    let row = |name: &str, value: &str, origin: &str| {
        format!(
            "«*6|%3»\r\n$7\r\nsetting\r\n${}\r\n{name}\r\n$5\r\nvalue\r\n{value}\r\n\
             $6\r\norigin\r\n${}\r\n{origin}\r\n",
            name.len(),
            origin.len()
        )
    };
    let rows = rows.map(|(name, (value, origin))| row(name, &format!(":{value}"), origin));
    let others = [
        row("destination", "$4\r\nlist", "default"),
        row("expired", "$4\r\ndrop", "default"),
        row("names_until", "$9\r\ndelivered", "default"),
        row("groups", "$0\r\n", "default"),
        row("stream_keep_ms", ":0", "default"),
        row("consumer_idle_ms", ":604800000", "default"),
        row("keeper", "$2\r\non", "default"),
    ];
    format!("*{}\r\n{}{}", rows.len() + others.len(), rows.concat(), others.concat())
}

#[test]
fn setup() {
    let (plain, own) = ((16, "default"), (30_000, "default"));
    check(&[
        ("*2\r\n$8\r\nDQ.SETUP\r\n$5\r\n«q»\r\n", &shown(plain, own)),
        ("DQ.SETUP «q» LIMIT 3 lease_ms 1m\r\n", "+OK\r\n"),
        ("DQ.SETUP «q»\r\n", &shown((3, "setup"), (60_000, "setup"))),
        ("DQ.SETUP «q» IFABSENT limit 9\r\n", "+OK\r\n"),
        ("dq.setup «q» lease_ms default\r\n", "+OK\r\n"),
        ("DQ.SETUP «q»\r\n", &shown((3, "setup"), own)),
        ("DQ.SETUP «q» RESET\r\n", "+OK\r\n"),
        ("DQ.SETUP «q»\r\n", &shown(plain, own)),
        (
            "DQ.SETUP «q» limit -1\r\n",
            "-ERR limit '-1' must be a whole number from 0 to 1000000\r\n",
        ),
        ("DQ.SETUP «q» limit 5 lease_ms\r\n", "-ERR syntax error: lease_ms needs a value\r\n"),
        ("DQ.SETUP «q» lease 5\r\n", "-ERR unknown setting 'lease'; there are «text»\r\n"),
        ("DQ.SETUP\r\n", "-ERR wrong number of arguments for 'dq.setup' command; «text»\r\n"),
        ("DQ.SETUP «q»\r\n", &shown(plain, own)),
        ("DQ.SETUP «q» destination set\r\n", "-ERR destination 'set' must be one of «text»\r\n"),
        ("DQ.SETUP «q» destination TAKE\r\n", "+OK\r\n"),
        ("DQ.SETUP «q» destination LIST\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 1h a NAME n\r\n", "$30\r\n«id»\r\n"),
        ("DQ.SETUP «q» destination take\r\n", "+OK\r\n"),
        (
            "DQ.SETUP «q» destination default\r\n",
            "-ERR the destination of a queue can be changed while it holds no message only, and \
             «text»\r\n",
        ),
        ("DQ.CANCEL «q» n\r\n", ":1\r\n"),
        ("DQ.SETUP «q» destination default\r\n", "+OK\r\n"),
    ]);
}

/// A queue that is full refuses offers, whole ones, and takes them again when there is room.
#[test]
fn a_full_queue() {
    for mut peer in peers(shared()) {
        peer.sends("DQ.SETUP «q» max_length 2\r\nDQ.OFFER «q» 1h a NAME n\r\n");
        peer.gets("+OK\r\n$30\r\n«id»\r\n");
        peer.sends("DQ.MOFFER «q» 1h b 1h c\r\n");
        let holds = "-TOOMANY the queue holds 1 of 2 messages (max_length, DQ.SETUP), and 2 more \
                     do not fit: «text»\r\n";
        peer.gets(holds);
        // From now on each command stands for itself, even in one call.
        peer.sends(
            "DQ.MOFFER «q» 1h b 1h c\r\nDQ.OFFER «q» 1h b\r\nDQ.OFFER «q» 1h c\r\nMULTI\r\n\
             DQ.OFFER «q» 1h c\r\nDQ.OFFER «q»x 1h d\r\nEXEC\r\nDQ.CANCEL «q» n\r\n\
             DQ.OFFER «q» 1h c\r\n",
        );
        peer.gets(&format!(
            "{holds}$30\r\n«id»\r\n-TOOMANY the queue holds 2 of 2 messages «text»\r\n+OK\r\n\
             +QUEUED\r\n+QUEUED\r\n*2\r\n-TOOMANY «text»\r\n$30\r\n«id»\r\n:1\r\n$30\r\n«id»\r\n"
        ));
    }
}

/// The limit counts for messages that were taken before, too.
#[test]
fn limit_of_attempts() {
    for mut peer in peers(shared()) {
        let id = take(shared(), &mut peer, "a");
        peer.sends("DQ.SETUP «q» limit 1\r\n");
        peer.gets("+OK\r\n");
        peer.sends(format!("DQ.NACK «q» {id}:1 DELAY 0\r\n"));
        peer.gets(":1\r\n");
        peer.sends("DQ.TAKE «q»\r\nDQ.DEAD «q» DROP\r\n");
        peer.gets("«*-1|_»\r\n:1\r\n");
    }
}
