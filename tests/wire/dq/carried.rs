//! What an offer says of its messages beside the payload: `HEADER`, `TTL`, `PRIO`, `LIMIT`, and
//! what becomes of it in a queue for takers alone.

use crate::peer::{Peer, Place, check, shared};
use crate::support::wait::eventually;

use super::take::peers;

const NULL: &str = "«*-1|_»\r\n";

/// A string as it is sent and shown.
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The map of a message whose id is known, with more fields behind the payload.
fn taken(id: &str, delivery: u32, attempt: u32, payload: &str, more: &[(&str, String)]) -> String {
    let size = 6 + more.len();
    let more: String = more.iter().map(|(name, value)| bulk(name) + value).collect();
    format!(
        "*1\r\n«*{}|%{size}»\r\n{}{}{}{}{}:{attempt}\r\n{}:«ms»\r\n{}{}{}{}{more}",
        2 * size,
        bulk("receipt"),
        bulk(&format!("{id}:{delivery}")),
        bulk("id") + &bulk(id),
        "",
        bulk("attempt"),
        bulk("until"),
        bulk("payload"),
        bulk(payload),
        bulk("message"),
        bulk(&format!("0-{id}")),
    )
}

fn headers(pairs: &[(&str, &str)]) -> (&'static str, String) {
    let all: String = pairs.iter().map(|(name, value)| bulk(name) + &bulk(value)).collect();
    ("headers", format!("«*{}|%{}»\r\n{all}", 2 * pairs.len(), pairs.len()))
}

/// The part of a message id behind the `-`.
fn offers(peer: &mut Peer, words: &str) -> String {
    peer.sends(format!("DQ.OFFER «q» {words}\r\n"));
    let ids = peer.gets_ids(1);
    ids[0].rsplit_once('-').unwrap().1.to_owned()
}

fn for_takers(place: &Place) -> Vec<Peer> {
    let mut peers = peers(place);
    for peer in &mut peers {
        peer.sends("DQ.SETUP «q» destination take\r\n");
        peer.gets("+OK\r\n");
    }
    peers
}

#[test]
fn what_was_said_comes_with_the_message() {
    for mut peer in for_takers(shared()) {
        let said = "HEADER a 1 TTL 1h header '' b";
        peer.sends(format!("DQ.OFFER «q» 0 p {said}\r\n"));
        peer.gets("-ERR header '' must not be empty\r\n");
        let id = offers(&mut peer, "0 p HEADER a '' ttl 1h Header b 'x y' NAME n LIMIT 2 prio 9");
        let more = [
            headers(&[("a", ""), ("b", "x y")]),
            ("name", bulk("n")),
            ("expires", ":«ms»\r\n".to_owned()),
        ];
        peer.sends("DQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&taken(&id, 1, 1, "p", &more));
        // The id stays through retry, death and after it; the limit is the message's own.
        peer.sends(format!("DQ.NACK «q» {id}:1 DELAY 0\r\nDQ.TAKE «q» BLOCK 0\r\n"));
        peer.gets(&format!(":1\r\n{}", taken(&id, 2, 2, "p", &more)));
        peer.sends(format!("DQ.NACK «q» {id}:2 DELAY 0 REASON no\r\nDQ.DEAD «q» LIST\r\n"));
        let (field, map) = headers(&[("a", ""), ("b", "x y")]);
        peer.gets(&format!(
            ":1\r\n*2\r\n{}*1\r\n«*12|%6»\r\n{}{}{}:«ms»\r\n{}:2\r\n{}{}{}{}{}{map}",
            bulk("0"),
            bulk("id"),
            bulk(&id),
            bulk("died"),
            bulk("attempts"),
            bulk("reason"),
            bulk("no"),
            bulk("payload"),
            bulk("p"),
            bulk(field),
        ));
        peer.sends("DQ.DEAD «q» REQUEUE\r\nDQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&format!(":1\r\n{}", taken(&id, 3, 1, "p", &more)));
        peer.sends(format!("DQ.ACK «q» {id}:3\r\nDQ.TAKE «q»\r\n"));
        peer.gets(&format!(":1\r\n{NULL}"));
    }
}

/// A message without anything beside its payload, one that others pushed, one with an id only.
#[test]
fn ids_are_those_of_the_offers() {
    for mut peer in for_takers(shared()) {
        let id = offers(&mut peer, "0 plain");
        peer.sends("DQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&taken(&id, 1, 1, "plain", &[]));
        super::take::push(shared(), &peer.queue.clone(), &["foreign"]);
        peer.sends("DQ.TAKE «q» BLOCK 0\r\n");
        peer.gets(&super::take::first("foreign"));
    }
}

/// What a codec of Redisson wrote, or reads, is the same in an envelope.
#[test]
fn encodings_in_an_envelope() {
    for mut peer in for_takers(shared()) {
        for (word, given, shown) in [("kryo5", "abc", "abc"), ("json", "[1]", "[1]")] {
            let id = offers(&mut peer, &format!("0 {given} AS {word} HEADER k v"));
            peer.sends("DQ.TAKE «q» BLOCK 0 DECODE\r\n");
            let more = [headers(&[("k", "v")]), ("encoding", bulk(word))];
            peer.gets(&taken(&id, 1, 1, shown, &more));
        }
    }
}

#[test]
fn higher_priorities_go_first() {
    for mut peer in for_takers(shared()) {
        peer.sends(
            "DQ.PAUSE «q»\r\nDQ.OFFER «q» 0 a\r\nDQ.MOFFER «q» PRIO 1 HEADER k v 0 b 0 c\r\n\
             DQ.OFFER «q» 0 d PRIO 9\r\nDQ.OFFER «q» 0 e PRIO 0\r\nMULTI\r\n\
             DQ.OFFER «q» 0 f PRIO 9\r\nEXEC\r\n",
        );
        let one = "$30\r\n«id»\r\n";
        peer.gets(&format!("+OK\r\n{one}*2\r\n{one}{one}{one}{one}"));
        peer.gets("+OK\r\n+QUEUED\r\n*1\r\n$30\r\n«id»\r\n");
        // All are in one place before the first is taken.
        peer.sends("DQ.RESUME «q»\r\n");
        peer.gets("+OK\r\n");
        let mut backing = shared().backing();
        let first = format!("delay_broker_first:{{{}}}", peer.queue);
        let mut size = |words: [&str; 2]| backing.call(&words).unwrap().int();
        eventually(
            || (size(["LLEN", &peer.queue]), size(["ZCARD", &first])),
            |sizes| *sizes == (2, 4),
        );
        for (payload, has_header) in
            [("d", false), ("f", false), ("b", true), ("c", true), ("a", false), ("e", false)]
        {
            peer.sends("DQ.TAKE «q»\r\n");
            let (size, more) = match has_header {
                true => ("«*14|%7»", bulk("headers") + "«*2|%1»\r\n" + &bulk("k") + &bulk("v")),
                false => ("«*12|%6»", String::new()),
            };
            peer.gets(&format!(
                "*1\r\n{size}\r\n{}$18\r\n«hex»:1\r\n{}$16\r\n«hex»\r\n{}:1\r\n{}:«ms»\r\n\
                 {}{}{}$18\r\n0-«hex»\r\n{more}",
                bulk("receipt"),
                bulk("id"),
                bulk("attempt"),
                bulk("until"),
                bulk("payload"),
                bulk(payload),
                bulk("message"),
            ));
        }
    }
}

/// Until the clock of Redis is behind that of this moment by more than this.
fn pass(place: &Place, ms: i64) {
    let mut redis = place.backing();
    let mut now_us = || {
        let time = redis.call(&["TIME"]).unwrap();
        let [s, us] = [0, 1].map(|at| time.elements()[at].text().parse::<i64>().unwrap());
        s * 1_000_000 + us
    };
    let from = now_us();
    eventually(|| now_us() - from, |passed| *passed > ms * 1_000);
}

/// The four places where a TTL passes: pending, ready, leased, waiting; and what dies of it.
#[test]
fn what_has_expired_is_handed_out_no_more() {
    for mut peer in for_takers(shared()) {
        peer.sends("DQ.SETUP «q» expired dead\r\n");
        peer.gets("+OK\r\n");
        peer.sends("DQ.PAUSE «q»\r\n");
        peer.gets("+OK\r\n");
        let pending = offers(&mut peer, "0 pending TTL 1 HEADER k v");
        pass(shared(), 2);
        peer.sends("DQ.RESUME «q»\r\nDQ.TAKE «q» BLOCK 50ms\r\n");
        peer.gets(&format!("+OK\r\n{NULL}"));
        let ready = offers(&mut peer, "0 ready TTL 100ms");
        pass(shared(), 102);
        let leased = offers(&mut peer, "0 leased TTL 3s");
        let more = || [("expires", ":«ms»\r\n".to_owned())];
        peer.sends("DQ.TAKE «q» BLOCK 10s LEASE 3s\r\n");
        peer.gets(&taken(&leased, 1, 1, "leased", &more()));
        let waiting = offers(&mut peer, "0 waiting TTL 3s");
        peer.sends("DQ.TAKE «q» BLOCK 10s\r\n");
        peer.gets(&taken(&waiting, 1, 1, "waiting", &more()));
        peer.sends(format!("DQ.NACK «q» {waiting}:1 DELAY 1h\r\n"));
        peer.gets(":1\r\n");
        pass(shared(), 3_010);
        // It would be handed out again: its lease has run out.
        peer.sends("DQ.TAKE «q»\r\n");
        peer.gets(NULL);
        pass(shared(), 2);
        peer.sends(format!("DQ.FIRE «q» 0-{waiting}\r\nDQ.TAKE «q» BLOCK 50ms\r\n"));
        peer.gets(&format!(":1\r\n{NULL}"));
        peer.sends("DQ.DEAD «q» LIST\r\n");
        let row = |id: &str, attempts: u32, payload: &str, size: &str| {
            format!(
                "{size}\r\n{}{}{}:«ms»\r\n{}:{attempts}\r\n{}{}{}{}",
                bulk("id"),
                bulk(id),
                bulk("died"),
                bulk("attempts"),
                bulk("reason"),
                bulk("expired"),
                bulk("payload"),
                bulk(payload),
            )
        };
        let (field, map) = headers(&[("k", "v")]);
        peer.gets(&format!("*2\r\n{}*4\r\n", bulk("0")));
        peer.gets(&(row(&pending, 0, "pending", "«*12|%6»") + &bulk(field) + &map));
        peer.gets(&row(&ready, 0, "ready", "«*10|%5»"));
        peer.gets(&row(&leased, 1, "leased", "«*10|%5»"));
        peer.gets(&row(&waiting, 1, "waiting", "«*10|%5»"));
        // Late, but nobody else had it.
        peer.sends(format!(
            "DQ.ACK «q» {leased}:1\r\nDQ.DEAD «q» REQUEUE {pending}\r\nDQ.TAKE «q» BLOCK 0\r\n"
        ));
        peer.gets(&format!(
            ":1\r\n:1\r\n{}",
            taken(&pending, 2, 1, "pending", &[headers(&[("k", "v")])])
        ));
    }
}

#[test]
fn refused() {
    let needs = "-ERR HEADER, TTL and LIMIT need a destination that has them: «text»\r\n";
    let usage = "; usage: DQ.OFFER «text»\r\n";
    let many: String = (0..33).map(|number| format!(" HEADER h{number} v")).collect();
    let large = format!("DQ.OFFER «q» 1h p HEADER a '' HEADER b {}\r\n", "x".repeat(8_191));
    let largest = format!("DQ.OFFER «q» 1h p HEADER a '' HEADER b {}\r\n", "x".repeat(8_190));
    check(&[
        ("DQ.OFFER «q» 1h p HEADER a b\r\n", needs),
        ("DQ.OFFER «q» 1h p TTL 5s NAME n\r\n", needs),
        ("DQ.OFFER «q» 1h p LIMIT 0\r\n", needs),
        ("DQ.OFFER «q» 1h p PRIO 0\r\n", "-ERR PRIO needs a destination that has «text»\r\n"),
        ("DQ.MOFFER «q» PRIO 1 1h p 1h p\r\n", "-ERR PRIO needs a destination that «text»\r\n"),
        // What is beside it is stored.
        (
            "MULTI\r\nDQ.OFFER «q» 1h p TTL 5s\r\nDQ.OFFER «q» 1h q\r\nEXEC\r\nDQ.SIZE «q»\r\n",
            &format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n{needs}$30\r\n«id»\r\n:1\r\n"),
        ),
        ("DQ.OFFER «q» 1h p HEADER\r\n", "-ERR syntax error: HEADER needs a value\r\n"),
        ("DQ.OFFER «q» 1h p HEADER a\r\n", "-ERR header 'a' has no value\r\n"),
        ("DQ.OFFER «q» 1h p HEADER a b HEADER a c\r\n", "-ERR header 'a' is given twice\r\n"),
        (
            &format!("DQ.OFFER «q» 1h p{many}\r\n"),
            "-TOOMANY more headers than 32 (limits.headers_max) in one message\r\n",
        ),
        (&largest, needs),
        (
            &large,
            "-TOOBIG the headers up to 'b' have 8193 bytes, more than 8192 \
             (limits.headers_bytes_max)\r\n",
        ),
        ("DQ.OFFER «q» 1h p TTL 0\r\n", "-BADDELAY TTL '0' must be at least 1 ms\r\n"),
        ("DQ.OFFER «q» 1h p TTL soon\r\n", "-BADDELAY TTL 'soon' «text»\r\n"),
        (
            "DQ.OFFER «q» 1h p TTL 5 TTL 5\r\n",
            &format!("-ERR syntax error: unexpected argument 'TTL'{usage}"),
        ),
        ("DQ.OFFER «q» 1h p PRIO 10\r\n", "-ERR PRIO '10' must be a whole number from 0 to 9\r\n"),
        ("DQ.OFFER «q» 1h p PRIO -1\r\n", "-ERR PRIO '-1' must be a whole number from 0 to 9\r\n"),
        (
            "DQ.OFFER «q» 1h p LIMIT x\r\n",
            "-ERR LIMIT 'x' must be a whole number from 0 to 1000000\r\n",
        ),
        ("DQ.MOFFER «q» TTL 5s\r\n", "-ERR message 1: wrong number of arguments for «text»\r\n"),
        ("DQ.MOFFER «q» AS raw HEADER AS AS 1h p\r\n", needs),
    ]);
}

/// A payload that begins as an envelope comes out as it went in, everywhere.
#[test]
fn payloads_that_look_like_envelopes() {
    let magic = "\0DQ\x01";
    let like = "\0DQ\x01\x01\0\0\0\u{0}\0\0\0x";
    for (payload, destination) in
        [magic, like].into_iter().flat_map(|payload| [(payload, "list"), (payload, "take")])
    {
        for mut peer in peers(shared()) {
            let arg = bulk(payload);
            let queue = bulk(&peer.queue);
            let offer =
                |more: &str| format!("*4\r\n$8\r\nDQ.OFFER\r\n{queue}{}{arg}{more}", bulk("1h"));
            peer.sends(format!("DQ.SETUP «q» destination {destination}\r\n"));
            peer.gets("+OK\r\n");
            peer.sends(offer(""));
            let id = peer.gets_ids(1).remove(0);
            peer.sends(format!("*3\r\n$11\r\nDQ.CONTAINS\r\n{queue}{arg}DQ.GET «q» {id}\r\n"));
            peer.gets(&format!(
                "*1\r\n:1\r\n«*10|%5»\r\n{}{}{}«$-1|_»\r\n{}:«ms»\r\n{}{arg}{}{}",
                bulk("id"),
                bulk(&id),
                bulk("name"),
                bulk("due"),
                bulk("payload"),
                bulk("format"),
                bulk("modern"),
            ));
            peer.sends("DQ.POLL «q»\r\n");
            peer.gets(&format!("*1\r\n{arg}"));
            peer.sends(offer(""));
            peer.gets_ids(1);
            peer.sends(format!("*3\r\n$9\r\nDQ.REMOVE\r\n{queue}{arg}"));
            peer.gets(":1\r\n");
            peer.sends(offer(""));
            let id = peer.gets_ids(1).remove(0);
            peer.sends(format!("DQ.FIRE «q» {id}\r\nDQ.TAKE «q» BLOCK 0\r\n"));
            peer.gets(&format!(":1\r\n{}", super::take::first(payload)));
        }
    }
}
