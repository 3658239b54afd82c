//! `PING`, `ECHO`, `SELECT`, `TIME`, `RESET`, `QUIT`.

use crate::peer::{check, shared};

#[test]
fn ping_echo_select() {
    check(&[
        ("*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
        ("ping\r\n", "+PONG\r\n"),
        ("PiNg ''\r\n", "$0\r\n\r\n"),
        ("*2\r\n$4\r\nPING\r\n$6\r\na\x00\r\nb\n\r\n", "$6\r\na\x00\r\nb\n\r\n"),
        ("PING a b\r\n", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$8\r\n\r\n*1\r\n\x00\t\r\n", "$8\r\n\r\n*1\r\n\x00\t\r\n"),
        ("echo \"\\xff\\x00\\r\\n\"\r\n", "$4\r\n«lines»\r\n\r\n"),
        ("ECHO\r\n", "-ERR wrong number of arguments for 'echo' command\r\n"),
        ("SELECT 0\r\n", "+OK\r\n"),
        ("select 1\r\n", "-ERR DB index is out of range\r\n"),
        ("SELECT -1\r\n", "-ERR DB index is out of range\r\n"),
        ("SELECT x\r\n", "-ERR value is not an integer or out of range\r\n"),
        ("*1\r\n$4\r\nTIME\r\n", "*2\r\n$10\r\n«int»\r\n$«int»\r\n«int»\r\n"),
        ("TIME x\r\n", "-ERR wrong number of arguments for 'time' command\r\n"),
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
        peer.sends(format!("DQ.OFFER «q» 1h a\r\nDQ.SIZE «q»\r\n{quit}DQ.OFFER «q» 1h b\r\n"));
        peer.gets_end("$30\r\n«id»\r\n:1\r\n+OK\r\n");
        let mut other = shared().peer();
        other.sends(format!("DQ.SIZE {}\r\n", peer.queue));
        other.gets(":1\r\n");
    }
    let mut peer = shared().peer();
    peer.sends("QUIT now\r\n");
    peer.gets("-ERR wrong number of arguments for 'quit' command\r\n");
}
