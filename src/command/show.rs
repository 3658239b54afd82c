//! Messages, due times, pages, yes and no, as replies show them.
//!
//! A due time is an integer of Unix milliseconds wherever it can be; those of others may have
//! fractions or be huge, and are doubles then.

use std::borrow::Cow;

use bytes::Bytes;

use crate::broker::HeldMessage;
use crate::domain::envelope::Envelope;
use crate::domain::queue::{Message, MessageId, Score};
use crate::domain::{encoding, lease};
use crate::resp::Reply;

/// The map of DQ.GET, DQ.PEEK and DQ.RANGE. An unreadable member has neither id nor name, and its
/// payload is the raw member. `decode`: with the payload as text where it can be read as one, and
/// one field more, which says what it was read as.
pub fn reply(message: Message, decode: bool) -> Reply {
    let Message { id, name, score, payload, format, envelope } = message;
    let format = format.as_str().into();
    Reply::Map(fields(id, name, score, payload, format, &envelope, decode))
}

/// The same of one that waits for a retry: it is due when it can be taken again. It has no
/// format, but attempt and reason.
pub fn waiting(message: HeldMessage, decode: bool) -> Reply {
    let HeldMessage { id, moment, attempts, reason, payload, envelope, .. } = message;
    let id = Some(MessageId { score: Score::ZERO, id: id.to_vec() });
    let (name, payload) = (envelope.name.clone(), payload.unwrap_or_default());
    let mut fields = fields(id, name, moment, payload, Reply::Null, &envelope, decode);
    fields.push(("attempt".into(), Reply::count(attempts)));
    fields.push(("reason".into(), self::reason(reason)));
    Reply::Map(fields)
}

fn fields(
    id: Option<MessageId>,
    name: Option<Bytes>,
    score: Score,
    payload: Bytes,
    format: Reply,
    envelope: &Envelope,
    decode: bool,
) -> Vec<(Reply, Reply)> {
    let (payload, encoding) = self::payload(payload, decode);
    let fields = [
        ("id", id.map_or(Reply::Null, |id| id.to_string().into())),
        ("name", name.map_or(Reply::Null, Reply::Bulk)),
        ("due", due(score)),
        ("payload", payload),
        ("format", format),
    ];
    let fields = fields.into_iter().chain(said(envelope)).chain(encoding);
    fields.map(|(key, value)| (key.into(), value)).collect()
}

/// A payload; with `decode` as text where it can be read as one, and the field that says what it
/// was read as.
pub fn payload(payload: Bytes, decode: bool) -> (Reply, Option<(&'static str, Reply)>) {
    if !decode {
        return (Reply::Bulk(payload), None);
    }
    let (read_as, shown) = encoding::decode(&payload);
    let encoding = Some(("encoding", read_as.word().into()));
    let text = match shown {
        Cow::Owned(text) => Some(Bytes::from(text)),
        Cow::Borrowed(_) => None,
    };
    (Reply::Bulk(text.unwrap_or(payload)), encoding)
}

/// What was said of a message beside its payload, as fields of a map: those that there are.
pub fn said(envelope: &Envelope) -> impl Iterator<Item = (&'static str, Reply)> {
    let number = |key, value: Option<u64>| value.map(|value| (key, Reply::count(value)));
    headers(envelope).into_iter().chain(
        [
            number("ttl", envelope.ttl_ms),
            number("priority", envelope.priority),
            number("limit", envelope.limit),
        ]
        .into_iter()
        .flatten(),
    )
}

/// The headers as a field of a map, if there are any.
pub fn headers(envelope: &Envelope) -> Option<(&'static str, Reply)> {
    let bulk = |bytes: &Bytes| Reply::Bulk(bytes.clone());
    let each = envelope.headers.iter().map(|(name, value)| (bulk(name), bulk(value)));
    (!envelope.headers.is_empty()).then(|| ("headers", Reply::Map(each.collect())))
}

pub fn replies(messages: Vec<Message>, decode: bool) -> Reply {
    let messages = messages.into_iter();
    Reply::Array(messages.map(|message| reply(message, decode)).collect())
}

/// A page: the cursor of the next, `0` at the end, and what stands on this one.
pub fn page(next: Option<Bytes>, items: Reply) -> Reply {
    Reply::Array(vec![next.map_or("0".into(), Reply::Bulk), items])
}

/// A page of a search: the cursor of the next, how many messages it looked at, and what it found.
pub fn found(next: Option<Bytes>, looked: u64, items: Reply) -> Reply {
    Reply::Array(vec![next.map_or("0".into(), Reply::Bulk), Reply::count(looked), items])
}

/// The reason that a consumer gave, if it did.
pub fn reason(reason: Bytes) -> Reply {
    if reason.is_empty() { Reply::Null } else { Reply::Bulk(reason) }
}

/// The id of a message that is kept.
pub fn held_id(id: &[u8]) -> Reply {
    Reply::Bulk(lease::held_id(id))
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
    use crate::domain::queue::Format;

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
            envelope: Envelope::default(),
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
