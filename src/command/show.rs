//! Messages, due times, pages, yes and no, as replies show them.
//!
//! A due time is an integer of Unix milliseconds wherever it can be; those of others may have
//! fractions or be huge, and are doubles then.

use std::borrow::Cow;

use bytes::Bytes;

use crate::domain::encoding;
use crate::domain::queue::{Message, Score};
use crate::resp::Reply;

/// The map of DQ.GET, DQ.PEEK and DQ.RANGE. An unreadable member has neither id nor name, and its
/// payload is the raw member. `decode`: with the payload as text where it can be read as one, and
/// one field more, which says what it was read as.
pub fn reply(message: Message, decode: bool) -> Reply {
    let (mut payload, mut encoding) = (message.payload, None);
    if decode {
        let (read_as, shown) = encoding::decode(&payload);
        encoding = Some(("encoding", read_as.word().into()));
        if let Cow::Owned(text) = shown {
            payload = Bytes::from(text);
        }
    }
    let fields = [
        ("id", message.id.map_or(Reply::Null, |id| id.to_string().into())),
        ("name", message.name.map_or(Reply::Null, Reply::Bulk)),
        ("due", due(message.score)),
        ("payload", Reply::Bulk(payload)),
        ("format", message.format.as_str().into()),
    ];
    let fields = fields.into_iter().chain(encoding);
    Reply::Map(fields.map(|(key, value)| (key.into(), value)).collect())
}

pub fn replies(messages: Vec<Message>, decode: bool) -> Reply {
    let messages = messages.into_iter();
    Reply::Array(messages.map(|message| reply(message, decode)).collect())
}

/// A page: the cursor of the next, `0` at the end, and what stands on this one.
pub fn page(next: Option<Bytes>, items: Reply) -> Reply {
    Reply::Array(vec![next.map_or("0".into(), Reply::Bulk), items])
}

/// The reason that a consumer gave, if it did.
pub fn reason(reason: Bytes) -> Reply {
    if reason.is_empty() { Reply::Null } else { Reply::Bulk(reason) }
}

/// Yes and no, as Redis says them: 1 and 0.
pub fn yes(is: bool) -> Reply {
    Reply::Integer(is.into())
}

/// A score in Unix ms: an integer where it is whole and no larger than 17 digits, else a double.
pub fn due(score: Score) -> Reply {
    score.whole_ms().map_or(Reply::Double(score.ms()), Reply::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::{Format, MessageId};

    #[test]
    fn due_times() {
        let rows = [
            ("1795228205123", Reply::Integer(1_795_228_205_123)),
            ("-5", Reply::Integer(-5)),
            ("-0", Reply::Integer(0)),
            ("1e+15", Reply::Integer(1_000_000_000_000_000)),
            ("1.5", Reply::Double(1.5)),
            ("1e+17", Reply::Double(1e17)),
            ("inf", Reply::Double(f64::INFINITY)),
            ("-inf", Reply::Double(f64::NEG_INFINITY)),
        ];
        for (score, wanted) in rows {
            assert_eq!(due(Score::parse(score.as_bytes()).unwrap()), wanted, "{score}");
        }
    }

    #[test]
    fn messages() {
        let score = Score::parse(b"5").unwrap();
        let id = MessageId { score, id: vec![0xab] };
        let message = Message {
            id: Some(id),
            name: Some(Bytes::from_static(b"n")),
            score,
            payload: Bytes::from_static(b"p"),
            format: Format::Legacy,
        };
        let unreadable =
            Message { id: None, name: None, format: Format::Unreadable, ..message.clone() };
        let map = |id: Reply, name: Reply, format: &'static str| {
            Reply::map([
                ("id", id),
                ("name", name),
                ("due", Reply::Integer(5)),
                ("payload", "p".into()),
                ("format", format.into()),
            ])
        };
        assert_eq!(reply(message.clone(), false), map("5-ab".into(), "n".into(), "legacy"));
        assert_eq!(reply(unreadable, false), map(Reply::Null, Reply::Null, "unreadable"));
        for (payload, encoding, shown) in [
            (&b"p"[..], "string", &b"p"[..]),
            (b"\x03a\xe2", "kryo5", b"ab"),
            (b"\"p\"", "json", b"p"),
            (b"\xff", "raw", b"\xff"),
        ] {
            let payload = Bytes::copy_from_slice(payload);
            let message = Message { payload, ..message.clone() };
            let Reply::Map(fields) = reply(message, true) else { panic!("no map") };
            assert_eq!(fields[3], ("payload".into(), Reply::Bulk(shown.into())));
            assert_eq!(fields[5..], [("encoding".into(), encoding.into())]);
        }
    }
}
