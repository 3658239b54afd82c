//! How commands stand in the stream of bytes: arrays, lines, and what is neither. What cannot be
//! trusted is answered in Redis's words, and closed.

use crate::peer::{check, shared};

#[test]
fn lines_and_their_quotes() {
    check(&[
        ("ECHO \"a \\\"b\\\" \\x41\\n\\r\\t\\\\\"\r\n", "$11\r\na \"b\" A\n\r\t\\\r\n"),
        ("ECHO 'it\\'s \\x41'\n", "$9\r\nit's \\x41\r\n"),
        ("  ECHO \t  \"\"  \r\n", "$0\r\n\r\n"),
        ("eChO $5\r\n", "$2\r\n$5\r\n"),
        ("ECHO *1\r\n", "$2\r\n*1\r\n"),
        ("'ECHO' é\r\n", "$2\r\né\r\n"),
    ]);
}

#[test]
fn both_forms_in_one_write() {
    check(&[(
        "*1\r\n$4\r\nPING\r\nPING\r\n\r\n*2\r\n$4\r\nPING\r\n$1\r\na\r\nping b\r\n*0\r\n*1\r\n\
         $4\r\nping\r\n",
        "+PONG\r\n+PONG\r\n$1\r\na\r\n$1\r\nb\r\n+PONG\r\n",
    )]);
}

#[test]
fn protocol_errors() {
    let error = |text: &str| format!("-ERR Protocol error: {text}\r\n");
    for (sent, expected) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1.5\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*1\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*2101\r\n", "invalid multibulk length: more arguments than limits.arguments_max, 2100"),
        (
            "*2147483647\r\n",
            "invalid multibulk length: more arguments than limits.arguments_max, 2100",
        ),
        (
            "*9223372036854775808\r\n",
            "invalid multibulk length: more arguments than limits.arguments_max, 2100",
        ),
        ("*99999999999999999999999999999999999999", "too big mbulk count string"),
        ("*1\r\n+PING\r\n", "expected '$', got '+'"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n\x00", "expected '$', got '\\x00'"),
        ("*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        ("*2\r\n$4\r\nPING\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        ("*2\r\n$4\r\nECHO\r\n_\r\n", "expected '$', got '_'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$ 4\r\nPING\r\n", "invalid bulk length"),
        ("*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$-2\r\n", "invalid bulk length"),
        (
            "*1\r\n$41943041\r\n",
            "invalid bulk length: more bytes than limits.request_bytes_max, 41943040",
        ),
        (
            "*1\r\n$9223372036854775807\r\n",
            "invalid bulk length: more bytes than limits.request_bytes_max, 41943040",
        ),
        (
            "*1\r\n$18446744073709551616\r\n",
            "invalid bulk length: more bytes than limits.request_bytes_max, 41943040",
        ),
        ("*1\r\n$99999999999999999999999999999999999999", "too big bulk count string"),
        (
            "*2\r\n$4\r\nECHO\r\n$41943040\r\n",
            "too big request: more bytes than limits.request_bytes_max, 41943040",
        ),
        ("*1\r\n$4\r\nPINGxx", "missing CRLF after an argument"),
        ("*1\r\n$3\r\nPING\r\n", "missing CRLF after an argument"),
        ("*1\r\n$4\r\nPING\n\r", "missing CRLF after an argument"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
        ("ECHO 'a\r\n", "unbalanced quotes in request"),
        ("ECHO \"a\"b\r\n", "unbalanced quotes in request"),
    ] {
        eprintln!("{}", sent.escape_debug());
        // What came before it is answered before it, what comes after it is not run.
        let mut peer = shared().peer();
        peer.sends(format!("DQ.OFFER «q» 1h a\r\n{sent}"));
        peer.tries_to_send("DQ.OFFER after 1h a\r\n");
        peer.gets_end(&("$30\r\n«id»\r\n".to_owned() + &error(expected)));
        // In RESP3 no differently.
        let mut peer = shared().peer3();
        peer.sends(sent);
        peer.gets_end(&error(expected));
    }
    let mut peer = shared().peer();
    peer.sends("DQ.SIZE after\r\n");
    peer.gets(":0\r\n");
}

/// 64 KiB of a line are read, then it is refused: sent at once, or in pieces and never ended.
#[test]
fn an_endless_line() {
    for pieces in [1, 66] {
        let mut peer = shared().peer();
        let mut taken = true;
        for _ in 0..pieces {
            taken = taken && peer.tries_to_send("x".repeat(66_000 / pieces));
        }
        let answer = peer.gets_until_end();
        assert_eq!(
            String::from_utf8(answer).unwrap(),
            "-ERR Protocol error: too big inline request: more bytes than \
             limits.inline_bytes_max, 65536\r\n"
        );
    }
    // Exactly at the limit it is a command.
    let mut peer = shared().peer();
    peer.sends("ECHO ".to_owned() + &"x".repeat(65_530) + "\r\n");
    peer.gets(&("$65530\r\n".to_owned() + &"x".repeat(65_530) + "\r\n"));
}

/// More arguments than any command takes are refused when they are announced, in a line when read.
#[test]
fn too_many_arguments() {
    let mut peer = shared().peer();
    peer.sends("x ".repeat(2_101) + "\r\n");
    peer.gets_end(
        "-ERR Protocol error: invalid multibulk length: more arguments than \
         limits.arguments_max, 2100\r\n",
    );
    let mut peer = shared().peer();
    peer.sends("*2100\r\n$4\r\nPING\r\n".to_owned() + &"$1\r\nx\r\n".repeat(2_099));
    peer.gets("-ERR wrong number of arguments for 'ping' command\r\n");
}
