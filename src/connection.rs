//! One client: bytes -> requests -> replies in order -> bytes. Knows no queue and no Redis.
//!
//! ```text
//! read buffer -> request -> command -> | ready, encoded        | -> write buffer
//!                                      | ticket of a batch     |
//!                                      | a call (one at most)  |
//! ```
//!
//! Replies to come stand in a bounded FIFO, each in the protocol it was asked in. Offers and local
//! commands go on past each other; a call to the store starts when everything before it is
//! answered, and nothing after it is read until it is. Everything is bounded: at a bound the
//! connection stops reading, and TCP pushes back. Every request that was read gets its reply, also
//! while the broker stops.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::LocalBoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch::Ticket;
use crate::broker::Broker;
use crate::clients::Registered;
use crate::command::{self, Counts, Form, Place, Rules, Run, Session};
use crate::memory::Share;
use crate::resp::{Protocol, Reply, RequestLimits, RequestReader};

/// Replies to come; then no more requests are read.
const PENDING_MAX: usize = 16 * 1024;
/// Bytes that one read takes at most, and what an idle connection's first read makes room for.
const READ_MAX: usize = 64 * 1024;
const READ_MIN: usize = 4 * 1024;
/// Encoded replies beyond which no more requests are read until the client takes some.
const OUTPUT_HIGH: usize = 1024 * 1024;
/// The stall timeout of those who hold much while the memory for buffers is used up.
const STALL_WHEN_SCARCE: Duration = Duration::from_secs(1);
/// Buffers that grew beyond this are given back when they are empty.
const KEPT_MAX: usize = 128 * 1024;
/// An unfinished request of this size must make progress: smaller ones harm nobody by waiting.
const PARTIAL_LARGE: usize = 64 * 1024;

/// A client that sends nothing for so long at the end can be left without waiting for it.
const SILENT: Duration = Duration::from_millis(20);
/// One that does is given so long to take its last replies.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A reply to come.
enum Pending {
    Encoded(Bytes),
    Offered {
        ticket: Ticket,
        form: Form,
        protocol: Protocol,
        place: Place,
    },
}

/// A call to the store, and how its reply is to be written and counted.
type Call = (LocalBoxFuture<'static, Reply>, Protocol, Place);

/// Why no more requests are taken from the read buffer for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It holds no whole request.
    Bytes,
    /// A call to the store, or the replies before it.
    Replies,
    /// The open batch is full.
    Room,
    /// The connection closes when what was asked is answered.
    End,
}

/// From the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub request: RequestLimits,
    pub output_bytes_max: usize,
    pub stall_timeout: Duration,
    /// None: a client may be idle for ever.
    pub idle_timeout: Option<Duration>,
}

/// Bytes that come or go, and how many they have been at most.
#[derive(Default)]
struct Buffer {
    bytes: BytesMut,
    most: usize,
}

impl Buffer {
    /// Gives back the memory that a large request or reply took.
    fn let_go(&mut self) {
        self.most = self.most.max(self.bytes.len());
        if self.bytes.is_empty() && self.most > KEPT_MAX {
            *self = Self::default();
        }
    }
}

pub struct Connection {
    broker: Rc<Broker>,
    counts: Rc<Counts>,
    limits: Limits,
    share: Share,
    registered: Registered,
    session: Session,
    reader: RequestReader,
    input: Buffer,
    pending: VecDeque<Pending>,
    /// Of the encoded replies among them.
    pending_bytes: usize,
    call: Option<Call>,
    output: Buffer,
    waits: Waits,
    /// When bytes last moved, in or out.
    progress: Instant,
    /// When memory for buffers became scarce while this connection held much of it.
    pressed: Instant,
}

impl Connection {
    pub fn new(
        broker: Rc<Broker>,
        counts: Rc<Counts>,
        rules: Rc<Rules>,
        limits: Limits,
        share: Share,
        registered: Registered,
    ) -> Self {
        let session = Session::new(registered.client(), rules);
        let mut connection = Self {
            broker,
            counts,
            limits,
            share,
            registered,
            reader: RequestReader::new(limits.request),
            session,
            input: Buffer::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            call: None,
            output: Buffer::default(),
            waits: Waits::Bytes,
            progress: Instant::now(),
            pressed: Instant::now(),
        };
        connection.set_request_limits();
        connection
    }

    /// Serves the client until it leaves, is cut off, or `stop` is cancelled and everything read is
    /// answered.
    pub async fn run<S: AsyncRead + AsyncWrite>(mut self, stream: S, stop: CancellationToken) {
        let (mut from, mut to) = tokio::io::split(stream);
        let client = self.registered.client();
        let mut stopping = false;
        loop {
            self.input.let_go();
            let all_read = self.read_requests();
            self.input.let_go();
            self.broker.offers().flush();
            self.collect();
            self.output.let_go();
            if stopping && all_read {
                self.waits = Waits::End;
            }
            let done = self.pending.is_empty() && self.call.is_none();
            if self.waits == Waits::End && done && self.output.bytes.is_empty() {
                break;
            }
            if self.output.bytes.len() > self.limits.output_bytes_max + OUTPUT_HIGH {
                tracing::debug!(
                    client = client.addr,
                    "cut off: it does not read its replies"
                );
                return;
            }
            self.share
                .set(self.input.bytes.len() + self.output.bytes.len() + self.pending_bytes);
            let wants = self.waits == Waits::Bytes && self.takes_more();
            let reads = wants && self.share.may_grow();
            if reads {
                let room = self.reader.needs().clamp(READ_MIN, READ_MAX);
                self.input.bytes.reserve(if self.input.bytes.is_empty() {
                    READ_MIN
                } else {
                    room
                });
            }
            let deadline = self.deadline(reads);
            let offered = match self.pending.front() {
                Some(Pending::Offered { ticket, .. }) => Some(ticket),
                Some(Pending::Encoded(_)) | None => None,
            };
            let call = self.call.as_mut().filter(|_| self.pending.is_empty());
            let room = self.waits == Waits::Room;
            let writes = !self.output.bytes.is_empty();
            // Each arm is safe to cancel: what was read or written is in the buffers, and calls
            // and tickets go on where they were.
            tokio::select! {
                biased;
                // Who ends itself is answered first.
                () = client.killed(), if self.waits != Waits::End => return,
                reply = answered(call) => self.called(&reply),
                () = stored(offered) => self.progress = Instant::now(),
                () = self.broker.offers().room(), if room => self.waits = Waits::Bytes,
                wrote = to.write_buf(&mut self.output.bytes), if writes => match wrote {
                    Ok(bytes) if bytes > 0 => self.progress = Instant::now(),
                    _ => return,
                },
                // Before the reads: a client that never pauses must not hold up the stop.
                () = stop.cancelled(), if !stopping => stopping = true,
                read = from.read_buf(&mut self.input.bytes), if reads => match read {
                    Ok(bytes) if bytes > 0 => {
                        self.progress = Instant::now();
                        client.active.set(self.progress.into_std());
                    }
                    // Nothing more will be asked; what was is still answered, as to `nc`.
                    Ok(_) => self.waits = Waits::End,
                    Err(_) => return,
                },
                () = self.share.freed(), if wants && !reads => self.progress = Instant::now(),
                () = self.share.filled(), if self.share.is_large() => {
                    self.pressed = Instant::now();
                }
                () = until(deadline) => {
                    tracing::debug!(client = client.addr, "cut off: no byte moved for too long");
                    return;
                }
            }
        }
        // The last replies must arrive before the end does.
        let _ = to.shutdown().await;
        Box::pin(read_away(from)).await;
    }

    fn takes_more(&self) -> bool {
        self.pending.len() < PENDING_MAX
            && self.output.bytes.len() + self.pending_bytes < OUTPUT_HIGH
    }

    /// Runs every whole request of the read buffer, until something has to be waited for; true if
    /// none is left.
    fn read_requests(&mut self) -> bool {
        if self.waits == Waits::Replies && self.pending.is_empty() && self.call.is_none() {
            self.waits = Waits::Bytes;
        }
        while self.waits == Waits::Bytes && self.takes_more() {
            if !self.broker.offers().has_room() {
                self.waits = Waits::Room;
                return false;
            }
            match self.reader.next(&mut self.input.bytes) {
                Ok(Some(())) => self.run_request(),
                Ok(None) => return true,
                Err(error) => {
                    let reply = Reply::Error(format!("ERR Protocol error: {error}"));
                    self.ready(&reply);
                    self.waits = Waits::End;
                }
            }
        }
        false
    }

    fn run_request(&mut self) {
        let request = self.reader.request(&self.input.bytes);
        let (place, run) = command::run(request, &mut self.session, &self.broker);
        self.broker.commands.set(self.broker.commands.get() + 1);
        let protocol = self.session.protocol;
        match run {
            Run::Ready(reply) => {
                self.counts.count(place, &reply);
                self.ready(&reply);
                self.set_request_limits();
            }
            Run::Offered(ticket, form) => {
                self.pending.push_back(Pending::Offered {
                    ticket,
                    form,
                    protocol,
                    place,
                });
            }
            Run::Later(call) => {
                self.call = Some((call, protocol, place));
                self.waits = Waits::Replies;
            }
            Run::Close(reply) => {
                self.counts.count(place, &reply);
                self.ready(&reply);
                self.waits = Waits::End;
            }
        }
        self.reader.consume(&mut self.input.bytes);
    }

    /// A client that has not said who it is may send little.
    fn set_request_limits(&mut self) {
        self.reader.set_limits(if self.session.authenticated {
            self.limits.request
        } else {
            RequestLimits::UNAUTHENTICATED
        });
    }

    /// A reply that is there: written if nothing is before it, else kept in line.
    fn ready(&mut self, reply: &Reply) {
        let protocol = self.session.protocol;
        if self.pending.is_empty() {
            reply.encode(protocol, &mut self.output.bytes);
        } else {
            let mut encoded = BytesMut::new();
            reply.encode(protocol, &mut encoded);
            self.pending_bytes += encoded.len();
            self.pending.push_back(Pending::Encoded(encoded.freeze()));
        }
    }

    /// Writes the replies at the front of the line that are there by now.
    fn collect(&mut self) {
        while let Some(front) = self.pending.front() {
            match front {
                Pending::Encoded(bytes) => {
                    self.pending_bytes -= bytes.len();
                    self.output.bytes.put_slice(bytes);
                }
                Pending::Offered {
                    ticket,
                    form,
                    protocol,
                    place,
                } => {
                    let Some(code) =
                        command::answer(ticket, *form, *protocol, &mut self.output.bytes)
                    else {
                        return;
                    };
                    self.counts.offered(*place, code);
                }
            }
            self.pending.pop_front();
        }
    }

    /// When the connection is cut off if no byte moves: a client that does not take its replies, or
    /// leaves a large request unfinished, or is idle longer than it may be. While it waits for us
    /// it is none of these. Sooner, if others need the memory that it holds.
    fn deadline(&self, reads: bool) -> Option<Instant> {
        let owes = !self.pending.is_empty() || self.call.is_some();
        if self.share.presses() && (reads || !self.output.bytes.is_empty()) {
            let scarce = self.progress.max(self.pressed) + STALL_WHEN_SCARCE;
            return Some(scarce.min(self.progress + self.limits.stall_timeout));
        }
        if !self.output.bytes.is_empty() || (reads && self.input.bytes.len() >= PARTIAL_LARGE) {
            return Some(self.progress + self.limits.stall_timeout);
        }
        let idle = self.limits.idle_timeout.filter(|_| !owes)?;
        Some(self.progress + idle)
    }

    fn called(&mut self, reply: &Reply) {
        self.progress = Instant::now();
        if let Some((_, protocol, place)) = self.call.take() {
            self.counts.count(place, reply);
            reply.encode(protocol, &mut self.output.bytes);
        }
    }
}

/// To close while the client's requests come in would reset the connection, and what it has not
/// received by then would be lost: so they are read away until it has seen the end too.
async fn read_away(mut from: impl AsyncRead + Unpin) {
    let (mut wait, mut unread) = (SILENT, [0; READ_MIN]);
    let deadline = Instant::now() + LINGER_MAX;
    while let Ok(Ok(1..)) = tokio::time::timeout(wait, from.read(&mut unread)).await {
        wait = deadline.saturating_duration_since(Instant::now());
    }
}

/// The reply of the call under way; never, if there is none.
async fn answered(call: Option<&mut Call>) -> Reply {
    match call {
        Some((call, ..)) => call.await,
        None => std::future::pending().await,
    }
}

/// Waits for the outcome of an offer; for ever, if there is none.
async fn stored(ticket: Option<&Ticket>) {
    match ticket {
        Some(ticket) => ticket.done().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
