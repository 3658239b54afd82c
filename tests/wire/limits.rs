//! The number of clients and of queues: DENIED, TOOMANY.

use crate::peer::{Peer, Place};
use crate::support::wait::eventually;

#[test]
fn too_many_of_one_address() {
    let place = Place::spawn(&[("server.clients_per_address_max", "2")]);
    let one = place.peer();
    let mut two = place.peer();
    two.sends("PING\r\n");
    two.gets("+PONG\r\n");
    let mut three = place.peer();
    three.gets_end(
        "-DENIED 127.0.0.1 has 2 connections, and server.clients_per_address_max is 2\r\n",
    );
    two.sends("PING\r\n");
    two.gets("+PONG\r\n");
    one.leave();
    eventually(|| admitted(&mut place.peer()), |admitted| *admitted);
}

#[test]
fn too_many() {
    let place = Place::spawn(&[("server.clients_max", "1")]);
    let mut one = place.peer();
    one.sends("PING\r\n");
    one.gets("+PONG\r\n");
    place.peer().gets_end("-ERR max number of clients reached\r\n");
    one.leave();
    eventually(|| admitted(&mut place.peer()), |admitted| *admitted);
}

/// Whether this connection is served.
fn admitted(peer: &mut Peer) -> bool {
    peer.tries_to_send("QUIT\r\n");
    peer.gets_until_end() == b"+OK\r\n"
}

/// One queue more than the broker may serve is refused, alone in its batch.
#[test]
fn too_many_queues() {
    let place = Place::spawn(&[("limits.queues_max", "2")]);
    let mut peer = place.peer();
    peer.sends("DQ.OFFER one 1h a\r\nDQ.OFFER two 1h a\r\nDQ.OFFER one 1h b\r\n");
    peer.gets(&"$30\r\n«id»\r\n".repeat(3));
    peer.sends("DQ.OFFER three 1h a\r\nDQ.OFFER two 1h b\r\nDQ.SIZE three\r\n");
    let refused = "-TOOMANY the limit of 2 queues (limits.queues_max) is reached, and this queue \
                   is not among them: use one of those, or raise the limit\r\n";
    peer.gets(&(refused.to_owned() + "$30\r\n«id»\r\n:0\r\n"));
}
