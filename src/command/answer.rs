//! The replies of offers, written straight from their ticket, and the counters of how commands were
//! answered.
//!
//! Offers are many: their message ids are put together in the write buffer, with nothing allocated
//! in between.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use crate::batch::{Ticket, Told};
use crate::metrics::{CommandMetrics, Metrics, Outcome};
use crate::resp::{Protocol, Reply};

use super::{Failure, Form, Group, Kind, Place, TABLE};

/// The name under which commands that do not exist are counted.
const UNKNOWN: &str = "unknown";
/// What a call to Redis can end with, and what alerts are about.
const TROUBLES: [&str; 3] = ["UNAVAILABLE", "UNCERTAIN", "INTERNAL"];
/// `<score>-<hex>`: at most 16 digits of a score, and 16 of the id.
const ID_MAX: usize = 40;

/// Writes the reply of an offer, if it is there by now; gives its error code, if it is one.
pub fn answer(
    ticket: &Ticket,
    form: Form,
    protocol: Protocol,
    out: &mut BytesMut,
) -> Option<Option<String>> {
    ticket.outcome(|told| {
        let reply = match told {
            Told::Failed(error) => Reply::from(Failure::from(error.clone())),
            Told::Unmet => Reply::Null,
            Told::Stored(messages) => {
                match form {
                    Form::One => messages.for_each(|message| put_id(out, message)),
                    Form::Many => {
                        let ids: Vec<_> = messages.collect();
                        out.put_slice(format!("*{}\r\n", ids.len()).as_bytes());
                        ids.into_iter().for_each(|message| put_id(out, message));
                    }
                    Form::Silent => {}
                }
                return None;
            }
        };
        if form != Form::Silent {
            reply.encode(protocol, out);
        }
        code(&reply).map(str::to_owned)
    })
}

/// A message id as a bulk string.
fn put_id(out: &mut BytesMut, (due_ms, id): (u64, u64)) {
    let mut text = [0_u8; ID_MAX];
    let mut at = ID_MAX;
    let mut put = |byte: u8| {
        at -= 1;
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
    };
    for digit in 0..16 {
        put(b"0123456789abcdef"[(id >> (4 * digit) & 15) as usize]);
    }
    put(b'-');
    let mut score = due_ms;
    loop {
        put(b'0' + (score % 10) as u8);
        score /= 10;
        if score == 0 {
            break;
        }
    }
    crate::resp::encode_bulk(out, text.get(at..).unwrap_or_default());
}

/// The first word of an error.
fn code(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Error(text) => text.split(' ').next(),
        _ => None,
    }
}

/// Counters by a command's place in the table, so that counting looks nothing up.
pub struct Counts {
    known: Vec<Arc<CommandMetrics>>,
    unknown: Arc<CommandMetrics>,
}

impl Counts {
    pub fn new(metrics: &Metrics) -> Self {
        for spec in TABLE.iter().filter(|spec| spec.group != Group::Refused) {
            let calls = spec.kind != Kind::Local;
            metrics.served(spec.name, if calls { &TROUBLES } else { &[] });
        }
        Self {
            known: TABLE
                .iter()
                .map(|spec| metrics.command_counts(spec.name))
                .collect(),
            unknown: metrics.command_counts(UNKNOWN),
        }
    }

    /// A command was answered with this.
    pub fn count(&self, place: Place, reply: &Reply) {
        self.add(place, code(reply));
    }

    /// An offer was answered, with an error of this code or well.
    pub fn offered(&self, place: Place, code: Option<String>) {
        self.add(place, code.as_deref());
    }

    fn add(&self, place: Place, code: Option<&str>) {
        let known = place.and_then(|place| self.known.get(place));
        known
            .unwrap_or(&self.unknown)
            .count(code.map_or(Outcome::Ok, Outcome::Error), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_message_ids_are_shown() {
        for (due_ms, id, expected) in [
            (
                1_795_228_205_123,
                0x01a2_b3c4_d5e6_f708,
                "$30\r\n1795228205123-01a2b3c4d5e6f708\r\n",
            ),
            (0, 0, "$18\r\n0-0000000000000000\r\n"),
            (
                999_999_999_999_999,
                u64::MAX,
                "$32\r\n999999999999999-ffffffffffffffff\r\n",
            ),
        ] {
            let mut out = BytesMut::new();
            put_id(&mut out, (due_ms, id));
            assert_eq!(out, expected.as_bytes());
        }
    }
}
