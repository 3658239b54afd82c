//! Payloads as codecs read them: the option AS, the encoding of a queue, and DECODE.

use crate::peer::{Place, check, shared};
use crate::support::broker::Broker;
use crate::support::redis;

#[test]
fn checked_and_written() {
    check(&[
        ("DQ.OFFER «q» 1h plain AS raw\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h \"\\xff\\x00\" as RAW\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h é AS string\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h -42 NAME n NX AS long\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h '{\"a\": [1]}' AS json\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» 1h abc AS kryo5 NAME k\r\n", "$30\r\n«id»\r\n"),
        (
            "DQ.MOFFER «q» AS kryo5 1h a AT 1999999999999 AS 1h ''\r\n",
            "*3\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        // As they are stored, compared with their bytes.
        (
            "DQ.CONTAINS «q» plain \"\\xff\\x00\" \"\\xc3\\xa9\" -42 '{\"a\": [1]}' \
             \"\\x03ab\\xe3\" \"\\x03\\x82a\" \"\\x03A\\xd3\" \"\\x03\\x81\" abc\r\n",
            &format!("*10\r\n{}:0\r\n", ":1\r\n".repeat(9)),
        ),
        ("DQ.CONTAINS «q» as kryo5 abc AS '' plain\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n"),
        ("DQ.CONTAINS «q» AS raw AS\r\n", "*1\r\n:0\r\n"),
        ("DQ.REMOVE «q» AS\r\n", ":0\r\n"),
        ("DQ.REMOVE «q» AS AS kryo5\r\n", ":1\r\n"),
        ("DQ.REMOVE «q» abc AS kryo5 COUNT 0\r\n", ":1\r\n"),
        ("DQ.REMOVE «q» -42 COUNT 0 AS long\r\n", ":1\r\n"),
        ("DQ.SIZE «q»\r\n", ":6\r\n"),
    ]);
}

/// What does not fit is refused before anything is stored.
#[test]
fn refused() {
    check(&[
        (
            "DQ.OFFER «q» 1h p AS utf8\r\n",
            "-ERR encoding 'utf8' must be one of raw, string, long, json, kryo5\r\n",
        ),
        ("DQ.OFFER «q» 1h p AS\r\n", "-ERR syntax error: AS needs a value\r\n"),
        (
            "DQ.OFFER «q» 1h \"ab\\xff\" AS string\r\n",
            "-ERR payload 'ab\\xff' is not UTF-8: byte 2 is the first that is not (encoding \
             string)\r\n",
        ),
        (
            "DQ.OFFER «q» 1h \"\\xff\" AS kryo5\r\n",
            "-ERR payload '\\xff' is not UTF-8: byte 0 is the first that is not (encoding \
             kryo5)\r\n",
        ),
        (
            "DQ.OFFER «q» 1h 1e3 AS long\r\n",
            "-ERR payload '1e3' is not a whole number from -9223372036854775808 to \
             9223372036854775807, in digits (encoding long)\r\n",
        ),
        (
            "DQ.OFFER «q» 1h hello AS json NAME n\r\n",
            "-ERR payload 'hello' is not JSON: expected value at line 1 column 1 (encoding \
             json)\r\n",
        ),
        (
            "DQ.MOFFER «q» AS json 1h 1 1h '{'\r\n",
            "-ERR message 2: payload '{' is not JSON: EOF while parsing an object at line 1 \
             column 1 (encoding json)\r\n",
        ),
        ("DQ.MOFFER «q» 1h a AS json\r\n", "-BADDELAY message 2: delay 'AS' must be «text»\r\n"),
        (
            "DQ.MOFFER «q» AS json\r\n",
            "-ERR message 1: wrong number of arguments for 'dq.moffer' command; «text»\r\n",
        ),
        ("DQ.REMOVE «q» x AS long\r\n", "-ERR payload 'x' is not a whole number «text»\r\n"),
        ("DQ.CONTAINS «q» AS json 1 x\r\n", "-ERR message 2: payload 'x' is not JSON: «text»\r\n"),
        (
            "DQ.CONTAINS «q» AS x\r\n",
            "-ERR encoding 'x' must be one of raw, string, long, json, kryo5\r\n",
        ),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
    ]);
}

/// The limit holds for what is stored, too.
#[test]
fn too_big_when_written() {
    let place = Place::spawn(&[("limits.payload_bytes_max", "8")]);
    let mut peer = place.peer();
    peer.sends("DQ.OFFER «q» 1h 12345678\r\nDQ.OFFER «q» 1h 1234567 AS kryo5\r\n");
    peer.gets(&"$30\r\n«id»\r\n".repeat(2));
    peer.sends("DQ.OFFER «q» 1h 12345678 AS kryo5\r\nDQ.SIZE «q»\r\n");
    peer.gets("-TOOBIG payload of 9 bytes as kryo5 is larger than 8 bytes\r\n:2\r\n");
}

#[test]
fn decoded() {
    let fields = |payload: &str, encoding: &str| {
        format!(
            "«*12|%6»\r\n$2\r\nid\r\n«lines»$7\r\npayload\r\n${}\r\n{payload}\r\n$6\r\nformat\r\n\
             $6\r\nmodern\r\n$8\r\nencoding\r\n${}\r\n{encoding}\r\n",
            payload.len(),
            encoding.len()
        )
    };
    check(&[
        ("DQ.OFFER «q» AT 1999999999990 abc AS kryo5 NAME k\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» AT 1999999999991 '\"a\\u00e9\"' AS json\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» AT 1999999999992 [1] AS json\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» AT 1999999999993 plain\r\n", "$30\r\n«id»\r\n"),
        ("DQ.OFFER «q» AT 1999999999994 \"\\xff\"\r\n", "$30\r\n«id»\r\n"),
        ("dq.get «q» k decode\r\n", &fields("abc", "kryo5")),
        (
            "DQ.PEEK «q» COUNT 4 DECODE\r\n",
            &[
                "*4\r\n",
                &fields("abc", "kryo5"),
                &fields("aé", "json"),
                &fields("[1]", "json"),
                &fields("plain", "string"),
            ]
            .concat(),
        ),
        ("DQ.PEEK «q» decode COUNT 1\r\n", &format!("*1\r\n{}", fields("abc", "kryo5"))),
        (
            "DQ.RANGE «q» 1999999999994 + DECODE\r\n",
            "*2\r\n$1\r\n0\r\n*1\r\n«lines»$7\r\npayload\r\n$1\r\n«lines»$3\r\nraw\r\n",
        ),
        (
            "DQ.RANGE «q» - 1999999999991 DECODE CURSOR 0 COUNT 5\r\n",
            &format!("*2\r\n$1\r\n0\r\n*2\r\n{}{}", fields("abc", "kryo5"), fields("aé", "json")),
        ),
        ("DQ.GET «q» k\r\n", "«*10|%5»\r\n«lines»payload\r\n$4\r\n\x03«lines»modern\r\n"),
        ("DQ.GET «q» nobody DECODE\r\n", "«$-1|_»\r\n"),
        (
            "DQ.PEEK «q» DECODE DECODE\r\n",
            "-ERR syntax error: unexpected argument 'DECODE'; «text»\r\n",
        ),
        ("DQ.RANGE «q» - + DECODE 1\r\n", "-ERR syntax error: unexpected argument '1'; «text»\r\n"),
        (
            "DQ.GET «q» k DECODE more\r\n",
            "-ERR wrong number of arguments for 'dq.get' command; «text»\r\n",
        ),
    ]);
}

/// A queue's own encoding holds where a command does not say one.
#[test]
fn of_a_queue() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let table = "[[queues]]\nname = \"orders\"\nencoding = \"kryo5\"\n";
    std::fs::write(&config, table).unwrap();
    let path = config.path().to_str().unwrap();
    let database = redis::shared().fresh_database();
    let url = redis::shared().url(database);
    let broker = Broker::with_args(&["--redis", &url, "--config", path], &[]);
    let place = Place { broker, database };
    let mut peer = place.peer();
    peer.sends(
        "DQ.OFFER orders 1h abc\r\nDQ.MOFFER orders 1h a\r\nDQ.OFFER orders 1h p AS raw\r\n",
    );
    peer.gets("$30\r\n«id»\r\n*1\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    peer.sends("DQ.CONTAINS orders AS raw \"\\x03ab\\xe3\" \"\\x03\\x82a\" p abc\r\n");
    peer.gets("*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n");
    peer.sends("DQ.CONTAINS orders abc a p\r\nDQ.REMOVE orders abc\r\nDQ.SIZE orders\r\n");
    peer.gets("*3\r\n:1\r\n:1\r\n:0\r\n:1\r\n:2\r\n");
    peer.sends("DQ.OFFER orders 1h \"\\xff\"\r\nDQ.OFFER others 1h \"\\xff\"\r\n");
    peer.gets("-ERR payload '\\xff' is not UTF-8: «text»\r\n$30\r\n«id»\r\n");
}

/// A consumer takes the bytes that its codec reads.
#[test]
fn delivered() {
    let mut peer = shared().peer();
    peer.sends("DQ.OFFER «q» 0 'é😀' AS kryo5\r\n");
    peer.gets("$30\r\n«id»\r\n");
    let taken = shared().backing().call(&["BLPOP", &peer.queue, "30"]).unwrap();
    assert_eq!(taken.elements()[1].bytes(), b"\x03\x84\xc3\xa9\xed\xa0\xbd\xed\xb8\x80");
}
