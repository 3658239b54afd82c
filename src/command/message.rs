//! A stored message, and a due time, as replies show them.
//!
//! A due time is an integer of Unix milliseconds wherever it can be; those of others may have
//! fractions or be huge, and are doubles then.

use crate::queue::Message;
use crate::resp::Reply;

/// Integers beyond this are not exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The map of DQ.GET, DQ.PEEK and DQ.RANGE. An unreadable member has neither id nor name, and its
/// payload is the raw member.
pub fn reply(message: Message) -> Reply {
    Reply::map([
        (
            "id",
            message.id.map_or(Reply::Null, |id| id.to_string().into()),
        ),
        ("name", message.name.map_or(Reply::Null, Reply::Bulk)),
        ("due", due(&message.score)),
        ("payload", Reply::Bulk(message.payload)),
        ("format", message.format.as_str().into()),
    ])
}

pub fn replies(messages: Vec<Message>) -> Reply {
    Reply::Array(messages.into_iter().map(reply).collect())
}

/// A score as Redis prints it.
pub fn due(score: &str) -> Reply {
    if let Ok(ms) = score.parse::<i64>() {
        return Reply::Integer(ms);
    }
    match score.parse::<f64>() {
        // `as` is exact here: whole, and within what a double and an i64 both hold.
        Ok(ms) if ms.fract() == 0.0 && ms.abs() < EXACT => Reply::Integer(ms as i64),
        Ok(ms) => Reply::Double(ms),
        Err(_) => score.to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::queue::{Format, MessageId};

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
            assert_eq!(due(score), wanted, "{score}");
        }
    }

    #[test]
    fn messages() {
        let id = MessageId {
            score: "5".into(),
            id: vec![0xab],
        };
        let message = Message {
            id: Some(id),
            name: Some(Bytes::from_static(b"n")),
            score: "5".into(),
            payload: Bytes::from_static(b"p"),
            format: Format::Legacy,
        };
        let unreadable = Message {
            id: None,
            name: None,
            format: Format::Unreadable,
            ..message.clone()
        };
        let map = |id: Reply, name: Reply, format: &'static str| {
            Reply::map([
                ("id", id),
                ("name", name),
                ("due", Reply::Integer(5)),
                ("payload", "p".into()),
                ("format", format.into()),
            ])
        };
        assert_eq!(reply(message), map("5-ab".into(), "n".into(), "legacy"));
        assert_eq!(
            reply(unreadable),
            map(Reply::Null, Reply::Null, "unreadable")
        );
    }
}
