//! `DQ.REMOVE queue payload [COUNT n] [AS encoding]`: removes pending messages by payload.
//!
//! Replies with the number removed. Takes the first matches in offer order, as Redisson's
//! `remove(o)`: one by default, all with COUNT 0. The payload is encoded as DQ.OFFER encodes it.
//! Errors: ERR (the payload's encoding), BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: pages of
//! `lua/remove_listed.lua` and `lua/remove_pending.lua`, which find and take out at once; without
//! an order list pages of `lua/first.lua`, then `lua/remove.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Effect};
use crate::domain::queue::QueueName;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::{Caller, Command, Run, Spec, later, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.REMOVE",
    usage: "queue payload [COUNT n] [AS encoding]",
    summary: "Removes pending messages by payload, in offer order",
    args: 2..=6,
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Remove {
    queue: QueueName,
    payload: Bytes,
    /// 0 = all.
    count: u64,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    // Not held to the payload limit of offers: others may have stored larger ones.
    let (queue, payload) = (args.queue()?, args.value()?);
    let (mut count, mut encoding) = (None, None);
    while let Some(option) = args.option() {
        if is(option, "COUNT") && count.is_none() {
            count = Some(args.count(0..=u64::MAX)?);
        } else if is(option, "AS") && encoding.is_none() {
            encoding = Some(args.encoding()?);
        } else {
            return Err(args.unexpected(option));
        }
    }
    let encoding = args.encoding_of(queue.as_bytes(), encoding);
    let payload = Bytes::copy_from_slice(&args.encoded(encoding, payload)?);
    Ok(Command::Remove(Remove { queue, payload, count: count.unwrap_or(1) }))
}

impl Remove {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, payload, count } = self;
        let name = queue.to_bytes();
        let call = async move |broker: &Broker| broker.queue(&queue).remove(payload, count).await;
        // To remove some is as ordinary as a cancel; to remove all may be a mistake.
        if count > 0 {
            return later(broker, call, Reply::count);
        }
        let effect = |removed: &u64| Some(Effect::of(*removed));
        logged(caller, broker, ("DQ.REMOVE COUNT 0", name), call, effect, Reply::count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |payload: &'static [u8], count| {
            let payload = Bytes::from_static(payload);
            Ok(Command::Remove(Remove { queue: queue("q"), payload, count }))
        };
        check(&[
            ("DQ.REMOVE q p", of(b"p", 1)),
            ("DQ.REMOVE q p count 0", of(b"p", 0)),
            ("DQ.REMOVE q COUNT COUNT 5000", of(b"COUNT", 5_000)),
            ("DQ.REMOVE q AS as kryo5", of(b"\x03A\xd3", 1)),
            ("DQ.REMOVE q 5 AS long COUNT 2", of(b"5", 2)),
            ("DQ.REMOVE q x AS", Err("ERR syntax error: AS needs a value")),
            ("DQ.REMOVE q p LIMIT 1", Err("ERR syntax error: unexpected argument 'LIMIT'")),
        ]);
    }
}
