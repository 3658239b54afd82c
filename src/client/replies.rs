//! The replies to come of a connection, in the order of its commands, each in the protocol that it
//! was asked in. Knows no socket.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use crate::broker::Ticket;
use crate::command::{self, CommandIndex, Counts, Executed, ReplyForm};
use crate::resp::{Protocol, Reply};

enum Pending {
    Encoded(Bytes),
    Offered { ticket: Ticket, form: ReplyForm, protocol: Protocol, index: CommandIndex },
    Executed { executed: Executed, protocol: Protocol, index: CommandIndex },
}

#[derive(Default)]
pub struct Replies {
    line: VecDeque<Pending>,
    /// Of those among them that are there.
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

    /// A reply that is there: written if nothing is before it, else kept in line.
    pub fn ready(&mut self, reply: &Reply, protocol: Protocol, out: &mut BytesMut) {
        if self.line.is_empty() {
            reply.encode(protocol, out);
        } else {
            let mut encoded = BytesMut::new();
            reply.encode(protocol, &mut encoded);
            self.bytes += encoded.len();
            self.line.push_back(Pending::Encoded(encoded.freeze()));
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

    /// What the first of them waits for.
    pub fn awaited(&self) -> Option<&Ticket> {
        match self.line.front()? {
            Pending::Offered { ticket, .. } => Some(ticket),
            Pending::Executed { executed, .. } => executed.ticket(),
            Pending::Encoded(_) => None,
        }
    }

    /// Writes and counts the first of them, as many as are there by now.
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
    }
}
