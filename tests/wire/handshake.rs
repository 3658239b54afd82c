//! What clients send first and last: HELLO, AUTH, PING, ECHO, QUIT, RESET, SELECT, TIME.

use crate::peer::{check, shared};

#[test]
fn hello() {
    for options in [
        "",
        " SETNAME me",
        " AUTH default any",
        " SETNAME me AUTH default any",
        " auth default any setname me",
    ] {
        let mut peer = shared().peer();
        peer.sends(format!("hello 3{options}\r\n"));
        peer.gets(
            "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n\
             :3\r\n$2\r\nid\r\n:«int»\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\n\
             master\r\n$7\r\nmodules\r\n*0\r\n",
        );
        peer.sends("DQ.GET «q» n\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n");
        peer.gets(
            "_\r\n*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\n\
             proto\r\n:2\r\n$2\r\nid\r\n:«int»\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n\
             $6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
        );
        // Without a version the one in use is shown.
        peer.sends("DQ.GET «q» n\r\nHELLO\r\nHELLO 3\r\nHELLO\r\n");
        peer.gets("$-1\r\n*14\r\n«lines»proto\r\n:2\r\n«lines»modules\r\n*0\r\n");
        peer.gets(
            "%7\r\n«lines»modules\r\n*0\r\n%7\r\n«lines»proto\r\n:3\r\n«lines»modules\r\n*0\r\n",
        );
    }
}

/// Replies are in the protocol of the moment in which they were asked for, also those of offers
/// that are not stored yet.
#[test]
fn the_protocol_changes_between_commands() {
    let mut peer = shared().peer();
    peer.sends(
        "DQ.OFFER «q» 1h a NAME n XX\r\nHELLO 3\r\nDQ.OFFER «q» 1h a NAME n XX\r\nRESET\r\n\
         DQ.OFFER «q» 1h a NAME n XX\r\n",
    );
    peer.gets("$-1\r\n%7\r\n«lines»modules\r\n*0\r\n_\r\n+RESET\r\n$-1\r\n");
}

#[test]
fn hello_refused() {
    check(&[
        ("HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n"),
        (
            "*2\r\n$5\r\nHELLO\r\n$1\r\n1\r\n",
            "-NOPROTO unsupported protocol version\r\n",
        ),
        (
            "HELLO x\r\n",
            "-ERR Protocol version is not an integer or out of range\r\n",
        ),
        (
            "HELLO 3 SETNAME\r\n",
            "-ERR Syntax error in HELLO option 'SETNAME'\r\n",
        ),
        (
            "HELLO 3 AUTH default\r\n",
            "-ERR Syntax error in HELLO option 'AUTH'\r\n",
        ),
        (
            "HELLO 2 WHAT\r\n",
            "-ERR Syntax error in HELLO option 'WHAT'\r\n",
        ),
        (
            "HELLO 3 AUTH somebody any\r\n",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        ),
        (
            "HELLO 3 SETNAME 'a b'\r\n",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        // Nothing of it was done: the protocol is as before.
        ("DQ.GET «q» n\r\n", "«$-1|_»\r\n"),
    ]);
}

#[test]
fn auth_without_a_password() {
    check(&[
        (
            "AUTH secret\r\n",
            "-ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?\r\n",
        ),
        (
            "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$3\r\nany\r\n",
            "+OK\r\n",
        ),
        (
            "auth somebody any\r\n",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        ),
        (
            "AUTH\r\n",
            "-ERR wrong number of arguments for 'auth' command\r\n",
        ),
        (
            "AUTH a b c\r\n",
            "-ERR wrong number of arguments for 'auth' command\r\n",
        ),
    ]);
}

#[test]
fn ping_echo_select() {
    check(&[
        ("*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
        ("ping\r\n", "+PONG\r\n"),
        ("PiNg ''\r\n", "$0\r\n\r\n"),
        (
            "*2\r\n$4\r\nPING\r\n$6\r\na\x00\r\nb\n\r\n",
            "$6\r\na\x00\r\nb\n\r\n",
        ),
        (
            "PING a b\r\n",
            "-ERR wrong number of arguments for 'ping' command\r\n",
        ),
        (
            "*2\r\n$4\r\nECHO\r\n$8\r\n\r\n*1\r\n\x00\t\r\n",
            "$8\r\n\r\n*1\r\n\x00\t\r\n",
        ),
        ("echo \"\\xff\\x00\\r\\n\"\r\n", "$4\r\n«lines»\r\n\r\n"),
        (
            "ECHO\r\n",
            "-ERR wrong number of arguments for 'echo' command\r\n",
        ),
        ("SELECT 0\r\n", "+OK\r\n"),
        ("select 1\r\n", "-ERR DB index is out of range\r\n"),
        ("SELECT -1\r\n", "-ERR DB index is out of range\r\n"),
        (
            "SELECT x\r\n",
            "-ERR value is not an integer or out of range\r\n",
        ),
        (
            "*1\r\n$4\r\nTIME\r\n",
            "*2\r\n$10\r\n«int»\r\n$«int»\r\n«int»\r\n",
        ),
        (
            "TIME x\r\n",
            "-ERR wrong number of arguments for 'time' command\r\n",
        ),
        // Nothing is asked for: no reply at all.
        ("\r\n  \r\n\n*0\r\n*-1\r\nPING\n", "+PONG\r\n"),
    ]);
}

#[test]
fn reset() {
    let mut peer = shared().peer3();
    peer.sends("CLIENT SETNAME me\r\nCLIENT REPLY OFF\r\nPING\r\nreset\r\nCLIENT GETNAME\r\n");
    peer.gets("+OK\r\n+RESET\r\n$-1\r\n");
}

/// OK, then the end; what comes after QUIT is not run.
#[test]
fn quit() {
    for quit in ["QUIT\r\n", "*1\r\n$4\r\nquit\r\n"] {
        let mut peer = shared().peer();
        peer.sends(format!(
            "DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\n{quit}DQ.OFFER «q» 1h b\r\n"
        ));
        peer.gets_end("$30\r\n«id»\r\n:1\r\n+OK\r\n");
        let mut other = shared().peer();
        other.sends(format!("DQ.SIZE {}\r\n", peer.queue));
        other.gets(":1\r\n");
    }
    let mut peer = shared().peer();
    peer.sends("QUIT now\r\n");
    peer.gets("-ERR wrong number of arguments for 'quit' command\r\n");
}
