//! Who may do what: NOAUTH, WRONGPASS, NOPERM.

use crate::peer::{Peer, Place, check_on};
use crate::secrets::get;
use crate::support::wait::eventually;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
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

/// Who tries passwords waits longer and longer, on any number of connections; who knows it never
/// waits, from the same address too. It is in the log, and counted.
#[test]
fn guesses_wait() {
    let place = Place::spawn(&[("server.password", "00123")]);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let since = Instant::now();
    // 3 at once, then 0.1 + 0.2 + 0.4 + 0.8 s.
    let mut guesses: Vec<Peer> = (0..4).map(|_| place.peer()).collect();
    for peer in &mut guesses {
        peer.sends("AUTH a\r\nHELLO 3 AUTH default b\r\n");
    }
    let mut quick = place.peer();
    quick.sends("AUTH 00123\r\nPING\r\n");
    quick.gets("+OK\r\n+PONG\r\n");
    let knows = since.elapsed();
    for peer in &mut guesses {
        peer.gets(&wrong.repeat(2));
    }
    let guessed = since.elapsed();
    assert!(guessed > Duration::from_millis(750), "{guessed:?}");
    assert!(knows < guessed, "{knows:?}, {guessed:?}");
    for mut peer in guesses {
        peer.sends("AUTH 00123\r\n");
        peer.gets("+OK\r\n");
    }
    let text = get(&place.broker, "/metrics");
    let line = "delay_broker_wrong_passwords_total 8";
    assert!(text.lines().any(|seen| seen == line), "{text}");
    let told = || place.broker.log();
    eventually(told, |log| log.contains("a client gave a wrong password"));
    assert!(!told().contains("00123"));
}

/// At most sixteen answers of one address wait; beyond, the connection is closed, so that guesses
/// do not hold all connections.
#[test]
fn many_guesses_are_cut_off() {
    let place = Place::spawn(&[("server.password", "00123")]);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let mut guesses: Vec<Peer> = (0..40).map(|_| place.peer()).collect();
    for peer in &mut guesses {
        peer.sends("AUTH a\r\nAUTH b\r\nAUTH c\r\nQUIT\r\n");
    }
    let mut cut_off = 0;
    for mut peer in guesses {
        let answers = String::from_utf8(peer.gets_until_end()).unwrap();
        let (all, some) = (format!("{}+OK\r\n", wrong.repeat(3)), answers.replace(wrong, ""));
        assert!(answers.starts_with(wrong) && (answers == all || some.is_empty()), "{answers}");
        cut_off += usize::from(answers != all);
    }
    // Some may come while others have all their answers already.
    assert!(cut_off >= 20, "{cut_off}");
}
