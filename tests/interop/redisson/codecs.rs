//! What `AS` wrote, Redisson's codecs read; and what they wrote, the broker finds and shows.

use crate::scene::{Scene, ask, done, since};
use crate::stage::{call, field_of};
use crate::support::resp::{Client, Value};

/// Text that needs one to four bytes a character.
const TEXT: &str = "order 42, \u{e9}\u{20ac}\u{1f600}\0\r\n";
const LONG_TEXT: [&str; 3] =
    ["a", "exactly thirty-two characters...", "some more than thirty-two chars.."];
const TYPED: &str = r#"{"@class":"Actions$Order","id":"a","cents":5}"#;
const PLAIN: &str = r#"{"id":"a","cents":5,"unknown":null}"#;
const QUOTED: &str = r#""order \"42\"""#;

struct Row {
    codec: &'static str,
    encoding: &'static str,
    offered: &'static [u8],
    /// What a consumer has in hand, and gives back as a value that it offers, if it can.
    read: &'static [u8],
    given_back: bool,
}

fn row(codec: &'static str, encoding: &'static str, text: &'static str) -> Row {
    Row { codec, encoding, offered: text.as_bytes(), read: text.as_bytes(), given_back: true }
}

fn object(codec: &'static str, offered: &'static str) -> Row {
    Row { read: b"a for 5", given_back: false, ..row(codec, "json", offered) }
}

fn rows(version: &str) -> Vec<Row> {
    let mut rows = vec![
        row("StringCodec", "string", TEXT),
        row("StringCodec", "raw", TEXT),
        row("LongCodec", "long", "1700000000000"),
        row("LongCodec", "long", "-1"),
        row("ByteArrayCodec", "raw", TEXT),
        Row {
            offered: b"\0\xff\r\n\x80",
            read: b"\0\xff\r\n\x80",
            ..row("ByteArrayCodec", "raw", "")
        },
        Row { read: b"order \"42\"", ..row("JsonJacksonCodec", "json", QUOTED) },
        object("JsonJacksonCodec", TYPED),
        object("TypedJsonJacksonCodec Actions$Order", PLAIN),
    ];
    // The default since then.
    if since(version, "3.19.0") {
        let kryo = |text| row("Kryo5Codec", "kryo5", text);
        rows.extend([kryo(TEXT), kryo("")]);
        rows.extend(LONG_TEXT.map(kryo));
    }
    rows
}

pub fn read(version: &'static str) -> String {
    let rows = rows(version);
    let names: Vec<String> = (0..rows.len()).map(|n| format!("codec {n}")).collect();
    let queues: Vec<&str> = names.iter().map(String::as_str).collect();
    let scene = Scene::new(version, &queues);
    let jvm = scene.warm_jvm();
    for (row, queue) in rows.iter().zip(queues) {
        let mut redisson = jvm.client();
        done(&mut redisson, &format!("CODEC {}", row.codec));
        check(row, queue, &mut redisson, &mut scene.broker());
    }
    format!("{} payloads", rows.len())
}

fn check(row: &Row, queue: &str, redisson: &mut Client, broker: &mut Client) {
    let what = format!("{} of {:?}", row.codec, row.offered.escape_ascii());
    let (q, encoding) = (queue.as_bytes(), row.encoding.as_bytes());
    let offer = [b"DQ.OFFER", q, b"0", row.offered, b"AS", encoding];
    let id = broker.call(&offer).unwrap();
    assert!(matches!(id, Value::Bulk(_)), "{what}: {id:?}");
    let taken = ask(redisson, &["TAKE", queue]);
    assert_eq!(taken.elements()[0].bytes(), row.read, "{what}");
    if !row.given_back {
        return;
    }
    let offer = [b"OFFER", q, b"3600000", row.read];
    assert_eq!(redisson.call(&offer).unwrap().text(), "OK", "{what}");
    let contains = [b"DQ.CONTAINS", q, b"AS", encoding, row.offered];
    let found = broker.call(&contains).unwrap();
    assert_eq!(found, Value::Array(vec![Value::Int(1)]), "{what}");
    let shown = call(broker, &["DQ.PEEK", queue, "DECODE"]);
    let payload = field_of(&shown.elements()[0], "payload").unwrap();
    assert_eq!(payload.bytes(), row.read, "{what}");
    let contains = [b"CONTAINS", q, row.read];
    let remove = [b"DQ.REMOVE", q, row.offered, b"AS", encoding];
    assert_eq!(redisson.call(&contains).unwrap(), Value::Int(1), "{what}");
    assert_eq!(broker.call(&remove).unwrap(), Value::Int(1), "{what}");
    assert_eq!(redisson.call(&contains).unwrap(), Value::Int(0), "{what}");
}
