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
//! connection stops reading, and TCP pushes back. So is what is done at a time, before the others
//! have their turn. Every request that was read gets its reply, also while the broker stops.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch::Ticket;
use crate::broker::Broker;
use crate::clients::Registered;
use crate::command::{self, Counts, Form, Place, Rules, Run, Session};
use crate::memory::{Permit, SMALL, Share};
use crate::resp::{Protocol, Reply, RequestLimits, RequestReader};

/// Replies to come; then no more requests are read.
const PENDING_MAX: usize = 16 * 1024;
/// Bytes that one read takes at most, and what an idle connection's first read makes room for.
const READ_MAX: usize = 64 * 1024;
const READ_MIN: usize = 4 * 1024;
/// Bytes that one write gives at most: the copy holds up everybody.
const WRITE_MAX: usize = 256 * 1024;
/// What is done before the others have their turn: a command counts one, bytes that are read or
/// written about as much as commands that take as long.
const TURN_MAX: usize = 64;
const READ_PER_COMMAND: usize = 512;
const WRITE_PER_COMMAND: usize = 2048;
/// Encoded replies beyond which no more requests are read until the client takes some.
const OUTPUT_HIGH: usize = 1024 * 1024;
/// Those who hold what others wait for have to move so many bytes in this time.
const STALL_WHEN_SCARCE: Duration = Duration::from_secs(1);
const PROGRESS_WHEN_SCARCE: usize = 256 * 1024;
/// Offers of one connection that may wait beyond the bounds of a batch: who sends few is stored
/// before those who send many are stored once more.
const FEW_OFFERS: usize = 16;
/// Buffers that grew beyond this are given back when they are empty: what an idle connection holds
/// is in no account.
const KEPT_MAX: usize = 16 * 1024;
/// An unfinished request of this size must make progress: smaller ones harm nobody by waiting.
const PARTIAL_LARGE: usize = 64 * 1024;

/// A reply with so many bytes of payload is followed by a rest, as long as its call, but for this.
const LARGE_REPLY: usize = 64 * 1024;
const REST_MAX: Duration = Duration::from_millis(250);
const NO_PLACE: &str = "UNAVAILABLE replies that other clients have not taken yet use up \
                        limits.buffers_bytes_max; retry, or raise it";

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
struct Call {
    reply: LocalBoxFuture<'static, (Reply, Option<Permit>)>,
    protocol: Protocol,
    place: Place,
    /// What its arguments hold.
    bytes: usize,
}

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
    /// How long a large reply waits for those that others have not taken.
    pub reply_timeout: Duration,
}

/// What connections go by. SIGHUP makes another one, and each connection takes it up before it
/// reads its next request.
#[derive(Debug)]
pub struct Terms {
    pub rules: Rc<Rules>,
    pub limits: Limits,
}

/// Bytes that come or go, and how many they have been at most.
#[derive(Default)]
struct Buffer {
    bytes: BytesMut,
    most: usize,
}

impl Buffer {
    /// Drops the first bytes.
    fn advance(&mut self, count: usize) {
        self.most = self.most.max(self.bytes.len());
        self.bytes.advance(count);
    }

    /// Gives back the memory that a large request or reply took.
    fn let_go(&mut self) {
        self.most = self.most.max(self.bytes.len());
        if self.bytes.is_empty() {
            if self.most > KEPT_MAX {
                *self = Self::default();
            }
            self.most = 0;
        }
    }

    /// Memory that it takes, about: bytes at its front that went leave no room behind.
    fn held(&self) -> usize {
        self.most.max(self.bytes.len())
    }
}

pub struct Connection {
    broker: Rc<Broker>,
    counts: Rc<Counts>,
    /// The latest.
    terms: Rc<RefCell<Rc<Terms>>>,
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
    /// TLS may hold some of what was written.
    unflushed: bool,
    waits: Waits,
    /// When bytes last moved, in or out.
    progress: Instant,
    /// When many bytes had moved, and how many have since.
    much_progress: Instant,
    moved: usize,
    /// When memory for buffers became scarce while this connection held much of it.
    pressed: Instant,
    /// What was done since the others had their turn.
    turn: usize,
}

impl Connection {
    pub fn new(
        broker: Rc<Broker>,
        counts: Rc<Counts>,
        terms: Rc<RefCell<Rc<Terms>>>,
        share: Share,
        registered: Registered,
    ) -> Self {
        let now = terms.borrow().clone();
        let limits = now.limits;
        let session = Session::new(registered.client(), now.rules.clone());
        let mut connection = Self {
            broker,
            counts,
            terms,
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
            unflushed: false,
            waits: Waits::Bytes,
            progress: Instant::now(),
            much_progress: Instant::now(),
            moved: 0,
            pressed: Instant::now(),
            turn: 0,
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
            self.take_up_terms();
            let all_read = self.read_requests();
            self.input.let_go();
            self.broker.offers().flush();
            self.collect();
            self.output.let_go();
            if stopping && all_read {
                self.waits = Waits::End;
            }
            if self.output.bytes.len() > self.limits.output_bytes_max + OUTPUT_HIGH {
                tracing::debug!(
                    client = client.addr,
                    "cut off: its replies exceed server.output_bytes_max"
                );
                return;
            }
            // Nearly always the socket takes all of it now, and nothing has to be waited for.
            if self.writes()
                && let Some(wrote) =
                    write(&mut to, &mut self.output, &mut self.unflushed).now_or_never()
            {
                match wrote {
                    Ok(bytes) => self.wrote(bytes),
                    Err(_) => return,
                }
                self.output.let_go();
            }
            let done = self.pending.is_empty() && self.call.is_none();
            let writes = self.writes();
            if self.waits == Waits::End && done && !writes {
                break;
            }
            self.share.set(self.held());
            let wants = self.waits == Waits::Bytes && self.takes_more();
            let more = wants && !all_read;
            if self.turn >= TURN_MAX {
                self.turn = 0;
                self.broker.turns.next().await;
            }
            let reads = wants && !more && self.share.may_grow();
            if reads {
                self.make_room();
            }
            let deadline = self.deadline(reads);
            client
                .owed
                .set(self.pending.len() + usize::from(self.call.is_some()));
            let offered = match self.pending.front() {
                Some(Pending::Offered { ticket, .. }) => Some(ticket),
                Some(Pending::Encoded(_)) | None => None,
            };
            let call = self.call.as_mut().filter(|_| self.pending.is_empty());
            let room = self.waits == Waits::Room;
            // Each arm is safe to cancel: what was read or written is in the buffers, and calls
            // and tickets go on where they were.
            tokio::select! {
                biased;
                // Who ends itself is answered first.
                () = client.woken(), if self.waits != Waits::End => if client.is_killed() {
                    return;
                },
                (reply, place) = answered(call) => self.called(&reply, place),
                () = stored(offered) => self.progress = Instant::now(),
                () = self.broker.offers().room(), if room => self.waits = Waits::Bytes,
                wrote = write(&mut to, &mut self.output, &mut self.unflushed), if writes => {
                    match wrote {
                        Ok(bytes) => self.wrote(bytes),
                        Err(_) => return,
                    }
                }
                // Before the reads: a client that never pauses must not hold up the stop.
                () = stop.cancelled(), if !stopping => stopping = true,
                read = from.read_buf(&mut self.input.bytes), if reads => match read {
                    Ok(bytes) if bytes > 0 => {
                        self.turn += bytes / READ_PER_COMMAND;
                        self.progressed(bytes);
                        client.active.set(self.progress.into_std());
                    }
                    // Nothing more will be asked; what was is still answered, as to `nc`.
                    Ok(_) => self.waits = Waits::End,
                    Err(_) => return,
                },
                () = self.share.freed(), if wants && !more && !reads => {
                    self.progress = Instant::now();
                    self.much_progress = self.progress;
                }
                () = self.share.filled(), if self.share.is_large() => {
                    self.pressed = Instant::now();
                }
                () = std::future::ready(()), if more => {}
                // Others may have made room meanwhile.
                () = until(deadline) => if self.deadline(reads).is_some_and(has_passed) {
                    tracing::debug!(client = client.addr, "cut off: no byte moved for too long");
                    return;
                }
            }
        }
        // The last replies must arrive before the end does. With TLS the end is a message too.
        let _ = tokio::time::timeout(LINGER_MAX, to.shutdown()).await;
        Box::pin(read_away(from)).await;
    }

    fn take_up_terms(&mut self) {
        let same = Rc::ptr_eq(&self.terms.borrow().rules, &self.session.rules);
        // A command that was begun is read to its end by the limits that it began with.
        if same || self.reader.is_partial() {
            return;
        }
        let terms = self.terms.borrow().clone();
        self.limits = terms.limits;
        self.session.set_rules(terms.rules.clone());
        self.set_request_limits();
    }

    fn takes_more(&self) -> bool {
        let output_high = if self.share.is_scarce() {
            SMALL
        } else {
            OUTPUT_HIGH
        };
        self.pending.len() < PENDING_MAX
            && self.output.bytes.len() + self.pending_bytes < output_high
    }

    /// What its commands and their replies hold.
    fn held(&self) -> usize {
        let call = self.call.as_ref().map_or(0, |call| call.bytes);
        self.input.held() + self.output.held() + self.pending_bytes + call
    }

    /// For the next read: as much as has come, and not as much as was announced.
    fn make_room(&mut self) {
        let bytes = &mut self.input.bytes;
        if bytes.capacity() - bytes.len() < READ_MIN {
            let most = bytes.len().clamp(READ_MIN, READ_MAX);
            bytes.reserve(self.reader.needs().clamp(READ_MIN, most));
        }
    }

    fn writes(&self) -> bool {
        !self.output.bytes.is_empty() || self.unflushed
    }

    fn wrote(&mut self, bytes: usize) {
        self.turn += bytes / WRITE_PER_COMMAND;
        self.progressed(bytes);
    }

    fn progressed(&mut self, bytes: usize) {
        self.progress = Instant::now();
        self.moved += bytes;
        if self.moved >= PROGRESS_WHEN_SCARCE || !self.share.is_large() {
            self.moved = 0;
            self.much_progress = self.progress;
        }
    }

    /// Runs every whole request of the read buffer, until something has to be waited for or others
    /// have their turn; true if none is left.
    fn read_requests(&mut self) -> bool {
        if self.waits == Waits::Replies && self.pending.is_empty() && self.call.is_none() {
            self.waits = Waits::Bytes;
        }
        while self.waits == Waits::Bytes && self.takes_more() && self.turn < TURN_MAX {
            match self.reader.next(&mut self.input.bytes) {
                Ok(Some(())) if self.lacks_room() => {
                    self.waits = Waits::Room;
                    return false;
                }
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

    /// Whether the request is an offer, and has to wait for the next batch.
    fn lacks_room(&self) -> bool {
        let few = self.pending.len() < FEW_OFFERS;
        !self.broker.offers().has_room(few)
            && command::is_offer(self.reader.request(&self.input.bytes))
    }

    fn run_request(&mut self) {
        self.turn += 1;
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
            Run::Later(reply) => {
                self.call = Some(Call {
                    reply: self.with_place(reply, place),
                    protocol,
                    place,
                    bytes: self.reader.request_bytes(),
                });
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

    /// A call whose reply may be large waits for a place first.
    fn with_place(
        &self,
        reply: LocalBoxFuture<'static, Reply>,
        place: Place,
    ) -> LocalBoxFuture<'static, (Reply, Option<Permit>)> {
        if !command::has_large_reply(place) {
            return Box::pin(async move { (reply.await, None) });
        }
        let (memory, at_most) = (self.share.memory(), self.limits.reply_timeout);
        Box::pin(async move {
            let Some(place) = memory.place(at_most).await else {
                return (Reply::Error(NO_PLACE.into()), None);
            };
            let asked = Instant::now();
            let reply = reply.await;
            if reply.payload_bytes() >= LARGE_REPLY {
                // As after a long transfer: half of Redis's time is for others.
                tokio::time::sleep(asked.elapsed().min(REST_MAX)).await;
            }
            (reply, Some(place))
        })
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
        let writes = self.writes();
        if self.share.presses() && (reads || writes) {
            let scarce = self.much_progress.max(self.pressed) + STALL_WHEN_SCARCE;
            return Some(scarce.min(self.progress + self.limits.stall_timeout));
        }
        if writes || (reads && self.input.bytes.len() >= PARTIAL_LARGE) {
            return Some(self.progress + self.limits.stall_timeout);
        }
        let idle = self.limits.idle_timeout.filter(|_| !owes)?;
        Some(self.progress + idle)
    }

    fn called(&mut self, reply: &Reply, permit: Option<Permit>) {
        self.progress = Instant::now();
        self.much_progress = self.progress;
        self.share.keep(permit);
        if let Some(call) = self.call.take() {
            self.counts.count(call.place, reply);
            reply.encode(call.protocol, &mut self.output.bytes);
        }
    }
}

/// Writes some, and lets TLS send what it holds; says how many bytes. Safe to cancel: what was
/// taken from `output` is with the stream then, and `unflushed` says so.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    output: &mut Buffer,
    unflushed: &mut bool,
) -> std::io::Result<usize> {
    let mut written = 0;
    if !output.bytes.is_empty() {
        written = to.write(first(&output.bytes, WRITE_MAX)).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        output.advance(written);
        *unflushed = true;
    }
    to.flush().await?;
    *unflushed = false;
    Ok(written)
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
async fn answered(call: Option<&mut Call>) -> (Reply, Option<Permit>) {
    match call {
        Some(call) => (&mut call.reply).await,
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

fn first(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

fn has_passed(deadline: Instant) -> bool {
    deadline <= Instant::now()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
