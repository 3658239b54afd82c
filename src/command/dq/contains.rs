//! `DQ.CONTAINS queue [AS encoding] payload [payload ...]`: whether messages with these payloads
//! are pending.
//!
//! Replies with an array of 0 and 1, in the order asked. The payloads are encoded as DQ.OFFER
//! encodes them. `AS` in the first place is always the option: a payload that is this word goes
//! behind `AS raw`. Errors: ERR (encoding), BADQUEUE, WRONGTYPE, UNAVAILABLE.
//! Way: pages of `lua/contains.lua`: a match that is pending all the while is found.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{Caller, Command, MANY, Run, Spec, later, show};

pub const SPEC: Spec = Spec {
    name: "DQ.CONTAINS",
    usage: "queue [AS encoding] payload [payload ...]",
    summary: "Checks which payloads are pending",
    args: 2..=MANY,
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Contains {
    queue: QueueName,
    payloads: Vec<Bytes>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let said = args.takes("AS").then(|| args.encoding()).transpose()?;
    let encoding = args.encoding_of(queue.as_bytes(), said);
    let mut payloads = Vec::new();
    while args.left() > 0 || payloads.is_empty() {
        let payload = args.value()?;
        let encoded = args.encoded(encoding, payload);
        let encoded = encoded.map_err(|error| error.of_message(payloads.len() + 1))?;
        payloads.push(Bytes::copy_from_slice(&encoded));
    }
    Ok(Command::Contains(Contains { queue, payloads }))
}

impl Contains {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, payloads } = self;
        let call = async move |broker: &Broker| broker.queue(&queue).contains(payloads).await;
        later(broker, call, |found| Reply::Array(found.into_iter().map(show::yes).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |payloads: &[&'static [u8]]| {
            let payloads = payloads.iter().map(|bytes| Bytes::from_static(bytes)).collect();
            Ok(Command::Contains(Contains { queue: queue("q"), payloads }))
        };
        check(&[
            ("DQ.CONTAINS q a ''", of(&[b"a", b""])),
            ("DQ.CONTAINS q as Kryo5 ab AS", of(&[b"\x03a\xe2", b"\x03A\xd3"])),
            ("DQ.CONTAINS q AS raw AS json", of(&[b"AS", b"json"])),
            ("DQ.CONTAINS q AS", Err("ERR syntax error: AS needs a value")),
            ("DQ.CONTAINS q AS b", Err("ERR encoding 'b' must be one of raw, string, long, json")),
            ("DQ.CONTAINS q AS raw", Err("ERR wrong number of arguments for 'dq.contains'")),
            ("DQ.CONTAINS q AS long 5 x", Err("ERR message 2: payload 'x' is not a whole number")),
        ]);
    }
}
