//! Who may do what: NOAUTH, WRONGPASS, NOPERM, DENIED, and the number of clients.

use crate::peer::{Peer, Place, check_on};
use crate::support::wait::eventually;
use std::sync::OnceLock;

/// A broker with a password and a command that is switched off.
fn locked() -> &'static Place {
    static LOCKED: OnceLock<Place> = OnceLock::new();
    LOCKED.get_or_init(|| {
        Place::spawn(&[
            ("server.password", "00123"),
            ("server.disabled_commands", "DQ.CLEAR,config"),
        ])
    })
}

#[test]
fn a_password_is_needed() {
    let mut peer = locked().peer();
    peer.sends(
        "PING\r\nDQ.OFFER «q» 1h a\r\nNONSENSE\r\nDQ.CLEAR «q»\r\nHELLO 3\r\nhello\r\nHELLO 3 \
         SETNAME me\r\n",
    );
    let hello = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                 and select the RESP protocol version at the same time\r\n";
    peer.gets(&("-NOAUTH Authentication required.\r\n".repeat(4) + &hello.repeat(3)));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    peer.sends("AUTH 123\r\nAUTH ''\r\nAUTH somebody 00123\r\nHELLO 3 AUTH default x\r\nPING\r\n");
    peer.gets(&(wrong.repeat(4) + "-NOAUTH Authentication required.\r\n"));
    peer.sends("AUTH 00123\r\nPING\r\nDQ.SIZE «q»\r\n");
    peer.gets("+OK\r\n+PONG\r\n:0\r\n");
    // A wrong one later takes nothing away.
    peer.sends("AUTH x\r\nPING\r\n");
    peer.gets(&(wrong.to_owned() + "+PONG\r\n"));
    peer.sends("RESET\r\nPING\r\nAUTH default 00123\r\n");
    peer.gets("+RESET\r\n-NOAUTH Authentication required.\r\n+OK\r\n");
}

#[test]
fn hello_says_the_password() {
    for hello in [
        "HELLO 3 AUTH default 00123\r\n",
        "HELLO 3 SETNAME me AUTH default 00123\r\n",
        "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$5\r\n00123\r\n$7\r\n\
         SETNAME\r\n$2\r\nme\r\n",
    ] {
        let mut peer = locked().peer();
        peer.sends(hello);
        peer.gets("%7\r\n«lines»modules\r\n*0\r\n");
        peer.sends("PING\r\n");
        peer.gets("+PONG\r\n");
    }
    let mut peer = locked().peer();
    peer.sends("QUIT\r\n");
    peer.gets_end("+OK\r\n");
}

/// Who has not said the password may send little.
#[test]
fn small_requests_before_the_password() {
    for (sent, expected) in [
        (
            "*11\r\n",
            "-ERR Protocol error: unauthenticated multibulk length\r\n",
        ),
        (
            "*1\r\n$16385\r\n",
            "-ERR Protocol error: unauthenticated bulk length\r\n",
        ),
    ] {
        let mut peer = locked().peer();
        peer.sends(sent);
        peer.gets_end(expected);
    }
    let mut peer = locked().peer();
    peer.sends("*2\r\n$4\r\nAUTH\r\n$5\r\n00123\r\n*2\r\n$4\r\nECHO\r\n$16385\r\n");
    peer.sends("x".repeat(16_385) + "\r\n");
    peer.gets("+OK\r\n$16385\r\n");
    peer.gets(&("x".repeat(16_385) + "\r\n"));
}

#[test]
fn commands_switched_off() {
    let place = Place::spawn(&[("server.disabled_commands", "DQ.CLEAR,config")]);
    check_on(
        &place,
        &[
            ("DQ.OFFER «q» 1h a\r\n", "$30\r\n«id»\r\n"),
            (
                "dq.clear «q»\r\n",
                "-NOPERM the command 'dq.clear' is disabled in this broker's configuration\r\n",
            ),
            (
                "CONFIG GET save\r\n",
                "-NOPERM the command 'config' is disabled in this broker's configuration\r\n",
            ),
            ("DQ.SIZE «q»\r\n", ":1\r\n"),
        ],
    );
}

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
    place
        .peer()
        .gets_end("-ERR max number of clients reached\r\n");
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
    let refused = "-TOOMANY limits.queues_max, 2, queues are served already, and this one is not \
                   among them: use one of those, or raise it\r\n";
    peer.gets(&(refused.to_owned() + "$30\r\n«id»\r\n:0\r\n"));
}
