//! Ten thousand commands in one write, replies in order; and what a command sees of those before
//! it.

use crate::dq::take::{fields, peers, push, take};
use crate::peer::{Place, check, shared};

#[test]
fn ten_thousand_offers() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("*4\r\n$8\r\nDQ.OFFER\r\n$5\r\n«q»\r\n$2\r\n1h\r\n$1\r\na\r\n".repeat(10_000));
        let ids = peer.gets_ids(10_000);
        // Of one due time, ids grow in the order of offering.
        assert!(ids.is_sorted());
        peer.sends("DQ.SIZE «q»\r\n");
        peer.gets(":10000\r\n");
    }
}

/// Twenty commands a round: ten offers, eight local ones, two that ask Redis, in turns.
#[test]
fn ten_thousand_of_all_kinds() {
    let mut peer = shared().peer3();
    let round = "DQ.OFFER «q» 1h a\r\nPING\r\nDQ.OFFER «q» 1h b\r\nDQ.OFFER «q» -1 c\r\n".repeat(2)
        + "DQ.SIZE «q»\r\nNOTHING x\r\n"
        + &"DQ.OFFER «q» 1h d\r\n".repeat(6)
        + "*2\r\n$4\r\nECHO\r\n$1\r\n\n\r\nDQ.GET «q» nobody\r\n\r\nping\r\nSELECT 1\r\n";
    peer.sends(round.repeat(500));
    let (id, negative) =
        ("$30\r\n«id»\r\n", "-BADDELAY delay '-1' must not be negative «text»\r\n");
    for n in 0..500 {
        peer.gets(&format!("{id}+PONG\r\n{id}{negative}").repeat(2));
        peer.gets(&format!(":{}\r\n-ERR unknown command 'NOTHING', «text»\r\n", 10 * n + 4));
        peer.gets_ids(6);
        peer.gets_bytes(b"$1\r\n\n\r\n_\r\n+PONG\r\n-ERR DB index is out of range\r\n");
    }
}

/// Local commands, offers and calls do not pass one another.
#[test]
fn each_sees_all_before_it() {
    check(&[(
        "DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\nDQ.OFFER «q» 1h b NAME n\r\nDQ.CANCEL «q» n\r\n\
         DQ.SIZE «q»\r\nPING\r\n\
         DQ.MOFFER «q» 1h c 1h d\r\nDQ.CONTAINS «q» b d\r\nDQ.POLL «q» COUNT 9\r\n\
         DQ.OFFER «q» 1h e\r\n\
         DQ.REMOVE «q» e\r\nDQ.CLEAR «q»\r\nDQ.PAUSE «q»\r\n\
         DQ.OFFER «q» 0 f NAME n NX\r\nDQ.SIZE «q»\r\n\
         DQ.OFFER «q» 0 g NAME n NX\r\nDQ.RESCHEDULE «q» n AT 1999999999999\r\nDQ.GET «q» n\r\n",
        "$30\r\n«id»\r\n:1\r\n$30\r\n«id»\r\n:1\r\n:1\r\n+PONG\r\n\
         *2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n\
         *2\r\n:0\r\n:1\r\n*3\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nd\r\n$30\r\n«id»\r\n\
         :1\r\n:0\r\n+OK\r\n$30\r\n«id»\r\n:1\r\n\
         «$-1|_»\r\n$30\r\n1999999999999-«hex»\r\n«*10|%5»\r\n«lines»modern\r\n",
    )]);
}

/// Offers to many queues of one write, and what each of them holds then.
#[test]
fn many_queues_in_one_write() {
    let mut peer = shared().peer();
    let queues: Vec<String> = (0..300).map(|n| format!("«q»:{n}")).collect();
    let each = |text: &str| queues.iter().map(|queue| text.replace('@', queue)).collect::<String>();
    peer.sends(
        each("DQ.OFFER @ 1h a\r\nDQ.OFFER @ 2h b\r\n")
            + &each("DQ.SIZE @\r\nDQ.POLL @ COUNT 2\r\n"),
    );
    peer.gets_ids(600);
    peer.gets_bytes(":2\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n".repeat(300).as_bytes());
}

/// Who reads slowly gets everything all the same.
#[test]
fn read_late() {
    let mut peer = shared().peer();
    let payload = "x".repeat(1_000);
    // Three megabytes of replies: more than is kept ready at once.
    let sending = peer.sends_beside(format!("ECHO {payload}\r\n").repeat(3_000).into_bytes());
    peer.gets_bytes(format!("$1000\r\n{payload}\r\n").repeat(3_000).as_bytes());
    sending.join().unwrap();
}

/// `printf '...' | nc`: nothing more comes, and all that came is answered.
#[test]
fn no_more_questions() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\nDQ.OFFER «q» 1h b\r\nPING\r\nDQ.OFF");
        peer.sends_end();
        peer.gets_end("$30\r\n«id»\r\n:1\r\n$30\r\n«id»\r\n+PONG\r\n");
    }
}

/// Settlements in one write go together, and count in their order all the same.
#[test]
fn settlements_of_all_kinds() {
    for mut peer in peers(shared()) {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|payload| take(shared(), &mut peer, payload));
        peer.sends(format!(
            "DQ.ACK «q» {a}:1\r\nDQ.ACK «q» {a}:1\r\nDQ.ACK «q» {a}\r\n\
             DQ.NACK «q» {b}:1 SILENT DELAY 1h\r\nDQ.NACK «q» {a}:1 SILENT DELAY 1h\r\n\
             DQ.ACK «q» {b}:1\r\nDQ.ACK «q»x {c}:1\r\nDQ.ACK «q» {c}:1\r\n\
             DQ.EXTEND «q» {c}:1 {d}:1\r\nCLIENT REPLY SKIP\r\nDQ.ACK «q» {d}:1\r\n\
             DQ.ACK «q» {d}:1\r\nECHO e\r\n\
             MULTI\r\nDQ.ACK «q» {d}:1\r\nDISCARD\r\nDQ.ACK «q» {d}:1\r\n*1\r\nx\r\n"
        ));
        peer.gets(":1\r\n:0\r\n");
        peer.gets(&format!("-BADID receipt 1: receipt '{a}' «text»\r\n"));
        peer.gets(":1\r\n:0\r\n:1\r\n:0\r\n:1\r\n:1\r\n:0\r\n$1\r\ne\r\n");
        peer.gets("+OK\r\n«text»\r\n+OK\r\n:0\r\n");
        peer.gets_end("-ERR Protocol error: expected '$', got 'x'\r\n");
    }
}

/// A client that does not wait for each reply shares calls of Redis with itself.
#[test]
fn a_thousand_settlements_in_one_write() {
    let place = Place::spawn(&[]);
    let calls = || {
        let stats = place.backing().call(&["INFO", "commandstats"]).unwrap().text();
        let calls = stats.split("cmdstat_evalsha:calls=").nth(1).unwrap();
        calls.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    for mut peer in [place.peer(), place.peer3()] {
        push(&place, &peer.queue, &["m"; 1_000]);
        peer.sends("DQ.TAKE «q» COUNT 1000\r\n");
        peer.gets("*1000\r\n");
        let message = format!("«*12|%6»\r\n{}", fields("m", 1, 1));
        let ack = |_| format!("DQ.ACK «q» {}:1\r\n", peer.gets(&message)[0]);
        let acks: String = (0..1_000).map(ack).collect();
        let before = calls();
        peer.sends(acks);
        peer.gets(&":1\r\n".repeat(1_000));
        // Those of the scheduler are among them.
        assert!(calls() - before < 500, "{} calls", calls() - before);
    }
}
