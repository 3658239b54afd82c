//! Tables for payloads: what Redisson's codecs wrote and read, and what is refused.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Texts with the bytes that Kryo5Codec of Redisson 4.7.0 wrote for them, taken down from it.
#[test]
fn kryo5_as_redisson_writes_it() {
    // The text, how often it is repeated; the bytes before the characters, those of one repetition.
    let rows: &[(&str, usize, &str, &str)] = &[
        ("", 1, "03 81", ""),
        ("a", 1, "03 82", "61"),
        ("\0", 1, "03 82", "00"),
        ("\x7f", 1, "03 82", "7f"),
        ("ab", 1, "03", "61 e2"),
        ("abc", 1, "03", "61 62 e3"),
        ("a\x7f", 1, "03", "61 ff"),
        ("x\0y", 1, "03", "78 00 f9"),
        ("hello world", 1, "03", "68656c6c6f 20 776f726c e4"),
        (r#"{"a":1}"#, 1, "03", "7b 22 61 22 3a 31 fd"),
        ("x", 33, "03 a2", "78"),
        ("x", 62, "03 bf", "78"),
        ("x", 63, "03 c001", "78"),
        ("x", 64, "03 c101", "78"),
        ("x", 65, "03 c201", "78"),
        ("z", 8_190, "03 ff7f", "7a"),
        ("z", 8_191, "03 c08001", "7a"),
        ("z", 8_192, "03 c18001", "7a"),
        ("z", 70_000, "03 f1c508", "7a"),
        ("x", 1_048_575, "03 c0808001", "78"),
        ("é", 1, "03 82", "c3a9"),
        ("é", 30, "03 9f", "c3a9"),
        ("é", 70_000, "03 f1c508", "c3a9"),
        ("aé", 1, "03 83", "61 c3a9"),
        ("日本語", 1, "03 84", "e697a5 e69cac e8aa9e"),
        ("\u{80}", 1, "03 82", "c280"),
        ("\u{7ff}", 1, "03 82", "dfbf"),
        ("\u{800}", 1, "03 82", "e0a080"),
        ("\u{ffff}", 1, "03 82", "efbfbf"),
        ("😀", 1, "03 83", "eda0bd edb880"),
        ("a😀b", 1, "03 85", "61 eda0bd edb880 62"),
        ("😀", 40, "03 d101", "eda0bd edb880"),
        ("😀", 70_000, "03 e18b11", "eda0bd edb880"),
    ];
    for (text, times, head, chars) in rows {
        let written = [unhex(head), unhex(chars).repeat(*times)].concat();
        let text = text.repeat(*times);
        let got = Encoding::Kryo5.encode(text.as_bytes()).unwrap();
        assert!(got == written, "{head}: {}", hex(&got[..got.len().min(40)]));
        assert!(kryo5::decode(&written).as_ref() == Some(&text), "{head}");
        assert_eq!(decode(&written).0, Encoding::Kryo5);
    }
    // The last of those that are written without a length.
    let bare = [&[3][..], &[b'x'; 31], &[b'x' | 0x80]].concat();
    assert_eq!(kryo5::encode(&"x".repeat(32)), bare);
    assert_eq!(kryo5::decode(&bare), Some("x".repeat(32)));
}

/// Characters of all lengths come back, alone and beside others.
#[test]
fn kryo5_both_ways() {
    for c in ('\0'..=char::MAX).step_by(31) {
        for text in [c.to_string(), format!("{c}😀"), format!("ab{c}")] {
            assert_eq!(kryo5::decode(&kryo5::encode(&text)), Some(text));
        }
    }
}

/// What is not one text of Kryo's, to its last byte, is not read as one.
#[test]
fn kryo5_refuses() {
    let rows = [
        ("", "nothing"),
        ("03", "no text"),
        ("03 80", "null"),
        ("02 02", "an Integer"),
        ("61 62 e3", "no class"),
        ("03 61 62 63", "no end"),
        ("03 61 e2 63", "bytes behind the end"),
        ("03 61 e2 e3", "two ends"),
        ("03 81 00", "bytes behind the empty text"),
        ("03 82", "no character"),
        ("03 84 61 62", "a character is missing"),
        ("03 84 61 62 63 64", "a character too many"),
        ("03 82 c3", "half a character"),
        ("03 82 c3 41", "a character that does not go on"),
        ("03 82 80", "a character that does not begin"),
        ("03 83 f0 9f 98 80", "four bytes of UTF-8"),
        ("03 82 ed a0 bd", "half a pair of surrogates"),
        ("03 ff ff ff ff ff ff", "a length without end"),
        ("03 ff ff ff ff 7f", "more than there is"),
        ("01 00 5b c2 04 01 02 03", "an array of bytes"),
    ];
    for (bytes, why) in rows {
        assert_eq!(kryo5::decode(&unhex(bytes)), None, "{why}");
    }
    // Kryo reads a short text with a length too.
    assert_eq!(kryo5::decode(&unhex("03 84 61 62 63")), Some("abc".into()));
}

/// (encoding, payload, the rule that it breaks; `""`: stored as it is)
#[test]
fn checked() {
    use Encoding::{Json, Kryo5, Long, Raw, String};
    let (deep, deeper) = ("[".repeat(1_000) + &"]".repeat(1_000), "[".repeat(1 << 20));
    let too_deep = "[".repeat(1_001) + &"]".repeat(1_001);
    let brackets = format!("[\"{}\", \"\\\"{}\"]", "[".repeat(2_000), "{".repeat(2_000));
    let rows: &[(Encoding, &[u8], &str)] = &[
        (Raw, b"", ""),
        (Raw, b"\0\xff", ""),
        (String, b"", ""),
        (String, "äöü \0 😀".as_bytes(), ""),
        (String, b"ab\xffcd", "is not UTF-8: byte 2 is"),
        (String, b"\xed\xa0\xbd\xed\xb8\x80", "is not UTF-8: byte 0 is"),
        (Kryo5, b"ab\xc3", "is not UTF-8: byte 2 is"),
        (Long, b"0", ""),
        (Long, b"-5", ""),
        (Long, b"+5", ""),
        (Long, b"007", ""),
        (Long, b"9223372036854775807", ""),
        (Long, b"-9223372036854775808", ""),
        (Long, b"9223372036854775808", "is not a whole number from"),
        (Long, b"", "is not a whole number from -9223372036854775808 to 9223372036854775807"),
        (Long, b"1.5", "is not a whole number from"),
        (Long, b" 1", "is not a whole number from"),
        (Long, b"1e3", "is not a whole number from"),
        (Long, b"\xff", "is not a whole number from"),
        (Json, b"{}", ""),
        (Json, b" [1, -2.5e-3, true, null, \"\\u00e9\\n\"] \r\n\t", ""),
        (Json, "{\"ä\": {\"\": []}}".as_bytes(), ""),
        (Json, b"1e999", ""),
        (Json, b"\"\\ud800\"", ""),
        (Json, b"", "is not JSON: EOF while parsing a value at line 1 column 0"),
        (Json, b"hello", "is not JSON: expected value at line 1 column 1"),
        (Json, b"{\"a\":", "is not JSON: EOF while parsing a value at line 1 column 5"),
        (Json, b"{'a':1}", "is not JSON: key must be a string at line 1 column 2"),
        (Json, b"[1,]", "is not JSON: expected value at line 1 column 4"),
        (Json, b"[1] 2", "is not JSON: trailing characters at line 1 column 5"),
        (Json, b"01", "is not JSON: invalid number"),
        (Json, b".5", "is not JSON: expected value"),
        (Json, b"NaN", "is not JSON: expected value"),
        (Json, b"\"a\nb\"", "is not JSON: control character"),
        (Json, b"\xef\xbb\xbf1", "is not JSON: expected value"),
        (Json, b"\"\xff\"", "is not UTF-8: byte 1 is"),
        (Json, brackets.as_bytes(), ""),
        (Json, deep.as_bytes(), ""),
        (Json, too_deep.as_bytes(), "is JSON nested deeper than 1000"),
        (Json, deeper.as_bytes(), "is not JSON: EOF while parsing a list"),
    ];
    for (encoding, payload, rule) in rows {
        let shown = payload.get(..40).unwrap_or(payload).escape_ascii();
        match encoding.encode(payload) {
            Ok(stored) => assert!(rule.is_empty() && stored == *payload, "{encoding:?} {shown}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!rule.is_empty() && error.starts_with(rule), "{shown}: {error}");
            }
        }
    }
}

#[test]
fn shown_to_people() {
    let rows: &[(&[u8], Encoding, &[u8])] = &[
        (b"", Encoding::String, b""),
        (b"hello", Encoding::String, b"hello"),
        (b"42", Encoding::String, b"42"),
        (b"\x03ab\xe3", Encoding::Kryo5, b"abc"),
        (b"\x03\x82\xc3\xa9", Encoding::Kryo5, "é".as_bytes()),
        (b"\x03abc", Encoding::String, b"\x03abc"),
        (b"\x02\xd8\x04", Encoding::Raw, b"\x02\xd8\x04"),
        (b"\"a\\\"b\\u00e9\\n\"", Encoding::Json, "a\"bé\n".as_bytes()),
        (b" \"a\" ", Encoding::Json, b"a"),
        (b"{\"a\": [1]}", Encoding::Json, b"{\"a\": [1]}"),
        (b"[1]", Encoding::Json, b"[1]"),
        (b"[1", Encoding::String, b"[1"),
        (b"\"a", Encoding::String, b"\"a"),
        // A JSON string that no text can hold.
        (b"\"\\ud800\"", Encoding::String, b"\"\\ud800\""),
        (b"\xff\0", Encoding::Raw, b"\xff\0"),
    ];
    for (payload, encoding, shown) in rows {
        let got = decode(payload);
        assert_eq!((got.0, &got.1[..]), (*encoding, *shown), "{}", payload.escape_ascii());
    }
}

#[test]
fn words() {
    for (word, encoding) in WORDS {
        assert_eq!(Encoding::parse(word.to_uppercase().as_bytes()), Some(encoding));
        assert_eq!(encoding.word(), word);
    }
    assert_eq!(Encoding::parse(b"kryo"), None);
}
