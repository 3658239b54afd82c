//! Replies of commands as JSON, and bytes in JSON.
//!
//! Bytes are a string where they are text, else `{"base64": ...}`; payloads are always an object,
//! `{"text": ...}` or `{"base64": ...}`, so that nobody has to guess. Text is UTF-8 without control
//! characters but tab and line ends: others would take up six times their size.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::Value;

use crate::resp::Reply;

use super::body::Body;

/// The fields that hold payloads, or members of others.
const PAYLOADS: [&[u8]; 2] = [b"payload", b"member"];

/// A response with the headers that all have.
pub fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Appends a reply.
pub fn write(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Ok => out.extend_from_slice(b"\"OK\""),
        Reply::Simple(text) => string(text, out),
        Reply::Error(text) => string(text, out),
        Reply::Integer(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
        // JSON has no infinity.
        Reply::Double(n) if n.is_finite() => out.extend_from_slice(n.to_string().as_bytes()),
        Reply::Double(n) => string(&n.to_string(), out),
        Reply::Bulk(bytes) => value(bytes, false, out),
        Reply::Null | Reply::Nothing | Reply::Encoded(_) => out.extend_from_slice(b"null"),
        Reply::Array(replies) => list(replies, write, (b'[', b']'), out),
        Reply::Map(fields) => list(fields, field, (b'{', b'}'), out),
    }
}

fn field((key, reply): &(Reply, Reply), out: &mut Vec<u8>) {
    let key = name(key, out);
    match reply {
        Reply::Bulk(bytes) if PAYLOADS.contains(&key) => value(bytes, true, out),
        // The names of headers are the user's.
        Reply::Map(headers) if key == b"headers" => list(headers, header, (b'{', b'}'), out),
        reply => write(reply, out),
    }
}

fn header((key, content): &(Reply, Reply), out: &mut Vec<u8>) {
    name(key, out);
    write(content, out);
}

/// The name of a field, and its bytes.
fn name<'a>(key: &'a Reply, out: &mut Vec<u8>) -> &'a [u8] {
    let key: &[u8] = if let Reply::Bulk(key) = key { key } else { b"" };
    string(&String::from_utf8_lossy(key), out);
    out.push(b':');
    key
}

fn list<T>(
    items: &[T],
    write: impl Fn(&T, &mut Vec<u8>),
    (open, close): (u8, u8),
    out: &mut Vec<u8>,
) {
    out.push(open);
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(close);
}

fn value(bytes: &[u8], is_payload: bool, out: &mut Vec<u8>) {
    let control = |byte: &u8| *byte < b' ' && !b"\t\r\n".contains(byte);
    let text = std::str::from_utf8(bytes).ok().filter(|_| !bytes.iter().any(control));
    match text {
        Some(text) if is_payload => {
            out.extend_from_slice(b"{\"text\":");
            string(text, out);
            out.push(b'}');
        }
        Some(text) => string(text, out),
        None => {
            out.extend_from_slice(b"{\"base64\":\"");
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    // A write into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// The bytes that a value of a request stands for: a string, or an object as replies have them.
pub fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Object(fields) => {
            let mut fields = fields.iter();
            let (Some((key, Value::String(text))), None) = (fields.next(), fields.next()) else {
                return None;
            };
            match key.as_str() {
                "text" => Some(text.as_bytes().to_vec()),
                "base64" => STANDARD.decode(text).ok(),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::json;

    fn written(reply: &Reply) -> String {
        let mut out = Vec::new();
        write(reply, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies() {
        let bulk = |bytes: &'static [u8]| Reply::Bulk(Bytes::from_static(bytes));
        let headers = vec![(bulk(b"\xff\"n"), bulk(b"\xff"))];
        let rows = [
            (Reply::Ok, r#""OK""#),
            (Reply::Null, "null"),
            (Reply::Encoded(crate::resp::Encoded::null_array()), "null"),
            (Reply::Integer(-5), "-5"),
            (Reply::Double(1.5), "1.5"),
            (Reply::Double(1e17), "100000000000000000"),
            (Reply::Double(f64::NEG_INFINITY), r#""-inf""#),
            (bulk(b"a\"b\\\n\xc3\xa9"), "\"a\\\"b\\\\\\n\u{e9}\""),
            (bulk(b"<script>"), r#""<script>""#),
            (bulk(b"\0"), r#"{"base64":"AA=="}"#),
            (bulk(b"\xff\xfe"), r#"{"base64":"//4="}"#),
            (
                Reply::map([("payload", bulk(b"p")), ("name", bulk(b"n"))]),
                r#"{"payload":{"text":"p"},"name":"n"}"#,
            ),
            (
                Reply::map([("member", bulk(b"\0")), ("name", bulk(b"\0"))]),
                r#"{"member":{"base64":"AA=="},"name":{"base64":"AA=="}}"#,
            ),
            (Reply::map([("payload", Reply::Null)]), r#"{"payload":null}"#),
            (
                Reply::map([("headers", Reply::map([("payload", bulk(b"p"))]))]),
                r#"{"headers":{"payload":"p"}}"#,
            ),
            (Reply::Map(headers), "{\"\u{fffd}\\\"n\":{\"base64\":\"/w==\"}}"),
            (Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![])]), "[1,[]]"),
        ];
        for (reply, wanted) in rows {
            assert_eq!(written(&reply), wanted, "{reply:?}");
            serde_json::from_str::<Value>(&written(&reply)).unwrap();
        }
    }

    /// What was written is read again.
    #[test]
    fn bytes_in_and_out() {
        for bytes in
            [&b""[..], b"text", b"\0\x01", b"\xff", b"\xf0\x9f\x8e\x89\t\r\n", b"{\"text\":"]
        {
            for is_payload in [true, false] {
                let mut out = Vec::new();
                value(bytes, is_payload, &mut out);
                let read = serde_json::from_slice(&out).unwrap();
                assert_eq!(super::bytes(&read), Some(bytes.to_vec()), "{}", bytes.escape_ascii());
            }
        }
        let wrong = [
            json!({}),
            json!({"text": 5}),
            json!({"base64": "A"}),
            json!({"base64": "AA"}),
            json!({"text": "a", "base64": "AA=="}),
            json!({"hex": "00"}),
            json!(5),
            json!(null),
            json!(["a"]),
        ];
        for value in wrong {
            assert_eq!(super::bytes(&value), None, "{value}");
        }
    }
}
