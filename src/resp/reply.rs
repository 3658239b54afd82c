//! A reply, and its bytes in both protocol versions.
//!
//! Knows no command. Invariant: an error or a simple string never contains CR or LF, whatever a
//! client managed to get into its text.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use redis_protocol::{resp2, resp3};

use super::Protocol;

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Ok,
    Simple(Cow<'static, str>),
    /// First word = code, the rest is for people.
    Error(String),
    Integer(i64),
    /// A bulk string in RESP2.
    Double(f64),
    Bulk(Bytes),
    Null,
    Array(Vec<Reply>),
    /// A flat array in RESP2. Keys are different from one another.
    Map(Vec<(Reply, Reply)>),
    /// No bytes at all.
    Nothing,
}

impl Reply {
    pub fn bulk(data: impl Into<Bytes>) -> Self {
        Self::Bulk(data.into())
    }

    /// A count, as everybody's clients know them.
    pub fn count(n: u64) -> Self {
        Self::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// A map whose keys are words of ours.
    pub fn map<const N: usize>(fields: [(&'static str, Reply); N]) -> Self {
        let fields = fields.into_iter();
        Self::Map(fields.map(|(key, value)| (key.into(), value)).collect())
    }

    /// Bytes of the strings in it.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Bulk(data) => data.len(),
            Self::Array(replies) => replies.iter().map(Self::payload_bytes).sum(),
            Self::Map(fields) => fields.iter().map(|(_, value)| value.payload_bytes()).sum(),
            _ => 0,
        }
    }

    /// Appends the bytes of this reply.
    pub fn encode(&self, protocol: Protocol, out: &mut BytesMut) {
        let written = match (self, protocol) {
            (Self::Nothing, _) => return,
            (Self::Bulk(data), _) => return encode_bulk(out, data),
            (_, Protocol::Resp2) => resp2::encode::extend_encode(out, &self.resp2(), false),
            (_, Protocol::Resp3) => {
                resp3::encode::complete::extend_encode(out, &self.resp3(), false)
            }
        };
        // The encoder extends the buffer by what it then writes, so it cannot lack room.
        debug_assert!(written.is_ok(), "{written:?}");
    }

    fn resp2(&self) -> resp2::types::BytesFrame {
        use resp2::types::BytesFrame as Frame;
        match self {
            Self::Ok => Frame::SimpleString(Bytes::from_static(b"OK")),
            Self::Simple(text) => Frame::SimpleString(one_line(text).into_owned().into()),
            Self::Error(text) => Frame::Error(one_line(text).into_owned().into()),
            Self::Integer(n) => Frame::Integer(*n),
            Self::Double(n) => Frame::BulkString(double_text(*n).into()),
            Self::Bulk(data) => Frame::BulkString(data.clone()),
            Self::Null | Self::Nothing => Frame::Null,
            Self::Array(replies) => Frame::Array(replies.iter().map(Self::resp2).collect()),
            Self::Map(fields) => Frame::Array(
                fields
                    .iter()
                    .flat_map(|(key, value)| [key.resp2(), value.resp2()])
                    .collect(),
            ),
        }
    }

    fn resp3(&self) -> resp3::types::BytesFrame {
        use resp3::types::BytesFrame as Frame;
        let attributes = None;
        match self {
            Self::Ok => Frame::SimpleString {
                data: Bytes::from_static(b"OK"),
                attributes,
            },
            Self::Simple(text) => Frame::SimpleString {
                data: one_line(text).into_owned().into(),
                attributes,
            },
            Self::Error(text) => Frame::SimpleError {
                data: one_line(text).into_owned().into(),
                attributes,
            },
            Self::Integer(n) => Frame::Number {
                data: *n,
                attributes,
            },
            Self::Double(n) => Frame::Double {
                data: *n,
                attributes,
            },
            Self::Bulk(data) => Frame::BlobString {
                data: data.clone(),
                attributes,
            },
            Self::Null | Self::Nothing => Frame::Null,
            Self::Array(replies) => Frame::Array {
                data: replies.iter().map(Self::resp3).collect(),
                attributes,
            },
            Self::Map(fields) => {
                let fields = fields.iter();
                let data = fields
                    .map(|(key, value)| (key.resp3(), value.resp3()))
                    .collect();
                Frame::Map { data, attributes }
            }
        }
    }
}

impl From<&'static str> for Reply {
    fn from(text: &'static str) -> Self {
        Self::Bulk(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Bulk(text.into())
    }
}

/// Appends a bulk string: what an offer answers, a hundred thousand times a second.
pub fn encode_bulk(out: &mut BytesMut, data: &[u8]) {
    // `$`, up to 20 digits, two line ends.
    out.reserve(data.len() + 25);
    out.put_u8(b'$');
    put_decimal(out, data.len());
    out.put_slice(b"\r\n");
    out.put_slice(data);
    out.put_slice(b"\r\n");
}

fn put_decimal(out: &mut BytesMut, n: usize) {
    let mut text = [0_u8; 20];
    let mut used = 0;
    let mut rest = n;
    for place in text.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        used += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.put_slice(text.get(text.len() - used..).unwrap_or_default());
}

/// As Redis prints doubles; `inf` and `-inf` are what Rust prints, too.
fn double_text(n: f64) -> String {
    n.to_string()
}

fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], " "))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols() {
        let text = |s: &'static str| Reply::from(s);
        let map = Reply::map([("b", Reply::Integer(1)), ("a", Reply::Null)]);
        let rows: Vec<(Reply, &str, &str)> = vec![
            (Reply::Ok, "+OK\r\n", "+OK\r\n"),
            (Reply::Simple("PONG".into()), "+PONG\r\n", "+PONG\r\n"),
            (
                Reply::Error("ERR a\r\nb".into()),
                "-ERR a  b\r\n",
                "-ERR a  b\r\n",
            ),
            (Reply::Integer(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (Reply::Double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (
                Reply::Double(f64::NEG_INFINITY),
                "$4\r\n-inf\r\n",
                ",-inf\r\n",
            ),
            (text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (text("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::Array(vec![]), "*0\r\n", "*0\r\n"),
            (
                Reply::Array(vec![text("x"), Reply::Array(vec![Reply::Integer(2)])]),
                "*2\r\n$1\r\nx\r\n*1\r\n:2\r\n",
                "*2\r\n$1\r\nx\r\n*1\r\n:2\r\n",
            ),
            (
                map,
                "*4\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n$-1\r\n",
                "%2\r\n$1\r\nb\r\n:1\r\n$1\r\na\r\n_\r\n",
            ),
            (Reply::Nothing, "", ""),
        ];
        for (reply, resp2, resp3) in rows {
            for (protocol, wanted) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
                let mut out = BytesMut::from(&b"before"[..]);
                reply.encode(protocol, &mut out);
                let got = std::str::from_utf8(out.get(6..).unwrap()).unwrap();
                assert_eq!(got, wanted, "{reply:?} in {protocol:?}");
            }
        }
    }

    #[test]
    fn bulk_lengths() {
        for length in [0, 9, 10, 99, 100, 12_345] {
            let data = vec![b'x'; length];
            let mut out = BytesMut::new();
            encode_bulk(&mut out, &data);
            let wanted = format!("${length}\r\n{}\r\n", "x".repeat(length));
            assert_eq!(out, wanted.as_bytes(), "{length}");
        }
    }
}
