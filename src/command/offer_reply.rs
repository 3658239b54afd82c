//! The replies of offers, written straight from their ticket.
//!
//! Offers are many: their message ids are put together in the write buffer, with nothing allocated
//! in between.

use bytes::{BufMut, BytesMut};

use crate::broker::{Offered, Ticket};
use crate::resp::{Protocol, Reply};

use super::counts::{Counts, code};
use super::redis::multi::Ran;
use super::{Executed, Failure, ReplyForm};

/// Writes the reply of an offer, once it is known; gives its error code, if it is an error.
pub fn answer(
    ticket: &Ticket,
    form: ReplyForm,
    protocol: Protocol,
    out: &mut BytesMut,
) -> Option<Option<String>> {
    ticket.outcome(|offered| {
        let reply = match offered {
            Offered::Failed(error) => Reply::from(Failure::from(error.clone())),
            Offered::Unmet => Reply::Null,
            Offered::Stored(messages) => {
                match form {
                    ReplyForm::One => messages.for_each(|message| put_id(out, message)),
                    ReplyForm::Many => {
                        let ids: Vec<_> = messages.collect();
                        out.put_slice(format!("*{}\r\n", ids.len()).as_bytes());
                        ids.into_iter().for_each(|message| put_id(out, message));
                    }
                    ReplyForm::Nothing => {}
                }
                return None;
            }
        };
        if form != ReplyForm::Nothing {
            reply.encode(protocol, out);
        }
        code(&reply).map(str::to_owned)
    })
}

/// The reply of an offer as a value, once it is known.
pub async fn answer_alone(ticket: &Ticket, form: ReplyForm) -> Reply {
    ticket.done().await;
    let reply = ticket.outcome(|offered| match offered {
        Offered::Failed(error) => Failure::from(error.clone()).into(),
        Offered::Unmet => Reply::Null,
        Offered::Stored(messages) => {
            let mut ids = messages.map(|(due_ms, id)| Reply::from(format!("{due_ms}-{id:016x}")));
            match form {
                ReplyForm::Many => Reply::Array(ids.collect()),
                ReplyForm::One | ReplyForm::Nothing => ids.next().unwrap_or(Reply::Null),
            }
        }
    });
    reply.unwrap_or(Reply::Null)
}

/// Writes the reply of an EXEC and counts its commands, if all are answered by now.
pub fn answer_all(
    executed: &Executed,
    protocol: Protocol,
    out: &mut BytesMut,
    counts: &Counts,
) -> bool {
    if executed.ticket().is_some_and(|ticket| !ticket.is_done()) {
        return false;
    }
    if !executed.silent {
        out.put_slice(format!("*{}\r\n", executed.commands()).as_bytes());
    }
    for (index, ran) in &executed.ran {
        match ran {
            Ran::Ready(reply) => {
                counts.count(*index, reply);
                if !executed.silent {
                    reply.encode(protocol, out);
                }
            }
            Ran::Offered(ticket, form) => {
                let form = if executed.silent { ReplyForm::Nothing } else { *form };
                let code = answer(ticket, form, protocol, out).flatten();
                counts.offered(*index, code);
            }
        }
    }
    true
}

/// A message id as a bulk string.
fn put_id(out: &mut BytesMut, (due_ms, id): (u64, u64)) {
    let (mut score, mut digits) = (itoa::Buffer::new(), [0; 16]);
    // The sizes match.
    let _ = hex::encode_to_slice(id.to_be_bytes(), &mut digits);
    crate::resp::encode_bulk(out, &[score.format(due_ms).as_bytes(), b"-", &digits]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_message_ids_are_shown() {
        for (due_ms, id, expected) in [
            (1_795_228_205_123, 0x01a2_b3c4_d5e6_f708, "$30\r\n1795228205123-01a2b3c4d5e6f708\r\n"),
            (0, 0, "$18\r\n0-0000000000000000\r\n"),
            (999_999_999_999_999, u64::MAX, "$32\r\n999999999999999-ffffffffffffffff\r\n"),
        ] {
            let mut out = BytesMut::new();
            put_id(&mut out, (due_ms, id));
            assert_eq!(out, expected.as_bytes());
        }
    }
}
