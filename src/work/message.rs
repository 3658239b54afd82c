//! The reply of DQ.TAKE -> messages. Pure. Fields that are not known are passed over, since a later
//! broker may have more.

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

/// What a handler gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub queue: Bytes,
    pub receipt: Bytes,
    pub id: Bytes,
    pub attempt: i64,
    pub payload: Bytes,
    /// Name and value.
    pub headers: Vec<(Bytes, Bytes)>,
}

impl Message {
    /// For the log.
    pub fn id(&self) -> String {
        crate::domain::text::Cut(&self.id).to_string()
    }
}

/// All messages of a reply; none of nil. `queue` is that of a take from one queue.
///
/// # Errors
/// It is no such reply, as a sentence.
pub fn messages(reply: BytesFrame, queue: &str) -> Result<Vec<Message>, String> {
    match reply {
        BytesFrame::Null => Ok(Vec::new()),
        BytesFrame::Array { data, .. } => data.into_iter().map(|map| one(map, queue)).collect(),
        _ => Err("the broker answers a take with something else than messages".to_owned()),
    }
}

fn one(map: BytesFrame, queue: &str) -> Result<Message, String> {
    let mut message = Message {
        queue: Bytes::copy_from_slice(queue.as_bytes()),
        receipt: Bytes::new(),
        id: Bytes::new(),
        attempt: 0,
        payload: Bytes::new(),
        headers: Vec::new(),
    };
    for (name, value) in pairs(map) {
        match (name.as_ref(), value) {
            (b"attempt", BytesFrame::Number { data, .. }) => message.attempt = data,
            (b"headers", map) => {
                let text = |(name, value)| Some((name, bytes(value)?));
                message.headers = pairs(map).into_iter().filter_map(text).collect();
            }
            (name, value) => {
                let field = match name {
                    b"queue" => &mut message.queue,
                    b"receipt" => &mut message.receipt,
                    b"id" => &mut message.id,
                    b"payload" => &mut message.payload,
                    _ => continue,
                };
                *field = bytes(value).unwrap_or_default();
            }
        }
    }
    match message.receipt.is_empty() {
        true => Err("the broker gives a message without a receipt".to_owned()),
        false => Ok(message),
    }
}

/// A map, as RESP2 has it.
fn pairs(map: BytesFrame) -> Vec<(Bytes, BytesFrame)> {
    let BytesFrame::Array { data, .. } = map else { return Vec::new() };
    let mut all = data.into_iter();
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (all.next(), all.next()) {
        pairs.extend(bytes(name).map(|name| (name, value)));
    }
    pairs
}

fn bytes(frame: BytesFrame) -> Option<Bytes> {
    match frame {
        BytesFrame::BlobString { data, .. } | BytesFrame::SimpleString { data, .. } => Some(data),
        BytesFrame::Number { data, .. } => Some(data.to_string().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::peer::Reader;

    fn read(reply: &str) -> Result<Vec<Message>, String> {
        let mut reader = Reader::new(10_000);
        reader.room().extend_from_slice(reply.as_bytes());
        messages(reader.reply().unwrap().unwrap(), "q")
    }

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    #[test]
    fn replies() {
        assert_eq!(read("*-1\r\n"), Ok(vec![]));
        assert_eq!(read("*0\r\n"), Ok(vec![]));
        assert!(read("+OK\r\n").is_err());
        assert!(read("*1\r\n*0\r\n").unwrap_err().contains("receipt"));
        let words = ["receipt", "ab:1", "id", "ab", "payload", "x\r\n\0"].map(bulk).concat();
        let headers =
            format!("{}*4\r\n{}", bulk("headers"), ["a", "1", "b", "2"].map(bulk).concat());
        let more = format!("{}{}{}:2\r\n", bulk("later"), "*1\r\n:1\r\n", bulk("attempt"));
        let [message] = &read(&format!("*1\r\n*12\r\n{words}{headers}{more}")).unwrap()[..] else {
            panic!("one");
        };
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let expected = Message {
            queue: text("q"),
            receipt: text("ab:1"),
            id: text("ab"),
            attempt: 2,
            payload: text("x\r\n\0"),
            headers: vec![(text("a"), text("1")), (text("b"), text("2"))],
        };
        assert_eq!(*message, expected);
        let of_many = ["receipt", "ab:1", "queue", "r"].map(bulk).concat();
        assert_eq!(read(&format!("*1\r\n*4\r\n{of_many}")).unwrap()[0].queue, text("r"));
    }
}
