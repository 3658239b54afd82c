//! One client: bytes -> requests -> replies in order -> bytes. Knows no queue and no Redis.
//!
//! ```text
//! read buffer -> request -> command -> | ready, encoded        | -> write buffer
//!                                      | ticket of a batch     |
//!                                      | a call                |
//! ```
//!
//! Replies to come stand in a bounded FIFO, each in the protocol it was asked in. Offers and local
//! commands go on past each other; a call to the store starts when everything before it is
//! answered, and nothing after it is run until it is, but for [settlements](super::call) that go
//! together. Everything is bounded: at a bound the
//! connection stops reading, and TCP pushes back. So is what is done at a time, before the others
//! have their turn. Every request that was read gets its reply, also while the broker stops.
//!
//! While replies are awaited the connection reads a little ahead, so that a client that leaves is
//! noticed at once. A call that is under way then goes on without it; a command that waits for
//! something ([`Run::Parked`]) is told that it has waited long enough.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use futures_util::future::{FutureExt, LocalBoxFuture, OptionFuture, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, FirstInLine, Ticket, Unsent};
use crate::client::buffer::Buffer;
use crate::client::call::{self, Answered, Call, Calls};
use crate::client::deadline::{Progress, Waiting};
use crate::client::replies::Replies;
use crate::client::settings::Settings;
use crate::client::stream::{self, write};
use crate::client::turn::Turn;
use crate::command::session::Kept;
use crate::command::{CommandIndex, Counts, ReplyForm, Run, Session};
use crate::peers::memory::{SMALL, Share};
use crate::peers::registry::Registered;
use crate::resp::{Protocol, Reply, RequestLimits, RequestReader};

/// Replies to come; then no more requests are run.
const PENDING_MAX: usize = 16 * 1024;
/// Bytes that one read takes at most, and what an idle connection's first read makes room for.
const READ_MAX: usize = 64 * 1024;
const READ_MIN: usize = 4 * 1024;
/// Bytes that are read ahead while nothing can be run: the end of the connection is behind them.
const READ_AHEAD: usize = SMALL;
/// Encoded replies beyond which no more requests are run until the client takes some.
const OUTPUT_HIGH: usize = 1024 * 1024;
/// Offers of one connection that may wait beyond the bounds of a batch: clients that send few are
/// stored before those that send many are stored once more.
const FEW_OFFERS: usize = 16;

/// When a command does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Now,
    Later,
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

/// The settings of now; SIGHUP puts others in their place.
pub type CurrentSettings = Rc<RefCell<Rc<Settings>>>;

pub struct Connection {
    broker: Rc<Broker>,
    counts: Rc<Counts>,
    current: CurrentSettings,
    settings: Rc<Settings>,
    share: Share,
    registered: Registered,
    session: Session,
    reader: RequestReader,
    input: Buffer,
    replies: Replies,
    calls: Calls,
    output: Buffer,
    unsent: UnsentReplies,
    /// TLS may hold some of what was written.
    unflushed: bool,
    waits: Waits,
    /// Its place among those that wait for room, and what it is then.
    in_line: Option<LocalBoxFuture<'static, FirstInLine>>,
    first: FirstInLine,
    /// The client has said that nothing more will come: it has left, or listens on, as `nc` does.
    said_all: bool,
    progress: Progress,
    turn: Turn,
}

impl Connection {
    pub fn new(
        broker: Rc<Broker>,
        counts: Rc<Counts>,
        current: CurrentSettings,
        share: Share,
        registered: Registered,
    ) -> Self {
        let settings = current.borrow().clone();
        let session = Session::new(registered.client(), settings.rules.clone());
        let mut connection = Self {
            broker,
            counts,
            current,
            reader: RequestReader::new(settings.request),
            settings,
            share,
            registered,
            session,
            input: Buffer::default(),
            replies: Replies::default(),
            calls: Calls::default(),
            output: Buffer::default(),
            unsent: UnsentReplies::default(),
            unflushed: false,
            waits: Waits::Bytes,
            in_line: None,
            first: None,
            said_all: false,
            progress: Progress::new(Instant::now()),
            turn: Turn::default(),
        };
        connection.set_request_limits();
        connection
    }

    /// Serves the client until it leaves, is cut off, or `stop` is cancelled and everything read is
    /// answered; and a call of it that is under way then, to its end.
    pub async fn run<S: AsyncRead + AsyncWrite>(mut self, stream: S, stop: CancellationToken) {
        self.serve(stream, stop).await;
        self.unsent.written_to(self.output.start());
        if let Some((calls, _counted)) = self.left() {
            calls.end().await;
        }
    }

    /// What outlives a client that left: its calls, and where this still counts. All else is given
    /// back.
    fn left(self) -> Option<(Calls, impl Sized)> {
        let Self { calls, mut share, mut registered, .. } = self;
        if calls.is_empty() {
            return None;
        }
        calls.stop_waiting();
        share.set(calls.held());
        registered.leave();
        Some((calls, (share, registered)))
    }

    async fn serve<S: AsyncRead + AsyncWrite>(&mut self, stream: S, stop: CancellationToken) {
        let (mut from, mut to) = tokio::io::split(stream);
        let client = self.registered.client();
        let mut stopping = false;
        loop {
            // Also of a write that was given up while it waited for TLS.
            self.unsent.written_to(self.output.start());
            if self.waits == Waits::Replies && !self.awaits_answers() {
                self.waits = Waits::Bytes;
            }
            let goes_on = self.waits == Waits::Bytes && self.takes_more();
            // The first in line has let others go already.
            if self.turn.ends(goes_on && self.first.is_none()) {
                self.broker.turns.next().await;
            }
            self.input.shrink();
            if self.take_up_settings() == Kept::Nothing {
                tracing::info!(client = client.addr, "closed: its user is gone");
                return;
            }
            let all_read = self.read_requests();
            self.first = None;
            self.input.shrink();
            self.broker.offers().flush();
            self.replies.write(&mut self.output.bytes, &self.counts);
            self.output.shrink();
            let ends = stopping || self.said_all;
            if ends && all_read {
                self.waits = Waits::End;
            }
            if ends {
                self.calls.stop_waiting();
            }
            if self.output.bytes.len() > self.settings.output_bytes_max + OUTPUT_HIGH {
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
                self.output.shrink();
            }
            let writes = self.writes();
            if self.waits == Waits::End && !self.awaits_answers() && !writes {
                break;
            }
            self.share.set(self.held());
            let wants = self.waits == Waits::Bytes && self.takes_more();
            let more = wants && !all_read;
            let reads = wants && !more && self.share.may_grow();
            let ahead = !wants && self.reads_ahead();
            if reads || ahead {
                self.make_room();
            }
            let deadline = self.cut_off_at(reads);
            client.unanswered.set(self.replies.len() + self.calls.len());
            let stored = OptionFuture::from(self.replies.awaited().map(Ticket::done));
            let cut_off = OptionFuture::from(deadline.map(|at| sleep_until(at.into())));
            let before = !self.replies.is_empty();
            // Each arm is safe to cancel: what was read or written is in the buffers, and calls
            // and tickets go on where they were.
            tokio::select! {
                biased;
                // A client that ends its own connection is answered first.
                () = client.woken(), if self.waits != Waits::End => if client.is_killed() {
                    return;
                },
                () = self.calls.answered(), if !before => self.answered(),
                Some(()) = stored => self.progress.stored(Instant::now()),
                Some(first) = OptionFuture::from(self.in_line.as_mut()) => {
                    (self.in_line, self.first, self.waits) = (None, first, Waits::Bytes);
                }
                wrote = write(&mut to, &mut self.output, &mut self.unflushed), if writes => {
                    match wrote {
                        Ok(bytes) => self.wrote(bytes),
                        Err(_) => return,
                    }
                }
                // Before the reads: a client that never pauses must not hold up the stop.
                () = stop.cancelled(), if !stopping => stopping = true,
                read = from.read_buf(&mut self.input.bytes), if reads || ahead => match read {
                    Ok(bytes) if bytes > 0 => {
                        let now = Instant::now();
                        self.turn.read(bytes);
                        self.progress.moved(bytes, self.share.is_large(), now);
                        client.active.set(now);
                    }
                    // What was asked is still answered.
                    Ok(_) => {
                        self.said_all = true;
                        self.registered.leave();
                    }
                    Err(_) => return,
                },
                () = self.share.freed(), if wants && !more && !reads => {
                    self.progress.held_up_until(Instant::now());
                }
                () = self.share.filled(), if self.share.is_large() => {
                    self.progress.memory_is_scarce_since(Instant::now());
                }
                () = std::future::ready(()), if more => {}
                // Others may have made room meanwhile.
                Some(()) = cut_off => if self.cut_off_at(reads).is_some_and(has_passed) {
                    tracing::debug!(client = client.addr, "cut off: no byte moved for too long");
                    return;
                }
            }
        }
        Box::pin(stream::end(from, to)).await;
    }

    /// The settings of now, if there are others; says what becomes of the user.
    fn take_up_settings(&mut self) -> Kept {
        if Rc::ptr_eq(&self.current.borrow(), &self.settings) {
            return Kept::All;
        }
        let settings = self.current.borrow().clone();
        let access = &settings.rules.access;
        let mut kept = Kept::All;
        if !Rc::ptr_eq(access, &self.session.access) {
            kept = self.session.set_access(access);
            // It waits for messages that its user may not take any more, perhaps.
            if kept == Kept::User {
                self.calls.stop_waiting();
            }
        }
        // A command that was begun is read to its end by the limits that it began with.
        if !self.reader.is_partial() {
            self.session.rules = settings.rules.clone();
            self.settings = settings;
            self.set_request_limits();
        }
        kept
    }

    fn takes_more(&self) -> bool {
        let output_high = if self.share.is_scarce() { SMALL } else { OUTPUT_HIGH };
        self.replies.len() < PENDING_MAX
            && self.output.bytes.len() + self.replies.held() < output_high
    }

    fn awaits_answers(&self) -> bool {
        !self.replies.is_empty() || !self.calls.is_empty()
    }

    /// Whether it reads although nothing can be run. Of memory that is scarce it takes no more.
    fn reads_ahead(&self) -> bool {
        let small = !self.share.is_large() || !self.share.is_scarce();
        let listens = !self.said_all && self.waits != Waits::End;
        listens && small && self.input.bytes.len() < READ_AHEAD
    }

    /// What its commands and their replies hold.
    fn held(&self) -> usize {
        let queued = self.session.held();
        self.input.held() + self.output.held() + self.replies.held() + self.calls.held() + queued
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
        self.unsent.written_to(self.output.start());
        self.turn.wrote(bytes);
        self.progress.moved(bytes, self.share.is_large(), Instant::now());
    }

    /// When the connection is cut off if nothing moves until then.
    fn cut_off_at(&self, reads: bool) -> Option<Instant> {
        let waiting = Waiting {
            reads,
            writes: self.writes(),
            answers: self.awaits_answers(),
            partial_bytes: self.input.bytes.len(),
            is_in_the_way: self.share.is_in_the_way(),
        };
        self.progress.cut_off_at(waiting, &self.settings)
    }

    /// Runs every whole request of the read buffer, until something has to be waited for or others
    /// have their turn; true if none is left.
    fn read_requests(&mut self) -> bool {
        let began = Instant::now();
        while self.waits == Waits::Bytes && self.takes_more() && !self.turn.is_over() {
            match self.reader.next(&mut self.input.bytes) {
                // A call is under way.
                Ok(Some(())) if !self.goes_together() => {
                    self.waits = Waits::Replies;
                    return false;
                }
                Ok(Some(())) if self.lacks_room() => {
                    let first = self.first.take();
                    self.in_line = Some(Box::pin(self.broker.offers().clone().room(first)));
                    self.waits = Waits::Room;
                    return false;
                }
                // One offer takes as long as another: the clock is read for the rest only.
                Ok(Some(())) => {
                    if self.run_request() == Ran::Now {
                        self.turn.took(began.elapsed());
                    }
                }
                Ok(None) => {
                    self.turn.has_caught_up();
                    return true;
                }
                Err(error) => {
                    let reply = Reply::Error(format!("ERR Protocol error: {error}"));
                    self.ready(None, reply);
                    self.waits = Waits::End;
                }
            }
        }
        false
    }

    /// Whether the request may be run beside the calls that are under way.
    fn goes_together(&self) -> bool {
        let settles = || self.session.is_settlement(self.reader.request(&self.input.bytes));
        self.calls.is_empty() || (self.calls.take_more() && settles())
    }

    /// Whether the request is an offer, and has to wait for the next batch.
    fn lacks_room(&self) -> bool {
        let few = self.replies.len() < FEW_OFFERS;
        !self.broker.offers().has_room(few, &self.first)
            && self.session.is_offer(self.reader.request(&self.input.bytes))
    }

    fn run_request(&mut self) -> Ran {
        let request = self.reader.request(&self.input.bytes);
        let (index, run) = self.session.run(request, &self.broker);
        self.broker.commands.set(self.broker.commands.get() + 1);
        let ran = self.go_on(index, run);
        self.reader.consume(&mut self.input.bytes);
        ran
    }

    /// Does what a command wants, or puts it in line.
    fn go_on(&mut self, index: CommandIndex, run: Run) -> Ran {
        let protocol = self.session.caller.protocol;
        let (mut ran, mut commands) = (Ran::Later, 1);
        match run {
            Run::Ready(reply) => {
                ran = Ran::Now;
                let reply = self.bounded(reply, protocol);
                self.ready(index, reply);
                self.set_request_limits();
            }
            Run::Offered(ticket, form) => {
                if form == ReplyForm::Many {
                    ran = Ran::Now;
                }
                self.replies.offered(ticket, form, protocol, index);
            }
            Run::Executed(executed) => {
                commands += executed.commands();
                self.replies.executed(executed, protocol, index);
            }
            Run::Later(reply) => {
                let (memory, at_most) = (self.share.memory(), self.settings.reply_timeout);
                let reply = call::with_permit(reply, index, memory, at_most);
                self.begin(self.call(index, reply));
            }
            Run::Settled(line, reply) => {
                let reply = Box::pin(reply.map(|reply| (reply, None).into()));
                self.begin(Call { line: Some(line), ..self.call(index, reply) });
            }
            Run::Parked(handed, enough) => {
                let reply = Box::pin(handed.map(Answered::from));
                self.begin(Call { enough: Some(enough), ..self.call(index, reply) });
            }
            Run::Verified(then) => {
                self.begin(self.call(index, Box::pin(then.map(Answered::from))));
            }
            Run::Close(reply) => {
                self.ready(index, reply);
                self.waits = Waits::End;
            }
        }
        self.turn.ran(commands);
        ran
    }

    /// The call of the request that is read.
    fn call(&self, index: CommandIndex, reply: LocalBoxFuture<'static, Answered>) -> Call {
        Call::new(reply, self.session.caller.protocol, index, self.reader.request_bytes())
    }

    fn begin(&mut self, call: Call) {
        self.calls.begin(call);
        if !self.calls.take_more() {
            self.waits = Waits::Replies;
        }
    }

    /// A client that is not authenticated may send little.
    fn set_request_limits(&mut self) {
        self.reader.set_limits(if self.session.is_authenticated() {
            self.settings.request
        } else {
            RequestLimits::UNAUTHENTICATED
        });
    }

    /// The reply, or why it is too large to be written.
    fn bounded(&self, reply: Reply, protocol: Protocol) -> Reply {
        let (bytes, most) = (reply.encoded_bytes(protocol), self.settings.output_bytes_max);
        if bytes <= most {
            return reply;
        }
        Reply::Error(format!(
            "ERR the reply has {bytes} bytes, more than server.output_bytes_max, {most}"
        ))
    }

    /// A reply that stands behind those of the calls before it.
    fn ready(&mut self, index: CommandIndex, reply: Reply) {
        if !self.calls.is_empty() {
            return self.begin(self.call(index, Box::pin(ready((reply, None).into()))));
        }
        self.counts.count(index, &reply);
        self.replies.ready(&reply, self.session.caller.protocol, &mut self.output.bytes);
    }

    /// The first of the calls under way have their replies.
    fn answered(&mut self) {
        self.progress.held_up_until(Instant::now());
        while let Some((call, answered)) = self.calls.next_answered() {
            let Answered { reply, permit, unsent, then } = answered;
            self.share.keep(permit);
            if let Some(then) = then {
                let run = then(&mut self.session);
                self.go_on(call.index, run);
                continue;
            }
            let reply = self.bounded(reply, call.protocol);
            self.counts.count(call.index, &reply);
            // One that is too large is not sent, so its messages go back.
            if let Some(unsent) = unsent.filter(|_| !matches!(reply, Reply::Error(_))) {
                self.unsent.put(self.output.end(), unsent);
            }
            reply.encode(call.protocol, &mut self.output.bytes);
        }
    }
}

/// Replies with messages, each with the place of its first byte in all output; of those that the
/// connection leaves behind when it ends, the messages go back.
#[derive(Default)]
struct UnsentReplies(VecDeque<(u64, Unsent)>);

impl UnsentReplies {
    fn put(&mut self, first: u64, unsent: Unsent) {
        self.0.push_back((first, unsent));
    }

    /// The output begins at `start` now: a reply of which a byte was written may have been read.
    fn written_to(&mut self, start: u64) {
        while self.0.front().is_some_and(|(first, _)| *first < start) {
            if let Some((_, unsent)) = self.0.pop_front() {
                unsent.sent();
            }
        }
    }
}

fn has_passed(deadline: Instant) -> bool {
    deadline <= Instant::now()
}

#[cfg(test)]
pub(in crate::client) mod tests;
