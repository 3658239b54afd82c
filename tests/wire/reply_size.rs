//! Messages that are larger than a reply may be: refused, before they are taken or sent.

use crate::peer::Place;

/// What no reply can hold is refused before it is taken or sent, and harms no other message.
#[test]
fn too_large_for_a_reply() {
    let place = Place::spawn(&[
        ("limits.payload_bytes_max", "1048576"),
        ("limits.reply_bytes_max", "65536"),
    ]);
    let mut backing = place.backing();
    for drop_list in [false, true] {
        let mut peer = place.peer();
        if drop_list {
            place.drop_list(&peer.queue);
        }
        let k = |name: &str| format!("{name}:{{{}}}", peer.queue);
        let large = |start: &[u8]| [start, &vec![b'x'; 2 << 20]].concat();
        let head = [&b"\x08\0\0\0\0\0\0\0\x01"[..], &(2_u64 << 20).to_le_bytes()].concat();
        let (member, bad) = (large(&head), large(b"unreadable"));
        let put = |backing: &mut crate::support::resp::Client, args: &[&[u8]]| {
            backing.call(args).unwrap();
        };
        put(
            &mut backing,
            &[b"ZADD", k("redisson_delay_queue_timeout").as_bytes(), b"4e12", &member],
        );
        if !drop_list {
            put(&mut backing, &[b"RPUSH", k("redisson_delay_queue").as_bytes(), &member]);
        }
        put(&mut backing, &[b"ZADD", k("delay_broker_quarantine").as_bytes(), b"5.5", &bad]);
        drop((member, bad));
        let wrong = "-TOOBIG the message 4000000000000-0000000000000001 has 2097169 bytes, more \
                     than a reply may hold (1064985): «text»\r\n";
        peer.sends(
            "DQ.GET «q» 4000000000000-0000000000000001\r\nDQ.PEEK «q»\r\nDQ.RANGE «q» - +\r\n",
        );
        peer.gets(&wrong.repeat(3));
        peer.sends("DQ.POLL «q» COUNT 10\r\nDQ.SIZE «q»\r\nDQ.QUARANTINE «q» LIST\r\n");
        peer.gets(&format!(
            "{wrong}:1\r\n-TOOBIG the message 5.5 has 2097162 bytes, more than a reply may hold \
             (1064985): «text»\r\n"
        ));
        // Others before it are shown and taken; those behind it too, once it is gone.
        peer.sends("DQ.OFFER «q» 1h small\r\nDQ.PEEK «q» COUNT 10\r\n");
        peer.gets("$30\r\n«id»\r\n*1\r\n«lines»$5\r\nsmall\r\n«lines»modern\r\n");
        peer.sends("DQ.CANCEL «q» 4000000000000-0000000000000001\r\nDQ.POLL «q» COUNT 10\r\n");
        peer.gets(":1\r\n*1\r\n$5\r\nsmall\r\n");
        peer.sends("DQ.QUARANTINE «q» DROP\r\nDQ.QUARANTINE «q» LIST\r\n");
        peer.gets(":1\r\n*0\r\n");
    }
}
