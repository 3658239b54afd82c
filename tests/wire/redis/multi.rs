//! MULTI, EXEC, DISCARD: offers that are checked when queued and stored by one call.

use crate::peer::{Peer, Place, check, shared};
use crate::support::broker::{Broker, signal};
use crate::support::redis::Redis;
use crate::support::resp;
use crate::support::wait::{WITHIN, all_the_time, eventually};
use crate::uncertain::metric;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ID: &str = "$30\r\n«id»\r\n";

#[test]
fn queued_and_executed() {
    check(&[
        ("MULTI\r\n", "+OK\r\n"),
        ("DQ.OFFER «q» 1h a\r\n", "+QUEUED\r\n"),
        ("*1\r\n$4\r\nPING\r\n", "+QUEUED\r\n"),
        ("dq.moffer «q» 1h b AT 1999999999999 c\r\n", "+QUEUED\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\nPING hello\r\n", "+QUEUED\r\n+QUEUED\r\n"),
        ("DQ.OFFER «q» 2h d NAME n NX\r\n", "+QUEUED\r\n"),
        ("DQ.OFFER «q» 2h e NAME n NX\r\n", "+QUEUED\r\n"),
        ("DQ.OFFER «q» 3h 7 AS long\r\n", "+QUEUED\r\n"),
        (
            "exec\r\n",
            "*8\r\n$30\r\n«id»\r\n+PONG\r\n*2\r\n$30\r\n«id»\r\n$30\r\n1999999999999-«hex»\r\n\
             $4\r\na\r\nb\r\n$5\r\nhello\r\n$30\r\n«id»\r\n«$-1|_»\r\n$30\r\n«id»\r\n",
        ),
        // In the order in which they were queued.
        (
            "DQ.POLL «q» COUNT 10\r\n",
            "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\n7\r\n",
        ),
        ("MULTI\r\nEXEC\r\n", "+OK\r\n*0\r\n"),
        ("MULTI\r\nPING\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"),
    ]);
}

/// Redis's own wording, as 7.0 answers it.
#[test]
fn without_multi_and_nested() {
    check(&[
        ("EXEC\r\n", "-ERR EXEC without MULTI\r\n"),
        ("DISCARD\r\n", "-ERR DISCARD without MULTI\r\n"),
        ("MULTI x\r\n", "-ERR wrong number of arguments for 'multi' command\r\n"),
        (
            "MULTI\r\nMULTI\r\nPING\r\nEXEC\r\n",
            "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n",
        ),
        (
            "MULTI\r\nDQ.OFFER «q» 1h a\r\nDISCARD\r\nDQ.SIZE «q»\r\nEXEC\r\n",
            "+OK\r\n+QUEUED\r\n+OK\r\n:0\r\n-ERR EXEC without MULTI\r\n",
        ),
        (
            "MULTI\r\nDQ.OFFER «q» 1h a\r\nRESET\r\nEXEC\r\n",
            "+OK\r\n+QUEUED\r\n+RESET\r\n-ERR EXEC without MULTI\r\n",
        ),
        // RESET left RESP2.
        ("HELLO 3\r\nMULTI\r\n", "%7\r\n«lines»modules\r\n*0\r\n+OK\r\n"),
        (
            "EXEC x\r\nEXEC\r\n",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
             command\r\n-ERR EXEC without MULTI\r\n",
        ),
    ]);
}

/// A bad command is refused when it is queued, and nothing of the transaction is stored.
#[test]
fn refused_when_queued() {
    let bad = [
        ("DQ.OFFER «q» -1 x", "BADDELAY delay '-1' must not be negative"),
        ("DQ.OFFER «q» 1h x NAME ''", "BADID name '' must not be empty"),
        ("DQ.OFFER '' 1h x", "BADQUEUE queue '' must not be empty"),
        ("DQ.MOFFER «q» 1h x soon y", "BADDELAY message 2: delay 'soon'"),
        ("DQ.OFFER «q»", "ERR wrong number of arguments for 'dq.offer'"),
        ("NOTHING", "ERR unknown command 'NOTHING'"),
        ("WATCH a", "ERR Command not allowed inside a transaction: "),
        ("DQ.CANCEL «q» n", "ERR Command not allowed inside a transaction: "),
        ("DQ.SIZE «q»", "ERR Command not allowed inside a transaction: "),
        ("DQ.TAKE «q» BLOCK 0", "ERR Command not allowed inside a transaction: "),
        ("DQ.ACK «q» ffffffffffffffff:1", "ERR Command not allowed inside a transaction: "),
        ("HELLO 2", "ERR Command not allowed inside a transaction: "),
        ("CLIENT ID", "ERR Command not allowed inside a transaction: "),
    ];
    for (line, error) in bad {
        check(&[
            ("MULTI\r\nDQ.OFFER «q» 1h a\r\n", "+OK\r\n+QUEUED\r\n"),
            (&format!("{line}\r\n"), &format!("-{error}«text»\r\n")),
            ("DQ.OFFER «q» 1h b\r\n", "+QUEUED\r\n"),
            ("EXEC\r\n", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("DQ.SIZE «q»\r\n", ":0\r\n"),
            (
                "MULTI\r\nDQ.OFFER «q» 1h c\r\nEXEC\r\nDQ.POLL «q»\r\n",
                &format!("+OK\r\n+QUEUED\r\n*1\r\n{ID}*1\r\n$1\r\nc\r\n"),
            ),
        ]);
    }
}

/// The limits of DQ.MOFFER are those of a transaction.
#[test]
fn limits_of_the_whole() {
    let place =
        Place::spawn(&[("limits.moffer_messages_max", "5"), ("limits.moffer_bytes_max", "100")]);
    let (large, aborted) = ("x".repeat(60), "-EXECABORT «text»\r\n");
    for mut peer in [place.peer(), place.peer3()] {
        peer.sends("MULTI\r\nDQ.MOFFER «q» 1h a 1h b 1h c\r\nPING\r\nDQ.OFFER «q» 1h d\r\n");
        peer.gets("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
        peer.sends("DQ.OFFER «q» 1h e\r\nEXEC\r\n");
        peer.gets(&format!("-TOOMANY more than 5 messages in one transaction\r\n{aborted}"));
        peer.sends(format!("MULTI\r\nDQ.OFFER «q» 1h {large}\r\nECHO {large}\r\nEXEC\r\n"));
        peer.gets(&format!(
            "+OK\r\n+QUEUED\r\n-TOOBIG the payloads of this transaction have 120 bytes, more than \
             100\r\n{aborted}"
        ));
        peer.sends("DQ.SIZE «q»\r\n");
        peer.gets(":0\r\n");
    }
}

/// A group that fails at run time is an error in its place; the others are stored.
#[test]
fn errors_in_their_place() {
    let place = Place::spawn(&[]);
    let mut backing = place.backing();
    for mut peer in [place.peer(), place.peer3()] {
        let bad = format!("bad{}", peer.queue);
        backing.call(&["SET", &bad, "text"]).unwrap();
        peer.sends(format!(
            "MULTI\r\nDQ.OFFER «q» 1h a\r\nDQ.OFFER {bad} 1h b\r\nDQ.MOFFER {bad} 1h c 1h d\r\n\
             DQ.OFFER {bad} 1h e NAME n\r\nPING\r\nDQ.OFFER «q» 1h f\r\nEXEC\r\nDQ.SIZE «q»\r\n"
        ));
        peer.gets(&format!("+OK\r\n{}", "+QUEUED\r\n".repeat(6)));
        let wrong = "-WRONGTYPE the key «text»\r\n";
        peer.gets(&format!("*6\r\n{ID}{wrong}{wrong}{wrong}+PONG\r\n{ID}:2\r\n"));
        // And each is counted as what it is.
        for (command, outcome) in [("EXEC", "ok"), ("DQ.MOFFER", "WRONGTYPE")] {
            let name = format!(
                "delay_broker_commands_total{{command=\"{command}\",outcome=\"{outcome}\"}}"
            );
            let values = metric(&place.broker, &name);
            assert!(values.iter().any(|value| value != "0"), "{name}: {values:?}");
        }
    }
}

/// What stands before EXEC on the connection comes before it, what stands behind it sees it.
#[test]
fn order_on_the_connection() {
    check(&[(
        "DQ.OFFER «q» 1h a\r\nMULTI\r\nDQ.OFFER «q» 1h b\r\nDQ.OFFER «q» 1h c NAME n\r\nEXEC\r\n\
         DQ.SIZE «q»\r\nDQ.OFFER «q» 1h d\r\nMULTI\r\nDQ.OFFER «q» 1h e NAME n\r\nPING\r\nEXEC\r\n\
         DQ.CANCEL «q» n\r\nMULTI\r\nDQ.OFFER «q» 1h f\r\nEXEC\r\nPING\r\nDQ.POLL «q» COUNT 9\r\n",
        "$30\r\n«id»\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n:3\r\n\
         $30\r\n«id»\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$30\r\n«id»\r\n+PONG\r\n:1\r\n\
         +OK\r\n+QUEUED\r\n*1\r\n$30\r\n«id»\r\n+PONG\r\n\
         *4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nd\r\n$1\r\nf\r\n",
    )]);
}

/// Whoever asks for no replies gets none, and what is queued is stored.
#[test]
fn replies_off() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends(
            "CLIENT REPLY OFF\r\nMULTI\r\nDQ.OFFER «q» 1h a\r\nPING\r\nEXEC\r\n\
             CLIENT REPLY ON\r\nDQ.SIZE «q»\r\n",
        );
        peer.gets("+OK\r\n:1\r\n");
    }
}

#[test]
fn client_list_tells_of_it() {
    let mut peer = shared().peer();
    let mut other = shared().peer();
    peer.sends("CLIENT ID\r\nMULTI\r\nPING\r\n");
    let id = peer.gets(":«int»\r\n+OK\r\n+QUEUED\r\n").remove(0);
    other.sends(format!("CLIENT LIST ID {id}\r\n"));
    other.gets("$«int»\r\nid=«text» flags=x «text» multi=1 cmd=ping «text»\n\r\n");
    peer.sends("DISCARD\r\n");
    peer.gets("+OK\r\n");
    other.sends(format!("CLIENT LIST ID {id}\r\n"));
    other.gets("$«int»\r\nid=«text» flags=N «text» multi=-1 cmd=discard «text»\n\r\n");
}

/// A client that leaves before EXEC has stored nothing.
#[test]
fn a_close_drops_it() {
    let place = Place::spawn(&[]);
    let mut peer = place.peer();
    peer.sends("MULTI\r\nDQ.OFFER dropped 1h a\r\n");
    peer.gets("+OK\r\n+QUEUED\r\n");
    peer.leave();
    let mut peer = place.peer();
    peer.sends("MULTI\r\nDQ.OFFER dropped 1h a\r\n");
    peer.sends_end();
    peer.gets_end("+OK\r\n+QUEUED\r\n");
    let mut other = place.peer();
    other.sends("DQ.SIZE dropped\r\n");
    other.gets(":0\r\n");
}

/// While Redis does not answer, commands are queued all the same, and only EXEC waits.
#[test]
fn only_exec_waits_for_redis() {
    let redis = Redis::spawn(&[]);
    let settings = [("redis.call_timeout_ms", "9000"), ("offers.batch_messages_max", "10")];
    let broker = Broker::spawn(&redis.url(0), &settings);
    let pid = redis.pid();
    let mut flood = Peer::connect(&broker);
    let mut peer = Peer::connect(&broker);
    signal(pid, "STOP");
    let sending = flood.sends_beside(b"DQ.OFFER flood 1h a\r\n".repeat(1_000));
    let queue = || {
        peer.sends("MULTI\r\nDQ.OFFER «q» 1h a\r\nDISCARD\r\nMULTI\r\nPING\r\nEXEC\r\n");
        peer.gets("+OK\r\n+QUEUED\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
        peer.sends("MULTI\r\nDQ.OFFER «q» 1h a\r\nNOTHING\r\nEXEC\r\n");
        peer.gets("+OK\r\n+QUEUED\r\n-ERR «text»\r\n-EXECABORT «text»\r\n");
    };
    all_the_time(Duration::from_millis(500), queue, |()| true);
    peer.sends("MULTI\r\nDQ.OFFER «q» 1h a\r\nEXEC\r\nPING\r\n");
    peer.gets("+OK\r\n+QUEUED\r\n");
    signal(pid, "CONT");
    peer.gets(&format!("*1\r\n{ID}+PONG\r\n"));
    flood.gets_ids(1_000);
    sending.join().unwrap();
}

/// Nobody sees a part of a transaction, however small batches are and however many others offer.
#[test]
fn isolated() {
    let place = Place::spawn(&[("offers.batch_messages_max", "8")]);
    let (over, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    let queues = ["part:1", "part:2", "part:3"];
    let mut executed = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut flood = place.peer();
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    flood.sends("DQ.OFFER part:1 1h x NAME x\r\nDQ.OFFER flood 1h a\r\n".repeat(8));
                    flood.gets_ids(16);
                }
            });
        }
        let mut watch = place.backing();
        let (over, looks) = (&over, &looks);
        scope.spawn(move || {
            while !over.load(Relaxed) {
                let counts = counts(&mut watch, &queues);
                // One of the first queue is the named one of the others.
                let first = counts[0] - counts[1];
                assert!((0..=1).contains(&first) && counts[1] == counts[2], "{counts:?}");
                looks.fetch_add(1, Relaxed);
            }
        });
        let mut peer = place.peer();
        let offers: String = (0..20)
            .flat_map(|_| queues.map(|queue| format!("DQ.OFFER {queue} 1h a\r\n")))
            .collect();
        // Each look is to be one beside transactions, so these go on until there were enough.
        let deadline = Instant::now() + WITHIN;
        while executed < 50 || (looks.load(Relaxed) <= 50 && Instant::now() < deadline) {
            peer.sends(format!("MULTI\r\n{offers}EXEC\r\n"));
            peer.gets(&format!("+OK\r\n{}*60\r\n", "+QUEUED\r\n".repeat(60)));
            peer.gets_ids(60);
            executed += 1;
        }
        over.store(true, Relaxed);
    });
    assert!(looks.into_inner() > 50);
    let all = counts(&mut place.backing(), &queues);
    assert_eq!(all[1..], [20 * executed; 2]);
}

/// What is pending in each, at one moment.
fn counts(backing: &mut resp::Client, queues: &[&str]) -> Vec<i64> {
    let script = "local n = {} for i, key in ipairs(KEYS) do n[i] = redis.call('ZCARD', key) end \
                  return n";
    let keys = queues.iter().map(|queue| format!("redisson_delay_queue_timeout:{{{queue}}}"));
    let keys: Vec<String> = keys.collect();
    let mut call = vec!["EVAL".to_owned(), script.to_owned(), keys.len().to_string()];
    call.extend(keys);
    match backing.call(&call).unwrap() {
        resp::Value::Array(counts) => counts.iter().map(resp::Value::int).collect(),
        other => panic!("{other:?}"),
    }
}

/// Queued payloads count towards the memory of all connections: who keeps them gives way.
#[test]
fn queued_payloads_are_charged() {
    let place = Place::spawn(&[("limits.buffers_bytes_max", "4194304")]);
    let before = place.broker.resident_bytes();
    let payload = "x".repeat(3_000_000);
    let offer = format!("*4\r\n$8\r\nDQ.OFFER\r\n$1\r\nq\r\n$2\r\n1h\r\n$3000000\r\n{payload}\r\n");
    let mut peers: Vec<_> = (0..6).map(|_| place.peer()).collect();
    let sending: Vec<_> = peers
        .iter_mut()
        .map(|peer| {
            let bytes = format!("MULTI\r\n{}", offer.repeat(10)).into_bytes();
            peer.tries_beside(bytes)
        })
        .collect();
    let deadline = Instant::now() + WITHIN;
    let mut other = place.peer();
    while sending.iter().any(|sending| !sending.is_finished()) && Instant::now() < deadline {
        other.sends("DQ.OFFER «q» 1h a\r\nDQ.CANCEL «q» n\r\n");
        other.gets(&format!("{ID}:0\r\n"));
        let used = place.broker.resident_bytes().saturating_sub(before);
        assert!(used < 120 << 20, "{used} bytes for what is queued");
    }
    sending.into_iter().for_each(|sending| sending.join().unwrap());
    peers.into_iter().for_each(Peer::leave);
    // And is given back.
    let mut asking = place.peer();
    let held = || {
        asking.sends("MULTI\r\nPING\r\nEXEC\r\n");
        asking.gets("+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
        let values = metric(&place.broker, "delay_broker_buffers_bytes ");
        values[0].parse::<u64>().unwrap()
    };
    eventually(held, |held| *held < 100_000);
}
