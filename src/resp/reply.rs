//! A reply, and its bytes in both protocol versions.
//!
//! Knows no command. Invariant: an error or a simple string never contains CR or LF, whatever text
//! of a client it quotes.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::{BufMut, Bytes, BytesMut};
use redis_protocol::{resp2, resp3};

use super::Protocol;

/// A reply, encoded for both protocols beforehand.
#[derive(Debug, PartialEq)]
pub struct Encoded([BytesMut; 2]);

impl Encoded {
    pub fn new(reply: &Reply) -> Arc<Self> {
        Arc::new(Self([Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut bytes = BytesMut::new();
            reply.encode(protocol, &mut bytes);
            bytes
        })))
    }

    /// The null of a reply that else is an array, which the encoder of RESP2 does not have.
    pub fn null_array() -> Arc<Self> {
        static NULL: LazyLock<Arc<Encoded>> =
            LazyLock::new(|| Arc::new(Encoded([&b"*-1\r\n"[..], b"_\r\n"].map(BytesMut::from))));
        Arc::clone(&NULL)
    }

    fn bytes(&self, protocol: Protocol) -> &[u8] {
        let Self([resp2, resp3]) = self;
        match protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Ok,
    Simple(Cow<'static, str>),
    /// Its first word is a code, and the rest is for people.
    Error(String),
    Integer(i64),
    /// A bulk string in RESP2.
    Double(f64),
    Bulk(Bytes),
    Null,
    Array(Vec<Reply>),
    /// A flat array in RESP2. All its keys differ.
    Map(Vec<(Reply, Reply)>),
    /// Writes no bytes: the client wants no reply.
    Nothing,
    /// A large reply that is always the same.
    Encoded(Arc<Encoded>),
}

impl Reply {
    /// A count; one beyond the integers of the protocol becomes the largest of them.
    pub fn count(n: u64) -> Self {
        Self::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// A map with fixed keys.
    pub fn map<const N: usize>(fields: [(&'static str, Reply); N]) -> Self {
        let fields = fields.into_iter();
        Self::Map(fields.map(|(key, value)| (key.into(), value)).collect())
    }

    /// Bytes of its bulk strings; those of keys do not count.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Bulk(data) => data.len(),
            Self::Array(replies) => replies.iter().map(Self::payload_bytes).sum(),
            Self::Map(fields) => fields.iter().map(|(_, value)| value.payload_bytes()).sum(),
            _ => 0,
        }
    }

    /// The number of bytes that `encode` appends.
    pub fn encoded_bytes(&self, protocol: Protocol) -> usize {
        let bulk = |length| 1 + digits(length as u64) + 2 + length + 2;
        let head = |count| 1 + digits(count as u64) + 2;
        match self {
            Self::Ok => "+OK\r\n".len(),
            Self::Simple(text) => 1 + text.len() + 2,
            Self::Error(text) => 1 + text.len() + 2,
            Self::Integer(n) => 1 + usize::from(*n < 0) + digits(n.unsigned_abs()) + 2,
            Self::Double(n) => match (double_text(*n).len(), protocol) {
                (length, Protocol::Resp2) => bulk(length),
                (length, Protocol::Resp3) => 1 + length + 2,
            },
            Self::Bulk(data) => bulk(data.len()),
            Self::Null => match protocol {
                Protocol::Resp2 => "$-1\r\n".len(),
                Protocol::Resp3 => "_\r\n".len(),
            },
            Self::Array(replies) => {
                let each = replies.iter().map(|reply| reply.encoded_bytes(protocol));
                head(replies.len()) + each.sum::<usize>()
            }
            Self::Map(fields) => {
                let times = if protocol == Protocol::Resp2 { 2 } else { 1 };
                let field = |(key, value): &(Reply, Reply)| {
                    key.encoded_bytes(protocol) + value.encoded_bytes(protocol)
                };
                head(times * fields.len()) + fields.iter().map(field).sum::<usize>()
            }
            Self::Nothing => 0,
            Self::Encoded(reply) => reply.bytes(protocol).len(),
        }
    }

    /// Appends the bytes of this reply.
    pub fn encode(&self, protocol: Protocol, out: &mut BytesMut) {
        let before = out.len();
        let written = match (self, protocol) {
            (Self::Nothing, _) => return,
            (Self::Bulk(data), _) => return encode_bulk(out, &[data]),
            (Self::Encoded(reply), _) => return out.put_slice(reply.bytes(protocol)),
            (_, Protocol::Resp2) => resp2::encode::extend_encode(out, &self.resp2(), false),
            (_, Protocol::Resp3) => {
                resp3::encode::complete::extend_encode(out, &self.resp3(), false)
            }
        };
        // The encoder sizes its room by a logarithm, which allows one digit too many for some
        // numbers of 15 digits and more; it returns the place where it ended.
        out.truncate(written.unwrap_or(before));
        debug_assert_eq!(out.len() - before, self.encoded_bytes(protocol), "{self:?}");
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
            // `Nothing` and `Encoded` are never part of another reply.
            Self::Null | Self::Nothing | Self::Encoded(_) => Frame::Null,
            Self::Array(replies) => Frame::Array(replies.iter().map(Self::resp2).collect()),
            Self::Map(fields) => Frame::Array(
                fields.iter().flat_map(|(key, value)| [key.resp2(), value.resp2()]).collect(),
            ),
        }
    }

    fn resp3(&self) -> resp3::types::BytesFrame {
        use resp3::types::BytesFrame as Frame;
        let attributes = None;
        match self {
            Self::Ok => Frame::SimpleString { data: Bytes::from_static(b"OK"), attributes },
            Self::Simple(text) => {
                Frame::SimpleString { data: one_line(text).into_owned().into(), attributes }
            }
            Self::Error(text) => {
                Frame::SimpleError { data: one_line(text).into_owned().into(), attributes }
            }
            Self::Integer(n) => Frame::Number { data: *n, attributes },
            Self::Double(n) => Frame::Double { data: *n, attributes },
            Self::Bulk(data) => Frame::BlobString { data: data.clone(), attributes },
            Self::Null | Self::Nothing | Self::Encoded(_) => Frame::Null,
            Self::Array(replies) => {
                Frame::Array { data: replies.iter().map(Self::resp3).collect(), attributes }
            }
            Self::Map(fields) => {
                let fields = fields.iter();
                let data = fields.map(|(key, value)| (key.resp3(), value.resp3())).collect();
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

/// Appends a bulk string of these parts: the reply of an offer, written a hundred thousand times a
/// second.
pub fn encode_bulk(out: &mut BytesMut, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // `$`, up to 20 digits, two line ends.
    out.reserve(length + 25);
    out.put_u8(b'$');
    out.put_slice(itoa::Buffer::new().format(length).as_bytes());
    out.put_slice(b"\r\n");
    parts.iter().for_each(|part| out.put_slice(part));
    out.put_slice(b"\r\n");
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

/// A double as Redis prints it. Rust prints `inf` and `-inf` in the same way.
fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "nan".to_owned();
    }
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
            (Reply::Error("ERR a\r\nb".into()), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::Integer(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (Reply::Double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (Reply::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (text("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::Encoded(Encoded::null_array()), "*-1\r\n", "_\r\n"),
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
                let (mut kept, reply) = (BytesMut::new(), Reply::Encoded(Encoded::new(&reply)));
                reply.encode(protocol, &mut kept);
                assert_eq!(kept, wanted.as_bytes());
                assert_eq!(kept.len(), reply.encoded_bytes(protocol));
            }
        }
    }

    /// A second encoder, written in another way.
    fn plain(reply: &Reply, protocol: Protocol) -> Vec<u8> {
        let resp3 = protocol == Protocol::Resp3;
        let all = |head: String, replies: &mut dyn Iterator<Item = &Reply>| {
            replies.fold(head.into_bytes(), |bytes, reply| [bytes, plain(reply, protocol)].concat())
        };
        match reply {
            Reply::Ok => b"+OK\r\n".to_vec(),
            Reply::Simple(text) => format!("+{text}\r\n").into_bytes(),
            Reply::Error(text) => format!("-{text}\r\n").into_bytes(),
            Reply::Integer(n) => format!(":{n}\r\n").into_bytes(),
            Reply::Double(n) => {
                let text = format!("{n}").replace("NaN", "nan");
                match resp3 {
                    true => format!(",{text}\r\n").into_bytes(),
                    false => format!("${}\r\n{text}\r\n", text.len()).into_bytes(),
                }
            }
            Reply::Bulk(data) => {
                [format!("${}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
            }
            Reply::Null if resp3 => b"_\r\n".to_vec(),
            Reply::Null => b"$-1\r\n".to_vec(),
            Reply::Array(replies) => all(format!("*{}\r\n", replies.len()), &mut replies.iter()),
            Reply::Map(fields) => {
                let head = match resp3 {
                    true => format!("%{}\r\n", fields.len()),
                    false => format!("*{}\r\n", 2 * fields.len()),
                };
                all(head, &mut fields.iter().flat_map(|(key, value)| [key, value]))
            }
            Reply::Nothing => Vec::new(),
            Reply::Encoded(reply) => reply.bytes(protocol).to_vec(),
        }
    }

    fn check_both(reply: &Reply) {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut out = BytesMut::from(&b"before"[..]);
            reply.encode(protocol, &mut out);
            let (got, wanted) = (out.get(6..).unwrap(), plain(reply, protocol));
            assert_eq!(
                got.escape_ascii().to_string(),
                wanted.escape_ascii().to_string(),
                "{reply:?} in {protocol:?}"
            );
            assert_eq!(reply.encoded_bytes(protocol), wanted.len(), "{reply:?}");
        }
    }

    /// Around each power of two and of ten, where lengths change and doubles round.
    #[test]
    fn all_lengths_of_numbers() {
        let twos = (0..64).map(|n| 1_u64 << n);
        let tens = (0..20).map(|n| 10_u64.pow(n));
        for power in twos.chain(tens).chain([u64::MAX]) {
            for off in -30..30_i64 {
                let n = power.wrapping_add_signed(off).cast_signed();
                check_both(&Reply::Integer(n));
                check_both(&Reply::Integer(n.wrapping_neg()));
                check_both(&Reply::Double(n as f64));
                check_both(&Reply::Array(vec![Reply::Integer(n), Reply::Null]));
            }
        }
        for n in [f64::NAN, f64::MIN, f64::MIN_POSITIVE, f64::EPSILON, -0.0, 5e-324] {
            check_both(&Reply::Double(n));
        }
    }

    #[test]
    fn random_replies() {
        fn random(next: &mut impl FnMut() -> u64, depth: u32) -> Reply {
            let bits = next();
            // Of all lengths, not only long ones.
            let n = (next() >> (bits >> 8 & 63)).cast_signed();
            let n = if bits & 128 == 0 { n } else { n.wrapping_neg() };
            // And just below a power of ten.
            let below = 10_i64.pow((bits >> 20) as u32 % 19) - (bits >> 30 & 15).cast_signed();
            let n = if bits & 1 << 40 == 0 { n } else { below };
            let text = "x".repeat(n.unsigned_abs() as usize % 1_100);
            let kinds = if depth == 0 { 8 } else { 10 };
            match bits % kinds {
                0 => Reply::Ok,
                1 => Reply::Simple(text.into()),
                2 => Reply::Error(text),
                3 => Reply::Double(n as f64),
                4 => Reply::Double(f64::from_bits(next())),
                5 => Reply::from(text),
                6 => Reply::Null,
                7 => Reply::Integer(n),
                8 => Reply::Array((0..bits >> 16 & 15).map(|_| random(next, depth - 1)).collect()),
                _ => {
                    let field = |key: u64| (Reply::count(key), random(next, depth - 1));
                    Reply::Map((0..bits >> 16 & 15).map(field).collect())
                }
            }
        }
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..5_000 {
            check_both(&random(&mut next, 2));
        }
    }

    #[test]
    fn bulk_lengths() {
        for length in [0, 9, 10, 99, 100, 12_345] {
            let data = vec![b'x'; length];
            let mut out = BytesMut::new();
            encode_bulk(&mut out, &[&data]);
            let wanted = format!("${length}\r\n{}\r\n", "x".repeat(length));
            assert_eq!(out, wanted.as_bytes(), "{length}");
        }
    }
}
