//! The replies to come of a connection, in the order of its commands, each in the protocol that it
//! was asked in. Knows no socket.

use std::collections::VecDeque;

use bytes::{BufMut, BytesMut};

use crate::broker::Ticket;
use crate::command::{self, CommandIndex, Counts, Executed, ReplyForm};
use crate::resp::{Protocol, Reply};

/// Replies that an idle connection keeps room for.
const KEPT_MAX: usize = 128;

enum Pending {
    /// The replies of commands that follow one another.
    Encoded(BytesMut),
    Offered {
        ticket: Ticket,
        form: ReplyForm,
        protocol: Protocol,
        index: CommandIndex,
    },
    Executed {
        executed: Executed,
        protocol: Protocol,
        index: CommandIndex,
    },
}

#[derive(Default)]
pub struct Replies {
    line: VecDeque<Pending>,
    /// Bytes of the replies that are ready.
    bytes: usize,
}

impl Replies {
    pub fn len(&self) -> usize {
        self.line.len()
    }

    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.bytes
    }

    /// Writes a reply that is ready if none is before it, else keeps it in line.
    pub fn ready(&mut self, reply: &Reply, protocol: Protocol, out: &mut BytesMut) {
        if self.line.is_empty() {
            return reply.encode(protocol, out);
        }
        // One entry for all that follow one another: there is no bound on their number.
        if !matches!(self.line.back(), Some(Pending::Encoded(_))) {
            self.line.push_back(Pending::Encoded(BytesMut::new()));
        }
        if let Some(Pending::Encoded(encoded)) = self.line.back_mut() {
            let before = encoded.len();
            reply.encode(protocol, encoded);
            self.bytes += encoded.len() - before;
        }
    }

    pub fn offered(
        &mut self,
        ticket: Ticket,
        form: ReplyForm,
        protocol: Protocol,
        index: CommandIndex,
    ) {
        self.line.push_back(Pending::Offered { ticket, form, protocol, index });
    }

    pub fn executed(&mut self, executed: Executed, protocol: Protocol, index: CommandIndex) {
        self.bytes += executed.ready_bytes();
        self.line.push_back(Pending::Executed { executed, protocol, index });
    }

    /// The ticket that the first of them waits for.
    pub fn awaited(&self) -> Option<&Ticket> {
        match self.line.front()? {
            Pending::Offered { ticket, .. } => Some(ticket),
            Pending::Executed { executed, .. } => executed.ticket(),
            Pending::Encoded(_) => None,
        }
    }

    /// Writes and counts the first of them, up to one that is not ready.
    pub fn write(&mut self, out: &mut BytesMut, counts: &Counts) {
        while let Some(front) = self.line.front() {
            match front {
                Pending::Encoded(bytes) => {
                    self.bytes -= bytes.len();
                    out.put_slice(bytes);
                }
                Pending::Offered { ticket, form, protocol, index } => {
                    let Some(code) = command::answer(ticket, *form, *protocol, out) else {
                        return;
                    };
                    counts.offered(*index, code);
                }
                Pending::Executed { executed, protocol, index } => {
                    if !command::answer_all(executed, *protocol, out, counts) {
                        return;
                    }
                    self.bytes -= executed.ready_bytes();
                    counts.offered(*index, None);
                }
            }
            self.line.pop_front();
        }
        if self.line.is_empty() {
            self.line.shrink_to(KEPT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::connection::tests::with_settings;
    use crate::domain::envelope::Carries;
    use crate::domain::queue::Due;

    /// The memory that is held beside the bytes of the replies is in no account.
    #[test]
    fn many_that_wait_take_little_beside_their_bytes() {
        with_settings(&[("redis.call_timeout_ms", "100")], async |broker| {
            let (mut replies, mut out) = (Replies::default(), BytesMut::new());
            let counts = Counts::new(&broker.metrics);
            let offer = |replies: &mut Replies| {
                let ticket = broker.offer(b"q", Due::In(5), b"p", Carries::Nothing);
                replies.offered(ticket, ReplyForm::Nothing, Protocol::Resp2, None);
            };
            offer(&mut replies);
            for _ in 0..1_000 {
                replies.ready(&Reply::Ok, Protocol::Resp2, &mut out);
                replies.ready(&Reply::Nothing, Protocol::Resp2, &mut out);
            }
            assert_eq!((replies.len(), replies.held(), out.len()), (2, 5_000, 0));
            (0..1_000).for_each(|_| offer(&mut replies));
            replies.ready(&Reply::Null, Protocol::Resp2, &mut out);
            broker.offers().flush();
            while let Some(ticket) = replies.awaited() {
                ticket.done().await;
                replies.write(&mut out, &counts);
            }
            assert_eq!(out, ("+OK\r\n".repeat(1_000) + "$-1\r\n").as_bytes());
            assert_eq!((replies.len(), replies.held()), (0, 0));
            assert!(replies.line.capacity() <= KEPT_MAX);
        });
    }
}
